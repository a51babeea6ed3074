"""What this machine offers to a process: processors, memory."""

import functools
import operator
import os
from typing import Any

from rlx import config
from rlx.errors import ConfigError

# The pool has no more.
MAX_THREADS = 64


def available_cpus() -> int:
    """Processors that this process may use: affinity mask and cgroup quota."""
    try:
        n = len(os.sched_getaffinity(0))
    except AttributeError:
        n = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()[:2]
        if quota != "max":
            n = min(n, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return max(1, n)


@functools.cache
def machine_bytes() -> int:
    """Memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def default_threads() -> int:
    """`RLX_NUM_THREADS`, else `OMP_NUM_THREADS`, else what is available."""
    for name in ("RLX_NUM_THREADS", "OMP_NUM_THREADS"):
        wanted = config.positive_int(name)
        if wanted is not None:
            return min(wanted, MAX_THREADS)
    return min(available_cpus(), MAX_THREADS)


def as_int(value: Any) -> int | None:
    """The int that a value stands for: anything with `__index__` but a bool; None for others."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_count(name: str, value: Any) -> int:
    """An argument, called `name`, that counts something.

    Raises
    ------
    ConfigError
        It is not a positive int.
    """
    n = as_int(value)
    if n is None or n < 1:
        raise ConfigError(f"{name}: must be a positive int, got {value!r}")
    return n


def check_threads(threads: Any) -> int:
    """A thread count, at most what the pool has.

    Raises
    ------
    ConfigError
        It is not a positive int.
    """
    return min(check_count("threads", threads), MAX_THREADS)
