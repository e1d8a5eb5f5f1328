"""What the configuration says of models: the defaults that their engines fill in."""

from typing import Annotated

from pydantic import Field

from breakeven.config_values import Number, Section, Whole
from breakeven_policies.request import SamplingDefaults


class DefaultsConfig(Section):
    """What the engine uses where a request says nothing: copy it from the model's generation_config.json.

    The ranges are those in which the engine takes a request (vLLM 0.33.0 `SamplingParams`; temperature as in OpenAI's
    API): a default outside them would be refused there, and here it would decide about every bare request.
    """

    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    top_k: Annotated[Whole, Field(ge=-1)] | None = None
    min_p: Annotated[Number, Field(ge=0, le=1)] | None = None

    def sampling(self) -> SamplingDefaults:
        """The same for the policies."""
        return SamplingDefaults(self.temperature, self.top_p, self.top_k, self.min_p)


class ModelConfig(Section):
    """What is peculiar to one model."""

    defaults: DefaultsConfig = Field(default_factory=DefaultsConfig)
