"""`rlx.load`: read a model file of any kind that is known."""

import os
from typing import Any

from rlx.errors import FormatError
from rlx.options import CompileOptions


def load(source: Any, threads: int | None = None, options: CompileOptions | None = None) -> Any:
    """Read a model.

    Parameters
    ----------
    source : path or bytes
        The kind is told by the content.
    threads : int, optional
        Threads of a run unless `run(threads=)` says otherwise.
    options : CompileOptions, optional

    Raises
    ------
    FormatError
        The file does not exist, is of no known kind, or is malformed.
    """
    if isinstance(source, (str, os.PathLike)):
        try:
            with open(source, "rb") as file:
                head = file.read(4)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FormatError(
                f"load: the model must be a readable file, got {os.fspath(source)!r} ({reason})"
            ) from None
    elif isinstance(source, (bytes, bytearray, memoryview)):
        head = bytes(source[:4])
    elif hasattr(source, "SerializeToString"):
        head = b""
    else:
        raise FormatError(f"load: the model must be a path, bytes or a ModelProto, got {type(source).__name__}")
    if head == b"GGUF":
        raise FormatError("load: a GGUF file holds tensors and no graph; open it with rlx.gguf.open")
    from rlx.onnx import load as load_onnx

    return load_onnx(source, threads=threads, options=options)
