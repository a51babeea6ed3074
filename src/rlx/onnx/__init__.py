"""ONNX models: `load` runs them, `backend` is the interface of the ONNX project's test suite."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.onnx.model import Model as Model
    from rlx.onnx.model import load as load

__all__ = ["Model", "backend", "load"]


def __getattr__(name: str) -> Any:
    if name in ("Model", "load"):
        return getattr(_module("rlx.onnx.model"), name)
    if name == "backend":
        return _module("rlx.onnx.backend")
    raise AttributeError(f"module 'rlx.onnx' has no attribute {name!r}")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == "onnx":
            raise ImportError(
                "rlx.onnx: the package onnx must be installed to read ONNX files\nhint: pip install 'rlx[onnx]'"
            ) from error
        raise
