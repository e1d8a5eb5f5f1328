"""The engine: runs the scheduler's steps against the clock and hands what they emit to the requests.

One timer per step, however many sequences it serves: at the deadline every emission of the step is written, then the
next step is planned. Nothing else here waits. `asyncio` enters only as `Timers`, which a test replaces by a clock it
turns itself.
"""

from collections.abc import Callable
from typing import Any

from breakeven_bench.engine.clock import Timers
from breakeven_bench.engine.families import FINISH_REASONS
from breakeven_bench.engine.faults import FaultSwitch
from breakeven_bench.engine.generation import Generation
from breakeven_bench.engine.hardware import step_s
from breakeven_bench.engine.metrics import Metrics, Recorder
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.pacing import Pace
from breakeven_bench.engine.request_metrics import request_metrics
from breakeven_bench.engine.scheduler import Scheduler, Sequence, Step
from breakeven_bench.engine.speculation import drafter_of

STOP, LENGTH, ABORT, ERROR = (FINISH_REASONS.index(reason) for reason in ("stop", "length", "abort", "error"))


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

    def submit(self, generation: Generation) -> None:
        """Queue a request; an idle engine begins at once."""
        for sequence in generation.sequences:
            self._owners[sequence] = generation
            self._scheduler.add(sequence)
        self._recorder.observe_arrival(len(generation.sequences), generation.order.tokens_max)
        generation.start()
        if self._step is None:
            self._begin_step()

    def abort(self, generation: Generation) -> None:
        """The client has gone: free what its sequences hold. Those that have finished stay finished.

        Counted as `finished_reason="abort"`, the name that vLLM has for it; by its source, 0.33.0 itself drops the last
        output of such a request uncounted.
        """
        self._drop(generation, ABORT)

    def resume(self, generation: Generation) -> None:
        """The client reads again."""
        if not generation.resume():
            self._drop(generation, ERROR)

    def metrics_of(self, sequence: Sequence) -> dict[str, Any] | None:
        """The `metrics` object that this engine puts into the answer of a finished sequence."""
        return request_metrics(
            sequence,
            timing=self.options.request_timing,
            speculation=self.options.speculation_detail,
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
                self._drop(generation, ERROR)
        self._begin_step()

    def _finish(self, sequence: Sequence, generation: Generation, now_s: float) -> None:
        del self._owners[sequence]
        reason = FINISH_REASONS.index(generation.finish_reason(sequence))
        self._recorder.observe_finished(sequence, reason, generation.order.tokens_max, now_s)

    def _drop(self, generation: Generation, reason: int) -> None:
        now_s = self._timers.time()
        for sequence in generation.sequences:
            if self._owners.pop(sequence, None) is not None:
                self._scheduler.abort(sequence)
                self._recorder.observe_finished(sequence, reason, generation.order.tokens_max, now_s)

    def _step_time(self) -> Callable[[int, int, int, int], float]:
        hardware = self.options.hardware
        drafter = drafter_of(self.options.speculation.method, hardware)
        return lambda tokens, kv_tokens, drafts, sequences: step_s(
            hardware, drafter, tokens, kv_tokens, drafts, sequences
        )
