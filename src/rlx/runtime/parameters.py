"""The calls for parameters of an executable."""

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.errors import BindingError, UnknownNameError
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.runtime.binding import as_mapping, fit, from_bytes, nearest, shape_of

if TYPE_CHECKING:
    from rlx.runtime.executable import CompiledGraph
    from rlx.runtime.state import Handles


class Parameters:
    """Base of what has parameters: values that are set before the first run and kept between runs."""

    if TYPE_CHECKING:
        graph: Graph
        _bound: Graph
        _handles: Handles
        _params: dict[str, Array | None]
        _sharers: weakref.WeakSet[CompiledGraph]

    def _given_params(self) -> dict[str, Array]:
        return self._given_params_of(self._params)

    def _given_params_of(self, names: Iterable[str]) -> dict[str, Array]:
        missing = [n for n in names if self._params[n] is None]
        if missing:
            raise BindingError(
                f"graph {self.graph.name!r}: every parameter must be set before the first run, got none for {missing}"
                "\nhint: call set_params({...})"
            )
        return {n: a for n in names if (a := self._params[n]) is not None}

    def _param(self, name: str) -> Value:
        for v in (*self._bound.params, *self._bound.inputs):
            if v.node.name == name and (name in self._params or name in self._handles.params):
                return v
        raise UnknownNameError(f"graph {self.graph.name!r}: no parameter {name!r}{nearest(name, self._params)}")

    def set_param(self, name: str, array: Any) -> None:
        """Set a parameter. The array is copied.

        Raises
        ------
        UnknownNameError, BindingError
            No such parameter, or another shape or element type.
        """
        if name in self._handles.params:
            self._handles.set_param(name, array)
            return
        v = self._param(name)
        shape = v.shape if v.type.is_static else shape_of(array, f"parameter {name!r}")
        fitted = fit(array, v.dtype, shape, f"parameter {name!r} of graph {self.graph.name!r}")  # type: ignore[arg-type]
        self._params[name] = fitted.copy() if fitted is array or fitted.base is not None else fitted
        for exe in list(self._sharers):
            exe._dirty = True

    def set_params(self, arrays: Mapping[str, Any]) -> None:
        """Set several parameters; nothing is changed when one of them does not fit."""
        arrays = as_mapping(arrays, "parameters")
        for name, array in arrays.items():
            v = self._param(name)
            if v.type.is_static:
                fit(array, v.dtype, v.shape, f"parameter {name!r} of graph {self.graph.name!r}")  # type: ignore[arg-type]
        for name, array in arrays.items():
            self.set_param(name, array)

    def set_param_typed(self, name: str, data: Any, dtype: Any) -> None:
        """Set a parameter from raw bytes of the declared element type."""
        v = self._param(name)
        self.set_param(name, from_bytes(data, dtypes.as_dtype(dtype), v, f"parameter {name!r}"))

    def set_param_range(self, name: str, start: int, values: Any) -> None:
        """Replace some elements of a parameter that is set, in the order of its memory.

        Parameters
        ----------
        name : str
        start : int
            Place of the first one, counted over all axes.
        values : array of the parameter's type, rank 1

        Raises
        ------
        UnknownNameError, BindingError
            No such parameter, it is not set, or the range is not within it.
        """
        array = self.get_param(name)
        what = f"parameter {name!r} of graph {self.graph.name!r}"
        given = shape_of(values, what)
        whole = isinstance(start, (int, np.integer)) and not isinstance(start, bool)
        if not whole or len(given) != 1 or not 0 <= start <= array.size - given[0]:
            raise BindingError(f"{what}: elements [start, start + n) must be in [0, {array.size}), got start {start!r} "
                               f"and values of shape {given}")
        array.reshape(-1)[start : start + given[0]] = fit(values, self._param(name).dtype, given, what)
        self.set_param(name, array)

    def get_param(self, name: str) -> Array:
        """A copy of a parameter's value.

        Raises
        ------
        BindingError
            It has not been set.
        """
        self._param(name)
        if name in self._handles.params:
            return self._handles.read(name)
        array = self._params[name]
        if array is None:
            raise BindingError(f"parameter {name!r}: must be set before it is read, got none")
        return array.copy()
