"""An answer whose events are counted on their way through: each is one step of its engine.

Wrapped around the passage of an answer only where a policy learns (`lessons`): a call and a search more for each event.
"""

from breakeven.errors import ApiError
from breakeven.lessons import Lesson
from breakeven.passage import Passage
from breakeven.record import RequestRecord

END_KEPT_BYTES = 16 * 1024
"""Of the last reads, for what the engine says of a request at its end; half a kilobyte in practice."""

_DONE = b"[DONE]\n\n"


class CountedPassage:
    """The passage within, and a lesson that takes notes."""

    __slots__ = ("_before", "_inner", "_last", "_lesson")

    def __init__(self, inner: Passage, lesson: Lesson) -> None:
        self._inner = inner
        self._lesson = lesson
        self._before = self._last = b""

    @property
    def unpacks(self) -> bool:
        """As within."""
        return self._inner.unpacks

    @property
    def streams(self) -> bool:
        """As within."""
        return self._inner.streams

    @property
    def body_bytes(self) -> int | None:
        """As within."""
        return self._inner.body_bytes

    def feed(self, data: bytes, now_s: float) -> bytes:
        """Goes through as it would, and is counted."""
        passed = self._inner.feed(data, now_s)
        self._before, self._last = self._last, data
        events = data.count(b"\n\n")
        if events:
            lesson = self._lesson
            if data.endswith(_DONE):  # which carries no text, and comes at once behind what does
                events -= 1
            if lesson.first_event_s is not None:
                lesson.events += events
                if events:
                    lesson.last_event_s = now_s
            elif self._inner.first_token_s is not None:
                lesson.first_event_s = lesson.last_event_s = now_s
                lesson.events = 1
        return passed

    def finish(self, now_s: float) -> bytes:
        """As within."""
        self._lesson.end = (self._before[-END_KEPT_BYTES:], self._last[-END_KEPT_BYTES:])
        return self._inner.finish(now_s)

    @property
    def first_token_s(self) -> float | None:
        """As within."""
        return self._inner.first_token_s

    @property
    def truncated(self) -> bool:
        """As within."""
        return self._inner.truncated

    @property
    def done(self) -> bool:
        """As within."""
        return self._inner.done

    def cut(self, error: ApiError) -> bytes | None:
        """As within."""
        return self._inner.cut(error)

    def note(self, record: RequestRecord) -> bool:
        """As within."""
        return self._inner.note(record)
