# Calls of an executable: part of _interp.pyx, which includes it.

cdef class Bound:
    """Base of `Handles`, which an executable looks at in every call."""

    cdef public dict cells  # of the handles that are bound, by name


cdef class Entry:
    """Base of `CompiledGraph`: a call whose inputs may be taken as they come goes straight to its executor.

    Everything else (sizes that are new, handles, checks, parameters that have changed) is for `_run` and
    `_run_slots`, which say by `_know` what the next call may use.
    """

    cdef public object _variant  # program in use, or None: which one depends on the inputs
    cdef public Bound _handles
    cdef public bint _dirty  # parameters have changed
    cdef public bint _careful  # every call is checked, or waits for its turn
    cdef object known  # the variant of `executor`
    cdef Executor executor
    cdef list kept  # where outputs of `run_slots` go, or None
    cdef list views  # of them

    def _know(self, variant, Executor executor, list kept):
        """Calls may run this executor while its variant is the one in use; `kept`: by position into these arrays.

        Without `kept`, what is known of the same variant stays.
        """
        if kept is not None:
            self.kept, self.views = kept, [None] * len(kept)
        elif variant is not self.known:
            self.kept = self.views = None
        self.executor = executor
        self.known = variant

    cdef bint is_plain(self):
        return (self.known is not None and self._variant is self.known and not self._dirty and not self._careful
                and self._handles is not None and not self._handles.cells)

    def run(self, inputs=None, *, threads=None, out=None):
        """Run once.

        Parameters
        ----------
        inputs : mapping of name to array
            A C-contiguous array of the declared type is read where it lies.
        threads : int, optional
            Threads of this run.
        out : mapping of name to array, or sequence, optional
            Where to write outputs; the same arrays come back.

        Returns
        -------
        Outputs
            Indexable by position and by name, in the order of outputs.

        Raises
        ------
        BindingError
            A name, shape, element type or array count does not fit.
        ExecutionError
            The run failed; names the node. The executable stays usable.
        """
        cdef Executor executor
        if threads is None and type(inputs) is dict and self.is_plain():
            executor = self.executor  # another thread may close this meanwhile
            try:
                return executor.run_on(<dict> inputs, 0, out)
            except (MemoryError, OverflowError) as error:
                raise self._refused(error) from None
        return self._run(inputs, threads, out)

    def run_slots(self, arrays):
        """As `run_raw`, inputs by position in the order of the signature; None leaves an input to its handle.

        Raises
        ------
        BindingError
            The number of arrays is not the number of inputs.
        """
        cdef object views
        cdef Executor executor
        if self.kept is not None and self.is_plain():
            executor = self.executor
            views = executor.run_kept(arrays, self.kept, self.views)
            if views is not None:
                return views
        return self._run_slots(arrays)
