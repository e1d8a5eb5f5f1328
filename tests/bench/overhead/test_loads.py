"""The loads of an overhead measurement."""

import json

import pytest

from breakeven_bench.overhead.loads import DOCUMENTS, LOADS, PACED, STREAMS


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_request_declares_the_length_of_its_body_and_asks_for_what_the_load_says(load):
    head, _, body = load.request().partition(b"\r\n\r\n")
    assert b"\r\ncontent-length: %d" % len(body) in head
    asked = json.loads(body)
    assert asked.get("stream", False) is load.is_stream
    if load.is_stream:
        assert (asked["max_tokens"], asked["metadata"]["gap_ms"]) == (load.events, str(load.gap_ms))


def test_cpu_is_divided_by_events_or_by_requests_where_there_are_none():
    assert (DOCUMENTS.units, STREAMS.units, PACED.units) == (6000, 25_000, 20_000)


def test_every_client_of_a_load_has_something_to_ask():
    assert all(load.requests >= load.connections for load in LOADS)


def test_the_names_tell_the_loads_apart():
    assert len({load.name for load in LOADS}) == len(LOADS)
