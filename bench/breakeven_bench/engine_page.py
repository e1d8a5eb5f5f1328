"""Reads an engine's metrics page for what a run has to know of it: is it idle, and did it keep its own time."""

from dataclasses import dataclass

STEPS = "breakeven_sim_steps_total"
LATE = "breakeven_sim_steps_late_total"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
TIME_SCALE = "breakeven_sim_time_scale"


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Steps of simulated engines, and how many of them ended after their deadline."""

    steps: int
    late: int

    @property
    def late_share(self) -> float:
        """Late steps of all steps; 0 of none."""
        return self.late / self.steps if self.steps else 0.0

    def __add__(self, other: "StepCounts") -> "StepCounts":
        return StepCounts(self.steps + other.steps, self.late + other.late)

    def __sub__(self, other: "StepCounts") -> "StepCounts":
        return StepCounts(self.steps - other.steps, self.late - other.late)


@dataclass(frozen=True, slots=True)
class EnginePage:
    """`requests` are running or waiting there; `counts` is None on a real engine, which has no deadlines to miss."""

    requests: int
    counts: StepCounts | None


def read_engine_page(page: str) -> EnginePage:
    """The page's figures, each summed over its label sets; ValueError where it is not an engine's page."""
    totals: dict[str, float] = {}
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in (STEPS, LATE, RUNNING, WAITING):
            totals[name] = totals.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    if RUNNING not in totals:
        message = f"a metrics page without {RUNNING}"
        raise ValueError(message)
    counts = StepCounts(int(totals[STEPS]), int(totals.get(LATE, 0.0))) if STEPS in totals else None
    return EnginePage(int(totals[RUNNING] + totals.get(WAITING, 0.0)), counts)


def time_scale_on(page: str) -> float | None:
    """Seconds of the engine per second of the wall clock; None on the page of anything but a simulated engine."""
    for line in page.splitlines():
        if line.partition("{")[0].partition(" ")[0] == TIME_SCALE:
            return float(line.rsplit(" ", 1)[1])
    return None
