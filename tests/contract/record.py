"""Records what real vLLM answers into `tests/pages/vllm/<version>/`.

    .venv/bin/python -m tests.contract.record

It starts a plain and a speculative engine (see `make install-vllm`), asks them `capture.QUESTIONS`, and writes one file
per answer, `answers.json` with what was asked and the heads of the answers, and `provenance.json`. To try a newer
vLLM: install it, record, set `pages.VERSION` to its number, and read the differences that the tests then show.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from breakeven_bench.launch import Launcher, LaunchError
from breakeven_bench.vllm.host import Environment, missing
from tests.contract.capture import QUESTIONS, Recorded, capture, file_name, without_folders
from tests.contract.engine import running
from tests.contract.pages import PAGES
from tests.contract.targets import VLLM, Shape


async def record() -> Path:
    """Start the engines, ask, write. Returns the folder. Raises LaunchError."""
    with tempfile.TemporaryDirectory() as logs:
        async with Launcher(Path(logs)) as launcher:
            engines = [running(launcher, VLLM, shape) for shape in (Shape(), Shape(speculative=True))]
            plain, speculative = await asyncio.gather(*engines)
            answers = await capture(plain, speculative)
            commands = [" ".join(engine.server.command.argv) for engine in (plain, speculative)]
    folder = PAGES / json.loads(answers["version"].body)["version"].partition("+")[0]
    write(folder, answers, provenance(answers, commands))
    return folder


def provenance(answers: dict[str, Recorded], commands: list[str]) -> dict[str, Any]:
    """Where the answers come from."""
    return {
        "vllm": json.loads(answers["version"].body)["version"],
        "recorded": datetime.now(UTC).date().isoformat(),
        "by": "python -m tests.contract.record",
        "engines": [without_folders(command.encode()).decode() for command in commands],
        "machine": f"{platform.system()} {platform.machine()}, CPU build of vLLM",
        "changed": "paths in the file system became <folder>; nothing else",
    }


def write(folder: Path, answers: dict[str, Recorded], source: dict[str, Any]) -> None:
    """One file per answer, and the two that speak of all of them. What was there before is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    index = {}
    for name, answer in answers.items():
        question = QUESTIONS[name]
        file = file_name(name, answer.kind)
        (folder / file).write_bytes(answer.body)
        asked = None if question.body is None else question.body.decode()
        index[name] = {
            "engine": question.engine,
            "request": [question.method, question.path, asked],
            "status": answer.status,
            "content_type": answer.kind,
            "file": file,
        }
    for name, document in (("answers", index), ("provenance", source)):
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if lacking := missing(Environment.of(os.environ)):
        sys.exit(lacking)
    try:
        print(f"recorded into {asyncio.run(record())}")
    except LaunchError as error:
        sys.exit(str(error))
