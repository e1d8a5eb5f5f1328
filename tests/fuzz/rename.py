"""An answer under the client's alias: any cut gives the same, and nothing but the model differs."""

import json
from typing import Any

from breakeven.answer import decode
from breakeven.rename import StreamRenamer, rename_answer
from tests.fuzz.cuts import pieces, single_bytes

ALIAS = 'an "alias" \ud83d'


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    reads = pieces(data)
    wire = b"".join(reads)
    whole, cut, single = renamed([wire]), renamed(reads), renamed(single_bytes(wire))
    assert whole == cut == single, "the cut makes a difference"
    before, after = wire.splitlines(keepends=True), whole.splitlines(keepends=True)
    assert len(before) == len(after), "a line came or went"
    for old, new in zip(before, after, strict=True):
        if old != new:
            assert old.startswith(b"data:")
            event, theirs = decode(old[5:]), decode(new[5:])
            assert event is not None
            assert theirs is not None
            for holder in (event, event.get("response"), event.get("message")):
                rename(holder)
            assert json.dumps(event) == json.dumps(theirs), "more than the model was renamed"
    renamed_whole(wire)


def renamed(reads: list[bytes]) -> bytes:
    """The stream as it goes on."""
    renamer = StreamRenamer(ALIAS)
    return b"".join([*map(renamer.feed, reads), renamer.flush()])


def renamed_whole(document: bytes) -> None:
    """The same for an answer that is one document."""
    answer = rename_answer([document], ALIAS)
    if b"\0" in document:
        assert answer == document, "no JSON in UTF-8 has this byte"
        return
    message = decode(document)
    if message is None:
        return
    rename(message)
    theirs = decode(answer)
    assert theirs is not None
    assert json.dumps(message) == json.dumps(theirs), "more than the model was renamed, or less"


def rename(holder: Any) -> None:
    """The model, where there is one."""
    if isinstance(holder, dict) and isinstance(holder.get("model"), str):
        holder["model"] = ALIAS
