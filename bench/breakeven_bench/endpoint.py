"""What a server says of itself before a load is sent: which models it serves and, if simulated, how fast it runs."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp

from breakeven_bench.engine_page import time_scale_on
from breakeven_bench.load import authorization

MODELS_TOLD_MAX = 10
"""More names would push the sentence that matters off the screen."""

METRICS_TIMEOUT_S = 5.0
"""A metrics page takes milliseconds; a warning is not worth a longer wait."""


class NoModelError(Exception):
    """There is nothing to ask for: the server lists no model, or not the one that was named."""


async def served_models(session: aiohttp.ClientSession, url: str, api_key: str | None = None) -> tuple[str, ...]:
    """The models that the server lists, in its order; aiohttp's errors where it does not answer."""
    async with session.get(f"{url}/v1/models", headers=authorization(api_key)) as response:
        response.raise_for_status()
        page: Any = await response.json()
    models = page.get("data") if isinstance(page, dict) else None
    return tuple(str(model["id"]) for model in models or () if "id" in model)


def chosen_model(url: str, served: Sequence[str], named: str | None) -> str:
    """The named model, or the first that is served; NoModelError says which there are."""
    if not served:
        message = f"{url} lists no model"
        raise NoModelError(message)
    if named is None or named in served:
        return named or served[0]
    more = f" and {len(served) - MODELS_TOLD_MAX} more" if len(served) > MODELS_TOLD_MAX else ""
    message = f"{url} does not serve {named!r}; there are: {', '.join(served[:MODELS_TOLD_MAX])}{more}"
    raise NoModelError(message)


async def engine_time_scale(session: aiohttp.ClientSession, url: str) -> float | None:
    """The time scale of a simulated engine at this address; None of anything else, a router included."""
    try:
        async with asyncio.timeout(METRICS_TIMEOUT_S), session.get(f"{url}/metrics") as response:
            return time_scale_on(await response.text(errors="replace")) if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError):
        return None  # no metrics page, no warning: the load itself will show whether the server answers
