"""Another configuration takes over while requests run, keys are exchanged (B63), and one engine is drained."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.field.client import JSON, body, request
from tests.field.router import total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers
from tests.field.stage import BASE, IN_FLIGHT, REQUESTS, SPEC, Stage, pools, staged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

RELOADS = "breakeven_config_reloads_total"
FIRST, LAST = b'data: {"first":1}\n\n', b'data: {"last":1}\n\ndata: [DONE]\n\n'
WARM, COLD = 1.5, 0.5


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A router of our own: these tests change it."""
    async with staged(tmp_path_factory.mktemp("router")) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    """As everywhere; afterwards the router has its first settings again, and knows its first two engines."""
    first, engines = dict(site.router.settings), list(site.all_engines)
    await site.prepare()
    site.log_mark = len(site.router.log)
    yield site
    site.check()
    site.router.settings = first
    await reload(site, pools=pools([], [site.base]))  # whoever was drained is gone with this
    await reload(site, pools=first["pools"])
    for extra in site.all_engines[len(engines) :]:
        await extra.refuse()
    site.all_engines[len(engines) :] = []


async def gated(link: Link) -> None:
    """The first event, and the last when the test says so."""
    await link.head()
    await link.chunk(FIRST)
    await link.seen.go.wait()
    await link.chunk(LAST)
    await link.end()


async def logged(stage: Stage, pattern: str) -> None:
    """Wait for a line of this test."""

    async def line() -> bool:
        return any(re.search(pattern, line) for line in stage.router.log[stage.log_mark :])

    await until(line, f"log line {pattern!r}")


async def reload(stage: Stage, result: str = "success", **changes: Any) -> None:
    """Write the settings with these changes, and wait until they have been read."""
    router = stage.router
    router.settings = {name: value for name, value in {**router.settings, **changes}.items() if value is not ...}
    before = total(await router.samples(RELOADS), RELOADS, result=result)
    router.write()
    router.hang_up()

    async def done() -> bool:
        return total(await router.samples(RELOADS), RELOADS, result=result) > before

    await until(done, f"a reload: {result}")


async def change(stage: Stage, path: str, **headers: str) -> Any:
    """POST to the admin port."""
    async with await stage.admin() as client:
        return await client.ask(b"", path=path, headers=tuple(headers.items()))


async def pool_of(stage: Stage, temperature: float, **how: Any) -> str:
    return (await stage.routed(body(temperature=temperature), **how))[0]


async def test_policy_threshold_aliases_and_limits_are_in_force_with_the_next_request(stage: Stage) -> None:
    async with await stage.client() as client:
        assert (await client.ask(body(temperature=COLD)))["x-breakeven-pool"] == SPEC
        await reload(stage, threshold=0.1, aliases={"fast": "m"}, body_max_bytes=2000, cors_origins=["https://a.test"])
        reply = await client.ask(body(temperature=COLD, model="fast"))
        assert (reply.status, reply["x-breakeven-pool"]) == (200, BASE)
        assert (await client.ask(body(), headers=[*JSON, ("Origin", "https://a.test")])).values("vary")
        assert (await client.ask(body(padding="x" * 3000))).status == 413
    assert {model["id"] for model in (await stage.router.get("/v1/models")).json()["data"]} == {"m", "fast"}


async def test_a_mistake_changes_nothing_and_is_said_and_counted(stage: Stage) -> None:
    good = dict(stage.router.settings)
    await reload(stage, "failure", threshold="warm", pools=[])
    await logged(stage, "configuration not reloaded: .*threshold")
    assert await pool_of(stage, COLD) == SPEC
    stage.router.settings = good
    await reload(stage)
    assert await stage.router.ready()


async def test_a_changed_file_needs_no_signal(stage: Stage) -> None:
    stage.router.settings = {**stage.router.settings, "threshold": 0.1}
    stage.router.write()
    await logged(stage, "configuration reloaded: changed: threshold")
    assert await pool_of(stage, COLD) == BASE


async def test_what_takes_a_restart_is_said(stage: Stage) -> None:
    await reload(stage, admin_port=1, threshold=0.1)
    await logged(stage, "admin_port has changed: that takes a restart")
    assert await pool_of(stage, COLD) == BASE


async def test_a_stream_on_an_engine_that_is_taken_away_ends_as_it_should(stage: Stage) -> None:
    stage.spec.script = gated
    other = await engine(stage, f"{SPEC}-1")
    before = total(await stage.router.samples(REQUESTS), REQUESTS, pool=SPEC, outcome="completed")
    async with await stage.client() as client:
        await client.send(streaming(), "POST")
        await client.has(FIRST)
        await reload(stage, pools=pools([stage.base], [other]))
        assert set(await stage.router.backends()) == {f"{BASE}-0", f"{SPEC}-1"}
        # It was asked before it stood in for the other one: no request meets a gap, none goes to the old one.
        for _ in range(5):
            assert (await stage.ask(body(temperature=COLD)))["x-breakeven-backend"] == f"{SPEC}-1"
        assert [seen.target for seen in stage.spec.requests] == ["/v1/chat/completions"]
        probes = len(stage.spec.probed)
        stage.spec.requests[0].go.set()
        reply = await client.end()
        assert reply.complete
        assert reply.body.endswith(LAST)
    await stage.idle()
    samples = await stage.router.samples()
    assert not [labels for _, labels in samples if ("backend", f"{SPEC}-0") in labels]
    assert total(samples, REQUESTS, pool=SPEC, outcome="completed") - before == 6
    assert len(stage.spec.probed) == probes
    await until(no_connection_to(stage.spec), "the idle connections to the engine that is gone are closed")


async def test_counters_of_what_stays_never_fall(stage: Stage) -> None:
    for temperature in (WARM, COLD):
        await stage.ask(body(temperature=temperature))
    before = await stage.router.samples(REQUESTS)
    await reload(stage, pools=pools([stage.base], [stage.spec, await engine(stage, f"{SPEC}-1")]), threshold=0.2)
    after = await stage.router.samples(REQUESTS)
    assert all(after[series] >= value for series, value in before.items())


async def test_an_engine_that_moves_is_found_at_its_new_address(stage: Stage) -> None:
    moved = await engine(stage, f"{SPEC}-0")
    await reload(stage, pools=pools([stage.base], [moved]))
    assert (await stage.ask(body(temperature=COLD)))["x-breakeven-backend"] == f"{SPEC}-0"
    assert (len(stage.spec.requests), len(moved.requests)) == (0, 1)


async def test_a_request_whose_other_choice_was_taken_away_meanwhile_is_answered(stage: Stage) -> None:
    async def dies_later(link: Link) -> None:
        await link.seen.go.wait()
        link.reset()

    stage.spec.script = dies_later
    async with await stage.client() as client:
        await client.send(streaming(temperature=COLD), "POST")
        await stage.spec.request()
        await reload(stage, pools=pools([], [stage.spec]))
        stage.spec.requests[0].go.set()
        reply = await client.end()
    assert reply.status == 502
    assert stage.base.requests == []
    await stage.idle()


@pytest.mark.parametrize(("how", "status"), [("reset", 502), ("503", 503), ("500", 500)])
async def test_a_request_whose_other_choice_was_drained_meanwhile_is_answered_with_what_the_first_one_said(
    stage: Stage, how: str, status: int
) -> None:
    async def fails_later(link: Link) -> None:
        await link.seen.go.wait()
        if how == "reset":
            link.reset()
        else:
            await answers(b"the engine's own words", int(how))(link)

    stage.spec.script = fails_later
    async with await stage.client() as client:
        await client.send(streaming(temperature=COLD), "POST")
        await stage.spec.request()
        await change(stage, f"/backends/{BASE}-0/drain")
        stage.spec.requests[0].go.set()
        reply = await client.end()
    assert reply.status == status
    await change(stage, f"/backends/{BASE}-0/resume")
    assert (reply.body == b"the engine's own words") is (how != "reset")
    assert stage.base.requests == []
    await stage.idle()


async def test_what_fails_at_an_engines_old_address_is_not_held_against_it_at_the_new_one(stage: Stage) -> None:
    async def dies_later(link: Link) -> None:
        await link.seen.go.wait()
        link.reset()

    stage.spec.script = dies_later
    async with await stage.client() as client:
        await client.send(streaming(temperature=COLD), "POST")
        await stage.spec.request()
        moved = await engine(stage, f"{SPEC}-0")
        await reload(stage, pools=pools([stage.base], [moved]), engine_failures_max=1)
        stage.spec.requests[0].go.set()
        assert (await client.end()).status == 200  # by the other engine
    await stage.idle()
    assert (await stage.router.health_of())[f"{SPEC}-0"] == "ready"
    ejections = "breakeven_backend_ejections_total"
    assert total(await stage.router.samples(ejections), ejections) == 0


async def test_keys_are_exchanged_without_a_restart(stage: Stage) -> None:
    folder = stage.router.folder
    keys = folder / "keys"
    keys.write_text("old=sk-old-key-1111\n")
    await reload(stage, api_keys_file=str(keys))

    async def status(key: str) -> int | None:
        return (await stage.ask(body(), headers=[*JSON, ("Authorization", f"Bearer {key}")])).status

    async with await stage.client() as client:
        with_old = [*JSON, ("Authorization", "Bearer sk-old-key-1111")]
        for _ in range(2):
            assert (await client.ask(body(), headers=with_old)).status == 200
        assert await status("sk-new-key-2222") == 401
        keys.write_text("new=sk-new-key-2222\n")  # noticed without a signal
        await logged(stage, "keys and certificates were read again")
        assert await status("sk-new-key-2222") == 200
        # Also on a connection, and with a head, that was let in before.
        assert (await client.ask(body(), headers=with_old)).status == 401
    keys.write_text("")
    await logged(stage, "configuration not reloaded: api_keys_file: .*at least one key")
    assert await status("sk-new-key-2222") == 200
    assert (await stage.ask(body())).status == 401


async def test_a_drained_backend_finishes_what_runs_and_gets_nothing_new_until_resumed(stage: Stage) -> None:
    stage.spec.script = gated
    async with await stage.client() as client:
        await client.send(streaming(), "POST")
        await client.has(FIRST)
        answer = await change(stage, f"/backends/{SPEC}-0/drain")
        assert answer.json() == {
            "backend": f"{SPEC}-0",
            "pool": SPEC,
            "draining": True,
            "health": "draining",
            "in_flight": 1,
            "warning": f"no backend of pool {SPEC} is ready: other pools take what they can",
        }
        assert await pool_of(stage, COLD) == BASE
        await reload(stage, threshold=0.9)
        assert (await stage.router.backends())[f"{SPEC}-0"]["draining"]
        assert total(await stage.router.samples("breakeven_backend_draining"), "breakeven_backend_draining") == 1
        stage.spec.requests[0].go.set()
        assert (await client.end()).body.endswith(LAST)
    await stage.idle()
    assert await stage.router.ready()
    async with await stage.admin() as admin:
        verdicts = (await admin.ask(body(temperature=COLD), path="/explain")).json()["pools"]
    assert {verdict["pool"]: verdict["draining"] for verdict in verdicts} == {BASE: [], SPEC: [f"{SPEC}-0"]}
    assert (await change(stage, f"/backends/{SPEC}-0/resume")).json()["health"] == "ready"
    stage.clear()
    assert await pool_of(stage, COLD) == SPEC


async def test_a_fleet_that_is_drained_as_a_whole_is_not_ready(stage: Stage) -> None:
    await change(stage, f"/backends/{SPEC}-0/drain")
    answer = await change(stage, f"/backends/{BASE}-0/drain")
    assert "no engine is left and requests are refused" in answer.json()["warning"]
    assert not await stage.router.ready()
    assert (await stage.router.get("/health")).status == 200
    reply = await stage.ask(body())
    assert (reply.status, reply.values("retry-after")) == (503, ["1"])
    assert (await change(stage, "/backends/nobody/drain")).status == 404
    assert (await change(stage, f"/backends/{BASE}-0/resume", Origin="https://elsewhere.test")).status == 403
    assert not await stage.router.ready()
    await change(stage, f"/backends/{BASE}-0/resume")
    assert await stage.router.ready()


async def test_an_admin_key_is_needed_to_drain_and_can_be_exchanged(stage: Stage) -> None:
    await reload(stage, admin_key="sk-admin-1")
    assert (await change(stage, f"/backends/{SPEC}-0/drain")).status == 401
    assert (await change(stage, f"/backends/{SPEC}-0/drain", Authorization="Bearer sk-admin-1")).status == 200
    await reload(stage, admin_key="sk-admin-2")
    assert (await change(stage, f"/backends/{SPEC}-0/resume", Authorization="Bearer sk-admin-1")).status == 401


async def test_reloading_again_and_again_under_load_fails_no_request(stage: Stage) -> None:
    """Pools come and go, clients ask all the while, and nothing is left over at the end."""
    extra = await engine(stage, f"{SPEC}-1")
    mixes = [[stage.spec], [stage.spec, extra], [extra]]
    statuses: list[int | None] = []
    for turn in range(6):
        async with await stage.client() as client:
            statuses += [(await client.ask(body(temperature=each))).status for each in (COLD, WARM)]
            await reload(stage, pools=pools([stage.base], mixes[turn % 3]))
            statuses += [(await client.ask(body(temperature=each))).status for each in (COLD, WARM)]
    assert set(statuses) == {200}
    await stage.idle()
    assert total(await stage.router.samples(IN_FLIGHT), IN_FLIGHT) == 0


async def test_several_workers_take_another_configuration_over_and_know_who_is_drained(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Each answers as one process would: eight connections, so that both workers are asked."""
    async with staged(tmp_path_factory.mktemp("router"), {"workers": 2}) as stage:
        extra = await engine(stage, f"{SPEC}-1")
        await reload(stage, pools=pools([stage.base], [extra]), threshold=0.9, api_keys={"team": "sk-team-key-1"})

        async def answered(temperature: float) -> set[tuple[int | None, str]]:
            headers = [*JSON, ("Authorization", "Bearer sk-team-key-1")]
            replies = [await stage.ask(body(temperature=temperature), headers=headers) for _ in range(8)]
            return {(reply.status, "".join(reply.values("x-breakeven-backend"))) for reply in replies}

        async def taken_over() -> bool:
            return await answered(COLD) == {(200, f"{SPEC}-1")} and await answered(1.0) == {(200, f"{BASE}-0")}

        await until(taken_over, "all workers serve by the new settings")
        assert {(await stage.ask(body())).status for _ in range(8)} == {401}
        await change(stage, f"/backends/{SPEC}-1/drain")

        async def drained() -> bool:
            return await answered(COLD) == {(200, f"{BASE}-0")}

        await until(drained, "all workers know who is drained")
        stage.check()


def streaming(**fields: Any) -> bytes:
    return request(body(stream=True, **{"temperature": COLD, **fields}))


async def engine(stage: Stage, name: str) -> Engine:
    """One more, which listens and is closed with the others."""
    made = Engine(name)
    await made.listen()
    stage.all_engines.append(made)
    return made


def no_connection_to(engine: Engine) -> Any:
    async def none() -> bool:
        return not engine.connections

    return none
