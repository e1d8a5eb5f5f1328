"""How a peer that vanished without a word (power cut, no reset) is noticed by the kernel while nothing is said.

A stream may be silent for minutes while an engine reads a long prompt, and a client may wait as long, so silence
itself says nothing. TCP's own probes ask the other host's kernel, which answers also where the process is busy.
"""

import socket

ENGINE_IDLE_S, ENGINE_INTERVAL_S, ENGINE_PROBES = 15, 5, 3
"""A stream whose engine's host is gone ends after half a minute: about as soon as health checks have taken it out."""

ENGINE_UNANSWERED_MS = (ENGINE_IDLE_S + ENGINE_INTERVAL_S * ENGINE_PROBES) * 1000
"""The same for bytes under way, which keep the probes from being sent: Linux would repeat them for 15 minutes.

It also ends a connection whose engine has read nothing of a waiting body for that long: that engine is frozen.
"""

CLIENT_IDLE_S, CLIENT_INTERVAL_S, CLIENT_PROBES = 60, 10, 6
"""A client that vanished while its engine was silent frees it after two minutes.

Bytes under way have no such limit here: a client that reads nothing for long is slow, and slow clients are waited for.
"""


def watch_engine(connection: socket.socket) -> None:
    """Towards an engine."""
    _probe(connection, ENGINE_IDLE_S, ENGINE_INTERVAL_S, ENGINE_PROBES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ENGINE_UNANSWERED_MS)


def watch_clients(listening: socket.socket) -> None:
    """For every client: a connection has from the start what its listening socket was given, at no cost of its own."""
    _probe(listening, CLIENT_IDLE_S, CLIENT_INTERVAL_S, CLIENT_PROBES)


def _probe(tcp: socket.socket, idle_s: int, interval_s: int, probes: int) -> None:
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS knows the time until the first probe under another name, and older systems none of the three.
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), idle_s),
        (("TCP_KEEPINTVL",), interval_s),
        (("TCP_KEEPCNT",), probes),
    ):
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            tcp.setsockopt(socket.IPPROTO_TCP, option, value)
