"""What names stand for while a block is walked."""

from collections.abc import Mapping
from typing import Any

from rlx.errors import FormatError


class NotStaticError(FormatError):
    """A body cannot be a graph of its own: it needs a value that only a run knows."""


class Scope:
    """Names of one block and what they stand for; looks into the enclosing scope."""

    __slots__ = ("items", "parent")

    def __init__(self, parent: "Scope | None", items: dict[str, Any] | None = None) -> None:
        self.parent = parent
        self.items: dict[str, Any] = items if items is not None else {}

    def find(self, name: str) -> dict[str, Any] | None:
        """The items among which a name is, None if it is nowhere."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.items:
                return scope.items
            scope = scope.parent
        return None


class Frame:
    """What belongs to the function that is being inlined: attribute values."""

    __slots__ = ("attributes",)

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        self.attributes = attributes
