"""Ends a server whose launcher was killed outright, where the kernel's own way is not enough.

    python guard.py GROUP GRACE_S < pipe

Linux can send a child SIGTERM when its parent dies (`launch`). vLLM does not end by that while it loads: seen with
0.32.0, where four processes and 3 GB stayed. So a guard waits beside such a server, in a session of its own, at a pipe
whose other end only the launcher holds. A word through the pipe: the server was ended in order. The end of it without
a word: the launcher is gone, and the process group is asked to end, then killed.

A script of the standard library alone, started by its path: it costs 9 MB and knows nothing of the rest.
"""

import os
import signal
import sys
from time import monotonic, sleep
from typing import BinaryIO

POLL_S = 0.1
"""How often the group is looked for while it has time to end; nobody waits for the guard."""

WORD = b"ended"


def signalled(group: int, number: int) -> bool:
    """Whether there was a group to signal; number 0 only looks."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return False
    return True


def end_group(group: int, grace_s: float) -> None:
    """SIGTERM, and SIGKILL for what is still there after the grace period."""
    signalled(group, signal.SIGTERM)
    deadline_s = monotonic() + grace_s
    while signalled(group, 0) and monotonic() < deadline_s:
        sleep(POLL_S)
    signalled(group, signal.SIGKILL)


def main(argv: list[str], launcher: BinaryIO) -> None:
    """Wait for the launcher's word or its end."""
    group, grace_s = int(argv[0]), float(argv[1])
    if launcher.read() != WORD:
        end_group(group, grace_s)


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer)
