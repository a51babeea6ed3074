"""Variant: one compiled program with its scratch and its table of addresses."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx.errors import SizeError
from rlx.ir.opdef import Array
from rlx.ir.types import static_shape
from rlx.lower.program import Program
from rlx.options import RngOptions, machine_bytes
from rlx.runtime.binding import Helper, Wide, rows_of_param
from rlx.runtime.link import link
from rlx.runtime.weights import WeightStore, aligned

if TYPE_CHECKING:
    from rlx.compiler import Compiled

# Weights and nodes from which on the leftovers of compiling are worth giving back to the system.
TRIM_BYTES = 1 << 19
TRIM_NODES = 100


def settle(compiled: "Compiled") -> None:
    """Give back what compiling left over, where it is worth the time; passes leave no cycles for the collector."""
    program = compiled.program
    if sum(w.nbytes for w in program.weights) > TRIM_BYTES or len(program.nodes) > TRIM_NODES:
        _interp.trim()


def run_once(compiled: "Compiled", inputs: dict[str, Array]) -> dict[str, Array]:
    """Run a compiled graph once; used for constant folding."""
    variant = Variant(compiled, WeightStore(compiled.table), 1, "constants")
    variant.upload({})
    results = variant.executor.run(inputs, 1, None)
    return dict(results.items())


def check_memory(program: Program, name: str) -> None:
    """Refuse a program whose arena and outputs exceed the machine, before anything is allocated.

    Raises
    ------
    SizeError
        Tells the largest buffer.
    """
    outputs = [b for b in program.buffers if b.kind == "output"]
    need = program.arena_bytes + sum(b.nbytes for b in outputs)
    if need > machine_bytes():
        most = max((b.nbytes for b in program.buffers if b.kind in ("output", "scratch")), default=0)
        raise SizeError(f"graph {name!r}: a run must fit this machine's {machine_bytes():,} bytes, got {need:,} "
                        f"(the largest value has {most:,})")


def make_state(options: RngOptions) -> _interp.RunState:
    """Random state of a new stream."""
    return _interp.RunState(options.seed, 0, int(options.backend == "zero"))


class Variant:
    """One compiled program with its own table of addresses.

    Parameters
    ----------
    like : Variant, optional
        Shares its program and weights.
    wide : Wide, optional
        What may also be given at the size of a bucket.
    scratch : array, optional
        Used if it is large enough, by programs that never run at the same time.
    linked : _interp.Program, optional
        The thunks, if they are made already.
    params : mapping of name to shape, optional
        Shapes of parameters, if not those in the graph.
    """

    def __init__(
        self, compiled: "Compiled", store: WeightStore, threads: int, name: str, state: _interp.RunState | None = None,
        like: "Variant | None" = None, *, wide: Wide | None = None,
        scratch: Array | None = None, linked: _interp.Program | None = None,
        params: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.compiled = compiled
        self.store = store
        self.threads = threads
        self.name = name
        if linked is None:
            linked = link(compiled.program, compiled.table) if like is None else like.linked
        self.linked: _interp.Program = linked
        program = compiled.program
        ins = [(p.name, p.dtype.numpy, p.shape, program.input_slot(i)) for i, p in enumerate(program.inputs)]
        outs = [(p.name, p.dtype.numpy, p.shape, program.output_slot(i)) for i, p in enumerate(program.outputs)]
        self.helper = Helper(program.inputs, program.outputs, program.nodes, name, wide)
        self.executor = _interp.Executor(self.linked, ins, outs, self.helper, threads)
        self.executor.limit = program.max_threads
        self.executor.zero_denormals = program.zero_denormals
        self.executor.source = program
        if state is not None:
            self.executor.state = state
        check_memory(program, name)
        need = max(64, program.arena_bytes)
        self.scratch: Array = scratch if scratch is not None and scratch.nbytes >= need else aligned(need)
        self.executor.bind(0, self.scratch)
        if params is None:
            params = {v.node.name: static_shape(v.shape, v.name) for v in compiled.graph.params}
        self.params = params
        self.raw_outputs: list[Array] | None = None
        self.nan_check: Any = None  # run before the program, if set
        if like is None:
            compiled.release()
        # The largest first, each source let go at once: no two copies of all weights exist together.
        for i in sorted(range(len(program.weights)), key=lambda i: -program.weights[i].nbytes):
            weight = program.weights[i]
            if weight.param is None:
                slot = program.weight_slot(i)
                array = None if like is None else like.executor.bound(slot)
                if array is None:
                    assert weight.array is not None
                    array = store.shared(weight, store.get(weight, weight.array))
                    if weight.transform is not None and not compiled.shared:
                        weight.array = None
                self.executor.bind(slot, array)

    def upload(self, params: Mapping[str, Array]) -> None:
        """Bind every parameter to its array, packed where the program asks for it."""
        program = self.compiled.program
        for i, weight in enumerate(program.weights):
            if weight.param is not None:
                name = weight.param
                what = f"parameter {name!r} of graph {self.name!r}"
                axes = self.helper.wide.params.get(name, frozenset())
                array = rows_of_param(params[name], self.params[name], axes, what)
                self.executor.bind(program.weight_slot(i), self.store.get(weight, array))

    def kept_outputs(self) -> list[Array]:
        """Arrays for `run_raw`, allocated once."""
        if self.raw_outputs is None:
            self.raw_outputs = [np.empty(p.shape, p.dtype.numpy) for p in self.compiled.program.outputs]
        return self.raw_outputs

    def set_state(self, state: _interp.RunState) -> None:
        """Draw random numbers from `state`."""
        self.executor.state = state
