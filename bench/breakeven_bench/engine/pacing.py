"""When the next engine step begins and ends on the wall clock, and which steps came too late to be believed.

`time_scale` S squeezes S modelled seconds into one second of wall time: with 10 the engine behaves in every respect
like one on ten times faster hardware, and so do all the times that it reports. Multiply what a client measures by S
to get modelled seconds. Time-outs of HTTP and the durations of faults are not scaled.

A timer fires late: by up to a millisecond always, by more on a busy machine. Two rules keep that honest:

- While the engine has work, a step begins at the *deadline* of the step before it, not when its timer fired, so that
  small delays do not add up to a slower engine.
- A delay of more than a whole step is not made up for by a burst of short steps, which no real engine could do: the
  next step begins now, and the time given up is counted in `lost_s`.

A step is *late* when its timer fired more than a quarter of the step, and more than 2 ms, after its deadline: one
tick of the timer and one turn of another process. A run with more than 5 % late steps is not valid.
"""

from dataclasses import dataclass

LATE_SHARE = 0.25
LATE_FLOOR_S = 2e-3


@dataclass(slots=True)
class Pace:
    """Deadlines of one engine. `begin` and `end` alternate; all times are seconds on one monotonic wall clock."""

    time_scale: float
    steps: int = 0
    late: int = 0
    lost_s: float = 0.0
    _length_s: float = 0.0
    _deadline_s: float | None = None

    def begin(self, duration_s: float, now_s: float) -> float:
        """Begin a step of `duration_s` modelled seconds; returns its deadline."""
        length_s = duration_s / self.time_scale
        start_s = now_s
        if self._deadline_s is not None:
            behind_s = now_s - self._deadline_s
            if behind_s <= length_s:
                start_s = self._deadline_s
            else:
                self.lost_s += behind_s
        self._length_s = length_s
        self._deadline_s = start_s + length_s
        return self._deadline_s

    def end(self, now_s: float) -> None:
        """The step's timer fired."""
        if self._deadline_s is None:
            message = "a step ended that never began"
            raise RuntimeError(message)
        self.steps += 1
        if now_s - self._deadline_s > max(LATE_FLOOR_S, LATE_SHARE * self._length_s):
            self.late += 1

    def rest(self) -> None:
        """Nothing is left to do: the next step begins when work arrives."""
        self._deadline_s = None
