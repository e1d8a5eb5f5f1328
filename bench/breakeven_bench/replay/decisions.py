"""Decides the lines of a journal again: by one policy or several, each counted for itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from breakeven_bench.replay.order import by_decision
from breakeven_bench.replay.relearn import Relearned
from breakeven_bench.replay.tally import Forecasts, Tally
from breakeven_policies.decision import Decision
from breakeven_policies.journal import Entry, decode
from breakeven_policies.measured import Table
from breakeven_policies.policy import Policy
from breakeven_policies.registry import build_policy

WRITTEN = "as written"
"""Not the name of a policy: each line under the one that wrote it."""

WRITERS_MAX = 64
"""Policies that a journal may name: more are no configuration's."""


class Writers:
    """The policies that wrote the lines, built by their names. `threshold`: where `threshold` has no argument."""

    name = WRITTEN

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._known: dict[str, Policy] = {}

    @property
    def learns(self) -> bool:
        """Whether any of them does, as far as is known by now."""
        return any(getattr(policy, "learns", False) for policy in self._known.values())

    def of(self, entry: Entry) -> Policy:
        """The policy that wrote this line; ValueError: there is none of that name here."""
        spec = entry.considered.decision.policy
        policy = self._known.get(spec)
        if policy is None:
            if len(self._known) >= WRITERS_MAX:
                message = f"the journal names more than {WRITERS_MAX} policies"
                raise ValueError(message)
            policy = self._known[spec] = build_policy(spec, self._threshold)
        return policy


@dataclass(frozen=True, slots=True)
class Contestant:
    """One policy, or whoever wrote each line, with what it is counted in."""

    policy: Policy | Writers
    tally: Tally = field(default_factory=Tally)

    @property
    def name(self) -> str:
        """As it was asked for."""
        return self.policy.name

    def decide(self, entry: Entry) -> None:
        """Decide one line, and count how that compares."""
        try:
            policy = self.policy.of(entry) if isinstance(self.policy, Writers) else self.policy
            decision: Decision = policy.decide(entry.considered.request, entry.considered.fleet)
            self.tally.add(entry, decision)
        except Exception as error:  # noqa: BLE001  # anybody's module: what it fails at is counted, the rest goes on
            self.tally.fail(f"{type(error).__name__}: {error}")


class Replay:
    """All of them over one journal. `tables`: what policies that learn begin with."""

    def __init__(self, contestants: tuple[Contestant, ...], tables: tuple[Table, ...] = ()) -> None:
        self.contestants = contestants
        self.unreadable = 0
        self.first_error = ""
        self.entries = 0
        self.written = Forecasts()
        self.first_time = ""
        self.last_time = ""
        self._relearned = Relearned(tables)

    @property
    def learned(self) -> bool:
        """Whether any of the policies has used what was learned."""
        return any(getattr(each.policy, "learns", False) for each in self.contestants)

    def run(self, lines: Iterable[bytes]) -> Iterator[int]:
        """Decide them all; after each line how many were decided by then."""
        entries = self._read(lines)
        # Who wrote the lines is not known before they are read, and may learn.
        if not self.learned and not any(isinstance(each.policy, Writers) for each in self.contestants):
            for entry in entries:
                yield self._decide(entry)
            return
        for entry in by_decision(self._noted(entries)):
            fleet = replace(entry.considered.fleet, learned=self._relearned.at(entry))
            yield self._decide(replace(entry, considered=replace(entry.considered, fleet=fleet)))

    def _noted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self._relearned.note(entry)
            yield entry

    def _read(self, lines: Iterable[bytes]) -> Iterator[Entry]:
        """What can be read of them; a router that is killed leaves half a line."""
        for number, line in enumerate(lines, start=1):
            try:
                yield decode(line)
            except ValueError as error:
                self.unreadable += 1
                self.first_error = self.first_error or f"line {number}: {error}"

    def _decide(self, entry: Entry) -> int:
        time = entry.time.isoformat()
        self.first_time = min(self.first_time or time, time)
        self.last_time = max(self.last_time, time)
        self.entries += 1
        self.written.add(entry, entry.considered.decision)
        for contestant in self.contestants:
            contestant.decide(entry)
        return self.entries
