"""Graphs with sizes that only a run can tell: compiled in stages.

A dynamic op (`nonzero`, `unique`, ...) has a static twin `<name>_bounded` that
gives its results at their largest size, and how much of them is real. The graph
is cut behind the dynamic ops that can run first: the part before is compiled as
any static graph; when it has run, the sizes are numbers, and the rest is bound
to them and compiled in turn. Every combination of sizes is compiled once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlx._kernels import _interp
from rlx.dtypes import of_array
from rlx.ir.dims import bind
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.opdef import Array
from rlx.lower.program import Port
from rlx.passes.cleanup import eliminate_dead
from rlx.passes.specialise import specialise
from rlx.runtime.binding import Helper, Wide
from rlx.runtime.cache import LRU, STAGES

if TYPE_CHECKING:
    from rlx.compiler import Compiled
    from rlx.runtime.variant import Variant

Make: TypeAlias = Callable[[Graph, Wide | None], "Variant | Staged"]


def is_dynamic(graph: Graph) -> bool:
    """Whether a node's result size depends on data."""
    return any(n.op.has("dynamic") for n in graph.nodes)


def _is_ready(node: Node) -> bool:
    """Whether a node can run before any unknown size is told."""
    if any(v is not None and not v.type.is_static for v in node.inputs):
        return False
    return node.op.has("dynamic") or all(v.type.is_static for v in node.outputs)


class Cut:
    """A graph cut in two.

    Attributes
    ----------
    first : Graph
        Static. Its outputs are `crossing`, then the counts of the dynamic nodes.
    rest : Graph
        Reads the crossing values as inputs; sizes in `sizes` are still symbols.
    crossing : list of str
        Names of the values that go from the first part to the rest.
    sizes : list of (str, str, int)
        Symbol, name of the output that holds it, and index there.
    """

    def __init__(self, graph: Graph) -> None:
        from rlx.ops import TABLE

        first = Rewriter(graph)
        done: set[int] = set()
        self.sizes: list[tuple[str, str, int]] = []
        counts: dict[str, Value] = {}
        for node in graph.nodes:
            if node.op.has("leaf"):
                first.copy(node)
                continue
            if not _is_ready(node) or any(
                v is not None and id(v.node) not in done and not v.node.op.has("leaf") for v in node.inputs
            ):
                continue
            done.add(id(node))
            if not node.op.has("dynamic"):
                first.copy(node)
                continue
            twin = TABLE[f"{node.op.name}_bounded"]
            made = first.emit(twin, [first.get(v) for v in node.inputs], node.attrs, node)
            for old, new in zip(node.outputs, made, strict=False):
                first.replace(old, new)
            label = f"{node.name}.counts"
            counts[label] = made[-1]
            self.sizes += [(symbol, label, i) for i, symbol in enumerate(node.fresh)]
        later = [n for n in graph.nodes if id(n) not in done and not n.op.has("leaf")]
        needed: dict[Value, None] = {}
        for v in (*(v for n in later for v in n.inputs if v is not None), *graph.outputs.values()):
            if id(v.node) in done or v.node.op.name == "input":
                needed[v] = None
        self.crossing = [v.name for v in needed]
        rest = Rewriter(graph)
        for v in needed:
            rest.replace(v, rest.graph.input(v.name, v.type.shape, v.type.dtype))
        for node in graph.nodes:
            if (node.op.has("leaf") and node.outputs[0] not in rest.map and node.op.name != "input") or (
                id(node) not in done and not node.op.has("leaf")
            ):
                rest.copy(node)
        self.rest = eliminate_dead(rest.finish())
        for v in needed:
            first.graph.output(v.name, first.map[v])
        for label, v in counts.items():
            first.graph.output(label, v)
        self.first = eliminate_dead(first.graph)
        self.crossing_types = {v.name: v.type for v in needed}


class Staged:
    """Runs a cut graph; looks like a `Variant` and its executor to `CompiledGraph`."""

    def __init__(self, graph: Graph, make: "Make", wide: Wide | None = None) -> None:
        self.graph = graph
        self.wide = wide
        self.make: Callable[[Graph], Variant | Staged] = lambda part: make(part, wide)
        self.cut = Cut(graph)
        self.first = self.make(self.cut.first)
        self.later: LRU[tuple[int, ...], Variant | Staged] = LRU(STAGES)
        self.params: Mapping[str, Array] = {}
        self.executor = self
        self.compiled: Compiled = self.first.compiled
        self.scratch: Array = self.first.scratch
        self.raw_outputs: list[Array] | None = None
        self.index = {name: i for i, name in enumerate(graph.outputs)}

    def upload(self, params: Mapping[str, Array]) -> None:
        """Bind parameters in every stage compiled so far, and in those to come."""
        self.params = params
        for stage in (self.first, *self.later.values()):
            stage.upload(params)

    def set_state(self, state: _interp.RunState) -> None:
        """Draw random numbers from `state`, in every stage."""
        for stage in (self.first, *self.later.values()):
            stage.set_state(state)

    @property
    def state(self) -> _interp.RunState:
        """What random ops draw from, in every stage."""
        return self.first.executor.state

    def cancel(self) -> None:
        """Stop a run in progress."""
        for stage in (self.first, *self.later.values()):
            stage.executor.cancel()

    def _rest(self, sizes: dict[str, int]) -> "Variant | Staged":
        key = tuple(sizes.values())
        stage = self.later.get(key)
        if stage is None:
            stage = self.make(specialise(self.cut.rest, sizes))
            stage.upload(self.params)
            self.later.put(key, stage)
        return stage

    def run(self, inputs: dict[str, Any], threads: int, out: Any) -> _interp.Outputs:
        """Run all stages; `out` arrays are filled at the end. For random numbers it is one run."""
        state = self.state
        before = state.counter
        try:
            results = self._run(inputs, threads, out, before)
        except BaseException:
            state.rewind(before)
            raise
        state.rewind(before + 1)
        return results

    def _run(self, inputs: dict[str, Any], threads: int, out: Any, number: int) -> _interp.Outputs:
        self._check(self.first, inputs)
        results = self.first.executor.run(inputs, threads, None)
        sizes = {symbol: int(results[label].reshape(-1)[i]) for symbol, label, i in self.cut.sizes}
        crossing: dict[str, Array] = {}
        for name in self.cut.crossing:
            array = results[name]
            shape = tuple(bind(d, sizes) for d in self.cut.crossing_types[name].shape)
            if array.shape != shape:
                array = np.ascontiguousarray(array[tuple(slice(0, n) for n in shape)])
            crossing[name] = array
        stage = self._rest(sizes)
        self._check(stage, crossing)
        self.state.rewind(number)
        final = stage.executor.run(crossing, threads, None)
        return _interp.Outputs(tuple(self._deliver(out, list(final))), self.index)

    def _check(self, stage: "Variant | Staged", inputs: dict[str, Any]) -> None:
        """Look for NaN, if that is asked for."""
        if not isinstance(stage, Staged) and stage.nan_check is not None:
            stage.nan_check.check(inputs, self.params, stage.executor.state)

    def _deliver(self, out: Any, arrays: list[Array]) -> list[Array]:
        if out is None:
            return arrays
        ports = [Port(name, of_array(array), array.shape) for name, array in zip(self.index, arrays, strict=True)]
        helper = Helper((), ports, (), self.graph.name)
        targets = [helper.out(i, out) for i in range(len(arrays))]
        for i, target in enumerate(targets):
            before = [t for t in targets[:i] if t is not None]
            if target is not None and any(np.may_share_memory(target, t) for t in before):
                helper.shared(i)
        for i, target in enumerate(targets):
            if target is not None:
                target[...] = arrays[i]
                arrays[i] = target
        return arrays
