"""Weights: one array per constant or parameter and packing, shared by everything that reads it."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx._kernels import _interp
from rlx.errors import RlxError
from rlx.ir.opdef import Array
from rlx.lower.program import Attrs, EwRef, Transform, Weight
from rlx.runtime.kernels import KernelTable
from rlx.runtime.link import one_call

# What is copied out of a mapped file at a time.
PIECE = 1 << 22
# Constants of other programs are looked through from this size on.
SHARED_BYTES = 4096


def aligned(nbytes: int, alignment: int = 64) -> Array:
    """Uninitialised bytes at an aligned address."""
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes]


def resolve(attrs: Attrs, table: KernelTable) -> dict[str, Any]:
    """Attributes with micro-kernel names replaced by addresses."""

    def one(item: Any) -> Any:
        return table.ew(item.name).address if isinstance(item, EwRef) else item

    return {k: [one(x) for x in v] if isinstance(v, (list, tuple)) else one(v) for k, v in attrs.items()}


class _Failed:
    def failed(self, status: int, node: int, value: int, bound: int, position: int) -> Exception:
        return RlxError(f"packing a weight failed with status {status}")


def run_transform(transform: Transform, source: Array, table: KernelTable) -> Array:
    """Run a packing kernel on an array."""
    if transform.first is not None:
        source = run_transform(transform.first, source, table)
    row = table.kernel(transform.kernel)
    result = aligned(transform.nbytes)
    attrs = resolve(transform.attrs, table)
    program = one_call(row, attrs, transform.args, 2, extent=transform.extent)
    executor = _interp.Executor(program, [], [], _Failed(), 1)
    executor.bind(0, np.require(source, requirements=["C", "A"]))
    executor.bind(1, result)
    executor.run_bound(1)
    return result


class WeightStore:
    """Packed weights by identity of their source, so that several programs share them.

    Sources are held weakly: what was packed from a folded constant does not keep
    the constant, and is dropped with the last program that reads it.

    Parameters
    ----------
    table : KernelTable
    discard : callable, optional
        Told of arrays, or of contiguous parts of them, whose bytes have been read and are not
        needed in memory: those of a mapped file.
    """

    def __init__(self, table: KernelTable, discard: Callable[[Array], None] | None = None) -> None:
        self.table = table
        self.discard = discard
        self._made: dict[tuple[int, Any], tuple[weakref.ref[Array], weakref.ref[Array]]] = {}
        self._alike: dict[tuple[Any, ...], list[weakref.ref[Array]]] = {}
        self._prune_at = 256

    def adopt(self, weight: Weight, source: Array, packed: Array) -> None:
        """Take an array as the packed form of a source, as long as both live."""
        key = (id(source), None if weight.transform is None else weight.transform.key)
        self._made[key] = (weakref.ref(source), weakref.ref(packed))

    def get(self, weight: Weight, source: Array) -> Array:
        """The bytes for a weight, packed if it asks for that."""
        if weight.transform is None and source.flags.c_contiguous and source.flags.aligned:
            return source
        key = (id(source), None if weight.transform is None else weight.transform.key)
        found = self._made.get(key)
        packed = None if found is None or found[0]() is not source else found[1]()
        if packed is None:
            packed = self._ready(source)
            if weight.transform is not None:
                packed = run_transform(weight.transform, packed, self.table)
            if self.discard is not None:
                self.discard(source)
            self._made[key] = (weakref.ref(source), weakref.ref(packed))
        return packed

    def _ready(self, source: Array) -> Array:
        """The array where kernels can read it: in a file, data may lie anywhere."""
        if source.flags.c_contiguous and source.flags.aligned:
            return source
        if self.discard is None or not source.flags.c_contiguous or source.nbytes <= PIECE:
            return np.require(source, requirements=["C", "A"])
        made = np.empty(source.shape, source.dtype)
        target, given = made.reshape(-1), source.reshape(-1)
        step = max(1, PIECE // source.itemsize)
        for start in range(0, source.size, step):
            target[start : start + step] = given[start : start + step]
            self.discard(given[start : start + step])
        return made

    def shared(self, weight: Weight, array: Array) -> Array:
        """An array of the same bytes that another program made, else this one.

        Every program of other sizes folds its constants anew; what comes out the same is kept once.
        """
        if array.nbytes < SHARED_BYTES:
            return array
        data = array.reshape(-1).view(np.uint8)
        sample = data[:: max(1, array.nbytes // 64)].tobytes()
        key = (None if weight.transform is None else weight.transform.key, array.nbytes, sample)
        known = self._alike.setdefault(key, [])
        for ref in known:
            other = ref()
            if other is array or (other is not None and _equal(other.reshape(-1).view(np.uint8), data)):
                assert other is not None
                return other
        known.append(weakref.ref(array))
        self._prune()
        return array

    def _prune(self) -> None:
        """Forget what is gone, now and then."""
        if len(self._made) + len(self._alike) < self._prune_at:
            return
        self._made = {k: v for k, v in self._made.items() if v[0]() is not None and v[1]() is not None}
        alive = {k: [r for r in v if r() is not None] for k, v in self._alike.items()}
        self._alike = {k: v for k, v in alive.items() if v}
        self._prune_at = 256 + 2 * (len(self._made) + len(self._alike))


def _equal(a: Array, b: Array) -> bool:
    """Whether bytes are equal; stops at the first piece that differs."""
    step = 1 << 20
    return all(np.array_equal(a[i : i + step], b[i : i + step]) for i in range(0, a.size, step))
