"""Registered ops that say what ONNX files call them."""

from typing import Any

import numpy as np

from rlx.custom import CustomOp
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import Emit


def emitter(op: CustomOp) -> Emit:
    """The function that emits a node as a registered op."""

    def emit(n: NodeContext) -> Any:
        attrs = {name: _plain(name, value) for name, value in n.attributes().items()}
        values = [n.opt(i) for i in range(n.n_inputs)]
        return op(*values, graph=n.tracer.graph, **attrs)

    return emit


def _plain(name: str, value: Any) -> Any:
    """An attribute of a file as an attribute of an op."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise FormatError(f"attribute {name!r} must be text, got {value[:20]!r}") from None
    if isinstance(value, np.ndarray) or not isinstance(value, (int, float, str)):
        try:
            return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
        except TypeError:
            raise FormatError(f"attribute {name!r} must be a number, text or a list, got {type(value).__name__}"
                              ) from None
    return value
