"""Evaluate ops and graphs by their definitions, node by node, rounding at every node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import GraphError
from rlx.ir.graph import CONSTANT, INPUT, PARAM, Graph, Value
from rlx.ir.opdef import Array, OpDef, result_arrays
from rlx.ir.types import TensorType


def evaluate_op(
    op: OpDef, arrays: Sequence[Array | np.generic | None], attrs: Mapping[str, Any], *, precise: bool = False
) -> tuple[Array, ...]:
    """Results of one op.

    Half types are widened to f32 and the result is rounded once. With `precise`,
    f32 is computed in f64, and f64 of elementwise ops in extended precision, and
    rounded once: a better judge of a kernel.
    """
    normal = op.normal_attrs(attrs)
    arrays = [*arrays, *[None] * (op.n_fixed - len(arrays))]
    types = [None if a is None else TensorType(dtypes.of_array(a), a.shape) for a in arrays]
    expected = op.infer(*types, **normal)
    wide = []
    for a in arrays:
        if a is not None and dtypes.of_array(a).is_half:
            a = a.astype(np.float64 if precise else np.float32)
        elif a is not None and precise and a.dtype == np.float32 and not op.has("exact"):
            a = a.astype(np.float64)
        elif a is not None and precise and a.dtype == np.complex64 and not op.has("exact"):
            a = a.astype(np.complex128)
        elif a is not None and precise and a.dtype == np.float64 and op.has("elementwise"):
            a = a.astype(np.longdouble)
        wide.append(a)
    with np.errstate(all="ignore"):
        results = result_arrays(op.reference(*wide, **normal))
        if len(results) != len(expected):
            raise GraphError(f"{op.name}: reference must give {len(expected)} results, got {len(results)}")
        return tuple(
            np.ascontiguousarray(r.astype(t.dtype.numpy)).reshape(r.shape)
            for r, t in zip(results, expected, strict=True)
        )


def evaluate(graph: Graph, values: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs of a graph for given inputs and parameters, by the definitions."""
    env: dict[Value, Array] = {}
    for node in graph.nodes:
        if node.op is CONSTANT:
            array = node.outputs[0].array
            assert array is not None
            env[node.outputs[0]] = array
        elif node.op is INPUT or node.op is PARAM:
            env[node.outputs[0]] = np.asarray(values[node.name])
        else:
            arrays = [None if v is None else env[v] for v in node.inputs]
            for value, array in zip(node.outputs, evaluate_op(node.op, arrays, node.attrs), strict=True):
                env[value] = array
    return {name: env[value] for name, value in graph.outputs.items()}
