"""One engine with continuous batching, advanced by stretches of equal steps instead of step by step.

    waiting --admitted--> prefilling --last chunk--> decoding --last token--> finished
       ^                                                |
       +-------------------preempted-------------------+

As long as nobody comes, leaves or computes a prompt, all steps have the same batch and only the context grows, so that
`m` of them take `m * s + c * g * m * (m - 1) / 2` seconds: an event of this simulation is a *stretch* of such steps. A
step with a chunk of a prompt is a stretch of one. Who arrives during a stretch ends it with the step that is running,
and takes part in the next.

How many steps an answer needs is known when it begins to be decoded, from the luck that its request brought along: the
number of drafts accepted in its i-th step. A step with fewer drafts (dynamic speculation) cuts the same luck off
earlier. Rules of admission and preemption are vLLM's (`engine.scheduler` has them in full): running sequences first,
prompts in order of arrival within the budget of the step, admitted while there is a slot and room for the whole prompt;
where the cache is full the last admitted one goes back and computes everything anew.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, STEP_TOKENS_MAX, EngineKind
from breakeven_bench.fleet_model.traffic import Arrival
from breakeven_bench.fleet_model.worlds import tokens_per_step
from breakeven_policies.snapshot import EngineSignals

JITTER = 0.1
"""Standard deviation of the time of one step, as a share of it (assumption); over m steps it is this / sqrt(m)."""

JITTER_MIN = 0.5
"""However lucky, a stretch takes half its time at least."""


class Job:
    """One request on its way. Only the engine changes it; times are seconds of the simulation, None while to come.

    `pulls` counts the steps that emitted something for it: what a router sees as events with text.
    """

    __slots__ = (
        "arrival",
        "begin",
        "context",
        "cumulated",
        "finish",
        "finished_s",
        "first_token_s",
        "generated",
        "preemptions",
        "pulls",
        "rate",
        "since",
        "tables",
        "to_compute",
        "tokens",
    )

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.first_token_s: float | None = None
        self.finished_s: float | None = None
        self.preemptions = 0
        self.generated = 0  # tokens emitted up to step `since` of the engine
        self.pulls = 0  # its own steps up to there
        self.since = 0
        self.finish = 0  # step of the engine with which it ends
        self.to_compute = arrival.prompt_tokens  # tokens of the prompt not yet in the cache
        self.tokens = arrival.prompt_tokens  # that the cache must have room for when it is admitted
        self.context = 0.0
        self.rate = 1.0
        self.cumulated: Sequence[int] = ()  # tokens after so many own steps, at the present k
        self.begin = 0  # own steps before `cumulated` applies: pulls at the first decoding step
        self.tables: dict[int, list[int]] = {}


class Engine:
    """One engine. `ends_s` is when its present stretch ends, infinity while it is idle; then `advance` is due.

    `backlog_tokens` are tokens of prompts that wait to be computed. `luck` is the run's row of exponential numbers,
    `jitter` draws standard normal numbers.
    """

    def __init__(self, kind: EngineKind, luck: NDArray[np.float64], jitter: Callable[[], float]) -> None:
        self.ends_s = inf
        self.preemptions = 0
        self.backlog_tokens = 0
        self._kind = kind
        self._luck = luck
        self._jitter = jitter
        self._waiting: deque[Job] = deque()
        self._prefilling: list[Job] = []
        self._decoding: list[Job] = []
        self._finishing: list[tuple[int, int, Job]] = []
        self._chunks: list[tuple[Job, int]] = []
        self._step = 0  # steps done
        self._drafts = kind.drafts_by_batch[1]
        self._kv_at_zero = 0.0  # context of all decoding sequences is this + `_kv_growth` * step
        self._kv_growth = 0.0
        self._kv_prefilling = 0
        self._stretch_began_s = 0.0
        self._stretch_steps = 0
        self._stretch_step_s = 0.0
        self._stretch_growth_s = 0.0
        self._sequence_steps = 0
        self._draft_tokens = 0
        self._verify_steps = 0
        self._finished_tokens = 0
        self._prompt_tokens = 0
        self._left_accepted = 0

    @property
    def load(self) -> int:
        """Requests running and waiting."""
        return len(self._decoding) + len(self._prefilling) + len(self._waiting)

    @property
    def running(self) -> int:
        """Requests with a slot."""
        return len(self._decoding) + len(self._prefilling)

    @property
    def kv_tokens(self) -> float:
        """Context in the cache at the beginning of the stretch, prompts that are being computed counted whole."""
        return self._kv_at_zero + self._kv_growth * self._step + self._kv_prefilling

    def add(self, job: Job, now_s: float) -> None:
        """Queue a request. An idle engine begins at once, a busy one after the step that is running."""
        self._waiting.append(job)
        self.backlog_tokens += job.to_compute
        if self.ends_s == inf:
            self._plan(now_s)
        elif self._stretch_steps > 1 and self._admissible(job):
            steps = min(self._stretch_steps, max(1, ceil(self._steps_in(now_s - self._stretch_began_s) - 1e-9)))
            self._stretch_steps = steps
            self.ends_s = self._stretch_began_s + self._seconds_of(steps)

    def advance(self) -> list[Job]:
        """End the stretch at `ends_s` and begin the next; returns who finished."""
        now_s, steps = self.ends_s, self._stretch_steps
        batch = len(self._decoding)
        self._step += steps
        self._sequence_steps += steps * batch
        if self._drafts:
            self._verify_steps += steps * batch
            self._draft_tokens += steps * batch * self._drafts
        finished: list[Job] = []
        while self._finishing and self._finishing[0][0] <= self._step:
            job = heappop(self._finishing)[2]
            self._leave(job)
            finished.append(job)
        if self._chunks:
            self._end_chunks(now_s, finished)
        for job in finished:
            job.finished_s = now_s
            self._finished_tokens += job.arrival.output_tokens
        self._plan(now_s)
        return finished

    def signals(self, now_s: float) -> EngineSignals:
        """The metrics page at a moment within the present stretch."""
        done = 0
        if self._stretch_steps > 1 and self.ends_s != inf:
            done = max(0, min(self._stretch_steps - 1, int(self._steps_in(now_s - self._stretch_began_s))))
        batch = len(self._decoding)
        step = self._step + done
        decoding = sum(_generated(job, step) for job in self._decoding)
        begun = [job for job in (*self._prefilling, *self._waiting) if job.generated]
        generated = self._finished_tokens + decoding + sum(job.generated for job in begun)
        accepted = self._left_accepted + sum(job.generated - job.pulls for job in begun)
        accepted += sum(_generated(job, step) - (job.pulls + step - job.since) for job in self._decoding)
        speculative = self._kind.draft_tokens > 0
        kv_tokens = self.kv_tokens + self._kv_growth * done
        return EngineSignals(
            running=float(batch + len(self._prefilling)),
            waiting=float(len(self._waiting)),
            kv_usage=min(1.0, kv_tokens / self._kind.kv_tokens_max),
            preemptions=float(self.preemptions),
            prompt_tokens=float(self._prompt_tokens),
            generation_tokens=float(generated),
            drafts=float(self._verify_steps + (done * batch if self._drafts else 0)) if speculative else None,
            draft_tokens=float(self._draft_tokens + done * batch * self._drafts) if speculative else None,
            accepted_tokens=float(accepted) if speculative else None,
            engine_steps=float(step),
        )

    def _admissible(self, job: Job) -> bool:
        return self.running < SEQUENCES_MAX and self.kv_tokens + job.tokens <= self._kind.kv_tokens_max

    def _seconds_of(self, steps: int) -> float:
        return steps * self._stretch_step_s + self._stretch_growth_s * steps * (steps - 1) / 2.0

    def _steps_in(self, seconds: float) -> float:
        """How many steps of the stretch fit into so many seconds: the inverse of `_seconds_of`, somebody decoding."""
        growth = self._stretch_growth_s
        linear = self._stretch_step_s - growth / 2.0
        return (sqrt(linear * linear + 2.0 * growth * seconds) - linear) / growth

    def _end_chunks(self, now_s: float, finished: list[Job]) -> None:
        for job, tokens in self._chunks:
            job.to_compute -= tokens
            self.backlog_tokens -= tokens
            self._prompt_tokens += tokens
            if job.to_compute:
                continue
            self._prefilling.remove(job)
            self._kv_prefilling -= job.tokens
            if job.first_token_s is None:
                job.first_token_s = now_s
            job.generated += 1
            job.pulls += 1
            if job.generated >= job.arrival.output_tokens:
                self._left_accepted += job.generated - job.pulls
                finished.append(job)
            else:
                self._begin_decoding(job)
        self._chunks = []

    def _begin_decoding(self, job: Job) -> None:
        job.since = self._step
        self._decoding.append(job)
        job.context = float(job.tokens + 1)
        self._time(job)

    def _time(self, job: Job) -> None:
        """Say when it will end at the present k, and let its context grow from here at the rate of this k."""
        drafts = self._drafts
        left = job.arrival.output_tokens - job.generated
        job.rate = tokens_per_step(job.arrival.acceptance, drafts)
        if drafts:
            job.cumulated = table = self._table(job, drafts, left)
            job.begin = job.pulls
            wanted = table[job.pulls] + left
            job.finish = job.since + _first_at_least(table, wanted, job.pulls) - job.pulls
        else:
            job.cumulated = ()
            job.finish = job.since + left
        heappush(self._finishing, (job.finish, job.arrival.index, job))
        self._kv_growth += job.rate
        self._kv_at_zero += job.context - job.rate * job.since

    def _table(self, job: Job, drafts: int, left: int) -> list[int]:
        """Tokens after 0, 1, 2, ... own steps if all had so many drafts, as far as the answer needs them."""
        table = job.tables.get(drafts)
        if table is None:
            likely = int(job.arrival.output_tokens / job.rate * 1.3) + 16  # more is needed once in some hundred answers
            table = job.tables[drafts] = self._draw(job.arrival, min(job.arrival.output_tokens, likely), drafts)
        if len(table) <= job.pulls or table[-1] < table[job.pulls] + left:
            table = job.tables[drafts] = self._draw(job.arrival, job.arrival.output_tokens, drafts)
        return table

    def _draw(self, arrival: Arrival, steps: int, drafts: int) -> list[int]:
        """An exponential number of mean 1 over -ln(a), rounded down, is at least j with probability a^j."""
        luck = self._luck[arrival.place : arrival.place + steps]
        accepted = np.minimum((luck * (-1.0 / log(arrival.acceptance))).astype(np.int64), drafts)
        table: list[int] = np.cumsum(accepted + 1).tolist()
        return [0, *table]

    def _sync(self, job: Job) -> None:
        """Bring what is known of a decoding job up to the present step."""
        generated = _generated(job, self._step)
        job.context += generated - job.generated
        job.pulls += self._step - job.since
        job.generated = generated
        job.since = self._step

    def _leave(self, job: Job) -> None:
        """Take a finished job out of the batch."""
        self._decoding.remove(job)
        self._forget_context(job)
        steps = self._step - job.since
        # The last step may verify more than the answer needs: the engine counts it, the client does not get it.
        verified = job.cumulated[job.begin + steps] - job.cumulated[job.begin] if job.cumulated else steps
        job.pulls += steps
        self._left_accepted += job.generated + verified - job.pulls
        job.generated = job.arrival.output_tokens

    def _forget_context(self, job: Job) -> None:
        self._kv_growth -= job.rate
        self._kv_at_zero -= job.context - job.rate * job.since
        if not self._decoding:
            self._kv_growth = self._kv_at_zero = 0.0

    def _plan(self, now_s: float) -> None:
        """Form the next stretch: preempt, admit, choose k, hand out the budget, and say how long it takes."""
        preempted = False
        while self.kv_tokens + self._kv_growth > self._kind.kv_tokens_max and len(self._decoding) > 1:
            self._preempt()
            preempted = True
        while not preempted and self._waiting and self._admissible(self._waiting[0]):
            job = self._waiting.popleft()
            self._prefilling.append(job)
            self._kv_prefilling += job.tokens
        batch = len(self._decoding) + len(self._prefilling)
        if not batch:
            self.ends_s = inf
            self._stretch_steps = 0
            return
        drafts = self._kind.drafts_by_batch[batch]
        if drafts != self._drafts:
            self._change_drafts(drafts)
        decoding_tokens = len(self._decoding) * (drafts + 1)
        tokens = decoding_tokens + (self._plan_chunks(decoding_tokens) if self._prefilling else 0)
        self._time_stretch(now_s, tokens, batch)

    def _plan_chunks(self, decoding_tokens: int) -> int:
        """Give the rest of the step's budget to prompts in order; returns what they take."""
        budget = STEP_TOKENS_MAX - decoding_tokens
        for job in self._prefilling:
            tokens = min(job.to_compute, budget)
            if not tokens:
                break
            self._chunks.append((job, tokens))
            budget -= tokens
        return STEP_TOKENS_MAX - decoding_tokens - budget

    def _time_stretch(self, now_s: float, tokens: int, batch: int) -> None:
        kind = self._kind
        steps = 1
        if not self._chunks:
            steps = self._finishing[0][0] - self._step
            room = (kind.kv_tokens_max - self.kv_tokens) / self._kv_growth
            steps = max(1, min(steps, int(room)))
        noise = max(JITTER_MIN, 1.0 + JITTER * self._jitter() / sqrt(steps))
        self._stretch_step_s = kind.step_s(tokens, self.kv_tokens, self._drafts, batch) * noise
        self._stretch_growth_s = kind.kv_token_s * self._kv_growth * noise
        self._stretch_began_s = now_s
        self._stretch_steps = steps
        self.ends_s = now_s + self._seconds_of(steps)

    def _change_drafts(self, drafts: int) -> None:
        self._drafts = drafts
        self._finishing = []
        self._kv_growth = self._kv_at_zero = 0.0
        for job in self._decoding:
            self._sync(job)
            self._time(job)

    def _preempt(self) -> None:
        """The last admitted job goes back in front of the queue; what it has generated counts as prompt then."""
        job = self._decoding.pop()
        self._sync(job)
        self._forget_context(job)
        self._finishing = [entry for entry in self._finishing if entry[2] is not job]
        heapify(self._finishing)
        job.tokens = job.to_compute = job.arrival.prompt_tokens + job.generated
        job.preemptions += 1
        self.preemptions += 1
        self.backlog_tokens += job.to_compute
        self._waiting.appendleft(job)


def _generated(job: Job, step: int) -> int:
    """Tokens of a decoding job after this step of the engine."""
    steps = step - job.since
    if not job.cumulated:
        return job.generated + steps
    return job.generated + job.cumulated[job.begin + steps] - job.cumulated[job.begin]


def _first_at_least(table: Sequence[int], wanted: int, start: int) -> int:
    """The first index from `start` on whose entry is at least `wanted`: a bisection, tables rise."""
    low, high = start, len(table) - 1
    while low < high:
        middle = (low + high) // 2
        if table[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
