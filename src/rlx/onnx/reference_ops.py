"""ONNX ops without a function of our own: the `onnx` package's reference implementation, as custom ops.

Nothing here is loaded before a model has such an op; its row `onnx.<Op>` is registered then. The shape rule is ONNX
shape inference on the node alone. What that cannot tell is called on concrete values between compiled segments.
"""

import base64
import functools
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, shape_inference

from rlx import dtypes, ops
from rlx.custom import CustomOp
from rlx.errors import FormatError, TypeRuleError
from rlx.ir.opdef import Array, Attr, OpDef
from rlx.ir.types import TensorType, static_shape
from rlx.onnx.block import NodeDef
from rlx.onnx.context import NodeContext
from rlx.onnx.functions import with_attributes
from rlx.onnx.registry import Emit

# Reads and decodes files with a package that is no requirement.
REFUSED = frozenset({"ImageDecoder"})
_DOMAINS = {
    "": "onnx.reference.ops._op_list",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml._op_list",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training._op_list",
}


@functools.cache
def implemented(domain: str, name: str) -> bool:
    """Whether the reference implementation has an op."""
    import importlib

    if domain not in _DOMAINS or name in REFUSED:
        return False
    module = importlib.import_module(_DOMAINS[domain])
    return name in (module._registered_operators or module._build_registered_operators())


def find(node: NodeDef) -> Emit | None:
    """What emits a node through the reference implementation, None if that does not have it."""
    if not node.raw or node.blocks or not implemented(node.domain, node.op):
        return None
    return emit


def emit(n: NodeContext) -> Any:
    """A custom op where the types of the results are known, else a call between segments."""
    proto = with_attributes(NodeProto.FromString(n.node.raw), n.attributes())
    text, version = base64.b64encode(proto.SerializeToString()).decode(), n.opset
    if not any(n.on_host(i) for i in range(n.n_inputs) if n.has(i)):
        op = row(proto.op_type)
        types = [_type(n, i) for i in range(n.n_inputs)]
        try:
            op.infer(*types, node=text, opset=version)
        except TypeRuleError:
            pass
        else:
            values = [n.opt(i) for i in range(n.n_inputs)]
            return op(*values, graph=n.tracer.graph, node=text, opset=version)
    function = functools.partial(_run, node=text, opset=version)
    function.foreign = f"{n.node.place} runs in Python, between segments"  # type: ignore[attr-defined]
    return n.host(function)


def _type(n: NodeContext, i: int) -> TensorType | None:
    dtype = n.dtype(i) if n.has(i) else None
    return None if dtype is None else TensorType(dtype, n.shape(i))


def row(op_type: str) -> OpDef:
    """The registered op of an ONNX op, registered now if need be."""
    name = f"onnx.{op_type}"
    if name in ops.TABLE:
        return ops.TABLE[name]
    op = CustomOp(
        name, ("xs*",), _infer, _run, f"ONNX {op_type}, by the reference implementation of `onnx`.",
        attrs=(Attr("node", "str"), Attr("opset", "int")), dtypes=dtypes.ALL, traits=frozenset({"custom"}),
        internal=True, kernel=_run,
    )
    ops.TABLE[name] = op
    return op


def _parsed(node: str) -> NodeProto:
    proto = NodeProto()
    try:
        proto.ParseFromString(base64.b64decode(node, validate=True))
    except Exception as error:
        raise TypeRuleError(f"onnx: attribute 'node' must hold a node, got {node[:40]!r}") from error
    return proto


def _model(proto: NodeProto, opset: int, kinds: tuple[Any, ...]) -> Any:
    given = [(name, kind) for name, kind in zip(proto.input, kinds, strict=False) if name and kind is not None]
    inputs = {name: helper.make_tensor_value_info(name, kind[0], kind[1]) for name, kind in given}
    outputs = [helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.UNDEFINED, None))
               for name in proto.output if name]
    graph = helper.make_graph([proto], "node", list(inputs.values()), outputs)
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    opsets = {domain: opset} if domain == "" else {domain: opset, "": 21}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])


@functools.lru_cache(256)
def _inferred(node: str, opset: int, kinds: tuple[Any, ...]) -> tuple[TensorType, ...]:
    proto = _parsed(node)
    try:
        done = shape_inference.infer_shapes(_model(proto, opset, kinds), strict_mode=True)
    except Exception as error:
        raise TypeRuleError(f"onnx.{proto.op_type}: shape inference must succeed, got {error}") from None
    known = {v.name: v.type.tensor_type for v in (*done.graph.output, *done.graph.value_info)}
    found = []
    for name in proto.output:
        t = known.get(name)
        dtype = None if t is None else dtypes.from_onnx(t.elem_type)
        sizes = [] if t is None or not t.HasField("shape") else list(t.shape.dim)
        if t is None or dtype is None or not t.HasField("shape") or not all(d.HasField("dim_value") for d in sizes):
            raise TypeRuleError(f"onnx.{proto.op_type}: types of results must follow from those of the operands")
        found.append(TensorType(dtype, tuple(int(d.dim_value) for d in sizes)))
    return tuple(found)


def _infer(*types: TensorType | None, node: str, opset: int) -> tuple[TensorType, ...]:
    kinds = tuple(None if t is None else (t.dtype.onnx, static_shape(t.shape, "onnx")) for t in types)
    return _inferred(node, opset, kinds)


@functools.lru_cache(64)
def _evaluator(node: str, opset: int, kinds: tuple[Any, ...]) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(_model(_parsed(node), opset, kinds))


def _run(*arrays: Any, node: str, opset: int) -> tuple[Any, ...]:
    """The node on arrays."""
    proto = _parsed(node)
    kinds = tuple(None if a is None else _kind(a) for a in arrays)
    feeds = {name: a for name, a in zip(proto.input, arrays, strict=False) if name and a is not None}
    try:
        results = _evaluator(node, opset, kinds).run(None, feeds)
    except (RuntimeError, NotImplementedError) as error:
        raise FormatError(f"onnx.{proto.op_type}: the reference implementation failed: {error}") from error
    return tuple(np.asarray(r) if isinstance(r, np.generic) else r for r in results)


def _kind(array: Array) -> tuple[int, tuple[int, ...] | None]:
    return helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
