"""Work of nodes, peaks of the machine, and what a report makes of both."""

import math

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx.ir.graph import Node, Value
from rlx.ops import TABLE
from rlx.runtime import kernels
from rlx.runtime.roofline import SIZES, Machine, measure_machine, roofline
from rlx.runtime.work import FLOPS, PARTIAL, UNBOUNDED, Work, work_of
from rlx.testing.optest import build, cases, samples_of

BOX = Machine("box", {"f32": 100.0, "f64": 50.0, "i8": 400.0}, ((1 << 14, 80.0), (1 << 20, 40.0), (1 << 26, 10.0)))


def node_of(v: Value) -> Node:
    return v.node


def test_rules_are_for_ops_that_exist() -> None:
    assert set(FLOPS) | set(PARTIAL) | set(UNBOUNDED) <= set(TABLE)
    assert not set(FLOPS) & set(UNBOUNDED)


def test_every_op_has_work_or_is_named_as_unbounded() -> None:
    seen = set()
    for op, dtype in cases():
        if op.name in seen or op.has("control"):
            continue
        seen.add(op.name)
        for sample in samples_of(op, dtype)[:2]:
            graph, _ = build(op, sample)
            node = next(n for n in graph.nodes if n.op is op)
            work = work_of(node)
            if op.name in UNBOUNDED or not all(v.type.is_static for v in node.outputs):
                assert work is None
            else:
                assert work is not None and work.flops >= 0 and work.nbytes >= 0
                assert math.isfinite(work.flops)


def test_products() -> None:
    g = rlx.Graph("g")
    a, b = g.input("a", (3, 5, 7), rlx.f32), g.input("b", (7, 11), rlx.f32)
    assert work_of(node_of(a @ b)) == Work(2 * 3 * 5 * 7 * 11, 4 * (105 + 77 + 165), "f32")
    c, d = g.input("c", (7, 5), rlx.f64), g.input("d", (11, 7), rlx.f64)
    assert work_of(node_of(ops.gemm(c, d, None, trans_a=True, trans_b=True))) == Work(
        2 * 5 * 7 * 11, 8 * (35 + 77 + 55), "f64")  # fmt: skip
    x, w = g.input("x", (2, 6, 9, 9), rlx.f32), g.input("w", (8, 3, 3, 3), rlx.f32)
    conv = work_of(node_of(ops.conv(x, w, groups=2)))
    assert conv is not None and conv.flops == 2 * (2 * 8 * 7 * 7) * 27
    t = g.input("t", (6, 4, 2, 2), rlx.f32)
    back = work_of(node_of(ops.conv_transpose(x, t)))
    assert back is not None and back.flops == 2 * (2 * 6 * 81) * 16


def test_attention_counts_the_same_in_both_layouts() -> None:
    g = rlx.Graph("g")
    q, k, v = (g.input(n, (2, 4, s, 8), rlx.f32) for n, s in (("q", 5), ("k", 9), ("v", 9)))
    split = work_of(node_of(ops.attention(q, k, v)))
    q3, k3, v3 = (g.input(n, (2, s, 32), rlx.f32) for n, s in (("q3", 5), ("k3", 9), ("v3", 9)))
    joined = work_of(node_of(ops.attention(q3, k3, v3, num_heads=4, num_kv_heads=4)))
    assert split is not None and joined is not None
    assert split.flops == joined.flops == 2 * 2 * 4 * 5 * 9 * 16


def test_recurrence_and_look_ups() -> None:
    g = rlx.Graph("g")
    x = g.input("x", (6, 2, 3), rlx.f32)
    w, r = g.input("w", (1, 16, 3), rlx.f32), g.input("r", (1, 16, 4), rlx.f32)
    found = work_of(node_of(ops.lstm(x, w, r)[0]))
    assert found is not None and found.flops == 2 * 6 * 2 * (48 + 64)
    table, rows = g.input("table", (1000, 8), rlx.f32), g.input("rows", (3,), rlx.i64)
    found = work_of(node_of(ops.gather(table, rows, axis=0)))
    assert found == Work(0.0, 2 * 96 + 24, "f32")  # not the table


def test_the_roof() -> None:
    assert BOX.least(Work(1000.0, 80.0, "f32")) == (10.0, "compute")
    assert BOX.least(Work(1000.0, 1600.0, "f64")) == (20.0, "compute")
    assert BOX.least(Work(10.0, 8000.0, "f32")) == (100.0, "memory")
    assert BOX.read_rate(1 << 14) == 80.0 and BOX.read_rate((1 << 14) + 1) == 40.0 and BOX.read_rate(1 << 40) == 10.0
    two = Machine("box", BOX.peak, BOX.bandwidth, threads=2)
    assert two.least(Work(1000.0, 80.0, "f32")) == (5.0, "compute")
    assert two.read_rate(1 << 30) == 10.0  # memory is shared


@pytest.mark.parametrize("level", kernels.available_levels())
def test_peaks_can_be_measured(level: str) -> None:
    machine = measure_machine(kernels.table(level), seconds=0.001)
    assert machine.level == level
    assert all(0.05 < rate < 1e5 for rate in machine.peak.values())
    assert [size for size, _ in machine.bandwidth] == list(SIZES)
    rates = [rate for _, rate in machine.bandwidth]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0.05
    assert level in str(machine)


def test_a_profile_against_the_roof() -> None:
    g = rlx.Graph("layer")
    x = g.input("x", (32, 64), rlx.f32)
    h = ops.softmax(x @ g.constant(np.ones((64, 64), np.float32)), axis=-1)
    g.output("y", h)
    g.output("top", ops.topk(h, k=3, axis=-1)[0])
    exe = rlx.compile(g, rlx.CompileOptions(threads=1))
    profile = exe.profile({"x": np.ones((32, 64), np.float32)}, repeat=3)
    found = roofline(BOX, [exe._variant.compiled], profile)  # type: ignore[union-attr]
    assert found.total == pytest.approx(profile.total)
    by_op = {r.op: r for r in found.rows}
    product = by_op["fused_matmul"] if "fused_matmul" in by_op else by_op["matmul"]
    assert product.work is not None and product.work.flops == 2 * 32 * 64 * 64
    assert product.share == pytest.approx(product.least / product.nanoseconds)
    assert by_op["topk"].work is None and by_op["topk"].share is None and by_op["topk"].rate == ""
    assert [r.nanoseconds for r in found.rows] == sorted((r.nanoseconds for r in found.rows), reverse=True)
    text = found.text(1)
    assert "of roofline" in text and "others" in text and "<table>" in found._repr_html_()
