"""Shared fixtures."""

import os

os.environ["RLX_TUNED"] = "0"  # figures of the machine that runs the tests change no test

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(7)
