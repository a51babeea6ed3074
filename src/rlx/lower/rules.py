"""Imports every module of this package, so that all lowering rules are registered."""

import functools
import importlib
import pkgutil

import rlx.lower


@functools.cache
def load() -> None:
    """Register every rule."""
    for info in pkgutil.iter_modules(rlx.lower.__path__):
        importlib.import_module(f"rlx.lower.{info.name}")
