"""Fixtures of the importer's tests."""

import numpy as np
import pytest

pytest.importorskip("onnx")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
