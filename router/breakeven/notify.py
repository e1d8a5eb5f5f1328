"""Tells the service manager how far we are, as sd_notify(3) says: one datagram to the socket in NOTIFY_SOCKET."""

import logging
import os
import socket

LOG = logging.getLogger(__name__)

VARIABLE = "NOTIFY_SOCKET"

SEND_S = 1.0
"""A manager that takes nothing for so long is not worth that relays wait any longer."""

READY, STOPPING = "READY=1", "STOPPING=1"


class Notifier:
    """`address` is a path, or a name behind @; None: nobody wants to know."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def tell(self, *lines: str) -> None:
        """Tell it all of this at once. What cannot be told is logged and harms nobody."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(SEND_S)
                name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
                sending.sendto("\n".join(lines).encode(), name)
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            LOG.warning("cannot tell %s that %s: %s", VARIABLE, lines[0], why)


def main_pid(pid: int) -> str:
    """Another process is the service's main one from now on."""
    return f"MAINPID={pid}"


def patience(seconds: float) -> str:
    """The manager shall wait so long for the next message, or for the end, whatever its own limit is."""
    return f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}"


def status(text: str) -> str:
    """A line for whoever looks at the service."""
    return f"STATUS={text}"
