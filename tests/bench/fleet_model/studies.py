"""A small study, made up, for the tests of tables and pages."""

from breakeven_bench.fleet_model.result import SCHEMA_VERSION, Capacity, Provenance, Row, Study

TITLES = {"pair": "plain + k=5", "threshold": "threshold", "equal-k3": "all k=3", "all-a": "all on a"}
PROVENANCE = Provenance("breakeven-bench simulate --pair plain-k5", "0.1.0", "2026-12-01", 1000, 1000, 1)


def row(rate, arm, mean_s, stable=True, load="mixed", world="falls"):
    return Row("pair", world, load, rate, arm, mean_s, 1.0, 0.0, stable)


def study(*rows, capacities=(), **changes):
    return Study(SCHEMA_VERSION, (PROVENANCE,), TITLES | changes, rows, tuple(capacities))


WON = study(
    row(2.0, "all-a", 4.0),
    row(2.0, "threshold", 3.0),
    row(2.0, "told", 2.0),
    row(2.0, "breakeven", 2.1),
    row(2.0, "equal-k3", 1.9),
    row(4.0, "all-a", 9.0, stable=False),
    row(4.0, "threshold", 5.0),
    row(4.0, "told", 4.0),
    row(4.0, "breakeven", 4.1),
    row(4.0, "equal-k3", 4.5),
    capacities=[
        Capacity("pair", "falls", "all-a", 3.0),
        Capacity("pair", "falls", "all-b", 3.5),
        Capacity("pair", "falls", "threshold", 4.0),
        Capacity("pair", "falls", "breakeven", 8.0),
    ],
)
