"""`breakeven-bench launch-files`: what it writes, what it finds different, and what it refuses."""

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.vllm.launch_files import launch_files
from breakeven_bench.vllm.launch_tables import TABLES

PAGE = "".join(f"<!-- written by breakeven-bench launch-files: {name} -->\n<!-- end of {name} -->\n" for name in TABLES)


@pytest.fixture
def written(tmp_path, capsys):
    """A folder as the command leaves it, with a README."""
    folder = tmp_path / "vllm"
    folder.mkdir()
    (folder / "README.md").write_text(PAGE, encoding="utf-8")
    assert main(["launch-files", "--write", str(folder)]) == 0
    capsys.readouterr()
    return folder


def check(folder):
    return main(["launch-files", "--check", str(folder)])


def test_neither_check_nor_write_is_an_error_in_one_line(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["launch-files"])
    assert caught.value.code == 2
    assert "one of the arguments --check --write is required" in capsys.readouterr().err


def test_a_readme_without_the_place_of_a_table_is_told_and_left_alone(written, capsys):
    (written / "README.md").write_text("mine\n", encoding="utf-8")
    assert main(["launch-files", "--write", str(written)]) == 2
    assert "no place for the table methods" in capsys.readouterr().err
    assert (written / "README.md").read_text(encoding="utf-8") == "mine\n"


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["launch-files", "--write", str(tmp_path / "file" / "vllm")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_folder_lacks_every_file(tmp_path, capsys):
    assert check(tmp_path / "nowhere") == 1
    assert capsys.readouterr().out.count("is not as rendered") == len(launch_files())


def test_what_was_written_is_as_rendered(written, capsys):
    assert check(written) == 0
    assert capsys.readouterr().out == ""
    for name, text in launch_files().items():
        assert (written / name).read_text(encoding="utf-8") == text


def test_what_starts_an_engine_can_be_run_and_what_is_sourced_need_not(written):
    runnable = {str(path.relative_to(written)) for path in written.rglob("*.sh") if path.stat().st_mode & 0o100}
    assert runnable == {name for name, text in launch_files().items() if text.startswith("#!")}


def test_the_readme_gets_its_tables(written):
    assert "| `suffix.sh` |" in (written / "README.md").read_text(encoding="utf-8")


def test_a_changed_file_is_named_and_written_anew_alone(written, capsys):
    (written / "pools.sh").write_text("# mine\n", encoding="utf-8")
    assert check(written) == 1
    assert str(written / "pools.sh") in capsys.readouterr().out
    assert main(["launch-files", "--write", str(written)]) == 0
    assert capsys.readouterr().out == f"{written / 'pools.sh'} written\n"
    assert (written / "pools.sh").read_text(encoding="utf-8") == launch_files()["pools.sh"]


def test_a_script_that_cannot_be_run_is_not_as_rendered(written):
    (written / "ngram.sh").chmod(0o644)
    assert check(written) == 1


def test_a_folder_without_a_readme_is_given_none(tmp_path):
    assert main(["launch-files", "--write", str(tmp_path)]) == 0
    assert not (tmp_path / "README.md").exists()


def test_the_folder_is_that_of_a_checkout_unless_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["launch-files", "--write"]) == 0
    assert (tmp_path / "deploy" / "vllm" / "baseline.sh").exists()
    assert main(["launch-files", "--check"]) == 0
