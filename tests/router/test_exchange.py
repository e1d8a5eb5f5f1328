"""The state machine of one proxied request: what may happen, and the laws that hold whatever happens."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.exchange import LOST_MAX, TABLE, Command, Event, Exchange, State
from breakeven.record import Outcome
from breakeven_policies.decision import Target

A, B, C = (Target("pool", name) for name in "abc")


def exchange(*targets: Target, after: tuple[Event, ...] = ()) -> Exchange:
    """An exchange over these targets (A alone by default) to which `after` has already happened."""
    machine = Exchange(targets or (A,))
    for event in after:
        machine.on(event)
    return machine


def path_to(state: State) -> tuple[Event, ...]:
    """Events that lead to a state."""
    return {
        State.CHOSEN: (),
        State.CONNECTING: (Event.START,),
        State.WAITING: (Event.START, Event.CONNECTED),
        State.STREAMING: (Event.START, Event.CONNECTED, Event.HEAD),
        State.FINISHED: (Event.START, Event.CONNECTED, Event.HEAD, Event.END),
    }[state]


IMPOSSIBLE = [(state, event) for state, event in product(State, Event) if event not in TABLE[state]]


@pytest.mark.parametrize(("state", "event"), IMPOSSIBLE, ids=lambda value: value.name)
def test_every_empty_cell_of_the_table_is_an_error(state: State, event: Event) -> None:
    machine = exchange(after=path_to(state))
    assert machine.state is state
    with pytest.raises(ValueError, match=f"{event.name} cannot happen to an exchange that is {state.name}"):
        machine.on(event)


def test_an_exchange_without_a_target_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one target"):
        Exchange(())


def test_a_backend_that_cannot_be_reached_is_replaced_by_the_next() -> None:
    machine = exchange(A, B, after=(Event.START,))
    assert machine.on(Event.CONNECT_FAILED) == (Command.CONNECT,)
    assert machine.target == B


def test_a_connection_lost_before_the_head_is_replaced_by_the_next_backend() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.LOST) == (Command.CONNECT,)
    assert machine.target == B


def test_an_engine_that_cannot_serve_is_left_for_the_next() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.HEAD_UNAVAILABLE) == (Command.ABORT_UPSTREAM, Command.CONNECT)
    assert machine.target == B


def test_the_last_engines_own_refusal_goes_to_the_client() -> None:
    machine = exchange(A, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.HEAD_UNAVAILABLE) == (Command.RELAY_HEAD,)


def test_when_no_backend_is_left_the_router_answers_itself() -> None:
    machine = exchange(A, after=(Event.START,))
    assert machine.on(Event.CONNECT_FAILED) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.REFUSED


def test_when_the_last_engine_took_the_request_and_vanished_that_is_its_error() -> None:
    machine = exchange(A, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.LOST) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_ERROR


def test_a_stale_connection_is_replaced_by_a_fresh_one_to_the_same_backend() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.STALE) == (Command.RECONNECT,)
    assert machine.target == A


def test_a_second_stale_connection_in_a_row_counts_as_lost() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECTED, Event.STALE, Event.CONNECTED))
    assert machine.on(Event.STALE) == (Command.CONNECT,)
    assert machine.target == B


def test_a_request_that_two_engines_were_lost_with_is_not_given_to_a_third() -> None:
    machine = exchange(A, B, C, after=(Event.START, Event.CONNECTED, Event.LOST, Event.CONNECTED))
    assert machine.on(Event.LOST) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_ERROR


def test_an_engine_that_breaks_on_a_kept_connection_and_is_down_then_was_lost_too() -> None:
    """What kills an engine on a kept connection looks stale at first; then nothing listens there any more."""
    killed = (Event.CONNECTED, Event.STALE, Event.CONNECT_FAILED)
    machine = exchange(A, B, C, after=(Event.START, *killed, *killed[:2]))
    assert machine.target == B
    assert machine.on(Event.CONNECT_FAILED) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_ERROR


def test_engines_that_cannot_be_reached_or_cannot_serve_are_not_lost() -> None:
    machine = exchange(A, B, C, after=(Event.START, Event.CONNECT_FAILED, Event.CONNECTED))
    assert machine.on(Event.HEAD_UNAVAILABLE) == (Command.ABORT_UPSTREAM, Command.CONNECT)
    assert machine.target == C


def test_another_backend_that_is_left_may_be_tried_first() -> None:
    machine = exchange(A, B, C, after=(Event.START, Event.CONNECT_FAILED))
    assert machine.left == (B, C)
    machine.turn_to(C)
    assert (machine.target, machine.targets) == (C, (A, C, B))


def test_those_that_come_later_can_be_left_out_and_the_one_being_tried_cannot() -> None:
    machine = exchange(A, B, C, after=(Event.START,))
    machine.leave_out((A.backend, B.backend))
    assert machine.targets == (A, C)
    machine.leave_out((C.backend,))
    assert machine.on(Event.CONNECT_FAILED) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.REFUSED


def test_where_no_backend_left_has_a_place_the_router_answers_itself() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECT_FAILED))
    assert machine.on(Event.NO_PLACE) == (Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.REFUSED


def test_a_request_that_timed_out_is_not_sent_again() -> None:
    machine = exchange(A, B, after=(Event.START, Event.CONNECTED))
    assert machine.on(Event.FIRST_BYTE_TIMEOUT) == (Command.ABORT_UPSTREAM, Command.ANSWER_ERROR, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_TIMEOUT


@pytest.mark.parametrize("event", [Event.LOST, Event.TRUNCATED])
def test_an_answer_that_breaks_off_is_said_to_be_broken_and_nothing_is_tried_again(event: Event) -> None:
    machine = exchange(A, B, after=path_to(State.STREAMING))
    assert machine.on(event) == (Command.BREAK, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_ERROR


def test_silence_inside_an_answer_breaks_it_off() -> None:
    machine = exchange(after=path_to(State.STREAMING))
    assert machine.on(Event.IDLE_TIMEOUT) == (Command.ABORT_UPSTREAM, Command.BREAK, Command.FINISH)
    assert machine.outcome is Outcome.UPSTREAM_TIMEOUT


@pytest.mark.parametrize(
    ("state", "notice"),
    [
        (State.CONNECTING, Command.ANSWER_ERROR),
        (State.WAITING, Command.ANSWER_ERROR),
        (State.STREAMING, Command.BREAK),
    ],
)
def test_a_request_that_takes_too_long_in_all_is_ended_and_tried_nowhere_else(state: State, notice: Command) -> None:
    machine = exchange(A, B, after=path_to(state))
    assert machine.on(Event.TOTAL_TIMEOUT) == (Command.ABORT_UPSTREAM, notice, Command.FINISH)
    assert machine.outcome is Outcome.TOTAL_TIMEOUT


def test_an_answer_that_ends_is_complete() -> None:
    machine = exchange(after=path_to(State.STREAMING))
    assert machine.on(Event.END) == (Command.COMPLETE, Command.FINISH)
    assert machine.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("state", [State.CONNECTING, State.WAITING, State.STREAMING])
def test_a_departed_client_aborts_the_upstream_and_nothing_is_tried_again(state: State) -> None:
    machine = exchange(A, B, after=path_to(state))
    assert machine.on(Event.CLIENT_GONE) == (Command.ABORT_UPSTREAM, Command.FINISH)
    assert machine.outcome is Outcome.CLIENT_CLOSED


@pytest.mark.parametrize(
    ("state", "notice"),
    [
        (State.CONNECTING, Command.ANSWER_ERROR),
        (State.WAITING, Command.ANSWER_ERROR),
        (State.STREAMING, Command.BREAK),
    ],
)
def test_when_the_time_to_drain_is_over_the_client_is_told(state: State, notice: Command) -> None:
    machine = exchange(A, B, after=path_to(state))
    assert machine.on(Event.EXPIRED) == (Command.ABORT_UPSTREAM, notice, Command.FINISH)
    assert machine.outcome is Outcome.CUT_BY_DRAIN


@given(targets=st.integers(1, 3), choices=st.lists(st.integers(0, 100), max_size=40))
def test_the_laws_hold_over_every_sequence_of_events(targets: int, choices: list[int]) -> None:
    machine = exchange(*(A, B, C)[:targets])
    commands: list[Command] = []
    tried = []
    head_relayed_at = None
    lost: set[Target] = set()
    for choice in choices:
        possible = sorted(TABLE[machine.state], key=lambda event: event.value)
        if not possible:
            break
        event, target = possible[choice % len(possible)], machine.target
        reconnected = machine.reconnected
        given_now = machine.on(event)
        if event is Event.LOST or (reconnected and event in (Event.STALE, Event.CONNECT_FAILED)):
            lost.add(target)
        if Command.CONNECT in given_now:
            tried.append(machine.target)
        commands += given_now
        if Command.RELAY_HEAD in given_now:
            head_relayed_at = len(commands)

    assert (machine.outcome is not None) == (machine.state is State.FINISHED)
    assert commands.count(Command.FINISH) == (machine.state is State.FINISHED)
    assert Command.FINISH not in commands[:-1]
    assert len(set(tried)) == len(tried)
    assert len(lost) <= LOST_MAX
    assert commands.count(Command.RELAY_HEAD) <= 1
    assert commands.count(Command.RECONNECT) <= commands.count(Command.CONNECT)
    if head_relayed_at is not None:
        assert not {Command.CONNECT, Command.RECONNECT, Command.SEND, Command.ANSWER_ERROR} & set(
            commands[head_relayed_at:]
        )
    if machine.outcome is Outcome.CLIENT_CLOSED:
        assert commands[-2:] == [Command.ABORT_UPSTREAM, Command.FINISH]
    told = [command for command in commands if command in (Command.COMPLETE, Command.ANSWER_ERROR, Command.BREAK)]
    assert len(told) == (machine.state is State.FINISHED and machine.outcome is not Outcome.CLIENT_CLOSED)
