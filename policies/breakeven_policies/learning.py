"""Learns from finished requests and scrapes: the state behind `Learned`. No I/O and no clock; used by router and suite.

    learning = Learning({"base": PoolFacts(PoolKind.PLAIN), "spec": PoolFacts(PoolKind.SPECULATIVE, 3)})
    learning.observe(Observed(...))          for each finished request
    learning.scraped(...)                    for each two scrapes of a backend
    snapshot = FleetSnapshot(now_s, pools, learning.view())

What is learned, and from what, the best first:

- step times by batch (`step_times`): events per second of a stream, each being one step; steps that the engine counts;
- acceptance by class (`acceptances`): the engine's own figure for a request; tokens per event, or time per token
  against the step time; the engine's counters, which know no class;
- seconds of prefill per prompt token (`prefill`): how time to first token grows with the prompt;
- lengths of answers by class, tokens per byte of prompt, and how many sequences run at once where some wait.

A measured table is where learning begins (`PoolPrior`): what is observed corrects it, within bounds. Everything
observed loses weight, with newer observations and with time: engines drift (vllm-project/vllm issue 41838).
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from breakeven_policies.acceptances import STEPS_MIN, Acceptances
from breakeven_policies.curve import FLAT, RIDGE_TOKENS, Curve, profile_of
from breakeven_policies.decision import AcceptanceSource
from breakeven_policies.fading import Fading
from breakeven_policies.learned import PLAIN_ACCEPTANCE, Learned, PoolProfile
from breakeven_policies.lengths import Lengths
from breakeven_policies.prefill import PrefillTime
from breakeven_policies.saturation import Saturation
from breakeven_policies.snapshot import EngineSignals, PoolKind
from breakeven_policies.step_times import StepTimes
from breakeven_policies.workload import CLASSES_MAX, OTHER

REBUILD_S = 0.5
"""How often what was learned of each pool is made ready for policies: half a millisecond of work, and of one pool at a
time, since it happens between two turns of relays.
"""


FULL_SHARE = 0.9
"""Share of the slots from which on a request may have waited for one: its batch is a mean over its life."""

PREFILL_FACTOR_MAX = 4.0
"""How far what is learned of prefill may lie from what is expected: queues are no slower engine."""

VISITS_MAX = 100.0
"""Visits of a class that are counted: five times what is enough."""


class PoolPrior(Struct, frozen=True):
    """What a measured table says of a pool: where learning begins. None: it does not say.

    `step_s`: seconds of an engine step by batch; `acceptance_lengths`: tokens per step by class (`workload`);
    `acceptance_length`: of all of them; `draft_share`: see `PoolProfile`; `table`: its hash.
    """

    step_s: Curve
    acceptance_lengths: Mapping[str, float] = {}
    acceptance_length: float | None = None
    prefill_s: float | None = None
    draft_share: Curve | None = None
    table: str | None = None


class PoolFacts(Struct, frozen=True):
    """What is configured of a pool. `slots`: `--max-num-seqs` of its engines.

    `dynamic`: its engines draft less in a larger batch (`num_speculative_tokens_per_batch_size`).
    """

    kind: PoolKind
    speculative_tokens: int = 0
    slots: int | None = None
    prior: PoolPrior | None = None
    dynamic: bool = False


class Observed(Struct, frozen=True):
    """One finished request. None: nobody saw it, which is never zero.

    `batch`: sequences that ran on that backend over its life on average, itself included; `events`: events with text,
    each being one step of the engine; `decode_s`: from the first of them to the last; `ttft_s`: from when it was sent
    to the first; `acceptance_length`: tokens per step, as the engine says it of this request. `whole`: it ended as it
    should; what a client broke off tells how fast it was, and not how long it would have become.
    """

    pool: str
    workload: str
    now_s: float
    batch: float | None = None
    prompt_bytes: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    events: int | None = None
    decode_s: float | None = None
    ttft_s: float | None = None
    acceptance_length: float | None = None
    whole: bool = True


class Learning:
    """Of every pool, by name. `table`: the hash of the measured table that the priors come from."""

    def __init__(self, pools: Mapping[str, PoolFacts], table: str | None = None) -> None:
        self._lengths = Lengths()
        self._workloads: set[str] = set()
        self._pools: dict[str, _Pool] = {}
        self._profiles: dict[str, PoolProfile] = {}
        self._view = Learned(0.0)
        self._built_s = float("-inf")
        self._now_s = 0.0
        self._changed = False
        self.reconfigure(pools, table)

    def reconfigure(self, pools: Mapping[str, PoolFacts], table: str | None = None) -> None:
        """Know these pools from now on; of one that stays as it was, what was learned stays."""
        before, self._pools = self._pools, {}
        for name, facts in pools.items():
            known = before.get(name)
            self._pools[name] = known if known is not None and known.facts == facts else _Pool(facts)
        self._profiles = {}
        self._table = table
        self._build()

    def observe(self, observed: Observed) -> None:
        """A request has finished. One of a pool that is not configured (any more) teaches nothing."""
        pool = self._pools.get(observed.pool)
        if pool is None:
            return
        if observed.workload not in self._workloads:
            if len(self._workloads) >= CLASSES_MAX:
                observed = replace(observed, workload=OTHER)
            self._workloads.add(observed.workload)
        pool.observe(observed)
        tokens = (observed.completion_tokens or pool.tokens_of(observed)) if observed.whole else None
        self._lengths.observe(observed.workload, tokens, observed.prompt_bytes, observed.prompt_tokens, observed.now_s)
        self._touch(observed.now_s)

    def scraped(self, pool: str, before: EngineSignals, after: EngineSignals, seconds: float, now_s: float) -> None:
        """Two scrapes of one backend of a pool, `seconds` apart, without a restart in between."""
        known = self._pools.get(pool)
        if known is not None and known.scraped(before, after, seconds, now_s):
            self._touch(now_s)

    def view(self) -> Learned:
        """What is known now: the same object until something has changed and a share of `REBUILD_S` has passed."""
        if self._changed and (self._now_s - self._built_s) * len(self._pools) >= REBUILD_S:
            self._build()
        return self._view

    def _touch(self, now_s: float) -> None:
        self._now_s = max(self._now_s, now_s)
        self._changed = True

    def _build(self) -> None:
        """Take up what was learned of pools that are new here, and of one other: the one whose turn it is."""
        turn = next((name for name, pool in self._pools.items() if pool.changed and name in self._profiles), None)
        for name, pool in list(self._pools.items()):
            if name not in self._profiles or name == turn:
                profile = pool.profile(self._now_s)
                if profile is not None:
                    self._profiles[name] = profile
                    self._pools[name] = self._pools.pop(name)  # to the end of the line
        self._changed = any(pool.changed for pool in self._pools.values())
        self._built_s = self._now_s
        self._view = Learned(
            self._now_s,
            dict(self._profiles),
            self._lengths.by_class(),
            self._lengths.mean,
            self._lengths.prompt_length,
            self._lengths.tokens_per_byte,
            self._table,
        )


class _Pool:
    """What is learned of one pool."""

    def __init__(self, facts: PoolFacts) -> None:
        self.facts = facts
        self.changed = True
        prior = facts.prior
        self._steps = StepTimes(facts.speculative_tokens, None if prior is None else prior.step_s)
        self._acceptances = (
            None
            if facts.kind is PoolKind.PLAIN
            else Acceptances(
                facts.speculative_tokens,
                {} if prior is None else prior.acceptance_lengths,
                None if prior is None else prior.acceptance_length,
                None if prior is None else prior.draft_share,
                dynamic=facts.dynamic,
            )
        )
        self._prefill = PrefillTime()
        self._saturation = Saturation()
        self._visits: dict[str, Fading] = {}

    def observe(self, observed: Observed) -> None:
        """A request has finished here."""
        self.changed = True
        now_s = observed.now_s
        self._visit(observed.workload, now_s)
        if observed.ttft_s is not None and observed.prompt_tokens and not self._full(observed.batch):
            self._prefill.observe(observed.prompt_tokens, observed.ttft_s, now_s)
        batch, decode_s, events = observed.batch, observed.decode_s, observed.events
        if decode_s is None or decode_s <= 0.0:
            self._accept(observed, None, None)
            return
        if events is not None and events > STEPS_MIN:
            step_s = decode_s / (events - 1)
            if batch is not None:
                self._steps.timed(step_s, batch, now_s)
            self._accept(observed, events - 1.0, None)
            return
        tokens = observed.completion_tokens
        token_s = decode_s / (tokens - 1) if tokens is not None and tokens > STEPS_MIN else None
        if self._acceptances is None and token_s is not None and batch is not None:
            self._steps.timed(token_s, batch, now_s)
        self._accept(observed, None, token_s)

    def scraped(self, before: EngineSignals, after: EngineSignals, seconds: float, now_s: float) -> bool:
        """Counters have moved; whether anything was learned. Those that fell are of another process."""
        moved = (_growth(before.engine_steps, after.engine_steps), _growth(before.drafts, after.drafts))
        if any(growth is not None and growth < 0.0 for growth in moved):
            return False
        self._saturation.scraped(before, after, now_s)
        if not before.running or not after.running or seconds <= 0.0:
            return False
        batch = (before.running + after.running) / 2
        steps = _growth(before.engine_steps, after.engine_steps)
        if steps is not None and steps >= STEPS_MIN:
            self._steps.counted(seconds / steps, batch, now_s)
            self.changed = True
        drafts, accepted = _growth(before.drafts, after.drafts), _growth(before.accepted_tokens, after.accepted_tokens)
        if self._acceptances is not None and drafts is not None and accepted is not None and drafts >= STEPS_MIN:
            self._acceptances.counted(1.0 + accepted / drafts, batch, now_s)
            self.changed = True
        return self.changed

    def tokens_of(self, observed: Observed) -> float | None:
        """Tokens of an answer that nobody counted, by its events; None: unknown."""
        if observed.events is None:
            return None
        acceptance = PLAIN_ACCEPTANCE if self._acceptances is None else self._acceptances.of(observed.workload)
        return None if acceptance is None else observed.events * acceptance.length

    def profile(self, now_s: float) -> PoolProfile | None:
        """The figures of now; None: nothing is known of its step times."""
        self.changed = False
        steps = self._steps.curve()
        if steps is None:
            return None
        accepts, prior = self._acceptances, self.facts.prior
        if accepts is not None:
            accepts.settle()
        return profile_of(
            steps,
            FLAT if accepts is None else accepts.draft_share(),
            PLAIN_ACCEPTANCE if accepts is None else accepts.overall(),
            self._prefill_s(steps),
            weights=self._steps.weights(),
            slots=self._slots(),
            acceptance={} if accepts is None else accepts.by_class(),
            observations=self._steps.observations(now_s),
            measured=prior is not None,
            table=None if prior is None else prior.table,
            visits={name: visits.weight_at(now_s) for name, visits in self._visits.items()},
        )

    def _slots(self) -> int | None:
        """Sequences that one engine runs at once: as configured, else as seen."""
        return self._saturation.slots() if self.facts.slots is None else self.facts.slots

    def _full(self, batch: float | None) -> bool:
        """Whether who came found no slot: the first token then tells the wait for one, not the prefill."""
        slots = self._slots()
        return batch is not None and slots is not None and batch >= slots * FULL_SHARE

    def _prefill_s(self, steps: Curve) -> float | None:
        """Seconds per prompt token, within `PREFILL_FACTOR_MAX` of what the table or nature says; None: unknown."""
        prior = self.facts.prior
        expected = None if prior is None else prior.prefill_s
        learned = self._prefill.token_s()
        if learned is None:
            return expected
        usual = steps.values[0] / RIDGE_TOKENS if expected is None else expected
        return min(max(learned, usual / PREFILL_FACTOR_MAX), usual * PREFILL_FACTOR_MAX)

    def _accept(self, observed: Observed, steps: float | None, token_s: float | None) -> None:
        """What the request tells of acceptance: the engine's own figure, tokens per event, or time per token."""
        accepts, tokens = self._acceptances, observed.completion_tokens
        if accepts is None:
            return
        workload, batch, now_s = observed.workload, observed.batch, observed.now_s
        length = observed.acceptance_length
        if length is not None and length >= 1.0:
            made = steps if steps is not None else STEPS_MIN if tokens is None else tokens / length
            accepts.observe(workload, length, made, batch, AcceptanceSource.REQUESTS, now_s)
        elif steps is not None and tokens is not None:
            accepts.observe(workload, (tokens - 1.0) / steps, steps, batch, AcceptanceSource.TIMING, now_s)
        elif token_s is not None and tokens is not None and batch is not None:
            step_s = self._steps.at(batch)
            if step_s is not None:
                length = step_s / token_s
                accepts.observe(workload, length, tokens / max(1.0, length), batch, AcceptanceSource.TIMING, now_s)

    def _visit(self, workload: str, now_s: float) -> None:
        visits = self._visits
        known = visits.get(workload)
        if known is None:
            known = visits[workload] = Fading(VISITS_MAX)
        known.add(1.0, now_s)


def _growth(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
