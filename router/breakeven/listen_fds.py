"""Listening sockets that are handed over by whoever starts a process: the protocol of systemd, sd_listen_fds(3).

LISTEN_FDS descriptors, from number 3 on, are for the process LISTEN_PID; LISTEN_FDNAMES has a name for each. A router
that starts its successor speaks it as well, with a descriptor more on which the successor says that it is ready.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from breakeven.errors import shown

FIRST = 3
"""The first descriptor behind standard input, output and error."""

PID, COUNT, NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"

READY = "READY_FD"
"""Ours: the descriptor on which a successor says that it is ready. It counts beside a LISTEN_PID only."""

VARIABLES = (PID, COUNT, NAMES, READY)

API, ADMIN = "api", "admin"
"""The name that decides is `admin`; whatever is called otherwise, or not at all, serves the OpenAI API."""

COUNT_MAX = 64
"""A socket for each address of a host; a larger number was never meant as one of descriptors."""


class Given(Struct, frozen=True):
    """One descriptor that was handed over; `name` is `unknown` where it has none, as systemd calls it."""

    descriptor: int
    name: str


class Handover(Struct, frozen=True):
    """All that was handed over."""

    given: tuple[Given, ...] = ()
    ready: int | None = None


def handed_over(environment: Mapping[str, str], pid: int) -> Handover:
    """What the variables say to this process; nothing where they are for another one. ValueError: one line."""
    if _number(environment.get(PID, "")) != pid:
        return Handover()
    told = environment.get(COUNT, "")
    count = _number(told)
    if count is None or not 0 <= count <= COUNT_MAX:
        message = f"{COUNT}: expected a number of descriptors up to {COUNT_MAX}, got {shown(told)}"
        raise ValueError(message)
    names = environment[NAMES].split(":") if environment.get(NAMES) else ["unknown"] * count
    if len(names) != count:
        message = f"{NAMES}: names {len(names)} descriptors where {COUNT} says {count}"
        raise ValueError(message)
    given = tuple(Given(FIRST + index, name) for index, name in enumerate(names))
    return Handover(given, _number(environment.get(READY, "")))


def variables_for(names: Sequence[str], pid: int) -> dict[str, str]:
    """What a successor of that number finds: its sockets by name from `FIRST` on, and behind them where to report."""
    return {
        PID: str(pid),
        COUNT: str(len(names)),
        NAMES: ":".join(names),
        READY: str(FIRST + len(names)),
    }


def _number(text: str) -> int | None:
    """A decimal number as a C library reads it."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(2**32)) else None
