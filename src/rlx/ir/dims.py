"""Symbolic dimensions: integer polynomials over named sizes, with floor division.

A dimension is an `int` or a `Dim`. A `Dim` is kept in one normal form (a sum of
products), so that equal expressions are equal objects for `==` and `hash`.
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from rlx.errors import GraphError, TypeRuleError
from rlx.ir.traced import Traced

# A product of atoms: sorted ((atom, power), ...); the empty tuple is the constant term.
_Atom: TypeAlias = Union[str, "_Quotient"]
_Term: TypeAlias = tuple[tuple[_Atom, int], ...]
DimLike: TypeAlias = Union[int, str, "Dim"]
AnyDim: TypeAlias = Union[int, "Dim"]


@functools.total_ordering
class _Quotient:
    """The atom floor(numerator / divisor)."""

    __slots__ = ("divisor", "numerator")

    def __init__(self, numerator: "Dim", divisor: AnyDim) -> None:
        self.numerator = numerator
        self.divisor = divisor

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Quotient)
            and self.numerator == other.numerator
            and self.divisor == other.divisor
        )

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash((self.numerator, self.divisor))

    def __str__(self) -> str:
        return f"(({self.numerator}) // ({self.divisor}))"


def _key(atom: _Atom) -> str:
    return str(atom)


class Dim:
    """A size that is known only when the graph is bound, e.g. `batch` or `2*seq + 1`."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[_Term, int]) -> None:
        self.terms: dict[_Term, int] = {t: c for t, c in terms.items() if c}
        self._hash = hash(frozenset(self.terms.items()))

    @staticmethod
    def symbol(name: str) -> "Dim":
        """The size called `name`."""
        if not name.isidentifier():
            raise GraphError(f"dim: a symbol must be an identifier, got {name!r}")
        return Dim({((name, 1),): 1})

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def _combine(self, other: AnyDim, sign: int) -> AnyDim:
        terms = dict(self.terms)
        for term, coefficient in _terms(other).items():
            terms[term] = terms.get(term, 0) + sign * coefficient
        return _simplify(terms)

    def __add__(self, other: AnyDim) -> AnyDim:
        return self._combine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: AnyDim) -> AnyDim:
        return self._combine(other, -1)

    def __rsub__(self, other: AnyDim) -> AnyDim:
        return (self * -1) + other

    def __int__(self) -> int:
        raise TypeRuleError(f"size {self}: must be a number here, got a symbol")

    def __neg__(self) -> AnyDim:
        return self * -1

    def __mul__(self, other: AnyDim) -> AnyDim:
        terms: dict[_Term, int] = {}
        for left, x in self.terms.items():
            for right, y in _terms(other).items():
                powers: dict[_Atom, int] = dict(left)
                for atom, power in right:
                    powers[atom] = powers.get(atom, 0) + power
                term = tuple(sorted(powers.items(), key=lambda item: _key(item[0])))
                terms[term] = terms.get(term, 0) + x * y
        return _simplify(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: AnyDim) -> AnyDim:
        if isinstance(other, int):
            if other == 0:
                raise GraphError("dim: division by zero")
            if all(c % other == 0 for c in self.terms.values()):
                return _simplify({t: c // other for t, c in self.terms.items()})
        elif self == other:
            return 1
        else:
            quotient = _divide_exactly(self, other)
            if quotient is not None:
                return quotient
        return Dim({((_Quotient(self, other), 1),): 1})

    def __rfloordiv__(self, other: int) -> AnyDim:
        return Dim({((_Quotient(Dim({(): other}), self), 1),): 1})

    def __mod__(self, other: AnyDim) -> AnyDim:
        return self - (self // other) * other

    def symbols(self) -> set[str]:
        """Names of the sizes that occur in the expression."""
        found: set[str] = set()
        for term in self.terms:
            for atom, _ in term:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found |= atom.numerator.symbols()
                    if isinstance(atom.divisor, Dim):
                        found |= atom.divisor.symbols()
        return found

    def bind(self, sizes: Mapping[str, int]) -> AnyDim:
        """Replace the named sizes by numbers."""
        result: AnyDim = 0
        for term, coefficient in self.terms.items():
            product: AnyDim = coefficient
            for atom, power in term:
                if isinstance(atom, str):
                    value: AnyDim = sizes.get(atom, Dim.symbol(atom))
                else:
                    value = bind(atom.numerator, sizes) // bind(atom.divisor, sizes)
                for _ in range(power):
                    product = product * value
            result = result + product
        return result

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = []
        for term, coefficient in sorted(self.terms.items(), key=lambda item: str(item[0])):
            factors = [str(atom) if power == 1 else f"{atom}**{power}" for atom, power in term]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("*".join(factors))
        return " + ".join(parts) if parts else "0"


def _terms(value: AnyDim) -> Mapping[_Term, int]:
    return value.terms if isinstance(value, Dim) else {(): int(value)}


def _simplify(terms: Mapping[_Term, int]) -> AnyDim:
    kept = {t: c for t, c in terms.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    return Dim(kept)


def _divide_exactly(left: Dim, right: Dim) -> AnyDim | None:
    """left / right when right is one product that divides every term of left."""
    if len(right.terms) != 1:
        return None
    ((divisor, scale),) = right.terms.items()
    terms: dict[_Term, int] = {}
    for term, coefficient in left.terms.items():
        powers = dict(term)
        for atom, power in divisor:
            if powers.get(atom, 0) < power:
                return None
            powers[atom] -= power
        if coefficient % scale:
            return None
        rest = tuple((a, p) for a, p in sorted(powers.items(), key=lambda i: _key(i[0])) if p)
        terms[rest] = coefficient // scale
    return _simplify(terms)


def as_dim(value: DimLike) -> AnyDim:
    """An int, or a `Dim` for a symbol's name.

    Raises
    ------
    GraphError
        The size is negative or of another type.
    """
    if isinstance(value, (Dim, Traced)):
        return value
    if isinstance(value, str):
        return Dim.symbol(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise GraphError(f"dim: a size must be an int or a name, got {value!r}")
    size = operator.index(value)
    if size < 0:
        raise GraphError(f"dim: a size must be >= 0, got {size}")
    return size


def bind(value: AnyDim, sizes: Mapping[str, int]) -> AnyDim:
    """`value` with its named sizes replaced."""
    return value.bind(sizes) if isinstance(value, Dim) else value


def product(values: Iterable[AnyDim]) -> AnyDim:
    """Product of sizes; 1 for none."""
    result: AnyDim = 1
    for value in values:
        result = result * value
    return result


def ceil_div(a: AnyDim, b: AnyDim) -> AnyDim:
    """Ceiling of a / b."""
    return -((-a) // b)
