"""What happens to an answer on its way through: watched, given back under the client's own model name, or left alone.

The kind of an answer is what its engine says it is, never what the request asked for: `"stream": "true"` streams, and a
request that streams may be answered with a JSON error, audio or a page of HTML (field cases B22, B32).
"""

from typing import Protocol

from breakeven.answer import Usage
from breakeven.coding import Decoder
from breakeven.errors import ApiError
from breakeven.headers import ResponseHead, accepts
from breakeven.record import RequestRecord
from breakeven.rename import StreamRenamer, rename_answer
from breakeven.sse import JsonObserver, StreamObserver

GZIP = frozenset((b"gzip", b"x-gzip"))

UNPACKED_BYTES_MAX = 2**30
"""Of one answer. Engines are trusted not to send bombs; a whole answer larger than this is a mistake of theirs."""

RENAMED_ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""A JSON answer has to be whole before its model can be renamed; beyond this it goes on under the engine's name."""


class Passage(Protocol):
    """One response body on its way to the client."""

    @property
    def unpacks(self) -> bool:
        """Whether the body goes on without the content coding in which it came."""

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events, which nothing on the way may collect."""

    @property
    def body_bytes(self) -> int | None:
        """The length that the client is told; None: unknown before the end."""

    def feed(self, data: bytes, now_s: float) -> bytes:
        """What goes on for this piece; empty where it is held back."""

    def finish(self, now_s: float) -> bytes:
        """The engine's body is complete: what is still to go on."""

    @property
    def first_token_s(self) -> float | None:
        """When generated text was first seen in a stream; None: not so far."""

    @property
    def truncated(self) -> bool:
        """Whether the body ended as HTTP without the end that its kind must have."""

    @property
    def done(self) -> bool:
        """Whether the engine has said that nothing follows, so that a connection lost now loses nothing."""

    def cut(self, error: ApiError) -> bytes | None:
        """What tells the client why the rest is missing; None: only a cut connection can."""

    def note(self, record: RequestRecord) -> bool:
        """Write down what was seen; whether the answer reported an error of the engine inside a success."""


class OpaquePassage:
    """Audio, HTML, anything encoded: passes as it is."""

    __slots__ = ("body_bytes",)

    unpacks = False
    streams = False
    first_token_s: float | None = None
    truncated = False
    done = False

    def __init__(self, body_bytes: int | None) -> None:
        self.body_bytes = body_bytes

    def feed(self, data: bytes, now_s: float) -> bytes:  # noqa: ARG002  # the time matters to answers that are watched
        """As it came."""
        return data

    def finish(self, now_s: float) -> bytes:  # noqa: ARG002
        """Nothing is held back."""
        return b""

    def cut(self, error: ApiError) -> bytes | None:  # noqa: ARG002
        """No way to say it in a format we do not know."""
        return None

    def note(self, record: RequestRecord) -> bool:  # noqa: ARG002
        """Nothing was seen."""
        return False


class JsonPassage:
    """A JSON document: its usage is read at the end; it is held back only where its model has to be renamed."""

    __slots__ = ("_alias", "_held", "_held_bytes", "_length", "_observer")

    unpacks = False
    streams = False
    first_token_s: float | None = None
    truncated = False
    done = False

    def __init__(self, body_bytes: int | None, alias: str | None) -> None:
        self._observer = JsonObserver()
        self._length = body_bytes
        self._alias = alias
        self._held: list[bytes] = []
        self._held_bytes = 0

    @property
    def body_bytes(self) -> int | None:
        """Unknown where the renamed model changes it."""
        return self._length if self._alias is None else None

    def feed(self, data: bytes, now_s: float) -> bytes:
        """On at once, or kept until the whole document is there."""
        self._observer.feed(data, now_s)
        if self._alias is None:
            return data
        self._held.append(data)
        self._held_bytes += len(data)
        return self._let_go() if self._held_bytes > RENAMED_ANSWER_BYTES_MAX else b""

    def finish(self, now_s: float) -> bytes:
        """The renamed document."""
        self._observer.finish(now_s)
        if self._alias is None:
            return b""
        return rename_answer(self._held, self._alias)

    def cut(self, error: ApiError) -> bytes | None:  # noqa: ARG002
        """Half a document says itself that it is cut."""
        return None

    def note(self, record: RequestRecord) -> bool:
        """Token counts; JSON errors come with a status of their own."""
        _note_usage(self._observer.usage, record)
        return False

    def _let_go(self) -> bytes:
        held, self._held, self._alias = b"".join(self._held), [], None
        return held


class StreamPassage:
    """A stream of events: watched for its first token, usage, errors and end, renamed event by event if need be."""

    __slots__ = ("_must_end", "_observer", "_renamer")

    unpacks = False
    streams = True
    body_bytes = None

    def __init__(self, alias: str | None, *, must_end: bool) -> None:
        self._observer = StreamObserver()
        self._renamer = None if alias is None else StreamRenamer(alias)
        self._must_end = must_end

    def feed(self, data: bytes, now_s: float) -> bytes:
        """On at once; a renamed event goes on when it is complete."""
        self._observer.feed(data, now_s)
        return data if self._renamer is None else self._renamer.feed(data)

    def finish(self, now_s: float) -> bytes:
        """What the renamer still holds."""
        self._observer.finish(now_s)
        return b"" if self._renamer is None else self._renamer.flush()

    @property
    def first_token_s(self) -> float | None:
        """As the observer saw it."""
        return self._observer.first_token_s

    @property
    def truncated(self) -> bool:
        """Whether neither a finish reason nor an end was seen, on an endpoint whose streams have one."""
        return self._must_end and not self._observer.complete

    @property
    def done(self) -> bool:
        """Whether the end event was seen."""
        return self._observer.done

    def cut(self, error: ApiError) -> bytes | None:
        """An error event of our own, and the end; a newline first where the engine stopped inside an event."""
        held = b"" if self._renamer is None else self._renamer.flush()
        return held + self._observer.event_end + error.event()

    def note(self, record: RequestRecord) -> bool:
        """First token and token counts; an error event inside a success is an error all the same (field case B40)."""
        observer = self._observer
        record.stream = True
        record.first_token_s = observer.first_token_s
        record.finish_reason = observer.finish_reason
        _note_usage(observer.usage, record)
        return observer.error is not None


class UnpackedPassage:
    """An answer that came packed for a client that did not ask for that (field case B30), unpacked on its way.

    The engine flushes every event, so each still goes on when it comes. A packed body that breaks off is truncated.
    """

    __slots__ = ("_broken", "_decoder", "_inner")

    unpacks = True
    body_bytes = None

    def __init__(self, inner: Passage, coding: str) -> None:
        self._inner = inner
        self._decoder = Decoder(coding, UNPACKED_BYTES_MAX)
        self._broken = False

    @property
    def streams(self) -> bool:
        """As what is inside."""
        return self._inner.streams

    def feed(self, data: bytes, now_s: float) -> bytes:
        """What is inside, as far as it has come."""
        if self._broken:
            return b""
        try:
            plain = b"".join(self._decoder.feed(data))
        except ApiError:
            self._broken = True
            return b""
        return self._inner.feed(plain, now_s) if plain else b""

    def finish(self, now_s: float) -> bytes:
        """What the inside still holds."""
        if not self._broken:
            try:
                self._decoder.finish()
            except ApiError:
                self._broken = True
        return self._inner.finish(now_s)

    @property
    def first_token_s(self) -> float | None:
        """As what is inside."""
        return self._inner.first_token_s

    @property
    def truncated(self) -> bool:
        """Whether the packing or the inside lacks its end."""
        return self._broken or self._inner.truncated

    @property
    def done(self) -> bool:
        """As what is inside."""
        return self._inner.done and not self._broken

    def cut(self, error: ApiError) -> bytes | None:
        """As what is inside."""
        return self._inner.cut(error)

    def note(self, record: RequestRecord) -> bool:
        """As what is inside."""
        return self._inner.note(record)


def _note_usage(usage: Usage | None, record: RequestRecord) -> None:
    if usage is not None:
        record.prompt_tokens = usage.prompt_tokens
        record.completion_tokens = usage.completion_tokens


def passage_of(head: ResponseHead, alias: str | None, accepted: bytes | None, *, must_end: bool) -> Passage:
    """How to treat the body that follows `head`.

    `alias` is the model name that the client used, if another one went to the engine; `accepted` is the client's
    Accept-Encoding; `must_end` tells that a stream of this endpoint has a final event.
    """
    coding = head.headers.coding
    if coding == b"identity":
        return _plain_passage(head, head.body_bytes, alias, must_end=must_end)
    if coding in GZIP and not accepts(accepted, b"gzip"):
        return UnpackedPassage(_plain_passage(head, None, alias, must_end=must_end), coding.decode())
    return OpaquePassage(head.body_bytes)


def _plain_passage(head: ResponseHead, body_bytes: int | None, alias: str | None, *, must_end: bool) -> Passage:
    media_type = head.headers.media_type
    if media_type == b"text/event-stream":
        return StreamPassage(alias, must_end=must_end and head.status == 200)
    if media_type == b"application/json":
        return JsonPassage(body_bytes, alias)
    return OpaquePassage(body_bytes)
