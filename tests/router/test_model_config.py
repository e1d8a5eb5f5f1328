"""`breakeven.model_config`: the defaults of models are within what their engines take."""

import pytest

from breakeven.model_config import DefaultsConfig, ModelConfig
from breakeven_policies.request import SamplingDefaults


@pytest.mark.parametrize(
    "values",
    [{"temperature": 2.1}, {"temperature": True}, {"top_p": 0}, {"top_k": -2}, {"min_p": 1.5}, {"typical_p": 0.5}],
)
def test_a_default_that_the_engine_would_refuse_is_refused(values):
    with pytest.raises(ValueError, match="validation error"):
        DefaultsConfig(**values)


def test_what_is_not_said_is_unknown():
    assert ModelConfig().defaults.sampling() == SamplingDefaults(None, None, None, None)


def test_defaults_go_to_the_policies_as_they_are():
    made = ModelConfig.model_validate({"defaults": {"temperature": 0.6, "top_p": 0.9, "top_k": -1, "min_p": 0.05}})
    assert made.defaults.sampling() == SamplingDefaults(0.6, 0.9, -1, 0.05)
