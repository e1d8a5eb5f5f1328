"""A production trace: read strictly, stretched without losing its bursts."""

import pytest

from breakeven_bench.fleet_model.trace import OUTPUT_TOKENS_MAX, PROMPT_TOKENS_MAX, read_trace, stretched

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens"
LINES = [
    HEAD,
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:50.6805900,396,109",
    "2023-11-16 18:15:54.6805900,0,9",
]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "not a trace"),
        (["a,b,c", "1,2,3"], "not a trace"),
        ([HEAD], "no requests"),
        ([HEAD, "yesterday,1,2"], "line 2 of the trace"),
        ([*LINES, "2023-11-16 18:15:46.1"], "line 5 of the trace"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_line(lines, message):
    with pytest.raises(ValueError, match=message):
        read_trace(lines, 10)


def test_times_count_from_the_first_request_and_sizes_are_bounded():
    asked = read_trace([*LINES, "2023-11-16 18:15:55,999999,999999"], 10)
    assert [each.at_s for each in asked] == pytest.approx([0.0, 4.0, 8.0, 8.31941])
    assert (asked[2].prompt_tokens, asked[0].output_tokens) == (1, 44)
    assert (asked[3].prompt_tokens, asked[3].output_tokens) == (PROMPT_TOKENS_MAX, OUTPUT_TOKENS_MAX)


def test_only_as_many_lines_as_wanted_are_read():
    assert len(read_trace([*LINES, "broken"], 3)) == 3


def test_a_stretched_trace_has_the_rate_and_keeps_its_proportions():
    fast = stretched(read_trace(LINES, 10), 3, 2.0)
    assert [each.at_s for each in fast] == pytest.approx([0.0, 0.5, 1.0])


def test_a_short_trace_begins_again():
    twice = stretched(read_trace(LINES, 10), 6, 1.0)
    assert [each.at_s for each in twice] == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert [each.output_tokens for each in twice] == [44, 109, 9] * 2


def test_requests_of_one_moment_stay_at_one_moment():
    assert [each.at_s for each in stretched(read_trace(LINES[:2], 10), 2, 1.0)] == [0.0, 0.0]
