"""What a finished request teaches about its engine."""

import pytest

from breakeven.body import Viewed
from breakeven.fleet import Fleet, PoolSpec, ProbeSucceeded, Started
from breakeven.lessons import Lesson, acceptance_length_in, lesson_for, teach, with_workload
from breakeven.record import Outcome, RequestRecord
from breakeven_policies.learning import Learning, Observed, PoolFacts
from breakeven_policies.snapshot import PoolKind
from tests.policies.fleets import request

SPECS = (PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-0",)),)


class Pupil(Learning):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__({"spec": PoolFacts(PoolKind.SPECULATIVE, 3)})
        self.told: list[Observed] = []

    def observe(self, observed: Observed) -> None:
        self.told.append(observed)


def fleet_with(pupil: Pupil | None) -> Fleet:
    fleet = Fleet(SPECS)
    fleet.learning = pupil
    fleet.apply(ProbeSucceeded("spec-0"))
    fleet.apply(Started("spec-0"))
    return fleet


def finished(**changes: object) -> RequestRecord:
    """A stream that ended well."""
    fields = {
        "pool": "spec", "backend": "spec-0", "status": 200, "outcome": Outcome.COMPLETED, "stream": True, "sent_s": 1.0,
        "first_token_s": 1.5, "finished_s": 3.0, "prompt_tokens": 20, "completion_tokens": 60,
    } | changes  # fmt: skip
    return RequestRecord("id", "chat.completions", 0.5, **fields)


def lesson(**changes: object) -> Lesson:
    fields = {"batch_before": 3.0, "events": 22, "first_event_s": 1.5, "last_event_s": 2.5} | changes
    return Lesson("t0/short/free", 100, 1, **fields)


def told(noted: Lesson, record: RequestRecord) -> list[Observed]:
    pupil = Pupil()
    teach(fleet_with(pupil), noted, record)
    return pupil.told


def test_nobody_is_taught_where_nobody_learns() -> None:
    teach(fleet_with(None), lesson(), finished())


@pytest.mark.parametrize(
    "changes", [{"pool": None}, {"backend": None}, {"finished_s": None}, {"status": 400}, {"status": None}]
)
def test_what_no_engine_answered_well_teaches_nothing(changes: dict[str, object]) -> None:
    assert told(lesson(), finished(**changes)) == []


def test_a_stream_tells_its_steps_its_tokens_and_the_batch_between_its_beginning_and_its_end() -> None:
    assert told(lesson(), finished()) == [
        Observed(
            pool="spec", workload="t0/short/free", now_s=3.0, batch=2.5, prompt_bytes=100, prompt_tokens=20,
            completion_tokens=60, events=21, decode_s=1.0, ttft_s=0.5,
        )
    ]  # fmt: skip


def test_without_usage_every_event_is_a_step() -> None:
    (observed,) = told(lesson(), finished(completion_tokens=None, prompt_tokens=None))
    assert (observed.events, observed.completion_tokens) == (22, None)


def test_a_broken_off_stream_tells_how_fast_it_was_and_not_how_long() -> None:
    (observed,) = told(lesson(), finished(outcome=Outcome.CLIENT_CLOSED))
    assert (observed.whole, observed.decode_s) == (False, 1.0)


def test_several_sequences_in_one_answer_tell_no_steps() -> None:
    noted = lesson(end=(b'{"mean_acceptance_length":2.5}',))
    noted.sequences = 2
    (observed,) = told(noted, finished())
    assert (observed.events, observed.decode_s, observed.completion_tokens, observed.acceptance_length) == (
        None, None, None, None,
    )  # fmt: skip


def test_an_answer_that_is_no_stream_tells_its_tokens_only() -> None:
    noted = lesson(batch_before=None, events=0, first_event_s=None, last_event_s=None)
    (observed,) = told(noted, finished(stream=False, first_token_s=None, sent_s=None))
    assert (observed.batch, observed.events, observed.decode_s, observed.ttft_s) == (None, None, None, None)
    assert observed.completion_tokens == 60


@pytest.mark.parametrize(
    ("end", "length"),
    [
        ((), None),
        ((b'"metrics":null}',), None),
        ((b'"mean_acceptance_length":null',), None),
        ((b'"mean_acceptance_length": 2.75, "num', b"data: [DONE]\n\n"), 2.75),
        ((b'"speculative_decoding":{"mean_accept', b'ance_length":3}}\n\n'), 3.0),
    ],
)
def test_the_engines_own_figure_is_found_at_the_end_of_the_answer(end: tuple[bytes, ...], length: float | None) -> None:
    assert acceptance_length_in(end) == length


def test_what_generates_nothing_has_no_lesson() -> None:
    assert lesson_for(request(sampled=False)) is None
    assert lesson_for(request(0.0, sequences=2)) == Lesson("t0/short/free", 100, 2)


@pytest.mark.parametrize(
    ("headers", "alias", "name"),
    [
        ({}, None, None),
        ({}, "code", "code"),
        ({}, "fast", None),
        ({b"x-breakeven-workload": b" code "}, None, "code"),
        ({b"x-breakeven-workload": b"code"}, "fast", "code"),
        ({b"x-breakeven-workload": b"anything"}, "code", None),
    ],
)
def test_only_configured_names_of_workloads_count(headers: dict[bytes, bytes], alias: str, name: str) -> None:
    viewed = with_workload(Viewed(request(), alias), headers, {"code", "chat"})
    assert viewed.request.workload_name == name
    assert viewed.alias == alias
