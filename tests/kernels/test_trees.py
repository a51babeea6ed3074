"""tree_ensemble and its builder against ONNX Runtime."""

import numpy as np
import onnx
import onnx_node
import pytest
from onnx import numpy_helper

from rlx.errors import FormatError
from rlx.lower.context import workspaces
from rlx.lower.trees import from_tree_attributes, from_tree_ensemble
from rlx.runtime.kernels import available_levels
from rlx.testing.kernels import call_kernel

LEVELS = available_levels()


def predict(ops, x, level=None, threads=1, chunk=64, labels=True, repeat=1):
    n = len(x)
    out = np.full((n, ops.outputs), np.nan, x.dtype)
    label = np.full(n, -1, np.int64) if labels else None
    size = ops.workspace(chunk)
    seconds = call_kernel(
        f"tree_ensemble.{'f32' if x.dtype == np.float32 else 'f64'}",
        [x, ops.nodes, ops.roots, ops.leaf_offsets, ops.leaf_targets, ops.leaf_weights,
         ops.members, ops.base, out, label, np.zeros(size * workspaces(threads), np.uint8)],
        dict(rows=n, features=ops.features, trees=ops.trees, targets=ops.targets,
             x_s=x.shape[1], general=ops.general, single=ops.single, aggregate=ops.aggregate,
             post=ops.post, binary=ops.binary, chunk=chunk, ws=size),
        extent=n, threads=threads, level=level, repeat=repeat)
    predict.seconds = seconds
    return out, label


def random_attributes(rng, trees=5, depth=5, features=4, targets=3, modes=("BRANCH_LEQ",),
                      kind="target", missing=False, values=None, leaf_targets=None):
    """Attribute arrays of random, unbalanced trees with shuffled node ids."""
    cols = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                            "falsenodeids", "missing_value_tracks_true")}
    w = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, ids, d):
        node = next(ids)
        if d == 0 or (d < depth and rng.random() < 0.2):
            row = (tree, node, 0, 0.0, "LEAF", 0, 0, 0)
            for c in leaf_targets or range(targets):
                if rng.random() < 0.8:
                    leaf = (tree, node, c, float(np.float32(rng.normal())))
                    for k, x in zip(w, leaf, strict=True):
                        w[k].append(x)
        else:
            yes, no = grow(tree, ids, d - 1), grow(tree, ids, d - 1)
            value = rng.choice(values) if values else float(np.float32(rng.normal()))
            row = (tree, node, int(rng.integers(features)), float(value), str(rng.choice(modes)),
                   yes, no, int(missing and rng.random() < 0.5))
        for k, x in zip(cols, row, strict=True):
            cols[k].append(x)
        return node

    for t in range(trees):
        grow(t, iter(rng.permutation(2 ** (depth + 1)).tolist()), depth)
    attrs = {f"nodes_{k}": v[::-1] for k, v in cols.items()}  # the root first
    attrs |= {f"{kind}_{k}": v for k, v in w.items()}
    return attrs if kind == "class" else attrs | {"n_targets": targets}


def inputs(rng, n, features, values=None):
    x = rng.normal(0, 1, (n, features))
    if values:
        x = rng.choice(values, (n, features))
    return x.astype(np.float32)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 70])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(n, targets, level):
    rng = np.random.default_rng(n)
    attrs = random_attributes(rng, trees=11, targets=targets)
    attrs["base_values"] = [0.5] * targets
    x = inputs(rng, n, 4)
    ops = from_tree_attributes(attrs, 4)
    assert ops.single == (targets == 1) and not ops.general
    got, _ = predict(ops, x, level)
    if n:
        want = onnx_node.session("TreeEnsembleRegressor", [x], 1, domain="ai.onnx.ml", opset=3,
                                 **attrs)()[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        assert predict(ops, x, level, threads=2, chunk=16)[0].tobytes() == got.tobytes()
        assert predict(ops, x[:1], level)[0].tobytes() == got[:1].tobytes()


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "mixed"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("level", LEVELS[-1:])
def test_modes_ties_and_nan(mode, missing, level):
    rng = np.random.default_rng(7)
    values = [-1.0, -0.0, 0.0, 0.5, 2.0]
    every = [f"BRANCH_{m}" for m in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
    modes = every if mode == "mixed" else [f"BRANCH_{mode}"]
    attrs = random_attributes(rng, modes=modes, missing=missing, values=values)
    x = inputs(rng, 60, 4, [*values, np.nan])
    got, _ = predict(from_tree_attributes(attrs, 4), x, level)
    np.testing.assert_allclose(got, walk(attrs, x, 3), rtol=1e-6, atol=1e-6)
    if mode == "LEQ":
        want = onnx_node.session("TreeEnsembleRegressor", [x], 1, domain="ai.onnx.ml", opset=3,
                                 **attrs)()[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def walk(attrs, x, targets):
    """The definition, one node at a time."""
    ops = {"LEQ": np.less_equal, "LT": np.less, "GTE": np.greater_equal, "GT": np.greater,
           "EQ": np.equal, "NEQ": np.not_equal}
    at = {(t, n): i for i, (t, n) in enumerate(
        zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True))}
    children = set()
    for i, t in enumerate(attrs["nodes_treeids"]):
        if attrs["nodes_modes"][i] != "LEAF":
            children |= {(t, attrs["nodes_truenodeids"][i]), (t, attrs["nodes_falsenodeids"][i])}
    out = np.zeros((len(x), targets))
    for row, features in zip(out, x, strict=True):
        for root in set(at) - children:
            i = at[root]
            while attrs["nodes_modes"][i] != "LEAF":
                v = features[attrs["nodes_featureids"][i]]
                yes = ops[attrs["nodes_modes"][i][7:]](v, np.float32(attrs["nodes_values"][i]))
                if np.isnan(v):
                    yes = attrs["nodes_missing_value_tracks_true"][i]
                side = "nodes_truenodeids" if yes else "nodes_falsenodeids"
                i = at[attrs["nodes_treeids"][i], attrs[side][i]]
            for t, n, c, w in zip(*(attrs[f"target_{k}"] for k in
                                    ("treeids", "nodeids", "ids", "weights")), strict=True):
                if at[t, n] == i:
                    row[c] += w
    return out


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_aggregates(aggregate, dtype):
    rng = np.random.default_rng(3)
    attrs = random_attributes(rng, targets=2)
    x = inputs(rng, 30, 4).astype(dtype)
    got, _ = predict(from_tree_attributes(attrs | {"aggregate_function": aggregate}, 4, dtype), x)
    want = onnx_node.session("TreeEnsembleRegressor", [x.astype(np.float32)], 1, opset=3,
                             domain="ai.onnx.ml", aggregate_function=aggregate,
                             **attrs)()[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("case", ["three", "two", "two_positive", "id0", "id0_positive", "id1",
                                  "id1_positive"])
def test_classifier(post, case):
    rng = np.random.default_rng(4)
    classes = 3 if case == "three" else 2
    ids = {"id0": [0], "id1": [1]}.get(case[:3])
    attrs = random_attributes(rng, trees=9, targets=classes, kind="class", leaf_targets=ids)
    attrs |= {"classlabels_int64s": list(range(classes)), "post_transform": post}
    if case.endswith("positive"):
        attrs["class_weights"] = [abs(w) / 9 for w in attrs["class_weights"]]
    x = inputs(rng, 40, 4)
    scores, label = predict(from_tree_attributes(attrs, 4), x)
    want = onnx_node.session("TreeEnsembleClassifier", [x], 2, domain="ai.onnx.ml", opset=3,
                             out_types=[onnx.TensorProto.INT64, onnx.TensorProto.FLOAT], **attrs)()
    if case.startswith("two"):
        # ONNX Runtime says "score 1 > 0" even where both classes have weights
        np.testing.assert_array_equal(label, scores.argmax(1))
    else:
        np.testing.assert_array_equal(label, want[0])
    if not case.startswith("id0") or post in ("NONE", "LOGISTIC"):
        np.testing.assert_allclose(scores, want[1], rtol=1e-5, atol=1e-5)


def test_probit():
    attrs = random_attributes(np.random.default_rng(0), trees=1, depth=3, targets=1)
    attrs["target_weights"] = np.linspace(0.001, 0.999, len(attrs["target_ids"])).tolist()
    from scipy.special import ndtri

    x = inputs(np.random.default_rng(1), 20, 4).astype(np.float64)
    plain, _ = predict(from_tree_attributes(attrs, 4, np.float64), x)
    got, _ = predict(from_tree_attributes(attrs | {"post_transform": "PROBIT"}, 4, np.float64), x)
    np.testing.assert_allclose(got, ndtri(plain), rtol=1e-12)


def test_version_5():
    modes = [0, 6, 4, 1]  # <=, member, ==, <
    attrs = dict(
        nodes_modes=np.array(modes, np.uint8), nodes_featureids=[0, 1, 0, 1],
        nodes_splits=np.array([0.5, np.nan, 2.0, 1.0], np.float32),
        nodes_truenodeids=[1, 0, 3, 4], nodes_trueleafs=[0, 1, 0, 1],
        nodes_falsenodeids=[2, 1, 2, 3], nodes_falseleafs=[0, 1, 1, 1], tree_roots=[0],
        leaf_targetids=[0, 1, 0, 1, 0],
        leaf_weights=np.array([1, 2, 3, 4, 5], np.float32),
        membership_values=np.array([1.0, 3.0, np.nan], np.float32), n_targets=2,
        aggregate_function=1, post_transform=0)
    x = np.array([[0, 1], [0, 3], [0, 2], [2, 0], [2, 1], [3, 0], [np.nan, 9]], np.float32)
    got, _ = predict(from_tree_ensemble(attrs, 2), x)
    want = [[1, 0], [1, 0], [0, 2], [5, 0], [0, 4], [3, 0], [3, 0]]
    np.testing.assert_array_equal(got, want)
    proto = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
             for k, v in attrs.items()}
    ort = onnx_node.session("TreeEnsemble", [x], 1, domain="ai.onnx.ml", opset=5, **proto)()[0]
    np.testing.assert_array_equal(got, ort)


@pytest.mark.parametrize("change", [
    {"nodes_modes": "cycle"}, {"nodes_truenodeids": "missing"}, {"nodes_featureids": "wide"},
    {"target_ids": "wide"}, {"nodes_values": "short"}, {"nodes_modes": "unknown"}], ids=str)
def test_malformed_attributes_raise(change):
    attrs = random_attributes(np.random.default_rng(5), trees=2)
    (name, how), = change.items()
    inner = [i for i, m in enumerate(attrs["nodes_modes"]) if m != "LEAF"][1]
    if how == "cycle":
        attrs["nodes_truenodeids"][inner] = attrs["nodes_nodeids"][inner]
    elif how == "unknown":
        attrs[name][0] = "BRANCH_MAYBE"
    elif how == "short":
        attrs[name].pop()
    else:
        attrs[name][inner if "nodes" in name else 0] = 10**6
    with pytest.raises(FormatError, match="tree ensemble"):
        from_tree_attributes(attrs, 4)


# The shapes of a random forest, of boosting to two classes and to a number, and of an isolation forest.
ENSEMBLES = {
    "forest": dict(trees=40, depth=7, features=64, targets=10, kind="class"),
    "boosting": dict(trees=60, depth=3, features=30, targets=2, kind="class", leaf_targets=[0]),
    "regressor": dict(trees=100, depth=3, features=10, targets=1),
    "isolation": dict(trees=8, depth=8, features=4, targets=1),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensembles_of_the_shapes_that_libraries_make(name):
    shape = ENSEMBLES[name]
    rng = np.random.default_rng(6)
    thresholds = [float(np.float32(v)) for v in rng.uniform(-1, 16, 200)]
    attrs = random_attributes(rng, values=thresholds, **shape)
    classifier = shape.get("kind") == "class"
    if classifier:
        labels = list(range(10, 10 + shape["targets"]))
        attrs |= {"classlabels_int64s": labels, "post_transform": "LOGISTIC" if len(labels) == 2 else "NONE"}
    else:
        attrs["base_values"] = [152.0]
    x = rng.uniform(-1, 16, (50, shape["features"])).astype(np.float32)
    types = [onnx.TensorProto.INT64, onnx.TensorProto.FLOAT] if classifier else None
    want = onnx_node.session("TreeEnsembleClassifier" if classifier else "TreeEnsembleRegressor", [x],
                             2 if classifier else 1, domain="ai.onnx.ml", opset=3, out_types=types, **attrs)()
    scores, label = predict(from_tree_attributes(attrs, shape["features"]), x)
    np.testing.assert_allclose(scores, want[-1], rtol=1e-5, atol=1e-5)
    if classifier:
        np.testing.assert_array_equal(np.take(labels, label), want[0])


def test_no_byte_beyond_the_operands(guard_arguments, level):
    rng = np.random.default_rng(8)
    for targets in (1, 3):
        ops = from_tree_attributes(random_attributes(rng, trees=3, targets=targets), 4)
        predict(ops, inputs(rng, 13, 4), level)
