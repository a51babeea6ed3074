"""What `RLX_VERBOSE` says on stderr about each compilation."""

import sys
from typing import TYPE_CHECKING

from rlx import config

if TYPE_CHECKING:
    from rlx.compiler import Compiled


def tell(compiled: "Compiled") -> None:
    """Say what has been compiled, if `RLX_VERBOSE` asks for it."""
    level = int(config.default("RLX_VERBOSE", "0"))
    if not level:
        return
    from rlx.runtime.report import explain, human

    program = compiled.program
    seconds = sum(r.seconds for r in compiled.records)
    weights = sum(w.nbytes for w in program.weights)
    print(f"rlx: compiled {compiled.graph.name!r} for {compiled.table.level}: {len(program.nodes)} nodes,"
          f" {len(program.calls)} calls, weights {human(weights)}, arena {human(program.arena_bytes)},"
          f" passes {seconds * 1e3:.1f} ms", file=sys.stderr)
    if level > 1:
        print(explain(compiled), file=sys.stderr)
