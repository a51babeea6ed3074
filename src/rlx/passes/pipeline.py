"""The default pipeline, in order, and how constant folding gets its evaluator."""

from collections.abc import Callable
from functools import partial

from rlx.ir.graph import Graph
from rlx.ir.opdef import Array
from rlx.passes.base import Pass
from rlx.passes.cleanup import (
    eliminate_dead,
    fold_constants,
    inline_branches,
    merge_common,
    simplify,
)
from rlx.passes.decompose import decompose
from rlx.passes.fuse_activations import fuse_activations
from rlx.passes.fuse_attention import fuse_attention
from rlx.passes.fuse_conv import fold_batch_norm, fuse_conv
from rlx.passes.fuse_elementwise import fuse_elementwise
from rlx.passes.fuse_matmul import fuse_matmul
from rlx.passes.fuse_norm import fuse_add_norm, fuse_norm
from rlx.passes.fuse_quantised import depthwise_in_floats, fuse_quantised
from rlx.passes.halves import widen_halves
from rlx.passes.hoist import hoist_elementwise, look_up_one_hot, reduce_stacks
from rlx.passes.layout import channels_last
from rlx.passes.tabulate import tabulate
from rlx.passes.winograd import use_winograd

Evaluate = Callable[[Graph], dict[str, Array]]


def default_pipeline(evaluate: Evaluate, *, optimize: bool = True) -> list[Pass]:
    """Passes in order; without `optimize` only those that lowering needs.

    Parameters
    ----------
    evaluate : callable
        Compiles and runs a graph without inputs (for constant folding).
    """
    required = [Pass("decompose", decompose, True), Pass("widen-halves", widen_halves, True)]
    if not optimize:
        return required
    fold = Pass("fold-constants", lambda g: fold_constants(g, evaluate))
    return [
        Pass("eliminate-dead", eliminate_dead),
        Pass("simplify", simplify),
        Pass("fuse-quantised", fuse_quantised),  # before the weights' dequantisation is folded
        fold,
        Pass("inline-branches", inline_branches),
        Pass("merge-common", merge_common),
        Pass("fold-batch-norm", fold_batch_norm),
        Pass("fuse-activations", fuse_activations),
        Pass("fuse-norm", fuse_norm),
        *required,
        Pass("depthwise-in-floats", depthwise_in_floats),
        Pass("fold-again", fold.run),
        Pass("channels-last", channels_last),
        Pass("simplify-again", simplify),
        Pass("merge-again", merge_common),
        Pass("reduce-stacks", reduce_stacks),
        Pass("one-hot-lookup", look_up_one_hot),
        Pass("fuse-attention", fuse_attention),
        Pass("hoist-elementwise", hoist_elementwise),
        Pass("fuse-conv", fuse_conv),
        Pass("winograd", use_winograd),
        Pass("fuse-matmul", fuse_matmul),
        Pass("fuse-add-norm", fuse_add_norm),
        Pass("fuse-elementwise", fuse_elementwise),
        Pass("tabulate", partial(tabulate, evaluate=evaluate)),
    ]


PASSES = tuple(p.name for p in default_pipeline(lambda g: {}))
