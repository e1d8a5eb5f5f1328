"""The router's own errors, in the shape that OpenAI clients know: whose fault it is, and whether to retry."""

import json
from dataclasses import dataclass


# Not frozen, unlike other values: Python and frameworks write __traceback__ and __context__ into an exception.
@dataclass(slots=True, unsafe_hash=True)
class ApiError(Exception):
    """An answer that no engine gave.

    `status` 4xx: the client's fault, retrying is hopeless; 5xx: ours or an engine's. `code` and `param` are None or
    plain strings. `retry_after_s` becomes the header Retry-After, `allow` the header Allow of a 405.
    """

    status: int
    message: str
    type: str
    code: str | None = None
    param: str | None = None
    retry_after_s: int | None = None
    allow: str | None = None

    def body(self) -> bytes:
        """The JSON body; ASCII only, so that nothing of a hostile name can break an encoder."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error}, separators=(",", ":")).encode()

    def event(self) -> bytes:
        """The same as the last words of a stream: an error event, and the end (field case B39)."""
        return b"data: %b\n\ndata: [DONE]\n\n" % self.body()


def invalid_request(
    message: str, *, code: str = "invalid_request", param: str | None = None, status: int = 400
) -> ApiError:
    """The request cannot be served as it is; nothing was sent to an engine."""
    return ApiError(status, message, "invalid_request_error", code, param)


def invalid_api_key() -> ApiError:
    """The request carries no key that is known here; type and code are OpenAI's own."""
    message = "This needs a key that this router knows, as Authorization: Bearer KEY."
    return ApiError(401, message, "invalid_request_error", "invalid_api_key")


def not_found(path: str) -> ApiError:
    """The path is not one of the table of endpoints."""
    return ApiError(404, f"There is no endpoint {shown(path)} here.", "invalid_request_error", "not_found")


def method_not_allowed(method: str, path: str, allow: str) -> ApiError:
    """The endpoint exists for other methods."""
    message = f"{shown(method)} is not allowed on {shown(path)}; use {allow}."
    return ApiError(405, message, "invalid_request_error", "method_not_allowed", allow=allow)


def unknown_model(model: str | None) -> ApiError:
    """No engine lists the model."""
    message = f"The model {shown(model or '')} does not exist or no engine serves it."
    return ApiError(404, message, "invalid_request_error", "model_not_found", "model")


def too_large(limit_bytes: int) -> ApiError:
    """The body is over the configured limit."""
    message = f"The request body is larger than the limit of {limit_bytes} bytes (body_max_bytes)."
    return ApiError(413, message, "invalid_request_error", "request_too_large")


def no_capable_pool() -> ApiError:
    """The engine of every pool would refuse the request, today and tomorrow: no reason to come back."""
    message = "No pool here accepts min_p or logit_bias for this model: speculative engines refuse them."
    return invalid_request(message, code="no_capable_pool")


def shutting_down() -> ApiError:
    """The router stops; the next request finds another one, or this one again."""
    return no_backend("The router is shutting down.", "shutting_down")


def no_backend(message: str, code: str = "no_backend", retry_after_s: int = 1) -> ApiError:
    """Nothing can serve the request now; the same request may succeed soon."""
    return ApiError(503, message, "service_unavailable", code, retry_after_s=retry_after_s)


def queue_full(retry_after_s: int) -> ApiError:
    """Every engine has as many requests as it may have, and so has the queue.

    503 and not 429: it is no fault of this client's, whose next request may find a place; balancers in front that try
    another router do so on 503.
    """
    return no_backend("All engines are busy and too many requests wait already.", "queue_full", retry_after_s)


def queue_timeout(retry_after_s: int) -> ApiError:
    """No engine had a place for the request within the time that a request may wait for one."""
    return no_backend("All engines were busy for longer than a request may wait.", "queue_timeout", retry_after_s)


def internal_error(message: str) -> ApiError:
    """A fault of the router itself; the log says which."""
    return ApiError(500, message, "server_error", "internal_error")


def upstream_error() -> ApiError:
    """The engine is gone, before its answer or inside it; names no host."""
    return ApiError(502, "upstream connection lost", "server_error", "upstream_error")


def upstream_timeout(message: str) -> ApiError:
    """An engine took the request and did not answer in time."""
    return ApiError(504, message, "server_error", "upstream_timeout")


def total_timeout() -> ApiError:
    """The request took longer than the router allows any to take, whoever was slow."""
    return ApiError(504, "The request took longer than it may (total_timeout_s).", "server_error", "total_timeout")


def shown(text: str, most: int = 80) -> str:
    """Client text that is safe to show in a message: quoted, ASCII, bounded."""
    return ascii(text if len(text) <= most else text[:most] + "...")
