"""The proxy: two planes in one event loop.

Bytes travel `downstream` (listening side) -> `proxy` (one request) -> `upstream` (connections to engines) and back.
On the way `endpoints` and `body` view the request, `fleet` shows the engines, a policy of `breakeven_policies`
decides, `exchange` says what happens next, `sse` watches the answer. `probe` keeps `fleet` true; `admin`, `metrics`
and `recorder` tell what happened; `wiring` puts the parts together, `serving` runs them and `__main__` is
the command line.
"""
