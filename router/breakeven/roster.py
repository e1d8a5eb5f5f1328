"""How to reach each configured engine: its connections, and what is the same for each of its requests.

`engines` is replaced as a whole and never changed: a relay keeps to the engines among which its own was chosen. One
that is configured no longer, or at another address, opens no more connections; what runs there finishes. One that is
only reached otherwise from now on still opens them for relays that began before, which may have to turn to it.
"""

from collections.abc import Callable, Mapping

from breakeven.config import BackendAddress, Settings
from breakeven.relay import Engine, engine_at
from breakeven.tls import engine_context, freshness
from breakeven.upstream import ConnectionPool
from breakeven.watch_files import Fingerprint

Making = tuple[BackendAddress, float, float, bool, str, tuple[Fingerprint, ...]]
"""What an engine is made of; where that is the same, it stays the same, with its connections."""


class Roster:
    """`on_shortage` hears where we have no descriptor left for a connection."""

    def __init__(self, clock: Callable[[], float], on_shortage: Callable[[OSError], None]) -> None:
        self.engines: Mapping[str, Engine] = {}
        self._makings: dict[str, Making] = {}
        self._clock = clock
        self._on_shortage = on_shortage

    def reconfigure(self, settings: Settings, *, router_has_keys: bool) -> None:
        """Reach the engines of these settings from now on."""
        before = self.engines
        makings = {
            address.name: (
                address,
                settings.connect_timeout_s,
                settings.upstream_keepalive_s,
                router_has_keys,
                settings.policy_header,
                freshness(address.trust),
            )
            for address in settings.addresses()
        }
        same = {name for name, making in makings.items() if self._makings.get(name) == making}
        self.engines = {
            name: before[name] if name in same else self._engine(*making[:5]) for name, making in makings.items()
        }
        made, self._makings = self._makings, makings
        for name in before.keys() - same:
            stays = name in makings and _place(makings[name]) == _place(made[name])
            before[name].connections.retire(opens=stays)

    def close(self) -> None:
        """Close idle connections."""
        for engine in self.engines.values():
            engine.connections.close()

    def _engine(
        self,
        address: BackendAddress,
        connect_timeout_s: float,
        keepalive_s: float,
        router_has_keys: bool,
        policy_header: str,
    ) -> Engine:
        connections = ConnectionPool(
            address.host,
            address.port,
            tls=engine_context(address.trust) if address.tls else None,
            connect_timeout_s=connect_timeout_s,
            keepalive_s=keepalive_s,
            now=self._clock,
            on_shortage=self._on_shortage,
        )
        host = address.host if ":" not in address.host else f"[{address.host}]"
        return engine_at(
            address.name,
            address.pool,
            f"{host}:{address.port}".encode(),
            address.authorization,
            connections,
            accepts_gzip=address.accept_gzip,
            router_has_keys=router_has_keys,
            policy_header=policy_header.encode("ascii"),
        )


def _place(making: Making) -> tuple[str, int, bool]:
    address = making[0]
    return address.host, address.port, address.tls
