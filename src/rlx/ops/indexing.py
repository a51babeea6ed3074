"""``value[key]``: Python indexing of graph values, in terms of ops."""

from typing import Any

from rlx.errors import GraphError
from rlx.ops import view


def getitem(x: Any, key: Any) -> Any:
    """Basic indexing: ints, slices with steps, `...`, None.

    Raises
    ------
    GraphError
        The key is of another kind, or has too many parts.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    n = sum(p is not None and p is not Ellipsis for p in parts)
    if n > x.rank or sum(p is Ellipsis for p in parts) > 1:
        raise GraphError(f"index of {x.name!r}: at most {x.rank} axes and one '...', got {key!r}")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (x.rank - n)
    starts, stops, axes, steps = [], [], [], []
    shape: list[Any] = []
    axis = 0
    drop = []
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        if isinstance(part, slice):
            if part != slice(None):
                step = 1 if part.step is None else int(part.step)
                far = 2**63 - 1
                starts.append(int(part.start) if part.start is not None else (0 if step > 0 else -1))
                stops.append(int(part.stop) if part.stop is not None else (far if step > 0 else -far))
                axes.append(axis)
                steps.append(step)
            shape.append(axis)
        elif isinstance(part, int) and not isinstance(part, bool):
            size = x.shape[axis]
            if isinstance(size, int) and not -size <= part < size:
                raise GraphError(f"index of {x.name!r}: must be in [{-size}, {size}) on axis {axis}, got {part}")
            starts.append(part)
            stops.append(part + 1 if part != -1 else 2**63 - 1)
            axes.append(axis)
            steps.append(1)
            drop.append(axis)
        else:
            raise GraphError(
                f"index of {x.name!r}: must be an int, a slice, None or '...', got {type(part).__name__}"
                "\nhint: use ops.gather for integer arrays and ops.where or ops.compress for masks"
            )
        axis += 1
    result = view.slice(x, starts=starts, stops=stops, axes=axes, steps=steps) if axes else x
    if drop or any(p is None for p in parts):
        sizes = iter(d for i, d in enumerate(result.shape) if i not in drop)
        final = []
        for part in parts:
            if part is None:
                final.append(1)
            elif isinstance(part, slice):
                final.append(next(sizes))
        result = view.reshape(result, shape=tuple(final))
    return result
