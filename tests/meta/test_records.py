"""Records behave as dataclasses of the same text do."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from rlx.records import field, record, replace


def twins(**flags: bool) -> tuple[Any, Any]:
    """The same class as a dataclass and as a record."""

    def made(decorate: Callable[..., Any], field: Callable[..., Any]) -> Any:
        @decorate(**flags)
        class Item:
            """Text."""

            a: int
            b: str = "b"
            c: list[int] = field(default_factory=list, hash=False)
            d: float = field(default=1.5, compare=False, repr=False)
            e: int = field(init=False, default=7)
            K: ClassVar[int] = 3

            @property
            def double(self) -> int:
                return 2 * self.a

        return Item

    return made(dataclasses.dataclass, dataclasses.field), made(record, field)


FLAGS: list[dict[str, bool]] = [
    {}, {"eq": False}, {"frozen": True}, {"frozen": True, "eq": False}, {"slots": True},
    {"slots": True, "unsafe_hash": True}, {"repr": False},
]  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_a_record_is_what_a_dataclass_is(flags: dict[str, bool]) -> None:
    theirs, ours = twins(**flags)
    shown = [str(inspect.signature(c)) for c in (theirs, ours)]
    assert shown[0] in (shown[1], shown[1] + " -> None")
    for args, given in (((1,), {}), ((1, "x"), {"c": [2], "d": 2.5}), ((), {"a": 4, "b": "y"})):
        x, y = theirs(*args, **given), ours(*args, **given)
        assert dataclasses.asdict(x) == dataclasses.asdict(y)
        assert x.double == y.double and y.K == 3 and y.e == 7
        if flags.get("repr", True):
            assert repr(x) == repr(y)
        assert (x == theirs(*args, **given)) == (y == ours(*args, **given))
        assert (theirs.__hash__ is None) == (ours.__hash__ is None)
        for change in (dataclasses.replace, replace):
            assert dataclasses.asdict(change(y, a=9)) == dataclasses.asdict(dataclasses.replace(x, a=9))
        assert dataclasses.asdict(copy.copy(y)) == dataclasses.asdict(y)
    assert [f.name for f in dataclasses.fields(theirs)] == [f.name for f in dataclasses.fields(ours)]
    assert theirs.__match_args__ == ours.__match_args__
    assert (hasattr(ours(1), "__dict__")) == (hasattr(theirs(1), "__dict__"))
    with pytest.raises(TypeError, match="unexpected keyword"):
        ours(1, z=2)
    with pytest.raises(TypeError, match="missing 1 required"):
        ours()
    with pytest.raises(TypeError, match="multiple values for argument 'a'"):
        ours(1, a=2)
    with pytest.raises(TypeError, match="takes 5 positional arguments but 6 were given"):
        ours(1, "b", [], 1.0, 2)


def test_equal_and_hash_leave_out_what_is_not_compared() -> None:
    _, ours = twins(frozen=True)
    assert ours(1, c=[1], d=1.0) == ours(1, c=[1], d=2.0) != ours(2)
    assert hash(ours(1, c=[1])) == hash(ours(1, c=[2]))
    assert ours(1) != 1


def test_frozen_records_cannot_be_changed() -> None:
    _, ours = twins(frozen=True)
    item = ours(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del item.a
    assert item.a == 1


def test_every_instance_has_a_default_of_its_own() -> None:
    _, ours = twins()
    first, second = ours(1), ours(1)
    first.c.append(5)
    assert second.c == []


@record
class Base:
    """One field."""

    a: int


@record(eq=False)
class Derived(Base):
    """Two fields, and one that is computed."""

    b: int = 2
    c: int = field(init=False)

    def __post_init__(self) -> None:
        self.c = self.a + self.b


class Plain(Derived):
    """No record itself."""


def test_records_inherit_fields() -> None:
    item = Plain(1)
    assert (item.a, item.b, item.c) == (1, 2, 3) and type(item) is Plain
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "c"]
    other = pickle.loads(pickle.dumps(item))
    assert (other.a, other.b, other.c) == (1, 2, 3)
    assert str(inspect.signature(Derived)) == "(a: int, b: int = 2)"
