"""einsum equals numpy.einsum for every kind of equation."""

import numpy as np
import pytest

import rlx
from rlx import ops

CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("ii->", (4, 4)),
    ("iij->ij", (3, 3, 2)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("ij->", (3, 4)),
    ("ij->i", (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (5,), (5,)),
    ("i,i->i", (5,), (5,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i,...i->...", (2, 3, 4), (3, 4)),
    ("i...->...", (3, 2, 4)),
    ("...ij->...ji", (2, 3, 4)),
    ("b...,bk->...k", (3, 2, 2), (3, 4)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("a,b,c->abc", (2,), (3,), (4,)),
    ("ij,kj->", (3, 4), (5, 4)),
    ("ji,i", (3, 4), (4,)),
    ("ij,j->i", (3, 4), (1,)),
    ("i,i->i", (1,), (4,)),
    (" i j , j k -> i k ", (3, 4), (4, 5)),
    ("bij,bjk->bik", (0, 3, 4), (0, 4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ii->i", (0, 0)),
    ("->", ()),
    ("...,...->...", (2, 3), (3,)),
    ("z...a,a->z...", (2, 3, 4), (4,)),
    ("Ab,bA->A", (2, 3), (3, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_equals_numpy(case, dtype):
    equation, *shapes = case
    rng = np.random.default_rng(len(equation))
    arrays = [rng.integers(-4, 5, s).astype(dtype) for s in shapes]
    graph = rlx.Graph("g")
    graph.output(
        "y", ops.einsum(*(graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)), equation=equation)
    )
    got = rlx.compile(graph).run({f"x{i}": a for i, a in enumerate(arrays)})["y"]
    want = np.einsum(equation, *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "match"),
    [
        ("ij,jk->ik", [(3, 4)], "one term per operand"),
        ("ijk->i", [(3, 4)], "as many letters"),
        ("ij->ii", [(3, 4)], "must differ"),
        ("ij->k", [(3, 4)], "occur in an operand"),
        ("ij,jk->ik", [(3, 4), (5, 2)], "must agree"),
        ("i1->i", [(3, 4)], "letters"),
    ],
)
def test_malformed_equations_raise(equation, shapes, match):
    graph = rlx.Graph("g")
    with pytest.raises(rlx.RlxError, match=match):
        ops.einsum(*(graph.input(f"x{i}", s) for i, s in enumerate(shapes)), equation=equation)


def test_symbolic_sizes():
    graph = rlx.Graph("g")
    a, b = graph.input("a", ("n", 2, 4)), graph.input("b", ("n", 4, "m"))
    graph.output("y", ops.einsum(a, b, equation="bij,bjk->ikb"))
    x, y = np.ones((3, 2, 4), np.float32), np.ones((3, 4, 5), np.float32)
    np.testing.assert_array_equal(rlx.compile(graph).run({"a": x, "b": y})["y"], np.einsum("bij,bjk->ikb", x, y))
