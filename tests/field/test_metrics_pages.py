"""B73 and B74: whatever an engine's metrics page looks like, what it says is read as it is meant, and traffic flows."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.field.client import body
from tests.field.router import total, until
from tests.field.scripted_engine import METRICS_PAGE, Engine
from tests.field.scripts import Link, Script, answers
from tests.field.stage import SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = [("Content-Type", "text/plain; version=0.0.4")]
FAILURES = "breakeven_backend_scrape_failures_total"
LENGTH, RATIO = "breakeven_engine_acceptance_length", "breakeven_engine_draft_acceptance_ratio"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A router that reads metrics often and is soon tired of waiting for them."""
    often = {"scrape_interval_s": 0.05, "probe_timeout_s": 0.5}
    async with staged(tmp_path_factory.mktemp("router"), often) as stage:
        yield stage


async def asked(engine: Engine, times: int = 2) -> None:
    """Wait until metrics were asked for once more after the page of the moment was read."""
    wanted = sum(seen.target == "/metrics" for seen in engine.probed) + times

    async def so_often() -> bool:
        return sum(seen.target == "/metrics" for seen in engine.probed) >= wanted

    await until(so_often, "metrics are asked for")


async def signals(stage: Stage, page: bytes) -> dict[str, Any]:
    """What the router believes of the speculative engine once it has read that page."""
    stage.spec.probes["/metrics"] = answers(page, headers=TEXT)
    await asked(stage.spec)
    found: dict[str, Any] = (await stage.router.backends())[stage.spec.name]["signals"]
    return found


OLD = b'vllm:num_requests_running{model_name="m"} 3.0\nvllm:gpu_cache_usage_perc{model_name="m"} 0.25\n'
NEW = b'vllm:num_requests_running{engine="0",model_name="m"} 3.0\nvllm:kv_cache_usage_perc{engine="0"} 0.25\n'
SWAPPED = b'vllm:num_requests_running{model_name="m",engine="0"} 3.0\nvllm:kv_cache_usage_perc{model_name="m"} 0.25\n'
ODD = (
    b"# TYPE vllm:num_requests_running unknown\n" + NEW + b"# TYPE something_else histogram\nsomething_else 1 # odd\n"
    b'vllm:never_heard_of{a="b"} 7\nnonsense\nvllm:num_requests_waiting NaN\nvllm:num_preemptions_total +Inf\n'
)
OPEN_METRICS = (
    b"# TYPE vllm:generation_tokens counter\n"
    b'vllm:generation_tokens_total{model_name="m"} 40.0 # {trace_id="a"} 1.0 1.77e9\n'
    b'vllm:generation_tokens_created{model_name="m"} 1.77e+09\n' + NEW + b"# EOF\n"
)
EIGHT = b"".join(b'vllm:num_requests_running{engine="%d",model_name="m"} 2.0\n' % engine for engine in range(8))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (OLD, {"running": 3.0, "kv_usage": 0.25, "waiting": None}),
        (NEW, {"running": 3.0, "kv_usage": 0.25, "waiting": None}),
        (OLD.replace(b"running", b"waiting") + NEW, {"running": 3.0, "waiting": 3.0, "kv_usage": 0.25}),
        (SWAPPED, {"running": 3.0, "kv_usage": 0.25}),
        (ODD, {"running": 3.0, "kv_usage": 0.25, "waiting": None, "preemptions": None}),
        (OPEN_METRICS, {"running": 3.0, "generation_tokens": 40.0}),
        (NEW + b"vllm:generation_tokens 7\n", {"generation_tokens": 7.0}),
        (NEW + b"vllm:generation_tokens 7\nvllm:generation_tokens_total 7\n", {"generation_tokens": 7.0}),
        (EIGHT, {"running": 16.0, "kv_usage": None}),
    ],
)  # fmt: skip
async def test_b73_what_a_page_says_is_read_and_what_it_does_not_say_stays_unknown(
    stage: Stage, page: bytes, expected: dict[str, float | None]
) -> None:
    found = await signals(stage, page)
    assert {name: found[name] for name in expected} == expected


async def silent(link: Link) -> None:
    """Take the question and say nothing."""
    await link.seen.closed.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        answers(b"", headers=TEXT),
        answers(b"<html><body>It works!</body></html>", headers=[("Content-Type", "text/html")]),
        answers(b'{"error":"Unauthorized"}', 401),
        answers(NEW + b"# " + b"x" * 20_000_000, headers=TEXT),
        answers(gzip.compress(NEW), headers=[*TEXT, ("Content-Encoding", "gzip")]),
        silent,
    ],
    ids=["empty", "html", "401", "20 MB", "gzip", "silent"],
)
async def test_b73_a_page_that_cannot_be_read_is_counted_and_traffic_flows(stage: Stage, script: Script) -> None:
    before = total(await stage.router.samples(FAILURES), FAILURES, backend=stage.spec.name)
    stage.spec.probes["/metrics"] = script

    async def counted() -> bool:
        now = await stage.router.samples(FAILURES)
        return total(now, FAILURES, backend=stage.spec.name) > before

    await until(counted, "the failure is counted")
    reply = await stage.ask(body(temperature=0.2))
    assert (reply.status, reply["x-breakeven-backend"]) == (200, stage.spec.name)
    assert (await stage.router.health_of())[stage.spec.name] == "ready"


def counters(drafts: int, draft_tokens: int, accepted: int) -> bytes:
    """Two engines of a page, each with half, and the time stamps that are no data."""
    lines = [METRICS_PAGE.decode()]
    named = {"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted}
    for engine in range(2):
        labels = f'engine="{engine}",model_name="m"'
        lines += [
            line
            for name, value in named.items()
            for line in (
                f"vllm:spec_decode_num_{name}_total{{{labels}}} {value / 2}\n",
                f"vllm:spec_decode_num_{name}_created{{{labels}}} 1.77e+09\n",
            )
        ]
        lines.append(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="0"}} {accepted / 4}\n')
    return "".join(lines).encode()


async def acceptance(stage: Stage) -> tuple[float | None, float | None]:
    """Length and ratio as the router shows them; None: not at all."""
    samples = await stage.router.samples("breakeven_engine_")
    own = {name: value for (name, labels), value in samples.items() if ("backend", stage.spec.name) in labels}
    return own.get(LENGTH), own.get(RATIO)


@pytest.mark.slow
async def test_b74_acceptance_is_summed_over_engines_before_it_is_divided_and_time_stamps_are_no_data(
    tmp_path: Path,
) -> None:
    engine = Engine(f"{SPEC}-0")
    engine.probes["/metrics"] = answers(counters(0, 0, 0), headers=TEXT)
    async with staged(tmp_path, {"scrape_interval_s": 0.05}, spec=[engine]) as stage:
        await asked(engine)
        assert await acceptance(stage) == (None, None)  # nothing was drafted: not zero
        found = await signals(stage, counters(100, 300, 150))
        assert (found["drafts"], found["draft_tokens"], found["accepted_tokens"]) == (100.0, 300.0, 150.0)
        assert found["accepted_tokens_per_position"] == [75.0]
        assert await acceptance(stage) == (2.5, 0.5)


async def test_b74_of_an_engine_that_does_not_draft_no_acceptance_is_told(stage: Stage) -> None:
    await signals(stage, METRICS_PAGE)
    assert await acceptance(stage) == (None, None)
