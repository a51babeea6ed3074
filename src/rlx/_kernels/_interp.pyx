"""The interpreter: walks thunks with the GIL released, binds arrays, splits work.

A `Program` owns verified thunks; an `Executor` owns one table of base addresses
and the arrays behind it, and runs the program over them. Everything here is per
run, so nothing here looks at a graph.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_GetItem
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_CLEAR, Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from rlx._kernels.abi cimport (
    RLX_ERR_CANCELLED,
    RLX_ERR_PYTHON,
    RLX_OK,
    rlx_arg,
    rlx_error,
    rlx_ew_row,
    rlx_families,
    rlx_frame,
    rlx_kernel,
    rlx_kernel_row,
    rlx_thunk,
)

import numpy as np

cnp.import_array()

cdef extern from "run_frame.h" nogil:
    ctypedef struct rlx_run_frame:
        rlx_frame frame
        void **keepers
        void **raised

cdef extern from "fp_mode.h" nogil:
    unsigned rlx_fp_enter(int zero)
    void rlx_fp_set(unsigned mode)

cdef extern from "pool.h" nogil:
    int rlx_pool_enter(int n)
    int rlx_pool_leave(int granted)
    int rlx_pool_run(const rlx_thunk *t, const rlx_frame *f, int threads)

cdef extern from "trial.h" nogil:
    int RLX_SPLITS
    int64_t *rlx_split_by

    ctypedef struct rlx_trial:
        int32_t turn
        int32_t choice

    void rlx_trial_init(rlx_trial *t, int32_t choices)
    int rlx_trial_now(const rlx_trial *t)
    void rlx_trial_learn(rlx_trial *t, int choice, int64_t took, int fair)
    void rlx_trial_pass(rlx_trial *t)

cdef extern from "numpy/arrayobject.h":
    # Steals a reference to the descriptor.
    object PyArray_NewFromDescr(PyTypeObject *, void *, int, cnp.npy_intp *, cnp.npy_intp *,
                                void *, int, PyObject *)

cdef extern from "clock.h" nogil:
    int64_t rlx_now_ns()

cdef extern from "state.h" nogil:
    ctypedef struct rlx_state:
        uint64_t seed
        uint64_t counter
        uint64_t trip
        int32_t backend
        int32_t reserved

    uint64_t rlx_trip(uint64_t outer, int64_t i)

# A thunk cheaper than this is not worth a hand-over to another thread.
cdef int64_t SPLIT_NS = 20_000


def set_split_ns(int64_t ns):
    """Set how much estimated work is worth a hand-over, for all programs that are made from now on."""
    global SPLIT_NS
    SPLIT_NS = ns


# Estimated work beyond which a program splits without asking.
cdef int64_t TRIAL_NS = 3_000_000

# How much estimated work may pass between two looks at pending signals.
cdef int64_t SIGNAL_NS = 50_000_000
# A program that is estimated to take less keeps the GIL: to release it and take it again costs 70 ns, which is a tenth
# of such a run, and nobody waits for it longer than for a few lines of Python.
cdef int64_t BRIEF_NS = 4_000


cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static void rlx_trim(void) { malloc_trim(0); }
    #else
    static void rlx_trim(void) {}
    #endif
    """
    void rlx_trim() nogil


def trim():
    """Give free heap pages back to the system (where the C library can)."""
    with nogil:
        rlx_trim()


def rows_of(capsule):
    """Return (kernels, ews) of an ISA module: name -> (address, layout or arity, flags)."""
    cdef const rlx_families *fam = <const rlx_families *> PyCapsule_GetPointer(
        capsule, b"rlx.families")
    cdef const rlx_kernel_row *k
    cdef const rlx_ew_row *e
    cdef int i = 0
    kernels, ews = {}, {}
    while fam.kernels[i] != NULL:
        k = fam.kernels[i]
        while k.name != NULL:
            kernels[k.name.decode()] = (<intptr_t> k.fn, k.layout.decode(), k.flags)
            k += 1
        i += 1
    i = 0
    while fam.ews[i] != NULL:
        e = fam.ews[i]
        while e.name != NULL:
            ews[e.name.decode()] = (<intptr_t> e.fn, e.arity, 0)
            e += 1
        i += 1
    return kernels, ews


# --------------------------------------------------------------------- execution

cdef struct Plan:
    rlx_thunk *thunks
    int64_t n_thunks


cdef void leave(const rlx_frame *frame, object exc) noexcept:
    """Leave an exception for the executor, which raises it when the run has ended."""
    cdef void **raised = (<const rlx_run_frame *> frame).raised
    if raised[0] == NULL:
        Py_INCREF(exc)
        raised[0] = <void *> exc


cdef int execute(const Plan *plan, rlx_frame *frame, int threads, int64_t split_ns) noexcept nogil:
    """Run every thunk in order; on failure say which node in frame.error."""
    cdef int64_t i
    cdef int status
    cdef const rlx_thunk *t
    for i in range(plan.n_thunks):
        t = plan.thunks + i
        if threads > 1 and t.grain > 0 and t.cost > split_ns * t.phases:
            status = rlx_pool_run(t, frame, threads)
        else:
            status = t.fn(t, frame, 0, t.extent)
        if status == RLX_OK and frame.cancel[0]:
            status = RLX_ERR_CANCELLED
        frame.since[0] += t.cost
        if frame.since[0] > SIGNAL_NS and status == RLX_OK:
            frame.since[0] = 0
            with gil:
                try:
                    PyErr_CheckSignals()
                except BaseException as exc:
                    leave(frame, exc)
                    status = RLX_ERR_PYTHON
        if status != RLX_OK:
            frame.error.status = status
            if frame.error.node < 0:
                frame.error.node = t.node
            return status
    return RLX_OK


cdef int execute_timed(const Plan *plan, rlx_frame *frame, int threads,
                       int64_t *spent) noexcept nogil:
    """As `execute`, adding each thunk's nanoseconds to `spent`."""
    cdef int64_t i, start, stop
    cdef int status
    cdef const rlx_thunk *t
    start = rlx_now_ns()
    for i in range(plan.n_thunks):
        t = plan.thunks + i
        if threads > 1 and t.grain > 0 and t.cost > SPLIT_NS * t.phases:
            status = rlx_pool_run(t, frame, threads)
        else:
            status = t.fn(t, frame, 0, t.extent)
        stop = rlx_now_ns()
        spent[i] += stop - start
        start = stop
        if status != RLX_OK:
            frame.error.status = status
            if frame.error.node < 0:
                frame.error.node = t.node
            return status
    return RLX_OK


include "control.pxi"


KERNELS = {
    "control.loop": (<intptr_t> <rlx_kernel> control_loop,
                     "plan bound counts reverse slots:* carried:* rows:*", 0),
    "control.if": (<intptr_t> <rlx_kernel> control_if,
                   "then_plan else_plan then_slots:* else_slots:*", 0),
}


# ----------------------------------------------------------------------- program

cdef class Program:
    """Verified thunks, ready to run. Built by `rlx.runtime.link`; immutable.

    Parameters
    ----------
    fns, extents, grains, phases, nodes, costs : int64 arrays, one element per thunk
    attrs : int64 array
        The attribute blocks, one after another.
    attr_starts : int64 array
        Where each thunk's block starts.
    arg_slots, arg_offsets : int64 arrays
        Operands of all thunks, one after another.
    arg_starts : int64 array of n + 1
        Where each thunk's operands start.
    keep : object
        Whatever must live as long as the program (bodies, callbacks).
    """

    cdef Plan plan
    cdef rlx_arg *args
    cdef int64_t *attrs
    cdef readonly int64_t n_slots
    cdef readonly object keep
    cdef readonly bint parallel
    cdef readonly bint brief
    cdef readonly bint tries  # finds out what is worth a second thread
    cdef rlx_trial trial

    def __cinit__(self, cnp.int64_t[::1] fns, cnp.int64_t[::1] extents, cnp.int64_t[::1] grains,
                  cnp.int64_t[::1] phases, cnp.int64_t[::1] nodes, cnp.int64_t[::1] costs, cnp.int64_t[::1] attrs,
                  cnp.int64_t[::1] attr_starts, cnp.int64_t[::1] arg_slots,
                  cnp.int64_t[::1] arg_offsets, cnp.int64_t[::1] arg_starts,
                  int64_t n_slots, object keep):
        cdef int64_t i, n = fns.shape[0]
        cdef int k
        cdef int64_t[8] worth
        cdef int32_t choices = 1 << (RLX_SPLITS - 1)
        memset(worth, 0, sizeof(worth))
        self.plan.thunks = <rlx_thunk *> PyMem_Malloc(max(1, n) * sizeof(rlx_thunk))
        self.args = <rlx_arg *> PyMem_Malloc(max(1, arg_slots.shape[0]) * sizeof(rlx_arg))
        self.attrs = <int64_t *> PyMem_Malloc(max(1, attrs.shape[0]) * sizeof(int64_t))
        if self.plan.thunks == NULL or self.args == NULL or self.attrs == NULL:
            raise MemoryError()
        memset(self.plan.thunks, 0, max(1, n) * sizeof(rlx_thunk))
        for i in range(attrs.shape[0]):
            self.attrs[i] = attrs[i]
        for i in range(arg_slots.shape[0]):
            self.args[i].slot = <int32_t> arg_slots[i]
            self.args[i].reserved = 0
            self.args[i].offset = arg_offsets[i]
        for i in range(n):
            t = self.plan.thunks + i
            t.fn = <rlx_kernel> <intptr_t> fns[i]
            t.attrs = self.attrs + attr_starts[i]
            t.args = self.args + arg_starts[i]
            t.n_args = <int32_t> (arg_starts[i + 1] - arg_starts[i])
            t.extent = extents[i]
            t.grain = grains[i]
            t.phases = phases[i]
            t.node = <int32_t> nodes[i]
            t.cost = costs[i]
        self.plan.n_thunks = n
        self.n_slots = n_slots
        self.keep = keep
        # Whether any thunk, in bodies too, is worth a second thread: only then is the pool woken.
        self.parallel = any(isinstance(k, Program) and k.parallel for k in keep or ())
        for i in range(n):
            t = self.plan.thunks + i
            for k in range(RLX_SPLITS - 1):
                worth[k] += t.grain > 0 and t.cost > SPLIT_NS * t.phases * rlx_split_by[k]
        self.parallel = self.parallel or worth[0] > 0
        self.tries = np.sum(costs) < TRIAL_NS
        # Multiples that split the same thunks, or none, are one.
        for k in range(RLX_SPLITS - 1):
            if keep or (worth[k] > 0 and (k == 0 or worth[k] < worth[k - 1])):
                choices |= 1 << k
        rlx_trial_init(&self.trial, choices)
        # Bodies run any number of times, and an estimate of 0 is none.
        self.brief = not keep and not self.parallel and n > 0 and np.min(costs) > 0 and np.sum(costs) < BRIEF_NS

    def __dealloc__(self):
        PyMem_Free(self.plan.thunks)
        PyMem_Free(self.args)
        PyMem_Free(self.attrs)

    def __len__(self):
        return self.plan.n_thunks

    @property
    def choice(self):
        """Which multiple of the work that is worth a hand-over stays; -1 while runs try them."""
        return -1 if self.trial.turn >= 0 else self.trial.choice

    @property
    def address(self):
        """Address of the plan, for the attributes of a control thunk."""
        return <intptr_t> &self.plan


# ---------------------------------------------------------------------- executor

@cython.final
cdef class Outputs:
    """Results of a run: a sequence in output order, also indexable by name."""

    cdef readonly tuple values_
    cdef readonly dict index_

    def __init__(self, tuple values, dict index):
        self.values_ = values
        self.index_ = index

    def __getitem__(self, key):
        if isinstance(key, str):
            try:
                return self.values_[self.index_[key]]
            except KeyError:
                raise KeyError(f"no output {key!r}; outputs are {list(self.index_)}") from None
        try:
            return self.values_[key]
        except IndexError:
            raise IndexError(f"no output {key}; there are {len(self.values_)}: {list(self.index_)}") from None

    def __len__(self):
        return len(self.values_)

    def __iter__(self):
        return iter(self.values_)

    def __contains__(self, key):
        return key in self.index_

    def keys(self):
        """Names of the outputs, in order."""
        return self.index_.keys()

    def values(self):
        """The arrays, in order."""
        return self.values_

    def items(self):
        """Pairs (name, array), in order."""
        return zip(self.index_, self.values_)

    def __repr__(self):
        parts = ", ".join(
            f"{k}: {v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else f"{k}: {type(v).__name__}"
            for k, v in self.items())
        return f"Outputs({parts})"


@cython.final
cdef class Targets:
    """Memory of outputs that are state: trusted, and handed out as read-only views.

    Parameters
    ----------
    arrays : list
        Per output: a C-contiguous array of its type that nobody else reads or writes (an input of the run
        only where the program may write over it), or None.
    rest : object
        What the caller gave for the other outputs, as `out` of `Executor.run`.
    """

    cdef list arrays
    cdef object rest

    def __init__(self, list arrays, object rest):
        self.arrays = arrays
        self.rest = rest


cdef object read_only(cnp.ndarray array):
    """A view of a whole array that cannot be written."""
    cdef object dtype = array.descr
    cdef object view
    Py_INCREF(dtype)
    view = PyArray_NewFromDescr(<PyTypeObject *> cnp.ndarray, <void *> dtype, cnp.PyArray_NDIM(array),
                                cnp.PyArray_DIMS(array), NULL, cnp.PyArray_DATA(array),
                                cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED, NULL)
    cnp.set_array_base(view, array)
    return view


@cython.final
cdef class RunState:
    """Random numbers of an executable: seed, number of the run, backend (0 Philox, 1 zeros)."""

    cdef rlx_state state

    def __init__(self, uint64_t seed=0, uint64_t counter=0, int32_t backend=0):
        self.state.seed = seed
        self.state.counter = counter
        self.state.backend = backend
        self.state.trip = 0
        self.state.reserved = 0

    def reset(self, uint64_t seed, int32_t backend):
        """Start a new stream; whatever draws from this state goes on with it."""
        self.state.seed = seed
        self.state.counter = 0
        self.state.backend = backend

    def rewind(self, uint64_t counter):
        """Go back to a number that `counter` gave, after a run in parts that failed."""
        self.state.counter = counter

    @property
    def seed(self):
        """Seed of all streams."""
        return self.state.seed

    @property
    def counter(self):
        """Number of the next run since the seed was set."""
        return self.state.counter

    @property
    def backend(self):
        """0 Philox, 1 zeros."""
        return self.state.backend


@cython.final
cdef class Guard:
    """Held during a run. Executors that share scratch share one, so that one call runs at a time."""

    cdef int running  # 1 during a run, 2 when closed for good

    def enter(self):
        """Take it as a run does; False if it is taken."""
        if self.running:
            return False
        self.running = 1
        return True

    def leave(self):
        """Give it back."""
        self.running = 0

    def close(self):
        """Let no run in any more; it has been taken by `enter`."""
        self.running = 2

    @property
    def is_closed(self):
        """Whether no run is let in."""
        return self.running == 2


cdef struct Port:
    int type_num
    int ndim
    int slot
    int64_t nbytes
    cnp.npy_intp dims[64]  # as many axes as a NumPy array may have


cdef bint are_bools(const uint8_t *data, int64_t n) noexcept nogil:
    """Whether every byte is 0 or 1, which kernels rely on and a view of other bytes breaks."""
    cdef uint64_t a, b, seen = 0
    cdef int64_t i = 0
    while i + 16 <= n:
        memcpy(&a, data + i, 8)
        memcpy(&b, data + i + 8, 8)
        seen |= a | b
        i += 16
    while i < n:
        seen |= data[i]
        i += 1
    return (seen & ~<uint64_t> 0x0101010101010101) == 0


cdef class Executor:
    """A program, a table of base addresses, and the arrays behind them.

    Parameters
    ----------
    program : Program
    inputs, outputs : list of (name, dtype, shape, slot)
    helper : object
        `helper.coerce(i, value)` returns an array that fits input i or raises;
        `helper.names(inputs)` raises for a name that is no input or is missing;
        `helper.out(i, array)` checks a caller's output; `helper.failed(error)`
        makes the exception of a failed run.
    """

    cdef Program program
    cdef char **base
    cdef Port *ports
    cdef PyObject **held  # inputs of the run in progress
    cdef void **keepers  # borrowed: who owns the memory behind each slot, as far as the run in progress needs it
    cdef void *raised  # exception of the run in progress
    cdef int n_in, n_out
    cdef tuple in_names
    cdef tuple out_dtypes
    cdef dict out_index
    cdef list owners
    cdef object helper
    cdef rlx_error error
    cdef int32_t cancel_flag
    cdef public Guard guard
    cdef readonly int threads
    cdef public object spent
    cdef public RunState state
    cdef public int limit  # threads that scratch has room for
    cdef public bint zero_denormals  # denormal operands and results are 0
    cdef public object source  # the planned program
    cdef public object wiring  # what linked outputs mean for it

    def __cinit__(self, Program program, list inputs, list outputs, object helper, int threads):
        cdef int i, j
        self.program = program
        self.helper = helper
        self.threads = threads
        self.n_in = len(inputs)
        self.n_out = len(outputs)
        self.base = <char **> PyMem_Malloc(max(1, program.n_slots) * sizeof(char *))
        self.ports = <Port *> PyMem_Malloc(max(1, self.n_in + self.n_out) * sizeof(Port))
        self.held = <PyObject **> PyMem_Malloc(max(1, self.n_in) * sizeof(PyObject *))
        self.keepers = <void **> PyMem_Malloc(max(1, program.n_slots) * sizeof(void *))
        if self.base == NULL or self.ports == NULL or self.held == NULL or self.keepers == NULL:
            raise MemoryError()
        memset(self.keepers, 0, max(1, program.n_slots) * sizeof(void *))
        memset(self.held, 0, max(1, self.n_in) * sizeof(PyObject *))
        memset(self.base, 0, max(1, program.n_slots) * sizeof(char *))
        self.owners = [None] * program.n_slots
        self.in_names = tuple(p[0] for p in inputs)
        self.out_dtypes = tuple(np.dtype(p[1]) for p in outputs)
        self.out_index = {p[0]: i for i, p in enumerate(outputs)}
        for i, (_, dtype, shape, slot) in enumerate(inputs + outputs):
            if len(shape) > 64:
                raise ValueError(f"rank of an input or output must be at most 64, got {len(shape)}")
            dtype = np.dtype(dtype)
            self.ports[i].type_num = dtype.num
            self.ports[i].ndim = len(shape)
            self.ports[i].slot = slot
            self.ports[i].nbytes = dtype.itemsize
            for j in range(len(shape)):
                self.ports[i].dims[j] = shape[j]
                self.ports[i].nbytes *= shape[j]
        self.guard = Guard()
        self.cancel_flag = 0
        self.spent = None
        self.limit = 64
        self.zero_denormals = False
        self.state = RunState()

    def __dealloc__(self):
        PyMem_Free(self.base)
        PyMem_Free(self.ports)
        PyMem_Free(self.held)
        PyMem_Free(self.keepers)

    def bind(self, int64_t slot, cnp.ndarray array):
        """Put a C-contiguous array (weights, scratch) behind a slot, and keep it alive."""
        if slot < 0 or slot >= self.program.n_slots:
            raise IndexError(f"slot {slot} of {self.program.n_slots}")
        if self.guard.running:
            self.refuse()
        self.base[slot] = <char *> cnp.PyArray_DATA(array)
        self.owners[slot] = array
        self.keepers[slot] = <void *> array

    cdef object refuse(self):
        """Raise: a run is in progress, or none is let in any more."""
        if self.guard.running == 2:
            self.helper.closed()
        self.helper.busy()

    def bound(self, int64_t slot):
        """The array behind a slot, or None."""
        return self.owners[slot]

    def address(self, int64_t slot):
        """Base address of a slot."""
        return <intptr_t> self.base[slot]

    def cancel(self):
        """Ask the run in progress to stop before its next thunk."""
        self.cancel_flag = 1

    def abandon(self):
        """Forget a run of a thread that does not exist in this process (after a fork)."""
        if self.guard.running == 1:
            self.guard.running = 0

    @property
    def is_running(self):
        """Whether a run is in progress."""
        return self.guard.running == 1

    cdef bint fits(self, const Port *port, cnp.ndarray array) noexcept:
        cdef int j
        if cnp.PyArray_TYPE(array) != port.type_num or cnp.PyArray_NDIM(array) != port.ndim:
            return False
        for j in range(port.ndim):
            if cnp.PyArray_DIM(array, j) != port.dims[j]:
                return False
        if not (cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_ISALIGNED(array)
                and cnp.PyArray_ISNOTSWAPPED(array)):
            return False
        return port.type_num != cnp.NPY_BOOL or are_bools(<const uint8_t *> cnp.PyArray_DATA(array), port.nbytes)

    cdef bint overlaps_inputs(self, cnp.ndarray array):
        """Whether a caller's output shares memory with an input of this run."""
        cdef int i
        cdef char *lo = <char *> cnp.PyArray_DATA(array)
        cdef char *hi = lo + cnp.PyArray_NBYTES(array)
        cdef char *other
        for i in range(self.n_in):
            other = self.base[self.ports[i].slot]
            if other < hi and lo < other + self.ports[i].nbytes:
                return True
        return False

    cdef object check_apart(self, int i, list made, cnp.ndarray array):
        """Refuse a caller's output that shares memory with one before it."""
        cdef char *lo = <char *> cnp.PyArray_DATA(array)
        cdef char *hi = lo + cnp.PyArray_NBYTES(array)
        cdef char *other
        cdef cnp.ndarray before
        for before in made:
            other = <char *> cnp.PyArray_DATA(before)
            if other < hi and lo < other + cnp.PyArray_NBYTES(before):
                self.helper.shared(i)

    def run(self, dict inputs not None, int threads, object out):
        """Bind, run, return `Outputs`. `threads` 0 means the executor's own."""
        return self.run_on(inputs, threads, out)

    cdef object run_on(self, dict inputs, int threads, object out):
        cdef int i, matched = 0, status
        cdef PyObject *found
        cdef object value
        cdef cnp.ndarray array
        cdef list copies = None
        cdef tuple results
        cdef list made
        cdef list targets = None
        if self.guard.running:
            self.refuse()
        if type(out) is Targets:
            targets = (<Targets> out).arrays
            out = (<Targets> out).rest
        self.guard.running = 1
        try:
            for i in range(self.n_in):
                found = PyDict_GetItem(inputs, self.in_names[i])
                if found == NULL:
                    self.helper.names(inputs)
                    raise KeyError(self.in_names[i])
                matched += 1
                value = <object> found
                if not (cnp.PyArray_CheckExact(value)
                        and self.fits(self.ports + i, <cnp.ndarray> value)):
                    value = self.helper.coerce(i, value)
                Py_INCREF(value)  # the caller may change the dict while this runs
                self.held[i] = <PyObject *> value
                self.keepers[self.ports[i].slot] = <void *> value
                self.base[self.ports[i].slot] = <char *> cnp.PyArray_DATA(<cnp.ndarray> value)
            if matched != len(inputs):
                self.helper.names(inputs)
            made = []
            for i in range(self.n_out):
                array = None
                if targets is not None and targets[i] is not None:
                    array = targets[i]
                elif out is not None:
                    value = self.helper.out(i, out)
                    if value is not None:
                        self.check_apart(i, made + [v for _, v in copies or ()], value)
                        if self.overlaps_inputs(value):
                            if copies is None:
                                copies = []
                            copies.append((i, value))
                        else:
                            array = value
                if array is None:
                    dtype = self.out_dtypes[i]
                    Py_INCREF(dtype)
                    array = PyArray_NewFromDescr(
                        <PyTypeObject *> cnp.ndarray, <void *> dtype,
                        self.ports[self.n_in + i].ndim, self.ports[self.n_in + i].dims,
                        NULL, NULL, 0, NULL)
                self.base[self.ports[self.n_in + i].slot] = <char *> cnp.PyArray_DATA(array)
                self.keepers[self.ports[self.n_in + i].slot] = <void *> array
                made.append(array)
            status = self.go(threads if threads > 0 else self.threads)
            if status != RLX_OK:
                raise self.failure(status)
            if copies is not None:
                for i, value in copies:
                    value[...] = made[i]
                    made[i] = value
            if targets is not None:
                for i in range(self.n_out):
                    if targets[i] is not None:
                        made[i] = read_only(made[i])
            results = tuple(made)
        finally:
            for i in range(self.n_in):
                Py_CLEAR(self.held[i])
            self.guard.running = 0
        return Outputs(results, self.out_index)

    cdef object run_kept(self, object arrays, list kept, list views):
        """Run on a list or tuple of inputs by position into `kept`, one array per output that fits it.

        Returns read-only views of the outputs, which `views` holds until the next run; None, without a run, when an
        input is not an array that fits.
        """
        cdef int i, status
        cdef object value, view
        if not (type(arrays) is list or type(arrays) is tuple):
            return None
        if len(arrays) != self.n_in or len(kept) != self.n_out or len(views) != self.n_out:
            return None
        if self.guard.running:
            self.helper.busy()
        self.guard.running = 1
        try:
            for i in range(self.n_in):
                value = arrays[i]
                if not (cnp.PyArray_CheckExact(value) and self.fits(self.ports + i, <cnp.ndarray> value)):
                    return None
                Py_INCREF(value)
                self.held[i] = <PyObject *> value
                self.base[self.ports[i].slot] = <char *> cnp.PyArray_DATA(<cnp.ndarray> value)
            for i in range(self.n_out):
                value = kept[i]
                if not self.fits(self.ports + self.n_in + i, <cnp.ndarray?> value):
                    return None
                if self.overlaps_inputs(<cnp.ndarray> value):
                    return None
                self.base[self.ports[self.n_in + i].slot] = <char *> cnp.PyArray_DATA(<cnp.ndarray> value)
                view = views[i]
                if not (cnp.PyArray_CheckExact(view) and cnp.PyArray_BASE(<cnp.ndarray> view) == <PyObject *> value
                        and self.fits(self.ports + self.n_in + i, <cnp.ndarray> view)
                        and not cnp.PyArray_ISWRITEABLE(<cnp.ndarray> view)):
                    views[i] = read_only(<cnp.ndarray> value)
            status = self.go(self.threads)
            if status != RLX_OK:
                raise self.failure(status)
        finally:
            for i in range(self.n_in):
                Py_CLEAR(self.held[i])
            self.guard.running = 0
        return views[:]

    cdef int go(self, int threads):
        """Run the thunks over whatever is bound now."""
        cdef rlx_run_frame run
        cdef rlx_frame *frame = &run.frame
        cdef int granted, status, helped
        cdef unsigned fp_mode
        cdef int zero = self.zero_denormals
        cdef int64_t since = 0
        cdef bint parallel = self.program.parallel
        cdef int64_t *spent = NULL
        cdef cnp.ndarray spent_array
        cdef RunState state = self.state  # set_rng may replace it while this runs
        cdef Program program = self.program
        cdef bint tries = parallel and program.tries and self.spent is None and min(threads, self.limit) > 1
        cdef int choice = rlx_trial_now(&program.trial) if tries else 0
        cdef int64_t split_ns = SPLIT_NS * rlx_split_by[choice], began = 0
        if self.spent is not None:
            spent_array = self.spent
            spent = <int64_t *> cnp.PyArray_DATA(spent_array)
        memset(&self.error, 0, sizeof(self.error))
        self.error.node = -1
        self.cancel_flag = 0
        frame.base = self.base
        frame.error = &self.error
        frame.cancel = &self.cancel_flag
        frame.state = &state.state
        frame.since = &since
        run.keepers = self.keepers
        run.raised = &self.raised
        frame.tid = 0
        if program.brief and spent == NULL:
            fp_mode = rlx_fp_enter(zero)
            frame.n_threads = 1
            status = execute(&program.plan, frame, 1, split_ns)
            rlx_fp_set(fp_mode)
            if status == RLX_OK:
                state.state.counter += 1
            return status
        with nogil:
            if tries and program.trial.turn >= 0:
                began = rlx_now_ns()
            fp_mode = rlx_fp_enter(zero)
            granted = rlx_pool_enter(min(threads, self.limit) if parallel and split_ns else 1)
            frame.n_threads = granted
            if spent != NULL:
                status = execute_timed(&self.program.plan, frame, granted, spent)
            else:
                status = execute(&self.program.plan, frame, granted, split_ns)
            helped = rlx_pool_leave(granted)
            rlx_fp_set(fp_mode)
        if tries and status == RLX_OK:
            if program.trial.turn < 0:
                rlx_trial_pass(&program.trial)
            elif began and choice == rlx_trial_now(&program.trial):
                rlx_trial_learn(&program.trial, choice, rlx_now_ns() - began, helped or split_ns == 0)
        if status == RLX_OK:  # a run that failed has not been: the next one draws its numbers
            state.state.counter += 1
        return status

    cdef object failure(self, int status):
        cdef object exc
        if status == RLX_ERR_PYTHON and self.raised != NULL:
            exc = <object> self.raised
            Py_DECREF(exc)
            self.raised = NULL
            return self.helper.raised(self.error.node, exc) if self.error.value else exc
        return self.helper.failed(
            status, self.error.node, self.error.value, self.error.bound, self.error.position)

    def run_bound(self, int threads=0):
        """Run over the arrays already bound to every slot; used by tests of single kernels."""
        cdef int status
        if self.guard.running:
            self.refuse()
        self.guard.running = 1
        try:
            status = self.go(threads if threads > 0 else self.threads)
            if status != RLX_OK:
                raise self.failure(status)
        finally:
            self.guard.running = 0


include "entry.pxi"
