"""Questions that a child of this process answers."""

import os
import signal
from collections.abc import Callable


def true_in_child(ask: Callable[[], bool], seconds: int = 60) -> bool:
    """Whether a function is true in a forked child; false if it raises there or takes too long."""
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        code = 1
        try:
            code = 0 if ask() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0
