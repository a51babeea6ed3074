"""Table of ONNX ops: (domain, name, first opset) -> function that emits IR."""

from collections.abc import Callable
from typing import Any

from rlx.ir.opdef import ONNX_NAMES
from rlx.onnx._index import INDEX
from rlx.tables import Table

Emit = Callable[[Any], Any]

# What an op function returns to leave a case to the standard's own definition of the op.
USE_DEFINITION: Any = object()

_TABLE: Table[tuple[str, str], list[tuple[int, Emit]]] = Table(
    "rlx.onnx", INDEX, leave=lambda name: not name.startswith("ops_"))


def onnx_op(name: str, *more: str, domain: str = "", since: int = 1) -> Callable[[Emit], Emit]:
    """Register a function for an op of a domain, from an opset version on.

    The function gets a `NodeContext` and returns what the node gives: a Value,
    an array, a list (a sequence), or a tuple of these for several results.
    """

    def register(function: Emit) -> Emit:
        for each in (name, *more):
            rows = dict.setdefault(_TABLE, (domain, each), [])
            rows.append((since, function))
            rows.sort(key=lambda row: row[0])
        return function

    return register


def find(domain: str, name: str, version: int) -> Emit | None:
    """The function for an op at an opset version, None when there is none. Registered ops go first."""
    best = None
    for since, op in ONNX_NAMES.get((domain, name), ()):
        if since <= version:
            from rlx.onnx.custom import emitter

            best = emitter(op)
    if best is not None:
        return best
    try:
        rows = _TABLE[domain, name]
    except KeyError:
        return None
    for since, function in rows:
        if since <= version:
            best = function
    return best


def table() -> dict[tuple[str, str], list[tuple[int, Emit]]]:
    """All rows, for reports."""
    _TABLE.load()
    return _TABLE
