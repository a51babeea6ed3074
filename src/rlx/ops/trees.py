"""Decision trees: random forests and gradient boosting over the rows of a table."""

from typing import Any

import numpy as np

from rlx import dtypes
from rlx.dtypes import DType, f32, f64
from rlx.errors import TypeRuleError
from rlx.ir.opdef import Array, Attr, ErrorSample, OpDef, Sample, Tolerance
from rlx.ir.types import TensorType
from rlx.ops._rules import Rng, data, require_dtype, require_rank

POST = ("none", "logistic", "softmax", "softmax_zero", "probit")
AGGREGATE = ("sum", "average", "min", "max")


def record(dtype: Any) -> list[tuple[str, str]]:
    """Fields of a node (see isa/trees.c)."""
    if np.dtype(dtype) == np.float64:
        return [("threshold", "f8"), ("feature", "i4"), ("next", "i4"), ("aux", "i4"), ("padding", "i4")]
    return [("threshold", "f4"), ("feature", "i4"), ("next", "i4"), ("aux", "i4")]


def _infer(x: TensorType, nodes: TensorType, roots: TensorType, leaf_offsets: TensorType, leaf_targets: TensorType,
           leaf_weights: TensorType, members: TensorType | None = None, base: TensorType | None = None,
           **at: Any) -> tuple[TensorType, ...]:
    op = "tree_ensemble"
    require_dtype(op, x.dtype, (f32, f64), "x")
    require_rank(op, x, 2, 2, "x")
    size = np.dtype(record(x.dtype.numpy)).itemsize
    want = {
        "nodes": (nodes, dtypes.u8),
        "roots": (roots, dtypes.i32),
        "leaf_offsets": (leaf_offsets, dtypes.i32),
        "leaf_targets": (leaf_targets, dtypes.i32),
        "leaf_weights": (leaf_weights, x.dtype),
        "members": (members, x.dtype),
        "base": (base, f64),
    }
    for name, (t, dtype) in want.items():
        if t is not None and (t.dtype != dtype or t.rank != 1):
            raise TypeRuleError(f"{op}: {name} must be {dtype} of rank 1, got {t}")
    if isinstance(nodes.shape[0], int) and nodes.shape[0] % size:
        raise TypeRuleError(f"{op}: nodes must be records of {size} bytes, got {nodes}")
    if roots.shape != (at["trees"],):
        raise TypeRuleError(f"{op}: roots must have one entry per tree ({at['trees']}), got {roots}")
    if base is not None and base.shape != (at["targets"],):
        raise TypeRuleError(f"{op}: base must have one entry per target ({at['targets']}), got {base}")
    if at["targets"] < 1 or (at["binary"] and at["targets"] != 1) or not 0 <= at["binary"] <= 4:
        raise TypeRuleError(
            f"{op}: targets must be >= 1, and 1 for binary 1 to 4, got {at['targets']} and binary {at['binary']}"
        )
    outputs = 2 if at["binary"] else at["targets"]
    return (TensorType(x.dtype, (x.shape[0], outputs)), TensorType(dtypes.i64, (x.shape[0],)))


def _logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _post(s: Array, post: str) -> Array:
    if post == "logistic":
        return _logistic(s)
    if post in ("softmax", "softmax_zero"):
        e = np.exp(s - s.max(-1, keepdims=True))
        zero = (np.abs(s) <= 1e-7) & (post == "softmax_zero")
        kept = np.where(zero, s * np.exp(-s.max(-1, keepdims=True)), e)
        return np.asarray(kept / np.where(zero, 0, e).sum(-1, keepdims=True))
    if post == "probit":
        from scipy.special import ndtri

        return np.asarray(ndtri(s))
    return s


def _leaf(nodes: Array, at: int, row: Array, members: Array | None) -> int:
    while True:
        node = nodes[at]
        if node["next"] == at:
            return int(node["aux"]) >> 3
        value, kind = row[node["feature"]], int(node["aux"]) & 3
        if np.isnan(value):
            passed = bool(int(node["aux"]) >> 2 & 1)
        elif kind == 3:
            assert members is not None
            rest = members[int(node["aux"]) >> 3 :]
            passed = bool(value in rest[: int(np.argmax(np.isnan(rest)))])
        else:
            t = node["threshold"]
            passed = bool([value <= t, value == t, value != t][kind])
        at = int(node["next"]) + passed


def _trees(
    x: Array,
    nodes: Array,
    roots: Array,
    leaf_offsets: Array,
    leaf_targets: Array,
    leaf_weights: Array,
    members: Array | None = None,
    base: Array | None = None,
    *,
    trees: int,
    targets: int,
    features: int,
    general: bool,
    single: bool,
    aggregate: str,
    post: str,
    binary: int,
) -> tuple[Array, Array]:
    # a widened x is narrowed again: comparisons with thresholds are exact
    kind = np.float64 if len(nodes) and x.dtype == np.float64 and leaf_weights.dtype == np.float64 else np.float32
    table = np.ascontiguousarray(nodes).view(record(kind))
    scores = np.zeros((len(x), targets))
    for row, values in enumerate(x.astype(kind)):
        seen = np.zeros(targets, np.bool_)
        for root in roots:
            leaf = _leaf(table, int(root), values, members)
            pairs = (
                [(0, leaf)]
                if single
                else [(int(leaf_targets[i]), i) for i in range(leaf_offsets[leaf], leaf_offsets[leaf + 1])]
            )
            for c, i in pairs:
                w = float(leaf_weights[i])
                if aggregate in ("sum", "average"):
                    scores[row, c] += w
                elif not seen[c] or (w < scores[row, c] if aggregate == "min" else w > scores[row, c]):
                    scores[row, c] = w
                seen[c] = True
    if aggregate == "average":
        scores /= trees
    if base is not None:
        scores += base
    if not binary:
        return _post(scores, post).astype(x.dtype), scores.argmax(-1).astype(np.int64)
    s = scores[:, 0]
    positive = binary in (1, 3)
    label = (s > (0.5 if positive else 0.0)).astype(np.int64)
    if binary <= 2 and post == "logistic":
        pair = np.stack([_logistic(-s), _logistic(s)], -1)
    elif binary > 2:
        pair = _post(np.stack([np.zeros_like(s), s], -1), post)
    else:
        pair = np.stack([1 - s if positive else -s, s], -1)
    return pair.astype(x.dtype), label


def _samples(dtype: DType, rng: Rng) -> list[Sample]:
    # two trees: x[0] <= 0.5 ? leaf 0 : (x[1] <= -1 ? leaf 1 : leaf 2) and a single leaf 3
    nan = np.nan
    rows = [
        (0.5, 0, 1, 0),
        (-1.0, 1, 3, 0),
        (nan, 0, 2, 0 << 3),
        (nan, 0, 3, 2 << 3),
        (nan, 0, 4, 1 << 3),
        (nan, 0, 5, 3 << 3),
    ]
    nodes = np.zeros(6, record(dtype.numpy))
    for i, row in enumerate(rows):
        nodes[i] = row if dtype == f32 else (*row, 0)
    packed, roots = nodes.view(np.uint8), np.array([0, 5], np.int32)
    x = np.concatenate([data(rng, dtype, 19, 3), np.array([[nan, 0, 0], [0.5, 0, 0], [1, nan, 0]], dtype.numpy)])
    attrs: dict[str, Any] = {"trees": 2, "targets": 1, "features": 3, "single": True}
    weights = np.array([0.25, -1.5, 0.75, 0.125], dtype.numpy)
    empty = np.zeros(0, np.int32)
    one = (packed, roots, empty, empty, weights)
    found = [
        Sample((x, *one), attrs), Sample((x[:1], *one), attrs), Sample((x[:0], *one), attrs),
        Sample((x, *one, None, np.array([0.5])), {**attrs, "aggregate": "average", "post": "logistic"}),
    ]
    found += [
        Sample((x, *one), {**attrs, "binary": b, "post": post})
        for b, post in ((1, "none"), (2, "none"), (1, "logistic"), (3, "softmax"))
    ]
    offsets, targets = np.array([0, 2, 3, 5, 6], np.int32), np.array([0, 1, 1, 0, 2, 1], np.int32)
    many = (packed, roots, offsets, targets, np.array([0.5, -0.25, 1.0, 2.0, -1.0, 0.125], dtype.numpy))
    attrs = {"trees": 2, "targets": 3, "features": 3}
    found += [Sample((x, *many), {**attrs, "aggregate": a}) for a in AGGREGATE]
    found += [Sample((x, *many), {**attrs, "post": p}) for p in ("softmax", "softmax_zero")]
    return found


def _errors() -> list[ErrorSample]:
    x, nodes, roots = np.zeros((2, 3), np.float32), np.zeros(16, np.uint8), np.zeros(1, np.int32)
    i, w = np.zeros(0, np.int32), np.zeros(1, np.float32)
    at = {"trees": 1, "targets": 1, "features": 3}
    return [
        ErrorSample((x, nodes[:5], roots, i, i, w), at, "records of"),
        ErrorSample((x, nodes, roots, i, i, w), {**at, "trees": 2}, "one entry per tree"),
        ErrorSample((x[0], nodes, roots, i, i, w), at, "rank"),
        ErrorSample((x, nodes, roots, i, i, w.astype(np.float64)), at, "leaf_weights must"),
        ErrorSample((x, nodes, roots, i, i, w), {**at, "binary": 7}, "binary"),
    ]


tree_ensemble = OpDef(
    "tree_ensemble",
    ("x", "nodes", "roots", "leaf_offsets", "leaf_targets", "leaf_weights", "members?", "base?"),
    _infer,
    _trees,
    "Scores [rows, targets] and the index of the best of trees made by rlx.lower.trees; all operands but x are "
    "constants.",
    attrs=(
        Attr("trees", "int"),
        Attr("targets", "int"),
        Attr("features", "int"),
        Attr("general", "bool", False),
        Attr("single", "bool", False),
        Attr("aggregate", "str", "sum", AGGREGATE),
        Attr("post", "str", "none", POST),
        Attr("binary", "int", 0),
    ),
    dtypes=(f32, f64),
    traits=frozenset({"exact", "constants"}),
    samples=_samples,
    errors=_errors,
    tolerance=Tolerance(rtol={"f32": 1e-5, "f64": 1e-12}, atol={"f32": 1e-6, "f64": 1e-12}),
)


def tree_scores(x: Any, made: Any) -> tuple[Any, Any]:
    """Scores and labels for the operands that `rlx.lower.trees` made from an ONNX node.

    Parameters
    ----------
    x : Value
        [rows, features] of the type the operands were made for.
    made : TreeOperands
    """
    arrays = (made.nodes, made.roots, made.leaf_offsets, made.leaf_targets, made.leaf_weights, made.members, made.base)
    operands = [None if a is None else x.graph.constant(a) for a in arrays]
    scores, label = tree_ensemble(
        x, *operands, trees=made.trees, targets=made.targets, features=made.features, general=bool(made.general),
        single=bool(made.single), aggregate=AGGREGATE[made.aggregate], post=POST[made.post], binary=made.binary)
    return scores, label
