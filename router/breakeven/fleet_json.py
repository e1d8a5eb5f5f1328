"""The picture of the fleet as JSON: what GET /fleet shows, and what `breakeven explain --fleet` reads back.

It holds names and numbers, never an address. A file saved by another version is read as far as its fields are known.
"""

import msgspec
from msgspec.structs import replace

from breakeven_policies.snapshot import FleetSnapshot

_DECODER = msgspec.json.Decoder(FleetSnapshot)


def encode_fleet(snapshot: FleetSnapshot, *, learned: bool = True) -> bytes:
    """The snapshot; equal snapshots give equal bytes. `learned`: with what was learned, some 50 KB for each pool."""
    if not learned:
        snapshot = replace(snapshot, learned=None)
    return msgspec.json.encode(snapshot, order="deterministic")


def decode_fleet(data: bytes) -> FleetSnapshot:
    """The snapshot that was saved; ValueError says where it is not one."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"not a fleet saved from GET /fleet: {error}"
        raise ValueError(message) from None
