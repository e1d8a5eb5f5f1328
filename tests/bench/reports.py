"""A small finished report for the tests of its three forms."""

from functools import cache

from breakeven_bench.conclusions import RateRuns
from breakeven_bench.engine_page import StepCounts
from breakeven_bench.report import Report, Setup, judged
from breakeven_bench.summary import Target
from tests.bench.runs import GROWING, run


@cache
def report() -> Report:
    """Two rates; at the higher one the threshold rule does not settle and one arm is not believed."""
    idle = (run("threshold", 2.75), run("two-plain", 5.2), run("two-speculative", 2.5))
    busy = (
        run("threshold", 11.0, backlog=GROWING),
        run("two-plain", 6.0, doubts=["9.0% of engine steps late"], steps=StepCounts(1000, 90)),
        run("two-speculative", 4.0),
    )
    setup = Setup(
        title="A <small> comparison",
        started_at="2026-11-30T08:00:00+00:00",
        version="0.1.0",
        python="3.11.7",
        machine="x86_64, 2 cores",
        seed=1,
        seconds=50.0,
        time_scale=2.5,
        simulated=True,
        scope="All this is for one machine only.",
        engines={"engines": "simulated & small"},
        target=Target(),
    )
    return judged(setup, (RateRuns(1.0, idle), RateRuns(5.0, busy)), took_s=99.6)
