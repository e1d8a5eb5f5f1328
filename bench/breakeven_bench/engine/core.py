"""The engine: runs the scheduler's steps against the clock and hands what they emit to the requests.

One timer per step, however many sequences it serves: at the deadline every emission of the step is written, then the
next step is planned. Nothing else here waits. `asyncio` enters only as `Timers`, which a test replaces by a clock it
turns itself.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from breakeven_bench.engine.clock import Timers
from breakeven_bench.engine.errors import CORE_DEAD
from breakeven_bench.engine.families import FINISH_REASONS
from breakeven_bench.engine.faults import FaultSwitch
from breakeven_bench.engine.generation import Generation
from breakeven_bench.engine.hardware import step_s
from breakeven_bench.engine.metrics import Metrics, Recorder
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.pacing import Pace
from breakeven_bench.engine.request_metrics import SpeculationDetail, request_metrics
from breakeven_bench.engine.scheduler import Scheduler, Sequence, Step
from breakeven_bench.engine.speculation import drafter_of

ERROR = FINISH_REASONS.index("error")


class CoreState(Enum):
    """What an engine does; none that has left `SERVING` comes back."""

    SERVING = auto()

    HALTED = auto()
    """Asked to end: it does nothing more and tells nobody, as vLLM's core after SIGTERM."""

    DEAD = auto()
    """Killed: it has failed everything, and whoever asks is told."""


class EngineCore:
    """One engine. `created_s` is the wall-clock time of its start, for the metrics page."""

    def __init__(self, options: EngineOptions, timers: Timers, faults: FaultSwitch, created_s: float) -> None:
        self.options = options
        self._timers = timers
        self._faults = faults
        self._pace = Pace(options.time_scale)
        self._scheduler = Scheduler(options.limits, options.speculation, self._step_time())
        draft_tokens = options.speculation.draft_tokens if options.speculation.enabled else None
        metrics = Metrics(options.models[0], options.max_model_len, draft_tokens, created_s)
        metrics.set("breakeven_sim_time_scale", options.time_scale)
        self._recorder = Recorder(metrics)
        self._owners: dict[Sequence, Generation] = {}
        self._step: Step | None = None
        self.state = CoreState.SERVING

    def submit(self, generation: Generation) -> None:
        """Queue a request; an idle engine begins at once."""
        for sequence in generation.sequences:
            self._owners[sequence] = generation
            self._scheduler.add(sequence)
        generation.start()
        if self._step is None:
            self._begin_step()

    def abort(self, generation: Generation) -> None:
        """The client has gone: free what its sequences hold. Those that have finished stay finished.

        Counted nowhere. vLLM has the name `finished_reason="abort"`, but forgets a departed request before it would
        count (`v1/engine/output_processor.py`, `abort_requests`; seen with 0.32.0).
        """
        for sequence in generation.sequences:
            if self._owners.pop(sequence, None) is not None:
                self._scheduler.abort(sequence)

    def halt(self) -> None:
        """Do nothing more, for good, and tell nobody. A dead core stays dead."""
        if self.state is CoreState.SERVING:
            self.state = CoreState.HALTED

    def die(self) -> list[Generation]:
        """Fail everything, for good; returns what was failed, in the order of its arrival.

        Counts nothing more: in vLLM the process that counts is gone.
        """
        self.state = CoreState.DEAD
        failed = list(dict.fromkeys(self._owners.values()))
        self._owners.clear()
        for generation in failed:
            generation.fail(CORE_DEAD)
        return failed

    def resume(self, generation: Generation) -> None:
        """The client reads again."""
        if not generation.resume():
            self._fail(generation)

    def metrics_of(self, sequence: Sequence, at_stop_string: bool) -> dict[str, Any] | None:
        """The `metrics` object that this engine puts into the answer of a finished sequence.

        Nothing about speculation where a stop string ended it: in vLLM the HTTP server finds those, and the engine
        core, which keeps the numbers, hands them out with the ends that it knows of (`v1/core/sched/scheduler.py`).
        """
        return request_metrics(
            sequence,
            timing=self.options.request_timing,
            speculation=SpeculationDetail.NONE if at_stop_string else self.options.speculation_detail,
            draft_tokens=self.options.speculation.draft_tokens,
        )

    def page(self) -> bytes:
        """The metrics page of this instant."""
        scheduler, metrics = self._scheduler, self._recorder.metrics
        self._recorder.observe_state(scheduler.running, scheduler.waiting, scheduler.kv_usage)
        metrics.set("breakeven_sim_steps", self._pace.steps)
        metrics.set("breakeven_sim_steps_late", self._pace.late)
        metrics.set("breakeven_sim_lost_seconds", self._pace.lost_s)
        return metrics.page()

    def _begin_step(self) -> None:
        now_s = self._timers.time()
        self._step = step = self._scheduler.plan(now_s)
        if step is None:
            self._pace.rest()
            return
        extra_s = self._faults.extra_step_s(now_s) * self.options.time_scale
        self._timers.call_at(self._pace.begin(step.duration_s + extra_s, now_s), self._end_step)

    def _end_step(self) -> None:
        if self.state is not CoreState.SERVING:
            return
        step = self._step
        if step is None:
            message = "a step ended that nobody began"
            raise RuntimeError(message)
        now_s = self._timers.time()
        self._pace.end(now_s)
        emissions = self._scheduler.complete(step, now_s)
        self._recorder.observe_step(emissions, step.preempted, now_s)
        for emission in emissions:
            generation = self._owners.get(emission.sequence)
            if generation is None:
                continue  # its request broke off with an earlier emission of this very step
            if emission.finished:
                self._finish(emission.sequence, generation, now_s)
            if not generation.emit(emission):
                self._fail(generation)
        self._begin_step()

    def _finish(self, sequence: Sequence, generation: Generation, now_s: float) -> None:
        reason = FINISH_REASONS.index(generation.finish_reason(sequence))
        self._count_end(sequence, generation, reason, now_s)

    def _fail(self, generation: Generation) -> None:
        """The answer broke off: an error of the engine, which counts."""
        now_s = self._timers.time()
        for sequence in generation.sequences:
            if sequence in self._owners:
                self._scheduler.abort(sequence)
                self._count_end(sequence, generation, ERROR, now_s)

    def _count_end(self, sequence: Sequence, generation: Generation, reason: int, now_s: float) -> None:
        """One sequence has ended; the last one of a prompt ends its request."""
        del self._owners[sequence]
        self._recorder.observe_finished(sequence, reason, generation.order.tokens_max, now_s)
        siblings = generation.siblings(sequence)
        if not any(sibling in self._owners for sibling in siblings):
            self._recorder.observe_request([sibling.generated_tokens for sibling in siblings])

    def _step_time(self) -> Callable[[int, int, int, int], float]:
        hardware = self.options.hardware
        drafter = drafter_of(self.options.speculation.method, hardware)
        return lambda tokens, kv_tokens, drafts, sequences: step_s(
            hardware, drafter, tokens, kv_tokens, drafts, sequences
        )
