"""What is asked of a server before a load: its models by name, and the time of a simulated engine."""

import aiohttp
import pytest

from breakeven_bench.endpoint import NoModelError, chosen_model, engine_time_scale, served_models
from breakeven_bench.load import new_session
from tests.bench.streaming_server import serving


async def never(server, request, body):
    raise AssertionError


async def time_scale_of(metrics):
    async with serving(never, metrics=metrics) as server, new_session() as session:
        return await engine_time_scale(session, server.url)


@pytest.mark.parametrize("models", [{"data": []}, {}, [], {"data": [{}]}])
async def test_a_server_without_models_is_a_clear_error(models):
    async with serving(never, models) as server, new_session() as session:
        served = await served_models(session, server.url)
    with pytest.raises(NoModelError, match="http://server lists no model"):
        chosen_model("http://server", served, "mine")


async def test_a_server_that_does_not_answer_is_the_clients_own_error():
    async with new_session() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await served_models(session, "http://127.0.0.1:9")
        assert await engine_time_scale(session, "http://127.0.0.1:9") is None


def test_a_model_that_is_not_served_is_refused_with_those_that_are():
    with pytest.raises(NoModelError, match=r"does not serve 'mine'; there are: a, b$"):
        chosen_model("http://server", ["a", "b"], "mine")


def test_of_many_models_only_some_are_told():
    with pytest.raises(NoModelError, match=r"m9 and 20 more$"):
        chosen_model("http://server", [f"m{index}" for index in range(30)], "mine")


async def test_models_keep_the_order_of_the_server_and_the_first_is_the_default():
    async with serving(never) as server, new_session() as session:
        served = await served_models(session, server.url)
    assert served == ("model-a", "model-b")
    assert (chosen_model("", served, None), chosen_model("", served, "model-b")) == ("model-a", "model-b")


@pytest.mark.parametrize("metrics", [None, lambda _: "vllm:num_requests_running 0\n"], ids=["a router", "real vLLM"])
async def test_where_nothing_is_simulated_no_time_scale_is_known(metrics):
    assert await time_scale_of(metrics) is None


async def test_a_simulated_engine_says_how_fast_its_time_runs():
    assert await time_scale_of(lambda _: 'breakeven_sim_time_scale{engine="0"} 10.0\n') == 10.0
