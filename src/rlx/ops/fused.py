"""Ops that only passes create."""

from rlx import dtypes
from rlx.errors import TypeRuleError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Attr, OpDef
from rlx.ir.types import TensorType


def _infer_region(*types: TensorType, body: Graph) -> tuple[TensorType, ...]:
    if len(types) != len(body.inputs):
        raise TypeRuleError(f"region: number of operands must be {len(body.inputs)}, got {len(types)}")
    return tuple(v.type for v in body.outputs.values())


def _region_reference(*arrays: object, body: Graph) -> object:
    from rlx.reference import evaluate

    names = [v.node.name for v in body.inputs]
    return tuple(evaluate(body, dict(zip(names, arrays, strict=True))).values())


REGION = OpDef("region", ("xs*",), _infer_region, _region_reference, "Elementwise nodes run block by block.",
               attrs=(Attr("body", "any"),), dtypes=dtypes.ALL, internal=True)
