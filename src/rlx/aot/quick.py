"""An executable of a file before anything but `run` has been asked of it."""

import _thread
from collections.abc import Mapping
from typing import Any

from rlx._kernels import _interp
from rlx.aot.file import File, LoadedVariant, malformed
from rlx.forking import follow


class QuickGraph:
    """Runs the programs of a file; passes anything else on to a `LoadedGraph`, made when that is first needed.

    So a process that only runs a model never imports what compiles one.
    """

    def __init__(self, file: File, threads: int | None) -> None:
        state = file.state()
        self._whole: Any = None
        self._lock = _thread.RLock()
        self._file = file
        self._asked = threads
        self._direct: dict[Any, _interp.Executor] = {}
        with malformed(file.name):
            self._mapped = [LoadedVariant(file, i, file.threads(threads), state) for i in range(len(file.variants))]
            self._names = tuple(file.body["names"])
            self._static = bool(file.body["static"])
            ready = file.body["ready"] and file.body["quick"] and all(v.complete for v in self._mapped)
            for variant, spec in zip(self._mapped if ready else (), file.variants, strict=False):
                key = None if self._static else tuple(tuple(s) for s in spec["shapes"])
                self._direct[key] = variant.executor
        follow(self)

    def _after_fork(self) -> None:
        self._lock = _thread.RLock()
        for executor in self._direct.values():
            executor.abandon()

    def run(self, inputs: Mapping[str, Any] | None = None, *, threads: int | None = None, out: Any = None) -> Any:
        """Run once; see `CompiledGraph.run`."""
        if self._whole is None and threads is None and type(inputs) is dict:
            try:
                key = None if self._static else tuple([inputs[n].shape for n in self._names])
                return self._direct[key].run(inputs, 0, out)
            except (KeyError, AttributeError, MemoryError, OverflowError):
                pass  # the whole executable says what is wrong
        return self._complete().run(inputs, threads=threads, out=out)

    def _complete(self) -> Any:
        """The whole executable, over the same programs, weights and random numbers."""
        with self._lock:
            if self._whole is None:
                from rlx.aot.executable import LoadedGraph

                self._whole = LoadedGraph(self._file, self._asked, self._mapped)
                self._mapped, self._direct = [], {}
                del self._file  # which lives as long as what uses it
        return self._whole

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance(exe, CompiledGraph) holds
        return type(self._complete())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and "_whole" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._complete(), name)

    def __dir__(self) -> list[str]:
        return dir(self._complete())

    def __repr__(self) -> str:
        return repr(self._complete())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._complete().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._complete().clone()

    def __enter__(self) -> Any:
        return self._complete().__enter__()

    def __exit__(self, *error: object) -> None:
        self._complete().__exit__(*error)
