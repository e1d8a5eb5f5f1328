"""The router as a process: it starts without engines, drains on SIGTERM, and says what it decided and why."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.router.scripted_engine import Answer, never, says, scripted_engine
from tests.system.router_process import RouterProcess, router_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_no_proxy")]

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.7}
MODELS = says(200, json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 4096}]}).encode())
LOAD = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
EVENT = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.fixture
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def engine_answers(chat: Answer) -> dict[str, Answer]:
    return {"health": says(200), "v1_models": MODELS, "metrics": says(200, LOAD), "v1_chat_completions": chat}


def chat_answer(text: str) -> Answer:
    body = {"id": "1", "choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
    return says(200, json.dumps(body).encode(), b"content-type: application/json")


class GatedStream:
    """An answer whose end waits until the test opens the gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + EVENT)
        await self.gate.wait()
        writer.write(LAST)


async def until_status(client: httpx.AsyncClient, url: str, status: int) -> None:
    async with asyncio.timeout(10):
        while (await client.get(url)).status_code != status:  # noqa: ASYNC110  # only HTTP tells
            await asyncio.sleep(0.02)


async def stopped(router: RouterProcess) -> int:
    return await asyncio.to_thread(router.process.wait, 20)


async def test_without_any_engine_the_process_lives_answers_and_ends_with_0() -> None:
    with router_process("--baseline", "http://127.0.0.1:1", "--speculative", "http://127.0.0.1:2") as router:
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{router.url}/health")).status_code == 200
            assert (await client.get(f"{router.url}/ready")).status_code == 503
            answer = await client.post(f"{router.url}/v1/chat/completions", json=REQUEST)
            assert answer.status_code == 503
            assert answer.json()["error"]["type"] == "service_unavailable"
            assert "retry-after" in answer.headers
        assert router.stop() == 0
    assert not any("Traceback" in line for line in router.lines)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, "1"), (signal.SIGINT, "1"), (signal.SIGTERM, "2")])
async def test_a_running_stream_ends_as_it_should_before_the_process_does(number: int, workers: str) -> None:
    stream = GatedStream()
    async with scripted_engine(**engine_answers(stream.answer)) as engine, httpx.AsyncClient() as client:
        flags = ("--drain-timeout-s", "15", "--workers", workers)
        with router_process("--baseline", f"http://127.0.0.1:{engine.port}", *flags) as router:
            await until_status(client, f"{router.url}/ready", 200)
            request = client.stream("POST", f"{router.url}/v1/chat/completions", json={**REQUEST, "stream": True})
            async with request as answer:
                pieces = answer.aiter_bytes()
                assert await anext(pieces) == EVENT
                router.send(number)
                await until_status(client, f"{router.admin_url}/ready", 503)
                stream.gate.set()
                assert b"".join([piece async for piece in pieces]) == LAST
            assert await stopped(router) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_second_signal_cuts_what_still_runs_and_says_so_to_client_log_and_engine(
    tmp_path: Path, workers: str
) -> None:
    stream, log = GatedStream(), tmp_path / "access.log"
    async with scripted_engine(**engine_answers(stream.answer)) as engine, httpx.AsyncClient() as client:
        flags = ("--drain-timeout-s", "60", "--access-log", str(log), "--workers", workers)
        with router_process("--baseline", f"http://127.0.0.1:{engine.port}", *flags) as router:
            await until_status(client, f"{router.url}/ready", 200)
            request = client.stream("POST", f"{router.url}/v1/chat/completions", json={**REQUEST, "stream": True})
            async with request as answer:
                pieces = answer.aiter_bytes()
                assert await anext(pieces) == EVENT
                router.send(signal.SIGTERM)
                await until_status(client, f"{router.admin_url}/ready", 503)
                router.send(signal.SIGTERM)
                last = b"".join([piece async for piece in pieces])
                assert await stopped(router) == 0
            async with asyncio.timeout(5):
                await engine.left.wait()
            await router.all_read()
    event, done = last.strip().split(b"\n\n")
    assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == "shutting_down"
    assert done == b"data: [DONE]"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["outcome"] for line in lines if line["endpoint"] == "chat.completions"] == ["cut_by_drain"]
    said = "".join(router.lines)
    assert "draining: 1 requests running, up to 60 s" in said
    assert "some requests had not finished and were cut" in said
    assert said.endswith("stopped\n")


async def test_a_router_with_no_engine_to_route_to_says_so_after_its_ready_line() -> None:
    with router_process("--baseline", "http://127.0.0.1:1", "--threshold", "0.5") as router:
        assert router.stop() == 0
        await router.all_read()
    said = "".join(router.lines)
    assert said.index("the threshold policy has nothing to choose between") < said.index("breakeven ready on ")
    assert "drained: every request had finished" in said


async def test_the_drain_time_is_a_limit() -> None:
    async with scripted_engine(**engine_answers(never)) as engine, httpx.AsyncClient() as client:
        with router_process("--baseline", f"http://127.0.0.1:{engine.port}", "--drain-timeout-s", "0.3") as router:
            await until_status(client, f"{router.url}/ready", 200)
            asking = asyncio.create_task(client.post(f"{router.url}/v1/chat/completions", json=REQUEST))
            await engine.until_asked("/v1/chat/completions", 1)
            router.send(signal.SIGTERM)
            assert await stopped(router) == 0
            await asyncio.gather(asking, return_exceptions=True)
    assert any("cut" in line for line in router.lines)


async def test_requests_go_where_temperature_says_and_are_logged_counted_and_explained(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    async with (
        scripted_engine(**engine_answers(chat_answer("plain"))) as plain,
        scripted_engine(**engine_answers(chat_answer("drafted"))) as eagle,
        httpx.AsyncClient() as client,
    ):
        addresses = ("--baseline", f"http://127.0.0.1:{plain.port}", "--speculative", f"http://127.0.0.1:{eagle.port}")
        with router_process(*addresses, "--access-log", str(log)) as router:
            await until_status(client, f"{router.url}/ready", 200)
            for name in ("baseline", "speculative"):
                await until_ready_backend(client, router, f"{name}-0")
            for temperature, text in ((0.7, "drafted"), (1.2, "plain")):
                body = {**REQUEST, "temperature": temperature}
                answer = await client.post(f"{router.url}/v1/chat/completions", json=body)
                assert answer.json()["choices"][0]["message"]["content"] == text
            metrics = (await client.get(f"{router.admin_url}/metrics")).text
            fleet = tmp_path / "fleet.json"
            fleet.write_bytes((await client.get(f"{router.admin_url}/fleet")).content)
            live = (await client.post(f"{router.admin_url}/explain", json=REQUEST)).json()
            assert router.stop() == 0
    assert [engine.times_asked("/v1/chat/completions") for engine in (plain, eagle)] == [1, 1]
    assert 'outcome="completed",pool="baseline",reason="temperature_above_threshold"} 1.0' in metrics
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [line for line in lines if line["endpoint"] == "chat.completions"]
    assert [(line["pool"], line["outcome"], line["status"]) for line in asked] == [
        ("speculative", "completed", 200),
        ("baseline", "completed", 200),
    ]
    assert offline(fleet, tmp_path) == live


async def until_ready_backend(client: httpx.AsyncClient, router: RouterProcess, backend: str) -> None:
    series = f'breakeven_backend_ready{{backend="{backend}",pool="{backend.removesuffix("-0")}"}} 1.0'
    async with asyncio.timeout(10):
        while series not in (await client.get(f"{router.admin_url}/metrics")).text:  # noqa: ASYNC110  # only HTTP tells
            await asyncio.sleep(0.02)


def offline(fleet: Path, folder: Path) -> object:
    """What `breakeven explain` prints for the same request on the saved fleet."""
    body = folder / "request.json"
    body.write_bytes(httpx.Request("POST", "http://x", json=REQUEST).content)
    command = [sys.executable, "-m", "breakeven", "explain", "--json", "--fleet", str(fleet), str(body)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
