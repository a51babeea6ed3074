"""Strings: they live on the host."""

import itertools
import re
from array import array
from typing import Any

import numpy as np

from rlx.errors import FormatError
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import onnx_op
from rlx.onnx.tensors import Array


@onnx_op("StringConcat")
def _concat(n: NodeContext) -> Any:
    return n.host(lambda a, b: np.asarray(np.add(a, b), object))


@onnx_op("StringNormalizer")
def _normalizer(n: NodeContext) -> Any:
    case = n.str("case_change_action", "NONE")
    sensitive = bool(n.int("is_case_sensitive", 0))
    stop = set(n.strs("stopwords", None) or [])
    stop = stop if sensitive else {s.lower() for s in stop}
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)

    def run(x: Array) -> Array:
        items = x.reshape(-1).tolist()
        if stop:
            items = [s for s in items if (s if sensitive else s.lower()) not in stop]
        result = np.empty(max(1, len(items)), object)
        result[:] = list(map(change, items)) or ""
        return result[None, :] if x.ndim == 2 else result

    return n.host(run, fixed=not stop, floats=False)


@onnx_op("StringSplit")
def _split(n: NodeContext) -> Any:
    delimiter, most = n.str("delimiter", None) or None, n.int("maxsplit", None)

    def run(x: Array) -> Any:
        parts = [
            s.split(delimiter, -1 if most is None else most) if delimiter or s.strip() else [] for s in x.reshape(-1)
        ]
        if delimiter is not None:
            parts = [p if s else [] for p, s in zip(parts, x.reshape(-1), strict=True)]
        width = max(map(len, parts), default=0)
        table = np.full((x.size, width), "", object)
        for row, p in zip(table, parts, strict=True):
            row[: len(p)] = p
        counts = np.asarray([len(p) for p in parts], np.int64).reshape(x.shape)
        return table.reshape(*x.shape, width), counts

    return n.host(run)


@onnx_op("RegexFullMatch")
def _regex(n: NodeContext) -> Any:
    pattern = _compiled(n.str("pattern"))
    return n.host(lambda x: np.asarray([bool(pattern.fullmatch(s)) for s in x.reshape(-1)], np.bool_).reshape(x.shape))


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
    lengths = sorted({len(g) for g in grams} - {1})
    singles = {g[0]: places[i] for g, i in grams.items() if len(g) == 1}
    longer = {g: places[i] for g, i in grams.items() if len(g) > 1}

    def run(x: Array) -> Array:
        rows = x.tolist() if x.ndim > 1 else [x.reshape(-1).tolist()]
        counts = array("f", bytes(4 * len(rows) * width))
        for row, items in enumerate(rows):
            first = row * width
            for at in map(singles.get, items) if singles else ():
                if at is not None:
                    counts[first + at] += 1.0
            for length in lengths:
                for step in range(1, skips + 2):
                    for gram in zip(*[items[k * step :] for k in range(length)], strict=False):
                        if gram in longer:
                            counts[first + longer[gram]] += 1.0
        table = np.frombuffer(counts, np.float32).reshape(len(rows), width)
        if mode == "IDF":
            table = np.where(table > 0, scale, np.float32(0))
        elif mode == "TFIDF":
            table *= scale
        return table[0] if x.ndim < 2 else table

    return n.host(run, fixed=True)


@onnx_op("Tokenizer", domain="com.microsoft")
def _tokenizer(n: NodeContext) -> Any:
    mark, shortest, fill = n.int("mark", 0), n.int("mincharnum", 1), n.str("pad_value", "#")
    separators, expression = n.strs("separators", None), n.str("tokenexp", None)
    split = separators is not None and separators not in ([], [""])
    pattern = _compiled(expression or "|".join(separators or [])) if expression or split else None

    def tokens(text: str) -> list[str]:
        if pattern is None:
            found = list(text)
        elif not expression:
            found = pattern.split(text)
        else:
            found = pattern.findall(text) if not pattern.groups else [m.group(0) for m in pattern.finditer(text)]
        return list(filter(None, found)) if shortest == 1 else [t for t in found if len(t) >= shortest]

    def run(x: Array) -> Array:
        rows = list(map(tokens, x.reshape(-1).tolist()))
        if mark:
            rows = [["\x02", *r, "\x03"] for r in rows]
        width = max(map(len, rows), default=0)
        padded = [t for r in rows for t in r + [fill] * (width - len(r))]
        return np.fromiter(padded, object, len(padded)).reshape(*x.shape, width)

    return n.host(run, floats=False)


def _compiled(expression: str) -> "re.Pattern[str]":
    try:
        return re.compile(expression)
    except re.error as error:
        raise FormatError(f"the pattern must be a regular expression, got {expression!r} ({error})") from None
