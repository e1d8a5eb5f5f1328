"""Seconds of prefill per prompt token: how time to first token grows with the prompt, from one request to the next.

What every request waits alike, a step that is running or a queue, is the intercept and drops out.
"""

from breakeven_policies.fading import HALF_LIFE_S
from breakeven_policies.learned import ENOUGH

REMEMBERED = 200.0
"""Requests that count: enough of each length where a quarter of them is long."""

SPREAD_TOKENS_MIN = 50.0
"""Standard deviation of prompts below which their effect drowns in that of the queue: 15 ms on a 70B model."""

TOKEN_S_MAX = 0.02
"""Fifty prompt tokens a second: what is slower is a queue. A CPU reads a hundred."""


class PrefillTime:
    """Least squares with fading weights: sums of 1, p, t, p*p and p*t."""

    __slots__ = ("_last_s", "_sums")

    def __init__(self) -> None:
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)
        self._last_s = 0.0

    def observe(self, prompt_tokens: float, ttft_s: float, now_s: float) -> None:
        """A request of so many prompt tokens had its first token after so long."""
        keep = 1.0 - 1.0 / REMEMBERED
        if now_s > self._last_s:
            keep *= 0.5 ** ((now_s - self._last_s) / HALF_LIFE_S)
            self._last_s = now_s
        one, p, t, pp, pt = self._sums
        self._sums = (
            one * keep + 1.0,
            p * keep + prompt_tokens,
            t * keep + ttft_s,
            pp * keep + prompt_tokens * prompt_tokens,
            pt * keep + prompt_tokens * ttft_s,
        )

    def token_s(self) -> float | None:
        """None: too few requests, of too equal a length, or no growth that could be prefill's."""
        one, p, t, pp, pt = self._sums
        if one < ENOUGH:
            return None
        variance = pp / one - (p / one) ** 2
        if variance < SPREAD_TOKENS_MIN**2:
            return None
        slope = (pt / one - p * t / (one * one)) / variance
        return min(slope, TOKEN_S_MAX) if slope > 0.0 else None
