"""What a proxy costs: the same load directly and through several proxies in turn, and the CPU that each one spends.

`command` is the entry. `loads` says what is asked, `peers` what stands in between, `measure` runs them round by round,
`result` holds what came out and `table` shows it. Three programs run as processes of their own: `canned`, an engine
that answers from canned bytes, `visitor`, the clients, and `bare`, the least that a proxy in Python can do.
`process_cpu` reads what the kernel has counted.
"""
