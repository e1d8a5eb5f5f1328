"""What has been learned of the engines, as policies read it: immutable, made by `learning`, carried by the snapshot.

Everything that does not depend on the request is computed when this is built, about once a second, and looked up by the
running batch when a request is decided.
"""

from collections.abc import Mapping

from msgspec import Struct

from breakeven_policies.decision import AcceptanceSource

BATCH_MAX = 1024
"""Sequences that one engine runs at once, at most: vLLM's own default is 256 on an A100 and 1,024 on an H100 (0.33.0,
`get_batch_defaults`). Whatever is sent beyond it waits there.
"""

ENOUGH = 20.0
"""Observations of a pool, or of a class there, from which on they are believed without a table."""


class Acceptance(Struct, frozen=True):
    """Tokens per engine step of one class of requests in one pool, at the smallest batches; from 1 upwards.

    `lower` is the lower confidence bound: what a decision counts on. `observations` is how many requests stand behind
    it by now, those of long ago counting less.
    """

    length: float
    lower: float
    observations: float
    source: AcceptanceSource


PLAIN_ACCEPTANCE = Acceptance(1.0, 1.0, 1e9, AcceptanceSource.PLAIN)
"""What does not draft makes one token per step, which nobody has to measure: more observations than anybody makes, and
finite, since JSON knows no infinity and a saved fleet (GET /fleet) is read again."""


class PoolProfile(Struct, frozen=True):
    """One pool's engines in figures; the tuples have an entry for 0 to `slots` sequences, where unknown to `BATCH_MAX`.

    `step_s[b]`: seconds of one engine step; `draft_share[b]`: how much of the acceptance beyond one token is left (1
    unless the engine drafts less in a larger batch); `token_s[b]`: seconds per token of the pool's mean request, never
    falling; `harm[b]`: of the time of a request that joins `b` others, how much they lose together (`h` of `cost`).
    `prefill_s`: seconds per prompt token. `slots`: sequences that run at once, None where nobody knows.
    `acceptance` holds classes and bands of classes (`workload`), `overall` all requests; None: unknown.
    `observations`: requests that the curve was corrected by, those of long ago counting less; `measured`: it began as
    a measured table that fits the fleet, whose hash is `table`. `visits`: requests of each class served there,
    measurable or not.
    """

    step_s: tuple[float, ...]
    draft_share: tuple[float, ...]
    token_s: tuple[float, ...]
    harm: tuple[float, ...]
    prefill_s: float
    slots: int | None = None
    acceptance: Mapping[str, Acceptance] = {}
    overall: Acceptance | None = None
    observations: float = 0.0
    measured: bool = False
    table: str | None = None
    visits: Mapping[str, float] = {}

    @property
    def known(self) -> bool:
        """Whether its step times may be believed."""
        return self.measured or self.observations >= ENOUGH


class Learned(Struct, frozen=True):
    """All pools by name; None is unknown everywhere.

    `lengths`: mean completion tokens by class; `length`: of all requests. `prompt_length`: mean tokens of a prompt.
    `tokens_per_byte`: prompt tokens for each byte of a body. `now_s`: when the last observation came, on the clock of
    the snapshot. `table`: the hash of the measured table that it began with.
    """

    now_s: float
    pools: Mapping[str, PoolProfile] = {}
    lengths: Mapping[str, float] = {}
    length: float | None = None
    prompt_length: float = 250.0
    tokens_per_byte: float = 0.25
    table: str | None = None
