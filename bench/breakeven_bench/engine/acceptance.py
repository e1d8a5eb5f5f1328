"""How often a draft token is accepted: temperature, its cuts, the kind of text, and the drafting mode.

Every draft position has the same conditional probability `a` (accepted, given that all before it were), so that at
least j drafts are accepted with probability a^j and a step emits (1 - a^(k+1)) / (1 - a) tokens in the mean. What is
known and what is assumed:

- Greedy drafting falls with temperature as the unverified prior says (`breakeven_policies.prior`): the draft is one
  token, accepted with the probability that the target gives it, which sinks as the target's distribution flattens.
- Probabilistic drafting accepts the overlap of two distributions that flatten together. Measured from T=0 to 1.5 on
  SmolLM2-135M it lost 15 % of `a`, published for a 70B head from T=0 to 1 about 1 %; 4 % per unit of temperature lies
  between.
- `top_k` and `top_p` cut the tail that temperature raises: what matters is an *effective* temperature (assumption:
  its form).
- The kind of text moves acceptance at least as much as temperature does (AMD's EAGLE-3 lengths: coding 3.32, writing
  2.33). The factors are assumptions of that order; weighted by the user's prompt mix they average to 1.
- Prompt length is left out: published heads lose acceptance beyond some 2,000 tokens of context, by very different
  amounts.
"""

from enum import StrEnum
from math import log

from breakeven_bench.engine.speculation import DraftSampling, Method
from breakeven_policies.prior import prior_at

ACCEPTANCE_MAX = 0.95
"""No published head exceeds it; it also keeps the logarithm of `a` away from zero."""

PROBABILISTIC_LOSS_PER_UNIT = 0.04
TOP_K_OFF = 64
"""From this many candidates on, `top_k` no longer shapes the distribution (assumption)."""

TOP_P_EXPONENT = 1.5
"""top_p 0.9 leaves 85 % of the temperature's effect, 0.5 a third, 0.05 one per cent (assumption)."""


class Workload(StrEnum):
    """The kind of text that a request asks for; NEUTRAL where nobody says."""

    NEUTRAL = "neutral"
    SHORT_QA = "short_qa"
    SUMMARIZATION = "summarization"
    CODE = "code_generation"
    CREATIVE = "creative_writing"
    TRANSLATION = "translation"
    STRUCTURED = "structured_output"


_FACTORS: dict[Workload, float] = {
    Workload.NEUTRAL: 1.0,
    Workload.SHORT_QA: 1.0,
    Workload.SUMMARIZATION: 1.04,
    Workload.CODE: 1.12,
    Workload.CREATIVE: 0.82,
    Workload.TRANSLATION: 0.9,
    Workload.STRUCTURED: 1.1,
}

_LOOKUP_COVERAGE: dict[Workload, float] = {
    Workload.NEUTRAL: 0.15,
    Workload.SHORT_QA: 0.08,
    Workload.SUMMARIZATION: 0.4,
    Workload.CODE: 0.35,
    Workload.CREATIVE: 0.05,
    Workload.TRANSLATION: 0.05,
    Workload.STRUCTURED: 0.3,
}


def workload_named(name: object) -> Workload:
    """The workload of that name; NEUTRAL for anything else, since clients use `metadata` for their own purposes too."""
    try:
        return Workload(name)  # type: ignore[arg-type]  # any JSON value may stand there; the enum refuses it
    except ValueError:
        return Workload.NEUTRAL


def effective_temperature(temperature: float, top_p: float, top_k: int) -> float:
    """The temperature that would leave as flat a distribution without cuts; `top_k` 0 or -1 means off.

    The tighter of the two cuts decides. 0 for greedy sampling, however it was asked for (temperature 0, or `top_k` 1).
    """
    by_top_k = 1.0 if top_k <= 0 else min(1.0, log(top_k) / log(TOP_K_OFF))
    return float(temperature * min(by_top_k, top_p**TOP_P_EXPONENT))


def conditional_acceptance(temperature: float, workload: Workload, sampling: DraftSampling) -> float:
    """Probability in [0, `ACCEPTANCE_MAX`] that a draft token is accepted after all before it were.

    `temperature` is the effective one.
    """
    if sampling is DraftSampling.GREEDY:
        acceptance = prior_at(temperature).acceptance
    else:
        acceptance = prior_at(0.0).acceptance * (1.0 - PROBABILISTIC_LOSS_PER_UNIT * temperature)
    return min(ACCEPTANCE_MAX, acceptance * _FACTORS[workload])


def draft_coverage(method: Method, workload: Workload) -> float:
    """Share of steps with a proposal: prompt lookup finds one only where text repeats (its figures are assumptions)."""
    return _LOOKUP_COVERAGE[workload] if method is Method.NGRAM else 1.0


def accepted_drafts(drafts: int, acceptance: float, ticket: float) -> int:
    """How many of `drafts` are accepted, by one number uniform in [0, 1): at least j with probability acceptance^j."""
    if acceptance <= 0.0:
        return 0
    return min(drafts, int(log(1.0 - ticket) / log(acceptance)))
