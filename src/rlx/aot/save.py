"""Writing: executables, models and graphs as files or bytes."""

import dataclasses
import io
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import rlx
from rlx import costs
from rlx.aot import container
from rlx.aot.container import Bytes
from rlx.aot.tables import Writer
from rlx.aot.values import Arrays, encode, encode_key
from rlx.errors import BindingError, FormatError, file_error
from rlx.ir.graph import Graph
from rlx.ir.text import large_constants, print_graph
from rlx.lower.program import BodyRef, Program
from rlx.onnx.plans import _segments, _steps
from rlx.onnx.steps import Finish, Guard, Host, Segment, Start, Step, Test, Views
from rlx.options import CompileOptions
from rlx.runtime import kernels
from rlx.runtime.levels import rows_of
from rlx.runtime.report import stages_of
from rlx.runtime.staged import Staged

if TYPE_CHECKING:
    from rlx.onnx.declared import Declared
    from rlx.onnx.planned import PlannedModel
    from rlx.runtime.executable import CompiledGraph

Target = str | os.PathLike[str] | None


class _Content:
    """What a file is made of, collected."""

    def __init__(self, kind: str, name: str, level: str) -> None:
        table = kernels.table(level)
        self.table = table
        self.arrays = Arrays()
        self.writer = Writer(table)
        self.variants: list[dict[str, Any]] = []
        self.details: list[dict[str, Any]] = []
        self.manifest: dict[str, Any] = {"rlx": rlx.__version__, "kind": kind, "name": name, "level": table.level,
                                         "sources": rows_of(table.level)[2], "threads": None, "state": [0, 0, 0],
                                         "split_ns": int(costs.of(table.level).split_ns)}

    def variant(self, variant: Any, **more: Any) -> int:
        """Add a compiled program and what is bound to it."""
        compiled = variant.compiled
        if compiled.table.level != self.table.level:
            raise FormatError(f"all programs of a file must be for one ISA level, got {compiled.table.level}"
                              f" and {self.table.level}")
        program = compiled.program
        bound = [variant.executor.bound(program.weight_slot(i)) for i in range(len(program.weights))]
        self.variants.append({
            "program": self.writer.program(program),
            "arrays": [-1 if a is None else self.arrays.add(a) for a in bound], **more})
        self.details.append({
            "graph": compiled.graph.name,
            "params": [[v.node.name, str(v.type)] for v in compiled.graph.params],
            "passes": [[encode(getattr(r, f.name), self.arrays, "pass record") for f in dataclasses.fields(r)]
                       for r in compiled.records]})
        return len(self.variants) - 1

    def finish(self, target: Target, body: dict[str, Any], **details: Any) -> bytes | None:
        """Write everything; returns the bytes when there is no target."""
        writer = self.writer
        kernels_used = [[k, self.layout(k)] for k in writer.kernels]
        ews = [[k, self.table.ew(k).arity] for k in writer.ews]
        self.manifest |= {"kernels": kernels_used, "ews": ews, "programs": writer.programs, "variants": self.variants,
                          "body": body}
        rest = {"programs": writer.details, "params": list(writer.params), "transforms": writer.transforms,
                "variants": self.details, **details}
        return write(target, self.manifest, writer.words(), rest, self.arrays.items)

    def layout(self, kernel: str) -> str:
        """Layout of a kernel's attributes."""
        return rows_of(self.table.level)[0][kernel][1]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def write(target: Target, manifest: Any, words: bytes, details: Any, arrays: Sequence[Bytes]) -> bytes | None:
    """Write a file, which appears under its name when it is whole; bytes when there is no target.

    Raises
    ------
    FileError
        The file cannot be written.
    """
    parts = (_json(manifest), words, _json(details), arrays)
    if target is None:
        memory = io.BytesIO()
        container.write(memory, *parts, read_back=lambda: np.frombuffer(memory.getbuffer(), np.uint8))
        return memory.getvalue()
    path = Path(os.fspath(target))
    try:
        fd, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(fd, "w+b") as file:
                container.write(file, *parts, read_back=lambda: np.memmap(partial, np.uint8, "r"))
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(partial, 0o666 & ~umask)
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise
    except OSError as error:
        raise file_error(f"save: {str(path)!r} must be writable, got {error.strerror or error}", error) from None
    return None


def _has_custom(program: Program) -> bool:
    """Whether a program, or a body of it, calls a function that was registered."""
    return any(
        call.kernel.startswith("custom.")
        or any(_has_custom(value.program) for value in call.attrs.values() if isinstance(value, BodyRef))
        for call in program.calls
    )


def _graph_body(graph: Graph, arrays: Arrays) -> dict[str, Any]:
    """A graph as text, its large constants as arrays."""
    return {"text": print_graph(graph), "metadata": dict(graph.metadata),
            "constants": {k: encode(v, arrays, "constant") for k, v in large_constants(graph).items()}}


def save_graph(graph: Graph, target: Target = None) -> bytes | None:
    """Write a graph that has not been compiled."""
    content = _Content("graph", graph.name, "baseline")
    return content.finish(target, _graph_body(graph, content.arrays))


def _options(options: CompileOptions, arrays: Arrays) -> Any:
    """Options by field; a pipeline of one's own, which is functions, is not among them."""
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    fields["pipeline"] = None
    for name in ("rng", "precision"):
        fields[name] = {f.name: getattr(fields[name], f.name) for f in dataclasses.fields(fields[name])}
    return {k: encode(v, arrays, f"CompileOptions.{k}") for k, v in fields.items()}


def pickled(owner: "CompiledGraph | PlannedModel") -> bytes:
    """An executable or model with its handles, as bytes."""
    from rlx.aot.executable import is_interface
    from rlx.runtime.executable import CompiledGraph

    if isinstance(owner, CompiledGraph):
        data = save_executable(owner, portable=not is_interface(owner.graph), state=True)
    else:
        whole = all(map(_can_be_saved, owner._core.everything().values())) and not owner._options.nan_check
        data = save_model(owner, portable=not whole, state=True)
    assert data is not None
    return data


def save_executable(
    exe: "CompiledGraph", target: Target = None, portable: bool = False, state: bool = False
) -> bytes | None:
    """Write an executable, perhaps with its handles. See `CompiledGraph.save`."""
    from rlx.aot.executable import interface_body, is_interface
    from rlx.aot.pickles import state_body

    what = f"graph {exe.graph.name!r}"
    full = exe._full
    linked = exe._handles.params  # programs take these as inputs
    made = [((), full)] if full is not None else [
        (shapes, v) for (extents, shapes), v in exe._variants.items() if not extents and shapes is not None]
    staged = any(isinstance(v, Staged) for _, v in made)
    made_by_hand = any(_has_custom(s.compiled.program) for _, v in made for s in stages_of(v))
    if linked or made_by_hand:
        made = []
    if (staged or not made) and not portable:
        reason = "has not been compiled for any sizes"
        if staged or linked or made_by_hand:
            reason = ("has parameters that are state" if linked else "has custom ops, which are functions of a process"
                      if made_by_hand else "has sizes that only a run can tell")
        hint = "save(path, portable=True)" + (", or run it once before" if reason.endswith("any sizes") else "")
        raise BindingError(f"{what}: {reason}, so that a file must hold the graph, got portable=False\nhint: {hint}")
    if portable and is_interface(exe.graph):
        raise BindingError(f"{what}: comes from a file without its graph, and cannot be saved with one")
    if exe._dirty and all(a is not None for a in exe._params.values()):
        exe._upload()
    compiled = [s.compiled for _, v in made for s in stages_of(v)]
    level = compiled[0].table.level if compiled else kernels.table(exe.options.isa).level
    content = _Content("executable", exe.graph.name, level)
    if made and not staged:
        for shapes, variant in made:
            content.variant(variant, shapes=[list(s) for s in shapes])
    content.manifest["threads"] = exe.options.threads
    content.manifest["state"] = [exe._rng.seed, exe._rng.counter, exe._rng.backend]
    arrays = content.arrays
    body = {
        "quick": not exe._careful,
        "static": full is not None and bool(made) and not staged,
        "ready": not exe._dirty,
        "names": [v.node.name for v in exe._bound.inputs],
        "interface": interface_body(exe.graph),
        "params": {k: None if a is None else encode(a, arrays, "parameter") for k, a in
                   {**exe._params, **{k: exe.get_param(k) for k in linked}}.items()},
        "graph": _graph_body(exe.graph, arrays) if portable else None,
    }
    return content.finish(target, body, options=_options(exe.options, arrays),
                          state=state_body(exe._handles, arrays) if state else None)


# -- models ---------------------------------------------------------------------------


def _declared(d: "Declared") -> list[Any]:
    shape = None if d.shape is None else list(d.shape)
    return [d.kind, d.dtype, shape, d.default, d.code, None if d.inner is None else _declared(d.inner)]


def save_model(
    model: "PlannedModel", target: Target = None, portable: bool = False, state: bool = False
) -> bytes | None:
    """Write a model with all shapes that it has been compiled for. See `PlannedModel.save`."""
    from rlx.aot.pickles import state_body
    from rlx.aot.source import check_unportable, source_body

    plans = model._core.everything()
    if portable:
        plans = {key: root for key, root in plans.items() if _can_be_saved(root)}
    elif not any(step.children for step in plans.values()):
        raise BindingError(f"model {model.name!r}: must have been compiled for some shapes before it is saved or "
                           "pickled, got none\n"
                           "hint: run it once, or save(path, inputs={...}); runs over bound caches do not count")
    segments = _segments(plans.values())
    level = segments[0].variant.compiled.table.level if segments else "baseline"
    content = _Content("model", model.name, level)
    arrays = content.arrays
    steps: list[dict[str, Any]] = []

    def add(step: Step) -> int:
        children = [[encode_key(outcome, arrays), add(child)] for outcome, child in step.children.items()]
        steps.append({**_step(step, content, model.name), "children": children})
        return len(steps) - 1

    roots = [[encode_key(key, arrays), add(root)] for key, root in plans.items() if root.children]
    options = model._options
    if not isinstance(options, CompileOptions):  # of a file: they have not been needed until now
        from rlx.aot.executable import read_options

        options = read_options(options.file, None)
    if not portable:
        check_unportable(model.name, options.nan_check)
    content.manifest["threads"] = options.threads
    rng = model._core.rng
    content.manifest["state"] = [rng.seed, rng.counter, rng.backend]
    body = {
        "steps": steps,
        "roots": roots,
        "inputs": [[n, *_declared(d)] for n, d in model._inputs.items()],
        "outputs": [[n, *_declared(d)] for n, d in model._outputs.items()],
        "index": list(model._index),
        "quick": not options.poison and not options.nan_check and options.busy != "wait",
        "source": source_body(model, arrays) if portable else None,
    }
    return content.finish(target, body, options=_options(options, arrays),
                          metadata=encode(model.metadata, arrays, "metadata"),
                          state=state_body(model._handles, arrays) if state else None)


def _can_be_saved(root: Step) -> bool:
    """Whether all steps of a plan are of kinds that files hold."""
    for step in _steps([root]):
        unnamed = isinstance(step, Host) and getattr(step.function, "named", None) is None
        if unnamed or isinstance(step, Test):
            return False
    return True


def _step(step: Step, content: _Content, name: str) -> dict[str, Any]:
    """What a step is, without what follows it."""
    arrays = content.arrays
    if isinstance(step, Start):
        return {"kind": "start"}
    if isinstance(step, Segment):
        variant = step.variant if step.again is None else step.again()
        return {"kind": "segment", "variant": content.variant(variant), "first": step.first,
                "direct": step.direct, "reads": [[n, list(k)] for n, k in step.reads]}
    if isinstance(step, Views):
        return {"kind": "views", "first": step.first, "views": [[list(k), list(s)] for k, s in step.views]}
    if isinstance(step, Guard):
        return {"kind": "guard", "slots": [list(k) for k in step.slots]}
    if isinstance(step, Finish):
        return {"kind": "finish", "items": encode(step.items, arrays, "result"), "copies": step.copies}
    if isinstance(step, Test):
        raise FormatError(f"model {name!r}: plans must depend on values by content alone, got a slice "
                          "or range whose place differs from run to run")
    assert isinstance(step, Host)
    named = getattr(step.function, "named", None)
    if named is None:
        raise FormatError(f"model {name!r}: a step that runs in Python must be one that files can name,"
                          f" got {getattr(step.function, '__qualname__', step.function)}")
    return {"kind": "host", "function": named[0], "with": encode(named[1], arrays, "host function"),
            "arguments": encode(step.arguments, arrays, "host call"), "first": step.first, "fixed": step.fixed,
            "floats": step.floats}
