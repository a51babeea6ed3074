"""Write what follows from the table of ops and the error classes.

Files made: `src/rlx/ops/__init__.pyi` (signatures for editors and type checkers), `src/rlx/{ops,lower,onnx}/_index.py`
(which module registers a row, so that it can be imported on need),
`docs/reference/ops.md`, `docs/reference/options.md`, `docs/errors.md`. With `--check` nothing is written and the
exit status is 1 when a file is out of date.
"""

import argparse
import dataclasses
import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlx import config, dtypes, errors, options
from rlx.gradients.rules import RULES as DERIVATIVES
from rlx.ir.opdef import ROUNDING, Attr, OpDef, Tolerance
from rlx.lower.context import RULES
from rlx.onnx import registry
from rlx.ops import TABLE
from rlx.ops.unary import ULPS
from rlx.passes import Pass, default_pipeline
from rlx.testing.optest import build, samples_of

ROOT = Path(__file__).resolve().parents[1]

KINDS = {
    "int": "int",
    "ints": "int | Sequence[int]",
    "float": "float",
    "floats": "Sequence[float]",
    "bool": "bool",
    "str": "str",
    "dtype": "DTypeLike",
    "dims": "Sequence[DimLike]",
    "any": "Any",
}


def public_ops() -> list[OpDef]:
    """Rows that a user can call, by family and then by name."""
    rows = [op for op in TABLE.values() if not op.internal and not op.has("custom")]
    return sorted(rows, key=lambda op: (op.family, op.name))


def result_type(op: OpDef) -> str:
    """The annotation of what a call returns, told from the row's samples."""
    counts = set()
    for dtype in op.dtypes if op.samples is not None else ():
        for sample in samples_of(op, dtype):
            graph, _ = build(op, sample)
            counts.add(len(graph.outputs))
    if counts == {1}:
        return "Value"
    if len(counts) == 1:
        return f"tuple[{', '.join(['Value'] * counts.pop())}]"
    return "Any"


def attr_type(attr: Attr) -> str:
    """The annotation of an attribute."""
    kind = f"Literal[{', '.join(map(repr, attr.choices))}]" if attr.choices else KINDS[attr.kind]
    return f"{kind} | None" if not attr.required and attr.default is None else kind


def plain(value: object) -> bool:
    """Whether a default can stand in a stub as it prints."""
    return isinstance(value, (bool, int, str, type(None))) or (
        isinstance(value, float) and value == value and abs(value) != float("inf")
    ) or (isinstance(value, tuple) and all(map(plain, value)))


def stub_of(op: OpDef) -> str:
    """`def` line of one op."""
    fixed = [n for n in op.inputs if not n.endswith("*")]
    parameters = [f"{n[:-1]}: Operand | None = None" if n.endswith("?") else f"{n}: Operand" for n in fixed]
    if fixed:
        parameters.append("/")
    if len(fixed) < len(op.inputs):
        parameters.append(f"*{op.inputs[-1][:-1]}: Operand | Sequence[Operand]")
    else:
        parameters.append("*")
    for attr in op.attrs:
        default = "" if attr.required else f" = {attr.default!r}" if plain(attr.default) else " = ..."
        parameters.append(f"{attr.name}: {attr_type(attr)}{default}")
    parameters += ["graph: Graph | None = None", "name: str | None = None"]
    line = f"def {op.name}({', '.join(parameters)}) -> {result_type(op)}: ..."
    if len(line) <= 100:
        return line
    return f"def {op.name}(\n    " + ",\n    ".join(parameters) + f",\n) -> {result_type(op)}: ..."


STUB_HEAD = '''# Made by tools/gen_reference.py from the table of ops; do not edit.
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rlx.dtypes import DType
from rlx.ir.dims import DimLike
from rlx.ir.graph import Graph, Value
from rlx.ir.opdef import OpDef
'''

STUB_TABLE = '''
Operand: TypeAlias = Value | npt.NDArray[Any] | np.generic | complex
DTypeLike: TypeAlias = DType | npt.DTypeLike

TABLE: dict[str, OpDef]
FAMILY: dict[str, str]
'''


def stub() -> str:
    """Text of `rlx/ops/__init__.pyi`."""
    import rlx.ops

    helpers = sorted((f"rlx.ops.{module}", name, name) for name, module in rlx.ops._FUNCTIONS.items())
    lines = [STUB_HEAD + "".join(f"from {module} import {given} as {name}\n" for module, given, name in helpers)]
    lines.append(STUB_TABLE)
    lines += [stub_of(op) for op in sorted(public_ops(), key=lambda op: op.name)]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def dtype_names(found: Iterable[dtypes.DType]) -> str:
    """Element types as a short list; well-known sets by name."""
    names = [d.name for d in found]
    but_float8 = (*dtypes.NUMBERS, dtypes.bool_)
    for label, group in (("all", dtypes.ALL), ("all but float8", but_float8), ("reals", dtypes.REALS),
                         ("floats", dtypes.FLOATS), ("ints", dtypes.INTS)):
        if set(names) == {d.name for d in group}:
            return label
    return " ".join(names)


def tolerance_text(tolerance: Tolerance, op: OpDef) -> str:
    """How far results may lie from the definition."""
    if tolerance.exact or tolerance in (ROUNDING, ULPS):
        return "exact" if tolerance.exact else "rounding" if tolerance == ROUNDING else "ulps"
    parts = []
    for d in op.dtypes:
        rtol, atol = tolerance.of(d)
        if rtol or atol:
            parts.append(f"{d.name} {rtol:.1e}" + (f" + {atol:.0e}" if atol > 1e-30 else ""))
    return ", ".join(parts) or "exact"


def bounds(tolerance: Tolerance) -> str:
    """Relative bounds of the float types."""
    return ", ".join(f"{d.name} {tolerance.of(d)[0]:.1e}" for d in dtypes.FLOATS)


def call_text(op: OpDef) -> str:
    """How a call looks."""
    parts = [n if not n.endswith("*") else f"*{n[:-1]}" for n in op.inputs]
    parts += [a.name if a.required else f"{a.name}={a.default!r}" for a in op.attrs]
    return f"{op.name}({', '.join(parts)})"


def example_text(op: OpDef) -> str:
    """Types of a typical sample and of its result."""
    if op.samples is None:
        return ""
    found = samples_of(op, op.dtypes[0])
    full = [s for s in found if all(a is None or (a.size > 1) for a in s.args)] or found
    sample = max(full, key=lambda s: sum(a is not None for a in s.args))
    graph, _ = build(op, sample)
    node = graph.nodes[-1]
    given = ", ".join("-" if v is None else str(v.type) for v in node.inputs)
    return f"{given} -> {', '.join(str(v.type) for v in node.outputs)}"


def escape(text: str) -> str:
    """Text inside a Markdown table cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def ops_page() -> str:
    """Text of `docs/reference/ops.md`."""
    rows = public_ops()
    lines = [
        "# Ops",
        "",
        f"{len(rows)} ops. Made from the table in `src/rlx/ops` by `tools/gen_reference.py`; do not edit.",
        "",
        "`x?` is an optional operand, `*xs` any number of them; keyword arguments are attributes. *Types* are those",
        "of the first operand: `reals` are floats and integers, `floats` are " + " ".join(d.name for d in dtypes.FLOATS)
        + ". *Error* is the bound",
        "that tests hold results to, relative to the NumPy definition (`exact`: bit for bit; integers always are).",
        "`rounding` stands for " + bounds(ROUNDING) + "; `ulps` for " + bounds(ULPS) + ".",
        "What an op means on edge values is in [numerics](../numerics.md).",
        "",
    ]
    family = ""
    for op in rows:
        if op.family != family:
            family = op.family
            lines += ["", f"## {family}", "", "| call | meaning | types | example | error |", "|---|---|---|---|---|"]
        cells = (f"`{call_text(op)}`", op.doc, dtype_names(op.dtypes), f"`{example_text(op)}`" if op.samples else "",
                 tolerance_text(op.tolerance, op))
        lines.append("| " + " | ".join(escape(c) for c in cells) + " |")
    known = ", ".join(f"`{op.name}`" for op in rows if op.name in DERIVATIVES)
    lines += ["", "## Derivatives", "", "`rlx.vjp` and `rlx.grad` have rules for these ops, and go through others",
              f"whose [decomposition](../how-to/gradients.md) has them: {known}."]
    return "\n".join(lines) + "\n"


def error_classes() -> list[type[errors.RlxError]]:
    """Every public error class, in the order of the file."""
    return [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.RlxError)]


def errors_page() -> str:
    """Text of `docs/errors.md`."""
    lines = [
        "# Errors",
        "",
        "Made from the docstrings in `src/rlx/errors.py` by `tools/gen_reference.py`; do not edit.",
        "",
        "Every exception derives from `rlx.RlxError` and from the built-in that a Python user would catch. Its text",
        "reads `<node or place>: <what must hold>, got <values>`, often with one `hint:` line.",
        "",
    ]
    for cls in error_classes():
        bases = ", ".join(f"`{b.__name__}`" for b in cls.__bases__)
        lines += [f"## {cls.__name__}", "", f"A {bases}.", "", inspect.getdoc(cls) or "", ""]
    return "\n".join(lines)


def attributes_of(cls: type) -> list[tuple[str, str, str]]:
    """(name, type, text) of the Attributes section of a numpydoc docstring."""
    lines = (inspect.getdoc(cls) or "").partition("----------\n")[2].splitlines()
    rows: list[tuple[str, str, str]] = []
    for line in lines:
        if line.startswith(" "):
            name, kind, text = rows[-1]
            rows[-1] = (name, kind, f"{text} {line.strip()}".strip())
        elif " : " in line:
            name, _, kind = line.partition(" : ")
            rows.append((name, kind, ""))
    return rows


def paragraph(text: str | None) -> str:
    """The first paragraph, in one line."""
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


def pass_text(item: Pass, alone: bool) -> str:
    """What a pass does: the docstring of its module if that holds no other pass, else of its function."""
    return paragraph(sys.modules[item.function.__module__].__doc__ if alone else item.function.__doc__)


def options_page() -> str:
    """Text of `docs/reference/options.md`."""
    lines = ["# Options and passes", "",
             "Made from `src/rlx/options.py` and `src/rlx/passes` by `tools/gen_reference.py`; do not edit.", ""]
    for cls in (options.CompileOptions, options.RngOptions):
        defaults = {f.name: f for f in dataclasses.fields(cls)}
        lines += [f"## {cls.__name__}", "", "| name | type | default | meaning |", "|---|---|---|---|"]
        for name, kind, text in attributes_of(cls):
            field = defaults[name]
            value = field.default if field.default is not dataclasses.MISSING else field.default_factory()
            lines.append(f"| `{name}` | {escape(kind)} | `{value!r}` | {escape(text)} |")
        lines.append("")
    lines += ["## Environment", "",
              "Defaults of the options above, and what no option says. A value that cannot be read is a `ConfigError`;",
              "`rlx.show_config()` lists what is set, `rlx.RuntimeConfig.current(strict=True)` refuses names that are",
              "misspelt. Flags are 0 or 1.", "",
              "| variable | value | default | meaning | option |", "|---|---|---|---|---|"]
    for name, v in config.VARIABLES.items():
        kind = v.kind.replace("|", ", ") if "|" in v.kind else v.kind
        lines.append(f"| `{name}` | {kind} | {v.default} | {v.meaning} | {f'`{v.option}`' if v.option else ''} |")
    lines.append("")
    lines += ["## Passes", "",
              "In this order. *Required* ones also run with `optimize=False`; the others can be left out by name with",
              "`CompileOptions(disable=(...))`.", "", "| pass | required | what it does |", "|---|---|---|"]
    pipeline = default_pipeline()
    count = Counter(function.__module__ for function in {p.function for p in pipeline})
    alone = {module for module, n in count.items() if n == 1}
    lines += [f"| `{p.name}` | {'yes' if p.required else ''} | {escape(pass_text(p, p.function.__module__ in alone))} |"
              for p in pipeline]
    return "\n".join(lines) + "\n"


def index_text(where: Mapping[Any, str], what: str) -> str:
    """Text of an index: keys by module."""
    rows: dict[str, list[Any]] = {}
    for module, key in sorted((module, key) for key, module in where.items()):
        rows.setdefault(module, []).append(key)
    lines = ["# Made by tools/gen_reference.py; do not edit.", f'"""{what}"""', "", "INDEX = {"]
    for module, keys in rows.items():
        lines.append(f"    {json.dumps(module)}: (")
        line = "       "
        for key in keys:
            text = json.dumps(key) if isinstance(key, str) else f"({', '.join(map(json.dumps, key))})"
            if len(line) + len(text) + 2 > 120:
                lines.append(line)
                line = "       "
            line += f" {text},"
        lines += [line, "    ),"]
    return "\n".join([*lines, "}"]) + "\n"


def module_of(function: Any) -> str:
    """Last part of the name of a function's module."""
    return str(function.__module__).rpartition(".")[2]


def ops_index() -> str:
    """Text of `src/rlx/ops/_index.py`."""
    return index_text({op.name: op.family for op in TABLE.values() if not op.has("custom")},
                      "Which family holds an op.")


def rules_index() -> str:
    """Text of `src/rlx/lower/_index.py`."""
    return index_text({name: module_of(rule) for name, rule in RULES.items()}, "Which module lowers an op.")


def onnx_index() -> str:
    """Text of `src/rlx/onnx/_index.py`."""
    return index_text({key: module_of(rows[0][1]) for key, rows in registry.table().items()},
                      "Which module imports an op of ONNX: (domain, name).")


PAGES: dict[str, Callable[[], str]] = {
    "src/rlx/ops/_index.py": ops_index,
    "src/rlx/lower/_index.py": rules_index,
    "src/rlx/onnx/_index.py": onnx_index,
    "src/rlx/ops/__init__.pyi": stub,
    "docs/reference/ops.md": ops_page,
    "docs/reference/options.md": options_page,
    "docs/errors.md": errors_page,
}


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    check = parser.parse_args(arguments).check
    stale = 0
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        if check:
            print(f"{name} is out of date; run python tools/gen_reference.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
