"""Compile a model for the shapes of its inputs and write an ahead-of-time file, which loads within milliseconds."""

import argparse
import json

from rlx.cli.session import open_session
from rlx.options import CompileOptions
from rlx.runtime.report import human


def compile(options: argparse.Namespace) -> None:
    """The command."""
    session = open_session(options, CompileOptions(isa=options.isa) if options.isa else None)
    with session.step(f"writing {options.output}"):
        session.model.save(options.output)
    size = options.output.stat().st_size
    shapes = {name: list(getattr(value, "shape", [])) for name, value in session.inputs.items()}
    if options.json:
        print(json.dumps({"model": str(options.model), "file": str(options.output), "bytes": size, "inputs": shapes}))
        return
    print(f"wrote {options.output} ({human(size)})")
    for name, shape in shapes.items():
        print(f"  {name}: {shape}")
