"""Intake: what is refused, and that a request's fate follows from the request and the seed alone."""

import pytest

from breakeven_bench.engine.acceptance import Workload
from breakeven_bench.engine.answers import NATURAL_LENGTHS, write_book
from breakeven_bench.engine.errors import EngineError
from breakeven_bench.engine.intake import Intake
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.protocol import ChatRequest, CompletionRequest
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.speculation import DraftSampling, Method, Speculation
from breakeven_policies.request import SamplingDefaults
from tests.bench.engine.engines import EAGLE3, HI, chance

BOOK = write_book()
NOW = 100.0


def intake(**options):
    return Intake(EngineOptions(**options), BOOK, chance)


def chat(where=None, header=None, **fields):
    request = ChatRequest.model_validate({"messages": HI, **fields})
    return (where or intake()).chat(request, header, NOW)


def completion(where=None, **fields):
    return (where or intake()).completion(CompletionRequest.model_validate(fields), None, NOW)


def only(order):
    (choice,) = order.choices
    return choice


def says(order):
    answer = only(order).answer
    return answer.text(0, answer.tokens)


def test_an_unknown_model_is_refused_before_its_parameters_are_read():
    with pytest.raises(EngineError) as caught:
        chat(model="gpt-9", temperature=99)
    assert caught.value.status == 404


@pytest.mark.parametrize("model", [None, "", "llama-70b", "fast"])
def test_every_served_name_and_no_name_at_all_is_accepted(model):
    assert chat(intake(models=("llama-70b", "fast")), model=model).choices


def test_a_prompt_that_leaves_no_room_is_refused():
    with pytest.raises(EngineError, match="maximum context length is 64 tokens"):
        chat(intake(max_model_len=64), messages=[{"role": "user", "content": "x" * 300}])


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_beyond_the_context_is_refused_by_its_name_and_one_that_the_prompt_leaves_no_room_for_is_cut(name):
    with pytest.raises(EngineError, match=f"{name}=65 cannot be greater than max_model_len=64") as caught:
        chat(intake(max_model_len=64), **{name: 65})
    assert caught.value.param == name
    cut = chat(intake(max_model_len=64), **{name: 64}, ignore_eos=True)
    assert cut.tokens_max == 64 - cut.prompt_tokens


def test_so_it_is_on_text_completions():
    with pytest.raises(EngineError, match="max_tokens=65 cannot be greater than max_model_len=64"):
        completion(intake(max_model_len=64), prompt="a", max_tokens=65)


def test_no_prompt_is_refused():
    with pytest.raises(EngineError, match="must be provided and non-empty"):
        completion(prompt=[])


@pytest.mark.parametrize("hint", ["many", [5], {"a": 1}, float("nan"), float("inf")])
def test_a_hint_that_is_no_number_is_refused_rather_than_ignored(hint):
    with pytest.raises(EngineError, match="output_tokens must be a number") as caught:
        chat(metadata={"output_tokens": hint})
    assert caught.value.status == 400


def test_min_p_is_refused_on_a_speculative_engine_only():
    assert chat(min_p=0.05, temperature=0.7).refusal is None
    refused = chat(intake(speculation=EAGLE3), min_p=0.05, temperature=0.7).refusal
    assert "not yet supported with speculative decoding" in refused.message


def test_a_models_own_min_p_makes_a_bare_request_fail_on_a_speculative_engine():
    assert chat(intake(speculation=EAGLE3, defaults=SamplingDefaults(1.3, min_p=0.05))).refusal is not None


def test_equal_requests_are_equal_in_answer_and_luck():
    one, other = only(chat(seed=5)), only(chat(seed=5))
    assert one.answer == other.answer
    assert [one.sequence.chance() for _ in range(5)] == [other.sequence.chance() for _ in range(5)]


def test_a_plain_and_a_speculative_engine_give_a_greedy_prompt_the_same_answer_whatever_their_seeds():
    plain = chat(intake(seed=1), temperature=0)
    assert says(plain) == says(chat(intake(seed=2, speculation=EAGLE3), temperature=0, max_tokens=8000))


def test_another_seed_or_another_prompt_is_another_answer():
    answers = {says(chat()), says(chat(seed=1)), says(chat(intake(seed=9))), says(chat(messages=[]))}
    assert len(answers) == 4


def test_the_choices_of_one_request_differ_and_share_the_cached_prompt():
    long = [{"role": "user", "content": "x" * 400}]
    order = chat(messages=long, n=3, seed=5)
    texts = {choice.answer.text(0, choice.answer.tokens) for choice in order.choices}
    assert len(texts) == 3
    tokens = order.choices[0].sequence.prompt_tokens
    assert [choice.sequence.cached_tokens for choice in order.choices] == [0, tokens // 16 * 16, tokens // 16 * 16]
    assert order.prompt_tokens == tokens


def test_several_prompts_make_choices_of_their_own():
    order = completion(prompt=["one", "another one"], n=2)
    counts = [choice.sequence.prompt_tokens for choice in order.choices]
    assert counts == [1, 1, 3, 3]
    assert order.prompt_tokens == 4
    assert all(choice.sequence.output_tokens <= 16 for choice in order.choices)


def test_output_goes_no_further_than_the_context_allows():
    order = chat(intake(max_model_len=40), ignore_eos=True, max_tokens=40)
    assert order.tokens_max == 40 - order.prompt_tokens == only(order).sequence.output_tokens


@pytest.mark.parametrize("hint", [30, "30", 30.0])
def test_a_hint_chooses_where_the_answer_ends(hint):
    for holder in ("metadata", "vllm_xargs"):
        choice = only(chat(**{holder: {"output_tokens": hint}}))
        assert (choice.sequence.output_tokens, choice.answer.finish_reason) == (30, "stop")


def test_a_hint_below_one_is_one():
    assert only(chat(metadata={"output_tokens": 0})).sequence.output_tokens == 1


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("short_qa", {"metadata": {"workload": "creative_writing"}}),
        (None, {"metadata": {"workload": "short_qa"}}),
        (None, {"vllm_xargs": {"workload": "short_qa"}}),
    ],
)
def test_the_kind_of_text_is_found_in_the_header_first(header, fields):
    low, high = NATURAL_LENGTHS[Workload.SHORT_QA]
    lengths = [only(chat(header=header, seed=seed, **fields)).sequence.output_tokens for seed in range(20)]
    assert low <= min(lengths) <= max(lengths) <= high


def test_acceptance_follows_temperature_text_and_drafting_mode():
    greedy = intake(speculation=EAGLE3)
    probabilistic = intake(speculation=Speculation(Method.EAGLE3, 5, DraftSampling.PROBABILISTIC))

    def acceptance(where, **fields):
        return only(chat(where, **fields)).sequence.acceptance

    assert acceptance(greedy, temperature=0) == pytest.approx(0.81)
    assert acceptance(greedy, temperature=1.5) == pytest.approx(0.38)
    assert acceptance(greedy, temperature=1.5, top_k=1) == pytest.approx(0.81)
    assert acceptance(greedy) == acceptance(greedy, temperature=1.0)
    assert acceptance(probabilistic, temperature=1.5) > 0.7
    assert acceptance(greedy, header="code_generation") > acceptance(greedy, header="creative_writing")


def test_the_models_defaults_decide_where_a_request_is_silent():
    where = intake(speculation=EAGLE3, defaults=SamplingDefaults(temperature=1.5))
    assert only(chat(where)).sequence.acceptance == pytest.approx(0.38)


def test_prompt_lookup_has_a_draft_in_some_steps_only():
    where = intake(speculation=Speculation(Method.NGRAM, 5))
    assert only(chat(where, header="summarization")).sequence.coverage == 0.4


def test_verify_steps_are_listed_where_the_engine_reports_them():
    detailed = intake(speculation=EAGLE3, speculation_detail=SpeculationDetail.DETAILED)
    assert only(chat(detailed)).sequence.verified == []
    assert only(chat(intake(speculation=EAGLE3))).sequence.verified is None


def test_what_the_client_wants_to_see_is_kept():
    options = {"include_usage": True, "continuous_usage_stats": True}
    order = chat(stream=True, stream_options=options)
    assert (order.stream, order.usage, order.continuous_usage) == (True, True, True)
    assert (order.stream_interval, chat(stream_interval=5).stream_interval) == (1, 5)
    assert (chat().stream, chat().usage, chat(stream=None).stream) == (False, False, False)
    assert only(order).sequence.queued_s == NOW
