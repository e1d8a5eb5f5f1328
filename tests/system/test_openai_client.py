"""The official OpenAI client and curl, unmodified, through the router to two scripted engines."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio

from tests.field.client import HI, body
from tests.field.scripts import Link, streams
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

PLACES = [(0, SPEC), (0.7, SPEC), (1.0, SPEC), (1.2, BASE), (1.5, BASE), (openai.omit, SPEC)]


def chat_event(content: str, finish: str | None = None) -> bytes:
    """One chat event."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": finish}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


HELLO = [chat_event("hel"), chat_event("lo", "stop"), b"data: [DONE]\n\n"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The default configuration."""
    async with staged(tmp_path_factory.mktemp("router")) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    """The router with engines that remember nothing."""
    site.clear()
    await site.router.settled()
    yield site
    site.check()


@pytest_asyncio.fixture(loop_scope="session")
async def client(stage: Stage) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client as its documentation has it, with retries off so that every call counts once."""
    address = f"http://127.0.0.1:{stage.router.port}/v1"
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", max_retries=0) as made:
        yield made


def engine_of(stage: Stage) -> str:
    """The pool whose engine got the one request."""
    assert len(stage.seen) == 1
    return BASE if stage.base.requests else SPEC


@pytest.mark.parametrize(("temperature", "pool"), PLACES)
async def test_a_whole_answer_comes_from_the_pool_of_its_temperature(
    stage: Stage, client: openai.AsyncOpenAI, temperature: float, pool: str
) -> None:
    answer = await client.chat.completions.create(model="m", messages=HI, temperature=temperature)
    assert (answer.choices[0].message.content, engine_of(stage)) == ("hello", pool)


@pytest.mark.parametrize(("temperature", "pool"), PLACES)
async def test_a_stream_comes_from_the_pool_of_its_temperature(
    stage: Stage, client: openai.AsyncOpenAI, temperature: float, pool: str
) -> None:
    stage.script(streams(HELLO))
    parts = await client.chat.completions.create(model="m", messages=HI, temperature=temperature, stream=True)
    assert "".join([part.choices[0].delta.content or "" async for part in parts]) == "hello"
    assert engine_of(stage) == pool


@pytest.mark.parametrize("extra", [{"min_p": 0.05}, {"logit_bias": {"50": -5}}])
async def test_what_speculation_refuses_is_served_by_the_baseline_pool(
    stage: Stage, client: openai.AsyncOpenAI, extra: dict[str, object]
) -> None:
    answer = await client.chat.completions.with_raw_response.create(
        model="m", messages=HI, temperature=0.7, extra_body=extra
    )
    assert (engine_of(stage), answer.headers["x-breakeven-reason"]) == (BASE, "capability")


async def test_the_models_are_listed(stage: Stage, client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["m"]


async def test_a_stream_that_is_closed_early_is_closed_at_the_engine(stage: Stage, client: openai.AsyncOpenAI) -> None:
    async def endless(link: Link) -> None:
        await link.head()
        while True:
            await link.chunk(HELLO[0])
            await asyncio.sleep(0.05)

    stage.script(endless)
    parts = await client.chat.completions.create(model="m", messages=HI, stream=True)
    async for _ in parts:
        break
    await parts.close()
    await stage.spec.requests[0].left()


async def test_the_synchronous_client_works_from_a_thread(stage: Stage) -> None:
    def ask() -> str | None:
        address = f"http://127.0.0.1:{stage.router.port}/v1"
        with openai.OpenAI(base_url=address, api_key="unused", max_retries=0) as sync:
            return sync.chat.completions.create(model="m", messages=HI, temperature=1.5).choices[0].message.content

    assert (await asyncio.to_thread(ask), engine_of(stage)) == ("hello", BASE)


async def curl(stage: Stage, *arguments: str) -> bytes:
    """What curl prints; it must end in 0."""
    command = shutil.which("curl")
    if command is None:
        pytest.skip("curl is not installed")
    address = f"http://127.0.0.1:{stage.router.port}/v1/chat/completions"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(command, "-sS", "-N", *arguments, address, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out


@pytest.mark.parametrize(("temperature", "pool"), [(0.7, SPEC), (1.5, BASE)])
async def test_curl_gets_a_whole_answer(stage: Stage, temperature: float, pool: str) -> None:
    content = body(temperature=temperature).decode()
    answer = json.loads(await curl(stage, "-H", "Content-Type: application/json", "-d", content))
    assert (answer["choices"][0]["message"]["content"], engine_of(stage)) == ("hello", pool)


async def test_curl_gets_a_stream_byte_for_byte(stage: Stage) -> None:
    stage.script(streams(HELLO))
    content = body(stream=True).decode()
    assert await curl(stage, "-H", "Content-Type: application/json", "-d", content) == b"".join(HELLO)


async def test_curl_with_a_large_body_expects_to_continue_and_may(stage: Stage) -> None:
    content = body(user="x" * 2_000_000).decode()
    arguments = ("-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "--data-binary", "@-")
    command = shutil.which("curl")
    if command is None:
        pytest.skip("curl is not installed")
    address = f"http://127.0.0.1:{stage.router.port}/v1/chat/completions"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(command, "-sS", *arguments, address, stdin=pipe, stdout=pipe)
    out, _ = await process.communicate(content.encode())
    assert json.loads(out)["choices"][0]["message"]["content"] == "hello"
    assert stage.seen[0].body == content.encode()
