"""What a supervisor and its workers tell each other, and how it is framed on the socket between them.

Down go an assignment, what is found out about the engines, and when to leave; up goes what only a worker sees. Each
message is its length in 4 bytes and then msgpack. Both ends are of one version: the supervisor starts its workers.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from breakeven.fleet import Believed, ConnectRefused, EndedElsewhere, Erred, Scraped, SignalsForgotten
from breakeven_policies.measurement import Measurement

MESSAGE_BYTES_MAX = 2**28
"""A list of 10,000 models with all their fields is some 10 MB; what is longer than this is no message of ours."""

_LENGTH_BYTES = 4


class Assignment(Struct, frozen=True, tag=True):
    """The first message. `sockets` and `table` are descriptors that the worker inherited; `settings` are pickled.

    With them are the keys in force: a worker that comes while their file cannot be used serves by those of before, as
    all do. `row` is the worker's own of the `rows` rows in the table.
    """

    number: int
    settings: bytes
    sockets: tuple[int, ...]
    table: int
    row: int
    rows: int


class Listed(Struct, frozen=True, tag=True):
    """The models that an engine lists, as JSON: its fields are anything."""

    backend: str
    cards: bytes


class Measured(Struct, frozen=True, tag=True):
    """What measured tables say about pools, by name; of others they say nothing."""

    pools: dict[str, Measurement]


class Well(Struct, frozen=True, tag=True):
    """The answer to `AskedWell` of that number."""

    number: int
    well: bool


class Part(Struct, frozen=True, tag=True):
    """The router is not ready any more, but still accepts clients."""


class Reconfigured(Struct, frozen=True, tag=True):
    """Other settings and keys are in force, pickled likewise; `edition` counts them up."""

    settings: bytes
    edition: int = 0


class TookOver(Struct, frozen=True, tag=True):
    """The worker serves by the settings of that edition; what it says from now on is about their engines."""

    edition: int


class PolicySwitched(Struct, frozen=True, tag=True):
    """That policy decides from now on; None: the configured one again."""

    policy: str | None


class Drain(Struct, frozen=True, tag=True):
    """Take no more clients, let requests finish, end. `succeeded`: another router serves at these sockets."""

    succeeded: bool = False


class Hurry(Struct, frozen=True, tag=True):
    """Cut what still runs."""


class Serving(Struct, frozen=True, tag=True):
    """The worker takes clients now."""


class Leaving(Struct, frozen=True, tag=True):
    """The worker has begun to drain."""


class Left(Struct, frozen=True, tag=True):
    """The worker has drained and ends; `drained`: every request had finished."""

    drained: bool


class AskedWell(Struct, frozen=True, tag=True):
    """The worker wants to know whether that engine is well now."""

    number: int
    backend: str


Downward = (
    Assignment
    | Believed
    | Scraped
    | SignalsForgotten
    | Listed
    | Well
    | Part
    | Reconfigured
    | PolicySwitched
    | Measured
    | Drain
    | Hurry
)
Upward = Serving | Leaving | Left | TookOver | ConnectRefused | EndedElsewhere | Erred | AskedWell
Message = Downward | Upward

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


def encode(message: Message) -> bytes:
    """The message as it goes over the socket."""
    body = _encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class Reader:
    """Messages out of the bytes of a socket, however those are cut."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Every message that is complete now. ValueError: this is none of ours."""
        self._bytes += data
        while len(self._bytes) >= _LENGTH_BYTES:
            length = int.from_bytes(self._bytes[:_LENGTH_BYTES], "big")
            if length > MESSAGE_BYTES_MAX:
                message = f"a message of {length} bytes"
                raise ValueError(message)
            end = _LENGTH_BYTES + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_LENGTH_BYTES:end])
            del self._bytes[:end]
            yield _decode(body)
