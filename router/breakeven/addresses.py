"""Where to listen: on every address that a name stands for, and for both families where that is `::`.

The loop's own `create_server` makes `::` an IPv6 address only, gives every address of a name a port of its own where
the port is 0, and fails where a name has one address that this host lacks, as `localhost` often has in a container.
"""

import asyncio
import errno
import socket

Found = tuple[int, str]
"""Address family and numeric address."""

_LACKING = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """A bound socket for each address of the host that this machine has, all with one port. OSError where none can be.

    An address that is taken is an error even where others are free: half of the clients would not be heard.
    """
    found = await _look_up(host)
    alone = len(found) == 1
    sockets: list[socket.socket] = []
    lacking: OSError | None = None
    for family, address in found:
        try:
            own = bound_socket(family, address, port, both=alone and address == "::")
        except OSError as error:
            if error.errno in _LACKING:
                lacking = error
                continue
            for earlier in sockets:
                earlier.close()
            raise
        sockets.append(own)
        port = own.getsockname()[1]
    if not sockets and lacking is not None:
        raise lacking
    return sockets


def bound_socket(family: int, address: str, port: int, *, both: bool) -> socket.socket:
    """A socket bound to a numeric address; `both`: an IPv6 one that takes IPv4 clients too. OSError where it cannot."""
    own = socket.socket(family, socket.SOCK_STREAM)
    try:
        own.setblocking(False)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        own.bind((address, port))
    except OSError:
        own.close()
        raise
    return own


async def _look_up(host: str) -> list[Found]:
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in entries))
