"""Plans by input shapes: trees of steps, and what follows them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlx._kernels import _interp
from rlx.errors import ExecutionError
from rlx.onnx.steps import Finish, Host, Segment, Start, Step, actual, structure

# Input signatures kept per graph.
MAX_PLANS = 64
# Scratch and programs of all plans of a graph together; those not used for longest go first. A call counts as much.
MAX_BYTES = 1 << 28
CALL_BYTES = 4096
# An input that was not given and has a default.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


class Plans(ABC):
    """The plans of one graph of a file.

    Attributes
    ----------
    name : str
    plans : dict
        First step by the structure of the inputs.
    evicted : int
        Plans dropped to stay within the limits.
    rng : RunState
        What random ops draw from.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.plans: dict[Any, Step] = {}
        self.evicted = 0
        self.rng = _interp.RunState()

    @abstractmethod
    def extend(self, root: Step, values: list[Any], done: int, threads: int) -> Step:
        """The step after the `done` ones that this run has executed; its outcome has not been met before."""

    def everything(self) -> dict[Any, Step]:
        """All plans, by the structure of the inputs."""
        return self.plans

    def plan(self, values: Sequence[Any]) -> Step:
        """The plan for values of these types and shapes; empty when they are new."""
        key = tuple(map(structure, values))
        root = self.plans.get(key)
        if root is None:
            self._make_room()
            root = self.plans[key] = Start()
        elif len(self.plans) > 1:
            self.plans[key] = self.plans.pop(key, root)  # used last
        return root

    def _make_room(self) -> None:
        """Drop plans while there are too many, or they hold too much."""
        held = [sum(map(_held, _segments([root]))) for root in self.plans.values()]
        total = sum(held)
        for size in held:
            if len(self.plans) < MAX_PLANS and total <= MAX_BYTES:
                return
            self.plans.pop(next(iter(self.plans)))
            self.evicted += 1
            total -= size

    def run(self, values: Sequence[Any], threads: int = 0) -> list[Any]:
        """Results for values, imported and compiled on the way where that is needed; not to be changed."""
        held = list(values)
        return [actual(i, held) for i in self.follow(self.plan(values), held, threads).items]

    def results(self, root: Step, values: list[Any], threads: int) -> list[Any]:
        """Results of a plan that the caller may change."""
        return self.follow(root, values, threads).results(values)

    def follow(self, root: Step, values: list[Any], threads: int) -> Finish:
        """Run a plan; its values are then in `values`."""
        return self.resume(root, values, root, None, 0, threads)

    def resume(self, root: Step, values: list[Any], step: Step, outcome: Any, done: int, threads: int) -> Finish:
        """Go on with a run whose last step was `step`, the one after `done` others, and had `outcome`."""
        while True:
            child = step.children.get(outcome)
            if child is None:
                child = self.extend(root, values, done, threads)
            elif len(step.children) > 1:
                step.children[outcome] = step.children.pop(outcome, child)  # used last
            step = child
            if isinstance(step, Finish):
                return step
            outcome = step.run(values, threads)
            done += 1

    def segments(self) -> list[Segment]:
        """All compiled segments."""
        return _segments(self.plans.values())

    def foreign(self) -> list[str]:
        """Nodes that run between segments through an implementation that is not ours."""
        found = [getattr(s.function, "foreign", None) for s in _steps(self.plans.values()) if isinstance(s, Host)]
        return [text for text in found if text is not None]


class ClosedPlans(Plans):
    """What a model has left that has been closed: no plan."""

    def extend(self, root: Step, values: list[Any], done: int, threads: int) -> Step:
        raise ExecutionError(f"model {self.name!r}: the executable has been closed, got a call")


def _steps(roots: Iterable[Step]) -> Iterator[Step]:
    stack = list(roots)
    while stack:
        step = stack.pop()
        yield step
        stack += step.children.values()


def _segments(roots: Iterable[Step]) -> list[Segment]:
    return [step for step in _steps(roots) if isinstance(step, Segment)]


def _held(segment: Segment) -> int:
    """Bytes of a segment that no other shares, roughly."""
    variant = segment.variant
    if segment.again is not None:
        return CALL_BYTES * len(variant.linked)
    return int(variant.scratch.nbytes) + CALL_BYTES * len(variant.linked)
