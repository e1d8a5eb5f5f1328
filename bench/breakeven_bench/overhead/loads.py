"""The loads: clients in a closed loop that do nothing but ask, each over one connection that it keeps."""

import json
from dataclasses import dataclass

PROMPT = "What does a router know of the engines behind it? " * 10
"""Half a kilobyte: the prompt of a chat, not of a document."""

CLIENT_KEY = "of-the-client"


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` by `connections` clients in all; answers are streams of `events`, `gap_ms` apart, or one document."""

    name: str
    connections: int
    requests: int
    events: int = 0
    gap_ms: int = 0

    @property
    def is_stream(self) -> bool:
        """Whether the answers are streams."""
        return self.events > 0

    @property
    def units(self) -> int:
        """What the CPU is divided by: relayed events, or requests where each has one document for an answer."""
        return self.requests * max(1, self.events)

    def request(self) -> bytes:
        """The one request that all of these clients send."""
        body: dict[str, object] = {
            "model": "m",
            "messages": [{"role": "user", "content": PROMPT}],
            "temperature": 0.7,
            "max_tokens": max(1, self.events),
        }
        if self.is_stream:
            body |= {
                "stream": True,
                "stream_options": {"include_usage": True},
                "metadata": {"gap_ms": str(self.gap_ms)},
            }
        payload = json.dumps(body).encode()
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b" % (CLIENT_KEY.encode(), len(payload), payload)
        )


DOCUMENTS = Load("documents", connections=64, requests=6000)
STREAMS = Load("streams", connections=500, requests=500, events=50, gap_ms=20)
PACED = Load("paced", connections=200, requests=200, events=100, gap_ms=20)

LOADS = (DOCUMENTS, STREAMS, PACED)
"""What a request costs; what an event costs where 25,000 a second are due, more than one core carries; and how late an
event comes where 10,000 a second are, about half a core.
"""
