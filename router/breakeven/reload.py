"""What another configuration changes: a comparison that reads and does nothing; `wiring.Router.reload` obeys it."""

from dataclasses import dataclass
from pathlib import Path

from breakeven.config import BackendAddress, Settings
from breakeven.table_files import watched_tables

RELOADED = frozenset(
    (
        "admin_key", "alias_policies", "aliases", "api_keys", "api_keys_file", "attempts_max", "baseline",
        "body_max_bytes", "client_body_timeout_s", "client_header_timeout_s", "client_keepalive_s", "connect_timeout_s",
        "cors_origins", "defaults", "drain_delay_s", "drain_timeout_s", "engine_failures_max", "engine_frozen_s",
        "equivalence_action", "equivalence_divergence_max", "equivalence_interval_s", "equivalence_window",
        "extra_paths", "first_byte_timeout_s", "header_max_bytes", "idle_timeout_s", "log_level", "max_in_flight",
        "models", "models_interval_s", "policy", "policy_choices", "policy_header", "pools", "probe_failures_max",
        "probe_interval_s", "probe_timeout_s", "queue_max", "queue_timeout_s", "replicas", "scrape_interval_s",
        "shadow", "speculative", "tables", "takeover_timeout_s", "threshold", "tls_cert", "tls_client_ca", "tls_key",
        "total_timeout_s", "upstream_keepalive_s", "workloads",
    )
)  # fmt: skip
"""Settings that a running router takes over. All others wait for a restart, and a warning says so."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`settings` are to be in force, with those that wait for a restart (`waiting`) as they were; `changed` are others.

    `unasked` are engines that nobody has asked yet; `renewed` names those among them that had another address before,
    `removed` those that are gone.
    """

    settings: Settings
    changed: tuple[str, ...]
    waiting: tuple[str, ...]
    unasked: tuple[BackendAddress, ...]
    renewed: frozenset[str]
    removed: tuple[str, ...]

    def lines(self) -> list[str]:
        """What happens, for the log; names only."""
        added = [address.name for address in self.unasked if address.name not in self.renewed]
        told = [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("changed:", self.changed),
                ("new engines:", added),
                ("engines at another address:", sorted(self.renewed)),
                ("engines gone:", self.removed),
            )
            if names
        ]
        return told or ["no setting has changed; keys and certificates were read again"]


def plan_of(old: Settings, new: Settings) -> Plan:
    """What has to be done so that `new` is in force where `old` was."""
    different = [name for name in Settings.model_fields if getattr(old, name) != getattr(new, name)]
    waiting = tuple(name for name in different if name not in RELOADED or _appears(name, old, new))
    before = {address.name: address for address in old.addresses()}
    after = {address.name: address for address in new.addresses()}
    renewed = frozenset(name for name in before.keys() & after.keys() if _place(before[name]) != _place(after[name]))
    return Plan(
        settings=new.model_copy(update={name: getattr(old, name) for name in waiting}) if waiting else new,
        changed=tuple(name for name in different if name not in waiting),
        waiting=waiting,
        unasked=tuple(address for name, address in after.items() if name in renewed or name not in before),
        renewed=renewed,
        removed=tuple(name for name in before if name not in after),
    )


def watched_files(settings: Settings) -> tuple[Path, ...]:
    """The files whose change is a change of the configuration."""
    named = [settings.config, settings.api_keys_file, settings.tls_cert, settings.tls_key, settings.tls_client_ca]
    named += [path for pool in settings.pools for path in (pool.tls.ca, pool.tls.cert, pool.tls.key)]
    return (*(path for path in named if path is not None), *watched_tables(settings.tables))


def _appears(name: str, old: Settings, new: Settings) -> bool:
    """Whether TLS, or the need for certificates of clients, begins or ends: open sockets cannot change that."""
    return name.startswith("tls_") and (getattr(old, name) is None) != (getattr(new, name) is None)


def _place(address: BackendAddress) -> tuple[str, str, int, bool]:
    """What makes it the engine that it is."""
    return address.pool, address.host, address.port, address.tls
