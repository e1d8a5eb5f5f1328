"""Odd sampling parameters as they stand in the bytes of a body: what the engine makes of them is what a router must."""

import pytest

from tests.contract.engine import raw_body

ACCEPTED = (
    '"1.5"',
    '" 1.5 "',
    "true",
    "false",
    "null",
    "1",
    "2",
    "10e-1",
    "-0.0",
    "1e-5",
    "0.001",
    "1.0000000000000000001",
    "2.0000000000000000001",
)

REFUSED = {
    "NaN": "must be a finite number",
    '"nan"': "must be a finite number",
    "Infinity": "must be a finite number",
    "-Infinity": "must be a finite number",
    "1e400": "must be a finite number",
    "2.0000001": "must be in [0, 2]",
    "1e30": "must be in [0, 2]",
    "-1": "must be non-negative",
    "-1e-9": "must be non-negative",
    '"hot"': "Input should be a valid number",
    '"1,5"': "Input should be a valid number",
    '""': "Input should be a valid number",
    "[1.5]": "Input should be a valid number",
    '{"v":1}': "Input should be a valid number",
}

GREEDY = ("0", "-0.0", "false", '"0"', "0e5")
"""A greedy request may have one choice only, which is how a test can tell."""

SAMPLED = ("1e-5", "0.001", "1e-9", "true", "null", '"1.5"')
"""A temperature that is not zero is raised to 0.01 rather than cut to zero."""


@pytest.mark.parametrize("literal", ACCEPTED)
async def test_a_temperature_that_pydantic_can_read_is_one(plain, literal):
    reply = await plain.post(raw_body(f'"temperature":{literal}'))
    assert reply.status == 200, reply.raw


@pytest.mark.parametrize(("literal", "words"), REFUSED.items())
async def test_a_temperature_that_means_nothing_is_refused_with_its_reason(plain, literal, words):
    reply = await plain.post(raw_body(f'"temperature":{literal}'))
    assert (reply.status, reply["content-type"]) == (400, "application/json")
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize("literal", GREEDY)
async def test_zero_in_any_writing_is_greedy(plain, literal):
    reply = await plain.post(raw_body(f'"n":2,"temperature":{literal}'))
    assert reply.status == 400
    assert "n must be 1 when using greedy sampling" in reply.json()["error"]["message"]


@pytest.mark.parametrize("literal", SAMPLED)
async def test_what_is_not_zero_is_sampled_however_small(plain, literal):
    reply = await plain.post(raw_body(f'"n":2,"temperature":{literal}'))
    assert (reply.status, len(reply.json()["choices"])) == (200, 2)


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ('"temperature":9,"temperature":1.5', 200),
        ('"temperature":1.5,"temperature":9', 400),
        (r'"temperature":1.5,"temper\u0061ture":9', 400),
        (r'"temper\u0061ture":9,"temperature":1.5', 200),
    ],
)
async def test_of_two_equal_keys_the_last_decides_however_it_is_written(plain, members, status):
    assert (await plain.post(raw_body(members))).status == status


@pytest.mark.parametrize("literal", ["true", '"true"', '"yes"', '"1"', "1", '"on"', '"T"'])
async def test_a_stream_is_whatever_pydantic_takes_for_true(plain, literal):
    reply = await plain.post(raw_body(f'"stream":{literal}'))
    assert (reply.status, reply["content-type"]) == (200, "text/event-stream; charset=utf-8")


@pytest.mark.parametrize("literal", ["false", '"false"', '"no"', "0", "null"])
async def test_and_no_stream_is_whatever_it_takes_for_false(plain, literal):
    reply = await plain.post(raw_body(f'"stream":{literal}'))
    assert (reply.status, reply["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("literal", ["2", '"maybe"', "[]"])
async def test_anything_else_is_refused(plain, literal):
    reply = await plain.post(raw_body(f'"stream":{literal}'))
    assert (reply.status, reply.json()["error"]["param"]) == (400, "body.stream")


@pytest.mark.parametrize("literal", ['"0.05"', "0.05", "5e-2"])
async def test_a_min_p_in_any_writing_is_refused_by_a_speculative_engine(speculative, literal):
    reply = await speculative.post(raw_body(f'"temperature":0.7,"min_p":{literal}'))
    assert (reply.status, "min_p" in reply.json()["error"]["message"]) == (400, True)
