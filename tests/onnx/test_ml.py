"""Ops of ai.onnx.ml, against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import rlx
from rlx.testing.onnx_models import info

ort = pytest.importorskip("onnxruntime")

R = np.random.default_rng(5)
X = R.standard_normal((6, 4)).astype(np.float32)
C2, C3 = R.standard_normal(8).tolist(), R.standard_normal(12).tolist()
SVM = {
    "coefficients": R.standard_normal(12).tolist(),
    "support_vectors": R.standard_normal(24).tolist(),
    "vectors_per_class": [2, 2, 2],
    "rho": [0.1, -0.2, 0.3],
    "classlabels_ints": [0, 1, 2],
}
SVM2 = {
    "coefficients": R.standard_normal(6).tolist(),
    "support_vectors": R.standard_normal(24).tolist(),
    "vectors_per_class": [3, 3],
    "rho": [0.1],
    "classlabels_ints": [3, 7],
}
PROB = {"prob_a": [-1.0, -1.5, -0.5], "prob_b": [0.1, 0.0, -0.1]}
TREE = {
    "nodes_treeids": [0] * 5,
    "nodes_nodeids": [0, 1, 2, 3, 4],
    "nodes_featureids": [0, 0, 1, 0, 0],
    "nodes_values": [0.1, 0, -0.2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 3, 0, 0],
    "nodes_falsenodeids": [2, 0, 4, 0, 0],
    "nodes_missing_value_tracks_true": [0] * 5,
    "nodes_hitrates": [1.0] * 5,
}
LEAVES = {"class_treeids": [0] * 3, "class_nodeids": [1, 3, 4]}
S = np.asarray([["a"], ["b"], ["zz"]], object)
I64 = np.asarray([[1], [3], [-9]], np.int64)
Case = tuple[str, Any, dict[str, Any], int, int]

CASES: list[Case] = [
    (
        "LinearClassifier",
        X,
        {"coefficients": C3, "intercepts": [0.1, 0.2, -0.3], "classlabels_ints": [4, 5, 9], "post_transform": p},
        2,
        1,
    )
    for p in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
] + [
    (
        "LinearClassifier",
        X,
        {"coefficients": C2, "intercepts": [0.1, 0.2], "classlabels_strings": ["n", "y"], "post_transform": "SOFTMAX"},
        2,
        1,
    ),
    (
        "LinearClassifier",
        X,
        {"coefficients": C2[:4], "intercepts": [0.1], "classlabels_ints": [0, 1], "post_transform": "LOGISTIC"},
        2,
        1,
    ),
    ("LinearRegressor", X, {"coefficients": C2, "intercepts": [1.0, 2.0], "targets": 2}, 1, 1),
    ("LinearRegressor", X, {"coefficients": C2[:4]}, 1, 1),
    *(
        (("SVMClassifier", X, {**SVM, "kernel_type": k, "kernel_params": [0.3, 0.5, 2.0]}, 2, 1))
        for k in ("LINEAR", "RBF", "POLY", "SIGMOID")
    ),
    ("SVMClassifier", X, {**SVM, **PROB, "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0]}, 2, 1),
    ("SVMClassifier", X, {**SVM2, "kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0]}, 2, 1),
    (
        "SVMClassifier",
        X,
        {**SVM2, "prob_a": [-1.0], "prob_b": [0.2], "kernel_type": "LINEAR", "kernel_params": [0.3, 0.0, 3.0]},
        2,
        1,
    ),
    (
        "SVMClassifier",
        X,
        {"coefficients": C3, "rho": [0.5], "classlabels_ints": [0, 1, 2], "kernel_type": "LINEAR"},
        2,
        1,
    ),
    (
        "SVMRegressor",
        X,
        {
            "coefficients": [0.5, -1.0],
            "support_vectors": C2,
            "n_supports": 2,
            "rho": [0.3],
            "kernel_type": "RBF",
            "kernel_params": [0.5, 0.0, 3.0],
        },
        1,
        1,
    ),
    ("SVMRegressor", X, {"coefficients": C2[:4], "n_supports": 0, "rho": [0.3], "kernel_type": "LINEAR"}, 1, 1),
    (
        "SVMRegressor",
        X,
        {
            "coefficients": [0.5, -1.0],
            "support_vectors": C2,
            "n_supports": 2,
            "rho": [0.3],
            "one_class": 1,
            "kernel_type": "LINEAR",
        },
        1,
        1,
    ),
    *(("Normalizer", X, {"norm": norm}, 1, 1) for norm in ("MAX", "L1", "L2")),
    ("Normalizer", np.zeros((2, 3), np.float32), {"norm": "L2"}, 1, 1),
    ("Scaler", X, {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [0.5, 1.0, 2.0, 3.0]}, 1, 1),
    ("Scaler", (X * 9).astype(np.int64), {"offset": [1.0], "scale": [0.5]}, 1, 1),
    ("Binarizer", X, {"threshold": 0.25}, 1, 1),
    (
        "Imputer",
        np.where(X > 0.5, np.nan, X),
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")},
        1,
        1,
    ),
    ("Imputer", np.asarray([[1, 0, 3]], np.int64), {"imputed_value_int64s": [7], "replaced_value_int64": 0}, 1, 1),
    ("OneHotEncoder", S, {"cats_strings": ["a", "b", "c"]}, 1, 1),
    ("OneHotEncoder", I64, {"cats_int64s": [1, 2, 3]}, 1, 1),
    ("LabelEncoder", S, {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -3}, 1, 2),
    ("LabelEncoder", I64, {"keys_int64s": [1, 3], "values_strings": ["x", "y"], "default_string": "?"}, 1, 2),
    (
        "LabelEncoder",
        X[:1],
        {"keys_floats": [float(X[0, 0]), 9.0], "values_floats": [1.0, 2.0], "default_float": -1.0},
        1,
        2,
    ),
    ("LabelEncoder", S, {"classes_strings": ["a", "b"], "default_int64": 8}, 1, 1),
    ("CategoryMapper", S, {"cats_strings": ["a", "b"], "cats_int64s": [1, 2], "default_int64": 9}, 1, 1),
    ("ArrayFeatureExtractor", X, {}, 1, 1),
    (
        "TreeEnsembleRegressor",
        X,
        {
            **TREE,
            "target_treeids": [0] * 3,
            "target_nodeids": [1, 3, 4],
            "target_ids": [0, 1, 0],
            "target_weights": [1.0, 2.0, 3.0],
            "n_targets": 2,
        },
        1,
        1,
    ),
    (
        "TreeEnsembleClassifier",
        X,
        {**TREE, **LEAVES, "class_ids": [0, 1, 2], "class_weights": [1.0, 2.0, 3.0], "classlabels_int64s": [3, 5, 8]},
        2,
        1,
    ),
    (
        "TreeEnsembleClassifier",
        X,
        {
            **TREE,
            **LEAVES,
            "class_ids": [0, 1, 2],
            "class_weights": [1.0, 2.0, 3.0],
            "classlabels_strings": ["a", "b", "c"],
            "post_transform": "SOFTMAX",
        },
        2,
        1,
    ),
    (
        "TreeEnsembleClassifier",
        X,
        {**TREE, **LEAVES, "class_ids": [0, 0, 0], "class_weights": [0.2, 0.9, 0.4], "classlabels_int64s": [3, 5]},
        2,
        1,
    ),
    (
        "TreeEnsembleClassifier",
        X,
        {
            **TREE,
            **LEAVES,
            "class_ids": [1, 1, 1],
            "class_weights": [-0.2, 0.9, 0.4],
            "classlabels_int64s": [3, 5],
            "post_transform": "LOGISTIC",
        },
        2,
        1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_same_answers_as_onnx_runtime(case: Case) -> None:
    op, x, attrs, n_out, opset = case
    feeds = {"x": np.asarray(x)}
    names = ["x"]
    if op == "ArrayFeatureExtractor":
        feeds["i"] = np.asarray([[0, 3]], np.int64)
        names.append("i")
    node = helper.make_node(op, names, [f"y{i}" for i in range(n_out)], domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph(
        [node], "g", [info(k, v) for k, v in feeds.items()], [info(f"y{i}") for i in range(n_out)]
    )
    imports = [helper.make_opsetid("ai.onnx.ml", opset), helper.make_opsetid("", 18)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    try:
        want = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as error:  # its exceptions have no common base
        pytest.skip(f"ONNX Runtime refuses it: {str(error)[:200]}")
    m = rlx.load(data, threads=1)
    for _ in range(2):
        for a, b in zip(m.run(feeds), want, strict=True):
            assert a.shape == b.shape
            if b.dtype.kind == "f":
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            else:
                assert a.tolist() == b.tolist()


def test_maps_come_as_lists_of_dictionaries() -> None:
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c", "d"])
    graph = helper.make_graph([node], "g", [info("x", X)], [info("z")])
    m = rlx.load(
        helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", 1)]).SerializeToString()
    )
    for _ in range(2):
        (got,) = m.run({"x": X})
        assert isinstance(got, list)
        assert got[1] == dict(zip("abcd", X[1].tolist(), strict=True))
