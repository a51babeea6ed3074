"""Channels-last: convolutions and what lies between them work on [N, spatial..., C].

Every value of the old graph may live in the new one in its own order (`first`), channels last
(`last`), or both; a transpose is made only when a reader asks for the form that is missing, once.
Convolutions ask for channels last; elementwise ops, pools, normalisations, concat, pad, slice,
reductions and reshapes that keep N and C follow their operands; everything else asks for its own order. So a
CNN gets one transpose at its start and one at its end, or none where C or the spatial size is 1.
The order of axes is all that changes: results are the same bits up to the kernels' summation order.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rlx.ir.dims import product
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import normal_axis
from rlx.passes.cleanup import prune
from rlx.passes.epilogue import Readers

# Ops whose channels-last twin <name>_nhwc takes the same operands and attributes.
DRIVERS = ("conv", "conv_transpose", "int8_conv")


def to_last(rank: int) -> tuple[int, ...]:
    """Permutation of axes from channels first to channels last."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """Permutation of axes from channels last to channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def last_axis(axis: int, rank: int) -> int:
    """Where an axis of a channels-first value lies channels last."""
    return to_last(rank).index(normal_axis(axis, rank, "layout"))


def channels_last(graph: Graph) -> Graph:
    """Rewrite a graph that has convolutions."""
    from rlx.ops import TABLE

    names = {name for d in DRIVERS if (name := f"{d}_nhwc") in TABLE}
    if not any(f"{n.op.name}_nhwc" in names for n in graph.nodes):
        return graph
    layout = _Layout(graph)
    found = prune(layout.run())
    layout.followers.clear()  # its methods: a cycle
    return found


class _Layout:
    def __init__(self, graph: Graph) -> None:
        from rlx.ops import TABLE

        self.graph = graph
        self.table = TABLE
        self.r = Rewriter(graph)
        self.last: dict[Value, Value] = {}
        self.shuffles = _shuffles(graph)
        self.inside = {id(n) for first, middle, _ in self.shuffles.values() for n in (first, middle)}
        self.followers: dict[str, Callable[[Node], bool]] = {
            "concat": self._concat, "slice": self._slice, "pad": self._pad, "softmax": self._with_axis,
            "log_softmax": self._with_axis, "reshape": self._reshape, "transpose": self._transpose,
        }

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if id(node) in self.inside or (id(node) in self.shuffles and self._shuffle(node)):
                continue
            if node.op.has("leaf") or not self._visit(node):
                for v in node.inputs:
                    if v is not None:
                        self.want_first(v)
                self.r.copy(node)
        for v in self.graph.outputs.values():
            self.want_first(v)
        return self.r.finish()

    # -- forms of a value ----------------------------------------------------------

    def only_last(self, v: Value | None) -> bool:
        """Whether the value lives channels last and nowhere else."""
        return v is not None and v in self.last and v not in self.r.map

    def want_last(self, v: Value) -> Value:
        """The value channels last."""
        if v not in self.last:
            self.last[v] = self._permuted(self.r.map[v], to_last(v.rank), v)
        return self.last[v]

    def want_first(self, v: Value) -> Value:
        """The value in its own order."""
        if v not in self.r.map:
            self.r.map[v] = self._permuted(self.last[v], to_first(v.rank), v)
        return self.r.map[v]

    def _permuted(self, x: Value, perm: Sequence[int], like: Value) -> Value:
        if x.array is not None:
            return self.r.graph.constant(np.ascontiguousarray(np.transpose(x.array, perm)))
        moved = [p for p in perm if x.shape[p] != 1]
        shape = tuple(x.shape[p] for p in perm)
        if moved == sorted(moved):
            return self._emit("reshape", [x], {"shape": shape}, like.node)[0]
        return self._emit("transpose", [x], {"perm": tuple(perm)}, like.node)[0]

    def _emit(
        self, name: str, inputs: Sequence[Value | None], attrs: dict[str, object], node: Node
    ) -> tuple[Value, ...]:
        return self.r.graph.emit(self.table[name], inputs, attrs, name=f"{node.name}/layout", loc=node.loc)

    def done(self, node: Node, results: Sequence[Value]) -> bool:
        """Note results that live channels last."""
        for old, new in zip(node.outputs, results, strict=True):
            self.last[old] = new
        return True

    # -- nodes ---------------------------------------------------------------------

    def _visit(self, node: Node) -> bool:
        name = node.op.name
        if name in DRIVERS and f"{name}_nhwc" in self.table:
            return self._twin(node)
        follow = self.followers.get(name)
        if node.op.has("elementwise"):
            follow = self._elementwise
        elif name.startswith("reduce_"):
            follow = self._reduce
        elif node.attrs.get("layout") == "nchw":
            follow = self._with_layout
        return follow(node) if follow is not None else False

    def _twin(self, node: Node) -> bool:
        """The channels-last twin: the first operand is an image, the others are as they are."""
        x = node.inputs[0]
        assert x is not None
        if not 3 <= x.rank <= 5:
            return False
        rest = [None if v is None else self.want_first(v) for v in node.inputs[1:]]
        twin = self.table[f"{node.op.name}_nhwc"]
        return self.done(node, self.r.emit(twin, [self.want_last(x), *rest], node.attrs, node))

    def _with_layout(self, node: Node) -> bool:
        """An op that takes either layout."""
        x = node.inputs[0]
        if not self.only_last(x) or len(node.outputs) != 1:
            return False
        assert x is not None
        rest = [None if v is None else self.want_first(v) for v in node.inputs[1:]]
        return self.done(node, self.r.emit(node.op, [self.last[x], *rest], {**node.attrs, "layout": "nhwc"}, node))

    def _elementwise(self, node: Node) -> bool:
        rank = node.outputs[0].rank
        if not 3 <= rank <= 5 or not any(self.only_last(v) and v.rank == rank for v in node.inputs if v is not None):
            return False
        operands = []
        for v in node.inputs:
            assert v is not None
            operands.append(self._aligned(v, rank))
        y = node.outputs[0].type  # the rules have run: only the order of the axes is another
        kind = y.with_shape([y.shape[p] for p in to_last(rank)])
        return self.done(node, self.r.graph.adopt(node, tuple(operands), (kind,)))

    def _aligned(self, v: Value, rank: int) -> Value:
        """An operand that broadcasts, channels last."""
        if v.rank == rank:
            return self.want_last(v)
        x = self.want_first(v)
        if all(d == 1 for d in x.shape):
            return x
        shape = (*(1,) * (rank - v.rank), *x.shape)
        if x.array is not None:
            x = self.r.graph.constant(x.array.reshape(shape))
        else:
            x = self._emit("reshape", [x], {"shape": shape}, v.node)[0]
        return self._permuted(x, to_last(rank), v)

    def _concat(self, node: Node) -> bool:
        rank = node.outputs[0].rank
        if rank < 3 or not any(self.only_last(v) for v in node.inputs):
            return False
        operands = [self.want_last(v) for v in node.inputs if v is not None]
        axis = last_axis(node.attrs["axis"], rank)
        return self.done(node, self.r.emit(node.op, operands, {"axis": axis}, node))

    def _slice(self, node: Node) -> bool:
        x = node.inputs[0]
        if not self.only_last(x):
            return False
        assert x is not None
        axes = node.attrs["axes"] or tuple(range(len(node.attrs["starts"])))
        attrs = {**node.attrs, "axes": tuple(last_axis(a, x.rank) for a in axes)}
        return self.done(node, self.r.emit(node.op, [self.last[x]], attrs, node))

    def _pad(self, node: Node) -> bool:
        x = node.inputs[0]
        if not self.only_last(x):
            return False
        assert x is not None
        perm = to_last(x.rank)
        moved = {side: tuple(node.attrs[side][p] for p in perm) for side in ("before", "after")}
        return self.done(node, self.r.emit(node.op, [self.last[x]], {**node.attrs, **moved}, node))

    def _with_axis(self, node: Node) -> bool:
        """An op along one axis that keeps the shape."""
        x = node.inputs[0]
        if not self.only_last(x) or len(node.inputs) != 1 or node.outputs[0].shape != x.shape:  # type: ignore[union-attr]
            return False
        assert x is not None
        attrs = {**node.attrs, "axis": last_axis(node.attrs["axis"], x.rank)}
        return self.done(node, self.r.emit(node.op, [self.last[x]], attrs, node))

    def _reduce(self, node: Node) -> bool:
        x = node.inputs[0]
        if not self.only_last(x) or len(node.inputs) != 1 or "keepdims" not in node.attrs or "axes" not in node.attrs:
            return False
        assert x is not None
        axes, keep = node.attrs["axes"], node.attrs["keepdims"]
        chosen = tuple(range(x.rank)) if axes is None else tuple(normal_axis(a, x.rank, "reduce") for a in axes)
        attrs = {**node.attrs, "axes": None if axes is None else tuple(sorted(last_axis(a, x.rank) for a in chosen))}
        results = self.r.emit(node.op, [self.last[x]], attrs, node)
        left = [a for a in range(x.rank) if a not in chosen]
        if keep or (left[:2] == [0, 1] and len(left) >= 3):
            return self.done(node, results)
        order = [p for p in to_last(x.rank) if p in left]  # axes of the result as it lies
        if order == left or len(left) < 3:
            if order != left:
                results = self._emit("transpose", [results[0]], {"perm": (1, 0)}, node)
            self.r.replace(node.outputs[0], results[0])
            return True
        perm = tuple(order.index(a) for a in left)
        self.r.replace(node.outputs[0], self._emit("transpose", [results[0]], {"perm": perm}, node)[0])
        return True

    def _reshape(self, node: Node) -> bool:
        """A reshape of the spatial axes alone keeps N and C where they are."""
        x, out = node.inputs[0], node.outputs[0]
        if not self.only_last(x) or out.rank < 3:
            return False
        assert x is not None
        if x.shape[:2] != out.shape[:2] or product(x.shape[2:]) != product(out.shape[2:]):
            return False
        shape = (out.shape[0], *out.shape[2:], out.shape[1])
        return self.done(node, self.r.emit(node.op, [self.last[x]], {"shape": shape}, node))

    def _shuffle(self, node: Node) -> bool:
        """A transpose of groups of channels, spelled as reshape, transpose, reshape."""
        first, middle, groups = self.shuffles[id(node)]
        x, out = first.inputs[0], node.outputs[0]
        assert x is not None
        if self.only_last(x):
            n, *spatial, c = self.last[x].shape
            y = self._emit("reshape", [self.last[x]], {"shape": (n, *spatial, groups, c // groups)}, first)[0]
            rank = y.rank
            y = self._emit("transpose", [y], {"perm": (*range(rank - 2), rank - 1, rank - 2)}, middle)[0]
            return self.done(node, self.r.emit(node.op, [y], {"shape": (n, *spatial, c)}, node))
        self.want_first(x)
        self.r.copy(first)
        self.r.copy(middle)
        self.r.copy(node)
        return out in self.r.map

    def _transpose(self, node: Node) -> bool:
        """A change of layout spelled out in the graph costs nothing."""
        x, out, perm = node.inputs[0], node.outputs[0], node.attrs["perm"]
        assert x is not None
        if x.rank < 3:
            return False
        if perm == to_first(x.rank) and x in self.r.map:
            self.last[out] = self.r.map[x]
            return True
        if self.only_last(x):
            if perm == to_last(x.rank):
                self.r.replace(out, self.last[x])
                return True
            whole = tuple(to_first(x.rank)[p] for p in perm)
            self.r.replace(out, self.r.emit(node.op, [self.last[x]], {"perm": whole}, node)[0])
            return True
        return False


def _shuffles(graph: Graph) -> dict[int, tuple[Node, Node, int]]:
    """Channel shuffles by id of their last node: (reshape, transpose, number of groups)."""
    found: dict[int, tuple[Node, Node, int]] = {}
    readers = Readers(graph)
    for node in graph.nodes:
        middle = node.inputs[0].node if node.op.name == "reshape" and node.inputs[0] is not None else None
        if middle is None or middle.op.name != "transpose" or readers.only(middle.outputs[0]) is not node:
            continue
        split = middle.inputs[0]
        assert split is not None
        perm, first = middle.attrs["perm"], split.node
        if first.op.name != "reshape" or readers.only(split) is not middle or perm != (0, 2, 1, *range(3, len(perm))):
            continue
        x = first.inputs[0]
        assert x is not None
        if (
            x.shape == node.outputs[0].shape
            and len(perm) == x.rank + 1
            and x.rank >= 3
            and x.shape[2:] == split.shape[3:]
            and (x.shape[0] == split.shape[0])
            and isinstance(split.shape[1], int)
        ):
            found[id(node)] = (first, middle, split.shape[1])
    return found
