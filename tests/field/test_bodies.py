r"""B07 to B11: the body leaves as it came; where one field has to change, only that field changes."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.field.client import body, raw_body
from tests.field.scripted_engine import Engine, model_list
from tests.field.scripts import ANSWER, answers, streams
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

REAL = "org/real-model"
ODD = (
    b'{ "z_first" :1.0,\t"one":1,"messages" : [ {"role":"user","content":"caf\\u00e9 caf\xc3\xa9 a\\/b "} ] ,\n'
    b'"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":'
    b'{"z":{"type":"string"},"a":{"type":"integer"},"m":{"type":"number"}}}}}],"big":1E5,'
    b'"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"properties":{"z":{},"a":{},"m":{}}}}},'
    b'"long":0.12345678901234567890123,"seed":9007199254740993, "model":"MODEL" ,"temperature":TEMPERATURE,"e":{}}\n'
)
UNKNOWN_FIELDS = (
    b'"chat_template_kwargs":{"enable_thinking":false},"guided_json":{},"vllm_xargs":{"a":1},"priority":3,"top_k":20,'
    b'"repetition_penalty":1.1,"cache_salt":"x","extra_body":{"a":1},"x_future_field":[1,null]'
)


def odd(model: bytes = b"m", temperature: bytes = b"0.7") -> bytes:
    """A body whose every oddity is lost by parsing and writing it again."""
    return ODD.replace(b"MODEL", model).replace(b"TEMPERATURE", temperature)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A model with two aliases."""
    settings = {"aliases": {"fast": REAL, "schn\u00e9ll": REAL}}
    base, spec = Engine(f"{BASE}-0", model_list("m", REAL)), Engine(f"{SPEC}-0", model_list("m", REAL))
    async with staged(tmp_path_factory.mktemp("router"), settings, base=[base], spec=[spec]) as stage:
        yield stage


@pytest.mark.parametrize(("temperature", "pool"), [(b"0.7", SPEC), (b"1.50", BASE)])
async def test_b07_every_byte_of_the_body_arrives_both_times(stage: Stage, temperature: bytes, pool: str) -> None:
    content = odd(temperature=temperature)
    for _ in range(2):
        at, seen, _ = await stage.routed(content)
        assert (at, seen.body) == (pool, content)
        assert seen.values("content-length") == [str(len(content))]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/completions", b'{ "prompt":"caf\\u00e9",\t"model":"m" , "temperature":1.0e0}\r\n'),
        ("/v1/embeddings", b'{ "input":["\\/"], "model":"m"}'),
        ("/v1/responses", b'{"input":"hi","model":"m", "z":1E5}'),
        ("/tokenize", b'{"prompt":"hi" ,"model":"m"}'),
    ],
)
async def test_b07_every_endpoint_forwards_bytes(stage: Stage, path: str, content: bytes) -> None:
    _, seen, _ = await stage.routed(content, path=path)
    assert (seen.target, seen.body) == (path, content)


@pytest.mark.parametrize(
    ("sent", "forwarded"),
    [
        (odd(b"fast"), odd(REAL.encode())),
        (odd(b"f\\u0061st"), odd(REAL.encode())),
        (odd("schn\u00e9ll".encode()), odd(REAL.encode())),
        (
            b'{"metadata":{"model":"fast"},"messages":["\\"model\\":\\"fast\\""],"model" : "fast","k":[{}]}',
            b'{"metadata":{"model":"fast"},"messages":["\\"model\\":\\"fast\\""],"model" : "org/real-model","k":[{}]}',
        ),
        (
            b'{"m\\u006fdel":"fast","messages":["model","fast",{"model":"fast"}]}',
            b'{"m\\u006fdel":"org/real-model","messages":["model","fast",{"model":"fast"}]}',
        ),
        (b'{"model":"fast","user":"model","x":"fast"}', b'{"model":"org/real-model","user":"model","x":"fast"}'),
    ],
)
async def test_b08_an_alias_changes_the_top_level_model_and_nothing_else(
    stage: Stage, sent: bytes, forwarded: bytes
) -> None:
    _, seen, reply = await stage.routed(sent)
    assert (seen.body, reply.status) == (forwarded, 200)
    assert seen.values("content-length") == [str(len(forwarded))]


async def test_b08_of_two_model_members_the_last_one_names_the_alias_and_is_rewritten(stage: Stage) -> None:
    _, seen, _ = await stage.routed(b'{"model":"m","messages":[],"model":"fast"}')
    assert json.loads(seen.body)["model"] == REAL


def _named(model: bytes) -> list[bytes]:
    """A stream of an engine that names itself; the text quotes the same member, which must survive."""
    quote = b'\\"model\\":\\"org/real-model\\"'
    lines = [
        b'{"id":"c","model":"' + model + b'","choices":[{"index":0,"delta":{"content":"' + quote + b'"}}]}',
        b'{"id":"c", "model" : "'
        + model
        + b'","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}',
        b"[DONE]",
    ]
    return [b"data: " + line + b"\n\n" for line in lines]


@pytest.mark.parametrize("cut", ["event by event", "byte by byte", "all at once"])
async def test_b08_a_stream_names_the_model_as_the_client_did(stage: Stage, cut: str) -> None:
    whole = b"".join(_named(REAL.encode()))
    sizes = {"event by event": 0, "byte by byte": 1, "all at once": len(whole)}
    size = sizes[cut]
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)] if size else _named(REAL.encode())
    stage.script(streams(pieces))
    _, _, reply = await stage.routed(body(model="fast", stream=True))
    assert reply.body == b"".join(_named(b"fast"))
    assert reply.complete


async def test_b08_a_whole_answer_names_the_model_as_the_client_did(stage: Stage) -> None:
    stage.script(answers(ANSWER.replace(b'"model": "m"', b'"model": "org/real-model"')))
    _, _, reply = await stage.routed(body(model="fast"))
    assert reply.body == ANSWER.replace(b'"model": "m"', b'"model": "fast"')


async def test_b08_without_an_alias_an_answer_is_not_touched(stage: Stage) -> None:
    strange = b'{"model":"org/real-model-with-adapter" , "choices":[]}'
    stage.script(answers(strange))
    _, _, reply = await stage.routed(body(model=REAL))
    assert reply.body == strange


async def test_b09_fields_that_the_router_does_not_know_arrive(stage: Stage) -> None:
    content = raw_body(UNKNOWN_FIELDS.decode())
    _, seen, reply = await stage.routed(content)
    assert (seen.body, reply.status) == (content, 200)


async def test_b09_an_alias_keeps_unknown_fields_too(stage: Stage) -> None:
    content = raw_body(UNKNOWN_FIELDS.decode(), '"fast"')
    _, seen, _ = await stage.routed(content)
    assert seen.body == content.replace(b'"fast"', b'"org/real-model"', 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "function": {"name": "now"}}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
            ]
        },
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}]},
        {"messages": [{"role": "developer", "content": "x"}]},
        {"messages": []},
        {"messages": ...},
        {"messages": "hi"},
        {"logprobs": True, "top_logprobs": 5},
        {"n": 3},
        {"stop": None},
        {"stream": None},
        {"max_tokens": None},
        {"max_tokens": -1, "n": 0},
        {"stream": 2},
        {"stream_options": {"include_usage": True}},
        {"tool_choice": {"type": "nonsense"}},
    ],
    ids=lambda fields: re.sub(r"\W+", " ", str(fields))[:40],
)
async def test_b10_the_router_judges_only_what_routing_needs(stage: Stage, fields: dict[str, Any]) -> None:
    verdict = b'{"error":{"message":"mine to judge","type":"BadRequestError","param":null,"code":422}}'
    stage.script(answers(verdict, 422))
    content = body(**fields)
    _, seen, reply = await stage.routed(content)
    assert (seen.body, reply.status, reply.body) == (content, 422, verdict)


@pytest.mark.parametrize(
    "content",
    [
        b'{"model":"m","temperature":1.5,"messages":[{"role":"user","content":"cut \\ud83d here"}]}',
        b'{"model":"m","temperature":1.5,"user":"\\ud83d","messages":[]}',
        b'{"model":"m","temperature":1.5,"k\\udc00ey":1,"messages":[]}',
        b'{"model":"m","temperature":1.5,"user":"\xed\xa0\xbd"}',  # encoded alone, as json.loads takes it
        b'{"\\ud83d":{"temperature":0},"model":"m","temperature":1.5,"messages":["\\ude00\\ud83d"]}',
    ],
)
async def test_b11_half_a_surrogate_pair_is_forwarded_as_it_came(stage: Stage, content: bytes) -> None:
    pool, seen, reply = await stage.routed(content)
    assert (pool, seen.body, reply.status) == (BASE, content, 200)
    await stage.router.samples()


async def test_b11_half_a_surrogate_pair_survives_an_alias(stage: Stage) -> None:
    content = b'{"model":"fast","temperature":1.5,"messages":[{"role":"user","content":"cut \\ud83d here"}]}'
    pool, seen, _ = await stage.routed(content)
    assert (pool, seen.body) == (BASE, content.replace(b'"fast"', b'"org/real-model"'))


@pytest.mark.parametrize("name", [b"\\ud83d", b"m\\udfff", b"\\ud83d\\ude00"])
async def test_b11_a_model_name_with_a_surrogate_is_unknown_and_breaks_no_metrics(stage: Stage, name: bytes) -> None:
    reply = await stage.ask(b'{"model":"' + name + b'","messages":[]}')
    assert (reply.status, reply.json()["error"]["code"], stage.seen) == (404, "model_not_found", [])
    await stage.router.samples()


async def test_b11_a_streamed_delta_with_half_a_pair_is_relayed(stage: Stage) -> None:
    events = [b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n', b"data: [DONE]\n\n"]
    stage.script(streams(events))
    for model in ("m", "fast"):
        _, _, reply = await stage.routed(body(model=model, stream=True))
        assert (reply.body, reply.complete) == (b"".join(events), True)
