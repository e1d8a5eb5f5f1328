"""The units: what systemd's own tools say of them, and that they fit the router that they start."""

import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser

import pytest

from breakeven.command_line import build_parser
from breakeven.config import Settings
from breakeven.listen_fds import ADMIN
from breakeven.wiring import OPEN_FILES_MIN
from tests.house.needs import needs
from tests.house.tree import ROOT, read

FOLDER = "deploy/systemd"
UNITS = ("breakeven.service", "breakeven.socket")
PROGRAM = "/opt/breakeven/bin/breakeven"
EXPOSURE_MAX = 20
"""Tenths. `systemd-analyze security` calls anything up to 2.5 well protected."""


def unit(name):
    """Section to key to value; a key that stands there twice is a mistake here."""
    parser = RawConfigParser(delimiters="=", comment_prefixes="#", strict=True)
    parser.optionxform = str
    parser.read_string(read(f"{FOLDER}/{name}"))
    return parser


SERVICE, SOCKET = (unit(name) for name in UNITS)


@pytest.fixture
def analyze(tmp_path):
    """Runs systemd-analyze on copies whose command exists here; what it says."""
    program = needs("systemd-analyze", "apt-get install systemd")
    for name in UNITS:
        shutil.copy(ROOT / FOLDER / name, tmp_path)
    service = tmp_path / "breakeven.service"
    service.write_text(service.read_text().replace(PROGRAM, sys.executable))

    def run(*words):
        done = subprocess.run(
            [program, *words, *(tmp_path / name for name in UNITS if "security" not in words or name == service.name)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr, done.stdout

    return run


@pytest.mark.slow
def test_systemd_understands_every_line(analyze):
    assert analyze("verify", "--man=no") == (0, "", "")


@pytest.mark.slow
def test_the_service_may_do_little_beyond_serving(analyze):
    code, _, table = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager")
    assert code == 0, table


def test_the_command_is_one_that_the_router_takes():
    program, *words = shlex.split(SERVICE["Service"]["ExecStart"])
    assert program == PROGRAM
    assert build_parser().parse_args(words).config == "/etc/breakeven/breakeven.yaml"


def test_the_socket_is_that_of_the_api_at_its_usual_port():
    assert SOCKET["Socket"]["FileDescriptorName"] != ADMIN
    assert SOCKET["Socket"]["ListenStream"] == str(Settings.model_fields["port"].default)
    assert SERVICE["Unit"]["Requires"] == "breakeven.socket"


def test_the_router_is_believed_when_it_says_that_it_is_ready_or_that_another_process_is_the_main_one():
    assert (SERVICE["Service"]["Type"], SERVICE["Service"]["NotifyAccess"]) == ("notify", "main")
    assert SERVICE["Service"]["KillMode"] == "mixed"


def test_the_service_outlives_the_answers_it_is_giving_and_has_descriptors_for_them():
    assert float(SERVICE["Service"]["TimeoutStopSec"]) > Settings.model_fields["drain_timeout_s"].default
    assert int(SERVICE["Service"]["LimitNOFILE"]) > OPEN_FILES_MIN


def test_what_cannot_be_used_is_not_tried_again_and_again():
    assert SERVICE["Service"]["RestartPreventExitStatus"] == "2"
    assert "2 the command or the configuration cannot be used" in read("router/breakeven/command_line.py")
