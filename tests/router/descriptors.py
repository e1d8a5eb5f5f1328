"""A process that has opened nearly all the descriptors that it may."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """As if all others were taken. Inside, closed ones may be opened again."""
    free = [os.dup(0) for _ in range(count + 1)]
    for descriptor in free:
        os.close(descriptor)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
