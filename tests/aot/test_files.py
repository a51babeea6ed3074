"""Files that are foreign, old, cut off, damaged or hostile are refused with FormatError; nothing crashes."""

import errno
import json
import os
import pathlib
import pickle
import random
import resource
import subprocess
import sys

import numpy as np
import pytest

import rlx
from rlx.aot import container
from rlx.aot.tables import COLUMNS
from rlx.testing.files import feed, loop, mlp, parts, reseal


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A file with its graph, parameters, two shapes."""
    from rlx.aot.save import save_executable

    exe = mlp()
    for n in (1, 3):
        exe.run(feed(n))
    made = save_executable(exe, None, portable=True)
    assert made is not None
    return made


def test_bytes_load_like_a_file(whole: bytes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.rlx").write_bytes(whole)
    a, b = rlx.load(whole), rlx.load(tmp_path / "a.rlx")
    assert a.run(feed())["y"].tobytes() == b.run(feed())["y"].tobytes() == mlp().run(feed())["y"].tobytes()


def test_weights_are_the_file_and_cannot_be_written(whole: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.rlx"
    path.write_bytes(whole)
    exe = rlx.load(path)
    variant = exe._mapped[0]
    bound = variant.executor.bound(variant.table.weight_slot(0))
    assert not bound.flags.writeable
    assert bound.base is not None
    with open("/proc/self/maps") as maps:
        spans = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in maps if str(path) in line]
    assert any(low <= bound.ctypes.data < high for low, high in spans)


@pytest.mark.parametrize(
    "data", [b"", b"RLX", b"RLXAOT\x1a\n", b"RLXAOT\x1a\n" + bytes(300), bytes(4096), b"GGUF" * 99]
)
def test_foreign_files(data: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.rlx"
    path.write_bytes(data)
    with pytest.raises(rlx.FormatError):
        rlx.load(path)


def test_missing_files_and_folders(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "none.rlx", tmp_path):
        with pytest.raises(rlx.FormatError, match="must be a readable file"):
            rlx.load(path)


def test_errors_about_files_are_those_of_the_system_too(tmp_path: pathlib.Path, whole: bytes) -> None:
    for name in ("none.rlx", "none.onnx", "none"):
        for load in (rlx.load, rlx.onnx.load):
            with pytest.raises(FileNotFoundError, match=rf"'.*{name}'.*No such file") as e:
                load(tmp_path / name)
            assert type(e.value) is rlx.MissingFileError
            assert e.value.errno == errno.ENOENT
            again = pickle.loads(pickle.dumps(e.value))
            assert (type(again), str(again)) == (rlx.MissingFileError, str(e.value))
    for load in (rlx.load, rlx.onnx.load):
        with pytest.raises(OSError, match="must be a") as folder:
            load(tmp_path)
        assert type(folder.value) is rlx.FileError
        with pytest.raises(rlx.FormatError, match="null") as odd:
            load("a\0b")
        assert type(odd.value) is rlx.FormatError
    (tmp_path / "a.rlx").write_bytes(whole)
    exe = rlx.load(tmp_path / "a.rlx")
    with pytest.raises(FileNotFoundError, match="must be writable, got No such file") as e:
        exe.save(tmp_path / "no folder" / "b.rlx")
    assert (type(e.value), e.value.errno) == (rlx.MissingFileError, errno.ENOENT)
    with pytest.raises(OSError, match="must be writable") as folder:
        exe.save(tmp_path)
    assert type(folder.value) is rlx.FileError


def test_another_version_is_told(whole: bytes) -> None:
    changed = bytearray(whole)
    changed[8] = 2
    with pytest.raises(rlx.FormatError, match=r"version must be 1, got 2\nhint: compile the model again"):
        rlx.load(reseal(changed))


def test_cut_off_and_longer_files(whole: bytes) -> None:
    for n in (len(whole) - 1, len(whole) // 2, 300, 256):
        with pytest.raises(rlx.FormatError, match=r"cut off|damaged"):
            rlx.load(whole[:n])
    with pytest.raises(rlx.FormatError, match="bytes long"):
        rlx.load(whole + b"\0")


def manifest_with(whole: bytes, change: dict[str, object]) -> bytes:
    """The file with other entries in its manifest, of the same length."""
    where = parts(whole)["manifest"]
    body = json.loads(whole[where])
    body |= change
    text = json.dumps(body, separators=(",", ":")).encode()
    assert len(text) <= where.stop - where.start
    changed = bytearray(whole)
    changed[where] = text.ljust(where.stop - where.start)
    return reseal(changed)


def test_another_isa_level_and_other_kernels(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rlx.FormatError, match=r"ISA level of .*, got 'sve'\nhint: compile with CompileOptions\(isa"):
        rlx.load(manifest_with(whole, {"level": "sve"}))
    with pytest.raises(rlx.FormatError, match=r"kernels of this build .*, got 0000\nhint: compile the model again"):
        rlx.load(manifest_with(whole, {"sources": "0000"}))
    level = json.loads(whole[parts(whole)["manifest"]])["level"]
    if level != "baseline":
        monkeypatch.setenv("RLX_ISA", "baseline")
        with pytest.raises(rlx.FormatError, match="ISA level of \\['baseline'\\]"):
            rlx.load(whole)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_a_file_for_a_weaker_level_runs_on_a_stronger_machine(isa: str, tmp_path: pathlib.Path) -> None:
    from rlx.runtime.levels import available_levels

    if isa not in available_levels():
        pytest.skip("this machine does not have it")
    exe = mlp(rlx.CompileOptions(dims={"batch": 3}, isa=isa))
    exe.save(tmp_path / "a.rlx")
    other = rlx.load(tmp_path / "a.rlx")
    assert other.run(feed())["y"].tobytes() == exe.run(feed())["y"].tobytes()
    assert other.explain().level == isa


def test_an_untrusted_file_is_compiled_from_its_graph(whole: bytes, tmp_path: pathlib.Path) -> None:
    changed = bytearray(whole)
    where = parts(whole)["words"]
    changed[where.stop - 800 : where.stop] = bytes(800)
    exe = rlx.load(reseal(changed), trusted=False)
    assert exe.run(feed())["y"].tobytes() == mlp().run(feed())["y"].tobytes()
    mlp(rlx.CompileOptions(dims={"batch": 3})).save(tmp_path / "a.rlx")
    with pytest.raises(rlx.FormatError, match="must hold its graph"):
        rlx.load(tmp_path / "a.rlx", trusted=False)


def test_options_are_those_of_the_file(whole: bytes) -> None:
    with pytest.raises(rlx.ConfigError, match="compiled with its options"):
        rlx.load(whole, options=rlx.CompileOptions())
    with pytest.raises(rlx.ConfigError, match="threads"):
        rlx.load(whole, threads=0)
    with pytest.raises(rlx.ConfigError, match="verify"):
        rlx.load(whole, verify=1)
    assert rlx.load(whole, threads=2).run(feed())["y"].tobytes() == rlx.load(whole).run(feed())["y"].tobytes()


def test_a122_a124_a_thousand_changed_bytes_are_all_found(whole: bytes) -> None:
    """Also where the change is a count or an offset: an exception, never a crash."""
    rng = random.Random(0)
    for k in range(1000):
        changed = bytearray(whole)
        at = rng.randrange(len(whole)) if k % 2 else rng.randrange(container.HEADER)
        changed[at] ^= 1 << rng.randrange(8)
        with pytest.raises(rlx.FormatError):
            rlx.load(bytes(changed))


def test_a_changed_byte_of_a_weight_is_found_unless_that_is_declined(whole: bytes) -> None:
    changed = bytearray(whole)
    at = parts(whole)["data"].start + 5
    changed[at] ^= 16
    with pytest.raises(rlx.FormatError, match=r"the data is damaged, first between bytes"):
        rlx.load(bytes(changed))
    rlx.load(bytes(changed), verify=False).run(feed())


@pytest.mark.parametrize("kind", ["word", "number", "text"])
def test_a119_a122_hostile_content_under_right_digests(whole: bytes, kind: str) -> None:
    """Counts and offsets of any value, those that wrap too; whatever loads stays inside its buffers."""
    from rlx.aot.save import save_executable

    made = save_executable(loop())
    assert made is not None
    rng = random.Random(1)
    refused = 0
    for k in range(250):
        source = (whole, made)[k % 2]
        changed = bytearray(source)
        where = parts(source)
        if kind == "word":
            words = where["words"]
            at = words.start + 8 * rng.randrange((words.stop - words.start) // 8)
            value = rng.choice([-1, 0, 1, 7, 64, 1 << 20, (1 << 31) - 1, 1 << 40, (1 << 62) + 5, -(2**63), 2**63 - 16])
            changed[at : at + 8] = value.to_bytes(8, "little", signed=True)
        elif kind == "number":
            part = where[rng.choice(["manifest", "details"])]
            digits = [i for i in range(part.start, part.stop) if source[i : i + 1].isdigit()]
            changed[rng.choice(digits)] = ord(rng.choice("0123456789-"))
        else:
            part = where[rng.choice(["manifest", "details"])]
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(part.start, part.stop)] = rng.choice(b'{}[]",:\\0a\x00\xff')
        try:
            exe = rlx.load(reseal(changed))
            str(exe.signature)
            str(exe.explain())
            exe.memory_report()
        except rlx.RlxError:
            refused += 1
    assert refused > 20


def test_programs_that_reach_outside_are_refused(whole: bytes) -> None:
    """Each column of a program, one value at a time, out of its range."""
    spec = json.loads(whole[parts(whole)["manifest"]])["programs"][0]["columns"]
    words = parts(whole)["words"]
    count = container._FIELDS.unpack(whole[: container._FIELDS.size])[14]
    taken = []
    for key, (start, n) in zip(COLUMNS, spec, strict=True):
        if not n or key in ("words", "cost", "role", "float_at", "inplace", "weight_transform"):
            continue
        changed = bytearray(whole)
        at = words.start + 8 * (2 * count + start + n - 1)
        changed[at : at + 8] = (1 << 61).to_bytes(8, "little")
        try:
            rlx.load(reseal(changed)).explain()
            taken.append(key)
        except rlx.FormatError:
            pass
    assert taken == []


SHARE = """
import sys, rlx
exe = rlx.load(sys.argv[1])
import numpy as np
exe.run({"x": np.ones((1, 1024), np.float32)})
inside, size, dirty = False, 0, 0
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]:
        inside = sys.argv[1] in line
    elif inside and line.startswith("Rss:"):
        size += int(line.split()[1])
    elif inside and line.startswith("Anonymous:"):
        dirty += int(line.split()[1])
print(size, dirty)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="needs /proc")
def test_processes_share_the_pages_of_a_file(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("wide")
    w = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    g.output("y", g.input("x", (1, 1024), rlx.f32) @ g.constant(w))
    rlx.compile(g).save(tmp_path / "wide.rlx")
    done = subprocess.run([sys.executable, "-c", SHARE, str(tmp_path / "wide.rlx")], capture_output=True, text=True,
                          check=True)
    mapped, dirty = map(int, done.stdout.split())
    assert mapped >= 4096
    assert dirty == 0


def test_loading_holds_no_copy_of_the_weights(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("wide")
    w = np.random.default_rng(0).standard_normal((1024, 2048)).astype(np.float32)
    g.output("y", g.input("x", (1, 1024), rlx.f32) @ g.constant(w))
    exe = rlx.compile(g)
    exe.save(tmp_path / "wide.rlx")
    size = os.path.getsize(tmp_path / "wide.rlx")
    assert size < w.nbytes * 1.1 + 50_000
    assert rlx.load(tmp_path / "wide.rlx").memory_report().weights == exe.memory_report().weights


def test_many_loads_leave_nothing_behind(whole: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.rlx"
    path.write_bytes(whole)
    opened = len(os.listdir("/proc/self/fd"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):
        rlx.load(path).run(feed())
    assert len(os.listdir("/proc/self/fd")) <= opened
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_digests_are_the_same_at_every_level_and_length() -> None:
    from rlx.runtime.levels import available_levels

    rng = np.random.default_rng(0)
    for n in (1, 7, 8, 63, 64, 65, 1023, 1024, 1025, 5000):
        data = rng.integers(0, 256, n).astype(np.uint8)
        found = {container.digests(data, 2048, level).tobytes() for level in available_levels()}
        assert len(found) == 1
        for _ in range(20):
            other = data.copy()
            other[rng.integers(n)] ^= 1 << int(rng.integers(8))
            assert container.digests(other, 2048).tobytes() not in found
    assert container.digests(np.zeros(64, np.uint8)).tobytes() != container.digests(np.zeros(65, np.uint8)).tobytes()


def test_a118_places_are_counted_in_64_bits() -> None:
    """A file may be larger than 2 and 4 GiB."""
    places, total = container._places([3 << 30, 5, 3 << 30])
    assert places == [0, 3 << 30, (3 << 30) + 64]
    assert total == (6 << 30) + 64
    head = container._FIELDS.pack(container.MAGIC, 1, 256, total, 256, 1, 320, 1, 384, 1, 448, 1, 4096, total, 3)
    assert container._FIELDS.unpack(head)[3] == total
    assert container._FIELDS.size <= container._META_AT


def test_a121_an_array_of_another_type_or_size_is_refused(whole: bytes) -> None:
    """A parameter's element type and shape are checked against the graph and against its bytes."""
    text = whole[parts(whole)["manifest"]]
    for old, new in ((b'"float32",[16,24]', b'"float32",[16,25]'), (b'"float32",[16,24]', b'"float64",[16,12]'),
                     (b'"float32",[24]', b'"int32",[24]  '), (b'"float32",[24]', b'"floatxx",[24]')):
        assert text.count(old) == 1
        changed = bytearray(whole)
        changed[parts(whole)["manifest"]] = text.replace(old, new)
        with pytest.raises(rlx.RlxError):
            rlx.load(reseal(changed)).get_param("w")


def test_a125_saving_through_a_link_leaves_what_it_points_to_alone(tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    link = tmp_path / "m.rlx"
    link.symlink_to(secret)
    mlp(rlx.CompileOptions(dims={"batch": 3})).save(link)
    assert secret.read_bytes() == b"secret"
    assert not link.is_symlink()
    assert rlx.load(link).run(feed())["y"].shape == (3, 40)


def test_hostile_graphs_are_compiled_or_refused(whole: bytes) -> None:
    """An untrusted file is text for the parser and the rules of ops; whatever they let through runs."""
    rng = random.Random(2)
    where = parts(whole)["manifest"]
    text = whole[where].index(b'"text"') + where.start
    end = whole.index(b'"metadata"', text)
    refused = 0
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(rng.randrange(1, 3)):
            changed[rng.randrange(text + 8, end - 2)] = rng.choice(b"0123456789%abxwy[](),=@{}<>*+-")
        try:
            rlx.load(reseal(changed), trusted=False).run(feed())
        except rlx.RlxError:
            refused += 1
    assert refused > 50


THREADS = """
import sys, threading, os
import numpy as np
import rlx
exe = rlx.load(sys.argv[1])
x = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(3, 16)}
want = exe.run(x)["y"].tobytes()
wrong = []
def work():
    mine = exe.clone()
    for _ in range(200):
        if mine.run(x, threads=2)["y"].tobytes() != want:
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
child = os.fork()
if child == 0:
    os._exit(0 if exe.run(x)["y"].tobytes() == want and rlx.load(sys.argv[1]).run(x)["y"].tobytes() == want else 1)
print(len(wrong), os.waitpid(child, 0)[1])
"""


def test_loaded_executables_run_on_threads_and_after_a_fork(tmp_path: pathlib.Path) -> None:
    mlp(rlx.CompileOptions(dims={"batch": 3})).save(tmp_path / "m.rlx")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", THREADS, str(tmp_path / "m.rlx")], capture_output=True,
                          text=True, check=True)
    assert done.stdout.split() == ["0", "0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_a_thread_that_completes_a_file(tmp_path: pathlib.Path) -> None:
    g = rlx.Graph("g")
    g.output("y", g.input("x", (2,), rlx.f32) + 1)
    rlx.compile(g).save(tmp_path / "g.rlx")
    code = """
import os, signal, sys, threading
import rlx
exe = rlx.load(sys.argv[1])
lock, held, done = exe._lock, threading.Event(), threading.Event()  # as a thread in `_complete` holds it
def hold():
    with lock:
        held.set()
        done.wait(20)
thread = threading.Thread(target=hold)
thread.start()
assert held.wait(10)
child = os.fork()
if child == 0:
    signal.alarm(10)
    os._exit(0 if exe.signature.outputs["y"] else 1)
status = os.waitpid(child, 0)[1]
done.set()
thread.join()
print(status)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "g.rlx")], capture_output=True,
                          text=True, check=True, timeout=60)
    assert done.stdout.strip() == "0"


@pytest.mark.parametrize("name", ["model.zip", "model.whl", None])
def test_a_zip_archive_is_told_apart(name, tmp_path: pathlib.Path) -> None:
    import io
    import zipfile

    for names in (("a.onnx",), ()):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for inner in names:
                archive.writestr(inner, b"abc")
        source: object = data.getvalue()
        if name is not None:
            source = tmp_path / name
            source.write_bytes(data.getvalue())  # type: ignore[attr-defined]
        with pytest.raises(rlx.FormatError, match=r"got a zip archive\nhint: "):
            rlx.load(source)
