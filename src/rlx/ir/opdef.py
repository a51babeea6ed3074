"""The row of the ops table: everything semantic about an op, in one place.

`OpDef` objects are callables: ``ops.tanh(x)`` emits a node into x's graph.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import GraphError, TypeRuleError
from rlx.ir.traced import Traced, TracedFloat
from rlx.ir.types import TensorType
from rlx.records import field, record

if TYPE_CHECKING:
    from rlx.ir.custom import CustomOp
    from rlx.ir.graph import Graph

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
_REQUIRED: Any = object()
# What files call registered ops: (domain, name) -> rows by first opset.
ONNX_NAMES: "dict[tuple[str, str], list[tuple[int, CustomOp]]]" = {}


def _as_int(value: Any) -> int:
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value if isinstance(value, Traced) else int(value)


def _as_ints(value: Any) -> tuple[int, ...]:
    if type(value) is tuple:
        for v in value:
            if type(v) is not int or not -(2**63) <= v < 2**63:
                break
        else:
            return value
    if isinstance(value, (int, np.integer)):
        return (_as_int(value),)
    return tuple([_as_int(v) for v in value])


def _as_float(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes)):
        raise TypeError
    return value if isinstance(value, TracedFloat) else float(value)


def _as_floats(value: Any) -> tuple[float, ...]:
    return tuple(_as_float(v) for v in value)


def _as_bool(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError


def _as_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_dims(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple:
        for v in value:
            if type(v) is not int:
                break
        else:
            return value
    from rlx.ir.dims import as_dim

    return tuple([v if type(v) is int else as_dim(v) if not isinstance(v, int) or v >= 0 else v for v in value])


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "int": _as_int,
    "ints": _as_ints,
    "float": _as_float,
    "floats": _as_floats,
    "bool": _as_bool,
    "str": _as_str,
    "dtype": dtypes.as_dtype,
    "dims": _as_dims,
    "any": lambda value: value.item() if isinstance(value, np.generic) else value,
}


class NormalAttrs(dict[str, Any]):
    """Attributes of an op in their normal form."""

    __slots__ = ("op",)
    op: "OpDef"


@functools.cache
def _value_type() -> Any:
    from rlx.ir.graph import Value

    return Value


@record(eq=False)
class Attr:
    """An attribute of an op: name, kind, default and, for strings, the choices.

    kind is one of `int ints float floats bool str dtype dims any`; a default of
    None makes the attribute optional.
    """

    name: str
    kind: str
    default: Any = _REQUIRED
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is _REQUIRED

    def convert(self, op: str, value: Any) -> Any:
        """The value in its normal form.

        Raises
        ------
        GraphError
            It is of another kind, or none of the choices.
        """
        if value is None and self.default is None:
            return None
        try:
            result = _CONVERT[self.kind](value)
        except (TypeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise GraphError(
                f"{op}: attribute {self.name!r} must be of kind {self.kind}, got {value!r}"
            ) from None
        if self.choices and result not in self.choices:
            raise GraphError(
                f"{op}: attribute {self.name!r} must be one of {list(self.choices)}, got {value!r}"
            )
        return result


@record(eq=False)
class Sample:
    """A call for tests, benchmarks and documentation.

    args are arrays, or None for an absent operand; attrs are keyword attributes.
    """

    args: tuple[Array | np.generic | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@record(eq=False)
class ErrorSample:
    """A call that must fail when the node is built; `match` is a part of the message."""

    args: tuple[Array | np.generic | None, ...]
    attrs: Mapping[str, Any]
    match: str


@record(eq=False)
class Tolerance:
    """How far a kernel may be from the definition: `exact`, or rtol and atol per dtype name."""

    exact: bool = False
    rtol: Mapping[str, float] = field(default_factory=dict)
    atol: Mapping[str, float] = field(default_factory=dict)

    def of(self, dtype: DType) -> tuple[float, float]:
        """(rtol, atol) for results of `dtype`; (0, 0) means bit for bit."""
        if self.exact or not (dtype.is_float or dtype.is_complex):
            return 0.0, 0.0
        default = {"f64": 1e-13, "f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2, "c64": 3e-6, "c128": 1e-13}
        return self.rtol.get(dtype.name, default.get(dtype.name, 0.0)), self.atol.get(dtype.name, 0.0)


EXACT = Tolerance(exact=True)
ROUNDING = Tolerance()



def _defining_module() -> str:
    """Last part of the name of the module that is making a row (helpers left out)."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in (__name__, "rlx.records", "rlx.ops._rules") and frame.f_code.co_filename != "<string>":
            return name.rsplit(".", 1)[-1]
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _help(op: "OpDef") -> str:
    """What `help` shows: the call, what it does, operands and attributes."""
    fixed = [f"{n[:-1]}=None" if n.endswith("?") else n for n in op.inputs if not n.endswith("*")]
    rest = [f"*{n[:-1]}" for n in op.inputs if n.endswith("*")]
    attrs = [a.name if a.required else f"{a.name}={a.default!r}" for a in op.attrs]
    call = [*fixed, *(["/"] if fixed else []), *(rest or ["*"] if attrs else rest), *attrs]
    lines = [f"{op.name}({', '.join(call)})", "", op.doc]
    if op.inputs or op.attrs:
        lines += ["", "Parameters", "----------"]
    lines += [f"{n.rstrip('*?')} : {'Values or arrays' if n.endswith('*') else 'Value or array'}"
              f"{', optional' if n.endswith('?') else ''}" for n in op.inputs]
    for a in op.attrs:
        kind = " or ".join(map(repr, a.choices)) if a.choices else a.kind
        lines.append(f"{a.name} : {kind}{'' if a.required else f', default {a.default!r}'}")
    return "\n".join([*lines, "", f"Element types: {' '.join(d.name for d in op.dtypes)}."])


class _Doc:
    """The text of `help` for a row, written when it is asked for; of the class itself for the class."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, op: "OpDef | None", owner: type) -> str | None:
        return self.text if op is None else _help(op)


Infer = Callable[..., tuple[TensorType, ...]]
Reference = Callable[..., Any]
Samples = Callable[[DType, Any], list[Sample]]  # (element type, numpy Generator)
Decompose = Callable[..., Any]


@record(frozen=True, eq=False)
class OpDef:
    """One op.

    Attributes
    ----------
    name : str
    inputs : tuple of str
        Names of the operands; a trailing `?` marks an optional one, a trailing
        `*` on the last one any number of them.
    infer : callable
        ``infer(*types, **attrs) -> tuple of TensorType``; absent operands are
        None. Pure; works with symbolic sizes. Raises TypeRuleError.
    reference : callable
        ``reference(*arrays, **attrs)``: the definition, in NumPy. Half types
        arrive widened and are rounded by the caller. Returns an array or a tuple.
    dtypes : tuple of DType
        Types for which the op is defined and has kernels (of the operand that
        `dtype_of` names, the first by default).
    traits : frozenset of str
        `elementwise`, `commutative`, `view`, `random`, `stateful`, `dynamic`
        (a result's size depends on data), `movement` (copies values only),
        `constants` (all operands but the first must be constants), `chooses` (the first operand
        only chooses among the others: a Python number takes their element type, not its).
    decompose : callable, optional
        ``decompose(*values, **attrs)``: the op in terms of others, for ops
        without a kernel.
    samples : callable
        ``samples(dtype, rng) -> list of Sample``.
    errors : tuple of ErrorSample
    tolerance : Tolerance
    """

    name: str
    inputs: tuple[str, ...]
    infer: Infer
    reference: Reference
    doc: str
    attrs: tuple[Attr, ...] = ()
    dtypes: tuple[DType, ...] = dtypes.REALS
    traits: frozenset[str] = frozenset()
    decompose: Decompose | None = None
    samples: Samples | None = None
    errors: Callable[[], list[ErrorSample]] | None = None
    tolerance: Tolerance = ROUNDING
    internal: bool = False
    is_variadic: bool = field(init=False, repr=False)
    n_fixed: int = field(init=False, repr=False)
    n_required: int = field(init=False, repr=False)
    family: str = field(init=False, repr=False)
    _attr_map: dict[str, Attr] = field(init=False, repr=False)
    _defaults: "NormalAttrs | None" = field(init=False, repr=False)  # of a call that gives none, made with the first

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "family", _defining_module())
        object.__setattr__(self, "_attr_map", {a.name: a for a in self.attrs})
        object.__setattr__(self, "_defaults", None)
        object.__setattr__(self, "is_variadic", bool(self.inputs) and self.inputs[-1].endswith("*"))
        fixed = self.inputs[:-1] if self.is_variadic else self.inputs
        object.__setattr__(self, "n_fixed", len(fixed))
        object.__setattr__(self, "n_required", sum(not name.endswith("?") for name in fixed))

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def __signature__(self) -> inspect.Signature:
        parameters: list[inspect.Parameter] = []
        for name in self.inputs:
            if name.endswith("*"):
                parameters.append(inspect.Parameter(name[:-1], inspect.Parameter.VAR_POSITIONAL))
            elif name.endswith("?"):
                parameters.append(
                    inspect.Parameter(name[:-1], inspect.Parameter.POSITIONAL_ONLY, default=None)
                )
            else:
                parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY))
        for attr in self.attrs:
            default = inspect.Parameter.empty if attr.required else attr.default
            parameters.append(
                inspect.Parameter(attr.name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
        return inspect.Signature(parameters)

    def has(self, trait: str) -> bool:
        """Whether the op has a trait."""
        return trait in self.traits

    def normal_attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes converted, defaults filled in, in the order of the row.

        Raises
        ------
        GraphError
            An attribute is unknown, missing or of the wrong kind.
        """
        if type(attrs) is NormalAttrs and attrs.op is self:
            return attrs
        if not attrs and self._defaults is not None:
            return self._defaults
        known = self._attr_map
        for name in attrs:
            if name not in known:
                raise GraphError(f"{self.name}: attributes must be {list(known)}, got {name!r}")
        result = NormalAttrs()
        result.op = self
        for name, attr in known.items():
            if name in attrs:
                result[name] = attr.convert(self.name, attrs[name])
            elif attr.required:
                raise GraphError(f"{self.name}: attribute {name!r} must be given, got none")
            else:
                result[name] = attr.default
        if not attrs:
            object.__setattr__(self, "_defaults", result)
        return result

    def check_arity(self, n: int) -> None:
        """Raise TypeRuleError unless n operands are allowed."""
        most = None if self.is_variadic else self.n_fixed
        if n < self.n_required or (most is not None and n > most):
            want = str(self.n_required) if most == self.n_required else f"{self.n_required} to {most}"
            if most is None:
                want = f"at least {self.n_required}"
            raise TypeRuleError(f"{self.name}: number of operands must be {want}, got {n}")

    def __call__(
        self, *inputs: Any, graph: "Graph | None" = None, name: str | None = None, **attrs: Any
    ) -> Any:
        """Emit a node; returns its Value, or a tuple of Values for several results.

        Operands may be Values, or arrays and numbers, which become constants
        (a Python number takes the element type of the other operands; where `where` chooses
        between two numbers, they are f32 if one is a float, else i64).

        Raises
        ------
        GraphError, TypeRuleError
            The call breaks the op's rules.
        """
        value = _value_type()
        if graph is None and inputs and type(inputs[0]) is value:  # the rule while importing
            owner = inputs[0].graph
            for item in inputs:
                if type(item) is not value or item.graph is not owner:
                    break
            else:
                outputs = owner.emit(self, inputs, attrs, name=name)
                return outputs[0] if len(outputs) == 1 else outputs
        if self.is_variadic and len(inputs) == self.n_fixed + 1:
            last = inputs[-1]
            if isinstance(last, (list, tuple)):
                inputs = (*inputs[:-1], *last)
        owner = graph
        dtype: DType | None = None
        chooser = 0 if self.has("chooses") else -1
        for i, item in enumerate(inputs):
            if isinstance(item, value):
                if owner is None:
                    owner = item.graph
                if dtype is None and i != chooser:
                    dtype = item.type.dtype
        if chooser == 0 and dtype is None:
            dtype = _type_of_constants(inputs[1:])
        if owner is None:
            raise GraphError(
                f"{self.name}: an operand must be a Value of a graph, got {[type(i).__name__ for i in inputs]}"
                "\nhint: pass graph=... for an op without operands"
            )
        values = [
            item if item is None or (isinstance(item, value) and item.graph is owner)
            else owner.as_value(item, None if i == chooser else dtype, self.name)
            for i, item in enumerate(inputs)
        ]
        outputs = owner.emit(self, values, attrs, name=name)
        return outputs[0] if len(outputs) == 1 else outputs


OpDef.__doc__ = _Doc(OpDef.__doc__)  # type: ignore[assignment]


def _type_of_constants(items: Sequence[Any]) -> DType | None:
    """The element type that Python numbers take where no operand is a Value: that of an array beside them."""
    for item in items:
        if isinstance(item, np.ndarray) or (isinstance(item, np.generic) and not isinstance(item, (float, complex))):
            return dtypes.of_array(np.asarray(item))
    numbers = [item for item in items if isinstance(item, (bool, int, float, complex))]
    if not numbers or all(isinstance(item, bool) for item in numbers):
        return None
    kind = np.result_type(*(type(item) for item in numbers)).kind
    return {"f": dtypes.f32, "c": dtypes.c64}.get(kind, dtypes.i64)


def result_arrays(result: Any) -> tuple[Array, ...]:
    """What a reference returned, as a tuple of arrays."""
    items: Sequence[Any] = result if isinstance(result, tuple) else (result,)
    return tuple(np.asarray(item) for item in items)
