"""The targets of fuzzing: what reads bytes of strangers. Each is a function that raises where a property is broken.

Three ways to feed them: hypothesis and the committed corpus (`test_targets`, in CI), and atheris, which is guided by
coverage (`coverage_guided`, `make fuzz`). What was found once stays in `corpus/`, with what it was in its README.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import (
    body_view,
    chunk_framing,
    gzip_body,
    metrics_page,
    rename,
    request_head,
    response,
    shortcuts,
    sse_observer,
)

CORPUS = Path(__file__).parent / "corpus"

HTTP = (
    b"\r\n", b"\r\n\r\n", b"HTTP/1.1", b"HTTP/1.0", b"Host: h\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked",
    b"Connection: close", b"Connection: upgrade\r\nUpgrade: x", b"0\r\n\r\n", b"1\r\na\r\n", b": ", b"\n", b"\r",
    b"Expect: 100-continue", b"content-length: 3\r\n",
)  # fmt: skip
JSON = (
    b'"model"', b'"model":"fast"', b'"\\u006dodel"', b'"temperature":', b"NaN", b"1e400", b'"\\ud83d"', b"{", b"}",
    b"[", b"]", b",", b":", b'"', b"\\", b"null", b"true", b'"stream":true', b'"logit_bias":{"1":1}', b"\xef\xbb\xbf",
    b"\xff", b'"fast"', b'"top_k":', b'"n":',
)  # fmt: skip
EVENTS = (
    b"data: ", b"data:", b"\n\n", b"\r\n\r\n", b"\r", b"[DONE]", b'"usage":{"prompt_tokens":1}', b'"error":{"code":7}',
    b'"choices":[{"delta":{"content":"a"}}]', b'"finish_reason":"stop"', b'"type":"', b"message_stop", b": ping",
    b"event: x\n", b'"content":"', b'"response":{"model":"m"}',
)  # fmt: skip
METRICS = (
    b"vllm:num_requests_running", b"vllm:kv_cache_usage_perc", b"vllm:spec_decode_num_drafts_total",
    b"vllm:spec_decode_num_accepted_tokens_per_pos_total", b'{position="', b'{engine="0"}', b"NaN", b"+Inf", b"1e308",
    b"-1", b"\n", b"# TYPE ", b" # {} 1", b"_created",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A function with a corpus of its own; `words` are what the formats that it reads are made of."""

    name: str
    check: Callable[[bytes], None]
    words: tuple[bytes, ...]

    def corpus(self) -> list[Path]:
        """The committed inputs."""
        return sorted((CORPUS / self.name).glob("*.bin"))


TARGETS = {
    target.name: target
    for target in (
        Target("request_head", request_head.check, HTTP),
        Target("body_view", body_view.check, JSON),
        Target("response", response.check, HTTP),
        Target("chunk_framing", chunk_framing.check, HTTP),
        Target("sse_observer", sse_observer.check, JSON + EVENTS),
        Target("shortcuts", shortcuts.check, JSON + EVENTS),
        Target("rename", rename.check, JSON + EVENTS),
        Target("metrics_page", metrics_page.check, METRICS),
        Target("gzip_body", gzip_body.check, (b"\x1f\x8b\x08\x00", b"\x78\x9c", b"\x03\x00", b"\x00\x00\xff\xff")),
    )
}
