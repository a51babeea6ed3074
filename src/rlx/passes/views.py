"""Strided views: what a chain of reshapes, transposes and slices reads of the value it starts from."""

from collections.abc import Callable, Sequence

from rlx.ir.graph import Node, Value
from rlx.ir.types import normal_axis, static_shape
from rlx.ops.view import bounds, normal_stop
from rlx.records import record


@record(eq=False)
class View:
    """Elements ``offset + sum(index * stride)`` of the contiguous value `base`."""

    base: Value
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def permuted(self, perm: Sequence[int]) -> "View":
        """The view with its axes in another order."""
        return View(self.base, self.offset, tuple(self.shape[p] for p in perm), tuple(self.strides[p] for p in perm))


def contiguous(value: Value) -> View:
    """A value as it is."""
    shape = static_shape(value.shape, value.name)
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return View(value, 0, shape, tuple(strides))


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The view in another shape, or None if that needs a copy."""
    old = [(d, s) for d, s in zip(view.shape, view.strides, strict=True) if d != 1]
    if any(d == 0 for d, _ in old):
        return None
    strides: list[int] = []
    i = 0
    left, step = 1, 0  # what is left of the current run of old axes, and the stride of its innermost axis
    for d in reversed(shape):
        if d == 1:
            strides.append(0)
            continue
        if left == 1:
            if i >= len(old):
                return None
            left, step = old[len(old) - 1 - i]
            i += 1
        while left % d and i < len(old):
            size, stride = old[len(old) - 1 - i]
            if stride != step * left:
                return None
            left, i = left * size, i + 1
        if left % d:
            return None
        strides.append(step)
        left, step = left // d, step * d
    return View(view.base, view.offset, tuple(shape), tuple(reversed(strides)))


def _sliced(view: View, node: Node) -> View:
    starts, stops = node.attrs["starts"], node.attrs["stops"]
    axes = node.attrs["axes"] or tuple(range(len(starts)))
    steps = node.attrs["steps"] or (1,) * len(axes)
    shape, strides, offset = list(view.shape), list(view.strides), view.offset
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        axis = normal_axis(axis, len(shape), "slice")
        first, count = bounds(shape[axis], start, normal_stop(stop, step), step)
        offset += (first if count else 0) * strides[axis]
        shape[axis], strides[axis] = count, strides[axis] * step
    return View(view.base, offset, tuple(shape), tuple(strides))


def trace(value: Value, transparent: Callable[[Node], Value | None] | None = None) -> tuple[View, list[Node]]:
    """The deepest value that `value` is a view of, and the transparent nodes on the way to it.

    Parameters
    ----------
    transparent : callable, optional
        Returns the operand of a node that may be looked through as if it changed nothing.
    """
    chain: list[tuple[Node, bool]] = []
    at = value
    while True:
        inner = transparent(at.node) if transparent is not None else None
        if inner is not None:
            chain.append((at.node, True))
        elif at.node.op.name in ("reshape", "transpose", "slice"):
            chain.append((at.node, False))
            inner = at.node.inputs[0]
        else:
            break
        assert inner is not None
        at = inner
    view = contiguous(at)
    passed: list[Node] = []
    for node, through in reversed(chain):
        if through:
            passed.append(node)
        elif node.op.name == "transpose":
            view = view.permuted(node.attrs["perm"])
        elif node.op.name == "slice":
            view = _sliced(view, node)
        else:
            made = reshaped(view, static_shape(node.outputs[0].shape, node.name))
            if made is None:  # a copy is needed here: start again from its result
                made, passed = contiguous(node.outputs[0]), []
            view = made
    return view, passed
