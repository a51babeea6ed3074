"""What kernels touch is proved before a program of a file runs: no number reaches memory that is not its own."""

import importlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import ops
from rlx._kernels._bounds import Rules
from rlx.aot.file import File
from rlx.aot.save import save_executable
from rlx.aot.tables import COLUMNS
from rlx.runtime.levels import available_levels, families_of, rows_of
from rlx.runtime.staged import Staged
from rlx.testing.files import feed, loop, loop_feed, mlp, parts, reseal
from rlx.testing.mutants import guarded
from rlx.testing.optest import build, cases, samples_of

# Kernels that no program calls: they measure, or serve one process.
ALONE = {"control.if", "control.loop", "digest.blocks", "gemm_info.f32", "gemm_info.f64", "gemm_info.int8",
         "probe.dot.i8", "probe.fma.f32", "probe.fma.f64", "probe.read"}


@pytest.mark.parametrize("level", available_levels())
def test_every_kernel_has_a_rule_for_its_layout(level: str) -> None:
    """A kernel without one cannot be loaded from a file: write the rule (isa/bounds_*.c), or adapt it to the layout."""
    kernels, ews, _ = rows_of(level)
    rules = Rules(families_of(level), [(k, row[1]) for k, row in kernels.items()],
                  [(k, row[1]) for k, row in ews.items()])
    assert set(rules.unknown) <= ALONE


def _saved(exe: rlx.CompiledGraph, feeds: dict[str, Any]) -> bytes:
    exe.run(feeds)
    data = save_executable(exe)
    assert data is not None
    return data


_FIRST = {op.name: (op, dtype) for op, dtype in reversed(list(cases()))}


@pytest.mark.parametrize("name", sorted(_FIRST))
def test_what_lowering_makes_of_an_op_is_proved(name: str) -> None:
    op, dtype = _FIRST[name]
    every = samples_of(op, dtype)
    for sample in every[:: max(1, len(every) // 3)][:3]:
        graph, feeds = build(op, sample)
        exe = rlx.compile(graph, rlx.CompileOptions(threads=2))
        if any(isinstance(v, Staged) for v in exe.variants()):
            continue  # an op of run-time sizes, which a file holds as a graph
        loaded = rlx.load(_saved(exe, feeds))
        want, got = exe.run(feeds), loaded.run(feeds)
        assert "random" in op.traits or all(a.tobytes() == b.tobytes() for a, b in zip(want, got, strict=True))


def _words(data: bytes, program: int, column: str) -> tuple[int, int]:
    """Place of a column in the file and its length."""
    manifest = json.loads(data[parts(data)["manifest"]])
    at, n = manifest["programs"][program]["columns"][COLUMNS.index(column)]
    arrays = int.from_bytes(data[104:108], "little")
    return parts(data)["words"].start + 8 * (2 * arrays + at), n


def _with(data: bytes, column: str, change: Callable[[np.ndarray], None], program: int = 0) -> bytes:
    place, n = _words(data, program, column)
    changed = bytearray(data)
    numbers = np.frombuffer(changed, "<i8", n, place).copy()
    change(numbers)
    changed[place : place + 8 * n] = numbers.tobytes()
    return reseal(changed)


def _put(i: int, value: int) -> Callable[[np.ndarray], None]:
    def change(numbers: np.ndarray) -> None:
        numbers[i] = value

    return change


def _gather() -> tuple[rlx.CompiledGraph, dict[str, Any]]:
    g = rlx.Graph("rows")
    x, i = g.input("x", (7, 4), rlx.f32), g.input("i", (3,), rlx.i64)
    g.output("y", ops.gather(x, i, axis=0))
    return rlx.compile(g), {"x": np.ones((7, 4), np.float32), "i": np.array([0, 6, 2])}


@pytest.mark.parametrize(("word", "value"), [(1, 8), (1, 1 << 40), (2, 4), (3, 5), (3, -4), (0, 2)])
def test_attributes_that_ask_for_more_than_operands_hold(word: int, value: int) -> None:
    exe, feeds = _gather()
    data = _with(_saved(exe, feeds), "words", _put(word, value))
    with pytest.raises(rlx.FormatError, match=r"gather.b4@i64 must stay inside its operands.*\nhint: .*trusted=True"):
        rlx.load(data)


@pytest.mark.parametrize(("column", "change", "text"), [
    ("extent", _put(0, 4), "not be more items"),
    ("nbytes", _put(1, 8), "as large as"),
    ("buffer", _put(2, 0), "memory of the run|lie where another|as large as"),
    ("kind", _put(0, 0), "kinds|buffers|inside|got"),
])
def test_operands_that_do_not_fit(column: str, change: Callable[[np.ndarray], None], text: str) -> None:
    exe, feeds = _gather()
    whole = _saved(exe, feeds)
    if column == "kind":  # a kind alone says nothing: places do
        assert rlx.load(_with(whole, column, change)).run(feeds)["y"].shape == (3, 4)
        return
    with pytest.raises(rlx.FormatError, match=text):
        rlx.load(_with(whole, column, change))


def test_a_weight_is_never_written() -> None:
    exe = mlp()
    data = _saved(exe, feed())
    columns = File(data).linker.tables[0].columns
    weight = int(np.flatnonzero(columns["kind"] == 3)[0])
    written = np.flatnonzero(columns["role"] == 1)

    def change(numbers: np.ndarray) -> None:
        numbers[written] = weight

    with pytest.raises(rlx.FormatError, match=r"must stay inside|inside their buffers"):
        rlx.load(_with(data, "buffer", change))


def test_tables_that_kernels_trust_are_looked_at() -> None:
    """The places of a resize are read without a check: a number outside the image is refused."""
    g = rlx.Graph("resize")
    x = g.input("x", (1, 1, 6, 6), rlx.f32)
    g.output("y", ops.resize(x, sizes=(1, 1, 9, 9), mode="linear"))
    exe = rlx.compile(g)
    data = _saved(exe, {"x": np.ones((1, 1, 6, 6), np.float32)})
    file = File(data)
    table = file.linker.tables[0]
    kernels = [file.linker.names[k] for k in table["kernel"].tolist()]
    call = kernels.index("resample.f32")
    weight = int(table["slot"][table["buffer"][int(table["arg_start"][call]) + 1]]) - table.weight_slot(0)
    array = file.container.array(file.variants[0]["arrays"][weight])
    at = array.ctypes.data - file.container.raw.ctypes.data
    changed = bytearray(data)
    changed[at : at + 4] = (6).to_bytes(4, "little")
    with pytest.raises(rlx.FormatError, match=r"places must be in range"):
        rlx.load(reseal(changed))


def test_trusted_files_run_without_the_proof() -> None:
    exe, feeds = _gather()
    whole = _saved(exe, feeds)
    smaller = _with(whole, "words", _put(2, 2))  # two rows of three, harmless
    with pytest.raises(rlx.FormatError, match=r"must stay inside"):
        rlx.load(_with(whole, "words", _put(2, 1 << 30)))
    with pytest.raises(rlx.FormatError, match=r"must not be more items"):
        rlx.load(smaller)
    assert rlx.load(smaller, trusted=True).run(feeds)["y"].shape == (3, 4)
    for bad in (1, "yes"):
        with pytest.raises(rlx.ConfigError, match=r"trusted must be True, False or None"):
            rlx.load(whole, trusted=bad)  # type: ignore[arg-type]


def test_packing_of_parameters_is_proved() -> None:
    """Setting a parameter runs a kernel with attributes of the file."""
    exe = mlp()
    data = _saved(exe, feed())
    where = parts(data)["details"]
    text = bytearray(data[where])
    at = text.index(b'"N":') + 4
    text[at : at + 1] = b"9"
    changed = bytearray(data)
    changed[where] = text
    loaded = rlx.load(reseal(changed))
    with pytest.raises(rlx.FormatError, match=r"packing by pack_b.f32 must stay inside its operands|must give"):
        loaded.set_param(next(iter(loaded.signature.params)), np.zeros((16, 24), np.float32))


def test_bodies_get_memory_that_is_theirs() -> None:
    exe = loop()
    data = _saved(exe, loop_feed())
    file = File(data)
    top = len(file.linker.tables) - 1
    table = file.linker.tables[top]
    call = [file.linker.names[k] for k in table["kernel"].tolist()].index("control.loop")
    start = int(table["attr_start"][call])
    carried = start + int(table["words"][start + 6])
    same = int(table["words"][carried + 1])
    with pytest.raises(rlx.FormatError, match=r"two buffers|lie where nothing else"):
        rlx.load(_with(data, "words", _put(carried + 2, same), top))
    locals_ = int(table["buffer"][int(table["arg_start"][call]) + 3])
    base = int(table["buffer"][int(table["arg_start"][call]) + 2])
    place = int(table["place"][base])
    with pytest.raises(rlx.FormatError, match=r"lie where nothing else|inside their slots"):
        rlx.load(_with(data, "place", _put(locals_, place), top))


def test_guarded_memory_ends_where_nobody_may_go() -> None:
    code = ("import numpy as np\nfrom rlx.testing.mutants import guarded\nimport ctypes\na = guarded(128)\na[:] = 1\n"
            "ctypes.memset(a.ctypes.data, 0, 129)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode < 0
    assert guarded(100)[:].sum() == 0


def test_mutants_end_in_an_error_or_a_run() -> None:
    """A short campaign; `tools/fuzz_files.py` runs long ones."""
    tool = pathlib.Path(__file__).parents[2] / "tools" / "fuzz_files.py"
    chosen = ["mlp", "loop", "gather", "conv", "lstm", "resize", "scatter_elements", "sort", "attention", "concat"]
    done = subprocess.run([sys.executable, str(tool), "--count", "150", "--most", "1", "--only", *chosen],
                          capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 failures" in done.stdout
    assert importlib.import_module("rlx.testing.mutants").is_failure("signal 11")
