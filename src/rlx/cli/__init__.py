"""The command line: ``rlx run|inspect|bench|compile MODEL``, ``rlx tune``, ``rlx config``.

Every command loads a model, makes its inputs and prints a report; what it prints
comes from the library's own reports.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import rlx
from rlx.errors import RlxError


def _parser() -> argparse.ArgumentParser:
    from rlx.cli import bench, compile, inspect, measure, run

    parser = argparse.ArgumentParser(prog="rlx", description="Run, look into and time models on the CPU.")
    parser.add_argument("--version", action="version", version=f"rlx {rlx.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    common.add_argument("-i", "--input", action="append", default=[], metavar="NAME=VALUE",
                        help="a .npy file, 'random', 'zeros' or a number for one input (default: random); or a .npz"
                             " file of arrays by name")
    common.add_argument("-d", "--dim", action="append", default=[], metavar="NAME=N",
                        help="value of a named or open size (default: 1)")
    common.add_argument("-t", "--threads", type=int, metavar="N", help="threads of a run (default: all processors)")
    common.add_argument("--denormals", choices=("keep", "zero"), help="what denormal numbers are (default: keep)")
    common.add_argument("--json", action="store_true", help="print JSON instead of tables")
    common.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")

    one = commands.add_parser("run", parents=[common], help="run once and print the outputs", description=run.__doc__)
    one.add_argument("-o", "--output", type=Path, metavar="DIR", help="write each output to DIR/NAME.npy")
    one.set_defaults(call=run.run)

    look = commands.add_parser("inspect", parents=[common], help="show what a model compiles to",
                               description=inspect.__doc__)
    look.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page with pictures")
    look.add_argument("--full", action="store_true", help="print the whole graph, however long")
    look.set_defaults(call=inspect.inspect)

    time = commands.add_parser("bench", parents=[common], help="time runs and kernels", description=bench.__doc__)
    time.add_argument("-s", "--seconds", type=float, default=3.0, metavar="S", help="how long to measure (default: 3)")
    time.add_argument("--against", choices=("onnxruntime",), help="alternate with another runtime in this process")
    time.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page with the roofline")
    time.add_argument("--trace", type=Path, metavar="FILE", help="write the kernel calls as a trace for Perfetto")
    time.add_argument("--full", action="store_true", help="print every node, not the dearest alone")
    time.set_defaults(call=bench.bench)

    tune = commands.add_parser("tune", help="measure the cost model on this machine", description=measure.__doc__)
    tune.add_argument("-s", "--seconds", type=float, default=0.2, metavar="S",
                      help="time of each comparison, of about thirty (default: 0.2)")
    tune.add_argument("-n", "--dry-run", action="store_true", help="measure and print, write nothing")
    tune.add_argument("--reset", action="store_true", help="delete what was measured before, and leave")
    tune.add_argument("--json", action="store_true", help="print JSON instead of a table")
    tune.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
    tune.set_defaults(call=measure.tune)

    ahead = commands.add_parser("compile", parents=[common], help="write an ahead-of-time file",
                                description=compile.__doc__)
    ahead.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write, FILE.rlx")
    ahead.add_argument("--isa", metavar="LEVEL", help="compile for this ISA level instead of this machine's")
    ahead.set_defaults(call=compile.compile)

    config = commands.add_parser("config", help="print what runs on this machine")
    config.set_defaults(call=lambda _: rlx.show_config())
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, 2 for an error, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    try:
        options.call(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RlxError, OSError, MemoryError) as error:
        text = str(error) or "out of memory"
        print("\n".join([f"error: {text}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
