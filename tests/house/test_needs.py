"""A missing program must be seen: as a skip at a desk, as a failure in CI."""

import pytest

from tests.house.needs import needs

ABSENT = "breakeven-no-such-program"


def test_a_missing_program_fails_the_test_where_everything_is_required(monkeypatch):
    monkeypatch.setenv("TESTS_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match=f"needs {ABSENT}: ask the packager"):
        needs(ABSENT, "ask the packager")


def test_a_missing_program_skips_the_test_elsewhere_and_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("TESTS_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"needs {ABSENT}: ask the packager"):
        needs(ABSENT, "ask the packager")


def test_a_program_that_is_there_is_returned_by_path(tmp_path, monkeypatch):
    program = tmp_path / ABSENT
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert needs(ABSENT, "it is here") == str(program)
