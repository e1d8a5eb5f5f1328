"""What looks like `.venv-vllm`, with an interpreter that starts simulated engines: for tests without vLLM."""

import sys
from pathlib import Path

from breakeven_bench.vllm.host import LAST_STEP, Environment

LOADS_AND_DIES = "print('loading the weights'); raise SystemExit('no memory left')"

IS_DEAF = """
print("Starting vLLM server on http://127.0.0.1:1", "Application startup complete.", sep="\\n", flush=True)
while True: time.sleep(60)
"""
"""Nobody may listen on port 1 without being root, and nobody does."""

SERVES = """
flags = dict(zip(sys.argv, sys.argv[1:]))
engine = ["-m", "breakeven_bench", "engine", "--port", flags["--port"], "--model", flags["--served-model-name"]]
engine += ["--time-scale", "10"]
if "--speculative-config" in flags:
    engine += ["--method", "eagle3", "--k", "3"]
print(f"Starting vLLM server on http://{flags['--host']}:{flags['--port']}")
print("Application startup complete.", flush=True)
os.execv(sys.executable, [sys.executable, *engine])
"""
"""vLLM says that it is ready a moment before it listens, and so does this."""


def environment(folder: Path, code: str = SERVES) -> Environment:
    """One that passes for installed; `code` runs as its engine, with os, sys and time at hand."""
    made = Environment(folder)
    made.python.parent.mkdir(parents=True)
    made.python.write_text(f"#!{sys.executable}\nimport os, sys, time\n{code}")
    made.python.chmod(0o755)
    stamp = made.stamp(LAST_STEP)
    stamp.parent.mkdir(parents=True)
    stamp.write_text("")
    return made
