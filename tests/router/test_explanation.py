"""`breakeven.explanation`: the same facts for programs and for people."""

import json

import pytest
from msgspec.structs import replace

from breakeven.body import Viewed
from breakeven.endpoints import EndpointTable
from breakeven.errors import ApiError
from breakeven.explanation import (
    decision_document,
    endpoint_named,
    explanation_document,
    explanation_lines,
    policy_document,
)
from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import Refusal, Refuse
from breakeven_policies.explain import explain
from breakeven_policies.learned import Learned
from breakeven_policies.least_loaded import LeastLoaded
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, FleetSnapshot, Health, PoolKind, PoolView
from breakeven_policies.threshold import Threshold
from tests.policies.learned_fleets import learned_pair

FLEET = FleetSnapshot(
    0.0,
    (
        PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", in_flight=4),)),
        PoolView(
            "eagle", PoolKind.SPECULATIVE, (BackendView("eagle-0"), BackendView("eagle-1", Health.DOWN)), "eagle3", 3
        ),
    ),
)


def request(temperature: float = 0.7, min_p: float = 0.0, *, defaulted: bool = False) -> RequestView:
    return RequestView(
        model="m", endpoint="chat.completions", stream=True, temperature=temperature, temperature_defaulted=defaulted,
        top_p=1.0, top_k=0, min_p=min_p, has_logit_bias=False, prompt_bytes=100, max_output_tokens=None, sequences=1,
        ticket=0.5,
    )  # fmt: skip


def lines_of(policy: Policy, asked: RequestView, fleet: FleetSnapshot) -> list[str]:
    return explanation_lines([explain(policy, asked, fleet)], default_configured=True)


def test_a_refusal_says_whether_to_retry() -> None:
    refusal = Refuse(Refusal.UNKNOWN_MODEL, "threshold")
    assert decision_document(refusal) == {
        "kind": "refuse",
        "reason": "unknown_model",
        "policy": "threshold",
        "retryable": False,
    }


def test_a_refusal_reads_as_a_sentence() -> None:
    nobody = FleetSnapshot(0.0, (PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", Health.DOWN),)),))
    assert lines_of(Threshold(), request(), nobody)[0] == ("refuse: no_backend; the same request may succeed later")
    strange = FleetSnapshot(
        0.0, (PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", models=frozenset({"other"})),)),)
    )
    assert lines_of(Threshold(), request(), strange)[0] == (
        "refuse: unknown_model; the same request will not succeed later either"
    )


def test_the_document_names_choice_reason_and_every_pool() -> None:
    document = json.loads(json.dumps(explanation_document(Viewed(request(), alias="fast"), [Threshold()], FLEET)))
    decision = document["decision"]
    assert (decision["kind"], decision["pool"], decision["backend"]) == ("route", "eagle", "eagle-0")
    assert (decision["reason"], decision["policy"]) == ("temperature_within_threshold", "threshold")
    assert decision["ranking"] == [{"pool": "eagle", "backend": "eagle-0"}, {"pool": "plain", "backend": "plain-0"}]
    assert (document["request"]["alias"], document["request"]["temperature"]) == ("fast", 0.7)
    assert [(pool["pool"], pool["eligible"], pool["obstacle"]) for pool in document["pools"]] == [
        ("plain", True, None),
        ("eagle", True, None),
    ]


def test_a_pool_that_would_refuse_the_request_says_by_which_rule() -> None:
    document = explanation_document(Viewed(request(min_p=0.05), None), [Threshold()], FLEET)
    assert document["decision"]["pool"] == "plain"
    assert document["decision"]["reason"] == "capability"
    assert document["pools"][1]["obstacle"] == "capability"


def test_the_text_says_the_same_line_by_line() -> None:
    assert lines_of(Threshold(), request(), FLEET) == [
        "route to eagle/eagle-0 (then plain/plain-0), because temperature_within_threshold",
        "policy: threshold",
        "request: model 'm', temperature 0.7 (as given)",
        "pool plain (plain): could serve it: plain-0 has 4",
        "pool eagle (speculative): could serve it: eagle-0 has 0",
    ]
    lines = lines_of(Threshold(), request(1.3, 0.05, defaulted=True), FLEET)
    assert lines[0] == "route to plain/plain-0, because default_temperature_above_threshold"
    assert lines[2] == "request: model 'm', temperature 1.3 (the model's default), needs plain sampling"
    assert lines[4] == "pool eagle (speculative): cannot serve it: capability"


def test_several_policies_are_explained_one_after_another() -> None:
    document = explanation_document(Viewed(request(), None), [Threshold(), LeastLoaded(), Pinned("plain")], FLEET)
    assert document["decision"]["policy"] == "threshold"
    assert [other["decision"]["policy"] for other in document["others"]] == ["least_loaded", "pinned:plain"]
    explained = [explain(policy, request(), FLEET) for policy in (Threshold(), Pinned("plain"))]
    assert explanation_lines(explained, default_configured=True)[5:] == [
        "",
        "route to plain/plain-0 (then eagle/eagle-0), because pinned",
        "policy: pinned:plain",
    ]


def test_what_a_policy_expects_of_each_pool_is_a_table_with_the_choice_marked() -> None:
    heading, first, second = lines_of(Breakeven(explores=False), request(), learned_pair(base=2))[5:]
    assert heading.split()[:4] == ["pool", "backend", "batch", "step"]
    assert first.split()[:3] == ["speculative", "spec-0", "0"]
    assert first.split()[-1] == "chosen"
    assert second.split()[:3] == ["baseline", "base-0", "2"]
    document = explanation_document(Viewed(request(), None), [Breakeven(explores=False)], learned_pair(base=2))
    assert document["decision"]["prediction"]["runner_up"] == {"pool": "baseline", "backend": "base-0"}
    assert json.loads(json.dumps(document))["pools"][0]["expected"]["batch"] == 2


def test_what_is_not_known_of_a_pool_is_a_dash() -> None:
    learned = learned_pair()
    unknown = replace(learned, learned=Learned(learned.now_s))
    for line in lines_of(Breakeven(explores=False), request(), unknown)[6:]:
        assert line.split()[2:6] == ["-", "-", "-", "unknown"]
    nobody = FleetSnapshot(0.0, (PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", Health.DOWN),)),))
    assert len(lines_of(Breakeven(), request(), nobody)) == 4


def test_a_temperature_that_nobody_configured_is_called_assumed() -> None:
    explained = explain(Threshold(), request(1.0, defaulted=True), FLEET)
    line = explanation_lines([explained], default_configured=False)[2]
    assert line == "request: model 'm', temperature 1 (assumed, no default configured)"


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (Threshold(0.8), {"threshold": 0.8, "up_to_threshold": ["eagle"], "above_threshold": ["plain"]}),
        (Pinned("eagle"), {"prefers": ["eagle"]}),
        (LeastLoaded(), {}),
    ],
)
def test_a_policy_says_which_pools_it_prefers_where_that_is_simple(policy: Policy, more: dict[str, object]) -> None:
    same = {"policy": policy.name, "configured": policy.name, "switched": False}
    assert policy_document(policy, policy, FLEET) == {**same, **more}


def test_an_endpoint_is_found_by_name_or_path() -> None:
    endpoints = EndpointTable()
    assert endpoint_named(endpoints, "completions").path == "/v1/completions"
    assert endpoint_named(endpoints, "/v1/chat/completions").name == "chat.completions"


def test_an_unknown_endpoint_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ApiError) as caught:
        endpoint_named(EndpointTable(), "chat")
    assert caught.value.status == 400
    assert "'chat'" in caught.value.message
    assert "chat.completions" in caught.value.message
