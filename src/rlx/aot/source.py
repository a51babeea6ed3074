"""The ONNX file inside a portable file of a model: what new shapes, branches and checks are compiled from."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.aot.file import File, malformed
from rlx.aot.values import Arrays
from rlx.errors import BindingError, FormatError, UnsupportedOpError
from rlx.forking import follow

if TYPE_CHECKING:
    from rlx.onnx.core import Core
    from rlx.onnx.planned import PlannedModel


def _tensors(graph: Any) -> Iterator[Any]:
    """All tensors of a graph and of the graphs inside it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        for a in node.attribute:
            yield from (a.t, *a.tensors, a.sparse_tensor.values, a.sparse_tensor.indices)
            for inner in ([a.g] if getattr(a, "g", None) is not None else []) + list(a.graphs):
                yield from _tensors(inner)


def source_body(model: "PlannedModel", arrays: Arrays) -> dict[str, Any]:
    """The ONNX file of a model and the files beside it that it names, as arrays of the file that is written.

    Raises
    ------
    BindingError
        The model comes from a file that does not hold it.
    """
    from rlx.onnx.messages import read_file

    held = getattr(model, "_source", None)
    shared = getattr(model, "_shared", None)
    if held is not None:
        shared = held.model._shared
    if shared is None:
        raise BindingError(f"model {model.name!r}: comes from a file without its ONNX file, and cannot be saved with"
                           " one")
    tensors = shared.tensors
    proto = read_file(tensors.buffer)
    found = [] if proto.graph is None else list(_tensors(proto.graph))
    for function in proto.functions:
        found += _of_nodes(function.node)
    places = {e.value: t.name for t in found for e in t.external_data if e.key == "location"}
    files = {place: tensors._file(place, f"tensor {name!r}") for place, name in places.items()}
    return {"model": arrays.add(np.frombuffer(tensors.buffer, np.uint8)),
            "files": [[place, arrays.add(np.frombuffer(data, np.uint8))] for place, data in files.items()]}


class Source:
    """The ONNX file of a file, imported when that is first needed; clones share it.

    Parameters
    ----------
    threads : int, optional
        As given to `load`.
    """

    def __init__(self, file: File, threads: int | None) -> None:
        self._file = file
        self._threads = threads
        self._lock = threading.Lock()
        self._model: Any = None
        follow(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    @property
    def model(self) -> Any:
        """The model as it was imported."""
        with self._lock:
            if self._model is None:
                self._model = self._read()
        return self._model

    def _read(self) -> Any:
        from rlx.aot.executable import read_options
        from rlx.onnx.messages import read_file
        from rlx.onnx.model import Model
        from rlx.onnx.tensors import TensorReader

        container, options = self._file.container, read_options(self._file, self._threads)
        with malformed(self._file.name):
            spec = self._file.body["source"]
            tensors = TensorReader(container.array(spec["model"]).data, None)
            for place, number in spec["files"]:
                tensors.give(str(place), container.array(number).data)
            try:
                return Model(read_file(tensors.buffer), tensors, options, self._threads, self._file.title)
            except UnsupportedOpError as error:
                raise UnsupportedOpError(f"{self._file.name}: {error}") from error

    def core(self) -> "Core":
        """Plans of its own over the same weights."""
        made: Core = self.model._core.twin()
        return made


def check_unportable(name: str, nan_check: bool) -> None:
    """Refuse to write a model without its ONNX file that needs it.

    Raises
    ------
    FormatError
        Its option `nan_check` looks at every node.
    """
    if nan_check:
        raise FormatError(f"model {name!r}: with nan_check every node is looked at, so a file must hold the ONNX file,"
                          " got portable=False\nhint: save(path, portable=True), or compile without nan_check")
