"""`breakeven.notify`: what a service manager hears, and that nobody is harmed where it does not."""

import socket
from pathlib import Path

import pytest

from breakeven.notify import READY, STOPPING, Notifier, main_pid, patience, status


def manager(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(f"\0{address[1:]}" if address.startswith("@") else address)
    listening.settimeout(10)
    return listening


@pytest.mark.parametrize("address", [None, ""])
def test_where_nobody_wants_to_know_nothing_is_said(address: str | None, caplog: pytest.LogCaptureFixture) -> None:
    Notifier(address).tell(READY)
    assert caplog.text == ""


def test_a_manager_that_is_gone_is_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier(str(tmp_path / "gone")).tell(READY)
    assert caplog.messages == ["cannot tell NOTIFY_SOCKET that READY=1: no such file or directory"]
    Notifier("x" * 1000).tell(READY)
    assert "AF_UNIX path too long" in caplog.messages[-1]


def test_a_manager_that_takes_nothing_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakeven.notify.SEND_S", 0.01)
    with manager(str(tmp_path / "notify")):
        for _ in range(1000):  # the kernel holds some for it
            Notifier(str(tmp_path / "notify")).tell(READY)
            if caplog.messages:
                break
    assert caplog.messages == ["cannot tell NOTIFY_SOCKET that READY=1: timed out"]


def test_what_belongs_together_is_one_message(tmp_path: Path) -> None:
    for address in (str(tmp_path / "notify"), f"@breakeven-{tmp_path}"):
        with manager(address) as listening:
            Notifier(address).tell(STOPPING, patience(40.5))
            assert listening.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=40500000"


def test_what_there_is_to_say() -> None:
    assert [main_pid(7), status("serves")] == ["MAINPID=7", "STATUS=serves"]
