"""How many sequences an engine runs at once, seen where some wait: its slots, or what its KV cache holds."""

from breakeven_policies.fading import Fading
from breakeven_policies.snapshot import EngineSignals

SIGHTINGS_MIN = 3.0
"""Scrapes in which requests waited before the number is believed: one may stand in the middle of an admission."""

REMEMBERED = 20.0
"""Such scrapes that count: some seconds of saturation."""

SLOTS_MIN = 4
"""A smaller number is one engine's start or end, not its size."""


class Saturation:
    """The running batch of engines in whose queue requests stood at both ends of a scrape interval."""

    def __init__(self) -> None:
        self._running = Fading(REMEMBERED)

    def scraped(self, before: EngineSignals, after: EngineSignals, now_s: float) -> None:
        """Look at two scrapes of one engine."""
        if before.waiting and after.waiting and before.running and after.running:
            self._running.add(max(before.running, after.running), now_s)

    def slots(self) -> int | None:
        """None: nothing has waited there often enough to tell."""
        mean = self._running.mean
        if mean is None or self._running.weight < SIGHTINGS_MIN:
            return None
        return max(SLOTS_MIN, round(mean))
