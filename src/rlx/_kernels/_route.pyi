from collections.abc import Callable
from typing import Any, final

import numpy as np

from rlx._kernels._interp import Outputs

@final
class Route:
    def __init__(
        self,
        root: Any,
        ports: list[tuple[str, np.dtype[Any] | None]],
        absent: Any,
        index: dict[str, int],
        resume: Callable[..., Any],
    ) -> None: ...
    def run(self, inputs: Any, threads: int = 0) -> Outputs | None: ...
