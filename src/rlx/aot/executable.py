"""Executables of files: `CompiledGraph` over programs that have been mapped instead of compiled."""

import math
from collections.abc import Mapping
from typing import Any

from rlx.aot.file import File, LoadedVariant, malformed
from rlx.aot.proof import prove_weights
from rlx.aot.values import decode
from rlx.compiler import Compiled
from rlx.errors import BindingError, FormatError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array, Attr, OpDef
from rlx.ir.types import TensorType
from rlx.ops.parse import parse_graph, parse_type
from rlx.options import CompileOptions, RngOptions
from rlx.passes.precision import PrecisionPolicy
from rlx.records import replace
from rlx.runtime import kernels
from rlx.runtime.binding import Wide, fit
from rlx.runtime.executable import CompiledGraph
from rlx.runtime.staged import Staged
from rlx.runtime.variant import Variant


def _infer(*types: TensorType, given: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> Any:
    sizes = {str(d): n for old, new in zip(given, types, strict=True)
             for d, n in zip(old.shape, new.shape, strict=True) if isinstance(n, int) and not isinstance(d, int)}
    return tuple(t.bind(sizes) for t in results)


def _reference(*arrays: Array, **attrs: Any) -> Any:
    raise BindingError("a program of a file has no definition in terms of ops")


# What stands for a graph that a file does not hold: one node with the types of its inputs and results.
PROGRAM = OpDef("program", ("values*",), _infer, _reference, "A program of an ahead-of-time file.",
                attrs=(Attr("given", "any"), Attr("results", "any")), internal=True)


def is_interface(graph: Graph) -> bool:
    """Whether a graph only says what goes in and out."""
    return any(n.op is PROGRAM for n in graph.nodes)


def interface_body(graph: Graph) -> dict[str, Any]:
    """Names and types of inputs, parameters and outputs, for the manifest."""
    return {
        "inputs": [[v.node.name, str(v.type)] for v in graph.inputs],
        "params": [[v.node.name, str(v.type)] for v in graph.params],
        "outputs": [[name, str(v.type)] for name, v in graph.outputs.items()],
    }


def _interface(name: str, body: Any) -> Graph:
    """The graph that says what goes in and out."""
    graph = Graph(name)
    graph.track_source = False
    values = []
    for add, key in ((graph.input, "inputs"), (graph.param, "params")):
        for item, text in body[key]:
            kind = parse_type(text)
            values.append(add(item, kind.shape, kind.dtype))
    results = tuple(parse_type(text) for _, text in body["outputs"])
    made = graph.emit(PROGRAM, values, {"given": tuple(v.type for v in values), "results": results}, name="program")
    for (item, _), value in zip(body["outputs"], made, strict=True):
        graph.output(item, value)
    return graph


def read_graph(body: Any, file: File) -> Graph:
    """A graph that a file holds as text; every op's rules run.

    Raises
    ------
    FormatError
        The text is no graph.
    """
    with malformed(file.name):
        constants = {str(k): decode(v, file.container) for k, v in body["constants"].items()}
        try:
            graph = parse_graph(body["text"], constants)
        except FormatError as error:
            raise FormatError(f"{file.name}: {error}") from error
        graph.metadata = {str(k): str(v) for k, v in body["metadata"].items()}
        return graph


def read_options(file: File, threads: int | None) -> CompileOptions:
    """The options that the programs were compiled with."""
    with malformed(file.name):
        fields = {str(k): decode(v, file.container) for k, v in file.details["options"].items()}
        fields["rng"], fields["precision"] = RngOptions(**fields["rng"]), PrecisionPolicy(**fields["precision"])
        if threads is not None:
            fields["threads"] = threads
        options = CompileOptions(**fields)
        if file.variants and kernels.table(options.isa).level != file.level:
            options = replace(options, isa=file.level)  # what is packed or compiled here must fit what is there
        return options


def _nbytes(kind: TensorType, name: str) -> int:
    if not all(isinstance(d, int) for d in kind.shape):
        raise FormatError(f"{name}: parameters must have known sizes, got {kind}")
    return kind.dtype.itemsize * math.prod(int(d) for d in kind.shape)


class LoadedGraph(CompiledGraph):
    """An executable of an ahead-of-time file. Made by `rlx.load`.

    Sizes that the file has no program for are compiled when the file holds the
    graph (``save(portable=True)``), and refused when it does not.

    Parameters
    ----------
    mapped : list of LoadedVariant
        The programs that are to be used: those of the file, or none, to compile all from the graph.
    """

    def __init__(self, file: File, threads: int | None, mapped: list[LoadedVariant]) -> None:
        self._file = file
        body = file.body
        with malformed(file.name):
            holds_graph = body["graph"] is not None
            graph = read_graph(body["graph"], file) if holds_graph else _interface(file.title, body["interface"])
            options = read_options(file, threads)
            static = bool(body["static"])
            values = {str(k): None if v is None else decode(v, file.container) for k, v in body["params"].items()}
        for variant in mapped if not file.trusted else ():
            with malformed(file.name):
                sizes = {v.node.name: _nbytes(v.type, file.name) for v in graph.params}
                prove_weights(variant.compiled.program, sizes, variant.compiled.table, file.name)
        self._first = mapped[0] if mapped and static else None
        super().__init__(graph, options)
        self._rng = mapped[0].executor.state if mapped else file.state()
        if mapped and not static:
            for number, variant in enumerate(mapped):
                with malformed(file.name):
                    shapes = tuple(tuple(s) for s in file.variants[number]["shapes"])
                self._variants.put(((), shapes), self._variant_of(variant))
        for name, array in values.items():
            v = self._param(name)
            if array is not None:
                self._params[name] = fit(array, v.dtype, array.shape, f"{file.name}: parameter {name!r}")
        for made in self.variants():  # also those that were compiled from the graph just now
            made.set_state(self._rng)
        for made, variant in zip(self.variants(), mapped, strict=False):
            self._adopt(made, variant)
        if mapped and all(a is not None for a in self._params.values()):
            self._upload()

    def _make(self, graph: Graph, wide: Wide | None = None, ready: Compiled | None = None) -> Variant | Staged:
        first, self._first = self._first, None
        if first is not None:
            return self._variant_of(first, wide)
        if is_interface(graph):
            known = [spec["shapes"] for spec in self._file.variants]
            raise BindingError(f"graph {self.graph.name!r}: the file must have a program for these sizes or the graph,"
                               f" got programs for the input shapes {known}"
                               "\nhint: run with these shapes before save(), or save(portable=True)")
        return super()._make(graph, wide, ready)

    @property
    def capabilities(self) -> frozenset[str]:
        """What this executable can do; without the graph, extents are not among it."""
        return super().capabilities - ({"active_extent"} if is_interface(self.graph) else set())

    def _at(self, wanted: Mapping[str, int]) -> Variant | Staged:
        if is_interface(self.graph):
            raise BindingError(f"graph {self.graph.name!r}: fewer rows than those of the bucket need the graph, which"
                               " the file does not hold\nhint: save(path, portable=True)")
        return super()._at(wanted)

    def _variant_of(self, mapped: LoadedVariant, wide: Wide | None = None) -> Variant:
        """A program of the file as one of this executable."""
        like: Any = mapped
        return self._own(Variant(mapped.compiled, self._store, self._threads, self.graph.name, self._rng, like,
                                 wide=wide, scratch=self._scratch))

    def _adopt(self, made: Any, mapped: LoadedVariant) -> None:
        """Parameters need not be packed again: the file has both forms."""
        program = mapped.compiled.program
        for i, weight in enumerate(program.weights):
            source = None if weight.param is None else self._params[weight.param]
            packed = mapped.executor.bound(program.weight_slot(i))
            if source is not None and packed is not None and weight.transform is not None:
                self._store.adopt(weight, source, packed)
                made.executor.bind(program.weight_slot(i), packed)

    def clone(self) -> CompiledGraph:
        other = super().clone()
        if is_interface(self.graph):  # what is not in the file cannot be made again
            for key, variant in self._variants.items():
                if isinstance(variant, Variant):
                    twin = Variant(variant.compiled, other._store, variant.threads, variant.name, other._rng, variant,
                                   wide=variant.helper.wide, scratch=other._scratch)
                    other._variants.put(key, other._own(twin))
        return other

    def dump_nodes(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        if is_interface(self.graph):
            raise BindingError(f"graph {self.graph.name!r}: intermediate values need the graph, which the file does not"
                               " hold\nhint: save(path, portable=True)")
        return super().dump_nodes(inputs)


def load_executable(file: File, threads: int | None = None, trusted: bool = True) -> LoadedGraph:
    """The executable of a file; compiled from its graph when its programs are not to be trusted.

    Raises
    ------
    FormatError
        The file is malformed, or is not trusted and holds no graph.
    """
    if not trusted:
        if file.body["graph"] is None:
            raise FormatError(f"{file.name}: a file that is not trusted must hold its graph, to be compiled from it,"
                              " got none\nhint: save(path, portable=True)")
        return LoadedGraph(file, threads, [])
    state = file.state()
    mapped = [LoadedVariant(file, i, file.threads(threads), state) for i in range(len(file.variants))]
    return LoadedGraph(file, threads, mapped)
