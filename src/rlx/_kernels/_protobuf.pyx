"""Reads serialised protobuf messages by tables of their fields, large data by reference.

A field that no table lists is skipped. Of a field that may occur once the last occurrence
counts, and messages that occur several times are merged, as the format wants it.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import array

cdef enum:
    _INT64 = 1
    _INT32 = 2
    _UINT64 = 3
    _FLOAT = 4
    _DOUBLE = 5
    _STRING = 6
    _BYTES = 7
    _MESSAGE = 8
    _DATA = 9

# DATA are bytes too, which are taken by reference when they are many.
INT64, INT32, UINT64, FLOAT, DOUBLE, STRING, BYTES, MESSAGE, DATA = (
    _INT64, _INT32, _UINT64, _FLOAT, _DOUBLE, _STRING, _BYTES, _MESSAGE, _DATA)

# As many messages may lie inside each other as other readers of the format allow.
cdef int MAX_DEPTH = 100
# Data from this length on are not copied.
cdef Py_ssize_t LARGE = 4096
# Strings up to this length are kept once.
cdef Py_ssize_t SHARED = 64

cdef dict _CODES = {_INT64: "q", _INT32: "i", _UINT64: "Q", _FLOAT: "f", _DOUBLE: "d"}


cdef class Field:
    """One field: its name as an attribute, its type, whether it may occur often."""

    cdef readonly str name
    cdef readonly int code
    cdef readonly bint repeated
    cdef readonly Kind kind

    def __init__(self, str name, int code, bint repeated=False, Kind kind=None):
        if not _INT64 <= code <= _DATA or (code == _MESSAGE) != (kind is not None):
            raise ValueError(f"field {name!r}: code must be one of this module's, and a message must have a kind")
        self.name = name
        self.code = code
        self.repeated = repeated
        self.kind = kind


cdef class Kind:
    """One kind of message: the class of its objects, and its fields by number.

    `span`: objects get the attributes `start` and `stop`, their place in the buffer.
    """

    cdef readonly type made
    cdef readonly bint span
    cdef list fields

    def __init__(self, type made, bint span=False):
        self.made = made
        self.span = span
        self.fields = []

    def add(self, int number, Field field not None):
        """Add a field."""
        if not 0 < number < 1024:
            raise ValueError(f"field number must be in 1..1023, got {number}")
        while len(self.fields) <= number:
            self.fields.append(None)
        self.fields[number] = field


cdef class _Reader:
    cdef Py_buffer pin
    cdef const unsigned char* data
    cdef object buffer
    cdef dict strings
    cdef dict octets

    def __cinit__(self, buffer):
        PyObject_GetBuffer(buffer, &self.pin, PyBUF_SIMPLE)
        self.data = <const unsigned char*>self.pin.buf
        self.buffer = buffer
        self.strings = {}
        self.octets = {}

    def __dealloc__(self):
        PyBuffer_Release(&self.pin)

    cdef uint64_t varint(self, Py_ssize_t* at, Py_ssize_t end) except? 0:
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef unsigned char byte
        cdef Py_ssize_t begin = at[0]
        while at[0] < end and shift < 70:
            byte = self.data[at[0]]
            at[0] += 1
            if shift < 64:
                value |= <uint64_t>(byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError(f"a broken number at byte {begin}")

    cdef object text(self, Py_ssize_t at, Py_ssize_t size):
        found = PyUnicode_DecodeUTF8(<const char*>self.data + at, size, NULL)
        return self.strings.setdefault(found, found) if size <= SHARED else found

    cdef object raw(self, Py_ssize_t at, Py_ssize_t size):
        found = PyBytes_FromStringAndSize(<const char*>self.data + at, size)
        return self.octets.setdefault(found, found) if size <= SHARED else found

    cdef Py_ssize_t length(self, Py_ssize_t* at, Py_ssize_t end) except -1:
        """Size of a field of variable length, which starts at `at` then."""
        cdef Py_ssize_t begin = at[0]
        cdef uint64_t size = self.varint(at, end)
        if size > <uint64_t>(end - at[0]):
            raise ValueError(f"a field of {size} bytes at byte {begin} that must end by {end}")
        return <Py_ssize_t>size

    cdef int numbers(self, Field field, object into, int wire, Py_ssize_t* at, Py_ssize_t end,
                     uint64_t tag) except -1:
        """Append numbers: a packed block, or one and all that follow it with the same tag."""
        cdef array.array held = into
        cdef int64_t* wide = NULL
        cdef Py_ssize_t count = 0, room = 0, stop, next_, width = 4 if field.code == _FLOAT else 8
        cdef bint fixed = field.code in (_FLOAT, _DOUBLE)
        cdef uint64_t value
        cdef void* grown
        if wire == 2:
            stop = self.length(at, end)
            if fixed:
                if stop % width:
                    raise ValueError(f"{stop} bytes of packed numbers at byte {at[0]}")
                array.extend_buffer(held, <char*>self.data + at[0], stop // width)
                at[0] += stop
                return 0
            end = at[0] + stop
        try:
            while True:
                if wire == 2 and at[0] == end:
                    break
                if fixed:
                    if end - at[0] < width:
                        raise ValueError(f"a number at byte {at[0]} that must end by {end}")
                    value = 0
                    memcpy(&value, self.data + at[0], width)
                    at[0] += width
                else:
                    value = self.varint(at, end)
                if count == room:
                    room = 2 * room + 16
                    grown = realloc(wide, room * 8)
                    if grown == NULL:
                        raise MemoryError
                    wide = <int64_t*>grown
                if field.code == _FLOAT or field.code == _INT32:
                    (<int32_t*>wide)[count] = <int32_t>value
                else:
                    wide[count] = <int64_t>value
                count += 1
                if wire != 2:
                    if at[0] == end:
                        break
                    next_ = at[0]
                    if self.varint(&next_, end) != tag:
                        break
                    at[0] = next_
            if count:
                array.extend_buffer(held, <char*>wide, count)
        finally:
            free(wide)
        return 0

    cdef int message(self, object made, Kind kind, Py_ssize_t at, Py_ssize_t end, int depth) except -1:
        cdef uint64_t tag, number, value
        cdef int wire
        cdef Py_ssize_t size
        cdef Field field
        cdef float single
        cdef double number64
        cdef dict held = made.__dict__
        cdef object item
        if depth > MAX_DEPTH:
            raise ValueError(f"messages nested more than {MAX_DEPTH} deep")
        while at < end:
            tag = self.varint(&at, end)
            wire = tag & 7
            number = tag >> 3
            if number == 0 or wire in (3, 4, 6, 7):
                raise ValueError(f"field {number} of wire type {wire} before byte {at}")
            field = None
            if number < <uint64_t>len(kind.fields):
                field = <Field>kind.fields[number]
            if field is not None and not _fits(field, wire):
                field = None
            if field is None:
                if wire == 0:
                    self.varint(&at, end)
                    continue
                size = 8 if wire == 1 else 4 if wire == 5 else self.length(&at, end)
                if size > end - at:
                    raise ValueError(f"a field at byte {at} that must end by {end}")
                at += size
                continue
            if field.repeated and field.code <= _DOUBLE:
                item = held.get(field.name)
                if item is None:
                    item = held[field.name] = array.array(_CODES[field.code])
                self.numbers(field, item, wire, &at, end, tag)
                continue
            if field.code <= _UINT64:
                value = self.varint(&at, end)
                if field.code == _INT64:
                    item = <int64_t>value
                elif field.code == _INT32:
                    item = <int32_t>value
                else:
                    item = value
            elif field.code <= _DOUBLE:
                size = 4 if field.code == _FLOAT else 8
                if end - at < size:
                    raise ValueError(f"a number at byte {at} that must end by {end}")
                if size == 4:
                    memcpy(&single, self.data + at, 4)
                    item = <double>single
                else:
                    memcpy(&number64, self.data + at, 8)
                    item = number64
                at += size
            else:
                size = self.length(&at, end)
                if field.code == _STRING:
                    item = self.text(at, size)
                elif field.code == _DATA and size >= LARGE:
                    item = self.buffer[at:at + size]
                elif field.code != _MESSAGE:
                    item = self.raw(at, size)
                else:
                    item = None if field.repeated else held.get(field.name)
                    if item is None:
                        item = field.kind.made()
                    self.message(item, field.kind, at, at + size, depth + 1)
                    if field.kind.span:
                        item.start, item.stop = at, at + size
                at += size
            if field.repeated:
                more = held.get(field.name)
                if more is None:
                    held[field.name] = [item]
                else:
                    (<list>more).append(item)
            else:
                held[field.name] = item
        return 0


cdef bint _fits(Field field, int wire):
    """Whether a field may come in a wire type."""
    if field.code <= _UINT64:
        return wire == 0 or (wire == 2 and field.repeated)
    if field.code == _FLOAT:
        return wire == 5 or (wire == 2 and field.repeated)
    if field.code == _DOUBLE:
        return wire == 1 or (wire == 2 and field.repeated)
    return wire == 2


def parse(buffer, Kind kind not None):
    """The message of a kind that a buffer holds.

    Parameters
    ----------
    buffer : memoryview
        Of bytes. Large `DATA` fields become slices of it.
    kind : Kind

    Raises
    ------
    ValueError
        It is no such message.
    """
    cdef _Reader reader = _Reader(buffer)
    cdef Py_ssize_t size = reader.pin.len
    made = kind.made()
    reader.message(made, kind, 0, size, 0)
    if kind.span:
        made.start, made.stop = 0, size
    return made
