"""An event simulator of whole fleets: what a policy makes of engines that it does not know.

Requests (`traffic`, or a production `trace`) with an acceptance that a `worlds.World` gives them come to one or more
`router.Router`, which see the fleet as a real router does: own requests exactly, the engines' pages once a second.
An arm (`arms`) chooses, an `engine.Engine` of some `kinds.EngineKind` serves, `simulation.simulate` runs the clock and
`outcome` judges. `study` makes cells out of `pairs` of pools, worlds and rates; `table` shows them; `command` is
`breakeven-bench simulate`.

Everything but `command` is pure and seeded. Nothing here imports the cost or the curve of the policy `breakeven`: step
times come from `engine.hardware`, and `rule` writes the cost of the design down a second time, for the arms that are
told the truth.
"""
