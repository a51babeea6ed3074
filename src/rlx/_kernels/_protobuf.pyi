from typing import Any

INT64: int
INT32: int
UINT64: int
FLOAT: int
DOUBLE: int
STRING: int
BYTES: int
MESSAGE: int
DATA: int

class Field:
    name: str
    code: int
    repeated: bool
    kind: Kind | None
    def __init__(self, name: str, code: int, repeated: bool = False, kind: Kind | None = None) -> None: ...

class Kind:
    made: type
    span: bool
    def __init__(self, made: type, span: bool = False) -> None: ...
    def add(self, number: int, field: Field) -> None: ...

def parse(buffer: memoryview, kind: Kind) -> Any: ...
