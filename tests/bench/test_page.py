"""The HTML report: complete, self-contained, and safe with any text in it."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from breakeven_bench.page import page
from breakeven_bench.stats import Estimate
from breakeven_bench.verdict import Verdict, Word
from tests.bench.reports import report

VOID = {"meta"}


class Nesting(HTMLParser):
    """Collects the text, and what was opened and not closed in order."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.faults = []
        self.text = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def parsed(made=None):
    nesting = Nesting()
    nesting.feed(page(made or report()))
    nesting.close()
    return nesting


def test_every_element_that_is_opened_is_closed():
    assert (parsed().faults, parsed().open) == ([], [])


def test_the_page_needs_nothing_from_outside():
    assert re.findall(r"(?:src|href|url)\s*[=(]|https?:|@import|<script", page(report())) == []


def test_text_is_never_taken_for_markup():
    assert "<small>" not in page(report())
    assert "A &lt;small&gt; comparison" in page(report())
    assert "simulated &amp; small" in page(report())


def test_conclusions_verdicts_and_setup_are_all_there():
    text = " ".join(parsed().text)
    for expected in (
        *report().conclusions,
        "All this is for one machine only.",
        "gap p95 ms",
        "slower by 10% [10, 10]",
        "unstable: 10 to 20 in flight",
        "INVALID: 9.0% of engine steps late",
        "late steps",
        "9.0%",
        "2.5 seconds of the engine per second of the wall clock",
        "seconds of the engine",
        "Each arm ran once",
    ):
        assert expected in text


def test_simulated_and_real_engines_are_told_apart():
    real = replace(report(), setup=replace(report().setup, simulated=False))
    assert "Simulated engines over real HTTP, no GPU" in page(report())
    assert "Real engines" in page(real)
    assert "no GPU" not in page(real)


def test_a_quantile_shows_its_interval_with_an_open_end_where_the_sample_has_none():
    made = report()
    first = made.rates[0].runs[0]
    given = replace(first, summary=replace(first.summary, latency_p95_s=Estimate(6.1, 5.0, None, 60)))
    rate = replace(made.rates[0], runs=(given, *made.rates[0].runs[1:]))
    shown = page(replace(made, rates=(rate, *made.rates[1:])))
    assert '<td class="interval">6.1 [5.0, ?]</td>' in shown
    assert "a question mark is a bound that fewer than 72 answers do not give" in shown


def test_an_arm_without_an_answer_has_no_point_in_the_chart():
    made = report()
    silent = replace(made.rates[0].runs[0], summary=replace(made.rates[0].runs[0].summary, latency_mean_s=None))
    rate = replace(made.rates[0], runs=(silent,))
    assert page(replace(made, rates=(rate,))).count("<polyline") == 0


def test_a_difference_without_a_bound_is_told_in_words_and_not_drawn_as_zero():
    made = report()
    name = made.rates[0].runs[0].arm.name
    half = Verdict(Word.SLOWER, Estimate(0.1, 0.05, None, 60), "two-speculative")
    before = page(made).count('<g class="slower">')
    rate = replace(made.rates[0], verdicts=dict(made.rates[0].verdicts) | {name: half})
    shown = page(replace(made, rates=(rate, *made.rates[1:])))
    assert shown.count('<g class="slower">') == before - 1
    assert "slower by 10% [5.0, ?]" in shown
