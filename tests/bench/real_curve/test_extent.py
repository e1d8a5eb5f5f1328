"""How much is measured: the same requests for the same arguments, within the time that there is."""

import pytest

from breakeven_bench.real_curve.extent import FULL, QUICK, TEMPERATURES, plan, prompts_sha256
from breakeven_policies import prior


@pytest.mark.parametrize("extent", [FULL, QUICK])
def test_every_concurrency_has_its_number_of_requests_and_enough_to_fill_it(extent):
    pairs = list(zip(extent.concurrencies, extent.timing_requests, strict=True))
    assert all(requests >= streams for streams, requests in pairs)
    assert set(extent.timing_temperatures) <= set(extent.temperatures)


def test_the_full_extent_covers_the_published_temperatures_and_both_sides_of_the_batch_in_twenty_minutes():
    assert tuple(point.temperature for point in prior.PRIOR) == TEMPERATURES
    assert (FULL.concurrencies, FULL.greedy_prompts) == ((1, 4, 16), 50)
    assert FULL.limit_s < 20 * 60
    assert QUICK.limit_s < 3 * 60


def test_requests_take_the_prompts_in_turn_and_begin_again_after_the_last():
    ids = [request.prompt_id for request in plan(4, 8, 0.0, 1, first=48)]
    assert ids == ["writing-9", "reworking-9", "short_qa-0", "code-0"]


def test_each_request_has_a_seed_of_its_own_that_depends_on_nothing_but_its_place():
    first, again, later = plan(3, 8, 0.7, 5), plan(3, 8, 0.7, 5), plan(2, 8, 0.7, 5, first=1)
    assert first == again
    assert [request.seed for request in first] == [5, 6, 7]
    assert [request.seed for request in later] == [6, 7]
    assert {(request.temperature, request.max_tokens, request.output_tokens) for request in first} == {(0.7, 8, 8)}


def test_the_digest_is_a_sha256_that_changes_with_a_prompt(monkeypatch):
    before = prompts_sha256()
    monkeypatch.setattr("breakeven_bench.real_curve.extent.held_out", lambda: iter([("a-0", "a", "Another text.")]))
    assert len(before) == len(prompts_sha256()) == 64
    assert before != prompts_sha256()
