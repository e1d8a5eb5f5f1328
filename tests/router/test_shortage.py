"""Our own want of descriptors: what is one, and how often it is said."""

import errno
import os

import pytest

from breakeven.shortage import SAID_AGAIN_S, Shortages, Side, is_shortage


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("failure", "ours"),
    [
        (error(errno.EMFILE), True),
        (error(errno.ENFILE), True),
        (error(errno.ENOMEM), True),
        (error(errno.ECONNREFUSED), False),
        (error(errno.ENETUNREACH), False),
        (OSError("no number"), False),
        (OSError(f"Multiple exceptions: [Errno 99] x, [Errno {errno.EMFILE}] Too many open files"), True),
    ],
)
def test_what_says_that_this_process_has_none_left(failure: OSError, ours: bool) -> None:
    assert is_shortage(failure) is ours


def test_every_shortage_is_counted_and_one_a_minute_is_said_for_each_side(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[Side] = []
    now_s = 100.0
    shortages = Shortages(counted.append, lambda: now_s)
    for _ in range(50):
        shortages.tell(Side.ENGINES, error(errno.EMFILE))
    shortages.tell(Side.CLIENTS, OSError("Multiple exceptions: [Errno 24]"))
    assert (counted.count(Side.ENGINES), counted.count(Side.CLIENTS)) == (50, 1)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "engines cannot be reached: too many open files",
        "clients are turned away: too many open files",
    ]
    now_s += SAID_AGAIN_S - 0.1
    shortages.tell(Side.ENGINES, error(errno.EMFILE))
    assert len(caplog.records) == 2
    now_s += 0.1
    shortages.tell(Side.ENGINES, error(errno.ENFILE))
    assert len(caplog.records) == 3
