"""What a client asked for and what became of it: the material of the verdict."""

import hashlib
import json
import random
from dataclasses import dataclass, field

KINDS = ("short stream", "long stream", "document", "slow reader", "leaver", "early leaver", "large body")
WEIGHTS = (30, 10, 30, 3, 8, 4, 5)
TEMPERATURES = (None, 0, 0.7, 1.0, 1.2, 1.8)
LARGE_BYTES = (300_000, 2_000_000)
STREAMS = {
    "short stream": (12, 30, 40),
    "long stream": (40, 60, 200),
    "slow reader": (60, 10, 40_000),
    "leaver": (40, 40, 40),
    "early leaver": (40, 40, 40),
}
"""Events, milliseconds between them, and how long each is beyond what it has to say."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One request to be made. `only_plain`: with a parameter that speculative engines refuse."""

    token: str
    kind: str
    temperature: float | None
    only_plain: bool
    events: int
    gap_ms: int
    filler_bytes: int
    prompt_bytes: int
    leaves_after: int

    @property
    def streams(self):
        return self.events > 0

    def body(self):
        """The JSON of the request."""
        asked = {
            "model": "m",
            "messages": [{"role": "user", "content": "hello " * (self.prompt_bytes // 6)}],
            "user": self.token,
            "metadata": {name: str(getattr(self, name)) for name in ("events", "gap_ms", "filler_bytes")},
        }
        asked |= {} if self.temperature is None else {"temperature": self.temperature}
        asked |= {"min_p": 0.1} if self.only_plain else {}
        asked |= {"stream": True} if self.streams else {}
        return json.dumps(asked).encode()


@dataclass(slots=True)
class Fate:
    """How it went, by the driver's clock. `events`: what each said, as (token, engine, life, number)."""

    wish: Wish
    sha256: str
    sent_s: float
    ended_s: float = 0.0
    status: int | None = None
    backend: str | None = None
    whole: bool = False
    done: bool = False
    error: str | None = None
    events: list[tuple[str, str, int, int]] = field(default_factory=list)
    left: bool = False
    lost: str | None = None
    """Why there was no proper answer at all, where there was none."""


def draw(chance: random.Random, token: str) -> Wish:
    """The next request of a client."""
    (kind,) = chance.choices(KINDS, WEIGHTS)
    events, gap_ms, filler_bytes = STREAMS.get(kind, (0, 100, 0))
    return Wish(
        token=token,
        kind=kind,
        temperature=chance.choice(TEMPERATURES),
        only_plain=chance.random() < 0.15,
        events=events,
        gap_ms=gap_ms,
        filler_bytes=filler_bytes,
        prompt_bytes=chance.randint(*LARGE_BYTES) if kind == "large body" else 600,
        leaves_after={"leaver": chance.randint(1, 20), "early leaver": 0}.get(kind, -1),
    )


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def read_answer(fate: Fate, body: bytes) -> None:
    """Take the answer apart, however far it came."""
    if fate.status != 200:
        fate.error = json.loads(body)["error"]["code"] if body else None
        return
    if not fate.wish.streams:
        if fate.whole:
            fate.events.append(said(json.loads(body)["choices"][0]["message"]["content"]))
            fate.done = True
        return
    *events, rest = body.split(b"\n\n")
    for event in events:
        data = event.removeprefix(b"data: ")
        if data == b"[DONE]":
            fate.done = fate.error is None
            continue
        told = json.loads(data)
        if "error" in told:
            fate.error = told["error"]["code"]
        elif told["choices"][0]["finish_reason"] is None:
            fate.events.append(said(told["choices"][0]["delta"]["content"]))
    if rest and not fate.left:
        fate.lost = fate.lost or f"a piece of an event at the end: {rest[:80]!r}"


def said(content: str) -> tuple[str, str, int, int]:
    token, engine, life, number, *_ = content.split(" ")
    return token, engine, int(life), int(number)
