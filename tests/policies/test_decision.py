"""The closed sets of words: what labels, headers and logs may say."""

import re

import pytest

from breakeven_policies.decision import Reason, Refusal, Refuse


@pytest.mark.parametrize("word", [*Reason, *Refusal])
def test_every_word_is_fit_for_a_label_and_a_header(word: str) -> None:
    assert re.fullmatch(r"[a-z_]+", word)


def test_no_word_means_two_things() -> None:
    words = [*Reason, *Refusal]
    assert len({str(word) for word in words}) == len(words)


@pytest.mark.parametrize("refusal", Refusal)
def test_only_what_health_or_load_alone_prevents_may_succeed_later(refusal: Refusal) -> None:
    assert Refuse(refusal, "any").retryable is (refusal in {Refusal.NO_READY_BACKEND, Refusal.AT_CAPACITY})
