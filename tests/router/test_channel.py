"""`breakeven.channel`: messages over a socket pair, until one end is gone."""

import asyncio
import socket

from breakeven.channel import Channel
from breakeven.worker_messages import Drain, Listed, Well


class End:
    """One end, what it heard, and whether the other is gone."""

    def __init__(self):
        self.heard = asyncio.Queue()
        self.closed = asyncio.Event()
        self.channel = Channel(self.heard.put_nowait, self.closed.set)


async def pair():
    ends = End(), End()
    for end, side in zip(ends, socket.socketpair(), strict=True):
        await end.channel.open(side)
    return ends


async def test_messages_arrive_in_order_also_those_larger_than_a_read():
    here, there = await pair()
    messages = [Well(1, well=True), Listed("b", b"x" * 1_000_000), Drain()]
    for message in messages:
        here.channel.send(message)
    assert [await there.heard.get() for _ in messages] == messages
    for end in (here, there):
        end.channel.close()
    await asyncio.gather(here.closed.wait(), there.closed.wait())


async def test_what_is_unsent_goes_before_the_end_and_then_both_know_of_it():
    here, there = await pair()
    here.channel.send(Listed("b", b"x" * 1_000_000))
    here.channel.close()
    assert isinstance(await there.heard.get(), Listed)
    await asyncio.gather(here.closed.wait(), there.closed.wait())
    there.channel.send(Drain())  # nobody hears it and nothing happens
    there.channel.close()
    assert there.channel.unsent_bytes == 0


async def test_what_the_other_end_does_not_take_is_known():
    ours, theirs = socket.socketpair()
    end = End()
    await end.channel.open(ours)
    end.channel.send(Listed("b", b"x" * 10_000_000))
    assert end.channel.unsent_bytes > 1_000_000
    theirs.close()
    await end.closed.wait()
    assert end.channel.unsent_bytes == 0


def test_a_channel_that_was_never_opened_says_nothing():
    end = Channel(print, print)
    end.send(Drain())
    end.close()
    assert end.unsent_bytes == 0
