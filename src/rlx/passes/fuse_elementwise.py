"""Chains of elementwise nodes of one shape become regions that run block by block in L1.

A node joins the region of its producers when the result has the region's shape
and no path leaves the region and comes back. Values read outside stay results
of the region, so nothing is recomputed and no output is lost.
"""

import heapq
from collections.abc import Set

from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ops.fused import REGION

MAX_NODES = 24
MAX_OPERANDS = 16


_NONE: frozenset[int] = frozenset()


def _joins(node: Node) -> bool:
    if "elementwise" not in node.op.traits:
        return False
    first = node.inputs[0]
    assert first is not None
    out = node.outputs[0]
    same_cast = node.op.name == "cast" and first.dtype == out.dtype and not node.attrs["saturate"]
    integer_identity = first.dtype.is_int and node.op.name in ("floor", "ceil", "round", "trunc")
    raises = first.dtype.is_int and node.op.name in ("div", "mod", "fmod", "floor_div", "pow")
    return out.type.is_static and not same_cast and not integer_identity and not raises


def fuse_elementwise(graph: Graph) -> Graph:
    """Form regions greedily in topological order.

    `behind[node]` holds the groups that the node's value comes from; for a node
    in a group, that group alone, whose own sources are in `sources`. A node may
    join a group unless one of its other operands comes, through any chain of
    groups, from that same group: then the group would need its own result.
    """
    groups: dict[int, list[Node]] = {}
    outside: dict[int, set[Value]] = {}  # operands of a group that others make
    sources: dict[int, set[int]] = {}
    behind: dict[int, Set[int]] = {}
    group_of: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        producers = [v.node for v in node.inputs if v is not None]
        below: Set[int] = _NONE
        if len(producers) == 1:
            below = behind[id(producers[0])]
        elif producers:
            below = set().union(*[behind[id(p)] for p in producers])
        if not _joins(node):
            behind[id(node)] = below
            continue
        chosen_group = index
        for g in sorted({group_of[id(p)] for p in producers if id(p) in group_of}, reverse=True):
            others: set[int] = set()
            for p in producers:
                if group_of.get(id(p)) != g:
                    others |= behind[id(p)]
            if _fits(groups[g], outside[g], node) and not _reaches(others, g, sources):
                chosen_group = g
                break
        groups.setdefault(chosen_group, []).append(node)
        outside.setdefault(chosen_group, set()).update(
            [v for v in node.inputs if v is not None and group_of.get(id(v.node)) != chosen_group])
        sources.setdefault(chosen_group, set()).update(below - {chosen_group})
        group_of[id(node)] = chosen_group
        behind[id(node)] = {chosen_group}
    chosen = {g: nodes for g, nodes in groups.items() if len(nodes) > 1}
    return _rebuild(graph, chosen) if chosen else graph


def _reaches(starts: set[int], goal: int, sources: dict[int, set[int]]) -> bool:
    """Whether `goal` is among the groups that `starts` come from."""
    todo, seen = list(starts), set(starts)
    while todo:
        g = todo.pop()
        if g == goal:
            return True
        for h in sources[g]:
            if h not in seen:
                seen.add(h)
                todo.append(h)
    return False


def _fits(group: list[Node], outside: set[Value], node: Node) -> bool:
    if len(group) >= MAX_NODES or group[0].outputs[0].shape != node.outputs[0].shape:
        return False
    if len(outside) + len(node.inputs) <= MAX_OPERANDS:
        return True
    made = {n.outputs[0] for n in group}
    return len(outside | {v for v in node.inputs if v is not None and v not in made}) <= MAX_OPERANDS


def _rebuild(graph: Graph, chosen: dict[int, list[Node]]) -> Graph:
    member: dict[int, int] = {id(n): g for g, nodes in chosen.items() for n in nodes}
    last = {g: nodes[-1] for g, nodes in chosen.items()}
    rewriter = Rewriter(graph)
    readers: dict[Value, set[int]] = {}
    for n in graph.nodes:
        for v in n.inputs:
            if v is not None:
                readers.setdefault(v, set()).add(member.get(id(n), -1))
    for v in graph.outputs.values():
        readers.setdefault(v, set()).add(-1)
    # Units, a region or a node outside, in the order of their last nodes as far as their operands allow.
    unit: dict[int, int] = {}  # of a node: position of the last node of its unit
    for at, n in enumerate(graph.nodes):
        g = member.get(id(n))
        for m in (n,) if g is None else chosen[g] if n is last[g] else ():
            unit[id(m)] = at
    waiting = set(unit.values())
    missing = dict.fromkeys(waiting, 0)
    followers: dict[int, list[int]] = {}
    for at in waiting:
        g = member.get(id(graph.nodes[at]))
        nodes = [graph.nodes[at]] if g is None else chosen[g]
        for producer in {unit[id(v.node)] for n in nodes for v in n.inputs if v is not None} - {at}:
            followers.setdefault(producer, []).append(at)
            missing[at] += 1
    ready = sorted(at for at in waiting if not missing[at])
    while ready:
        at = heapq.heappop(ready)
        waiting.remove(at)
        g = member.get(id(graph.nodes[at]))
        if g is None:
            rewriter.copy(graph.nodes[at])
        else:
            _emit_region(rewriter, chosen[g], g, readers)
        for follower in followers.get(at, ()):
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    if waiting:
        raise RuntimeError(f"regions of graph {graph.name!r} form a cycle")
    return rewriter.finish()


def _emit_region(
    rewriter: Rewriter, nodes: list[Node], group: int, readers: dict[Value, set[int]]
) -> None:
    made = {n.outputs[0] for n in nodes}
    outside: dict[Value, None] = {}
    for n in nodes:
        for v in n.inputs:
            if v is not None and v not in made:
                outside[v] = None
    body = Graph(f"region{group}")
    body.track_source = False
    inner: dict[Value, Value] = {}
    for i, v in enumerate(outside):
        inner[v] = body.fresh_input(f"x{i}", v.type)
    results: list[Value] = []
    for n in nodes:
        operands = tuple([None if v is None else inner[v] for v in n.inputs])
        inner[n.outputs[0]] = body.adopt(n, operands, (n.outputs[0].type,))[0]
        if readers.get(n.outputs[0], set()) - {group}:
            results.append(n.outputs[0])
    if not results:
        return  # nobody reads any of them
    for v in results:
        body.output(v.name, inner[v])
    named = nodes[-1]
    new_values = rewriter.emit(REGION, [rewriter.map[v] for v in outside], {"body": body}, named)
    for v, value in zip(results, new_values, strict=True):
        rewriter.replace(v, value)
