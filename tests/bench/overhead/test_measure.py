"""The whole measurement with small loads: every peer in every round, and errors that name who failed."""

import pytest

from breakeven_bench.launch import Launcher, LaunchError, free_port
from breakeven_bench.overhead import measure as module
from breakeven_bench.overhead.loads import DOCUMENTS, Load
from breakeven_bench.overhead.measure import MeasureError, Running, measure, start_peers, until_accepts, visited
from breakeven_bench.overhead.peers import known_peers

pytestmark = pytest.mark.slow


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "SETTLING_S", 0.0)


@pytest.fixture
async def launcher(tmp_path):
    async with Launcher(tmp_path / "logs") as launcher:
        yield launcher


@pytest.mark.timeout(120)
async def test_every_peer_meets_every_load_in_every_round_and_what_it_spent_is_its_own(launcher, tmp_path, at_once):
    running = await start_peers(launcher, known_peers(None, None), tmp_path)
    said = []
    samples = await measure(running, [DOCUMENTS], 2, said.append)
    assert [(sample.round, sample.peer) for sample in samples] == [
        (0, "direct"), (0, "bare relay"), (0, "breakeven"), (1, "bare relay"), (1, "breakeven"), (1, "direct"),
    ]  # fmt: skip
    assert all((sample.visit.good, sample.visit.failed) == (DOCUMENTS.requests, 0) for sample in samples)
    assert all(sample.resident_mb > 5 for sample in samples)
    spent = {sample.peer: sample.cpu_us for sample in samples}
    assert 0 < spent["bare relay"] < spent["breakeven"]
    assert said == ["round 1 of 2", "round 2 of 2"]
    for log in ("access", "journal"):
        lines = (tmp_path / "breakeven" / f"{log}.jsonl").read_bytes().splitlines()
        assert len(lines) > DOCUMENTS.requests


async def test_clients_that_cannot_connect_are_an_error_with_their_last_words():
    with pytest.raises(MeasureError, match=r"documents ended with status 1:\n(.|\n)*Connect"):
        await visited(free_port(), DOCUMENTS)


async def test_a_load_that_the_clients_do_not_know_is_an_error():
    with pytest.raises(MeasureError, match="KeyError"):
        await visited(free_port(), Load("nothing", 1, 1))


async def test_a_peer_that_never_listens_is_named():
    with pytest.raises(LaunchError, match=r"odd does not listen on port \d+ after 0\.1 s"):
        await until_accepts("odd", free_port(), 0.1)


async def test_a_peer_that_is_gone_is_an_error():
    with pytest.raises((MeasureError, FileNotFoundError)):
        await module.sample(Running("odd", free_port(), 2**22 + 1), DOCUMENTS, 0)
