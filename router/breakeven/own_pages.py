"""What the router answers without an engine: liveness, readiness and the list of models, from memory."""

from collections.abc import Callable
from urllib.parse import unquote

from breakeven.errors import method_not_allowed, no_backend, unknown_model
from breakeven.model_cards import ModelDirectory

MODELS = "/v1/models"
READ = frozenset((b"GET", b"HEAD"))


class OwnPages:
    """`ready` tells whether a request could be served now."""

    def __init__(self, directory: ModelDirectory, ready: Callable[[], bool]) -> None:
        self._directory = directory
        self._ready = ready

    def body(self, method: bytes, path: str) -> bytes | None:
        """The JSON body of a page, None where there is none. ApiError: not ready, no such model, or not GET."""
        page = self._page(path)
        if page is None:
            return None
        if method not in READ:
            raise method_not_allowed(method.decode(), path, "GET, HEAD")
        return page()

    def _page(self, path: str) -> Callable[[], bytes] | None:
        if path == "/health":
            return self._health
        if path == "/ready":
            return self._readiness
        if path in (MODELS, MODELS + "/"):
            return self._directory.listing
        if path.startswith(MODELS + "/"):
            return lambda: self._card(unquote(path[len(MODELS) + 1 :]))
        return None

    @staticmethod
    def _health() -> bytes:
        return b'{"status":"ok"}'

    def _readiness(self) -> bytes:
        if not self._ready():
            raise no_backend("No engine is ready, or the router is shutting down.", "not_ready")
        return b'{"status":"ready"}'

    def _card(self, model: str) -> bytes:
        card = self._directory.card(model)
        if card is None:
            raise unknown_model(model)
        return card
