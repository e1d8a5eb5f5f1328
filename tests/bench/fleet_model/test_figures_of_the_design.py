"""The simulator against the means of an independent simulation of the same fleet (the design's section 1).

They differ in what was not written down there: prompts, scatter, and who wins a tie on an idle fleet.
"""

import pytest

from breakeven_bench.fleet_model.arms import arms_of
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.study import Cell, Extent, run_cell

pytestmark = pytest.mark.slow

SHORT = Extent(part=200, warm_up=150)

DESIGN = [
    ("plain-k5", "equal-plain", 0.5, 5.00),
    ("plain-k5", "equal-plain", 6.0, 7.04),
    ("plain-k5", "equal-k3", 0.5, 2.43),
    ("plain-k5", "equal-k3", 6.0, 3.56),
    ("plain-k5", "equal-dynamic", 6.0, 3.48),
    ("plain-k5", "threshold", 2.0, 2.91),
    ("plain-k5", "told", 4.0, 3.60),
    ("plain-k5", "told", 6.0, 4.89),
    ("plain-k3", "told", 4.0, 3.52),
    ("plain-dynamic", "told", 6.0, 4.48),
]
"""Mean seconds per request where acceptance falls with temperature."""


@pytest.mark.parametrize(("pair", "name", "rate", "mean_s"), DESIGN)
def test_the_mean_of_the_design_comes_out(pair, name, rate, mean_s):
    arm = next(arm for arm in arms_of(PAIRS[pair]) if arm.name == name)
    assert run_cell(Cell(arm, "falls", rate), SHORT).mean_s == pytest.approx(mean_s, rel=0.1)
