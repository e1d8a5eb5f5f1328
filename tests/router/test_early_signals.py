"""`breakeven.early_signals`: what comes too early is not lost, and ends nobody."""

import signal
import threading

import pytest

from breakeven.early_signals import HELD, held, left_to_supervisor, let_through


@pytest.fixture(autouse=True)
def heard():
    """What has come through; what was in force before is afterwards."""
    came, before = [], {number: signal.getsignal(number) for number in (signal.SIGINT, *HELD)}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    """To this thread: what the process is sent goes to any that lets it through, and tests before may have left one."""
    signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize("number", sorted(HELD))
def test_what_is_held_comes_once_somebody_hears_it_and_at_the_latest_at_the_end(heard, number):
    with held():
        send(number)
        assert heard == []
        let_through()
        assert heard == [number]
    with held():
        send(number)
    assert heard == [number, number]


def test_what_was_held_before_is_held_afterwards(heard):
    with held():
        with held():
            pass
        send(signal.SIGHUP)
        assert heard == []


def test_who_wants_it_to_end_is_heard_at_once(heard):
    with held():
        send(signal.SIGINT)
        assert heard == [signal.SIGINT]


def test_a_worker_leaves_them_to_its_supervisor(heard):
    left_to_supervisor()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        send(number)
    assert heard == []
