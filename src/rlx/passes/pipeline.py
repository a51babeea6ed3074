"""The passes in order, as an object that can be printed, extended, reordered and thinned out."""

from collections.abc import Iterable, Iterator

from rlx.errors import ConfigError
from rlx.passes.base import Later, Pass


class Pipeline:
    """Passes in the order in which they run. Immutable: every method returns a new pipeline.

    Parameters
    ----------
    passes : iterable of Pass

    Raises
    ------
    ConfigError
        The order cannot work: a name twice, a required pass missing, or a pass
        before one that it must come after.
    """

    __slots__ = ("_index", "_passes")

    def __init__(self, passes: Iterable[Pass]) -> None:
        self._passes = tuple(passes)
        self._index: dict[str, int] = {}
        for i, p in enumerate(self._passes):
            if not isinstance(p, Pass):
                raise ConfigError(f"Pipeline: must be made of Pass objects, got {type(p).__name__}")
            if not isinstance(p.name, str) or not p.name or not callable(p.run):
                raise ConfigError(f"Pipeline: a pass must have a name and a function, got {p!r}")
            if p.name in self._index:
                raise ConfigError(f"Pipeline: names of passes must differ, got {p.name!r} twice")
            self._index[p.name] = i
        self._check()

    def _check(self) -> None:
        for p in REQUIRED:
            if p.name not in self._index:
                raise ConfigError(f"Pipeline: must hold the pass {p.name!r}, which lowering needs, got {self.names}")
        for i, p in enumerate(self._passes):
            for first in p.after:
                if self._index.get(first, -1) > i:
                    raise ConfigError(f"Pipeline: {p.name!r} must come after {first!r}, got {self.names}")

    @property
    def names(self) -> list[str]:
        """Names in order."""
        return [p.name for p in self._passes]

    def __iter__(self) -> Iterator[Pass]:
        return iter(self._passes)

    def __len__(self) -> int:
        return len(self._passes)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __getitem__(self, name: str) -> Pass:
        return self._passes[self._place(name)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self._passes == other._passes

    def __hash__(self) -> int:
        return hash(self._passes)

    def _place(self, name: str) -> int:
        at = self._index.get(name)
        if at is None:
            raise ConfigError(f"Pipeline: passes are {self.names}, got {name!r}")
        return at

    def _at(self, passes: list[Pass], p: Pass, before: str | None, after: str | None) -> "Pipeline":
        if (before is None) == (after is None):
            raise ConfigError(f"Pipeline: one of before= and after= must be given, got {before!r} and {after!r}")
        anchor = before if before is not None else after
        place = next((i for i, q in enumerate(passes) if q.name == anchor), None)
        if place is None:
            raise ConfigError(f"Pipeline: passes are {[q.name for q in passes]}, got {anchor!r}")
        passes.insert(place + (before is None), p)
        return Pipeline(passes)

    def insert(self, p: Pass, *, before: str | None = None, after: str | None = None) -> "Pipeline":
        """With one more pass, before or after the one that is named."""
        return self._at(list(self._passes), p, before, after)

    def append(self, p: Pass) -> "Pipeline":
        """With one more pass at the end."""
        return Pipeline((*self._passes, p))

    def move(self, name: str, *, before: str | None = None, after: str | None = None) -> "Pipeline":
        """With a pass at another place."""
        p = self[name]
        return self._at([q for q in self._passes if q is not p], p, before, after)

    def without(self, *names: str) -> "Pipeline":
        """Without some passes."""
        for name in names:
            self._place(name)
        return Pipeline(p for p in self._passes if p.name not in names)

    def replace(self, p: Pass) -> "Pipeline":
        """With `p` in the place of the pass of the same name."""
        at = self._place(p.name)
        return Pipeline((*self._passes[:at], p, *self._passes[at + 1 :]))

    def __repr__(self) -> str:
        return f"Pipeline({self.names})"

    def __str__(self) -> str:
        rows = [(str(i), p.name, "required" if p.required else "", p.summary) for i, p in enumerate(self._passes)]
        widths = [max((len(r[k]) for r in rows), default=0) for k in range(3)]
        return "\n".join("  ".join([r[0].rjust(widths[0]), r[1].ljust(widths[1]), r[2].ljust(widths[2]), r[3]]).rstrip()
                         for r in rows)


def _later(place: str) -> Later:
    """A function of a module of this package."""
    module, _, name = place.partition(".")
    return Later(f"rlx.passes.{module}", name)


def _pass(name: str, place: str, ops: str = "", *, after: tuple[str, ...] = (), evaluates: bool = False) -> Pass:
    return Pass(name, _later(place), evaluates=evaluates, after=after, ops=frozenset(ops.split()))


# Fusions work on what has been decomposed and widened: their results exist in f32 and f64 only.
_BASE = ("decompose", "widen-halves")
REQUIRED = (Pass("decompose", _later("decompose.decompose"), True),
            Pass("widen-halves", _later("halves.widen_halves"), True, after=("decompose",)))
_SIMPLE = "reshape expand transpose slice cast concat gather max min clip neg mul div sub add pow"
# Of the ops named, a graph must have one for the pass to find anything.
DEFAULT = Pipeline([
    _pass("eliminate-dead", "cleanup.eliminate_dead"),
    _pass("simplify", "cleanup.simplify", _SIMPLE),
    # before the weights' dequantisation is folded:
    _pass("fuse-quantised", "fuse_quantised.fuse_quantised", "dequantize_linear matmul_integer conv_integer"),
    _pass("weight-only", "weight_only.keep_codes", "dequantize_linear cast"),
    _pass("fold-constants", "cleanup.fold_constants", evaluates=True),
    _pass("sink-constants", "bodies.sink_constants", "cond loop scan"),
    _pass("skip-loops", "bodies.skip_loops", "loop scan"),
    _pass("inline-branches", "cleanup.inline_branches", "cond"),
    _pass("merge-common", "cleanup.merge_common"),
    _pass("fold-batch-norm", "fuse_conv.fold_batch_norm", "conv conv_transpose"),
    _pass("move-denormals", "denormals.move_denormals", "conv conv_transpose matmul"),
    _pass("fuse-activations", "fuse_activations.fuse_activations", "mul div max gelu"),
    _pass("fuse-norm", "fuse_norm.fuse_norm", "reduce_mean"),
    *REQUIRED,
    _pass("fold-again", "cleanup.fold_constants", evaluates=True),
    _pass("keep-channels-first", "conv_alone.keep_channels_first", "conv conv_transpose"),
    _pass("channels-last", "layout.channels_last", "conv conv_transpose int8_conv"),
    _pass("simplify-again", "cleanup.simplify", _SIMPLE),
    _pass("merge-again", "cleanup.merge_common"),
    _pass("reduce-stacks", "hoist.reduce_stacks", "reduce_max reduce_min reduce_sum reduce_prod"),
    _pass("one-hot-lookup", "hoist.look_up_one_hot", "eq"),
    _pass("fuse-attention", "fuse_attention.fuse_attention", "softmax fused_attention", after=_BASE),
    _pass("hoist-elementwise", "hoist.hoist_elementwise", "reshape transpose"),
    _pass("fuse-conv", "fuse_conv.fuse_conv", "conv_nhwc conv_transpose_nhwc int8_conv_nhwc conv_alone", after=_BASE),
    _pass("winograd", "winograd.use_winograd", "conv_nhwc", after=_BASE),
    _pass("fuse-matmul", "fuse_matmul.fuse_matmul", "matmul int8_matmul matmul_nbits", after=_BASE),
    _pass("half-weights", "half_weights.half_weights", "cast", after=_BASE),
    _pass("fuse-add-norm", "fuse_norm.fuse_add_norm", "layer_norm rms_norm", after=_BASE),
    _pass("fuse-elementwise", "fuse_elementwise.fuse_elementwise", after=_BASE),
    _pass("tabulate", "tabulate.tabulate", "region", evaluates=True, after=_BASE),
])
UNOPTIMISED = Pipeline(REQUIRED)
PASSES = tuple(DEFAULT.names)


def default_pipeline(*, optimize: bool = True) -> Pipeline:
    """Passes in order; without `optimize` only those that lowering needs."""
    return DEFAULT if optimize else UNOPTIMISED


__all__ = ["DEFAULT", "PASSES", "Pipeline", "default_pipeline"]
