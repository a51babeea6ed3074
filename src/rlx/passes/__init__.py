"""Passes: Graph -> Graph, one per file, and the pipeline that runs them."""

from rlx.passes.base import Evaluate, Pass, PassManager, PassRecord
from rlx.passes.pipeline import PASSES, Pipeline, default_pipeline

__all__ = ["PASSES", "Evaluate", "Pass", "PassManager", "PassRecord", "Pipeline", "default_pipeline"]
