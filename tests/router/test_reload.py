"""`breakeven.reload`: what another configuration changes."""

from pathlib import Path
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven.reload import RELOADED, Plan, plan_of, watched_files

pytestmark = pytest.mark.usefixtures("clean_environment")

TWO = {"name": "p", "kind": "plain", "backends": ["http://a:1", "http://b:2"]}


def settings(**values: Any) -> Settings:
    return build_settings(Settings, {"pools": [TWO], **values})


def plan(before: dict[str, Any], after: dict[str, Any]) -> Plan:
    return plan_of(settings(**before), settings(**after))


def test_only_settings_that_exist_are_taken_over() -> None:
    assert RELOADED - set(Settings.model_fields) == set()


def test_tables_are_watched_with_their_folders(tmp_path: Path) -> None:
    inside = tmp_path / "t.json"
    inside.write_bytes(b"{}")
    assert watched_files(settings(tables=str(tmp_path))) == (tmp_path, inside)
    assert plan({}, {"tables": str(tmp_path)}).changed == ("tables",)


def test_the_same_again_changes_nothing_and_says_so() -> None:
    same = plan({"api_keys": "sk-1"}, {"api_keys": "sk-1"})
    assert (same.changed, same.waiting, same.unasked, same.renewed, same.removed) == ((), (), (), frozenset(), ())
    assert same.lines() == ["no setting has changed; keys and certificates were read again"]


@pytest.mark.parametrize("name", ["host", "port", "admin_host", "admin_port", "access_log"])
def test_what_takes_a_restart_stays_as_it_was(name: str) -> None:
    other: dict[str, Any] = {"port": 1234, "admin_port": 1234}
    changed = plan({}, {name: other.get(name, "stderr" if name == "access_log" else "::1"), "threshold": 0.5})
    assert changed.waiting == (name,)
    assert getattr(changed.settings, name) == Settings.model_fields[name].default
    assert changed.settings.threshold == 0.5
    assert changed.changed == ("threshold",)


def test_it_waits_in_the_next_comparison_too() -> None:
    first = plan({}, {"port": 1234})
    assert plan_of(first.settings, settings(port=1234)).waiting == ("port",)


def test_engines_that_come_go_and_move() -> None:
    after = {**TWO, "backends": [{"name": "p-1", "url": "http://b:3"}, {"name": "new", "url": "http://a:1"}]}
    changed = plan({}, {"pools": [after]})
    assert [address.name for address in changed.unasked] == ["p-1", "new"]
    assert (changed.renewed, changed.removed) == (frozenset({"p-1"}), ("p-0",))
    assert changed.lines() == [
        "changed: pools",
        "new engines: new",
        "engines at another address: p-1",
        "engines gone: p-0",
    ]


def test_the_same_address_in_another_pool_is_an_engine_that_nobody_asked() -> None:
    moved = [{"name": "q", "kind": "plain", "backends": [{"name": "p-0", "url": "http://a:1"}]}]
    assert plan({}, {"pools": moved}).renewed == {"p-0"}


def test_another_key_for_an_engine_is_no_other_engine() -> None:
    changed = plan({}, {"pools": [{**TWO, "api_key": "sk-new"}]})
    assert (changed.changed, changed.unasked) == (("pools",), ())


def test_no_line_shows_a_key_or_an_address() -> None:
    changed = plan({"api_keys": "sk-old"}, {"api_keys": "sk-new", "pools": [{**TWO, "backends": ["http://secret:1"]}]})
    told = " ".join(changed.lines())
    assert "api_keys" in told
    assert not any(word in told for word in ("sk-", "secret"))


def test_the_files_to_watch_are_those_that_are_named(tmp_path: Path) -> None:
    assert watched_files(settings()) == ()
    (tmp_path / "c.yaml").write_text("threshold: 1.0")
    files = {"api_keys_file": tmp_path / "keys", "tls_cert": tmp_path / "crt", "tls_key": tmp_path / "key"}
    named = settings(config=tmp_path / "c.yaml", pools=[{**TWO, "tls": {"ca": tmp_path / "ca"}}], **files)
    assert watched_files(named) == (tmp_path / "c.yaml", *files.values(), tmp_path / "ca")


def test_whether_there_is_tls_at_all_takes_a_restart() -> None:
    pair = {"tls_cert": "/crt", "tls_key": "/key"}
    assert plan({}, pair).waiting == ("tls_cert", "tls_key")
    assert plan(pair, {**pair, "tls_client_ca": "/ca"}).waiting == ("tls_client_ca",)
    assert plan(pair, {"tls_cert": "/other", "tls_key": "/key"}).changed == ("tls_cert",)
