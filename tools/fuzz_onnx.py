"""Hunt for ONNX files that end in anything but a run or an error of rlx.

`fuzz_onnx.py FIRST LAST [MODEL.onnx ...]` mutates small models (its own, or those given), one random seed per file,
loads and runs each within 2 GiB of address space and a few seconds. A file that hangs, raises something else or ends
the process is reported with its seed; the exit status is 1 if there was one. Loops whose trip count grew may run until
the alarm, which must stop them.
"""

import contextlib
import pathlib
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import rlx
from rlx.testing.onnx_models import info, proto

LIMIT = 2 << 30
SECONDS = 4
INTS = (
    0,
    1,
    -1,
    2,
    -2,
    3,
    5,
    17,
    255,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    -(2**63),
    2**63 - 1,
)
FLOATS = (0.0, -1.0, 0.5, 1e-30, 1e30, float("nan"), float("inf"), -float("inf"))
CODES = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 99, -1)
TRAPS = ("/etc/passwd", "../../etc/passwd", "", ".", "a\0b", "x" * 5000, "//", "..", "C:\\x", "~")
OPS = (
    "Reshape",
    "Expand",
    "ConstantOfShape",
    "Range",
    "Tile",
    "Resize",
    "Pad",
    "Slice",
    "Gather",
    "GatherND",
    "TopK",
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "LSTM",
    "GRU",
    "OneHot",
    "CumSum",
    "Split",
    "Concat",
    "Einsum",
    "Unsqueeze",
    "Squeeze",
    "Transpose",
    "MatMul",
    "Gemm",
    "Softmax",
    "LayerNormalization",
    "ScatterND",
    "NonZero",
    "ScatterElements",
    "Where",
    "Cast",
    "ReduceSum",
    "ArgMax",
    "DepthToSpace",
    "SpaceToDepth",
    "Trilu",
    "Unique",
    "GridSample",
    "DFT",
    "STFT",
    "QuantizeLinear",
    "DequantizeLinear",
    "Flatten",
    "Shape",
    "Size",
    "Clip",
    "If",
    "Loop",
    "Scan",
    "Compress",
    "EyeLike",
    "Upsample",
    "RoiAlign",
    "NonMaxSuppression",
    "SequenceAt",
    "SplitToSequence",
    "Constant",
    "RandomUniform",
    "Bernoulli",
    "Multinomial",
    "CenterCropPad",
    "Col2Im",
    "HannWindow",
    "Identity",
    "BitShift",
    "Mod",
    "Pow",
    "Div",
    "Attention",
    "RotaryEmbedding",
    "StringNormalizer",
    "TfIdfVectorizer",
    "Nope",
)


def _node(
    op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def seeds() -> list[tuple[ModelProto, dict[str, Any]]]:
    """Small models, and inputs of theirs."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    image = np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6) / 9
    i64 = np.int64
    then = helper.make_graph([_node("Neg", ["h"], ["t"])], "then", [], [info("t")])
    orelse = helper.make_graph([_node("Relu", ["h"], ["e"])], "else", [], [info("e")])
    body = helper.make_graph(
        [
            _node("Add", ["s", "s"], ["s2"]),
            _node("Identity", ["go"], ["g2"]),
            _node("Identity", ["s"], ["row"]),
        ],
        "body",
        [info("i", i64(0)), info("go", np.asarray(True)), info("s", x)],
        [info("g2"), info("s2"), info("row")],
    )
    step = helper.make_graph(
        [_node("Add", ["s", "r"], ["s2"]), _node("Identity", ["s2"], ["o"])],
        "step",
        [info("s", x[0]), info("r", x[0])],
        [info("s2"), info("o")],
    )
    made: list[tuple[list[onnx.NodeProto], dict[str, Any], list[str], dict[str, Any]]] = [
        (
            [
                _node("Reshape", ["x", "s"], ["a"]),
                _node("Expand", ["a", "e"], ["b"]),
                _node("Tile", ["b", "t"], ["c"]),
                _node("Slice", ["c", "f", "g", "ax", "st"], ["d"]),
                _node("Pad", ["d", "p"], ["y"]),
            ],
            {"x": x},
            ["y"],
            {
                "s": i64([4, -1]),
                "e": i64([3, 4, 6]),
                "t": i64([1, 2, 1]),
                "f": i64([0]),
                "g": i64([9]),
                "ax": i64([1]),
                "st": i64([2]),
                "p": i64([0, 1, 0, 1, 0, 2]),
            },
        ),
        (
            [
                _node("Shape", ["x"], ["s"]),
                _node("ConstantOfShape", ["s"], ["a"]),
                _node("Range", ["i", "j", "k"], ["r"]),
                _node("Gather", ["x", "r"], ["b"], axis=2),
                _node("Add", ["a", "x"], ["c"]),
                _node("OneHot", ["r", "n", "v"], ["o"]),
                _node("CumSum", ["b", "ax"], ["y"]),
            ],
            {"x": x},
            ["y", "c", "o"],
            {
                "i": i64(0),
                "j": i64(4),
                "k": i64(1),
                "n": i64(5),
                "v": np.float32([0, 1]),
                "ax": i64(1),
            },
        ),
        (
            [
                _node(
                    "Conv",
                    ["x", "w", "b"],
                    ["a"],
                    pads=[1, 1, 1, 1],
                    strides=[1, 2],
                    dilations=[1, 1],
                ),
                _node("BatchNormalization", ["a", "b", "b", "b", "u"], ["n"]),
                _node("Relu", ["n"], ["r"]),
                _node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2]),
                _node("ConvTranspose", ["m", "w2"], ["t"], strides=[2, 1]),
                _node("AveragePool", ["t"], ["v"], kernel_shape=[3, 1], ceil_mode=1),
                _node("GlobalAveragePool", ["v"], ["y"]),
            ],
            {"x": image},
            ["y"],
            {
                "w": np.ones((3, 2, 3, 3), np.float32),
                "b": np.ones(3, np.float32),
                "u": np.ones(3, np.float32),
                "w2": np.ones((3, 2, 2, 2), np.float32),
            },
        ),
        (
            [
                _node("Resize", ["x", "", "z"], ["a"], mode="linear"),
                _node("DepthToSpace", ["a4"], ["d"], blocksize=2),
                _node("Resize", ["d", "", "", "sz"], ["y"], mode="cubic"),
                _node("Transpose", ["a"], ["q"], perm=[3, 1, 0, 2]),
                _node("Split", ["q"], ["l", "k"], axis=0, num_outputs=2),
                _node("Concat", ["k", "l"], ["a5"], axis=0),
                _node("Flatten", ["a5"], ["o"]),
            ],
            {"x": image},
            ["y", "o"],
            {
                "z": np.float32([1, 1, 2, 0.5]),
                "a4": np.ones((1, 4, 2, 2), np.float32),
                "sz": i64([1, 1, 3, 5]),
            },
        ),
        (
            [
                _node("LSTM", ["x", "w", "r", "b"], ["o", "h", "c"], hidden_size=2),
                _node("Squeeze", ["o", "ax"], ["q"]),
                _node("LayerNormalization", ["q", "g"], ["n"]),
                _node("Softmax", ["n"], ["s"], axis=1),
                _node("MatMul", ["s", "m"], ["v"]),
                _node("Gemm", ["gm", "m"], ["e"], alpha=0.5),
                _node("Einsum", ["v", "m"], ["y"], equation="abc,cd->abd"),
            ],
            {"x": x},
            ["y", "h", "e"],
            {
                "w": np.ones((1, 8, 4), np.float32),
                "r": np.ones((1, 8, 2), np.float32),
                "b": np.ones((1, 16), np.float32),
                "ax": i64([1]),
                "g": np.ones(2, np.float32),
                "m": np.ones((2, 2), np.float32),
                "gm": np.ones((3, 2), np.float32),
            },
        ),
        (
            [
                _node("TopK", ["x", "k"], ["v", "i"]),
                _node("NonZero", ["x"], ["z"]),
                _node("GatherND", ["x", "n"], ["g"]),
                _node("ScatterND", ["x", "n", "u"], ["s"]),
                _node("ScatterElements", ["x", "i", "v"], ["t"], axis=2),
                _node("Unique", ["x"], ["q"]),
                _node("Compress", ["x", "c"], ["y"], axis=1),
                _node("ArgMax", ["t"], ["a"], axis=1),
                _node("Trilu", ["s"], ["l"]),
            ],
            {"x": x},
            ["y", "z", "g", "q", "a", "l"],
            {
                "k": i64([2]),
                "n": i64([[0, 1], [1, 2]]),
                "u": np.ones((2, 4), np.float32),
                "c": np.asarray([True, False, True]),
            },
        ),
        (
            [
                _node("Identity", ["x"], ["h"]),
                _node("If", ["p"], ["d"], then_branch=then, else_branch=orelse),
                _node("Loop", ["n", "", "d"], ["l", "rows"], body=body),
                _node("Scan", ["i0", "l"], ["f", "o"], body=step, num_scan_inputs=1),
                _node("ReduceSum", ["rows", "ax"], ["y"]),
            ],
            {"x": x},
            ["y", "f", "o"],
            {
                "p": np.asarray(True),
                "n": i64(3),
                "ax": i64([0]),
                "i0": np.zeros((3, 4), np.float32),
            },
        ),
        (
            [
                _node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                _node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                _node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "s", "z"], ["m"]),
                _node("DynamicQuantizeLinear", ["d"], ["dq", "ds", "dz"]),
                _node("MatMulInteger", ["dq", "w", "dz", "z"], ["y"]),
                _node("Cast", ["m"], ["c"], to=10),
                _node("Clip", ["c", "lo", "hi"], ["k"]),
            ],
            {"x": x},
            ["y", "k"],
            {
                "s": np.float32(0.1),
                "z": np.uint8(3),
                "w": np.ones((4, 3), np.uint8),
                "lo": np.float16(0),
                "hi": np.float16(6),
            },
        ),
        (
            [
                _node("SequenceConstruct", ["x", "x"], ["q"]),
                _node("SequenceAt", ["q", "i"], ["a"]),
                _node("SplitToSequence", ["a"], ["t"], axis=1),
                _node("SequenceLength", ["t"], ["n"]),
                _node("ConcatFromSequence", ["t"], ["c"], axis=2),
                _node("DFT", ["c3"], ["f"], axis=1),
                _node("NonMaxSuppression", ["box", "score", "k", "thr"], ["y"]),
                _node("Mod", ["n", "i2"], ["m"]),
            ],
            {"x": x},
            ["y", "c", "f", "m"],
            {
                "i": i64(1),
                "c3": np.ones((1, 6, 1), np.float32),
                "i2": i64(2),
                "box": np.float32([[[0, 0, 1, 1], [0, 0, 1, 1.1]]]),
                "k": i64([2]),
                "score": np.ones((1, 1, 2), np.float32),
                "thr": np.float32([0.5]),
            },
        ),
    ]
    return [
        (proto(nodes, feeds, outputs, constants), feeds)
        for nodes, feeds, outputs, constants in made
    ]


# -- changes -------------------------------------------------------------------------------


class Mutator:
    """Changes a model; all choices come from one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def graphs(self, graph: Any) -> Iterator[Any]:
        yield graph
        for node in graph.node:
            for a in node.attribute:
                if a.HasField("g"):
                    yield from self.graphs(a.g)

    def tensors(self, model: ModelProto) -> list[Any]:
        graphs = list(self.graphs(model.graph))
        found = [t for g in graphs for t in g.initializer]
        return found + [a.t for g in graphs for n in g.node for a in n.attribute if a.HasField("t")]

    def names(self, graph: Any) -> list[str]:
        made = [o for n in graph.node for o in n.output]
        return [
            *made,
            *(t.name for t in graph.initializer),
            *(v.name for v in graph.input),
            "",
            "nowhere",
            "ü\0",
        ]

    def wires(self, model: ModelProto) -> None:
        """Names: undefined, empty, cyclic, twice; nodes: gone, twice, moved, of another op."""
        graph = self.pick(list(self.graphs(model.graph)))
        if not graph.node:
            return
        node = self.pick(graph.node)
        how = int(self.rng.integers(9))
        if how == 0 and node.input:
            node.input[int(self.rng.integers(len(node.input)))] = self.pick(self.names(graph))
        elif how == 1 and node.output:
            node.output[int(self.rng.integers(len(node.output)))] = self.pick(self.names(graph))
        elif how == 2 and node.input and node.output:
            node.input[0] = node.output[0]
        elif how == 3 and node.input:
            del node.input[int(self.rng.integers(len(node.input))) :]
        elif how == 4:
            node.input.append(self.pick(self.names(graph)))
        elif how == 5:
            node.op_type = self.pick(OPS)
        elif how == 6:
            graph.node.insert(int(self.rng.integers(len(graph.node) + 1)), node)
        elif how == 7:
            graph.node.remove(node)
        else:
            node.domain = self.pick(("", "ai.onnx.ml", "com.microsoft", "x", "ai.onnx"))

    def attributes(self, model: ModelProto) -> None:
        """Values beyond all bounds, of other types, unknown, missing."""
        nodes = [n for g in self.graphs(model.graph) for n in g.node]
        if not nodes:
            return
        node = self.pick(nodes)
        if not node.attribute or self.rng.random() < 0.2:
            name = self.pick(
                (
                    "axis",
                    "axes",
                    "to",
                    "mode",
                    "kernel_shape",
                    "keepdims",
                    "blocksize",
                    "group",
                    "shape",
                    "perm",
                    "value",
                    "pads",
                    "auto_pad",
                    "ceil_mode",
                    "batch_dims",
                    "num_outputs",
                    "hidden_size",
                )
            )
            node.attribute.append(
                helper.make_attribute(name, self.pick((3, 1.5, "x", [1, 2], [0.5], -1, 2**40)))
            )
            return
        a = self.pick(node.attribute)
        how = int(self.rng.integers(5))
        if how == 0:
            node.attribute.remove(a)
        elif how == 1:
            a.type = int(self.rng.integers(15))
        elif how == 2:
            a.CopyFrom(
                helper.make_attribute(
                    a.name, self.pick((3, -1, 1.5, "x", [1, 2], [0.5], ["a"], 2**40, float("nan")))
                )
            )
        elif a.type == AttributeProto.INT:
            a.i = self.pick(INTS)
        elif a.type == AttributeProto.FLOAT:
            a.f = self.pick(FLOATS)
        elif a.type == AttributeProto.STRING:
            a.s = self.pick(
                (b"", b"\xff", b"linear", b"SAME_UPPER", b"nearest", b"...->", b"a" * 3000)
            )
        elif a.type == AttributeProto.INTS:
            if a.ints and self.rng.random() < 0.7:
                a.ints[int(self.rng.integers(len(a.ints)))] = self.pick(INTS)
            elif a.ints and self.rng.random() < 0.5:
                a.ints.pop()
            else:
                a.ints.append(self.pick(INTS))

    def constants(self, model: ModelProto) -> None:
        """Tensors: other sizes, types, values, byte counts, places."""
        found = self.tensors(model)
        if not found:
            return
        t = self.pick(found)
        how = int(self.rng.integers(8))
        if how == 0 and t.dims:
            t.dims[int(self.rng.integers(len(t.dims)))] = self.pick(INTS)
        elif how == 1:
            t.dims.append(self.pick((0, 1, 2, 2**40, -1)))
        elif how == 2:
            t.data_type = self.pick(CODES)
        elif how == 3:
            t.raw_data = t.raw_data[: int(self.rng.integers(len(t.raw_data) + 1))] + bytes(
                int(self.rng.integers(9))
            )
        elif how == 4:
            t.data_location = TensorProto.EXTERNAL
            t.external_data.add(key="location", value=self.pick(TRAPS))
            t.external_data.add(key="offset", value=self.pick(("0", "-1", "x", str(2**63), "")))
        else:
            with contextlib.suppress(Exception):
                array = numpy_helper.to_array(t).copy()
                pool = FLOATS if array.dtype.kind == "f" else INTS
                if array.size:
                    with np.errstate(all="ignore"):
                        array.flat[int(self.rng.integers(array.size))] = np.asarray(
                            self.pick(pool)
                        ).astype(array.dtype)
                t.CopyFrom(numpy_helper.from_array(array, t.name))

    def declarations(self, model: ModelProto) -> None:
        """Types and shapes of inputs and outputs, opsets, functions."""
        how = int(self.rng.integers(5))
        values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
        v = self.pick(values)
        if how == 0:
            v.type.tensor_type.elem_type = self.pick(CODES)
        elif how == 1:
            v.type.tensor_type.shape.dim.add(dim_value=self.pick(INTS))
        elif how == 2:
            v.name = self.pick(self.names(model.graph))
        elif how == 3:
            model.opset_import[0].version = self.pick((0, -1, 1, 6, 7, 9, 11, 13, 22, 999, 2**62))
        else:
            f = model.functions.add(name=self.pick(("Relu", "Add", "Reshape")), domain="")
            f.input.append("a")
            f.output.append("b")
            f.node.append(_node(f.name, ["a"], ["b"]))

    def nesting(self, model: ModelProto) -> None:
        """Branches in branches in branches."""
        inner = helper.make_graph([_node("Constant", [], ["z"], value_int=1)], "g", [], [info("z")])
        condition = self.pick([n for n in self.names(model.graph) if n])
        for _ in range(int(self.pick((2, 10, 28)))):
            inner = helper.make_graph(
                [
                    _node(
                        "If",
                        [condition],
                        ["z"],
                        then_branch=inner,
                        else_branch=inner
                        if inner.ByteSize() < 200
                        else helper.make_graph([], "e", [], []),
                    )
                ],
                "g",
                [],
                [info("z")],
            )
        model.graph.node.insert(0, inner.node[0])

    def changes(self) -> Sequence[Callable[[ModelProto], None]]:
        return (
            self.wires,
            self.attributes,
            self.constants,
            self.attributes,
            self.constants,
            self.declarations,
            self.nesting,
        )

    def bytes_of(self, model: ModelProto) -> bytes:
        """A changed model, serialised; one in four is changed on the level of bytes too."""
        for _ in range(int(self.rng.integers(1, 4))):
            with contextlib.suppress(Exception):  # protobuf refuses some values
                self.pick(self.changes())(model)
        data = bytearray(model.SerializeToString())
        if self.rng.random() < 0.25:
            for _ in range(int(self.rng.integers(1, 5))):
                at = int(self.rng.integers(len(data)))
                how = int(self.rng.integers(4))
                if how == 0:
                    data[at] ^= 1 << int(self.rng.integers(8))
                elif how == 1:
                    data[at] = int(self.rng.integers(256))
                elif how == 2:
                    data[at:at] = data[at : at + int(self.rng.integers(40))]
                else:
                    del data[at : at + int(self.rng.integers(1, 9))]
        return bytes(data)


# -- trying --------------------------------------------------------------------------------


class TooLong(BaseException):
    """The alarm went off."""


def _alarm(*_: Any) -> None:
    raise TooLong


def inputs_of(declared: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    """Arrays for what a model declares."""
    found: dict[str, Any] = {}
    for name, t in declared.inputs.items():
        if name in feeds:
            found[name] = feeds[name]
        else:
            dtype = getattr(rlx, t.dtype, rlx.f32).numpy
            shape = [d if isinstance(d, int) and 0 <= d < 100 else 2 for d in t.shape or ()]
            found[name] = np.zeros(shape[:8], dtype)
    return found


def attempt(data: bytes, feeds: dict[str, Any]) -> str:
    """Load and run a file: `ran`, `refused`, or what went wrong."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        model = rlx.load(data, threads=1)
        given = inputs_of(model.signature, feeds)
        for _ in range(2):
            model.run(given)
    except TooLong:
        return "ran" if b"Loop" in data else f"took more than {SECONDS} s"
    except rlx.RlxError as error:
        return "refused" if str(error) else "an error without a text"
    except Exception:
        return traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "ran"


def main(first: int, last: int, paths: Sequence[str]) -> int:
    """Try the seeds in [first, last)."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    given = [(onnx.load(p), {}) for p in paths] if paths else seeds()
    for model, feeds in given:
        assert paths or attempt(model.SerializeToString(), feeds) == "ran", model.graph.node
    signal.signal(signal.SIGALRM, _alarm)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    seconds = 60 + SECONDS * (last - first)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    bad = 0
    counts = {"ran": 0, "refused": 0}
    for seed in range(first, last):
        print(seed, file=sys.stderr, flush=True)
        rng = np.random.default_rng(seed)
        model, feeds = given[seed % len(given)]
        copy = ModelProto()
        copy.CopyFrom(model)
        data = Mutator(rng).bytes_of(copy)
        outcome = attempt(data, feeds)
        if outcome in counts:
            counts[outcome] += 1
            continue
        bad += 1
        print(f"seed {seed}: {outcome}", flush=True)
        with contextlib.suppress(OSError):
            folder = pathlib.Path("fuzz-findings")
            if folder.is_dir():
                (folder / f"{seed}.onnx").write_bytes(data)
    print(f"done: {counts}, bad {bad}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
