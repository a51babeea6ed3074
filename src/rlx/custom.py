"""Ops that a user adds: `register_op`, `unregister_op`, `registered_ops`, and where the C header lies."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlx import dtypes as _dtypes
from rlx import ops
from rlx.dtypes import DType
from rlx.errors import ConfigError, RlxError
from rlx.ir.custom import CustomOp, Native, type_rule
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import ONNX_NAMES, ROUNDING, Attr, OpDef, Sample, Tolerance

TRAITS = ("elementwise", "commutative", "nondeterministic", "stateful")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_OPERAND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[?*]?\Z")
_LEAVES = ("input", "param", "constant", "custom", "elementwise")
_KINDS = {int: "int", float: "float", bool: "bool", str: "str"}
_NATIVE_KINDS = ("int", "ints", "float", "floats", "bool", "str", "dtype")
_MAX_OPERANDS = 64


def get_include() -> str:
    """The folder of `rlx_custom.h`, the contract of C kernels."""
    return str(Path(__file__).parent / "include")


def registered_ops() -> dict[str, CustomOp]:
    """The ops that are registered now, by name."""
    return {name: op for name, op in ops.TABLE.items() if isinstance(op, CustomOp)}


def unregister_op(name: str) -> None:
    """Forget a registered op. Graphs and executables that have it go on with it; its text cannot be read any more.

    Raises
    ------
    ConfigError
        No such op has been registered.
    """
    if not isinstance(ops.TABLE.get(name), CustomOp):
        raise ConfigError(f"unregister_op: ops are {sorted(registered_ops())}, got {name!r}")
    _forget_names(ops.TABLE.pop(name))


def _forget_names(op: OpDef) -> None:
    for rows in ONNX_NAMES.values():
        rows[:] = [row for row in rows if row[1] is not op]


def register_op(
    name: str,
    *,
    inputs: Sequence[str],
    reference: Callable[..., Any],
    attributes: Mapping[str, Any] | Sequence[Attr] = (),
    outputs: int = 1,
    infer: Callable[..., Any] | None = None,
    shape: Callable[..., Any] | None = None,
    dtype: Callable[..., Any] | None = None,
    dtypes: Sequence[Any] = _dtypes.ALL,
    kernel: Any = None,
    out: bool = False,
    copies: bool = False,
    items: Callable[..., int] | None = None,
    item_ns: float = 1.0,
    vjp: Callable[..., Any] | None = None,
    traits: Sequence[str] = (),
    samples: Sequence[Sample] | Callable[..., list[Sample]] | None = None,
    tolerance: Tolerance = ROUNDING,
    onnx: Sequence[tuple[str, str, int]] = (),
    version: int = 1,
    doc: str = "",
    replace: bool = False,
) -> CustomOp:
    """Add an op to the table. It is then ``rlx.ops.<name>``, and the returned object: calling it emits a node.

    Parameters
    ----------
    name : str
        Words joined by dots. A name with a dot can never clash with an op of a later version.
    inputs : sequence of str
        Names of the operands; a trailing `?` marks an optional one, a trailing `*` on the last any number.
    reference : callable
        ``reference(*arrays, **attrs)``: the definition, in NumPy. f16 and bf16 arrive widened to f32 and are rounded;
        float8 arrives as it is.
    attributes : mapping or sequence of Attr
        Name to default value, or to a type (`int`, `float`, `bool`, `str`) for one that must be given, or to an `Attr`.
    outputs : int
        Number of results.
    infer : callable, optional
        ``infer(*types, **attrs)``: a `TensorType`, or a tuple of them. Sizes may be symbolic (`rlx.ir.dims.Dim`).
    shape, dtype : callable, optional
        Instead of `infer`: ``shape(*shapes, **attrs)`` and ``dtype(*dtypes, **attrs)``; for several results they
        give one for each. Default: those of the first operand.
    dtypes : sequence
        Element types that operands may have.
    kernel : callable, C function, optional
        What a run calls; default: the definition. In Python ``kernel(*arrays, **attrs)`` returns an array or a tuple of
        arrays. A C function (of ctypes, a numba cfunc, a PyCapsule) runs without the GIL; see `rlx_custom.h` in
        `get_include()`.
    out : bool
        A Python kernel takes ``out=``, an array or a tuple of uninitialised arrays to write to, and returns None.
    copies : bool
        A Python kernel gets copies, which it may change and keep. Else it gets read-only views that it must not keep.
    items : callable, optional
        ``items(*types, **attrs)``: number of independent items of a C kernel, which is then called on ranges of them,
        on several threads if they are worth it (`item_ns` nanoseconds each).
    vjp : callable, optional
        ``vjp(operands, results, gradients, **attrs)`` on values of a graph gives a gradient or None per operand.
        With samples it is tried out now.
    traits : sequence of str
        `elementwise` (element i of each result needs element i of the operands only), `commutative`,
        `nondeterministic` (equal calls differ: never merged or folded), `stateful` (never dropped either).
    samples : sequence of Sample, or callable, optional
        Calls to try out now (the kernel must give what the definition gives), and for
        `rlx.testing.optest.check_sample`.
    tolerance : Tolerance
        How far the kernel may be from the definition.
    onnx : sequence of (domain, name, first opset)
        What files call it. Goes before an importer's own function for that op.
    version : int
        To be raised when the meaning changes: part of the structural hash, thus of caches.
    doc : str
        Default: the definition's docstring.
    replace : bool
        Take the place of an op that is registered under this name. Graphs that have it keep it.

    Returns
    -------
    CustomOp

    Raises
    ------
    ConfigError
        Something is not as it must be, the name is taken, or a sample fails.
    """

    def need(condition: bool, what: str, got: object) -> None:
        if not condition:
            raise ConfigError(f"register_op {name!r}: {what}, got {got!r}")

    need(isinstance(name, str) and _NAME.match(name) is not None, "the name must be words joined by dots", name)
    taken = ops.TABLE.get(name)
    need(name not in _LEAVES and (taken is None or isinstance(taken, CustomOp)),
         "the name must not be that of a built-in op", taken or name)
    if taken is not None and not replace:
        raise ConfigError(f"register_op {name!r}: a name must be registered once, got it twice"
                          "\nhint: replace=True, or unregister_op first")
    need(isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes)),
         'inputs must be a sequence of names, such as ("x", "y")', inputs)
    need(all(isinstance(i, str) and _OPERAND.match(i) for i in inputs),
         "inputs must be names, with ? for optional and * for any number", inputs)
    need(not any(i.endswith("*") for i in inputs[:-1]), "only the last operand can be any number", inputs)
    need(len({i.rstrip("?*") for i in inputs}) == len(inputs), "names of operands must differ", inputs)
    need(isinstance(outputs, int) and 1 <= outputs < _MAX_OPERANDS, "outputs must be a small number", outputs)
    for what, function in (("infer", infer), ("shape", shape), ("dtype", dtype), ("items", items), ("vjp", vjp)):
        need(function is None or callable(function), f"{what} must be callable", function)
    need(callable(reference), "the reference must be callable", reference)
    need(infer is None or (shape is None and dtype is None), "infer must come without shape and dtype", (shape, dtype))
    unknown = [t for t in traits if t not in TRAITS]
    need(not isinstance(traits, str) and not unknown, f"traits must be of {list(TRAITS)}", unknown or traits)
    need(isinstance(version, int) and version >= 0, "the version must be an int >= 0", version)
    try:
        kinds = tuple(_dtypes.as_dtype(d) for d in dtypes)
        attrs = _attributes(name, attributes)
    except RlxError as error:
        raise ConfigError(f"register_op {name!r}: {error}") from error
    target = _kernel(name, kernel)
    need(not isinstance(target, Native) or target.address > 0, "a C function must have an address", kernel)
    if isinstance(target, Native):
        bad = [a.name for a in attrs if a.kind not in _NATIVE_KINDS or (
            a.default is None and a.kind not in ("ints", "floats", "str"))]
        need(not bad, f"attributes of a C kernel must be of {list(_NATIVE_KINDS)}, numbers never None", bad)
        need(not out and not copies, "out and copies are for Python kernels", kernel)
    need(not (out and target is None), "out=True needs a kernel", kernel)
    need(items is None or isinstance(target, Native), "items are for C kernels", items)
    for entry in onnx:
        need(isinstance(entry, tuple) and len(entry) == 3 and isinstance(entry[2], int),
             "onnx must be a list of (domain, name, first opset)", entry)
    op = CustomOp(
        name, tuple(inputs), type_rule(name, outputs, infer, shape, dtype, kinds), reference,
        doc or inspect.getdoc(reference) or f"Registered op {name}.", attrs=attrs, dtypes=kinds,
        traits=_traits(traits), tolerance=tolerance,
        samples=(lambda d, rng: list(samples)) if isinstance(samples, Sequence) else samples,
        kernel=target, n_results=outputs, vjp=vjp, writes=out, copies=copies, items=items, item_ns=float(item_ns),
        version=version, onnx=tuple(("" if d == "ai.onnx" else d, n, v) for d, n, v in onnx),
    )
    if isinstance(samples, Sequence):
        for sample in samples:
            _try(op, sample)
    if taken is not None:
        _forget_names(taken)
    ops.TABLE[name] = op
    for domain, file_name, since in op.onnx:
        rows = ONNX_NAMES.setdefault((domain, file_name), [])
        rows.append((since, op))
        rows.sort(key=lambda row: row[0])
    return op


def _traits(traits: Sequence[str]) -> frozenset[str]:
    """As passes know them; `elementwise` there means a micro-kernel."""
    known = {"commutative": "commutative", "stateful": "stateful", "nondeterministic": "random",
             "elementwise": "itemwise"}
    return frozenset({"custom", *(known[t] for t in traits)})


def _attributes(op: str, given: Mapping[str, Any] | Sequence[Attr]) -> tuple[Attr, ...]:
    found = []
    for item in given.items() if isinstance(given, Mapping) else given:
        if isinstance(item, Attr):
            attr = item
        else:
            name, default = item
            if isinstance(default, Attr):
                attr = Attr(name, default.kind, default.default, default.choices)
            elif isinstance(default, type) and default in _KINDS:
                attr = Attr(name, _KINDS[default])
            else:
                attr = Attr(name, _kind_of(op, name, default), default)
        if not attr.name.isidentifier() or attr.name in ("graph", "name", "out"):
            raise ConfigError(f"an attribute must have a name of its own, got {attr.name!r}")
        if attr.kind == "any":
            raise ConfigError(f"attribute {attr.name!r} must be of a kind that prints, got 'any'")
        if not attr.required:
            attr = Attr(attr.name, attr.kind, attr.convert(op, attr.default), attr.choices)
        found.append(attr)
    if len({a.name for a in found}) != len(found):
        raise ConfigError(f"attributes must differ, got {[a.name for a in found]}")
    return tuple(found)


def _kind_of(op: str, name: str, default: Any) -> str:
    if isinstance(default, (bool, np.bool_)):
        return "bool"
    if isinstance(default, DType):
        return "dtype"
    for types, kind in (((int, np.integer), "int"), ((float, np.floating), "float"), (str, "str")):
        if isinstance(default, types):
            return kind
    if isinstance(default, (tuple, list)) and default:
        return "ints" if all(isinstance(v, (int, np.integer)) for v in default) else "floats"
    raise ConfigError(f"attribute {name!r} must have a default whose kind can be told, or be an Attr, got {default!r}")


def _kernel(op: str, kernel: Any) -> Any:
    """A callable, or the address of a C function."""
    if kernel is None:
        return None
    ctypes = sys.modules.get("ctypes")  # not loaded: the kernel is none of its functions
    if ctypes is not None and isinstance(kernel, ctypes._CFuncPtr):
        return Native(int(ctypes.cast(kernel, ctypes.c_void_p).value or 0), kernel)
    if type(kernel).__name__ == "PyCapsule":
        import ctypes as c

        c.pythonapi.PyCapsule_GetName.restype = c.c_char_p
        c.pythonapi.PyCapsule_GetName.argtypes = [c.py_object]
        c.pythonapi.PyCapsule_GetPointer.restype = c.c_void_p
        c.pythonapi.PyCapsule_GetPointer.argtypes = [c.py_object, c.c_char_p]
        pointer = c.pythonapi.PyCapsule_GetPointer(kernel, c.pythonapi.PyCapsule_GetName(kernel))
        return Native(int(pointer), kernel)
    address = getattr(kernel, "address", None)
    if isinstance(address, int) and address > 0:
        return Native(address, kernel)
    if not callable(kernel):
        raise ConfigError(f"register_op {op!r}: the kernel must be callable or a C function, got {kernel!r}")
    return kernel


def _try(op: CustomOp, sample: Sample) -> None:
    """Rules, definition, kernel and derivative on a sample."""
    from rlx.reference import evaluate_op

    if not isinstance(sample, Sample) or not isinstance(sample.args, (tuple, list)):
        raise ConfigError(f"register_op {op.name!r}: a sample must be Sample((operand, ...), {{attribute: value}}), "
                          f"got {sample!r}")
    try:
        results = evaluate_op(op, sample.args, sample.attrs)
        graph = Graph("sample")
        values = [None if a is None else graph.input(f"x{i}", np.shape(a), np.asarray(a).dtype)
                  for i, a in enumerate(sample.args)]
        made = graph.emit(op, values, sample.attrs)
        for array, value in zip(results, made, strict=True):
            if array.shape != value.shape:
                raise ValueError(f"the definition must give {value.type}, got shape {array.shape}")
        if op.kernel is not None and not op.has("random"):
            _try_kernel(op, sample, results)
        if op.vjp is None:
            return
        gradients = [graph.input(f"d{i}", v.shape, v.dtype) for i, v in enumerate(made)]
        back = op.vjp(values, made, gradients, **op.normal_attrs(sample.attrs))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise ConfigError(f"register_op {op.name!r}: a sample must work, got {text}") from error
    if not isinstance(back, (tuple, list)) or len(back) != len(values):
        raise ConfigError(f"register_op {op.name!r}: vjp must give a gradient or None for each of {len(values)} "
                          f"operands, got {back!r}")
    for i, (gradient, operand) in enumerate(zip(back, values, strict=True)):
        want = None if operand is None else operand.type
        if gradient is not None and (not isinstance(gradient, Value) or gradient.type != want):
            got = gradient.type if isinstance(gradient, Value) else type(gradient).__name__
            raise ConfigError(f"register_op {op.name!r}: gradient {i} of vjp must have type {want}, got {got}")


def _try_kernel(op: CustomOp, sample: Sample, wanted: Sequence[Any]) -> None:
    """The kernel gives what the definition gives, within the op's tolerance."""
    from rlx.backend import compile as compiled

    graph = Graph("sample")
    feeds = {f"x{i}": np.asarray(a) for i, a in enumerate(sample.args) if a is not None}
    values = [None if a is None else graph.input(f"x{i}", np.shape(a), feeds[f"x{i}"].dtype)
              for i, a in enumerate(sample.args)]
    for i, value in enumerate(graph.emit(op, values, sample.attrs)):
        graph.output(f"y{i}", value)
    for i, (got, want) in enumerate(zip(compiled(graph).run(feeds), wanted, strict=True)):
        rtol, atol = op.tolerance.of(_dtypes.of_array(want))
        exact = want.dtype.kind in "biu"
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        if not (np.array_equal(got, want) if exact else
                np.allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)):
            raise ValueError(f"result {i} of the kernel must be that of the definition, got {got.reshape(-1)[:4]} ... "
                             f"for {want.reshape(-1)[:4]} ...")


__all__ = ["Attr", "CustomOp", "OpDef", "Sample", "Tolerance", "get_include", "register_op", "registered_ops",
           "unregister_op"]
