"""A request that waits because every engine that could serve it has as many as it may have."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from breakeven.admission import Admission
from breakeven.body import Viewed
from breakeven.downstream import Responder
from breakeven.errors import ApiError, queue_full, queue_timeout, shutting_down
from breakeven.record import RequestRecord, Waited
from breakeven_policies.decision import Route


class HasRecord(Protocol):
    """What is waiting: one request of one client."""

    @property
    def record(self) -> RequestRecord:
        """What is remembered of it."""


Order_contra = TypeVar("Order_contra", bound=HasRecord, contravariant=True)


class House(Protocol[Order_contra]):
    """Who decides and answers."""

    line: Admission

    def decide(self, viewed: Viewed, visit: Order_contra) -> Route | None:
        """Where it goes; None: nowhere at this moment, but it may wait. ApiError: nowhere."""

    def refuse(self, visit: Order_contra, error: ApiError) -> None:
        """Answer with an error of the router's own."""

    def abandon(self, visit: Order_contra) -> None:
        """The client left."""

    def give_up(self, visit: Order_contra, responder: Responder) -> None:
        """Serving it ended in a fault of the router, at some moment at or after which `responder` was in charge."""


class Queued:
    """The `Guest` and `Responder` of one request; `go` sends it on its way once there is a route."""

    def __init__(
        self,
        house: House[Order_contra],
        visit: Order_contra,
        viewed: Viewed,
        go: Callable[[Route], None],
        now: Callable[[], float],
    ) -> None:
        self._house = house
        self._visit = visit
        self._viewed = viewed
        self._go = go
        self._now = now
        self._since_s = now()

    def wait(self, latest_s: float, size_bytes: int) -> None:
        """From now on, until `latest_s` at most. ApiError where too many wait already."""
        request = self._viewed.request
        # What decides which engines could serve it (`capability`): where one such request finds no place, none does.
        lane = request.model, request.sampled and request.needs_plain_sampling
        if not self._house.line.wait(self, lane, size_bytes, latest_s):
            self._visit.record.reason = None  # which names what the policy said; the error's own word tells more
            raise queue_full(self._house.line.retry_after_s)

    # -- Guest

    def try_place(self) -> Waited | None:
        """Ask the policy anew, on the fleet as it is now."""
        try:
            route = self._house.decide(self._viewed, self._visit)
            if route is None:
                return None
            self._stop()
            self._go(route)
        except ApiError as error:  # also of going: a body may be one in which the model cannot be renamed
            self._stop()
            self._house.refuse(self._visit, error)
            return Waited.REFUSED
        return Waited.SERVED

    def too_late(self) -> None:
        """Nothing became free in time."""
        self._stop()
        self._visit.record.reason = None
        self._house.refuse(self._visit, queue_timeout(self._house.line.retry_after_s))

    def fail(self) -> None:
        """A fault, before or while it was sent on its way."""
        self._stop()
        self._house.give_up(self._visit, self)

    # -- Responder

    def on_client_gone(self) -> None:
        """Nobody waits any more, and no engine has heard of it."""
        self._stop()
        self._house.line.leave(self, Waited.LEFT)
        self._house.abandon(self._visit)

    def on_client_slow(self) -> None:
        """Nothing is being written yet."""

    def on_client_reading(self) -> None:
        """Nothing is being written yet."""

    def on_expired(self) -> None:
        """The router stops."""
        self._stop()
        self._house.line.leave(self, Waited.REFUSED)
        self._house.refuse(self._visit, shutting_down())

    def _stop(self) -> None:
        self._visit.record.waited_s = self._now() - self._since_s
