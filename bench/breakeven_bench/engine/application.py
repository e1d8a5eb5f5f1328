"""What every path answers: the routes of vLLM that are simulated, and the switch for faults.

Handlers answer at once, or hand the response over to the engine as the sink of a generation; none of them waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from breakeven_bench.engine.clock import Timers
from breakeven_bench.engine.connection import HttpRequest, Response
from breakeven_bench.engine.core import CoreState, EngineCore
from breakeven_bench.engine.errors import CORE_DEAD, EngineError, compact_json
from breakeven_bench.engine.events import DONE, Endpoint, Envelope, error_event
from breakeven_bench.engine.faults import FaultKind, FaultRequest, FaultSwitch, parse_fault
from breakeven_bench.engine.generation import Generation
from breakeven_bench.engine.intake import WORKLOAD_HEADER, Intake, Order
from breakeven_bench.engine.metrics import CONTENT_TYPE
from breakeven_bench.engine.options import VLLM_VERSION, EngineOptions
from breakeven_bench.engine.prompts import detokenize, encode, render_chat, tokenize
from breakeven_bench.engine.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
    check_media_type,
    parse_json,
    parse_request,
)

FAULTS_PATH = "/sim/faults"

WATCHDOG_S = 5.0
"""How often vLLM's HTTP server looks whether its engine core lives (`entrypoints/launchers/launcher.py`)."""

FAREWELL_S = 0.1
"""An answer of 500 that finds the core dead ends the server at once: at the next tick of uvicorn's loop."""

Handler = Callable[[HttpRequest, Response], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the application needs from outside.

    `wall_s` is seconds since 1970, `random_id` makes request ids, `refuse` stops listening for some seconds, `end` ends
    the server.
    """

    timers: Timers
    wall_s: Callable[[], float]
    random_id: Callable[[], str]
    refuse: Callable[[float], None]
    end: Callable[[], None]


class Application:
    """Answers the requests of one engine."""

    def __init__(self, core: EngineCore, intake: Intake, faults: FaultSwitch, surroundings: Surroundings) -> None:
        self._core = core
        self._intake = intake
        self._faults = faults
        self._around = surroundings
        self._started_s = int(surroundings.wall_s())
        self._held: list[Callable[[], None]] = []
        self._routes: dict[str, dict[str, Handler]] = {
            "/health": {"GET": self._health},
            "/version": {"GET": lambda _, response: response.answer(200, compact_json({"version": VLLM_VERSION}))},
            "/metrics": {"GET": self._metrics},
            "/metrics/": {"GET": self._metrics},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/v1/chat/completions": {"POST": partial(self._generate, Endpoint.CHAT)},
            "/v1/completions": {"POST": partial(self._generate, Endpoint.COMPLETION)},
            FAULTS_PATH: {"GET": self._show_fault, "POST": self._switch_fault},
        }

    def handle(self, request: HttpRequest, response: Response) -> None:
        """Answer one request, now or later."""
        if request.path != FAULTS_PATH and self._faults.is_on(FaultKind.LOADING, self._now_s()):
            response.answer(503, b"", "")
            return
        try:
            self._route(request)(request, response)
        except EngineError as error:
            response.answer(error.status, error.body())

    def _route(self, request: HttpRequest) -> Handler:
        methods = self._routes.get(request.path)
        if methods is None:
            return (
                _redirect if request.path.rstrip("/") in self._routes else partial(_unrouted, HTTPStatus.NOT_FOUND, "")
            )
        if request.method not in methods:
            return partial(_unrouted, HTTPStatus.METHOD_NOT_ALLOWED, f"allow: {', '.join(methods)}\r\n")
        return methods[request.method]

    def _health(self, _request: HttpRequest, response: Response) -> None:
        response.answer(503 if self._core.state is CoreState.DEAD else 200, b"", "")

    def _metrics(self, _request: HttpRequest, response: Response) -> None:
        response.answer(200, self._core.page(), CONTENT_TYPE)

    def _models(self, _request: HttpRequest, response: Response) -> None:
        options = self._intake.options
        cards = [self._card(name, options) for name in options.models]
        response.answer(200, compact_json({"object": "list", "data": cards}))

    def _card(self, name: str, options: EngineOptions) -> dict[str, Any]:
        permission = {
            "id": f"modelperm-{self._around.random_id()}",
            "object": "model_permission",
            "created": self._started_s,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "vllm",
            "root": options.models[0],
            "parent": None,
            "max_model_len": options.max_model_len,
            "permission": [permission],
        }

    def _tokenize(self, request: HttpRequest, response: Response) -> None:
        check_media_type(request.headers.get("content-type", ""))
        asked = parse_request(TokenizeRequest, request.body)
        self._intake.check_model(asked.model)
        if asked.prompt is None and asked.messages is None:
            raise EngineError(400, "1 validation error:\n  prompt or messages: Field required", param="body.prompt")
        prompt = encode(asked.prompt) if asked.prompt is not None else render_chat(asked.messages or [])
        tokens = tokenize(prompt)
        answer = {
            "count": len(tokens),
            "max_model_len": self._intake.options.max_model_len,
            "tokens": tokens,
            "token_strs": [detokenize([token]) for token in tokens] if asked.return_token_strs else None,
        }
        response.answer(200, compact_json(answer))

    def _detokenize(self, request: HttpRequest, response: Response) -> None:
        check_media_type(request.headers.get("content-type", ""))
        asked = parse_request(DetokenizeRequest, request.body)
        self._intake.check_model(asked.model)
        response.answer(200, compact_json({"prompt": detokenize(asked.tokens)}))

    def _generate(self, endpoint: Endpoint, request: HttpRequest, response: Response) -> None:
        check_media_type(request.headers.get("content-type", ""))
        hint = request.headers.get(WORKLOAD_HEADER)
        if endpoint is Endpoint.CHAT:
            order = self._intake.chat(parse_request(ChatRequest, request.body), hint, self._now_s())
        else:
            order = self._intake.completion(parse_request(CompletionRequest, request.body), hint, self._now_s())
        if self._core.state is CoreState.DEAD:
            self._around.timers.call_at(self._now_s() + FAREWELL_S, self._around.end)
            raise CORE_DEAD
        if order.refusal is not None:
            self._refuse(order, order.refusal, response)
            return
        fault = self._faults.strike(self._now_s(), stream=order.stream)
        if fault is not None and fault.fault is FaultKind.STATUS:
            raise EngineError(fault.code, HTTPStatus(fault.code).phrase)
        envelope = self._envelope(endpoint, request.headers.get("x-request-id"))
        if fault is not None and fault.fault is FaultKind.HANG_BEFORE_HEAD:
            self._held.append(partial(self._submit, order, envelope, response, None))
            return
        self._submit(order, envelope, response, fault)

    def _refuse(self, order: Order, refusal: EngineError, response: Response) -> None:
        """Like vLLM, answer a stream with 200 and an error event, and everything else with the error."""
        if not order.stream:
            raise refusal
        response.start_stream()
        response.end_stream(error_event(refusal) + DONE)

    def _submit(self, order: Order, envelope: Envelope, response: Response, fault: FaultRequest | None) -> None:
        if response.ended:
            return  # its client left while it was held
        generation = Generation(order, envelope, response, self._core.metrics_of, fault)
        response.on_gone = partial(self._core.abort, generation)
        response.on_writable = partial(self._core.resume, generation)
        self._core.submit(generation)

    def _envelope(self, endpoint: Endpoint, request_id: str | None) -> Envelope:
        """Like vLLM, the id of the answer is built from the client's X-Request-Id where it has one."""
        return Envelope(
            endpoint=endpoint,
            request_id=f"{endpoint.value}-{request_id or self._around.random_id()}",
            created_s=int(self._around.wall_s()),
            model=self._intake.options.models[0],
            fingerprint=self._intake.options.fingerprint,
        )

    def _show_fault(self, _request: HttpRequest, response: Response) -> None:
        response.answer(200, compact_json(self._faults.describe(self._now_s())))

    def _switch_fault(self, request: HttpRequest, response: Response) -> None:
        try:
            fault = parse_fault(parse_json(request.body))
        except ValueError as error:
            raise EngineError(400, str(error)) from None
        now_s = self._now_s()
        self._faults.set(fault, now_s)
        self._release()
        if fault.fault is FaultKind.HANG_BEFORE_HEAD and fault.seconds is not None:
            self._around.timers.call_at(now_s + fault.seconds, self._release_if_over)
        self._show_fault(request, response)
        if fault.fault is FaultKind.REFUSE and fault.seconds is not None:
            self._around.refuse(fault.seconds)
        if fault.fault is FaultKind.CORE_DEAD:
            # Only an answer of 500 makes vLLM's server look after its core; an error event in a stream does not.
            noticed = any(not generation.order.stream for generation in self._core.die())
            self._around.timers.call_at(now_s + (FAREWELL_S if noticed else WATCHDOG_S), self._around.end)

    def _release_if_over(self) -> None:
        if not self._faults.is_on(FaultKind.HANG_BEFORE_HEAD, self._now_s()):
            self._release()

    def _release(self) -> None:
        """Serve what was held back; its wait counts as time in the queue."""
        held, self._held = self._held, []
        for submit in held:
            submit()

    def _now_s(self) -> float:
        return self._around.timers.time()


def _unrouted(status: HTTPStatus, extra: str, _request: HttpRequest, response: Response) -> None:
    """What Starlette answers before any handler of vLLM has a say: not in the shape of OpenAI's errors."""
    response.answer(status, compact_json({"detail": status.phrase}), extra=extra)


def _redirect(request: HttpRequest, response: Response) -> None:
    """Starlette sends a path with a slash too many to the path without it."""
    address = f"http://{request.headers.get('host', '')}{request.path.rstrip('/')}"
    response.answer(HTTPStatus.TEMPORARY_REDIRECT, b"", "", f"location: {address}\r\n")
