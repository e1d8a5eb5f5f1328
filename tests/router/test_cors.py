"""Browsers may call only where the configuration lets them."""

from breakeven.cors import Cors

ORIGIN = (b"origin", b"https://app.example")
PREFLIGHT = dict([ORIGIN, (b"access-control-request-method", b"POST")])


def test_without_configured_origins_nothing_is_said() -> None:
    assert Cors(frozenset()).lines(dict([ORIGIN])) == b""
    assert Cors(frozenset()).preflight(PREFLIGHT) == b""


def test_an_origin_that_is_not_allowed_gets_no_permission() -> None:
    assert Cors(frozenset({"https://other.example"})).lines(dict([ORIGIN])) == b""


def test_a_request_of_no_origin_needs_none() -> None:
    assert Cors(frozenset({"*"})).lines({}) == b""


def test_an_allowed_origin_is_named_and_may_read_our_headers() -> None:
    line = Cors(frozenset({"https://app.example"})).lines(dict([ORIGIN]))
    assert line.startswith(b"access-control-allow-origin: https://app.example\r\n")
    assert b"x-breakeven-pool" in line


def test_a_star_allows_every_origin() -> None:
    assert Cors(frozenset({"*"})).lines(dict([ORIGIN]))


def test_a_preflight_is_allowed_the_headers_it_asks_for() -> None:
    cors = Cors(frozenset({"*"}))
    answer = cors.preflight(PREFLIGHT | {b"access-control-request-headers": b"x-mine"})
    assert b"access-control-allow-headers: x-mine\r\n" in answer
    assert b"access-control-allow-methods: GET, POST, OPTIONS\r\n" in answer


def test_options_without_a_requested_method_is_no_preflight() -> None:
    assert Cors(frozenset({"*"})).preflight(dict([ORIGIN])) == b""
