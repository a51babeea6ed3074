"""The calls for extents of an executable."""

import _thread
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlx._kernels import _interp
from rlx.collector import collector_paused
from rlx.errors import RlxError
from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.options import CompileOptions
from rlx.runtime.binding import Wide
from rlx.runtime.cache import LRU
from rlx.runtime.extent import ExtentReport, Extents
from rlx.runtime.family import Families, Place
from rlx.runtime.staged import Staged, is_dynamic
from rlx.runtime.variant import Variant
from rlx.runtime.weights import WeightStore

# What tells programs of one graph apart: extents in use, shapes of inputs whose sizes are open.
Key = tuple[tuple[tuple[str, int], ...], tuple[tuple[int, ...], ...] | None]


class Bucketed:
    """Base of what runs on the first rows of a bucket."""

    if TYPE_CHECKING:
        graph: Graph
        options: CompileOptions
        _dirty: bool
        _extents: Extents
        _families: Families
        _full: Variant | Staged | None
        _lock: _thread.RLock
        _open: list[str]
        _rng: _interp.RunState
        _scratch: Array | None
        _store: WeightStore
        _threads: int
        _variant: Variant | Staged | None
        _variants: LRU[Key, Variant | Staged]

        def _make(self, graph: Graph, wide: Wide | None = None) -> Variant | Staged:
            """Compile."""
            ...

        def _own(self, variant: Variant) -> Variant:
            """Make a variant one of this executable."""
            ...

    def _at(self, wanted: Mapping[str, int]) -> Variant | Staged:
        """The program of extents."""
        wide = self._extents.wide({}, wanted)

        def exact(sizes: Mapping[str, int]) -> Any:
            return self._make(self._extents.bind(sizes), wide)

        if is_dynamic(self._extents.graph) or self.options.nan_check:
            made: Variant | Staged = exact(wanted)
            return made
        place = Place(self._store, self._threads, self.graph.name, self._rng, wide, self._scratch)
        with collector_paused():
            return self._own(self._families.make(wanted, exact, place))

    def set_active_extent(self, name: str, actual: int | None) -> ExtentReport:
        """Run on the first `actual` rows of a bucket from now on, until it is changed.

        Inputs may be given with `actual` rows, or at the size of the bucket, of which the
        first rows are read. Outputs have the size of the bucket: their first rows are those of
        the same graph compiled for `actual` rows, bit for bit, and what lies behind is zero.

        Parameters
        ----------
        name : str
            A size of ``CompileOptions(extents=...)``.
        actual : int or None
            0 < actual <= upper; None for the whole bucket.

        Returns
        -------
        ExtentReport
            True in a condition if the extent is in use; else it says why not, and runs go on as
            before the call.

        Raises
        ------
        UnknownNameError
            The executable was not compiled with that extent.
        BindingError
            The number of rows is not in [1, upper].
        """
        with self._lock:
            report, wanted = self._extents.ask(name, actual)
            if wanted == self._extents.actual:
                return report
            key: Key = (self._extents.key(wanted), None)
            variant = self._full
            try:
                if wanted and self._open:
                    self._extents.bind(wanted)
                elif wanted:
                    variant = self._variants.get(key)
                    if variant is None:
                        variant = self._at(wanted)
                        self._variants.put(key, variant)
                        self._dirty = True
            except RlxError as error:
                if isinstance(error, MemoryError):
                    raise
                return self._extents.refuse(report, str(error))
            self._variant = variant
            return self._extents.use(report, wanted)

    def extent_axes(self, name: str) -> dict[str, dict[int, str]]:
        """Which axes of which values of the graph carry an extent, and how: ``{"z": {1: "4*batch"}}``.

        Raises
        ------
        UnknownNameError
            The executable was not compiled with that extent.
        """
        return self._extents.axes(name)

    def active_extents(self) -> dict[str, int]:
        """Rows in use of every extent; the size of the bucket where nothing was set."""
        return {**self._extents.upper, **self._extents.actual}
