from typing import Any

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.uint8]

class Rules:
    @property
    def unknown(self) -> tuple[str, ...]: ...
    def __init__(self, families: Any, kernels: list[tuple[str, str]], ews: list[tuple[str, int]]) -> None: ...
    def prove(
        self,
        kernel: _Words,
        extent: _Words,
        grain: _Words,
        phases: _Words,
        words: _Words,
        refs: _Words,
        attr_start: _Words,
        arg_start: _Words,
        slot: _Words,
        place: _Words,
        nbytes: _Words,
        writable: _Flags,
        data: _Words,
        skip: _Flags,
        workers: int,
        shared: _Words,
    ) -> tuple[int, str] | None: ...
