"""A metrics page: any cut reads the same, nothing raises, memory is bounded, no figure is one that cannot be."""

from math import isfinite

from msgspec.structs import asdict

from breakeven.engines.vllm import LINE_BYTES_MAX, POSITIONS_MAX, SignalReader
from breakeven_policies.snapshot import EngineSignals
from tests.fuzz.cuts import pieces, single_bytes


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    reads = pieces(data)
    wire = b"".join(reads)
    signals = read([wire])
    assert signals == read(reads) == read(single_bytes(wire)), "the cut makes a difference"
    figures = asdict(signals)
    positions = figures.pop("accepted_tokens_per_position")
    assert len(positions) <= POSITIONS_MAX
    for figure in (*figures.values(), *positions):
        assert figure is None or (isfinite(figure) and figure >= 0)
    assert signals.kv_usage is None or signals.kv_usage <= 1
    # Whatever stands before or behind a sample on lines of its own makes no difference to it.
    framed = read([b"# HELP x\n", wire, b"\n# EOF\n"])
    assert framed == signals, "a comment makes a difference"


def read(reads: list[bytes]) -> EngineSignals:
    """The signals of a page that came in these reads."""
    reader = SignalReader()
    for each in reads:
        reader.feed(each)
        assert len(reader._rest) <= LINE_BYTES_MAX
    return reader.finish()
