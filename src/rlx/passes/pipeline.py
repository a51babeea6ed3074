"""The passes in order, as an object that can be printed, extended, reordered and thinned out."""

from collections.abc import Iterable, Iterator

from rlx.errors import ConfigError
from rlx.passes.base import Pass
from rlx.passes.bodies import sink_constants, skip_loops
from rlx.passes.cleanup import (
    eliminate_dead,
    fold_constants,
    inline_branches,
    merge_common,
    simplify,
)
from rlx.passes.conv_alone import keep_channels_first
from rlx.passes.decompose import decompose
from rlx.passes.fuse_activations import fuse_activations
from rlx.passes.fuse_attention import fuse_attention
from rlx.passes.fuse_conv import fold_batch_norm, fuse_conv
from rlx.passes.fuse_elementwise import fuse_elementwise
from rlx.passes.fuse_matmul import fuse_matmul
from rlx.passes.fuse_norm import fuse_add_norm, fuse_norm
from rlx.passes.fuse_quantised import depthwise_in_floats, fuse_quantised
from rlx.passes.half_weights import half_weights
from rlx.passes.halves import widen_halves
from rlx.passes.hoist import hoist_elementwise, look_up_one_hot, reduce_stacks
from rlx.passes.layout import channels_last
from rlx.passes.tabulate import tabulate
from rlx.passes.weight_only import keep_codes
from rlx.passes.winograd import use_winograd
from rlx.records import replace


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


# Fusions work on what has been decomposed and widened: their results exist in f32 and f64 only.
_BASE = ("decompose", "widen-halves")
REQUIRED = (Pass("decompose", decompose, True), Pass("widen-halves", widen_halves, True, after=("decompose",)))
_FOLD = Pass("fold-constants", fold_constants, evaluates=True)
DEFAULT = Pipeline([
    Pass("eliminate-dead", eliminate_dead),
    Pass("simplify", simplify),
    Pass("fuse-quantised", fuse_quantised),  # before the weights' dequantisation is folded
    Pass("weight-only", keep_codes),
    _FOLD,
    Pass("sink-constants", sink_constants),
    Pass("skip-loops", skip_loops),
    Pass("inline-branches", inline_branches),
    Pass("merge-common", merge_common),
    Pass("fold-batch-norm", fold_batch_norm),
    Pass("fuse-activations", fuse_activations),
    Pass("fuse-norm", fuse_norm),
    *REQUIRED,
    Pass("depthwise-in-floats", depthwise_in_floats),
    replace(_FOLD, name="fold-again"),
    Pass("keep-channels-first", keep_channels_first),
    Pass("channels-last", channels_last),
    Pass("simplify-again", simplify),
    Pass("merge-again", merge_common),
    Pass("reduce-stacks", reduce_stacks),
    Pass("one-hot-lookup", look_up_one_hot),
    Pass("fuse-attention", fuse_attention, after=_BASE),
    Pass("hoist-elementwise", hoist_elementwise),
    Pass("fuse-conv", fuse_conv, after=_BASE),
    Pass("winograd", use_winograd, after=_BASE),
    Pass("fuse-matmul", fuse_matmul, after=_BASE),
    Pass("half-weights", half_weights, after=_BASE),
    Pass("fuse-add-norm", fuse_add_norm, after=_BASE),
    Pass("fuse-elementwise", fuse_elementwise, after=_BASE),
    Pass("tabulate", tabulate, evaluates=True, after=_BASE),
])
UNOPTIMISED = Pipeline(REQUIRED)
PASSES = tuple(DEFAULT.names)


def default_pipeline(*, optimize: bool = True) -> Pipeline:
    """Passes in order; without `optimize` only those that lowering needs."""
    return DEFAULT if optimize else UNOPTIMISED


__all__ = ["DEFAULT", "PASSES", "Pipeline", "default_pipeline"]
