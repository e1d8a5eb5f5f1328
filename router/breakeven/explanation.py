"""An explanation for people and programs: the decision, why, and what every pool could have done with the request."""

from typing import Any

import msgspec

from breakeven.body import Viewed
from breakeven.endpoints import Endpoint, EndpointTable
from breakeven.errors import invalid_request, shown
from breakeven_policies.decision import Decision, Route
from breakeven_policies.explain import Explanation, PoolVerdict, explain
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


def explanation_document(viewed: Viewed, policy: Policy, fleet: FleetSnapshot) -> dict[str, Any]:
    """What POST /explain answers and `breakeven explain --json` prints."""
    explained = explain(policy, viewed.request, fleet)
    return {
        "decision": decision_document(explained.decision),
        "request": msgspec.structs.asdict(explained.request) | {"alias": viewed.alias},
        "pools": [msgspec.to_builtins(verdict) for verdict in explained.verdicts],
    }


def decision_document(decision: Decision) -> dict[str, Any]:
    """A route names its choice first and then the order of further attempts; a refusal says whether to retry."""
    if isinstance(decision, Route):
        ranking = [msgspec.structs.asdict(target) for target in decision.ranking]
        return {"kind": "route", **ranking[0], "reason": decision.reason, "policy": decision.policy, "ranking": ranking}
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


def explanation_lines(explained: Explanation, *, default_configured: bool) -> list[str]:
    """The same as text, one fact a line. `default_configured`: a default temperature is known for the model."""
    return [
        _decision_line(explained.decision),
        f"policy: {explained.decision.policy}",
        _request_line(explained, default_configured=default_configured),
        *(_verdict_line(verdict) for verdict in explained.verdicts),
    ]


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
