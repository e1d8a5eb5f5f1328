"""Lines of journals as a router writes them, for the tests of what reads them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from breakeven_policies.journal import Considered, Encoder, Entry, Happened
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import pair, request

BEGAN = datetime(2026, 12, 1, 12, tzinfo=UTC)


def entry(
    seen: RequestView | None = None,
    state: FleetSnapshot | None = None,
    policy: Policy = Threshold(),  # noqa: B008  # it is frozen
    at_s: float = 10.0,
    took_s: float = 1.0,
    **happened: object,
) -> Entry:
    """A request that ended `at_s` after the beginning and took so long, served where it was sent."""
    seen, state = seen or request(), state or pair()
    decision = policy.decide(seen, state)
    served = {} if not hasattr(decision, "ranking") else {
        "pool": decision.ranking[0].pool, "backend": decision.ranking[0].backend, "outcome": "completed", "attempts": 1,
    }  # fmt: skip
    outcome = Happened(**{**served, "decided_s": 0.0, "sent_s": 0.0, "finished_s": took_s, **happened})
    time = BEGAN + timedelta(seconds=at_s)
    return Entry(time, "id", Considered(seen, replace(state, now_s=1000.0 + at_s - took_s), decision), outcome)


def written(entries: Iterable[Entry]) -> list[bytes]:
    """The lines of these entries."""
    encoder = Encoder()
    return [encoder.encode(each) for each in entries]
