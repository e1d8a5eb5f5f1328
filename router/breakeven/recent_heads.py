"""Heads that came before, found again instead of parsed again.

The next request of a client mostly begins with the same bytes as the one before, and so does the next answer of an
engine; only the length of the body differs. Such a head is looked up with that one number cut out, a third of the work
of parsing it, and what was derived from it is there already; most often it is the one that came last, which is found
without a look-up. Equal bytes mean what they meant before, so nothing is accepted that the parser would not accept; a
message that does not lie in one read is parsed as ever. The head of a message of unknown length, a stream, is found
where it lies in one read, whatever follows (`find_start`).

Where every head is another one (an id of its own in each) looking it up and learning it is lost work, three quarters of
the parsing, so after many failures only few are tried. Keys of clients stay in memory with their heads until newer
heads push them out; nothing shows them.
"""

from typing import Generic, TypeVar

HEADS_MAX = 128
"""Heads remembered: the applications of one router and their users' keys, or two minutes of an engine whose Date
header makes its head a new one every second.
"""

HEAD_BYTES_MAX = 2048
"""A larger head is parsed each time, so that all that is remembered of clients takes 2 MiB at most (heads of the OpenAI
client: 0.3), and as much for each engine.
"""

HEADER_LINES_MAX = 64
"""A head of more lines is parsed each time: parsed, a line weighs several times its bytes, however short it is."""

FAILURES_MAX = 2 * HEADS_MAX
"""Heads that were not found, one after the other, before only one in `TRIED_THEN` is looked up and remembered."""

TRIED_THEN = 16

LENGTH_DIGITS_MAX = 9
"""Up to a gigabyte: longer numbers are the parser's to judge."""

LAST_BYTES_MAX = 16 * 2**10
"""A larger message is looked up at once: a comparison copies its bytes three times, a look-up once."""

_CARRIAGE_RETURN = b"\r"[0]
_HEAD_END = b"\r\n\r\n"

_SPELLINGS = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_SPELLED_BYTES = len(_SPELLINGS[0])

Head = TypeVar("Head")


class RecentHeads(Generic[Head]):
    """At most `HEADS_MAX` heads in whatever form the caller keeps them, the oldest forgotten first."""

    __slots__ = ("_failures", "_heads", "_last")

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self._failures = 0
        self._last: tuple[bytes, bytes, Head] | None = None

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the body, where `data` is one whole message, nothing more, whose head came before."""
        last = self._last
        if last is not None and len(data) <= LAST_BYTES_MAX:
            before, behind, head = last
            rest = data.removeprefix(before)
            stop = rest.find(_CARRIAGE_RETURN)
            if stop > 0 and len(rest) < len(data):
                body = rest[stop:].removeprefix(behind)
                if len(body) + len(behind) + stop == len(rest) and _length(rest[:stop]) == len(body):
                    self._failures = 0
                    return head, body
        return self._look_up(data)

    def remember(self, data: bytes, head: Head) -> None:
        """`data` was parsed as one whole message with this head; one without a declared length is not remembered."""
        self._failures += 1
        if self._is_hopeless():
            return
        split = _split(data)
        if split is None:
            return
        before, behind, body_start, body_bytes = split
        if body_start > HEAD_BYTES_MAX or len(data) - body_start != body_bytes:
            return
        if data.count(b"\r\n", 0, body_start) > HEADER_LINES_MAX:
            return
        self._keep(before + behind, head)

    def find_start(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head with which a message of unknown length begins, and what follows it, where it came before."""
        if self._is_hopeless():
            return None
        end = data.find(_HEAD_END) + len(_HEAD_END)
        head = self._heads.get(data[:end])
        if head is None:
            return None
        self._failures = 0
        return head, data[end:]

    def remember_start(self, data: bytes, head: Head) -> None:
        """`data` was parsed as the beginning of a message of unknown length with this head."""
        self._failures += 1
        if self._is_hopeless():
            return
        start = data[: data.find(_HEAD_END) + len(_HEAD_END)]
        lines = start.count(b"\r\n")
        # Where a parser lets a bare line feed end the head, the end that is found here lies somewhere in the body.
        if len(start) <= HEAD_BYTES_MAX and 0 < lines == start.count(b"\n") and lines <= HEADER_LINES_MAX:
            self._keep(start, head)

    def _keep(self, key: bytes, head: Head) -> None:
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[key] = head

    def _look_up(self, data: bytes) -> tuple[Head, bytes] | None:
        if self._is_hopeless():
            return None
        split = _split(data)
        if split is None:
            return None
        before, behind, body_start, body_bytes = split
        head = self._heads.get(before + behind)
        if head is None or len(data) - body_start != body_bytes:
            return None
        self._failures = 0
        self._last = (before, behind, head)
        return head, data[body_start:]

    def _is_hopeless(self) -> bool:
        """Whether no head has come again for long, and it is not the turn of this one to be tried."""
        return self._failures > FAILURES_MAX and self._failures % TRIED_THEN != 0


def _split(data: bytes) -> tuple[bytes, bytes, int, int] | None:
    """The head before and behind the digits of its Content-Length, where the body starts, and those digits as a number.

    The first line of that name is the only one in a head that a parser accepted, and where it stands follows from the
    rest: two heads that differ in anything but these digits differ in what is before and behind them.
    """
    end = data.find(_HEAD_END)
    if end < 0:
        return None
    line = data.find(_SPELLINGS[0], 0, end)
    if line < 0:
        line = data.find(_SPELLINGS[1], 0, end)
        if line < 0:
            return None
    start = line + _SPELLED_BYTES
    stop = data.index(b"\r\n", start)
    body_bytes = _length(data[start:stop])
    if body_bytes is None:
        return None
    return data[:start], data[stop : end + 4], end + 4, body_bytes


def _length(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) <= LENGTH_DIGITS_MAX else None
