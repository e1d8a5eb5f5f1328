"""A published table that nobody here has measured: how acceptance and speed-up fall with temperature.

UNVERIFIED PRIOR. The table comes with the user's benchmark document (EAGLE-3 on Llama 3.1 70B, 4x A100 80 GB,
vLLM 0.7.3, 500 prompts, one request at a time). That version of vLLM holds no EAGLE-3 code, so the figures cannot have
been produced as described. They seed a simulator or an empty policy; they are never data, and whatever comes to show
them has to show `SOURCE` too.

"Acceptance" is read as the conditional probability that a draft token is accepted, given that all before it were: only
then does the step-time ratio that the table implies, expected length over speed-up, stay nearly constant over
temperature (1.24 to 1.40 at k=5), as it must at a fixed load. vLLM's own "acceptance rate" (accepted over drafted) is
another number.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import isnan

SOURCE = "user prior, unverified: EAGLE-3, Llama 3.1 70B, 4x A100 80 GB, k=5, single stream"

DRAFT_TOKENS = 5
"""k of the published run; `speedup` means nothing for another k."""


@dataclass(frozen=True, slots=True)
class PriorPoint:
    """What the table says at one temperature.

    `acceptance` is the conditional probability in [0, 1] that a draft token is accepted; `speedup` is the ratio of
    end-to-end times without and with speculation, one request at a time, at k = `DRAFT_TOKENS`.
    """

    temperature: float
    acceptance: float
    speedup: float


PRIOR: tuple[PriorPoint, ...] = (
    PriorPoint(0.0, 0.81, 2.89),
    PriorPoint(0.3, 0.76, 2.61),
    PriorPoint(0.5, 0.71, 2.38),
    PriorPoint(0.7, 0.64, 2.08),
    PriorPoint(1.0, 0.55, 1.72),
    PriorPoint(1.2, 0.47, 1.41),
    PriorPoint(1.5, 0.38, 1.15),
)

_TEMPERATURES = tuple(point.temperature for point in PRIOR)


def prior_at(temperature: float) -> PriorPoint:
    """The table at a temperature: linear between its rows; outside them the nearest row holds, so nothing is invented.

    Raises ValueError for a temperature that is not a number: an answer would depend on how the search compares it.
    """
    if isnan(temperature):
        message = "the prior has no row for a temperature that is not a number"
        raise ValueError(message)
    above = bisect_right(_TEMPERATURES, temperature)
    if above == 0:
        low = high = PRIOR[0]
    elif above == len(PRIOR):
        low = high = PRIOR[-1]
    else:
        low, high = PRIOR[above - 1], PRIOR[above]
    span = high.temperature - low.temperature
    share = (temperature - low.temperature) / span if span else 0.0
    return PriorPoint(
        temperature=temperature,
        acceptance=low.acceptance + share * (high.acceptance - low.acceptance),
        speedup=low.speedup + share * (high.speedup - low.speedup),
    )


def expected_acceptance_length(acceptance: float, draft_tokens: int) -> float:
    """Expected tokens per verify step, between 1 and `draft_tokens` + 1, the bonus or recovered token included.

    `(1 - a^(k+1)) / (1 - a)` for conditional acceptance `a` in [0, 1] at every one of `k` positions: the sum of the
    probabilities that at least j drafts are accepted. Source: Leviathan et al. 2023, equation 1. Raises ValueError
    where `acceptance` is no probability or `draft_tokens` is negative.
    """
    if not 0.0 <= acceptance <= 1.0 or draft_tokens < 0:
        message = f"no acceptance length for acceptance {acceptance!r} and {draft_tokens} draft tokens"
        raise ValueError(message)
    if acceptance == 1.0:
        return draft_tokens + 1.0
    return float((1.0 - acceptance ** (draft_tokens + 1)) / (1.0 - acceptance))
