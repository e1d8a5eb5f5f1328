"""B17: a compressed body is read for the decision, within the limit, and never takes memory that it was not given."""

import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.field.client import body, refused, request
from tests.field.scripted_engine import Engine, model_list
from tests.field.stage import BASE, SPEC, Stage, pools, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20
HOT = body(temperature=1.5, user="é" * 500)


def coded(coding: str) -> dict[str, Any]:
    """Headers of a body in that coding."""
    return {"headers": (("Content-Type", "application/json"), ("Content-Encoding", coding))}


def bomb(megabytes: int) -> bytes:
    """Gzip of so many MiB of zeros: one deflated mebibyte, flushed to a byte border, repeated; built in no time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + block * megabytes + b"\x03\x00" + bytes(8)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A model with an alias, and a third pool that alone serves the model `packed` and takes gzip as it is."""
    base, spec = Engine(f"{BASE}-0", model_list("m", "real")), Engine(f"{SPEC}-0", model_list("m", "real"))
    taker = Engine("taker-0", model_list("packed"))
    for engine in (base, spec, taker):
        await engine.listen()
    third = {"name": "taker", "kind": "plain", "accept_gzip": True}
    third["backends"] = [{"name": taker.name, "url": taker.url}]
    settings = {"aliases": {"fast": "real", "short": "packed"}, "pools": [*pools([base], [spec]), third]}
    async with staged(tmp_path_factory.mktemp("router"), settings, base=[base, taker], spec=[spec]) as stage:
        yield stage


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "Gzip", " gzip ", "x-gzip"])
@pytest.mark.parametrize("level", [1, 9])
async def test_b17_gzip_decides_and_is_forwarded_decoded(stage: Stage, coding: str, level: int) -> None:
    pool, seen, reply = await stage.routed(gzip.compress(HOT, level), **coded(coding))
    assert (pool, seen.body, reply.status) == (BASE, HOT, 200)
    assert (seen.values("content-encoding"), seen.values("content-length")) == ([], [str(len(HOT))])


async def test_b17_deflate_is_read_as_well(stage: Stage) -> None:
    pool, seen, _ = await stage.routed(zlib.compress(HOT), **coded("deflate"))
    assert (pool, seen.body, seen.values("content-encoding")) == (BASE, HOT, [])


async def test_b17_two_gzip_members_are_one_body(stage: Stage) -> None:
    pool, seen, _ = await stage.routed(gzip.compress(HOT[:40]) + gzip.compress(HOT[40:]), **coded("gzip"))
    assert (pool, seen.body) == (BASE, HOT)


@pytest.mark.parametrize("coding", ["identity", ""])
async def test_b17_no_coding_at_all_is_no_obstacle(stage: Stage, coding: str) -> None:
    pool, seen, _ = await stage.routed(HOT, **coded(coding))
    assert (pool, seen.body) == (BASE, HOT)


@pytest.mark.parametrize("coding", ["zstd", "br", "compress", "gzip, br", "nonsense"])
async def test_b17_another_coding_is_415_and_named(stage: Stage, coding: str) -> None:
    async with stage.counting("client_error"):
        error = refused(await stage.ask(HOT, **coded(coding)), 415)
    assert coding.rsplit(", ", maxsplit=1)[-1] in error["message"]
    assert stage.seen == []


async def test_b17_gzip_twice_is_undone_twice_or_refused(stage: Stage) -> None:
    reply = await stage.ask(gzip.compress(gzip.compress(HOT)), **coded("gzip, gzip"))
    assert reply.status in {200, 415}
    assert [seen.body for seen in stage.seen] == ([HOT] if reply.status == 200 else [])


PACKED = gzip.compress(HOT)
CORRUPT = {
    "empty": b"",
    "plain": HOT,
    "cut": PACKED[:-20],
    "cut in the trailer": PACKED[:-3],
    "flipped": PACKED[:30] + bytes([PACKED[30] ^ 0xFF]) + PACKED[31:],
    "wrong sum": PACKED[:-8] + bytes(4) + PACKED[-4:],
    "head only": PACKED[:10],
    "not json inside": gzip.compress(b"{"),
    "nothing inside": gzip.compress(b""),
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT.keys())
async def test_b17_a_corrupt_body_is_400(stage: Stage, content: bytes) -> None:
    async with stage.counting("client_error"):
        refused(await stage.ask(content, **coded("gzip")), 400)
    assert stage.seen == []


@pytest.mark.slow
async def test_b17_a_bomb_is_413_within_bounded_memory(stage: Stage) -> None:
    process = psutil.Process(stage.router.pid)
    refused(await stage.ask(bomb(80), **coded("gzip")), 413)  # the allocator's own high-water mark is not the case
    before = process.memory_info().rss
    refused(await stage.ask(bomb(1024), **coded("gzip")), 413)
    assert process.memory_info().rss - before < 64 * MIB
    assert stage.seen == []


async def test_b17_a_small_bomb_within_a_bomb_is_refused(stage: Stage) -> None:
    packed = gzip.compress(bomb(256))
    assert len(packed) < 10_000
    reply = await stage.ask(packed, **coded("gzip, gzip"))
    assert reply.status in {413, 415}


async def test_b17_an_alias_is_rewritten_in_the_decoded_body(stage: Stage) -> None:
    _, seen, _ = await stage.routed(gzip.compress(body(model="fast", temperature=1.5)), **coded("gzip"))
    assert seen.body == body(model="real", temperature=1.5)


async def test_b17_a_chunked_gzip_body_is_read_too(stage: Stage) -> None:
    headers = (("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked"))
    async with await stage.client() as client:
        await client.send(request(headers=headers), "POST")
        for byte in PACKED:
            await client.send(b"1\r\n%c\r\n" % byte)
        await client.send(b"0\r\n\r\n")
        assert (await client.end()).status == 200
    assert [seen.body for seen in stage.base.requests] == [HOT]


async def test_b17_an_engine_that_takes_gzip_gets_the_bytes_as_they_came(stage: Stage) -> None:
    packed = gzip.compress(body(model="packed"))
    pool, seen, _ = await stage.routed(packed, **coded("gzip"))
    assert (pool, seen.body, seen.values("content-encoding")) == ("taker", packed, ["gzip"])
    assert seen.values("content-length") == [str(len(packed))]


async def test_b17_an_alias_takes_the_coding_off_even_there(stage: Stage) -> None:
    pool, seen, _ = await stage.routed(gzip.compress(body(model="short")), **coded("gzip"))
    assert (pool, seen.body, seen.values("content-encoding")) == ("taker", body(model="packed"), [])
