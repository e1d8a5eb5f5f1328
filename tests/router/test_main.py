"""`breakeven.__main__`: a router may be asked for something from its first moment on. Commands: `test_command_line`."""

import os
import signal
import subprocess
import sys

import pytest

from breakeven.__main__ import main

SHOW_IMPORTS = "import sys, breakeven.{module}; print(*sorted(name for name in sys.modules if {which}))"


@pytest.mark.parametrize("module", ["__main__", "worker_start"])
def test_nothing_that_takes_long_is_imported_before_signals_are_taken_care_of(module):
    program = SHOW_IMPORTS.format(
        module=module, which='name.startswith("breakeven.") or name in ("asyncio", "logging")'
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"breakeven.early_signals", f"breakeven.{module}"}


def test_only_a_router_holds_signals_back_and_only_while_it_runs(monkeypatch):
    masks = []

    def command(words):
        masks.append((words[0], signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        return 7

    monkeypatch.setattr("breakeven.command_line.main", command)
    assert [main(["serve"]), main(["check", "serve"])] == [7, 7]
    assert masks == [("serve", True), ("check", False)]
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.slow
def test_a_hang_up_in_the_first_moment_is_a_reload_and_not_the_end():
    command = [sys.executable, "-m", "breakeven", "serve", "--baseline", "http://127.0.0.1:1"]
    ports = ["--host", "127.0.0.1", "--port", "0", "--admin-port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BREAKEVEN_")}
    with subprocess.Popen([*command, *ports], stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            while not holds_back(process.pid, signal.SIGHUP):
                assert process.poll() is None
            process.send_signal(signal.SIGHUP)
            for line in process.stderr:
                if "configuration reloaded: no setting has changed" in line:
                    break
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def holds_back(pid, number):
    """Whether the signal would wait; as the system tells it."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123  # no file
        mask = next(line for line in status if line.startswith("SigBlk:"))
    return bool(int(mask.split()[1], 16) & 1 << (number - 1))
