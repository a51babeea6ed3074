from typing import Any, final

import numpy.typing as npt

def from_dlpack(producer: Any) -> npt.NDArray[Any]: ...

class Owner: ...

@final
class Exported:
    @property
    def array(self) -> npt.NDArray[Any]: ...
    def __init__(self, array: npt.NDArray[Any]) -> None: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
