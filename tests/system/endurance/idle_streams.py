"""Thousands of streams at once, each with an event every five seconds: what one of them costs in memory.

    python -m tests.system.endurance.idle_streams [--streams 9000]

Each takes two descriptors of the router. The exit code is 0 only where every stream came whole and in time and the
memory for each stayed within its bound.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

import httptools
import uvloop

from tests.system.endurance.site import held, site

STREAM_KB_MAX = 32.0
BATCH = 100
"""Clients that come at once."""

EVENTS = 12
"""So many that the first stream still runs when the last one has begun."""

GAP_S = 5.0
LATE_S = 30.0
"""How much longer than planned all of it may take: the machine may be busy."""

MARK = b'"at":'


class Crowd:
    def __init__(self, streams, gap_s):
        body = json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hello"}],
                "stream": True,
                "max_tokens": EVENTS,
                "metadata": {"gap_ms": str(round(gap_s * 1000))},
            }
        ).encode()
        self.request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: router\r\ncontent-length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )
        self.streams = streams
        self.begun = self.whole = self.broken = 0
        self.changed = asyncio.Event()

    async def until(self, condition, limit_s):
        async with asyncio.timeout(limit_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Client(asyncio.Protocol):
    """Asks once and counts."""

    def __init__(self, crowd):
        self._crowd = crowd
        self._events = 0
        self._last = b""
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport):
        self._transport = transport
        transport.write(self._crowd.request)

    def data_received(self, data):
        self._parser.feed_data(data)

    def on_body(self, piece):
        if self._events == 0:
            self._crowd.begun += 1
            self._crowd.changed.set()
        self._events += piece.count(MARK)
        self._last = piece[-16:]

    def on_message_complete(self):
        is_whole = self._events == EVENTS and self._last.endswith(b"data: [DONE]\n\n")
        is_whole = is_whole and self._parser.get_status_code() == 200
        self._crowd.whole += is_whole
        self._crowd.broken += not is_whole
        self._crowd.changed.set()
        self._events = -1
        self._transport.close()

    def connection_lost(self, exc):
        if self._events >= 0:
            self._crowd.broken += 1
            self._crowd.changed.set()


async def run(streams, folder, say=print, gap_s=GAP_S):
    """All of them; kilobytes for each, and the faults."""
    async with site(folder, access_log="/dev/null", drain_timeout_s=1) as router:
        before, crowd = await held(router), Crowd(streams, gap_s)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for start in range(0, streams, BATCH):
            coming = range(start, min(start + BATCH, streams))
            await asyncio.gather(
                *(loop.create_connection(lambda: Client(crowd), "127.0.0.1", router.port) for _ in coming)
            )
        await crowd.until(lambda: crowd.begun + crowd.broken >= streams, gap_s * 2 + LATE_S)
        during = await held(router)
        in_flight = sum((await router.samples("breakeven_requests_in_flight")).values())
        say(f"{crowd.begun} streams after {loop.time() - began_s:.1f} s, {in_flight:g} in flight by the router's count")
        await crowd.until(lambda: crowd.whole + crowd.broken >= streams, gap_s * EVENTS + LATE_S)
    stream_kb = (during.memory_mb - before.memory_mb) * 1024 / streams
    say(f"{before.memory_mb:.1f} MB before, {during.memory_mb:.1f} MB with them: {stream_kb:.1f} KB for each")
    say(f"{before.descriptors} descriptors before, {during.descriptors} with them")
    say(f"{crowd.whole} streams came whole, {crowd.broken} broke")
    faults = [f"{crowd.broken} of {streams} streams broke"] if crowd.broken else []
    faults += [f"only {in_flight:g} of {streams} streams ran at the same time"] if in_flight < streams else []
    return stream_kb, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=9000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stream_kb, faults = uvloop.run(run(asked.streams, Path(folder)))
    for fault in faults:
        print(f"FAULT {fault}")
    return 1 if faults or stream_kb > STREAM_KB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
