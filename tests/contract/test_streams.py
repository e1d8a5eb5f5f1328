"""What a stream is made of: its order, its ids, how many tokens an event holds, and where usage stands."""

from itertools import pairwise

import pytest

from tests.contract.engine import CHAT, COMPLETIONS, DONE, body, text_of

TOKENS = 24
WITH_USAGE = {"stream_options": {"include_usage": True}}
WITH_USAGE_THROUGHOUT = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


@pytest.fixture(params=[CHAT, COMPLETIONS], ids=["chat", "text"])
def path(request):
    return request.param


async def test_a_stream_says_the_role_then_text_then_why_it_ended_then_done(engine):
    events = await engine.stream(max_tokens=TOKENS, ignore_eos=True)
    first, *texts, last, done = events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(event["choices"][0]["finish_reason"] is None for event in texts)
    assert (last["choices"][0]["finish_reason"], done) == ("length", DONE)
    assert all("role" not in event["choices"][0]["delta"] for event in [*texts, last])


async def test_a_text_completion_has_no_first_event_of_its_own(engine):
    *texts, last, done = await engine.stream(path=COMPLETIONS, max_tokens=TOKENS, ignore_eos=True)
    assert all(event["choices"][0]["finish_reason"] is None for event in texts)
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["stop_reason"], done) == ("length", None, DONE)


async def test_every_event_repeats_the_same_head(engine, path):
    events = (await engine.stream(path=path, max_tokens=TOKENS, **WITH_USAGE))[:-1]
    heads = {(event["id"], event["object"], event["created"], event["model"]) for event in events}
    ((request_id, kind, _, _),) = heads
    assert kind == ("chat.completion.chunk" if path == CHAT else "text_completion")
    assert request_id.startswith("chatcmpl-" if path == CHAT else "cmpl-")


async def test_the_id_is_the_clients_own_where_it_gave_one(engine):
    reply = await engine.post(body(), headers=(("Content-Type", "application/json"), ("X-Request-Id", "mine")))
    assert reply.json()["id"] == "chatcmpl-mine"


async def test_a_greedy_answer_is_the_same_streamed_or_not(engine, path):
    fields = {"path": path, "max_tokens": TOKENS, "ignore_eos": True}
    (choice,) = (await engine.answer(**fields))["choices"]
    assert text_of(await engine.stream(**fields)) == (choice["message"]["content"] if path == CHAT else choice["text"])


async def test_a_greedy_answer_is_the_same_from_both_kinds_of_engine(plain, speculative):
    fields = {"max_tokens": TOKENS, "ignore_eos": True}
    assert text_of(await speculative.stream(**fields)) == text_of(await plain.stream(**fields)) != ""


async def test_without_being_asked_no_event_names_usage(engine, path):
    events = await engine.stream(path=path, max_tokens=TOKENS)
    assert [event for event in events if event != DONE and event.get("usage") is not None] == []
    assert all(event == DONE or event["choices"] for event in events)


async def test_usage_comes_in_an_event_of_its_own_before_done(engine, path):
    events = await engine.stream(path=path, max_tokens=TOKENS, ignore_eos=True, **WITH_USAGE)
    *before, closing, done = events
    assert (closing["choices"], done) == ([], DONE)
    assert closing["usage"]["completion_tokens"] == TOKENS
    assert closing["usage"]["total_tokens"] == closing["usage"]["prompt_tokens"] + TOKENS
    assert [event for event in before if event.get("usage") is not None] == []


async def test_continuous_usage_counts_up_to_the_whole(engine, path):
    events = await engine.stream(path=path, max_tokens=TOKENS, ignore_eos=True, **WITH_USAGE_THROUGHOUT)
    *running, closing, _ = events
    counts = [event["usage"]["completion_tokens"] for event in running]
    if path == CHAT:
        assert counts.pop(0) == 0
    assert all(earlier < later for earlier, later in pairwise([0, *counts]))
    assert counts[-1] == closing["usage"]["completion_tokens"] == TOKENS
    assert len({event["usage"]["prompt_tokens"] for event in running} | {closing["usage"]["prompt_tokens"]}) == 1


async def test_continuous_usage_alone_is_no_usage(engine, path):
    events = await engine.stream(path=path, max_tokens=4, stream_options={"continuous_usage_stats": True})
    assert [event for event in events if event != DONE and event.get("usage") is not None] == []


async def test_an_event_is_an_engine_step_and_so_may_hold_several_tokens(engine):
    before = await engine.idle()
    events = await engine.stream(max_tokens=4 * TOKENS, ignore_eos=True, **WITH_USAGE_THROUGHOUT)
    moved = await engine.after(before)
    steps = moved.value("vllm:iteration_tokens_total_count")
    texts = [event for event in events if event != DONE and event["choices"]][1:]
    # A client that reads late gets the tokens of several steps in one event: never more events than steps.
    assert len(texts) <= steps <= 4 * TOKENS
    assert len(texts) > steps / 2


async def test_counting_events_undercounts_an_engine_that_speculates(speculative, plain):
    fields = {"max_tokens": 4 * TOKENS, "ignore_eos": True}
    before = await speculative.idle()
    events = len(await speculative.stream(**fields)) - 2
    accepted = (await speculative.after(before)).value("vllm:spec_decode_num_accepted_tokens_total")
    assert accepted > 0
    assert events < 4 * TOKENS
    assert (await plain.answer(**fields))["usage"]["completion_tokens"] == 4 * TOKENS


async def test_choices_of_one_request_share_a_stream_and_are_told_apart_by_index(engine):
    events = await engine.stream(n=2, temperature=1, max_tokens=TOKENS, ignore_eos=True, **WITH_USAGE)
    parts = [part for event in events if event != DONE for part in event["choices"]]
    assert [part["index"] for part in parts if "role" in part["delta"]] == [0, 1]
    assert sorted(part["index"] for part in parts if part["finish_reason"]) == [0, 1]
    assert events[-2]["usage"]["completion_tokens"] == 2 * TOKENS


async def test_one_token_is_a_whole_stream(engine):
    _, only, closing, done = await engine.stream(max_tokens=1, **WITH_USAGE)
    assert (only["choices"][0]["finish_reason"], closing["usage"]["completion_tokens"], done) == ("length", 1, DONE)


async def test_a_stream_is_chunked_and_says_what_it_is(engine):
    reply = await engine.ask(stream=True)
    assert (reply["content-type"], reply["transfer-encoding"]) == ("text/event-stream; charset=utf-8", "chunked")
    assert reply.values("content-length") == []
