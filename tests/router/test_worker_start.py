"""`breakeven.worker_start`: a worker leaves signals to its supervisor before it does anything else."""

import signal

import pytest

from breakeven.worker_start import main


@pytest.fixture
def _handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
def test_signals_of_the_supervisor_are_ignored_before_the_worker_begins(monkeypatch):
    begun = []

    def work(descriptor):
        begun.append((descriptor, [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)]))

    monkeypatch.setattr("breakeven.worker.main", work)
    main(["7"])
    assert begun == [(7, [signal.SIG_IGN, signal.SIG_IGN])]
