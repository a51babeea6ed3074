"""`Model`: an ONNX file that can be run, and `load`."""

import os
from collections.abc import Mapping
from typing import Any

from rlx._kernels import _interp
from rlx.collector import collector_paused
from rlx.errors import FileError, FormatError, RlxError, UnsupportedOpError, file_error
from rlx.machine import check_threads
from rlx.onnx import registry
from rlx.onnx.block import Block, Reader, domain_of
from rlx.onnx.core import Core, Shared
from rlx.onnx.declared import Declared
from rlx.onnx.messages import File, Type, read_file
from rlx.onnx.planned import PlannedModel
from rlx.onnx.tensors import TensorReader, type_name
from rlx.options import CompileOptions, default_threads
from rlx.records import replace
from rlx.runtime.variant import make_state


def _declared(t: Type, default: bool = False) -> Declared:
    tensor = t.tensor_type or t.sparse_tensor_type
    if tensor is not None:
        shape = None
        if tensor.shape is not None:
            shape = tuple(d.dim_param or None if d.dim_value is None else d.dim_value for d in tensor.shape.dim)
        return Declared("tensor", type_name(tensor.elem_type), shape, default, tensor.elem_type)
    nested = t.sequence_type or t.optional_type
    if nested is not None:
        inner = _declared(nested.elem_type)
        kind = "sequence" if t.sequence_type else "optional"
        return Declared(kind, inner.dtype, inner.shape, default, inner.code, inner)
    if t.map_type is not None:
        return Declared("map", type_name(t.map_type.key_type), None, default)
    return Declared("tensor", "undeclared", None, default)


class Model(PlannedModel):
    """An ONNX model. Made by `rlx.load`.

    It is imported and compiled for each combination of input shapes, when that is
    first met; weights are shared among all of them. Sizes of ``CompileOptions(extents=...)`` and
    the lengths of caches are followed instead: few compilations serve all of them.
    """

    def __init__(
        self, proto: File, tensors: TensorReader, options: CompileOptions, threads: int | None, name: str
    ) -> None:
        if proto.graph is None:
            raise FormatError("ONNX: the file must be a serialised model with a graph, got none")
        opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
        standard = opsets.get("")
        opsets.setdefault("", 1)
        reader = Reader(tensors)
        functions = {(domain_of(f.domain), f.name, f.overload): reader.function(f) for f in proto.functions}
        block = reader.graph(proto.graph, opsets)
        check_supported(block, functions)
        read = {name for node in block.nodes for name in (*node.inputs, *node.captures)} | set(block.outputs)
        inputs = {
            v.name: _declared(v.type, v.name in block.initialisers or v.name not in read) for v in proto.graph.input
        }
        self._shared = Shared(functions, options, threads or options.threads or default_threads(), tensors, standard)
        super().__init__(
            proto.graph.name or name,
            Core(self._shared, block, tuple(inputs), declare=True, rng=make_state(options.rng)),
            options,
            inputs,
            {v.name: _declared(v.type) for v in proto.graph.output},
            {n: i for i, n in enumerate(block.outputs)},
            _metadata(proto),
        )
        core = self._core
        assert isinstance(core, Core)
        core.declared = inputs
        if options.extents:  # names that are no sizes of the file are refused here
            from rlx.onnx.sized import Sized

            core.followed = Sized(core, inputs, options.extents)

    def clone(self) -> "Model":
        """An independent model that shares weights, and nothing else; handles are forked."""
        core = self._core
        assert isinstance(core, Core)
        return self._over(core.twin())

    def dump_nodes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Every value of the main graph as it was imported, by name. Imports the model anew; for looking into it."""
        core = self._core
        assert isinstance(core, Core)
        found: dict[str, Any] = {}
        rng = _interp.RunState(core.rng.seed, core.rng.counter, core.rng.backend)
        again = Core(core.model, core.block, core.inputs, core.outer, core.frames, declare=True, rng=rng, dump=found)
        values = self._bind(self._given(inputs))
        again.results(again.plan(values), list(values), 1)
        return found


def check_supported(block: Block, functions: Mapping[tuple[str, str, str], Block]) -> None:
    """Look at every node of the file, subgraphs too.

    Raises
    ------
    UnsupportedOpError
        Lists all nodes whose op cannot be imported.
    """
    bad: list[str] = []
    stack = [block, *functions.values()]
    while stack:
        current = stack.pop()
        for node in current.nodes:
            stack += node.blocks
            if (node.domain, node.op, node.overload) in functions:
                continue
            if registry.find(node.domain, node.op, node.version) is not None:
                continue
            from rlx.onnx.functions import has_definition, in_reference

            if not (has_definition(node) or in_reference(node)):
                bad.append(f"  {node.place}: domain {node.domain or 'ai.onnx'!r}, opset {node.version}")
    if bad:
        raise UnsupportedOpError(f"ONNX: {len(bad)} node(s) cannot be imported:\n" + "\n".join(bad[:200])
                                 + "\nhint: rlx.register_op(..., onnx=[(domain, op, opset)]) first adds an op")


def _metadata(proto: File) -> dict[str, Any]:
    return {
        "producer": " ".join(p for p in (proto.producer_name, proto.producer_version) if p),
        "domain": proto.domain,
        "version": proto.model_version,
        "ir_version": proto.ir_version,
        "opsets": {o.domain or "ai.onnx": o.version for o in proto.opset_import},
        "graph": proto.graph.name if proto.graph else "",
        "doc": proto.doc_string,
        "properties": {p.key: p.value for p in proto.metadata_props},
    }


def load(source: Any, threads: int | None = None, options: CompileOptions | None = None) -> Model:
    """Read an ONNX model.

    Parameters
    ----------
    source : path, bytes or onnx.ModelProto
        External data is read from the folder of a path.
    threads : int, optional
        Threads of a run unless `run(threads=)` says otherwise.
    options : CompileOptions, optional

    Raises
    ------
    FileError
        The file does not exist (`MissingFileError`) or cannot be read.
    FormatError
        It is no ONNX model, or a malformed one.
    UnsupportedOpError
        It holds ops that cannot be imported; lists all of them.
    ConfigError
        The options have extents of sizes that the file does not name.
    """
    if threads is not None:
        threads = check_threads(threads)
    options = options or CompileOptions()
    if threads is not None:
        options = replace(options, threads=threads)
    if hasattr(source, "SerializeToString"):
        source = source.SerializeToString()
    if isinstance(source, (bytes, bytearray, memoryview)):
        tensors = TensorReader(memoryview(source).cast("B"), None)
        name = "model"
    else:
        path = os.fspath(source)
        tensors = TensorReader(memoryview(b""), os.path.dirname(path) or ".")
        try:
            if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait
                raise FileError(f"ONNX: the model must be a file, got {path!r}")
            tensors.buffer = tensors.map(path)
        except FileError:
            raise
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise file_error(f"ONNX: the model must be a readable file, got {path!r} ({reason})", error) from None
        name = os.path.splitext(os.path.basename(path))[0]
    try:
        with collector_paused():
            return Model(read_file(tensors.buffer), tensors, options, threads, name)
    except RlxError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise FormatError(f"ONNX: the file must be well formed, got {type(error).__name__}: {error}") from error
