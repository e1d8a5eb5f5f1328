"""A request that leaves a parameter out gets the model's own default, which its makers ship with it.

The engine of this test has a model whose defaults are temperature 0 and min_p 0.05, and it speculates: so a greedy
request may have one choice only, and min_p is refused, which is how a test can tell what was sampled with. It also has
a parser of tool calls, without which vLLM refuses to choose among tools.
"""

import pytest

from tests.contract.engine import raw_body
from tests.contract.targets import Shape


@pytest.fixture(scope="module")
def shape():
    return Shape(speculative=True, temperature=0.0, min_p=0.05, calls_tools=True)


@pytest.mark.slow
async def test_an_absent_parameter_is_the_models_and_null_is_absent_and_tools_need_no_parameters(own_engine):
    told = {
        "": 200,
        '"n":2': "n must be 1 when using greedy sampling",
        '"n":2,"temperature":null': "n must be 1 when using greedy sampling",
        '"temperature":0.7': "min_p and logit_bias",
        '"temperature":0.7,"min_p":null': "min_p and logit_bias",
        '"temperature":0.7,"min_p":0': 200,
        '"temperature":1,"min_p":0,"n":2': 200,
        '"tools":[{"type":"function","function":{"name":"now"}}]': 200,
        '"tools":[{"type":"function","function":{"name":"now"}}],"tool_choice":"auto"': 200,
    }
    answers = {members: await own_engine.post(raw_body(members)) for members in told}
    assert {members: reply.status for members, reply in answers.items()} == {
        members: 200 if expected == 200 else 400 for members, expected in told.items()
    }
    for members, expected in told.items():
        if expected != 200:
            assert expected in answers[members].json()["error"]["message"]
