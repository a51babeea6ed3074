"""Programs as integers: written from `rlx.lower.program.Program`, linked by a few array operations.

One table per program, each column a stretch of the file's words. Kernels are
numbers of a list of names and layouts; an attribute that is an address in memory
(a micro-kernel, the plan of a body) is a number too, and the table says where
those stand. Bodies come before the programs that call them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx._kernels._bounds import Rules
from rlx.errors import FormatError
from rlx.runtime.levels import families_of, rows_of

if TYPE_CHECKING:
    from rlx.lower.program import Program, Transform
    from rlx.runtime.kernels import KernelTable

Words = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

KINDS = ("scratch", "input", "output", "weight")
ROLES = ("r", "w", "x")
# Columns of a table. Per call; per operand; per buffer; attribute words; places of references; scalars.
CALLS = ("kernel", "extent", "grain", "phases", "cost", "node")
ARGS = ("role", "buffer", "offset", "nbytes")
BUFFERS = ("kind", "size", "slot", "place")
COLUMNS = (*CALLS, "attr_start", "arg_start", *ARGS, *BUFFERS, "words", "ew_at", "ew", "body_at", "body", "float_at",
           "inplace", "weight_nbytes", "weight_param", "weight_transform", "scalars")
# Bytes that no size, offset or sum of two of them may exceed.
MOST = 1 << 60
# What a call takes at least: some time, and that of touching its operands.
LEAST_NS, BYTES_PER_NS = 10, 64


class Writer:
    """Collects programs.

    Attributes
    ----------
    programs : list of dict
        For the manifest.
    details : list of dict
        What only reports need, one per program.
    """

    def __init__(self, table: "KernelTable") -> None:
        self.table = table
        self.kernels: dict[str, int] = {}
        self.ews: dict[str, int] = {}
        self.params: dict[str, int] = {}
        self.transforms: list[Any] = []
        self.programs: list[dict[str, Any]] = []
        self.details: list[dict[str, Any]] = []
        self._columns: list[Words] = []
        self._at = 0
        self._bodies: dict[int, int] = {}
        self._transform_at: dict[int, int] = {}

    def words(self) -> bytes:
        """All columns."""
        return np.concatenate([np.zeros(0, np.int64), *self._columns]).astype("<i8").tobytes()

    def _column(self, values: Any) -> list[int]:
        column = np.asarray(values, np.int64).reshape(-1)
        self._columns.append(column)
        self._at += len(column)
        return [self._at - len(column), len(column)]

    def _number(self, known: dict[str, int], name: str) -> int:
        return known.setdefault(name, len(known))

    def transform(self, transform: "Transform | None") -> int:
        """Number of a transform; -1 for none."""
        if transform is None:
            return -1
        found = self._transform_at.get(id(transform))
        if found is None:
            first = self.transform(transform.first)
            attrs = {k: self._attr(v) for k, v in transform.attrs.items()}
            args = [None if a is None else list(a) for a in transform.args]
            self.transforms.append([transform.kernel, attrs, transform.nbytes, transform.extent, args, first])
            found = self._transform_at[id(transform)] = len(self.transforms) - 1
        return found

    def _attr(self, value: Any) -> Any:
        from rlx.lower.program import EwRef

        if isinstance(value, EwRef):
            return {"ew": value.name}
        if isinstance(value, (list, tuple)):
            return [self._attr(v) for v in value]
        return float(value) if isinstance(value, float) else int(value)

    def program(self, program: "Program") -> int:
        """Add a program, its bodies first; returns its number."""
        from rlx.lower.program import BodyRef, EwRef
        from rlx.runtime.link import float_word, lay_out

        attr_start, arg_start = [0], [0]
        words: list[int] = []
        refs: dict[str, list[int]] = {"ew_at": [], "ew": [], "body_at": [], "body": [], "float_at": []}
        args: list[tuple[int, int, int, int]] = []
        inplace: list[tuple[int, int, int]] = []
        index = {id(b): i for i, b in enumerate(program.buffers)}
        for i, call in enumerate(program.calls):
            for item in lay_out(self.table.kernel(call.kernel), call.attrs):
                if isinstance(item, EwRef):
                    refs["ew_at"].append(len(words))
                    refs["ew"].append(self._number(self.ews, item.name))
                    words.append(0)
                elif isinstance(item, BodyRef):
                    refs["body_at"].append(len(words))
                    refs["body"].append(self._body(item.program))
                    words.append(0)
                elif isinstance(item, float):
                    refs["float_at"].append(len(words))
                    words.append(float_word(item))
                elif isinstance(item, (int, np.integer)):
                    words.append(int(item))
                else:
                    raise FormatError(f"{program.nodes[call.node].place}: a file holds kernels of rlx alone,"
                                      f" got an attribute of type {type(item).__name__}")
            attr_start.append(len(words))
            for a in call.args:
                args.append((0, -1, 0, 0) if a is None else
                            (ROLES.index(a.role), index[id(a.operand.buffer)], a.operand.offset, a.nbytes))
            arg_start.append(len(args))
            inplace += [(i, w, r) for w, r in call.inplace]
        columns: dict[str, Any] = {
            "kernel": [self._number(self.kernels, c.kernel) for c in program.calls],
            **{k: [getattr(c, k) for c in program.calls] for k in CALLS[1:]},
            "attr_start": attr_start, "arg_start": arg_start,
            **{k: [a[i] for a in args] for i, k in enumerate(ARGS)},
            "kind": [KINDS.index(b.kind) for b in program.buffers], "size": [b.nbytes for b in program.buffers],
            "slot": [b.slot for b in program.buffers], "place": [b.offset for b in program.buffers],
            "words": words, **refs, "inplace": inplace,
            "weight_nbytes": [w.nbytes for w in program.weights],
            "weight_param": [-1 if w.param is None else self._number(self.params, w.param) for w in program.weights],
            "weight_transform": [self.transform(w.transform) for w in program.weights],
            "scalars": [program.arena_bytes, program.live_bound, program.max_threads,
                        int(program.zero_denormals)],
        }
        self.programs.append({
            "columns": [self._column(columns[k]) for k in COLUMNS],
            "inputs": [[p.name, p.dtype.name, list(p.shape)] for p in program.inputs],
            "outputs": [[p.name, p.dtype.name, list(p.shape)] for p in program.outputs],
        })
        self.details.append({"labels": [b.label for b in program.buffers],
                             "nodes": [[n.name, n.op, n.loc] for n in program.nodes]})
        return len(self.programs) - 1

    def _body(self, program: "Program") -> int:
        found = self._bodies.get(id(program))
        if found is None:
            found = self._bodies[id(program)] = self.program(program)
        return found


class Table:
    """One program of a file, as columns.

    Attributes
    ----------
    inputs, outputs : list of (name, dtype, shape)
    arena, live, threads, n_slots : int
    """

    def __init__(self, spec: Any, words: Words, name: str) -> None:
        self.name = name
        if len(spec["columns"]) != len(COLUMNS):
            raise FormatError(f"{name}: a program must have {len(COLUMNS)} columns, got {len(spec['columns'])}")
        self.columns: dict[str, Words] = {}
        for key, (at, n) in zip(COLUMNS, spec["columns"], strict=True):
            if type(at) is not int or type(n) is not int or at < 0 or n < 0 or at + n > len(words):
                raise FormatError(f"{name}: column {key!r} must lie inside the file, got {n} words at {at}")
            self.columns[key] = words[at : at + n]
        self.inputs = [(_text(n), _text(d), tuple(s)) for n, d, s in spec["inputs"]]
        self.outputs = [(_text(n), _text(d), tuple(s)) for n, d, s in spec["outputs"]]
        if len(self.columns["scalars"]) != 4:
            raise FormatError(f"{name}: a program must have 4 scalars, got {len(self.columns['scalars'])}")
        self.arena, self.live, self.threads, self.zero_denormals = self.columns["scalars"].tolist()
        self.n_slots = 1 + len(self.inputs) + len(self.outputs) + len(self.columns["weight_nbytes"])

    def __getitem__(self, key: str) -> Words:
        return self.columns[key]

    def weight_slot(self, i: int) -> int:
        """Slot of weight i."""
        return 1 + len(self.inputs) + len(self.outputs) + i


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FormatError(f"names must be text, got {value!r}")
    return value


class Linker:
    """Programs of a file with the addresses of this process.

    Parameters
    ----------
    kernels, ews : list of (name, layout) and (name, arity)
        As the file lists them; each must be the same here.
    check : callable
        ``check(table, linker)`` proves a table before it is linked, see `verify`.
    """

    def __init__(self, level: str, kernels: Any, ews: Any, tables: list[Table],
                 check: Callable[[Table, "Linker", int], None], name: str) -> None:
        rows, ew_rows, _ = rows_of(level)
        self.tables = tables
        self.layouts: list[str] = []
        self.names: list[str] = []
        addresses, arities = [], []
        for key, layout in kernels:
            row = rows.get(key)
            if row is None or row[1] != layout:
                raise FormatError(f"{name}: kernel {key!r} must have attributes {layout!r}, got {row and row[1]!r}")
            addresses.append(row[0])
            self.layouts.append(layout)
            self.names.append(key)
        for key, arity in ews:
            ew = ew_rows.get(key)
            if ew is None or ew[1] != arity:
                raise FormatError(f"{name}: micro-kernel {key!r} must have {arity!r} operands, got {ew and ew[1]!r}")
            arities.append(ew[0])
        self.addresses = np.array(addresses, np.int64)
        self.ew_addresses = np.array(arities, np.int64)
        self._families, self._ews = families_of(level), [(str(key), int(arity)) for key, arity in ews]
        self._rules: Rules | None = None
        self._check = check
        self._linked: dict[int, _interp.Program] = {}

    @property
    def rules(self) -> Rules:
        """What the kernels may touch."""
        if self._rules is None:
            self._rules = Rules(self._families, list(zip(self.names, self.layouts, strict=True)), self._ews)
        return self._rules

    def link(self, i: int) -> _interp.Program:
        """Program `i`, proved and linked."""
        found = self._linked.get(i)
        if found is None:
            table = self.tables[i]
            self._check(table, self, i)
            words = table["words"].astype(np.int64)
            words[table["ew_at"]] = self.ew_addresses[table["ew"]]
            keep: list[object] = []
            for at, body in zip(table["body_at"].tolist(), table["body"].tolist(), strict=True):
                inner = self.link(body)
                keep.append(inner)
                words[at] = inner.address
            buffer = table["buffer"]
            absent = buffer < 0
            slots = np.where(absent, -1, _take(table["slot"], buffer))
            offsets = np.where(absent, 0, _take(table["place"], buffer) + table["offset"])
            extent, grain, phases, node, cost = (
                np.array(table[k], np.int64) for k in ("extent", "grain", "phases", "node", "cost"))
            # Estimates decide when signals are looked at and who else may run: they must not be too low.
            np.maximum(cost, LEAST_NS + _per_call(table["nbytes"], table["arg_start"]) // BYTES_PER_NS, out=cost)
            found = self._linked[i] = _interp.Program(
                self.addresses[table["kernel"]], extent, grain, phases, node, cost, words,
                np.array(table["attr_start"][:-1], np.int64), np.array(slots, np.int64), np.array(offsets, np.int64),
                np.array(table["arg_start"], np.int64), table.n_slots, keep)
        return found


def _per_call(column: Words, starts: Words) -> Words:
    """Sums of the operands of each call."""
    sums = np.zeros(len(column) + 1, np.int64)
    np.cumsum(column, out=sums[1:])
    return np.asarray(sums[starts[1:]] - sums[starts[:-1]], np.int64)


def _take(column: Words, index: Words) -> Words:
    """Elements of a column; where the index is -1, any number."""
    return column[index] if len(column) else np.zeros(len(index), np.int64)
