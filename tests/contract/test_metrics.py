"""Which counter moves by how much for a request whose size is known: what every rate of the suite is made of."""

from tests.contract.engine import COMPLETIONS, started
from tests.contract.metrics_page import FINISHED, GENERATED, RUNNING, WAITING
from tests.contract.targets import MODEL, SEQUENCES_MAX

TOKENS = 12
LONG = {"max_tokens": 1500, "ignore_eos": True, "stream": True}

ONE_PER_REQUEST = (
    "vllm:time_to_first_token_seconds_count",
    "vllm:request_time_per_output_token_seconds_count",
    "vllm:e2e_request_latency_seconds_count",
    "vllm:request_queue_time_seconds_count",
    "vllm:request_inference_time_seconds_count",
    "vllm:request_prefill_time_seconds_count",
    "vllm:request_decode_time_seconds_count",
    "vllm:request_prompt_tokens_count",
    "vllm:request_generation_tokens_count",
    "vllm:request_max_num_generation_tokens_count",
    "vllm:request_params_n_count",
    "vllm:request_params_max_tokens_count",
    "vllm:request_num_preemptions_count",
    "vllm:request_prefill_kv_computed_tokens_count",
)

REASONS = {"stop", "length", "abort", "error", "repetition"}


WITHOUT_ENGINE = {"vllm:admission_rejections_total", "vllm:admission_rejections_created"}
"""Counted by the HTTP server, which knows no engines."""


async def moved_by(engine, sequences=1, **fields):
    """The answer, and what moved while the engine gave it."""
    before = await engine.idle()
    answer = await engine.answer(**fields)
    return answer, await engine.after(before, sequences)


async def test_a_refused_request_moves_nothing(engine):
    before = await engine.idle()
    for fields in ({"temperature": 9}, {"model": "nope"}, {"max_tokens": 0}):
        assert (await engine.ask(**fields)).status in {400, 404}
    await engine.answer(max_tokens=1)
    moved = await engine.after(before)
    assert (moved.value(FINISHED), moved.value(GENERATED)) == (1, 1)


async def test_every_series_names_the_model_and_the_engine(engine):
    page = await engine.idle()
    own = {name: dict(labels) for name, labels in page.samples if name.startswith("vllm:") and "_info" not in name}
    lacking = {name for name, labels in own.items() if (labels.get("model_name"), labels.get("engine")) != (MODEL, "0")}
    assert lacking <= WITHOUT_ENGINE


async def test_the_reasons_for_an_end_are_these_five_from_the_start(engine):
    assert set((await engine.page()).by_label(FINISHED, "finished_reason")) == REASONS


async def test_every_counter_has_a_sibling_that_is_a_time_and_no_count(engine):
    page = await engine.page()
    counters = {name for name, kind in page.kinds.items() if kind == "counter" and name.startswith("vllm:")}
    assert {f"{name}_created" for name in counters} <= set(page.kinds)
    created = {value for (name, _), value in page.samples.items() if name == "vllm:generation_tokens_created"}
    assert all(value > 1e9 for value in created)


async def test_usage_is_what_the_counters_count(engine):
    answer, moved = await moved_by(engine, max_tokens=TOKENS, ignore_eos=True)
    usage = answer["usage"]
    assert usage["completion_tokens"] == TOKENS
    assert usage["total_tokens"] == usage["prompt_tokens"] + TOKENS
    assert moved.value(GENERATED) == TOKENS
    assert moved.value("vllm:prompt_tokens_total") == usage["prompt_tokens"]
    assert moved.value("vllm:request_prompt_tokens_sum") == usage["prompt_tokens"]
    assert moved.value("vllm:request_generation_tokens_sum") == TOKENS


async def test_every_histogram_of_requests_has_one_observation_per_request(engine):
    _, moved = await moved_by(engine, max_tokens=TOKENS, ignore_eos=True)
    assert {name: moved.value(name) for name in ONE_PER_REQUEST} == dict.fromkeys(ONE_PER_REQUEST, 1)


async def test_the_longest_answer_is_observed_as_it_became_and_the_limit_as_it_was_asked_for(plain):
    answer = await plain.answer(max_tokens=64, ignore_eos=True)
    stop = answer["choices"][0]["message"]["content"].split()[3]
    answer, moved = await moved_by(plain, max_tokens=64, ignore_eos=True, stop=[stop])
    assert answer["usage"]["completion_tokens"] < 64
    assert moved.value("vllm:request_max_num_generation_tokens_sum") == answer["usage"]["completion_tokens"]
    assert moved.value("vllm:request_params_max_tokens_sum") == 64


async def test_an_answer_that_reaches_its_limit_ends_by_length(engine):
    answer, moved = await moved_by(engine, max_tokens=TOKENS, ignore_eos=True)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert moved.by_label(FINISHED, "finished_reason") == {**dict.fromkeys(REASONS, 0), "length": 1}


async def test_an_answer_that_meets_a_stop_string_ends_by_stop_and_says_which(engine):
    text = (await engine.answer(max_tokens=24, ignore_eos=True))["choices"][0]["message"]["content"]
    stop = text.split()[2]
    answer, moved = await moved_by(engine, max_tokens=24, ignore_eos=True, stop=["@@@@", stop])
    (choice,) = answer["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert choice["message"]["content"] == text[: text.index(stop)]
    assert moved.value(FINISHED, finished_reason="stop") == moved.value(FINISHED) == 1


async def test_every_token_that_is_not_the_first_belongs_to_a_step_with_one_observation(engine):
    _, moved = await moved_by(engine, max_tokens=TOKENS, ignore_eos=True)
    steps = moved.value("vllm:iteration_tokens_total_count")
    assert moved.value("vllm:inter_token_latency_seconds_count") == steps - 1
    accepted = sum(moved.by_label("vllm:spec_decode_num_accepted_tokens_total", "engine").values())
    # The last step may accept drafts behind the end of the answer, which are counted and never said.
    assert TOKENS - accepted <= steps <= TOKENS


async def test_a_step_counts_the_prompt_tokens_it_computed_and_the_tokens_it_emitted(engine):
    _, moved = await moved_by(engine, max_tokens=TOKENS, ignore_eos=True)
    computed = moved.value("vllm:request_prefill_kv_computed_tokens_sum")
    assert moved.value("vllm:iteration_tokens_total_sum") == computed + TOKENS


async def test_prompt_tokens_are_either_computed_or_found(engine):
    answer, moved = await moved_by(engine, max_tokens=TOKENS)
    by_source = moved.by_label("vllm:prompt_tokens_by_source_total", "source")
    assert set(by_source) == {"local_compute", "local_cache_hit", "external_kv_transfer"}
    assert sum(by_source.values()) == answer["usage"]["prompt_tokens"]
    assert by_source["local_cache_hit"] == moved.value("vllm:prompt_tokens_cached_total")
    assert by_source["local_cache_hit"] == moved.value("vllm:prefix_cache_hits_total")
    assert moved.value("vllm:prefix_cache_queries_total") == answer["usage"]["prompt_tokens"]
    assert moved.value("vllm:request_prefill_kv_computed_tokens_sum") == by_source["local_compute"]


async def test_several_choices_are_several_sequences_of_one_request(engine):
    answer, moved = await moved_by(engine, 2, n=2, temperature=1, max_tokens=TOKENS, ignore_eos=True)
    prompt_tokens = answer["usage"]["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] == moved.value(GENERATED) == 2 * TOKENS
    assert moved.value("vllm:prompt_tokens_total") == 2 * prompt_tokens
    assert (moved.value("vllm:request_params_n_count"), moved.value("vllm:request_params_n_sum")) == (1, 2)
    assert moved.value("vllm:request_max_num_generation_tokens_count") == 1
    assert moved.value("vllm:request_max_num_generation_tokens_sum") == TOKENS
    assert moved.value("vllm:e2e_request_latency_seconds_count") == 2


async def test_several_prompts_are_several_requests(engine):
    answer, moved = await moved_by(
        engine, 2, path=COMPLETIONS, prompt=["The river", "A lantern"], max_tokens=TOKENS, ignore_eos=True
    )
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["completion_tokens"] == moved.value(GENERATED) == 2 * TOKENS
    assert moved.value("vllm:prompt_tokens_total") == answer["usage"]["prompt_tokens"]
    assert (moved.value("vllm:request_params_n_count"), moved.value("vllm:request_params_n_sum")) == (2, 2)


async def test_an_idle_engine_holds_nothing(engine):
    page = await engine.idle()
    assert page.value("vllm:kv_cache_usage_perc") == 0
    assert (page.value(RUNNING), page.value(WAITING)) == (0, 0)


async def test_what_runs_is_seen_while_it_runs(engine):
    await engine.idle()
    async with await engine.connect() as client:
        await client.send(started(**LONG), "POST")
        await client.has(b'"content":"')
        page = await engine.until(lambda page: page.value(RUNNING) == 1)
        assert page.value(WAITING) == 0
        assert 0 < page.value("vllm:kv_cache_usage_perc") <= 1
    await engine.idle()


async def test_what_finds_no_slot_waits_for_capacity(plain):
    too_many = 4
    many = {**LONG, "n": SEQUENCES_MAX + too_many, "temperature": 1, "max_tokens": 500}
    await plain.idle()
    async with await plain.connect() as client:
        await client.send(started(**many), "POST")
        page = await plain.until(lambda page: page.value(WAITING) > 0 and page.value(RUNNING) == SEQUENCES_MAX)
        assert page.value(WAITING) == too_many
        assert page.by_label("vllm:num_requests_waiting_by_reason", "reason") == {"capacity": too_many, "deferred": 0}
    await plain.idle()
