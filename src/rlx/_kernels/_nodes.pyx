"""Inner loops of compiling: copying nodes into another graph, taking graphs apart, who reads what, places in memory.

Nodes and values are Python classes with slots. Passes make them by the ten thousand, so their slots are read and
written here where they lie; `bind` looks their places up in the classes.
"""

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc

cdef extern from *:
    """
    #include "structmember.h"
    """
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member
    PyTypeObject PyMemberDescr_Type
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)

cdef struct _NodePlaces:
    Py_ssize_t op, inputs, attrs, name, loc, fresh, outputs

cdef struct _ValuePlaces:
    Py_ssize_t graph, node, index, type, array

cdef _NodePlaces N
cdef _ValuePlaces V
cdef object _node_type = None, _value_type = None, _constant = None


cdef Py_ssize_t _place(type cls, str name) except -1:
    slot = cls.__dict__[name]
    if type(slot) is not <object>&PyMemberDescr_Type:
        raise TypeError(f"{cls.__name__}.{name}: must be a slot")
    return (<PyMemberDescrObject*><PyObject*>slot).d_member.offset


def bind(type node, type value, constant):
    """Tell the classes of nodes and values, and the op of constants."""
    global _node_type, _value_type, _constant
    N.op, N.inputs, N.attrs = _place(node, "op"), _place(node, "inputs"), _place(node, "attrs")
    N.name, N.loc, N.fresh = _place(node, "name"), _place(node, "loc"), _place(node, "fresh")
    N.outputs = _place(node, "outputs")
    V.graph, V.node, V.index = _place(value, "graph"), _place(value, "node"), _place(value, "index")
    V.type, V.array = _place(value, "type"), _place(value, "_array")
    _node_type, _value_type, _constant = node, value, constant


cdef inline object _get(object item, Py_ssize_t place):
    cdef PyObject* found = (<PyObject**>(<char*><PyObject*>item + place))[0]
    if found is NULL:
        raise AttributeError("a slot is empty")
    return <object>found


cdef inline void _set(object item, Py_ssize_t place, object content) noexcept:
    cdef PyObject** at = <PyObject**>(<char*><PyObject*>item + place)
    cdef PyObject* old = at[0]
    Py_INCREF(content)
    at[0] = <PyObject*>content
    Py_XDECREF(old)


cdef inline int _is_node(object item) except -1:
    if type(item) is not _node_type:
        raise TypeError(f"a node must be given, got {type(item).__name__}")
    return 0


cdef inline int _is_value(object item) except -1:
    if type(item) is not _value_type:
        raise TypeError(f"a value must be given, got {type(item).__name__}")
    return 0


cdef object _new_value(object graph, object node, object index, object kind, object array):
    cdef object made = PyType_GenericAlloc(<PyTypeObject*><PyObject*>_value_type, 0)
    _set(made, V.graph, graph)
    _set(made, V.node, node)
    _set(made, V.index, index)
    _set(made, V.type, kind)
    _set(made, V.array, array)
    return made


cdef object _new_node(object graph, object like, tuple inputs):
    """A node like another one, without results, under a name that the graph does not have yet."""
    cdef object name = _get(like, N.name), made
    cdef set names = graph._names
    if name in names:
        name = graph.unique_name(name)
    else:
        names.add(name)
    made = PyType_GenericAlloc(<PyTypeObject*><PyObject*>_node_type, 0)
    _set(made, N.op, _get(like, N.op))
    _set(made, N.inputs, inputs)
    _set(made, N.attrs, _get(like, N.attrs))
    _set(made, N.name, name)
    _set(made, N.loc, _get(like, N.loc))
    _set(made, N.fresh, _get(like, N.fresh))
    return made


cdef tuple _finish(object graph, object node, object types):
    """Append a node with results of these types."""
    cdef Py_ssize_t i, n = len(types)
    cdef tuple outputs = PyTuple_New(n)
    for i in range(n):
        value = _new_value(graph, node, i, types[i], None)
        Py_INCREF(value)
        PyTuple_SET_ITEM(outputs, i, value)
    _set(node, N.outputs, outputs)
    (<list>graph.nodes).append(node)
    return outputs


def append(graph, op, tuple inputs not None, attrs, str name not None, str loc not None, types, tuple fresh=()):
    """Append a node whose rules have run; returns its results."""
    cdef set names = graph._names
    if name in names:
        name = graph.unique_name(name)
    else:
        names.add(name)
    cdef object node = PyType_GenericAlloc(<PyTypeObject*><PyObject*>_node_type, 0)
    _set(node, N.op, op)
    _set(node, N.inputs, inputs)
    _set(node, N.attrs, attrs)
    _set(node, N.name, name)
    _set(node, N.loc, loc)
    _set(node, N.fresh, fresh)
    return _finish(graph, node, types)


def adopt(graph, like, tuple inputs not None, tuple types not None):
    """Append a node that is like another one, whose rules have run already; returns its results."""
    _is_node(like)
    return _finish(graph, _new_node(graph, like, inputs), types)


def copy(graph, dict known not None, node):
    """Append a copy of a node on the values that `known` has for its operands, and note its results there.

    Returns the results; None, with nothing done, if the rules must run: an operand has another type than before, or
    the node is an input or a parameter.
    """
    _is_node(node)
    cdef tuple inputs = _get(node, N.inputs), old = _get(node, N.outputs), operands, outputs
    cdef Py_ssize_t i, n = PyTuple_GET_SIZE(inputs), many = PyTuple_GET_SIZE(old)
    cdef PyObject* found
    cdef object v, w, made, value
    if n == 0 and _get(node, N.op) is not _constant and "leaf" in _get(node, N.op).traits:
        return None
    operands = PyTuple_New(n)
    for i in range(n):
        v = <object>PyTuple_GET_ITEM(inputs, i)
        w = None
        if v is not None:
            _is_value(v)
            found = PyDict_GetItemWithError(known, v)
            if found is NULL:
                raise KeyError(v)
            w = <object>found
            _is_value(w)
            if _get(v, V.type) is not _get(w, V.type) and _get(v, V.type) != _get(w, V.type):
                return None
        Py_INCREF(w)
        PyTuple_SET_ITEM(operands, i, w)
    made = _new_node(graph, node, operands)
    outputs = PyTuple_New(many)
    for i in range(many):
        v = <object>PyTuple_GET_ITEM(old, i)
        _is_value(v)
        value = _new_value(graph, made, i, _get(v, V.type), _get(v, V.array))
        Py_INCREF(value)
        PyTuple_SET_ITEM(outputs, i, value)
        known[v] = value
    _set(made, N.outputs, outputs)
    (<list>graph.nodes).append(made)
    return outputs


def dismantle(list nodes not None):
    """Let nodes go of their operands, results and arrays."""
    for node in nodes:
        _is_node(node)
        for value in <tuple>_get(node, N.outputs):
            _is_value(value)
            _set(value, V.array, None)
        _set(node, N.inputs, ())
        _set(node, N.outputs, ())


def needed(list nodes not None, outputs):
    """Nodes that the values `outputs` or a state need, of nodes in topological order."""
    cdef set found = set()
    for value in outputs:
        _is_value(value)
        found.add(_get(value, V.node))
    for node in reversed(nodes):
        _is_node(node)
        if node not in found:
            if "stateful" not in _get(node, N.op).traits:
                continue
            found.add(node)
        for value in <tuple>_get(node, N.inputs):
            if value is not None:
                _is_value(value)
                found.add(_get(value, V.node))
    return found


def uses(list nodes not None):
    """How often nodes read each value."""
    cdef dict count = {}
    cdef PyObject* had
    for node in nodes:
        _is_node(node)
        for value in <tuple>_get(node, N.inputs):
            if value is not None:
                had = PyDict_GetItemWithError(count, value)
                count[value] = 1 if had is NULL else <object>had + 1
    return count


def readers(list nodes not None):
    """The nodes that read each value, once for every time that they do."""
    cdef dict found = {}
    cdef PyObject* had
    for node in nodes:
        _is_node(node)
        for value in <tuple>_get(node, N.inputs):
            if value is not None:
                had = PyDict_GetItemWithError(found, value)
                if had is NULL:
                    found[value] = [node]
                else:
                    (<list>had).append(node)
    return found


def types_of(inputs):
    """The types of values, None for those that are absent."""
    cdef list found = []
    for value in inputs:
        if value is None:
            found.append(None)
        else:
            _is_value(value)
            found.append(_get(value, V.type))
    return found


def fits(shape, int64_t itemsize):
    """Whether all sizes are plain numbers above 0 and the bytes are so few that there is nothing to check."""
    cdef int64_t n = itemsize
    cdef object d
    if type(shape) is not tuple or PyTuple_GET_SIZE(shape) > 32:
        return False
    for d in <tuple>shape:
        if type(d) is not int or not 0 < d < 1 << 31:
            return False
        n *= <int64_t>d
        if n >= 1 << 31:
            return False
    return True


def kinds(list nodes not None):
    """The element types of what nodes give."""
    cdef set found = set()
    for node in nodes:
        _is_node(node)
        for value in <tuple>_get(node, N.outputs):
            _is_value(value)
            found.add(_get(value, V.type).dtype)
    return found


cdef struct _Piece:
    int64_t offset, end, first, last

cdef struct _Row:  # pieces that are alive during some calls, by number
    int* items
    int n, room


cdef int _by_offset(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const _Piece*>a).offset, y = (<const _Piece*>b).offset
    return (x > y) - (x < y)


cdef int64_t _gap(const _Piece* near, Py_ssize_t n, int64_t need) noexcept nogil:
    """Where the smallest gap starts that is large enough, among pieces in the order of their offsets."""
    cdef int64_t best = -1, best_gap = 0, at = 0, gap
    cdef Py_ssize_t i
    for i in range(n):
        gap = near[i].offset - at
        if gap >= need and (best < 0 or gap < best_gap):
            best, best_gap = at, gap
        if near[i].end > at:
            at = near[i].end
    return at if best < 0 else best


def place(spans, order, limit):
    """See `rlx.lower.offsets.place`."""
    cdef Py_ssize_t n = len(spans), count = 0, rows = 0, i, k, many
    cdef int64_t width = 16, start, stop, need, top = 0, work = 0, most = -1 if limit is None else limit, t
    cdef _Piece* pieces = <_Piece*>malloc((2 * n + 1) * sizeof(_Piece))
    cdef _Piece* near = pieces + n
    cdef int* seen = <int*>calloc(n + 1, sizeof(int))
    cdef _Row* during = NULL
    cdef _Row* row
    cdef int* grown
    cdef list offsets = [0] * n
    try:
        stop = 0
        for _, last, _ in spans:
            stop = max(stop, <int64_t>last)
        width = max(width, stop // 1024)
        rows = stop // width + 1
        during = <_Row*>calloc(rows, sizeof(_Row))
        if pieces is NULL or seen is NULL or during is NULL:
            raise MemoryError
        for index in order:
            start, stop, need = spans[index]
            if start < 0 or stop < start or stop // width >= rows or count == n:
                raise ValueError(f"a block must live from call to call, once, got {spans[index]}")
            many = 0
            work += 1
            for t in range(start // width, stop // width + 1):
                row = &during[t]
                work += row.n
                for i in range(row.n):
                    k = row.items[i]
                    if seen[k] != count + 1 and pieces[k].last >= start and pieces[k].first <= stop:
                        seen[k] = count + 1
                        near[many] = pieces[k]
                        many += 1
            qsort(near, many, sizeof(_Piece), _by_offset)
            pieces[count].offset = _gap(near, many, need)
            pieces[count].end = pieces[count].offset + need
            pieces[count].first, pieces[count].last = start, stop
            for t in range(start // width, stop // width + 1):
                row = &during[t]
                if row.n == row.room:
                    grown = <int*>realloc(row.items, (2 * row.room + 8) * sizeof(int))
                    if grown is NULL:
                        raise MemoryError
                    row.items, row.room = grown, 2 * row.room + 8
                row.items[row.n] = count
                row.n += 1
            offsets[index] = pieces[count].offset
            top = max(top, pieces[count].end)
            count += 1
            if most >= 0 and top >= most:
                break
        return offsets, top, work
    finally:
        if during is not NULL:
            for i in range(rows):
                free(during[i].items)
        free(during)
        free(pieces)
        free(seen)
