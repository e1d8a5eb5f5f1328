"""So many requests on one worker that whatever grows is seen to grow.

    python -m tests.system.endurance.million [--requests 1000000]

Clients pipeline over connections that they keep. Every request names a user and an id that nobody named before, and one
in ten a model that does not exist (field case B69). Memory, descriptors and series are looked at again and again; the
exit code is 0 only where every request was answered and nothing grew after the warm-up.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path

import httptools
import uvloop

from tests.system.endurance.site import held, site

CONNECTIONS = 16
DEPTH = 8
"""Requests that one client sends ahead."""

LOOKS_MAX = 100
LOOK_REQUESTS_MIN = 500
"""A look costs as much as some requests."""

TOLD = 10
"""Lines of progress."""

WARM = 0.2
"""The part of a run after which all that is filled once is full: pools, recent heads, the allocator."""

MEMORY_SLACK_MB = 2.0
"""What allocator and collector do by themselves (0.5 MB in a full run): garbage in cycles, of which every look at the
admin port leaves some, is found by and by. Over a full run's 800,000 requests it is 2.6 bytes for each.
"""

DESCRIPTORS_SLACK = 2 * CONNECTIONS * DEPTH
"""Connections to the engine are opened as they are needed, and closed some seconds after."""

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\nx-request-id: %x\r\n"
    b"content-length: %d\r\n\r\n%b"
)
BODY = b'{"model":"%b","messages":[{"role":"user","content":"hello"}],"temperature":%.1f,"user":"%x"}'


class Crowd:
    """What the clients share: how many requests are left, and how the others ended."""

    def __init__(self, requests, seed):
        self.left = requests
        self.done = self.lost = 0
        self.answers = Counter()
        self.wanted = Counter()
        self.changed = asyncio.Event()
        self._chance = random.Random(seed)  # noqa: S311  # to be repeated

    def request(self):
        self.left -= 1
        chance = self._chance
        drawn = chance.getrandbits(96)
        is_stranger = drawn % 10 == 0
        self.wanted[404 if is_stranger else 200] += 1
        body = BODY % (b"model-%x" % drawn if is_stranger else b"m", drawn % 13 / 10, drawn)
        return HEAD % (drawn, len(body), body)

    def answered(self, status):
        self.answers[status] += 1
        self.done += 1
        self.changed.set()

    async def until(self, done):
        """Wait until so many are answered, or the last client is gone."""
        while self.done + self.lost < done:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)


class Client(asyncio.Protocol):
    """Asks for as long as any request is left."""

    def __init__(self, crowd):
        self._crowd = crowd
        self._waiting = 0
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport):
        self._transport = transport
        self._ask()

    def data_received(self, data):
        self._parser.feed_data(data)
        self._ask()

    def on_message_complete(self):
        self._waiting -= 1
        self._crowd.answered(self._parser.get_status_code())

    def connection_lost(self, exc):
        self._crowd.lost += self._waiting
        self._crowd.changed.set()

    def _ask(self):
        count = min(DEPTH - self._waiting, self._crowd.left)
        if count > 0:
            self._waiting += count
            self._transport.write(b"".join([self._crowd.request() for _ in range(count)]))
        elif self._waiting == 0:
            self._transport.close()


async def run(requests, folder, say=print, seed=1):
    """Send them all; what the router held on the way, and the faults."""
    async with site(folder, access_log="/dev/null") as router:
        crowd, looks = Crowd(requests, seed), []
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for _ in range(CONNECTIONS):
            await loop.create_connection(lambda: Client(crowd), "127.0.0.1", router.port)
        count = min(LOOKS_MAX, requests // LOOK_REQUESTS_MIN)
        for part in range(1, count + 1):
            await crowd.until(requests * part // count)
            looks.append(await held(router, crowd.done))
            if part * TOLD % count < TOLD:
                say(in_words(looks[-1], loop.time() - began_s))
        counted = await router.samples("breakeven_requests_in_flight")
    faults = faults_of(looks, crowd)
    faults += [f"in flight at the end: {dict(counted)}"] if any(counted.values()) else []
    grown_mb = growth(after_warm_up(looks), "memory_mb")
    say(f"memory grew by {grown_mb:.2f} MB after the warm-up; {MEMORY_SLACK_MB:g} may be")
    say("\n".join([f"FAULT {fault}" for fault in faults] or [f"all answered: {dict(crowd.answers)}; nothing grew"]))
    return looks, faults


def in_words(look, seconds):
    kept = f"{look.memory_mb:6.2f} MB, {look.descriptors} descriptors, {look.series} series"
    return f"{look.requests:9d} requests after {seconds:6.1f} s: {kept}"


def faults_of(looks, crowd):
    """What grew after the warm-up, and what was not answered as it should be."""
    faults = []
    if crowd.answers != crowd.wanted or crowd.lost:
        faults.append(f"answered {dict(crowd.answers)} and {crowd.lost} lost, where {dict(crowd.wanted)} were wanted")
    warm = after_warm_up(looks)
    grown_mb = growth(warm, "memory_mb")
    if grown_mb > MEMORY_SLACK_MB:
        faults.append(f"memory grew by {grown_mb:.2f} MB after the warm-up")
    if growth(warm, "descriptors") > DESCRIPTORS_SLACK:
        faults.append(f"descriptors grew by {growth(warm, 'descriptors'):.0f}")
    if warm[-1].series > warm[0].series:
        faults.append(f"series grew from {warm[0].series} to {warm[-1].series}")
    return faults


def after_warm_up(looks):
    """The looks that count."""
    return looks[int(len(looks) * WARM) :]


def growth(looks, what):
    """From the beginning to the end, by the median slope between any two looks (Theil and Sen).

    Memory comes in arenas of 1 MiB. A straight line makes 1.5 times its height of one that is needed late; to the
    median it counts as at most what it is, and a leak, of which an arena follows the other, as all that it takes.
    """
    slopes = [
        (getattr(late, what) - getattr(early, what)) / (late.requests - early.requests)
        for early, late in combinations(looks, 2)
        if late.requests > early.requests
    ]
    return statistics.median(slopes) * (looks[-1].requests - looks[0].requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _, faults = uvloop.run(run(asked.requests, Path(folder), seed=asked.seed))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
