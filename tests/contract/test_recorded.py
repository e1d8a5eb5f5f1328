"""The answers are made of the parts that real vLLM's were when it was recorded, and every other part has a reason."""

import json

import pytest
import pytest_asyncio

from breakeven.engines.vllm import read_signals
from breakeven.sse import StreamObserver
from tests.contract.capture import QUESTIONS, capture, file_name, without_folders
from tests.contract.known_differences import ONLY_RECORDED, ONLY_SIMULATED, Difference, differences, judged
from tests.contract.metrics_page import GENERATED, Page
from tests.contract.pages import PAGES, VERSION, recorded
from tests.contract.shapes import of_json, of_metrics, of_stream, shape
from tests.contract.targets import VLLM


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def captured(pair):
    return await capture(*pair)


@pytest.fixture(scope="module")
def kept():
    return recorded()


def shapes(answers):
    return {name: shape(answer.kind, answer.body) for name, answer in answers.items()}


@pytest.mark.vllm
def test_the_release_is_the_recorded_one(captured):
    """The simulated engine says the release whose names it follows, which may be another one than was recorded."""
    version = json.loads(captured["version"].body)["version"].partition("+")[0]
    assert version == VERSION, f"record {version} (tests/contract/record.py), then set pages.VERSION to it"


def test_nothing_that_was_recorded_is_missing_without_a_reason(target, captured, kept):
    missing = differences(shapes(kept), shapes(captured))
    assert judged(missing, () if target is VLLM else ONLY_RECORDED) == ([], [])


def test_nothing_is_there_without_a_reason_that_was_not_recorded(target, captured, kept):
    added = differences(shapes(captured), shapes(kept))
    assert judged(added, () if target is VLLM else ONLY_SIMULATED) == ([], [])


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_has_the_status_the_type_and_the_order_of_the_recorded_one(captured, kept, name):
    here, there = captured[name], kept[name]
    assert (here.status, here.kind) == (there.status, there.kind)
    ours, theirs = shape(here.kind, here.body), shape(there.kind, there.body)
    assert [part for part in ours if part in theirs] == [part for part in theirs if part in ours]


def test_the_router_finds_every_signal_on_a_recorded_page(kept):
    text = kept["metrics-speculative"].body.decode()
    page, signals = Page.read(text), read_signals(text)
    assert [name for name in type(signals).__annotations__ if getattr(signals, name) in (None, ())] == []
    assert signals.generation_tokens == page.value(GENERATED) > 0
    assert signals.engine_steps == page.value("vllm:iteration_tokens_total_count")
    assert signals.drafts == page.value("vllm:spec_decode_num_drafts_total") > 0
    assert sum(signals.accepted_tokens_per_position) == signals.accepted_tokens > 0


@pytest.mark.parametrize("name", [name for name in QUESTIONS if "stream" in name])
def test_the_router_understands_every_recorded_stream(kept, name):
    observer = StreamObserver()
    observer.feed(kept[name].body, 1.0)
    observer.finish(2.0)
    refused = name == "error-min-p-stream"
    assert (observer.done, observer.complete) == (True, True)
    assert observer.error == ("BadRequestError" if refused else None)
    assert observer.finish_reason == (None if refused else "length")
    assert (observer.usage is not None) is ("usage" in name or name == "chat-stream-plain")


def test_the_recording_says_where_it_comes_from(kept):
    source = json.loads((PAGES / VERSION / "provenance.json").read_text(encoding="utf-8"))
    assert source["vllm"].startswith(VERSION)
    assert set(source) == {"vllm", "recorded", "by", "engines", "machine", "changed"}
    assert list(kept) == list(QUESTIONS)


def test_a_recording_holds_no_folder_of_the_machine(kept):
    assert [name for name, answer in kept.items() if without_folders(answer.body) != answer.body] == []


def test_a_path_in_the_file_system_is_taken_out_and_nothing_else():
    content = b'{"root":"/srv/x-1/models/m","id":"a/b","url":"/v1"}'
    assert without_folders(content) == b'{"root":"<folder>","id":"a/b","url":"/v1"}'


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("application/json", "a.json"),
        ("text/event-stream; charset=utf-8", "a.sse"),
        ("text/plain; version=0.0.4", "a.txt"),
        ("", "a.txt"),
    ],
)
def test_an_answer_is_kept_under_a_name_that_says_what_it_is(kind, name):
    assert file_name("a", kind) == name


def test_a_difference_without_a_reason_is_told_and_so_is_a_reason_without_a_difference():
    stale = Difference("chat", "gone: *", "it was")
    good = Difference("chat*", "choices[].index: *", "because")
    found = [("chat-stream", "choices[].index: number"), ("models", "data: text")]
    assert judged(found, (good, stale)) == (["models: data: text"], [stale])


def test_the_shape_of_a_document_is_its_leaves_in_order():
    document = {"b": [{"x": 1}, {"x": None, "y": True}], "a": {}, "c": [], "d": "t"}
    assert of_json(document) == [
        "b[].x: number",
        "b[].x: null",
        "b[].y: truth",
        "a: nothing in it",
        "c: nothing in it",
        "d: text",
    ]


def test_the_shape_of_a_stream_tells_its_kinds_of_events_apart():
    events = (
        {"choices": [{"delta": {"role": "a"}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": None}]},
        {"choices": [{"text": "", "finish_reason": "stop"}]},
        {"choices": [], "usage": 1},
        {"error": 1},
    )
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    kinds = [line.split(" ")[0] for line in of_stream(stream.encode())]
    assert list(dict.fromkeys(kinds)) == ["opening", "text", "last", "closing", "error"]


def test_the_shape_of_a_metrics_page_is_its_series_without_what_is_not_vllms():
    page = '# TYPE vllm:a gauge\nvllm:a{engine="0",model_name="m",reason="r"} 1\n# TYPE up gauge\nup 1\n'
    assert of_metrics(page) == ["vllm:a engine model_name reason=r", "vllm:a is a gauge"]
