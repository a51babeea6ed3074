"""Show what a model compiles to: signature, ops, passes, kernels, fused graph, arena, memory."""

import argparse
import json
import re
from collections import Counter
from typing import Any

from rlx.cli.session import Session, open_session
from rlx.compiler import Compiled
from rlx.ir.text import print_graph
from rlx.lower.memory import lifetimes
from rlx.runtime.report import explain, human, table_text

GRAPH_LINES = 60
SHADES = " .:*#"
LONG_NAME = re.compile(r"%(?:[\w.:-]*/)+(?=[\w.:-]+/[\w.:-]+)")  # all but the last two parts of a path


def inspect(options: argparse.Namespace) -> None:
    """The command."""
    session = open_session(options)
    parts = session.model.compiled_for(session.inputs)
    if options.html is not None:
        from rlx.cli.page import page

        with session.step(f"drawing {options.html}"):
            options.html.write_text(page(session, parts), encoding="utf-8")
    if options.json:
        print(json.dumps(facts(session, parts), indent=2))
        return
    print(f"{session.path.name}\n\n{session.model.signature}\n")
    for i, part in enumerate(parts):
        if len(parts) > 1:
            print(f"-- part {i + 1} of {len(parts)} " + "-" * 50)
        print(table_text(("op", "nodes"), [(k, str(n)) for k, n in histogram(part).most_common()], (1,)))
        print(f"\n{explain(part)}\n")
        lines = print_graph(part.graph).splitlines() if part.graph.nodes else ["(the file holds no graph)"]
        if not options.full:
            lines = [LONG_NAME.sub("%…", line) for line in lines]
        if len(lines) > GRAPH_LINES and not options.full:
            lines[GRAPH_LINES - 1 : -1] = [f"  ... {len(lines) - GRAPH_LINES} more lines; --full prints them"]
        print("\n".join(line if len(line) < 160 else line[:157] + "..." for line in lines) + "\n")
        print(arena_map(part) + "\n")
    print(session.model.memory_report())


def histogram(part: Compiled) -> Counter[str]:
    """How many nodes of each op the compiled graph has; of a file without its graph, how many the program knows."""
    return Counter(n.op.name for n in part.graph.nodes if not n.op.has("leaf")) or Counter(
        n.op for n in part.program.nodes)


def facts(session: Session, parts: list[Compiled]) -> dict[str, Any]:
    """The same as data."""
    memory = session.model.memory_report()
    return {
        "model": str(session.path),
        "inputs": {k: str(v) for k, v in session.model.signature.inputs.items()},
        "outputs": {k: str(v) for k, v in session.model.signature.outputs.items()},
        "parts": [
            {
                "ops": dict(histogram(part)),
                "passes": [{"name": r.name, "before": r.before, "after": r.after, "seconds": r.seconds}
                           for r in part.records],
                "kernels": dict(Counter(c.kernel for c in part.program.calls)),
                "level": part.table.level,
                "graph": print_graph(part.graph).splitlines(),
                "arena": part.program.arena_bytes,
            }
            for part in parts
        ],
        "memory": {"weights": memory.weights, "arena": memory.arena, "bound": memory.bound,
                   "unshared": memory.unshared},
    }


def arena_map(part: Compiled, width: int = 72, height: int = 16) -> str:
    """The arena over time as text: right is later, down is a higher offset, darker is fuller."""
    program = part.program
    spans = lifetimes(program)
    if not program.arena_bytes or not spans:
        return "arena: empty"
    calls = len(program.calls)
    width = min(width, calls)
    cells = [[0.0] * width for _ in range(height)]
    for buffer, (first, last) in spans.items():
        if buffer.slot != 0:
            continue
        top, bottom = (v / program.arena_bytes * height for v in (buffer.offset, buffer.offset + buffer.nbytes))
        left, right = first / calls * width, (last + 1) / calls * width
        for y in range(int(top), min(height, int(bottom) + 1)):
            for x in range(int(left), min(width, int(right) + 1)):
                share = max(0.0, min(bottom, y + 1) - max(top, y)) * max(0.0, min(right, x + 1) - max(left, x))
                cells[y][x] = min(1.0, cells[y][x] + share)
    rows = ["|" + "".join(SHADES[min(4, int(c * 4.99))] for c in row) + "|" for row in cells]
    return "\n".join([f"arena: {human(program.arena_bytes)} over {calls} kernel calls", *rows])
