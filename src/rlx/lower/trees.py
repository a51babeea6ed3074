"""Tree ensembles: from the attribute arrays of an ONNX node to the operands of `tree_ensemble`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx.errors import FormatError
from rlx.records import record

_POST = {"NONE": 0, "LOGISTIC": 1, "SOFTMAX": 2, "SOFTMAX_ZERO": 3, "PROBIT": 4}
_AGGREGATE = {"SUM": 0, "AVERAGE": 1, "MIN": 2, "MAX": 3}
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
          "BRANCH_MEMBER", "LEAF")
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER, _LEAF = range(8)

Ints = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]


@record(eq=False)
class TreeOperands:
    """Constant operands and attributes of a `tree_ensemble` kernel call (see isa/trees.c)."""

    nodes: Array
    roots: Array
    leaf_offsets: Array
    leaf_targets: Array
    leaf_weights: Array
    members: Array | None
    base: Array | None
    trees: int
    targets: int
    features: int
    general: int
    single: int
    aggregate: int
    post: int
    binary: int

    @property
    def outputs(self) -> int:
        """Number of scores per row."""
        return 2 if self.binary else self.targets

    def workspace(self, chunk: int) -> int:
        """Bytes of workspace per thread for chunks of `chunk` rows."""
        return max(8, chunk * self.targets * 8 * (2 if self.aggregate >= 2 else 1))


@record(eq=False)
class _Nodes:
    """Nodes in any order; children are indices into the same arrays."""

    mode: Ints
    feature: Ints
    threshold: Array
    true: Ints
    false: Ints
    missing: Array
    payload: Ints  # leaf number of a leaf, start in `members` of a membership test


def _distinct(numbers: Ints) -> int:
    """How many different numbers there are; `numpy.unique` would import masked arrays."""
    ordered = np.sort(numbers)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _array(attrs: Mapping[str, Any], name: str, dtype: Any) -> Array:
    """An attribute as an array; `<name>_as_tensor` (double precision) wins."""
    value = attrs.get(f"{name}_as_tensor")
    if value is None:
        value = attrs.get(name, ())
    return np.asarray(value, dtype)


def _layout(nodes: _Nodes, roots: Ints, dtype: Any) -> tuple[Array, Array, int]:
    """Breadth-first order per tree with children side by side: (records, roots, general)."""
    n = len(nodes.mode)
    is_inner = nodes.mode != _LEAF
    exchanged = (nodes.mode == _GTE) | (nodes.mode == _GT)
    level, tree = roots, np.arange(len(roots))
    order, trees, is_left = [level], [tree], []
    visited = len(level)
    while True:
        inner = is_inner[level]
        parents, tree = level[inner], tree[inner]
        if not len(parents):
            break
        # after the rewrite to x <= t: mode >= and > exchange the children
        swap = exchanged[parents]
        level = np.empty(2 * len(parents), np.int64)
        level[0::2] = np.where(swap, nodes.true[parents], nodes.false[parents])
        level[1::2] = np.where(swap, nodes.false[parents], nodes.true[parents])
        tree = np.repeat(tree, 2)
        visited += len(level)
        if visited > 2 * n + len(roots):
            raise FormatError("tree ensemble: nodes must form trees, got a cycle or shared nodes")
        order.append(level)
        trees.append(tree)
        is_left.append(parents)
    ids, which = np.concatenate(order), np.concatenate(trees)
    by_tree = np.argsort(which, kind="stable")
    place = np.empty(len(ids), np.int64)
    place[by_tree] = np.arange(len(ids))

    mode = nodes.mode[ids]
    inner = mode != _LEAF
    # The k-th inner entry (in level order) has its children at entries first + 2k, 2k + 1.
    nxt = place.copy()
    nxt[inner] = place[len(roots) + 2 * np.arange(int(inner.sum()))]
    threshold = nodes.threshold[ids].astype(dtype)
    lower = (mode == _LT) | (mode == _GTE)
    with np.errstate(over="ignore"):
        threshold = np.where(lower, np.nextafter(threshold, dtype(-np.inf)), threshold)
    threshold[~inner] = np.nan
    swapped = exchanged[ids]
    nan_passes = np.where(swapped, ~nodes.missing[ids], nodes.missing[ids]) & inner
    test = np.select([mode == _EQ, mode == _NEQ, mode == _MEMBER], [1, 2, 3], 0)
    fields: list[Any] = [("threshold", dtype), ("feature", "i4"), ("next", "i4"), ("aux", "i4")]
    if dtype is np.float64:
        fields.append(("padding", "i4"))
    records = np.zeros(len(ids), fields)
    records["threshold"][place] = threshold
    records["feature"][place] = np.where(inner, nodes.feature[ids], 0)
    records["next"][place] = nxt
    records["aux"][place] = test | nan_passes.astype(np.int64) << 2 | nodes.payload[ids] << 3
    general = int(bool(nan_passes.any() or test.any()))
    return records, place[: len(roots)].astype(np.int32), general


def _leaves(n_leaves: int, leaf: Ints, target: Ints, weight: Array, aggregate: int,
            dtype: Any) -> tuple[Array, Array, Array]:
    """Weights grouped by leaf, in the order given; zeros do not matter to a sum."""
    if aggregate < 2:
        keep = weight != 0
        leaf, target, weight = leaf[keep], target[keep], weight[keep]
    offsets = np.zeros(n_leaves + 1, np.int32)
    np.cumsum(np.bincount(leaf, minlength=n_leaves), out=offsets[1:])
    if (leaf[1:] < leaf[:-1]).any():
        order = np.argsort(leaf, kind="stable")
        target, weight = target[order], weight[order]
    return offsets, target.astype(np.int32), weight.astype(dtype)


def _operands(nodes: _Nodes, roots: Ints, n_leaves: int, leaf: Ints, target: Ints, weight: Array,
              members: Array | None, base: Array | None, targets: int, features: int,
              aggregate: int, post: int, binary: int, dtype: Any) -> TreeOperands:
    inner = nodes.mode != _LEAF
    if inner.any() and not 0 <= nodes.feature[inner].min() <= nodes.feature[inner].max() < features:
        raise FormatError(f"tree ensemble: feature ids must lie in [0, {features}), got "
                          f"{nodes.feature[inner].min()} to {nodes.feature[inner].max()}")
    if len(target) and not 0 <= target.min() <= target.max() < targets:
        raise FormatError(f"tree ensemble: target ids must lie in [0, {targets}), got "
                          f"{target.min()} to {target.max()}")
    records, root_places, general = _layout(nodes, roots, dtype)
    offsets, leaf_targets, leaf_weights = _leaves(n_leaves, leaf, target, weight, aggregate, dtype)
    single = 0
    if targets == 1 and aggregate < 2 and (np.diff(offsets) <= 1).all():
        # one weight per leaf: dropped zeros come back, offsets are not needed
        dense = np.zeros(n_leaves, dtype)
        dense[np.diff(offsets) == 1] = leaf_weights
        leaf_weights, single = dense, 1
    return TreeOperands(
        records.view(np.uint8), root_places, offsets, leaf_targets, leaf_weights, members, base,
        len(roots), targets, features, general, single, aggregate, post, binary)


class _Index:
    """Places of nodes by (tree id, node id)."""

    def __init__(self, tree: Ints, node: Ints) -> None:
        n = len(tree)
        self.span = int(node.max()) + 1
        keys = tree * self.span + node
        size = (int(tree.max()) + 1) * self.span
        if node.min() < 0:
            raise FormatError("tree ensemble: (tree id, node id) must be unique and not negative")
        # A table where ids leave few gaps, which is the rule; else a sorted list.
        self.table = np.full(size, -1, np.int64) if tree.min() >= 0 and size <= 16 * n else None
        if self.table is not None:
            self.table[keys] = np.arange(n)
            unique = np.count_nonzero(self.table >= 0) == n
        else:
            self.order = np.argsort(keys, kind="stable")
            self.keys = keys[self.order]
            unique = not (self.keys[1:] == self.keys[:-1]).any()
        if not unique:
            raise FormatError("tree ensemble: (tree id, node id) must be unique and not negative")

    def find(self, tree: Ints, node: Ints, what: str) -> Ints:
        """Index of (tree, node).

        Raises
        ------
        FormatError
            There is no such node.
        """
        wanted = tree * self.span + node
        if self.table is not None:
            inside = (wanted >= 0) & (wanted < len(self.table))
            found = np.where(inside, self.table[np.where(inside, wanted, 0)], -1)
        else:
            at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            found = np.where(self.keys[at] == wanted, self.order[at], -1)
        wrong = (node < 0) | (node >= self.span) | (found < 0)
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise FormatError(f"tree ensemble: {what} must exist, got tree {tree[bad]} node {node[bad]}")
        return found


def from_tree_attributes(attrs: Mapping[str, Any], features: int,
                         dtype: Any = np.float32) -> TreeOperands:
    """Build operands of TreeEnsembleRegressor or TreeEnsembleClassifier (ai.onnx.ml 1 to 3).

    Parameters
    ----------
    attrs
        The node's attributes by name; lists, bytes or arrays as ONNX gives them.
    features
        Number of columns of the input.
    dtype
        `numpy.float32`, or `numpy.float64` for double input.

    Returns
    -------
    TreeOperands
        For a classifier, `label` of the kernel is an index into the class labels.
    """
    n_tree = _array(attrs, "nodes_treeids", np.int64)
    n_node = _array(attrs, "nodes_nodeids", np.int64)
    n = len(n_tree)
    if not n:
        raise FormatError("tree ensemble: it must have nodes, got none")
    names = {name: i for i, name in enumerate(_MODES)}
    modes = attrs["nodes_modes"]
    texts = {m: _text(m) for m in set(modes)}
    unknown = sorted(set(texts.values()) - set(names))
    if unknown:
        raise FormatError(f"tree ensemble: nodes_modes must be among {list(_MODES)}, got {unknown}")
    numbers = {m: names[text] for m, text in texts.items()}
    mode = np.array([numbers[m] for m in modes], np.int64)
    arrays = {
        "nodes_nodeids": n_node, "nodes_modes": mode,
        "nodes_featureids": _array(attrs, "nodes_featureids", np.int64),
        "nodes_truenodeids": _array(attrs, "nodes_truenodeids", np.int64),
        "nodes_falsenodeids": _array(attrs, "nodes_falsenodeids", np.int64),
        "nodes_values": _array(attrs, "nodes_values", dtype),
    }
    for name, a in arrays.items():
        if len(a) != n:
            raise FormatError(f"tree ensemble: {name} must have {n} entries, got {len(a)}")
    missing = _array(attrs, "nodes_missing_value_tracks_true", np.int64).astype(bool)
    if not len(missing):
        missing = np.zeros(n, bool)

    index = _Index(n_tree, n_node)
    inner = mode != _LEAF
    true, false = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for child, name in ((true, "nodes_truenodeids"), (false, "nodes_falsenodeids")):
        child[inner] = index.find(n_tree[inner], arrays[name][inner], name)
    is_root = np.ones(n, bool)
    is_root[true[inner]] = False
    is_root[false[inner]] = False
    roots = np.flatnonzero(is_root)
    if not _distinct(n_tree[roots]) == len(roots) == _distinct(n_tree):
        raise FormatError("tree ensemble: each tree must have one root")
    payload = np.zeros(n, np.int64)
    payload[~inner] = np.arange(int((~inner).sum()))
    nodes = _Nodes(mode, arrays["nodes_featureids"], arrays["nodes_values"], true, false, missing,
                   payload)

    classifier = "class_ids" in attrs
    kind = "class" if classifier else "target"
    w_target = _array(attrs, f"{kind}_ids", np.int64)
    w_node = index.find(_array(attrs, f"{kind}_treeids", np.int64),
                        _array(attrs, f"{kind}_nodeids", np.int64), f"{kind}_nodeids")
    weight = _array(attrs, f"{kind}_weights", dtype)
    if inner[w_node].any():
        used = ~inner[w_node]
        w_target, w_node, weight = w_target[used], w_node[used], weight[used]
    base = _array(attrs, "base_values", np.float64)
    post = _POST[_text(attrs.get("post_transform", "NONE"))]
    aggregate = 0
    binary = 0
    if classifier:
        labels = attrs.get("classlabels_int64s")
        if labels is None or not len(labels):
            labels = attrs.get("classlabels_strings", ())
        targets = len(labels)
        if targets == 2 and _distinct(w_target) == 1:
            binary = 1 if (weight >= 0).all() else 2
            if w_target[0] == 1:  # scores of class 1 alone: class 0 stays at zero
                binary += 2
            targets = 1
            w_target = np.zeros_like(w_target)
            base = base[-1:]
    else:
        targets = int(attrs.get("n_targets", 1))
        aggregate = _AGGREGATE[_text(attrs.get("aggregate_function", "SUM"))]
    if len(base) not in (0, targets):
        raise FormatError(
            f"tree ensemble: base_values must have {targets} entries, got {len(base)}")
    return _operands(nodes, roots, int((~inner).sum()), payload[w_node], w_target, weight, None,
                     base if len(base) else None, targets, features, aggregate, post, binary, dtype)


def from_tree_ensemble(attrs: Mapping[str, Any], features: int,
                       dtype: Any = np.float32) -> TreeOperands:
    """Build operands of TreeEnsemble (ai.onnx.ml 5); parameters as `from_tree_attributes`."""
    modes = _array(attrs, "nodes_modes", np.int64)
    n, leaf_target = len(modes), _array(attrs, "leaf_targetids", np.int64)
    leaves = len(leaf_target)
    if n and not 0 <= modes.min() <= modes.max() <= _MEMBER:
        raise FormatError(
            f"tree ensemble: nodes_modes must lie in [0, {_MEMBER}], got {modes.max()}")
    children = []
    for side in ("true", "false"):
        ids = _array(attrs, f"nodes_{side}nodeids", np.int64)
        leaf = _array(attrs, f"nodes_{side}leafs", np.int64).astype(bool)
        if len(ids) != n or len(leaf) != n:
            raise FormatError(f"tree ensemble: nodes_{side}nodeids and nodes_{side}leafs must have "
                              f"{n} entries, got {len(ids)} and {len(leaf)}")
        if n and ((ids < 0) | (ids >= np.where(leaf, leaves, n))).any():
            raise FormatError(f"tree ensemble: nodes_{side}nodeids must exist, got {ids.max()}")
        children.append(np.concatenate([np.where(leaf, n + ids, ids), np.zeros(leaves, np.int64)]))
    missing = _array(attrs, "nodes_missing_value_tracks_true", np.int64).astype(bool)
    if not len(missing):
        missing = np.zeros(n, bool)
    payload = np.concatenate([np.zeros(n, np.int64), np.arange(leaves)])
    members = None
    member_nodes = np.flatnonzero(modes == _MEMBER)
    if len(member_nodes):
        members = _array(attrs, "membership_values", dtype)
        ends = np.flatnonzero(np.isnan(members))
        if len(ends) < len(member_nodes):
            raise FormatError(f"tree ensemble: membership_values must hold {len(member_nodes)} "
                              f"sets that end with NaN, got {len(ends)}")
        starts = np.concatenate([[0], ends[:-1] + 1])
        payload[member_nodes] = starts[: len(member_nodes)]
    nodes = _Nodes(
        np.concatenate([modes, np.full(leaves, _LEAF)]),
        np.concatenate([_array(attrs, "nodes_featureids", np.int64), np.zeros(leaves, np.int64)]),
        np.concatenate([_array(attrs, "nodes_splits", dtype), np.zeros(leaves, dtype)]),
        children[0], children[1], np.concatenate([missing, np.zeros(leaves, bool)]), payload)
    roots = _array(attrs, "tree_roots", np.int64)
    if len(roots) and not 0 <= roots.min() <= roots.max() < n:
        raise FormatError(f"tree ensemble: tree_roots must lie in [0, {n}), got {roots.max()}")
    # this version counts average, sum, min, max and none, softmax, logistic, ...
    aggregate, post = int(attrs.get("aggregate_function", 1)), int(attrs.get("post_transform", 0))
    if not (0 <= aggregate <= 3 and 0 <= post <= 4):
        raise FormatError(f"tree ensemble: aggregate_function and post_transform must be known, "
                          f"got {aggregate} and {post}")
    return _operands(
        nodes, roots, leaves, np.arange(leaves), leaf_target,
        _array(attrs, "leaf_weights", dtype), members, None, int(attrs.get("n_targets", 1)),
        features, (1, 0, 2, 3)[aggregate], (0, 2, 1, 3, 4)[post], 0, dtype)
