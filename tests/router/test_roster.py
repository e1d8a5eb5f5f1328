"""`breakeven.roster`: which engines can be reached, before and after another configuration."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.relay import Engine
from breakeven.roster import Roster
from breakeven.upstream import Connection, NoConnection
from tests.router.certificates import Authority

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(*urls: str, **values: Any) -> Settings:
    return build_settings(Settings, {"baseline": ",".join(urls), **values})


def roster(first: Settings) -> Roster:
    made = Roster(lambda: 0.0, lambda _: None)
    made.reconfigure(first, router_has_keys=False)
    return made


class Refused:
    """A receiver that waits for a connection."""

    def __init__(self) -> None:
        self.why: asyncio.Future[NoConnection] = asyncio.get_running_loop().create_future()

    def on_connected(self, connection: Connection) -> None:
        raise AssertionError

    def on_connect_failed(self, why: NoConnection) -> None:
        self.why.set_result(why)


def test_an_engine_that_stays_keeps_its_connections() -> None:
    made = roster(settings("http://a:1", "http://b:2"))
    before = made.engines
    made.reconfigure(settings("http://a:1", "http://b:3", threshold=0.5), router_has_keys=False)
    assert made.engines["baseline-0"] is before["baseline-0"]
    assert made.engines["baseline-1"] is not before["baseline-1"]
    assert made.engines["baseline-1"].host == b"b:3"


@pytest.mark.parametrize("values", [{"connect_timeout_s": 1}, {"upstream_keepalive_s": 1}])
def test_what_connections_are_made_with_makes_others(values: dict[str, Any]) -> None:
    made = roster(settings("http://a:1"))
    before = made.engines["baseline-0"]
    made.reconfigure(settings("http://a:1", **values), router_has_keys=False)
    assert made.engines["baseline-0"] is not before


def test_with_keys_of_its_own_the_router_tells_no_engine_a_clients() -> None:
    made = roster(settings("http://[::1]:1"))
    engine = made.engines["baseline-0"]
    assert engine.host == b"[::1]:1"
    assert not engine.dropped & {b"authorization", b"x-api-key"}
    made.reconfigure(settings("http://[::1]:1"), router_has_keys=True)
    assert made.engines["baseline-0"].dropped >= {b"authorization", b"x-api-key"}


def test_what_names_a_policy_for_the_router_reaches_no_engine() -> None:
    named = {"policy_header": "x-policy", "policy_choices": "least_loaded"}
    made = roster(settings("http://a:1,http://b:2", **named))
    first, second = made.engines.values()
    assert b"x-policy" in first.dropped
    assert first.dropped is second.dropped  # by which forwarded headers are known again
    made.reconfigure(settings("http://a:1,http://b:2"), router_has_keys=False)
    assert b"x-policy" not in made.engines["baseline-0"].dropped


def test_a_relay_still_finds_the_engines_among_which_its_own_was_chosen() -> None:
    made = roster(settings("http://a:1", "http://b:2"))
    before = made.engines
    made.reconfigure(settings("http://a:1"), router_has_keys=False)
    assert set(made.engines) == {"baseline-0"}
    assert set(before) == {"baseline-0", "baseline-1"}


async def test_an_engine_that_is_gone_gets_no_connection_any_more() -> None:
    made = roster(settings("http://127.0.0.1:1", "http://127.0.0.1:2"))
    gone: Engine = made.engines["baseline-1"]
    made.reconfigure(settings("http://127.0.0.1:1"), router_has_keys=False)
    receiver = Refused()
    assert gone.connections.take(receiver) is None  # type: ignore[arg-type]
    gone.connections.open(receiver)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        assert await receiver.why is NoConnection.UNREACHABLE
    made.close()


@pytest.mark.parametrize("router_has_keys", [False, True])
async def test_a_relay_that_began_before_reaches_an_engine_that_stays(*, router_has_keys: bool) -> None:
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    made = roster(settings(url))
    before = made.engines["baseline-0"]
    made.reconfigure(settings(url, connect_timeout_s=1), router_has_keys=router_has_keys)
    assert made.engines["baseline-0"] is not before
    (await before.connections.new_connection()).drop()
    now = made.engines["baseline-0"]
    made.reconfigure(settings("http://127.0.0.1:1"), router_has_keys=router_has_keys)
    with pytest.raises(OSError, match="no longer configured"):
        await now.connections.new_connection()
    listening.close()
    made.close()


def test_an_engine_whose_authority_has_changed_is_reached_anew(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path, "one"), Authority(tmp_path, "two")
    pool = {"name": "p", "kind": "plain", "backends": ["https://a:1"], "tls": {"ca": str(authority.file)}}
    made = roster(build_settings(Settings, {"pools": [pool]}))
    before = made.engines["p-0"]
    made.reconfigure(build_settings(Settings, {"pools": [pool]}), router_has_keys=False)
    assert made.engines["p-0"] is before
    kept = authority.file.rename(tmp_path / "kept")
    with pytest.raises(ConfigError):
        made.reconfigure(build_settings(Settings, {"pools": [pool]}), router_has_keys=False)
    assert made.engines["p-0"] is before
    kept.rename(authority.file)
    other.file.replace(authority.file)
    made.reconfigure(build_settings(Settings, {"pools": [pool]}), router_has_keys=False)
    assert made.engines["p-0"] is not before
