"""Chains of elementwise nodes of one shape become regions that run block by block in L1.

A node joins the region of its producers when the result has the region's shape
and no path leaves the region and comes back. Values read outside stay results
of the region, so nothing is recomputed and no output is lost.
"""

import heapq

from rlx._kernels import _nodes
from rlx.ir.graph import Graph, Node, Rewriter, Value
from rlx.ops.fused import REGION

MAX_NODES = 24
MAX_OPERANDS = 16


_RAISES = frozenset({"div", "mod", "fmod", "floor_div", "pow"})
_INTEGER_IDENTITY = frozenset({"floor", "ceil", "round", "trunc"})


def _joins(node: Node) -> bool:
    if "elementwise" not in node.op.traits:
        return False
    first, name = node.inputs[0], node.op.name
    assert first is not None
    kind = first.type.dtype
    if name == "cast":
        if kind == node.outputs[0].type.dtype and not node.attrs["saturate"]:
            return False
    elif kind.is_int and (name in _INTEGER_IDENTITY or name in _RAISES):
        return False
    return node.outputs[0].type.is_static


class _Group:
    """Nodes that become a region; sets of groups are bits of integers, by their numbers."""

    __slots__ = ("bit", "name", "nodes", "number", "outside", "sources")

    def __init__(self, number: int, name: int) -> None:
        self.number = number
        self.bit = 1 << number
        self.name = name  # the place of its first node
        self.nodes: list[Node] = []
        self.outside: set[Value] = set()  # operands that others make
        self.sources = 0  # groups that they come from


def fuse_elementwise(graph: Graph) -> Graph:
    """Form regions greedily in topological order.

    `behind[node]` holds the groups that the node's value comes from; for a node
    in a group, that group alone, whose own sources are in `sources`. A node may
    join a group unless one of its other operands comes, through any chain of
    groups, from that same group: then the group would need its own result.
    """
    groups: list[_Group] = []
    behind: dict[int, int] = {}
    group_of: dict[int, _Group] = {}
    for index, node in enumerate(graph.nodes):
        producers = [id(v.node) for v in node.inputs if v is not None]
        below = 0
        for p in producers:
            below |= behind[p]
        if not _joins(node):
            behind[id(node)] = below
            continue
        chosen = None
        near = {g.number: g for p in producers if (g := group_of.get(p)) is not None}
        for number in sorted(near, reverse=True):
            g = near[number]
            others = 0
            for p in producers:
                if group_of.get(p) is not g:
                    others |= behind[p]
            if _fits(g, node) and not (others and _reaches(others, g.bit, groups)):
                chosen = g
                break
        if chosen is None:
            chosen = _Group(len(groups), index)
            groups.append(chosen)
        chosen.nodes.append(node)
        chosen.outside.update([v for v in node.inputs if v is not None and group_of.get(id(v.node)) is not chosen])
        chosen.sources |= below & ~chosen.bit
        group_of[id(node)] = chosen
        behind[id(node)] = chosen.bit
    regions = [g for g in groups if len(g.nodes) > 1]
    return _rebuild(graph, regions) if regions else graph


def _reaches(starts: int, goal: int, groups: list[_Group]) -> bool:
    """Whether the group with the bit `goal` is among those that `starts` come from."""
    todo = seen = starts
    while todo:
        if seen & goal:
            return True
        low = todo & -todo
        found = groups[low.bit_length() - 1].sources
        todo = (todo | found & ~seen) ^ low
        seen |= found
    return bool(seen & goal)


def _fits(group: _Group, node: Node) -> bool:
    if len(group.nodes) >= MAX_NODES or group.nodes[0].outputs[0].type.shape != node.outputs[0].type.shape:
        return False
    if len(group.outside) + len(node.inputs) <= MAX_OPERANDS:
        return True
    made = {n.outputs[0] for n in group.nodes}
    return len(group.outside | {v for v in node.inputs if v is not None and v not in made}) <= MAX_OPERANDS


def _rebuild(graph: Graph, regions: list[_Group]) -> Graph:
    member = {id(n): g for g in regions for n in g.nodes}
    # Units, a region or a node outside, come in the order of their last nodes as far as their operands allow.
    last: dict[int, int] = {}  # by number of the group: place of the last node
    for at, node in enumerate(graph.nodes):
        if (g := member.get(id(node))) is not None:
            last[g.number] = at
    leaving = set(graph.outputs.values())  # results of regions that others read
    ordered = True
    for at, node in enumerate(graph.nodes):
        g = member.get(id(node))
        for v in node.inputs:
            if v is not None and (made := member.get(id(v.node))) is not None and made is not g:
                leaving.add(v)
                ordered = ordered and last[made.number] < (at if g is None else last[g.number])
    places = range(len(graph.nodes)) if ordered else _sequence(graph, member, last)
    rewriter = Rewriter(graph)
    for at in places:
        node = graph.nodes[at]
        g = member.get(id(node))
        if g is None:
            rewriter.copy(node)
        elif at == last[g.number]:
            _emit_region(rewriter, g, leaving)
    return rewriter.finish()


def _sequence(graph: Graph, member: dict[int, _Group], last: dict[int, int]) -> list[int]:
    """Places of the last nodes of all units in an order in which each comes behind those that it reads."""
    unit = {id(n): at if (g := member.get(id(n))) is None else last[g.number] for at, n in enumerate(graph.nodes)}
    missing = dict.fromkeys(unit.values(), 0)
    followers: dict[int, list[int]] = {}
    for at in missing:
        g = member.get(id(graph.nodes[at]))
        nodes = [graph.nodes[at]] if g is None else g.nodes
        for producer in {unit[id(v.node)] for n in nodes for v in n.inputs if v is not None} - {at}:
            followers.setdefault(producer, []).append(at)
            missing[at] += 1
    ready = sorted(at for at, n in missing.items() if not n)
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for follower in followers.get(order[-1], ()):
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(missing):
        raise RuntimeError(f"regions of graph {graph.name!r} form a cycle")
    return order


def _emit_region(rewriter: Rewriter, group: _Group, leaving: set[Value]) -> None:
    nodes = group.nodes
    body = Graph(f"region{group.name}")
    body.track_source = False
    inner: dict[Value, Value] = {}
    made = {n.outputs[0] for n in nodes}
    outside: list[Value] = []
    for n in nodes:
        for v in n.inputs:
            if v is not None and v not in made and v not in inner:
                inner[v] = body.fresh_input(f"x{len(outside)}", v.type)
                outside.append(v)
    results: list[Value] = []
    for n in nodes:
        out = n.outputs[0]
        _nodes.copy(body, inner, n)
        if out in leaving:
            results.append(out)
    if not results:
        return  # nobody reads any of them
    for v in results:
        body.output(v.name, inner[v])
    new_values = rewriter.emit(REGION, [rewriter.map[v] for v in outside], {"body": body}, nodes[-1])
    for v, value in zip(results, new_values, strict=True):
        rewriter.replace(v, value)
