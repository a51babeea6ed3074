"""Files, threads and boundaries: what other files here do not answer (A10, A31, A70, A79, R-17, R-71, Appendix C)."""

import pathlib

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import rlx
from rlx import ops
from rlx.testing.onnx_models import model

F = np.float32


def external(folder: pathlib.Path, values: np.ndarray) -> pathlib.Path:
    """A model y = relu(c) * c whose weight c lies in another file."""
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=values.shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", "offset": "0", "length": str(values.nbytes)}.items():
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Mul", ["r", "c"], ["y"])]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, values.shape)
    (folder / "w.bin").write_bytes(values.tobytes())
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph(nodes, "g", [], [out], [tensor])).SerializeToString())
    return path


def test_a10_folded_constants_are_those_of_the_file_however_it_is_read(tmp_path: pathlib.Path) -> None:
    import onnx

    values = np.random.default_rng(0).standard_normal(1000).astype(F)
    path = external(tmp_path, values)
    want = np.maximum(values, 0) * values
    np.testing.assert_array_equal(rlx.load(path).run({})["y"], want)
    np.testing.assert_array_equal(rlx.load(onnx.load(path)).run({})["y"], want)  # weights now inside
    np.testing.assert_array_equal(rlx.load(onnx.load(path).SerializeToString()).run({})["y"], want)
    with pytest.raises(rlx.FormatError, match="given as bytes"):  # and never zeros in their place
        rlx.load(path.read_bytes())


@pytest.mark.parametrize("code", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_a31_r66_one_codec_for_float8(code: int) -> None:
    """Two oracles: the table of the OCP standard, and ml_dtypes for all 256 codes."""
    dtype = {TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2}[code]
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    wide = codes.astype(F)
    if code == TensorProto.FLOAT8E4M3FN:
        assert (wide[0x78], wide[0x7E]) == (256, 448) and np.isnan(wide[0x7F])
    for saturate in (0, 1):
        nodes = [helper.make_node("Cast", ["x"], ["q"], to=code, saturate=saturate),
                 helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)]
        x = np.concatenate([wide[np.isfinite(wide)], F([np.inf, -np.inf, np.nan, 1e9])])
        y = model(nodes, {"x": x}, ["y"], opset=19).run({"x": x})["y"]
        np.testing.assert_array_equal(y[:-4], x[:-4])
        most = wide[np.isfinite(wide)].max()
        beyond = [most, -most, np.nan, most] if saturate else [np.nan, -np.nan, np.nan, np.nan]
        if code == TensorProto.FLOAT8E5M2 and not saturate:
            beyond = [np.inf, -np.inf, np.nan, np.inf]
        np.testing.assert_array_equal(y[-4:], F(beyond))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("trips", [0, 1, 100])
def test_a70_a_loop_over_nothing_ends(threads: int, trips: int) -> None:
    body = rlx.Graph("body")
    body.input("i", (), rlx.i64)
    s, w = body.input("s", (0, 64)), body.input("w", (64, 64))
    body.output("go", body.constant(np.asarray(True)))
    body.output("s", ops.tanh(s @ w) + ops.softmax(s, axis=0))
    g = rlx.Graph("nothing")
    n = g.input("n", (), rlx.i64)
    x, w2 = g.input("x", (0, 64)), g.input("w", (64, 64))
    g.output("y", ops.loop(n, None, x, w2, body=body, n_carried=1)[0])
    g.output("total", ops.reduce_sum(x, axes=(0,), keepdims=False))
    exe = rlx.compile(g, rlx.CompileOptions(threads=threads, poison=True))
    out = exe.run({"n": np.int64(trips), "x": np.zeros((0, 64), F), "w": np.ones((64, 64), F)}, threads=threads)
    assert out["y"].shape == (0, 64) and not out["total"].any()


@pytest.mark.parametrize(("n", "k", "d", "s"), [(22, 3, 2, 1), (7, 3, 1, 2), (7, 2, 1, 2), (9, 3, 3, 2), (5, 4, 2, 3)])
def test_a79_a80_same_padding_counts_the_dilated_kernel_and_the_stride(n: int, k: int, d: int, s: int) -> None:
    size = -(-n // s)
    total = max(0, (size - 1) * s + (k - 1) * d + 1 - n)
    x = np.random.default_rng(0).standard_normal((1, 1, n)).astype(F)
    w = np.random.default_rng(1).standard_normal((1, 1, k)).astype(F)
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        left = total // 2 if mode == "SAME_UPPER" else total - total // 2
        wide = np.pad(x[0, 0].astype(float), (left, total - left))
        want = [sum(wide[o * s + j * d] * w[0, 0, j] for j in range(k)) for o in range(size)]
        node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=mode, dilations=[d], strides=[s])
        y = model([node], {"x": x, "w": w}, ["y"]).run({"x": x, "w": w})["y"]
        np.testing.assert_allclose(y[0, 0], want, rtol=1e-5, atol=1e-6)
        node = helper.make_node("MaxPool", ["x"], ["y"], auto_pad=mode, kernel_shape=[k], strides=[s], dilations=[d])
        y = model([node], {"x": x}, ["y"]).run({"x": x})["y"]
        low = np.pad(x[0, 0], (left, total - left), constant_values=-np.inf)
        np.testing.assert_array_equal(y[0, 0], [max(low[o * s + j * d] for j in range(k)) for o in range(size)])


def test_r17_places_that_are_not_there_are_errors() -> None:
    g = rlx.Graph("two")
    x = g.input("x", (2,))
    g.output("a", x + 1)
    g.output("b", x * 2)
    exe = rlx.compile(g)
    given = {"x": F([1, 2])}
    out = exe.run(given)
    for place in (2, -3, 1 << 40):
        with pytest.raises(IndexError, match=r"there are 2: \['a', 'b'\]"):
            out[place]
    with pytest.raises(KeyError, match="outputs are"):
        out["c"]
    for bad in ([None, None, None], [None], {"c": np.zeros(2, F)}):
        with pytest.raises(rlx.BindingError):
            exe.run(given, out=bad)
    np.testing.assert_array_equal(exe.run(given)["b"], [2, 4])


def test_r71_a143_a_matrix_without_inverse_is_an_error_that_names_it() -> None:
    g = rlx.Graph("inverse")
    g.output("y", ops.inverse(g.input("x", (3, 2, 2)), name="solve"))
    exe = rlx.compile(g)
    good = np.tile(F([[2, 0], [0, 4]]), (3, 1, 1))
    bad = good.copy()
    bad[2] = [[1, 2], [2, 4]]
    with pytest.raises(rlx.ExecutionError, match=r"solve(.|\n)*2"):
        exe.run({"x": bad})
    np.testing.assert_array_equal(exe.run({"x": good})["y"][2], [[0.5, 0], [0, 0.25]])
    bad[1, 0, 0] = np.nan
    with pytest.raises(rlx.ExecutionError, match=r"solve(.|\n)*finite, got NaN(.|\n)*element 4"):
        exe.run({"x": bad})
    np.testing.assert_array_equal(exe.run({"x": good})["y"][1], [[0.5, 0], [0, 0.25]])


def test_b5_a_graph_that_does_nothing_costs_next_to_nothing() -> None:
    """Against a NumPy addition of one number, alternated: a call is a few of those at most."""
    import time

    g = rlx.Graph("empty")
    x = g.input("x", (1,))
    g.output("y", ops.reshape(x, shape=(1, 1)))
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    given, one = {"x": np.ones(1, F)}, np.ones(1, F)

    def seconds(call: object, n: int = 2000) -> float:
        start = time.process_time()
        for _ in range(n):
            call()  # type: ignore[operator]
        return time.process_time() - start

    ours = min(seconds(lambda: exe.run(given)) for _ in range(5))
    theirs = min(seconds(lambda: np.add(one, one)) for _ in range(5))
    assert exe.run(given)["y"].shape == (1, 1) and ours < 12 * theirs


# ------------------------------------------------------------------- Appendix C of the study


def affine() -> rlx.CompiledGraph:
    g = rlx.Graph("affine")
    a, b = g.input("a", (3,), rlx.f64), g.input("b", (3,), rlx.f64)
    g.output("y", a * 2.0 + b)
    g.output("total", ops.reduce_sum(a, axes=(0,), keepdims=False))
    return rlx.compile(g, rlx.CompileOptions(poison=True))


def test_c1_7_doubles_run_typed_twice_depend_on_the_second_call_alone() -> None:
    exe = affine()
    large, small = np.full(3, 1e300), np.array([1.0, 2.0, 3.0])
    exe.run_typed({"a": large, "b": large})
    (y, dtype), (total, _) = exe.run_typed({"a": small, "b": small})
    assert dtype is rlx.f64 and np.frombuffer(y).tolist() == [3, 6, 9] and np.frombuffer(total)[0] == 6
    with pytest.raises(rlx.BindingError, match="'b' is missing"):
        exe.run_typed({"a": small})
    assert exe.run_typed({"a": small, "b": small})[0][0] == y


def test_c1_3_a_handle_stands_in_for_a_missing_input() -> None:
    exe = affine()
    one = np.ones(3)
    for call in (exe.run, exe.run_raw, exe.run_typed):
        with pytest.raises(rlx.BindingError, match="'b' is missing"):
            call({"a": one})
    exe.bind_handle("b", one * 5)
    assert exe.run({"a": one})["y"].tolist() == [7, 7, 7] == exe.run_raw({"a": one})[0].tolist()
    assert np.frombuffer(exe.run_typed({"a": one})[0][0]).tolist() == [7, 7, 7]
    assert exe.run_slots([one, None])[0].tolist() == [7, 7, 7]


def test_c2_two_bits_of_a_symmetric_quantisation(every_way) -> None:  # type: ignore[no-untyped-def]
    def build(x: rlx.Value) -> rlx.Value:
        peak = ops.reduce_max(ops.abs(x), axes=(0,), keepdims=False)  # 2 bits: codes -1, 0, 1
        return ops.clip(ops.round(x / peak), lo=-1.0, hi=1.0) * peak

    assert every_way(build, F([-1, 0.4, 1])).tolist() == [-1, 0, 1]
