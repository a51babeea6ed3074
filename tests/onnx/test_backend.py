"""The interface of onnx.backend.base.Backend."""

import numpy as np
import onnx
from onnx import helper

import rlx.onnx.backend as backend
from rlx.testing.onnx_models import proto


def test_devices_and_compatibility() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("cpu:0")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(onnx.ModelProto())


def test_prepare_takes_lists_mappings_and_single_arrays() -> None:
    x = np.float32([1, -2])
    data = proto([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, ["y"])
    prepared = backend.prepare(data)
    for given in ([x], {"x": x}, x):
        (y,) = prepared.run(given)
        np.testing.assert_array_equal(y, [1, 0])
    np.testing.assert_array_equal(backend.run_model(data, [x])[0], [1, 0])


def test_run_node_takes_operands_in_order_and_absent_ones() -> None:
    x = np.float32([-3, 0, 3])
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    np.testing.assert_array_equal(backend.run_node(node, [x, np.float32(1)])[0], [-3, 0, 1])
    named = backend.run_node(node, {"x": x, "high": np.float32(2)}, opset_version=13)
    np.testing.assert_array_equal(named[0], [-3, 0, 2])


def test_sequences_and_strings_go_in_and_out() -> None:
    parts = [np.float32([1]), np.float32([2, 3])]
    node = helper.make_node("SequenceInsert", ["q", "x"], ["r"])
    (got,) = backend.run_node(node, [parts, np.float32([4])])
    assert [g.tolist() for g in got] == [[1], [2, 3], [4]]
    words = np.asarray(["a", "B"], object)
    node = helper.make_node("StringNormalizer", ["s"], ["t"], case_change_action="UPPER")
    assert backend.run_node(node, [words])[0].tolist() == ["A", "B"]
