"""One list of models from many engines, kept in memory so that no dead engine ever delays the answer.

Each model id appears once, with all the fields that its engine gave, known or not. Where engines disagree, the
smaller `max_model_len` counts, since a request must fit wherever it is routed; every other field comes from the first
backend in configuration order. Aliases are listed as models too. The bytes stay the same until an engine says something
new.
"""

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

Card = Mapping[str, Any]
"""One entry of /v1/models as the engine sent it; `id` is text."""

CARDS_MAX = 10_000
"""Of one engine. A server with adapters lists hundreds; more than this is no list of models."""


def parse_cards(page: bytes | bytearray) -> tuple[Card, ...]:
    """The cards of a /v1/models answer; entries without an id are left out. ValueError: not such an answer."""
    try:
        answer = json.loads(page, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        message = f"not JSON ({type(error).__name__})"
        raise ValueError(message) from None
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list) or len(entries) > CARDS_MAX:
        message = "no list of models in it"
        raise ValueError(message)
    return tuple(entry for entry in entries if isinstance(entry, dict) and _is_name(entry.get("id")))


def _is_name(value: object) -> bool:
    """Whether this is text that can be written down; JSON can spell a lone surrogate, UTF-8 cannot."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _finite(text: str) -> float | None:
    """1e999 is a number in JSON and none in anything that reads it."""
    value = float(text)
    return value if isfinite(value) else None


def names_of(cards: Iterable[Card]) -> frozenset[str]:
    """What the models of an engine are called, by clients (`id`) and where they were loaded from (`root`).

    Adapters, which have a parent, are not what it was measured with.
    """
    whole = [card for card in cards if card.get("parent") is None]
    roots = (card.get("root") for card in whole)
    return frozenset(card["id"] for card in whole) | frozenset(root for root in roots if isinstance(root, str))


def merge(listings: Iterable[Iterable[Card]], aliases: Mapping[str, str]) -> dict[str, Card]:
    """Cards by id in order of first appearance, then the aliases whose model is listed (`listings`: in pool order)."""
    merged: dict[str, Card] = {}
    for card in (card for listing in listings for card in listing):
        known = merged.get(card["id"])
        merged[card["id"]] = card if known is None else {**known, **card, **known, **_smaller(known, card)}
    for alias, model in aliases.items():
        if model in merged:
            merged[alias] = {**merged[model], "id": alias}
    return merged


def _smaller(first: Card, second: Card) -> dict[str, int]:
    lengths = [card.get("max_model_len") for card in (first, second)]
    known = [length for length in lengths if isinstance(length, int) and not isinstance(length, bool)]
    return {"max_model_len": min(known)} if known else {}


class ModelDirectory:
    """What every backend last listed. The probe fills it in, the data plane reads finished bytes."""

    def __init__(self, backends: Iterable[str], aliases: Mapping[str, str]) -> None:
        self._listings: dict[str, tuple[Card, ...]] = dict.fromkeys(backends, ())
        self._aliases = aliases
        self._cards: dict[str, bytes] = {}
        self._listing = _encode({"object": "list", "data": []})

    def update(self, backend: str, cards: tuple[Card, ...]) -> None:
        """The backend lists these models now; KeyError for a backend that is not configured."""
        if self._listings[backend] == cards:
            return
        self._listings[backend] = cards
        self._merge()

    def reconfigure(self, backends: Iterable[str], aliases: Mapping[str, str]) -> None:
        """Other backends and aliases from now on; what stays has listed what it has."""
        self._listings = {backend: self._listings.get(backend, ()) for backend in backends}
        self._aliases = aliases
        self._merge()

    def _merge(self) -> None:
        merged = merge(self._listings.values(), self._aliases)
        self._cards = {model: _encode(card) for model, card in merged.items()}
        self._listing = _encode({"object": "list", "data": list(merged.values())})

    def cards(self, backend: str) -> tuple[Card, ...]:
        """What the backend listed; KeyError likewise."""
        return self._listings[backend]

    def listing(self) -> bytes:
        """The body of GET /v1/models."""
        return self._listing

    def card(self, model: str) -> bytes | None:
        """The body of GET /v1/models/{model}; None where nobody lists it."""
        return self._cards.get(model)


def _encode(value: Mapping[str, Any]) -> bytes:
    """ASCII, so that a lone surrogate in a model's name cannot break the encoder."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
