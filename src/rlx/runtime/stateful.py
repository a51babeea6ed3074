"""The calls for state that executables and models have in common. Imports nothing that a run does not need."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.ir.opdef import Array
    from rlx.runtime.state import Handles, HandleState


class Stateful:
    """Base of what has handles."""

    if TYPE_CHECKING:

        def _state(self) -> "Handles":
            """The handles; none are bound at first."""
            ...

    def bind_handle(
        self, name: str, array: Any, *, axis: int | None = None, capacity: int | None = None, length: str | None = None
    ) -> None:
        """Keep a copy of an array between runs as the default of the input called `name`.

        An explicit input of a run overrides it for that run. A handle called
        `out{i}` is replaced by output i after every run; see also `link`.

        Parameters
        ----------
        name : str
            Of an input, or `out{i}`.
        array : array of the input's type
            The first value. Of a cache: what is valid of it, which may be nothing.
        axis : int, optional
            Makes the handle a cache: memory of fixed size, of which only a part along this axis is valid.
        capacity : int, optional
            Size of a cache along its axis; what the input declares, unless that is open.
        length : str, optional
            Of a cache: name of the i64 input, one number or one per item of axis 0, that holds how much
            is valid. It becomes a handle too; caches may share it.

        Raises
        ------
        UnknownNameError, BindingError
            No such input (or output), or another shape or element type.
        """
        self._state().bind(name, array, axis, capacity, length)

    def link(self, output: str, handle: str, *, append: bool = False) -> None:
        """After every run, output `output` becomes the value of a handle, without a copy.

        The run writes into one of two buffers of the handle, which then swap; a cache is written in place where
        the program allows it. Results are read-only views and never change, however long they are held.

        Parameters
        ----------
        output : str
        handle : str
            Bound before. Or a parameter that has been set: it is state from then on.
        append : bool
            The output has new rows of a cache, which go behind the valid part.

        Raises
        ------
        UnknownNameError, BindingError
            No such output, no such handle, or their types differ.
        """
        self._state().link(output, handle, append)

    def read_handle(self, name: str) -> "Array":
        """A copy of a handle's value; of a cache, the valid part."""
        return self._state().read(name)

    def view_handle(self, name: str) -> "Array":
        """A handle's value without a copy, read-only; it stays as it is whatever runs do."""
        return self._state().view(name)

    def unbind_handle(self, name: str) -> None:
        """Forget a handle and its links."""
        self._state().unbind(name)

    def handles(self) -> "dict[str, Array]":
        """Copies of all handles by name."""
        state = self._state()
        return {name: state.read(name) for name in state.cells}

    def links(self) -> dict[str, str]:
        """Output -> handle, as linked."""
        return {output: link.handle for output, link in self._state().links.items()}

    def truncate(self, name: str, length: Any) -> None:
        """Shorten a cache, and all that share its length.

        Parameters
        ----------
        name : str
            Of a cache.
        length : int, or ints like its length
            How much is valid from now on, at most as much as now.

        Raises
        ------
        UnknownNameError, BindingError
            No such cache, or it is not that long.
        """
        self._state().truncate(name, length)

    def fork(self) -> "HandleState":
        """All handles as they are now. Nothing is copied before one side writes."""
        from rlx.runtime.state import HandleState

        return HandleState(self._state().cells)

    def restore(self, state: "HandleState") -> None:
        """Make the handles of a fork current; the fork can be restored again.

        Raises
        ------
        BindingError
            It is from an executable with other handles.
        """
        self._state().restore(state)
