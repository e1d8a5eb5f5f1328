"""Means that forget: what was observed loses weight with every later observation and with time."""

HALF_LIFE_S = 1800.0
"""Half an hour: engines drift over hours (vllm-project/vllm issue 41838), and what was true before lunch is a hint."""


class Fading:
    """The mean of a ratio, over a sum of denominators: of steps per token, not of requests, since time adds up so.

    `weight` is how many observations stand behind it now, at most `most`: the effective number of the last ones.
    """

    __slots__ = ("_last_s", "_most", "_over", "_square", "_under", "weight")

    def __init__(self, most: float) -> None:
        self._most = most
        self._over = 0.0
        self._under = 0.0
        self._square = 0.0  # of the distance of single observations from the mean
        self._last_s = 0.0
        self.weight = 0.0

    def add(self, over: float, now_s: float, under: float = 1.0, weight: float = 1.0) -> None:
        """An observation of `over / under`; `under` above 0. Times that go back count as now."""
        if self.weight:
            distance = over / under - self._over / self._under
            keep = self._kept(now_s, weight)
            self._over *= keep
            self._under *= keep
            self._square *= keep
            self.weight *= keep
            self._square += weight * distance * distance
        self._over += weight * over
        self._under += weight * under
        self.weight += weight
        self._last_s = max(self._last_s, now_s)

    @property
    def mean(self) -> float | None:
        """None: nothing was observed."""
        return self._over / self._under if self.weight else None

    @property
    def variance(self) -> float:
        """Of single observations around the mean."""
        return self._square / self.weight if self.weight else 0.0

    def weight_at(self, now_s: float) -> float:
        """`weight`, faded until now."""
        return self.weight * _left(now_s - self._last_s)

    def _kept(self, now_s: float, weight: float) -> float:
        keep = _left(now_s - self._last_s)
        if self.weight * keep > self._most - weight:
            keep = max(0.0, self._most - weight) / self.weight
        return keep


def _left(seconds: float) -> float:
    """What is left of a weight after so long."""
    return float(0.5 ** (seconds / HALF_LIFE_S)) if seconds > 0.0 else 1.0
