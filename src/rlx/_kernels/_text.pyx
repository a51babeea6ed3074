"""Strings of object arrays: loops over the elements without an interpreter between them.

Every function takes a C-contiguous array of `str` objects (`check` says whether it is
one) and makes its result in one pass: a token is one new `str` and one look-up, an
element that is found in a table is one look-up. Text of ASCII alone, which most text
is, changes case byte by byte.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_SetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_Substring
import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object)
    int PyUnicode_KIND(object)
    void *PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    Py_UCS4 PyUnicode_READ(int, const void *, Py_ssize_t)
    object PyUnicode_New(Py_ssize_t, Py_UCS4)
    void Py_XDECREF(PyObject *)
    object PyUnicode_Split(object, object, Py_ssize_t)


cdef inline PyObject **data_of(cnp.ndarray x):
    return <PyObject **> cnp.PyArray_DATA(x)


cdef inline void put(PyObject **place, object value):
    """Store a new reference; the old one, if any, is dropped."""
    cdef PyObject *old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject *> value
    Py_XDECREF(old)


cdef inline cnp.ndarray like(cnp.ndarray x, int kind):
    """A new array of the shape of x; of objects, empty places."""
    return cnp.PyArray_ZEROS(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), kind, 0)


cdef cnp.ndarray listed(list items):
    cdef cnp.npy_intp n = PyList_GET_SIZE(items)
    cdef cnp.ndarray made = cnp.PyArray_ZEROS(1, &n, cnp.NPY_OBJECT, 0)
    cdef PyObject **out = data_of(made)
    cdef Py_ssize_t i
    for i in range(n):
        put(out + i, <object> PyList_GET_ITEM(items, i))
    return made


cdef cnp.ndarray held(cnp.ndarray x, int kind):
    """The array, C-contiguous; of another element type it is refused."""
    if x is None or cnp.PyArray_TYPE(x) != kind:
        raise TypeError(f"an array of {'strings' if kind == cnp.NPY_OBJECT else 'int64'} must be given, "
                        f"got {None if x is None else x.dtype}")
    return x if cnp.PyArray_IS_C_CONTIGUOUS(x) else np.ascontiguousarray(x)


cdef cnp.ndarray texts(cnp.ndarray x):
    """As `held`, every element a `str`."""
    cdef cnp.ndarray made = held(x, cnp.NPY_OBJECT)
    cdef PyObject **items = data_of(made)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(made)):
        if items[i] == NULL or not PyUnicode_CheckExact(<object> items[i]):
            raise TypeError(f"every element must be a str, got {type(x.flat[i]).__name__}")
    return made


def check(x):
    """Whether `x` is a C-contiguous array whose every element is exactly a `str`."""
    cdef PyObject **items
    cdef Py_ssize_t i
    if not cnp.PyArray_CheckExact(x) or cnp.PyArray_TYPE(<cnp.ndarray> x) != cnp.NPY_OBJECT:
        return False
    if not cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray> x):
        return False
    items = data_of(<cnp.ndarray> x)
    for i in range(cnp.PyArray_SIZE(<cnp.ndarray> x)):
        if items[i] == NULL or not PyUnicode_CheckExact(<object> items[i]):
            return False
    return True


# ------------------------------------------------------------------------- case

cdef object cased(object s, int case, bint ascii_only):
    """A string in lower (1) or upper (2) case, letter by letter: lengths do not change."""
    cdef Py_ssize_t i, n = PyUnicode_GET_LENGTH(s)
    cdef const unsigned char *source
    cdef unsigned char *target
    cdef unsigned char first = 65 if case == 1 else 97
    cdef unsigned char c
    cdef int kind
    cdef const void *data
    cdef unsigned int letter
    cdef list letters
    if PyUnicode_IS_ASCII(s):
        source = <const unsigned char *> PyUnicode_DATA(s)
        for i in range(n):
            if <unsigned char> (source[i] - first) < 26:
                break
        else:
            return s
        made = PyUnicode_New(n, 127)
        target = <unsigned char *> PyUnicode_DATA(made)
        for i in range(n):
            c = source[i]
            target[i] = c ^ ((<unsigned char> (c - first) < 26) << 5)
        return made
    kind = PyUnicode_KIND(s)
    data = PyUnicode_DATA(s)
    letters = []
    for i in range(n):
        letter = <unsigned int> PyUnicode_READ(kind, data, i)
        if letter < 128:
            if letter - first < 26:  # wraps below the first
                letter ^= 32
        elif not ascii_only:
            other = chr(letter).lower() if case == 1 else chr(letter).upper()
            if len(other) == 1:
                letters.append(other)
                continue
        letters.append(chr(letter))
    return "".join(letters)


def change_case(cnp.ndarray x, int case, bint ascii_only):
    """Every string in lower (`case` 1) or upper (2) case, letter by letter; 0 leaves them.

    `ascii_only`: letters beyond ASCII stay (the C locale).
    """
    x = texts(x)
    cdef cnp.ndarray made = like(x, cnp.NPY_OBJECT)
    cdef PyObject **source = data_of(x)
    cdef PyObject **out = data_of(made)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(x)):
        put(out + i, cased(<object> source[i], case, ascii_only) if case else <object> source[i])
    return made


def without(cnp.ndarray x, frozenset words not None, bint fold, bint ascii_only):
    """The strings, as a 1-D array, that are not among `words` (in lower case if `fold`)."""
    x = texts(x)
    cdef PyObject **source = data_of(x)
    cdef Py_ssize_t i
    cdef list kept = []
    for i in range(cnp.PyArray_SIZE(x)):
        s = <object> source[i]
        if (cased(s, 1, ascii_only) if fold else s) not in words:
            kept.append(s)
    return listed(kept)


# ----------------------------------------------------------------------- tokens

@cython.final
cdef class Runs:
    """Tokens that are the longest runs of letters of a set.

    Parameters
    ----------
    letters : bytes of 256
        1 for the letters of the set, by code point.
    beyond : bool
        Whether code points from 256 on belong to it.
    least : int
        Shorter runs are no tokens.
    """

    cdef unsigned char letters[256]
    cdef bint beyond
    cdef Py_ssize_t least

    def __init__(self, bytes letters not None, bint beyond, Py_ssize_t least):
        cdef int i
        if len(letters) != 256:
            raise ValueError(f"letters: must be 256 bytes, got {len(letters)}")
        for i in range(256):
            self.letters[i] = (<const unsigned char *> letters)[i]
        self.beyond = beyond
        self.least = max(1, least)

    cdef inline bint has(self, Py_UCS4 letter) noexcept:
        return self.letters[letter] if letter < 256 else self.beyond

    def __call__(self, str text not None):
        """Tokens of a string."""
        cdef Py_ssize_t i = 0, start, n = PyUnicode_GET_LENGTH(text)
        cdef int kind = PyUnicode_KIND(text)
        cdef const unsigned char *narrow
        cdef const void *data = PyUnicode_DATA(text)
        cdef list found = []
        if kind == 1:
            narrow = <const unsigned char *> data
            while i < n:
                if not self.letters[narrow[i]]:
                    i += 1
                    continue
                start = i
                i += 1
                while i < n and self.letters[narrow[i]]:
                    i += 1
                if i - start >= self.least:
                    found.append(PyUnicode_Substring(text, start, i))
            return found
        while i < n:
            if not self.has(PyUnicode_READ(kind, data, i)):
                i += 1
                continue
            start = i
            while i < n and self.has(PyUnicode_READ(kind, data, i)):
                i += 1
            if i - start >= self.least:
                found.append(PyUnicode_Substring(text, start, i))
        return found

    def full(self, cnp.ndarray x, bint empty):
        """Which strings are one run from end to end; `empty` is the answer for empty ones."""
        x = texts(x)
        cdef cnp.ndarray made = like(x, cnp.NPY_BOOL)
        cdef unsigned char *out = <unsigned char *> cnp.PyArray_DATA(made)
        cdef PyObject **source = data_of(x)
        cdef Py_ssize_t i, k, n
        cdef int kind
        cdef const void *data
        for i in range(cnp.PyArray_SIZE(x)):
            text = <object> source[i]
            n = PyUnicode_GET_LENGTH(text)
            kind = PyUnicode_KIND(text)
            data = PyUnicode_DATA(text)
            out[i] = n >= self.least if n else empty
            for k in range(n):
                if not self.has(PyUnicode_READ(kind, data, k)):
                    out[i] = 0
                    break
        return made


def padded(list rows not None, tuple shape not None, str fill not None):
    """Rows of strings as one array of `shape` and a last axis as long as the longest row."""
    cdef Py_ssize_t i, k, width = 0, n = PyList_GET_SIZE(rows)
    cdef list row
    cdef PyObject **out
    cdef cnp.ndarray made
    cdef cnp.npy_intp dims[2]
    for i in range(n):
        row = <list?> <object> PyList_GET_ITEM(rows, i)
        width = max(width, PyList_GET_SIZE(row))
    dims[0], dims[1] = n, width
    made = cnp.PyArray_ZEROS(2, dims, cnp.NPY_OBJECT, 0)
    out = data_of(made)
    for i in range(n):
        row = <list?> <object> PyList_GET_ITEM(rows, i)
        for k in range(width):
            put(out, <object> PyList_GET_ITEM(row, k) if k < PyList_GET_SIZE(row) else fill)
            out += 1
    return made if len(shape) == 1 else made.reshape((*shape, width))


def rows_of(cnp.ndarray x, object split):
    """`split(element)`, a list of strings, for every element."""
    x = texts(x)
    cdef PyObject **source = data_of(x)
    cdef Py_ssize_t i
    cdef list rows = []
    for i in range(cnp.PyArray_SIZE(x)):
        rows.append(split(<object> source[i]))
    return rows


# ----------------------------------------------------------------- tables of strings

def positions(cnp.ndarray x, dict table not None, int64_default):
    """int64: what `table` has for every string, or the default."""
    x = held(x, cnp.NPY_OBJECT)
    cdef cnp.ndarray made = like(x, cnp.NPY_INT64)
    cdef cnp.int64_t *out = <cnp.int64_t *> cnp.PyArray_DATA(made)
    cdef cnp.int64_t missing = int64_default
    cdef PyObject **source = data_of(x)
    cdef PyObject *found
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(x)):
        found = PyDict_GetItem(table, <object> source[i])
        out[i] = <object> found if found != NULL else missing
    return made


def floats(cnp.ndarray x, dict table not None, float missing):
    """float32: what `table` has for every string, or the default."""
    x = held(x, cnp.NPY_OBJECT)
    cdef cnp.ndarray made = like(x, cnp.NPY_FLOAT32)
    cdef float *out = <float *> cnp.PyArray_DATA(made)
    cdef PyObject **source = data_of(x)
    cdef PyObject *found
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(x)):
        found = PyDict_GetItem(table, <object> source[i])
        out[i] = <float> <object> found if found != NULL else missing
    return made


def objects(cnp.ndarray x, dict table not None, object missing):
    """What `table` has for every object, or the default."""
    x = held(x, cnp.NPY_OBJECT)
    cdef cnp.ndarray made = like(x, cnp.NPY_OBJECT)
    cdef PyObject **out = data_of(made)
    cdef PyObject **source = data_of(x)
    cdef PyObject *found
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(x)):
        found = PyDict_GetItem(table, <object> source[i])
        put(out + i, <object> found if found != NULL else missing)
    return made


def names(cnp.ndarray x, dict table not None, object missing):
    """For every int64 the string that `table` has, or the default."""
    x = held(x, cnp.NPY_INT64)
    cdef cnp.ndarray made = like(x, cnp.NPY_OBJECT)
    cdef PyObject **out = data_of(made)
    cdef const cnp.int64_t *source = <const cnp.int64_t *> cnp.PyArray_DATA(x)
    cdef PyObject *found
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(x)):
        found = PyDict_GetItem(table, source[i])
        put(out + i, <object> found if found != NULL else missing)
    return made


def one_hot(cnp.ndarray x, dict table not None, Py_ssize_t width):
    """float32 with a last axis of `width`, and the index of the first string that `table` has not, or -1."""
    x = held(x, cnp.NPY_OBJECT)
    cdef cnp.npy_intp dims[64]
    cdef int axis, rank = cnp.PyArray_NDIM(x)
    cdef Py_ssize_t i, gone = -1, place
    cdef PyObject **source = data_of(x)
    cdef PyObject *found
    cdef cnp.ndarray made
    cdef float *out
    if rank > 63:
        raise ValueError(f"rank: must be at most 63, got {rank}")
    for axis in range(rank):
        dims[axis] = cnp.PyArray_DIM(x, axis)
    dims[rank] = width
    made = cnp.PyArray_ZEROS(rank + 1, dims, cnp.NPY_FLOAT32, 0)
    out = <float *> cnp.PyArray_DATA(made)
    for i in range(cnp.PyArray_SIZE(x)):
        found = PyDict_GetItem(table, <object> source[i])
        if found != NULL:
            place = <object> found
            if 0 <= place < width:
                out[i * width + place] = 1
        elif gone < 0:
            gone = i
    return made, gone


@cython.final
cdef class Grams:
    """Counts of n-grams: sequences of items, with up to so many others between neighbours.

    Items that occur in some n-gram have numbers; an n-gram is a path in a tree, whose edges
    (node, number of the item) -> node lie in a table of open addressing.

    Parameters
    ----------
    numbers : dict
        Item -> 0, 1, ...
    edges : list of (node, number, node)
        Node 0 is the root.
    places : list of int
        For every node the place that it counts in, or -1.
    longest, skips : int
        Items of the longest n-gram; most items left out between two.
    width : int
        Number of places.
    """

    cdef dict numbers
    cdef list tables  # keep the memory of the next three alive
    cdef cnp.int64_t *keys
    cdef cnp.int64_t *nodes
    cdef cnp.int64_t *places
    cdef Py_ssize_t mask, longest, skips, width, count

    def __init__(self, dict numbers not None, list edges not None, list places not None,
                 Py_ssize_t longest, Py_ssize_t skips, Py_ssize_t width):
        cdef Py_ssize_t size = 16, at
        cdef cnp.int64_t key
        while size < 2 * len(edges):
            size *= 2
        self.tables = [np.full(size, -1, np.int64), np.zeros(size, np.int64), np.array(places, np.int64)]
        self.keys = <cnp.int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.tables[0])
        self.nodes = <cnp.int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.tables[1])
        self.places = <cnp.int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.tables[2])
        self.mask, self.longest, self.skips, self.width = size - 1, longest, skips, width
        self.numbers, self.count = numbers, max(1, len(numbers))
        for node, number, target in edges:
            if not (0 <= node < len(places) and 0 <= number < self.count and 0 <= target < len(places)):
                raise ValueError(f"edges: must join known nodes, got {(node, number, target)}")
            key = node * self.count + number
            at = slot_of(key) & self.mask
            while self.keys[at] >= 0:
                at = (at + 1) & self.mask
            self.keys[at], self.nodes[at] = key, target
        for place in places:
            if not -1 <= place < width:
                raise ValueError(f"places: must be below {width}, got {place}")

    cdef inline cnp.int64_t next(self, cnp.int64_t node, cnp.int64_t number) noexcept:
        cdef cnp.int64_t key = node * self.count + number
        cdef Py_ssize_t at = slot_of(key) & self.mask
        while self.keys[at] >= 0:
            if self.keys[at] == key:
                return self.nodes[at]
            at = (at + 1) & self.mask
        return -1

    def __call__(self, cnp.ndarray x, Py_ssize_t rows):
        """float32 [rows, width]: how often each n-gram is met in a row."""
        cdef cnp.npy_intp dims[2]
        cdef cnp.ndarray made, row
        cdef float *out
        cdef cnp.int64_t *ids
        cdef cnp.int64_t node
        cdef PyObject **source
        cdef PyObject *found
        cdef Py_ssize_t _r, k, j, step, long
        x = held(x, cnp.NPY_OBJECT)
        source = data_of(x)
        long = cnp.PyArray_SIZE(x) // max(1, rows)
        dims[0], dims[1] = rows, self.width
        made = cnp.PyArray_ZEROS(2, dims, cnp.NPY_FLOAT32, 0)
        out = <float *> cnp.PyArray_DATA(made)
        dims[0] = long
        row = cnp.PyArray_ZEROS(1, dims, cnp.NPY_INT64, 0)
        ids = <cnp.int64_t *> cnp.PyArray_DATA(row)
        for _r in range(rows):
            for k in range(long):
                found = PyDict_GetItem(self.numbers, <object> source[k])
                ids[k] = -1
                if found != NULL:
                    ids[k] = <object> found
                    node = self.next(0, ids[k])
                    if node >= 0 and self.places[node] >= 0:
                        out[self.places[node]] += 1
            for step in range(1, min(self.skips + 2, long) if self.longest > 1 else 1):
                for k in range(long - step):
                    if ids[k] < 0:
                        continue
                    node = self.next(0, ids[k])
                    j = k + step
                    while node >= 0 and j < long and ids[j] >= 0 and j - k < self.longest * step:
                        node = self.next(node, ids[j])
                        if node >= 0 and self.places[node] >= 0:
                            out[self.places[node]] += 1
                        j += step
            source += long
            out += self.width
        return made


cdef inline Py_ssize_t slot_of(cnp.int64_t key) noexcept:
    return <Py_ssize_t> ((<cnp.uint64_t> key * <cnp.uint64_t> 0x9E3779B97F4A7C15) >> 32)


def split(cnp.ndarray x, object delimiter, Py_ssize_t most):
    """Parts of every string as rows; `delimiter` None stands for white space. An empty string has none."""
    cdef PyObject **source
    cdef Py_ssize_t i
    cdef list rows = []
    x = texts(x)
    source = data_of(x)
    for i in range(cnp.PyArray_SIZE(x)):
        text = <object> source[i]
        if not PyUnicode_GET_LENGTH(text):
            rows.append([])
            continue
        parts = PyUnicode_Split(text, delimiter, most) if delimiter is not None else text.split(None, most)
        rows.append(parts)
    return rows


def lengths(list rows not None, tuple shape not None):
    """int64: how many items every row has, as an array of a shape."""
    cdef cnp.npy_intp n = PyList_GET_SIZE(rows)
    cdef cnp.ndarray made = cnp.PyArray_ZEROS(1, &n, cnp.NPY_INT64, 0)
    cdef cnp.int64_t *out = <cnp.int64_t *> cnp.PyArray_DATA(made)
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = len(<list?> <object> PyList_GET_ITEM(rows, i))
    return made if len(shape) == 1 else made.reshape(shape)


def joined(cnp.ndarray a, cnp.ndarray b):
    """Strings of two arrays of one shape, put together."""
    a, b = texts(a), texts(b)
    cdef cnp.ndarray made = like(a, cnp.NPY_OBJECT)
    cdef PyObject **out = data_of(made)
    cdef PyObject **left = data_of(a)
    cdef PyObject **right = data_of(b)
    cdef Py_ssize_t i
    if cnp.PyArray_SIZE(a) != cnp.PyArray_SIZE(b):
        raise ValueError("joined: arrays must have one shape")
    for i in range(cnp.PyArray_SIZE(a)):
        put(out + i, <str?> <object> left[i] + <str?> <object> right[i])
    return made


def maps(cnp.ndarray x, list keys not None):
    """For every row of float32 or float64 [rows, len(keys)] a dict from the keys to its numbers."""
    cdef Py_ssize_t _row, k, at = 0, n = PyList_GET_SIZE(keys), rows
    cdef const float *narrow
    cdef const double *wide
    cdef bint single
    cdef list found = []
    cdef dict model = dict.fromkeys(keys), made
    if x is None or cnp.PyArray_TYPE(x) not in (cnp.NPY_FLOAT32, cnp.NPY_FLOAT64):
        raise TypeError(f"an array of floats must be given, got {None if x is None else x.dtype}")
    if not cnp.PyArray_IS_C_CONTIGUOUS(x):
        x = np.ascontiguousarray(x)
    single = cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT32
    narrow, wide = <const float *> cnp.PyArray_DATA(x), <const double *> cnp.PyArray_DATA(x)
    rows = cnp.PyArray_SIZE(x) // max(1, n)
    for _row in range(rows):
        made = PyDict_Copy(model)
        for k in range(n):
            PyDict_SetItem(made, <object> PyList_GET_ITEM(keys, k), <double> narrow[at] if single else wide[at])
            at += 1
        found.append(made)
    return found
