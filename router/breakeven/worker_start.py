"""Where a worker begins: `python -m breakeven.worker_start DESCRIPTOR`, the socket to its supervisor.

Nothing that takes long is imported before the signals that are not for it have been taken care of.
"""

import sys

from breakeven.early_signals import left_to_supervisor


def main(arguments: list[str]) -> None:
    """Be a worker on the socket of that descriptor."""
    left_to_supervisor()
    from breakeven.worker import main as run_worker  # noqa: PLC0415  # most of a second

    run_worker(int(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
