"""What a pass is, and the manager that runs passes, verifies and reports."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlx.errors import PassError, RlxError
from rlx.ir.graph import Graph
from rlx.ir.verify import verify

PassFunction = Callable[[Graph], Graph]


@dataclass(frozen=True)
class Pass:
    """A named function Graph -> Graph. It never changes the graph it is given.

    Attributes
    ----------
    name : str
        As in ``CompileOptions(disable=("fuse-matmul",))``.
    run : callable
    required : bool
        Whether lowering needs it; such a pass cannot be switched off.
    """

    name: str
    run: PassFunction
    required: bool = False


@dataclass(frozen=True)
class PassRecord:
    """What a pass did: nodes before and after, and its time."""

    name: str
    before: int
    after: int
    seconds: float
    changed: bool


class PassManager:
    """Runs passes in order, checking the graph after each one when asked to."""

    def __init__(self, passes: Sequence[Pass], *, disable: Sequence[str] = (), check: bool = False) -> None:
        self.passes = [p for p in passes if p.required or p.name not in disable]
        self.check = check
        self.records: list[PassRecord] = []

    def run(self, graph: Graph) -> Graph:
        """Apply all passes.

        Raises
        ------
        PassError
            A pass failed or left a malformed graph; names it and those before it.
        """
        collects = gc.isenabled()
        gc.disable()  # passes make many objects and no garbage worth looking for
        try:
            return self._run(graph)
        finally:
            if collects:
                gc.enable()

    def _run(self, graph: Graph) -> Graph:
        given = graph
        for p in self.passes:
            start = time.perf_counter()
            try:
                after = p.run(graph)
                if self.check:
                    verify(after)
            except RlxError:
                raise
            except Exception as error:
                done = [r.name for r in self.records] or "none"
                raise PassError(
                    f"pass {p.name!r} on graph {graph.name!r} failed: {error} (passes before: {done})"
                ) from error
            elapsed = time.perf_counter() - start
            changed = after is not graph
            self.records.append(PassRecord(p.name, len(graph), len(after), elapsed, changed))
            if changed and graph is not given:
                graph.dismantle()
            graph = after
        return graph
