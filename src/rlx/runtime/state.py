"""Handles: arrays that an executable keeps between runs."""

from collections.abc import Mapping
from typing import Any

from rlx.errors import BindingError, UnknownNameError
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import Array
from rlx.runtime.binding import fit, nearest, shape_of


def _is_output(name: str, count: int) -> bool:
    """Whether a handle's name is `out{i}` for an existing output."""
    digits = name[3:]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 9
    return name.startswith("out") and is_number and int(digits) < count


class Handles:
    """Defaults of inputs, fed by outputs that are linked to them.

    Attributes
    ----------
    values : dict of str to array
        What each handle holds now.
    links : dict of str to str
        Output name -> handle name.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[str, Array] = {}
        self.links: dict[str, str] = {}
        self._inputs = {v.node.name: v for v in graph.inputs}

    @property
    def active(self) -> bool:
        """Whether any handle is bound."""
        return bool(self.values)

    def _place(self, name: str) -> Value:
        """The input or output whose type a handle must have."""
        if not isinstance(name, str):
            raise UnknownNameError(f"graph {self.graph.name!r}: a handle's name must be a string, got {name!r}")
        if name in self._inputs:
            return self._inputs[name]
        outputs = list(self.graph.outputs.values())
        if _is_output(name, len(outputs)):
            return outputs[int(name[3:])]
        raise UnknownNameError(f"graph {self.graph.name!r}: a handle must be called like an input, or out0 .. "
                               f"out{len(outputs) - 1}, got {name!r}{nearest(name, self._inputs)}")

    def bind(self, name: str, array: Any) -> None:
        """Set a handle to a copy of an array."""
        v = self._place(name)
        what = f"handle {name!r} of graph {self.graph.name!r}"
        shape = tuple(d for d in v.shape if isinstance(d, int)) if v.type.is_static else shape_of(array, what)
        self.values[name] = fit(array, v.dtype, shape, what).copy()
        outputs = list(self.graph.outputs)
        if _is_output(name, len(outputs)) and outputs[int(name[3:])] not in self.links:
            self.link(outputs[int(name[3:])], name)

    def link(self, output: str, handle: str) -> None:
        """Feed a handle from an output."""
        if output not in self.graph.outputs:
            raise UnknownNameError(
                f"graph {self.graph.name!r}: no output {output!r}{nearest(output, self.graph.outputs)}"
            )
        want, have = self._place(handle).type, self.graph.outputs[output].type
        if want != have:
            raise BindingError(f"link {output!r} -> {handle!r}: types must be equal, got {have} and {want}")
        if handle not in self.values:
            raise BindingError(f"link {output!r} -> {handle!r}: the handle must be bound first, got none"
                               "\nhint: call bind_handle(name, initial_value)")
        self.links[output] = handle

    def read(self, name: str) -> Array:
        """A copy of a handle's value."""
        if name not in self.values:
            raise UnknownNameError(f"graph {self.graph.name!r}: no handle {name!r}{nearest(name, self.values)}")
        return self.values[name].copy()

    def unbind(self, name: str) -> None:
        """Forget a handle and its links."""
        if name not in self.values:
            raise UnknownNameError(f"graph {self.graph.name!r}: no handle {name!r}{nearest(name, self.values)}")
        del self.values[name]
        self.links = {o: h for o, h in self.links.items() if h != name}

    def fork(self) -> "Handles":
        """An independent copy; the arrays are shared until one side replaces them."""
        other = Handles(self.graph)
        other.values, other.links = dict(self.values), dict(self.links)
        return other

    def feed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs of a run: what was given, and handles for the rest."""
        full = {name: array for name, array in self.values.items() if name in self._inputs}
        full.update(given)
        return full

    def absorb(self, results: Any, copy: bool) -> None:
        """Take linked outputs as the new values. A kept output is read-only for the caller."""
        for output, handle in self.links.items():
            array = results[output]
            if copy:
                array = array.copy()
            else:
                array.flags.writeable = False
            self.values[handle] = array
