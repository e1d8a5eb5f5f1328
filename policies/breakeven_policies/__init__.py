"""What is known about speculation, and what is decided from it: pure code, no I/O, no clock, no chance, no logging.

Everything travels one way. The router turns a body into a `RequestView` (`request`) and its fleet into a
`FleetSnapshot` (`snapshot`); a policy (`policy` holds the contract, one file holds one policy: `threshold`, `pinned`,
`least_loaded`) answers with a `Route` or a `Refuse` (`decision`). `capability` says which pool would refuse a
request, `explain` shows the verdict on every pool. A measured table (`measured`, `tables/`) says what a kind of pool
did on known engines; `table_match` says whether it speaks of a given pool, and then `measurement` reads it. `prior`
keeps the published figures that no engine of ours has confirmed.

A folder `breakeven_policies` anywhere on the path (PYTHONPATH) adds its modules to these: whoever writes a policy of
his own writes one file and changes nothing that is installed.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
