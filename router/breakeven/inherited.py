"""The listening sockets with which this process was started, as objects: what was handed over, looked at.

Whoever handed a socket over keeps it, so that clients who wait at it are reset neither by our end nor by our start.
"""

import os
import socket
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

from breakeven.listen_fds import ADMIN, COUNT, VARIABLES, Given, handed_over

SAID = b"READY=1\n"
"""What a successor says to the process before it."""


class UnfitSocketError(Exception):
    """What was handed over cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """Sockets for each port, none where it has to be bound; `ready`: the descriptor on which a predecessor listens."""

    api: Sequence[socket.socket] = ()
    admin: Sequence[socket.socket] = ()
    ready: int | None = None

    @property
    def succeeds(self) -> bool:
        """Whether another process serves at these sockets until this one is ready."""
        return self.ready is not None

    def tell_ready(self) -> None:
        """Tell the predecessor, to whom the end of this descriptor is our end: it stays open. OSError: it is gone."""
        if self.ready is not None:
            os.write(self.ready, SAID)


NOTHING = Inherited()


def take_inherited(environment: MutableMapping[str, str], pid: int) -> Inherited:
    """What was handed over to this process, and to none that it starts: the variables go. UnfitSocketError."""
    try:
        handover = handed_over(environment, pid)
    except ValueError as error:
        raise UnfitSocketError(str(error)) from None
    for name in VARIABLES:
        environment.pop(name, None)
    for each in handover.given:
        _require_listening(each)
    sockets = [(each.name == ADMIN, socket.socket(fileno=each.descriptor)) for each in handover.given]
    for _, taken in sockets:
        taken.setblocking(False)
        taken.set_inheritable(False)
    if handover.ready is not None:
        os.set_inheritable(handover.ready, False)
    return Inherited(
        tuple(taken for is_admin, taken in sockets if not is_admin),
        tuple(taken for is_admin, taken in sockets if is_admin),
        handover.ready,
    )


def address_of(listening: socket.socket) -> tuple[str, int]:
    """Numeric address and port."""
    host, port = listening.getsockname()[:2]
    return str(host), int(port)


def _require_listening(given: Given) -> None:
    """UnfitSocketError where clients cannot be accepted there."""
    which = f"{COUNT}: descriptor {given.descriptor} ({given.name})"
    try:
        looked_at = socket.socket(fileno=given.descriptor)
    except OSError:
        message = f"{which} is not a socket"
        raise UnfitSocketError(message) from None
    try:
        is_tcp = looked_at.family in {socket.AF_INET, socket.AF_INET6} and looked_at.type == socket.SOCK_STREAM
        if not is_tcp or not looked_at.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            message = f"{which} is not a listening TCP socket"
            raise UnfitSocketError(message)
    finally:
        looked_at.detach()  # not ours to close
