"""Messages of a serialised ONNX file: what is read of them, and the reader.

Names and numbers of fields are those of the standard's `onnx.proto`. A field that a file
leaves out is a class attribute here, its default.
"""

from collections.abc import Sequence
from typing import Any

from rlx._kernels import _protobuf
from rlx._kernels._protobuf import (
    BYTES,
    DATA,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    MESSAGE,
    STRING,
    UINT64,
    Field,
    Kind,
)
from rlx.errors import FormatError


class Entry:
    """A key and a value."""

    key: str = ""
    value: str = ""


class Dim:
    """One size of a shape: a number, a name, or neither."""

    dim_value: int | None = None
    dim_param: str = ""


class Shape:
    """Sizes of a tensor."""

    dim: Sequence[Dim] = ()


class TensorKind:
    """Type of a tensor; the shape is None when the rank is open."""

    elem_type: int = 0
    shape: Shape | None = None


class Map:
    """Type of a map."""

    key_type: int = 0


class Type:
    """Type of a value: one of the fields is set, or none."""

    tensor_type: TensorKind | None = None
    sequence_type: "Nested | None" = None
    map_type: Map | None = None
    sparse_tensor_type: TensorKind | None = None
    optional_type: "Nested | None" = None


class Nested:
    """Type of a sequence or of an optional: the type inside."""

    elem_type: Type = Type()


class ValueInfo:
    """An input or output of a graph."""

    name: str = ""
    type: Type = Type()


class Tensor:
    """An array: its numbers in `raw_data`, in a file beside, or in one of the lists."""

    dims: Sequence[int] = ()
    data_type: int = 0
    float_data: Sequence[float] = ()
    int32_data: Sequence[int] = ()
    string_data: Sequence[bytes] = ()
    int64_data: Sequence[int] = ()
    name: str = ""
    raw_data: bytes | memoryview | None = None
    double_data: Sequence[float] = ()
    uint64_data: Sequence[int] = ()
    external_data: Sequence[Entry] = ()
    data_location: int = 0


class SparseTensor:
    """An array by the values and places of its non-zeros."""

    values: Tensor = Tensor()
    indices: Tensor = Tensor()
    dims: Sequence[int] = ()


class Attribute:
    """An attribute of a node; `type` tells which field holds it, `start` and `stop` are its place in the file."""

    name: str = ""
    f: float = 0.0
    i: int = 0
    s: bytes = b""
    t: Tensor = Tensor()
    g: "Graph"
    floats: Sequence[float] = ()
    ints: Sequence[int] = ()
    strings: Sequence[bytes] = ()
    tensors: Sequence[Tensor] = ()
    graphs: Sequence["Graph"] = ()
    tp: Type = Type()
    type: int = 0
    ref_attr_name: str = ""
    sparse_tensor: SparseTensor = SparseTensor()
    start: int = 0
    stop: int = 0


class Node:
    """A node; `start` and `stop` are its place in the file."""

    input: Sequence[str] = ()
    output: Sequence[str] = ()
    name: str = ""
    op_type: str = ""
    attribute: Sequence[Attribute] = ()
    domain: str = ""
    overload: str = ""
    start: int = 0
    stop: int = 0


class Graph:
    """A graph."""

    node: Sequence[Node] = ()
    name: str = ""
    initializer: Sequence[Tensor] = ()
    input: Sequence[ValueInfo] = ()
    output: Sequence[ValueInfo] = ()
    sparse_initializer: Sequence[SparseTensor] = ()


Attribute.g = Graph()


class OperatorSet:
    """A domain of ops and its version."""

    domain: str = ""
    version: int = 0


class Function:
    """A function of the file: an op made of others."""

    name: str = ""
    input: Sequence[str] = ()
    output: Sequence[str] = ()
    attribute: Sequence[str] = ()
    node: Sequence[Node] = ()
    opset_import: Sequence[OperatorSet] = ()
    domain: str = ""
    attribute_proto: Sequence[Attribute] = ()
    overload: str = ""


class File:
    """A whole file."""

    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    graph: Graph | None = None
    opset_import: Sequence[OperatorSet] = ()
    metadata_props: Sequence[Entry] = ()
    functions: Sequence[Function] = ()


# Class -> its fields as number, name, type (a code or a class); a type in a list may occur often.
_FIELDS: dict[type, list[tuple[int, str, Any]]] = {
    Entry: [(1, "key", STRING), (2, "value", STRING)],
    Dim: [(1, "dim_value", INT64), (2, "dim_param", STRING)],
    Shape: [(1, "dim", [Dim])],
    TensorKind: [(1, "elem_type", INT32), (2, "shape", Shape)],
    Map: [(1, "key_type", INT32)],
    Type: [
        (1, "tensor_type", TensorKind),
        (4, "sequence_type", Nested),
        (5, "map_type", Map),
        (8, "sparse_tensor_type", TensorKind),
        (9, "optional_type", Nested),
    ],
    Nested: [(1, "elem_type", Type)],
    ValueInfo: [(1, "name", STRING), (2, "type", Type)],
    Tensor: [
        (1, "dims", [INT64]),
        (2, "data_type", INT32),
        (4, "float_data", [FLOAT]),
        (5, "int32_data", [INT32]),
        (6, "string_data", [BYTES]),
        (7, "int64_data", [INT64]),
        (8, "name", STRING),
        (9, "raw_data", DATA),
        (10, "double_data", [DOUBLE]),
        (11, "uint64_data", [UINT64]),
        (13, "external_data", [Entry]),
        (14, "data_location", INT32),
    ],
    SparseTensor: [(1, "values", Tensor), (2, "indices", Tensor), (3, "dims", [INT64])],
    Attribute: [
        (1, "name", STRING),
        (2, "f", FLOAT),
        (3, "i", INT64),
        (4, "s", BYTES),
        (5, "t", Tensor),
        (6, "g", Graph),
        (7, "floats", [FLOAT]),
        (8, "ints", [INT64]),
        (9, "strings", [BYTES]),
        (10, "tensors", [Tensor]),
        (11, "graphs", [Graph]),
        (14, "tp", Type),
        (20, "type", INT32),
        (21, "ref_attr_name", STRING),
        (22, "sparse_tensor", SparseTensor),
    ],
    Node: [
        (1, "input", [STRING]),
        (2, "output", [STRING]),
        (3, "name", STRING),
        (4, "op_type", STRING),
        (5, "attribute", [Attribute]),
        (7, "domain", STRING),
        (8, "overload", STRING),
    ],
    Graph: [
        (1, "node", [Node]),
        (2, "name", STRING),
        (5, "initializer", [Tensor]),
        (11, "input", [ValueInfo]),
        (12, "output", [ValueInfo]),
        (15, "sparse_initializer", [SparseTensor]),
    ],
    OperatorSet: [(1, "domain", STRING), (2, "version", INT64)],
    Function: [
        (1, "name", STRING),
        (4, "input", [STRING]),
        (5, "output", [STRING]),
        (6, "attribute", [STRING]),
        (7, "node", [Node]),
        (9, "opset_import", [OperatorSet]),
        (10, "domain", STRING),
        (11, "attribute_proto", [Attribute]),
        (13, "overload", STRING),
    ],
    File: [
        (1, "ir_version", INT64),
        (2, "producer_name", STRING),
        (3, "producer_version", STRING),
        (4, "domain", STRING),
        (5, "model_version", INT64),
        (6, "doc_string", STRING),
        (7, "graph", Graph),
        (8, "opset_import", [OperatorSet]),
        (14, "metadata_props", [Entry]),
        (25, "functions", [Function]),
    ],
}


def _kinds() -> dict[type, Kind]:
    kinds = {made: Kind(made, made in (Node, Attribute)) for made in _FIELDS}
    for made, rows in _FIELDS.items():
        for number, name, what in rows:
            often = isinstance(what, list)
            inner = what[0] if often else what
            code, kind = (MESSAGE, kinds[inner]) if isinstance(inner, type) else (inner, None)
            kinds[made].add(number, Field(name, code, often, kind))
    return kinds


_KINDS = _kinds()


def read_file(buffer: memoryview) -> File:
    """A serialised model.

    Raises
    ------
    FormatError
        The bytes are no such message.
    """
    found: File = _read(buffer, File)
    return found


def read_attribute(buffer: memoryview) -> Attribute:
    """A serialised attribute.

    Raises
    ------
    FormatError
        The bytes are no such message.
    """
    found: Attribute = _read(buffer, Attribute)
    return found


def read_function(buffer: memoryview) -> Function:
    """A serialised function.

    Raises
    ------
    FormatError
        The bytes are no such message.
    """
    found: Function = _read(buffer, Function)
    return found


def _read(buffer: memoryview, made: type) -> Any:
    try:
        return _protobuf.parse(buffer, _KINDS[made])
    except ValueError as error:
        raise FormatError(f"ONNX: the file must be a serialised model, got {_fault(error)}") from None


def _fault(error: ValueError) -> str:
    return f"text that is not UTF-8 ({error})" if isinstance(error, UnicodeError) else str(error)
