"""Program: kernel calls by name over planned buffers. Printable; no addresses inside."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rlx.dtypes import DType
from rlx.ir.opdef import Array
from rlx.records import field, record

# None of these is changed once it is made; being frozen would make making them, by the thousand, three times as long.


@record(slots=True, unsafe_hash=True)
class EwRef:
    """A micro-kernel by name, inside an attribute; becomes an address when linked."""

    name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"&{self.name}"


@record(eq=False)
class BodyRef:
    """A body program of a control-flow call; becomes the address of its plan."""

    program: "Program"

    def __repr__(self) -> str:
        return f"&body({len(self.program.calls)} calls)"


@record(frozen=True, eq=False)
class HostRef:
    """A Python kernel of a registered op; becomes the address of a bound call, or of what invokes it.

    Attributes
    ----------
    op, version
        The registered op.
    function : callable
    attrs : mapping
        Keyword arguments of the function.
    operands, results : tuple of (numpy type, shape) or None
    writes, copies : bool
        As in `CustomOp`.
    """

    op: str
    version: int
    function: Callable[..., Any]
    attrs: Mapping[str, Any]
    operands: tuple[tuple[Any, tuple[int, ...]] | None, ...]
    results: tuple[tuple[Any, tuple[int, ...]] | None, ...]
    writes: bool
    copies: bool

    def __repr__(self) -> str:
        attrs = "".join(f" {k}={v}" for k, v in self.attrs.items())
        return f"&python({self.op} v{self.version}{attrs})"


@record(frozen=True, eq=False)
class NativeRef:
    """A C kernel of a registered op; becomes its address."""

    op: str
    version: int
    address: int
    owner: object

    def __repr__(self) -> str:
        return f"&native({self.op} v{self.version})"


AttrItem: TypeAlias = int | float | EwRef | BodyRef | HostRef | NativeRef
AttrValue: TypeAlias = AttrItem | Sequence[AttrItem]
Attrs: TypeAlias = Mapping[str, AttrValue]


class Buffer:
    """A piece of memory: scratch, a bound input or output, or a weight array.

    Attributes
    ----------
    kind : str
        `scratch`, `input`, `output`, `weight`.
    nbytes : int
    slot, offset : int
        Where it lies, filled by the planner.
    source : Weight or None
        Where the bytes of a weight come from.
    """

    __slots__ = ("index", "kind", "label", "nbytes", "offset", "slot", "source")

    def __init__(self, index: int, kind: str, nbytes: int, label: str) -> None:
        self.index = index
        self.kind = kind
        self.nbytes = nbytes
        self.label = label
        self.slot = -1
        self.offset = -1
        self.source: Weight | None = None

    def __repr__(self) -> str:
        return f"{self.kind}{self.index}({self.nbytes} B, {self.label})"


@record(slots=True, unsafe_hash=True)
class Operand:
    """A place inside a buffer."""

    buffer: Buffer
    offset: int = 0

    def __init__(self, buffer: Buffer, offset: int = 0) -> None:
        self.buffer = buffer
        self.offset = offset

    def at(self, nbytes: int) -> "Operand":
        """The place `nbytes` further on."""
        return Operand(self.buffer, self.offset + nbytes)

    def __repr__(self) -> str:
        return f"{self.buffer.kind}{self.buffer.index}+{self.offset}"


@record(slots=True, unsafe_hash=True)
class Arg:
    """An operand of a call and what the call does with it: `r`ead, `w`rite, `x` workspace."""

    role: str
    operand: Operand
    nbytes: int

    def __init__(self, role: str, operand: Operand, nbytes: int) -> None:
        self.role = role
        self.operand = operand
        self.nbytes = nbytes


@record(slots=True, eq=False)
class Call:
    """One kernel call, kernels by name."""

    kernel: str
    args: tuple[Arg | None, ...]
    attrs: Attrs
    extent: int
    grain: int
    cost: int
    node: int
    inplace: tuple[tuple[int, int], ...] = ()
    phases: int = 1

    def __init__(
        self, kernel: str, args: tuple[Arg | None, ...], attrs: Attrs, extent: int, grain: int, cost: int, node: int,
        inplace: tuple[tuple[int, int], ...] = (), phases: int = 1,
    ) -> None:
        self.kernel = kernel
        self.args = args
        self.attrs = attrs
        self.extent = extent
        self.grain = grain
        self.cost = cost
        self.node = node
        self.inplace = inplace
        self.phases = phases


@record(slots=True, eq=False)
class Transform:
    """A packing kernel run when a weight is set.

    Attributes
    ----------
    nbytes : int
        Size of the result.
    key : tuple
        Equal for equal transforms.
    args : tuple of (0 source or 1 result, byte offset) or None
        The kernel's arguments.
    first : Transform, optional
        Run before; its result is the source.
    """

    kernel: str
    attrs: Attrs
    nbytes: int
    extent: int
    key: tuple[Any, ...]
    args: tuple[tuple[int, int] | None, ...] = ((0, 0), (1, 0))
    first: "Transform | None" = None

    def __init__(
        self, kernel: str, attrs: Attrs, nbytes: int, extent: int, key: tuple[Any, ...],
        args: tuple[tuple[int, int] | None, ...] = ((0, 0), (1, 0)), first: "Transform | None" = None,
    ) -> None:
        self.kernel = kernel
        self.attrs = attrs
        self.nbytes = nbytes
        self.extent = extent
        self.key = key
        self.args = args
        self.first = first


@record(eq=False, slots=True)
class Weight:
    """The bytes behind a weight slot: a constant or parameter, perhaps packed.

    The array of a constant is dropped once it has been packed.
    """

    array: Array | None
    param: str | None
    transform: Transform | None
    nbytes: int

    def __init__(self, array: Array | None, param: str | None, transform: Transform | None, nbytes: int) -> None:
        self.array = array
        self.param = param
        self.transform = transform
        self.nbytes = nbytes


@record(slots=True, unsafe_hash=True)
class Port:
    """A bound input or output: name, element type, shape."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    def __init__(self, name: str, dtype: DType, shape: tuple[int, ...]) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape


@record(slots=True, unsafe_hash=True)
class NodeInfo:
    """What an error says about a call's origin."""

    name: str
    op: str
    loc: str

    def __init__(self, name: str, op: str, loc: str) -> None:
        self.name = name
        self.op = op
        self.loc = loc

    @property
    def place(self) -> str:
        """Name, op and location."""
        where = f" at {self.loc}" if self.loc else ""
        return f"node {self.name!r} ({self.op}){where}"


@record(eq=False)
class Program:
    """Calls, buffers and slots; slot 0 is scratch, then inputs, outputs, weights."""

    calls: list[Call]
    buffers: list[Buffer]
    inputs: list[Port]
    outputs: list[Port]
    weights: list[Weight]
    nodes: list[NodeInfo]
    arena_bytes: int = 0
    live_bound: int = 0
    max_threads: int = 1
    zero_denormals: bool = False
    names: dict[str, Operand] = field(default_factory=dict)

    @property
    def n_slots(self) -> int:
        """Length of the table of base addresses."""
        return 1 + len(self.inputs) + len(self.outputs) + len(self.weights)

    def input_slot(self, i: int) -> int:
        """Slot of input i."""
        return 1 + i

    def output_slot(self, i: int) -> int:
        """Slot of output i."""
        return 1 + len(self.inputs) + i

    def weight_slot(self, i: int) -> int:
        """Slot of weight i."""
        return 1 + len(self.inputs) + len(self.outputs) + i

    def __str__(self) -> str:
        return "\n".join(self._lines(self.nodes, ""))

    def _lines(self, nodes: Sequence[NodeInfo], indent: str) -> list[str]:
        """A line per call, bodies below theirs; `nodes` are those of the outermost program."""
        lines = [f"{indent}program: {len(self.calls)} calls, arena {self.arena_bytes} B"]
        for i, call in enumerate(self.calls):
            args = ", ".join("-" if a is None else f"{a.role}:{a.operand}" for a in call.args)
            attrs = " ".join(f"{k}={v}" for k, v in sorted(call.attrs.items()))
            name = nodes[call.node].name if call.node < len(nodes) else ""  # a body on its own does not know
            lines.append(f"{indent}{i:4} {call.kernel}({args}) {attrs} extent={call.extent} ; {name}")
            for value in call.attrs.values():
                if isinstance(value, BodyRef):
                    lines += value.program._lines(nodes, indent + "      ")
        return lines
