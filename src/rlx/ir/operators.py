"""What a graph value can do as if it were an array: Python's operators, and a few methods of NumPy's arrays."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.errors import GraphError

if TYPE_CHECKING:
    from rlx.dtypes import DType
    from rlx.ir.graph import Value
    from rlx.ir.opdef import Array, OpDef
    from rlx.ir.types import TensorType

# What NumPy calls for `array <operator> value`, and the method of the value that means it.
_REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "true_divide": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "matmul": "__rmatmul__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
    "equal": "__eq__", "not_equal": "__ne__",
}


def _unpacked(given: tuple[Any, ...]) -> Any:
    """Arguments given one by one or as one sequence; None for none."""
    if len(given) == 1 and (given[0] is None or isinstance(given[0], (tuple, list))):
        return given[0]
    return given or None


class Operators:
    """Base of `Value`."""

    __slots__ = ()
    __array_priority__ = 1000.0  # NumPy leaves mixed expressions to us

    if TYPE_CHECKING:
        type: TensorType

        @property
        def name(self) -> str: ...

        @property
        def dtype(self) -> DType: ...

    def __array__(self, *args: Any, **kwargs: Any) -> "Array":
        raise GraphError(
            f"value {self.name!r}: a graph value has no array before the graph runs"
            "\nhint: use the ops of rlx.ops, and run the compiled graph for arrays"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> "Value":
        """An operator with an array on its left; nothing else that NumPy does element by element."""
        name = _REFLECTED.get(ufunc.__name__)
        if name is not None and method == "__call__" and not kwargs and not isinstance(inputs[0], Operators):
            result: Value = getattr(self, name)(inputs[0])
            if result is not NotImplemented:
                return result
        called = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise GraphError(
            f"value {self.name!r}: NumPy must be given arrays, got a graph value for {called}"
            "\nhint: the ops of rlx.ops take graph values"
        )

    def _binary(self, name: str, other: Any, swap: bool = False) -> "Value":
        from rlx import ops

        if not isinstance(other, (Operators, int, float, complex, np.ndarray, np.generic, list)):
            return NotImplemented  # type: ignore[no-any-return]
        op: OpDef = getattr(ops, name)
        result: Value = op(other, self) if swap else op(self, other)
        return result

    def __add__(self, other: Any) -> "Value":
        return self._binary("add", other)

    def __radd__(self, other: Any) -> "Value":
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> "Value":
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> "Value":
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> "Value":
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> "Value":
        return self._binary("mul", other, True)

    def __truediv__(self, other: Any) -> "Value":
        return self._binary("div", other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self._binary("div", other, True)

    def __floordiv__(self, other: Any) -> "Value":
        return self._binary("floor_div", other)

    def __rfloordiv__(self, other: Any) -> "Value":
        return self._binary("floor_div", other, True)

    def __mod__(self, other: Any) -> "Value":
        return self._binary("mod", other)

    def __rmod__(self, other: Any) -> "Value":
        return self._binary("mod", other, True)

    def __pow__(self, other: Any) -> "Value":
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> "Value":
        return self._binary("pow", other, True)

    def __matmul__(self, other: Any) -> "Value":
        return self._binary("matmul", other)

    def __rmatmul__(self, other: Any) -> "Value":
        return self._binary("matmul", other, True)

    def __and__(self, other: Any) -> "Value":
        return self._binary("logical_and" if self.dtype.kind == "b" else "bit_and", other)

    def __or__(self, other: Any) -> "Value":
        return self._binary("logical_or" if self.dtype.kind == "b" else "bit_or", other)

    def __xor__(self, other: Any) -> "Value":
        return self._binary("logical_xor" if self.dtype.kind == "b" else "bit_xor", other)

    def __lshift__(self, other: Any) -> "Value":
        return self._binary("shl", other)

    def __rshift__(self, other: Any) -> "Value":
        return self._binary("shr", other)

    def __lt__(self, other: Any) -> "Value":
        return self._binary("lt", other)

    def __le__(self, other: Any) -> "Value":
        return self._binary("le", other)

    def __gt__(self, other: Any) -> "Value":
        return self._binary("gt", other)

    def __ge__(self, other: Any) -> "Value":
        return self._binary("ge", other)

    def __eq__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._binary("ne", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise GraphError(
            f"value {self.name!r}: a graph value has no truth value before the graph runs"
            "\nhint: use ops.where or control flow ops instead of Python's if/and/or"
        )

    def __iter__(self) -> Any:
        raise GraphError(f"value {self.name!r}: a graph value cannot be iterated; index it instead")

    def __neg__(self) -> "Value":
        return self._call("neg")

    def __invert__(self) -> "Value":
        return self._call("logical_not" if self.dtype.kind == "b" else "bit_not")

    def __abs__(self) -> "Value":
        return self._call("abs")

    def __getitem__(self, key: Any) -> "Value":
        from rlx.ops.indexing import getitem

        result: Value = getitem(self, key)
        return result

    # -- as NumPy's arrays have them ------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.type.shape)

    @property
    def T(self) -> "Value":
        """The axes in reverse order."""
        return self.transpose()

    def transpose(self, *perm: Any) -> "Value":
        """The axes in another order, reversed without arguments: `ops.transpose`."""
        order = _unpacked(perm)
        if order is None:
            order = range(self.ndim)[::-1]
        return self._call("transpose", perm=[a + self.ndim if isinstance(a, int) and a < 0 else a for a in order])

    def reshape(self, *shape: Any) -> "Value":
        """The same elements in another shape, one size of which may be -1: `ops.reshape`."""
        return self._call("reshape", shape=_unpacked(shape) or ())

    def astype(self, dtype: Any) -> "Value":
        """In another element type: `ops.cast`."""
        return self._call("cast", dtype=dtype)

    def sum(self, axis: Any = None, keepdims: bool = False, **of_numpy: Any) -> "Value":
        """Sum over axes, all for None: `ops.reduce_sum`."""
        return self._reduce("reduce_sum", axis, keepdims, of_numpy)

    def mean(self, axis: Any = None, keepdims: bool = False, **of_numpy: Any) -> "Value":
        """Mean over axes, all for None: `ops.reduce_mean`."""
        return self._reduce("reduce_mean", axis, keepdims, of_numpy)

    def max(self, axis: Any = None, keepdims: bool = False, **of_numpy: Any) -> "Value":
        """Largest element over axes, all for None: `ops.reduce_max`."""
        return self._reduce("reduce_max", axis, keepdims, of_numpy)

    def min(self, axis: Any = None, keepdims: bool = False, **of_numpy: Any) -> "Value":
        """Smallest element over axes, all for None: `ops.reduce_min`."""
        return self._reduce("reduce_min", axis, keepdims, of_numpy)

    def _reduce(self, name: str, axis: Any, keepdims: bool, of_numpy: Any) -> "Value":
        if of_numpy:  # np.sum(value) calls value.sum with its own keywords
            raise GraphError(f"value {self.name!r}: a reduction takes axis and keepdims, got {sorted(of_numpy)}"
                             "\nhint: NumPy's functions take arrays; call the method, or an op of rlx.ops")
        return self._call(name, axes=axis, keepdims=keepdims)

    def _call(self, name: str, **attrs: Any) -> "Value":
        from rlx import ops

        result: Value = getattr(ops, name)(self, **attrs)
        return result
