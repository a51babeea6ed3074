"""What depends on data: guards, cuts, host steps, control flow."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import rlx
from rlx.testing.onnx_models import info, model, proto, run

F = np.float32


def node(*args: Any, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(*args, **attrs)


def graph(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None
) -> onnx.GraphProto:
    held = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    return helper.make_graph(nodes, "inner", [info(k, v) for k, v in inputs.items()], [info(o) for o in outputs], held)


def test_shape_arithmetic_is_done_while_importing() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Mul", ["n", "two"], ["m"]),
        node("Concat", ["m", "rest"], ["t"], axis=0),
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "t"], ["y"]),
    ]
    x = np.arange(12, dtype=F).reshape(3, 4)
    m = model(nodes, {"x": x}, ["y"], {"zero": np.int64([0]), "two": np.int64([2]), "rest": np.int64([-1])})
    assert m.run({"x": x})["y"].shape == (6, 2)
    assert m.memory_report().variants == 1
    assert all(n.op.name in ("input", "reshape", "relu", "region") for n in m.graph_for({"x": x}).nodes)


def test_a_shape_given_as_an_input_is_part_of_the_key() -> None:
    m = model(
        [node("Relu", ["x"], ["r"]), node("Reshape", ["r", "s"], ["y"])],
        {"x": np.zeros(6, F), "s": np.int64([0, 0])},
        ["y"],
    )
    x = np.arange(6, dtype=F)
    for shape in ([2, 3], [3, 2], [2, 3], [6, 1]):
        assert m.run({"x": x, "s": np.int64(shape)})["y"].shape == tuple(shape)
    assert m.memory_report().variants == 3


def test_a_shape_computed_from_data_cuts_the_model() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["n"], to=7),
        node("Unsqueeze", ["n", "zero"], ["k"]),
        node("Neg", ["x"], ["z"]),
        node("Slice", ["z", "zero", "k"], ["y"]),
    ]
    m = model(nodes, {"x": np.zeros(5000, F)}, ["y", "z"], {"zero": np.int64([0])})
    for top in (3, 5, 3):
        x = np.full(5000, top, F)
        outs = m.run({"x": x})
        np.testing.assert_array_equal(outs["y"], np.full(top, -top))
        np.testing.assert_array_equal(outs["z"], -x)
    assert m.memory_report().variants == 3


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_results_whose_size_depends_on_data(op: str) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node(op, ["r"], ["i"]), node("Mul", ["i", "i"], ["y"])]
    m = model(nodes, {"x": np.zeros(4, F)}, ["y"])
    for x in ([1, 0, 3, 0], [1, 1, 1, 1], [2, 0, 1, 0], [0, 0, 0, 0]):
        got = m.run({"x": F(x)})["y"]
        want = np.asarray(np.nonzero(x)) if op == "NonZero" else np.unique(F(x))
        np.testing.assert_array_equal(got, want * want)


def test_compress_feeds_further_ops() -> None:
    nodes = [
        node("Greater", ["x", "zero"], ["c"]),
        node("Compress", ["x", "c"], ["k"], axis=0),
        node("ReduceSum", ["k"], ["y"], keepdims=0),
    ]
    m = model(nodes, {"x": np.zeros(4, F)}, ["y"], {"zero": F(0)})
    assert m.run({"x": F([1, -2, 3, -4])})["y"] == 4
    assert m.run({"x": F([-1, -2, -3, -4])})["y"] == 0


def branches(then: str, orelse: str) -> dict[str, Any]:
    return {
        "then_branch": graph([node(then, ["x"], ["t"])], {}, ["t"]),
        "else_branch": graph([node(orelse, ["x"], ["e"])], {}, ["e"]),
    }


def test_if_on_an_input_is_decided_by_its_value() -> None:
    m = model([node("If", ["p"], ["y"], **branches("Neg", "Abs"))], {"x": F([1]), "p": np.asarray(True)}, ["y"])
    x = F([-3])
    for p in (True, False, True):
        assert m.run({"x": x, "p": np.asarray(p)})["y"] == 3
        assert m.run({"x": -x, "p": np.asarray(p)})["y"] == (-3 if p else 3)


def test_if_on_data_runs_one_branch() -> None:
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["p"]),
        node("If", ["p"], ["h"], **branches("Neg", "Exp")),
        node("Add", ["h", "h"], ["y"]),
    ]
    m = model(nodes, {"x": np.zeros(6000, F)}, ["y"], {"zero": F(0)})
    for sign in (1, -1, 1):
        x = np.full(6000, sign, F)
        np.testing.assert_allclose(m.run({"x": x})["y"], -2 * x if sign > 0 else 2 * np.exp(x), rtol=1e-6)


def test_if_on_data_is_compiled_once() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["p"]),
        node(
            "If",
            ["p"],
            ["y"],
            then_branch=graph([node("Neg", ["x"], ["a"])], {}, ["a"]),
            else_branch=graph([node("Mul", ["x", "x"], ["b"])], {}, ["b"]),
        ),
    ]
    x = np.ones((16, 96), F)
    m = model(nodes, {"x": x}, ["y"], {"zero": F(0)})
    for value in (1, -2, 3, -4):
        assert (m.run({"x": value * x})["y"] == (-value if value > 0 else value * value) * x).all()
    assert m.memory_report().variants == 1


def test_label_encoder_of_numbers_is_a_table() -> None:
    keys, values = [3, 7, 5, -2], [1.5, 2.5, 3.5, 4.5]
    x = np.int64([[3, 4, 7], [-2, -(2**63), 2**63 - 1]])
    encoder = node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=keys, values_floats=values, default_float=-1.0
    )
    file = proto([encoder], {"x": x}, ["y"])
    file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    y = rlx.load(file, threads=1).run({"x": x})["y"]
    assert y.dtype == F and (y == F([[1.5, -1, 2.5], [4.5, -1, -1]])).all()


def test_outputs_are_the_callers() -> None:
    x = np.array([["b"], ["a"], ["z"]], object)
    nodes = [
        node("OneHotEncoder", ["x"], ["h"], domain="ai.onnx.ml", cats_strings=["a", "b"]),
        node("Reshape", ["h", "s"], ["y"]),
    ]
    m = model(nodes, {"x": x}, ["y", "h"], {"s": np.int64([3, 2])})
    for _ in range(3):
        y, h = m.run({"x": x})
        assert (y == F([[0, 1], [1, 0], [0, 0]])).all() and h.shape == (3, 1, 2)
        assert not np.shares_memory(y, h)
        y[...] = 5


def test_branches_of_different_rank_are_decided_late() -> None:
    then, orelse = (
        graph([node("Identity", ["x"], ["t"])], {}, ["t"]),
        graph([node("ReduceSum", ["x"], ["e"], keepdims=0)], {}, ["e"]),
    )
    nodes = [
        node("ReduceMax", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["p"]),
        node("If", ["p"], ["h"], then_branch=then, else_branch=orelse),
        node("Neg", ["h"], ["y"]),
    ]
    m = model(nodes, {"x": np.zeros(5000, F)}, ["y"], {"zero": F(0)})
    assert m.run({"x": np.ones(5000, F)})["y"].shape == (5000,)
    assert m.run({"x": -np.ones(5000, F)})["y"] == 5000
    assert m.run({"x": np.ones(5000, F)})["y"].shape == (5000,)


def counting(scan: bool = True, op: str = "Add") -> onnx.GraphProto:
    nodes = [node(op, ["s_in", "x"], ["s_out"]), node("Identity", ["go"], ["go_out"])]
    outs = ["go_out", "s_out"]
    if scan:
        nodes.append(node("Mul", ["s_out", "x"], ["row"]))
        outs.append("row")
    return graph(nodes, {"i": np.int64(0), "go": np.asarray(True), "s_in": np.zeros(2, F)}, outs)


@pytest.mark.parametrize("trips", [0, 1, 3, 200])
@pytest.mark.parametrize("constant", [True, False])
def test_loop_with_a_trip_count(trips: int, constant: bool) -> None:
    held = {"m": np.int64(trips)} if constant else {}
    given = {"x": F([1, 2]), "s": F([0, 0])} | ({} if constant else {"m": np.int64(trips)})
    m = model([node("Loop", ["m", "", "s"], ["y", "rows"], body=counting())], given, ["y", "rows"], held)
    for _ in range(2):
        outs = m.run(given)
        np.testing.assert_allclose(outs["y"], F([1, 2]) * trips)
        if trips:
            np.testing.assert_allclose(outs["rows"], np.arange(1, trips + 1, dtype=F)[:, None] * F([1, 4]))
        else:
            assert outs["rows"].shape[0] == 0


def test_loop_as_a_while() -> None:
    body = graph(
        [
            node("Add", ["s_in", "s_in"], ["s_out"]),
            node("ReduceMax", ["s_out"], ["top"], keepdims=0),
            node("Less", ["top", "limit"], ["go_out"]),
        ],
        {"i": np.int64(0), "go": np.asarray(True), "s_in": np.zeros(2, F)},
        ["go_out", "s_out"],
    )
    nodes = [node("Relu", ["x"], ["r"]), node("Loop", ["", "yes", "r"], ["y"], body=body)]
    m = model(nodes, {"x": np.zeros(2, F)}, ["y"], {"yes": np.asarray(True), "limit": F(100)})
    np.testing.assert_array_equal(m.run({"x": F([1, 3])})["y"], [64, 192])
    np.testing.assert_array_equal(m.run({"x": F([90, 3])})["y"], [180, 6])


def test_loop_whose_state_grows() -> None:
    body = graph(
        [node("Concat", ["s_in", "x"], ["s_out"], axis=0), node("Identity", ["go"], ["go_out"])],
        {"i": np.int64(0), "go": np.asarray(True), "s_in": np.zeros(2, F)},
        ["go_out", "s_out"],
    )
    m = model([node("Loop", ["m", "", "x"], ["y"], body=body)], {"x": F([1, 2]), "m": np.int64(3)}, ["y"])
    for trips in (3, 1, 30, 3):
        assert m.run({"x": F([1, 2]), "m": np.int64(trips)})["y"].shape == (2 * (trips + 1),)


def test_loop_with_a_sequence_as_state() -> None:
    body = helper.make_graph(
        [node("SequenceInsert", ["q_in", "x"], ["q_out"]), node("Identity", ["go"], ["go_out"])],
        "b",
        [info("i", np.int64(0)), info("go", np.asarray(True)), info("q_in")],
        [info("go_out"), info("q_out")],
    )
    nodes = [
        node("SequenceEmpty", [], ["q"]),
        node("Loop", ["m", "", "q"], ["r"], body=body),
        node("ConcatFromSequence", ["r"], ["y"], axis=0),
    ]
    m = model(nodes, {"x": F([1, 2]), "m": np.int64(3)}, ["y"])
    for trips in (3, 40):
        assert m.run({"x": F([1, 2]), "m": np.int64(trips)})["y"].shape == (2 * trips,)


@pytest.mark.parametrize("length", [1, 5, 300])
@pytest.mark.parametrize("back", [0, 1])
def test_scan(length: int, back: int) -> None:
    body = graph(
        [node("Add", ["s_in", "x_t"], ["s_out"]), node("Mul", ["s_out", "k"], ["row"])],
        {"s_in": np.zeros(2, F), "x_t": np.zeros(2, F)},
        ["s_out", "row"],
    )
    m = model(
        [node("Scan", ["s", "x"], ["t", "y"], body=body, num_scan_inputs=1, scan_input_directions=[back])],
        {"s": np.zeros(2, F), "x": np.zeros((length, 2), F)},
        ["t", "y"],
        {"k": F(2)},
    )
    x = np.arange(2 * length, dtype=F).reshape(length, 2)
    outs = m.run({"s": F([1, 1]), "x": x})
    sums = 1 + np.cumsum(x[::-1] if back else x, 0)
    np.testing.assert_allclose(outs["y"], 2 * sums)
    np.testing.assert_allclose(outs["t"], sums[-1])


def test_sequences_and_optionals_as_inputs_and_outputs() -> None:
    seq = helper.make_tensor_sequence_value_info("q", onnx.TensorProto.FLOAT, None)
    g = helper.make_graph(
        [node("SequenceAt", ["q", "i"], ["a"]), node("SequenceInsert", ["q", "a"], ["r"])],
        "g",
        [seq, info("i", np.int64(0))],
        [info("r"), info("a")],
    )
    m = rlx.load(helper.make_model(g).SerializeToString())
    q = [F([1]), F([2, 3])]
    for i in (0, 1, -1):
        outs = m.run({"q": q, "i": np.int64(i)})
        np.testing.assert_array_equal(outs["a"], q[i])
        assert [a.tolist() for a in outs["r"]] == [[1], [2, 3], q[i].tolist()]
    with pytest.raises(rlx.FormatError, match="position"):
        m.run({"q": q, "i": np.int64(2)})
    with pytest.raises(rlx.BindingTypeError, match="list of arrays"):
        m.run({"q": q[0], "i": np.int64(0)})


def test_strings_pass_through() -> None:
    x = np.asarray([["a", "b"], ["c", "d"]], object)
    got = run("Transpose", x)
    assert got.tolist() == [["a", "c"], ["b", "d"]]
    assert run("StringConcat", x, x, opset=20).tolist() == [["aa", "bb"], ["cc", "dd"]]
    assert run("Equal", x, np.asarray("b", object), opset=19).tolist() == [[False, True], [False, False]]


def test_an_outcome_evicts_the_oldest() -> None:
    m = model([node("Reshape", ["x", "s"], ["y"])], {"x": np.zeros(1 << 7, F), "s": np.int64([0, 0])}, ["y"])
    x = np.zeros(1 << 7, F)
    for _ in range(2):
        for i in range(40):
            n = 1 << (i % 8)
            assert m.run({"x": x, "s": np.int64([n, -1] if i < 20 else [-1, n])})["y"].size == x.size
    assert m.memory_report().variants <= 32


def test_errors_inside_stages_name_the_node() -> None:
    m = model([node("Reshape", ["x", "s"], ["y"], name="bad")], {"x": np.zeros(6, F), "s": np.int64([0])}, ["y"])
    with pytest.raises(rlx.RlxError, match=r"node 'bad' \(Reshape\)"):
        m.run({"x": np.zeros(6, F), "s": np.int64([4])})
    assert m.run({"x": np.zeros(6, F), "s": np.int64([2, 3])})["y"].shape == (2, 3)


@pytest.mark.parametrize("trips", [0, 3, 100])
@pytest.mark.parametrize("grows", [False, True])
def test_state_that_a_loop_hands_on_unchanged_stays_a_weight(trips: int, grows: bool) -> None:
    step = [
        node("MatMul", ["s_in", "w_in"], ["h"]),
        node("Tanh", ["h"], ["s_out"]),
        node("Identity", ["w_in"], ["w_out"]),
    ]
    outs = ["go_out", "s_out", "w_out"]
    formal = {"i": np.int64(0), "go": np.asarray(True), "s_in": np.zeros((1, 3), F), "w_in": np.zeros((3, 3), F)}
    if grows:
        step[1] = node("Concat", ["s_in", "h"], ["s_out"], axis=0)
    body = graph([*step, node("Identity", ["go"], ["go_out"])], formal, outs)
    w = np.float32([[0.5, 0.1, 0], [0, 0.25, 0.3], [0.1, 0, 0.5]])
    m = model(
        [node("Loop", ["m", "", "s", "w"], ["y", "w_end"], body=body)],
        {"s": F([[1, 2, 3]]), "m": np.int64(0)},
        ["y", "w_end"],
        {"w": w},
    )
    want = F([[1, 2, 3]])
    for _ in range(min(trips, 4) if grows else trips):
        want = np.concatenate([want, want @ w]) if grows else np.tanh(want @ w)
    outs_ = m.run({"s": F([[1, 2, 3]]), "m": np.int64(min(trips, 4) if grows else trips)})
    np.testing.assert_allclose(outs_["y"], want, rtol=1e-5)
    np.testing.assert_array_equal(outs_["w_end"], w)


def test_trip_counts_from_an_input_do_not_import_again() -> None:
    m = model(
        [node("Loop", ["m", "", "s"], ["y"], body=counting(scan=False))],
        {"x": F([1, 2]), "s": F([0, 0]), "m": np.int64(1)},
        ["y"],
    )
    for trips in (5, 9, 0, 300):
        got = m.run({"x": F([1, 2]), "s": F([0, 0]), "m": np.int64(trips)})["y"]
        np.testing.assert_allclose(got, F([1, 2]) * trips)
    assert m.memory_report().variants == 1
