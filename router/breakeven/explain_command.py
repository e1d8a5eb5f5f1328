"""`breakeven explain`: what would be decided for a request, from a fleet saved with GET /fleet; asks no engine."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from breakeven.body import ModelTable, view
from breakeven.config import require_pool
from breakeven.config_sources import ConfigError
from breakeven.endpoints import EndpointTable
from breakeven.errors import ApiError
from breakeven.explanation import TICKET, endpoint_named, explanation_document, explanation_lines
from breakeven.fleet_json import decode_fleet
from breakeven_policies.explain import explain
from breakeven_policies.policy import Policy


def explain_offline(
    body_path: str, fleet_path: str, endpoint: str, policies: Sequence[Policy], models: ModelTable, *,
    as_json: bool, say: Callable[[str], object],
) -> int:  # fmt: skip
    """Print the explanation; 1 where the request is not one that could be decided. ConfigError: unusable files."""
    try:
        fleet = decode_fleet(read_input(fleet_path))
    except ValueError as error:
        raise ConfigError(f"{fleet_path}: {error}") from None
    try:
        for policy in policies:
            require_pool(policy.name, [pool.name for pool in fleet.pools])
    except ValueError as error:
        raise ConfigError(f"policy: {error} (in {fleet_path})") from None
    body = read_input(body_path)
    try:
        viewed = view(endpoint_named(EndpointTable(), endpoint), body, "application/json", models, TICKET)
    except ApiError as error:
        say(f"the router itself would answer {error.status}: {error.message}")
        return 1
    if as_json:
        say(json.dumps(explanation_document(viewed, policies, fleet), indent=2))
    else:
        defaults = models.defaults_of(viewed.request.model)
        explained = [explain(policy, viewed.request, fleet) for policy in policies]
        for line in explanation_lines(explained, default_configured=defaults.temperature is not None):
            say(line)
    return 0


def read_input(path: str) -> bytes:
    """A whole file, standard input for -; ConfigError where it cannot be read."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror or error}") from None
