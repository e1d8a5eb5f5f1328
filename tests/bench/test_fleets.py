"""The fleets of the arms: started as any user would start them, and refused with the server's own words."""

import sys

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from breakeven_bench import fleets
from breakeven_bench.arms import ARMS
from breakeven_bench.fleets import EngineSettings, engine_command, router_command, start_fleets
from breakeven_bench.launch import Launcher, LaunchError
from tests.bench.runs import arm

SETTINGS = EngineSettings(profile="a100-tp2-fp8", k=3, max_num_seqs=64, time_scale=2.5, seed=7)


@pytest.mark.slow
async def test_an_engine_that_cannot_start_is_an_error_with_its_own_words(tmp_path):
    wrong = EngineSettings(profile="abacus", k=3, max_num_seqs=64, time_scale=2.5, seed=7)
    async with Launcher(tmp_path) as launcher:
        with pytest.raises(LaunchError, match=r"(?s)two-plain-plain-0 ended with status 2.*abacus"):
            await start_fleets(launcher, [arm("two-plain")], wrong)


def test_a_plain_engine_is_started_without_speculation():
    argv = engine_command("e", SETTINGS, speculative=False).argv
    assert argv[:4] == [sys.executable, "-m", "breakeven_bench", "engine"]
    assert "--method" not in argv
    assert argv[argv.index("--port") + 1] == "0"


def test_a_speculative_engine_drafts_as_many_tokens_as_asked_for():
    argv = engine_command("e", SETTINGS, speculative=True).argv
    assert argv[-4:] == ["--method", "eagle3", "--k", "3"]


def test_engines_of_all_arms_share_hardware_pace_and_seed():
    for speculative in (True, False):
        argv = engine_command("e", SETTINGS, speculative=speculative).argv
        for flag, value in (
            ("--profile", "a100-tp2-fp8"),
            ("--time-scale", "2.5"),
            ("--seed", "7"),
            ("--max-num-seqs", "64"),
        ):
            assert argv[argv.index(flag) + 1] == value


@pytest.mark.parametrize("chosen", ARMS, ids=lambda arm: arm.name)
def test_a_router_gets_the_engines_and_the_policy_of_its_arm(chosen):
    plain = [f"http://p{index}" for index in range(chosen.plain)]
    speculative = [f"http://s{index}" for index in range(chosen.speculative)]
    argv = list(router_command(chosen, plain, speculative).argv)
    assert [argv[place + 1] for place, part in enumerate(argv) if part == "--baseline"] == plain
    assert [argv[place + 1] for place, part in enumerate(argv) if part == "--speculative"] == speculative
    assert argv[argv.index("--policy") + 1] == chosen.policy


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("engine ready on http://127.0.0.1:8123 (llama-70b)", "http://127.0.0.1:8123"),
        ("2026-11-30 INFO ready on http://127.0.0.1:80, admin on http://127.0.0.1:81", "http://127.0.0.1:80"),
        ("ready on http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_address_is_read_from_the_ready_line(line, expected):
    match = fleets.READY_URL.search(line)
    assert match is not None
    assert match.group(1) == expected


@pytest.mark.slow
async def test_a_fleet_serves_through_its_router_and_shows_its_engines(tmp_path):
    async with Launcher(tmp_path) as launcher, aiohttp.ClientSession() as session:
        (fleet,) = await start_fleets(launcher, [arm("threshold")], SETTINGS)
        assert len(fleet.engine_urls) == 2
        assert len(launcher.servers) == 3
        body = {"model": fleets.MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        for temperature, pool in ((0.7, "speculative"), (1.2, "baseline")):
            async with session.post(
                f"{fleet.router_url}/v1/chat/completions", json=body | {"temperature": temperature}
            ) as response:
                assert response.status == 200
                assert response.headers["x-breakeven-pool"] == pool


async def test_a_fleet_is_ready_when_its_router_holds_every_engine_for_ready(aiohttp_fleet):
    answers, url = aiohttp_fleet
    await fleets.until_all_serve(url)
    assert answers == []


@pytest.fixture
async def aiohttp_fleet():
    """An admin page that finds one more of two engines ready each time it is asked."""
    answers = [["unknown", "unknown"], ["ready", "loading"], ["ready", "ready"]]

    async def fleet(_):
        backends = [{"health": health} for health in answers.pop(0)]
        return web.json_response({"pools": [{"backends": backends[:1]}, {"backends": backends[1:]}]})

    app = web.Application()
    app.router.add_get("/fleet", fleet)
    server = TestServer(app)
    await server.start_server()
    yield answers, str(server.make_url("")).rstrip("/")
    await server.close()
