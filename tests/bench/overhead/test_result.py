"""Samples by peer and load, and what they say about two peers."""

import msgspec
import pytest

from breakeven_bench.overhead.result import cpu_us, decode, encode, ratio
from tests.bench.overhead.results import RESULT, sample


def test_what_was_written_is_read_again():
    assert decode(encode(RESULT)) == RESULT
    with pytest.raises(ValueError, match="schema_version"):
        decode(b"{}")
    with pytest.raises(ValueError, match="version 99, and this program reads 1"):
        decode(encode(msgspec.structs.replace(RESULT, schema_version=99)))
    with pytest.raises(ValueError, match="no samples"):
        decode(encode(msgspec.structs.replace(RESULT, samples=())))


def test_a_round_in_which_something_failed_has_no_price():
    bad = sample("a", "streams", 0, 1.0, failed=1)
    assert cpu_us([bad]) is None
    assert cpu_us([bad, sample("a", "streams", 1, 5.0)]) == 5.0
    good = sample("b", "streams", 0, 2.0)
    assert (ratio([bad], [good]), ratio([good], [bad])) == (None, None)


def test_samples_are_found_by_peer_and_load_in_the_order_of_the_rounds():
    assert [each.round for each in RESULT.of("breakeven", "documents")] == [0, 1, 2]
    assert RESULT.of("nobody", "documents") == []
    assert RESULT.peers() == ["direct", "breakeven", "vllm-router"]
    assert RESULT.loads() == ["documents", "streams", "paced"]


def test_the_figure_of_a_peer_is_the_median_of_its_rounds():
    assert cpu_us([sample("a", "streams", number, value) for number, value in enumerate((9.0, 1.0, 2.0))]) == 2.0
    assert cpu_us([]) is None


def test_two_peers_are_compared_within_each_round_that_both_have():
    ours = [sample("a", "streams", number, value) for number, value in enumerate((1.0, 4.0, 3.0, 50.0))]
    theirs = [sample("b", "streams", number, value) for number, value in enumerate((2.0, 4.0, 4.0))]
    assert ratio(ours, theirs) == (0.75, 0.5, 1.0)
    assert ratio(ours, []) is None
    assert ratio(ours, [sample("b", "streams", 0, 0.0)]) is None
