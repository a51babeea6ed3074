"""The row of an op that a user registers: an `OpDef` with a kernel to call and a derivative rule."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlx.dtypes import DType, as_dtype, of_array
from rlx.errors import RlxError, TypeRuleError
from rlx.ir.opdef import Array, OpDef, result_arrays
from rlx.ir.types import TensorType, check_size
from rlx.records import field, record

Kernel = Callable[..., Any]


@record(frozen=True)
class Native:
    """A C function: its address, and the object that keeps it alive."""

    address: int
    owner: object = field(compare=False, repr=False)


@record(frozen=True, eq=False)
class CustomOp(OpDef):
    """A registered op. Made by `rlx.register_op`; calling it emits a node.

    Attributes
    ----------
    kernel : callable or Native, optional
        What a run calls; None calls the definition.
    n_results : int
        Number of results.
    vjp : callable, optional
        ``vjp(operands, results, gradients, **attrs)`` on values of a graph: a gradient or None per operand.
    writes : bool
        The Python kernel takes ``out=`` and returns nothing.
    copies : bool
        The Python kernel gets copies that it may keep and change.
    items : callable, optional
        ``items(*types, **attrs)``: independent items of a C kernel, which may then be split over threads.
    item_ns : float
        Estimated nanoseconds per item on one core.
    version : int
        Part of the structural hash.
    onnx : tuple of (domain, name, first opset)
    """

    kernel: Kernel | Native | None = None
    n_results: int = 1
    vjp: Callable[..., Any] | None = None
    writes: bool = False
    copies: bool = False
    items: Callable[..., int] | None = None
    item_ns: float = 1.0
    version: int = 1
    onnx: tuple[tuple[str, str, int], ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether its kernel is a C function."""
        return isinstance(self.kernel, Native)

    def function(self) -> Kernel:
        """What a run calls in Python: the kernel, or the definition, which gets half types widened."""
        if callable(self.kernel):
            return self.kernel
        return self._definition

    def _definition(self, *arrays: Array | None, **attrs: Any) -> Any:
        halves = [a is not None and a.dtype.itemsize == 2 and a.dtype.kind in "fV" for a in arrays]
        if not any(halves):
            return self.reference(*arrays, **attrs)
        types = [None if a is None else TensorType.of(of_array(a), a.shape) for a in arrays]
        wide = [a.astype(np.float32) if half and a is not None else a for a, half in zip(arrays, halves, strict=True)]
        results = result_arrays(self.reference(*wide, **attrs))
        wanted = self.infer(*types, **attrs)
        if len(results) != len(wanted):
            return results
        return tuple(r.astype(t.dtype.numpy) if t.dtype.is_half else r for r, t in zip(results, wanted, strict=True))


def type_rule(
    name: str, n_results: int, infer: Callable[..., Any] | None, shape: Callable[..., Any] | None,
    dtype: Callable[..., Any] | None, dtypes: Sequence[DType],
) -> Callable[..., tuple[TensorType, ...]]:
    """The checked rule of an op, from a rule for types or from rules for shapes and element types."""

    def types_of(given: tuple[TensorType | None, ...], attrs: Mapping[str, Any]) -> Any:
        if infer is not None:
            return infer(*given, **attrs)
        first = next((t for t in given if t is not None), None)
        if first is None and (shape is None or dtype is None):
            raise TypeRuleError(f"{name}: without operands, rules for shape and dtype must be given, got none")
        shapes = [None if t is None else t.shape for t in given]
        kinds = [None if t is None else t.dtype for t in given]
        made_shape = first.shape if shape is None and first is not None else shape(*shapes, **attrs)  # type: ignore[misc]
        made_kind = first.dtype if dtype is None and first is not None else dtype(*kinds, **attrs)  # type: ignore[misc]
        if n_results == 1:
            return TensorType.of(as_dtype(made_kind), made_shape)
        made_shapes = [made_shape] * n_results if shape is None else list(made_shape)
        made_kinds = [made_kind] * n_results if not isinstance(made_kind, (list, tuple)) else list(made_kind)
        if len(made_shapes) != n_results or len(made_kinds) != n_results:
            raise TypeRuleError(f"{name}: rules must give {n_results} shapes and element types, got "
                                f"{len(made_shapes)} and {len(made_kinds)}")
        return tuple(TensorType.of(as_dtype(k), s) for k, s in zip(made_kinds, made_shapes, strict=True))

    def rule(*types: TensorType | None, **attrs: Any) -> tuple[TensorType, ...]:
        for t in types:
            if t is not None and t.dtype not in dtypes:
                raise TypeRuleError(f"{name}: types must be one of {list(dtypes)}, got {t.dtype}")
        try:
            made = types_of(types, attrs)
        except RlxError:
            raise
        except Exception as error:
            given = [str(t) for t in types]
            raise TypeRuleError(f"{name}: its rule failed on {given}: {type(error).__name__}: {error}") from error
        result = (made,) if isinstance(made, TensorType) else tuple(made) if isinstance(made, (tuple, list)) else made
        if not isinstance(result, tuple) or not all(isinstance(t, TensorType) for t in result):
            raise TypeRuleError(f"{name}: its rule must give TensorType, got {made!r}")
        if len(result) != n_results:
            raise TypeRuleError(f"{name}: its rule must give {n_results} types, got {len(result)}")
        for t in result:
            check_size(t, name)
        return result

    return rule
