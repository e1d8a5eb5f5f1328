"""`breakeven.listen_fds`: which descriptors are for this process, and what they are called (sd_listen_fds(3))."""

import pytest

from breakeven.listen_fds import COUNT_MAX, Given, Handover, handed_over, variables_for

OURS = {"LISTEN_PID": "7"}


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"LISTEN_FDS": "two"}, "LISTEN_FDS: expected a number of descriptors up to 64, got 'two'"),
        ({"LISTEN_FDS": "-1"}, "LISTEN_FDS: expected a number of descriptors up to 64, got '-1'"),
        ({}, "LISTEN_FDS: expected a number of descriptors up to 64, got ''"),
        ({"LISTEN_FDS": str(COUNT_MAX + 1)}, "LISTEN_FDS: expected a number of descriptors up to 64, got '65'"),
        ({"LISTEN_FDS": "2", "LISTEN_FDNAMES": "api"}, "LISTEN_FDNAMES: names 1 descriptors where LISTEN_FDS says 2"),
        ({"LISTEN_FDS": "1", "LISTEN_FDNAMES": "a:b"}, "LISTEN_FDNAMES: names 2 descriptors where LISTEN_FDS says 1"),
    ],
)
def test_what_does_not_fit_together_is_one_line(variables, complaint):
    with pytest.raises(ValueError, match="LISTEN") as caught:
        handed_over(OURS | variables, 7)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_PID": "8"}, {"LISTEN_PID": "x"}, {"LISTEN_PID": ""}, {"LISTEN_PID": "7" * 30}, {"LISTEN_PID": "٧"}],
)
def test_what_is_for_another_process_is_not_even_looked_at(environment):
    assert handed_over(environment | {"LISTEN_FDS": "nonsense", "READY_FD": "4"}, 7) == Handover()
    assert handed_over({"LISTEN_FDS": "1"}, 7) == Handover()


def test_descriptors_are_counted_from_3_and_called_as_they_are_named():
    named = handed_over({"LISTEN_PID": " 7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "breakeven.socket:admin"}, 7)
    assert named == Handover((Given(3, "breakeven.socket"), Given(4, "admin")))


@pytest.mark.parametrize("names", [{}, {"LISTEN_FDNAMES": ""}])
def test_without_names_they_are_unknown_and_none_are_none(names):
    assert handed_over(OURS | {"LISTEN_FDS": "1"} | names, 7) == Handover((Given(3, "unknown"),))
    assert handed_over(OURS | {"LISTEN_FDS": "0"} | names, 7) == Handover()


def test_a_successor_finds_what_was_meant_for_it():
    variables = variables_for(["api", "api", "admin"], 9)
    assert handed_over(variables, 9) == Handover((Given(3, "api"), Given(4, "api"), Given(5, "admin")), 6)
    assert handed_over(variables, 10) == Handover()
