"""`breakeven.fleet_json`: what is saved is read back, and anything else is told apart."""

import pytest
from msgspec.structs import replace

from breakeven.fleet_json import decode_fleet, encode_fleet
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView
from tests.policies.learned_fleets import learned_pair

FLEET = FleetSnapshot(
    12.5,
    (
        PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", Health.UNKNOWN),)),
        PoolView(
            "eagle",
            PoolKind.SPECULATIVE,
            (
                BackendView(
                    "eagle-0",
                    Health.READY,
                    in_flight=3,
                    signals=EngineSignals(running=2.0, waiting=0.0, accepted_tokens_per_position=(8.0, 5.0)),
                    scraped_at_s=12.0,
                    in_flight_at_scrape=2,
                    models=frozenset({"m", "a", "z"}),
                ),
            ),
            method="eagle3",
            speculative_tokens=3,
        ),
    ),
)


def test_a_saved_fleet_is_read_back_as_it_was() -> None:
    assert decode_fleet(encode_fleet(FLEET)) == FLEET


def test_what_was_learned_is_saved_with_it_unless_nobody_wants_it() -> None:
    state = learned_pair()
    assert decode_fleet(encode_fleet(state)) == state
    assert decode_fleet(encode_fleet(state, learned=False)) == replace(state, learned=None)


def test_equal_fleets_give_equal_bytes() -> None:
    assert b'"models":["a","m","z"]' in encode_fleet(FLEET)


def test_fields_of_another_version_are_ignored() -> None:
    data = encode_fleet(FLEET).replace(b'"now_s":', b'"invented_later":[1],"now_s":', 1)
    assert decode_fleet(data) == FLEET


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"now_s":1,"pools":[{}]}',
        b'{"now_s":1,"pools":[{"name":1}]}',
        b"\xff",
        b'"\xff"',
        b"[" * 99_999,
    ],
)
def test_what_is_no_fleet_is_told_in_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a fleet saved from GET /fleet: [^\n]+$"):
        decode_fleet(data)
