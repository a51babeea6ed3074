"""The interface of `onnx.backend.base.Backend`, for the ONNX project's test suite and its users."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper

from rlx.onnx.model import Model, load
from rlx.options import CompileOptions


class BackendRep:
    """A prepared model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        """Outputs in order, for inputs by name or by position."""
        declared = self.model.signature.inputs
        names = [k for k, t in declared.items() if not t.default]
        names += [k for k, t in declared.items() if t.default]
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        elif isinstance(inputs, Sequence):
            given = dict(zip(names, inputs, strict=False))
        else:
            given = {names[0]: inputs}
        return list(self.model.run(given))


def prepare(model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
    """Read a model.

    Raises
    ------
    FormatError
        It is malformed, or holds ops that cannot be imported.
    """
    return BackendRep(load(model, options=kwargs.get("options") or CompileOptions()))


def run_model(model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> list[Any]:
    """Read a model and run it once."""
    return prepare(model, device, **kwargs).run(inputs)


def run_node(node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> list[Any]:
    """Run one node; inputs by position of the operands that are given, or by name."""
    names = [n for n in node.input if n]
    given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    values = [helper.make_value_info(n, _type_of(given[n])) for n in names]
    outs = [helper.make_value_info(n, TypeProto()) for n in node.output if n]
    graph = helper.make_graph([node], "node", values, outs)
    version = kwargs.get("opset_version") or onnx.defs.onnx_opset_version()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
    return prepare(model, device).run(given)


def _type_of(value: Any) -> TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0] if value else np.zeros(0, np.float32)))
    array = np.asarray(value)
    code = onnx.TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(code, None)


def supports_device(device: str) -> bool:
    """Whether a device can be used: the CPU."""
    return device.split(":")[0].upper() == "CPU"


def is_compatible(model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
    """Whether a model can be tried."""
    return supports_device(device)
