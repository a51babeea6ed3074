"""Byte code of what first answers import, in one file: what `rlx.startup` reads.

    pack_startup.py OUTPUT            make the file, from tools/startup.txt and the sources (a step of the build)
    pack_startup.py --find LIST       write tools/startup.txt: what the models of a list, and three probes, import

A line of ``startup.txt`` is a path in the package and the probes that import it. Modules that nearly every model
imports lie together, one group for each combination of probes; others lie alone; what fewer import has no line.
What OUTPUT holds of sources that have not changed is taken from there.
"""

import importlib.util
import io
import itertools
import marshal
import sys
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
LISTED = Path(__file__).with_name("startup.txt")
HEAD = b"rlxcode1" + importlib.util.MAGIC_NUMBER  # as rlx.startup has it, which is not to be imported here
OFTEN, NEARLY = 0.4, 0.9  # of the models
PROBES = {
    "import": "import rlx",
    "graph": "import rlx\nfrom rlx import ops\ng = rlx.Graph('g')\ng.output('y', ops.relu(g.input('x', (4, 8), rlx.f32)"
             " + 1))\n",
    "compile": "rlx.compile(g).run({'x': numpy.zeros((4, 8), 'f')})",
    "file": "import rlx\nrlx.load(path).run({'x': numpy.zeros((4, 8), 'f')})",
}

Entry = tuple[str, int, bytes, int]


def module_of(path: str) -> str:
    """``rlx/ir/graph.py`` -> ``rlx.ir.graph``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def listed() -> list[tuple[str, str]]:
    """Paths of sources with their groups; modules of no group have their own."""
    lines = [line.split(maxsplit=1) for line in LISTED.read_text().splitlines()]
    return [(path, rest[0] if rest else path) for path, *rest in lines]


def pack(output: Path) -> None:
    """Write the file."""
    before = _read(output)
    groups: dict[str, dict[str, CodeType]] = {}
    entries: dict[str, Entry] = {}
    for path, group in listed():
        source = (SOURCES / path).read_bytes()
        name, digest = module_of(path), importlib.util.source_hash(source)
        known = before.get(name)
        code = known[1] if known is not None and known[0] == digest else compile(source, path, "exec",
                                                                               dont_inherit=True, optimize=0)
        groups.setdefault(group, {})[name] = code
        entries[name] = (path.partition("/")[2], len(source), digest, list(groups).index(group))
    bodies = [marshal.dumps(g) for g in groups.values()]
    start, size = 0, 0
    while True:  # the index holds places behind itself
        ends = list(itertools.accumulate(map(len, bodies), initial=start))
        index = marshal.dumps((entries, [(at, len(body)) for at, body in zip(ends, bodies, strict=False)]))
        start = len(HEAD) + len(index)
        if start == size:
            break
        size = start
    output.write_bytes(HEAD + index + b"".join(bodies))


def _read(path: Path) -> dict[str, tuple[bytes, CodeType]]:
    """Hash and code by module of a file made before; nothing if there is none that fits."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    if not data.startswith(HEAD):
        return {}
    entries, groups = marshal.load(io.BytesIO(data[len(HEAD):]))
    codes = {name: code for at, size in groups for name, code in marshal.loads(data[at : at + size]).items()}
    return {name: (entry[2], codes[name]) for name, entry in entries.items()}


def find(arguments: list[str]) -> None:
    """Write the list."""
    import collections
    import tempfile

    import model_list

    end = "\nprint(*[m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'rlx'])"
    folder = None

    def imported(code: str, *given: object) -> list[str]:
        nonlocal folder
        paths = model_list.child(["-c", f"import sys, numpy\npath = sys.argv[1]\n{code}{end}", *given], 1).split()
        folder = folder or Path(next(p for p in paths if p.endswith("rlx/__init__.py"))).parents[1]
        return [Path(p).relative_to(folder).as_posix() for p in paths if p.endswith(".py")]

    by_probe: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "g.rlx"
        by_probe["import"] = set(imported(PROBES["import"], file))
        by_probe["graph"] = set(imported(PROBES["graph"], file))
        by_probe["compile"] = set(imported(PROBES["graph"] + PROBES["compile"], file))
        model_list.child(["-c", f"import numpy\n{PROBES['graph']}rlx.compile(g).save({str(file)!r})"], 1)
        by_probe["file"] = set(imported(PROBES["file"], file))
    run = (
        "import rlx\nwith numpy.load(sys.argv[2], allow_pickle=False) as a:\n"
        "    feeds = {k[3:]: a[k] for k in a.files if k.startswith('in:')}\n"
        "feeds = {k: v.astype(object) if v.dtype.kind == 'U' else v for k, v in feeds.items()}\n"
        "rlx.load(path, threads=1).run(feeds)"
    )
    entries = [e for e in model_list.read(model_list.parser(__doc__).parse_args(arguments)) if "missing" not in e]
    counts = collections.Counter(p for e in entries for p in imported(run, e["path"], e["feeds"]))
    own = ("rlx/__init__.py", "rlx/startup.py")  # imported before the file is open
    often = {path for path, count in counts.items() if count >= OFTEN * len(entries)}
    lines = []
    for path in sorted((often | by_probe["graph"]) - set(own)):
        probes = [name for name, paths in by_probe.items() if path in paths]
        group = "+".join(probes + ["onnx"] * (counts[path] >= NEARLY * len(entries)))
        lines.append(f"{path} {group}".rstrip())
    LISTED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--find"]:
        find(sys.argv[2:])
    else:
        pack(Path(sys.argv[1]))
