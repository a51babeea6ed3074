"""Attributes to words: the one place that knows how an attribute block is laid out."""

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rlx.errors import LoweringError
from rlx.runtime.kernels import KernelRow

AttrValue: TypeAlias = int | float | Sequence[int] | Sequence[float]


def float_word(value: float) -> int:
    """The bits of a double as a signed 64-bit integer."""
    word: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return word


def pack_attrs(row: KernelRow, attrs: Mapping[str, AttrValue]) -> list[int]:
    """Lay out `attrs` as the kernel's row says; every field must be given, and nothing else.

    Floats inside a list are stored as bit copies, integers as they are.
    """
    names = [field.name for field in row.fields]
    if set(names) != set(attrs):
        missing, extra = sorted(set(names) - set(attrs)), sorted(set(attrs) - set(names))
        raise LoweringError(f"{row.name}: attributes must be {names}, missing {missing}, got also {extra}")
    fixed: list[int] = []
    tail: list[int] = []
    size = sum(2 if field.kind == "list" else 1 for field in row.fields)
    for field in row.fields:
        value = attrs[field.name]
        if field.kind == "list":
            assert isinstance(value, Sequence)
            fixed += [size + len(tail), len(value)]
            tail += [float_word(v) if isinstance(v, float) else int(v) for v in value]
        elif field.kind == "float":
            fixed.append(float_word(float(value)))  # type: ignore[arg-type]
        else:
            fixed.append(int(value))  # type: ignore[arg-type]
    return fixed + tail
