"""Pickling through the bytes of ahead-of-time files: what a pickle holds is one bytes object."""

from typing import TYPE_CHECKING, Any

from rlx._kernels._cells import Cell
from rlx.aot.file import File, malformed
from rlx.aot.values import Arrays, decode, encode
from rlx.errors import FormatError
from rlx.ir.graph import Graph, Value
from rlx.runtime.state import Handles, Link

if TYPE_CHECKING:
    from rlx.onnx.planned import PlannedModel
    from rlx.runtime.executable import CompiledGraph


def state_body(handles: Handles | None, arrays: Arrays) -> Any:
    """The values of all handles and what feeds them."""
    if handles is None or not handles.active:
        return None
    names = {id(cell): name for name, cell in handles.cells.items()}
    return {
        "cells": [[name, encode(cell.array, arrays, "handle"), cell.axis,
                   None if cell.length is None else names[id(cell.length)]] for name, cell in handles.cells.items()],
        "links": [[output, link.handle, link.append] for output, link in handles.links.items()],
        "params": sorted(handles.params),
    }


def restore_state(owner: Any, body: Any, file: File) -> None:
    """Give an executable or model the handles of a file."""
    if body is None:
        return
    with malformed(file.name):
        values = {str(n): decode(a, file.container) for n, a, _, _ in body["cells"]}
        for name in body["params"]:
            owner.set_param(name, values[name])
        for output, handle, append in body["links"]:
            if handle in body["params"]:
                owner.link(output, handle, append=append)
        handles: Handles = owner._state()
        for name, array, axis, _ in body["cells"]:
            if name not in body["params"]:
                handles.cells[name] = Cell(decode(array, file.container).copy(), axis)
        for name, _, _, length in body["cells"]:
            if length is not None:
                handles.cells[name].length = handles.cells[length]
        handles.links = {str(o): Link(str(h), bool(a)) for o, h, a in body["links"]}
        handles._changed()


def graph_of(data: bytes) -> Graph:
    """The graph of a pickle."""
    from rlx.aot.load import load_graph

    return load_graph(_file(data, "graph"))


def value_of(graph: Graph, node: int, index: int) -> Value:
    """A value of a graph by its place."""
    return graph.nodes[node].outputs[index]


def executable_of(data: bytes) -> "CompiledGraph":
    """The executable of a pickle, with its handles."""
    from rlx.aot.executable import load_executable

    file = _file(data, "executable")
    exe = load_executable(file)
    restore_state(exe, file.details["state"], file)
    return exe


def model_of(data: bytes) -> "PlannedModel":
    """The model of a pickle, with its handles."""
    from rlx.aot.model import load_model

    file = _file(data, "model")
    model = load_model(file)
    restore_state(model, file.details["state"], file)
    return model


def _file(data: bytes, kind: str) -> File:
    file = File(data, trusted=True)  # whoever unpickles runs code of the pickle anyway
    if file.kind != kind:
        raise FormatError(f"pickle: must hold a {kind}, got {file.kind}")
    return file
