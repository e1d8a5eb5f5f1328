"""`breakeven.worker_messages`: what a supervisor and its workers tell each other arrives whole, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.fleet import Believed, ConnectRefused, EndedElsewhere, Erred, Scraped, SignalsForgotten
from breakeven.worker_messages import (
    MESSAGE_BYTES_MAX,
    AskedWell,
    Assignment,
    Drain,
    Hurry,
    Leaving,
    Left,
    Listed,
    Measured,
    Part,
    PolicySwitched,
    Reader,
    Serving,
    Well,
    encode,
)
from breakeven_policies.measurement import measurement_of
from breakeven_policies.snapshot import EngineSignals, Health
from tests.policies.tables import table

MESSAGES = [
    Assignment(1, b"settings", (5, 6), 7, 2, 5),
    Believed("spec-0", Health.EJECTED),
    Scraped("spec-0", EngineSignals(running=1.5, accepted_tokens_per_position=(1.0, 2.0)), 3.0),
    SignalsForgotten("spec-0"),
    Listed("spec-0", b'[{"id":"m"}]'),
    Measured({"spec": measurement_of(table(), table().setups[1]), "base": measurement_of(table(), table().setups[0])}),
    Well(3, well=False),
    Part(),
    PolicySwitched("least_loaded"),
    PolicySwitched(None),
    Drain(),
    Drain(succeeded=True),
    Hurry(),
    Serving(),
    Leaving(),
    Left(drained=True),
    ConnectRefused("spec-0"),
    EndedElsewhere("spec-0", answered=False),
    Erred("spec-0", 2**32, 1.5),
    AskedWell(3, "spec-0"),
]


@given(st.lists(st.integers(1, 400), max_size=20))
def test_every_message_arrives_once_and_in_order_wherever_the_stream_is_cut(cuts):
    stream = b"".join(map(encode, MESSAGES))
    reader, heard, start = Reader(), [], 0
    for cut in [*cuts, len(stream)]:
        heard += reader.feed(stream[start : start + cut])
        start += cut
    assert heard == MESSAGES


def test_what_is_none_of_ours_is_refused_before_it_is_waited_for():
    with pytest.raises(ValueError, match="a message of"):
        list(Reader().feed((MESSAGE_BYTES_MAX + 1).to_bytes(4, "big")))
    with pytest.raises(ValueError, match="MessagePack"):
        list(Reader().feed(b"\0\0\0\1\xc1"))
