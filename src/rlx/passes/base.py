"""What a pass is, and the manager that runs passes, verifies and reports."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rlx.errors import GraphError, PassError, RlxError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.ir.verify import verify
from rlx.records import record

PassFunction = Callable[..., Graph]


class Later:
    """A function of a module that is imported when the function is called."""

    __slots__ = ("_function", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self._function: PassFunction | None = None

    @property
    def function(self) -> PassFunction:
        """The function itself."""
        if self._function is None:
            import importlib

            self._function = getattr(importlib.import_module(self.module), self.name)
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Graph:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Later) and (self.module, self.name) == (other.module, other.name)

    def __hash__(self) -> int:
        return hash((self.module, self.name))


Evaluate = Callable[[Graph], dict[str, Array]]


@record(frozen=True)
class Pass:
    """A named function Graph -> Graph. It never changes the graph it is given.

    Attributes
    ----------
    name : str
        As in ``CompileOptions(disable=("fuse-matmul",))``.
    run : callable
        ``run(graph) -> Graph``; returns the very graph when there is nothing to do.
    required : bool
        Whether lowering needs it; such a pass cannot be switched off.
    evaluates : bool
        Whether it computes parts of the graph: it is then called as
        ``run(graph, evaluate=...)``, where `evaluate` compiles and runs a graph
        without inputs and returns its outputs by name.
    after : tuple of str
        Passes that must have run before it, where the pipeline has them.
    ops : frozenset of str
        If there are any: a graph that has none of these ops stays as it is, and the function is not called.
    """

    name: str
    run: PassFunction
    required: bool = False
    evaluates: bool = False
    after: tuple[str, ...] = ()
    ops: frozenset[str] = frozenset()

    @property
    def function(self) -> PassFunction:
        """What `run` is, imported if need be."""
        return self.run.function if isinstance(self.run, Later) else self.run

    @property
    def summary(self) -> str:
        """First line of what its function says about itself."""
        return (self.function.__doc__ or "").strip().split("\n")[0]


@record(eq=False)
class PassRecord:
    """What a pass did: nodes before and after, its time, and the ops that came and went."""

    name: str
    before: int
    after: int
    seconds: float
    changed: bool
    change: str = ""

    def __init__(self, name: str, before: int, after: int, seconds: float, changed: bool, change: str = "") -> None:
        self.name = name
        self.before = before
        self.after = after
        self.seconds = seconds
        self.changed = changed
        self.change = change

    def __str__(self) -> str:
        what = f"{self.before} -> {self.after} nodes ({self.change or 'rewritten'})" if self.changed else "no change"
        return f"{self.name}: {what}, {self.seconds * 1e3:.2f} ms"


def _census(graph: Graph) -> Counter[str]:
    return Counter([n.op.name for n in graph.nodes])


def _difference(before: Counter[str], after: Counter[str]) -> str:
    """What came and went, e.g. ``-1 add -1 matmul +1 fused_matmul``."""
    steps = [(after[name] - before[name], name) for name in {**before, **after}]
    return " ".join(f"{n:+d} {name}" for n, name in sorted(steps) if n)


def _skeleton(graph: Graph) -> list[tuple[int, ...]]:
    """Cheap to compare: differs when a pass has changed a graph in place."""
    return [(id(n), id(n.op), *map(id, n.inputs), *map(id, n.outputs)) for n in graph.nodes]


class PassManager:
    """Runs passes in order, checking the graph after each one when asked to.

    Parameters
    ----------
    passes : iterable of Pass
    disable : sequence of str
        Names of those to leave out; required ones stay.
    check : bool
        Verify the graph after every pass.
    evaluate : callable, optional
        For passes that compute parts of the graph; without it they are left out.
    """

    def __init__(self, passes: Iterable[Pass], *, disable: Sequence[str] = (), check: bool = False,
                 evaluate: Evaluate | None = None) -> None:
        self.passes = [p for p in passes
                       if (p.required or p.name not in disable) and not (p.evaluates and evaluate is None)]
        self.check = check
        self.evaluate = evaluate
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
        census = _census(graph)
        for p in self.passes:
            if p.ops and p.ops.isdisjoint(census):
                self.records.append(PassRecord(p.name, len(graph), len(graph), 0.0, False))
                continue
            start = time.perf_counter()
            after = self._apply(p, graph)
            elapsed = time.perf_counter() - start
            changed = after is not graph
            change = ""
            if changed:
                now = _census(after)
                change, census = _difference(census, now), now
            self.records.append(PassRecord(p.name, len(graph), len(after), elapsed, changed, change))
            if changed and graph is not given:
                graph.dismantle()
            graph = after
        return graph

    def _apply(self, p: Pass, graph: Graph) -> Graph:
        """The result of one pass."""
        before = _skeleton(graph) if self.check else None
        try:
            after = p.run(graph, evaluate=self.evaluate) if p.evaluates else p.run(graph)
            if not isinstance(after, Graph):
                raise TypeError(f"it must return a Graph, got {type(after).__name__}")
        except RlxError:
            raise
        except Exception as error:
            raise self._failed(p, graph, error) from error
        if self.check:
            try:
                verify(after)
                if _skeleton(graph) != before:
                    raise GraphError("it must not change the graph that it is given")
            except RlxError as error:
                raise self._failed(p, graph, error) from error
        return after

    def _failed(self, p: Pass, graph: Graph, error: Exception) -> PassError:
        done = [r.name for r in self.records] or "none"
        return PassError(f"pass {p.name!r} on graph {graph.name!r} failed: {error} (passes before: {done})")
