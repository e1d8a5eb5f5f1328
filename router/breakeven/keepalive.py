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


Option = tuple[int, int, int]
"""A level, an option of it, and its value, as `setsockopt` takes them."""


def watch_engine(connection: socket.socket) -> None:
    """Towards an engine."""
    _set(connection, ENGINE_OPTIONS)


def watch_clients(listening: socket.socket) -> None:
    """For every client: a connection has from the start what its listening socket was given, at no cost of its own."""
    _set(listening, CLIENT_OPTIONS)


def engine_options() -> tuple[Option, ...]:
    """Of what this system knows."""
    options = _probing(ENGINE_IDLE_S, ENGINE_INTERVAL_S, ENGINE_PROBES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        options += ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ENGINE_UNANSWERED_MS),)
    return options


def _probing(idle_s: int, interval_s: int, probes: int) -> tuple[Option, ...]:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    # macOS knows the time until the first probe under another name, and older systems none of the three.
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), idle_s),
        (("TCP_KEEPINTVL",), interval_s),
        (("TCP_KEEPCNT",), probes),
    ):
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return tuple(options)


ENGINE_OPTIONS, CLIENT_OPTIONS = engine_options(), _probing(CLIENT_IDLE_S, CLIENT_INTERVAL_S, CLIENT_PROBES)


def _set(tcp: socket.socket, options: tuple[Option, ...]) -> None:
    """All through one object: what uvloop gives out makes a socket of its own for each (16 against 6 µs for five)."""
    one = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, tcp.fileno())  # whose family nobody asks for
    try:
        for option in options:
            one.setsockopt(*option)
    finally:
        one.detach()
