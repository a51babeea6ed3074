"""Our reader of serialised files against protobuf's, on valid, odd and broken bytes."""

import random
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

import rlx
from rlx._kernels import _protobuf
from rlx._kernels._protobuf import BYTES, DATA, DOUBLE, FLOAT, INT32, INT64, MESSAGE, STRING, UINT64
from rlx.onnx import messages
from rlx.onnx.messages import read_file
from rlx.onnx.tensors import TensorReader


def same(ours: Any, theirs: Any, made: type) -> None:
    """Every field that we read has the value that protobuf reads."""
    for _, name, what in messages._FIELDS[made]:
        kind = what[0] if isinstance(what, list) else what
        a, b = getattr(ours, name), getattr(theirs, name)
        if isinstance(what, list):
            assert len(a) == len(b), name
            if isinstance(kind, type):
                for x, y in zip(a, b, strict=True):
                    same(x, y, kind)
            else:
                assert [bytes(v) if isinstance(v, memoryview) else v for v in a] == list(b) or (
                    np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
                ), name
        elif isinstance(kind, type):
            if theirs.HasField(name):
                same(a, b, kind)
        elif a is None:
            assert not theirs.HasField(name), name
        else:
            assert a == b or (a != a and b != b), name


def every_field() -> onnx.ModelProto:
    """A model that sets all the fields there are."""
    rng = np.random.default_rng(3)
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "body", [], [helper.make_tensor_value_info("y", 1, ["n", 3, None])]
    )
    tensor = numpy_helper.from_array(rng.standard_normal((40, 50)).astype(np.float32), "large")
    typed = [
        helper.make_tensor("f", TensorProto.FLOAT, [2], [1.5, -0.0]),
        helper.make_tensor("c", TensorProto.COMPLEX64, [1], [1 + 2j]),
        helper.make_tensor("d", TensorProto.DOUBLE, [2], [1e300, -1.0]),
        helper.make_tensor("i", TensorProto.INT32, [3], [-1, 2**31 - 1, -(2**31)]),
        helper.make_tensor("l", TensorProto.INT64, [2], [-(2**63), 2**63 - 1]),
        helper.make_tensor("u", TensorProto.UINT64, [1], [2**64 - 1]),
        helper.make_tensor("s", TensorProto.STRING, [2], ["a", "ä"]),
    ]
    node = helper.make_node("Op", ["a", ""], ["b"], name="n", domain="my.domain", overload="o")
    values: dict[str, Any] = {
        "i": -5, "f": 2.5, "s": "text", "t": tensor, "g": body, "ints": [1, -2, 300], "floats": [0.5, -1.5],
        "strings": ["p", "p", "q"], "tensors": typed, "graphs": [body, body],
        "tp": helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)),
    }
    node.attribute.extend(helper.make_attribute(k, v) for k, v in values.items())
    node.attribute.append(onnx.AttributeProto(name="r", ref_attr_name="outer", type=onnx.AttributeProto.INT))
    graph = helper.make_graph(
        [node, node],
        "graph",
        [
            helper.make_tensor_value_info("a", 1, [1, "b", -1]),
            helper.make_value_info("m", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))),
            helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))),
            helper.make_value_info("q", helper.make_sparse_tensor_type_proto(1, [2])),
        ],
        [helper.make_tensor_value_info("b", 0, None)],
        [tensor, *typed],
    )
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(typed[0], helper.make_tensor("at", TensorProto.INT64, [2], [0, 3]), [4])
    )
    function = helper.make_function(
        "my.domain", "F", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], [helper.make_opsetid("", 18)],
        ["k"], [helper.make_attribute("d", 3)],
    )
    model = helper.make_model(graph, functions=[function], producer_name="someone", opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid("my.domain", 2)])
    helper.set_model_props(model, {"key": "value"})
    model.doc_string, model.domain, model.model_version = "about", "d", 9
    outside = model.graph.initializer.add(name="e", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="file")
    return model


def test_every_field_is_read_as_protobuf_reads_it() -> None:
    model = every_field()
    data = model.SerializeToString()
    ours = read_file(memoryview(data))
    same(ours, model, messages.File)
    assert ours.graph is not None
    span = data[ours.graph.node[1].start : ours.graph.node[1].stop]
    assert onnx.NodeProto.FromString(span) == model.graph.node[1]
    large = ours.graph.initializer[0].raw_data
    assert isinstance(large, memoryview) and large.obj is data  # by reference


def test_numbers_come_packed_or_one_by_one() -> None:
    """Both forms of a list, mixed, are one list in the order of the file."""
    one = onnx.AttributeProto(floats=[1.0, 2.0], ints=[-1, 300]).SerializeToString()
    packed = b"\x3a\x08\x00\x00\x80\x3f\x00\x00\x00\x40" + b"\x42\x03\x01\xac\x02"
    kind = messages._KINDS[messages.Attribute]
    found = _protobuf.parse(memoryview(one + packed + one), kind)
    assert list(found.floats) == [1, 2, 1, 2, 1, 2]
    assert list(found.ints) == [-1, 300, 1, 300, -1, 300]
    assert list(found.ints) == list(onnx.AttributeProto.FromString(one + packed + one).ints)


def test_messages_that_come_twice_are_merged() -> None:
    first = onnx.ModelProto(graph=onnx.GraphProto(name="a", node=[helper.make_node("Neg", ["x"], ["y"])]))
    second = onnx.ModelProto(graph=onnx.GraphProto(name="b", node=[helper.make_node("Abs", ["y"], ["z"])]))
    data = first.SerializeToString() + second.SerializeToString()
    same(read_file(memoryview(data)), onnx.ModelProto.FromString(data), messages.File)


def test_broken_bytes_are_refused_or_read_as_protobuf_reads_them() -> None:
    """What protobuf takes is taken with the same values; nothing crashes."""
    good = bytearray(every_field().SerializeToString())
    rng = random.Random(5)
    agreed = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data))
            if rng.random() < 0.7:
                data[at] = rng.randrange(256)
            elif rng.random() < 0.5:
                del data[at : at + rng.randrange(1, 9)]
            else:
                del data[at:]
                break
        try:
            ours = read_file(memoryview(bytes(data)))
        except rlx.FormatError:
            continue
        try:
            theirs = onnx.ModelProto.FromString(bytes(data))
            same(ours, theirs, messages.File)
            agreed += 1
        except (DecodeError, UnicodeDecodeError, AssertionError):
            pass  # kinds of a `oneof`, and enumerations that protobuf does not know
    assert agreed > 500


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a", "broken number"),
        (b"\x3a\x05\x00", "must end by"),
        (b"\x3a\x02\x12\x05", "must end by"),
        (b"\xff" * 11, "broken number"),
        (b"\x00\x00", "field 0"),
        (b"\x0b", "wire type 3"),
        (b"\x3a\x03\x12\x01\xff", "UTF-8"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "must end by"),
        (b"\x09\x00", "must end by"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(rlx.FormatError, match=why):
        read_file(memoryview(data))


def test_tables_of_fields_are_checked() -> None:
    assert len({INT64, INT32, UINT64, FLOAT, DOUBLE, STRING, BYTES, MESSAGE, DATA}) == 9
    with pytest.raises(ValueError, match="code"):
        _protobuf.Field("x", 77)
    with pytest.raises(ValueError, match="kind"):
        _protobuf.Field("x", MESSAGE)
    with pytest.raises(ValueError, match="number"):
        _protobuf.Kind(messages.Entry).add(0, _protobuf.Field("x", STRING))


def number_types() -> list[int]:
    return [c for n, c in TensorProto.DataType.items() if n not in ("UNDEFINED", "STRING") and "6E" not in n]


@pytest.mark.parametrize("code", number_types())
@pytest.mark.parametrize("raw", [False, True])
def test_every_element_type_is_read_as_onnx_reads_it(code: int, raw: bool) -> None:
    rng = np.random.default_rng(code)
    kind = helper.tensor_dtype_to_np_dtype(code)
    values = rng.integers(0, 2 if "2" in kind.name[-1:] and "int" in kind.name else 4, (3, 5)).astype(kind)
    if raw:
        tensor = numpy_helper.from_array(values, "t")
    else:
        tensor = helper.make_tensor("t", code, values.shape, values.reshape(-1))
    want = numpy_helper.to_array(tensor)
    got = TensorReader(memoryview(b""), None).array(
        _protobuf.parse(memoryview(tensor.SerializeToString()), messages._KINDS[messages.Tensor])
    )
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()
