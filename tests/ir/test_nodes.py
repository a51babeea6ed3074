"""The compiled loops over nodes: what they copy, count and refuse."""

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx._kernels import _nodes
from rlx.ir.graph import Graph, Rewriter


def diamond() -> rlx.Graph:
    """A constant, an unused node, and a value that is read twice."""
    g = rlx.Graph("diamond")
    x = g.input("x", (2, 3), rlx.f32)
    y = ops.add(x, g.constant(np.float32([1, 2, 3])), name="y")
    ops.neg(y, name="unused")
    g.output("z", ops.mul(y, y, name="z"))
    return g


def test_copies_are_alike_and_apart() -> None:
    g = diamond()
    rewriter = Rewriter(g)
    for node in g.nodes:
        rewriter.copy(node)
    made = rewriter.finish()
    assert str(made) == str(g)
    assert [n.name for n in made.nodes] == [n.name for n in g.nodes]
    for old, new in zip(g.nodes, made.nodes, strict=True):
        assert new is not old and new.op is old.op and new.attrs == old.attrs and new.loc == old.loc
        for a, b in zip(old.outputs, new.outputs, strict=True):
            assert b.graph is made and b.node is new and b.index == a.index and b.type is a.type and b.array is a.array
            assert rewriter[a] is b


def test_names_that_are_taken_give_way() -> None:
    g = diamond()
    z = g.outputs["z"].node
    known = {v: v for n in g.nodes for v in n.outputs}
    (again,) = _nodes.copy(g, known, z) or ()
    assert again.node.name == "z_1"
    assert again.node.inputs == z.inputs
    assert g.nodes[-1] is again.node


def test_another_type_runs_the_rules() -> None:
    g = diamond()
    rewriter = Rewriter(g)
    rewriter.leaf(g.inputs[0].node, rlx.ir.types.TensorType(rlx.f32, (5, 2, 3)))
    for node in g.nodes[1:]:
        rewriter.copy(node)
    assert rewriter.finish().outputs["z"].shape == (5, 2, 3)


def test_an_operand_that_is_not_there_is_a_key_error() -> None:
    g = diamond()
    with pytest.raises(KeyError):
        _nodes.copy(Graph("empty"), {}, g.outputs["z"].node)


def test_who_reads_what() -> None:
    g = diamond()
    x, (y, z) = g.inputs[0], (next(n for n in g.nodes if n.name == name) for name in "yz")
    out = y.outputs[0]
    unused = next(n for n in g.nodes if n.name == "unused")
    assert _nodes.uses(g.nodes)[out] == 3
    assert _nodes.readers(g.nodes)[out] == [unused, z, z]
    assert _nodes.needed(g.nodes, g.outputs.values()) == set(g.nodes) - {unused}
    assert _nodes.kinds(g.nodes) == {rlx.f32}
    assert _nodes.types_of([x, None]) == [x.type, None]
    _nodes.dismantle([z])
    assert z.inputs == z.outputs == ()


@pytest.mark.parametrize("call", [
    lambda: _nodes.copy(Graph("g"), {}, object()),
    lambda: _nodes.adopt(Graph("g"), None, (), ()),
    lambda: _nodes.uses([1]),
    lambda: _nodes.readers(["x"]),
    lambda: _nodes.kinds([None]),
    lambda: _nodes.dismantle([object()]),
    lambda: _nodes.needed([], [3]),
    lambda: _nodes.types_of([np.ones(3)]),
    lambda: _nodes.bind(int, float, None),
])
def test_other_objects_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises((TypeError, KeyError)):
        call()


def test_sizes_without_anything_to_check() -> None:
    assert _nodes.fits((2, 3), 4)
    assert _nodes.fits((), 8)
    for shape in ((0, 3), (-1,), (1 << 40,), (1 << 16, 1 << 16), (True,), (2.0,), (1,) * 40, [2, 3]):
        assert not _nodes.fits(shape, 4)


def test_places_of_blocks_that_cannot_be() -> None:
    for spans, order in (([(2, 1, 64)], [0]), ([(-1, 1, 64)], [0]), ([(0, 1, 64)], [0, 0])):
        with pytest.raises(ValueError, match="a block must live"):
            _nodes.place(spans, order, None)
    with pytest.raises(IndexError):
        _nodes.place([(0, 1, 64)], [1], None)
    assert _nodes.place([(0, 1, 64), (1, 2, 64)], [0, 1], None) == ([0, 64], 128, 3)
