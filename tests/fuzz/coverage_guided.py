"""Fuzzes the targets guided by coverage, with atheris (libFuzzer), in a process of its own for each.

    make fuzz ARGS="--seconds 300 --target sse_observer"

New inputs stay in `results/fuzz/TARGET`, what breaks a property in `results/fuzz/TARGET-crash-*`; the latter belongs,
made small, into `tests/fuzz/corpus` under a name that says what it was.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "results" / "fuzz"
INPUT_MAX = 4096
MEMORY_MB_MAX = 1024
"""libFuzzer ends a run that takes more: unbounded memory is a finding."""

TIMEOUT_S = 10
"""Of one input. The largest takes milliseconds."""


def run_here(name: str, seconds: int) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris  # installed by `make fuzz` only

    with atheris.instrument_imports(include=["breakeven", "breakeven_policies"]):
        from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    new = FOUND / name
    new.mkdir(parents=True, exist_ok=True)
    words = FOUND / f"{name}.dict"
    words.write_text("".join(['"' + "".join([f"\\x{byte:02x}" for byte in word]) + '"\n' for word in target.words]))
    options = [f"-max_total_time={seconds}", f"-max_len={INPUT_MAX}", f"-timeout={TIMEOUT_S}", "-print_final_stats=1",
               f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={FOUND}/{name}-", f"-dict={words}"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(new), *(str(path.parent) for path in target.corpus()[:1])], target.check)
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """Fuzz the targets one after the other; the status tells whether any property broke."""
    targets = sorted(folder.name for folder in (Path(__file__).parent / "corpus").iterdir() if folder.is_dir())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--target", choices=targets, action="append", help="default: all")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    names = given.target or targets
    if given.here:
        run_here(names[0], given.seconds)  # before anything of ours is imported: atheris changes it on its way in
    broken = []
    for name in names:
        print(f"=== {name}", flush=True)
        again = [sys.executable, "-m", "tests.fuzz.coverage_guided", "--here", "--target", name]
        if subprocess.run([*again, "--seconds", str(given.seconds)], cwd=ROOT, check=False).returncode:
            broken.append(name)
    print(f"{len(names)} targets fuzzed, broken: {', '.join(broken) or 'none'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
