"""Forks: a child must not inherit what another thread has half done, be it a run, a compilation or an import.

Objects with locks are followed (`follow`), and get new ones in a child.
Modules of rlx are imported when they are first used, in whatever thread uses them. Python does not reset the locks
of single modules in a child, so an import that another thread had in progress would block the child for ever.
"""

import _thread
import functools
import importlib
import os
import sys
import time
import weakref
from typing import Any, Protocol

# What rlx imports. Other packages may run for as long as they like while they are imported: not waited for.
_PACKAGES = sys.stdlib_module_names | {"rlx", "numpy", "scipy", "ml_dtypes"}
_PATIENCE = 5.0  # seconds; an import may itself wait for something that the forking thread holds

# Weak references by module name; an entry lives as long as a thread waits for the lock, takes it or holds it.
_locks: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})


class Forked(Protocol):
    """What has locks of its own, or runs that other threads may have in progress."""

    def _after_fork(self) -> None:
        """In a child: other threads do not exist here."""


_followed: "weakref.WeakSet[Any]" = weakref.WeakSet()


def follow(item: Forked) -> None:
    """Call `item._after_fork()` in every child for as long as the item lives."""
    _followed.add(item)


def _foreign() -> list[str]:
    """Modules that other threads are importing."""
    me = _thread.get_ident()
    names = []
    for name, ref in list(_locks.items()):
        lock = ref()
        if lock is not None and getattr(lock, "owner", me) != me and name.partition(".")[0] in _PACKAGES:
            names.append(name)
    return names


def _before_fork() -> None:
    """Wait until no other thread imports a module that rlx may need in the child."""
    if not _foreign():
        return
    end = time.monotonic() + _PATIENCE
    while _foreign() and time.monotonic() < end:
        time.sleep(0.0005)


def _after_fork() -> None:
    """In a child: renew the locks of what is followed; forget imports that began after the wait, to begin anew."""
    for name in _foreign():
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            del sys.modules[name]
        _locks.pop(name, None)
    if sys.version_info < (3, 12):
        _renew_properties()
    for item in list(_followed):
        item._after_fork()


def _renew_properties() -> None:
    """Give cached properties new locks: in Python 3.11 each has one for all objects."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "rlx":
            for cls in list(vars(module).values()):
                if isinstance(cls, type) and cls.__module__ == name:
                    for part in vars(cls).values():
                        if isinstance(part, functools.cached_property):
                            vars(part)["lock"] = _thread.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
