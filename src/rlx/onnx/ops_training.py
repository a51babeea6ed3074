"""ONNX ops of the training domain."""

from typing import Any

from rlx.errors import FormatError, GraphError
from rlx.gradients import gradients_of
from rlx.ir.graph import Value
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import onnx_op


@onnx_op("Gradient", domain="ai.onnx.preview.training")
def _gradient(n: NodeContext) -> Any:
    """Of the sum of y by xs, at the values that these have: operands are to be the tensors that xs and zs name."""
    names = [*n.strs("xs"), *n.strs("zs", [])]
    given = list(n.node.inputs)
    if names != given:
        raise FormatError(f"operands must be the tensors that xs and zs name, {names}, got {given}")
    name = n.str("y")
    items = n.scope.find(name)
    if items is None:
        raise FormatError(f"attribute 'y' must name a tensor, got {name!r}")
    y, xs = n.tracer.value(items[name]), [n.x(i) for i in range(len(n.strs("xs")))]
    if not isinstance(y, Value) or any(x.graph is not y.graph for x in xs):
        raise FormatError(f"y and xs must be computed by one program, got {name!r}")
    try:
        found = gradients_of(y, xs)
    except GraphError as error:
        raise FormatError(str(error)) from None
    return tuple(found) if len(found) > 1 else found[0]
