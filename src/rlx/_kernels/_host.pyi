from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

KERNELS: Final[dict[str, tuple[int, str, int]]]

class ResultError(ValueError): ...

@final
class HostCall:
    @property
    def address(self) -> int: ...
    def __init__(
        self,
        function: Callable[..., Any],
        kwargs: dict[str, Any],
        operands: Sequence[tuple[np.dtype[Any], tuple[int, ...]] | None],
        results: Sequence[tuple[np.dtype[Any], tuple[int, ...]] | None],
        writes: bool,
        copies: bool,
    ) -> None: ...
