"""Table of ONNX ops: (domain, name, first opset) -> function that emits IR."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from rlx.ir.custom import ONNX_NAMES

Emit = Callable[[Any], Any]

# What an op function returns to leave a case to the standard's own definition of the op.
USE_DEFINITION: Any = object()

_TABLE: dict[tuple[str, str], list[tuple[int, Emit]]] = {}
_MODULES = (
    "ops_math",
    "ops_nn",
    "ops_tensor",
    "ops_quant",
    "ops_control",
    "ops_ml",
    "ops_ms",
    "ops_sequence",
    "ops_text",
    "ops_random",
    "ops_vision",
    "ops_signal",
    "ops_llm",
)


def onnx_op(name: str, *more: str, domain: str = "", since: int = 1) -> Callable[[Emit], Emit]:
    """Register a function for an op of a domain, from an opset version on.

    The function gets a `NodeContext` and returns what the node gives: a Value,
    an array, a list (a sequence), or a tuple of these for several results.
    """

    def register(function: Emit) -> Emit:
        for each in (name, *more):
            rows = _TABLE.setdefault((domain, each), [])
            rows.append((since, function))
            rows.sort(key=lambda row: row[0])
        return function

    return register


@functools.cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"rlx.onnx.{module}")


def find(domain: str, name: str, version: int) -> Emit | None:
    """The function for an op at an opset version, None when there is none. Registered ops go first."""
    _load()
    best = None
    for since, op in ONNX_NAMES.get((domain, name), ()):
        if since <= version:
            from rlx.onnx.custom import emitter

            best = emitter(op)
    if best is not None:
        return best
    for since, function in _TABLE.get((domain, name), ()):
        if since <= version:
            best = function
    return best


def table() -> dict[tuple[str, str], list[tuple[int, Emit]]]:
    """All rows, for reports."""
    _load()
    return _TABLE
