"""`breakeven.spans`: ids while a request lives, and which headers go to the engine."""

from breakeven.headers import Headers
from breakeven.spans import Attempt, Spans
from breakeven.trace_context import TRACEPARENT, TRACESTATE, TraceParent, trace_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())
STATE = (b"tracestate", b"a=1")


def counting() -> object:
    numbers = iter(range(1, 100))
    return lambda count: next(numbers)


def spans(*headers: tuple[bytes, bytes], sampled: bool = True, bits: object = None) -> Spans:
    return Spans(Headers(list(headers)), lambda parent, trace_id: sampled, bits or counting())


def sent(of: Spans) -> tuple[frozenset[bytes], TraceParent | None]:
    dropped, lines = of.onward(frozenset({b"host"}), b"a: b\r\n")
    assert lines.startswith(b"a: b\r\ntraceparent: ")
    assert lines.endswith(b"\r\n")
    return dropped - {b"host"}, trace_parent(lines[len(b"a: b\r\ntraceparent: ") : -2])


def test_without_a_valid_parent_the_trace_begins_here_and_the_state_of_another_is_dropped() -> None:
    for headers in ([STATE], [(b"traceparent", b"nonsense"), STATE], [VALID, VALID, STATE]):
        begun = spans(*headers)
        assert (begun.parent, begun.own.trace_id, begun.own.span_id) == (None, f"{1:032x}", f"{2:016x}")
        begun.begin("p", "b", 1.0)
        assert sent(begun) == ({TRACEPARENT, TRACESTATE}, TraceParent(f"{1:032x}", f"{3:016x}", sampled=True))
        assert sent(begun) == sent(begun), "a fresh connection for the same attempt is the same span"


def test_with_a_valid_parent_the_trace_goes_on_and_its_state_as_it_came() -> None:
    child = spans(VALID, STATE)
    assert child.parent == TraceParent(TRACE, SPAN, sampled=True)
    assert (child.own.trace_id, child.own.span_id) == (TRACE, f"{1:016x}")
    child.begin("p", "b", 1.0)
    assert sent(child) == ({TRACEPARENT}, TraceParent(TRACE, f"{2:016x}", sampled=True))


def test_what_is_not_sampled_tells_the_engine_so() -> None:
    quiet = spans(VALID, sampled=False)
    quiet.begin("p", "b", 1.0)
    assert sent(quiet)[1] == TraceParent(TRACE, f"{2:016x}", sampled=False)


def test_the_sampler_is_asked_with_parent_and_trace() -> None:
    asked = []
    Spans(Headers([VALID]), lambda *about: bool(asked.append(about)), counting())
    assert asked == [(TraceParent(TRACE, SPAN, sampled=True), TRACE)]


def test_an_id_is_never_all_zero() -> None:
    assert spans(bits=lambda count: 0).own == TraceParent(f"{1:032x}", f"{1:016x}", sampled=True)


def test_every_attempt_is_a_span_of_its_own_with_its_end() -> None:
    tried = spans()
    tried.begin("p", "a", 1.0)
    tried.end("lost", None, 2.0)
    tried.begin("q", "b", 3.0)
    tried.end("answered", 200, 4.0)
    assert tried.attempts == [
        Attempt(f"{3:016x}", "p", "a", 1.0, 2.0, "lost"),
        Attempt(f"{4:016x}", "q", "b", 3.0, 4.0, "answered", 200),
    ]
