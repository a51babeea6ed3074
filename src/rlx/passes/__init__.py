"""Passes: Graph -> Graph, one per file, and the pipeline that runs them."""

from rlx.passes.base import Pass, PassManager, PassRecord
from rlx.passes.pipeline import PASSES, default_pipeline

__all__ = ["PASSES", "Pass", "PassManager", "PassRecord", "default_pipeline"]
