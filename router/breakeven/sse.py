"""Watches an answer on its way to the client, and never alters it: first token, usage, errors, the end.

A stream is read event by event, however the network cuts it (field case B24). Once the first token is seen, nearly all
of them carry nothing but text: a glance tells those, and only the others are decoded whole.
"""

import re
from collections.abc import Callable

from breakeven.answer import Message, Usage, decode, read_usage, told
from breakeven.event_form import EventForm, form_of
from breakeven.glance import is_mere_text, lacks_telling_words, usage_member

EVENT_MAX = 2**20
"""Bytes of one event that are looked at; a larger one is relayed unseen. One step of an engine makes about 250; the
last event of /v1/responses repeats the whole answer.
"""

UNREADABLE_MAX = 1
"""Events that are no JSON, a ping perhaps, before an engine is taken for one that writes none: from then on only what
has telling words is decoded. To find out that an event cannot be read costs as much as relaying it.
"""

FORMS_MAX = 8
"""Forms of events that are learned for one stream, 5 µs each. Where no two events are alike (log probabilities) it is
all that is lost; where the seconds of a time stamp stand before the text, it serves for eight of them.
"""

ANSWER_MAX = 2**20
"""Bytes of one JSON answer that are kept for its usage; embeddings and images are larger, and theirs stays unknown."""

# As numbers: looking for bytes in bytes takes CPython 3.11 eight times as long (390 against 48 ns).
CARRIAGE_RETURN, LINE_FEED = b"\r\n"

# A line ends with \n, \r\n or \r (WHATWG, server-sent events), an event with an empty line. Where the network cuts
# between the last \r and its \n, the \n is one more empty line, and harmless.
_EMPTY_LINE = re.compile(rb"\n\n|\n\r\n?|\r\r\n?")


class StreamObserver:
    """Watches one stream of server-sent events.

    `first_token_s` is the time of the feed that completed the first event with generated text; `usage` holds the last
    figures that the engine sent; `error` is its word for an error reported in the stream; `finish_reason` the last one
    of any choice; `done`: an end event was seen. None: not so far.
    """

    __slots__ = (
        "_form",
        "_forms_left",
        "_may_pass_over",
        "_overlooked",
        "_pending",
        "_scanned",
        "_skipping",
        "_unreadable",
        "done",
        "error",
        "finish_reason",
        "first_token_s",
        "usage",
    )

    def __init__(self) -> None:
        self.first_token_s: float | None = None
        self.usage: Usage | None = None
        self.error: str | None = None
        self.finish_reason: str | None = None
        self.done = False
        self._may_pass_over: Callable[[bytes], bool] = _reads_on
        self._unreadable = 0
        self._form: EventForm | None = None  # of an event that was passed over
        self._forms_left = FORMS_MAX
        self._pending = bytearray()  # the event that has begun
        self._scanned = 0  # up to here there is no empty line in it
        self._skipping = False  # it is too large: of it only the last byte is kept
        self._overlooked = False  # an event was too large

    def feed(self, data: bytes, now_s: float) -> None:
        """Watch the next bytes of the stream, whatever their cut; `now_s` is when they came."""
        if not self._pending:
            form = self._form
            if form is not None and form.fits(data) and len(data) <= EVENT_MAX:
                return
            if _is_one_event(data):
                self._judge(data, now_s)
                return
        for event in self._events(data):
            self._observe(event, now_s)

    def finish(self, now_s: float) -> None:
        """The stream has ended: an event that lacks its blank line counts as one."""
        if not self._skipping:
            self._observe(bytes(self._pending), now_s)

    @property
    def complete(self) -> bool:
        """Whether the engine said how the stream ended. False at the end of a body: it was cut (field case B39).

        An error event is an end too, and an event too large to be looked at may have been one.
        """
        return self.done or self.finish_reason is not None or self.error is not None or self._overlooked

    @property
    def at_boundary(self) -> bool:
        """Whether what was fed so far ends between two events."""
        return not self._skipping and not self._pending.strip(b"\r\n")

    @property
    def event_end(self) -> bytes:
        """What ends the event that has begun, so that an event of the router is one of its own."""
        if self.at_boundary:
            return b""
        return b"\n" if self._pending.endswith(b"\n") else b"\n\n"

    def _events(self, data: bytes) -> list[bytes]:
        """Events that the data completes, without their empty lines."""
        pending = self._pending
        if not pending and CARRIAGE_RETURN not in data:  # nearly always; 1 µs less than the search below
            events = data.split(b"\n\n")
            pending += events.pop()
        else:
            pending += data
            events = self._cut_off()
        if len(pending) > EVENT_MAX + 4:  # too large even without the line breaks around it
            self._skipping = self._overlooked = True
        if self._skipping:
            del pending[:-1]
            self._scanned = 0
        return events

    def _cut_off(self) -> list[bytes]:
        pending = self._pending
        events = []
        start, scanned = 0, self._scanned
        # At 8 ns a byte the regular expression would stop the loop for 80 ms where 10 MB of one event come at once.
        has_returns = pending.find(CARRIAGE_RETURN, scanned) >= 0
        while True:
            if has_returns:
                empty_line = _EMPTY_LINE.search(pending, max(start, scanned))
                end, after = empty_line.span() if empty_line is not None else (-1, -1)
            else:
                end = pending.find(b"\n\n", max(start, scanned))
                after = end + 2
            if end < 0:
                break
            if not self._skipping:
                events.append(bytes(pending[start:end]))
            self._skipping = False
            start = after
        del pending[:start]
        self._scanned = max(0, len(pending) - 1)
        return events

    def _observe(self, event: bytes, now_s: float) -> None:
        event = event.strip(b"\r\n")
        if len(event) > EVENT_MAX:
            self._overlooked = True
        elif not _is_line(event):
            payload = _payload(event)
            if not self._passes_over(payload):
                self._read(payload, now_s)
        else:
            line, form = event + b"\n\n", self._form
            if form is None or not form.fits(line):
                self._judge(line, now_s)

    def _judge(self, line: bytes, now_s: float) -> None:
        """An event of one line that has no known form."""
        payload = line[5:-2].strip()
        if not self._passes_over(payload):
            self._read(payload, now_s)
        elif self._forms_left:
            self._learn(line, payload)

    def _passes_over(self, payload: bytes) -> bool:
        """Whether the data of an event tells nothing."""
        return not payload or (payload != b"[DONE]" and self._may_pass_over(payload))

    def _learn(self, line: bytes, payload: bytes) -> None:
        """Take an event that tells nothing as the form of those that follow."""
        if self._may_pass_over is is_mere_text and decode(payload) is None:
            return  # it was searched for words only, and the next one may be readable
        form = form_of(line)
        if form != self._form:
            self._forms_left -= 1
            if form is not None:
                self._form = form

    def _read(self, payload: bytes, now_s: float) -> None:
        if payload == b"[DONE]":
            self.done = True
            return
        message = decode(payload)
        if message is not None:
            self._note(message, now_s)
            return
        self._unreadable += 1
        if self._unreadable > UNREADABLE_MAX:
            self._may_pass_over = lacks_telling_words

    def _note(self, message: Message, now_s: float) -> None:
        tells = told(message)
        if self.first_token_s is None and tells.text:
            self.first_token_s = now_s
            self._may_pass_over = is_mere_text
            self._form = None  # it was learned by another judgement
        if tells.usage is not None:
            self.usage = tells.usage if self.usage is None else self.usage.updated(tells.usage)
        self.error = tells.error or self.error
        self.finish_reason = tells.finish_reason or self.finish_reason
        self.done = self.done or tells.ends


def _reads_on(_: bytes) -> bool:
    """Until the first token is seen nothing is passed over."""
    return False


def _is_one_event(data: bytes) -> bool:
    """Whether a read holds one whole event of one line, as nearly all do."""
    return data[-2:] == b"\n\n" and len(data) <= EVENT_MAX and _is_line(data[:-2])


def _is_line(event: bytes) -> bool:
    """Whether an event without its line ends is one line of data."""
    return event[:5] == b"data:" and LINE_FEED not in event and CARRIAGE_RETURN not in event


def _payload(event: bytes) -> bytes:
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")).strip()


class JsonObserver:
    """Watches an answer that is one JSON document, by the same interface: only its usage, known once it is finished."""

    __slots__ = ("_parts", "_size_bytes", "usage")

    first_token_s: float | None = None
    error: str | None = None
    complete = True

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes, now_s: float) -> None:  # noqa: ARG002  # the interface of StreamObserver
        """Keep the next bytes, unless the answer is too large."""
        self._size_bytes += len(data)
        if self._size_bytes <= ANSWER_MAX:
            self._parts.append(data)
        else:
            self._parts.clear()

    def finish(self, now_s: float) -> None:  # noqa: ARG002  # the interface of StreamObserver
        """The answer has ended: read its usage."""
        if self._parts:
            self.usage = read_usage(usage_member(b"".join(self._parts)))
        self._parts.clear()
