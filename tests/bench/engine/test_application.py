"""Every path of the engine over real HTTP, asked by the clients that it is made for: openai, Prometheus, and us."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_policies.request import SamplingDefaults
from tests.bench.engine.engines import EAGLE3, HI, eventually, running_engine, text_of

CHAT = "/v1/chat/completions"
SHORT = {"messages": HI, "max_tokens": 20, "ignore_eos": True}


@asynccontextmanager
async def asking(**options):
    """An engine and a client for it."""
    async with running_engine(**options) as engine, client_of(engine) as http:
        yield http


def client_of(engine):
    return httpx.AsyncClient(base_url=engine.url, trust_env=False, verify=False)  # noqa: S501  # there is no TLS


async def shown(http, name, **labels):
    page = (await http.get("/metrics")).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def switch(http, **fault):
    answer = await http.post("/sim/faults", json=fault)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(http, **fields):
    async with http.stream("POST", CHAT, json={**SHORT, "stream": True, **fields}) as answer:
        body = await answer.aread()
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


# What is refused


@pytest.mark.parametrize("path", ["/", "/v1/embeddings", "/v1/chat", "/metrics2"])
async def test_a_path_that_vllm_would_not_have_is_not_found(path):
    async with asking() as http:
        answer = await http.post(path, json={})
    assert answer.status_code == 404
    assert answer.json() == {"detail": "Not Found"}


async def test_a_slash_too_many_is_sent_to_the_path_without_it():
    async with asking() as http:
        answer = await http.post(f"{CHAT}/", json={})
    assert (answer.status_code, answer.content) == (307, b"")
    assert httpx.URL(answer.headers["location"]).path == CHAT


@pytest.mark.parametrize(("method", "path"), [("GET", CHAT), ("POST", "/health"), ("PUT", "/sim/faults")])
async def test_a_path_asked_with_another_method_is_not_allowed(method, path):
    async with asking() as http:
        answer = await http.request(method, path)
    assert answer.status_code == 405
    assert answer.json() == {"detail": "Method Not Allowed"}
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST"}


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/tokenize", "/detokenize"])
async def test_what_is_not_json_is_refused(path):
    async with asking() as http:
        form = await http.post(path, content="a=1", headers={"content-type": "application/x-www-form-urlencoded"})
        broken = await http.post(path, content="{", headers={"content-type": "application/json"})
    assert form.status_code == broken.status_code == 400
    assert "Unsupported Media Type" in form.json()["error"]["message"]
    assert "json_invalid" in broken.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"model": "gpt-9", "messages": HI}),
        ("/v1/completions", {"model": "gpt-9", "prompt": "hi"}),
        ("/tokenize", {"model": "gpt-9", "prompt": "hi"}),
        ("/detokenize", {"model": "gpt-9", "tokens": [1]}),
    ],
)
async def test_an_unknown_model_is_not_found_on_any_path(path, body):
    async with asking() as http:
        answer = await http.post(path, json=body)
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "The model `gpt-9` does not exist. Valid aliases: llama-70b.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


async def test_what_a_speculative_engine_cannot_sample_is_refused_and_not_counted():
    async with asking(speculation=EAGLE3) as http:
        answer = await http.post(CHAT, json={"messages": HI, "temperature": 0.7, "min_p": 0.05})
        assert await shown(http, "vllm:request_params_n_count") == 0
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        }
    }


async def test_tokenizing_nothing_is_refused():
    async with asking() as http:
        answer = await http.post("/tokenize", json={})
    assert answer.status_code == 400


# What is answered


async def test_a_living_engine_is_healthy_and_says_which_vllm_it_is():
    async with asking() as http:
        health = await http.get("/health")
        version = await http.get("/version")
    assert (health.status_code, health.content) == (200, b"")
    assert version.json() == {"version": "0.33.0"}


async def test_every_served_name_is_listed_with_the_context_length():
    async with asking(models=("llama-70b", "fast"), max_model_len=4096) as http:
        listed = (await http.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert [card["id"] for card in listed["data"]] == ["llama-70b", "fast"]
    assert {card["max_model_len"] for card in listed["data"]} == {4096}
    assert {card["owned_by"] for card in listed["data"]} == {"vllm"}


async def test_tokens_of_a_prompt_are_those_that_usage_counts_and_can_be_undone():
    async with asking() as http:
        tokens = (await http.post("/tokenize", json={"messages": HI})).json()
        usage = (await http.post(CHAT, json=SHORT)).json()["usage"]
        text = {"prompt": "ab cé 번역", "return_token_strs": True}
        split = (await http.post("/tokenize", json=text)).json()
        back = (await http.post("/detokenize", json={"tokens": split["tokens"]})).json()
    assert tokens["count"] == len(tokens["tokens"]) == usage["prompt_tokens"]
    assert tokens["max_model_len"] == 8192
    assert tokens["token_strs"] is None
    assert len(split["token_strs"]) == split["count"]
    assert back == {"prompt": "ab cé 번역"}


async def test_the_metrics_page_is_what_prometheus_expects():
    async with asking(speculation=EAGLE3) as http:
        answer = await http.get("/metrics")
        with_slash = await http.get("/metrics/")
    assert answer.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"vllm:num_requests_running", "vllm:spec_decode_num_drafts", "breakeven_sim_steps"} <= names
    assert with_slash.status_code == 200


async def test_an_answer_can_be_had_whole_or_as_a_stream_and_says_the_same():
    async with asking() as http:
        whole = (await http.post(CHAT, json=SHORT)).json()
        events = await stream(http)
    assert text_of(events) == whole["choices"][0]["message"]["content"]
    assert events[-1] == "[DONE]"
    assert whole["model"] == "llama-70b"
    assert whole["usage"]["completion_tokens"] == 20


async def test_the_id_of_an_answer_is_built_from_the_clients_own():
    async with asking() as http:
        named = await http.post(CHAT, json=SHORT, headers={"x-request-id": "abc"})
        unnamed = await http.post("/v1/completions", json={"prompt": "hi"})
    assert named.json()["id"] == "chatcmpl-abc"
    assert len(unnamed.json()["id"]) == len("cmpl-") + 16


async def test_the_kind_of_text_may_stand_in_a_header():
    async with asking(time_scale=1000.0) as http:
        body = {"messages": HI, "temperature": 0}
        lengths = set()
        for workload in ("creative_writing", "short_qa"):
            answer = await http.post(CHAT, json=body, headers={"x-breakeven-workload": workload})
            lengths.add(answer.json()["usage"]["completion_tokens"])
    assert len(lengths) == 2


async def test_the_models_defaults_hold_where_a_request_is_silent():
    async with asking(speculation=EAGLE3, defaults=SamplingDefaults(min_p=0.05)) as http:
        bare = await http.post(CHAT, json=SHORT)
        greedy = await http.post(CHAT, json={**SHORT, "temperature": 0})
    assert (bare.status_code, greedy.status_code) == (400, 200)


# The clients it is made for


@pytest.mark.slow
async def test_the_official_client_streams_and_asks_whole_answers():
    async with (
        running_engine(
            speculation=EAGLE3, request_timing=True, speculation_detail=SpeculationDetail.DETAILED
        ) as engine,
        openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as client,
    ):
        models = [model.id async for model in client.models.list()]
        whole = await client.chat.completions.create(model=models[0], messages=HI, max_tokens=30)
        streaming = await client.chat.completions.create(
            model=models[0], messages=HI, max_tokens=30, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in streaming]
        text = await client.completions.create(model=models[0], prompt=["a", "b"], max_tokens=4, n=2)
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.chat.completions.create(model="gpt-9", messages=HI)
        with pytest.raises(openai.BadRequestError, match="must be in"):
            await client.chat.completions.create(model=models[0], messages=HI, temperature=2.5)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage.model_copy(
        update={"prompt_tokens_details": None, "completion_tokens_details": None}
    )
    metrics = chunks[-1].model_extra["metrics"]
    steps = metrics["speculative_decoding"]["per_step_accepted"]
    assert len(steps) == metrics["speculative_decoding"]["num_spec_steps"] == len(chunks) - 3
    assert metrics["time_to_first_token_ms"] > 0
    assert [choice.index for choice in text.choices] == [0, 1, 2, 3]


async def test_a_client_that_leaves_frees_the_engine():
    async with asking(time_scale=10.0) as http:
        async with http.stream("POST", CHAT, json={**SHORT, "max_tokens": 8000, "stream": True}) as answer:
            async for _ in answer.aiter_bytes():
                break
            assert await shown(http, "vllm:num_requests_running") == 1

        async def freed():
            return await shown(http, "vllm:num_requests_running") == 0

        await eventually(freed)
        assert await shown(http, "vllm:generation_tokens_total") < 8000


@pytest.mark.slow
async def test_many_streams_at_once_all_get_their_own_answer():
    async with asking(speculation=EAGLE3) as http:
        prompts = [[{"role": "user", "content": f"number {number}"}] for number in range(24)]
        answers = await asyncio.gather(*(stream(http, messages=prompt) for prompt in prompts))
        whole = [(await http.post(CHAT, json={**SHORT, "messages": prompt})).json() for prompt in prompts]
        assert await shown(http, "vllm:request_success_total", finished_reason="length") == 48
    assert [text_of(events) for events in answers] == [one["choices"][0]["message"]["content"] for one in whole]
    assert len({text_of(events) for events in answers}) > 20


async def test_a_refusal_of_the_engine_is_a_400_and_in_a_stream_an_event_of_a_200():
    async with asking(speculation=EAGLE3) as http:
        whole = await http.post(CHAT, json={**SHORT, "temperature": 0.7, "min_p": 0.05})
        events = await stream(http, temperature=0.7, min_p=0.05)
        assert whole.status_code == 400
        assert events == [whole.json(), "[DONE]"]
        assert await shown(http, "vllm:request_params_n_count") == 0


# Faults


async def test_a_fault_that_makes_no_sense_is_told_why():
    async with asking() as http:
        for body in ("{", '{"fault":"explode"}', '{"fault":"refuse"}'):
            answer = await http.post("/sim/faults", content=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["message"]
        assert (await http.get("/sim/faults")).json()["fault"] == "none"


async def test_a_loading_engine_is_unavailable_everywhere_until_it_is_over():
    async with asking() as http:
        await switch(http, fault="loading")
        for answer in (await http.get("/health"), await http.get("/v1/models"), await http.post(CHAT, json=SHORT)):
            assert answer.status_code == 503
        await switch(http, fault="none")
        assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_requests_are_answered_with_a_status_as_often_as_told(code):
    async with asking() as http:
        await switch(http, fault="status", code=code, count=2)
        answers = [await http.post(CHAT, json=SHORT) for _ in range(3)]
        assert (await http.get("/health")).status_code == 200
    assert [answer.status_code for answer in answers] == [code, code, 200]
    assert answers[0].json()["error"]["code"] == code


async def test_a_hanging_engine_answers_nothing_but_its_health_and_serves_when_it_is_over():
    async with asking() as http:
        await switch(http, fault="hang_before_head", count=1)
        hanging = asyncio.ensure_future(http.post(CHAT, json=SHORT))

        async def held():
            return (await http.get("/sim/faults")).json()["hits"] == 1

        await eventually(held)
        assert (await http.get("/health")).status_code == 200
        assert (await http.post(CHAT, json=SHORT)).status_code == 200
        assert not hanging.done()
        await switch(http, fault="none")
        assert (await hanging).status_code == 200


async def test_a_hang_with_an_end_ends_by_itself():
    async with asking() as http:
        await switch(http, fault="hang_before_head", seconds=0.05)
        assert (await http.post(CHAT, json=SHORT, timeout=5)).status_code == 200


async def test_a_longer_hang_is_not_ended_by_the_timer_of_a_shorter_one():
    async with asking() as http:
        await switch(http, fault="hang_before_head", seconds=0.02)
        await switch(http, fault="hang_before_head", seconds=30)
        with pytest.raises(httpx.ReadTimeout):
            await http.post(CHAT, json=SHORT, timeout=0.1)


async def test_who_left_while_the_engine_hung_is_never_served():
    async with asking() as http:
        await switch(http, fault="hang_before_head")
        with pytest.raises(httpx.ReadTimeout):
            await http.post(CHAT, json=SHORT, timeout=0.05)
        await switch(http, fault="none")
        assert await shown(http, "vllm:request_params_n_count") == 0


async def test_a_stream_dies_in_the_middle_and_the_next_one_does_not():
    async with asking() as http:
        await switch(http, fault="die_mid_stream", after_events=3, count=1)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await stream(http)
        assert (await http.post(CHAT, json=SHORT)).status_code == 200
        assert (await stream(http))[-1] == "[DONE]"
        assert await shown(http, "vllm:request_success_total", finished_reason="error") == 1


async def test_a_stream_ends_with_an_error_event_and_then_properly():
    async with asking() as http:
        await switch(http, fault="error_event", after_events=2)
        events = await stream(http)
    assert events[-2]["error"]["code"] == 500
    assert events[-1] == "[DONE]"
    assert len(events) == 1 + 2 + 2


async def test_slow_events_are_slow():
    async with asking() as http:
        await switch(http, fault="slow_events", gap_ms=20)
        clock = asyncio.get_running_loop()
        began_s = clock.time()
        await stream(http, max_tokens=5)
        assert clock.time() - began_s > 4 * 0.020


@pytest.mark.slow
async def test_an_engine_that_refuses_cannot_be_reached_and_listens_again_on_the_same_port():
    async with running_engine() as engine, client_of(engine) as http:
        assert (await http.get("/health")).status_code == 200
        await switch(http, fault="refuse", seconds=0.3)
        with pytest.raises(httpx.ConnectError):
            async with client_of(engine) as other:
                await other.get("/health")

        async def back():
            try:
                return (await http.get("/health")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(back)


async def test_a_dead_core_fails_what_is_served_is_unhealthy_and_ends_the_engine_with_the_next_request():
    async with running_engine(time_scale=10.0) as engine, client_of(engine) as http:
        async with http.stream("POST", CHAT, json={**SHORT, "max_tokens": 8000, "stream": True}) as served:
            await switch(http, fault="core_dead")
            assert (await served.aread()).endswith(b'"code":500}}\n\ndata: [DONE]\n\n')
        assert (await http.get("/health")).status_code == 503
        assert not engine.stop.is_set()
        answer = await http.post(CHAT, json=SHORT)
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "InternalServerError")
        await asyncio.wait_for(engine.stop.wait(), 2)


async def test_a_dead_core_ends_the_engine_by_itself(monkeypatch):
    monkeypatch.setattr("breakeven_bench.engine.application.WATCHDOG_S", 0.02)
    async with running_engine() as engine, client_of(engine) as http:
        await switch(http, fault="core_dead")
        await asyncio.wait_for(engine.stop.wait(), 2)


async def test_a_dead_core_ends_the_engine_at_once_where_its_death_was_an_answer_of_500(monkeypatch):
    monkeypatch.setattr("breakeven_bench.engine.application.WATCHDOG_S", 600.0)
    async with running_engine(time_scale=10.0) as engine, client_of(engine) as http:
        whole = asyncio.create_task(http.post(CHAT, json={**SHORT, "max_tokens": 8000}))

        async def runs():
            return await shown(http, "vllm:num_requests_running") == 1

        await eventually(runs)
        await switch(http, fault="core_dead")
        assert (await whole).status_code == 500
        await asyncio.wait_for(engine.stop.wait(), 2)
