"""Strings: they live on the host."""

import itertools
from typing import Any

import numpy as np

from rlx._kernels import _text
from rlx.errors import FormatError
from rlx.onnx import hostcalls
from rlx.onnx.context import NodeContext
from rlx.onnx.registry import onnx_op


@onnx_op("StringConcat")
def _concat(n: NodeContext) -> Any:
    return n.host(hostcalls.string_concat(), fixed=True, floats=False, fresh=True)


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
    function = hostcalls.normalise_strings(change=change, sensitive=sensitive, stop=stop, ascii_only=ascii_only)
    return n.host(function, fixed=not stop, floats=False, fresh=bool(stop))


@onnx_op("StringSplit")
def _split(n: NodeContext) -> Any:
    delimiter, most = n.str("delimiter", None) or None, n.int("maxsplit", None)

    function = hostcalls.split_strings(delimiter=delimiter, most=-1 if most is None else most)
    return n.host(function, floats=False, fresh=True)


@onnx_op("RegexFullMatch")
def _regex(n: NodeContext) -> Any:
    return n.host(hostcalls.full_match(pattern=n.str("pattern")), fixed=True, floats=False, fresh=True)


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
    placed = {g: places[i] for g, i in grams.items()}
    function = hostcalls.count_grams(grams=placed, skips=skips, scale=scale, mode=mode)
    return n.host(function, fixed=True, floats=False, fresh=True)


@onnx_op("Tokenizer", domain="com.microsoft")
def _tokenizer(n: NodeContext) -> Any:
    mark, shortest, fill = n.int("mark", 0), n.int("mincharnum", 1), n.str("pad_value", "#")
    separators, expression = n.strs("separators", None), n.str("tokenexp", None)
    function = hostcalls.tokenise(expression=expression, separators=separators, shortest=shortest, mark=bool(mark),
                                  fill=fill)
    return n.host(function, floats=False, fresh=True)
