"""Tensors of a file: element types, external data and attacks on it, memory."""

import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rlx
from rlx.testing.onnx_models import info, model, proto

TYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.bool_,
    np.complex64,
    np.complex128,
]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("n", [0, 1, 3, 5000])
@pytest.mark.parametrize("raw", [True, False])
def test_initialisers_of_all_types(dtype: type, n: int, raw: bool) -> None:
    array = (np.arange(n) % 7).astype(dtype)
    tensor = numpy_helper.from_array(array, "c")
    if not raw:
        tensor = helper.make_tensor("c", tensor.data_type, [n], array.tolist(), raw=False)
    graph = helper.make_graph([helper.make_node("Identity", ["c"], ["y"])], "g", [], [info("y")], [tensor])
    got = rlx.load(helper.make_model(graph).SerializeToString()).run({})["y"]
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


def external(
    tmp_path: pathlib.Path, location: str, offset: str | None = None, length: str | None = None, n: int = 4
) -> pathlib.Path:
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[n], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("Neg", ["c"], ["y"])], "g", [], [info("y")], [tensor])
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    return folder


@pytest.mark.parametrize("place", ["w.bin", "sub/w.bin"])
def test_external_data_below_the_folder(tmp_path: pathlib.Path, place: str) -> None:
    folder = external(tmp_path, place, "16", "16")
    (folder / "sub").mkdir()
    (folder / place).write_bytes(bytes(16) + np.arange(4, dtype=np.float32).tobytes())
    np.testing.assert_array_equal(rlx.load(folder / "m.onnx").run({})["y"], [0, -1, -2, -3])


@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [
        ("../secret.bin", None, None),
        ("/etc/passwd", None, None),
        ("link.bin", None, None),
        ("links/secret.bin", None, None),
        ("sub/../../secret.bin", None, None),
        ("", None, None),
        (".", None, None),
        ("missing.bin", None, None),
        ("w.bin\x00", None, None),
        ("w.bin", "8", "16"),
        ("w.bin", "-4", "16"),
        ("w.bin", "0", "-16"),
        ("w.bin", "0", "999999999999"),
        ("w.bin", "0", "8"),
        ("w.bin", "x", None),
        ("w.bin", "99999999999999999999", "16"),
        ("C:\\w.bin", None, None),
    ],
)
def test_external_data_attacks_are_refused(
    tmp_path: pathlib.Path, location: str, offset: str | None, length: str | None
) -> None:
    folder = external(tmp_path, location, offset, length)
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "w.bin").write_bytes(bytes(16))
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    os.symlink(tmp_path, folder / "links")
    with pytest.raises(rlx.FormatError):
        rlx.load(folder / "m.onnx")


def test_a_large_claim_is_refused_before_memory_is_taken(tmp_path: pathlib.Path) -> None:
    folder = external(tmp_path, "w.bin", n=1 << 60)
    (folder / "w.bin").write_bytes(bytes(16))
    with pytest.raises(rlx.FormatError, match="must lie within"):
        rlx.load(folder / "m.onnx")


def test_external_data_needs_a_folder(tmp_path: pathlib.Path) -> None:
    folder = external(tmp_path, "w.bin")
    with pytest.raises(rlx.FormatError, match="given as bytes"):
        rlx.load((folder / "m.onnx").read_bytes())


@pytest.mark.parametrize(
    ("dims", "size"), [([1 << 40], 16), ([-4], 16), ([5], 16), ([4], 15), ([1 << 62, 4], 16), ([3], 0)]
)
def test_shapes_that_do_not_fit_their_data(dims: list[int], size: int) -> None:
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=dims, raw_data=bytes(size))
    graph = helper.make_graph([helper.make_node("Neg", ["c"], ["y"])], "g", [], [info("y")], [tensor])
    with pytest.raises(rlx.FormatError):
        rlx.load(helper.make_model(graph).SerializeToString())
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=dims, float_data=[0.0] * (size // 4))
    graph = helper.make_graph([helper.make_node("Neg", ["c"], ["y"])], "g", [], [info("y")], [tensor])
    if dims != [4]:
        with pytest.raises(rlx.FormatError):
            rlx.load(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("op", "constants"),
    [
        ("ConstantOfShape", {"s": np.int64([1 << 40])}),
        ("ConstantOfShape", {"s": np.int64([-1])}),
        ("Range", {"a": np.int64(0), "b": np.int64(1 << 60), "c": np.int64(1)}),
        ("Range", {"a": np.int64(0), "b": np.int64(1), "c": np.int64(0)}),
        ("Expand", {"x": np.float32(1), "s": np.int64([1 << 30, 1 << 30])}),
        ("Tile", {"x": np.float32([1]), "s": np.int64([1 << 50])}),
        ("Reshape", {"x": np.float32([1]), "s": np.int64([-1, -1])}),
        ("OneHot", {"i": np.int64([1]), "d": np.int64(1 << 50), "v": np.float32([0, 1])}),
    ],
)
def test_hostile_sizes_raise(op: str, constants: dict) -> None:
    m = model([helper.make_node(op, list(constants), ["y"])], {}, ["y"], constants)
    with pytest.raises(rlx.RlxError):
        m.run({})


def test_sparse_initialisers_become_dense() -> None:
    values = helper.make_tensor("c", TensorProto.FLOAT, [2], [5.0, 7.0])
    places = helper.make_tensor("i", TensorProto.INT64, [2], [1, 4])
    sparse = helper.make_sparse_tensor(values, places, [2, 3])
    graph = helper.make_graph([helper.make_node("Neg", ["c"], ["y"])], "g", [], [info("y")])
    graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(
        rlx.load(helper.make_model(graph).SerializeToString()).run({})["y"], [[0, -5, 0], [0, -7, 0]]
    )


def test_large_weights_inside_subgraphs_and_attributes_are_read_by_reference() -> None:
    w = np.arange(5000, dtype=np.float32)
    inner = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["t"])], "then", [], [info("t")], [numpy_helper.from_array(w, "w")]
    )
    other = helper.make_graph(
        [helper.make_node("Constant", [], ["e"], value=numpy_helper.from_array(w))], "else", [], [info("e")]
    )
    p = proto(
        [helper.make_node("If", ["p"], ["y"], then_branch=inner, else_branch=other)],
        {"x": w, "p": np.asarray(True)},
        ["y"],
    )
    m = rlx.load(p.SerializeToString())
    np.testing.assert_array_equal(m.run({"x": w, "p": np.asarray(True)})["y"], w * w)
    np.testing.assert_array_equal(m.run({"x": w, "p": np.asarray(False)})["y"], w)


MEMORY = """
import os, sys, resource, numpy as np, onnx, rlx
from rlx.onnx import load
import rlx.onnx.model
from rlx.lower.context import RULES
RULES.load()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
small = rlx.load(sys.argv[2]); small.run({"x": np.ones((1, 64), np.float32)})
before = resident()
m = rlx.load(sys.argv[1]); m.run({"x": np.ones((1, 2048), np.float32)})
report = m.memory_report()
print(resident() - before, report.weights, report.arena)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs /proc")
def test_weights_are_not_held_twice(tmp_path: pathlib.Path) -> None:
    paths = []
    for size, layers in ((2048, 6), (64, 2)):
        rng = np.random.default_rng(0)
        weights = {f"w{i}": (rng.standard_normal((size, size)) / 64).astype(np.float32) for i in range(layers)}
        nodes = [
            helper.make_node("MatMul", ["x" if i == 0 else f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(layers)
        ]
        path = tmp_path / f"m{size}.onnx"
        onnx.save(proto(nodes, {"x": np.zeros((1, size), np.float32)}, [f"h{layers}"], weights), path)
        paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", MEMORY, *paths], capture_output=True, text=True, check=True)
    grown, weights_held, arena = map(int, done.stdout.split())
    assert weights_held == pytest.approx(6 * 2048 * 2048 * 4, rel=0.1)
    assert grown <= 1.15 * 6 * 2048 * 2048 * 4 + arena + 20 * 2**20


@pytest.mark.parametrize("shift", range(1, 8))
def test_weights_that_lie_at_odd_addresses_are_aligned_before_a_kernel_reads_them(shift: int) -> None:
    table = np.arange(4096, dtype=np.float64).reshape(512, 8)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["g"]), helper.make_node("MatMul", ["g", "w"], ["y"])],
        "g" * shift,
        [info("i", np.int64([0]))],
        [info("y")],
        [numpy_helper.from_array(table, "t"), numpy_helper.from_array(np.tile(np.eye(8), (1, 80)), "w")],
    )
    m = rlx.load(helper.make_model(graph).SerializeToString())
    for at in ([3, 500], [7]):
        got = m.run({"i": np.int64(at)})["y"]
        np.testing.assert_array_equal(got, np.tile(table[at], (1, 80)))
    for segment in m._core.segments():
        program = segment.variant.compiled.program
        for i in range(len(program.weights)):
            assert segment.variant.executor.bound(program.weight_slot(i)).flags.aligned


@pytest.mark.parametrize("form", ["cast-mul", "cast-mul-per-row", "dequantize", "per-row"])
def test_embedding_tables_stay_small(form: str) -> None:
    table = np.random.default_rng(0).integers(-100, 100, (4000, 32)).astype(np.int8)
    scale = np.linspace(0.01, 0.1, 4000).astype(np.float32) if "per-row" in form else np.float32(0.02)
    scale = scale[:, None] if form == "cast-mul-per-row" else scale
    zero = np.zeros(scale.shape, np.int8)
    nodes = [helper.make_node("DequantizeLinear", ["t", "s", "z"], ["f"], axis=0)]
    if "cast-mul" in form:
        nodes = [helper.make_node("Cast", ["t"], ["c"], to=1), helper.make_node("Mul", ["c", "s"], ["f"])]
    held = {"t": table, "s": scale} | ({} if "cast-mul" in form else {"z": zero})
    m = model([*nodes, helper.make_node("Gather", ["f", "i"], ["y"])], {"i": np.int64([[0]])}, ["y"], held)
    at = np.int64([[1, 3999, 0], [-1, 2, 2]])
    want = table[at].astype(np.float32) * (scale.reshape(-1)[at][..., None] if scale.ndim else scale)
    np.testing.assert_allclose(m.run({"i": at})["y"], want, rtol=1e-6)
    assert m.memory_report().weights < 1.3 * table.nbytes
