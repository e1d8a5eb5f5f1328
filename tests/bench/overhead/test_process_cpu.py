"""CPU and memory of a family of processes, read from a /proc that the test writes and from the real one."""

import subprocess
import sys

import pytest

from breakeven_bench.overhead.process_cpu import PAGE_BYTES, TICKS_PER_S, family, read_stat, usage

BUSY = (
    "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint(1, flush=True); input()"
)


def stat(utime, stime, rss, name="a"):
    return f"1 ({name}) S 0 0 0 0 -1 0 0 0 0 0 {utime} {stime} 7 7 20 0 1 0 99 1000 {rss} 0\n"


@pytest.fixture
def proc(tmp_path):
    """1 has a thread that started 2, which started 3; 4 is somebody else's."""
    for pid, tasks, line in (
        (1, {1: "", 11: "2 "}, stat(10, 5, 2)),
        (2, {2: "3"}, stat(1, 1, 1)),
        (3, {3: ""}, stat(0, 3, 0)),
        (4, {4: ""}, stat(1000, 1000, 1000)),
    ):
        for task, children in tasks.items():
            (tmp_path / str(pid) / "task" / str(task)).mkdir(parents=True)
            (tmp_path / str(pid) / "task" / str(task) / "children").write_text(children)
        (tmp_path / str(pid) / "stat").write_text(line)
    return tmp_path


def test_descendants_count_whichever_thread_started_them_and_nobody_else(proc):
    assert list(family(1, proc)) == [1, 2, 3]
    found = usage(1, proc)
    assert found.cpu_s == pytest.approx(20 / TICKS_PER_S)
    assert found.resident_bytes == 3 * PAGE_BYTES


def test_a_name_with_brackets_and_spaces_moves_no_field():
    assert read_stat(stat(3, 4, 5, name="a) S (b 9")) == (7, 5)


def test_a_process_that_is_gone_is_an_error(proc):
    with pytest.raises(FileNotFoundError):
        usage(5, proc)


@pytest.mark.slow
def test_what_a_process_spends_is_seen_by_its_parent():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found = usage(child.pid)
        child.communicate(b"\n")
    assert 0.2 < found.cpu_s < 5
    assert found.resident_bytes > 1_000_000
