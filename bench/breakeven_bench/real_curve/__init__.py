"""When speculation pays on real engines of this machine: measured, kept as one file, told on one page.

Pure: `extent` says how much is measured, `counters` reads vLLM's metrics, `result` is what the file holds, `greedy`
compares answers, `timing` compares times, `findings` says what follows, `page` writes it down. They import nothing that
could measure. I/O: `fleet` starts three engines and a router for each, `measure` asks them, `command` is
`breakeven-bench real-curve`. What travels is a `result.Result`: from the engines into the file, from the file onto the
page.
"""
