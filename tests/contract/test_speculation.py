"""What an answer says about its own drafts, and that it says the same as the counters of the engine."""

import pytest

from tests.contract.engine import CHAT, COMPLETIONS, DONE
from tests.contract.targets import DRAFT_TOKENS

TOKENS = 48
TIMING = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
SUMMARY = (
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "acceptance_histogram",
    "num_spec_steps",
    "num_accepted_draft_tokens",
    "num_draft_tokens",
    "num_spec_tokens",
)
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


def of(answer):
    return answer["metrics"]["speculative_decoding"]


def check_arithmetic(told):
    """The formulas of vLLM's documentation: the histogram counts verify steps by the drafts they accepted."""
    histogram, steps = told["acceptance_histogram"], told["num_spec_steps"]
    accepted, drafted = told["num_accepted_draft_tokens"], told["num_draft_tokens"]
    assert (len(histogram), sum(histogram)) == (DRAFT_TOKENS + 1, steps)
    assert sum(count * times for count, times in enumerate(histogram)) == accepted
    assert 0 < steps <= drafted <= steps * DRAFT_TOKENS
    assert told["mean_acceptance_length"] == pytest.approx(1 + accepted / steps)
    assert told["draft_acceptance_rate"] == pytest.approx(accepted / drafted)
    assert told["num_spec_tokens"] == DRAFT_TOKENS


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "text"])
async def test_an_answer_says_of_its_drafts_what_the_counters_say(speculative, path, temperature):
    before = await speculative.idle()
    answer = await speculative.answer(path=path, max_tokens=TOKENS, ignore_eos=True, temperature=temperature)
    moved = await speculative.after(before)
    told = of(answer)
    check_arithmetic(told)
    assert moved.value("vllm:spec_decode_num_drafts_total") == told["num_spec_steps"]
    assert moved.value("vllm:spec_decode_num_draft_tokens_total") == told["num_draft_tokens"]
    assert moved.value("vllm:spec_decode_num_accepted_tokens_total") == told["num_accepted_draft_tokens"]


async def test_the_counter_of_a_position_counts_the_steps_that_accepted_that_far(speculative):
    before = await speculative.idle()
    told = of(await speculative.answer(max_tokens=TOKENS, ignore_eos=True))
    moved = (await speculative.after(before)).by_label(PER_POSITION, "position")
    survivors = [sum(told["acceptance_histogram"][position + 1 :]) for position in range(DRAFT_TOKENS)]
    assert [moved[str(position)] for position in range(DRAFT_TOKENS)] == survivors


async def test_every_token_is_the_first_or_comes_out_of_a_step(speculative):
    before = await speculative.idle()
    answer = await speculative.answer(max_tokens=TOKENS, ignore_eos=True)
    told = of(answer)
    steps = (await speculative.after(before)).value("vllm:iteration_tokens_total_count")
    possible = steps + told["num_accepted_draft_tokens"]
    # What the last step accepts behind the end of the answer is counted and never said.
    assert TOKENS <= possible <= TOKENS + DRAFT_TOKENS
    assert told["num_spec_steps"] <= steps - 1


async def test_a_stream_says_it_in_its_usage_event_and_nowhere_else(speculative):
    events = await speculative.stream(max_tokens=TOKENS, ignore_eos=True, stream_options={"include_usage": True})
    *before, closing, _ = events
    check_arithmetic(of(closing))
    assert [event for event in before if event.get("metrics") is not None] == []


async def test_a_stream_without_usage_says_nothing_of_it(speculative):
    events = await speculative.stream(max_tokens=4)
    assert [event for event in events if event != DONE and event.get("metrics") is not None] == []


async def test_the_fields_are_these(plain, speculative):
    told = (await speculative.answer(max_tokens=TOKENS, ignore_eos=True))["metrics"]
    assert [name for name in TIMING if not isinstance(told[name], float)] == []
    assert [name for name in SUMMARY if told["speculative_decoding"].get(name) is None] == []
    told = (await plain.answer(max_tokens=TOKENS, ignore_eos=True))["metrics"]
    assert [name for name in TIMING if not isinstance(told[name], float)] == []
    assert told["speculative_decoding"] is None


async def test_several_choices_have_no_numbers_of_one(speculative):
    assert (await speculative.answer(n=2, temperature=1, max_tokens=TOKENS))["metrics"] is None


async def test_an_answer_of_one_token_had_no_drafts(speculative):
    told = of(await speculative.answer(max_tokens=1))
    assert (told["num_spec_steps"], told["acceptance_histogram"]) == (0, [0] * (DRAFT_TOKENS + 1))
    assert (told["mean_acceptance_length"], told["draft_acceptance_rate"]) == (1.0, 0.0)


async def test_an_answer_that_a_stop_string_ended_says_nothing_of_its_drafts(speculative):
    """The HTTP server finds the string, and the core, which keeps the numbers, tells them with its own ends only."""
    text = (await speculative.answer(max_tokens=TOKENS, ignore_eos=True))["choices"][0]["message"]["content"]
    fields = {"max_tokens": TOKENS, "ignore_eos": True, "stop": [text.split()[6]]}
    answer = await speculative.answer(**fields)
    assert (answer["choices"][0]["finish_reason"], of(answer)) == ("stop", None)
    *_, closing, _ = await speculative.stream(**fields, stream_options={"include_usage": True})
    assert "speculative_decoding" not in closing["metrics"]


async def test_greedy_drafts_fare_worse_at_a_high_temperature(speculative):
    lengths = {}
    for temperature in (0, 2):
        before = await speculative.idle()
        await speculative.answer(max_tokens=3 * TOKENS, ignore_eos=True, temperature=temperature)
        moved = await speculative.after(before)
        accepted = moved.value("vllm:spec_decode_num_accepted_tokens_total")
        lengths[temperature] = 1 + accepted / moved.value("vllm:spec_decode_num_drafts_total")
    assert 1 <= lengths[2] < lengths[0] <= 1 + DRAFT_TOKENS
