"""Modules from the file of byte code are as those from their own files; what does not fit comes from these."""

import importlib.machinery
import os
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import startup
from rlx._kernels import _interp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import pack_startup  # noqa: E402

NAMES = ("parcel", "parcel.one", "parcel.two", "parcel.inner", "parcel.inner.deep")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of five modules, its file of byte code, and a list of which all but the package are."""
    folder = tmp_path / "parcel"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text('"""One."""\nfrom parcel import two\n\n\ndef value():\n    return two.VALUE + 1\n')
    (folder / "two.py").write_text("VALUE = 41\n\n\ndef wrong():\n    raise KeyError('two')\n")
    (folder / "inner/__init__.py").write_text("from parcel.inner.deep import NAME\n")
    (folder / "inner/deep.py").write_text("NAME = __name__\n")
    listed = tmp_path / "list.txt"
    listed.write_text("parcel/one.py both\nparcel/two.py both\nparcel/inner/__init__.py\nparcel/inner/deep.py\n")
    monkeypatch.setattr(pack_startup, "SOURCES", tmp_path)
    monkeypatch.setattr(pack_startup, "LISTED", listed)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    pack(folder)
    yield folder
    forget()


def path_of(folder: Path) -> Path:
    return folder / f"startup.{sys.implementation.cache_tag}.bin"


def pack(folder: Path) -> None:
    pack_startup.pack(path_of(folder))


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


def load(name: str) -> Any:
    importlib.invalidate_caches()
    return importlib.import_module(name)


def packed(module: types.ModuleType) -> bool:
    return type(module.__loader__).__module__ == "rlx.startup"


def edit(path: Path, text: str, seconds: float = 60.0) -> None:
    """Write a source as if some time after the file was made."""
    path.write_text(text)
    then = path.stat().st_mtime + seconds
    os.utime(path, (then, then))


def test_modules_are_as_from_their_own_files(package: Path) -> None:
    plain = load("parcel.one"), load("parcel.inner"), load("parcel.two")
    forget()
    assert startup.install(str(package)) is not None
    ours = load("parcel.one"), load("parcel.inner"), load("parcel.two")
    assert [packed(m) for m in plain + ours] == [False] * 3 + [True] * 3
    for a, b in zip(plain, ours, strict=True):
        for attribute in ("__file__", "__cached__", "__package__", "__doc__"):
            assert getattr(a, attribute) == getattr(b, attribute)
        assert getattr(a, "__path__", None) == getattr(b, "__path__", None)
        assert isinstance(b.__loader__, importlib.machinery.SourceFileLoader)
        assert b.__spec__ is not None and a.__spec__ is not None
        assert (a.__spec__.origin, a.__spec__.has_location) == (b.__spec__.origin, b.__spec__.has_location)
        assert b.__loader__.get_source(b.__name__) == a.__loader__.get_source(a.__name__)  # type: ignore[union-attr]
    assert ours[0].value() == 42 and ours[1].NAME == "parcel.inner.deep"
    with pytest.raises(KeyError) as caught:
        ours[2].wrong()
    entry = caught.traceback[-1]
    assert str(entry.path) == str(package / "two.py") and entry.lineno == 4
    assert importlib.reload(ours[2]).VALUE == 41 and ours[0].value() == 42


def test_a_changed_source_is_taken(package: Path) -> None:
    assert startup.install(str(package)) is not None
    edit(package / "two.py", "VALUE = 10\n")  # another size
    assert load("parcel.one").value() == 11 and not packed(sys.modules["parcel.two"])
    forget()
    pack(package)
    assert startup.install(str(package)) is not None
    edit(package / "two.py", "VALUE = 20\n")  # the same one
    edit(package / "one.py", (package / "one.py").read_text())  # written again, as it was
    assert load("parcel.one").value() == 21
    assert packed(sys.modules["parcel.one"]) and not packed(sys.modules["parcel.two"])


def test_what_was_not_changed_is_taken_from_the_last_file(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(package / "two.py", "VALUE = 5\n")
    compiled = []

    def record(source: bytes, path: str, *rest: Any, **options: Any) -> Any:
        compiled.append(path)
        return compile(source, path, *rest, **options)

    monkeypatch.setattr(pack_startup, "compile", record, raising=False)
    pack(package)
    assert compiled == ["parcel/two.py"]
    assert startup.install(str(package)) is not None
    assert load("parcel.one").value() == 6 and packed(sys.modules["parcel.two"])


@pytest.mark.parametrize("fault", ["none", "empty", "other Python", "index cut", "codes cut", "folder"])
def test_a_file_that_does_not_fit_is_left(package: Path, fault: str) -> None:
    path = path_of(package)
    data = path.read_bytes()
    path.unlink()
    if fault == "folder":
        path.mkdir()
    elif fault != "none":
        path.write_bytes({"empty": b"", "other Python": b"rlxcode1\0\0\r\n" + data[12:], "index cut": data[:20],
                          "codes cut": data[: len(data) // 2]}[fault])
    before = list(sys.meta_path)
    found = startup.install(str(package))
    assert (found is None) == (fault != "codes cut") and (found is not None or sys.meta_path == before)
    assert load("parcel.one").value() == 42 and load("parcel.inner").NAME == "parcel.inner.deep"


def test_a_file_that_was_replaced_meanwhile_is_left(package: Path) -> None:
    assert startup.install(str(package)) is not None
    other = path_of(package).with_suffix(".new")
    other.write_bytes(bytes(reversed(path_of(package).read_bytes())))
    other.replace(path_of(package))
    assert load("parcel.one").value() == 42


def test_other_places_of_the_package_go_first(package: Path, tmp_path: Path) -> None:
    assert startup.install(str(package)) is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "two.py").write_text("VALUE = 1\n")
    load("parcel").__path__.insert(0, str(elsewhere))
    assert load("parcel.one").value() == 2


def test_threads_that_import_at_the_same_time(package: Path) -> None:
    for _ in range(20):
        forget()
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, startup.Startup)]
        assert startup.install(str(package)) is not None
        load("parcel")
        start, found = threading.Barrier(4), []

        def run(name: str, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait()
            found.append(importlib.import_module(name).__name__)

        threads = [threading.Thread(target=run, args=(n,)) for n in (*NAMES[1:3], *NAMES[1:3])]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(found) == sorted((*NAMES[1:3], *NAMES[1:3]))


def test_what_is_listed_is_there_once() -> None:
    paths = [path for path, _ in pack_startup.listed()]
    assert len(set(paths)) == len(paths) and not [p for p in paths if not (ROOT / "src" / p).is_file()]


SCRIPT = """
import sys, os
import numpy as np
import rlx
model = rlx.load(sys.argv[1], threads=1)
print(model.run({"x": np.float32([[1, -2, 3]])})["y"].tolist())
ours = [n for n, m in sys.modules.items() if type(getattr(m, "__loader__", None)).__module__ == "rlx.startup"]
others = [n for n, m in sys.modules.items() if n.startswith("rlx.") and m.__file__.endswith(".py") and n not in ours]
idle = {"threading", "importlib.util", "rlx.onnx.sized", "rlx.runtime.family", "rlx.lower.trees", "rlx.lower.gemm_half",
        "rlx.lower.conv", "rlx.reference", "rlx.ir.custom", "rlx._kernels._text", "rlx._kernels._pages"}
print(*sorted(idle & set(sys.modules)))
import pickle
print(len(ours) > 50, len(others) < 12, pickle.loads(pickle.dumps(rlx.CompileOptions())) == rlx.CompileOptions())
child = os.fork()
if not child:
    from rlx import ops
    g = rlx.Graph("g")
    g.output("y", ops.relu(g.input("x", (2,), rlx.f32)))
    os._exit(0 if rlx.compile(g).run({"x": np.float32([-1, 2])})["y"].tolist() == [0, 2] else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_first_answer_of_an_installed_package(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    nodes = [onnx.helper.make_node("Relu", ["x"], ["a"]), onnx.helper.make_node("MatMul", ["a", "w"], ["y"])]
    w = onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    info = [onnx.helper.make_tensor_value_info(n, 1, [1, 3]) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", info[:1], info[1:], [w])
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    package = tmp_path / "site/rlx"
    shutil.copytree(Path(rlx.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.bin"))
    for built in Path(_interp.__file__).parent.glob("*.so"):
        (package / "_kernels" / built.name).symlink_to(built)
    pack(package)
    site = os.pathsep.join([str(package.parent), str(Path(np.__file__).parents[1])])
    env = {**os.environ, "PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": "1"}
    for flags, want in ((["-S"], "True True True"), (["-S", "-O"], "False False True")):
        done = subprocess.run([sys.executable, *flags, "-c", SCRIPT, str(tmp_path / "m.onnx")], env=env, check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split("\n")[:4] == ["[[1.0, 0.0, 3.0]]", "", want, "0"]
