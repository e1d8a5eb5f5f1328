"""Request bodies as vLLM 0.33.0 reads them: Starlette's JSON parser, then pydantic in its lenient mode.

Only the fields that change what the simulator does are named; like vLLM, anything else is accepted and ignored. Lenient
means `"1.5"` and `true` are numbers, `"yes"` is true, NaN passes here and is refused by the sampling rules.
"""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from breakeven_bench.engine.errors import EngineError, invalid_parameter, unreadable_body

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1

ERRORS_REPORTED_MAX = 10
"""vLLM lists at most ten faults of one body, so that a hostile body cannot amplify its answer."""

STOP_STRINGS_MAX = 128
"""Bounds the scan for stop strings (vLLM has a limit of its own, set by `VLLM_MAX_STOP_STRINGS`)."""

Model = TypeVar("Model", bound=BaseModel)


class StreamOptions(BaseModel):
    """Which usage a stream reports: once at its end, and with `continuous_usage_stats` in every chunk."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class GenerationRequest(BaseModel):
    """What chat and text completions have in common."""

    model_config = ConfigDict(extra="allow")  # as in vLLM: what is kept must have a name that UTF-8 can hold

    model: str | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: int | None = None
    n: int | None = 1
    seed: int | None = Field(None, ge=_INT64_MIN, le=_INT64_MAX)
    stop: str | Annotated[list[str], Field(max_length=STOP_STRINGS_MAX)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    ignore_eos: bool = False
    min_tokens: int = 0
    stream_interval: int | None = Field(None, ge=1)
    metadata: Any = None
    vllm_xargs: Any = None

    @property
    def reports_usage(self) -> bool:
        """Whether the stream ends with a usage event."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def reports_usage_continuously(self) -> bool:
        """Whether every event carries usage too; vLLM honours it only together with `include_usage`."""
        return (
            self.reports_usage and self.stream_options is not None and bool(self.stream_options.continuous_usage_stats)
        )

    def hint(self, name: str) -> Any:
        """A simulator-only hint from `metadata` or `vllm_xargs`, None where neither has it."""
        for holder in (self.metadata, self.vllm_xargs):
            if isinstance(holder, dict) and name in holder:
                return holder[name]
        return None


class ChatRequest(GenerationRequest):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def output_limit(self) -> int | None:
        """Most tokens to generate, None: up to the context length."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`; several prompts make one choice each, times `n`."""

    prompt: list[int] | list[list[int]] | str | list[str] | None = None
    max_tokens: int | None = 16
    n: int | None = 1

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts one by one, as text or token ids."""
        prompt: Any = self.prompt
        if prompt is None:
            return []
        is_one = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
        return [prompt] if is_one else list(prompt)


class TokenizeRequest(BaseModel):
    """`POST /tokenize`: a prompt or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    return_token_strs: bool | None = False


class DetokenizeRequest(BaseModel):
    """`POST /detokenize`."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0, le=_INT64_MAX)]]


def parse_json(body: bytes) -> Any:
    """The decoded body, as FastAPI decodes it. Raises EngineError (400) with FastAPI's two kinds of answer."""
    if not body:
        raise _validation_error([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        fault = {
            "type": "json_invalid",
            "loc": ("body", error.pos),
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": error.msg},
        }
        raise _validation_error([fault]) from None
    except (ValueError, RecursionError):
        raise unreadable_body() from None  # bytes that are no text, a number of 5,000 digits, a thousand brackets


def parse_request(kind: type[Model], body: bytes) -> Model:
    """The body as `kind`. Raises EngineError (400)."""
    document = parse_json(body)
    if isinstance(document, dict):
        _check_before(kind, document)
    try:
        return kind.model_validate(document, from_attributes=True)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise _validation_error([{**fault, "loc": ("body", *fault["loc"])} for fault in faults]) from None


def check_media_type(content_type: str) -> None:
    """Raise what vLLM answers to anything but JSON; the media type is compared unstripped, as vLLM compares it."""
    if content_type.lower().split(";", maxsplit=1)[0] != "application/json":
        fault = "Unsupported Media Type: Only 'application/json' is allowed"
        raise EngineError(400, f"1 validation error:\n  {fault}")


def _check_before(kind: type[BaseModel], document: dict[str, Any]) -> None:
    """The rules that vLLM applies to the raw document, before any field is converted."""
    if not issubclass(kind, GenerationRequest):
        return
    if document.get("stream_options") and not document.get("stream"):
        message = "Stream options can only be defined when `stream=True`."
        raise invalid_parameter(message, "stream_options")
    if kind is CompletionRequest and document.get("prompt") in (None, ""):
        raise invalid_parameter("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if kind is ChatRequest and document.get("tools") == []:
        message = "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        raise invalid_parameter(message, "tools")
    if kind is ChatRequest and document.get("tool_choice") not in (None, "none") and document.get("tools") is None:
        raise invalid_parameter("When using `tool_choice`, `tools` must be set.", "tool_choice")


def _validation_error(faults: list[dict[str, Any]]) -> EngineError:
    """One answer for all faults of a body, worded as vLLM words FastAPI's `RequestValidationError`."""
    label = "error" if len(faults) == 1 else "errors"
    shown = [{**fault, "loc": _dotted(fault["loc"]), "input": _short(fault["input"])} for fault in faults]
    lines = [f"  {fault}" for fault in shown[:ERRORS_REPORTED_MAX]]
    if len(faults) > ERRORS_REPORTED_MAX:
        lines.append(f"  ...and {len(faults) - ERRORS_REPORTED_MAX} more {label}")
    message = "\n".join([f"{len(faults)} validation {label}:", *lines])
    return EngineError(400, message, param=shown[0]["loc"])


def _dotted(location: tuple[int | str, ...]) -> str:
    """`body.temperature`, without pydantic's names for the branches of a union (`list[int]`, `str`)."""
    return ".".join(str(part) for part in location if "[" not in str(part) and part not in ("str", "int"))


def _short(value: object) -> object:
    """A bounded stand-in for an offending value, so that an answer never grows with the request."""
    if isinstance(value, list | dict):
        return f"<{type(value).__name__} of {len(value)} items>"
    if isinstance(value, str | int | float | bool) and len(repr(value)) > 200:
        return repr(value)[:200] + "...[truncated]"
    return value
