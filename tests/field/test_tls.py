"""TLS on both sides of the router: clients with and without certificates, engines of an authority of one's own."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import pytest_asyncio

from breakeven.config import EngineTrust
from breakeven.tls import engine_context
from tests.field.client import CHAT, HI
from tests.field.router import until
from tests.field.scripted_engine import Engine
from tests.field.scripts import streams
from tests.field.stage import BASE, SPEC, Stage, pools, staged
from tests.router.certificates import Authority, Pair

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

REQUEST = {"model": "m", "messages": HI, "temperature": 0.5}
EVENTS = [b'data: {"n":%d}\n\n' % number for number in range(20)] + [b"data: [DONE]\n\n"]


@dataclass
class Site:
    """A router that speaks TLS to clients, who need a certificate, and to its speculative engine."""

    stage: Stage
    authority: Authority
    others: Authority
    pair: Pair

    @asynccontextmanager
    async def client(self, pair: Pair | None) -> AsyncIterator[httpx.AsyncClient]:
        trust = EngineTrust(self.authority.file, *((None, None) if pair is None else (pair.cert, pair.key)))
        base = f"https://127.0.0.1:{self.stage.router.port}"
        async with httpx.AsyncClient(base_url=base, verify=engine_context(trust), trust_env=False) as client:
            yield client

    async def serial(self) -> object:
        """The number of the certificate that the router shows now."""
        own = self.authority.pair()
        context = engine_context(EngineTrust(self.authority.file, own.cert, own.key))
        _, writer = await asyncio.open_connection("127.0.0.1", self.stage.router.port, ssl=context)
        shown = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return shown


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("tls")
    authority, others = Authority(folder, "ours"), Authority(folder, "others")
    engines, shown = authority.pair(), authority.pair()
    pair = authority.pair(until=datetime.now(UTC) + timedelta(days=10))
    base, spec = Engine(f"{BASE}-0"), Engine(f"{SPEC}-0")
    spec.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    spec.tls.load_cert_chain(engines.cert, engines.key)
    spec.tls.verify_mode = ssl.CERT_REQUIRED
    await base.listen()
    await spec.listen()
    both = pools([base], [spec])
    both[1]["tls"] = {"ca": str(authority.file), "cert": str(shown.cert), "key": str(shown.key)}
    settings = {
        "pools": both,
        "tls_cert": str(pair.cert),
        "tls_key": str(pair.key),
        "tls_client_ca": str(authority.file),
        "client_header_timeout_s": 0.5,
    }
    async with staged(folder, settings, base=[base], spec=[spec]) as stage:
        yield Site(stage, authority, others, pair)


async def test_a_stream_over_tls_on_both_sides_is_what_the_engine_sent(site: Site) -> None:
    site.stage.clear()
    site.stage.spec.script = streams(EVENTS)
    async with site.client(site.authority.pair()) as client:
        async with client.stream("POST", CHAT, json={**REQUEST, "stream": True}) as answer:
            assert answer.headers["x-breakeven-backend"] == f"{SPEC}-0"
            assert b"".join([piece async for piece in answer.aiter_raw()]) == b"".join(EVENTS)
        assert (await client.get("/ready")).status_code == 200


async def test_who_has_no_certificate_or_one_of_others_is_not_let_in(site: Site) -> None:
    for pair in (None, site.others.pair()):
        async with site.client(pair) as client:
            with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
                await client.get("/health")


async def test_who_speaks_plain_http_or_nothing_is_closed_and_hurts_nobody(site: Site) -> None:
    mute = [await asyncio.open_connection("127.0.0.1", site.stage.router.port) for _ in range(50)]
    plain = [await asyncio.open_connection("127.0.0.1", site.stage.router.port) for _ in range(50)]
    for _, writer in plain:
        writer.write(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
    async with site.client(site.authority.pair()) as client:
        assert (await client.get("/health")).status_code == 200
    async with asyncio.timeout(15):
        for reader, writer in (*plain, *mute):
            with suppress(ConnectionResetError):
                assert not await reader.read(65536)
            writer.close()
    assert not [line for line in site.stage.router.log if "Traceback" in line or "never retrieved" in line]


async def test_a_certificate_that_soon_expires_is_told_at_the_start_and_at_a_reload_and_dated(site: Site) -> None:
    name, router = "breakeven_certificate_expiry_timestamp_seconds", site.stage.router
    await router.logged(r"tls_cert: expires on \S+ \S+ UTC, in 9 days$")
    until_s = datetime.now(UTC) + timedelta(days=5)
    other = site.authority.pair(until=until_s)
    shutil.copy(other.cert, site.pair.cert)
    shutil.copy(other.key, site.pair.key)
    await router.logged(r"tls_cert: expires on \S+ \S+ UTC, in 4 days$")
    labelled = [(dict(labels), end_s) for (_, labels), end_s in (await router.samples(name)).items()]
    ends_s = {(labels["pool"], labels["setting"]): end_s for labels, end_s in labelled}
    assert ends_s.keys() == {
        ("none", "tls_cert"), ("none", "tls_client_ca"), (SPEC, "tls.ca"), (SPEC, "tls.cert"),
    }  # fmt: skip
    assert abs(ends_s["none", "tls_cert"] - until_s.timestamp()) <= 1


async def test_an_exchanged_certificate_is_shown_without_a_restart_and_a_wrong_one_is_not(site: Site) -> None:
    before = await site.serial()
    other = site.authority.pair()
    shutil.copy(other.cert, site.pair.cert)  # without its key, as the other half of a rotation may come later
    await site.stage.router.logged("configuration not reloaded: tls_key: .*is not the key of tls_cert")
    assert await site.serial() == before
    shutil.copy(other.key, site.pair.key)

    async def another() -> bool:
        return await site.serial() != before

    await until(another, "the new certificate is shown")
