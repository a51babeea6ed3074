"""Classical machine learning: domain ai.onnx.ml."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx import dtypes, ops
from rlx.dtypes import DType
from rlx.errors import FormatError
from rlx.ir.graph import Value
from rlx.onnx import hostcalls
from rlx.onnx.context import NodeContext, dim, dtypes_of
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array

ML = "ai.onnx.ml"


def float_input(v: Value) -> Any:
    """The operand as f32, or f64 when it is that."""
    return v if v.dtype in (dtypes.f32, dtypes.f64) else ops.cast(v, dtype=dtypes.f32)


def rows_of(v: Value) -> Any:
    """The operand as rows of features."""
    if v.rank == 2:
        return v
    return ops.reshape(v, shape=(1, -1) if v.rank < 2 else (dim(v, 0), -1))


def label_names(n: NodeContext) -> Any:
    """Class labels of a node: int64 or object array; None when there are none."""
    numbers = n.ints("classlabels_int64s", None) or n.ints("classlabels_ints", None)
    names = n.strs("classlabels_strings", None)
    if numbers:
        return np.asarray(numbers, np.int64)
    return np.asarray(names, object) if names else None


def classified(n: NodeContext, index: Value, labels: Any, scores: Value) -> Any:
    """Labels for class indices, and the scores."""
    if labels is None:
        raise FormatError("class labels must be given, got none")
    if labels.dtype == object:
        found, (scores,) = n.host_beside(hostcalls.labels_of(labels=labels), [index], [scores])
        return found, scores
    if (labels == np.arange(len(labels))).all():
        return ops.cast(index, dtype=dtypes.i64), scores
    return ops.gather(n.constant(labels), index, axis=0), scores


def post_transform(n: NodeContext, scores: Value, index: Value | None = None) -> Any:
    """Scores after the node's `post_transform`; with class indices, both."""
    kind = n.str("post_transform", "NONE")
    if kind == "PROBIT":
        made, kept = n.host_beside(_probit, [scores], [] if index is None else [index])
        scores = n.tracer.value(made)
        return scores if index is None else (scores, kept[0])
    scores = _transformed(n, scores)
    return scores if index is None else (scores, index)


def _probit(x: Array) -> Array:
    from scipy.special import erfinv

    return np.asarray(np.sqrt(2) * erfinv(2 * x - 1), x.dtype)


def _transformed(n: NodeContext, scores: Value) -> Any:
    kind = n.str("post_transform", "NONE")
    if kind == "SOFTMAX":
        return ops.softmax(scores, axis=-1)
    if kind == "LOGISTIC":
        return ops.sigmoid(scores)
    if kind == "SOFTMAX_ZERO":
        zero = ops.eq(scores, n.like(0, scores))
        masked = ops.softmax(ops.where(zero, n.like(-np.inf, scores), scores), axis=-1)
        return ops.where(zero, n.like(0, scores), masked)
    return scores


# -- trees ---------------------------------------------------------------------------------


def _tree_scores(n: NodeContext, x: Value, new: bool = False) -> Any:
    """Scores and best places of the trees of a node; `new` are attributes of version 5."""
    from rlx.lower.trees import from_tree_attributes, from_tree_ensemble
    from rlx.ops.trees import tree_scores

    made = (from_tree_ensemble if new else from_tree_attributes)(plain_attributes(n), dim(x, 1), x.dtype.numpy.type)
    return tree_scores(x, made)


@onnx_op("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(n: NodeContext) -> Any:
    x = rows_of(float_input(n.x(0)))
    scores, index = _tree_scores(n, x)
    if scores.dtype != dtypes.f32:
        scores = ops.cast(scores, dtype=dtypes.f32)
    return classified(n, index, label_names(n), scores)


@onnx_op("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(n: NodeContext) -> Any:
    x = rows_of(float_input(n.x(0)))
    scores, _ = _tree_scores(n, x)
    return scores if scores.dtype == dtypes.f32 else ops.cast(scores, dtype=dtypes.f32)


@onnx_op("TreeEnsemble", domain=ML, since=5)
def _tree_ensemble(n: NodeContext) -> Any:
    x = rows_of(n.x(0))
    return _tree_scores(n, x, new=True)[0]


def plain_attributes(n: NodeContext) -> dict[str, Any]:
    """Attributes; the double forms of arrays under the names of the float ones."""
    found = n.attributes()
    for name in list(found):
        if name.endswith("_as_tensor"):
            found[name.removesuffix("_as_tensor")] = found.pop(name)
    return found


# -- linear models -----------------------------------------------------------------------------


@onnx_op("LinearClassifier", domain=ML)
def _linear_classifier(n: NodeContext) -> Any:
    x = rows_of(n.x(0))
    x = x if x.dtype == dtypes.f32 else ops.cast(x, dtype=dtypes.f32)
    weights = np.asarray(n.floats("coefficients"), np.float32)
    features = dim(x, 1)
    if weights.size % features:
        raise FormatError(f"coefficients must be a multiple of {features} features, got {weights.size}")
    scores = ops.matmul(x, n.constant(np.ascontiguousarray(weights.reshape(-1, features).T)))
    bias = n.floats("intercepts", None)
    if bias:
        scores = ops.add(scores, n.constant(np.asarray(bias, np.float32)))
    labels = label_names(n)
    count = dim(scores, 1)
    if labels is None:
        raise FormatError("class labels must be given, got none")
    if count == 1 and len(labels) == 2:
        limit = 0.5 if n.str("post_transform", "NONE") == "LOGISTIC" else 0.0
        one = post_transform(n, scores)
        index = ops.reshape(ops.cast(ops.gt(one, n.like(limit, one)), dtype=dtypes.i64), shape=(-1,))
        rest = ops.sub(n.like(1, one), one) if limit else ops.neg(one)
        return classified(n, index, labels, ops.concat(rest, one, axis=1))
    scores, index = post_transform(n, scores, ops.argmax(scores, axis=1, keepdims=False))
    return classified(n, index, labels, scores)


@onnx_op("LinearRegressor", domain=ML)
def _linear_regressor(n: NodeContext) -> Any:
    x = rows_of(n.x(0))
    x = x if x.dtype == dtypes.f32 else ops.cast(x, dtype=dtypes.f32)
    targets = n.int("targets", 1)
    weights = np.asarray(n.floats("coefficients"), np.float32).reshape(targets, -1)
    scores = ops.matmul(x, n.constant(np.ascontiguousarray(weights.T)))
    bias = n.floats("intercepts", None)
    return post_transform(n, ops.add(scores, n.constant(np.asarray(bias, np.float32))) if bias else scores)


# -- support vector machines ----------------------------------------------------------------------


def _kernel(n: NodeContext, x: Value, vectors: Array) -> Any:
    """Kernel matrix [rows, vectors]."""
    kind = n.str("kernel_type", "LINEAR")
    gamma, coef0, degree = ([*(n.floats("kernel_params", None) or []), 0.0, 0.0, 0.0])[:3]
    v = n.constant(np.ascontiguousarray(vectors.T))
    dots = ops.matmul(x, v)
    if kind == "RBF":
        xx = ops.reduce_sum_square(x, axes=(1,), keepdims=True)
        vv = n.constant((vectors.astype(np.float64) ** 2).sum(1).astype(np.float32)[None, :])
        distance = ops.sub(ops.add(xx, vv), ops.mul(dots, n.like(2, dots)))
        return ops.exp(ops.mul(ops.relu(distance), n.like(-gamma, distance)))
    if kind == "POLY":
        return ops.pow(ops.add(ops.mul(dots, n.like(gamma, dots)), n.like(coef0, dots)), n.like(degree, dots))
    if kind == "SIGMOID":
        return ops.tanh(ops.add(ops.mul(dots, n.like(gamma, dots)), n.like(coef0, dots)))
    return dots


@onnx_op("SVMRegressor", domain=ML)
def _svm_regressor(n: NodeContext) -> Any:
    x = ops.cast(rows_of(n.x(0)), dtype=dtypes.f32)
    features = dim(x, 1)
    rho = np.asarray(n.floats("rho", [0.0]), np.float32)
    supports = n.int("n_supports", 0)
    if supports:
        vectors = np.asarray(n.floats("support_vectors"), np.float32).reshape(supports, features)
        weights = np.asarray(n.floats("coefficients"), np.float32).reshape(-1, 1)
        y = ops.matmul(_kernel(n, x, vectors), n.constant(weights))
    else:
        weights = np.asarray(n.floats("coefficients"), np.float32).reshape(-1, features)
        y = _kernel(n, x, weights)
    y = ops.add(y, n.constant(rho[:1]))
    if n.int("one_class", 0):
        y = ops.where(ops.gt(y, n.like(0, y)), n.like(1, y), n.like(-1, y))
    return post_transform(n, y)


@onnx_op("SVMClassifier", domain=ML)
def _svm_classifier(n: NodeContext) -> Any:
    x = ops.cast(rows_of(n.x(0)), dtype=dtypes.f32)
    features = dim(x, 1)
    labels = label_names(n)
    classes = len(labels)
    per_class = n.ints("vectors_per_class", None) or []
    rho = np.asarray(n.floats("rho", []), np.float32)
    coefficients = np.asarray(n.floats("coefficients"), np.float32)
    if not per_class:
        scores = ops.add(_kernel(n, x, coefficients.reshape(-1, features)), n.constant(rho[:1]))
        scores, index = post_transform(n, scores, ops.argmax(scores, axis=1, keepdims=False))
        return classified(n, index, labels, scores)
    total = sum(per_class)
    vectors = np.asarray(n.floats("support_vectors"), np.float32).reshape(total, features)
    coefficients = coefficients.reshape(classes - 1, total)
    starts = np.cumsum([0, *per_class])
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    weights = np.zeros((total, len(pairs)), np.float32)
    for p, (i, j) in enumerate(pairs):
        weights[starts[i] : starts[i + 1], p] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[starts[j] : starts[j + 1], p] = coefficients[i, starts[j] : starts[j + 1]]
    votes = ops.add(ops.matmul(_kernel(n, x, vectors), n.constant(weights)), n.constant(rho[: len(pairs)]))
    prob_a, prob_b = n.floats("prob_a", None), n.floats("prob_b", None)
    tally = np.zeros((2, len(pairs), classes), np.float32)
    for p, (i, j) in enumerate(pairs):
        tally[0, p, i] = tally[1, p, j] = 1
    won = ops.cast(ops.gt(votes, n.like(0, votes)), dtype=dtypes.f32)
    count = ops.add(
        ops.matmul(won, n.constant(tally[0])), ops.matmul(ops.sub(n.like(1, won), won), n.constant(tally[1]))
    )
    index = ops.argmax(count, axis=1, keepdims=False)
    scores = votes
    if prob_a:
        a, b = np.asarray(prob_a, np.float64), np.asarray(prob_b, np.float64)
        made, (index,) = n.host_beside(lambda v: _coupled(v, a, b, pairs, classes), [votes], [index])
        scores = n.tracer.value(made)
    elif classes == 2:
        scores = ops.concat(ops.neg(votes), votes, axis=1)
    scores, index = post_transform(n, scores, index)
    return classified(n, index, labels, scores)


def _coupled(votes: Array, a: Array, b: Array, pairs: Sequence[tuple[int, int]], classes: int) -> Array:
    """Pairwise probabilities (sigmoid of the votes) coupled to one distribution per row (Wu, Lin and Weng)."""
    result = np.zeros((len(votes), classes), np.float32)
    for row, v in enumerate(votes.astype(np.float64)):
        r = np.zeros((classes, classes))
        for p, (i, j) in enumerate(pairs):
            z = v[p] * a[p] + b[p]
            s = np.exp(-z) / (1 + np.exp(-z)) if z >= 0 else 1 / (1 + np.exp(z))
            r[i, j] = np.clip(s, 1e-7, 1 - 1e-7)
            r[j, i] = 1 - r[i, j]
        q = -r * r.T
        np.fill_diagonal(q, (r**2).sum(0) - np.diag(r) ** 2)
        prob = np.full(classes, 1 / classes)
        for _ in range(max(100, classes)):
            qp = q @ prob
            pqp = prob @ qp
            if np.abs(qp - pqp).max() < 0.005 / classes:
                break
            for t in range(classes):
                change = (pqp - qp[t]) / q[t, t]
                prob[t] += change
                pqp = (pqp + change * (change * q[t, t] + 2 * qp[t])) / (1 + change) ** 2
                qp = (qp + change * q[t]) / (1 + change)
                prob /= 1 + change
        result[row] = prob
    return result


# -- preprocessing -----------------------------------------------------------------------------------


@onnx_op("Scaler", domain=ML)
def _scaler(n: NodeContext) -> Any:
    x = ops.cast(n.x(0), dtype=dtypes.f32)
    offset, scale = n.floats("offset", [0.0]), n.floats("scale", [1.0])
    y = ops.sub(x, n.constant(np.asarray(offset, np.float32)))
    return ops.mul(y, n.constant(np.asarray(scale, np.float32)))


@onnx_op("Normalizer", domain=ML)
def _normalizer(n: NodeContext) -> Any:
    x = ops.cast(n.x(0), dtype=dtypes.f32)
    name = {"MAX": "reduce_max", "L1": "reduce_l1", "L2": "reduce_l2"}[n.str("norm", "MAX")]
    size = getattr(ops, name)(x, axes=(x.rank - 1,), keepdims=True)
    if name != "reduce_max":
        size = ops.where(ops.eq(size, n.like(0, size)), n.like(1, size), size)
    return ops.div(x, size)


@onnx_op("Binarizer", domain=ML)
def _binarizer(n: NodeContext) -> Any:
    x = n.x(0)
    return ops.cast(ops.gt(x, n.like(n.float("threshold", 0.0), x)), dtype=x.dtype)


@onnx_op("Imputer", domain=ML)
def _imputer(n: NodeContext) -> Any:
    x = n.x(0)
    if x.dtype.is_float:
        values = np.asarray(n.floats("imputed_value_floats"), x.dtype.numpy)
        missing = n.float("replaced_value_float", 0.0)
        gone = ops.isnan(x) if np.isnan(missing) else ops.eq(x, n.like(missing, x))
    else:
        values = np.asarray(n.ints("imputed_value_int64s"), x.dtype.numpy)
        gone = ops.eq(x, n.like(n.int("replaced_value_int64", 0), x))
    return ops.where(gone, n.constant(values if len(values) > 1 else values.reshape(())), x)


@onnx_op("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(n: NodeContext) -> Any:
    if n.on_host(0):
        return n.host(hostcalls.take_last())
    x = n.x(0)
    index = ops.reshape(n.x(1), shape=(-1,))
    y = ops.gather(x, index, axis=x.rank - 1)
    return ops.reshape(y, shape=(1, -1)) if x.rank < 2 else y


@onnx_op("FeatureVectorizer", domain=ML)
def _feature_vectorizer(n: NodeContext) -> Any:
    parts = [ops.cast(rows_of(x), dtype=dtypes.f32) for x in n.xs()]
    return ops.concat(*parts, axis=1)


@onnx_op("OneHotEncoder", domain=ML)
def _one_hot_encoder(n: NodeContext) -> Any:
    known: Any = n.strs("cats_strings", None)
    zeros = bool(n.int("zeros", 1))
    if known:
        return n.host(hostcalls.one_hot(known=known, zeros=zeros), fixed=True, floats=False, fresh=True)
    x = ops.cast(n.x(0), dtype=dtypes.i64)
    cats = np.asarray(n.ints("cats_int64s"), np.int64)
    return ops.cast(ops.eq(ops.unsqueeze(x, axes=(x.rank,)), n.constant(cats)), dtype=dtypes.f32)


@onnx_op("LabelEncoder", domain=ML)
def _label_encoder(n: NodeContext) -> Any:
    if n.opset < 2:
        names = n.strs("classes_strings", None) or []
        if n.on_host(0):
            table: Any = {s: i for i, s in enumerate(names)}
            number = n.int("default_int64", -1)
            return n.host(look_up(None, table, number, np.int64), fixed=True, floats=False, fresh=True)
        text = n.str("default_string", "_Unused")
        numbered = dict(enumerate(names))
        return n.host(look_up(n.dtype(0), numbered, text, object), fixed=True, floats=False, fresh=True)
    keys: Any = None
    values: Any = None
    missing: Any = None
    kind: Any = None
    for name in ("strings", "int64s", "floats", "tensor"):
        found = n.attr(f"keys_{name}", None)
        if found is not None:
            keys = _plain(found)
        found = n.attr(f"values_{name}", None)
        if found is not None:
            values = _plain(found)
            listed = {"strings": object, "int64s": np.int64, "floats": np.float32}.get(name)
            kind = np.dtype(found.dtype if name == "tensor" else listed)
    if keys is None or values is None or len(keys) != len(values):
        raise FormatError("keys and values must be given, one value per key")
    made = np.dtype(kind)
    default = n.attr("default_tensor", None)
    if default is not None:
        missing = _plain(default)[0]
    elif made.kind == "O":
        missing = n.str("default_string", "_Unused")
    elif made.kind == "f":
        missing = n.float("default_float", -0.0)
    else:
        missing = n.int("default_int64", -1)
    pairs = dict(zip(keys, values, strict=True))
    if n.dtype(0) is dtypes.i64 and made.kind in "fiu" and all(type(k) is int for k in keys):
        dense = _by_number(n, pairs, np.asarray(missing, made))
        if dense is not None:
            return dense
    nan = next((v for k, v in pairs.items() if isinstance(k, float) and k != k), missing)
    return n.host(look_up(n.dtype(0), pairs, missing, made, nan), fixed=True, floats=False, fresh=True)


def _plain(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values.reshape(-1).tolist())
    return [v.decode() if isinstance(v, bytes) else v for v in values]


def _by_number(n: NodeContext, pairs: dict[int, Any], missing: Array) -> Any:
    """Values looked up in a table, the number itself the place; None when the numbers lie too far apart."""
    if not pairs:
        return None
    low, high = min(pairs) - 1, max(pairs) + 1
    if high - low > 4096 + 16 * len(pairs) or dtypes_of(missing) is None or not -(2**63) <= low < high < 2**63:
        return None
    table = np.full(high - low + 1, missing)
    table[np.fromiter(pairs, np.int64, len(pairs)) - low] = list(pairs.values())
    x = n.x(0)
    place = ops.sub(ops.max(ops.min(x, n.like(high, x)), n.like(low, x)), n.like(low, x))
    return ops.gather(n.constant(table), place, axis=0)


def look_up(x: DType | None, table: dict[Any, Any], missing: Any, kind: Any, nan: Any = None) -> Any:
    """Look-ups in a table, see `hostcalls.mapper`."""
    return hostcalls.mapper(x=x, table=table, missing=missing, kind=np.dtype(kind), nan=nan)


@onnx_op("CategoryMapper", domain=ML)
def _category_mapper(n: NodeContext) -> Any:
    names, numbers = n.strs("cats_strings"), n.ints("cats_int64s")
    if n.on_host(0):
        default, by_name = n.int("default_int64", -1), dict(zip(names, numbers, strict=True))
        return n.host(look_up(None, by_name, default, np.int64), fixed=True, floats=False, fresh=True)
    text, by_number = n.str("default_string", "_Unused"), dict(zip(numbers, names, strict=True))
    return n.host(look_up(n.dtype(0), by_number, text, object), fixed=True, floats=False, fresh=True)


@onnx_op("ZipMap", domain=ML)
def _zip_map(n: NodeContext) -> Any:
    labels = label_names(n)
    function = hostcalls.zip_map(keys=labels.tolist())
    return n.host(function, fixed=True, floats=False, fresh=True)


@onnx_op("DictVectorizer", domain=ML)
def _dict_vectorizer(n: NodeContext) -> Any:
    keys: Any = n.strs("string_vocabulary", None) or n.ints("int64_vocabulary", None)

    return n.host(hostcalls.vector_of_map(keys=keys))


@onnx_op("CastMap", domain=ML)
def _cast_map(n: NodeContext) -> Any:
    kind = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[n.str("cast_to", "TO_FLOAT")]
    sparse, size = n.str("map_form", "DENSE") == "SPARSE", n.int("max_map", 1)
    return n.host(hostcalls.array_of_map(kind=np.dtype(kind), sparse=sparse, size=size))
