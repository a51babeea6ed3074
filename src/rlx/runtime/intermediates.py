"""Every intermediate value of a graph as written, and the check for NaN and infinities that looks at them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx.compiler import compile_static
from rlx.errors import ExecutionError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.options import CompileOptions
from rlx.passes.specialise import specialise
from rlx.records import record
from rlx.runtime.variant import Variant
from rlx.runtime.weights import WeightStore

if TYPE_CHECKING:
    from rlx.runtime.binding import Wide


class Intermediates:
    """A graph compiled node by node, with every value an output.

    Parameters
    ----------
    graph : Graph
        Every size is a number.
    isa : str, optional
    wide : Wide, optional
        What may be given at the size of a bucket.
    """

    def __init__(self, graph: Graph, isa: str | None, wide: "Wide | None" = None) -> None:
        full = specialise(graph, {})
        full.outputs = {v.name: v for n in full.nodes if not n.op.has("leaf") for v in n.outputs}
        self.variant: Variant | None = None
        if full.outputs:
            options = CompileOptions(threads=1, optimize=False, isa=isa, disable=(), nan_check=False, check=False)
            compiled = compile_static(full, options)
            self.variant = Variant(compiled, WeightStore(compiled.table), 1, graph.name, wide=wide)

    def run(self, inputs: Mapping[str, Any], params: Mapping[str, Array], state: _interp.RunState) -> dict[str, Array]:
        """All values by name. The random numbers' state is read, not moved on."""
        if self.variant is None:
            return {}
        self.variant.upload(params)
        self.variant.set_state(_interp.RunState(state.seed, state.counter, state.backend))
        return dict(self.variant.executor.run(dict(inputs), 1, None).items())


@record(frozen=True)
class _Made:
    """What a node makes of what, by names; constants count as operands by whether they are finite."""

    place: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    clean: bool


class NanCheck:
    """Finds the first node, in the order of the graph, that makes a NaN or an infinity of finite operands."""

    def __init__(self, graph: Graph, isa: str | None, wide: "Wide | None" = None) -> None:
        self.nodes = []
        for node in graph.nodes:
            if node.op.has("leaf"):
                continue
            constants = [v.array for v in node.inputs if v is not None and v.array is not None]
            names = tuple(v.name for v in node.inputs if v is not None and v.array is None)
            self.nodes.append(_Made(node.place, names, tuple(v.name for v in node.outputs),
                                    all(_bad(a) is None for a in constants)))
        self.values = Intermediates(graph, isa, wide)

    def check(self, inputs: Mapping[str, Any], params: Mapping[str, Array], state: _interp.RunState) -> None:
        """Run node by node.

        Raises
        ------
        ExecutionError
            Names the node, its op, and the first element.
        """
        given = {name: np.asarray(a) for name, a in inputs.items()}
        values = {**given, **params, **self.values.run(inputs, params, state)}
        for node in self.nodes:
            for name in node.outputs:
                at = _bad(values[name])
                if at is None or not node.clean or any(_bad(values[i]) is not None for i in node.inputs if i in values):
                    continue
                where = np.unravel_index(at, values[name].shape)
                raise ExecutionError(f"{node.place}: values must be finite where those of the operands are, got"
                                     f" {values[name].reshape(-1)[at]} at {[int(i) for i in where]} of {name!r}")


class NodeDump(NanCheck):
    """Keeps the values of the nodes instead of looking at them."""

    def __init__(self, graph: Graph, isa: str | None, into: dict[str, Array]) -> None:
        self.nodes = []
        self.into = into
        self.values = Intermediates(graph, isa)

    def check(self, inputs: Mapping[str, Any], params: Mapping[str, Array], state: _interp.RunState) -> None:
        """Run node by node."""
        self.into.update(self.values.run(inputs, params, state))


def _bad(array: Array) -> int | None:
    """Flat place of the first NaN or infinity, None if there is none."""
    if array.dtype.kind not in "fcV" or not array.size:
        return None
    wide = array if array.dtype.kind in "fc" and array.dtype.itemsize >= 4 else array.astype(np.float32)
    finite = np.isfinite(wide).reshape(-1)
    return None if finite.all() else int(finite.argmin())
