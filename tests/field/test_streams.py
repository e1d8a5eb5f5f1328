"""B24, B26, B28 and B29: a stream reaches the client as the engine wrote it, and is counted by what it says."""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import openai
import pytest

from tests.field.client import HI, body
from tests.field.router import Samples, total, until
from tests.field.scripts import LAST_CHUNK, SSE_TYPE, Link, Script, streams
from tests.field.stage import REQUESTS, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = b"data: [DONE]\n\n"
TTFT = "breakeven_time_to_first_token_seconds"
TOKENS = "breakeven_completion_tokens_total"


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One chat event."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    merged = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **fields}
    return b"data: " + json.dumps(merged, ensure_ascii=False).encode() + b"\n\n"


def usage(completion_tokens: int) -> dict[str, int]:
    """A usage object with that many tokens."""
    return {"prompt_tokens": 3, "completion_tokens": completion_tokens, "total_tokens": 3 + completion_tokens}


FORTY = [
    event({"role": "assistant", "content": ""}),
    *(event({"content": f"wört {number} "}) for number in range(36)),
    event(finish="stop"),
    event(choices=[], usage=usage(41)),
    DONE,
]
WHOLE = b"".join(FORTY)
CRLF = WHOLE.replace(b"\n\n", b"\r\n\r\n")


def sliced(data: bytes, size: int) -> list[bytes]:
    """The data in pieces of that size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def cut_between(data: bytes, mark: bytes) -> list[bytes]:
    """The data cut in the middle of every mark."""
    half = len(mark) // 2
    first, *rest = data.split(mark)
    return [first + mark[:half], *(mark[half:] + part + mark[:half] for part in rest[:-1]), mark[half:] + rest[-1]]


def until_eof(pieces: Iterable[bytes]) -> Script:
    """A body without a length, ended by closing the connection."""
    fixed = list(pieces)

    async def script(link: Link) -> None:
        await link.head(headers=[*SSE_TYPE, ("Connection", "close")], chunked=False)
        for piece in fixed:
            await link.raw(piece)
        link.fin()

    return script


def one_write(data: bytes) -> Script:
    """Head, chunk and last chunk in a single write."""

    async def script(link: Link) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await link.raw(head + b"%x\r\n%b\r\n" % (len(data), data) + LAST_CHUNK)

    return script


def raw_bytes_one_by_one(data: bytes) -> Script:
    """Every byte of the response, framing included, in a write of its own."""

    async def script(link: Link) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for byte in head + b"%x\r\n%b\r\n" % (len(data), data) + LAST_CHUNK:
            await link.raw(bytes([byte]))

    return script


FEW = b"".join([*FORTY[:3], *FORTY[-3:]])
HUGE = b"".join([FORTY[0], event({"content": "x" * 300_000}), *FORTY[-3:]])
CUTS: dict[str, tuple[Script, bytes]] = {
    "event by event": (streams(FORTY), WHOLE),
    "a byte at a time": (streams(sliced(WHOLE, 1)), WHOLE),
    "seven bytes at a time": (streams(sliced(WHOLE, 7)), WHOLE),
    "between the newlines": (streams(cut_between(WHOLE, b"\n\n")), WHOLE),
    "all at once": (streams([WHOLE]), WHOLE),
    "head and all in one write": (one_write(WHOLE), WHOLE),
    "crlf": (streams(CRLF.split(b"\0")), CRLF),
    "crlf split between reads": (streams(cut_between(CRLF, b"\r\n")), CRLF),
    "crlf a byte at a time": (streams(sliced(CRLF, 1)), CRLF),
    "cr only": (streams([WHOLE.replace(b"\n", b"\r")]), WHOLE.replace(b"\n", b"\r")),
    "no space after the colon": (streams([WHOLE.replace(b"data: ", b"data:")]), WHOLE.replace(b"data: ", b"data:")),
    "no final newline": (streams([WHOLE.rstrip()]), WHOLE.rstrip()),
    "ended by closing": (until_eof(FORTY), WHOLE),
    "ended by closing, no final newline": (until_eof(sliced(WHOLE.rstrip(), 100)), WHOLE.rstrip()),
}


async def growth_of(stage: Stage, before: Samples, names: Callable[[str], bool]) -> dict[str, float]:
    """How the counters of requests and tokens grew, labels summed, since `before`; waits until they did."""

    async def counted() -> Samples | None:
        now = await stage.router.samples()
        return now if total(now, REQUESTS) > total(before, REQUESTS) else None

    after: Samples = await until(counted, "the request is counted")
    chosen = sorted({name for name, _ in after if names(name)})
    return {name: total(after, name) - total(before, name) for name in chosen}


def counts(name: str) -> bool:
    """Whether the sample counts something about requests, in numbers that time does not change."""
    about_probes = any(word in name for word in ("probe", "scrape", "python_", "process_", "_bucket", "_created"))
    return name.endswith(("_total", "_count")) and not about_probes


@pytest.mark.slow
async def test_b24_events_cut_anyhow_arrive_alike_and_are_counted_alike(stage: Stage) -> None:
    expected: dict[str, float] | None = None
    for name, (script, sent) in CUTS.items():
        stage.script(script)
        before = await stage.router.samples()
        reply = await stage.ask(body(stream=True))
        assert (reply.body, reply.complete) == (sent, True), name
        growth = await growth_of(stage, before, counts)
        growth = {key: value for key, value in growth.items() if "bytes" not in key and "event" not in key}
        expected = expected or growth
        assert growth == expected, name
    assert expected is not None
    assert (expected[TOKENS], expected[f"{TTFT}_count"]) == (41, 1)


@pytest.mark.parametrize(("script", "sent"), [(streams([HUGE]), HUGE), (streams(sliced(HUGE, 4096)), HUGE)])
async def test_b24_an_event_of_300_kilobytes_arrives(stage: Stage, script: Script, sent: bytes) -> None:
    stage.script(script)
    before = await stage.router.samples()
    assert (await stage.ask(body(stream=True))).body == sent
    growth = await growth_of(stage, before, counts)
    assert (growth[TOKENS], growth[f"{TTFT}_count"]) == (41, 1)


async def test_b24_a_response_in_writes_of_one_byte_is_read(stage: Stage) -> None:
    stage.script(raw_bytes_one_by_one(FEW))
    reply = await stage.ask(body(stream=True))
    assert (reply.body, reply.complete) == (FEW, True)


LAST_WORDS = {
    "together": [event({"content": "a"}), event(finish="stop") + event(choices=[], usage=usage(17)) + DONE],
    "continuous": [
        event({"content": "a"}, usage=usage(5)),
        event({"content": "b"}, finish="stop", usage=usage(17)),
        DONE,
    ],
    "null on every chunk": [
        event({"content": "a"}, usage=None),
        event(finish="stop", usage=None),
        event(choices=[], usage=usage(17)),
        DONE,
    ],
    "null after the last": [event({"content": "a"}, usage=usage(17)), event(finish="stop", usage=None), DONE],
    "first chunk without choices": [
        event(choices=[]),
        event({"content": "a"}),
        event(choices=[], usage=usage(17)),
        DONE,
    ],
    "no choices at all": [b'data: {"usage":{"completion_tokens":17}}\n\n', DONE],
}


@pytest.mark.parametrize("pieces", LAST_WORDS.values(), ids=LAST_WORDS.keys())
async def test_b26_the_last_usage_counts_and_no_byte_is_touched(stage: Stage, pieces: list[bytes]) -> None:
    stage.script(streams(pieces))
    before = await stage.router.samples()
    reply = await stage.ask(body(stream=True, stream_options={"include_usage": True}))
    assert (reply.body, reply.complete) == (b"".join(pieces), True)
    assert (await growth_of(stage, before, counts))[TOKENS] == 17


ODD_DATA = [
    b"data: not json\n\n",
    b"data:\n\n",
    b"data: [1,2]\n\n",
    b'data: {"choices":5,"usage":"many"}\n\n',
    b'data: {"choices":[5],"usage":{"completion_tokens":"x"}}\n\n',
    b'data: {"choices":[{"delta":null}],"usage":[]}\n\n',
    b"data: \xff\xfe\n\n",
    b"event: x\nid: 5\nretry: 10\ndata: a\ndata: b\n\n",
    b"nonsense line\n\n",
    b"data: NaN\n\n",
]


async def test_b26_data_that_is_no_chat_event_is_relayed_and_disturbs_nothing(stage: Stage) -> None:
    pieces = [*ODD_DATA, *FORTY]
    stage.script(streams(pieces))
    async with stage.counting("completed"):
        assert (await stage.ask(body(stream=True))).body == b"".join(pieces)


COMMENTED = [
    b": keepalive\n\n",
    b": keepalive\n\n",
    event({"role": "assistant", "content": ""}),
    b": ping\n\n",
    b"id: 7\n" + event({"content": "hel"}),
    b": keepalive\n\n: keepalive\n\n",
    event({"content": "lo"}),
    b":\n\n",
    event(finish="stop"),
    event(choices=[], usage=usage(2)),
    b": bye\n\n",
    DONE,
]


async def test_b28_comments_are_relayed_as_comments(stage: Stage) -> None:
    for pieces in (COMMENTED, sliced(b"".join(COMMENTED), 1)):
        stage.script(streams(pieces))
        assert (await stage.ask(body(stream=True))).body == b"".join(COMMENTED)


@pytest.mark.slow
async def test_b28_the_official_client_reads_a_stream_with_comments_and_a_long_silence(stage: Stage) -> None:
    silence_s = 1.5

    async def script(link: Link) -> None:
        await link.head()
        for number, piece in enumerate(COMMENTED):
            if number == 2:
                await asyncio.sleep(silence_s)  # the case: nothing but comments before the first token
            await link.chunk(piece.removeprefix(b"id: 7\n"))  # a comment after an id breaks this client by itself
        await link.end()

    stage.script(script)
    before = await stage.router.samples()
    base_url = f"http://127.0.0.1:{stage.router.port}/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0) as client:
        parts = await client.chat.completions.create(model="m", messages=HI, stream=True)
        texts = [part.choices[0].delta.content or "" async for part in parts if part.choices]
    assert "".join(texts) == "hello"
    growth = await growth_of(stage, before, lambda name: name.startswith(TTFT))
    assert growth[f"{TTFT}_count"] == 1
    assert growth[f"{TTFT}_sum"] >= silence_s


SPECULATED = [
    event({"role": "assistant", "content": ""}),
    event({"content": "The user is"}),
    event({"reasoning": "so", "content": "and"}),
    event(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}, {"index": 1, "id": "b"}]}
    ),
    event(choices=[{"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [{"token": t} for t in "abcd"]}}]),
    event({"content": "the end."}, finish="stop"),
    event(choices=[], usage=usage(23)),
    DONE,
]


async def test_b29_several_tokens_in_a_chunk_are_relayed_and_counted_from_usage(stage: Stage) -> None:
    stage.spec.script = streams(SPECULATED)
    before = await stage.router.samples()
    _, _, reply = await stage.routed(body(stream=True, temperature=0))
    assert reply.body == b"".join(SPECULATED)
    assert (await growth_of(stage, before, counts))[TOKENS] == 23


async def test_b29_chunks_are_not_taken_for_tokens_where_usage_is_silent(stage: Stage) -> None:
    stage.spec.script = streams([*SPECULATED[:-2], DONE])
    before = await stage.router.samples()
    await stage.routed(body(stream=True, temperature=0))
    assert (await growth_of(stage, before, counts)).get(TOKENS, 0) in {0, 4}
