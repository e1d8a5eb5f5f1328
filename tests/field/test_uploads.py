"""B15 and B18: bodies arrive whole however slowly and in whatever pieces they come, and leave the others alone."""

import asyncio
import hashlib
import json
import sys
from typing import Any

import pytest

from tests.field.client import body, chunked, request
from tests.field.scripts import Seen
from tests.field.stage import BASE, SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20
CHUNKED = (("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"))


def image_body(size: int, **fields: Any) -> bytes:
    """A request of exactly `size` bytes, nearly all of it one base64 data URL."""
    frame = body(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "PAD"}}]}], **fields)
    pad = b"data:image/png;base64," + b"A" * (size - len(frame) + 3 - 22)
    return frame.replace(b"PAD", pad)


def marked_body(number: int, size: int) -> tuple[bytes, str]:
    """A body told apart by its number, with umlauts all over, and the pool where it belongs."""
    temperature, pool = (1.5, BASE) if number % 3 == 0 else (0.5, SPEC)
    fields = {"model": "m", "user": str(number), "text": "ä" * (size // 2), "temperature": temperature}
    return json.dumps(fields, ensure_ascii=False).encode(), pool


WATCH = """
import select, socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.settimeout(10)
worst_s = 0.0
print("watching", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    asked_s = time.monotonic()
    connection.sendall(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    assert connection.recv(65536)
    worst_s = max(worst_s, time.monotonic() - asked_s)
print(worst_s)
"""
"""Asks for /health again and again from a process of its own until its input ends; says how long the worst took."""


def delivered(stage: Stage) -> dict[tuple[str, str], str]:
    """Digest of every body that arrived, by pool and user."""

    def key(pool: str, seen: Seen) -> tuple[str, str]:
        return pool, json.loads(seen.body)["user"]

    return {key(p, s): s.sha256 for p, e in ((BASE, stage.base), (SPEC, stage.spec)) for s in e.requests}


async def slowly(stage: Stage, content: bytes, *, as_chunks: bool) -> int | None:
    """Send head, wait until the others have sent theirs, then the body in small writes that cut characters in two."""
    headers = CHUNKED if as_chunks else (("Content-Type", "application/json"), ("Content-Length", str(len(content))))
    async with await stage.client() as client:
        await client.send(request(headers=headers), "POST")
        await asyncio.sleep(0.05)  # the case: a client that is slow between head and body
        for at in range(0, len(content), 1021):
            piece = content[at : at + 1021]
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if as_chunks else piece)
        if as_chunks:
            await client.send(b"0\r\n\r\n")
        return (await client.end()).status


@pytest.mark.slow
async def test_b15_many_slow_uploads_at_once_all_arrive_whole_and_in_the_right_pool(stage: Stage) -> None:
    bodies = [marked_body(number, 200_000) for number in range(64)]
    sends = (slowly(stage, content, as_chunks=number % 2 == 0) for number, (content, _) in enumerate(bodies))
    assert await asyncio.gather(*sends) == [200] * 64
    expected = {(pool, str(n)): hashlib.sha256(content).hexdigest() for n, (content, pool) in enumerate(bodies)}
    assert delivered(stage) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_b15_chunk_borders_inside_characters_and_numbers_do_no_harm(stage: Stage, size: int) -> None:
    content = '{"model":"m","user":"ä€😀","temperature":1.5}'.encode()
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    async with await stage.client() as client:
        await client.send(request(headers=CHUNKED) + chunked(pieces), "POST")
        assert (await client.end()).status == 200
    assert [seen.body for seen in stage.base.requests] == [content]


async def test_b15_a_border_between_writes_may_fall_on_any_byte(stage: Stage) -> None:
    content = body(temperature=1.5)
    message = request(headers=CHUNKED) + chunked([content[:30], content[30:]])
    async with await stage.client() as client:
        await client.send(b"", "POST")
        for at in range(len(message)):
            await client.send(message[at : at + 1])
            await asyncio.sleep(0)
        assert (await client.end()).status == 200
    assert [seen.body for seen in stage.base.requests] == [content]


@pytest.mark.parametrize("leave", ["fin", "half_close", "reset"])
@pytest.mark.parametrize("as_chunks", [True, False])
async def test_b15_an_upload_cut_short_reaches_no_engine(stage: Stage, leave: str, as_chunks: bool) -> None:
    length = CHUNKED if as_chunks else (("Content-Type", "application/json"), ("Content-Length", "1000"))
    half = body()[:25] + b" " * 475
    async with await stage.client() as client:
        await client.send(request(headers=length), "POST")
        await client.send(b"3e8\r\n" + half if as_chunks else half)
        getattr(client, leave)()
        if leave == "half_close":
            assert (await client.end()).status in {None, 400}
            await client.hung_up()
    assert (await stage.ask(body())).status == 200
    assert [seen.body for seen in stage.seen] == [body()]
    await stage.idle()


async def test_b15_a_client_that_expects_continue_gets_it(stage: Stage) -> None:
    content = body(temperature=1.5)
    headers = (("Content-Type", "application/json"), ("Content-Length", str(len(content))), ("Expect", "100-continue"))
    async with await stage.client() as client:
        await client.send(request(headers=headers), "POST")
        async with asyncio.timeout(5):
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await client.send(content)
        assert (await client.end()).status == 200
    assert stage.base.requests[0].body == content


@pytest.mark.slow
@pytest.mark.parametrize("size", [1_900_000, 2_100_000, 9 * MIB, 11 * MIB, 30_000_000])
@pytest.mark.parametrize("as_chunks", [True, False])
async def test_b18_the_default_limit_lets_images_through(stage: Stage, size: int, as_chunks: bool) -> None:
    content = image_body(size, temperature=1.5)
    assert len(content) == size
    if as_chunks:
        async with await stage.client() as client:
            pieces = [content[at : at + 65_536] for at in range(0, size, 65_536)]
            await client.send(request(headers=CHUNKED) + chunked(pieces), "POST")
            assert (await client.end()).status == 200
        seen = stage.base.requests[0]
    else:
        pool, seen, reply = await stage.routed(content)
        assert (pool, reply.status) == (BASE, 200)
    assert seen.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
async def test_b18_a_large_body_does_not_stop_the_others(stage: Stage) -> None:
    """The worst answer during one upload, and of several uploads the best: the machine has pauses of its own."""
    content = image_body(30_000_000)
    pipe = asyncio.subprocess.PIPE
    worst_s: list[float] = []
    while len(worst_s) < 6 and min(worst_s, default=1.0) >= 0.05:
        command = [sys.executable, "-c", WATCH, str(stage.router.port)]
        watch = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert watch.stdout is not None
        await watch.stdout.readline()
        assert (await stage.ask(content)).status == 200
        worst_s.append(float((await watch.communicate(b""))[0]))
    assert min(worst_s) < 0.05
