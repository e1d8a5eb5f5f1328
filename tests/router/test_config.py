"""`breakeven.config`: what a configuration may say, and the parts that the router is built from."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from breakeven.body import ModelTable
from breakeven.config import BackendAddress, Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.fleet import PoolSpec
from breakeven_policies.measured import Drafting
from breakeven_policies.request import SamplingDefaults
from breakeven_policies.snapshot import PoolKind
from breakeven_policies.table_match import PoolIdentity

pytestmark = pytest.mark.usefixtures("clean_environment")

TWO_POOLS: dict[str, Any] = {
    "pools": [
        {"name": "plain", "kind": "plain", "backends": ["http://a:1", "http://b:2/"]},
        {
            "name": "eagle",
            "kind": "speculative",
            "method": "eagle3",
            "speculative_tokens": 3,
            "backends": [{"name": "big-one", "url": "https://c"}],
            "api_key": "sesame\n",
            "accept_gzip": True,
        },
    ]
}


def settings(**values: Any) -> Settings:
    return build_settings(Settings, values)


def mistakes(**values: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build_settings(Settings, values)
    return caught.value.lines


def pool(**values: Any) -> dict[str, Any]:
    return {"pools": [{"name": "x", "kind": "plain", "backends": ["http://a:1"], **values}]}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"speculative_config": {"method": "eagle3"}},
            "pools[0]: a plain pool drafts nothing: leave out speculative_config, or make it kind: speculative",
        ),
        (
            {"kind": "speculative", "method": "ngram", "speculative_config": {"method": "eagle3"}},
            "pools[0]: method is ngram, but speculative_config says eagle3",
        ),
        (
            {"kind": "speculative", "speculative_tokens": 3, "speculative_config": {"num_speculative_tokens": 5}},
            "pools[0]: speculative_tokens is 3, but speculative_config says 5",
        ),
        (
            {"kind": "speculative", "speculative_config": {"draft_sample_method": "nucleus"}},
            "pools[0].speculative_config.draft_sample_method: expected 'greedy' or 'probabilistic', got 'nucleus'",
        ),
    ],
)
def test_what_an_engine_was_told_must_fit_its_pool(values: dict[str, Any], line: str) -> None:
    assert mistakes(**pool(**values)) == (f"{line} (from --pools)",)


@pytest.mark.parametrize("written", ["{", "[]", '{"method": 3}'])
def test_what_is_no_description_is_a_mistake(written: str) -> None:
    assert all(line.startswith("pools[0]") for line in mistakes(**pool(kind="speculative", speculative_config=written)))


def test_an_empty_description_says_nothing() -> None:
    assert settings(**pool(kind="speculative", speculative_config="{}")).pools[0].method == "unknown"


def test_method_and_k_follow_from_what_the_engine_was_told_as_it_stands_on_its_command_line() -> None:
    told = '{"method": "eagle3", "model": "org/head", "num_speculative_tokens": 3, "rejection_sample_method": "block"}'
    made = settings(**pool(kind="speculative", speculative_config=told))
    assert made.identities() == (
        PoolIdentity("x", PoolKind.SPECULATIVE, "eagle3", 3, "org/head", Drafting.GREEDY, follows_batch=False),
    )
    assert made.pool_specs()[0].speculative_tokens == 3


def test_of_a_pool_of_which_nothing_is_told_head_and_drafting_are_unknown() -> None:
    made = settings(**pool(kind="speculative", method="eagle3", speculative_tokens=3))
    assert made.identities() == (PoolIdentity("x", PoolKind.SPECULATIVE, "eagle3", 3),)


def test_that_k_follows_the_batch_is_known_where_the_engine_was_told_so() -> None:
    steps = {"num_speculative_tokens_per_batch_size": [[1, 16, 3], [17, 64, 0]]}
    assert settings(**pool(kind="speculative", speculative_config=steps)).identities()[0].follows_batch


def test_comparisons_are_never_so_frequent_that_they_are_a_load() -> None:
    assert mistakes(baseline="http://a:1", equivalence_interval_s=0.5) == (
        "equivalence_interval_s: expected 0 or at least 1 (from --equivalence-interval-s)",
    )
    assert settings(baseline="http://a:1", equivalence_interval_s=0).equivalence_interval_s == 0


def test_tables_are_files_separated_by_commas() -> None:
    assert settings(baseline="http://a:1", tables="a.json, b").tables == [Path("a.json"), Path("b")]


def test_a_configuration_without_an_engine_is_an_error_that_says_how_to_name_one() -> None:
    (line,) = mistakes()
    assert "--baseline URL" in line
    assert mistakes(pools=[]) == (line,)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (pool(name="A b"), "pools[0].name: expected lower-case letters, digits and hyphens, 63 at most, got 'A b'"),
        (pool(name="-a"), "pools[0].name: expected lower-case letters, digits and hyphens, 63 at most, got '-a'"),
        (pool(name="a" * 64), "pools[0].name: expected lower-case letters, digits and hyphens, 63 at most, got 'aa"),
        (pool(kind="fast"), "pools[0].kind: expected 'plain' or 'speculative', got 'fast'"),
        (pool(backends=[]), "pools[0].backends: expected at least one item"),
        (pool(backends=""), "pools[0].backends: expected at least one item"),
        (pool(backends=3), "pools[0].backends: expected a list, got '3'"),
        (pool(backends=[{"name": "y"}]), "pools[0].backends[0].url: required, but not given"),
        (pool(backends=["http://a:1/"] * 2), "pools[0]: lists one engine twice; its load would be counted twice"),
        (pool(api_key="ä"), "pools[0].api_key: expected visible ASCII characters only"),
        (pool(api_key="a\r\nx: y"), "pools[0].api_key: expected visible ASCII characters only"),
        (pool(method="EAGLE 3"), "pools[0].method: expected a method such as eagle3, draft_model or ngram, got "),
        (pool(speculative_tokens=65, kind="speculative"), "pools[0].speculative_tokens: expected at most 64, got '65'"),
        ({"pools": ["x"]}, "pools[0]: expected key: value pairs, got 'x'"),
        ({"pools": "[{"}, "pools: line 1, column 3: expected the node content, but found '<stream end>'"),
        ({"models": {"m": {"default": {}}}}, "models.m.default: unknown setting"),
        ({"defaults": {"top_k": 1.5}}, "defaults.top_k: expected a whole number, got '1.5'"),
        ({"defaults": {"temperature": float("inf")}}, "defaults.temperature: expected at most 2, got 'inf'"),
        ({"defaults": {"temperature": -3}}, "defaults.temperature: expected at least 0, got '-3'"),
        ({"defaults": {"temperature": float("nan")}}, "defaults.temperature: expected at least 0, got 'nan'"),
        ({"defaults": {"top_p": 0}}, "defaults.top_p: expected more than 0, got '0'"),
        ({"defaults": {"top_p": 1.1}}, "defaults.top_p: expected at most 1, got '1.1'"),
        ({"defaults": {"min_p": 1.5}}, "defaults.min_p: expected at most 1, got '1.5'"),
        ({"defaults": {"top_k": -2}}, "defaults.top_k: expected at least -1, got '-2'"),
        ({"models": {"m": {"defaults": {"top_k": True}}}}, "models.m.defaults.top_k: expected a number, got true; "),
        ({"drain_timeout_s": True}, "drain_timeout_s: expected a number, got true; YAML reads yes, no, on and off as"),
        ({"port": False}, "port: expected a number, got false; "),
        ({"baseline": "engine:8000"}, "baseline[0]: expected http://HOST:PORT or https://HOST:PORT, got 'engine:8000'"),
        ({"baseline": "http://a:1,http://a:1/"}, "baseline: lists one engine twice; its load would be counted twice"),
        ({"connect_timeout_s": "0"}, "connect_timeout_s: expected at least 0.01, got '0'"),
        ({"idle_timeout_s": "-1"}, "idle_timeout_s: expected at least 0, got '-1'"),
        ({"port": 65536}, "port: expected at most 65535, got '65536'"),
        ({"cors_origins": "chat.example.org"}, "cors_origins[0]: expected * or an origin such as "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_key_and_what_is_expected(values: dict[str, Any], line: str) -> None:
    (found,) = mistakes(**values)
    assert found.startswith(line)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"policy": "fastest"}, "policy: unknown policy 'fastest'; there are: "),
        ({"policy": "pinned"}, "policy: pinned needs the name of a pool"),
        ({"shadow": "fastest"}, "shadow: unknown policy 'fastest'"),
        ({"shadow": "least_loaded,pinned:fast"}, "shadow: there is no pool 'fast'; there are: baseline"),
        ({"policy_header": "x-p", "policy_choices": "fastest"}, "policy_choices: unknown policy 'fastest'"),
        ({"policy_header": "x-policy"}, "policy_header and policy_choices go together"),
        ({"policy_choices": "least_loaded"}, "policy_header and policy_choices go together"),
        ({"policy_header": "authorization", "policy_choices": "threshold"}, "policy_header: expected a header of your"),
        ({"policy_header": "x-request-id", "policy_choices": "threshold"}, "policy_header: expected a header of your"),
        ({"policy_header": "x-a\r\nb", "policy_choices": "threshold"}, "policy_header: expected a header of your"),
        ({"alias_policies": "fast=least_loaded"}, "alias_policies: 'fast' is not among the aliases"),
        ({"aliases": "fast=m", "alias_policies": "fast=pinned:x"}, "alias_policies: there is no pool 'x'"),
        ({"policy": "pinned:fast"}, "policy: there is no pool 'fast'; there are: baseline"),
        ({"policy": "least_loaded:x"}, "policy: least_loaded takes no argument"),
        ({"port": "8081"}, "admin_port: must differ from port, both are 8081"),
        ({"extra_paths": "/v1/custom,v1/custom"}, "extra_paths: extra path 'v1/custom' is not a plain absolute path"),
        ({"extra_paths": "/v1/completions"}, "extra_paths: extra path '/v1/completions' is already served"),
        ({"aliases": "a=b,b=c"}, "aliases: 'a' must name a model, not another alias"),
        ({"aliases": "a=a"}, "aliases: 'a' must name a model, not another alias"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, Any], line: str) -> None:
    (found,) = mistakes(baseline="http://a:1", **values)
    assert found.startswith(line)


def test_names_must_be_unique() -> None:
    one = {"name": "x", "kind": "plain", "backends": [{"name": "e", "url": "http://a:1"}]}
    other = {**one, "name": "y", "backends": [{"name": "e", "url": "http://b:1"}]}
    assert mistakes(pools=[one, one])[0].startswith("pools: every pool needs a name of its own")
    assert mistakes(pools=[one, other])[0].startswith(
        "pools: backend names must be unique over all pools; 'e' is there twice"
    )


def test_a_plain_pool_drafts_nothing_and_a_speculative_one_has_a_method() -> None:
    plain = "pools[0]: a plain pool drafts nothing"
    assert mistakes(**pool(method="eagle3"))[0].startswith(plain)
    assert mistakes(**pool(speculative_tokens=3))[0].startswith(plain)
    assert mistakes(**pool(kind="speculative", method="none"))[0].startswith(
        "pools[0]: a speculative pool needs a method"
    )


def test_two_addresses_are_enough() -> None:
    found = settings(baseline="http://a:1,http://b:2", speculative="http://c:3")
    assert found.pool_specs() == (
        PoolSpec("baseline", PoolKind.PLAIN, "none", 0, ("baseline-0", "baseline-1")),
        PoolSpec("speculative", PoolKind.SPECULATIVE, "unknown", 0, ("speculative-0",)),
    )
    assert [(address.host, address.port) for address in found.addresses()] == [("a", 1), ("b", 2), ("c", 3)]


def test_pools_of_any_name_and_number_come_in_the_order_of_the_file() -> None:
    found = settings(**TWO_POOLS)
    assert found.pool_specs() == (
        PoolSpec("plain", PoolKind.PLAIN, "none", 0, ("plain-0", "plain-1")),
        PoolSpec("eagle", PoolKind.SPECULATIVE, "eagle3", 3, ("big-one",)),
    )
    assert found.addresses() == (
        BackendAddress("plain-0", "plain", "a", 1, tls=False),
        BackendAddress("plain-1", "plain", "b", 2, tls=False),
        BackendAddress("big-one", "eagle", "c", 443, tls=True, authorization=b"Bearer sesame", accept_gzip=True),
    )


def test_the_short_flags_replace_the_engines_of_a_pool_of_that_name_and_keep_the_rest() -> None:
    file = {"name": "baseline", "kind": "plain", "backends": ["http://old:1"], "api_key": "sesame"}
    found = settings(pools=[file], baseline="http://new:2")
    assert found.addresses() == (
        BackendAddress("baseline-0", "baseline", "new", 2, tls=False, authorization=b"Bearer sesame"),
    )


def test_a_short_flag_that_adds_a_pool_to_those_of_the_file_is_known_to_have_done_so() -> None:
    assert settings(**TWO_POOLS, baseline="http://x:9").added_pools == ("baseline",)
    file = {"name": "baseline", "kind": "plain", "backends": ["http://old:1"]}
    assert settings(pools=[file], baseline="http://new:2").added_pools == ()
    assert settings(baseline="http://a:1", speculative="http://b:2").added_pools == ()


def test_every_default_that_an_engine_takes_is_taken() -> None:
    for defaults in (SamplingDefaults(0.0, 1.0, -1, 0.0), SamplingDefaults(2.0, 0.01, 0, 1.0)):
        values = {name: getattr(defaults, name) for name in ("temperature", "top_p", "top_k", "min_p")}
        assert settings(baseline="http://a:1", defaults=values).model_table().fallback == defaults


@pytest.mark.parametrize("key", ["", "  ", "\n"])
def test_an_empty_key_is_no_key(key: str) -> None:
    found = settings(**pool(api_key=key), admin_key=key)
    assert found.addresses()[0].authorization is None
    assert found.admin_key is None


def test_keys_are_shown_nowhere() -> None:
    found = settings(**TWO_POOLS, admin_key="open-sesame")
    assert "sesame" not in repr(found) + str(found) + repr(found.addresses()) + found.model_dump_json()


def test_the_policy_is_built_with_its_threshold() -> None:
    policy = settings(baseline="http://a:1", threshold="0.5").build_policy()
    assert policy == settings(baseline="http://a:1", policy="threshold", threshold=0.5).build_policy()
    assert settings(**TWO_POOLS, policy="pinned:eagle").build_policy().name == "pinned:eagle"


def test_the_model_table_has_aliases_and_defaults_of_named_and_other_models() -> None:
    found = settings(
        baseline="http://a:1",
        aliases={"fast": "m"},
        models={"m": {"defaults": {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.05}}},
        defaults={"temperature": 1.3},
    )
    assert found.model_table() == ModelTable(
        aliases={"fast": "m"},
        defaults={"m": SamplingDefaults(0.6, 0.9, 20, 0.05)},
        fallback=SamplingDefaults(temperature=1.3),
    )


def test_free_ports_may_be_asked_for_twice() -> None:
    found = settings(baseline="http://a:1", port=0, admin_port=0)
    assert (found.port, found.admin_port) == (0, 0)


def test_nothing_changes_after_the_settings_are_built() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings(baseline="http://a:1").port = 1


def test_the_defaults_are_those_of_the_documentation_and_each_has_a_description() -> None:
    found = settings(baseline="http://a:1")
    assert (found.host, found.port, found.admin_host, found.admin_port) == ("0.0.0.0", 8080, "127.0.0.1", 8081)
    assert (found.policy, found.threshold, found.first_byte_timeout_s, found.idle_timeout_s) == ("threshold", 1.0, 0, 0)
    assert found.body_max_bytes == 64 * 1024 * 1024
    assert found.upstream_keepalive_s < 5
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_a_yaml_file_with_everything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "breakeven.yaml"
    path.write_text(yaml.safe_dump({**TWO_POOLS, "policy": "pinned:eagle", "aliases": {"fast": "m"}, "port": 80}))
    found = settings(config=path)
    assert (found.port, found.policy, found.aliases) == (80, "pinned:eagle", {"fast": "m"})
    assert len(found.addresses()) == 3


def test_a_pools_own_limit_goes_before_the_one_for_all() -> None:
    pools = [
        {"name": "a", "kind": "plain", "backends": ["http://x:1"]},
        {"name": "b", "kind": "plain", "backends": ["http://x:2"], "max_in_flight": 3},
        {"name": "c", "kind": "plain", "backends": ["http://x:3"], "max_in_flight": 0},
    ]
    specs = Settings(pools=pools, max_in_flight=8).pool_specs()
    assert [spec.in_flight_max for spec in specs] == [8, 3, 0]
    assert [spec.in_flight_max for spec in Settings(pools=pools).pool_specs()] == [0, 3, 0]
