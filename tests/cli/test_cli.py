"""The command line, on a small model made here."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.cli import main

onnx = pytest.importorskip("onnx")
W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = tanh(x @ w), p = exp(y) / sum(exp(y)); one named size."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["y"]),
        helper.make_node("Exp", ["y"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axes"], ["s"], keepdims=1),
        helper.make_node("Div", ["e", "s"], ["p"]),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, ["n", 3]) for k in ("y", "p")],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.array([1], np.int64), "axes")],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_run_prints_a_table_and_writes_outputs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save(tmp_path / "x.npy", x)
    status, out, err = call(capsys, "run", model, "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out")
    assert status == 0
    assert "float32[2, 3]" in out
    assert "loading small.onnx" in err
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), np.tanh(x @ W), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("value", "want"), [("zeros", 0.0), ("0.5", 0.5)])
def test_run_makes_inputs(model: Path, value: str, want: float, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "run", model, "-i", f"x={value}", "-d", "n=3", "--json", "-q")
    assert status == 0
    first = json.loads(out)["outputs"][0]
    assert first["type"] == "float32[3, 3]"
    np.testing.assert_allclose(first["first"][:3], np.tanh(want * W.sum(0)), rtol=1e-5, atol=1e-6)


def test_run_reads_an_archive_of_inputs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "io.npz", **{"in:x": np.ones((5, 4), np.float32), "out:y": np.zeros(3)})
    status, out, _ = call(capsys, "run", model, "-i", tmp_path / "io.npz", "--json", "-q")
    assert status == 0
    assert json.loads(out)["outputs"][1]["type"] == "float32[5, 3]"


def test_quiet_says_nothing_on_stderr(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, "run", model, "-q")
    assert (status, err) == (0, "")


def test_inspect_prints_every_section(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "inspect", model, "-d", "n=7")
    assert status == 0
    for part in ("f32[n, 4]", "pass ", "kernel ", "graph ", "arena", "weights", "fused_matmul"):
        assert part in out, part


def test_inspect_gives_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "inspect", model, "--json", "-q")
    assert status == 0
    facts = json.loads(out)
    assert facts["inputs"] == {"x": "f32[n, 4]"}
    assert sum(facts["parts"][0]["kernels"].values()) > 0


def test_page_is_self_contained_and_draws_graph_and_arena(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, _ = call(capsys, "inspect", model, "-d", "n=400", "--html", tmp_path / "page.html", "-q")
    assert status == 0
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == 2
    assert not re.findall(r"<script|src=|href=|@import", text)
    assert "fused_matmul" in text
    assert not re.findall(r'"(?:nan|-?inf)', text)


def test_bench_prints_percentiles_histogram_and_kernels(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "bench", model, "-s", "0.05", "-t", "1")
    assert status == 0
    for part in ("p50", "p99", "#", "share"):
        assert part in out, part


def test_bench_against_onnxruntime_prints_the_ratio(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    status, out, _ = call(capsys, "bench", model, "-s", "0.05", "-t", "1", "--against", "onnxruntime", "--json", "-q")
    assert status == 0
    result = json.loads(out)
    assert result["ratio"] > 0
    assert result["latency_s"]["onnxruntime"]["runs"] >= 3


@pytest.mark.parametrize(("arguments", "message"), [
    (["-i", "z=1"], "must name one of ['x'], got 'z'"),
    (["-i", "x"], "must be NAME=VALUE, got 'x'"),
    (["-i", "x=some"], "must be a .npy file, 'random', 'zeros' or a number"),
    (["-i", "x=missing.npy"], "missing.npy"),
    (["-d", "n=-1"], "must be a whole number"),
    (["-d", "n=²"], "must be a whole number"),
    (["-d", "n=" + "9" * 5000], "must be a whole number"),
    (["-d", "n=100000000000"], "must fit this machine's"),
    (["-d", "n=100000000000", "-i", "x=zeros"], "must fit this machine's"),
    (["-t", "0"], "must be a positive int"),
])
def test_errors_are_one_line_and_status_2(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(capsys, "run", model, "-q", *arguments)
    assert status == 2
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(("text", "want"), [("", "error: out of memory\n"), ("no 8 GiB", "error: no 8 GiB\n")])
def test_memory_that_runs_out_is_an_error(
    model: Path, text: str, want: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError(*filter(None, [text]))

    monkeypatch.setattr("rlx.cli.session.load", fail)
    assert call(capsys, "run", model, "-q") == (2, "", want)


def test_missing_and_foreign_files_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("not a model")
    for path in (tmp_path / "none.onnx", tmp_path / "x.onnx"):
        status, _, err = call(capsys, "run", path, "-q")
        assert status == 2
        assert err.startswith("error: ")


def test_module_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "rlx", "config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "isa" in done.stdout


def test_bench_holds_every_node_against_the_roofline(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "roof.html"
    status, out, _ = call(capsys, "bench", model, "-d", "n=8", "-s", "0.05", "-t", "1", "--json", "-q", "--html", page)
    assert status == 0
    found = json.loads(out)
    product = next(n for n in found["nodes"] if n["flops"])
    assert product["flops"] == 2 * 8 * 4 * 3 and product["us"] > 0
    assert 0 < product["roofline_share"] < 20
    assert found["machine"]["peak_per_ns"]["f32"] > 0.05
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<svg" in text and "<script" not in text
    status, out, _ = call(capsys, "bench", model, "-d", "n=8", "-s", "0.05", "-t", "1", "--full", "-q")
    assert status == 0 and "of roofline" in out and "others" not in out


def test_compile_writes_a_file_that_runs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.rlx"
    status, out, _ = call(capsys, "compile", model, "-o", target, "-d", "n=2", "-q")
    assert status == 0
    assert f"wrote {target}" in out
    assert "x: [2, 4]" in out
    for command in ("run", "inspect", "bench"):
        more = ["-s", "0.05"] if command == "bench" else []
        assert call(capsys, command, target, "-d", "n=2", "-q", *more)[0] == 0, command
    shown, whole = (call(capsys, "inspect", file, "-d", "n=2", "-q")[1] for file in (target, model))
    assert "(the file holds no graph)" in shown and "return" not in shown
    assert shown.partition("graph '")[0].split()[1:] == whole.partition("graph '")[0].split()[1:]  # signature and ops
    assert "must have a plan for the inputs" in call(capsys, "run", target, "-d", "n=3", "-q")[2]
    status, out, _ = call(capsys, "compile", model, "-o", target, "-q", "--json", "--isa", "baseline")
    assert json.loads(out)["bytes"] == target.stat().st_size
    assert "baseline" in call(capsys, "inspect", target, "-q")[1]


def test_a_size_that_no_input_has_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, "run", model, "-d", "batch=3", "-q")
    assert status == 2
    assert "error: --dim: must name one of the open sizes ['n'], got 'batch'" in err


def test_onnxruntime_is_not_given_an_ahead_of_time_file(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    file = model.with_suffix(".rlx")
    assert call(capsys, "compile", model, "-o", file, "-q")[0] == 0
    status, _, err = call(capsys, "bench", file, "-s", "0.05", "--against", "onnxruntime", "-q")
    assert status == 2
    assert "error: --against onnxruntime: the model must be an ONNX file, got 'small.rlx'" in err


def test_an_error_of_a_models_run_has_no_context(model: Path) -> None:
    loaded = rlx.load(model)
    with pytest.raises(rlx.BindingError) as caught:
        loaded.run({"x": np.zeros(4, np.float32)})
    assert caught.value.__context__ is None
