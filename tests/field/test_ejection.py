"""B53 and B54: an engine that answers its health checks and nothing else is taken out; a busy one is not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.field.client import body, request
from tests.field.router import total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers, hangs
from tests.field.stage import SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLD = body(temperature=0.2)
EJECTIONS = "breakeven_backend_ejections_total"
FROZEN = b"""vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 7.0
vllm:generation_tokens_total{engine="0",model_name="m"} 9.0
"""
LIMITS = {"engine_failures_max": 3, "engine_frozen_s": 1.0, "first_byte_timeout_s": 0.3, "probe_timeout_s": 0.3}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Two speculative engines."""
    spec = [Engine(f"{SPEC}-{number}") for number in range(2)]
    async with staged(tmp_path_factory.mktemp("router"), LIMITS, spec=spec) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    await site.prepare()
    yield site
    site.check()


async def health_becomes(stage: Stage, engine: Engine, wanted: str) -> None:
    async def is_so() -> bool:
        return (await stage.router.health_of())[engine.name] == wanted

    await until(is_so, f"{engine.name} is {wanted}")


async def probed_again(engine: Engine, times: int) -> None:
    wanted = len(engine.probed) + times

    async def is_so() -> bool:
        return len(engine.probed) >= wanted

    await until(is_so, f"{engine.name} is probed {times} times")


async def test_b53_a_frozen_engine_is_out_after_some_time_outs_and_all_others_are_served(stage: Stage) -> None:
    frozen, well = stage.spec, stage.all_engines[2]
    frozen.script = hangs
    statuses = [(await stage.ask(COLD)).status for _ in range(50)]
    assert set(statuses) == {200, 504}
    assert statuses.count(504) == LIMITS["engine_failures_max"]
    assert len(well.requests) == statuses.count(200)
    assert (await stage.router.health_of())[frozen.name] == "ejected"


async def test_b53_a_green_health_check_brings_nothing_back_and_a_token_does(stage: Stage) -> None:
    frozen = stage.spec
    frozen.script = hangs
    while (await stage.router.health_of())[frozen.name] != "ejected":
        await stage.ask(COLD)
    await probed_again(frozen, 10)
    assert (await stage.router.health_of())[frozen.name] == "ejected"
    frozen.script = answers()
    await health_becomes(stage, frozen, "ready")
    asked = frozen.requests[-1]
    assert (asked.method, asked.target) == ("POST", "/v1/completions")


async def test_b53_counters_that_stand_still_over_a_held_request_take_the_engine_out(
    stage: Stage, tmp_path: Path
) -> None:
    spec = [Engine(f"{SPEC}-0"), Engine(f"{SPEC}-1")]
    patient = LIMITS | {"first_byte_timeout_s": 0}
    async with staged(tmp_path, patient, spec=spec) as other:
        frozen = other.spec
        frozen.script = hangs
        other.all_engines[2].script = hangs
        async with await other.client() as first, await other.client() as second:
            for client in (first, second):
                await client.send(request(COLD), "POST")
            await frozen.request()
            frozen.probes["/metrics"] = answers(FROZEN, headers=[("Content-Type", "text/plain")])
            await health_becomes(other, frozen, "ejected")
            assert (await other.router.health_of())[other.all_engines[2].name] == "ready"


async def test_b54_time_outs_of_an_engine_that_makes_tokens_do_not_take_it_out(stage: Stage) -> None:
    scrapes = 0

    async def page(link: Link) -> None:
        nonlocal scrapes
        scrapes += 1
        await answers(FROZEN.replace(b"9.0", b"%d.0" % scrapes), headers=[("Content-Type", "text/plain")])(link)

    async def scraped_twice() -> bool:
        return scrapes >= before + 2

    busy, other = stage.spec, stage.all_engines[2]
    busy.probes["/metrics"] = page
    busy.script = hangs
    await other.refuse()
    try:
        for _ in range(3):
            replies = await asyncio.gather(*(stage.ask(COLD) for _ in range(2 * LIMITS["engine_failures_max"])))
            assert {reply.status for reply in replies} == {504}
            before = scrapes
            await until(scraped_twice, "two scrapes")
        assert (await stage.router.health_of())[busy.name] == "ready"
    finally:
        await other.listen()


@pytest.mark.slow
async def test_b53_an_engine_that_answers_with_500_what_others_answer_is_out_until_it_answers(stage: Stage) -> None:
    """Its health checks are green all the time. It takes three seconds: a batch that breaks at once is no reason."""
    broken = stage.spec
    broken.script = answers(b'{"error":"cuda"}', 500)
    number = 0
    while (await stage.router.health_of())[broken.name] != "ejected":
        number += 1
        assert (await stage.ask(body(temperature=0.2, user=f"u{number}"))).status in {200, 500}
        await asyncio.sleep(0.02)  # the case: errors over a while
    await stage.router.logged(rf"{broken.name} .* is ejected \(errors\)")
    assert (await stage.router.backends())[broken.name]["suspicion"] == "errors"
    assert total(await stage.router.samples(EJECTIONS), EJECTIONS, backend=broken.name, cause="errors") == 1
    assert {(await stage.ask(COLD)).status for _ in range(5)} == {200}
    broken.script = answers()
    await health_becomes(stage, broken, "ready")

    async def trusted() -> bool:
        await stage.ask(COLD)
        return (await stage.router.backends())[broken.name]["suspicion"] is None

    await until(trusted, "an answered request ends the trial")


@pytest.mark.slow
async def test_b49_a_request_that_every_engine_answers_with_500_empties_no_fleet(stage: Stage) -> None:
    """One client repeats it, beside others who are served."""

    async def script(link: Link) -> None:
        await answers(*((b"{}", 500) if b"poison" in link.seen.body else ()))(link)

    stage.script(script)
    poison = body(temperature=0.2, user="poison")
    started_s = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < started_s + 3.5:  # the case: longer than errors must last
        assert (await stage.ask(poison)).status == 500
    assert "ejected" not in (await stage.router.health_of()).values()
    assert (await stage.ask(COLD)).status == 200


async def test_b43_refusals_of_an_engine_are_answers(stage: Stage) -> None:
    stage.script(answers(b"{}", 429))
    for _ in range(3 * LIMITS["engine_failures_max"]):
        assert (await stage.ask(COLD)).status == 429
    assert "ejected" not in (await stage.router.health_of()).values()
