"""What the processes that tests start have in common with them: their end, also where pytest is killed."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def dies_with_us() -> Callable[[], None]:
    """A `preexec_fn`: the kernel kills the child when the thread that starts it ends, however that comes about.

    SIGKILL, because tests freeze processes, which end by nothing else. Workers of a router end by themselves where
    their supervisor is gone.
    """
    us, prctl = os.getpid(), ctypes.CDLL(None, use_errno=True).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != us:  # we have ended in between
            os.kill(os.getpid(), signal.SIGKILL)

    return bind
