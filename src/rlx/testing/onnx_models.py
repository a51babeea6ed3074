"""Small ONNX models for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import rlx
from rlx.onnx import Model


def info(name: str, like: Any = None, shape: Any = None) -> onnx.ValueInfoProto:
    """A declared value; of no type without `like`."""
    if like is None:
        return helper.make_empty_tensor_value_info(name)
    array = np.asarray(like)
    code = onnx.TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, code, shape if shape is not None else [None] * array.ndim)


def proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 18,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model of nodes."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [info(k, v) for k, v in inputs.items()],
        [info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 18,
    **more: Any,
) -> Model:
    """A loaded model of nodes."""
    loaded = rlx.load(proto(nodes, inputs, outputs, constants, opset, **more).SerializeToString(), threads=1)
    assert isinstance(loaded, Model)
    return loaded


def run(
    op: str,
    *inputs: Any,
    opset: int = 18,
    outputs: int = 1,
    constant: Sequence[int] = (),
    domain: str = "",
    **attrs: Any,
) -> Any:
    """Results of one node; operands whose numbers are in `constant` are initialisers, None is an absent one."""
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    given = {f"x{i}": np.asarray(v) for i, v in enumerate(inputs) if v is not None and i not in constant}
    held = {f"x{i}": np.asarray(v) for i, v in enumerate(inputs) if v is not None and i in constant}
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, outs, domain=domain, **attrs)
    loaded = model([node], given, outs, held, opset, domains=[domain] if domain else [])
    first = loaded.run(given)
    again = loaded.run(given)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    return first[0] if outputs == 1 else list(first)
