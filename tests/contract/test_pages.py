"""The pages that a router and a suite ask for beside the answers themselves."""

from tests.contract.engine import HI, body
from tests.contract.targets import DRAFT_TOKENS, MODEL, MODEL_LEN_MAX

METRICS_TYPES = {"text/plain; version=0.0.4; charset=utf-8", "text/plain; version=1.0.0; charset=utf-8"}
"""Which one depends on the release of prometheus-client; the text is the same."""


async def test_health_is_an_empty_200(plain):
    reply = await plain.get("/health")
    assert (reply.status, reply.body, reply.values("content-type")) == (200, b"", [])


async def test_the_version_is_a_text_and_nothing_else(plain):
    reply = await plain.get("/version")
    assert (reply.status, reply["content-type"]) == (200, "application/json")
    ((name, version),) = reply.json().items()
    assert (name, version[0].isdigit(), version.count(".") >= 2) == ("version", True, True)


async def test_the_models_are_the_served_names_with_their_context_length(plain, speculative):
    for engine in (plain, speculative):
        reply = await engine.get("/v1/models")
        listed = reply.json()
        (card,) = listed["data"]
        assert (reply["content-type"], listed["object"]) == ("application/json", "list")
        assert (card["id"], card["object"], card["max_model_len"]) == (MODEL, "model", MODEL_LEN_MAX)
        assert (card["owned_by"], card["parent"]) == ("vllm", None)


async def test_a_page_of_metrics_is_prometheus_text(plain):
    reply = await plain.get("/metrics")
    assert reply["content-type"] in METRICS_TYPES
    assert reply.body.endswith(b"\n")


async def test_only_a_speculative_engine_has_counters_of_speculation(plain, speculative):
    def counters(page):
        return {name for name in page.kinds if "spec_decode" in name and not name.endswith("_created")}

    assert counters(await plain.page()) == set()
    page = await speculative.page()
    per_position = page.by_label("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
    assert list(per_position) == [str(position) for position in range(DRAFT_TOKENS)]
    assert len(counters(page)) == 4


async def test_tokenize_counts_what_usage_counts(plain):
    counted = (await plain.post(body(max_tokens=..., temperature=...), "/tokenize")).json()
    assert counted["count"] == len(counted["tokens"]) == (await plain.answer())["usage"]["prompt_tokens"]
    assert (counted["max_model_len"], counted["token_strs"]) == (MODEL_LEN_MAX, None)


async def test_tokenize_and_detokenize_are_each_others_inverse(plain):
    text = "The river carries a lantern, slowly."
    tokens = (await plain.post(f'{{"prompt":"{text}"}}'.encode(), "/tokenize")).json()["tokens"]
    reply = await plain.post(f'{{"tokens":{tokens}}}'.encode(), "/detokenize")
    assert (reply.status, reply.json()) == (200, {"prompt": text})


async def test_a_longer_conversation_counts_more(plain):
    one = (await plain.answer())["usage"]["prompt_tokens"]
    both = (await plain.answer(messages=[*HI, {"role": "assistant", "content": "ho"}, *HI]))["usage"]["prompt_tokens"]
    assert one < both
