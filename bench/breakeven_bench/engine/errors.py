"""What the engine refuses, in vLLM 0.33.0's words and shape (`entrypoints/serve/exception_handling`)."""

import json
from http import HTTPStatus


class EngineError(Exception):
    """An answer other than 200. `type` is `BadRequestError` and its like from the engine, the HTTP phrase elsewhere."""

    def __init__(self, status: int, message: str, type_: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type_ or HTTPStatus(status).phrase
        self.param = param

    def body(self) -> bytes:
        """`{"error":{"message","type","param","code"}}`; the code repeats the status as a number."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.status}
        return compact_json({"error": error})


def invalid_parameter(message: str, param: str | None = None, value: object = None) -> EngineError:
    """A request that the engine refuses; as in vLLM the message repeats parameter and value where they are known."""
    known = [f"{name}={item}" for name, item in (("parameter", param), ("value", value)) if item is not None]
    return EngineError(400, f"{message} ({', '.join(known)})" if known else message, "BadRequestError", param)


def unknown_model(model: str, served: tuple[str, ...]) -> EngineError:
    """A model that this engine does not serve."""
    message = f"The model `{model}` does not exist. Valid aliases: {', '.join(served)}."
    return EngineError(404, message, "NotFoundError", "model")


def prompt_too_long(prompt_tokens: int, max_model_len: int) -> EngineError:
    """A prompt that leaves no room for output."""
    message = (
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {prompt_tokens} "
        "input tokens, which exceeds this limit even without any output tokens. "
        "Please reduce the length of the input prompt."
    )
    return invalid_parameter(message, "input_tokens", prompt_tokens)


def no_text() -> EngineError:
    """A prompt with half a surrogate pair, in the words of the tokenizer (`tokenizers` 0.23.3)."""
    message = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
    return EngineError(400, message, "BadRequestError")


def too_many_tokens(param: str, tokens: int, max_model_len: int) -> EngineError:
    """A limit on the answer that no prompt would leave room for."""
    message = (
        f"{param}={tokens} cannot be greater than max_model_len={max_model_len}. Please request fewer output tokens."
    )
    return invalid_parameter(message, param, tokens)


class FrameworkError(EngineError):
    """An answer of FastAPI itself, which vLLM's handlers never see: not in the shape of OpenAI's errors."""

    def body(self) -> bytes:
        """`{"detail": message}`."""
        return compact_json({"detail": self.message})


def unreadable_body() -> FrameworkError:
    """A body that Python's parser gives up on. Made anew for each: a raised exception keeps its frames alive."""
    return FrameworkError(400, "There was an error parsing the body")


GENERATION_FAILED = EngineError(500, "Internal server error", "InternalServerError")
"""What vLLM writes into a stream, or answers, when a request fails inside the engine."""

CORE_DEAD = EngineError(500, "The server had an error while processing your request.", "InternalServerError")
"""The same once the engine core is dead (`EngineDeadError.CLIENT_MESSAGE`)."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Kept, because `json.dumps` would build one anew for every call with these settings."""


def compact_json(document: object) -> bytes:
    """As Starlette renders JSON; a lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    return _ENCODER.encode(document).encode("utf-8", "replace")
