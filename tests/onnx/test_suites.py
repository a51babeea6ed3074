"""Other people's tests: the ONNX project's backend suite, and real models when they are at hand."""

import os
import pathlib
import re
import unittest
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.onnx.backend

backend_test = pytest.importorskip("onnx.backend.test")

# Tests that ask for what no other implementation can give, or for what is not supported.
EXPECTED_FAILURES = re.compile(
    "bernoulli|training_dropout|image_decoder|gradient_of|loop16_seq_none|attention_4d_causal_fp16|attention_4d_fp16"
    "|attention_4d_attn_mask_.*fp16|dft_inverse"
)


def cases() -> list[tuple[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = backend_test.BackendTest(rlx.onnx.backend, "rlx_suite")
        classes = suite.test_cases.values()
    return [
        (name, cls)
        for cls in classes
        for name in sorted(dir(cls))
        if name.startswith("test_") and name.endswith("_cpu")
    ]


@pytest.mark.slow
def test_backend_suite_of_the_onnx_project() -> None:
    tally: Counter[str] = Counter()
    bad = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, cls in cases():
            result = unittest.TestResult()
            cls(name).run(result)
            failed = result.failures or result.errors
            tally["fail" if failed else "skip" if result.skipped else "pass"] += 1
            if failed and not EXPECTED_FAILURES.search(name):
                bad.append(f"{name}: {failed[0][1].strip().splitlines()[-1][:150]}")
    assert not bad
    assert tally["pass"] >= 1900 or sum(tally.values()) < 1950  # older packages hold fewer tests


MODELS = pathlib.Path(os.environ.get("RLX_MODELS", "~/.cache/rlx-models")).expanduser()


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.skipif(not MODELS.is_dir(), reason="no model files: set RLX_MODELS")
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")) if MODELS.is_dir() else [], ids=lambda p: p.stem)
def test_real_models_give_the_answers_of_onnx_runtime(path: pathlib.Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    if "embedder.int8" in path.stem:
        pytest.skip("noise through 80 steps of an LSTM with 8-bit weights: roundings grow without bound")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    types = {
        "tensor(float)": np.float32,
        "tensor(int64)": np.int64,
        "tensor(int32)": np.int32,
        "tensor(uint8)": np.uint8,
    }
    feeds = {}
    for port in session.get_inputs():
        if port.type not in types:
            pytest.skip(f"input {port.name!r} of {port.type}")
        shape = [d if isinstance(d, int) and d > 0 else 64 if i else 1 for i, d in enumerate(port.shape)]
        feeds[port.name] = np.asarray(
            rng.integers(0, 2, shape) if "int" in port.type else rng.standard_normal(shape)
        ).astype(types[port.type])
    try:
        want = session.run(None, feeds)
    except Exception as error:  # its exceptions have no common base
        pytest.skip(f"ONNX Runtime refuses made-up inputs: {str(error)[:80]}")
    model = rlx.load(path, threads=1)
    for _ in range(2):
        for name, a, b in zip(model.signature.outputs, model.run(feeds), want, strict=True):
            assert a.shape == b.shape, name
            assert a.dtype == b.dtype, name
            scale = max(1.0, float(np.abs(b).max(initial=0)))
            loose = 2e-2 if "int8" in path.stem or "half" in path.stem or "smart-turn" in path.stem else 2e-3
            np.testing.assert_allclose(a, b, rtol=loose, atol=loose * scale, err_msg=name)
