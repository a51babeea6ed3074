"""Change numbers of ahead-of-time files, make their digests right again, load and run them.

    python tools/fuzz_files.py [LIST] [--only TEXT ...] [--count N] [--seed N] [--threads N]

Subjects are samples of the ops table, or the models of LIST. Every mutant runs in a child with guard pages behind its
inputs and scratch. Exit status 1 when one of them ended in a signal, did not end, or raised what is no error of rlx.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import model_list

import rlx
from rlx.aot.save import save_executable, save_model
from rlx.testing.files import feed, loop, loop_feed, mlp
from rlx.testing.mutants import Subject, campaign, report
from rlx.testing.optest import build, cases, samples_of


def samples(only: Sequence[str], most: int) -> Iterator[Subject]:
    """Some files of one op each, and two of several."""
    for name, exe, feeds in (("mlp", mlp(), feed()), ("loop", loop(), loop_feed())):
        if not only or name in only:
            exe.run(feeds)
            data = save_executable(exe)
            assert data is not None
            yield Subject(name, data, feeds)
    for op, dtype in cases():
        if only and op.name not in only:
            continue
        every = samples_of(op, dtype)
        for sample in every[:: max(1, len(every) // most)][:most]:
            try:
                graph, feeds = build(op, sample)
                exe = rlx.compile(graph, rlx.CompileOptions(threads=2))
                exe.run(feeds)
                data = save_executable(exe)
            except rlx.RlxError:  # an op of run-time sizes, which files do not hold
                continue
            assert data is not None
            yield Subject(f"{op.name}.{dtype}", data, feeds)


def models(options: argparse.Namespace) -> Iterator[Subject]:
    """Files of models."""
    for entry in model_list.read(options):
        if "missing" in entry:
            print(f"{entry['name']} missing: {entry['missing'][:60]}")
            continue
        feeds = model_list.feeds(entry["feeds"])
        model = rlx.load(entry["path"], threads=2)
        model.run(feeds)
        data = save_model(model)
        assert data is not None
        yield Subject(entry["name"], data, feeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print failures and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    model_list.add_arguments(parser)
    parser.add_argument("--count", type=int, default=2000, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most", type=int, default=2, help="samples per op and type")
    if not any(not a.startswith("-") and a.endswith(".json") for a in arguments or sys.argv[1:]):
        arguments = ["", *(arguments or sys.argv[1:])]
    options = parser.parse_args(arguments)
    subjects = list(models(options) if str(options.list) != "." else samples(options.only, options.most))
    print(f"{len(subjects)} subjects", flush=True)
    return 1 if report(campaign(subjects, options.count, options.seed, options.threads)) else 0


if __name__ == "__main__":
    sys.exit(main())
