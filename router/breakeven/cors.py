"""Cross-origin requests of browsers, where the configuration allows origins (`cors_origins`); off otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

EXPOSED = (
    b"x-request-id, x-breakeven-pool, x-breakeven-backend, x-breakeven-reason, x-breakeven-policy, x-breakeven-table,"
    b" retry-after"
)
"""Response headers that a script may read."""

PREFLIGHT_AGE_S = 600
"""How long a browser may remember a preflight; Chromium caps it at 7200 s."""


@dataclass(frozen=True, slots=True)
class Cors:
    """`origins` as configured; `*` allows every origin."""

    origins: frozenset[str]

    def lines(self, headers: Mapping[bytes, bytes]) -> bytes:
        """What is added to a response; empty where the request names no allowed origin."""
        if not self.origins:
            return b""
        origin = headers.get(b"origin")
        if origin is None or not ("*" in self.origins or origin.decode("latin-1") in self.origins):
            return b""
        return b"access-control-allow-origin: %b\r\nvary: origin\r\naccess-control-expose-headers: %b\r\n" % (
            origin,
            EXPOSED,
        )

    def preflight(self, headers: Mapping[bytes, bytes]) -> bytes:
        """What is added to `lines` in the answer to OPTIONS; empty where it is no preflight of an allowed origin."""
        if not self.lines(headers) or b"access-control-request-method" not in headers:
            return b""
        wanted = headers.get(b"access-control-request-headers") or b"authorization, content-type"
        return (
            b"access-control-allow-methods: GET, POST, OPTIONS\r\naccess-control-allow-headers: %b\r\n"
            b"access-control-max-age: %d\r\n" % (wanted, PREFLIGHT_AGE_S)
        )
