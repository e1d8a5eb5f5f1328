"""Three engines, each behind a router of its own that knows them all; on simulated engines."""

import json
from itertools import pairwise

import aiohttp
import pytest

from breakeven_bench.launch import Launcher, LaunchError
from breakeven_bench.real_curve import fleet
from breakeven_bench.real_curve.fleet import SPECULATION, pools, router_command, start_fleet
from breakeven_bench.real_curve.result import BASELINE, GREEDY, PROBABILISTIC
from breakeven_bench.vllm import host, pair
from tests.bench.vllm.stand_in import IS_DEAF, LOADS_AND_DIES, environment


def test_the_speculative_engines_differ_in_their_drafting_alone():
    greedy, probabilistic = SPECULATION[GREEDY], SPECULATION[PROBABILISTIC]
    assert SPECULATION[BASELINE] is None
    assert greedy is not None
    assert probabilistic == {**greedy, "draft_sample_method": "probabilistic"}
    assert "draft_sample_method" not in greedy


def test_every_router_knows_every_pool_of_its_kind():
    configured = json.loads(pools({name: f"http://127.0.0.1:{port}" for port, name in enumerate(SPECULATION, 1)}))
    assert [(pool["name"], pool["kind"], pool["backends"]) for pool in configured["pools"]] == [
        (BASELINE, "plain", ["http://127.0.0.1:1"]),
        (GREEDY, "speculative", ["http://127.0.0.1:2"]),
        (PROBABILISTIC, "speculative", ["http://127.0.0.1:3"]),
    ]


def test_a_router_is_pinned_to_its_pool_and_looks_seldom(tmp_path):
    argv = router_command(GREEDY, tmp_path / "pools.json").argv
    flags = dict(pairwise(argv))
    assert (flags["--policy"], flags["--port"], flags["--host"]) == (f"pinned:{GREEDY}", "0", host.HOST)
    assert float(flags["--probe-interval-s"]) == float(flags["--scrape-interval-s"]) >= 5


@pytest.mark.slow
async def test_an_engine_that_ends_while_it_loads_shows_the_end_of_its_log(tmp_path):
    async with Launcher(tmp_path) as launcher:
        with pytest.raises(LaunchError, match=r"(?s)(baseline|eagle3-\w+) ended with status 1 .*no memory left"):
            await start_fleet(launcher, environment(tmp_path / "env", LOADS_AND_DIES), tmp_path, print)


@pytest.mark.slow
async def test_an_engine_that_is_ready_and_answers_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(pair, "ANSWER_TIMEOUT_S", 0.3)
    async with Launcher(tmp_path, grace_s=1.0) as launcher:
        with pytest.raises(LaunchError, match=r"listens on http://127.0.0.1:1 and answers no completion within 0.3 s"):
            await start_fleet(launcher, environment(tmp_path / "env", IS_DEAF), tmp_path, print)


@pytest.mark.slow
async def test_a_router_that_does_not_find_the_engines_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(
        fleet,
        "pools",
        lambda _: '{"pools": [{"name": "baseline", "kind": "plain", "backends": ["http://127.0.0.1:1"]}]}',
    )
    monkeypatch.setattr(fleet, "SPECULATION", {BASELINE: None})
    monkeypatch.setattr(pair, "FOUND_TIMEOUT_S", 0.5)
    async with Launcher(tmp_path, grace_s=1.0) as launcher:
        with pytest.raises(LaunchError, match=r"router-baseline does not find its engines ready within 0.5 s"):
            await start_fleet(launcher, environment(tmp_path / "env"), tmp_path, print)


@pytest.mark.slow
async def test_each_engine_is_reached_through_its_own_router(tmp_path):
    async with Launcher(tmp_path) as launcher, aiohttp.ClientSession() as session:
        engines = await start_fleet(launcher, environment(tmp_path / "env"), tmp_path, print)
        assert [engine.name for engine in engines] == [BASELINE, GREEDY, PROBABILISTIC]
        assert len({engine.url for engine in engines} | {engine.router_url for engine in engines}) == 6
        for engine in engines:
            for temperature in (0.0, 1.5):
                body = {"model": host.SERVED_MODEL, "prompt": "The", "max_tokens": 2, "temperature": temperature}
                async with session.post(f"{engine.router_url}/v1/completions", json=body) as answer:
                    assert (answer.status, answer.headers["x-breakeven-pool"]) == (200, engine.name)
