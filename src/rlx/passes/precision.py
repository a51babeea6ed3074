"""Mixed precision: which type each kind of op rounds its operands and results to, and the pass that inserts the casts.

Arithmetic is always in f32; a half type is where values are rounded (numerics contract, item 2). So a node that a
policy gives a half type rounds its f32 operands once, computes in f32 and rounds its f32 results once.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from rlx import dtypes
from rlx.dtypes import DType, bf16, f16, f32
from rlx.errors import ConfigError
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.passes.base import Pass
from rlx.passes.pipeline import Pipeline
from rlx.records import field, record, replace

CATEGORIES = ("compute", "reduction", "elementwise", "movement")
# Computed in f32 whatever the policy: small sums of large terms, recurrences, searches, and what has its own types.
FORCE_F32 = frozenset({
    "attention", "avg_pool", "conv", "conv_nhwc", "conv_transpose", "conv_transpose_nhwc", "cummax", "cummin",
    "cumprod", "cumsum", "det", "dynamic_quantize_linear", "dynamic_quantize_lstm", "expand", "fused_attention",
    "fused_matmul_nbits", "group_norm", "gru", "int8_conv", "int8_conv_nhwc", "int8_matmul", "inverse", "lookup",
    "lp_pool", "lstm", "matmul_nbits", "max_pool", "max_pool_indices", "multinomial", "nll_loss", "rnn", "sample",
    "scatter_elements", "scatter_nd", "softmax_cross_entropy", "topk", "tree_ensemble",
})  # fmt: skip
_REDUCTIONS = frozenset({
    "add_norm", "argmax", "argmin", "batch_norm", "instance_norm", "layer_norm", "log_softmax", "lp_norm", "lrn",
    "mean_variance_norm", "moments", "rms_norm", "softmax",
})  # fmt: skip
_ELEMENTWISE = frozenset({"dequantize_linear", "quantize_linear", "region"})
_MOVES = frozenset({
    "affine_grid", "argsort", "cast", "col2im", "cond", "grid_sample", "loop", "resample", "resize", "roi_align",
    "rope", "rotary_embedding", "scan", "sort", "unique", "unique_bounded",
})  # fmt: skip


def category(node: Node) -> str:
    """Kind of a node: `compute`, `reduction`, `elementwise` or `movement`; anything unlisted computes."""
    name = node.op.name
    if name in _MOVES or node.op.has("movement"):
        return "movement"
    if name in _ELEMENTWISE or node.op.has("elementwise"):
        return "elementwise"
    if name in _REDUCTIONS or name.startswith("reduce_"):
        return "reduction"
    return "compute"


@record(frozen=True, repr=False)
class PrecisionPolicy:
    """The type that each kind of op rounds to, and the one that weights are stored in.

    Values of other types than f32 are never touched. Inputs, parameters and outputs keep their declared types.

    Attributes
    ----------
    compute : DType
        Products, convolutions, transforms, and every op that is not of another kind.
    reduction : DType
        Reductions, norms, softmax.
    elementwise : DType
        Arithmetic, comparisons, activations, quantisation.
    movement : DType
        What moves or resamples values, and control flow.
    storage : DType
        Weights of products, convolutions and lookups in memory. Half types are rounded to once, when the weight is
        set; the arithmetic is that of `compute`.
    ops : mapping of str to DType
        Types of single ops by name; they win over the kinds and over `force_f32`.
    force_f32 : frozenset of str
        Ops that stay in f32 whatever their kind.
    name : str

    Raises
    ------
    ConfigError
        A type is not f32, f16 or bf16, or `ops` names one that is neither of rlx nor registered.
    """

    compute: DType = f32
    reduction: DType = f32
    elementwise: DType = f32
    movement: DType = f32
    storage: DType = f32
    ops: Mapping[str, DType] = field(default_factory=dict, hash=False)
    force_f32: frozenset[str] = FORCE_F32
    name: str = "custom"

    def __post_init__(self) -> None:
        for what in (*CATEGORIES, "storage"):
            object.__setattr__(self, what, _type(getattr(self, what), f"PrecisionPolicy.{what}"))
        if not isinstance(self.ops, Mapping):
            raise ConfigError(f"PrecisionPolicy.ops: must be a mapping of op names to types, got {self.ops!r}")
        if self.ops:
            _check_ops(self.ops)
        object.__setattr__(self, "ops", {k: _type(v, f"PrecisionPolicy.ops[{k!r}]") for k, v in self.ops.items()})
        object.__setattr__(self, "force_f32", frozenset(self.force_f32))

    @classmethod
    def preset(cls, name: str) -> "PrecisionPolicy":
        """A policy by name; see `PRESETS`.

        Raises
        ------
        ConfigError
            There is no such preset.
        """
        if name not in PRESETS:
            raise ConfigError(f"PrecisionPolicy.preset: must be one of {sorted(PRESETS)}, got {name!r}")
        return PRESETS[name]

    @classmethod
    def custom(cls, kinds: Mapping[str, Any], **other: Any) -> "PrecisionPolicy":
        """A policy from a map of kinds to types; kinds that are missing stay in f32.

        Raises
        ------
        ConfigError
            A kind or an op is unknown, or a type is not f32, f16 or bf16.
        """
        known = (*CATEGORIES, "storage")
        unknown = [k for k in kinds if k not in known]
        if unknown:
            raise ConfigError(f"PrecisionPolicy.custom: kinds must be of {list(known)}, got {unknown}")
        return cls(**dict(kinds), **other)

    @cached_property
    def mixes(self) -> bool:
        """Whether any op rounds to a half type."""
        return any(getattr(self, c).is_half for c in CATEGORIES) or any(t.is_half for t in self.ops.values())

    def type_of(self, node: Node) -> DType:
        """The type that a node rounds to."""
        name = node.op.name
        if name in self.ops:
            return self.ops[name]
        if name in self.force_f32 or node.op.has("random") or node.op.has("stateful"):
            return f32
        kind: DType = getattr(self, category(node))
        return kind

    def __repr__(self) -> str:
        fields = {c: str(getattr(self, c)) for c in (*CATEGORIES, "storage")}
        ops = {k: str(v) for k, v in sorted(self.ops.items())}
        forced = "" if self.force_f32 == FORCE_F32 else f", force_f32={sorted(self.force_f32)}"
        return f"PrecisionPolicy({self.name!r}, {fields}, ops={ops}{forced})"

    def __str__(self) -> str:
        kinds = ", ".join(f"{c}={getattr(self, c)}" for c in (*CATEGORIES, "storage"))
        return f"{self.name} ({kinds})"


def _check_ops(names: Iterable[Any]) -> None:
    from rlx.ops import FAMILY, TABLE
    from rlx.ops._nearest import nearest

    for name in names:
        if name not in FAMILY and name not in TABLE:
            near = nearest(str(name), TABLE)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "ops.TABLE lists all"
            raise ConfigError(f"PrecisionPolicy.ops: must name ops, registered ones too, got {name!r}\nhint: {hint}")


def _type(value: Any, where: str) -> DType:
    found = dtypes.BY_NAME.get(value) if isinstance(value, str) else value
    if found not in (f32, f16, bf16):
        raise ConfigError(f"{where}: must be f32, f16 or bf16, got {value!r}")
    assert isinstance(found, DType)
    return found


PRESETS: dict[str, PrecisionPolicy] = {
    p.name: p
    for p in (
        PrecisionPolicy(name="f32"),
        PrecisionPolicy(name="f16", storage=f16),
        PrecisionPolicy(name="bf16", storage=bf16),
        PrecisionPolicy(name="always_f32"),
        PrecisionPolicy(f16, f16, f16, f16, name="always_f16"),
        PrecisionPolicy(f32, f16, f16, f32, name="auto_mixed"),
        PrecisionPolicy(f32, f32, f16, f32, name="auto_mixed_conservative"),
        PrecisionPolicy(bf16, bf16, bf16, bf16, name="auto_mixed_bf16"),
        PrecisionPolicy(f32, bf16, bf16, f32, name="auto_mixed_bf16_safe"),
    )
}


def as_policy(value: Any, where: str) -> PrecisionPolicy:
    """A policy from what a user may write: a policy, the name of a preset, or a type (to store weights in).

    Raises
    ------
    ConfigError
        It is none of these.
    """
    if isinstance(value, PrecisionPolicy):
        return value
    name = value.name if isinstance(value, DType) else value
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    raise ConfigError(
        f"{where}: must be a PrecisionPolicy or one of {list(PRESETS)}, got {value!r}"
        "\nhint: 8-bit weights come from a quantised model, not from an option"
    )


class _Mixer:
    """Rewrites one graph under a policy."""

    def __init__(self, graph: Graph, policy: PrecisionPolicy) -> None:
        from rlx.ops import TABLE

        self.policy = policy
        self.cast_op = TABLE["cast"]
        self.rewriter = Rewriter(graph)
        self.made: dict[tuple[Value, DType], Value] = {}
        self.changed = False

    def cast(self, value: Value, dtype: DType, like: Node) -> Value:
        """One cast per value and type."""
        if value.dtype == dtype:
            return value
        found = self.made.get((value, dtype))
        if found is None:
            (found,) = self.rewriter.graph.emit(self.cast_op, [value], {"dtype": dtype},
                                                name=f"{value.name}/{dtype}", loc=like.loc)  # fmt: skip
            self.made[(value, dtype)] = found
            self.changed = True
        return found

    def wide(self, value: Value, like: Node) -> Value:
        """The value in f32."""
        return self.cast(value, f32, like)

    def rounded(self, value: Value, dtype: DType, like: Node) -> Value:
        """The value rounded to a type, in f32."""
        if value.dtype.is_half and value.dtype != dtype:
            value = self.wide(value, like)
        return self.wide(self.cast(value, dtype, like), like)

    def operand(self, old: Value | None, dtype: DType, like: Node) -> Value | None:
        """A new operand for an old one, which is rounded or widened if it was f32."""
        new = self.rewriter.get(old)
        if old is None or new is None or old.dtype != f32:
            return new
        return self.wide(new, like) if dtype == f32 else self.rounded(new, dtype, like)

    def visit(self, node: Node) -> None:
        """Append the node in the type that the policy gives it."""
        r = self.rewriter
        if node.op.has("leaf"):
            r.copy(node)
            return
        dtype = self.policy.type_of(node)
        reads = any(v is not None and v.dtype == f32 for v in node.inputs)
        if node.op.name == "cast" or node.op.has("control") or not reads:
            dtype = f32  # a body goes through the pipeline on its own, and its boundary keeps its types
        inputs = [self.operand(v, dtype, node) for v in node.inputs]
        for old, new in zip(node.outputs, r.emit(node.op, inputs, node.attrs, node), strict=True):
            r.replace(old, self.cast(new, dtype, node) if old.dtype == f32 and dtype != f32 else new)

    def run(self) -> Graph:
        graph = self.rewriter.source
        for node in graph.nodes:
            self.visit(node)
        if not self.changed:
            return graph
        for value in graph.outputs.values():
            if value.dtype == f32:
                self.rewriter.replace(value, self.wide(self.rewriter.map[value], value.node))
        return self.rewriter.finish()


def auto_mixed_precision(graph: Graph, policy: PrecisionPolicy) -> Graph:
    """Round operands and results to the types of a policy: one cast per value and type, names and places kept."""
    return _Mixer(graph, policy).run() if policy.mixes else graph


def with_precision(pipeline: Pipeline, policy: PrecisionPolicy) -> Pipeline:
    """The pipeline with the passes of a policy.

    Weights are given their type before anything is fused, so that every fusion sees it; the casts of mixed
    precision come after patterns have been recognised, whose inside is not rounded, and before kernels are merged,
    which keeps every rounding.
    """
    if policy.storage.is_half:

        def store(graph: Graph) -> Graph:
            """Weights of products, convolutions and lookups get their type of storage."""
            from rlx.passes.stored import store_weights

            return store_weights(graph, policy.storage)

        pipeline = pipeline.insert(Pass("store-weights", store, True), after="widen-halves")
    if policy.mixes:

        def mix(graph: Graph) -> Graph:
            """Operands and results are rounded to the types of the policy."""
            return auto_mixed_precision(graph, policy)

        place = next(n for n in ("hoist-elementwise", "fuse-attention", "widen-halves") if n in pipeline)
        if place == "widen-halves" and policy.storage.is_half:
            place = "store-weights"
        pipeline = pipeline.insert(Pass("auto-mixed-precision", mix, True), after=place)
        if "fold-again" in pipeline:
            fold = replace(pipeline["fold-again"], name="fold-precision")
            pipeline = pipeline.insert(fold, after="auto-mixed-precision")
    return pipeline


__all__ = [
    "CATEGORIES", "FORCE_F32", "PRESETS", "PrecisionPolicy", "as_policy", "auto_mixed_precision", "category",
    "with_precision",
]  # fmt: skip
