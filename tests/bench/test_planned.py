"""The body of a planned request says everything that an engine would otherwise decide by itself."""

import orjson

from breakeven_bench.planned import PlannedRequest, chat_body

PLANNED = PlannedRequest(3, "code_generation-0", "code_generation", "Write a loop.", 0.7, 500, 120, 99)


def body(stream_interval=1):
    return orjson.loads(chat_body(PLANNED, "llama", "salt-3", stream_interval))


def test_every_sampling_parameter_is_explicit():
    assert {name: body()[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")} == {
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "max_tokens": 500,
        "seed": 99,
    }


def test_the_answer_is_streamed_with_counts_along_the_way():
    assert body()["stream"] is True
    assert body()["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_the_prefix_cache_is_salted():
    assert body()["cache_salt"] == "salt-3"


def test_a_simulated_engine_learns_the_class_and_the_natural_length_of_the_answer():
    assert body()["metadata"] == {"workload": "code_generation", "output_tokens": "120"}


def test_the_prompt_is_one_message_of_the_user_to_the_named_model():
    assert body()["model"] == "llama"
    assert body()["messages"] == [{"role": "user", "content": "Write a loop."}]


def test_an_interval_of_one_token_is_left_out_since_only_vllm_knows_the_field():
    assert "stream_interval" not in body()
    assert body(4)["stream_interval"] == 4
