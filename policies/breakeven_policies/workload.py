"""The class of a request: what its acceptance and its length are learned by.

Acceptance depends on how sharp the distributions are that tokens are drawn from, on the length of the context (EAGLE-3:
2.3 tokens per step at 2k of context, 1.7 at 8k, vllm-project/speculators PR 684) and on what is written (code against
role-play as far apart as temperature 0 and 1). What is written is known only where the application says so; that the
answer is held to a form is visible.

The number of classes is bounded, since each is remembered in each pool: five bands by three sizes by two forms, and
five bands for every configured name.
"""

from breakeven_policies.request import RequestView

BANDS = ("t0", "t1", "t2", "t3", "t4")
"""Effective temperature: greedy; up to 0.4, 0.85 and 1.05; above. Between the rows of published tables, and so that
both 1.0, the protocol's default, and 0.7, which many clients send, stand well inside a band.
"""

NAMED_MAX = 32
"""Names of workloads that may be configured: 190 classes in all, of which each pool remembers some 100 bytes."""

CLASSES_MAX = len(BANDS) * (3 * 2 + NAMED_MAX)

OTHER = "t2/other"
"""Where classes would be more than that."""

GREEDY_BELOW = 1e-5
"""vLLM 0.33.0 `SamplingParams`: below this temperature it takes the most likely token."""

_MEDIUM_BYTES = 4 * 1024
"""About 1,000 tokens of English, where prefill begins to be felt."""

_LONG_BYTES = 32 * 1024
"""About 8,000 tokens, where published acceptance has fallen by a quarter."""


def workload_of(request: RequestView, named: str | None = None) -> str:
    """The class, as `band/size/form` or `band/name`: one of at most `CLASSES_MAX`.

    `named`: what the application calls it, if not by the request itself. The caller sees to it that only configured
    names come here (`RequestView.workload_name`).
    """
    band = BANDS[_band(request)]
    name = named or request.workload_name
    if name is not None:
        return f"{band}/{name}"
    size_bytes = request.prompt_bytes
    size = "short" if size_bytes < _MEDIUM_BYTES else "medium" if size_bytes < _LONG_BYTES else "long"
    return f"{band}/{size}/{'formed' if request.structured or request.has_tools else 'free'}"


def band_of(workload: str) -> str:
    """The band that a class belongs to."""
    return workload[:2]


def _band(request: RequestView) -> int:
    """Index of the band; what cuts the distribution to a few tokens sharpens it as a lower temperature would.

    With top_k 1 or nearly no nucleus it is greedy whatever the temperature; with a handful of tokens left, one band
    lower.
    """
    temperature, top_k, top_p = request.temperature, request.top_k, request.top_p
    if temperature < GREEDY_BELOW or top_k == 1 or top_p <= 0.1:
        return 0
    band = 1 if temperature <= 0.4 else 2 if temperature <= 0.85 else 3 if temperature <= 1.05 else 4
    if band > 1 and (1 < top_k <= 5 or top_p <= 0.5):
        return band - 1
    return band
