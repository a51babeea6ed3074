"""einsum: an equation as transposes, reshapes, sums, products and matrix products."""

from collections.abc import Sequence
from typing import Any

from rlx.errors import TypeRuleError
from rlx.ir.dims import AnyDim, product


def einsum(*operands: Any, equation: str | None = None) -> Any:
    """Sum of products by index, as ``numpy.einsum`` with the same equation.

    Parameters
    ----------
    *operands : Value or array
        At least one of them a Value. The equation may come before them, as NumPy has it.
    equation : str
        Letters per axis, ``...`` for broadcast axes, repeated letters for diagonals;
        without ``->`` the result has the letters that occur once, in alphabetical order.

    Returns
    -------
    Value

    Raises
    ------
    TypeRuleError
        The equation is malformed or does not fit the operands.
    """
    if equation is None and operands and isinstance(operands[0], str):
        equation, *operands = operands  # type: ignore[assignment]
    if not isinstance(equation, str):
        raise TypeRuleError(f"einsum: an equation must be given, first or by keyword, got {equation!r}"
                            '\nhint: ops.einsum("ij,jk->ik", a, b)')
    values = _values(operands)
    terms, result = _parse(equation, [v.rank for v in values])
    sizes = _sizes(equation, values, terms)
    pairs = [_normal(v, term, sizes) for v, term in zip(values, terms, strict=True)]
    for label in result:
        if label not in sizes:
            raise TypeRuleError(f"einsum: result letters must occur in an operand, got {label!r} in {equation!r}")
    value, labels = pairs[0]
    value, labels = _sum_out(value, labels, {*result, *(c for _, other in pairs[1:] for c in other)})
    for i, (other, other_labels) in enumerate(pairs[1:], 1):
        needed = {*result, *(c for _, rest in pairs[i + 1 :] for c in rest)}
        other, other_labels = _sum_out(other, other_labels, needed | set(labels))
        value, labels = _multiply(value, labels, other, other_labels, needed)
    return _arrange(value, labels, result, sizes)


def _values(operands: Sequence[Any]) -> list[Any]:
    from rlx.ir.graph import Value

    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    owner = next((v for v in operands if isinstance(v, Value)), None)
    if owner is None:
        raise TypeRuleError(f"einsum: an operand must be a Value of a graph, got {len(operands)} others")
    values = [owner.graph.as_value(v, owner.dtype, "einsum") for v in operands]
    for v in values:
        if v.dtype != owner.dtype:
            raise TypeRuleError(f"einsum: operand types must match, got {owner.dtype} and {v.dtype}")
    return values


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    """Labels per operand and of the result; axes of an ellipsis are numbers counted from the last."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise TypeRuleError(f"einsum: {equation!r} must have one term per operand ({len(ranks)}), got {len(terms)}")
    widths = [r - len(t.replace("...", "")) for r, t in zip(ranks, terms, strict=True)]
    labels = []
    for term, rank, width in zip(terms, ranks, widths, strict=True):
        if width < 0 or (width > 0 and "..." not in term):
            raise TypeRuleError(f"einsum: term {term!r} must have as many letters as its operand axes, got rank {rank}")
        labels.append(_letters(term, width, equation))
    most = max((w for w, t in zip(widths, terms, strict=True) if "..." in t), default=0)
    if arrow:
        result = _letters(right, most if "..." in right else 0, equation)
        if len(set(result)) != len(result):
            raise TypeRuleError(f"einsum: result letters must differ, got {right!r}")
    else:
        letters = [c for term in labels for c in term if isinstance(c, str)]
        result = [*range(-most, 0), *sorted(c for c in set(letters) if letters.count(c) == 1)]
    return labels, result


def _letters(term: str, width: int, equation: str) -> list[Any]:
    head, dots, tail = term.partition("...")
    if not all(c.isalpha() for c in head + tail):
        raise TypeRuleError(f"einsum: terms must be letters and one '...', got {term!r} in {equation!r}")
    return [*head, *(range(-width, 0) if dots else ()), *tail]


def _sizes(equation: str, values: Sequence[Any], terms: Sequence[Sequence[Any]]) -> dict[Any, AnyDim]:
    sizes: dict[Any, AnyDim] = {}
    for value, term in zip(values, terms, strict=True):
        for label, size in zip(term, value.shape, strict=True):
            have = sizes.get(label, 1)
            if have != size and have != 1 and size != 1:
                raise TypeRuleError(f"einsum: sizes of {label!r} in {equation!r} must agree, got {have} and {size}")
            sizes[label] = size if have == 1 else have
    return sizes


def _normal(value: Any, term: Sequence[Any], sizes: dict[Any, AnyDim]) -> tuple[Any, list[Any]]:
    """The operand with each label once: diagonals taken, axes of size 1 that broadcast dropped."""
    from rlx import ops

    labels = list(term)
    for label in dict.fromkeys(term):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            rest = [k for k in range(len(labels)) if k not in (i, j)]
            n, m = value.shape[i], value.shape[j]
            if n != m:  # one of them is 1 and broadcasts
                drop = i if n == 1 else j
                value = ops.squeeze(value, axes=(drop,))
                del labels[drop]
                continue
            value = ops.transpose(value, perm=(*rest, i, j))
            value = ops.reshape(value, shape=(*value.shape[:-2], n * n))
            if isinstance(n, int) and n == 0:
                value = ops.reshape(value, shape=(*value.shape[:-1], 0))
            elif isinstance(n, int):
                value = ops.slice(value, starts=(0,), stops=(n * n,), axes=(-1,), steps=(n + 1,))
            else:
                raise TypeRuleError(f"einsum: the size of a diagonal must be a number, got {n}")
            labels = [*(labels[k] for k in rest), label]
    ones = tuple(i for i, c in enumerate(labels) if value.shape[i] == 1 and sizes[c] != 1)
    if ones:
        value = ops.squeeze(value, axes=ones)
        labels = [c for i, c in enumerate(labels) if i not in ones]
    return value, labels


def _sum_out(value: Any, labels: list[Any], needed: set[Any]) -> tuple[Any, list[Any]]:
    from rlx import ops

    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    if axes:
        value = ops.reduce_sum(value, axes=axes)
    return value, [c for c in labels if c in needed]


def _multiply(a: Any, a_labels: list[Any], b: Any, b_labels: list[Any], needed: set[Any]) -> tuple[Any, list[Any]]:
    """Product of two operands, summed over the labels that nobody needs any more."""
    from rlx import ops

    both = [c for c in a_labels if c in b_labels]
    batch = [c for c in both if c in needed]
    summed = [c for c in both if c not in needed]
    rows = [c for c in a_labels if c not in both]
    columns = [c for c in b_labels if c not in both]
    size = {c: d for labels, v in ((a_labels, a), (b_labels, b)) for c, d in zip(labels, v.shape, strict=True)}
    a = _ordered(a, a_labels, [*batch, *rows, *summed])
    b = _ordered(b, b_labels, [*batch, *summed, *columns])
    if not summed:
        a = ops.reshape(a, shape=(*(size[c] for c in (*batch, *rows)), *(1,) * len(columns)))
        b = ops.reshape(b, shape=(*(size[c] for c in batch), *(1,) * len(rows), *(size[c] for c in columns)))
        return ops.mul(a, b), [*batch, *rows, *columns]

    def total(labels: Sequence[Any]) -> AnyDim:
        return product(size[c] for c in labels)

    lead = tuple(size[c] for c in batch)
    left = ops.reshape(a, shape=(*lead, total(rows), total(summed)))
    right = ops.reshape(b, shape=(*lead, total(summed), total(columns)))
    result = ops.matmul(left, right)
    return ops.reshape(result, shape=(*lead, *(size[c] for c in (*rows, *columns)))), [*batch, *rows, *columns]


def _ordered(value: Any, labels: list[Any], order: list[Any]) -> Any:
    from rlx import ops

    perm = tuple(labels.index(c) for c in order)
    return value if perm == tuple(range(len(perm))) else ops.transpose(value, perm=perm)


def _arrange(value: Any, labels: list[Any], result: list[Any], sizes: dict[Any, AnyDim]) -> Any:
    """Axes in the order of the result; an axis that every operand broadcast has size 1 or is expanded."""
    from rlx import ops

    value = _ordered(value, labels, [c for c in result if c in labels])
    shape = tuple(sizes[c] for c in result)
    if value.shape != shape:
        value = ops.reshape(value, shape=tuple(sizes[c] if c in labels else 1 for c in result))
        if value.shape != shape:
            value = ops.expand(value, shape=shape)
    return value
