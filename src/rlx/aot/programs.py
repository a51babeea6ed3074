"""Programs of a file as `rlx.lower.program.Program`: for reports, for packing parameters, for writing a file again."""

import struct
import weakref
from typing import Any

from rlx import dtypes
from rlx.aot.file import File, malformed
from rlx.aot.tables import KINDS, ROLES, Linker, Table
from rlx.aot.values import decode
from rlx.compiler import Compiled
from rlx.errors import FormatError
from rlx.ir.graph import Graph
from rlx.lower.program import (
    Arg,
    Attrs,
    BodyRef,
    Buffer,
    Call,
    EwRef,
    NodeInfo,
    Operand,
    Port,
    Program,
    Transform,
    Weight,
)
from rlx.ops.parse import parse_type
from rlx.passes import PassRecord
from rlx.runtime import kernels


class Reader:
    """Decodes the programs of a file."""

    def __init__(self, file: File) -> None:
        self.file = weakref.proxy(file)
        self.linker: Linker = file.linker
        self.params: list[str] = file.details["params"]
        self._programs: dict[int, Program] = {}
        self._transforms: dict[int, Transform] = {}

    def transform(self, i: int) -> Transform | None:
        """Transform `i`, None for -1."""
        if i < 0:
            return None
        found = self._transforms.get(i)
        if found is None:
            kernel, attrs, nbytes, extent, args, first = self.file.details["transforms"][i]
            if first >= i:
                raise FormatError(f"{self.file.name}: a transform must come after the one before it, got {first}")
            found = self._transforms[i] = Transform(
                kernel, {k: _attr(v) for k, v in attrs.items()}, nbytes, extent, (self.file.name, id(self.file), i),
                tuple(None if a is None else (a[0], a[1]) for a in args), self.transform(first))
        return found

    def program(self, i: int) -> Program:
        """Program `i`."""
        found = self._programs.get(i)
        if found is None:
            self.linker.link(i)  # proves it
            found = self._programs[i] = self._decode(self.linker.tables[i], self.file.details["programs"][i])
        return found

    def _decode(self, table: Table, detail: Any) -> Program:
        columns = {k: v.tolist() for k, v in table.columns.items()}
        buffers = []
        for i, kind in enumerate(columns["kind"]):
            buffer = Buffer(i, KINDS[kind], columns["size"][i], str(detail["labels"][i]))
            buffer.slot, buffer.offset = columns["slot"][i], columns["place"][i]
            buffers.append(buffer)
        args: list[Arg | None] = [
            None if b < 0 else Arg(ROLES[r], Operand(buffers[b], o), n)
            for r, b, o, n in zip(*(columns[k] for k in ("role", "buffer", "offset", "nbytes")), strict=True)
        ]
        names = self.file.ew_names
        refs: dict[int, Any] = {
            **{at: EwRef(names[k]) for at, k in zip(columns["ew_at"], columns["ew"], strict=True)},
            **{at: BodyRef(self.program(k)) for at, k in zip(columns["body_at"], columns["body"], strict=True)},
        }
        floats = set(columns["float_at"])
        inplace: dict[int, list[tuple[int, int]]] = {}
        for call, w, r in zip(*[iter(columns["inplace"])] * 3, strict=True):
            inplace.setdefault(call, []).append((w, r))
        calls = []
        for i, kernel in enumerate(columns["kernel"]):
            at, end = columns["attr_start"][i : i + 2]
            attrs = _attrs(self.linker.layouts[kernel], columns["words"], at, refs, floats)
            first, last = columns["arg_start"][i : i + 2]
            calls.append(Call(self.linker.names[kernel], tuple(args[first:last]), attrs, columns["extent"][i],
                              columns["grain"][i], columns["cost"][i], columns["node"][i], tuple(inplace.get(i, ())),
                              columns["phases"][i]))
        weights = [
            Weight(None, None if p < 0 else self.params[p], self.transform(t), n)
            for n, p, t in zip(*(columns[f"weight_{k}"] for k in ("nbytes", "param", "transform")), strict=True)
        ]
        for buffer in buffers:
            if buffer.kind == "weight":
                buffer.source = weights[buffer.slot - table.weight_slot(0)]
        return Program(calls, buffers, [_port(p) for p in table.inputs], [_port(p) for p in table.outputs], weights,
                       [NodeInfo(str(n), str(o), str(at)) for n, o, at in detail["nodes"]], table.arena, table.live,
                       table.threads, bool(table.zero_denormals))


def _port(port: tuple[str, str, tuple[int, ...]]) -> Port:
    return Port(port[0], dtypes.BY_NAME[port[1]], port[2])


def _attr(item: Any) -> Any:
    if isinstance(item, dict):
        return EwRef(str(item["ew"]))
    return [_attr(v) for v in item] if isinstance(item, list) else item


def _attrs(layout: str, words: list[int], at: int, refs: dict[int, Any], floats: set[int]) -> Attrs:
    """Attributes by name from a call's words."""

    def item(i: int) -> Any:
        if i in refs:
            return refs[i]
        return struct.unpack("<d", struct.pack("<q", words[i]))[0] if i in floats else words[i]

    found: dict[str, Any] = {}
    place = at
    for token in layout.split():
        name, _, kind = token.partition(":")
        if kind == "*":
            start, n = at + words[place], words[place + 1]
            found[name] = [item(i) for i in range(start, start + n)]
            place += 1
        else:
            found[name] = item(place)
        place += 1
    return found


def compiled_of(file: File, number: int) -> Compiled:
    """What compiling gave, read back from the file."""
    with malformed(file.name):
        program = file.reader.program(file.variants[number]["program"])
        detail = file.details["variants"][number]
        records = tuple(PassRecord(*[decode(v, file.container) for v in r]) for r in detail["passes"])
        graph = Graph(str(detail["graph"]))
        for name, text in detail["params"]:
            kind = parse_type(text)
            graph.param(name, kind.shape, kind.dtype)
        return Compiled(graph, program, records, kernels.table(file.level))
