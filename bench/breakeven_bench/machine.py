"""What a result says of the machine that it was measured on."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def read_cpuinfo(path: Path = CPUINFO) -> str:
    """What Linux tells of its processors; empty where there is no such file."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def cpu_name(cpuinfo: str) -> str:
    """The processor's name; "unknown" where it is not told."""
    names = (line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name"))
    return next(names, "unknown")
