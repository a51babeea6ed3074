"""Variant: one compiled program with its own scratch and table of addresses."""

from collections.abc import Mapping

from rlx._kernels import _interp
from rlx.compiler import Compiled
from rlx.ir.opdef import Array
from rlx.runtime.binding import Helper
from rlx.runtime.link import link
from rlx.runtime.weights import WeightStore, aligned


def run_once(compiled: Compiled, inputs: dict[str, Array]) -> dict[str, Array]:
    """Run a compiled graph once; used for constant folding."""
    variant = Variant(compiled, WeightStore(compiled.table), 1, "constants")
    variant.upload({})
    results = variant.executor.run(inputs, 1, None)
    return dict(results.items())


class Variant:
    """One compiled program with its own scratch and table of addresses."""

    def __init__(
        self, compiled: Compiled, store: WeightStore, threads: int, name: str, state: _interp.RunState | None = None,
    ) -> None:
        self.compiled = compiled
        self.store = store
        self.linked = link(compiled.program, compiled.table)
        self.threads = threads
        self.name = name
        program = compiled.program
        ins = [(p.name, p.dtype.numpy, p.shape, program.input_slot(i)) for i, p in enumerate(program.inputs)]
        outs = [(p.name, p.dtype.numpy, p.shape, program.output_slot(i)) for i, p in enumerate(program.outputs)]
        self.helper = Helper(program.inputs, program.outputs, program.nodes, name)
        self.executor = _interp.Executor(self.linked, ins, outs, self.helper, threads)
        if state is not None:
            self.executor.state = state
        self.scratch = aligned(max(64, program.arena_bytes))
        self.executor.bind(0, self.scratch)
        self.raw_outputs: list[Array] | None = None

    def upload(self, params: Mapping[str, Array]) -> None:
        """Bind every weight to its array, packed where the program asks for it."""
        program = self.compiled.program
        for i, weight in enumerate(program.weights):
            source = params[weight.param] if weight.param is not None else weight.array
            assert source is not None
            self.executor.bind(program.weight_slot(i), self.store.get(weight, source))

    def set_state(self, state: _interp.RunState) -> None:
        """Draw random numbers from `state`."""
        self.executor.state = state
