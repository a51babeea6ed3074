"""Ops on strings against ONNX Runtime: tokens, counts, tables, cases; and what patterns mean."""

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import rlx
from rlx._kernels import _text
from rlx.onnx.patterns import finder, letters, matcher, splitter, translate

ort = pytest.importorskip("onnxruntime")

TEXTS = ["", " ", "The cat sat", "a,b;;c  d", "\u00c4rger_1 na\u00efve x2", "\u65e5\u672c aB 42\n",
         "aab ab b", "\U0001f600 a"]  # fmt: skip
DOMAINS = {"Tokenizer": "com.microsoft", "LabelEncoder": "ai.onnx.ml", "OneHotEncoder": "ai.onnx.ml",
           "CategoryMapper": "ai.onnx.ml"}  # fmt: skip


def objects(items: Any) -> Any:
    return np.asarray(items, object)


def build(op: str, kinds: list[int], *shapes: Any, **attrs: Any) -> bytes:
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(op, names, [f"y{i}" for i in range(len(kinds))], domain=DOMAINS.get(op, ""), **attrs)
    given = [helper.make_tensor_value_info(n, TensorProto.STRING, s) for n, s in zip(names, shapes, strict=True)]
    graph = helper.make_graph(
        [node], "g", given, [helper.make_tensor_value_info(f"y{i}", k, None) for i, k in enumerate(kinds)])  # fmt: skip
    opsets = {"": 20, "com.microsoft": 1, "ai.onnx.ml": 2}
    imports = [helper.make_opsetid(*o) for o in opsets.items()]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    return made


def both(op: str, kinds: list[int], *xs: Any, **attrs: Any) -> None:
    """The same from ONNX Runtime and from two runs of ours."""
    proto = build(op, kinds, *(x.shape for x in xs), **attrs)
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    feeds = {f"x{i}": x for i, x in enumerate(xs)}
    want = ort.InferenceSession(proto, quiet, providers=["CPUExecutionProvider"]).run(None, feeds)
    mine = rlx.load(proto)
    for _ in range(2):
        for have, w in zip(mine.run(feeds).values(), want, strict=True):
            assert have.dtype == w.dtype and have.shape == w.shape
            np.testing.assert_array_equal(have, w)


STRING, INT64, FLOAT, BOOL = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


@pytest.mark.parametrize("expression", [
    "[a-zA-Z]+", "\\w+", "\\w\\w+", "[^\\s]+", "\\S{2,}", "\\b\\w\\w+\\b", "a|ab", "[a-z]+|[0-9]+",
    "[[:alpha:]]+", "(a)(b)?", "a*", ".", "[\\w-]+", "[^a-z]+", "\\d", "a b|a", "(?i)[a-c]+", "[]a]+", "x$",
])  # fmt: skip
@pytest.mark.parametrize("least", [1, 2])
def test_tokens_of_an_expression(expression: str, least: int) -> None:
    if expression == "." and least > 1:
        expression = "[^,]"  # ONNX Runtime refuses the other
    both("Tokenizer", [STRING], objects(TEXTS), mark=0, mincharnum=least, pad_value="#", tokenexp=expression)


@pytest.mark.parametrize("separators", [
    [" "], [",", ";"], ["b", "ab"], ["ab", "b"], ["a|ab"], ["[,; ]+"], [" ", "c+"], [";;"], [""], ["\\s"], ["x"],
])  # fmt: skip
@pytest.mark.parametrize(("least", "mark"), [(1, 0), (1, 1), (2, 0)])
def test_tokens_between_separators(separators: list[str], least: int, mark: int) -> None:
    if separators == [""] and least > 1:
        assert splitter([" "], least)("ab c") == ["ab"]  # ONNX Runtime refuses the other
        return
    both("Tokenizer", [STRING], objects(TEXTS), mark=mark, mincharnum=least, pad_value="#", separators=separators)


def test_tokens_of_a_table_of_texts() -> None:
    x = objects([["a b", "c"], ["", "d e f"]])
    both("Tokenizer", [STRING], x, mark=0, mincharnum=1, pad_value="", tokenexp="[a-z]+")


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stop", [None, ["THE", "cat"]])
def test_cases_of_the_c_locale(action: str, sensitive: int, stop: list[str] | None) -> None:
    words = ["The", "cat", "CAT", "\u00c4\u00f6", "\u0130I", "\u65e5", "", "zZ[{@`"]
    attrs: dict[str, Any] = {"stopwords": stop} if stop else {}
    for x in (objects(words), objects([words]), objects(["cat", "THE"])):
        both("StringNormalizer", [STRING], x, case_change_action=action, is_case_sensitive=sensitive, locale="C",
             **attrs)  # fmt: skip


def test_letters_of_other_locales_change_one_by_one() -> None:
    x = objects(["\u00c4\u00df\u03a3", "A\u0416"])
    assert _text.change_case(x, 1, False).tolist() == ["\u00e4\u00df\u03c3", "a\u0436"]
    assert _text.change_case(x, 2, False).tolist() == ["\u00c4\u00df\u03a3", "A\u0416"]


GRAMS = ["a", "b", "c", "a", "b", "b", "c", "c", "c", "a", "b", "c"]


@pytest.mark.parametrize(
    ("shortest", "longest", "skips"), [(1, 1, 0), (1, 2, 0), (2, 2, 1), (1, 3, 0), (1, 3, 2), (3, 3, 1)]
)
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_counts_of_n_grams(shortest: int, longest: int, skips: int, mode: str) -> None:
    rng = np.random.default_rng(3)
    x = objects(rng.choice(["a", "b", "c", "d"], (5, 9)).tolist())
    both("TfIdfVectorizer", [FLOAT], x, mode=mode, min_gram_length=shortest, max_gram_length=longest,
         max_skip_count=skips, ngram_counts=[0, 3, 9], ngram_indexes=[4, 0, 2, 1, 3, 5, 6],
         pool_strings=GRAMS, weights=[0.5, 2.0, 1.0, 3.0, 1.5, 0.25, 4.0])  # fmt: skip


def test_counts_of_numbers_and_of_one_row() -> None:
    grams = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2],
             "ngram_indexes": [0, 1, 2], "pool_int64s": [5, 6, 5, 6]}  # fmt: skip
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **grams)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", INT64, [None])],
                              [helper.make_tensor_value_info("y", FLOAT, None)])  # fmt: skip
    made = rlx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    assert made.run({"x": np.int64([5, 6, 5, 7])})["y"].tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    "attrs", [{"delimiter": ","}, {"delimiter": ",", "maxsplit": 1}, {}, {"maxsplit": 1}, {"delimiter": ""}]
)
def test_splits(attrs: dict[str, Any]) -> None:
    for x in (objects(["a,b c", " a  b c ", "", ",a,", ",", "  "]), objects([["x,y", "z"]]), objects(["", ""])):
        if "delimiter" not in attrs:
            x = objects([s.rstrip() for s in x.flat]).reshape(x.shape)  # ONNX Runtime drops blanks at the end
        both("StringSplit", [STRING, INT64], x, **attrs)


def test_concatenation_broadcasts() -> None:
    both("StringConcat", [STRING], objects(["a", "\u00e4"]), objects(["", "z"]))
    both("StringConcat", [STRING], objects([["a"], ["b"]]), objects([["x", "y"]]))


@pytest.mark.parametrize("pattern", ["[a-z]+", "\\w*", "a$", "a\\z", ".*", "(a|ab)(c|bcd)?", "\\d{2,}", "[^\\n]*",
                                     "\\s", "\\Qa.b\\E", "(?i)\u00e9", "\\bab\\b", "[[:digit:][:space:]]+",
                                     "a{2}b"])  # fmt: skip
def test_full_matches(pattern: str) -> None:
    x = objects(["a", "ab", "abcd", "", "a.b", "aab", "12", "1", "\u0663", "\u00c9", "a\n", "\x0b", " ", "4 2", "Ab"])
    both("RegexFullMatch", [BOOL], x, pattern=pattern)


def test_tables() -> None:
    x = objects([["a", "zz"], ["\u00fc", "a"]])
    keys = ["a", "b", "\u00fc"]
    both("LabelEncoder", [INT64], x, keys_strings=keys, values_int64s=[3, -4, 2**40], default_int64=-7)
    both("LabelEncoder", [FLOAT], x, keys_strings=keys, values_floats=[0.5, 1.5, -2.5], default_float=9.25)
    both("LabelEncoder", [STRING], x, keys_strings=keys, values_strings=["x", "y", "z"], default_string="?")
    both("CategoryMapper", [INT64], x, cats_strings=keys, cats_int64s=[7, 8, 9], default_int64=0)
    both("OneHotEncoder", [FLOAT], x, cats_strings=keys, zeros=1)


def test_numbers_to_names() -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[1, -5],
                            values_strings=["one", "neg"], default_string="none")  # fmt: skip
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", INT64, [None])],
                              [helper.make_tensor_value_info("y", STRING, None)])  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 2)]
    made = rlx.load(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    assert made.run({"x": np.int64([1, 2, -5])})["y"].tolist() == ["one", "none", "neg"]


def test_texts_of_new_widths_use_the_plans_they_need() -> None:
    """The number of tokens is known when they have been counted: each is a branch of the plan."""
    made = rlx.load(build("Tokenizer", [STRING], [None], mark=0, mincharnum=1, pad_value="#", tokenexp="[a-z]+"))
    for n in [*range(40), 3, 39, 0]:
        assert made.run({"x0": objects(["a " * n])})["y0"].shape == (1, n)


def test_elements_that_are_no_strings_are_refused() -> None:
    made = rlx.load(build("StringNormalizer", [STRING], [None], case_change_action="UPPER", locale="C"))
    assert made.run({"x0": objects(["a"])})["y0"].tolist() == ["A"]
    assert made.run({"x0": objects([b"a"])})["y0"].tolist() == ["A"]
    assert made.run({"x0": np.array(["b"])})["y0"].tolist() == ["B"]
    for bad in (None, 3, b"\xff", ["a"]):
        x = np.empty(1, object)
        x[0] = bad
        with pytest.raises(rlx.BindingTypeError, match="x0"):
            made.run({"x0": x})
    x = objects([["a", "b"], ["c", "d"]])[:, 0]  # not contiguous
    assert made.run({"x0": x})["y0"].tolist() == ["A", "C"]


def test_compiled_loops_refuse_other_arrays() -> None:
    numbers = np.zeros(3)
    for call in (lambda: _text.change_case(numbers, 1, True), lambda: _text.positions(numbers, {}, 0),
                 lambda: _text.one_hot(numbers, {}, 2), lambda: _text.split(numbers, None, -1),
                 lambda: _text.change_case(objects([1]), 1, True), lambda: _text.names(numbers, {}, "")):  # fmt: skip
        with pytest.raises(TypeError, match="must be"):
            call()
    with pytest.raises(ValueError, match="edges"):
        _text.Grams({"a": 0}, [(0, 5, 1)], [0, 0], 1, 0, 1)
    with pytest.raises(ValueError, match="places"):
        _text.Grams({"a": 0}, [], [4], 1, 0, 1)


def test_threads_of_a_run_of_several_steps() -> None:
    made = rlx.load(build("StringNormalizer", [STRING], [None], case_change_action="UPPER", locale="C"))
    for threads in (None, 1, 2, None):
        assert made.run({"x0": objects(["a", "b"])}, threads=threads)["y0"].tolist() == ["A", "B"]
    for bad in (0, -1, 1.5, True):
        with pytest.raises(rlx.ConfigError, match="threads"):
            made.run({"x0": objects(["a", "b"])}, threads=bad)


def test_results_belong_to_the_caller() -> None:
    made = rlx.load(build("StringNormalizer", [STRING], [None], case_change_action="NONE", locale="C"))
    x = objects(["a", "b"])
    y = made.run({"x0": x})["y0"]
    y[0] = "changed"
    assert x.tolist() == ["a", "b"] and made.run({"x0": x})["y0"].tolist() == ["a", "b"]


def test_patterns_that_are_sets_of_letters_are_known() -> None:
    for known in ("[a-z]+", "\\w+", "a*", "[^ ]{3,}", "\\d\\d+", "\\b\\w+\\b", "[[:alpha:]_]+"):
        assert letters(known) is not None
    for other in ("[a-z]", "a+b+", "(a)+", "\\b[a-z]+\\b", "[\u0100]+", "[\\x{100}]+", "a+?", "\\b\\w+", "ab+", ""):
        assert letters(other) is None
    found = letters("\\w\\w+")
    assert found is not None and found.least == 2 and not found.beyond and sum(found.table) == 63


def test_patterns_that_cannot_be_written_are_refused() -> None:
    for bad in ("(a", "[a", "\\pL+", "[[:nope:]]", "a**", "(?P<n", "[z-a]"):
        with pytest.raises(rlx.FormatError, match="pattern"):
            matcher(bad)
    assert translate("\\Qa+b\\E$") == "a\\+b\\Z"


def test_the_two_ways_of_finding_agree() -> None:
    """A set of letters found by the loop, and the same written so that `re` finds it."""
    rng = np.random.default_rng(1)
    for expression, least in itertools.product(["[a-c]+", "[^a-c]+", "\\w{2,}", "\\S+"], [1, 3]):
        plain, other = finder(expression, least), finder(f"(?:{expression})", least)
        for _ in range(50):
            text = "".join(rng.choice(list("abcXYZ _1\u00e9\u65e5\n"), 20))
            assert plain(text) == other(text)


def test_a_model_of_strings_alone_has_reports() -> None:
    """Nothing of it is compiled, so there is nothing to report, which is not an error."""
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    text = TensorProto.STRING
    graph = helper.make_graph(
        [node], "join", [helper.make_tensor_value_info(n, text, ["n"]) for n in "ab"],
        [helper.make_tensor_value_info("y", text, ["n"])])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    model = rlx.load(file.SerializeToString())
    with pytest.raises(rlx.BindingError, match="run before"):
        model.memory_report()
    assert model.run({"a": np.array(["x"], object), "b": np.array(["y"], object)})["y"].tolist() == ["xy"]
    report = model.memory_report()
    assert (report.weights, report.arena) == (0, 0)
    assert str(model.explain()) == "" and model.dispatch() == []
