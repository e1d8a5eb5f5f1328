"""Heads that came before, found again instead of parsed again.

The next request of a client mostly begins with the same bytes as the one before, and so does the next answer of an
engine; only the length of the body differs. Such a head is looked up with that one number cut out, a third of the work
of parsing it, and what was derived from it is there already. Equal bytes mean what they meant before, so nothing
is accepted that the parser would not accept; a message that does not lie in one read is parsed as ever.

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

_SPELLINGS = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_SPELLED_BYTES = len(_SPELLINGS[0])

Head = TypeVar("Head")


class RecentHeads(Generic[Head]):
    """At most `HEADS_MAX` heads in whatever form the caller keeps them, the oldest forgotten first."""

    __slots__ = ("_failures", "_heads")

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self._failures = 0

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the body, where `data` is one whole message, nothing more, whose head came before."""
        if self._is_hopeless():
            return None
        split = _split(data)
        if split is None:
            return None
        key, body_start, body_bytes = split
        head = self._heads.get(key)
        if head is None or len(data) - body_start != body_bytes:
            return None
        self._failures = 0
        return head, data[body_start:]

    def remember(self, data: bytes, head: Head) -> None:
        """`data` was parsed as one whole message with this head; one without a declared length is not remembered."""
        self._failures += 1
        if self._is_hopeless():
            return
        split = _split(data)
        if split is None:
            return
        key, body_start, body_bytes = split
        if body_start > HEAD_BYTES_MAX or len(data) - body_start != body_bytes:
            return
        if data.count(b"\r\n", 0, body_start) > HEADER_LINES_MAX:
            return
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[key] = head

    def _is_hopeless(self) -> bool:
        """Whether no head has come again for long, and it is not the turn of this one to be tried."""
        return self._failures > FAILURES_MAX and self._failures % TRIED_THEN != 0


def _split(data: bytes) -> tuple[bytes, int, int] | None:
    """The head without the digits of its Content-Length, where the body starts, and those digits as a number.

    The first line of that name is the only one in a head that a parser accepted, and where it stands follows from the
    rest: two heads that differ in anything but these digits have different keys.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    line = data.find(_SPELLINGS[0], 0, end)
    if line < 0:
        line = data.find(_SPELLINGS[1], 0, end)
        if line < 0:
            return None
    start = line + _SPELLED_BYTES
    stop = data.index(b"\r\n", start)
    digits = data[start:stop]
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX:
        return None
    return data[:start] + data[stop:end], end + 4, int(digits)
