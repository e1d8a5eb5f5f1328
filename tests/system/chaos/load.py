"""Clients of every kind, each in a loop of its own: asks, reads in its manner, writes down its fate, asks again."""

import asyncio
import random
import socket
import time

from tests.field.client import Client, request
from tests.system.chaos.fates import Fate, digest, draw, read_answer

PATIENCE_S = 40.0
"""Longer than anything here can last: an answer that has not ended by then never will."""

THINKING_S = (0.01, 0.25)
DISCOURAGED_S = 1.0
"""How long a client waits after a refusal (the router's Retry-After): a refusal takes no time, most would be some."""

REQUESTS_PER_CONNECTION = (1, 12)
SLOW_READ_BYTES = 32_768
SLOW_READ_S = 0.02


async def connect(port, *, slow):
    """A connection; a slow reader's kernel takes little in advance."""
    if not slow:
        client = await Client.connect(port)
    else:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
        client = Client(*await asyncio.open_connection(sock=raw, limit=SLOW_READ_BYTES))
    client.patience_s = PATIENCE_S
    return client


async def visitor(number, seed, port, is_over, fates, again=None):
    """One client, until `is_over` says so; its fates are appended.

    With `again` it does as browsers do where a connection that it used before ends without a word just as it asks: it
    asks on another one, and the request is noted there.
    """
    chance = random.Random(f"{seed} client {number}")  # noqa: S311  # to be repeated
    count = 0
    while not is_over():
        wishes = []
        for _ in range(chance.randint(*REQUESTS_PER_CONNECTION)):
            count += 1
            wishes.append(draw(chance, f"{number}-{count}"))
        client = await connect(port, slow=wishes[0].kind == "slow reader")
        for wish in wishes:
            if is_over():
                break
            fate = await ask(client, wish)
            if again is not None and wish is not wishes[0] and client.reply.closed and not client.reply.raw:
                again.append(wish.token)
                client = await connect(port, slow=False)
                fate = await ask(client, wish)
            fates.append(fate)
            await asyncio.sleep(DISCOURAGED_S if fate.status == 503 else chance.uniform(*THINKING_S))
            if wish.leaves_after >= 0 or fate.error or is_last(client.reply) or client.reader.at_eof():
                break  # behind an error event inside a stream the router closes (field case B39)
        client.fin()


def is_last(reply):
    """Whether nothing more may be asked on this connection."""
    return reply.closed or not reply.complete or "close" in reply.values("connection")


async def ask(client, wish):
    """One request and what became of it."""
    body = wish.body()
    headers = (("Content-Type", "application/json"), ("X-Request-Id", wish.token))
    fate = Fate(wish, digest(body), time.monotonic())
    try:
        await client.send(request(body, headers=headers), "POST")
        if wish.leaves_after >= 0:
            await leave(client, wish)
            fate.left = not (client.reply.complete or client.reply.closed)
        elif wish.kind == "slow reader":
            await read_slowly(client)
        else:
            await client.end()
    except (TimeoutError, OSError) as error:
        fate.lost = f"{type(error).__name__}"
    fate.ended_s = time.monotonic()
    reply = client.reply
    fate.status, fate.whole = reply.status, reply.complete
    fate.backend = next(iter(reply.values("x-breakeven-backend")), None)
    if not fate.left and reply.status is None:
        fate.lost = fate.lost or "no answer"
    if reply.status is not None:
        read_answer(fate, reply.body)
    return fate


async def leave(client, wish):
    """Read so many events and go; or go before anything came."""
    if wish.leaves_after == 0:
        await asyncio.sleep(0.01)
    else:
        await client.has(b" %d " % (wish.leaves_after - 1))
    client.reset() if wish.leaves_after % 2 else client.fin()


async def read_slowly(client):
    """At a fraction of the speed at which the engine writes."""
    async with asyncio.timeout(PATIENCE_S):
        while not (client.reply.complete or client.reply.closed):
            await asyncio.sleep(SLOW_READ_S)
            try:
                data = await client.reader.read(SLOW_READ_BYTES)
            except ConnectionResetError:
                data = b""
            client._take(data)
