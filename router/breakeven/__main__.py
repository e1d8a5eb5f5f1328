"""Where the command line begins: nothing that takes long is imported before signals have been taken care of."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext

from breakeven.early_signals import held


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    with held() if list(words[:1]) == ["serve"] else nullcontext():
        from breakeven.command_line import main as run_command  # noqa: PLC0415  # most of a second

        return run_command(words)


if __name__ == "__main__":
    sys.exit(main())
