"""Recurrent layers: a step at a time, and whole sequences."""

from typing import Any

from benchmarks import common
from benchmarks.common import data
from rlx import ops


def _layer(op: Any, gates: int) -> Any:
    def make(size: Any, dtype: str) -> Any:
        steps, batch, features, hidden = size
        weights = [data((1, gates * hidden, features), dtype, 1), data((1, gates * hidden, hidden), dtype, 2)]
        return lambda x, w, r: op(x, w, r), [data((steps, batch, features), dtype)], weights, None

    return make


def _int8(size: Any, dtype: str) -> Any:
    steps, batch, features, hidden = size
    weights = [data((1, n, 4 * hidden), "i8", n) for n in (features, hidden)]
    scales = [data((1,), dtype, 3) * 0 + 1e-3] * 2
    return ops.dynamic_quantize_lstm, [data((steps, batch, features), dtype)], [*weights, *scales], None


class Recurrent(common.Family):
    """(steps, batch, features, hidden)."""

    families = ("rnn",)
    cases = {"lstm": _layer(ops.lstm, 4), "gru": _layer(ops.gru, 3), "rnn": _layer(ops.rnn, 1), "lstm, 8 bits": _int8}
    params = common.axes(cases, ("f32",), [(1, 1, 128, 128), (32, 1, 128, 128), (64, 16, 64, 64), (20, 8, 128, 256)])
