"""The answers that are recorded from a real engine and compared with the simulator's: what was asked, what came."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.contract.engine import CHAT, COMPLETIONS, Engine, body, raw_body

TOKENS = 24
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
THROUGHOUT = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}

_FOLDERS = re.compile(r"(?<![\w.-])/(?:[\w.+-]+/)+[\w.+-]+")
"""A path of two parts or more that is no path of the API, which none of the recorded answers names."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and the engine it goes to: `plain` or `speculative`. No `body` is a GET."""

    engine: str
    path: str
    body: bytes | None = None

    @property
    def method(self) -> str:
        """The method of the request."""
        return "GET" if self.body is None else "POST"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer: `kind` is its content type, empty where it has none."""

    status: int
    kind: str
    body: bytes


def _chat(engine: str, **fields: Any) -> Question:
    return Question(engine, CHAT, body(**{"max_tokens": TOKENS, "ignore_eos": True, **fields}))


def _text(engine: str, **fields: Any) -> Question:
    return Question(engine, COMPLETIONS, body(COMPLETIONS, **{"max_tokens": TOKENS, "ignore_eos": True, **fields}))


QUESTIONS: Mapping[str, Question] = {
    "health": Question("plain", "/health"),
    "version": Question("plain", "/version"),
    "models": Question("plain", "/v1/models"),
    "tokenize": Question("plain", "/tokenize", body(max_tokens=..., temperature=...)),
    "chat": _chat("plain"),
    "chat-speculative": _chat("speculative"),
    "chat-stop-string": _chat("speculative", stop=["e"]),
    "chat-two-choices": _chat("speculative", n=2, temperature=1, seed=7),
    "text": _text("plain"),
    "text-speculative": _text("speculative"),
    "chat-stream": _chat("speculative", stream=True),
    "chat-stream-usage": _chat("speculative", **WITH_USAGE),
    "chat-stream-usage-throughout": _chat("speculative", **THROUGHOUT),
    "chat-stream-plain": _chat("plain", **WITH_USAGE),
    "text-stream": _text("speculative", stream=True),
    "text-stream-usage-throughout": _text("speculative", **THROUGHOUT),
    "error-min-p": _chat("speculative", temperature=0.7, min_p=0.05),
    "error-min-p-stream": _chat("speculative", temperature=0.7, min_p=0.05, stream=True),
    "error-temperature": _chat("plain", temperature=2.5),
    "error-type": Question("plain", CHAT, raw_body('"temperature":"hot"')),
    "error-json": Question("plain", CHAT, b"{"),
    "error-model": _chat("plain", model="nope"),
    "error-path": Question("plain", "/v1/nothing"),
    "error-method": Question("plain", CHAT),
    "metrics-plain": Question("plain", "/metrics"),
    "metrics-speculative": Question("speculative", "/metrics"),
}
"""In the order in which they are asked; the metrics pages come last, when every counter has moved."""


async def capture(plain: Engine, speculative: Engine) -> dict[str, Recorded]:
    """Ask everything, one after the other. Folders of this machine are taken out of what is answered."""
    engines = {"plain": plain, "speculative": speculative}
    answers = {}
    for name, question in QUESTIONS.items():
        reply = await engines[question.engine].send(question.body, question.path, question.method)
        kind = "".join(reply.values("content-type"))
        answers[name] = Recorded(reply.status or 0, kind, without_folders(reply.body))
    return answers


def without_folders(content: bytes) -> bytes:
    """The same with `<folder>` for every path in the file system."""
    return _FOLDERS.sub("<folder>", content.decode()).encode()


def file_name(name: str, kind: str) -> str:
    """Under which name an answer of that content type is kept."""
    endings = {"application/json": "json", "text/event-stream": "sse"}
    return f"{name}.{endings.get(kind.partition(';')[0], 'txt')}"
