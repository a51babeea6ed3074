# Control flow: part of _interp.pyx, which includes it.
#
# A control thunk runs the programs of its bodies. attrs hold the addresses of
# their Plans; a body has its own table of base addresses, laid out in the
# thunk's workspace: slot 0 is the body's scratch, then its inputs, outputs and
# weights as for any program. The lists say where each comes from.

cdef inline char *arg_pointer(const rlx_thunk *t, const rlx_frame *f, int64_t i) noexcept nogil:
    if i < 0 or t.args[i].slot < 0:
        return NULL
    return f.base[t.args[i].slot] + t.args[i].offset


cdef int run_body(const Plan *plan, char **base, const rlx_frame *outer, void *state) noexcept nogil:
    cdef rlx_run_frame inner
    inner.frame = outer[0]
    inner.frame.base = base
    inner.frame.state = state
    inner.keepers = NULL
    inner.raised = (<const rlx_run_frame *> outer).raised
    return execute(plan, &inner.frame, outer.n_threads, SPLIT_NS)


cdef int control_if(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) noexcept nogil:
    """attrs: then_plan else_plan then_slots:* else_slots:*
    args: predicate, base table, then the memory that the lists index.
    A list gives, for each slot of the branch, the argument it is bound to."""
    cdef const int64_t *a = t.attrs
    cdef bint taken = (<const uint8_t *> arg_pointer(t, f, 0))[0] != 0
    cdef const int64_t *slots = a + (a[2] if taken else a[4])
    cdef int64_t i, n = a[3] if taken else a[5]
    cdef char **base = <char **> arg_pointer(t, f, 1)
    for i in range(n):
        base[i] = arg_pointer(t, f, slots[i])
    return run_body(<const Plan *> <intptr_t> (a[0] if taken else a[1]), base, f, f.state)


cdef enum:
    SLOT_FIXED, SLOT_CARRIED_IN, SLOT_CARRIED_OUT, SLOT_X, SLOT_Y, SLOT_COUNTER, SLOT_GO_ON


cdef int control_loop(const rlx_thunk *t, const rlx_frame *f, int64_t lo, int64_t hi) noexcept nogil:
    """attrs: plan bound counts reverse slots:* carried:* rows:*
    args: trip count, condition, base table, locals, number of trips made, then
    the memory that the lists index.
    slots    3 words for each slot of the body: kind, argument (or number of the
             carried value), bytes per trip
    carried  4 words: argument of the first value, of the result, of a spare
             buffer, bytes. The body reads one buffer and writes the other.
    rows     2 words for each stacked result: argument, bytes (zeroed beyond the last trip)"""
    cdef const int64_t *a = t.attrs
    cdef const Plan *plan = <const Plan *> <intptr_t> a[0]
    cdef int64_t limit = a[1], i, k, at, status
    cdef bint counts = a[2] != 0, backwards = a[3] != 0
    cdef const int64_t *slots = a + a[4]
    cdef int64_t n_slots = a[5] // 3
    cdef const int64_t *carried = a + a[6]
    cdef int64_t n_carried = a[7] // 4
    cdef const int64_t *rows = a + a[8]
    cdef int64_t n_rows = a[9] // 2
    cdef char *trips = arg_pointer(t, f, 0)
    cdef char *start = arg_pointer(t, f, 1)
    cdef char **base = <char **> arg_pointer(t, f, 2)
    cdef char *local = arg_pointer(t, f, 3)
    cdef char *made = arg_pointer(t, f, 4)
    cdef int64_t *counter = <int64_t *> local
    cdef uint8_t *go_on = <uint8_t *> (local + 8)
    cdef char **current = <char **> (local + 64)
    cdef char **target = current + n_carried
    cdef char *result
    cdef char *spare
    cdef int64_t kind, which
    cdef rlx_state state = (<rlx_state *> f.state)[0]  # random ops draw fresh numbers on every trip
    cdef uint64_t outer = state.trip
    if trips != NULL and (<int64_t *> trips)[0] < limit:
        limit = (<int64_t *> trips)[0]
    go_on[0] = 1 if start == NULL else (<uint8_t *> start)[0]
    for k in range(n_carried):
        current[k] = arg_pointer(t, f, carried[4 * k])
    i = 0
    while i < limit and go_on[0]:
        if f.cancel[0]:  # a body may have no calls
            return RLX_ERR_CANCELLED
        counter[0] = i
        at = limit - 1 - i if backwards else i
        for k in range(n_carried):
            result = arg_pointer(t, f, carried[4 * k + 1])
            spare = arg_pointer(t, f, carried[4 * k + 2])
            target[k] = spare if current[k] == result else result
        for k in range(n_slots):
            kind = slots[3 * k]
            which = slots[3 * k + 1]
            if kind == SLOT_FIXED:
                base[k] = arg_pointer(t, f, which)
            elif kind == SLOT_CARRIED_IN:
                base[k] = current[which]
            elif kind == SLOT_CARRIED_OUT:
                base[k] = target[which]
            elif kind == SLOT_COUNTER:
                base[k] = <char *> counter
            elif kind == SLOT_GO_ON:
                base[k] = <char *> go_on
            else:
                base[k] = arg_pointer(t, f, which) + at * slots[3 * k + 2]
        state.trip = rlx_trip(outer, i)
        status = run_body(plan, base, f, &state)
        if status != RLX_OK:
            return <int> status
        for k in range(n_carried):
            current[k] = target[k]
        i += 1
    for k in range(n_carried):
        result = arg_pointer(t, f, carried[4 * k + 1])
        if current[k] != result and carried[4 * k + 3] > 0:
            memcpy(result, current[k], <size_t> carried[4 * k + 3])
    if made != NULL:
        (<int64_t *> made)[0] = i
    if counts and i < a[1]:
        for k in range(n_rows):
            at = rows[2 * k + 1] // a[1] * i if a[1] > 0 else 0
            memset(arg_pointer(t, f, rows[2 * k]) + at, 0, <size_t> (rows[2 * k + 1] - at))
    return RLX_OK
