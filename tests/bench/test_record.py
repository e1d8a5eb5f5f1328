"""Records: raw observations survive the file, and figures follow from them in seconds of the engine."""

from dataclasses import replace

import orjson
import pytest

from breakeven_bench.record import (
    SCHEMA_VERSION,
    ErrorClass,
    RequestRecord,
    decode,
    encode,
    figures,
    inter_event_ms,
    read_records,
    tokens_after_first,
)

RECORD = RequestRecord(
    run_id="r1",
    arm="threshold",
    index=7,
    prompt_id="short_qa-1",
    category="short_qa",
    temperature=0.7,
    max_tokens=100,
    seed=11,
    scheduled_s=10.0,
    sent_s=10.5,
    head_s=10.6,
    end_s=13.1,
    event_s=(11.0, 12.0, 13.0),
    event_tokens=(3, 5, 9),
    reads=3,
    status=200,
    pool="speculative",
    backend="speculative-0",
    reason="temperature_within_threshold",
    prompt_tokens=20,
    completion_tokens=9,
    finish_reason="stop",
)


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, None, "1"])
def test_a_line_of_another_schema_version_is_refused(version):
    line = orjson.dumps(orjson.loads(encode(RECORD)) | {"schema_version": version})
    with pytest.raises(ValueError, match="schema version"):
        decode(line)


@pytest.mark.parametrize("missing", ["run_id", "event_s", "error", "scheduled_s"])
def test_a_line_without_a_field_is_refused_by_its_name(missing):
    raw = orjson.loads(encode(RECORD))
    del raw[missing]
    with pytest.raises(ValueError, match=missing):
        decode(orjson.dumps(raw))


@pytest.mark.parametrize("line", [b"[]", b"3", b"{", b'{"schema_version": 1, "event_s": 3}'])
def test_a_line_that_is_no_record_is_refused(line):
    with pytest.raises(ValueError):  # noqa: PT011  # the message is the parser's or ours
        decode(line)


def test_an_unknown_class_of_error_is_refused():
    raw = orjson.loads(encode(RECORD)) | {"error": "bad_luck"}
    with pytest.raises(ValueError, match="bad_luck"):
        decode(orjson.dumps(raw))


@pytest.mark.parametrize("record", [RECORD, replace(RECORD, error=ErrorClass.TIMEOUT, event_s=(), event_tokens=())])
def test_a_record_survives_its_line(record):
    line = encode(record)
    assert line.count(b"\n") == 1
    assert decode(line) == record


def test_a_field_that_a_later_minor_writer_added_is_ignored():
    assert decode(orjson.dumps(orjson.loads(encode(RECORD)) | {"novelty": 1})) == RECORD


def test_a_file_is_read_line_by_line_and_blank_lines_are_skipped():
    assert list(read_records([encode(RECORD), b"\n", encode(RECORD)])) == [RECORD, RECORD]


@pytest.mark.parametrize(
    "failed", [replace(RECORD, error=ErrorClass.TRUNCATED), replace(RECORD, event_s=(), event_tokens=())]
)
def test_a_failed_request_has_no_figures(failed):
    assert figures(failed) is None


def test_latency_counts_from_the_scheduled_time_and_not_from_the_late_send():
    made = figures(RECORD)
    assert made is not None
    assert (made.latency_s, made.ttft_s) == (3.0, 1.0)


def test_the_time_per_token_leaves_out_the_tokens_of_the_first_event():
    made = figures(RECORD)
    assert made is not None
    # 2 s between first and last event, 9 - 3 tokens in it, in two events
    assert made.tpot_ms == pytest.approx(1000.0 * 2.0 / 6)
    assert made.tokens_per_event == 3.0


def test_without_counts_along_the_stream_the_first_event_counts_as_one_token():
    assert tokens_after_first(replace(RECORD, event_tokens=(0, 0, 0))) == 8


@pytest.mark.parametrize(
    "record",
    [
        replace(RECORD, event_s=(11.0,), event_tokens=(9,)),
        replace(RECORD, completion_tokens=None),
        replace(RECORD, completion_tokens=3),
    ],
    ids=["one event", "no usage", "all in the first event"],
)
def test_without_a_later_token_there_is_no_time_per_token(record):
    made = figures(record)
    assert made is not None
    assert (made.tpot_ms, made.tokens_per_event) == (None, None)


def test_a_simulated_engine_that_runs_ten_times_faster_reports_ten_times_its_wall_clock():
    plain, scaled = figures(RECORD), figures(replace(RECORD, time_scale=10.0))
    assert plain is not None
    assert scaled is not None
    assert scaled.latency_s == 10.0 * plain.latency_s
    assert scaled.ttft_s == 10.0 * plain.ttft_s
    assert plain.tpot_ms is not None
    assert scaled.tpot_ms == pytest.approx(10.0 * plain.tpot_ms)
    assert scaled.tokens_per_event == plain.tokens_per_event


def test_gaps_between_events_are_milliseconds_of_the_engine():
    assert inter_event_ms(replace(RECORD, event_s=(1.0, 1.5, 3.0), time_scale=2.0)) == (1000.0, 3000.0)
