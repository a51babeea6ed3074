"""The walk over an ONNX graph that emits IR, with concrete shapes.

The walk runs while the model runs for the first time with inputs of some shapes.
Where it needs a value that is only known at run time, it compiles and runs what
has been built (a segment), reads the value and goes on. What it did is kept as a
tree of steps (`rlx.onnx.steps`) that later runs follow without importing again.
An outcome that has not been met before makes the walk start over: steps that this
run has already done are skipped, so that only what follows is new.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx import dtypes
from rlx.errors import FormatError, RlxError, UnsupportedOpError
from rlx.ir.graph import INPUT, Value
from rlx.ir.types import TensorType
from rlx.onnx import registry
from rlx.onnx.block import Block, NodeDef
from rlx.onnx.context import NodeContext
from rlx.onnx.scope import Frame, NotStaticError, Scope
from rlx.onnx.steps import (
    Finish,
    Guard,
    Host,
    Key,
    Segment,
    Slot,
    Step,
    Test,
    Views,
    fetch,
    is_tensor,
)
from rlx.onnx.tracing import GUARD_ELEMENTS, TraceGraph, element_count, transplant

if TYPE_CHECKING:
    from rlx.onnx.core import Core

MAX_CALL_DEPTH = 48
MAX_NODES = 1 << 20


class Tracer:
    """One walk.

    Parameters
    ----------
    core : Core
        Compiler and weights.
    root : Step
        Where the plan starts.
    values : list
        The run's values so far; inputs first.
    done : int
        Steps that this run has already executed.
    threads : int
        Of the run that goes along.
    """

    def __init__(self, core: "Core", root: Step, values: list[Any], done: int, threads: int) -> None:
        self.core = core
        self.model = core.model
        self.values = values
        self.threads = threads
        self._cursor: Step = root
        self._outcome: Any = None
        self._done = done
        self._taken = 0
        self._slots = 0
        self._nodes = 0
        self.staged = False  # a segment or a host call came before
        self._made: set[int] = set()  # slots of results made anew in every run, to which nothing else refers
        self.graph = TraceGraph(core.name)
        self.ports: dict[Key, Value] = {}
        self.known: dict[Key, Any] = {}
        self._captures: dict[Any, Any] | None = None
        self._outer_graph: TraceGraph | None = None
        self.scopes: list[Scope] = []
        self.frames: list[Frame] = []

    # -- slots and items -----------------------------------------------------------

    def slot(self, value: Any, name: str = "") -> Any:
        """The item for the run's next value: a slot, a list of slots, or None."""
        index = self._slots
        self._slots += 1
        return self._describe((index, None), value, name)

    def _describe(self, key: Key, value: Any, name: str = "") -> Any:
        if value is None:
            return None
        if type(value) is list:
            if key[1] is not None:
                raise FormatError("sequences of sequences are not supported")
            return [self._describe((key[0], i), v) for i, v in enumerate(value)]
        kind = None
        if isinstance(value, np.ndarray) and is_tensor(value):
            kind = TensorType(dtypes.of_array(value), value.shape)
        name = name or ("%" + ".".join(str(k) for k in key if k is not None))
        return Slot(key[0], name, kind, value.shape if isinstance(value, np.ndarray) else None, key[1])

    def _slot_of(self, port: Value) -> Slot:
        key = next(k for k, p in self.ports.items() if p is port)
        found = self._describe(key, fetch(self.values, key), port.node.name)
        assert isinstance(found, Slot)
        return found

    def current(self, item: Slot) -> Any:
        """What a slot holds in the run that goes along."""
        return fetch(self.values, item.key)

    def value(self, item: Any) -> Value:
        """The value of the current graph for an item.

        Raises
        ------
        FormatError
            The item is no tensor that the IR computes with.
        """
        if isinstance(item, Value):
            return item if item.graph is self.graph else self._captured(item)
        if isinstance(item, np.ndarray):
            if not is_tensor(item):
                raise FormatError(f"a tensor of {item.dtype} cannot be computed with")
            return self.graph.of_array(item)
        if isinstance(item, Slot):
            if item.key in self.known:
                return self.graph.of_array(self.known[item.key])
            if item.type is None:
                raise FormatError("a tensor of strings, a map or an exotic element type cannot be computed with")
            if self._captures is not None:
                return self._captured(item)
            port = self.ports.get(item.key)
            if port is None:
                port = self.graph.input(item.name, item.type.shape, item.type.dtype)
                self.ports[item.key] = port
            return port
        raise FormatError(f"a tensor must be given, got {'none' if item is None else type(item).__name__}")

    def _captured(self, item: Any) -> Value:
        """The input of the body that is being built for a value of an enclosing graph."""
        captures = self._captures
        assert captures is not None
        if isinstance(item, Value) and item.graph is self._outer_graph and self.pure(item):
            return transplant(item, self.graph, self.graph.transplanted)
        key = item if isinstance(item, Value) else item.key
        captures.setdefault(key, item)
        inputs = self.graph.capture_inputs
        if key not in inputs:
            inputs[key] = self.graph.input(self.graph.unique_name("capture"), item.type.shape, item.type.dtype)
        return inputs[key]

    def subgraph(
        self,
        block: Block,
        scope: Scope,
        formal: Mapping[str, TensorType | None],
        captures: dict[Any, Any],
        constants: Mapping[str, Any] | None = None,
    ) -> TraceGraph:
        """A block as a graph of its own, whose inputs are the formal ones and then what it captured.

        Raises
        ------
        NotStaticError
            It needs a value that only a run knows, or gives something that is no tensor.
        """
        if self._captures is not None:
            raise NotStaticError("bodies inside bodies are not supported here")
        state = (self.graph, self.ports, len(self.scopes), len(self.frames))
        self._outer_graph, self._captures = self.graph, captures
        body = TraceGraph(block.name or "body")
        self.graph = body
        try:
            items: dict[str, Any] = dict(constants or {})
            for name, kind in formal.items():
                assert kind is not None
                items[name] = body.input(body.unique_name(name), kind.shape, kind.dtype)
            for name, item in zip(block.outputs, self.inline(block, scope, items), strict=True):
                if isinstance(item, (list, type(None))):
                    raise NotStaticError(f"output {name!r} is no tensor")
                body.output(name if name not in body.outputs else f"{name}.{len(body.outputs)}", self.value(item))
            return body
        finally:
            self.graph, self.ports = state[:2]
            del self.scopes[state[2] :]
            del self.frames[state[3] :]
            self._captures = self._outer_graph = None

    def item(self, result: Any) -> Any:
        """What is kept for a result of an op function: arrays for constants."""
        if isinstance(result, Value):
            array = result.array
            return result if array is None else array
        if isinstance(result, (bool, int, float, np.generic)):
            return np.asarray(result)
        if isinstance(result, (list, tuple)):
            return [self.item(r) for r in result]
        return result

    # -- what is known while importing ------------------------------------------------

    def peek(self, item: Any) -> Any:
        """The item's value if it can be told without a cut, else None. May add a guard on small values."""
        if isinstance(item, np.ndarray) or item is None:
            return item
        if isinstance(item, list):
            parts = [self.peek(i) for i in item]
            return None if any(p is None for p in parts) else parts
        if isinstance(item, Value) and item.array is not None:
            return item.array
        if isinstance(item, Value) and self.pure(item):
            return self.graph.evaluate(item, {})
        return self.met(item)

    def met(self, item: Any) -> Any:
        """The item's value as this run has it, if a guard can hold it, else None. The item is no constant."""
        if isinstance(item, Slot):
            small = item.shape is None or math.prod(item.shape) <= GUARD_ELEMENTS
            return self._guard([item.key])[0] if small or item.key in self.known else None
        if isinstance(item, Value):
            leaves = self.graph.leaves(item)
            if leaves is None:
                return None
            keys = {p: k for k, p in self.ports.items()}
            if item.graph is not self.graph or any(v not in keys for v in leaves):
                return None
            if any(element_count(v) > GUARD_ELEMENTS and keys[v] not in self.known for v in leaves):
                return None
            ordered = sorted(leaves, key=lambda v: (keys[v][0], keys[v][1] or 0))
            arrays = self._guard([keys[v] for v in ordered])
            return self.graph.evaluate(item, dict(zip(ordered, arrays, strict=True)))
        return None

    @staticmethod
    def pure(v: Value) -> bool:
        """Whether a value depends on constants alone."""
        return isinstance(v.graph, TraceGraph) and v in v.graph.pure

    def is_constant(self, item: Any) -> bool:
        """Whether the item depends on the file alone."""
        if isinstance(item, Value):
            return self.pure(item)
        if isinstance(item, Slot):
            return item.key in self.known
        if isinstance(item, list):
            return all(map(self.is_constant, item))
        return True

    def demand(self, scope_items: dict[str, Any], name: str) -> Any:
        """The value of a name, whatever it takes: an array or a host object."""
        item = scope_items[name]
        found = self.peek(item)
        if found is None and item is not None:
            if _has_value(item):
                self.cut()
            found = self.read(scope_items[name])
        if isinstance(item, Value):
            scope_items[name] = found
        return found

    def read(self, item: Any) -> Any:
        """The value of a slot or constant."""
        if isinstance(item, list):
            return [self.read(i) for i in item]
        return self._guard([item.key])[0] if isinstance(item, Slot) else self.peek(item)

    def _guard(self, keys: Sequence[Key]) -> list[Any]:
        new = [k for k in keys if k not in self.known]
        if new:
            self._take(lambda: Guard(new))
            for k in new:
                value = fetch(self.values, k)
                self.known[k] = value.copy() if isinstance(value, np.ndarray) else value
        return [self.known[k] for k in keys]

    def decide(self, items: Sequence[Any], function: Callable[..., Any]) -> Any:
        """What a function makes of the values of items; None if they are not small, or a body is being built.

        The plan branches on the result and not on the values, which may differ from run to run.
        """
        if self._captures is not None:
            return None
        keys: list[Key] = []
        readers: list[Callable[[Mapping[Key, Any]], Any]] = []
        for item in items:
            reader = self._reader(item, keys)
            if reader is None:
                return None
            readers.append(reader)

        def outcome(arrays: list[Any]) -> Any:
            given = dict(zip(keys, arrays, strict=True))
            return function(*[read(given) for read in readers])

        if not keys:
            return outcome([])
        self._take(lambda: Test(keys, outcome))
        return self._outcome

    def _reader(self, item: Any, keys: list[Key]) -> Callable[[Mapping[Key, Any]], Any] | None:
        """How a run tells the value of an item from small slots, which are added to the keys."""
        if isinstance(item, Slot) and item.key not in self.known:
            if item.type is None or math.prod(item.shape or ()) > GUARD_ELEMENTS:
                return None
            key = item.key
            if key not in keys:
                keys.append(key)
            return lambda given: given[key]
        if not isinstance(item, Value) or self.is_constant(item) or item.array is not None:
            value = self.peek(item)
            return None if value is None else lambda given: value
        leaves = self.graph.leaves(item) if item.graph is self.graph else None
        ports = {p: k for k, p in self.ports.items()}
        if leaves is None or any(v not in ports or element_count(v) > GUARD_ELEMENTS for v in leaves):
            return None
        graph = TraceGraph("test")  # the segment's own graph is taken apart when it is compiled
        made: dict[Value, Value] = {}
        inputs: dict[Key, Value] = {}
        for v in leaves:
            if ports[v] in self.known:
                made[v] = graph.of_array(self.known[ports[v]])
            else:
                made[v] = inputs[ports[v]] = graph.input(graph.unique_name("given"), v.shape, v.dtype)
        keys += [k for k in inputs if k not in keys]
        result = transplant(item, graph, made)
        return lambda given: graph.evaluate(result, {v: given[k] for k, v in inputs.items()})

    # -- steps -------------------------------------------------------------------------

    def _take(self, make: Callable[[], Step]) -> Step:
        """Go to the next step of the plan, made when it is not there; run it unless this run did."""
        step = self._cursor.children.get(self._outcome)
        if step is None:
            step = make()
            self._cursor.add(self._outcome, step)
        self.staged = self.staged or isinstance(step, (Host, Segment, Views))
        if isinstance(step, Segment):
            self._made.update(range(step.first, step.first + len(step.variant.compiled.program.outputs)))
        if isinstance(step, Host) and self._taken < self._done:
            self._outcome = step.outcome(self.values)
        elif isinstance(step, (Guard, Test)) or self._taken >= self._done:
            self._outcome = step.run(self.values, self.threads)
        else:
            self._outcome = None
        self._cursor = step
        self._taken += 1
        return step

    def cut(self, extra: Sequence[Any] = ()) -> list[Any]:
        """End the segment: what is live becomes slots. Returns the items of `extra` after that."""
        if self._captures is not None:
            raise NotStaticError("a value that only a run knows is needed inside a body")
        scope = Scope(None, {str(i): item for i, item in enumerate(extra)})
        self.scopes.append(scope)
        live: dict[Value, Any] = {}
        for s in self.scopes:
            for item in s.items.values():
                _collect(item, live)
        outputs: list[Value] = []
        old = self.graph
        fresh = TraceGraph(old.name)
        made: dict[Value, Value] = {}
        for v in live:
            if v.node.op is INPUT:
                live[v] = self._slot_of(v)
            elif v in old.pure:
                live[v] = self.item(transplant(v, fresh, made))
            else:
                outputs.append(v)
        if outputs:
            for i, v in enumerate(outputs):
                live[v] = Slot(self._slots + i, f"%{self._slots + i}", v.type, tuple(v.shape))  # type: ignore[arg-type]
                old.output(f"o{i}", v)
            first = self._slots
            self._slots += len(outputs)
            ports = dict(self.ports)
            views = _views(outputs, ports)
            if views is None:
                self._take(lambda: self._segment(old, ports, first))
            else:
                self._made.difference_update(key[0] for key, _ in views)
                self._take(lambda: Views(views, first))
        self.graph = fresh
        self.ports = {}
        for s in self.scopes:
            for name, item in s.items.items():
                s.items[name] = _replace(item, live)
        self.scopes.pop()
        return [scope.items[str(i)] for i in range(len(extra))]

    def _segment(self, graph: TraceGraph, ports: Mapping[Key, Value], first: int) -> Segment:
        variant = self.core.compile(graph)
        return Segment(variant, [(v.node.name, k) for k, v in ports.items()], first, self.model.options.poison)

    def host(
        self, function: Callable[..., Any], items: Sequence[Any], *, fixed: bool = False, floats: bool = True,
        fresh: bool = False,
    ) -> tuple[Any, ...]:
        """Call a Python function on concrete values; its results are new items. See `Host`."""
        if self._captures is not None and not all(map(self.is_constant, items)):
            raise NotStaticError("a host call is needed inside a body")
        ready = [self._on_host(i) for i in items]
        if any(_has_value(i) for i in ready):
            ready = [self._on_host(i) for i in self.cut(ready)]
        if all(not _has_slot(i) for i in ready):
            with np.errstate(all="ignore"):
                results = function(*ready)
            return results if isinstance(results, tuple) else (results,)
        first = self._slots
        self._made.difference_update(_slots_of(ready))
        step = self._take(lambda: Host(function, ready, first, fixed=fixed, floats=floats))
        assert isinstance(step, Host)
        if fresh:
            self._made.update(range(first, first + step.count))
        return tuple(self.slot(value) for value in self.values[first : first + step.count])

    def _on_host(self, item: Any) -> Any:
        """Constants as arrays, inputs of the graph as slots."""
        if isinstance(item, list):
            return [self._on_host(i) for i in item]
        if isinstance(item, Slot) and item.key in self.known:
            return self.known[item.key]
        if isinstance(item, Value):
            if item.array is not None:
                return item.array
            if item.node.op is INPUT:
                return self._slot_of(item)
            if item in self.graph.pure:
                return self.graph.evaluate(item, {})
        return item

    # -- walking ---------------------------------------------------------------------

    def walk(self, block: Block, scope: Scope) -> None:
        """Emit the nodes of a block; its results are then in the scope."""
        self.scopes.append(scope)
        for node in block.nodes:
            self.run_node(node, scope)
            for name in node.drop:
                scope.items.pop(name, None)
        self.scopes.pop()

    def results(self, block: Block, scope: Scope) -> list[Any]:
        """The items of a block's outputs."""
        found = []
        for name in block.outputs:
            items = scope.find(name)
            if items is None:
                raise FormatError(f"graph {block.name!r}: output {name!r} must be made by a node")
            found.append(items[name])
        return found

    def inline(self, block: Block, scope: Scope, items: Mapping[str, Any] | None = None) -> list[Any]:
        """Emit a block inside a scope, with values for its formal inputs."""
        inner = Scope(scope, {**block.initialisers, **(items or {})})
        self.scopes.append(inner)
        for node in block.nodes:
            self.run_node(node, inner)
            for name in node.drop:
                inner.items.pop(name, None)
        found = self.results(block, inner)
        self.scopes.pop()
        return found

    def run_node(self, node: NodeDef, scope: Scope) -> None:
        """Emit one node."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise FormatError(f"{node.place}: functions must expand to at most {MAX_NODES} nodes, got more")
        functions = self.model.functions
        function = functions.get((node.domain, node.op, node.overload)) if functions else None
        self.graph.place = node.name
        try:
            if function is not None:
                results = self._call(function, node, scope)
            else:
                emit = registry.find(node.domain, node.op, node.version)
                results = registry.USE_DEFINITION if emit is None else emit(NodeContext(self, node, scope))
                if results is registry.USE_DEFINITION:
                    results = self._defined(node, scope)
        except NotStaticError:
            raise
        except RlxError as error:
            raise placed(error, node.place) from None
        except (KeyError, IndexError, ValueError, TypeError, ArithmeticError, AttributeError, AssertionError) as error:
            raise FormatError(f"{node.place}: cannot be imported: {type(error).__name__}: {error}") from error
        outs = results if isinstance(results, tuple) else (results,)
        if len(outs) < len(node.outputs) and len(outs) < sum(1 for o in node.outputs if o):
            raise FormatError(f"{node.place}: must have at most {len(outs)} results, got {len(node.outputs)}")
        for name, result in zip(node.outputs, outs, strict=False):
            if name:
                scope.items[name] = self.item(result)

    def _defined(self, node: NodeDef, scope: Scope) -> Any:
        from rlx.onnx.functions import definition

        context = NodeContext(self, node, scope)
        block = definition(node, context.attributes(), context.items(), self.model.opset)
        if block is None:
            from rlx.onnx import reference_ops

            emit = reference_ops.find(node)
            if emit is not None:
                return emit(context)
            raise UnsupportedOpError(f"{node.place}: this op cannot be imported, opset {node.version}")
        return self._call(block, node, scope)

    def _call(self, block: Block, node: NodeDef, scope: Scope) -> tuple[Any, ...]:
        if len(self.frames) >= MAX_CALL_DEPTH:
            raise FormatError(f"{node.place}: functions must call each other at most {MAX_CALL_DEPTH} deep")
        context = NodeContext(self, node, scope)
        items = {name: context.item(i) if i < len(node.inputs) else None for i, name in enumerate(block.inputs)}
        attributes = {**block.defaults, **context.attributes()}
        self.frames.append(Frame(attributes))
        inner = Scope(None, items)
        self.walk(block, inner)
        self.frames.pop()
        return tuple(inner.items.get(name) for name in block.outputs)

    # -- the end -----------------------------------------------------------------------

    def finish(self, names: Sequence[str], items: Sequence[Any]) -> Finish:
        """Compile the last segment; the step that hands out results."""
        tensors = all(
            isinstance(i, Value)
            or (isinstance(i, np.ndarray) and is_tensor(i))
            or (isinstance(i, Slot) and i.type is not None)
            for i in items
        )
        if not self.staged and tensors and len(set(names)) == len(names) and items:
            first = self._slots
            for name, item in zip(names, items, strict=True):
                self.graph.output(name, self.value(item))
            graph, ports = self.graph, dict(self.ports)
            step = self._take(lambda: self._segment(graph, ports, first))
            assert isinstance(step, Segment)
            step.direct = True
            return self._end([Slot(first + i, "", None, None) for i in range(len(items))])
        ready = list(items)
        if any(_has_value(i) for i in ready):
            ready = self.cut(ready)
        if any(_has_value(i) for i in ready):  # constant expressions
            ready = [self._on_host(i) for i in ready]
        return self._end(ready)

    def _end(self, items: list[Any]) -> Finish:
        step = self._cursor.children.get(self._outcome)
        if step is None:
            step = Finish(items, self._made)
            self._cursor.add(self._outcome, step)
        assert isinstance(step, Finish)
        return step


def placed(error: RlxError, place: str) -> RlxError:
    """The error with the node in front, once."""
    text = str(error)
    if text.startswith("node "):
        return error
    return type(error)(f"{place}: {text}")


def _collect(item: Any, into: dict[Value, Any]) -> None:
    if isinstance(item, Value):
        into.setdefault(item, None)
    elif isinstance(item, list):
        for i in item:
            _collect(i, into)


def _replace(item: Any, by: Mapping[Value, Any]) -> Any:
    if isinstance(item, Value):
        return by[item]
    if isinstance(item, list):
        return [_replace(i, by) for i in item]
    return item


def _has_value(item: Any) -> bool:
    return isinstance(item, Value) or (isinstance(item, list) and any(map(_has_value, item)))


def _views(outputs: Sequence[Value], ports: Mapping[Key, Value]) -> list[tuple[Key, tuple[int, ...]]] | None:
    """Port and shape of every output when all are ports in other shapes, else None."""
    keys = {v: k for k, v in ports.items()}
    found: list[tuple[Key, tuple[int, ...]]] = []
    for v in outputs:
        source: Value | None = v
        while source is not None and source.node.op.name == "reshape":
            source = source.node.inputs[0]
        if source is None or source not in keys:
            return None
        found.append((keys[source], tuple(v.shape)))  # type: ignore[arg-type]
    return found


def _slots_of(item: Any) -> list[int]:
    """Indices of the slots in an item."""
    if isinstance(item, list):
        return [index for i in item for index in _slots_of(i)]
    return [item.index] if isinstance(item, Slot) else []


def _has_slot(item: Any) -> bool:
    return isinstance(item, Slot) or (isinstance(item, list) and any(map(_has_slot, item)))
