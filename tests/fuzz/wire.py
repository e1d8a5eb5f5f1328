"""A connection to an engine without a socket, and what its receiver hears."""

from dataclasses import dataclass, field
from typing import cast

from breakeven import upstream
from breakeven.headers import ResponseHead
from breakeven.recent_heads import RecentHeads


@dataclass
class Heard:
    """What a receiver hears: heads, body, and how it ended; `kept`: the connection would serve the next request."""

    heads: list[ResponseHead] = field(default_factory=list)
    body: bytes = b""
    end: str = ""
    kept: bool = False

    def on_connected(self, connection: upstream.Connection) -> None:
        raise AssertionError("it stands already")

    def on_connect_failed(self, *, refused: bool) -> None:
        raise AssertionError("it stands already")

    def on_head(self, head: ResponseHead, body: bytes) -> None:
        assert not self.end
        self.heads.append(head)
        assert len(self.heads) == 1, "one request has one answer"
        self.body += body

    def on_body(self, data: bytes, framed: bytes | None = None, *, last: bool = False) -> None:
        assert self.heads
        assert not self.end
        assert data, "an empty piece would end a chunked answer"
        if framed is not None:
            assert framed == b"%x\r\n%b\r\n" % (len(data), data)
        self.body += data

    def on_end(self) -> None:
        assert self.heads
        assert not self.end
        self.end = "complete"

    def on_lost(self, *, stale: bool) -> None:
        assert not self.end
        self.end = "lost"


class Wire:
    """A transport on which nothing is written."""

    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    close = abort

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read from here."""

    resume_reading = pause_reading


class Pool:
    """Where a connection goes that can be used again."""

    def __init__(self, recent: RecentHeads[ResponseHead]) -> None:
        self.recent = recent
        self.kept: list[upstream.Connection] = []

    def keep(self, connection: upstream.Connection) -> None:
        self.kept.append(connection)

    def forget(self, connection: upstream.Connection) -> None:
        """It was not idle."""


def hear(reads: list[bytes], recent: RecentHeads[ResponseHead] | None = None, *, ends: bool = True) -> Heard:
    """What is heard of an answer in these reads, after which the engine ends the connection, or says nothing more."""
    pool = Pool(RecentHeads() if recent is None else recent)
    connection = upstream.Connection(cast("upstream.ConnectionPool", pool))
    wire = Wire()
    connection.connection_made(cast("upstream.asyncio.Transport", wire))
    connection.receiver = heard = Heard()
    for data in reads:
        if wire.closed or heard.end:
            break
        connection.data_received(data)
    heard.kept = bool(pool.kept)
    if ends:
        if not wire.closed:
            connection.eof_received()
        connection.connection_lost(None)
    return heard
