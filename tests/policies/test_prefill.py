"""Seconds of prefill per token."""

import random

import pytest

from breakeven_policies.prefill import TOKEN_S_MAX, PrefillTime


def test_too_few_requests_tell_nothing() -> None:
    prefill = PrefillTime()
    assert prefill.token_s() is None
    for tokens in range(0, 1900, 100):
        prefill.observe(tokens, tokens * 0.001, 0.0)
    assert prefill.token_s() is None


def test_prompts_of_one_length_tell_nothing() -> None:
    prefill = PrefillTime()
    for number in range(100):
        prefill.observe(500.0, 0.1 + number / 1000, float(number))
    assert prefill.token_s() is None


def test_times_that_fall_with_the_prompt_are_a_queues() -> None:
    prefill = PrefillTime()
    for number in range(100):
        prefill.observe(number * 20.0, 3.0 - number / 100, 0.0)
    assert prefill.token_s() is None


def test_the_slope_is_found_under_waits_that_every_request_has() -> None:
    prefill, chance = PrefillTime(), random.Random(1)  # noqa: S311  # seeded
    for number in range(400):
        tokens = chance.choice([100.0, 3000.0])
        prefill.observe(tokens, 0.2 + chance.random() * 0.1 + tokens * 0.0002, float(number))
    assert prefill.token_s() == pytest.approx(0.0002, rel=0.1)


def test_a_slower_engine_is_noticed() -> None:
    prefill, chance = PrefillTime(), random.Random(1)  # noqa: S311  # seeded
    for number in range(1200):
        tokens = chance.choice([100.0, 3000.0])
        prefill.observe(tokens, tokens * (0.0002 if number < 200 else 0.0004), 0.0)
    assert prefill.token_s() == pytest.approx(0.0004, rel=0.02)


def test_what_is_slower_than_any_engine_is_bounded() -> None:
    prefill = PrefillTime()
    for number in range(100):
        prefill.observe(number * 20.0, number * 20.0, 0.0)
    assert prefill.token_s() == TOKEN_S_MAX
