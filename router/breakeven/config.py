"""Every setting of the router, declared once: file, environment, flags and their help all follow from here.

Values are merged by `config_sources` (flag over environment over file over default) and judged here; nothing here reads
a file or opens a socket. A mistake becomes one line that names the key and says what is expected.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from breakeven.body import ModelTable
from breakeven.config_sources import ENV_PREFIX, settings_sources
from breakeven.config_values import (
    NAME_PATTERN,
    Address,
    AddressList,
    HeaderName,
    Interval,
    Key,
    Method,
    Name,
    Number,
    OriginList,
    PathList,
    PolicyList,
    Port,
    Seconds,
    Section,
    Temperature,
    TextMapping,
    Whole,
    parse_address,
    reject,
    split_list,
    yaml_value,
)
from breakeven.endpoints import EndpointTable
from breakeven.fleet import PoolSpec
from breakeven.key_list import KeyList
from breakeven.model_config import DefaultsConfig, ModelConfig
from breakeven.policy_choice import PolicyChoice
from breakeven.speculative_config import SpeculativeConfigValue
from breakeven_policies.policy import RANKING_MAX, Policy
from breakeven_policies.registry import build_policy
from breakeven_policies.snapshot import PoolKind
from breakeven_policies.table_match import PoolIdentity
from breakeven_policies.workload import NAMED_MAX

IN_FLIGHT_MAX = 100_000
"""More than a process has ports towards one engine: a larger number is a slip."""

EQUIVALENCE_INTERVAL_MIN_S = 1.0
"""A comparison takes about two seconds of an engine: more of them would be a load."""

QUEUE_MAX = 100_000
"""Likewise more than it has descriptors for clients."""


@dataclass(frozen=True, slots=True)
class EngineTrust:
    """Whose certificates an engine may have (None: those of the system's authorities), and what it is shown."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class BackendAddress:
    """Where an engine is and what goes with every request to it; `authorization` is the header's value, never shown."""

    name: str
    pool: str
    host: str
    port: int
    tls: bool
    authorization: bytes | None = field(default=None, repr=False)
    accept_gzip: bool = False
    trust: EngineTrust = EngineTrust()


class BackendConfig(Section):
    """One engine: `http://host:port` in the file, or a name of your own beside the address."""

    name: Name
    url: Address


class TlsConfig(Section):
    """How the engines of a pool at https:// addresses are met."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.cert is None) != (self.key is None):
            reject("cert and key go together")
        return self


class PoolConfig(Section):
    """Engines of one kind that serve the same models."""

    name: Name
    kind: PoolKind
    backends: list[BackendConfig] = Field(min_length=1)
    method: Method = "none"
    speculative_tokens: Whole = Field(default=0, ge=0, le=64)
    speculative_config: SpeculativeConfigValue = None
    api_key: Key = None
    accept_gzip: bool = False
    tls: TlsConfig = Field(default_factory=TlsConfig)
    max_in_flight: Annotated[Whole, Field(ge=0, le=IN_FLIGHT_MAX)] | None = None
    max_num_seqs: Annotated[Whole, Field(ge=1, le=IN_FLIGHT_MAX)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Bare addresses get a name made of the pool's and a number; a speculative pool may leave its method out."""
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        addresses = split_list(filled.get("backends"))
        if isinstance(addresses, list):
            # With a bad pool name, one mistake is enough: the names made of it shall not be found bad as well.
            prefix = name if re.fullmatch(NAME_PATTERN, name := str(values.get("name"))) else "pool"
            filled["backends"] = [
                {"name": f"{prefix}-{index}", "url": backend} if isinstance(backend, str) else backend
                for index, backend in enumerate(addresses)
            ]
        if filled.get("kind") == PoolKind.SPECULATIVE:
            told = _told_to_the_engine(filled.get("speculative_config"))
            filled.setdefault("method", told.get("method") or "unknown")
            filled.setdefault("speculative_tokens", told.get("num_speculative_tokens") or 0)
        return filled

    @model_validator(mode="after")
    def _method_fits_the_kind(self) -> Self:
        if self.kind is PoolKind.PLAIN and (self.method != "none" or self.speculative_tokens):
            reject("a plain pool drafts nothing: leave out method and speculative_tokens, or make it kind: speculative")
        if self.kind is PoolKind.PLAIN and self.speculative_config is not None:
            reject("a plain pool drafts nothing: leave out speculative_config, or make it kind: speculative")
        self._engine_was_told_the_same()
        if self.kind is PoolKind.SPECULATIVE and self.method == "none":
            reject("a speculative pool needs a method such as eagle3; leave method out where it is not known")
        if len({parse_address(backend.url) for backend in self.backends}) < len(self.backends):
            reject("lists one engine twice; its load would be counted twice")
        return self

    def identity(self) -> PoolIdentity:
        """What is configured of what a measured table has to fit."""
        told = self.speculative_config
        return PoolIdentity(
            name=self.name,
            kind=self.kind,
            method=self.method,
            speculative_tokens=self.speculative_tokens,
            draft_model=None if told is None else told.model,
            drafting=None if told is None else told.drafting,
            follows_batch=told is not None and bool(told.num_speculative_tokens_per_batch_size),
        )

    def _engine_was_told_the_same(self) -> None:
        told = self.speculative_config
        if told is None:
            return
        for key, ours, theirs in (
            ("method", self.method, told.method),
            ("speculative_tokens", self.speculative_tokens, told.num_speculative_tokens),
        ):
            if theirs is not None and ours != theirs:
                reject(f"{key} is {ours}, but speculative_config says {theirs}")

    def addresses(self) -> tuple[BackendAddress, ...]:
        """Where the engines are, with what is sent to them."""
        authorization = None if self.api_key is None else b"Bearer " + self.api_key.get_secret_value().encode("ascii")
        trust = EngineTrust(self.tls.ca, self.tls.cert, self.tls.key, self.tls.verify)
        return tuple(
            BackendAddress(backend.name, self.name, *parse_address(backend.url), authorization, self.accept_gzip, trust)
            for backend in self.backends
        )


class Settings(BaseSettings):
    """The whole configuration; attribute names are the keys of the file, BREAKEVEN_* and --flags."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False
    )

    config: Path | None = Field(
        None, description="YAML file with any of these settings; keys are the flag names with _"
    )
    baseline: AddressList = Field([], description="address of an engine without speculation")
    speculative: AddressList = Field([], description="address of an engine with speculation, EAGLE-3 for example")
    pools: Annotated[list[PoolConfig], NoDecode, BeforeValidator(yaml_value)] = Field(
        [],
        description="any number of pools: name, kind, backends, method, speculative_tokens, api_key, accept_gzip, "
        "max_in_flight, max_num_seqs, tls, speculative_config (as the engines were given it)",
    )

    host: str = Field("0.0.0.0", description="address on which the OpenAI API is served")  # noqa: S104  # it is a server
    port: Port = Field(8080, description="port of the OpenAI API; 0 takes any free one")
    admin_host: str = Field("127.0.0.1", description="address of metrics, fleet, explain and the live page")
    admin_port: Port = Field(8081, description="port of the same")
    admin_key: Key = Field(
        None, description="key that POST requests to the admin port must carry; rather as BREAKEVEN_ADMIN_KEY"
    )

    tls_cert: Path | None = Field(None, description="certificate chain (PEM) of the OpenAI API; absent, plain HTTP")
    tls_key: Path | None = Field(None, description="its key (PEM, not encrypted)")
    tls_client_ca: Path | None = Field(None, description="authorities (PEM) of which clients need a certificate")
    api_keys: KeyList = Field(
        None,
        description="keys of which a client must carry one, each as KEY or NAME=KEY; rather as BREAKEVEN_API_KEYS",
    )
    api_keys_file: Path | None = Field(None, description="the same from a file, one a line; absent, all may come in")

    workers: Whole = Field(1, ge=1, le=256, description="processes that serve; above 1 a supervisor leads them")

    policy: str = Field("threshold", description="threshold, pinned:POOL, least_loaded, breakeven, or one of your own")
    threshold: Temperature = Field(1.0, description="highest temperature that is still served with speculation")
    shadow: PolicyList = Field([], description="further policies that decide every request too, only to be counted")
    policy_header: HeaderName = Field("", description="header in which a client may name a policy; absent, none may")
    policy_choices: PolicyList = Field([], description="the policies that may be named there")
    alias_policies: TextMapping = Field({}, description="policies for models asked for by an alias, each alias=policy")
    tables: Annotated[list[Path], NoDecode, BeforeValidator(split_list)] = Field(
        [], description="measured tables, files or folders of them; absent, those that ship with the router"
    )
    replicas: Whole = Field(
        1, ge=0, le=16, description="routers like this one in front of the same engines; 0: to be found out"
    )
    workloads: Annotated[list[Name], NoDecode, BeforeValidator(split_list), Field(max_length=NAMED_MAX)] = Field(
        [], description="kinds of requests to tell apart, named in x-breakeven-workload or by an alias"
    )
    aliases: TextMapping = Field({}, description="further names for models, each as alias=model")
    models: Annotated[dict[str, ModelConfig], NoDecode, BeforeValidator(yaml_value)] = Field(
        {}, description="per model: defaults {temperature, top_p, top_k, min_p} that its engine fills in"
    )
    defaults: Annotated[DefaultsConfig, NoDecode, BeforeValidator(yaml_value)] = Field(
        DefaultsConfig(), description="the same for models not named"
    )

    connect_timeout_s: Interval = Field(3.0, description="longest wait for a connection to an engine")
    first_byte_timeout_s: Seconds = Field(0.0, description="longest wait for an engine's response head; 0: no limit")
    idle_timeout_s: Seconds = Field(0.0, description="longest silence inside an engine's answer; 0: no limit")
    total_timeout_s: Seconds = Field(0.0, description="longest time from request to end of answer; 0: no limit")
    client_header_timeout_s: Interval = Field(10.0, description="longest time a client may take for its headers")
    client_body_timeout_s: Interval = Field(60.0, description="longest time a client may take for its body")
    # Longer than a balancer in front keeps its side: 60 s at AWS, 600 s at Google.
    client_keepalive_s: Seconds = Field(620.0, description="how long an idle client stays connected; 0: for ever")
    body_max_bytes: Whole = Field(64 * 2**20, ge=1024, le=2**31, description="largest request body")
    header_max_bytes: Whole = Field(64 * 2**10, ge=1024, le=2**20, description="largest request head")
    # vLLM closes idle connections after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); ours must be the side that closes first.
    upstream_keepalive_s: Seconds = Field(4.0, description="how long an idle connection to an engine is kept")

    probe_interval_s: Interval = Field(1.0, description="seconds between health checks of an engine")
    probe_timeout_s: Interval = Field(5.0, description="longest wait for a health check, a scrape or a list of models")
    probe_failures_max: Whole = Field(
        3, ge=1, le=100, description="failed health checks in a row that take an engine out"
    )
    engine_failures_max: Whole = Field(
        5, ge=0, le=1000, description="requests in a row that fail on an engine, none answered, and it is out; 0: never"
    )
    engine_frozen_s: Seconds = Field(
        60.0, description="how long an engine may hold requests without making a token before it is out; 0: for ever"
    )
    max_in_flight: Whole = Field(
        0, ge=0, le=IN_FLIGHT_MAX, description="requests that an engine may have at once, unless its pool says; 0: any"
    )
    queue_max: Whole = Field(512, ge=0, le=QUEUE_MAX, description="requests that may wait where every engine is full")
    queue_timeout_s: Interval = Field(30.0, description="longest wait for a place at an engine, then 503")
    attempts_max: Whole = Field(
        RANKING_MAX,
        ge=1,
        le=RANKING_MAX,
        description="engines that are tried with a request before one has answered it",
    )
    scrape_interval_s: Interval = Field(1.0, description="seconds between reads of an engine's metrics")
    models_interval_s: Interval = Field(10.0, description="seconds between reads of an engine's list of models")

    equivalence_interval_s: Annotated[Number, Field(ge=0, le=86400)] = Field(
        0.0, description="seconds between comparisons of greedy answers of speculative and plain engines; 0: none"
    )
    equivalence_window: Whole = Field(20, ge=5, le=1000, description="last answers of an engine that are judged")
    # Were one answer in five parted by rounding, more than half of 20 would be once in 1,800 windows; where acceptance
    # is broken nearly all are (vllm-project/vllm issue 41758: 20 of 20).
    equivalence_divergence_max: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.5, description="share of these that may differ before an engine counts as broken"
    )
    equivalence_action: Literal["alert", "drain"] = Field(
        "alert", description="what happens to it then: only metric and log, or no more requests"
    )

    cors_origins: OriginList = Field([], description="origins of browser applications that may call; * for any")
    extra_paths: PathList = Field([], description="further paths that are forwarded, /v1/custom for example")
    drain_delay_s: Seconds = Field(
        0.0, description="how long clients are still accepted after SIGTERM: until every balancer knows of it"
    )
    drain_timeout_s: Seconds = Field(30.0, description="how long running requests may go on after SIGTERM")
    # Nobody waits for its end: the port is served by the new process.
    takeover_timeout_s: Seconds = Field(600.0, description="the same after SIGUSR2, when a new process has taken over")
    access_log: str = Field("off", description="one JSON line per request: off, stderr, or a file")
    journal: str = Field("off", description="one JSON line per decision with its outcome: off, a file, or a folder")
    # 1 GB in all: three hours at 100 requests per second with a few engines.
    journal_max_bytes: Whole = Field(
        100 * 2**20, ge=4096, le=2**40, description="size at which the journal's file is turned over"
    )
    journal_files: Whole = Field(10, ge=1, le=1000, description="full files of the journal that are kept")
    journal_sample: Annotated[Number, Field(ge=0, le=1)] = Field(1.0, description="share of decisions in the journal")
    tracing: Literal["off", "otlp"] = Field(
        "off", description="spans of every request: off, or otlp as the OTEL_* variables say (needs breakeven[otel])"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the router's own log on stderr"
    )
    _added_pools: tuple[str, ...] = PrivateAttr(())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over environment over file."""
        del env_settings, dotenv_settings, file_secret_settings
        return settings_sources(settings_cls, init_settings)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        object.__setattr__(self, "pools", self._with_shorthands())
        for check in (
            self._check_pools,
            self._check_policy,
            self._check_ports,
            self._check_tls,
            self._check_aliases,
            self._check_paths,
            self._check_equivalence,
        ):
            check()
        return self

    def _with_shorthands(self) -> list[PoolConfig]:
        """--baseline and --speculative fill the pool of that name, or add it where the file has none."""
        pools = {pool.name: pool for pool in self.pools}
        if len(pools) < len(self.pools):
            reject("pools: every pool needs a name of its own")
        listed = list(pools)
        for name, kind, urls in (
            ("baseline", PoolKind.PLAIN, self.baseline),
            ("speculative", PoolKind.SPECULATIVE, self.speculative),
        ):
            if len({parse_address(url) for url in urls}) < len(urls):
                reject(f"{name}: lists one engine twice; its load would be counted twice")
            if urls:
                known = pools[name].model_dump(exclude={"backends"}) if name in pools else {"name": name, "kind": kind}
                pools[name] = PoolConfig.model_validate({**known, "backends": urls})
        self._added_pools = tuple(name for name in pools if listed and name not in listed)
        return list(pools.values())

    @property
    def added_pools(self) -> tuple[str, ...]:
        """The pools that --baseline and --speculative put beside those of `pools`."""
        return self._added_pools

    def _check_pools(self) -> None:
        if not self.pools:
            reject("no engine is configured: give --baseline URL and --speculative URL, or pools in a --config file")
        names = [backend.name for pool in self.pools for backend in pool.backends]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            reject(f"pools: backend names must be unique over all pools; {twice[0]!r} is there twice")

    def _check_policy(self) -> None:
        try:
            self.build_policy()
            require_pool(self.policy, [pool.name for pool in self.pools])
        except ValueError as error:
            reject(f"policy: {error}")
        named = {"shadow": self.shadow, "policy_choices": self.policy_choices, "alias_policies": self.alias_policies}
        for setting, specs in named.items():
            try:
                for spec in specs.values() if isinstance(specs, dict) else specs:
                    require_pool(build_policy(spec, self.threshold).name, [pool.name for pool in self.pools])
            except ValueError as error:
                reject(f"{setting}: {error}")
        if bool(self.policy_header) != bool(self.policy_choices):
            reject("policy_header and policy_choices go together")
        unknown = sorted(self.alias_policies.keys() - self.aliases.keys())
        if unknown:
            reject(f"alias_policies: {unknown[0]!a} is not among the aliases")

    def _check_ports(self) -> None:
        if self.port == self.admin_port != 0:
            reject(f"admin_port: must differ from port, both are {self.port}")

    def _check_tls(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            reject("tls_cert and tls_key go together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            reject("tls_client_ca: needs tls_cert and tls_key")

    def _check_aliases(self) -> None:
        chained = sorted(alias for alias, model in self.aliases.items() if model in self.aliases)
        if chained:
            reject(f"aliases: {chained[0]!a} must name a model, not another alias")

    def _check_equivalence(self) -> None:
        if 0 < self.equivalence_interval_s < EQUIVALENCE_INTERVAL_MIN_S:
            reject(f"equivalence_interval_s: expected 0 or at least {EQUIVALENCE_INTERVAL_MIN_S:g}")

    def _check_paths(self) -> None:
        try:
            EndpointTable(self.extra_paths)
        except ValueError as error:
            reject(f"extra_paths: {error}")

    def build_policy(self) -> Policy:
        """The configured policy."""
        return build_policy(self.policy, self.threshold)

    def build_shadows(self) -> tuple[Policy, ...]:
        """Those that are only asked, each once."""
        return tuple(build_policy(spec, self.threshold) for spec in dict.fromkeys(self.shadow))

    def policy_choice(self) -> PolicyChoice | None:
        """The policies that single requests may ask for; None: they may not."""
        if not (self.policy_header or self.alias_policies):
            return None
        return PolicyChoice(
            self.policy_header.encode("ascii"),
            {spec.encode("latin-1", "replace"): build_policy(spec, self.threshold) for spec in self.policy_choices},
            {alias: build_policy(spec, self.threshold) for alias, spec in self.alias_policies.items()},
        )

    def addresses(self) -> tuple[BackendAddress, ...]:
        """Every engine, pools in configuration order."""
        return tuple(address for pool in self.pools for address in pool.addresses())

    def identities(self) -> tuple[PoolIdentity, ...]:
        """The pools as measured tables have to fit them."""
        return tuple(pool.identity() for pool in self.pools)

    def pool_specs(self) -> tuple[PoolSpec, ...]:
        """The pools by name, for the fleet."""
        return tuple(
            PoolSpec(
                pool.name,
                pool.kind,
                pool.method,
                pool.speculative_tokens,
                tuple(each.name for each in pool.backends),
                self.max_in_flight if pool.max_in_flight is None else pool.max_in_flight,
            )
            for pool in self.pools
        )

    def model_table(self) -> ModelTable:
        """Aliases and sampling defaults, for the view of a request."""
        named = {name: model.defaults.sampling() for name, model in self.models.items()}
        return ModelTable(aliases=self.aliases, defaults=named, fallback=self.defaults.sampling())


def _told_to_the_engine(value: Any) -> dict[str, Any]:
    """What stands in `speculative_config`, however it is written; what is wrong with it is said elsewhere."""
    try:
        told = yaml_value(value)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def require_pool(policy: str, pools: Collection[str]) -> None:
    """ValueError where `policy` pins requests to a pool that is not among `pools`."""
    name, _, argument = policy.partition(":")
    if name == "pinned" and argument not in pools:
        reject(f"there is no pool {argument!a}; there are: {', '.join(pools)}")
