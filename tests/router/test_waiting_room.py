"""Who waits, in which order they are asked, and that nobody is forgotten."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from breakeven.waiting_room import WaitingRoom


def room(guests_max: int = 10, bytes_max: int = 1000) -> WaitingRoom[str]:
    return WaitingRoom(guests_max, bytes_max)


def test_one_who_does_not_wait_cannot_leave() -> None:
    with pytest.raises(KeyError):
        room().leave("nobody", 0.0)


def test_where_too_many_wait_or_hold_too_much_nobody_may_enter_until_one_leaves() -> None:
    small = room(guests_max=2, bytes_max=100)
    assert small.enter("a", "lane", 60, 0.0, 1.0)
    assert not small.enter("b", "lane", 41, 0.0, 1.0)
    assert small.enter("b", "lane", 40, 0.0, 1.0)
    assert not small.enter("c", "lane", 0, 0.0, 1.0)
    assert "a" in small
    assert small.leave("a", 0.5) == 0.5
    assert "a" not in small
    assert small.enter("c", "lane", 60, 0.5, 1.5)
    assert len(small) == 2


def test_a_room_for_nobody_takes_nobody() -> None:
    assert not room(guests_max=0).enter("a", "lane", 0, 0.0, 1.0)


def test_the_first_of_each_lane_is_asked_in_the_order_in_which_they_came() -> None:
    waiting = room()
    for guest, lane in (("a", 1), ("b", 2), ("c", 1), ("d", 3)):
        waiting.enter(guest, lane, 0, 0.0, 1.0)
    assert list(waiting.first_of_each_lane()) == ["a", "b", "d"]


def test_where_the_first_of_a_lane_is_served_the_next_one_is_asked_and_the_eldest_of_all_comes_first() -> None:
    waiting = room()
    for guest, lane in (("a", 1), ("b", 1), ("c", 2), ("d", 1)):
        waiting.enter(guest, lane, 0, 0.0, 1.0)
    asked = []
    for guest in waiting.first_of_each_lane():
        asked.append(guest)
        if guest in ("a", "b"):
            waiting.leave(guest, 0.0)
    assert asked == ["a", "b", "c", "d"]


def test_the_late_are_told_in_the_order_in_which_they_came() -> None:
    waiting = room()
    for number, (guest, lane) in enumerate((("a", 1), ("b", 2), ("c", 1), ("d", 2))):
        waiting.enter(guest, lane, 0, float(number), number + 10.0)
    assert waiting.late(9.9) == []
    assert waiting.late(12.0) == ["a", "b", "c"]
    assert len(waiting) == 4


class Model(RuleBasedStateMachine):
    """A room beside a plain list of who is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.room: WaitingRoom[int] = WaitingRoom(6, 100)
        self.inside: list[tuple[int, int, int]] = []
        self.came = 0

    @rule(lane=st.integers(0, 2), size=st.integers(0, 60))
    def enter(self, lane: int, size: int) -> None:
        self.came += 1
        fits = len(self.inside) < 6 and sum(each[2] for each in self.inside) + size <= 100
        assert self.room.enter(self.came, lane, size, 0.0, 1.0) is fits
        if fits:
            self.inside.append((self.came, lane, size))

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 5))
    def leave(self, which: int) -> None:
        guest, _, _ = self.inside.pop(which % len(self.inside))
        self.room.leave(guest, 0.0)

    @rule(served=st.sets(st.integers(0, 40)))
    def ask(self, served: set[int]) -> None:
        asked = []
        for guest in self.room.first_of_each_lane():
            asked.append(guest)
            lane = next(each[1] for each in self.inside if each[0] == guest)
            assert guest == min(each[0] for each in self.inside if each[1] == lane)
            if guest in served:
                self.room.leave(guest, 0.0)
                self.inside = [each for each in self.inside if each[0] != guest]
        stuck = {each[1]: each[0] for each in reversed(self.inside)}
        assert set(stuck.values()) <= set(asked)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        assert len(self.room) == len(self.inside)
        heads = {each[1]: each[0] for each in reversed(self.inside)}
        assert list(self.room.first_of_each_lane()) == sorted(heads.values())
        assert self.room.late(1.0) == [each[0] for each in self.inside]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
