"""Acceptance of an engine over the last minute: one scrape interval is too short for a figure that does not jump."""

from collections import deque

from breakeven.engines.vllm import acceptance_length, draft_acceptance_rate, restarted
from breakeven_policies.snapshot import EngineSignals

WINDOW_S = 60.0
"""Some hundred verify steps even of a nearly idle engine, and short enough to follow a change of workload."""

SPACING_S = 1.0
"""Scrapes closer together than this replace each other, which bounds the window to 61 of them."""


class SignalWindow:
    """Remembers scrapes of one engine; a restart of the engine empties it."""

    def __init__(self) -> None:
        self._scrapes: deque[tuple[float, EngineSignals]] = deque()
        self._latest = EngineSignals()

    def add(self, signals: EngineSignals, now_s: float) -> None:
        """A scrape was read at `now_s`."""
        if restarted(self._latest, signals):
            self._scrapes.clear()
        self._latest = signals
        while self._scrapes and self._scrapes[0][0] < now_s - WINDOW_S:
            self._scrapes.popleft()
        if not self._scrapes or self._scrapes[-1][0] <= now_s - SPACING_S:
            self._scrapes.append((now_s, signals))

    def acceptance_length(self) -> float | None:
        """Mean tokens per verify step over the window; None: unknown, or nothing was drafted."""
        return acceptance_length(self._scrapes[0][1], self._latest) if self._scrapes else None

    def draft_acceptance_rate(self) -> float | None:
        """Accepted share of the drafted tokens over the window; None: likewise."""
        return draft_acceptance_rate(self._scrapes[0][1], self._latest) if self._scrapes else None
