"""float8 as a type of graphs: inputs, parameters, handles, files, weights of products."""

import copy
import pickle

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.dtypes import FLOAT8, DType
from rlx.errors import BindingError, BindingTypeError, GraphError, TypeRuleError

EVERY = pytest.mark.parametrize("dtype", FLOAT8, ids=str)
F = np.float32


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def scaled(dtype: DType) -> rlx.Graph:
    """y = cast(x) * cast(p), z = x moved about."""
    g = rlx.Graph("scaled")
    x, p = g.input("x", (3, 4), dtype), g.param("p", (4,), dtype)
    g.output("y", ops.cast(x, dtype=rlx.f32) * ops.cast(p, dtype=rlx.f32))
    moved = ops.concat(ops.transpose(x, perm=(1, 0)), ops.transpose(x, perm=(1, 0))[::-1], axis=1)
    g.output("z", ops.pad(moved, before=(0, 1), after=(1, 0), value=1.5))
    return g


@EVERY
def test_every_way_of_running_keeps_the_bytes(dtype: DType) -> None:
    exe = rlx.compile(scaled(dtype), rlx.CompileOptions(poison=True, check=True))
    x, p = random(3, 4).astype(dtype.numpy), random(4, seed=1).astype(dtype.numpy)
    exe.set_params({"p": p})
    assert exe.get_param("p").dtype == dtype.numpy
    want = x.astype(F) * p.astype(F)
    z = np.pad(np.concatenate([x.T, x.T[::-1]], 1).astype(F), ((0, 1), (1, 0)), constant_values=1.5)
    for outs in (exe.run({"x": x}), exe.run({"x": x}, threads=2), exe.clone().run({"x": x}),
                 pickle.loads(pickle.dumps(exe)).run({"x": x}), copy.deepcopy(exe).run({"x": x})):
        np.testing.assert_array_equal(outs["y"], want)
        assert outs["z"].dtype == dtype.numpy
        np.testing.assert_array_equal(outs["z"].astype(F), z)
    assert exe.run_slots([x])[1].dtype == dtype.numpy
    assert exe.run_raw({"x": x})[1].tobytes() == z.astype(dtype.numpy).tobytes()
    (_, first), (raw, label) = exe.run_typed({"x": (x.tobytes(), dtype)})
    assert (first, label) == (rlx.f32, dtype)
    assert raw == z.astype(dtype.numpy).tobytes()
    assert exe.io_manifest.inputs == {"x": dtype} and exe.io_manifest.outputs == {"y": rlx.f32, "z": dtype}
    for way in ({"optimize": False}, {"nan_check": True}):
        other = rlx.compile(scaled(dtype), rlx.CompileOptions(**way))
        other.set_param_typed("p", p.tobytes(), str(dtype))
        np.testing.assert_array_equal(other.run({"x": x})["y"], want)


@EVERY
def test_other_types_are_refused_at_the_boundary(dtype: DType) -> None:
    exe = rlx.compile(scaled(dtype))
    with pytest.raises(BindingTypeError, match=f"parameter 'p'.*{dtype}"):
        exe.set_params({"p": np.ones(4, F)})
    exe.set_params({"p": np.ones(4, dtype.numpy)})
    other = FLOAT8[FLOAT8.index(dtype) - 1]
    for bad in (np.zeros((3, 4), np.uint8), np.zeros((3, 4), F), np.zeros((3, 4), other.numpy)):
        with pytest.raises(BindingTypeError, match=f"input 'x'.*must be {dtype}, got"):
            exe.run({"x": bad})
    with pytest.raises(BindingError, match="bytes for"):
        exe.run_typed({"x": (bytes(11), dtype)})


@EVERY
def test_handles_and_links(dtype: DType) -> None:
    g = rlx.Graph("shift")
    h, x = g.input("h", (6,), dtype), g.input("x", (2,), dtype)
    g.output("out", ops.concat(h[2:], x, axis=0))
    exe = rlx.compile(g)
    exe.bind_handle("h", np.zeros(6, dtype.numpy))
    exe.link("out", "h")
    for step in range(4):
        exe.run({"x": np.array([step, -step], F).astype(dtype.numpy)})
    assert exe.read_handle("h").dtype == dtype.numpy
    np.testing.assert_array_equal(exe.read_handle("h").astype(F), [1, -1, 2, -2, 3, -3])
    with pytest.raises(BindingTypeError):
        exe.bind_handle("h", np.zeros(6, F))


@EVERY
@pytest.mark.parametrize("portable", [False, True])
def test_files_hold_float8(tmp_path, dtype: DType, portable: bool) -> None:  # type: ignore[no-untyped-def]
    g = rlx.Graph("file")
    x = g.input("x", (3, 4), dtype)
    table = random(5, 4, seed=3).astype(dtype.numpy)
    w = random(4, 300, seed=4).astype(dtype.numpy)
    wide = ops.cast(x, dtype=rlx.f32) + ops.cast(g.constant(table), dtype=rlx.f32)[:3]
    g.output("y", wide @ ops.cast(g.param("w", (4, 300), dtype), dtype=rlx.f32))
    g.output("row", ops.gather(g.constant(table), np.array([4, 0]), axis=0))
    exe = rlx.compile(g)
    exe.set_params({"w": w})
    data = random(3, 4, seed=5).astype(dtype.numpy)
    want = exe.run({"x": data})
    exe.save(tmp_path / "a.rlx", portable=portable)
    loaded = rlx.load(tmp_path / "a.rlx")
    got = loaded.run({"x": data})
    assert got["y"].tobytes() == want["y"].tobytes()
    assert got["row"].tobytes() == table[[4, 0]].tobytes()
    text = rlx.Graph.from_text(g.to_text()) if hasattr(rlx.Graph, "from_text") else None
    if text is not None:
        assert text.fingerprint() == g.fingerprint()


@EVERY
@pytest.mark.parametrize("rows", [1, 7, 50])
@pytest.mark.parametrize("param", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_stay_in_float8(dtype: DType, rows: int, param: bool, transposed: bool) -> None:
    """A product widens them in registers: the bits are those of weights that were widened before."""
    x, w = random(rows, 160), random(160, 96, seed=1).astype(dtype.numpy)
    given = np.ascontiguousarray(w.T) if transposed else w

    def build(kind: DType) -> rlx.Graph:
        g = rlx.Graph("g")
        stored = given.astype(kind.numpy)
        weight = g.param("w", given.shape, kind) if param else g.constant(stored)
        weight = ops.cast(weight, dtype=rlx.f32)
        weight = ops.transpose(weight, perm=(1, 0)) if transposed else weight
        g.output("y", ops.relu(g.input("x", x.shape) @ weight))
        return g

    exe, plain = rlx.compile(build(dtype), rlx.CompileOptions(check=True, poison=True)), rlx.compile(build(rlx.f32))
    if param:
        exe.set_params({"w": given})
        plain.set_params({"w": given.astype(F)})
    got = exe.run({"x": x})["y"]
    np.testing.assert_array_equal(exe.run({"x": x}, threads=2)["y"], got)
    off = rlx.compile(build(dtype), rlx.CompileOptions(disable=("half-weights",)))
    off.set_params({"w": given} if param else {})
    for other in (off, plain):
        np.testing.assert_allclose(other.run({"x": x})["y"], got, rtol=1e-5, atol=1e-5)
    of_one_zero = dtype.name.endswith("fnuz")
    assert f"matmul.f32@{'f16' if of_one_zero else dtype}" in str(exe.explain())
    assert exe.memory_report().weights < w.size * (2 if of_one_zero else 1) + 1024


@EVERY
def test_convolutions_read_float8(dtype: DType) -> None:
    x, w = random(1, 16, 12, 12), random(24, 16, 3, 3, seed=1).astype(dtype.numpy)

    def build(kind: DType) -> rlx.Graph:
        g = rlx.Graph("g")
        weight = ops.cast(g.constant(w.astype(kind.numpy)), dtype=rlx.f32)
        g.output("y", ops.conv(g.input("x", x.shape), weight, strides=(2, 2), pads=(1, 1, 1, 1)))
        return g

    exe = rlx.compile(build(dtype))
    want = rlx.compile(build(rlx.f32)).run({"x": x})["y"]
    np.testing.assert_allclose(exe.run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)
    assert exe.memory_report().weights <= w.size * 2 * 32 // 24  # panels of 32 columns


def test_casts_say_whether_they_saturate() -> None:
    g = rlx.Graph("casts")
    x = g.input("x", (4,))
    for dtype in FLOAT8:
        g.output(f"{dtype}", ops.cast(x, dtype=dtype))
        g.output(f"{dtype} limited", ops.cast(x, dtype=dtype, saturate=True))
    data = np.array([1e9, -1e9, np.inf, np.nan], F)
    for optimize in (True, False):
        outs = rlx.compile(g, rlx.CompileOptions(optimize=optimize)).run({"x": data})
        for dtype, top in zip(FLOAT8, (448, 240, 57344, 57344), strict=True):
            beyond = np.inf if dtype == rlx.f8e5m2 else np.nan
            np.testing.assert_array_equal(outs[f"{dtype}"].astype(F), [beyond, -beyond, beyond, np.nan])
            np.testing.assert_array_equal(outs[f"{dtype} limited"].astype(F), [top, -top, top, np.nan])
    with pytest.raises(TypeRuleError, match="only float8 is saturated, got saturate=True for f16"):
        ops.cast(x, dtype=rlx.f16, saturate=True)


def test_computing_is_refused_with_the_name_of_the_node_and_a_hint() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (4,), rlx.f8e4m3fn)
    with pytest.raises(GraphError, match=r"(?s)add: .*f8e4m3fn.*hint: .*ops\.cast\(x, dtype=rlx\.f32\)"):
        x + x
    with pytest.raises(GraphError, match=r"(?s)tanh: .*\(node 'here'\)\nhint: float8"):
        ops.tanh(x, name="here")
    with pytest.raises(GraphError, match=r"(?s)scatter_nd: .*f8e4m3fn.*hint: float8"):
        ops.scatter_nd(x, np.array([[0]]), x[:1], reduction="add")


def test_names_and_types() -> None:
    for dtype in FLOAT8:
        assert getattr(rlx, dtype.name) is dtype is rlx.dtypes.as_dtype(dtype.numpy) is rlx.dtypes.as_dtype(str(dtype))
        assert dtype.itemsize == 1 and dtype.is_float and dtype.is_float8 and dtype.is_stored and not dtype.is_half
        assert rlx.dtypes.as_dtype(dtype.numpy.name) is dtype
        assert rlx.dtypes.from_onnx(dtype.onnx) is dtype
