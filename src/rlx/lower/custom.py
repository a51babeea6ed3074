"""Registered ops: a call of a C function, or of Python."""

import math
import struct
from typing import Any

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import LoweringError
from rlx.ir.custom import CustomOp, Native
from rlx.ir.graph import Node
from rlx.lower.context import Context, lowering, shape_of, size_of
from rlx.lower.program import HostRef, NativeRef

# What the interpreter assumes about Python code until it knows better, in ns: signals are looked at in between.
_HOST_NS = 10_000
_PIECE_NS = 4_000
_MAX_OPERANDS = 64


@lowering("custom")
def lower_custom(ctx: Context, node: Node) -> None:
    """Operands in order, then the results."""
    op = node.op
    assert isinstance(op, CustomOp)
    args = [*map(ctx.maybe, node.inputs), *(ctx.write(v) for v in node.outputs)]
    values = [*node.inputs, *node.outputs]
    if not isinstance(op.kernel, Native):
        types = [None if v is None else (v.dtype.numpy, shape_of(v)) for v in values]
        n = len(node.inputs)
        call = HostRef(op.name, op.version, op.function(), node.attrs, tuple(types[:n]), tuple(types[n:]), op.writes,
                       op.copies)
        ctx.call("custom.host", args, {"call": call}, extent=1, cost=_HOST_NS)
        return
    if len(values) > _MAX_OPERANDS:
        raise LoweringError(f"operands and results of a C kernel must be at most {_MAX_OPERANDS}, got {len(values)}")
    shapes = [() if v is None else shape_of(v) for v in values]
    items = 1
    if op.items is not None:
        items = op.items(*(None if v is None else v.type for v in node.inputs), **node.attrs)
        if isinstance(items, bool) or not isinstance(items, int) or items < 0:
            raise LoweringError(f"{op.name}: items must give an int >= 0, got {items!r}")
    cost = items * op.item_ns if op.items is not None else sum(size_of(v) for v in values if v is not None) * op.item_ns
    grain = max(1, math.ceil(_PIECE_NS / max(op.item_ns, 1e-3))) if op.items is not None else 0
    sizes = [d for s in shapes for d in s]
    function = NativeRef(op.name, op.version, op.kernel.address, op.kernel.owner)
    ctx.call("custom.native", args,
             {"fn": function, "ranks": [len(s) for s in shapes], "sizes": sizes, "words": pack(op, node.attrs)},
             extent=items, grain=grain, cost=cost)


def pack(op: CustomOp, attrs: dict[str, Any]) -> list[int]:
    """Attributes as `rlx_custom.h` lays them out."""
    head: list[int] = []
    tail: list[int] = []
    kinds = {a.name: a.kind for a in op.attrs}
    lists = ("ints", "floats", "str")
    size = sum(2 if kinds[name] in lists else 1 for name in attrs)
    for name, value in attrs.items():
        kind = kinds[name]
        if kind in lists:
            words, count = _list(kind, value)
            head += [size + len(tail), count]
            tail += words
        elif isinstance(value, DType):
            head.append(dtypes.ALL.index(value))
        elif isinstance(value, float):
            head.append(_bits(value))
        else:
            head.append(int(value))
    return head + tail


def _list(kind: str, value: Any) -> tuple[list[int], int]:
    if value is None:
        return [], -1
    if kind == "str":
        raw = value.encode() + b"\0"
        padded = raw + bytes(-len(raw) % 8)
        return list(struct.unpack(f"<{len(padded) // 8}q", padded)), len(raw) - 1
    return [_bits(v) if kind == "floats" else int(v) for v in value], len(value)


def _bits(value: float) -> int:
    word: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return word
