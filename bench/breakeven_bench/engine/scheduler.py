"""Continuous batching as vLLM's V1 scheduler does it: a state machine that knows no clock, no socket and no text.

    WAITING --admitted--> RUNNING --last token, or abort--> FINISHED
       ^                     |
       +-----preempted-------+        (abort also takes a sequence from WAITING to FINISHED)

`plan` forms the next step, `complete` says what every sequence of that step emitted; the caller decides what happens in
between and when. Rules, in vLLM's order (`v1/core/sched/scheduler.py`, 0.33.0):

1. A sequence has `prompt + generated` tokens, of which `computed` are in the KV cache. A step computes the rest, plus
   the drafts that the last step proposed; a part of the rest is a prefill chunk and emits nothing.
2. Running sequences come first, in their order of admission, then waiting ones, all within one budget of tokens. The
   budget may cut a prompt into chunks and may cut drafts off.
3. A running sequence that finds no KV block takes those of the last admitted one, which then waits in front of the
   queue and computes everything anew. A step that preempted admits nobody.
4. A waiting sequence is admitted while there is a slot, budget, and room for all of its tokens.
5. Of d verified drafts j are accepted, and the step emits j + 1 tokens, fewer where the answer ends. Counters see all
   j.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from breakeven_bench.engine.acceptance import accepted_drafts
from breakeven_bench.engine.speculation import Speculation

BLOCK_TOKENS = 16
"""Tokens per KV block, vLLM's default."""


class Phase(Enum):
    """Where a sequence stands; the picture is at the head of this file."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a step may hold: sequences, tokens (prefill and verification together), and KV blocks for all sequences."""

    sequences_max: int
    tokens_per_step_max: int
    kv_blocks: int


@dataclass(slots=True, eq=False)
class Sequence:
    """One output sequence; a request with n=3 has three. Only the scheduler changes it.

    `output_tokens` (at least 1) is where the answer ends, `acceptance` the conditional probability of a draft token,
    `coverage` the share of steps that have a draft at all. `cached_tokens` of the prompt need no computing when it is
    first admitted (a sibling of the same request has computed them). `chance` draws numbers
    uniform in [0, 1) and is its own, so that its luck does not depend on its neighbours. `accepted_counts[j]` counts
    the verify steps that accepted j drafts; `verified` lists every (drafted, accepted) where the engine keeps them.
    Times are seconds on the caller's clock.
    """

    prompt_tokens: int
    output_tokens: int
    acceptance: float
    chance: Callable[[], float]
    queued_s: float
    coverage: float = 1.0
    cached_tokens: int = 0
    verified: list[tuple[int, int]] | None = None
    phase: Phase = Phase.WAITING
    computed_tokens: int = 0
    generated_tokens: int = 0
    drafts: int = 0
    drafted_tokens: int = 0
    accepted_counts: list[int] = field(default_factory=list)
    blocks: int = 0
    preemptions: int = 0
    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None

    @property
    def total_tokens(self) -> int:
        """Tokens that exist: the prompt and what was generated."""
        return self.prompt_tokens + self.generated_tokens


class Emission(NamedTuple):
    """What one step gave to one sequence.

    `tokens` are new ones; `drafted` and `accepted` count its verified drafts (0 and 0 where it had none).
    `since_last_s` is the time since its previous emission, None for its first one.
    """

    sequence: Sequence
    tokens: int
    drafted: int
    accepted: int
    finished: bool
    since_last_s: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One planned step: `work` pairs each sequence with its tokens; `drafts_next` are proposed at its end."""

    work: list[tuple[Sequence, int]]
    tokens: int
    drafts_next: int
    preempted: int
    duration_s: float


StepTime = Callable[[int, int, int, int], float]
"""Seconds of a step from its tokens, its KV tokens, the drafts it proposes per sequence, and its sequences."""


class Scheduler:
    """The sequences of one engine. `kv_blocks` must hold the longest one, or it would preempt itself for ever."""

    def __init__(self, limits: Limits, speculation: Speculation, step_time: StepTime) -> None:
        self._limits = limits
        self._speculation = speculation
        self._step_time = step_time
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._blocks_free = limits.kv_blocks

    @property
    def waiting(self) -> int:
        """Sequences without a slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences with a slot, whether or not the current step has room for them."""
        return len(self._running)

    @property
    def kv_usage(self) -> float:
        """Share of KV blocks in use, in [0, 1]."""
        return 1.0 - self._blocks_free / self._limits.kv_blocks

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence behind all others."""
        sequence.accepted_counts = [0] * (self._speculation.draft_tokens + 1)
        self._waiting.append(sequence)

    def abort(self, sequence: Sequence) -> bool:
        """Take a sequence out at once, also in the middle of a step; False: it had finished before."""
        if sequence.phase is Phase.FINISHED:
            return False
        if sequence.phase is Phase.WAITING:
            self._waiting.remove(sequence)
        else:
            self._running.remove(sequence)
        self._release(sequence, Phase.FINISHED)
        return True

    def plan(self, now_s: float) -> Step | None:
        """Form the next step, or None where nothing is left to do. Every planned step must be completed."""
        work: list[tuple[Sequence, int]] = []
        budget, preempted = self._plan_running(work)
        if not preempted:
            budget = self._admit(work, budget, now_s)
        if not work:
            return None
        tokens = self._limits.tokens_per_step_max - budget
        kv_tokens = sum(sequence.computed_tokens for sequence, _ in work)
        drafts_next = self._speculation.drafts_after(len(work))
        duration_s = self._step_time(tokens, kv_tokens, drafts_next, len(work))
        return Step(work, tokens, drafts_next, preempted, duration_s)

    def complete(self, step: Step, now_s: float) -> list[Emission]:
        """End the step: one emission per sequence that sampled, in the order of the batch; none for aborted ones."""
        emissions: list[Emission] = []
        finished = False
        for sequence, tokens in step.work:
            if sequence.phase is not Phase.RUNNING:
                continue
            drafted = sequence.computed_tokens + tokens - sequence.total_tokens
            if drafted < 0:
                sequence.computed_tokens += tokens  # a chunk of the prompt; the rest comes in later steps
                continue
            emission = self._sample(sequence, drafted, step.drafts_next, now_s)
            finished = finished or emission.finished
            emissions.append(emission)
        if finished:
            self._running = [sequence for sequence in self._running if sequence.phase is Phase.RUNNING]
        return emissions

    def _plan_running(self, work: list[tuple[Sequence, int]]) -> tuple[int, int]:
        """Give tokens to running sequences; returns the budget left and how many sequences were preempted."""
        budget = self._limits.tokens_per_step_max
        preempted = 0
        index = 0
        while index < len(self._running) and budget > 0:
            sequence = self._running[index]
            tokens = min(sequence.total_tokens - sequence.computed_tokens + sequence.drafts, budget)
            while not self._allocate(sequence, tokens):
                self._preempt()
                preempted += 1
                if sequence.phase is Phase.WAITING:
                    return budget, preempted  # it was the last one itself
            work.append((sequence, tokens))
            budget -= tokens
            index += 1
        return budget, preempted

    def _admit(self, work: list[tuple[Sequence, int]], budget: int, now_s: float) -> int:
        """Admit waiting sequences in order; returns the budget left."""
        while self._waiting and budget > 0 and len(self._running) < self._limits.sequences_max:
            sequence = self._waiting[0]
            if _blocks(sequence.total_tokens) > self._blocks_free:
                break
            if sequence.scheduled_s is None:
                sequence.scheduled_s = now_s
                sequence.computed_tokens = sequence.cached_tokens
            tokens = min(sequence.total_tokens - sequence.computed_tokens, budget)
            self._allocate(sequence, tokens)
            self._running.append(self._waiting.popleft())
            sequence.phase = Phase.RUNNING
            work.append((sequence, tokens))
            budget -= tokens
        return budget

    def _sample(self, sequence: Sequence, drafted: int, drafts_next: int, now_s: float) -> Emission:
        accepted = 0
        if drafted:
            accepted = accepted_drafts(drafted, sequence.acceptance, sequence.chance())
            sequence.accepted_counts[accepted] += 1
            sequence.drafted_tokens += drafted
            if sequence.verified is not None:
                sequence.verified.append((drafted, accepted))
        since_last_s = None if sequence.last_token_s is None else now_s - sequence.last_token_s
        if since_last_s is None:
            sequence.first_token_s = now_s
        sequence.last_token_s = now_s
        sequence.computed_tokens = sequence.total_tokens + accepted
        tokens = min(accepted + 1, sequence.output_tokens - sequence.generated_tokens)
        sequence.generated_tokens += tokens
        finished = sequence.generated_tokens >= sequence.output_tokens
        if finished:
            self._release(sequence, Phase.FINISHED)
        else:
            covered = sequence.coverage >= 1.0 or sequence.chance() < sequence.coverage
            sequence.drafts = drafts_next if covered else 0
        return Emission(sequence, tokens, drafted, accepted, finished, since_last_s)

    def _allocate(self, sequence: Sequence, tokens: int) -> bool:
        """Take the blocks that the sequence needs after `tokens` more; False and no change where they are not free."""
        needed = _blocks(sequence.computed_tokens + tokens) - sequence.blocks
        if needed > self._blocks_free:
            return False
        if needed > 0:
            sequence.blocks += needed
            self._blocks_free -= needed
        return True

    def _preempt(self) -> None:
        victim = self._running.pop()
        self._release(victim, Phase.WAITING)
        victim.computed_tokens = 0
        victim.drafts = 0
        victim.preemptions += 1
        self._waiting.appendleft(victim)

    def _release(self, sequence: Sequence, phase: Phase) -> None:
        self._blocks_free += sequence.blocks
        sequence.blocks = 0
        sequence.phase = phase


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)
