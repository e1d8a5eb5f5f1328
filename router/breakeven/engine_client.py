"""The questions that the control plane asks one engine: are you well, what do you measure, which models do you serve.

Answers are bounded in time as a whole, not per read, and in size; redirects are not followed and proxies of the
environment are not used, so that nothing but the configured address is ever contacted. Every question opens a
connection of its own: a new connection tests what the next request needs, and finds an engine that moved to another
address.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar
from types import TracebackType
from typing import Self

import httpx
import msgspec

from breakeven.clock import monotonic_s
from breakeven.config import BackendAddress
from breakeven.engine_transport import ConnectionRefused, EngineTransport, NoDescriptor
from breakeven.engines.vllm import SignalReader, health_event
from breakeven.equivalence import Answer
from breakeven.fleet import ProbeFailed, ProbeSucceeded
from breakeven.model_cards import Card, parse_cards
from breakeven.upstream import ConnectionPool
from breakeven_policies.snapshot import EngineSignals

METRICS_BYTES_MAX = 8 * 2**20
"""A metrics page of vLLM has 100 KB per data-parallel engine. It is parsed as it comes, 64 KB at a time."""

JSON_BYTES_MAX = 2**20
"""A list of a thousand models has 500 KB. JSON is parsed whole, at 8 ms per MB in which nothing is relayed."""

FAILURES: dict[type[httpx.HTTPError], str] = {
    ConnectionRefused: "connection refused",
    NoDescriptor: "we have no descriptor left to ask with",
    httpx.ConnectError: "cannot connect",
    httpx.RemoteProtocolError: "connection closed, or not HTTP",
}
"""What httpx's errors mean here; their own texts may name addresses."""


class EngineError(Exception):
    """A question got no usable answer. The message names no address.

    `refused`: nothing listens there; `unasked`: we could not ask, so that nothing is known of the engine.
    """

    def __init__(self, message: str, *, refused: bool = False, unasked: bool = False) -> None:
        super().__init__(message)
        self.refused = refused
        self.unasked = unasked


class _Choice(msgspec.Struct):
    text: str
    token_ids: list[int] | None = None


class _Completion(msgspec.Struct):
    choices: tuple[_Choice, ...]


class NoCookies(CookieJar):
    """Takes none: an engine's cookies are nobody's business here, and reading them is a way to fail."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Look at nothing."""


class EngineClient:
    """Asks one engine. `timeout_s` bounds every question from its start to the last byte of the answer."""

    def __init__(self, address: BackendAddress, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        self.name = address.name
        self._timeout_s = timeout_s
        host = f"[{address.host}]" if ":" in address.host else address.host
        headers = {"accept-encoding": "identity", "connection": "close", "user-agent": "breakeven"}
        if address.authorization is not None:
            headers["authorization"] = address.authorization.decode("ascii")
        connections = ConnectionPool(
            address.host,
            address.port,
            tls=tls if address.tls else None,
            connect_timeout_s=timeout_s,
            keepalive_s=0.0,
            now=monotonic_s,
        )
        self._http = httpx.AsyncClient(
            transport=EngineTransport(connections),
            base_url=f"{'https' if address.tls else 'http'}://{host}:{address.port}",
            headers=headers,
            timeout=None,  # noqa: S113  # `_ask` limits the whole
            trust_env=False,
            cookies=NoCookies(),
        )

    async def health(self) -> ProbeSucceeded | ProbeFailed:
        """GET /health; every failure is an answer too."""
        try:
            async with self._ask("GET", "/health") as response:
                return health_event(self.name, response.status_code)
        except EngineError as error:
            return ProbeFailed(self.name, str(error), refused=error.refused, unasked=error.unasked)

    async def signals(self) -> EngineSignals:
        """GET /metrics; EngineError where there are none, unknown signals being None."""
        reader = SignalReader()
        await self._read("/metrics", reader.feed, METRICS_BYTES_MAX)
        signals = reader.finish()
        if signals == EngineSignals():
            message = "GET /metrics shows no metrics of vLLM"
            raise EngineError(message)
        return signals

    async def cards(self) -> tuple[Card, ...]:
        """GET /v1/models; EngineError where there is no such list."""
        page = bytearray()
        await self._read("/v1/models", page.extend, JSON_BYTES_MAX)
        try:
            return parse_cards(page)
        except ValueError as error:
            message = f"GET /v1/models: {error}"
            raise EngineError(message) from None

    async def version(self) -> str | None:
        """The engine's version by GET /version; None where it does not tell."""
        page = bytearray()
        try:
            await self._read("/version", page.extend, JSON_BYTES_MAX)
            answer = json.loads(page)
        except (EngineError, ValueError):
            return None
        found = answer.get("version") if isinstance(answer, dict) else None
        return found if isinstance(found, str) else None

    async def makes_token(self, model: str) -> bool:
        """Whether the engine makes one when asked to. EngineError where it fails; False: it cannot be asked so.

        Not every model completes text, and a router may lack the key for it: a refusal (4xx) says neither yes nor no.
        """
        body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
        async with self._ask("POST", "/v1/completions", body) as response:
            if response.status_code >= 500:
                message = f"POST /v1/completions answered {response.status_code}"
                raise EngineError(message)
            return response.status_code == 200

    async def greedy_answer(self, model: str, prompt: str, tokens: int) -> Answer:
        """The most likely continuation of a prompt, ids included where the engine tells them; EngineError: none came.

        `return_token_ids` is vLLM's (0.10.2 and later); engines without it leave the ids out.
        """
        body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "return_token_ids": True}
        page = bytearray()
        await self._read("/v1/completions", page.extend, JSON_BYTES_MAX, body)
        try:
            completion = msgspec.json.decode(page, type=_Completion)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            completion = _Completion(())
        if not completion.choices:
            message = "POST /v1/completions: no completion in the answer"
            raise EngineError(message)
        choice = completion.choices[0]
        return Answer(choice.text, None if choice.token_ids is None else tuple(choice.token_ids))

    async def close(self) -> None:
        """Drop what is open."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _read(self, path: str, take: Callable[[bytes], object], bytes_max: int, body: object = None) -> None:
        """Hand over the body of a 200 answer piece by piece, giving way to the loop in between."""
        size_bytes = 0
        method = "GET" if body is None else "POST"
        async with self._ask(method, path, body) as response:
            if response.status_code != 200:
                message = f"{method} {path} answered {response.status_code}"
                raise EngineError(message)
            if response.headers.get("content-encoding", "identity") != "identity":
                message = f"{method} {path} came compressed although that was not asked for"
                raise EngineError(message)
            async for piece in response.aiter_raw():
                size_bytes += len(piece)
                if size_bytes > bytes_max:
                    message = f"{method} {path} answered more than {bytes_max} bytes"
                    raise EngineError(message)
                take(piece)
                await asyncio.sleep(0)

    @asynccontextmanager
    async def _ask(self, method: str, path: str, body: object = None) -> AsyncIterator[httpx.Response]:
        try:
            async with asyncio.timeout(self._timeout_s), self._http.stream(method, path, json=body) as response:
                yield response
        except TimeoutError:
            message = f"{method} {path} took longer than {self._timeout_s:g} s"
            raise EngineError(message) from None
        except httpx.HTTPError as error:
            reason = FAILURES.get(type(error), type(error).__name__)
            refused, unasked = isinstance(error, ConnectionRefused), isinstance(error, NoDescriptor)
            raise EngineError(f"{method} {path}: {reason}", refused=refused, unasked=unasked) from error
        except EngineError:
            raise
        except Exception as error:  # what an engine sends must never end the router, whichever library trips over it
            raise EngineError(f"{method} {path}: cannot be read ({type(error).__name__})") from error
