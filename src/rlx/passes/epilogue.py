"""What products and convolutions share: growing a chain of single readers that runs on the tile."""

from collections.abc import Collection

from rlx import dtypes
from rlx._kernels import _nodes
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ir.types import static_shape
from rlx.records import field, record

FLOATS = (dtypes.f32, dtypes.f64)
NARROW = (dtypes.f16, dtypes.bf16, dtypes.u8, dtypes.i8)
MAX_STEPS = 8
# One-operand steps; all keep the element type.
UNARY = frozenset({
    "relu", "clip", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "swish", "hard_sigmoid", "hard_swish",
    "leaky_relu", "elu", "selu", "softplus", "softsign", "mish", "exp", "log", "sqrt", "rsqrt", "neg", "abs",
    "erf", "square", "recip", "celu", "thresholded_relu", "sin", "cos", "round", "floor", "ceil",
})
BINARY = frozenset({"add", "sub", "mul", "div", "max", "min"})

Step = tuple[str, tuple[tuple[str, object], ...], int | None, bool]


class Readers:
    """Who reads each value; outputs of the graph count."""

    def __init__(self, graph: Graph) -> None:
        self.outputs = set(graph.outputs.values())
        self.of: dict[Value, list[Node]] = _nodes.readers(graph.nodes)

    def only(self, value: Value) -> Node | None:
        """The one node that reads the value, once; None if there are others or it is an output."""
        nodes = self.of.get(value, [])
        return nodes[0] if len(nodes) == 1 and value not in self.outputs else None


@record(eq=False)
class Chain:
    """A producer and the nodes that will run in its epilogue."""

    start: Value
    end: Value
    nodes: list[Node] = field(default_factory=list)
    bias: Value | None = None
    biased: bool = False
    perm: tuple[int, ...] | None = None
    extras: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def grew(self) -> bool:
        """Whether anything was absorbed."""
        return bool(self.nodes)


def is_row(value: Value, size: object) -> bool:
    """Whether the value broadcasts along the last axis only: [N], or [1, ..., 1, N]."""
    shape = value.shape
    return len(shape) >= 1 and shape[-1] == size and all(d == 1 for d in shape[:-1])


def uniform(value: Value) -> bool:
    """Whether the value is a constant of one number."""
    return value.array is not None and value.array.size == 1


def _attrs(node: Node) -> tuple[tuple[str, object], ...]:
    return tuple(node.attrs.items())


def grow(start: Value, readers: Readers, *, transposes: bool = False, biased: bool = False, narrows: bool = True,
         rows: bool = True, skip: Collection[int] = ()) -> Chain:
    """Follow single readers of `start` as long as an epilogue can do what they do.

    Parameters
    ----------
    transposes : bool
        Whether a transpose that keeps the last axis may be absorbed (before any step).
    biased : bool
        Whether the producer has a bias already.
    narrows : bool
        Whether the chain may end in a cast: the kernel then writes another type than it computes.
    rows : bool
        Whether operands may be a row or one number; else they have the result's shape.
    skip : ids of nodes that belong to another chain.
    """
    chain = Chain(start, start, biased=biased)
    while len(chain.steps) < MAX_STEPS:
        node = readers.only(chain.end)
        if node is None or id(node) in skip or not _absorb(chain, node, transposes, narrows, rows):
            break
        chain.nodes.append(node)
        chain.end = node.outputs[0]
    return chain


def _absorb(chain: Chain, node: Node, transposes: bool, narrows: bool, rows: bool) -> bool:
    name, value, out = node.op.name, chain.end, node.outputs[0]
    if name == "transpose":
        perm = node.attrs["perm"]
        if not transposes or chain.steps or chain.perm is not None or perm[-1] != len(perm) - 1:
            return False
        chain.perm = perm
        return True
    if out.shape != value.shape or value.dtype not in FLOATS:
        return False
    if name in UNARY:
        chain.steps.append((name, _attrs(node), None, False))
        return True
    if narrows and name == "cast" and out.dtype in NARROW:  # closes the chain: what follows reads another type
        chain.steps.append((name, _attrs(node), None, False))
        return True
    if name not in BINARY or out.dtype != value.dtype:
        return False
    first, second = node.inputs
    assert first is not None and second is not None
    other, swap = (second, False) if first is value else (first, True)
    if other is value:
        return False
    last = value.shape[-1]
    if name == "add" and rows and not chain.steps and not chain.biased and chain.perm is None and is_row(other, last):
        chain.bias, chain.biased = other, True
        return True
    if not ((rows and (is_row(other, last) or uniform(other))) or other.shape == value.shape):
        return False
    chain.steps.append((name, _attrs(node), len(chain.extras), swap))
    chain.extras.append(other)
    return True


def flat_row(rewriter: Rewriter, value: Value, size: int) -> Value:
    """The new value of a row operand as [N]; a single number is repeated."""
    from rlx.ops import TABLE

    new = rewriter.map[value]
    if new.shape == (size,):
        return new
    if uniform(new) and new.array is not None:
        return rewriter.graph.constant(new.array.reshape(-1).repeat(size))
    if new.array is not None:
        return rewriter.graph.constant(new.array.reshape(size))
    return rewriter.graph.emit(TABLE["reshape"], [new], {"shape": (size,)}, name=f"{new.name}/row", loc="")[0]


def operands(rewriter: Rewriter, chain: Chain) -> tuple[Value | None, list[Value]]:
    """Bias and extra operands of a chain in the new graph."""
    size = static_shape(chain.end.shape, chain.end.name)[-1]
    bias = None if chain.bias is None else flat_row(rewriter, chain.bias, size)
    extras = [rewriter.map[v] if v.shape == chain.end.shape and not is_row(v, size) else flat_row(rewriter, v, size)
              for v in chain.extras]
    return bias, extras
