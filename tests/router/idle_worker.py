"""A process that behaves as a worker towards its supervisor and serves nobody: argv[1] says how it ends, argv[2] where.

`obeys`: drains when it is told to; `deaf`: does not; `dies`: ends before it serves.
"""

import asyncio
import socket
import sys

from breakeven.channel import Channel
from breakeven.fleet import ConnectRefused
from breakeven.shared_table import rows_of
from breakeven.worker_messages import (
    Assignment,
    Drain,
    Hurry,
    Leaving,
    Left,
    Part,
    Reconfigured,
    Serving,
    SignalsForgotten,
    TookOver,
)


async def work(how, end):
    over = asyncio.Event()

    def hear(message):
        if isinstance(message, Assignment):
            row = rows_of(message.table, message.rows)[message.row]
            row.cells[row.place("breakeven_requests_in_flight", ("p", "b"))] += 1
            row.cells[row.place("breakeven_requests_total", ("p",))] += 1
            channel.send(Serving())
        elif isinstance(message, Drain) and how == "obeys":
            channel.send(Leaving())
            channel.send(Left(drained=True))
            if message.succeeded:
                channel.send(ConnectRefused("succeeded"))
            over.set()
        elif isinstance(message, Reconfigured):
            channel.send(TookOver(message.edition))
        elif isinstance(message, Part):
            channel.send(ConnectRefused("parted"))
        elif isinstance(message, Hurry):
            over.set()
        elif isinstance(message, SignalsForgotten):
            channel.send(Leaving())

    channel = Channel(hear, over.set)
    await channel.open(end)
    await over.wait()
    channel.close()


if sys.argv[1] == "dies":
    sys.exit(3)
asyncio.run(work(sys.argv[1], socket.socket(fileno=int(sys.argv[2]))))
