"""Take the bulk of the weights out of a serialised model, without copying them.

A protobuf parser copies every `raw_data` field. Here the wire format is walked,
large raw data is replaced by an internal reference (offset and length within the
file), and only the small rest goes to the parser.
"""

from rlx.errors import FormatError

# Messages and raw data below this size stay as they are.
LIMIT = 4096
# Key of the internal reference among the `external_data` entries of a tensor.
KEY = "\x00rlx"

_TENSOR = "tensor"
# message kind -> field number -> kind of the message in that field
_NESTED: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: _TENSOR},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph"},
}
_RAW_DATA = 9
# Fields of an attribute that hold floats, ints and strings.
_LISTS = (7, 8, 9)
_MAX_DEPTH = 90


def _varint(buffer: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise FormatError(f"ONNX: the file must be a serialised model, got a broken number at byte {at}")


def _put_varint(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)


def _field(number: int, payload: bytes) -> bytes:
    return _put_varint(number << 3 | 2) + _put_varint(len(payload)) + payload


def _skip(buffer: memoryview, at: int, end: int, wire: int) -> tuple[int, int]:
    """(start of the payload, end) of a field's value."""
    if wire == 2:
        size, start = _varint(buffer, at, end)
        stop = start + size
    elif wire == 0:
        start, stop = at, _varint(buffer, at, end)[1]
    elif wire in (1, 5):
        start, stop = at, at + (8 if wire == 1 else 4)
    else:
        raise FormatError(f"ONNX: the file must be a serialised model, got wire type {wire} at byte {at}")
    if stop > end:
        raise FormatError(f"ONNX: the file is truncated: a field at byte {at} ends at {stop}, after {end}")
    return start, stop


def _rewrite(buffer: memoryview, start: int, end: int, kind: str, depth: int) -> list[bytes | memoryview]:
    if depth > _MAX_DEPTH:
        raise FormatError(f"ONNX: graphs must be nested at most {_MAX_DEPTH} deep, got more")
    chunks: list[bytes | memoryview] = []
    kept = at = start
    nested = _NESTED.get(kind, {})
    while at < end:
        begin = at
        tag, at = _varint(buffer, at, end)
        first, stop = _skip(buffer, at, end, tag & 7)
        at = stop
        if kind == "attribute" and tag >> 3 in _LISTS:
            break  # a list of numbers or strings, perhaps millions: there is no tensor in it
        if tag & 7 != 2 or stop - first < LIMIT:
            continue
        number = tag >> 3
        if kind == _TENSOR and number == _RAW_DATA:
            where = f"{first},{stop - first}".encode()
            new: list[bytes | memoryview] = [_field(13, _field(1, KEY.encode()) + _field(2, where))]
        elif number in nested:
            inner = _rewrite(buffer, first, stop, nested[number], depth + 1)
            new = [_put_varint(tag), _put_varint(sum(map(len, inner))), *inner]
        else:
            continue
        chunks += [buffer[kept:begin], *new]
        kept = stop
    chunks.append(buffer[kept:end])
    return chunks


def strip(buffer: memoryview) -> bytes:
    """The serialised model with references in place of large raw data.

    Raises
    ------
    FormatError
        The bytes are no protobuf message.
    """
    return b"".join(_rewrite(buffer, 0, len(buffer), "model", 0))
