"""Seconds of prefill per token."""

from breakeven_policies.prefill import PrefillTime


def test_without_requests_prefill_is_unknown() -> None:
    assert PrefillTime().token_s() is None
