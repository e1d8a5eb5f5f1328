"""What the router writes down of real requests: who ended them, the decision with its outcome, the trace."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from breakeven_policies.journal import Entry, decode
from breakeven_policies.registry import build_policy
from tests.field.client import JSON, body
from tests.field.router import total, until
from tests.field.scripts import Link, answers, streams
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "ein-geheimer-Satz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(folder: Path) -> AsyncIterator[Stage]:
    """A router that writes everything down."""
    settings = {"access_log": str(folder / "access.log"), "journal": str(folder / "journal.jsonl")}
    async with staged(folder, settings) as stage:
        yield stage


def lines(path: Path, request_id: str) -> list[bytes]:
    written = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in written if json.loads(line)["request_id"] == request_id]


async def told(path: Path, request_id: str) -> bytes:
    """The one line with that id, once it is there."""

    async def there() -> bool:
        return bool(lines(path, request_id))

    await until(there, f"{request_id} in {path.name}")
    (line,) = lines(path, request_id)
    return line


async def logged(folder: Path, request_id: str) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(await told(folder / "access.log", request_id))
    return line


async def journalled(folder: Path, request_id: str) -> Entry:
    return decode(await told(folder / "journal.jsonl", request_id))


def headers(request_id: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [*JSON, ("x-request-id", request_id), *more]


async def test_a_client_that_left_is_who_ended_it(stage: Stage, folder: Path) -> None:
    async def held(link: Link) -> None:
        await link.head()
        await link.seen.left()

    stage.script(held)
    async with await stage.client() as client:
        asking = asyncio.create_task(client.ask(body(), headers=headers("left")))
        await until(lambda: _reached(stage), "the engine is asked")
        asking.cancel()
    line = await logged(folder, "left")
    assert (line["outcome"], line["ended_by"]) == ("client_closed", "client")


async def _reached(stage: Stage) -> bool:
    return bool(stage.seen)


async def test_an_engine_that_refuses_is_who_ended_it_and_a_router_that_refuses_likewise(
    stage: Stage, folder: Path
) -> None:
    stage.script(answers(b"{}", status=422))
    await stage.ask(body(), headers=headers("engine-refused"))
    await stage.ask(b"{", headers=headers("router-refused"))
    line = await logged(folder, "engine-refused")
    assert (line["outcome"], line["ended_by"], line["status"]) == ("rejected_by_engine", "engine", 422)
    line = await logged(folder, "router-refused")
    assert (line["outcome"], line["ended_by"], line["pool"], line["decided_s"]) == (
        "client_error",
        "router",
        None,
        None,
    )


async def test_a_decision_is_journalled_with_its_outcome_and_can_be_taken_again(stage: Stage, folder: Path) -> None:
    answer = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}'
    stage.script(answers(answer))
    await stage.ask(body(temperature=1.5, user=SECRET, max_tokens=50), headers=headers("decided"))
    entry = await journalled(folder, "decided")
    considered, happened = entry.considered, entry.happened
    assert (considered.request.temperature, considered.request.max_output_tokens) == (1.5, 50)
    assert build_policy("threshold", 1.0).decide(considered.request, considered.fleet) == considered.decision
    assert (happened.outcome, happened.pool, happened.attempts, happened.status) == ("completed", BASE, 1, 200)
    assert (happened.prompt_tokens, happened.completion_tokens, happened.bytes_out) == (3, 9, len(answer))
    other = build_policy("pinned:speculative", 1.0).decide(considered.request, considered.fleet)
    assert other.ranking[0].pool == SPEC
    line = await logged(folder, "decided")
    assert (line["pool"], line["finished_s"]) == (happened.pool, pytest.approx(happened.finished_s, abs=1e-6))


async def test_neither_prompt_nor_key_nor_address_is_written_anywhere(stage: Stage, folder: Path) -> None:
    content = body(messages=[{"role": "user", "content": SECRET}], user=SECRET)
    await stage.ask(content, headers=headers("secret", ("authorization", f"Bearer {SECRET}"), ("cookie", SECRET)))
    for name in ("access.log", "journal.jsonl"):
        line = await told(folder / name, "secret")
        assert SECRET.encode() not in line
        assert b"127.0.0.1" not in line


async def test_who_stands_in_for_the_chosen_pool_is_told_beside_what_was_decided(stage: Stage, folder: Path) -> None:
    stage.spec.script = answers(b"{}", status=503)
    stage.base.script = answers(b"{}")
    await stage.ask(body(temperature=0.5), headers=headers("stood-in"))
    entry = await journalled(folder, "stood-in")
    assert entry.considered.decision.reason == "temperature_within_threshold"
    assert (entry.happened.reason, entry.happened.pool, entry.happened.attempts) == ("failover", BASE, 2)


async def test_a_stream_has_a_time_per_token(stage: Stage, folder: Path) -> None:
    token = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    stage.script(streams((token, token, usage, b"data: [DONE]\n\n")))
    await stage.ask(body(stream=True), headers=headers("streamed"))
    happened = (await journalled(folder, "streamed")).happened
    assert happened.first_token_s is not None
    assert happened.token_s is not None


@pytest.mark.parametrize(
    ("name", "values", "trace_id"),
    [
        ("trace-valid", [f"00-{TRACE}-{SPAN}-01"], TRACE),
        ("trace-upper", [f"00-{TRACE.upper()}-{SPAN}-01"], None),
        ("trace-twice", [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"], None),
        ("trace-none", [], None),
    ],
)
async def test_without_tracing_a_trace_goes_on_exactly_as_it_came_and_names_the_line_if_it_is_valid(
    stage: Stage, folder: Path, name: str, values: list[str], trace_id: str | None
) -> None:
    traced = [*(("traceparent", value) for value in values), ("tracestate", "b=2,a=1"), ("tracestate", "c=3")]
    _, seen, _ = await stage.routed(body(), headers=headers(name, *traced))
    assert seen.values("traceparent") == values
    assert seen.values("tracestate") == ["b=2,a=1", "c=3"]
    assert (await logged(folder, name))["trace_id"] == trace_id


async def test_a_log_that_is_moved_away_is_begun_anew_and_nothing_was_lost(stage: Stage, folder: Path) -> None:
    await stage.ask(body(), headers=headers("before"))
    for name in ("access.log", "journal.jsonl"):
        await told(folder / name, "before")
        (folder / name).rename(folder / f"{name}.old")
    await stage.ask(body(), headers=headers("after"))
    for name in ("access.log", "journal.jsonl"):
        await told(folder / name, "after")
        assert lines(folder / f"{name}.old", "before")
    assert total(await stage.router.samples(), "breakeven_log_lines_lost_total") == 0


def ids(folder: Path, pattern: str) -> list[str]:
    places = folder.glob(pattern)
    return sorted(json.loads(line)["request_id"] for place in places for line in place.read_bytes().splitlines())


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_two_workers_write_one_log_and_one_journal_and_turn_it_over_between_them(tmp_path: Path) -> None:
    sent = sorted(f"w-{number}" for number in range(60))
    settings = {"workers": 2, "access_log": str(tmp_path / "access.log"), "journal": str(tmp_path / "journal.jsonl")}
    async with staged(tmp_path, {**settings, "journal_max_bytes": 8192, "journal_files": 100}) as stage:
        for batch in (sent[:20], sent[20:40], sent[40:]):
            await asyncio.gather(*(stage.ask(body(), headers=headers(name)) for name in batch))
    assert ids(tmp_path, "access.log") == ids(tmp_path, "journal.jsonl*") == sent
    assert ids(tmp_path, "journal.jsonl.1")
