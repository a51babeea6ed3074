"""Closing, trimming: what executables and models have in common. Imports nothing that a run does not need."""

import functools
from typing import TYPE_CHECKING, Any, NoReturn, Self

from rlx._kernels import _interp
from rlx.errors import ExecutionError

if TYPE_CHECKING:
    from rlx.runtime.variant import Variant

# What can still be asked of a closed executable.
_ANSWERS = {"close", "closed", "graph", "memory_report", "name", "options", "signature", "variants"}


class LifeCycle:
    """Base of what holds programs, weights and scratch."""

    if TYPE_CHECKING:

        def _programs(self) -> "list[Variant]":
            """Every program, those of stages one by one."""
            ...

        def _what(self) -> str:
            """Whose life it is, for messages."""
            ...

        def _waiting(self) -> Any:
            """A lock if a call waits for the run in progress, else None."""
            ...

        def _let_go(self) -> None:
            """Drop programs, weights, scratch, state and the file."""
            ...

    def _hold(self, call: str) -> list[_interp.Guard]:
        """Keep runs out.

        Raises
        ------
        ExecutionError
            One is in progress.
        """
        held: list[_interp.Guard] = []
        for guard in {id(v.executor.guard): v.executor.guard for v in self._programs()}.values():
            if not guard.enter():
                for other in held:
                    other.leave()
                raise ExecutionError(f"{self._what()}: {call} must not be called during a run, got one in progress"
                                     "\nhint: cancel() stops it, or compile with CompileOptions(busy='wait')")
            held.append(guard)
        return held

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return isinstance(self, Closed)

    def close(self) -> None:
        """Give back programs, weights, scratch and the file; every later call but `close` raises.

        Results that have been handed out stay valid; clones live on.

        Raises
        ------
        ExecutionError
            A run is in progress on another thread; with ``CompileOptions(busy="wait")`` it is waited for.
        """
        lock = self._waiting()
        if lock is not None:
            with lock:
                self._close()
        else:
            self._close()

    def _close(self) -> None:
        if self.closed:
            return
        for guard in self._hold("close()"):
            guard.close()
        kind: Any = type(self)
        self.__class__ = _closed_class(kind)  # before what is needed goes, so that a call that begins now is told
        self._let_go()
        _interp.trim()

    def trim(self) -> int:
        """Give the memory that is only used during runs back to the system; the next run takes it again.

        Returns
        -------
        int
            Bytes of scratch and kept outputs given back.

        Raises
        ------
        ExecutionError
            A run is in progress on another thread; with ``CompileOptions(busy="wait")`` it is waited for.
        """
        lock = self._waiting()
        if lock is None:
            return self._trim()
        with lock:
            return self._trim()

    def _trim(self) -> int:
        from rlx._kernels import _pages

        held = self._hold("trim()")
        freed = 0
        try:
            seen: set[int] = set()
            for variant in self._programs():
                if variant.scratch.ctypes.data not in seen:
                    seen.add(variant.scratch.ctypes.data)
                    freed += _pages.release(variant.scratch)
                if variant.raw_outputs is not None:
                    freed += sum(a.nbytes for a in variant.raw_outputs)
                    variant.raw_outputs = None
        finally:
            for guard in held:
                guard.leave()
        _interp.trim()
        return freed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Closed:
    """Stands before the class of a closed executable: whatever needs what is gone raises."""

    def _gone(self, *args: Any, **more: Any) -> NoReturn:
        raise ExecutionError(f"{self._what()}: the executable has been closed, got a call")

    # Calls that were looked up before it was closed end here.
    _prepare = _run = _run_stateful = _state = __enter__ = __reduce__ = __deepcopy__ = _gone

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _ANSWERS and hasattr(type(self), name):
            raise ExecutionError(f"{self._what()}: the executable has been closed, got {name}")
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"<closed {self._what()}>"


@functools.cache
def _closed_class(kind: Any) -> Any:
    return type(f"Closed{kind.__name__}", (Closed, kind), {"__module__": kind.__module__})
