"""What a model tells about itself: signature, types, kernels, memory, times. Works without the package `onnx`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx._kernels import _interp
from rlx.errors import BindingError
from rlx.onnx.declared import Declared, ModelSignature
from rlx.onnx.plans import Plans
from rlx.onnx.steps import Segment
from rlx.records import record
from rlx.runtime.lifecycle import LifeCycle
from rlx.runtime.stateful import Stateful

if TYPE_CHECKING:
    from rlx.compiler import Compiled
    from rlx.ir.graph import Graph
    from rlx.onnx.caches import CacheRuns
    from rlx.options import CompileOptions
    from rlx.runtime.dispatch import DispatchReport
    from rlx.runtime.manifest import IoDtypeManifest
    from rlx.runtime.report import Explanation, MemoryReport, Profile
    from rlx.runtime.state import Handles
    from rlx.runtime.variant import Variant


@record(frozen=True)
class Explanations:
    """One explanation per compiled segment, and the nodes between them that run foreign code."""

    segments: "Sequence[Explanation]"
    foreign: "Sequence[str]" = ()

    def __str__(self) -> str:
        return "\n\n".join([*self.foreign, *map(str, self.segments)])

    def _repr_html_(self) -> str:
        return "".join(s._repr_html_() for s in self.segments)


class Reported(Stateful, LifeCycle):
    """Reports of a model that has been imported."""

    name: str
    _core: Plans
    _inputs: dict[str, Declared]
    _outputs: dict[str, Declared]
    _metadata: dict[str, Any]
    _handles: "Handles | None"
    _cache_runs: "CacheRuns | None"

    if TYPE_CHECKING:

        def run(self, inputs: Mapping[str, Any] | None = None) -> _interp.Outputs:
            """Run once."""
            ...

        @property
        def _grows(self) -> bool:
            """Whether a cache without a length of its own is in use."""
            ...

        def _bind(self, inputs: Mapping[str, Any]) -> list[Any]:
            """Values of all inputs, checked."""
            ...

        def _all_options(self) -> "CompileOptions":
            """Options, those in use."""
            ...

    @property
    def signature(self) -> ModelSignature:
        """Names, element types and shapes of inputs and outputs, as the file declares them."""
        return ModelSignature(dict(self._inputs), dict(self._outputs))

    @property
    def io_manifest(self) -> "IoDtypeManifest":
        """Element types of the inputs and outputs that are tensors of a type of rlx."""
        from rlx.runtime.manifest import IoDtypeManifest

        def types(declared: Mapping[str, Declared]) -> dict[str, dtypes.DType]:
            codes = {n: dtypes.from_onnx(t.code) for n, t in declared.items() if t.kind == "tensor"}
            return {n: d for n, d in codes.items() if d is not None}

        return IoDtypeManifest(types(self._inputs), {}, types(self._outputs))

    @property
    def metadata(self) -> dict[str, Any]:
        """Producer, opsets, metadata properties and documentation of the file."""
        return dict(self._metadata)

    def _variants(self) -> "list[Variant]":
        found = self._programs()
        if not self._core.plans and not found:
            raise BindingError(
                f"model {self.name!r}: must have been run before this report\nhint: run it once, or pass inputs"
            )
        return found

    def explain(self) -> "Explanations":
        """Which passes fired and which kernels run, per compiled segment."""
        from rlx.runtime.report import explain
        from rlx.runtime.settings import active_options

        given = self._all_options()
        options, halves = active_options(given), given.precision.storage.is_half
        return Explanations([explain(v.compiled, (), options, halves) for v in self._variants()], self._core.foreign())

    def dispatch(self) -> "list[DispatchReport]":
        """Which kernel does each node's work, per compiled segment."""
        from rlx.runtime.dispatch import DispatchReport

        return [DispatchReport.of(v.compiled) for v in self._variants()]

    def memory_report(self) -> "MemoryReport":
        """Bytes of weights and arenas of all compiled shapes."""
        from rlx.runtime.report import memory_of

        return memory_of(self.name, self._programs() if self.closed else self._variants())

    def profile(self, inputs: Mapping[str, Any], *, repeat: int = 10) -> "Profile":
        """Time of every kernel call, averaged over `repeat` runs."""
        from rlx.machine import check_count
        from rlx.runtime.report import Profile

        repeat = check_count("repeat", repeat)
        before = self.fork() if self._grows else None  # a longer cache is another program
        self.run(inputs)
        variants = self._path(inputs)
        spent = [np.zeros(len(v.linked), np.int64) for v in variants]
        try:
            for v, s in zip(variants, spent, strict=True):
                v.executor.spent = s
            for _ in range(repeat):
                if before is not None:
                    self.restore(before)
                self.run(inputs)
        finally:
            for v in variants:
                v.executor.spent = None
        rows = [
            r for v, s in zip(variants, spent, strict=True) for r in Profile.of(v.compiled, s / repeat).rows
        ]
        return Profile(rows)

    def dump_nodes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Every value of the main graph as it was imported, by name.

        Raises
        ------
        BindingError
            The model comes from an ahead-of-time file, which holds programs and no graph.
        """
        raise BindingError(f"model {self.name!r}: values of nodes can be told where the graph is, got an ahead-of-time"
                           " file\nhint: load the ONNX file it was made of")

    def _path(self, inputs: Mapping[str, Any]) -> "list[Variant]":
        """Variants that a run with these inputs goes through; it has been run."""
        if self._grows and self._cache_runs is not None and self._cache_runs.used is not None:
            return [self._cache_runs.used]
        if self._handles is not None:
            inputs = self._handles.feed(dict(inputs))
        values = self._bind(inputs)
        step = self._core.plan(values)
        found: list[Variant] = []
        outcome: Any = None
        while (child := step.children.get(outcome)) is not None:
            step = child
            if isinstance(step, Segment):
                found.append(step.variant)
            outcome = step.run(values, 0) if step.children else None
        return found

    def compiled_for(self, inputs: Mapping[str, Any]) -> "list[Compiled]":
        """What a run with these inputs goes through, in order: graphs after passes, and their programs.

        The model is run once with them.
        """
        self.run(inputs)
        return [v.compiled for v in self._path(inputs)]

    def graph_for(self, inputs: Mapping[str, Any]) -> "Graph":
        """The graph that inputs of these shapes run, after passes; of a model in stages the largest.

        The model is run once with them.
        """
        return max((c.graph for c in self.compiled_for(inputs)), key=len)

    def __repr__(self) -> str:
        ins = ", ".join(f"{k}: {t}" for k, t in self._inputs.items())
        outs = ", ".join(f"{k}: {t}" for k, t in self._outputs.items())
        return f"Model({self.name!r}, ({ins}) -> ({outs}))"

    def _repr_html_(self) -> str:
        return f"<b>{self.name}</b>" + self.signature._repr_html_()
