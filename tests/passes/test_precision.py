"""Precision: every policy against a NumPy model of its contract; storage; what is refused; where values round."""

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.passes.precision import FORCE_F32, PRESETS, PrecisionPolicy, auto_mixed_precision, category

HALF = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
FORMS = (
    rlx.CompileOptions(check=True),
    rlx.CompileOptions(optimize=False, check=True),
    rlx.CompileOptions(disable=("fuse-elementwise", "fuse-matmul", "fuse-conv", "half-weights")),
    rlx.CompileOptions(poison=True, threads=2),
)


def whole(*shape, seed=0, most=40):
    """Small whole numbers: sums of products are exact in f32, and some do not fit a half type."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


def model(graph, policy, feeds):
    """The contract: f32 operands and results of a node are rounded to the type of its kind; arithmetic is in f32."""
    values = {}

    def rounded(x, dtype):
        return x.astype(HALF[dtype.name]).astype(np.float32) if x.dtype == np.float32 and dtype.is_half else x

    for node in graph.nodes:
        out = node.outputs[0]
        if node.op.name in ("input", "param"):
            values[out] = np.asarray(feeds[node.name])
        elif node.op.name == "constant":
            values[out] = out.array
        else:
            dtype = policy.type_of(node)
            if node.op.name == "cast" or not any(v.dtype == rlx.f32 for v in node.inputs):
                dtype = rlx.f32
            results = node.op.reference(*[rounded(values[v], dtype) for v in node.inputs], **node.attrs)
            results = results if isinstance(results, tuple) else (results,)
            for v, r in zip(node.outputs, results, strict=True):
                values[v] = rounded(np.asarray(r), dtype)
    return {name: values[v] for name, v in graph.outputs.items()}


def chain():
    """Elementwise ops, a value with several readers, a comparison, a choice."""
    g = rlx.Graph("chain")
    x, y = g.input("x", (3, 50)), g.input("y", (3, 50))
    square = x * y
    half = square + g.constant(whole(50, seed=3) / 3)
    g.output("mask", square > half)
    g.output("y", ops.where(half > square, half - x, ops.relu(half)))
    g.output("square", square)
    return g, {"x": whole(3, 50, most=400), "y": whole(3, 50, seed=1, most=400)}


def network():
    """Products with bias and activation, a sum over rows, moves."""
    g = rlx.Graph("network")
    x, w = g.input("x", (4, 64)), g.param("w", (64, 48))
    h = ops.relu(x @ w + g.constant(whole(48, seed=2)))
    g.output("h", ops.transpose(h, perm=(1, 0)))
    top = h @ g.constant(whole(48, 40, seed=5))
    g.output("total", ops.reduce_sum(top, axes=(1,), keepdims=True) * g.constant(np.float32(0.25)))
    g.output("best", ops.argmax(top, axis=1))
    return g, {"x": whole(4, 64), "w": whole(64, 48, seed=1, most=9)}


def moved():
    """Concatenation, slices, a lookup, f64 and integers beside."""
    g = rlx.Graph("moved")
    x, n = g.input("x", (6, 8)), g.input("n", (3,), rlx.i64)
    both = ops.concat(x, ops.flip(x, axes=(0,)), axis=0)
    g.output("rows", ops.gather(both, n, axis=0) + g.constant(np.float32(1 / 3)))
    g.output("count", n * n)
    g.output("wide", ops.cast(both, dtype=rlx.f64) * g.constant(np.float64(1 / 3)))
    g.output("max", ops.reduce_max(ops.slice(both, starts=(1, 0), stops=(9, 8), steps=(2, 3)), axes=(0,)))
    return g, {"x": whole(6, 8) / 7, "n": np.array([11, 0, 5])}


GRAPHS = {f.__name__: f for f in (chain, network, moved)}
CUSTOM = PrecisionPolicy.custom({"compute": "bf16", "elementwise": rlx.f16}, ops={"relu": rlx.f32, "mul": "bf16"})


def execute(graph, feeds, options):
    exe = rlx.compile(graph, options)
    exe.set_params({k: v for k, v in feeds.items() if k in exe.signature.params})
    return exe, exe.run({k: v for k, v in feeds.items() if k in exe.signature.inputs})


def with_precision(options, precision):
    return rlx.CompileOptions(**{**vars(options), "precision": precision})


@pytest.mark.parametrize("name", [*PRESETS, "custom"])
@pytest.mark.parametrize("build", GRAPHS)
def test_E12_every_policy_equals_its_contract(name, build):
    policy = CUSTOM if name == "custom" else PRESETS[name]
    graph, feeds = GRAPHS[build]()
    if policy.storage.is_half:  # weights of whole numbers and lookups of activations change nothing
        policy_model = PrecisionPolicy()
    else:
        policy_model = policy
    with np.errstate(over="ignore", invalid="ignore"):
        want = model(graph, policy_model, feeds)
    for options in FORMS:
        _, got = execute(GRAPHS[build]()[0], feeds, with_precision(options, policy))
        for key, value in want.items():
            assert got[key].dtype == value.dtype, key
            np.testing.assert_array_equal(got[key], value, err_msg=f"{name} {build} {key}")


@pytest.mark.parametrize("name", PRESETS)
def test_boundary_types_never_change(name):
    for build in GRAPHS.values():
        graph, feeds = build()
        before = rlx.compile(build()[0]).signature
        exe, _ = execute(graph, feeds, rlx.CompileOptions(precision=name))
        assert exe.signature == before
        for key in exe.signature.params:
            np.testing.assert_array_equal(exe.get_param(key), feeds[key])


def test_casts_are_made_once_and_keep_names_and_places():
    graph, _ = chain()
    after = auto_mixed_precision(graph, PrecisionPolicy.preset("always_f16"))
    casts = [(id(n.inputs[0]), n.attrs["dtype"].name) for n in after.nodes if n.op.name == "cast"]
    assert len(casts) == len(set(casts))
    places = {n.name: n.loc for n in after.nodes}
    for node in graph.nodes:
        assert places[node.name] == node.loc
    known = {n.loc for n in graph.nodes}
    assert all(n.loc in known for n in after.nodes)
    assert auto_mixed_precision(graph, PrecisionPolicy.preset("always_f32")) is graph


def test_only_f32_takes_part():
    g = rlx.Graph("others")
    for dtype in (rlx.f64, rlx.i32, rlx.f16, rlx.bool_):
        x = g.input(f"x_{dtype}", (3,), dtype)
        g.output(f"y_{dtype}", ops.eq(x, x) if dtype == rlx.bool_ else x * x)
    assert auto_mixed_precision(g, PrecisionPolicy.preset("always_f16")) is g


@pytest.mark.parametrize("op", sorted(FORCE_F32 & set(ops.TABLE)))
def test_forced_ops_stay_in_f32(op):
    g = rlx.Graph("g")
    x = g.input("x", (4,))
    node = (x + x).node

    class Named:
        name = op

        @staticmethod
        def has(trait):
            return ops.TABLE[op].has(trait)

    twin = type("N", (), {"op": Named, "inputs": node.inputs})()
    assert PrecisionPolicy.preset("always_f16").type_of(twin) == rlx.f32
    assert PrecisionPolicy(ops={op: rlx.f16}).type_of(twin) == rlx.f16
    assert category(twin) in ("compute", "reduction", "elementwise", "movement")


def test_presets_are_those_of_the_contract():
    rows = {n: tuple(str(getattr(p, c)) for c in ("compute", "reduction", "elementwise", "movement", "storage"))
            for n, p in PRESETS.items()}  # fmt: skip
    assert rows == {
        "f32": ("f32",) * 5,
        "f16": ("f32", "f32", "f32", "f32", "f16"),
        "bf16": ("f32", "f32", "f32", "f32", "bf16"),
        "always_f32": ("f32",) * 5,
        "always_f16": ("f16", "f16", "f16", "f16", "f32"),
        "auto_mixed": ("f32", "f16", "f16", "f32", "f32"),
        "auto_mixed_conservative": ("f32", "f32", "f16", "f32", "f32"),
        "auto_mixed_bf16": ("bf16", "bf16", "bf16", "bf16", "f32"),
        "auto_mixed_bf16_safe": ("f32", "bf16", "bf16", "f32", "f32"),
    }


@pytest.mark.parametrize("bad", ["int8", "f64", "half", 16, None, rlx.f64, rlx.i8, ["f16"]])
def test_R32_precision_is_honoured_or_refused(bad):
    with pytest.raises(rlx.ConfigError, match=r"CompileOptions.precision: must be a PrecisionPolicy or one of .*got"):
        rlx.CompileOptions(precision=bad)
    for good in ("f32", "f16", rlx.bf16, PrecisionPolicy()):
        assert isinstance(rlx.CompileOptions(precision=good).precision, PrecisionPolicy)


def test_policies_name_registered_ops():
    with pytest.raises(rlx.ConfigError, match="must name ops"):
        PrecisionPolicy(ops={"t.precise": rlx.f16})
    rlx.register_op("t.precise", inputs=("x",), reference=lambda x: x)
    try:
        assert PrecisionPolicy(ops={"t.precise": rlx.f16}).ops == {"t.precise": rlx.f16}
    finally:
        rlx.unregister_op("t.precise")


def test_policies_that_make_no_sense_are_refused():
    for make, message in (
        (lambda: PrecisionPolicy(compute=rlx.f64), "PrecisionPolicy.compute: must be f32, f16 or bf16, got"),
        (lambda: PrecisionPolicy(ops={"relu": "i8"}), r"PrecisionPolicy.ops\['relu'\]: must be f32, f16 or bf16"),
        (lambda: PrecisionPolicy(ops=3), "must be a mapping"),
        (lambda: PrecisionPolicy.custom({}, ops={"expp": rlx.f16}),
         r"must name ops.*'expp'\nhint: did you mean .*'exp'"),
        (lambda: PrecisionPolicy(ops={3: rlx.f16}), "must name ops.*got 3"),
        (lambda: PrecisionPolicy.custom({"matmul": "f16"}), "kinds must be of"),
        (lambda: PrecisionPolicy.preset("o1"), "must be one of"),
    ):
        with pytest.raises(rlx.ConfigError, match=message):
            make()


def test_a_policy_reads_well_and_can_be_a_key():
    policy = PrecisionPolicy.preset("auto_mixed")
    assert str(policy) == "auto_mixed (compute=f32, reduction=f16, elementwise=f16, movement=f32, storage=f32)"
    assert hash(PrecisionPolicy(f32 := rlx.f32)) == hash(PrecisionPolicy(f32))
    assert repr(policy) == repr(PrecisionPolicy.preset("auto_mixed"))


# -- storage ------------------------------------------------------------------------------


@pytest.mark.parametrize("param", [False, True])
@pytest.mark.parametrize("name", HALF)
def test_storage_rounds_each_weight_once(name, param):
    rng = np.random.default_rng(3)
    w, table = rng.standard_normal((64, 48)).astype(np.float32), rng.standard_normal((90, 64)).astype(np.float32)
    k = rng.standard_normal((32, 48, 1, 1)).astype(np.float32)
    ids = np.array([[3, 89, 0]])

    def build():
        g = rlx.Graph("g")

        def weight(key, array):
            return g.param(key, array.shape) if param else g.constant(array, name=key)

        rows = ops.gather(weight("table", table), g.input("ids", (1, 3), rlx.i64), axis=0)
        h = rows @ weight("w", w)
        image = ops.reshape(ops.transpose(h, perm=(0, 2, 1)), shape=(1, 48, 3, 1))
        g.output("rows", rows)
        g.output("h", h)
        g.output("y", ops.conv(image, weight("k", k)))
        return g

    def rounded(x):
        return x.astype(HALF[name]).astype(np.float32)

    rows = rounded(table)[ids]
    h = (rows.astype(np.float64) @ rounded(w)).astype(np.float32)
    y = (h.astype(np.float64) @ rounded(k)[:, :, 0, 0].T).transpose(0, 2, 1)[..., None]
    params = {"table": table, "w": w, "k": k} if param else {}
    for options in FORMS:
        exe, got = execute(build(), {"ids": ids, **params}, with_precision(options, name))
        np.testing.assert_array_equal(got["rows"], rows)
        np.testing.assert_allclose(got["h"], h, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got["y"], y, rtol=1e-4, atol=1e-4)
        if options.optimize and not options.disable:
            assert exe.memory_report().weights <= (w.nbytes + table.nbytes + k.nbytes) // 2 + 256
            full = execute(build(), {"ids": ids, **params}, options)[0].memory_report().weights
            assert full >= w.nbytes + table.nbytes + k.nbytes
        if param:  # set anew: rounded anew
            exe.set_param("table", table + 1)
            np.testing.assert_array_equal(exe.run({"ids": ids})["rows"], rounded(table + 1)[ids])
            np.testing.assert_array_equal(exe.get_param("w"), w)


def test_a_constant_that_f16_cannot_hold_stays():
    w = np.full((64, 64), 70000, np.float32)
    g = rlx.Graph("g")
    g.output("y", g.input("x", (1, 64)) @ g.constant(w))
    feeds = {"x": np.ones((1, 64), np.float32)}
    assert (rlx.compile(g, rlx.CompileOptions(precision="f16")).run(feeds)["y"] == 70000 * 64).all()
    low = rlx.compile(g, rlx.CompileOptions(precision="bf16")).run(feeds)["y"]
    assert (low == np.float32(ml_dtypes.bfloat16(70000)) * 64).all()


def test_what_else_reads_a_weight_sees_it_in_full():
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    g = rlx.Graph("g")
    weight = g.constant(w)
    g.output("y", g.input("x", (1, 64)) @ weight)
    g.output("sum", weight + weight)
    got = rlx.compile(g, rlx.CompileOptions(precision="f16")).run({"x": np.ones((1, 64), np.float32)})
    np.testing.assert_array_equal(got["sum"], w + w)


# -- where values round -------------------------------------------------------------------


def test_A14_a_fused_value_equals_its_stored_self():
    g = rlx.Graph("g")
    x = g.input("x", (40,), rlx.f16)
    y = x * x
    g.output("y", y)
    g.output("again", y / x)
    g.output("isinf", ops.isinf(y))
    g.output("zero", ops.where(ops.isinf(y), g.constant(np.float16(0)), y))
    for options in FORMS:
        got = rlx.compile(g, options).run({"x": np.full(40, 300, np.float16)})
        assert np.isinf(got["y"]).all() and np.isinf(got["again"]).all()
        assert got["isinf"].all() and (got["zero"] == 0).all()


@pytest.mark.parametrize("precision", ["always_f16", "auto_mixed", "auto_mixed_conservative"])
def test_A14_holds_under_mixed_precision(precision):
    g = rlx.Graph("g")
    x = g.input("x", (40,))
    y = x * x
    g.output("y", y)
    g.output("isinf", ops.isinf(y))
    g.output("zero", ops.where(ops.isinf(y), g.constant(np.float32(0)), y))
    for options in FORMS:
        got = rlx.compile(g, with_precision(options, precision)).run({"x": np.full(40, 300, np.float32)})
        assert np.isinf(got["y"]).all() and got["isinf"].all() and (got["zero"] == 0).all()


@pytest.mark.parametrize("name", HALF)
def test_A16_the_maximum_is_always_found(name):
    rng = np.random.default_rng(4)
    a, b = (rng.random((5, 33)).astype(HALF[name]) + HALF[name](0.5) for _ in range(2))
    g = rlx.Graph("g")
    x, y = (g.input(k, a.shape, rlx.dtypes.BY_NAME[name]) for k in "ab")
    ratio = x / y
    ties = ops.eq(ratio, ops.reduce_max(ratio, axes=(1,), keepdims=True))
    g.output("count", ops.reduce_sum(ops.cast(ties, dtype=rlx.i32), axes=(1,)))
    for options in FORMS:
        assert (rlx.compile(g, options).run({"a": a, "b": b})["count"] >= 1).all()


PATTERNS = {
    "silu": lambda c, v: v * ops.sigmoid(v),
    "gelu": lambda c, v: v * c(0.5) * (ops.erf(v * c(0.70710678)) + c(1)),
    "hard swish": lambda c, v: v * ops.clip(v + c(3), lo=0, hi=6) * c(1 / 6),
    "rms norm": lambda c, v: v / ops.sqrt(ops.reduce_mean(v * v, axes=(1,), keepdims=True) + c(1e-3)),
    "softmax": lambda c, v: (lambda e: e / ops.reduce_sum(e, axes=(1,), keepdims=True))(
        ops.exp(v - ops.reduce_max(v, axes=(1,), keepdims=True))),
    "product": lambda c, v: ops.relu(ops.matmul(v, ops.transpose(v, perm=(1, 0))) * c(0.3) + c(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_A17_fusion_keeps_every_rounding_of_a_graph_of_halves(pattern, name):
    x = (np.random.default_rng(7).standard_normal((5, 64)) * 3).astype(HALF[name])
    results = []
    for options in FORMS:
        g = rlx.Graph("g")
        v = g.input("x", x.shape, x.dtype)
        g.output("y", PATTERNS[pattern](lambda number, g=g: g.constant(np.asarray(number, x.dtype)), v))
        results.append(rlx.compile(g, options).run({"x": x})["y"])
    for y in results[1:]:
        np.testing.assert_array_equal(y, results[0])


def test_A17_a_cast_pair_rounds():
    g = rlx.Graph("g")
    x = g.input("x", (3,))
    g.output("y", ops.cast(ops.cast(x, dtype=rlx.f16), dtype=rlx.f32))
    for options in FORMS:  # 2049 is a tie
        got = rlx.compile(g, options).run({"x": np.array([2049, 1 / 3, 1 / 7], np.float32)})["y"]
        np.testing.assert_array_equal(got, np.array([2048, 0.33325195, 0.14282227], np.float32))


def test_A13_a_product_of_halves_asked_for_in_f32_has_the_accuracy_of_f32():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((7, 300)).astype(np.float16), rng.standard_normal((300, 40)).astype(np.float16)
    g = rlx.Graph("g")
    x, y = g.input("a", a.shape, rlx.f16), g.constant(b)
    g.output("y", ops.matmul(ops.cast(x, dtype=rlx.f32), ops.cast(y, dtype=rlx.f32)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    for options in FORMS:
        got = rlx.compile(g, options).run({"a": a})["y"]
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)  # f16 would err by 1e-2


def test_A52_variance_of_halves_is_not_accumulated_in_halves():
    x = np.tile(np.array([300, -300], np.float16), 512).reshape(1, -1)
    g = rlx.Graph("g")
    v = g.input("x", x.shape, rlx.f16)
    one, zero = g.constant(np.ones(x.shape[1], np.float16)), g.constant(np.zeros(x.shape[1], np.float16))
    g.output("y", ops.layer_norm(v, one, zero, axis=-1, eps=1e-5))
    for options in FORMS:
        got = rlx.compile(g, options).run({"x": x})["y"]
        np.testing.assert_array_equal(got, np.sign(x))


def test_A61_sums_of_bf16_do_not_stick():
    g = rlx.Graph("g")
    x = g.input("x", (70000,), rlx.bf16)
    g.output("sum", ops.reduce_sum(x, axes=(0,)))
    g.output("mean", ops.reduce_mean(x, axes=(0,)))
    for options in FORMS:
        got = rlx.compile(g, options).run({"x": np.ones(70000, ml_dtypes.bfloat16)})
        assert float(got["sum"]) == 70144 and float(got["mean"]) == 1


def test_R83_a_bf16_input_plus_zero_is_itself():
    g = rlx.Graph("g")
    g.output("y", g.input("x", (4,), rlx.bf16) + g.constant(ml_dtypes.bfloat16(0)))
    x = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    for options in FORMS:
        got = rlx.compile(g, options).run({"x": x})["y"]
        assert got.dtype == x.dtype and (got == x).all()


def test_mixed_precision_inside_control_flow():
    w = np.random.default_rng(9).standard_normal((4, 256)).astype(np.float32)
    body = rlx.Graph("body")
    i, v = body.input("i", (), rlx.i64), body.input("v", (4,))
    body.output("go", i < body.constant(np.int64(9)))
    body.output("v", v * v)
    g = rlx.Graph("g")
    x = g.input("x", (4,))
    value, trips = ops.loop(g.constant(np.int64(3)), None, x, body=body, n_carried=1)
    g.output("y", value)
    g.output("trips", trips)
    g.output("z", ops.reshape(value, shape=(1, 4)) @ g.constant(w))
    want = np.full(4, 1.1, np.float32)
    for _ in range(3):
        want = np.square(want.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float32)
    for precision in ("always_f16", "auto_mixed"):
        got = rlx.compile(g, rlx.CompileOptions(precision=precision)).run({"x": np.full(4, 1.1, np.float32)})
        assert (got["y"] == want).all() and got["trips"] == 3 and got["y"].dtype == np.float32
