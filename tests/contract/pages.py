"""The recorded answers of real vLLM, and which release the tests compare with."""

import json
from pathlib import Path

from tests.contract.capture import Recorded

VERSION = "0.32.0"
"""The newest release with a CPU build. To try another one, record it (`record`) and change this number."""

PAGES = Path(__file__).resolve().parents[1] / "pages" / "vllm"


def recorded(version: str = VERSION) -> dict[str, Recorded]:
    """Every recorded answer of a release, by name. Raises FileNotFoundError where there are none."""
    folder = PAGES / version
    index = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return {
        name: Recorded(entry["status"], entry["content_type"], (folder / entry["file"]).read_bytes())
        for name, entry in index.items()
    }
