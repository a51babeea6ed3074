"""Plans by input shapes for one graph of a file, and what runs them."""

import _thread
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx.collector import collector_paused
from rlx.compiler import compile_static
from rlx.errors import ExecutionError, FormatError
from rlx.ir.graph import Graph
from rlx.onnx.block import Block
from rlx.onnx.plans import ABSENT, Plans
from rlx.onnx.scope import Frame, Scope
from rlx.onnx.steps import Finish, Segment, Slot, Step
from rlx.onnx.tracer import Tracer
from rlx.options import CompileOptions
from rlx.runtime.variant import Variant, settle
from rlx.runtime.verbose import tell
from rlx.runtime.weights import WeightStore

if TYPE_CHECKING:
    from rlx.onnx.declared import Declared
    from rlx.onnx.sized import Sized
    from rlx.onnx.tensors import TensorReader


class Shared:
    """What all graphs of one file share: functions, weights, options."""

    def __init__(
        self,
        functions: Mapping[tuple[str, str, str], Block],
        options: CompileOptions,
        threads: int,
        tensors: "TensorReader",
        opset: int | None,
    ) -> None:
        self.functions = functions
        self.options = options
        self.threads = threads
        self.tensors = tensors
        self.opset = opset
        self.store: WeightStore | None = None
        self.lock = _thread.RLock()


class Core(Plans):
    """A graph that can be called with any shapes.

    Parameters
    ----------
    model : Shared
    block : Block
    inputs : sequence of str
        Names in the order of the values of a call.
    outer : Scope, optional
        Constants of enclosing graphs.
    dump : dict, optional
        Where every run puts the values of all nodes.
    """

    def __init__(
        self,
        model: Shared,
        block: Block,
        inputs: Sequence[str],
        outer: Scope | None = None,
        frames: Sequence[Frame] = (),
        *,
        declare: bool = False,
        rng: _interp.RunState | None = None,
        dump: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(block.name or "graph")
        if rng is not None:
            self.rng = rng
        self.model = model
        self.block = block
        self.inputs = tuple(inputs)
        self.outer = outer
        self.frames = tuple(frames)
        self.declare = declare
        self.declared: Mapping[str, Declared] | None = None  # inputs of a main graph
        self.followed: Sized | None = None  # as `sized`, once it has been made
        self.dump = dump

    def twin(self) -> "Core":
        """Plans of the same graph for another model, which runs at the same time."""
        rng = _interp.RunState(self.rng.seed, self.rng.counter, self.rng.backend)
        other = self._twin(rng)
        other.declared = self.declared
        return other

    def _twin(self, rng: _interp.RunState) -> "Core":
        return Core(self.model, self.block, self.inputs, self.outer, self.frames, declare=self.declare, rng=rng)

    @property
    def sized(self) -> "Sized | None":
        """Of a main graph: programs by the sizes of its inputs."""
        if self.followed is None and self.declared is not None:
            from rlx.onnx.sized import Sized

            with self.model.lock:
                if self.followed is None:
                    self.followed = Sized(self, self.declared, self.model.options.extents)
        return self.followed

    def foreign(self) -> list[str]:
        """As of plans, and why sizes are not followed."""
        reason = "" if self.followed is None else self.followed.reason
        return super().foreign() + ([f"sizes are not followed: {reason}"] if reason else [])

    def weights(self, table: Any) -> WeightStore:
        """Where weights are kept, shared by all programs of the file."""
        if self.model.store is None:
            self.model.store = WeightStore(table, self.model.tensors.discard)
        return self.model.store

    def compile(self, graph: Graph) -> Variant:
        """Compile a segment; weights are shared with all others of the file."""
        isa, check = self.model.options.isa, None
        if self.dump is not None or self.model.options.nan_check:
            from rlx.runtime.intermediates import NanCheck, NodeDump

            check = NanCheck(graph, isa) if self.dump is None else NodeDump(graph, isa, self.dump)
        compiled = compile_static(graph, self.model.options)
        variant = Variant(compiled, self.weights(compiled.table), self.model.threads, self.name, self.rng)
        variant.upload({})
        variant.nan_check = check
        tell(compiled)
        if compiled.owned:
            graph.dismantle()
        self.model.tensors.release_pages()
        return variant

    def settle(self) -> None:
        """Give back what importing and compiling left over."""
        largest = max(
            (s.variant.compiled for s in self.segments() if isinstance(s, Segment)),
            key=lambda c: len(c.program.nodes),
            default=None,
        )
        if largest is not None:
            settle(largest)

    def extend(self, root: Step, values: list[Any], done: int, threads: int) -> Step:
        """Import what follows, along with this run.

        Raises
        ------
        ExecutionError, FormatError
            It takes too much memory, or is nested too deep.
        """
        try:
            with self.model.lock, collector_paused():
                if not done and not root.children and (step := self._at_sizes(root, values)) is not None:
                    return step
                child = self.trace(root, values, done, threads)
                self.settle()
        except (MemoryError, OverflowError) as error:
            raise ExecutionError(f"graph {self.name!r}: sizes must fit the memory, got {error}") from None
        except RecursionError:
            raise FormatError(f"graph {self.name!r}: graphs and functions are nested too deep") from None
        return child

    def _at_sizes(self, root: Step, values: list[Any]) -> Step | None:
        """The plan of a program that follows sizes; None if there is none."""
        if not self.model.options.extents or (sized := self.sized) is None:
            return None
        given = {n: v for n, v in zip(self.inputs, values, strict=False) if v is not ABSENT}
        if not all(isinstance(v, np.ndarray) for v in given.values()):
            return None
        shapes = {n: v.shape for n, v in given.items()}
        variant = sized.variant(shapes, {}, 0)
        if variant is None:
            return None
        places, first = {n: i for i, n in enumerate(self.inputs)}, len(self.inputs)
        program = variant.compiled.program
        step = Segment(variant, [(p.name, (places[p.name], None)) for p in program.inputs], first,
                       self.model.options.poison)
        step.direct, step.again = True, functools.partial(sized.ordinary, shapes)
        results = range(first, first + len(program.outputs))
        step.add(None, Finish([Slot(i, "", None, None) for i in results], set(results)))
        root.add(None, step)
        return step

    def trace(self, root: Step, values: list[Any], done: int, threads: int) -> Finish:
        """Import the graph along a run that has executed `done` steps of its plan."""
        tracer = Tracer(self, root, values, done, threads)
        tracer.frames = list(self.frames)
        scope = Scope(self.outer, dict(self.block.initialisers))
        for name, value in zip(self.inputs, values[: len(self.inputs)], strict=True):
            slot = tracer.slot(value, name)
            if value is ABSENT:
                continue
            scope.items[name] = slot
            if self.declare and getattr(slot, "type", None) is not None:
                tracer.value(slot)
        return self._finish(tracer, scope)

    def _finish(self, tracer: Tracer, scope: Scope) -> Finish:
        tracer.walk(self.block, scope)
        tracer.scopes.append(scope)
        items = tracer.results(self.block, scope)
        tracer.scopes.pop()
        return tracer.finish(self.block.outputs, items)
