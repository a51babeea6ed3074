"""Imports the modules that register lowering rules."""

import functools
import importlib

# One a line, so that branches merge.
MODULES = (
    "region",
    "movement",
    "matmul",
    "rnn",
    "control",
    "placement",
    "reduce",
    "conv",
    "attention",
# One module a line.
MODULES = (
    "control",
    "matmul",
    "movement",
    "region",
    "rnn",
)


@functools.cache
def load() -> None:
    """Register every rule."""
    for name in MODULES:
        importlib.import_module(f"rlx.lower.{name}")
