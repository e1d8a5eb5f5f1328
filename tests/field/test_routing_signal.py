"""B01 to B05: which pool a request goes to, from the sampling parameters as the engine would read them.

Placement is counted in the engines, never taken from the router's word; every body must arrive byte for byte.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import body, raw_body, refused
from tests.field.router import total
from tests.field.scripted_engine import Engine, model_list
from tests.field.scripts import answers
from tests.field.stage import BASE, REQUESTS, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODELS = ("m", "cool", "hot", "minp")
REFUSAL = (
    b'{"error":{"message":"not supported with speculative decoding","type":"BadRequestError","param":null,"code":400}}'
)
ENGINE_400 = b'{"error":{"message":"the engine\'s own words","type":"BadRequestError","param":null,"code":400}}'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Model `cool` defaults to 0.6, `hot` to 1.3, `minp` to a min_p that speculation refuses; `m` to nothing."""
    defaults = {"cool": {"temperature": 0.6}, "hot": {"temperature": 1.3}, "minp": {"min_p": 0.05}}
    settings = {"models": {name: {"defaults": values} for name, values in defaults.items()}}
    base, spec = Engine(f"{BASE}-0", model_list(*MODELS)), Engine(f"{SPEC}-0", model_list(*MODELS))
    async with staged(tmp_path_factory.mktemp("router"), settings, base=[base], spec=[spec]) as stage:
        yield stage


async def placed(stage: Stage, content: bytes) -> tuple[str, str]:
    """Pool and reason of one request whose bytes arrived unchanged."""
    pool, seen, reply = await stage.routed(content)
    assert seen.body == content
    assert reply.status == 200
    return pool, reply["x-breakeven-reason"]


@pytest.mark.parametrize(
    "members",
    [
        '"temperature":0.7,"min_p":0.05',
        '"temperature":0.7,"logit_bias":{"50":-5}',
        '"temperature":0,"logit_bias":{"50":-5}',
        '"temperature":1.0,"min_p":1',
        '"temperature":1e-5,"min_p":0.05',
        '"temperature":"0.7","min_p":"0.05"',
        '"temperature":0.7,"min_p":0,"min_p":0.05',
        '"temperature":0.7,"min\\u005fp":0.05',
        '"temperature":0.7,"min_p":1.1e-5',
        '"min_p":0.05',
        '"temperature":null,"min_p":0.05,"logit_bias":{"1":0}',
    ],
)
async def test_b01_what_a_speculative_engine_refuses_goes_to_the_baseline_pool(stage: Stage, members: str) -> None:
    stage.spec.script = answers(REFUSAL, 400)
    assert await placed(stage, raw_body(members)) == (BASE, "capability")


@pytest.mark.parametrize(
    "members",
    [
        '"temperature":0.7,"min_p":0',
        '"temperature":0.7,"logit_bias":{}',
        '"temperature":0.7,"logit_bias":null',
        '"temperature":0,"min_p":0.05',
        '"temperature":-0.0,"min_p":0.05',
        '"temperature":0.7,"min_p":1e-5',
        '"temperature":0.7,"min_p":null',
        '"temperature":0.7,"min_p":0.05,"min_p":0',
        '"temperature":0.7,"x":{"min_p":0.05,"logit_bias":{"1":1}}',
    ],
)
async def test_b01_a_parameter_that_is_not_in_force_stays_with_the_speculative_pool(stage: Stage, members: str) -> None:
    assert await placed(stage, raw_body(members)) == (SPEC, "temperature_within_threshold")


async def test_b01_completions_obey_the_same_rule(stage: Stage) -> None:
    content = b'{"model":"m","prompt":"hi","temperature":0.7,"min_p":0.05}'
    pool, seen, _ = await stage.routed(content, path="/v1/completions")
    assert (pool, seen.target, seen.body) == (BASE, "/v1/completions", content)


async def test_b01_a_model_default_of_min_p_counts_where_the_request_is_silent(stage: Stage) -> None:
    assert await placed(stage, raw_body("", '"minp"')) == (BASE, "capability")
    assert await placed(stage, raw_body('"min_p":null', '"minp"')) == (BASE, "capability")
    assert (await placed(stage, raw_body('"min_p":0', '"minp"')))[0] == SPEC
    assert (await placed(stage, raw_body('"temperature":0', '"minp"')))[0] == SPEC


async def test_b01_a_model_default_that_speculation_refuses_is_told_at_start(stage: Stage) -> None:
    line = await stage.router.logged("min_p")
    assert "minp" in line


@pytest.mark.parametrize("members", ["", '"temperature":null', '"temperature":NaN', '"temperature":"hot"'])
async def test_b02_a_missing_temperature_is_the_models_default(stage: Stage, members: str) -> None:
    assert await placed(stage, raw_body(members, '"cool"')) == (SPEC, "default_temperature_within_threshold")
    assert await placed(stage, raw_body(members, '"hot"')) == (BASE, "default_temperature_above_threshold")
    assert await placed(stage, raw_body(members, '"m"')) == (SPEC, "default_temperature_within_threshold")


@pytest.mark.parametrize("model", ["m", "cool", "hot"])
async def test_b02_an_explicit_temperature_beats_the_default(stage: Stage, model: str) -> None:
    name = f'"{model}"'
    assert await placed(stage, raw_body('"temperature":1.0', name)) == (SPEC, "temperature_within_threshold")
    assert await placed(stage, raw_body('"temperature":1.5', name)) == (BASE, "temperature_above_threshold")


async def test_b02_the_metrics_tell_a_default_from_a_choice(stage: Stage) -> None:
    reason = "default_temperature_above_threshold"
    async with stage.counting("completed", pool=BASE, reason=reason):
        await placed(stage, raw_body("", '"hot"'))
    assert total(await stage.router.samples(), REQUESTS, reason=reason) >= 1


@pytest.mark.parametrize("value", ['"1.5"', '" 1.5 "', '"15e-1"', '"\\t1.5\\n"', '"\\u0031.5"'])
async def test_b03_a_temperature_in_a_string_is_read_as_the_engine_reads_it(stage: Stage, value: str) -> None:
    assert await placed(stage, raw_body(f'"temperature":{value}')) == (BASE, "temperature_above_threshold")


@pytest.mark.parametrize("value", ['"0.2"', "true", "false", '"1.0"', '" 1 "'])
async def test_b03_a_string_or_boolean_within_the_threshold_goes_to_speculation(stage: Stage, value: str) -> None:
    assert await placed(stage, raw_body(f'"temperature":{value}')) == (SPEC, "temperature_within_threshold")


@pytest.mark.parametrize(
    "value", ["[1.5]", '{"v":1}', '"hot"', '"1,5"', '""', '"0x1p3"', "[]", '"1.5.5"', '"nan"', '"inf"']
)
async def test_b03_the_engine_itself_refuses_what_is_no_temperature(stage: Stage, value: str) -> None:
    stage.script(answers(ENGINE_400, 400))
    content = raw_body(f'"temperature":{value}')
    pool, seen, reply = await stage.routed(content)
    assert (pool, reply["x-breakeven-reason"]) == (SPEC, "default_temperature_within_threshold")
    assert (seen.body, reply.status, reply.body) == (content, 400, ENGINE_400)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" + "0" * 400])
async def test_b04_a_temperature_that_is_not_finite_decides_nothing_and_travels_as_written(
    stage: Stage, value: str
) -> None:
    stage.script(answers(ENGINE_400, 400))
    for model, expected in (("m", SPEC), ("hot", BASE), ("m", SPEC)):
        content = raw_body(f'"temperature":{value}', f'"{model}"')
        pool, seen, reply = await stage.routed(content)
        assert (pool, seen.body, reply.status, reply.body) == (expected, content, 400, ENGINE_400)
        assert reply["x-breakeven-reason"].startswith("default_temperature_")


@pytest.mark.parametrize(("value", "expected"), [("-1", SPEC), ("2.5", BASE), ("1e308", BASE), ("-1e308", SPEC)])
async def test_b04_a_temperature_out_of_range_is_the_engines_to_refuse(stage: Stage, value: str, expected: str) -> None:
    stage.script(answers(ENGINE_400, 400))
    content = raw_body(f'"temperature":{value}')
    pool, seen, reply = await stage.routed(content)
    assert (pool, seen.body, reply.status, reply.body) == (expected, content, 400, ENGINE_400)


@pytest.mark.parametrize(
    "members",
    [
        '"min_p":NaN',
        '"top_p":Infinity',
        '"top_k":1e400',
        '"seed":18446744073709551616',
        '"max_tokens":NaN,"n":-Infinity',
        '"logit_bias":[]',
        '"min_p":"much"',
        '"n":{}',
    ],
)
async def test_b04_odd_values_elsewhere_reach_the_engine_too(stage: Stage, members: str) -> None:
    content = raw_body(f'"temperature":0.7,{members}')
    _, seen, reply = await stage.routed(content)
    assert (seen.body, reply.status) == (content, 200)


@pytest.mark.parametrize(
    "content",
    [
        raw_body('"temperature":' + "1" * 5000),
        raw_body('"seed":' + "1" * 5000),
        raw_body('"x":' + "[" * 1000 + "]" * 1000),
        raw_body('"x":' + '{"a":' * 100_000 + "1" + "}" * 100_000),
        raw_body('"x":' + "[" * 200_000),
    ],
    ids=["temperature of 5000 digits", "seed of 5000 digits", "1000 arrays", "100000 objects", "200000 open arrays"],
)
async def test_b04_numbers_and_nesting_beyond_the_parser_are_nobodys_crash(stage: Stage, content: bytes) -> None:
    reply = await stage.ask(content)
    assert reply.status in {200, 400}
    assert all(seen.body == content for seen in stage.seen)
    assert (await stage.ask(body())).status == 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", SPEC),
        ("1.0", SPEC),
        ("1.0000000000000000001", SPEC),
        ("1.0000001", BASE),
        ("1.0000000000000002220446049250313", BASE),
        ("10e-1", SPEC),
        ("0.1e1", SPEC),
        ("1E0", SPEC),
        ("11e-1", BASE),
        ("-0.0", SPEC),
        ("0", SPEC),
        ("1e-5", SPEC),
        ("0.9999999999999999", SPEC),
        ("2", BASE),
    ],
)
async def test_b05_only_what_is_above_the_threshold_as_a_double_goes_to_baseline(
    stage: Stage, value: str, expected: str
) -> None:
    reason = "temperature_above_threshold" if expected == BASE else "temperature_within_threshold"
    assert await placed(stage, raw_body(f'"temperature":{value}')) == (expected, reason)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ('"temperature":0.2,"temperature":1.5', BASE),
        ('"temperature":1.5,"temperature":0.2', SPEC),
        ('"temper\\u0061ture":1.5', BASE),
        ('"temperature":0.2,"temper\\u0061ture":1.5', BASE),
        ('"Temperature":1.5', SPEC),
        ('"x":{"temperature":1.5}', SPEC),
        ('"temperature":1.5,"x":{"temperature":0.2}', BASE),
    ],
)
async def test_b05_the_last_top_level_value_decides_whatever_its_spelling(
    stage: Stage, members: str, expected: str
) -> None:
    assert (await placed(stage, raw_body(members)))[0] == expected


@pytest.mark.slow
async def test_b01_with_the_plain_pool_down_the_answer_is_503_and_speculation_is_spared(stage: Stage) -> None:
    await stage.base.refuse()
    await stage.router.lost(stage.base.name)
    try:
        async with stage.counting("refused", times=2):
            for members in ('"temperature":0.7,"min_p":0.05', '"stream":true,"logit_bias":{"50":-5}'):
                reply = await stage.ask(raw_body(members))
                error = refused(reply, 503)
                assert (error["type"], int(reply["Retry-After"]) >= 1) == ("service_unavailable", True)
                assert stage.spec.requests == []
        assert (await stage.routed(raw_body('"temperature":0.7')))[0] == SPEC
        pool, _, reply = await stage.routed(raw_body('"temperature":1.5'))
        assert (pool, reply["x-breakeven-reason"]) == (SPEC, "health")
    finally:
        await stage.base.listen()
