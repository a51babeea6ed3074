"""`rlx.load`: read a model file of any kind that is known."""

import os
from typing import TYPE_CHECKING, Any

from rlx.collector import collector_paused
from rlx.errors import ConfigError, FormatError, file_error

if TYPE_CHECKING:
    from rlx.options import CompileOptions


def load(source: Any, threads: int | None = None, options: "CompileOptions | None" = None, *,
         precision: Any = None, verify: bool | None = None, trusted: bool | None = None) -> Any:
    """Read a model.

    Parameters
    ----------
    source : path, bytes or binary file
        The kind is told by the content. An open file is read from where it stands to its end; what it is called is
        of no importance, so a model with external data must be given as a path.
    threads : int, optional
        Threads of a run unless `run(threads=)` says otherwise.
    options : CompileOptions, optional
        For a file that is to be compiled.
    precision : str, DType or PrecisionPolicy, optional
        As `CompileOptions(precision=)`: `"f16"` and `"bf16"` store the weights so.
    verify, trusted : bool, optional
        For an ahead-of-time file, see `rlx.aot.load.load`: whether all data is compared with its digests, and
        whether its programs are run as they are (None: once they have been proved).

    Raises
    ------
    FileError
        The file does not exist (`MissingFileError`) or cannot be read.
    FormatError
        It is of no known kind, or is malformed.
    """
    if hasattr(source, "read") and not isinstance(source, (str, os.PathLike)):
        source = _content(source)
    if isinstance(source, (str, os.PathLike)):
        try:
            with open(source, "rb") as file:
                head = file.read(8)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            text = f"load: the model must be a readable file, got {os.fspath(source)!r} ({reason})"
            raise file_error(text, error) from None
    elif isinstance(source, (bytes, bytearray, memoryview)):
        head = bytes(source[:8])
    elif hasattr(source, "SerializeToString"):
        head = b""
    else:
        raise FormatError("load: the model must be a path, bytes, a binary file or a ModelProto,"
                          f" got {type(source).__name__}")
    if head == b"RLXAOT\x1a\n":
        with collector_paused():
            from rlx.aot.load import load as load_ahead

        if options is not None or precision is not None:
            raise ConfigError("load: an ahead-of-time file was compiled with its options, got others"
                              "\nhint: give them to rlx.compile, or to rlx.load of the ONNX file, before save()")
        return load_ahead(source, threads, verify=verify, trusted=trusted)
    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(".rlx"):
        raise FormatError(f"load: {os.fspath(source)!r} must be an ahead-of-time file of rlx, got other bytes")
    if head.startswith(b"GGUF"):
        raise FormatError("load: a GGUF file holds tensors and no graph, and is not read yet")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise FormatError("load: the model must be an ONNX or ahead-of-time file, got a zip archive"
                          "\nhint: wheels, .npz and PyTorch files are zip archives; give the model inside one")
    with collector_paused():
        from rlx.onnx.model import load as load_onnx

    if precision is not None:
        from rlx.options import with_options

        options = with_options(options, precision=precision)
    return load_onnx(source, threads=threads, options=options)


def _content(file: Any) -> bytes:
    """What an open file holds."""
    try:
        data = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        name = getattr(file, "name", type(file).__name__)
        raise file_error(f"load: the model must be a readable file, got {name!r} ({reason})", error) from None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"load: a file must be opened for binary reading, got one that reads {type(data).__name__}"
                          "\nhint: open(path, 'rb')")
    return bytes(data)
