"""The admin port: what the router believes, counts and would decide. It shows names, never addresses, prompts or keys.

FastAPI under uvicorn in the same loop as the data plane, on a port of its own. Work here delays relays, so it is kept
small or done in slices. The pages load nothing from elsewhere and work where there is no internet, which is why
FastAPI's own documentation pages (scripts from a CDN) are replaced by a table.
"""

import asyncio
import json
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from hmac import compare_digest
from html import escape
from importlib.resources import files
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any

import msgspec
import uvicorn
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from msgspec import Struct
from starlette.exceptions import HTTPException

from breakeven.body import view
from breakeven.config_values import POLICIES_MAX
from breakeven.errors import ApiError, invalid_request, no_backend, shown
from breakeven.explanation import TICKET, endpoint_named, explanation_document, policy_document
from breakeven.fleet import Drained, Resumed
from breakeven.fleet_json import encode_fleet
from breakeven.metrics import CONTENT_TYPE
from breakeven.sights import Sights
from breakeven_policies.policy import Policy
from breakeven_policies.snapshot import FleetSnapshot, Health

EXPLAIN_BYTES_MAX = 2**20
"""A body is viewed between two turns of the loop that also relays: 1 MiB takes 1 ms, 8 ms where it is odd JSON."""

STOP_TIMEOUT_S = 1
"""Nothing here is worth a longer wait at the end: the data plane has drained by then."""

PAGE_HEADERS = {
    "content-security-policy": "default-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
}
"""Pages of ours load nothing and call nobody but us."""


def admin_app(sights: Sights) -> FastAPI:
    """The application; every error it answers has the shape that OpenAI clients know."""
    app = FastAPI(title="Breakeven admin", docs_url=None, redoc_url=None, redirect_slashes=False)
    _handle_errors(app)
    _add_state_routes(app, sights)
    _add_explain_route(app, sights)
    _add_drain_routes(app, sights)
    _add_switch_routes(app, sights)
    _add_pages(app)
    return app


def _add_state_routes(app: FastAPI, sights: Sights) -> None:
    @app.get("/metrics", summary="Prometheus metrics of the router", response_class=Response)
    async def metrics() -> Response:
        page = await sights.metrics.render(sights.snapshot(), sights.policy().name)
        return Response(page, headers={"content-type": CONTENT_TYPE})

    @app.get("/fleet", summary="Every pool and engine as the router sees it now; save it for `breakeven explain`")
    async def fleet(
        learned: Annotated[bool, Query(description="with what was learned of the engines, if anything")] = True,
    ) -> Response:
        return Response(encode_fleet(sights.snapshot(), learned=learned), media_type="application/json")

    @app.get("/policy", summary="The policy in force, what it prefers where that is simple, and the measured tables")
    async def policy() -> dict[str, Any]:
        return policy_document(sights.policy(), sights.configured(), sights.snapshot()) | sights.tables()

    @app.get("/health", summary="200 while the process lives")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", summary="200 while at least one engine can serve, else 503")
    async def ready() -> dict[str, str]:
        if not sights.ready():
            message = "No engine is ready, or the router is shutting down."
            raise no_backend(message, "not_ready")
        return {"status": "ready"}


def require_key(admin_key: str | None, request: Request) -> None:
    """ApiError where there is an admin key and the request does not carry it."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if admin_key is not None and not (
        scheme.lower() == "bearer" and compare_digest(key.strip().encode(), admin_key.encode())
    ):
        message = "This needs the header Authorization: Bearer with the admin key."
        raise ApiError(401, message, "invalid_request_error", "invalid_api_key")


def _add_explain_route(app: FastAPI, sights: Sights) -> None:
    async def authorized(request: Request) -> None:
        require_key(sights.admin_key, request)

    @app.post("/explain", summary="A request body in, its decision and every pool's verdict out; nothing is sent")
    async def explain(
        request: Request,
        _: Annotated[None, Depends(authorized)],
        endpoint: Annotated[str, Query(description="name of an endpoint")] = "chat.completions",
        policy: Annotated[
            list[str], Query(max_length=POLICIES_MAX, description="one or more; else the one in force")
        ] = [],  # noqa: B006
        ticket: Annotated[float, Query(ge=0, lt=1, description="orders equally loaded engines")] = TICKET,
    ) -> Response:
        body = await read_body(request)
        content_type = request.headers.get("content-type", "application/json")
        viewed = view(endpoint_named(sights.endpoints, endpoint), body, content_type, sights.models, ticket)
        policies = [_built(sights, spec) for spec in policy] or [sights.policy()]
        document = explanation_document(viewed, policies, sights.snapshot())
        # ASCII, unlike the framework's encoder, which fails on a lone surrogate in a model's name.
        return Response(json.dumps(document), media_type="application/json")


def _built(sights: Sights, spec: str) -> Policy:
    try:
        return sights.build(spec)
    except ValueError as error:
        raise unknown_policy(error) from None


def unknown_policy(error: ValueError) -> ApiError:
    """There is no such policy here; `error` says so, and which there are."""
    return invalid_request(f"policy: {error}.", code="unknown_policy", param="policy")


def require_right_to_change(admin_key: str | None, request: Request) -> None:
    """ApiError where the request may not change anything.

    Without an admin key only who is on this machine may, and no page of a browser that comes from elsewhere: browsers
    send a POST without a body to any address, this one included.
    """
    require_key(admin_key, request)
    client = "" if request.client is None else request.client.host
    if admin_key is None and not is_loopback(client):
        message = "To change anything from another machine, the router needs an admin_key."
        raise ApiError(403, message, "invalid_request_error", "admin_key_required")
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    # A name can be made to stand for this machine, which makes its page one of the same origin for the browser.
    ours = admin_key is not None or is_own_name(host)
    if origin is not None and not (ours and origin.partition("://")[2] == host):
        message = "Pages of other origins may not change anything here."
        raise ApiError(403, message, "invalid_request_error", "foreign_origin")


def is_own_name(host: str) -> bool:
    """Whether a Host header names this machine in a way in which nobody else's name can be meant."""
    name = re.sub(r":\d+$", "", host).strip("[]").lower()
    return name == "localhost" or is_loopback(name)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, also where it is written as one of IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _add_drain_routes(app: FastAPI, sights: Sights) -> None:
    async def authorized(request: Request) -> None:
        require_right_to_change(sights.admin_key, request)

    @app.post("/backends/{name}/drain", summary="Give an engine no more requests; those that run there finish")
    async def drain(name: str, _: Annotated[None, Depends(authorized)]) -> dict[str, Any]:
        _apply(sights, Drained(name))
        return drain_document(sights.snapshot(), name)

    @app.post("/backends/{name}/resume", summary="Give it requests again")
    async def resume(name: str, _: Annotated[None, Depends(authorized)]) -> dict[str, Any]:
        _apply(sights, Resumed(name))
        return drain_document(sights.snapshot(), name)


class Switch(Struct, forbid_unknown_fields=True):
    """The body of PUT /policy."""

    policy: str


_decode_switch = msgspec.json.Decoder(Switch).decode


def _add_switch_routes(app: FastAPI, sights: Sights) -> None:
    async def authorized(request: Request) -> None:
        require_right_to_change(sights.admin_key, request)

    def switch(spec: str | None) -> dict[str, Any]:
        by = "somebody on this machine" if sights.admin_key is None else "whoever has the admin_key"
        try:
            sights.switch(spec, by)
        except ValueError as error:
            raise unknown_policy(error) from None
        return policy_document(sights.policy(), sights.configured(), sights.snapshot())

    @app.put("/policy", summary='Have another policy decide, {"policy": "least_loaded"}, until DELETE or a restart')
    async def put(request: Request, _: Annotated[None, Depends(authorized)]) -> dict[str, Any]:
        try:
            wanted = _decode_switch(await read_body(request)).policy
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = 'The body must be {"policy": "NAME"}, or "NAME:ARGUMENT".'
            raise invalid_request(message, param="policy") from None
        return switch(wanted)

    @app.delete("/policy", summary="Have the configured policy decide again")
    async def delete(_: Annotated[None, Depends(authorized)]) -> dict[str, Any]:
        return switch(None)


def _apply(sights: Sights, event: Drained | Resumed) -> None:
    if all(backend.name != event.backend for pool in sights.snapshot().pools for backend in pool.backends):
        message = f"There is no backend {shown(event.backend)} here."
        raise ApiError(404, message, "invalid_request_error", "unknown_backend")
    sights.apply(event)


def drain_document(fleet: FleetSnapshot, name: str) -> dict[str, Any]:
    """How a backend is now, and what its absence means where nobody else of its pool can serve."""
    pool, backend = next((pool, each) for pool in fleet.pools for each in pool.backends if each.name == name)
    answer: dict[str, Any] = {
        "backend": name,
        "pool": pool.name,
        "draining": backend.draining,
        "health": backend.health,
        "in_flight": backend.in_flight,
    }
    if backend.draining and not any(each.health is Health.READY for each in pool.backends):
        elsewhere = any(each.health is Health.READY for other in fleet.pools for each in other.backends)
        meaning = "other pools take what they can" if elsewhere else "no engine is left and requests are refused"
        answer["warning"] = f"no backend of pool {pool.name} is ready: {meaning}"
    return answer


async def read_body(request: Request) -> bytes:
    """The body within its limit, whatever its declared length; ApiError above it."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > EXPLAIN_BYTES_MAX:
            message = f"Here a body may have {EXPLAIN_BYTES_MAX} bytes at most."
            raise invalid_request(message, code="request_too_large", status=413)
    return bytes(body)


def _add_pages(app: FastAPI) -> None:
    live = files("breakeven").joinpath("pages/live.html").read_text("utf-8")

    @app.get("/", summary="A page that shows the fleet as it changes", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        return HTMLResponse(live, headers=PAGE_HEADERS)

    @app.get("/docs", summary="This page", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=PAGE_HEADERS)


def docs_page(schema: dict[str, Any]) -> str:
    """The routes of an OpenAPI schema as one table."""
    rows = "".join(
        f"<tr><td><code>{method.upper()} {escape(path)}</code></td><td>{escape(operation.get('summary', ''))}</td></tr>"
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Breakeven admin</title>'
        "<style>body{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto}td{padding:.2rem .8rem}</style>"
        f"<h1>Breakeven admin</h1><table>{rows}</table>"
        '<p>Machine-readable: <a href="openapi.json">openapi.json</a></p></html>'
    )


def _handle_errors(app: FastAPI) -> None:
    """No answer without a shape: our own errors, the framework's 404 and 405, unfit query parameters."""

    @app.exception_handler(ApiError)
    async def ours(_: Request, error: ApiError) -> Response:
        headers = {} if error.retry_after_s is None else {"retry-after": str(error.retry_after_s)}
        if error.status == 401:
            headers["www-authenticate"] = "Bearer"
        return Response(error.body(), error.status, headers, "application/json")

    @app.exception_handler(HTTPException)
    async def frameworks(_: Request, error: HTTPException) -> Response:
        shaped = invalid_request(
            f"{error.detail}.", code="not_found" if error.status_code == 404 else "invalid_request"
        )
        return Response(shaped.body(), error.status_code, error.headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def unfit(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        name = str(first["loc"][-1])
        shaped = invalid_request(f"{name}: {first['msg']}.", param=name)
        return Response(shaped.body(), shaped.status, None, "application/json")


class AdminServer(uvicorn.Server):
    """uvicorn on sockets of ours, which leaves signals to `serving`."""

    def __init__(self, app: FastAPI, sockets: list[socket.socket]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=STOP_TIMEOUT_S,
            )
        )
        self.sockets = sockets
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As inherited, and tell that connections are accepted now."""
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """None: SIGTERM drains the data plane first."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `should_exit` is set."""
        await self.serve(sockets=self.sockets)
