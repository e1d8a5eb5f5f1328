"""Nothing grows with the number of requests, and a stream that waits costs little: `make million`, `make idle-streams`.

Here some thousand requests and some hundred streams; and the judge of the long runs is judged.
"""

import random
from collections import Counter

import pytest

from tests.system.endurance import idle_streams, million
from tests.system.endurance.million import Crowd, faults_of
from tests.system.endurance.site import Held

REQUESTS = 3000
STREAMS = 300
STREAM_KB_MAX = 2 * idle_streams.STREAM_KB_MAX
"""Of some hundred streams each also pays for what the first one brings with it."""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_b69_b76_some_thousand_requests_by_users_with_ids_of_their_own_leave_nothing_behind(tmp_path):
    told = []
    looks, faults = await million.run(REQUESTS, tmp_path, told.append)
    assert faults == [], "\n".join(told)
    assert looks[-1].requests == REQUESTS


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_stream_that_waits_for_its_engine_costs_little_memory(tmp_path):
    stream_kb, faults = await idle_streams.run(STREAMS, tmp_path, lambda _: None, gap_s=0.4)
    assert faults == []
    assert stream_kb < STREAM_KB_MAX


def crowd(**other):
    done = Crowd(0, 1)
    done.answers = done.wanted = Counter({200: 90, 404: 10})
    for name, value in other.items():
        setattr(done, name, value)
    return done


def looks(memory_mb=0.0, descriptors=0.0, series=0.0):
    """A hundred looks, with that much more of each from the first to the last."""
    shares = [number / 99 for number in range(100)]
    return [
        Held(10_000 * number, 60 + memory_mb * share, int(50 + descriptors * share), int(100 + series * share))
        for number, share in enumerate(shares)
    ]


def test_what_stays_the_same_is_no_fault():
    assert faults_of(looks(), crowd()) == []


@pytest.mark.parametrize(
    ("seen", "word"),
    [(looks(memory_mb=8), "memory"), (looks(descriptors=2000), "descriptors"), (looks(series=3), "series")],
)
def test_what_grows_is_found(seen, word):
    (fault,) = faults_of(seen, crowd())
    assert word in fault


@pytest.mark.parametrize(("leak_bytes", "faults"), [(0, 0), (5, 1), (100, 1)])
@pytest.mark.parametrize("late", [300_000, 600_000, 900_000])
def test_a_leak_of_five_bytes_a_request_is_found_and_one_late_arena_is_none(late, leak_bytes, faults):
    chance = random.Random(1)  # noqa: S311  # to be repeated
    seen = [
        Held(at, 60 + 4 * (at > 100_000) + (at > late) + leak_bytes * at // 2**20 + chance.uniform(0, 0.3), 50, 100)
        for at in range(10_000, 1_000_001, 10_000)
    ]
    assert len(faults_of(seen, crowd())) == faults


@pytest.mark.parametrize("other", [{"lost": 1}, {"answers": Counter({200: 89, 404: 10, 502: 1})}])
def test_a_request_without_its_answer_is_found(other):
    assert len(faults_of(looks(), crowd(**other))) == 1
