"""`breakeven.trace_context`: which headers name a trace, by the rules of W3C Trace Context."""

import pytest

from breakeven.trace_context import TraceParent, trace_parent, trace_parent_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01".encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"-",
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"0-{TRACE}-{SPAN}-01".encode(),
        f"0g-{TRACE}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN.upper()}-01".encode(),
        f"00-{TRACE}-{SPAN}-0A".encode(),
        f"00-{TRACE[1:]}-{SPAN}-01".encode(),
        f"00-{TRACE}0-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-1".encode(),
        f"00-{TRACE}-{SPAN}".encode(),
        f"00_{TRACE}_{SPAN}_01".encode(),
        VALID + b"-what-the-future-holds",
        VALID + b"-",
        VALID + b"0",
        VALID + b"\n",
        b" " + VALID,
        f"01-{TRACE}-{SPAN}-01.more".encode(),
        "00-４bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".encode(),
    ],
)
def test_what_the_specification_forbids_names_no_trace(value: bytes) -> None:
    assert trace_parent(value) is None


def test_a_valid_value_names_trace_span_and_whether_it_is_sampled() -> None:
    assert trace_parent(VALID) == TraceParent(TRACE, SPAN, sampled=True)
    assert trace_parent(f"00-{TRACE}-{SPAN}-00".encode()) == TraceParent(TRACE, SPAN, sampled=False)


@pytest.mark.parametrize("flags", ["03", "ff", "09"])
def test_flags_that_are_not_known_are_not_carried_on(flags: str) -> None:
    parent = trace_parent(f"00-{TRACE}-{SPAN}-{flags}".encode())
    assert parent is not None
    assert parent.value == VALID


@pytest.mark.parametrize("tail", [b"", b"-", b"-what-the-future-holds"])
def test_a_later_version_is_read_as_far_as_it_is_known(tail: bytes) -> None:
    parent = trace_parent(f"cc-{TRACE}-{SPAN}-01".encode() + tail)
    assert parent == TraceParent(TRACE, SPAN, sampled=True)
    assert parent.value == VALID


def test_a_value_that_is_not_sampled_is_written_so() -> None:
    assert TraceParent(TRACE, SPAN, sampled=False).value == f"00-{TRACE}-{SPAN}-00".encode()


def test_of_several_headers_none_is_believed() -> None:
    assert trace_parent_of([(b"traceparent", VALID), (b"traceparent", VALID)]) is None
    assert trace_parent_of([(b"host", b"h")]) is None
    assert trace_parent_of([(b"tracestate", b"a=1"), (b"traceparent", VALID)]) == TraceParent(TRACE, SPAN, sampled=True)
