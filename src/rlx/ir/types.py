"""What a value is: an element type and a shape whose sizes may be symbolic."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from rlx.dtypes import DType
from rlx.errors import SizeError, TypeRuleError
from rlx.ir.dims import AnyDim, Dim, DimLike, as_dim, bind, product

Shape: TypeAlias = tuple[AnyDim, ...]

# NumPy's most axes, and bytes that offsets can count with room for arithmetic on them. (Kernels walk
# at most 32 axes of more than one index; a tensor with more of them has over 2**32 elements.)
MAX_RANK = 64
MAX_BYTES = 2**60


class TensorType:
    """Element type and shape of a value. Prints as ``f32[2, n, 8]``. Not to be changed once it is made."""

    __slots__ = ("dtype", "shape")  # made by the thousand while compiling: a frozen dataclass takes three times as long

    def __init__(self, dtype: DType, shape: Shape) -> None:
        self.dtype = dtype
        self.shape = shape

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TensorType):
            return NotImplemented
        return self.dtype is other.dtype and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    @staticmethod
    def of(dtype: DType, shape: Iterable[DimLike]) -> "TensorType":
        """Build a type from ints, symbol names and dims."""
        return TensorType(dtype, tuple(as_dim(d) for d in shape))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> AnyDim:
        """Number of elements."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        for d in self.shape:  # noqa: SIM110 (asked of every value many times)
            if not isinstance(d, int):
                return False
        return True

    def symbols(self) -> set[str]:
        """Names of the sizes in the shape that are not numbers."""
        return {s for d in self.shape if isinstance(d, Dim) for s in d.symbols()}

    def bind(self, sizes: Mapping[str, int]) -> "TensorType":
        """The type with named sizes replaced by numbers."""
        return TensorType(self.dtype, tuple(bind(d, sizes) for d in self.shape))

    def with_dtype(self, dtype: DType) -> "TensorType":
        """The same shape with another element type."""
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Sequence[AnyDim]) -> "TensorType":
        """The same element type with another shape."""
        return TensorType(self.dtype, tuple(shape))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(str(d) for d in self.shape)}]"

    __repr__ = __str__


def check_size(t: TensorType, what: str) -> None:
    """Refuse a tensor that cannot be addressed.

    Raises
    ------
    SizeError
        It has too many axes or bytes. A size of 0 does not excuse the others.
    TypeRuleError
        A size is negative.
    """
    if len(t.shape) > MAX_RANK:
        raise SizeError(f"{what}: a tensor must have at most {MAX_RANK} axes, got {len(t.shape)}")
    nbytes = t.dtype.itemsize
    for d in t.shape:
        if type(d) is int and d > 0:
            nbytes *= d
        elif isinstance(d, int):
            if d < 0:
                raise TypeRuleError(f"{what}: sizes must be >= 0, got {t}")
            if d:
                nbytes *= d
    if nbytes >= MAX_BYTES:
        raise SizeError(f"{what}: a tensor must have less than 2**60 bytes, got {t}")


def static_shape(shape: Sequence[AnyDim], what: str) -> tuple[int, ...]:
    """The shape as ints.

    Raises
    ------
    TypeRuleError
        A size is symbolic.
    """
    for d in shape:
        if not isinstance(d, int):
            raise TypeRuleError(f"{what}: every size must be a number here, got {tuple(shape)}")
    return shape if type(shape) is tuple else tuple(shape)  # type: ignore[arg-type]


def broadcast(shapes: Sequence[Shape], what: str) -> Shape:
    """NumPy broadcasting of shapes; a symbolic size equals only itself or 1.

    Raises
    ------
    TypeRuleError
        Two sizes differ and neither is 1.
    """
    if len(shapes) == 2:
        a, b = shapes
        if not (a and b):
            return tuple(a or b)
        if a == b or (len(a) > len(b) and a[len(a) - len(b) :] == b):
            return tuple(a)
    rank = max((len(s) for s in shapes), default=0)
    result: list[AnyDim] = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            have = result[i]
            if have == d or d == 1:
                continue
            if have == 1:
                result[i] = d
                continue
            raise TypeRuleError(
                f"{what}: shapes must broadcast, got {' and '.join(str(list(s)) for s in shapes)}"
                f" (axis {i - rank}: {have} and {d})"
            )
    return tuple(result)


def normal_axis(axis: int, rank: int, what: str) -> int:
    """The axis counted from the front.

    Raises
    ------
    TypeRuleError
        The axis is outside [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise TypeRuleError(f"{what}: axis must be in [{-rank}, {rank}), got {axis}")
    return axis + rank if axis < 0 else axis


def normal_axes(axes: Sequence[int] | None, rank: int, what: str) -> tuple[int, ...]:
    """Axes counted from the front, sorted; None means all of them.

    Raises
    ------
    TypeRuleError
        An axis is out of range or stands twice.
    """
    if axes is None:
        return tuple(range(rank))
    found = sorted(normal_axis(a, rank, what) for a in axes)
    if len(set(found)) != len(found):
        raise TypeRuleError(f"{what}: axes must differ, got {tuple(axes)}")
    return tuple(found)
