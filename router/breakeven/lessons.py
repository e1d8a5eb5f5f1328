"""What a finished request teaches about its engine, for policies that learn: noted while it lives, told at its end.

A request has a `Lesson` only while the fleet learns; without one nothing here is called.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from breakeven.body import Viewed
from breakeven.fleet import Fleet
from breakeven.record import Outcome, RequestRecord
from breakeven_policies.learning import Observed
from breakeven_policies.request import RequestView
from breakeven_policies.workload import workload_of

_ACCEPTANCE_LENGTH = re.compile(rb'"mean_acceptance_length"\s*:\s*(\d{1,3}(?:\.\d{1,20})?)')
"""In `metrics.speculative_decoding` of the last message (vLLM from 0.29, `--per-request-spec-decode-metrics`)."""


WORKLOAD_HEADER = b"x-breakeven-workload"


class Lesson(Struct):
    """What is noted of one request; times are those of its record. None: not seen.

    `batch_before`: sequences on the backend when the request was sent there, itself included; `events` counts those
    with text, `last_event_s` is when the last of them came; `end` holds the last bytes of the answer.
    """

    workload: str
    prompt_bytes: int
    sequences: int
    batch_before: float | None = None
    events: int = 0
    first_event_s: float | None = None
    last_event_s: float | None = None
    end: tuple[bytes, ...] = ()


def lesson_for(request: RequestView) -> Lesson | None:
    """What is to be noted of a request; None: it generates nothing."""
    return Lesson(workload_of(request), request.prompt_bytes, request.sequences) if request.sampled else None


def teach(fleet: Fleet, lesson: Lesson, record: RequestRecord) -> None:
    """Tell what came of a request that has just left its backend."""
    learning = fleet.learning
    if learning is None or record.pool is None or record.backend is None:
        return
    if record.finished_s is None or record.status != 200:
        return
    load = fleet.load_of(record.backend)
    whole = record.outcome is Outcome.COMPLETED
    batch = None if lesson.batch_before is None else (lesson.batch_before + load + 1.0) / 2.0
    single = lesson.sequences == 1  # the events of several sequences come mixed
    events = _events(lesson, record) if single else 0
    decode_s = None
    if events > 1 and lesson.first_event_s is not None and lesson.last_event_s is not None:
        decode_s = lesson.last_event_s - lesson.first_event_s
    ttft_s = None
    if record.first_token_s is not None and record.sent_s is not None:
        ttft_s = record.first_token_s - record.sent_s
    learning.observe(
        Observed(
            pool=record.pool,
            workload=lesson.workload,
            now_s=record.finished_s,
            batch=batch,
            prompt_bytes=lesson.prompt_bytes,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens if single else None,
            events=events or None,
            decode_s=decode_s,
            ttft_s=ttft_s,
            acceptance_length=acceptance_length_in(lesson.end) if single else None,
            whole=whole,
        )
    )


def _events(lesson: Lesson, record: RequestRecord) -> int:
    """Events with text: all but the usage, which has an event of its own; 0 where there was no stream."""
    return max(0, lesson.events - (record.completion_tokens is not None)) if record.stream else 0


def acceptance_length_in(end: Iterable[bytes]) -> float | None:
    """The acceptance length that the engine tells at the end of an answer; None: it does not."""
    found = _ACCEPTANCE_LENGTH.search(b"".join(end))
    return None if found is None else float(found[1])


def with_workload(viewed: Viewed, named: Mapping[bytes, bytes], workloads: Collection[str]) -> Viewed:
    """The request with the name that the application gave its kind, in a header or by an alias, if that is configured.

    `named` are the headers, `workloads` the configured names: no other one is ever remembered.
    """
    header = named.get(WORKLOAD_HEADER)
    name = viewed.alias if header is None else header.decode("latin-1").strip()
    if name is None or name not in workloads:
        return viewed
    return replace(viewed, request=replace(viewed.request, workload_name=name))
