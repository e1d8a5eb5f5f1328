"""Decides the lines of journals again, under any policy, and says where it would have been otherwise.

`journal_files` finds the files of a journal and reads them line by line. `decisions.Replay` puts each line to every
`decisions.Contestant`, a policy with what it may have learned until then (`relearn`, from the journal's own outcomes,
in the order in which decisions were taken: `order`), and counts in a `tally.Tally`. `report` shows that; `command` is
`breakeven-bench replay`.

Nothing but `journal_files` and `command` does I/O, nothing grows with the length of the journal, and nothing knows the
router: a journal is all that is needed.
"""
