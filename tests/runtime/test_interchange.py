"""The typed boundary: bytes of exact width, DLPack both ways, buffers, `__array__`, and who owns the memory."""

import array
import ctypes
import gc
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.errors import BindingError, BindingTypeError

F = np.float32
BF16 = np.dtype(ml_dtypes.bfloat16)
X = np.arange(6, dtype=F).reshape(2, 3)


def same(dtype: rlx.DType = rlx.f32, shape: tuple[int, ...] = (2, 3)) -> rlx.CompiledGraph:
    """y = x + p, the parameter zero; for bool, or; for float8, p where that is not zero."""
    g = rlx.Graph("same")
    x, p = g.input("x", shape, dtype), g.param("p", shape, dtype)
    if dtype.is_float8:
        g.output("y", ops.where(ops.cast(p, dtype=rlx.bool_), p, x))
    else:
        g.output("y", ops.logical_or(x, p) if dtype == rlx.bool_ else x + p)
    e = rlx.compile(g, rlx.CompileOptions(poison=True))
    e.set_param("p", np.zeros(shape, dtype.numpy))
    return e


class Producer:
    """Only DLPack, nothing else of an array; remembers whether it is alive."""

    def __init__(self, values: np.ndarray, version: bool = True, device: tuple[int, int] = (1, 0)) -> None:
        self.inner = rlx.to_dlpack(values)
        self.version = version
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **how: Any) -> object:
        if how and not self.version:
            raise TypeError("unexpected keyword")
        return self.inner.__dlpack__(**how)


def samples(dtype: rlx.DType) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == rlx.bool_:
        return rng.random((2, 3)) < 0.5
    info = np.iinfo(dtype.numpy) if dtype.is_int else None
    if info is not None:
        return rng.integers(info.min, info.max, (2, 3), dtype.numpy, endpoint=True)
    values = rng.standard_normal((2, 3)) * 100
    return np.asarray(values + 1j * values[::-1] if dtype.is_complex else values).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", rlx.dtypes.ALL, ids=str)
def test_r15_bytes_are_as_wide_as_the_type_both_ways(dtype: rlx.DType) -> None:
    """R-8, R-12, R-84: exact counts, and the label is that of the bytes."""
    e, x = same(dtype), samples(dtype)
    if dtype != rlx.bool_:
        e.set_param_typed("p", np.zeros((2, 3), dtype.numpy).tobytes(), dtype)
    for data in (x.tobytes(), bytearray(x.tobytes()), memoryview(x.tobytes())):
        [(raw, label)] = e.run_typed({"x": (data, dtype)})
        assert label == dtype
        assert len(raw) == 6 * dtype.itemsize
        assert raw == x.tobytes()
    for wrong in (x.tobytes()[:-1], x.tobytes() + b"\0", b""):
        with pytest.raises(BindingError, match="bytes for"):
            e.run_typed({"x": (wrong, dtype)})
    with pytest.raises(BindingError, match="bytes for"):
        e.set_param_typed("p", x.tobytes()[1:], dtype)


def test_r83_bf16_comes_out_as_it_went_in() -> None:
    e = same(rlx.bf16, (4,))
    x = np.array([1, 2, 3, 4], BF16)
    assert e.run({"x": x})["y"].tobytes() == x.tobytes()
    assert e.run_typed({"x": (x.tobytes(), "bf16")}) == [(x.tobytes(), rlx.bf16)]


@pytest.mark.parametrize("optimize", [True, False])
def test_r84_the_declared_type_of_an_output_never_changes(optimize: bool) -> None:
    g = rlx.Graph("casts")
    x = g.input("x", (3,), rlx.f16)
    wide = ops.cast(x, dtype=rlx.f32)
    for dtype in rlx.dtypes.REALS:
        g.output(str(dtype), ops.cast(wide * 1, dtype=dtype))
    g.output("bool", ops.gt(x, 1.0))
    e = rlx.compile(g, rlx.CompileOptions(optimize=optimize))
    assert e.io_manifest.inputs == {"x": rlx.f16}
    found = e.run_typed({"x": np.float16([1, 2, 3])})
    for (raw, label), (name, declared) in zip(found, e.io_manifest.outputs.items(), strict=True):
        assert label == declared == rlx.dtypes.as_dtype(name)
        assert len(raw) == 3 * declared.itemsize
        values = np.frombuffer(raw, declared.numpy).astype(F)
        np.testing.assert_array_equal(values, [0, 1, 1] if name == "bool" else [1, 2, 3])


def test_the_manifest_names_all_types() -> None:
    m = same(rlx.bf16).io_manifest
    assert (m.output_dtype(0), m.output_dtype("y"), m.params) == (rlx.bf16, rlx.bf16, {"p": rlx.bf16})
    for bad in (1, -2, "z", 0.5):
        with pytest.raises(rlx.UnknownNameError, match=rf"output_dtype: .*one of \['y'\].*got {bad!r}"):
            m.output_dtype(bad)  # type: ignore[arg-type]
    assert str(m) == "inputs: x: bf16\nparams: p: bf16\noutputs: y: bf16"


@pytest.mark.parametrize("dtype", rlx.dtypes.ALL, ids=str)
@pytest.mark.parametrize("version", [True, False], ids=["versioned", "plain"])
def test_dlpack_in_and_out(dtype: rlx.DType, version: bool) -> None:
    e, x = same(dtype), samples(dtype)
    y = e.run({"x": Producer(x, version)})["y"]
    assert y.tobytes() == x.tobytes()
    again = rlx.from_dlpack(Producer(y, version))
    assert again.dtype == dtype.numpy
    assert np.shares_memory(again, y)
    target = np.empty((2, 3), dtype.numpy)
    result = e.run({"x": x}, out={"y": Producer(target, version)})["y"]
    assert np.shares_memory(result, target)
    assert target.tobytes() == x.tobytes()
    e.set_param("p", Producer(np.zeros((2, 3), dtype.numpy), version))
    e.bind_handle("x", Producer(x, version))
    assert e.run()["y"].tobytes() == x.tobytes()


def test_dlpack_keeps_the_producer_alive_and_gives_it_back() -> None:
    source = np.arange(6, dtype=F)
    count = sys.getrefcount(source)
    made = rlx.from_dlpack(Producer(source))
    assert sys.getrefcount(source) == count + 1
    part = made[2:4]
    del made
    gc.collect()
    np.testing.assert_array_equal(part, [2, 3])
    del part
    assert sys.getrefcount(source) == count
    unused = rlx.to_dlpack(source).__dlpack__(max_version=(1, 0))  # a capsule that nobody takes
    plain = rlx.to_dlpack(source).__dlpack__()
    assert sys.getrefcount(source) == count + 2
    del unused, plain
    assert sys.getrefcount(source) == count
    e = same(shape=(6,))
    for _ in range(50):
        e.run({"x": Producer(source)}, out={"y": Producer(np.empty(6, F))})
    assert sys.getrefcount(source) == count


def test_strided_and_offset_dlpack() -> None:
    wide = np.arange(24, dtype=BF16).reshape(4, 6)
    part = wide[1:3, 1::2]
    got = rlx.from_dlpack(rlx.to_dlpack(part))
    assert got.strides == part.strides
    assert same(rlx.bf16).run({"x": Producer(part)})["y"].tobytes() == part.tobytes()
    with pytest.raises(BindingError, match=r"aligned and writeable, got an array that is strided$"):
        same(rlx.bf16).run({"x": part.copy()}, out=[Producer(wide[1:3, 1::2])])


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_and_scalar_dlpack(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, BF16)
    got = rlx.from_dlpack(Producer(x))
    assert (got.shape, got.dtype) == (shape, BF16)
    np.testing.assert_array_equal(same(rlx.bf16, shape).run({"x": Producer(x)})["y"], x)


def test_dlpack_without_sizes_is_refused() -> None:
    """A null pointer for the sizes of a tensor that has a rank."""
    x = np.arange(6, dtype=F).reshape(2, 3)

    def broken(**how: Any) -> object:
        capsule = rlx.to_dlpack(x).__dlpack__()  # the plain structure: data, device, rank, type, shape, ...
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 24).value = None
        return capsule

    producer = Producer(x)
    producer.__dict__["inner"] = type("Broken", (), {"__dlpack__": staticmethod(broken)})()
    with pytest.raises(BindingTypeError, match="2 sizes must be given, got a null pointer"):
        rlx.from_dlpack(producer)
    with pytest.raises(BindingTypeError, match="2 sizes must be given, got a null pointer"):
        same().run({"x": producer})


def test_read_only_dlpack() -> None:
    frozen = np.arange(6, dtype=F).reshape(2, 3)
    frozen.flags.writeable = False
    assert not rlx.from_dlpack(rlx.to_dlpack(frozen)).flags.writeable
    np.testing.assert_array_equal(same().run({"x": Producer(frozen)})["y"], frozen)
    with pytest.raises(BindingError, match="writeable"):
        same().run({"x": frozen}, out=[Producer(frozen)])
    with pytest.raises(BindingTypeError, match=r"consumers of DLPack 1\.0"):
        rlx.from_dlpack(Producer(frozen, version=False))


def test_numpy_and_rlx_read_each_others_capsules() -> None:
    np.testing.assert_array_equal(np.from_dlpack(rlx.to_dlpack(X)), X)  # type: ignore[arg-type]
    np.testing.assert_array_equal(rlx.from_dlpack(X), X)
    half = np.array([1.5], BF16)
    with pytest.raises((BufferError, TypeError)):
        np.from_dlpack(half)


class Liar:
    """Says that it is an array, and is not."""

    def __init__(self, result: object, device: object = (1, 0)) -> None:
        self.result, self.device = result, device

    def __dlpack_device__(self) -> object:
        return self.device

    def __dlpack__(self, **how: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("liar", "text"),
    [(Liar(3), "must return a capsule"), (Liar(None), "must return a capsule"),
     (Liar(RuntimeError("no")), "no"), (Liar(3, (2, 0)), "must be on the host"), (Liar(3, 5), "int"),
     (Liar(ctypes.pythonapi.PyCapsule_New), "must return a capsule")],
    ids=["int", "none", "raises", "cuda", "device", "function"],
)
def test_what_only_says_that_it_is_dlpack_is_refused(liar: Liar, text: str) -> None:
    with pytest.raises(BindingTypeError, match=text):
        same().run({"x": liar})
    with pytest.raises(BindingTypeError, match=text):
        rlx.from_dlpack(liar)
    with pytest.raises(BindingTypeError, match=text):
        same().run({"x": X}, out={"y": liar})


def test_a_capsule_is_taken_once() -> None:
    capsule = rlx.to_dlpack(X).__dlpack__()
    np.testing.assert_array_equal(rlx.from_dlpack(Liar(capsule)), X)
    with pytest.raises(BindingTypeError, match="not used"):
        rlx.from_dlpack(Liar(capsule))


def test_types_without_a_code_are_refused() -> None:
    for bad in (np.array(["a"]), np.array([1], "M8[s]"), np.array([None])):
        with pytest.raises(BindingTypeError, match="DLPack code"):
            rlx.to_dlpack(bad)
    with pytest.raises(BindingTypeError, match="NumPy array"):
        rlx.to_dlpack([1])  # type: ignore[arg-type]
    with pytest.raises(BindingTypeError, match="__dlpack__"):
        rlx.from_dlpack([1])


def test_float8_is_exchanged() -> None:
    x = np.array([0.5, 2], ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(rlx.from_dlpack(rlx.to_dlpack(x)), x)
    with pytest.raises(BindingTypeError, match="dtype must be f32, got float8"):
        same(shape=(2,)).run({"x": x})
    np.testing.assert_array_equal(same(shape=(2,)).run({"x": x.astype(F)})["y"], [0.5, 2])


@pytest.mark.parametrize(
    "make",
    [lambda: memoryview(X), lambda: memoryview(X.tobytes()).cast("f", (2, 3)),
     lambda: memoryview(bytearray(X.tobytes())).cast("B").cast("f", (2, 3)),
     lambda: (ctypes.c_float * 3 * 2).from_buffer_copy(X.tobytes())],
    ids=["numpy", "bytes", "bytearray", "ctypes"],
)
def test_buffers_are_read_where_they_lie(make: Any) -> None:
    np.testing.assert_array_equal(same().run({"x": make()})["y"], X)


def test_buffers_keep_their_element_type() -> None:
    e = same(shape=(3,))
    np.testing.assert_array_equal(e.run({"x": array.array("f", [1, 2, 3])})["y"], [1, 2, 3])
    with pytest.raises(BindingTypeError, match="dtype must be f32, got int32"):
        e.run({"x": array.array("i", [1, 2, 3])})
    np.testing.assert_array_equal(e.run({"x": [1, 2, 3]})["y"], [1, 2, 3])


class Wrapped:
    """An object with `__array__` whose memory it owns."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


def test_array_objects_and_their_owners() -> None:
    e, held = same(), Wrapped(X.copy())
    gone = weakref.ref(held)
    np.testing.assert_array_equal(e.run({"x": held})["y"], X)
    e.set_param("p", held)
    e.bind_handle("x", held)
    held.values[...] = 99  # parameters and handles are copies
    del held
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(e.run()["y"], 2 * X)


def test_out_takes_writable_buffers() -> None:
    e, target = same(), array.array("f", [0] * 6)
    result = e.run({"x": X}, out=[memoryview(target).cast("B").cast("f", (2, 3))])["y"]
    assert target.tolist() == X.reshape(-1).tolist()
    assert isinstance(result, np.ndarray)
    with pytest.raises(BindingError, match="writeable"):
        e.run({"x": X}, out=[memoryview(X.tobytes()).cast("f", (2, 3))])
    with pytest.raises(BindingTypeError, match="memory can be written"):
        e.run({"x": X}, out=[[[0.0] * 3] * 2])


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_order_and_layout_of_params_and_handles(order: str) -> None:
    e = same()
    odd = np.asfortranarray(X.astype(f"{order}f4"))
    e.set_param("p", odd)
    e.bind_handle("x", odd[::1])
    np.testing.assert_array_equal(e.run()["y"], 2 * X)


def test_part_of_a_parameter() -> None:
    e = same()
    clone = e.clone()
    e.set_param_range("p", 2, F([5, 6]))
    np.testing.assert_array_equal(e.get_param("p"), [[0, 0, 5], [6, 0, 0]])
    np.testing.assert_array_equal(e.run({"x": X})["y"], X + F([[0, 0, 5], [6, 0, 0]]))
    np.testing.assert_array_equal(clone.run({"x": X})["y"], X)
    e.set_param_range("p", 6, F([]))
    for start, values in ((5, F([1, 2])), (-1, F([1])), (0, F([[1]])), (1.0, F([1])), (0, np.zeros(7, F))):
        with pytest.raises(BindingError, match="must be in"):
            e.set_param_range("p", start, values)  # type: ignore[arg-type]
    with pytest.raises(BindingTypeError, match="dtype must be f32"):
        e.set_param_range("p", 0, np.zeros(1))
    with pytest.raises(rlx.UnknownNameError):
        e.set_param_range("q", 0, F([1]))


def test_r14_what_does_not_fit_names_the_input_and_both_sizes() -> None:
    e = same()
    with pytest.raises(BindingError, match=r"'x'.*must be 24 bytes .*got 20"):
        e.run_typed({"x": (X.tobytes()[:20], "f32")})
    with pytest.raises(BindingError, match=r"'x'.*shape must be \(2, 3\), got \(3, 2\)"):
        e.run({"x": X.T.copy()})
    with pytest.raises(BindingError, match="'x' is missing"):
        e.run_typed({})
    with pytest.raises(rlx.UnknownNameError, match="no input 'xx'"):
        e.run_typed({"x": X, "xx": (b"", "f32")})
    with pytest.raises(BindingTypeError, match="'x': dtype must be f32, got i32"):
        e.run_typed({"x": (X.tobytes(), "i32")})


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32", "int64", "bool"])
def test_torch_tensors(kind: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = rlx.dtypes.as_dtype(BF16 if kind == "bfloat16" else kind)
    e, x = same(dtype), torch.arange(6).reshape(2, 3).to(getattr(torch, kind))
    target = torch.empty_like(x)
    y = e.run({"x": x}, out={"y": target})["y"]
    assert torch.equal(target, x)
    assert torch.equal(torch.from_dlpack(rlx.to_dlpack(y)), x)
    assert np.shares_memory(y, rlx.from_dlpack(target))
    np.testing.assert_array_equal(e.run({"x": x.T.contiguous().T})["y"], y)
