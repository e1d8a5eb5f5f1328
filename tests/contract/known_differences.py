"""Where the simulator differs from the recorded vLLM and may: each difference with its reason.

A part that differs and is not listed here fails a test, and so does an entry that no difference needs any more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Difference:
    """Parts of shapes (`shapes`) on pages (`capture.QUESTIONS`); both are patterns as of the shell, without ranges."""

    pages: str
    parts: str
    reason: str

    def covers(self, page: str, part: str) -> bool:
        """Whether this is the reason for that part of that page."""
        return fnmatchcase(page, self.pages) and fnmatchcase(part.replace("[", "("), self.parts.replace("[", "("))


ONLY_RECORDED = (
    Difference(
        "metrics-*", "vllm:admission_rejections*", "the simulator has no bound on its queue, as vLLM by default"
    ),
    Difference("metrics-*", "vllm:cache_config_info *", "the configuration of a cache that is only counted here"),
    Difference("metrics-*", "vllm:engine_sleep_state*", "the simulator does not sleep"),
    Difference("metrics-*", "vllm:estimated_*", "a model of the hardware that vLLM fills in only when asked to"),
    Difference("metrics-*", "vllm:external_prefix_cache_*", "no cache outside of the engine is simulated"),
    Difference("metrics-*", "vllm:mm_cache_*", "images are counted as tokens and not kept"),
    Difference("metrics-*", "vllm:prompt_tokens_cached_by_source*", "the simulator's cache has one tier"),
)

_NEW_IN_0_33 = "0.33.0 has it (`entrypoints/openai/*/protocol.py`), 0.32.0 not yet"

ONLY_SIMULATED = (
    Difference("*", "*choices[].weight_versions: null", _NEW_IN_0_33),
    Difference("*-stream*", "text kv_transfer_params: null", _NEW_IN_0_33),
    Difference("*-stream*", "last kv_transfer_params: null", _NEW_IN_0_33),
)


def differences(here: Mapping[str, list[str]], there: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Every part that stands in `here` and not in `there`, with the name of its page."""
    for page, parts in here.items():
        yield from ((page, part) for part in parts if part not in there.get(page, []))


def judged(found: Iterable[tuple[str, str]], known: tuple[Difference, ...]) -> tuple[list[str], list[Difference]]:
    """The differences without a reason, and the reasons without a difference."""
    listed = list(found)
    unexplained = [f"{page}: {part}" for page, part in listed if not any(one.covers(page, part) for one in known)]
    return unexplained, [one for one in known if not any(one.covers(*each) for each in listed)]
