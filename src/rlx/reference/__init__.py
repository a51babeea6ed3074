"""The oracle: run a graph with the NumPy definitions of its ops."""

from rlx.reference.evaluator import evaluate, evaluate_op

__all__ = ["evaluate", "evaluate_op"]
