"""ONNX models: `load` runs them, `backend` is the interface of the ONNX project's test suite."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.onnx.model import Model as Model
    from rlx.onnx.model import load as load

__all__ = ["Model", "backend", "load"]


def __getattr__(name: str) -> Any:
    if name in ("Model", "load"):
        return getattr(importlib.import_module("rlx.onnx.model"), name)
    if name == "backend":
        try:
            return importlib.import_module("rlx.onnx.backend")
        except ModuleNotFoundError as error:
            if error.name == "onnx":
                raise ImportError(
                    "rlx.onnx.backend: the package onnx must be installed for its interface"
                    "\nhint: pip install 'rlx[onnx]'"
                ) from error
            raise
    raise AttributeError(f"module 'rlx.onnx' has no attribute {name!r}")
