"""Imports the modules that register lowering rules."""

import functools
import importlib

MODULES = ("region", "movement", "matmul", "rnn")
MODULES = ("region", "movement", "control", "matmul")
MODULES = ("region", "movement", "placement")
# One a line, so that branches merge.
MODULES = (
    "region",
    "movement",
    "control",
    "matmul",
    "rnn",
)


@functools.cache
def load() -> None:
    """Register every rule."""
    for name in MODULES:
        importlib.import_module(f"rlx.lower.{name}")
