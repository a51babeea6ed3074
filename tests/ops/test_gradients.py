"""Derivatives: every rule against finite differences in f64, by the samples of the table; graphs; registered ops."""

from collections.abc import Iterator

import numpy as np
import pytest

import rlx
from rlx import dtypes, ops
from rlx.errors import GraphError
from rlx.gradients.rules import RULES, written
from rlx.ir.opdef import OpDef, Sample
from rlx.ops import TABLE
from rlx.testing.optest import samples_of

F = np.float32
F64 = rlx.f64
# Ops without a rule of their own whose decomposition has derivatives.
DECOMPOSED = ("layer_norm", "rms_norm", "gemm", "softmax_cross_entropy", "nll_loss", "space_to_depth")


def smooth(array: np.ndarray, rng: np.random.Generator, op: OpDef) -> np.ndarray:
    """The values of a sample, away from kinks, ties and ends."""
    if array.dtype.kind != "f":
        return array
    good = np.isfinite(array) & (np.abs(array) > 0.05) & (np.abs(array) < (1.2 if op.name == "tan" else 40))
    fresh = rng.uniform(0.2, 0.6, array.shape)
    values = np.where(good, array, fresh) + rng.uniform(-0.02, 0.02, array.shape)
    return np.abs(values) if op.name == "pow" else values


def cases(op: OpDef, rng: np.random.Generator) -> Iterator[tuple[Sample, list[np.ndarray | None]]]:
    """Small samples of f64 with results that are finite near the operands."""
    for sample in samples_of(op, F64):
        sizes = [np.size(a) for a in sample.args if a is not None]
        if not sizes or max(sizes) > (70 if op.name in DECOMPOSED else 24) or min(sizes) == 0:
            continue
        if not any(a is not None and np.asarray(a).dtype == np.float64 for a in sample.args):
            continue
        if op.name == "cast" and rlx.dtypes.as_dtype(sample.attrs["dtype"]) != F64:
            continue
        if op.name == "pad" and sample.attrs.get("mode", "constant") != "constant":
            continue
        yield sample, [None if a is None else smooth(np.asarray(a), rng, op) for a in sample.args]


def forward(op: OpDef, sample: Sample, arrays: list[np.ndarray | None]) -> tuple[rlx.Graph, dict[str, np.ndarray]]:
    g = rlx.Graph("f")
    feeds, values = {}, []
    for i, a in enumerate(arrays):
        if a is None:
            values.append(None)
        elif op.has("constants") and i:
            values.append(g.constant(a))
        else:
            values.append(g.input(f"x{i}", a.shape, a.dtype))
            feeds[f"x{i}"] = np.ascontiguousarray(a).reshape(a.shape)
    for i, y in enumerate(g.emit(op, values, sample.attrs)):
        g.output(f"y{i}", y)
    return g, feeds


def check(g: rlx.Graph, feeds: dict[str, np.ndarray], rng: np.random.Generator) -> bool:
    """Compare with central differences of sum(weights * outputs); False if an output is not finite."""
    exe = rlx.compile(g, threads=1)
    outs = exe.run(feeds)
    if not all(np.isfinite(y).all() for y in outs if y.dtype == np.float64):
        return False
    floats = {k: v for k, v in outs.items() if v.dtype == np.float64}
    weights = {k: rng.standard_normal(v.shape) for k, v in floats.items()}
    back = rlx.compile(rlx.vjp(g, outputs=list(floats)), threads=1)
    got = back.run({**feeds, **{f"d_{k}": w for k, w in weights.items()}})
    for k, y in outs.items():
        np.testing.assert_allclose(got[k], y, rtol=1e-12, atol=1e-13)
    for name, x in feeds.items():
        if x.dtype != np.float64:
            continue
        want = np.empty(x.shape)
        for at in np.ndindex(*x.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = x.copy()
                moved[at] += step
                there = exe.run({**feeds, name: moved})
                sides.append(sum(float((there[k] * w).sum()) for k, w in weights.items()))
            want[at] = (sides[0] - sides[1]) / 2e-5
        atol = 2e-6 * max(1.0, np.abs(want).max(initial=0))
        np.testing.assert_allclose(got[f"grad_{name}"], want, rtol=2e-5, atol=atol, err_msg=name)
    return True


@pytest.mark.parametrize("name", [*sorted(RULES), *DECOMPOSED])
def test_rule_against_finite_differences(name: str) -> None:
    op, rng = TABLE[name], np.random.default_rng(len(name))
    assert F64 in op.dtypes
    checked = sum(check(*forward(op, *case), rng) for case in list(cases(op, rng))[: 2 if name in DECOMPOSED else 4])
    assert checked > 0, "no sample was small and finite"


def test_every_op_has_a_rule_a_decomposition_or_an_error() -> None:
    """No op is silently taken for a constant."""
    for op in TABLE.values():
        if op.internal or op.name in RULES or written(op) or F64 not in op.dtypes or op.has("control"):
            continue
        if op.samples is None:  # registered by another test
            continue
        sample = next((s for s in samples_of(op, F64) if s.args and isinstance(s.args[0], np.ndarray)
                       and s.args[0].dtype == np.float64), None)
        if sample is None or op.has("dynamic"):
            continue
        g, _ = forward(op, sample, [None if a is None else np.asarray(a) for a in sample.args])
        if not any(v.dtype == F64 for v in g.outputs.values()):
            continue
        with pytest.raises(GraphError, match=rf"have no derivative:\n  node '{op.name}"):
            rlx.vjp(g)


def network(seed: int = 0) -> tuple[rlx.Graph, dict[str, np.ndarray]]:
    """A residual block with attention and a loss, in f64."""
    rng = np.random.default_rng(seed)
    g = rlx.Graph("net")
    x = g.input("x", (2, 3, 4), F64)
    feeds = {"x": rng.standard_normal((2, 3, 4))}

    def param(name: str, *shape: int) -> rlx.Value:
        feeds[name] = rng.standard_normal(shape) * 0.5
        return g.param(name, shape, F64)

    h = ops.layer_norm(x, param("scale", 4), param("shift", 4))
    q, k, v = (h @ param(n, 4, 4) for n in ("wq", "wk", "wv"))
    h = x + ops.softmax(q @ ops.transpose(k, perm=(0, 2, 1)) / 2, axis=-1) @ v
    h = ops.concat(h[:, :1], ops.gelu(h[:, 1:] @ param("w", 4, 4)), axis=1)
    picked = ops.gather(h, np.array([[0, 2], [2, 2]]), axis=1)
    g.output("loss", ops.reduce_mean(ops.square(h - 1.0)) + ops.reduce_sum(picked) * 0.1)
    return g, feeds


def test_gradient_of_a_network() -> None:
    g, feeds = network()
    made = rlx.grad(g)
    assert list(made.outputs) == ["loss", *(f"grad_{n}" for n in feeds)]
    params = {n: a for n, a in feeds.items() if n != "x"}
    plain, back = rlx.compile(g), rlx.compile(made)
    back.set_params(params)
    got = back.run({"x": feeds["x"]})
    off = rlx.compile(made, rlx.CompileOptions(optimize=False))
    off.set_params(params)
    for name, value in off.run({"x": feeds["x"]}).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-12)
    for name, a in feeds.items():
        step = np.random.default_rng(1).standard_normal(a.shape)
        sides = []
        for h in (1e-6, -1e-6):
            moved = {**feeds, name: a + h * step}
            plain.set_params({n: v for n, v in moved.items() if n != "x"})
            sides.append(float(plain.run({"x": moved["x"]})["loss"]))
        slope = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose((got[f"grad_{name}"] * step).sum(), slope, rtol=1e-6, atol=1e-8)


def test_descent_reaches_the_least_squares_solution() -> None:
    rng = np.random.default_rng(3)
    a, w = rng.standard_normal((40, 5)).astype(F), rng.standard_normal(5).astype(F)
    g = rlx.Graph("fit")
    rest = g.input("a", (40, 5)) @ g.param("w", (5,)) - g.input("b", (40,))
    g.output("loss", ops.reduce_mean(rest * rest))
    exe = rlx.compile(rlx.grad(g, wrt="w"))
    found = np.zeros(5, F)
    for _ in range(300):
        exe.set_param("w", found)
        found = found - F(0.3) * exe.run({"a": a, "b": a @ w})["grad_w"]
    np.testing.assert_allclose(found, w, atol=1e-4)


@pytest.mark.parametrize("dtype", [rlx.f32, rlx.f16, rlx.bf16], ids=str)
def test_other_types_keep_theirs(dtype: rlx.DType) -> None:
    g = rlx.Graph("g")
    x, n = g.input("x", (3, 4), dtype), g.input("n", (4,), rlx.i64)
    g.output("y", ops.tanh(x) * ops.cast(n, dtype=dtype))
    made = rlx.vjp(g)
    assert made.outputs["grad_x"].dtype == dtype and "grad_n" not in made.outputs
    feeds = {"x": np.full((3, 4), 0.5, dtype.numpy), "n": np.arange(4), "d_y": np.ones((3, 4), dtype.numpy)}
    got = rlx.compile(made).run(feeds)["grad_x"].astype(F)
    np.testing.assert_allclose(got, np.broadcast_to(np.arange(4) * (1 - np.tanh(0.5) ** 2), (3, 4)), rtol=2e-2)


def test_symbolic_sizes_stay_open() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ("b", 3))
    g.output("y", ops.reduce_mean(x * g.param("w", (3,)), axes=(0,)))
    exe = rlx.compile(rlx.vjp(g))
    exe.set_params({"w": np.ones(3, F)})
    for b in (2, 5):
        got = exe.run({"x": np.ones((b, 3), F), "d_y": np.ones(3, F)})
        np.testing.assert_allclose(got["grad_x"], np.full((b, 3), 1 / b), rtol=1e-6)
        np.testing.assert_allclose(got["grad_w"], np.ones(3), rtol=1e-6)


def test_a_value_with_two_names_sums_their_gradients() -> None:
    g = rlx.Graph("g")
    y = g.input("x", (3,)) * 2
    g.output("a", y)
    g.output("b", y)
    got = rlx.compile(rlx.vjp(g)).run({"x": np.ones(3, F), "d_a": np.ones(3, F), "d_b": np.full(3, 10, F)})
    np.testing.assert_array_equal(got["grad_x"], np.full(3, 22, F))


def test_unused_inputs_and_nan() -> None:
    g = rlx.Graph("g")
    x, _ = g.input("x", (2,)), g.input("unused", (3,))
    g.output("y", ops.where(x > 0, x, ops.log(x)))
    got = rlx.compile(rlx.vjp(g)).run({"x": np.ones(2, F), "unused": np.full(3, np.nan, F), "d_y": np.ones(2, F)})
    np.testing.assert_array_equal(got["grad_unused"], np.zeros(3))
    np.testing.assert_array_equal(got["grad_x"], np.ones(2))


@pytest.mark.parametrize(("call", "match"), [
    (lambda g: rlx.grad(g), "must be one number"),
    (lambda g: rlx.vjp(g, wrt=["z"]), r"wrt must be of \['x', 'n'\], got 'z'"),
    (lambda g: rlx.vjp(g, wrt="n"), "wrt 'n' must have a float type"),
    (lambda g: rlx.vjp(g, outputs="q"), "outputs must be"),
    (lambda g: rlx.vjp(g, wrt=[3]), "must be names"), (lambda g: rlx.grad(g, output="y2"), "outputs must be of"),
])
def test_bad_names_are_refused(call, match: str) -> None:  # type: ignore[no-untyped-def]
    g = rlx.Graph("g")
    x, n = g.input("x", (2,)), g.input("n", (2,), rlx.i32)
    g.output("y", x * ops.cast(n, dtype=rlx.f32))
    with pytest.raises(GraphError, match=match):
        call(g)


@pytest.mark.parametrize("call", [rlx.grad, rlx.vjp])
def test_what_is_no_graph_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    g = rlx.Graph("g")
    g.output("y", ops.tanh(g.input("x", ())))
    for given in (rlx.compile(g), "x", None):
        with pytest.raises(rlx.ConfigError, match=f"{call.__name__}: must be given a Graph, got {type(given).__name__}"
                                                  "\nhint: "):
            call(given)


def test_names_of_gradients_of_gradients_are_free() -> None:
    g = rlx.Graph("g")
    x = g.input("x", ())
    g.output("y", x * x * x)
    first = rlx.grad(g)
    third = rlx.grad(rlx.grad(first, output="grad_x"), output="grad_x_2")
    got = rlx.compile(third).run({"x": F(2)})
    assert {n: float(v) for n, v in got.items()} == {"y": 8, "grad_x": 12, "grad_x_2": 12, "grad_x_3": 6}
    again = rlx.vjp(rlx.vjp(g))
    assert [v.node.name for v in again.inputs] == ["x", "d_y", "d_y_2", "d_grad_x"]
    assert list(again.outputs) == ["y", "grad_x", "grad_x_2", "grad_d_y"]
    got = rlx.compile(again).run({"x": F(2), "d_y": F(1), "d_y_2": F(1), "d_grad_x": F(10)})
    assert {n: float(v) for n, v in got.items()} == {"y": 8, "grad_x": 12, "grad_x_2": 12 + 120, "grad_d_y": 120}


def test_what_has_no_derivative_is_named() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (4, 4))
    g.output("y", ops.einsum("ij->ji", ops.cumprod(x, axis=0, name="first")) + ops.max_pool(
        ops.reshape(x, shape=(1, 1, 4, 4)), kernel=(1, 1), name="second").reshape(4, 4))
    with pytest.raises(GraphError, match=r"(?s)2 node\(s\) of graph 'g' have no derivative.*'first'.*'second'"):
        rlx.vjp(g)
    g.output("fine", x * 2)
    assert "grad_x" in rlx.vjp(g, outputs="fine").outputs
    padded = rlx.Graph("p")
    padded.output("y", ops.pad(padded.input("x", (3,)), before=(1,), after=(1,), mode="reflect", name="edge"))
    with pytest.raises(GraphError, match=r"node 'edge'.*mode 'constant' has a derivative, got 'reflect'"):
        rlx.vjp(padded)


def test_a_path_through_complex_numbers_is_refused_not_taken_for_constant() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (8,))
    g.output("y", ops.abs(ops.make_complex(x, x) * 2j))
    with pytest.raises(GraphError, match="have no derivative"):
        rlx.vjp(g)


def test_registered_ops_bring_their_own() -> None:
    def back(xs, ys, ds, *, power):  # type: ignore[no-untyped-def]
        return (ds[0] * power * ops.pow(xs[0], power - 1.0),)

    op = rlx.register_op("t.power", inputs=("x",), reference=lambda x, power: x**power, attributes={"power": 3.0},
                         vjp=back)
    try:
        g = rlx.Graph("g")
        g.output("y", ops.tanh(op(g.input("x", (5,), F64), power=2.5) * 0.1))
        assert check(g, {"x": np.linspace(0.5, 2, 5)}, np.random.default_rng(0))
        plain = rlx.register_op("t.plain", inputs=("x",), reference=lambda x: x)
        g = rlx.Graph("g")
        g.output("y", plain(g.input("x", (5,)), name="mine"))
        with pytest.raises(GraphError, match=r"have no derivative:\n  node 'mine' \(t\.plain\)"):
            rlx.vjp(g)
        wrong = rlx.register_op("t.wrong", inputs=("x",), reference=lambda x: x,
                                vjp=lambda xs, ys, ds: (ops.reduce_sum(ds[0]),))
        g = rlx.Graph("g")
        g.output("y", wrong(g.input("x", (5,)), name="bad"))
        with pytest.raises(GraphError, match=r"node 'bad'.*of operand 'x' must be of type f32\[5\], got f32\[\]"):
            rlx.vjp(g)
    finally:
        for name in ("t.power", "t.plain", "t.wrong"):
            if name in rlx.registered_ops():
                rlx.unregister_op(name)


def test_types_of_rules() -> None:
    assert set(RULES) <= set(TABLE)
    assert not any(TABLE[n].internal for n in RULES)
    assert dtypes.f64 is F64
