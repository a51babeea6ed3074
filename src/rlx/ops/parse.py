"""Read the text form of a graph back (`rlx.ir.text` writes it)."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx import dtypes
from rlx.errors import FormatError, RlxError
from rlx.ir.dims import AnyDim, Dim
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.ir.types import TensorType

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<number>-?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|inf\b|nan\b))
    | (?P<name>[A-Za-z_][A-Za-z0-9_./]*)
    | (?P<mark>//|\*\*|[%@:=(){}\[\],<>*+-])
    )""",
    re.VERBOSE,
)
_DEPTH = 32


class _Reader:
    """Tokens of a text, with line numbers for errors."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        line, at = 1, 0
        while at < len(text):
            if text[at:].isspace():
                break
            match = _TOKEN.match(text, at)
            if match is None:
                raise FormatError(f"graph text, line {line}: unexpected {text[at : at + 12].strip()!r}")
            line += text.count("\n", at, match.end())
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind), line))
            at = match.end()
        self.at = 0
        self.depth = 0

    def fail(self, want: str) -> FormatError:
        kind, text, line = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "end of text", -1)
        where = f", line {line}" if line > 0 else ""
        return FormatError(f"graph text{where}: {want} must come here, got {text!r}")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at][:2] if self.at < len(self.tokens) else ("end", "")

    def next(self) -> tuple[str, str]:
        token = self.peek()
        if token[0] == "end":
            raise self.fail("more")
        self.at += 1
        return token

    def take(self, mark: str) -> None:
        if self.peek()[1] != mark or self.peek()[0] == "string":
            raise self.fail(repr(mark))
        self.at += 1

    def accept(self, mark: str) -> bool:
        if self.peek() == ("mark", mark):
            self.at += 1
            return True
        return False

    def name(self) -> str:
        kind, text = self.peek()
        if kind == "string":
            self.at += 1
            return _unquote(text)
        if kind != "name" and not (kind == "number" and text in ("inf", "nan")):
            raise self.fail("a name")
        self.at += 1
        return text


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _dim(r: _Reader) -> AnyDim:
    """expression := term (('+' | '-') term)*"""
    value = _dim_term(r)
    while True:
        if r.accept("+"):
            value = value + _dim_term(r)
        elif r.accept("-"):
            value = value - _dim_term(r)
        elif r.peek()[0] == "number" and r.peek()[1].startswith("-"):
            value = value + _dim_term(r)
        else:
            return value


def _dim_term(r: _Reader) -> AnyDim:
    value = _dim_power(r)
    while True:
        if r.accept("*"):
            value = value * _dim_power(r)
        elif r.accept("//"):
            value = value // _dim_power(r)
        else:
            return value


def _dim_power(r: _Reader) -> AnyDim:
    if r.accept("("):
        r.depth += 1
        if r.depth > _DEPTH:
            raise r.fail("a simpler size")
        value = _dim(r)
        r.take(")")
        r.depth -= 1
    else:
        kind, text = r.next()
        if kind == "number" and re.fullmatch(r"-?\d+", text):
            value = int(text)
        elif kind == "name":
            value = Dim.symbol(text)
        else:
            r.at -= 1
            raise r.fail("a size")
    if r.accept("**"):
        base, exponent = value, int(r.next()[1])
        for _ in range(min(exponent, _DEPTH) - 1):
            value = value * base
    return value


def _type(r: _Reader) -> TensorType:
    name = r.name()
    if name not in dtypes.BY_NAME:
        r.at -= 1
        raise r.fail(f"one of {list(dtypes.BY_NAME)}")
    r.take("[")
    shape: list[AnyDim] = []
    while not r.accept("]"):
        shape.append(_dim(r))
        if r.peek()[1] != "]":
            r.take(",")
    return TensorType.of(dtypes.BY_NAME[name], shape)


def _value(r: _Reader, constants: Mapping[str, Array]) -> Any:
    kind, text = r.next()
    if kind == "string":
        return _unquote(text)
    if kind == "number":
        return _number(text)
    if text in ("(", "["):
        close = ")" if text == "(" else "]"
        items = []
        r.depth += 1
        if r.depth > _DEPTH:
            raise r.fail("a simpler value")
        while not r.accept(close):
            items.append(_value(r, constants))
            if r.peek()[1] != close:
                r.take(",")
        r.depth -= 1
        return tuple(items) if close == ")" else items
    if text == "<":
        value = _dim(r)
        r.take(">")
        return value
    if text == "@":
        name = r.name()
        if name not in constants:
            raise FormatError(f"graph text: constant {name!r} must be given beside the text, got {list(constants)}")
        return constants[name]
    if kind == "name":
        if text == "graph":
            r.at -= 1
            return _graph(r, constants)
        if text == "complex":
            parts = _value(r, constants)
            if not isinstance(parts, tuple) or len(parts) != 2:
                raise r.fail("two numbers")
            return complex(float(parts[0]), float(parts[1]))
        words = {"true": True, "false": False, "none": None, **dtypes.BY_NAME}
        if text in words:
            return words[text]
    r.at -= 1
    raise r.fail("a value")


def _constant(value: Any, type_: TensorType, line: str) -> Array:
    if isinstance(value, np.ndarray):
        array = value
    elif type_.dtype.is_complex:
        array = np.array([complex(*v) for v in value], type_.dtype.numpy)
    else:
        array = np.array(value, np.float64 if type_.dtype.is_float else None).astype(type_.dtype.numpy)
    if array.size != type_.size or array.dtype != type_.dtype.numpy:
        raise FormatError(f"graph text: constant {line} must have type {type_}, got {array.dtype}{list(array.shape)}")
    return array.reshape(tuple(d for d in type_.shape if isinstance(d, int)))


def _graph(r: _Reader, constants: Mapping[str, Array]) -> Graph:
    from rlx.ops import TABLE

    r.depth += 1
    if r.depth > _DEPTH:
        raise r.fail("fewer nested graphs")
    r.take("graph")
    graph = Graph(r.name())
    graph.track_source = False
    r.take("{")
    known: dict[str, Value] = {}
    while r.peek() != ("name", "return"):
        names: list[str] = []
        types: list[TensorType] = []
        while True:
            r.take("%")
            names.append(r.name())
            r.take(":")
            types.append(_type(r))
            if not r.accept(","):
                break
        r.take("=")
        op_name = r.name()
        r.take("(")
        operands: list[Value | None] = []
        while not r.accept(")"):
            if r.accept("-"):
                operands.append(None)
            else:
                r.take("%")
                operand = r.name()
                if operand not in known:
                    raise FormatError(f"graph text: %{operand} must be made before it is used")
                operands.append(known[operand])
            if r.peek()[1] != ")":
                r.take(",")
        attrs: dict[str, Any] = {}
        if r.accept("{"):
            while not r.accept("}"):
                key = r.name()
                r.take("=")
                attrs[key] = _value(r, constants)
                if r.peek()[1] != "}":
                    r.take(",")
        stem = names[0] if len(names) == 1 else names[0].rsplit(".", 1)[0]
        if op_name == "input":
            made: tuple[Value, ...] = (graph.input(stem, types[0].shape, types[0].dtype),)
        elif op_name == "param":
            made = (graph.param(stem, types[0].shape, types[0].dtype),)
        elif op_name == "constant":
            made = (graph.constant(_constant(attrs.get("value"), types[0], stem), name=stem),)
        elif op_name in TABLE:
            fresh = (
                tuple(sorted({s for t in types for s in t.symbols()} - graph.symbols()))
                if TABLE[op_name].has("dynamic")
                else ()
            )
            made = graph.emit(TABLE[op_name], operands, attrs, name=stem, loc="", fresh=fresh)
        else:
            raise FormatError(f"graph text: no op {op_name!r}"
                              "\nhint: if it is an op of your own, call rlx.register_op first")
        if [v.type for v in made] != types:
            raise FormatError(f"graph text: %{stem} must have type {[v.type for v in made]}, got {types}")
        known.update(zip(names, made, strict=True))
    r.take("return")
    while not r.accept("}"):
        name = r.name()
        r.take("=")
        r.take("%")
        value = r.name()
        if value not in known:
            raise FormatError(f"graph text: %{value} must be made before it is returned")
        graph.output(name, known[value])
        if r.peek()[1] != "}":
            r.take(",")
    r.depth -= 1
    return graph


def parse_graph(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """Build the graph that a text describes; every op's rules run as for any graph.

    Parameters
    ----------
    text : str
        As printed by ``str(graph)``.
    constants : mapping of name to array, optional
        The large constants, which the text only names.

    Raises
    ------
    FormatError
        Naming the line and what must come there.
    """
    reader = _Reader(text)
    try:
        graph = _graph(reader, constants or {})
    except FormatError:
        raise
    except (RlxError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"graph text: {error}") from error
    if reader.peek()[0] != "end":
        raise reader.fail("the end")
    return graph


def parse_type(text: str) -> TensorType:
    """The type that a text like ``f32[batch, 2*n + 1]`` names.

    Raises
    ------
    FormatError
        It names none.
    """
    reader = _Reader(text)
    try:
        found = _type(reader)
    except FormatError:
        raise
    except (RlxError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"type {text!r}: {error}") from error
    if reader.peek()[0] != "end":
        raise reader.fail("the end")
    return found


__all__ = ["parse_graph", "parse_type"]
