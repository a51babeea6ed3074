"""LRU: what a process keeps of things that can be made again, bounded by number and by bytes."""

import _thread
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from rlx.errors import ConfigError
from rlx.records import record

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Combinations of sizes and extents that an executable keeps, and combinations that depend on data, per stage.
VARIANTS = 128
STAGES = 64


@record(frozen=True)
class CacheStats:
    """Counters of a cache.

    Attributes
    ----------
    hits, misses : int
        Look-ups that found an entry, and that did not.
    evictions : int
        Entries dropped to stay within a limit.
    entries : int
        Entries held now.
    nbytes : int
        Bytes of what they hold now; arrays shared by several count once.
    """

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0
    nbytes: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found an entry; 0 before the first."""
        return self.hits / max(1, self.hits + self.misses)

    def __str__(self) -> str:
        return (f"{self.entries} entries, {self.nbytes:,} bytes, {self.hits} hits, {self.misses} misses, "
                f"{self.evictions} evictions")


class LRU(Generic[K, V]):
    """A mapping that drops what was not used for longest. Safe to use from several threads.

    Parameters
    ----------
    max_entries : int, optional
        Most entries kept; at least one is.
    max_bytes : int, optional
        Most bytes kept, as `measure` counts them. The entry used last stays even if it is larger.
    measure : callable
        ``measure(values) -> int``: bytes held by all values together.

    Raises
    ------
    ConfigError
        A limit is not a positive int.
    """

    def __init__(self, max_entries: int | None = None, max_bytes: int | None = None,
                 measure: Callable[[Iterable[V]], int] = lambda values: 0) -> None:
        for name, limit in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
                raise ConfigError(f"cache: {name} must be a positive int or None, got {limit!r}")
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self._measure = measure
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = _thread.RLock()
        self._hits = self._misses = self._evictions = 0

    def after_fork(self) -> None:
        """In a child: a thread that held the lock does not exist here."""
        self._lock = _thread.RLock()

    def get(self, key: K) -> V | None:
        """The entry of a key, which is now the one used last; None if there is none."""
        with self._lock:
            value = self._items.get(key)
            if value is None:
                self._misses += 1
                return None
            self._hits += 1
            self._items.move_to_end(key)
            return value

    def peek(self, key: K) -> V | None:
        """The entry of a key, without counting the look-up or renewing it."""
        with self._lock:
            return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep an entry, and drop others while a limit is exceeded."""
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            self.shrink()

    def drop(self, key: K) -> None:
        """Forget an entry, if there is one."""
        with self._lock:
            self._items.pop(key, None)

    def shrink(self) -> int:
        """Drop entries while a limit is exceeded; returns how many went."""
        gone = 0
        with self._lock:
            while len(self._items) > 1 and (
                (self.max_entries is not None and len(self._items) > self.max_entries)
                or (self.max_bytes is not None and self._measure(self._items.values()) > self.max_bytes)
            ):
                self._items.popitem(last=False)
                gone += 1
            self._evictions += gone
        return gone

    def clear(self) -> None:
        """Drop all entries; the counters stay."""
        with self._lock:
            self._items.clear()

    def values(self) -> list[V]:
        """All entries, the one used last at the end."""
        with self._lock:
            return list(self._items.values())

    def items(self) -> list[tuple[K, V]]:
        """Pairs (key, entry), the one used last at the end."""
        with self._lock:
            return list(self._items.items())

    @property
    def stats(self) -> CacheStats:
        """Counters as they are now."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._items),
                              self._measure(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._items))
