"""Names, records, initial values and state dicts of the builder; errors say where."""

import numpy as np
import pytest

import rlx
from rlx import hir
from rlx.errors import BindingError, BindingTypeError, GraphError, TypeRuleError, UnknownNameError


def net(dtype=rlx.f32, width=3):
    g = rlx.Graph("net")
    b = hir.Builder(g, "net")
    with b.scope("layer0"):
        x = hir.linear(b, g.input("x", ("n", width), dtype), 4, activation="relu", name="fc")
        x = hir.layer_norm(b, x, name="norm")
    g.output("y", hir.linear(b, x, 2, bias=False, name="head"))
    return g, b


def test_params_listing() -> None:
    g, b = net()
    assert {n: (s.shape, s.dtype) for n, s in b.params.items()} == {
        "net.layer0.fc.weight": ((3, 4), rlx.f32),
        "net.layer0.fc.bias": ((4,), rlx.f32),
        "net.layer0.norm.weight": ((4,), rlx.f32),
        "net.layer0.norm.bias": ((4,), rlx.f32),
        "net.head.weight": ((4, 2), rlx.f32),
    }
    assert [v.name for v in g.params] == list(b.params)
    assert b["net.head.weight"] is g.params[-1]
    lines = b.summary().splitlines()
    assert lines[0].split() == ["net.layer0.fc.weight", "f32[3,", "4]", "12"]
    assert lines[-1].split() == ["total", "32"]


def test_random_params_depend_on_seed_and_name_alone() -> None:
    first, again, other = net()[1].random_params(1), net()[1].random_params(1), net()[1].random_params(2)
    assert all(np.array_equal(first[n], again[n]) and first[n].dtype == np.float32 for n in first)
    assert not np.array_equal(first["net.head.weight"], other["net.head.weight"])
    assert np.all(first["net.layer0.norm.weight"] == 1) and not first["net.layer0.norm.bias"].any()
    assert np.abs(first["net.layer0.fc.weight"]).max() <= 3**-0.5
    g = rlx.Graph()
    alone = hir.Builder(g, "net")
    hir.linear(alone, g.input("x", ("n", 4)), 2, bias=False, name="head")
    assert np.array_equal(alone.random_params(1)["net.head.weight"], first["net.head.weight"])


def test_init_may_be_a_function_which_must_give_the_shape() -> None:
    b = hir.Builder(rlx.Graph())
    b.param("a", (2, 3), rlx.f64, init=lambda rng, shape: np.full(shape, 0.5))
    assert b.random_params()["a"].tolist() == [[0.5] * 3] * 2
    b.param("b", (2,), init=lambda rng, shape: np.zeros(3))
    with pytest.raises(BindingError, match=r"b: init must give shape \(2,\), got \(3,\)"):
        b.random_params()


def test_state_dict_in_both_layouts() -> None:
    g, b = net()
    params = b.random_params()
    stored = {"model." + n: a.T if a.ndim == 2 else a for n, a in params.items()}
    loaded = b.load_params(stored, layout="out_in", prefix="model.")
    assert list(loaded) == list(params)
    assert all(np.array_equal(loaded[n], params[n]) and loaded[n].flags.c_contiguous for n in params)
    same = b.load_params(params)
    exe = rlx.compile(g)
    exe.set_params(same)
    assert exe.run({"x": np.ones((2, 3), np.float32)})["y"].shape == (2, 2)


def test_state_dict_errors_name_the_place() -> None:
    _, b = net()
    params = b.random_params()
    with pytest.raises(UnknownNameError, match=r"(?s)'net'.*got none for \['net.head.weight'\].*nearest"):
        b.load_params({n: a for n, a in params.items() if "head" not in n})
    more = {**params, "net.haed.weight": params["net.head.weight"]}
    with pytest.raises(UnknownNameError, match=r"(?s)got \['net.haed.weight'\].*'net.head.weight'"):
        b.load_params(more)
    assert list(b.load_params(more, strict=False)) == list(params)
    with pytest.raises(BindingError, match=r"(?s)'net.head.weight': shape must be \(2, 4\).*layout='in_out'"):
        b.load_params({**params, "net.layer0.fc.weight": np.zeros((4, 3), np.float32)}, layout="out_in")
    with pytest.raises(BindingError, match=r"'net.head.weight': shape must be \(4, 2\).*got \(4, 3\)"):
        b.load_params({**params, "net.head.weight": np.zeros((4, 3), np.float32)})
    with pytest.raises(BindingTypeError, match=r"(?s)'net.head.weight': dtype must be f32, got float64.*astype"):
        b.load_params({**params, "net.head.weight": np.zeros((4, 2))})
    with pytest.raises(BindingError, match="layout must be among"):
        b.load_params(params, layout="torch")  # type: ignore[arg-type]


def test_package_is_an_attribute_of_rlx() -> None:
    assert rlx.hir is hir
    assert all(getattr(hir, name).__doc__ for name in hir.__all__)


def test_names() -> None:
    g = rlx.Graph()
    b = hir.Builder(g)
    x = g.input("x", ("n", 4))
    hir.linear(b, x, 2)
    assert list(b.params) == ["weight", "bias"]
    with pytest.raises(GraphError, match=r"weight: parameter names must differ, got this one twice"):
        hir.linear(b, x, 2)
    for name in ("", "a..b", ".a", 3):
        with pytest.raises(GraphError, match="a name must be"), b.scope(name):  # type: ignore[arg-type]
            pass
    with pytest.raises(GraphError, match="a name must be"):
        hir.Builder(g, "a.")
    with pytest.raises(GraphError, match="graph must be a Graph, got str"):
        hir.Builder("g")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="no parameter 'wieght'"):
        b["wieght"]
    with pytest.raises(GraphError, match="init must be among"):
        b.param("c", (2,), init="he")  # type: ignore[arg-type]
    with pytest.raises(TypeRuleError, match="sizes of a parameter must be numbers"):
        b.param("c", ("n",))  # type: ignore[arg-type]
    assert b.path == ""


def block_error(build, *shape, dtype=rlx.f32):
    g = rlx.Graph("g")
    b = hir.Builder(g, "m")
    with pytest.raises(TypeRuleError) as found, b.scope("layer0"):
        build(b, g.input("x", shape, dtype))
    assert b.path == "m"
    return str(found.value)


@pytest.mark.parametrize(
    ("build", "shape", "text"),
    [
        (lambda b, x: hir.linear(b, x, 2, name="fc"), (3, "n"),
         "m.layer0.fc: linear: the size of axis -1 must be a number, got f32[3, n]"),
        (lambda b, x: hir.linear(b, x, 0, name="fc"), (3,),
         "m.layer0.fc: linear: features must be an integer >= 1, got 0"),
        (lambda b, x: hir.linear(b, x, 2, activation="rleu"), (3,),
         "m.layer0: activation: a name must be an op of one operand, got 'rleu'"),
        (lambda b, x: hir.linear(b, x, 2, activation="add"), (3,),
         "m.layer0: activation: a name must be an op of one operand, got 'add'"),
        (lambda b, x: hir.linear(b, x, 2, activation=lambda v: 1), (3,),
         "m.layer0: activation: must give one Value of graph 'g', got int"),
        (lambda b, x: hir.linear(b, x, 2, activation=3), (3,),
         "m.layer0: activation: must be a name, a function or None, got int"),
        (lambda b, x: hir.mlp(b, x, ()), (3,), "m.layer0: mlp: features must be a non-empty sequence of sizes, got ()"),
        (lambda b, x: hir.embedding(b, x, 5, 4), (3,),
         "m.layer0: embedding: ids must be a Value of i32 or i64, got f32[3]"),
        (lambda b, x: hir.residual(b, x, lambda v: hir.linear(b, v, 2)), (3, 4),
         "m.layer0: residual: the block must give f32[3, 4], got f32[3, 2]"),
        (lambda b, x: hir.attention(b, x, 3, name="attn"), (2, 5, 8),
         "m.layer0.attn: attention: the width of x must divide by num_heads, got 8 and 3"),
        (lambda b, x: hir.attention(b, x, 4, num_kv_heads=3), (2, 5, 8),
         "m.layer0: attention: num_heads must be a multiple of num_kv_heads, got 4 and 3"),
        (lambda b, x: hir.attention(b, x, 2), (5, 8),
         "m.layer0: attention: x and context must be [batch, length, width] of one type and batch, got f32[5, 8]"),
        (lambda b, x: hir.attention(b, x, 8, rope=hir.Rope()), (2, 5, 8),
         "m.layer0: attention: rope must come without context and with an even head width, got width 1"),
        (lambda b, x: hir.attention(b, x, 2, rope=hir.Rope(theta=-1.0)), (2, 5, 8),
         "m.layer0: rope: theta must be > 0 and finite, got -1.0"),
        (lambda b, x: hir.attention(b, x, 2, positions=np.zeros((1, 5), np.int64)), (2, 5, 8),
         "m.layer0: attention: positions must come with rope"),
        (lambda b, x: hir.attention(b, x, 2, rope=hir.Rope(), positions=np.zeros((1, 4), np.int64)), (2, 5, 8),
         "m.layer0: attention: positions must be i64 [batch, 5], got i64[1, 4]"),
        (lambda b, x: hir.attention(b, x, 2, mask=np.zeros((3, 4), bool)), (2, 5, 8), "m.layer0: "),
        (lambda b, x: hir.lstm(b, x, 4), (5, 8), "m.layer0: lstm: x must be [batch, time, in], got f32[5, 8]"),
        (lambda b, x: hir.lstm(b, x, 8, initial_h=x), (2, 5, 8),
         "m.layer0: lstm: an initial state must be f32[1, 2, 8], got f32[2, 5, 8]"),
        (lambda b, x: hir.gru(b, x, -1), (2, 5, 8), "m.layer0: gru: hidden must be an integer >= 1, got -1"),
        (lambda b, x: hir.conv_block(b, x, 4, 3, groups=3), (2, 4, 8, 8),
         "m.layer0: conv_block: channels must divide by groups, got 4 and 4 channels, 3 groups"),
        (lambda b, x: hir.conv_block(b, x, 4, (3, 3, 3), name="stem"), (2, 4, 8, 8),
         "m.layer0.stem: conv_block: kernel must have 2 sizes for f32[2, 4, 8, 8], got [3, 3, 3]"),
        (lambda b, x: hir.encoder_layer(b, x, 3, 16, name="e"), (2, 5, 8),
         "m.layer0.e.self_attn: attention: the width"),
        (lambda b, x: hir.layer_norm(b, x), (), "m.layer0: layer_norm: the operand must have an axis -1, got f32[]"),
        (lambda b, x: hir.conv_block(b, x, 4, 9, name="stem"), (2, 4, 8, 8), "m.layer0.stem.conv: "),
    ],
)
def test_errors_of_blocks_say_where(build, shape, text) -> None:
    assert block_error(build, *shape).startswith(text)


def test_operands_must_be_float_values() -> None:
    assert block_error(lambda b, x: hir.linear(b, x, 2), 3, dtype=rlx.i32).startswith(
        "m.layer0: linear: operand type must be a float, got i32[3]")
    assert block_error(lambda b, x: hir.linear(b, np.zeros(3), 2), 3).startswith(
        "m.layer0: linear: an operand must be a Value, got ndarray")


def test_error_raised_by_someone_else_passes_through() -> None:
    b = hir.Builder(rlx.Graph())
    with pytest.raises(ZeroDivisionError), b.scope("a"):
        _ = 1 / 0
    assert b.path == ""
