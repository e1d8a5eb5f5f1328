"""What a page is made of, without its values: one line per part, so that two pages can be subtracted.

A JSON document becomes the paths of its leaves with their kinds, `choices[].delta.content: text`; a stream the same
for each kind of event it has; a metrics page one line per series, with the labels that come from a closed set.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.contract.engine import DONE, events_of
from tests.contract.metrics_page import Page

PREFIX = "vllm:"
"""What vLLM itself measures; the rest of its page is about the Python process and the HTTP framework."""

OPEN_LABELS = {"model_name", "engine"}
"""Their values are the operator's."""

_KINDS = {str: "text", bool: "truth", int: "number", float: "number", type(None): "null"}


def of_json(document: Any) -> list[str]:
    """The leaves in the order in which they first appear; of a list, those of all its elements together."""
    return list(dict.fromkeys(_leaves(document, "")))


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for member in value:
            yield from _leaves(member, f"{path}[]")
    else:
        yield f"{path}: {_KINDS.get(type(value), 'nothing in it')}"


def of_stream(body: bytes) -> list[str]:
    """The leaves of each kind of event, in front of them the kind: which one an event is, a client must tell too."""
    lines = [f"{_kind(event)} {leaf}" for event in events_of(body) if event != DONE for leaf in of_json(event)]
    return list(dict.fromkeys(lines))


def _kind(event: Any) -> str:
    if "error" in event:
        return "error"
    if not event["choices"]:
        return "closing"
    (choice,) = event["choices"]
    if "role" in choice.get("delta", {}):
        return "opening"
    return "text" if choice["finish_reason"] is None else "last"


def of_metrics(text: str) -> list[str]:
    """One line per series of vLLM's own: family, kind, name of the sample, and labels."""
    page = Page.read(text)
    lines = []
    for name, labels in page.samples:
        if name.startswith(PREFIX):
            shown = [f"{key}={value}" for key, value in labels if key not in OPEN_LABELS]
            named = [key for key, _ in labels if key in OPEN_LABELS]
            lines.append(" ".join([name, *named, *shown]))
    kinds = [f"{family} is a {kind}" for family, kind in page.kinds.items() if family.startswith(PREFIX)]
    return sorted([*lines, *kinds])


def shape(content_type: str, body: bytes) -> list[str]:
    """The shape of an answer by what it says it is."""
    if content_type.startswith("application/json"):
        return of_json(json.loads(body))
    if content_type.startswith("text/event-stream"):
        return of_stream(body)
    return of_metrics(body.decode()) if body else []
