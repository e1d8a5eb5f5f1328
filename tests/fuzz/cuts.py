"""How an input of a target is read: a few bytes that say where the network cuts, and then the wire itself."""

from itertools import accumulate, cycle, islice, pairwise

CUTS_MAX = 15


def pieces(data: bytes) -> list[bytes]:
    """The wire of an input in the reads in which it comes; no read is empty.

    The low half of the first byte counts the sizes that follow it; they are used again and again. None: one read.
    """
    count = data[0] & CUTS_MAX if data else 0
    wire = data[1 + count :]
    sizes = [size + 1 for size in data[1 : 1 + count]]
    if not sizes:
        return [wire] if wire else []
    edges = [0, *accumulate(islice(cycle(sizes), len(wire)))]
    return [wire[start:end] for start, end in pairwise(edges) if start < len(wire)]


def whole(wire: bytes) -> bytes:
    """The input that brings this wire in one read."""
    return b"\x00" + wire


def cut(wire: bytes, *sizes: int) -> bytes:
    """The input that brings this wire in reads of these sizes, over and over."""
    return bytes([len(sizes), *(size - 1 for size in sizes)]) + wire


SINGLY_MAX = 512
"""Bytes that come one by one; behind them it is one read, for speed."""


def single_bytes(wire: bytes) -> list[bytes]:
    """The worst cut."""
    rest = [wire[SINGLY_MAX:]] if len(wire) > SINGLY_MAX else []
    return [bytes([byte]) for byte in wire[:SINGLY_MAX]] + rest
