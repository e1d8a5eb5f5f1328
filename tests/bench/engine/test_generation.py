"""A generation: what its client gets, as a stream or whole, in time or late, and when things go wrong."""

import pytest

from breakeven_bench.engine.answers import write_book
from breakeven_bench.engine.errors import CORE_DEAD
from breakeven_bench.engine.events import Endpoint, Envelope
from breakeven_bench.engine.faults import parse_fault
from breakeven_bench.engine.generation import Generation
from breakeven_bench.engine.intake import Intake
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.protocol import ChatRequest, CompletionRequest
from breakeven_bench.engine.scheduler import Emission
from tests.bench.engine.engines import EAGLE3, HI, RememberingSink, chance, dice, text_of

INTAKE = Intake(EngineOptions(speculation=EAGLE3), write_book(), chance)
METRICS = {"tokens_per_second": 5.0}


def generation(sink, fault=None, endpoint=Endpoint.CHAT, **fields):
    asked = {"messages": HI, "stream": True, "ignore_eos": True, "max_tokens": 10, **fields}
    if endpoint is Endpoint.CHAT:
        order = INTAKE.chat(ChatRequest.model_validate(asked), None, 0.0)
    else:
        order = INTAKE.completion(CompletionRequest.model_validate(asked), None, 0.0)
    envelope = Envelope(endpoint, "id-1", 1, "m", "f")
    made = Generation(order, envelope, sink, lambda *_: METRICS, fault and parse_fault(fault))
    made.start()
    return made


def give(made, tokens, choice=0):
    """A step gives `tokens` to a choice."""
    sequence = made.sequences[choice]
    sequence.generated_tokens += tokens
    finished = sequence.generated_tokens >= sequence.output_tokens
    return made.emit(Emission(sequence, tokens, 0, 0, finished, None))


def test_a_connection_that_dies_in_a_stream_is_cut_after_so_many_events():
    sink = RememberingSink()
    made = generation(sink, {"fault": "die_mid_stream", "after_events": 2})
    assert [give(made, 1) for _ in range(3)] == [True, True, False]
    assert sink.was_cut
    assert len(sink.events) == 3  # the role and two events


def test_an_error_in_a_stream_comes_after_so_many_events_and_the_stream_ends_properly():
    sink = RememberingSink()
    made = generation(sink, {"fault": "error_event", "after_events": 1})
    assert [give(made, 1), give(made, 1)] == [True, False]
    assert sink.events[-2:] == [
        {
            "error": {
                "message": "Internal server error",
                "type": "InternalServerError",
                "param": None,
                "code": 500,
            }
        },
        "[DONE]",
    ]
    assert sink.ended
    assert not sink.was_cut


def test_a_failure_ends_a_stream_with_an_event_and_is_the_whole_of_another_answer():
    stream, whole = RememberingSink(), RememberingSink()
    made = generation(stream)
    give(made, 1)
    made.fail(CORE_DEAD)
    generation(whole, stream=False).fail(CORE_DEAD)
    *_, told, done = stream.events
    assert (told, done, stream.ended) == (whole.answered, "[DONE]", True)
    assert whole.status == told["error"]["code"] == 500


def test_a_stream_has_its_head_before_its_first_token_and_a_whole_answer_has_not():
    streaming, whole = RememberingSink(), RememberingSink()
    generation(streaming)
    generation(whole, stream=False)
    assert (streaming.started, streaming.written) == (True, [])
    assert (whole.started, whole.ended) == (False, False)


def test_each_step_is_one_event_with_all_of_its_tokens():
    sink = RememberingSink()
    made = generation(sink)
    for tokens in (1, 4, 5):
        assert give(made, tokens)
    assert len(sink.written) == 3
    role, *events, done = sink.events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert done == "[DONE]"
    assert text_of(events) == made.order.choices[0].answer.text(0, 10)
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, "length"]
    assert sink.ended


def test_usage_comes_last_and_with_the_metrics_of_the_sequence():
    sink = RememberingSink()
    made = generation(sink, stream_options={"include_usage": True})
    give(made, 4)
    give(made, 6)
    *_, last, usage, done = sink.events
    assert "usage" not in last
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": made.order.prompt_tokens,
        "total_tokens": made.order.prompt_tokens + 10,
        "completion_tokens": 10,
    }
    assert usage["metrics"] == METRICS
    assert done == "[DONE]"


def test_continuous_usage_counts_up_to_the_same_total():
    sink = RememberingSink()
    made = generation(sink, stream_options={"include_usage": True, "continuous_usage_stats": True})
    for tokens in (1, 4, 5):
        give(made, tokens)
    assert [event["usage"]["completion_tokens"] for event in sink.events[:-1]] == [0, 1, 5, 10, 10]


def test_a_whole_answer_comes_with_the_last_token():
    sink = RememberingSink()
    made = generation(sink, stream=False)
    give(made, 9)
    assert not sink.ended
    give(made, 1)
    assert sink.status == 200
    assert sink.answered["choices"][0]["message"]["content"] == made.order.choices[0].answer.text(0, 10)
    assert sink.answered["usage"]["completion_tokens"] == 10
    assert sink.answered["metrics"] == METRICS


def test_several_choices_are_streamed_side_by_side_and_the_stream_ends_with_the_last():
    sink = RememberingSink()
    made = generation(sink, n=2, temperature=1.0, stream_options={"include_usage": True})
    give(made, 10, choice=1)
    assert not sink.ended
    give(made, 4, choice=0)
    give(made, 6, choice=0)
    assert sink.ended
    assert [event["choices"][0]["index"] for event in sink.events[:2]] == [0, 1]
    for index in (0, 1):
        assert text_of(sink.events, index) == made.order.choices[index].answer.text(0, 10)
    usage = sink.events[-2]
    assert usage["usage"]["completion_tokens"] == 20
    assert "metrics" not in usage


def test_a_whole_answer_of_several_choices_waits_for_all_and_has_no_metrics():
    sink = RememberingSink()
    made = generation(sink, stream=False, n=2, temperature=1.0)
    give(made, 10, choice=1)
    assert not sink.ended
    give(made, 10, choice=0)
    assert [choice["index"] for choice in sink.answered["choices"]] == [0, 1]
    assert sink.answered["metrics"] is None


def test_siblings_are_the_choices_of_the_same_prompt():
    made = generation(
        RememberingSink(), endpoint=Endpoint.COMPLETION, prompt=["a", "b"], n=3, temperature=1.0, max_tokens=2
    )
    for sequence in made.sequences[:3]:
        assert made.siblings(sequence) == made.sequences[:3]
    assert made.siblings(made.sequences[4]) == made.sequences[3:]


def test_a_text_stream_has_no_role_and_counts_each_prompt_by_itself():
    sink = RememberingSink()
    options = {"include_usage": True, "continuous_usage_stats": True}
    made = generation(
        sink, endpoint=Endpoint.COMPLETION, prompt=["a", "a longer prompt"], stream_options=options, max_tokens=2
    )
    give(made, 2, choice=0)
    give(made, 2, choice=1)
    first, second, usage, done = sink.events
    assert (first["choices"][0]["index"], second["choices"][0]["index"]) == (0, 1)
    assert (first["usage"]["prompt_tokens"], second["usage"]["prompt_tokens"]) == (1, 4)
    assert usage["usage"]["prompt_tokens"] == 5
    assert done == "[DONE]"


def test_a_client_that_lags_gets_what_it_missed_as_one_event():
    sink = RememberingSink()
    made = generation(sink)
    give(made, 1)
    sink.writable = False
    for tokens in (2, 3):
        assert give(made, tokens)
    assert len(sink.written) == 1
    sink.writable = True
    assert made.resume()
    assert len(sink.written) == 2
    give(made, 4)
    assert text_of(sink.events) == made.order.choices[0].answer.text(0, 10)
    assert sink.ended


def test_a_client_that_lags_at_the_end_gets_the_end_when_it_reads_again():
    sink = RememberingSink(writable=False)
    made = generation(sink)
    give(made, 10)
    assert not sink.ended
    assert made.resume()
    assert sink.events[-1] == "[DONE]"
    assert sink.ended


def test_a_fault_also_strikes_when_a_lagging_client_reads_again():
    sink = RememberingSink()
    made = generation(sink, {"fault": "die_mid_stream", "after_events": 1})
    give(made, 1)
    sink.writable = False
    give(made, 1)
    assert made.resume() is False
    assert sink.was_cut


def test_resuming_a_client_that_missed_nothing_writes_nothing():
    sink = RememberingSink()
    made = generation(sink)
    give(made, 1)
    assert made.resume()
    assert len(sink.written) == 1


def test_a_client_that_reads_again_does_not_get_what_is_not_due():
    sink = RememberingSink()
    made = generation(sink, stream_interval=4)
    give(made, 1)
    give(made, 2)
    assert made.resume()
    assert len(sink.written) == 1


@pytest.mark.parametrize(("limit", "reason"), [(5, "length"), (2000, "stop")])
def test_the_reason_of_the_end_is_that_of_the_answer(limit, reason):
    made = generation(RememberingSink(), max_tokens=limit, ignore_eos=False)
    assert made.finish_reason(made.sequences[0]) == reason


def test_any_split_into_steps_makes_the_same_text():
    luck = dice(7)
    for _ in range(30):
        sink = RememberingSink()
        made = generation(sink, max_tokens=40)
        left = 40
        while left:
            tokens = min(left, luck.randint(1, 6))
            sink.writable = luck.random() < 0.7
            give(made, tokens)
            left -= tokens
        sink.writable = True
        made.resume()
        assert text_of(sink.events) == made.order.choices[0].answer.text(0, 40)
        assert sink.events[-1] == "[DONE]"


def test_with_an_interval_events_wait_for_so_many_tokens_but_the_first_and_the_last_do_not():
    sink = RememberingSink()
    made = generation(sink, stream_interval=4, stream_options={"include_usage": True, "continuous_usage_stats": True})
    for tokens in (1, 1, 2, 3, 2, 1):
        assert give(made, tokens)
    _role, *events, _usage, done = sink.events
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 7, 10]
    assert text_of(events) == made.order.choices[0].answer.text(0, 10)
    assert done == "[DONE]"
