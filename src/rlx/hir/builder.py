"""Builder: names parameters under a prefix, records them, makes or checks their values."""

import difflib
import math
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import BindingError, BindingTypeError, GraphError, TypeRuleError, UnknownNameError
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.records import record

Init: TypeAlias = Literal["uniform", "normal", "zeros", "ones"] | Callable[[np.random.Generator, tuple[int, ...]], Any]
Activation: TypeAlias = str | Callable[[Value], Value] | None
_INITS = ("uniform", "normal", "zeros", "ones")
_LAYOUTS = ("in_out", "out_in")


@record(frozen=True)
class ParamSpec:
    """One parameter that a model needs.

    Attributes
    ----------
    name : str
        With all prefixes, parts joined by dots.
    shape : tuple of int
    dtype : DType
    init : {"uniform", "normal", "zeros", "ones"} or callable
        Random values to start from: uniform in ±1/sqrt(fan_in); normal with deviation 0.02; or what
        ``init(generator, shape)`` gives.
    fan_in : int
        Products that one result sums.
    is_linear : bool
        A matrix [in, out], which state dicts of layout "out_in" hold transposed.
    gates : tuple of int
        Of a recurrent layer, [1, gates * hidden, ...]: places of its gates among those in state dicts of layout
        "out_in", which have no first axis.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    init: Init = "uniform"
    fan_in: int = 1
    is_linear: bool = False
    gates: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def stored_shape(self, layout: str) -> tuple[int, ...]:
        """Shape in a state dict of a layout."""
        if layout == "in_out":
            return self.shape
        return self.shape[::-1] if self.is_linear else self.shape[1:] if self.gates else self.shape

    def from_stored(self, array: Array, layout: str) -> Array:
        """The value from an array of `stored_shape`."""
        if layout == "in_out" or not (self.is_linear or self.gates):
            return array
        if self.is_linear:
            return np.ascontiguousarray(array.T)
        parts = np.split(array, len(self.gates))
        return np.concatenate([parts[i] for i in self.gates])[None]


class Builder:
    """Declares the parameters of blocks in a graph, under names with a prefix.

    Parameters
    ----------
    graph : Graph
    prefix : str
        Put before every name, with a dot.
    fused : bool
        Whether blocks emit fused ops or primitives. The values agree, up to rounding.
    dtype : DType, name or NumPy type
        Of the tables of `embedding`; other parameters have the type of the block's operand.

    Examples
    --------
    >>> import rlx
    >>> from rlx import hir
    >>> g = rlx.Graph("net")
    >>> b = hir.Builder(g, "net")
    >>> with b.scope("head"):
    ...     y = hir.linear(b, g.input("x", ("n", 3), rlx.f32), 2)
    >>> list(b.params)
    ['net.head.weight', 'net.head.bias']
    """

    def __init__(self, graph: Graph, prefix: str = "", *, fused: bool = True, dtype: Any = dtypes.f32) -> None:
        if not isinstance(graph, Graph):
            raise GraphError(f"builder: graph must be a Graph, got {type(graph).__name__}")
        self.graph = graph
        self.fused = bool(fused)
        self.dtype = dtypes.as_dtype(dtype)
        self._path: list[str] = []
        if prefix != "":
            self._path.append(_checked_name("builder", prefix))
        self._specs: dict[str, ParamSpec] = {}
        self._values: dict[str, Value] = {}
        self._shared: dict[Hashable, Value] = {}

    # -- names ------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The names of the open scopes, joined by dots."""
        return ".".join(self._path)

    @contextmanager
    def scope(self, name: str | None) -> Iterator["Builder"]:
        """Names of parameters made inside start with `name` and a dot; None adds nothing.

        Raises
        ------
        GraphError
            The name is not one; or what was raised inside, its text then starting with the path.
        """
        if name is None:
            yield self
            return
        self._path.append(_checked_name(self.path or "builder", name))
        path = self.path
        try:
            yield self
        except GraphError as error:
            if str(error).startswith(path):
                raise
            raise type(error)(f"{path}: {error}") from error
        finally:
            self._path.pop()

    def full_name(self, name: str) -> str:
        """A name with the prefix of the open scopes."""
        return ".".join([*self._path, name])

    def fail(self, block: str, text: str) -> TypeRuleError:
        """The error that a block raises; says where the block stands."""
        return TypeRuleError(f"{self.path}: {block}: {text}" if self._path else f"{block}: {text}")

    def width(self, block: str, x: Value, axis: int = -1) -> int:
        """The size of an axis of an operand, which must be a number as parameters depend on it.

        Raises
        ------
        TypeRuleError
            The operand is no float tensor, the axis is not there, or its size is symbolic.
        """
        if not isinstance(x, Value):
            raise self.fail(block, f"an operand must be a Value, got {type(x).__name__}")
        if x.dtype not in dtypes.FLOATS:
            raise self.fail(block, f"operand type must be a float, got {x.type}")
        if not -x.rank <= axis < x.rank:
            raise self.fail(block, f"the operand must have an axis {axis}, got {x.type}")
        size = x.shape[axis]
        if not isinstance(size, int):
            raise self.fail(block, f"the size of axis {axis} must be a number, got {x.type}")
        return size

    def count(self, block: str, name: str, value: Any) -> int:
        """A size given by the caller.

        Raises
        ------
        TypeRuleError
            It is no integer, or less than 1.
        """
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise self.fail(block, f"{name} must be an integer >= 1, got {value!r}")
        return int(value)

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What `make` gave when it was first asked for by this key: tables that several blocks read."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    # -- parameters -------------------------------------------------------------

    def param(self, name: str, shape: Sequence[int], dtype: Any = None, *, init: Init = "uniform",
              fan_in: int | None = None, is_linear: bool = False, gates: tuple[int, ...] = ()) -> Value:
        """Declare a parameter of the open scope.

        Parameters
        ----------
        name : str
        shape : sequence of int
        dtype : DType, name or NumPy type, optional
            The builder's if not given.
        init : {"uniform", "normal", "zeros", "ones"} or callable
            As in `ParamSpec`.
        fan_in : int, optional
            The first size if not given.
        is_linear : bool
            Whether it is a matrix [in, out].
        gates : tuple of int
            As in `ParamSpec`.

        Raises
        ------
        GraphError
            The name is taken or no name, a size is symbolic, `init` is unknown.
        """
        full = self.full_name(_checked_name(self.path or "builder", name))
        sizes = tuple(shape)
        if not all(isinstance(n, (int, np.integer)) for n in sizes):
            raise TypeRuleError(f"{full}: sizes of a parameter must be numbers, got {list(sizes)}")
        if not callable(init) and init not in _INITS:
            raise GraphError(f"{full}: init must be among {list(_INITS)} or callable, got {init!r}")
        if full in self._specs:
            raise GraphError(f"{full}: parameter names must differ, got this one twice"
                             "\nhint: open a scope per block, or use the value again: builder[name]")
        kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        value = self.graph.param(full, sizes, kind)
        fan = fan_in if fan_in is not None else int(sizes[0]) if sizes else 1
        self._specs[full] = ParamSpec(full, tuple(int(n) for n in sizes), kind, init, fan, is_linear, gates)
        self._values[full] = value
        return value

    @property
    def params(self) -> dict[str, ParamSpec]:
        """What the model needs so far, by full name, in order."""
        return dict(self._specs)

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise UnknownNameError(f"builder of graph {self.graph.name!r}: no parameter {name!r}"
                                   f"{_nearest(name, self._values)}")
        return self._values[name]

    def summary(self) -> str:
        """One line per parameter: name, type, number of elements; then the sum."""
        wide = max(map(len, self._specs), default=5)
        lines = [f"{s.name:<{wide}}  {s.dtype}{list(s.shape)}  {s.size}" for s in self._specs.values()]
        return "\n".join([*lines, f"{'total':<{wide}}  {sum(s.size for s in self._specs.values())}"])

    def random_params(self, seed: int = 0) -> dict[str, Array]:
        """Random values to start from, for ``set_params``.

        Parameters
        ----------
        seed : int
            The values of a parameter depend on it and the parameter's name alone.

        Raises
        ------
        BindingError
            A callable `init` gave another shape.
        """
        return {s.name: _initial(s, np.random.default_rng([seed, zlib.crc32(s.name.encode())]))
                for s in self._specs.values()}

    def load_params(self, state: Mapping[str, Any], *, layout: Literal["in_out", "out_in"] = "in_out",
                    prefix: str = "", strict: bool = True) -> dict[str, Array]:
        """Values from a state dict, checked, for ``set_params``.

        Parameters
        ----------
        state : mapping of str to array
        layout : {"in_out", "out_in"}
            How linear and recurrent layers are stored; "out_in" is PyTorch's.
        prefix : str
            What names in `state` have before those of the model, e.g. ``"model."``.
        strict : bool
            Whether every name in `state` must be one of the model's.

        Raises
        ------
        UnknownNameError
            A parameter is missing or, with `strict`, a name is unknown.
        BindingError
            A shape does not fit.
        BindingTypeError
            An array has another element type than the parameter.
        """
        place = f"state dict of graph {self.graph.name!r}"
        if layout not in _LAYOUTS:
            raise BindingError(f"{place}: layout must be among {list(_LAYOUTS)}, got {layout!r}")
        wanted = {prefix + name: spec for name, spec in self._specs.items()}
        missing = [name for name in wanted if name not in state]
        if missing:
            raise UnknownNameError(f"{place}: must hold every parameter, got none for {missing[:5]} "
                                   f"({len(missing)} missing){_nearest(missing[0], state)}")
        unknown = [name for name in state if name not in wanted]
        if unknown and strict:
            raise UnknownNameError(f"{place}: names must be parameters of the model, got {unknown[:5]} "
                                   f"({len(unknown)} unknown){_nearest(unknown[0], wanted)}")
        return {spec.name: _stored(f"{place}: {name!r}", np.asarray(state[name]), spec, layout)
                for name, spec in wanted.items()}


def _checked_name(place: str, name: Any) -> str:
    if not isinstance(name, str) or not name or not all(name.split(".")):
        raise GraphError(f"{place}: a name must be a non-empty string without empty parts, got {name!r}")
    return name


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), [str(k) for k in known], 3, 0.5) or [str(k) for k in list(known)[:5]]
    return f"\nhint: the nearest names are {near}"


def _initial(spec: ParamSpec, rng: np.random.Generator) -> Array:
    if callable(spec.init):
        found = np.asarray(spec.init(rng, spec.shape))
        if found.shape != spec.shape:
            raise BindingError(f"{spec.name}: init must give shape {spec.shape}, got {found.shape}")
    elif spec.init in ("zeros", "ones"):
        found = np.full(spec.shape, float(spec.init == "ones"))
    elif spec.init == "normal":
        found = 0.02 * rng.standard_normal(spec.shape)
    else:
        found = rng.uniform(-1, 1, spec.shape) / math.sqrt(max(spec.fan_in, 1))
    return found.astype(spec.dtype.numpy)


def _stored(place: str, array: Array, spec: ParamSpec, layout: str) -> Array:
    if array.dtype != spec.dtype.numpy:
        raise BindingTypeError(f"{place}: dtype must be {spec.dtype}, got {array.dtype}"
                               f"\nhint: convert with .astype({np.dtype(spec.dtype.numpy).name!r})")
    shape = spec.stored_shape(layout)
    if array.shape != shape:
        other = next((name for name in _LAYOUTS if name != layout and spec.stored_shape(name) == array.shape), None)
        hint = f"\nhint: it fits layout={other!r}" if other else ""
        raise BindingError(f"{place}: shape must be {shape} in layout {layout!r}, got {array.shape}{hint}")
    return spec.from_stored(array, layout)
