"""`breakeven.serving`: what a process of the router hears, and says, from its start to its end."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven.inherited import NOTHING, Inherited
from breakeven.notify import Notifier
from breakeven.serving import LAST_WORDS_S, Ending, ready_line, run, serve, tell_ready, unused
from breakeven.wiring import Router, StartError

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(**values: Any) -> Settings:
    fixed = {"host": "127.0.0.1", "port": 0, "admin_port": 0, "probe_interval_s": 0.02, "drain_timeout_s": 0.2}
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", **fixed, **values})


class Told(Notifier):
    """What the service manager hears."""

    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[str] = []

    def tell(self, *lines: str) -> None:
        self.lines += lines


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held


def test_variables_that_cannot_be_understood_are_a_line_before_anything_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "many")
    log = tmp_path / "access.log"
    with pytest.raises(StartError, match=r"^LISTEN_FDS: expected a number"):
        run(settings(access_log=str(log)), settings)
    assert not log.exists()


async def test_a_hang_up_while_the_router_starts_does_not_end_it() -> None:
    handlers: list[Any] = []

    class Starting(Router):
        async def start(self, inherited: Inherited = NOTHING) -> None:
            handlers.append(signal.getsignal(signal.SIGHUP))
            raise StartError

    with pytest.raises(StartError):
        await serve(settings(), settings, Starting)
    assert handlers != [signal.SIG_DFL]


async def test_who_cannot_start_has_never_said_that_it_was_ready(listening: socket.socket) -> None:
    told = Told()
    with pytest.raises(StartError):
        await serve(settings(port=listening.getsockname()[1]), settings, notifier=told)
    assert told.lines == []


@pytest.mark.slow
async def test_the_service_manager_hears_when_it_serves_and_how_long_it_may_take_to_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = Told()

    def on_ready(*lines: str) -> None:
        told.lines += lines
        if lines == ("READY=1",):
            os.kill(os.getpid(), signal.SIGTERM)

    told.tell = on_ready  # type: ignore[method-assign]  # to act on it
    async with asyncio.timeout(20):
        await serve(settings(), settings, notifier=told)
    assert told.lines == ["READY=1", "STOPPING=1", f"EXTEND_TIMEOUT_USEC={(0.2 + LAST_WORDS_S) * 1e6:.0f}"]
    assert "breakeven ready on http://127.0.0.1:" in capsys.readouterr().err


async def test_the_first_signal_ends_it_and_the_second_cuts_what_runs() -> None:
    ending = Ending()
    ending.on_signal()
    assert (ending.stop.is_set(), ending.at_once.is_set()) == (True, False)
    ending.begins(settings(drain_delay_s=5), succeeded=False)
    assert ending.limit_s == 5 + 0.2 + LAST_WORDS_S
    ending.on_signal()
    assert ending.at_once.is_set()


async def test_a_process_that_was_taken_over_takes_its_time_until_it_is_told_to_end_too() -> None:
    ending = Ending()
    ending.begins(settings(drain_timeout_s=0.01), succeeded=True)
    assert (ending.stop.is_set(), ending.at_once.is_set()) == (True, False)
    ending.on_signal()
    assert not ending.at_once.is_set()
    async with asyncio.timeout(10):
        await ending.at_once.wait()
    again = Ending()
    again.begins(settings(drain_timeout_s=60), succeeded=True)
    again.on_signal()
    again.on_signal()
    assert again.at_once.is_set()


def test_a_successor_tells_the_process_before_it_and_serves_also_where_that_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Told()
    reading, writing = os.pipe()
    tell_ready(Inherited(ready=writing), told)
    assert os.read(reading, 100) == b"READY=1\n"
    os.close(reading)
    tell_ready(Inherited(ready=writing), told)
    os.close(writing)
    assert caplog.messages == ["the process before this one is gone: this one serves alone"]
    assert told.lines == []
    tell_ready(NOTHING, told)
    assert told.lines == ["READY=1"]


def test_the_ready_line_names_both_addresses() -> None:
    assert ready_line(settings(host="::1"), 8080, 8081) == (
        "breakeven ready on http://[::1]:8080, admin on http://127.0.0.1:8081\n"
    )


def test_the_ready_line_names_the_addresses_of_inherited_sockets(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    inherited = Inherited(api=[listening], admin=[listening])
    elsewhere = settings(host="0.0.0.0", admin_host="0.0.0.0")
    assert ready_line(elsewhere, port, port, inherited) == (
        f"breakeven ready on http://127.0.0.1:{port}, admin on http://127.0.0.1:{port}\n"
    )


def test_a_port_that_was_set_and_is_not_that_of_the_inherited_socket_is_told(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    inherited = Inherited(api=[listening])
    assert unused(settings(port=1), inherited) == [
        f"port: 1 is not used: this process was given sockets that listen on {port}"
    ]
    for silent in (settings(port=port), settings(), settings(port=port, admin_port=1)):
        assert unused(silent, inherited) == []
    by_default = build_settings(Settings, {"baseline": "http://127.0.0.1:1"})
    assert unused(by_default, inherited) == []
