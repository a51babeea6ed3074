"""Strings: they live on the host."""

import itertools
from typing import Any

import numpy as np

from rlx._kernels import _text
from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.patterns import Split, finder, matcher, splitter
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array


@onnx_op("StringConcat")
def _concat(n: NodeContext) -> Any:
    def run(a: Array, b: Array) -> Array:
        if a.shape != b.shape:
            a, b = map(np.ascontiguousarray, np.broadcast_arrays(a, b))
        return _text.joined(a, b)

    return n.host(run, fixed=True, floats=False, fresh=True)


@onnx_op("StringNormalizer")
def _normalizer(n: NodeContext) -> Any:
    case = n.str("case_change_action", "NONE")
    sensitive = bool(n.int("is_case_sensitive", 0))
    ascii_only = n.str("locale", "") in ("C", "POSIX")  # where only they have cases
    change = {"LOWER": 1, "UPPER": 2}.get(case, 0)
    stop: frozenset[str] = frozenset(n.strs("stopwords", None) or [])
    if not sensitive:
        words = np.asarray([*stop, ""], object)[:-1]
        stop = frozenset(_text.change_case(words, 1, ascii_only).tolist())
    if not stop:
        return n.host(
            lambda x: _text.change_case(x, change, ascii_only) if x.size else _nothing(x), fixed=True, floats=False
        )

    def run(x: Array) -> Array:
        kept = _text.change_case(_text.without(x, stop, not sensitive, ascii_only), change, ascii_only)
        return (kept[None, :] if x.ndim == 2 else kept) if kept.size else _nothing(x)

    return n.host(run, floats=False, fresh=True)


def _nothing(x: Array) -> Array:
    """What is left when no word is: one empty string."""
    return np.full((1, 1) if x.ndim == 2 else 1, "", object)


@onnx_op("StringSplit")
def _split(n: NodeContext) -> Any:
    delimiter, most = n.str("delimiter", None) or None, n.int("maxsplit", None)

    def run(x: Array) -> Any:
        rows = _text.split(x, delimiter, -1 if most is None else most)
        return _text.padded(rows, x.shape, ""), _text.lengths(rows, x.shape)

    return n.host(run, floats=False, fresh=True)


@onnx_op("RegexFullMatch")
def _regex(n: NodeContext) -> Any:
    return n.host(matcher(n.str("pattern")), fixed=True, floats=False, fresh=True)


@onnx_op("TfIdfVectorizer")
def _tfidf(n: NodeContext) -> Any:
    mode = n.str("mode")
    longest, shortest, skips = n.int("max_gram_length"), n.int("min_gram_length"), n.int("max_skip_count")
    counts, places = n.ints("ngram_counts"), n.ints("ngram_indexes")
    weights = n.floats("weights", None)
    pool: list[Any] = n.strs("pool_strings", None) or n.ints("pool_int64s", None) or []
    grams: dict[tuple[Any, ...], int] = {}
    edges = [*counts, len(pool)]
    number = 0
    for length, (a, b) in enumerate(itertools.pairwise(edges), 1):
        for start in range(a, b, length):
            if shortest <= length <= longest:
                grams[tuple(pool[start : start + length])] = number
            number += 1
    if number > len(places):
        raise FormatError(f"ngram_indexes must have {number} entries, got {len(places)}")
    width = max(places, default=-1) + 1

    scale = np.ones(width, np.float32)
    if weights:
        scale[np.asarray(places[: len(weights)])] = weights
    count = _grams({g: places[i] for g, i in grams.items()}, skips, width)
    plain = mode == "TF" or bool((scale == 1).all()) and mode != "IDF"

    def run(x: Array) -> Array:
        rows = len(x) if x.ndim > 1 else 1
        items = x if x.dtype == object else np.asarray(x, object)
        table = count(items, rows)
        if not plain:
            table = np.where(table > 0, scale, np.float32(0)) if mode == "IDF" else table * scale
        return table[0] if x.ndim < 2 else table

    return n.host(run, fixed=True, floats=False, fresh=True)


def _grams(places: dict[tuple[Any, ...], int], skips: int, width: int) -> _text.Grams:
    """Counter of n-grams, each with the place it counts in."""
    numbers: dict[Any, int] = {}
    nodes: dict[tuple[Any, ...], int] = {(): 0}
    edges: list[tuple[int, int, int]] = []
    for gram in places:
        for end, item in enumerate(gram, 1):
            number = numbers.setdefault(item, len(numbers))
            if gram[:end] not in nodes:
                nodes[gram[:end]] = len(nodes)
                edges.append((nodes[gram[: end - 1]], number, nodes[gram[:end]]))
    longest = max((len(g) for g in places), default=1)
    return _text.Grams(numbers, edges, [places.get(g, -1) for g in nodes], longest, skips, width)


@onnx_op("Tokenizer", domain="com.microsoft")
def _tokenizer(n: NodeContext) -> Any:
    mark, shortest, fill = n.int("mark", 0), n.int("mincharnum", 1), n.str("pad_value", "#")
    separators, expression = n.strs("separators", None), n.str("tokenexp", None)
    split: Split
    if expression and expression != ".":  # that one means every letter, line ends too
        split = finder(expression, shortest)
    elif not expression and separators and separators != [""]:
        split = splitter(separators, shortest)
    else:
        split = list if shortest == 1 else _no_tokens

    def run(x: Array) -> Array:
        rows = _text.rows_of(x, split)
        if mark:
            rows = [["\x02", *r, "\x03"] for r in rows]
        return _text.padded(rows, x.shape, fill)

    return n.host(run, floats=False, fresh=True)


def _no_tokens(text: str) -> list[str]:
    return []
