"""A pair is handed out when it serves, and whatever keeps it from serving is said; on simulated engines."""

import asyncio
import re
import shlex
import socket

import aiohttp
import orjson
import pytest

from breakeven_bench.launch import Launcher, LaunchError, free_port
from breakeven_bench.vllm import host, pair
from breakeven_bench.vllm.pair import Ports, complete, curl_line, port_or_refusal, router_command, start_pair
from tests.bench.vllm.stand_in import IS_DEAF, LOADS_AND_DIES, environment

FREE = Ports(0, 0, 0, 0)


async def tokens(session, url):
    """What the engine has generated so far, by its own counter."""
    async with session.get(f"{url}/metrics") as answer:
        page = await answer.text()
    return sum(float(value) for value in re.findall(r"(?m)^vllm:generation_tokens_total\{[^}]*\} (\S+)$", page))


async def ask(session, url, temperature):
    """The pool that answers."""
    body = {"model": host.SERVED_MODEL, "prompt": "The", "max_tokens": 5, "temperature": temperature}
    async with session.post(f"{url}/v1/completions", json=body) as answer:
        assert answer.status == 200
        await answer.read()
        return answer.headers["x-breakeven-pool"]


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_taken_port_is_refused_before_anything_starts(tmp_path, listener):
    async with Launcher(tmp_path) as launcher:
        for ports in (Ports(0, 0, listener, 0), Ports(0, 0, 0, listener)):
            with pytest.raises(LaunchError, match=f"port {listener} is taken"):
                await start_pair(launcher, environment(tmp_path / str(ports.baseline)), ports, print)
        assert launcher.servers == ()


def test_a_port_that_nobody_has_is_the_engines_and_0_means_any(listener):
    port = free_port()
    assert port_or_refusal(port) == port
    assert port_or_refusal(0) not in (0, listener)


@pytest.mark.slow
async def test_an_engine_that_ends_while_it_loads_shows_the_end_of_its_log(tmp_path):
    async with Launcher(tmp_path) as launcher:
        with pytest.raises(LaunchError, match=r"(?s)(baseline|eagle3) ended with status 1 .*no memory left"):
            await start_pair(launcher, environment(tmp_path / "env", LOADS_AND_DIES), FREE, print)


@pytest.mark.slow
async def test_an_engine_that_is_ready_and_answers_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(pair, "ANSWER_TIMEOUT_S", 0.3)
    async with Launcher(tmp_path, grace_s=1.0) as launcher:
        with pytest.raises(LaunchError, match=r"listens on http://127.0.0.1:1 and answers no completion within 0.3 s"):
            await start_pair(launcher, environment(tmp_path / "env", IS_DEAF), FREE, print)


@pytest.mark.slow
async def test_a_router_that_does_not_find_the_engines_is_given_up(tmp_path, monkeypatch):
    async def never(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(pair, "until_all_serve", never)
    monkeypatch.setattr(pair, "FOUND_TIMEOUT_S", 0.1)
    async with Launcher(tmp_path, grace_s=1.0) as launcher:
        with pytest.raises(LaunchError, match=r"router does not find its engines ready within 0.1 s"):
            await start_pair(launcher, environment(tmp_path / "env"), FREE, print)


async def test_an_engine_whose_first_answer_is_an_error_does_not_count_as_ready():
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oh\r\ncontent-length: 13\r\nconnection: close\r\n\r\nengine's dead")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, aiohttp.ClientSession() as session:
        with pytest.raises(LaunchError, match=f"{url} answers a completion with 500: engine's dead"):
            await complete(session, url)


@pytest.mark.slow
async def test_a_pair_serves_each_temperature_from_its_pool(tmp_path):
    said = []
    async with Launcher(tmp_path) as launcher, aiohttp.ClientSession() as session:
        running = await start_pair(launcher, environment(tmp_path / "env"), FREE, said.append)
        before = [await tokens(session, url) for url in (running.baseline_url, running.eagle3_url)]
        assert await ask(session, running.router_url, 0.7) == "speculative"
        assert await ask(session, running.router_url, 1.2) == "baseline"
        after = [await tokens(session, url) for url in (running.baseline_url, running.eagle3_url)]
        assert [now - then for then, now in zip(before, after, strict=True)] == [5, 5]
        assert [server.command.name for server in launcher.servers] == ["baseline", "eagle3", "router"]
    assert {f"baseline answers on {running.baseline_url}", f"eagle3 answers on {running.eagle3_url}"} < set(said)


def test_the_router_is_started_as_a_user_would_start_it():
    command = router_command(Ports(), "http://127.0.0.1:8101", "http://127.0.0.1:8102")
    assert shlex.join(command.argv[1:]) == (
        "-m breakeven serve --host 127.0.0.1 --port 8080 --admin-port 8081"
        " --baseline http://127.0.0.1:8101 --speculative http://127.0.0.1:8102"
    )


def test_the_curl_line_can_be_pasted_into_a_shell():
    words = shlex.split(curl_line("http://127.0.0.1:8080", 1.2))
    assert words[:3] == ["curl", "-i", "http://127.0.0.1:8080/v1/chat/completions"]
    assert orjson.loads(words[-1])["temperature"] == 1.2
    assert orjson.loads(words[-1])["model"] == host.SERVED_MODEL
