"""One test per fault that users of such systems reported (A..) or that a study of one found (R-..)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx


def run_every_way(build: Callable[..., Any], *arrays: Any, threads: int = 2, rtol: float = 0.0) -> Any:
    """The result of `build(values...)`, the same bits in every way of computing it.

    `rtol`, relative to the largest value: where passes choose another order of summation.

    Ways: passes on and off; arrays as inputs and as constants (folded); one thread and two; scratch filled with
    garbage; a second run after other data.

    Returns
    -------
    array, or list of arrays if `build` returns a tuple
    """
    arrays = tuple(np.asarray(a) for a in arrays)
    found: list[list[Any]] = []
    for constant in (False, True):
        for optimize in (True, False):
            g = rlx.Graph("case")
            values = [g.constant(a) if constant else g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
            results = build(*values)
            for i, y in enumerate(results if isinstance(results, tuple) else (results,)):
                g.output(f"y{i}", y)
            exe = rlx.compile(g, rlx.CompileOptions(optimize=optimize, poison=True, check=True, threads=threads))
            given = {} if constant else {f"x{i}": a for i, a in enumerate(arrays)}
            for n in (1, threads):
                found.append([np.array(y) for y in exe.run(given, threads=n)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.dtype == b.dtype
            if a.dtype.itemsize == 2 and a.dtype.kind in "Vf":  # NumPy does not know every NaN of two bytes
                a, b = a.astype(np.float64), b.astype(np.float64)
            if rtol:
                np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(a).max())
            else:
                np.testing.assert_array_equal(a, b)
    return found[0] if isinstance(results, tuple) else found[0][0]


@pytest.fixture
def every_way() -> Callable[..., Any]:
    return run_every_way
