"""What the function of an ONNX op sees: operands, attributes, and ways to emit."""

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx import hostcalls
from rlx.onnx.block import Block, NodeDef, plain
from rlx.onnx.scope import Scope
from rlx.onnx.steps import Slot
from rlx.onnx.tensors import Array, type_name

if TYPE_CHECKING:
    from rlx.onnx.tracer import Tracer

_MISSING: Any = object()
# The methods of NodeContext hide the names of the types.
_Int = int
_Str = str


class NodeContext:
    """One node at the time it is emitted.

    Constants must be asked for (`const`) before values (`x`): a constant may end
    the current segment, and values belong to one segment.
    """

    def __init__(self, tracer: "Tracer", node: NodeDef, scope: Scope) -> None:
        self.tracer = tracer
        self.node = node
        self.scope = scope

    # -- operands -----------------------------------------------------------------

    @property
    def opset(self) -> _Int:
        """Opset version of the node's domain."""
        return self.node.version

    @property
    def n_inputs(self) -> _Int:
        """Number of operands, absent ones included."""
        return len(self.node.inputs)

    @property
    def n_outputs(self) -> _Int:
        """Number of results, unused ones included."""
        return len(self.node.outputs)

    def wants(self, i: _Int) -> bool:
        """Whether result i is read by anybody."""
        return i < len(self.node.outputs) and bool(self.node.outputs[i])

    def has(self, i: _Int) -> bool:
        """Whether operand i is given."""
        return i < len(self.node.inputs) and bool(self.node.inputs[i])

    def _items(self, i: _Int) -> tuple[dict[_Str, Any], _Str]:
        name = self.node.inputs[i] if i < len(self.node.inputs) else ""
        if not name:
            raise FormatError(f"operand {i} must be given, got none")
        items = self.scope.find(name)
        if items is None:
            raise FormatError(f"operand {i} must be the result of an earlier node, got {name!r}")
        return items, name

    def item(self, i: _Int) -> Any:
        """Operand i as it is kept: array, Value, Slot, list; None when absent."""
        if not self.has(i):
            return None
        items, name = self._items(i)
        return items[name]

    def items(self) -> list[Any]:
        """All operands as they are kept."""
        return [self.item(i) for i in range(len(self.node.inputs))]

    def x(self, i: _Int) -> Value:
        """Operand i as a value of the graph."""
        items, name = self._items(i)
        try:
            return self.tracer.value(items[name])
        except FormatError as error:
            raise FormatError(f"operand {i} ({name!r}): {error}") from None

    def opt(self, i: _Int) -> Value | None:
        """Operand i as a value, None when it is absent."""
        return self.x(i) if self.has(i) and self.item(i) is not None else None

    def xs(self) -> list[Value]:
        """All operands as values."""
        return [self.x(i) for i in range(len(self.node.inputs))]

    def const(self, i: _Int) -> Any:
        """Operand i as an array that is known now; ends the segment if it must."""
        items, name = self._items(i)
        return self.tracer.demand(items, name)

    def const_ints(self, i: _Int) -> list[_Int]:
        """Operand i as a list of ints."""
        return self.tracer.graph.numbers(self.const(i))

    def opt_ints(self, i: _Int, default: Any = None) -> Any:
        """Operand i as a list of ints, or the default when it is absent."""
        return self.const_ints(i) if self.has(i) and self.item(i) is not None else default

    def scalar(self, i: _Int) -> Any:
        """Operand i as a Python number."""
        array = np.asarray(self.const(i))
        if array.size != 1:
            raise FormatError(f"operand {i} must be a scalar, got shape {array.shape}")
        if self.tracer.graph.is_sized(array):
            return self.tracer.graph.numbers(array)[0]
        return array.reshape(-1)[0].item()

    def opt_scalar(self, i: _Int, default: Any = None) -> Any:
        """Operand i as a Python number, or the default when it is absent."""
        return self.scalar(i) if self.has(i) and self.item(i) is not None else default

    def peek(self, i: _Int) -> Any:
        """Operand i as an array if that costs nothing, else None."""
        return self.tracer.peek(self.item(i))

    def on_host(self, i: _Int) -> bool:
        """Whether operand i has an element type that only the host knows, or is no tensor."""
        return is_host(self.item(i))

    def shape(self, i: _Int) -> tuple[_Int, ...]:
        """Shape of operand i, whatever it is made of."""
        item = self.item(i)
        if isinstance(item, (Value, np.ndarray)):
            return tuple(item.shape)
        if isinstance(item, Slot) and item.shape is not None:
            return item.shape
        raise FormatError(f"operand {i} must be a tensor, got {type(item).__name__}")

    def rank(self, i: _Int) -> _Int:
        """Rank of operand i."""
        return len(self.shape(i))

    def dtype(self, i: _Int) -> DType | None:
        """Element type of operand i; None for those of the host."""
        item = self.item(i)
        if isinstance(item, Value):
            return item.dtype
        if isinstance(item, Slot):
            return item.type.dtype if item.type is not None else None
        return dtypes_of(item) if isinstance(item, np.ndarray) else None

    def sequence(self, i: _Int) -> list[Any]:
        """Operand i as a list of items."""
        item = self.item(i)
        if not isinstance(item, list):
            raise FormatError(f"operand {i} must be a sequence, got {type(item).__name__}")
        return item

    def move(self, op: Any, operands: Sequence[_Int] = (0,), **attrs: Any) -> Any:
        """An op that copies values, on tensors of any element type."""
        if any(self.on_host(i) for i in operands):
            given = [self.item(i) for i in operands]
            if op.name == "reshape":
                shape = attrs["shape"]
                if self.shape(operands[0]) == shape:
                    return given[0]
                return self.host(hostcalls.move(op="reshape", attrs={"shape": shape}), given, fixed=True, floats=False)
            normal = op.normal_attrs(attrs)
            return self.host(hostcalls.move(op=op.name, attrs=normal), given, fixed=True, floats=False)
        return op(*(self.x(i) for i in operands), **attrs)

    # -- attributes -----------------------------------------------------------------

    def attributes(self) -> dict[_Str, Any]:
        """All attributes, references to the function's attributes resolved."""
        found = dict(self.node.attrs)
        if self.node.refs:
            outer = self.tracer.frames[-1].attributes if self.tracer.frames else {}
            found.update({k: outer[r] for k, r in self.node.refs.items() if r in outer})
        return {k: plain(v) for k, v in found.items()}

    def attr(self, name: _Str, default: Any = _MISSING) -> Any:
        """An attribute as it is in the file."""
        ref = self.node.refs.get(name) if self.node.refs else None
        if ref is not None:
            outer = self.tracer.frames[-1].attributes if self.tracer.frames else {}
            if ref in outer:
                return plain(outer[ref])
        elif name in self.node.attrs:
            return plain(self.node.attrs[name])
        if default is _MISSING:
            raise FormatError(f"attribute {name!r} must be given, got none")
        return default

    def _typed(self, name: _Str, default: Any, kinds: type | tuple[type, ...], what: _Str) -> Any:
        value = self.attr(name, default)
        if value is not default and not isinstance(value, kinds):
            raise FormatError(f"attribute {name!r} must be {what}, got {type(value).__name__}")
        return value

    def int(self, name: _Str, default: Any = _MISSING) -> Any:
        """An int attribute."""
        return self._typed(name, default, int, "an int")

    def float(self, name: _Str, default: Any = _MISSING) -> Any:
        """A float attribute."""
        value = self._typed(name, default, (float, int), "a float")
        return float(value) if value is not None else None

    def str(self, name: _Str, default: Any = _MISSING) -> Any:
        """A string attribute."""
        value = self._typed(name, default, (bytes, str), "a string")
        return value.decode() if isinstance(value, bytes) else value

    def ints(self, name: _Str, default: Any = _MISSING) -> Any:
        """A list of ints attribute."""
        value = self._typed(name, default, (list, array), "a list of ints")
        return value.tolist() if isinstance(value, array) else value

    def floats(self, name: _Str, default: Any = _MISSING) -> Any:
        """A list of floats attribute."""
        value = self._typed(name, default, (list, array), "a list of floats")
        return value.tolist() if isinstance(value, array) else value

    def strs(self, name: _Str, default: Any = _MISSING) -> Any:
        """A list of strings attribute."""
        value = self._typed(name, default, list, "a list of strings")
        return [s.decode() for s in value] if value is not None and value is not default else value

    def block(self, name: _Str) -> Block:
        """A graph attribute."""
        value: Block = self._typed(name, _MISSING, Block, "a graph")
        return value

    def type_attr(self, name: _Str, default: Any = _MISSING) -> DType:
        """An element type attribute that the IR computes with."""
        code = self.int(name, default)
        found = dtypes.from_onnx(code)
        if found is None:
            raise FormatError(
                f"attribute {name!r} must be an element type that can be computed with, got {type_name(code)}"
            )
        return found

    # -- emitting ---------------------------------------------------------------------

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant of the graph."""
        return self.tracer.graph.constant(np.asarray(array), dtype)

    def like(self, number: Any, x: Value) -> Value:
        """A scalar constant of the element type of x."""
        return self.tracer.graph.number(number, x.dtype)

    def host(
        self,
        function: Callable[..., Any],
        items: Sequence[Any] | None = None,
        *,
        fixed: bool = False,
        floats: bool = True,
        fresh: bool = False,
    ) -> Any:
        """Results of a Python function on concrete values (all operands by default).

        `fixed`: their types and shapes follow from those of the operands. `floats`: it computes with floats.
        `fresh`: every call makes new results.
        """
        given = self.items() if items is None else items
        results = self.tracer.host(function, given, fixed=fixed, floats=floats, fresh=fresh)
        return results if len(results) != 1 else results[0]

    def host_beside(
        self, function: Callable[..., Any], items: Sequence[Any], kept: Sequence[Value]
    ) -> tuple[Any, list[Value]]:
        """As `host`, and values of before the call as values of after it."""
        scope = Scope(None, {str(i): self.tracer.item(v) for i, v in enumerate(kept)})
        self.tracer.scopes.append(scope)
        result = self.host(function, items)
        self.tracer.scopes.pop()
        return result, [self.tracer.value(scope.items[str(i)]) for i in range(len(kept))]

    def trimmed(self, value: Value, count: Value) -> Any:
        """The first rows of a result of largest size; ends the segment to learn how many there are."""
        kept, number = self.tracer.cut([self.tracer.item(value), self.tracer.item(count)])
        rows = int(np.asarray(self.tracer.read(number)).reshape(-1)[0])
        from rlx import ops

        return ops.slice(self.tracer.value(kept), starts=(0,), stops=(rows,), axes=(0,))


def dim(v: Value, axis: int) -> int:
    """Size of an axis; a number, while importing."""
    d = v.shape[axis]
    assert isinstance(d, int)
    return d


def dims(v: Value) -> tuple[int, ...]:
    """All sizes of a value."""
    return tuple(dim(v, i) for i in range(v.rank))


def is_host(item: Any) -> bool:
    """Whether an item has an element type that only the host knows, or is no tensor."""
    if isinstance(item, Slot):
        return item.type is None
    if isinstance(item, np.ndarray):
        return item.dtype == object or dtypes_of(item) is None
    return isinstance(item, list)


def dtypes_of(array: Array) -> DType | None:
    """The IR's element type of an array, None if it has none."""
    try:
        return dtypes.of_array(array)
    except ValueError:
        return None
