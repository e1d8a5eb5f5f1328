"""An engine that costs almost nothing: it answers from canned bytes, so that what stands in front is what is measured.

    python -m breakeven_bench.overhead.canned

Events are stamped with the monotonic clock of the moment at which they are written (`at`, nanoseconds); whoever reads
them on the same machine knows how long they took.
"""

import asyncio
import json
from time import monotonic_ns
from typing import Any, cast

import httptools
import uvloop

BACKLOG = 4096

_COMMON = b'"id":"chatcmpl-5f0c","object":"chat.completion.chunk","created":1796000000,"model":"m"'
_EVENT = (
    b"data: {%b," % _COMMON
    + b'"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"at":%d}\n\n'
)
_ENDING = (
    b'data: {%b,"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n' % _COMMON
    + b'data: {%b,"choices":[],"usage":{"prompt_tokens":120,"total_tokens":170,"completion_tokens":50}}\n\n' % _COMMON
    + b"data: [DONE]\n\n"
)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def page(body: bytes, kind: bytes = b"application/json") -> bytes:
    """A whole answer."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


_LAST = chunk(_ENDING) + b"0\r\n\r\n"
_DOCUMENT = page(
    b'{"id":"chatcmpl-5f0c","object":"chat.completion","created":1796000000,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%b"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":120,"total_tokens":180,"completion_tokens":60}}' % (b"word " * 60)
)
_PAGES = {
    b"/health": page(b""),
    b"/version": page(b'{"version":"0.33.0"}'),
    b"/v1/models": page(b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"canned"}]}'),
    b"/metrics": page(
        b'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        b'vllm:num_requests_waiting{engine="0",model_name="m"} 0\n',
        b"text/plain",
    ),
}


class Connection(asyncio.Protocol):
    """Answers one client, one request after the other."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._path = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # gone is gone
        """A client left."""
        self._transport = None
        if self._streaming is not None:
            self._streaming.cancel()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._path = self._body = b""

    def on_url(self, piece: bytes) -> None:
        """A piece of its target."""
        self._path += piece

    def on_body(self, piece: bytes) -> None:
        """A piece of its body."""
        self._body += piece

    def on_message_complete(self) -> None:
        """Answer it."""
        if self._transport is None:
            return
        if self._path in _PAGES:
            self._transport.write(_PAGES[self._path])
            return
        asked: dict[str, Any] = json.loads(self._body)
        if asked.get("stream"):
            self._streaming = asyncio.ensure_future(
                stream(self._transport, asked["max_tokens"], int(asked["metadata"]["gap_ms"]) / 1000)
            )
        else:
            self._transport.write(_DOCUMENT)


async def stream(transport: asyncio.Transport, events: int, gap_s: float) -> None:
    """Write so many events, the first one after a gap too."""
    transport.write(_STREAM_HEAD)
    for _ in range(events):
        await asyncio.sleep(gap_s)
        transport.write(chunk(_EVENT % monotonic_ns()))
    transport.write(_LAST)


async def serve() -> None:
    """Serve on a free port until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=BACKLOG)
    print(f"ready on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
