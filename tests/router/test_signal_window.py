"""`breakeven.signal_window`: acceptance over the last minute, unknown where it cannot be told."""

import pytest

from breakeven.signal_window import SPACING_S, WINDOW_S, SignalWindow
from breakeven_policies.snapshot import EngineSignals


def scrape(drafts: float, accepted: float, k: int = 3) -> EngineSignals:
    return EngineSignals(drafts=drafts, draft_tokens=k * drafts, accepted_tokens=accepted)


def test_without_a_scrape_and_after_a_single_one_nothing_is_known() -> None:
    window = SignalWindow()
    assert window.acceptance_length() is None
    assert window.draft_acceptance_rate() is None
    window.add(scrape(10, 10), 0.0)
    assert window.acceptance_length() is None


def test_the_figure_spans_the_window_and_not_the_last_interval() -> None:
    window = SignalWindow()
    for second, (drafts, accepted) in enumerate([(0, 0), (10, 5), (20, 30)]):
        window.add(scrape(drafts, accepted), float(second))
    assert window.acceptance_length() == 2.5
    assert window.draft_acceptance_rate() == 0.5


def test_what_is_older_than_the_window_is_forgotten() -> None:
    window = SignalWindow()
    window.add(scrape(0, 0), 0.0)
    window.add(scrape(100, 0), 1.0)
    window.add(scrape(110, 20), WINDOW_S + 0.5)
    assert window.acceptance_length() == 3.0


def test_a_restart_empties_the_window() -> None:
    window = SignalWindow()
    window.add(scrape(100, 100), 0.0)
    window.add(scrape(1, 1), 2.0)
    assert window.acceptance_length() is None
    window.add(scrape(11, 6), 4.0)
    assert window.acceptance_length() == 1.5


def test_fast_scrapes_do_not_fill_the_memory_and_the_latest_one_counts() -> None:
    window = SignalWindow()
    for step in range(20_000):
        window.add(scrape(step, 2 * step), step * SPACING_S / 200)
    assert len(window._scrapes) <= WINDOW_S / SPACING_S + 1
    assert window.acceptance_length() == pytest.approx(3.0)
