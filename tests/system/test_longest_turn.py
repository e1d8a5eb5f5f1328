"""Nothing that comes from outside stops the loop for long; `python -m tests.system.longest_turn` prints the figures."""

import pytest

from tests.system.longest_turn import Case, cases, longest_ms

SLACK = 3
"""Times the limit: machines differ, and even CPU time grows where others use the same caches."""

TRIES = 3

TRIED = {
    "21 MB of Chinese in one string",
    "30 MB of messages for an alias",
    "4,000 offers to upgrade at once",
    "an answer of 30 MB under an alias",
}
"""One of each kind; the command tries all, which takes two minutes."""


def best_ms(case: Case) -> float:
    """The longest turn; noise only adds, so it is measured again where it was too long."""
    best = longest_ms(case)
    for _ in range(TRIES - 1):
        if best > SLACK * case.limit_ms:
            best = min(best, longest_ms(case))
    return best


@pytest.mark.slow
@pytest.mark.timeout(300)  # some seconds of CPU time, on a machine that may be shared
def test_no_turn_of_the_loop_is_long():
    longest = {case.name: (best_ms(case), case.limit_ms) for case in cases() if case.name in TRIED}
    assert {name: both for name, both in longest.items() if both[0] > SLACK * both[1]} == {}
