"""Regular expressions of ONNX are RE2's: what they match, by loops over letter sets where that is possible.

A pattern that is one set of letters repeated (``[a-zA-Z]+``, ``\\w+``, ``\\b\\w\\w+\\b``), as nearly
all token patterns are, becomes a table of letters. Any other is written as a pattern of `re` that
means the same: classes are ASCII, `$` is the end of the text, the longest of several alternatives
wins where ONNX Runtime asks for the longest match.
"""

import re
from collections.abc import Callable

import numpy as np

from rlx._kernels import _text
from rlx.errors import FormatError
from rlx.records import record

Split = Callable[[str], list[str]]

_WORD = "0-9A-Za-z_"
_SPACE = "\\t\\n\\f\\r "
_CLASSES = {"d": "0-9", "w": _WORD, "s": _SPACE}
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z", "word": _WORD, "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_BOUNDARY = f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))"
_WORD_TABLE = bytes(c < 128 and (chr(c).isalnum() or c == 95) for c in range(256))
_INSIDE = f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))"


def translate(expression: str) -> str:
    """A pattern of `re` that matches what RE2 matches.

    Raises
    ------
    FormatError
        It uses a class of letters that `re` has not (``\\p{...}``).
    """
    out: list[str] = []
    multiline = bool(re.match(r"\(\?[a-zA-Z]*m", expression))
    at, n = 0, len(expression)
    while at < n:
        c = expression[at]
        if c == "\\" and at + 1 < n:
            e = expression[at + 1]
            at += 2
            if e in _CLASSES:
                out.append(f"[{_CLASSES[e]}]")
            elif e.lower() in _CLASSES:
                out.append(f"[^{_CLASSES[e.lower()]}]")
            elif e == "z":
                out.append("\\Z")
            elif e in "bB":
                out.append(_BOUNDARY if e == "b" else _INSIDE)
            elif e == "C":
                out.append("(?s:.)")
            elif e == "Q":
                end = expression.find("\\E", at)
                out.append(re.escape(expression[at : end if end >= 0 else n]))
                at = end + 2 if end >= 0 else n
            elif e in "pP":
                raise FormatError(f"the pattern must use classes of ASCII, got \\{e} in {expression!r}")
            else:
                out.append("\\" + e)
        elif c == "[":
            made, at = _class(expression, at)
            out.append(made)
        else:
            out.append("\\Z" if c == "$" and not multiline else c)
            at += 1
    return "".join(out)


def _class(expression: str, at: int) -> tuple[str, int]:
    """A bracket expression and where it ends."""
    out = ["["]
    first = at = at + 1
    n = len(expression)
    if expression[at : at + 1] == "^":
        out.append("^")
        first = at = at + 1
    while at < n and (expression[at] != "]" or at == first):
        c = expression[at]
        if expression.startswith("[:", at):
            end = expression.find(":]", at)
            name = expression[at + 2 : end]
            if name not in _POSIX:
                raise FormatError(f"the pattern must use classes that exist, got {name!r} in {expression!r}")
            out.append(_POSIX[name])
            at = end + 2
        elif c == "\\" and at + 1 < n:
            e = expression[at + 1]
            if e in "pP":
                raise FormatError(f"the pattern must use classes of ASCII, got \\{e} in {expression!r}")
            if e in "DWS":
                inverse = {"D": "\\x00-/:-\U0010ffff", "W": "\\x00-/:-@\\[-^`{-\U0010ffff",
                           "S": "\\x00-\\x08\\x0b\\x0e-\\x1f!-\U0010ffff"}  # fmt: skip
                out.append(inverse[e])
            else:
                out.append(_CLASSES.get(e, "\\" + e))
            at += 2
        else:
            out.append("\\" + c if c in "[]&~|" else c)
            at += 1
    if at >= n:
        raise FormatError(f"the pattern must close every bracket, got {expression!r}")
    return "".join(out) + "]", at + 1


def _compiled(expression: str) -> "re.Pattern[str]":
    try:
        return re.compile(translate(expression))
    except (re.error, RecursionError, OverflowError) as error:
        raise FormatError(f"the pattern must be a regular expression, got {expression!r} ({error})") from None


@record(frozen=True)
class Letters:
    """One set of letters, repeated.

    Attributes
    ----------
    table : bytes
        1 for the letters of the set, by code point below 256.
    beyond : bool
        Whether all others belong to it.
    least : int
        Smallest number of repetitions.
    """

    table: bytes
    beyond: bool
    least: int


_ATOM = re.compile(r"(?s)\[\^?\]?(?:\[:[a-z]+:\]|\\.|[^\\\]\[])*\]|\\[dwsDWS]|[A-Za-z0-9_ ]")
_SIGN = re.compile(r"\+|\*|\{([0-9]{1,4}),\}")


def letters(expression: str) -> Letters | None:
    """The set of a pattern that is one set repeated without an upper limit; None for any other."""
    left, right = expression.startswith("\\b"), expression.endswith("\\b")
    body = expression[2 if left else 0 : -2 if right else None]
    first = _ATOM.match(body)
    if first is None:
        return None
    atom, count = first.group(), 0
    while body.startswith(atom):
        body, count = body[len(atom) :], count + 1
    sign = _SIGN.fullmatch(body)
    if sign is None:
        return None
    least = count - 1 + {"+": 1, "*": 0}.get(body, int(sign[1] or 0))
    try:
        pattern = re.compile(translate(atom))
    except (FormatError, re.error):
        return None
    table = bytes(pattern.fullmatch(chr(c)) is not None for c in range(256))
    beyond = pattern.fullmatch("\u0100") is not None
    plain = all(ord(c) < 256 for c in atom) and not re.search(r"\\[xuN]", atom)
    if not plain or any(bool(pattern.fullmatch(c)) != beyond for c in "\u0101\u2003\uffff\U0010ffff"):
        return None
    whole = left and right and least and table == _WORD_TABLE and not beyond
    if (left or right) and not whole:  # only runs of all word letters are sure to end at word boundaries
        return None
    return Letters(table, beyond, least)


def _alternatives(expression: str) -> list[str]:
    """The alternatives of the outermost level."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(expression):
        c = expression[at]
        if c == "\\":
            at += 1
        elif c == "[":
            at = _class(expression, at)[1] - 1
        elif c in "()":
            depth += 1 if c == "(" else -1
        elif c == "|" and not depth:
            parts.append(expression[start:at])
            start = at + 1
        at += 1
    return [*parts, expression[start:]]


def _spans(expression: str) -> Callable[[str, int], tuple[int, int] | None]:
    """The leftmost and then longest match from a position on, over the alternatives of the outermost level."""
    patterns = [_compiled(e) for e in _alternatives(expression)]
    if len(patterns) == 1:
        search = patterns[0].search

        def one(text: str, at: int) -> tuple[int, int] | None:
            found = search(text, at)
            return found.span() if found is not None else None

        return one

    def several(text: str, at: int) -> tuple[int, int] | None:
        spans = [m.span() for p in patterns if (m := p.search(text, at)) is not None]
        return min(spans, key=lambda s: (s[0], -s[1]), default=None)

    return several


def finder(expression: str, least: int) -> Split:
    """Tokens: what the pattern matches, leftmost and longest first, of at least so many letters."""
    known = letters(expression)
    if known is not None:
        return _text.Runs(known.table, known.beyond, max(known.least, least))
    if len(_alternatives(expression)) == 1:
        pattern = _compiled(expression)
        if not pattern.groups and least == 1:
            return lambda text: list(filter(None, pattern.findall(text)))
        if not pattern.groups:
            return lambda text: [t for t in pattern.findall(text) if len(t) >= least]
        return lambda text: [t for m in pattern.finditer(text) if len(t := m.group(0)) >= least]
    span = _spans(expression)

    def find(text: str) -> list[str]:
        found, at = [], 0
        while at < len(text) and (where := span(text, at)) is not None:
            if where[1] - where[0] >= least:
                found.append(text[where[0] : where[1]])
            at = max(where[1], at + 1)
        return found

    return find


def splitter(separators: list[str], least: int) -> Split:
    """Tokens: what lies between the matches of the first separator, each split by the second, and so on."""
    plain = [s for s in separators if s and not re.search(r"[\\^$.|?*+()\[\]{}]", s)]
    if len(plain) == len(separators) == 1:
        mark = plain[0]
        if least == 1:
            return lambda text: list(filter(None, text.split(mark)))
        return lambda text: [t for t in text.split(mark) if len(t) >= least]
    spans = [_spans(s) for s in separators]

    def split(text: str) -> list[str]:
        row = [text]
        for span in spans:
            before, row = row, []
            for part in before:
                start = at = 0
                while at <= len(part) and (where := span(part, at)) is not None:
                    if where[0] - start >= least:
                        row.append(part[start : where[0]])
                    at = where[1] if where[1] > where[0] else where[1] + 1
                    start = at
                if len(part) - start >= least:
                    row.append(part[start:])
        return row

    return split


def matcher(expression: str) -> Callable[..., object]:
    """Of an array of strings, which ones the whole pattern matches: an array of bool."""
    known = letters(expression)
    if known is not None:
        runs, empty = _text.Runs(known.table, known.beyond, known.least), known.least == 0
        return lambda x: runs.full(x, empty)
    match = _compiled(expression).fullmatch
    return lambda x: np.fromiter([match(s) is not None for s in x.flat], np.bool_, x.size).reshape(x.shape)
