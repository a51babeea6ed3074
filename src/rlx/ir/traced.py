"""Traced sizes: numbers that know what they would be at every other extent of a bucket.

A graph compiled with a traced size takes the decisions of one extent. Every number
made from the size carries its values at all extents of the bucket; every comparison
rules out the extents at which it would have come out differently. What is left is the
set of extents that compile to the same program but for its numbers, and those are known.

A traced number is an `int`, so code that does not know of tracing works on it. Where
such code turns it into something else (an index, a range, a NumPy number, `int(...)` of a
traced float, a float to the left of it in a product), its trace is lost unseen: who relies
on a trace compares what it foretells with ordinary compilations first. In lowering, floats
stand to the right, rounding is `math.trunc`, and searches go through `each`.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class Trace:
    """What one compilation found out about the other extents.

    Parameters
    ----------
    actual, upper : int
        The extent that is compiled, and the bucket.

    Attributes
    ----------
    valid : array of bool
        For each extent 1..upper whether all decisions were the same.
    ended : str
        Why the numbers cannot be followed; empty if they can.
    """

    def __init__(self, actual: int, upper: int) -> None:
        self.at = actual - 1
        self.valid: np.ndarray[tuple[Any, ...], np.dtype[np.bool_]] = np.ones(upper, np.bool_)
        self.ended = ""
        self.size = Traced(actual, np.arange(1, upper + 1, dtype=np.int64), self)

    def end(self, reason: str) -> None:
        """Give up: only the extent that is compiled is valid."""
        self.ended = self.ended or reason

    def decide(self, outcomes: Any) -> bool:
        """The outcome of a comparison here; rules out the extents with another one."""
        here = bool(outcomes[self.at])
        self.valid &= outcomes == here
        return here

    def number(self, values: Any) -> Any:
        """A number of which these are the values; a plain one if it is always the same."""
        if values.dtype.kind == "f":
            return TracedFloat(float(values[self.at]), values, self)
        here = int(values[self.at])
        return here if (values == here).all() else Traced(here, values, self)


def _values(x: Any) -> Any:
    return x.values if isinstance(x, (Traced, TracedFloat)) else x


def _arithmetic(f: Callable[[Any, Any], Any], swap: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        with np.errstate(all="ignore"):
            values = f(_values(other), self.values) if swap else f(self.values, _values(other))
        return self.trace.number(values)

    return method


def _division(f: Callable[[Any, Any], Any], swap: bool = False) -> Any:
    """Arithmetic that extents at which the divisor is 0 do not take part in."""
    plain = _arithmetic(f, swap)

    def method(self: Any, other: Any) -> Any:
        divisor = self if swap else other
        if not isinstance(divisor, (int, float)):
            return NotImplemented
        if not (self.trace.decide(self.values != 0) if swap else divisor):
            raise ZeroDivisionError("division by zero")
        return plain(self, other)

    return method


def _unary(f: Callable[[Any], Any]) -> Any:
    def method(self: Any) -> Any:
        return self.trace.number(f(self.values))

    return method


def _whole(f: Callable[[Any], Any]) -> Any:
    """Rounding to an int."""

    def method(self: Any) -> Any:
        with np.errstate(all="ignore"):
            values = f(self.values).astype(np.int64)
        return self.trace.number(values)

    return method


def _comparison(f: Callable[[Any, Any], Any]) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.trace.decide(f(self.values, _values(other)))

    return method


class _Number:
    """What traced numbers share; see the module."""

    values: np.ndarray[tuple[Any, ...], np.dtype[Any]]
    trace: Trace

    __add__ = _arithmetic(operator.add)
    __radd__ = _arithmetic(operator.add, True)
    __sub__ = _arithmetic(operator.sub)
    __rsub__ = _arithmetic(operator.sub, True)
    __mul__ = _arithmetic(operator.mul)
    __rmul__ = _arithmetic(operator.mul, True)
    __floordiv__ = _division(operator.floordiv)
    __rfloordiv__ = _division(operator.floordiv, True)
    __truediv__ = _division(operator.truediv)
    __rtruediv__ = _division(operator.truediv, True)
    __mod__ = _division(operator.mod)
    __rmod__ = _division(operator.mod, True)
    __pow__ = _arithmetic(operator.pow)
    __rpow__ = _arithmetic(operator.pow, True)
    __neg__ = _unary(operator.neg)
    __pos__ = _unary(operator.pos)
    __abs__ = _unary(np.abs)
    __trunc__ = _whole(np.trunc)
    __floor__ = _whole(np.floor)
    __ceil__ = _whole(np.ceil)
    __round__ = _whole(np.rint)  # to a whole number only
    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __bool__(self) -> bool:
        return self.trace.decide(self.values != 0)


class TracedFloat(_Number, float):
    """A traced number with a fraction."""

    __hash__ = float.__hash__

    def __new__(cls, value: float, values: np.ndarray[tuple[Any, ...], np.dtype[Any]], trace: Trace) -> "TracedFloat":
        """A number and its values at all extents."""
        self = float.__new__(cls, value)
        self.values, self.trace = values, trace
        return self


class Traced(_Number, int):
    """A traced whole number."""

    __hash__ = int.__hash__
    __lshift__ = _arithmetic(operator.lshift)
    __rlshift__ = _arithmetic(operator.lshift, True)
    __rshift__ = _arithmetic(operator.rshift)
    __rrshift__ = _arithmetic(operator.rshift, True)
    __and__ = _arithmetic(operator.and_)
    __rand__ = _arithmetic(operator.and_, True)
    __or__ = _arithmetic(operator.or_)
    __ror__ = _arithmetic(operator.or_, True)

    def __new__(cls, value: int, values: np.ndarray[tuple[Any, ...], np.dtype[Any]], trace: Trace) -> "Traced":
        """A number and its values at all extents."""
        self = int.__new__(cls, value)
        self.values, self.trace = values, trace
        return self

    def bit_length(self) -> int:
        """Bits of the number."""
        bits = np.array([int(v).bit_length() for v in self.values], np.int64)
        result: int = self.trace.number(bits)
        return result


def sqrt(x: float) -> float:
    """Square root of a number, traced or not."""
    if not isinstance(x, (Traced, TracedFloat)):
        return math.sqrt(x)
    root: float = x.trace.number(np.sqrt(x.values))
    return root


def each(f: Callable[..., tuple[int, ...]], *numbers: Any) -> tuple[int, ...]:
    """`f(*numbers)` of an `f` that may do what it likes with them: called at every extent that is still valid.

    Numbers may stand in tuples.
    """
    trace = trace_of(numbers)
    if trace is None:
        return f(*numbers)
    known: dict[Any, tuple[int, ...]] = {}
    here = f(*at(numbers, trace.at + 1))
    values = np.tile(np.array(here, np.int64)[:, None], len(trace.valid))
    for i in np.flatnonzero(trace.valid):
        there = at(numbers, int(i) + 1)
        if there not in known:
            known[there] = f(*there)
        values[:, i] = known[there]
    return tuple([trace.number(row) for row in values])


def trace_of(item: Any) -> Trace | None:
    """The trace of a number, or of one inside tuples and lists; None if there is none."""
    if isinstance(item, (Traced, TracedFloat)):
        return item.trace
    if isinstance(item, (tuple, list)):
        return next((t for t in map(trace_of, item) if t is not None), None)
    return None


def intern(item: Any, table: dict[bytes, np.ndarray[tuple[Any, ...], np.dtype[Any]]]) -> None:
    """Let equal rows of values be one array; looks into tuples and lists."""
    if isinstance(item, (Traced, TracedFloat)):
        item.values = table.setdefault(item.values.tobytes(), item.values)
    elif isinstance(item, (tuple, list)):
        for x in item:
            intern(x, table)


def at(item: Any, extent: int) -> Any:
    """A number as it is at an extent; tuples and lists item by item; anything else as it is."""
    if isinstance(item, Traced):
        return int(item.values[extent - 1])
    if isinstance(item, TracedFloat):
        return float(item.values[extent - 1])
    if isinstance(item, (tuple, list)):
        items = [at(x, extent) for x in item]
        return type(item)(*items) if hasattr(item, "_fields") else type(item)(items)
    return item
