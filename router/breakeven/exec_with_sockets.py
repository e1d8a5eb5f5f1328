"""Becomes a command that finds the listening sockets of whoever started us where sd_listen_fds(3) says.

    python -m breakeven.exec_with_sockets NAME:NAME... DESCRIPTOR,DESCRIPTOR... COMMAND ARGUMENT...

The last descriptor has no name: there the command says that it is ready. This is a process of its own because the
protocol wants the number of the process that reads it, which only that process knows before it becomes the command.
"""

import fcntl
import os
import sys
from collections.abc import Sequence

from breakeven.listen_fds import FIRST, variables_for


def place(descriptors: Sequence[int], first: int) -> None:
    """Move these to `first` and on, in this order, whatever numbers they have now."""
    above = first + len(descriptors)  # where no move can hit one that is still to be moved
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for index, descriptor in enumerate(moved):
        os.dup2(descriptor, first + index)
        os.close(descriptor)


def main(arguments: Sequence[str]) -> None:
    """Become the command, or exit with one line that says why not."""
    names, descriptors, *command = arguments
    place([int(descriptor) for descriptor in descriptors.split(",")], FIRST)
    os.environ.update(variables_for(names.split(":"), os.getpid()))
    try:
        os.execvp(command[0], command)  # noqa: S606  # the command by which the router was started
    except OSError as error:
        sys.exit(f"breakeven: cannot run {command[0]}: {os.strerror(error.errno or 0).lower()}")


if __name__ == "__main__":
    main(sys.argv[1:])
