"""Python's garbage collector, and when it need not look."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Import and compile without the garbage collector, which would look at every object again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:
                # What was made lives on, and there are no cycles among what did not: put among the old objects, it is
                # not looked at when the collector is switched on.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
