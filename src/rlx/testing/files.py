"""Executables to save, and files with changed content under right digests, for tests of ahead-of-time files."""

from typing import Any

import numpy as np

import rlx
from rlx import ops
from rlx.aot import container


def mlp(options: rlx.CompileOptions | None = None) -> rlx.CompiledGraph:
    """A small graph with parameters, a constant and the open size `batch`."""
    rng = np.random.default_rng(3)
    g = rlx.Graph("mlp")
    x = g.input("x", ("batch", 16), rlx.f32)
    w, b = g.param("w", (16, 24), rlx.f32), g.param("b", (24,), rlx.f32)
    c = g.constant(rng.standard_normal((24, 40)).astype(np.float32))
    h = ops.tanh(x @ w + b, name="hidden")
    g.output("y", h @ c)
    g.output("h", h)
    exe = rlx.compile(g, options)
    exe.set_params({"w": rng.standard_normal((16, 24)).astype(np.float32), "b": np.arange(24, dtype=np.float32)})
    return exe


def feed(n: int = 3, seed: int = 0) -> dict[str, Any]:
    """Inputs for `mlp`."""
    return {"x": np.random.default_rng(seed).standard_normal((n, 16)).astype(np.float32)}


def loop() -> rlx.CompiledGraph:
    """Control flow: a scan with weights in its body, then a branch that captures its result."""
    rng = np.random.default_rng(5)
    body = rlx.Graph("body")
    carried, row = body.input("carried", (8,), rlx.f32), body.input("row", (8,), rlx.f32)
    w = body.constant(rng.standard_normal((8, 8)).astype(np.float32))
    moved = ops.tanh(ops.reshape(ops.reshape(carried, shape=(1, 8)) @ w, shape=(8,)) + row)
    body.output("next", moved)
    body.output("trace", moved * moved)
    g = rlx.Graph("loop")
    start, xs = g.input("start", (8,), rlx.f32), g.input("xs", (5, 8), rlx.f32)
    last, stack = ops.scan(start, xs, body=body, n_carried=1, n_xs=1)
    branches = []
    for name, sign in (("yes", 1.0), ("no", -2.0)):
        branch = rlx.Graph(name)
        branch.output("o", branch.input("v", (8,), rlx.f32) * sign)
        branches.append(branch)
    flag = g.input("flag", (), rlx.bool_)
    picked: Any = ops.cond(flag, last, then=branches[0], orelse=branches[1])
    g.output("picked", picked)
    g.output("stack", stack)
    return rlx.compile(g, rlx.CompileOptions(threads=1))


def loop_feed(seed: int = 0, flag: bool = True) -> dict[str, Any]:
    """Inputs for `loop`."""
    rng = np.random.default_rng(seed)
    return {"start": rng.standard_normal(8).astype(np.float32), "xs": rng.standard_normal((5, 8)).astype(np.float32),
            "flag": np.asarray(flag)}


def parts(data: bytes) -> dict[str, slice]:
    """Where the parts of a file lie."""
    fields = container._FIELDS.unpack(data[: container._FIELDS.size])
    names = ("manifest", "words", "details", "sums", "data")
    return {n: slice(a, a + size) for n, a, size in zip(names, fields[4:14:2], fields[5:14:2], strict=True)}


def reseal(data: bytearray) -> bytes:
    """The bytes with digests that are right: what a hostile writer would make."""
    where = parts(bytes(data))
    data[where["sums"]] = container.digests(np.frombuffer(bytes(data[where["data"]]), np.uint8)).tobytes()
    meta = np.frombuffer(bytes(data[container.HEADER : where["data"].start]), np.uint8)
    data[container._META_AT : container._META_AT + 64] = container._one(meta)
    head = np.frombuffer(bytes(data[: container._HEADER_AT]), np.uint8)
    data[container._HEADER_AT : container._HEADER_AT + 64] = container._one(head)
    return bytes(data)
