"""A metrics page as a Prometheus client reads it, and what moved between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
FINISHED = "vllm:request_success_total"
GENERATED = "vllm:generation_tokens_total"

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels."""


@dataclass(frozen=True, slots=True)
class Page:
    """`samples` by name and labels, `kinds` by family: counter, gauge or histogram."""

    samples: Mapping[Sample, float]
    kinds: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> "Page":
        """Parse a page. Raises ValueError where it is none."""
        samples: dict[Sample, float] = {}
        kinds: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            kinds[family.name] = family.type
            for sample in family.samples:
                samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
        return cls(samples, kinds)

    def value(self, name: str, **labels: str) -> float:
        """The sum over the series of that name with these labels. Raises KeyError where there is none."""
        found = [
            value
            for (named, has), value in self.samples.items()
            if named == name and labels.items() <= dict(has).items()
        ]
        if not found:
            raise KeyError(name, labels)
        return sum(found)

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The series of that name by the value of one label."""
        return {dict(has)[label]: value for (named, has), value in self.samples.items() if named == name}

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self.value(RUNNING) == self.value(WAITING) == 0

    def since(self, earlier: "Page") -> "Page":
        """What moved: this page's values less those of an earlier one of the same engine."""
        moved = {sample: value - earlier.samples.get(sample, 0.0) for sample, value in self.samples.items()}
        return Page(moved, self.kinds)
