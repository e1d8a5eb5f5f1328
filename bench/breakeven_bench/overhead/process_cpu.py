"""CPU time and memory of a process and its descendants, as Linux counts them in /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
"""The resolution: 100 nearly everywhere, so that a second of CPU is known to 1 %."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds spent so far, user and system, and bytes resident now."""

    cpu_s: float
    resident_bytes: int


def usage(pid: int, proc: Path = PROC) -> Usage:
    """Of a process and all that it has started and that still runs. FileNotFoundError where it is gone."""
    stats = [read_stat((proc / str(member) / "stat").read_text()) for member in family(pid, proc)]
    ticks, pages = sum(stat[0] for stat in stats), sum(stat[1] for stat in stats)
    return Usage(ticks / TICKS_PER_S, pages * PAGE_BYTES)


def family(pid: int, proc: Path = PROC) -> Iterator[int]:
    """The process and its descendants."""
    yield pid
    for task in sorted((proc / str(pid) / "task").iterdir()):
        for child in (task / "children").read_text().split():
            yield from family(int(child), proc)


def read_stat(line: str) -> tuple[int, int]:
    """Ticks on the CPU and resident pages (proc(5): utime, stime and rss; the name before them may hold anything)."""
    fields = line.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[21])
