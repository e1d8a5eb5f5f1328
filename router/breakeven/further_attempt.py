"""A further attempt at a request needs a place at an engine too, and waits where all that are left are full."""

from collections.abc import Callable

from breakeven.admission import Admission
from breakeven.exchange import Exchange
from breakeven.fleet import Fleet
from breakeven.record import Waited
from breakeven_policies.snapshot import Health


def has_another(exchange: Exchange, fleet: Fleet) -> bool:
    """Whether anybody is left to try after the engine being tried now; those that are closed by now are left out."""
    if exchange.has_next:
        exchange.leave_out([target.backend for target in exchange.left if fleet.is_closed(target.backend)])
    return exchange.has_next


def finds_place(exchange: Exchange, fleet: Fleet) -> bool:
    """Turn to the first backend left in the ranking that may have a further request.

    The ranking is as old as the first attempt, and an engine may have been ejected or gone down since: those that are
    not ready come into question only where all that are left are so. One that was drained never does.
    """
    left = [target for target in exchange.left if not fleet.is_closed(target.backend)]
    ready = [target for target in left if fleet.health(target.backend) is Health.READY]
    for target in ready or left:
        if fleet.has_room(target.backend):
            exchange.turn_to(target)
            return True
    return False


class FurtherAttempt:
    """The `Guest` that waits; then `connect`, or `give_up` where nothing became free in time.

    `fail` hears that either of them ended in a fault of the router.
    """

    def __init__(
        self,
        line: Admission,
        fleet: Fleet,
        exchange: Exchange,
        connect: Callable[[], None],
        give_up: Callable[[], None],
        fail: Callable[[], None],
    ) -> None:
        self._line = line
        self._fleet = fleet
        self._exchange = exchange
        self._connect = connect
        self._give_up = give_up
        self._fail = fail
        self._waits = True

    def wait(self, size_bytes: int) -> None:
        """From now on; where too many wait already it is given up at once."""
        if not self._line.wait(self, tuple([target.backend for target in self._exchange.left]), size_bytes):
            self._give_up()

    def drop(self) -> None:
        """Wait no more, and tell nobody."""
        if self._waits:
            self._line.leave(self)

    def try_place(self) -> Waited | None:
        """Go where there is room now; give up where all were drained meanwhile."""
        if all(self._fleet.is_closed(target.backend) for target in self._exchange.left):
            self._give_up()
            return Waited.REFUSED
        if not finds_place(self._exchange, self._fleet):
            return None
        self._connect()
        return Waited.SERVED

    def too_late(self) -> None:
        """There was none in time."""
        self._give_up()

    def fail(self) -> None:
        """It waits no more, and nobody knows how far it came."""
        self._waits = False
        self._fail()
