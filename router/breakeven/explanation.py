"""An explanation for people and programs: the decision, why, and what every pool could have done with the request."""

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from breakeven.body import Viewed
from breakeven.endpoints import Endpoint, EndpointTable
from breakeven.errors import invalid_request, shown
from breakeven.text_table import aligned, number
from breakeven_policies.decision import Decision, Route
from breakeven_policies.explain import Expected, Explanation, PoolVerdict, explain
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.snapshot import FleetSnapshot, PoolKind
from breakeven_policies.threshold import Threshold

TICKET = 0.5
"""The ticket that stands for chance where none is given, so that an explanation is the same each time."""


def endpoint_named(endpoints: EndpointTable, name: str) -> Endpoint:
    """The endpoint of this name or path; ApiError lists the names there are."""
    found = next((endpoint for endpoint in endpoints if name in {endpoint.name, endpoint.path}), None)
    if found is None:
        names = ", ".join(dict.fromkeys(endpoint.name for endpoint in endpoints))
        raise invalid_request(f"There is no endpoint {shown(name)}; there are: {names}.", param="endpoint")
    return found


def explanation_document(viewed: Viewed, policies: Sequence[Policy], fleet: FleetSnapshot) -> dict[str, Any]:
    """What POST /explain answers and `breakeven explain --json` prints: under the first policy, `others` beside it."""
    first, *others = [explain(policy, viewed.request, fleet) for policy in policies]
    document = {
        **_explained_document(first),
        "request": msgspec.structs.asdict(viewed.request) | {"alias": viewed.alias},
    }
    if others:
        document["others"] = [_explained_document(other) for other in others]
    return document


def _explained_document(explained: Explanation) -> dict[str, Any]:
    return {
        "decision": decision_document(explained.decision),
        "pools": [msgspec.to_builtins(verdict) for verdict in explained.verdicts],
    }


def decision_document(decision: Decision) -> dict[str, Any]:
    """A route names its choice first and then the order of further attempts; a refusal says whether to retry."""
    if isinstance(decision, Route):
        ranking = [msgspec.structs.asdict(target) for target in decision.ranking]
        document = {
            "kind": "route",
            **ranking[0],
            "reason": decision.reason,
            "policy": decision.policy,
            "ranking": ranking,
        }
        if decision.prediction is not None:
            document["prediction"] = msgspec.to_builtins(decision.prediction)
        return document
    return {
        "kind": "refuse",
        "reason": decision.refusal,
        "policy": decision.policy,
        "retryable": decision.retryable,
    }


def policy_document(policy: Policy, configured: Policy, fleet: FleetSnapshot) -> dict[str, Any]:
    """What GET /policy answers: the policies of this package also say which pools they prefer; yours says its name."""
    document: dict[str, Any] = {
        "policy": policy.name,
        "configured": configured.name,
        "switched": policy is not configured,
    }
    if isinstance(policy, Threshold):
        for key, kind in (("up_to_threshold", PoolKind.SPECULATIVE), ("above_threshold", PoolKind.PLAIN)):
            document[key] = [pool.name for pool in fleet.pools if pool.kind is kind]
        document["threshold"] = policy.temperature_max
    elif isinstance(policy, Pinned):
        document["prefers"] = [policy.pool]
    return document


def explanation_lines(explained: Sequence[Explanation], *, default_configured: bool) -> list[str]:
    """The same as text, one fact a line. `default_configured`: a default temperature is known for the model."""
    first = explained[0]
    lines = [
        _decision_line(first.decision),
        f"policy: {first.decision.policy}",
        _request_line(first, default_configured=default_configured),
        *(_verdict_line(verdict) for verdict in first.verdicts),
        *_expected_lines(first),
    ]
    for other in explained[1:]:
        lines += ["", _decision_line(other.decision), f"policy: {other.decision.policy}", *_expected_lines(other)]
    return lines


HEADINGS = (
    "pool", "backend", "batch", "step ms", "tokens/step", "from", "ms/token", "own s", "harm s", "total", "error", "",
)  # fmt: skip


def _expected_lines(explained: Explanation) -> list[str]:
    """A table of what the policy expects of each pool, cheapest first; nothing where it does not weigh pools."""
    weighed = [(verdict.pool, verdict.expected) for verdict in explained.verdicts if verdict.expected is not None]
    if not weighed:
        return []
    weighed.sort(key=lambda each: inf if each[1].total is None else each[1].total)
    chosen = explained.decision.ranking[0].pool if isinstance(explained.decision, Route) else None
    rows = [(pool, *_expected_cells(expected), "chosen" if pool == chosen else "") for pool, expected in weighed]
    return aligned([HEADINGS, *rows])


def _expected_cells(expected: Expected) -> tuple[str, ...]:
    error = "-" if expected.error is None else f"{expected.error:.0%}"
    return (
        expected.backend,
        number(expected.batch),
        number(expected.step_time_s, unit=1e-3),
        number(expected.acceptance_length),
        expected.acceptance_source or "unknown",
        number(expected.token_time_s, unit=1e-3),
        number(expected.own_s),
        number(expected.harm_s),
        number(expected.total),
        error,
    )


def _decision_line(decision: Decision) -> str:
    if isinstance(decision, Route):
        names = [f"{target.pool}/{target.backend}" for target in decision.ranking]
        others = f" (then {', '.join(names[1:])})" if names[1:] else ""
        return f"route to {names[0]}{others}, because {decision.reason}"
    retry = "may succeed later" if decision.retryable else "will not succeed later either"
    return f"refuse: {decision.refusal}; the same request {retry}"


def _request_line(explained: Explanation, *, default_configured: bool) -> str:
    request = explained.request
    assumed = "the model's default" if default_configured else "assumed, no default configured"
    source = assumed if request.temperature_defaulted else "as given"
    needs = ", needs plain sampling" if request.needs_plain_sampling else ""
    return f"request: model {request.model!a}, temperature {request.temperature:g} ({source}){needs}"


def _verdict_line(verdict: PoolVerdict) -> str:
    loads = ", ".join(f"{name} has {load:g}" for name, load in zip(verdict.ready, verdict.loads, strict=True))
    state = f"could serve it: {loads}" if verdict.eligible else f"cannot serve it: {verdict.obstacle}"
    draining = f"; draining: {', '.join(verdict.draining)}" if verdict.draining else ""
    return f"pool {verdict.pool} ({verdict.kind}): {state}{draining}"
