"""Reverse-mode derivatives of graphs: `vjp` and `grad` make a graph that also computes gradients."""

from collections.abc import Container, Iterable, Sequence
from itertools import count
from typing import Any

from rlx.errors import ConfigError, GraphError
from rlx.gradients.rules import full, rule_of, written
from rlx.ir.graph import Graph, Node, Rewriter, Value

__all__ = ["grad", "gradients_of", "vjp"]


def vjp(graph: Graph, wrt: Iterable[str] | None = None, outputs: Iterable[str] | None = None) -> Graph:
    """A graph that also computes a vector times the Jacobian: gradients of inputs from those of outputs.

    Parameters
    ----------
    graph : Graph
        It stays as it is.
    wrt : names, optional
        Inputs and parameters to differentiate by; default: all of a float type.
    outputs : names, optional
        Outputs whose gradients are given; default: all of a float type.

    Returns
    -------
    Graph
        It has one more input `d_<output>` for each of `outputs`, of its type, and after the outputs of the graph one
        more output `grad_<name>` for each of `wrt`. An input that no output depends on has the gradient 0.
        A name that the graph has already gets the first free number: `grad_x_2`, `d_y_2`.

    Raises
    ------
    GraphError
        A name is unknown or has no float type, or a node on the way has no derivative; lists all of those.
    ConfigError
        It is not given a `Graph`.
    """
    _check_graph(graph, "vjp")
    made = _Backward(graph, _names(wrt, "wrt"), _names(outputs, "outputs"))
    for name in made.outputs:
        like = made.graph.outputs[name]
        free = _free(f"d_{name}", {v.node.name for v in (*made.graph.inputs, *made.graph.params)})
        made.seed(name, made.graph.input(free, like.shape, like.dtype))
    return made.finish()


def grad(graph: Graph, wrt: Iterable[str] | None = None, output: str | None = None) -> Graph:
    """A graph that also computes the gradients of one number.

    Parameters
    ----------
    graph : Graph
        It stays as it is.
    wrt : names, optional
        Inputs and parameters to differentiate by; default: all of a float type.
    output : str, optional
        An output of rank 0; default: the only output.

    Returns
    -------
    Graph
        After the outputs of the graph it has an output `grad_<name>` for each of `wrt`; `grad_<name>_2` and so on
        where the graph has an output of that name, as one that `grad` made.

    Raises
    ------
    GraphError
        As `vjp`, and if the output is not one number.
    ConfigError
        It is not given a `Graph`.
    """
    _check_graph(graph, "grad")
    name = next(iter(graph.outputs), None) if output is None and len(graph.outputs) == 1 else output
    if name is None:
        raise GraphError(f"grad: output must name one of {list(graph.outputs)}, got {output!r}")
    made = _Backward(graph, _names(wrt, "wrt"), (name,), "grad")
    of = made.graph.outputs[name]
    if of.shape != ():
        raise GraphError(f"grad: output {name!r} must be one number, got {of.type}\nhint: reduce it, or use vjp")
    made.seed(name, made.graph.constant(1, dtype=of.dtype))
    return made.finish()


def gradients_of(value: Value, wrt: Sequence[Value]) -> list[Value]:
    """Gradients of the sum of a value by others, as further nodes of their graph.

    Raises
    ------
    GraphError
        A node on the way has no derivative.
    """
    graph = value.graph
    active = _between(graph, set(wrt), {value})
    bad = [n for n in graph.nodes if n in active and (rule_of(n.op) is None or _is_complex(n))]
    if bad:
        raise GraphError(_no_derivative("gradient", graph, bad))
    gradients = {value: full(value, 1)}
    _walk([n for n in reversed(graph.nodes) if n in active], gradients, "gradient")
    return [full(x, 0) if (g := gradients.get(x)) is None else g for x in wrt]


def _no_derivative(place: str, graph: Graph, nodes: Sequence[Node]) -> str:
    lines = "\n".join(f"  {n.place}" for n in nodes)
    return (f"{place}: {len(nodes)} node(s) of graph {graph.name!r} have no derivative:\n{lines}"
            "\nhint: name other inputs in wrt, or give a registered op a vjp")


def _between(graph: Graph, sources: set[Value], targets: set[Value]) -> set[Node]:
    """Nodes through which a small change of a source can show in a target."""
    moves, needed = set(sources), set(targets)
    for node in graph.nodes:
        if any(v in moves for v in node.inputs if v is not None):
            moves.update(v for v in node.outputs if _is_smooth(v))
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if not node.op.has("leaf") and any(v in needed and v in moves for v in node.outputs):
            found.add(node)
            needed.update(v for v in node.inputs if v is not None)
    return found


def _walk(nodes: Iterable[Node], gradients: dict[Value, Value], place: str) -> None:
    """From last to first, add the gradients of operands to what is known."""
    for node in nodes:
        incoming = [gradients.get(v) for v in node.outputs]
        if all(g is None for g in incoming):
            continue
        given = [full(v, 0) if g is None and v.dtype.is_float else g
                 for g, v in zip(incoming, node.outputs, strict=True)]
        rule = rule_of(node.op)
        assert rule is not None
        try:
            found = rule(node.inputs, node.outputs, given, **node.attrs)
        except NotImplementedError as error:
            raise GraphError(f"{place}: {node.place}: {error}") from None
        for operand, gradient in zip(node.inputs, found, strict=True):
            if gradient is None or operand is None or not operand.dtype.is_float:
                continue
            if gradient.type != operand.type:
                raise GraphError(f"{place}: {node.place}: gradient of operand {operand.name!r} must be of "
                                 f"type {operand.type}, got {gradient.type}")
            known = gradients.get(operand)
            gradients[operand] = gradient if known is None else known + gradient


def _check_graph(graph: Any, place: str) -> None:
    if not isinstance(graph, Graph):
        raise ConfigError(f"{place}: must be given a Graph, got {type(graph).__name__}"
                          f"\nhint: rlx.compile(rlx.{place}(graph)) differentiates first, then compiles")


def _free(name: str, taken: Container[str]) -> str:
    """The name, or where it is taken the first of `name_2`, `name_3`, ... that is not."""
    return name if name not in taken else next(n for i in count(2) if (n := f"{name}_{i}") not in taken)


def _names(given: Iterable[str] | None, what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return (given,)
    names = tuple(given)
    if not all(isinstance(n, str) for n in names):
        raise GraphError(f"vjp: {what} must be names, got {given!r}")
    return names


def _chosen(names: tuple[str, ...] | None, known: dict[str, Value], what: str, place: str) -> tuple[str, ...]:
    if names is None:
        return tuple(n for n, v in known.items() if v.dtype.is_float and not v.dtype.is_float8)
    for n in names:
        if n not in known:
            raise GraphError(f"{place}: {what} must be of {list(known)}, got {n!r}")
        if not known[n].dtype.is_float or known[n].dtype.is_float8:
            raise GraphError(f"{place}: {what} {n!r} must have a float type, got {known[n].type}")
    return tuple(dict.fromkeys(names))


def _is_smooth(value: Value) -> bool:
    """Whether small changes of operands can show in a value; those of complex numbers do, without having rules."""
    return (value.dtype.is_float and not value.dtype.is_float8) or value.dtype.is_complex


def _is_complex(node: Node) -> bool:
    return any(v is not None and v.dtype.is_complex for v in (*node.inputs, *node.outputs))


class _Backward:
    """Forward graph in ops that have rules, and the gradients that have come in so far."""

    def __init__(self, graph: Graph, wrt: tuple[str, ...] | None, outputs: tuple[str, ...] | None,
                 place: str = "vjp") -> None:
        self.place = place
        self.outputs = _chosen(outputs, dict(graph.outputs), "outputs", place)
        known = {v.node.name: v for v in (*graph.inputs, *graph.params)}
        self.wrt = _chosen(wrt, known, "wrt", place)
        self.graph = self._in_known_ops(graph)
        self.gradients: dict[Value, Value] = {}
        self.leaves = {v.node.name: v for v in (*self.graph.inputs, *self.graph.params)}

    def _active(self, graph: Graph) -> set[Node]:
        """Nodes between the chosen inputs and the chosen outputs."""
        leaves = {v.node.name: v for v in (*graph.inputs, *graph.params)}
        return _between(graph, {leaves[n] for n in self.wrt}, {graph.outputs[n] for n in self.outputs})

    def _in_known_ops(self, graph: Graph) -> Graph:
        """A copy in which nodes on the way that have no rule are written in other ops, where the table says how."""
        while True:
            active = self._active(graph)
            unknown = {n for n in active if rule_of(n.op) is None or _is_complex(n)}
            bad = [n for n in graph.nodes if n in unknown and written(n.op) is None]
            if bad:
                raise GraphError(_no_derivative(self.place, graph, bad))
            rewriter = Rewriter(graph)
            for node in graph.nodes:
                parts = written(node.op) if node in unknown else None
                if parts is None:
                    rewriter.copy(node)
                    continue
                made: Any = parts(*(rewriter.get(v) for v in node.inputs), **node.attrs)
                for old, new in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True):
                    rewriter.replace(old, new)
            graph = rewriter.finish()
            if not unknown:
                return graph

    def seed(self, output: str, gradient: Value) -> None:
        """The gradient of an output."""
        value = self.graph.outputs[output]
        known = self.gradients.get(value)  # a value may be an output by several names
        self.gradients[value] = gradient if known is None else known + gradient

    def finish(self) -> Graph:
        """Walk backwards; the gradients become outputs."""
        active = self._active(self.graph)
        _walk([n for n in reversed(self.graph.nodes) if n in active], self.gradients, self.place)
        for name in self.wrt:
            leaf = self.leaves[name]
            known = self.gradients.get(leaf)
            self.graph.output(_free(f"grad_{name}", self.graph.outputs), full(leaf, 0) if known is None else known)
        return self.graph
