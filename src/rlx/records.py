"""Classes of fields that cost next to nothing to define.

`dataclasses.dataclass` compiles the methods of a class when its module is imported, which takes 0.2 to 0.5 ms; an
import of rlx and a first compilation define about eighty classes. The methods of a `record` compile nothing: they work
from the names of the fields. `dataclasses.fields`, `replace` and `asdict` take records.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "<factory>"


_MISSING: Any = _Missing()


class Field:
    """Default and flags of a field, as `dataclasses.Field` has them."""

    __slots__ = ("compare", "default", "factory", "hash", "init", "name", "repr", "type")

    def __init__(self, default: Any, factory: Any, init: bool, repr: bool, hash: bool | None, compare: bool) -> None:
        self.name = ""
        self.type: Any = None
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.hash = compare if hash is None else hash
        self.compare = compare


def field(*, default: Any = _MISSING, default_factory: Any = _MISSING, init: bool = True, repr: bool = True,
          hash: bool | None = None, compare: bool = True) -> Any:
    """A field with more than a default; as `dataclasses.field`."""
    return Field(default, default_factory, init, repr, hash, compare)


class _OnDemand:
    """An attribute of classes that is computed when it is asked for."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.make(owner)


def _dataclass_fields(cls: Any) -> Any:
    import dataclasses

    made = [(f.name, f.type, dataclasses.field(
                default=dataclasses.MISSING if f.default is _MISSING else f.default,
                default_factory=dataclasses.MISSING if f.factory is _MISSING else f.factory,
                init=f.init, repr=f.repr, hash=f.hash, compare=f.compare, kw_only=False))
            for f in cls.__record_fields__.values()]
    twin: Any = dataclasses.make_dataclass(cls.__name__, made)
    return twin.__dataclass_fields__


def _signature(cls: Any) -> Any:
    import inspect

    owner = getattr(cls.__init__, "__record_class__", None)
    if owner is None:  # a subclass with an `__init__` of its own
        whole = inspect.signature(cls.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:])
    made = []
    for f in owner.__record_fields__.values():
        if f.init:
            required = f.default is f.factory  # neither is there; one that is made is shown as `<factory>`
            made.append(inspect.Parameter(f.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=f.type,
                                          default=inspect.Parameter.empty if required else f.default))
    return inspect.Signature(made)


_SIGNATURE = _OnDemand(_signature)


def _misfit(cls: Any, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    """What is wrong with arguments that do not fit, in Python's words."""
    place = f"{cls.__qualname__}.__init__()"
    if len(args) > len(names):
        return TypeError(f"{place} takes {len(names) + 1} positional arguments but {len(args) + 1} were given")
    for name in kwargs:
        if name not in names:
            return TypeError(f"{place} got an unexpected keyword argument {name!r}")
        if name in names[: len(args)]:
            return TypeError(f"{place} got multiple values for argument {name!r}")
    fields = cls.__record_fields__
    gone = [n for n in names[len(args) :] if n not in kwargs and fields[n].default is fields[n].factory]
    return TypeError(f"{place} missing {len(gone)} required positional argument{'s'[: len(gone) > 1]}: "
                     f"{', '.join(map(repr, gone))}")


def _init_of(cls: Any, fields: tuple[Field, ...], names: tuple[str, ...]) -> Any:
    # By the number of arguments and the names of the others, made when they are first met: what is set besides.
    plans: dict[Any, tuple[list[tuple[str, Any]], list[tuple[str, Any]]]] = {}
    ends = hasattr(cls, "__post_init__")
    store = object.__setattr__

    def plan_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
        n = len(args)
        if n > len(names) or (kwargs and not set(names[n:]).issuperset(kwargs)):
            raise _misfit(cls, names, args, kwargs)
        rest = [f for f in fields if f.name not in kwargs and f.name not in names[:n]]
        if any(f.init and f.default is f.factory for f in rest):  # others are set by `__post_init__`
            raise _misfit(cls, names, args, kwargs)
        return ([(f.name, f.default) for f in rest if f.default is not _MISSING],
                [(f.name, f.factory) for f in rest if f.factory is not _MISSING])

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        key = (len(args), *kwargs) if kwargs else len(args)
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = plan_of(args, kwargs)
        for name, value in zip(names, args):  # noqa: B905 - the rest comes below
            store(self, name, value)
        if kwargs:
            for name, value in kwargs.items():
                store(self, name, value)
        for name, value in plan[0]:
            store(self, name, value)
        for name, factory in plan[1]:
            store(self, name, factory())
        if ends:
            self.__post_init__()

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    __init__.__annotations__ = {f.name: f.type for f in fields if f.init}
    __init__.__record_class__ = cls  # type: ignore[attr-defined]
    return __init__


def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in self.__record_fields__.values() if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if self is other:
        return True
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = self.__record_compared__
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self.__record_hashed__(self))


def _refuse(self: Any, name: str, value: Any = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _getter(names: list[str]) -> Any:
    return staticmethod(attrgetter(*names) if names else lambda item: ())


@dataclass_transform(field_specifiers=(field,))
def record(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, unsafe_hash: bool = False, repr: bool = True,
           slots: bool = False) -> Any:
    """Class decorator: fields are the annotated names, as with `dataclasses.dataclass` and its arguments."""
    def decorate(cls: Any) -> Any:
        own = vars(cls)
        fields: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            fields.update(vars(base).get("__record_fields__", {}))
        for name, kind in cls.__annotations__.items():
            if getattr(kind, "__origin__", kind) is ClassVar or (isinstance(kind, str) and kind.startswith("ClassVar")):
                continue
            given = own.get(name, _MISSING)
            f = given if type(given) is Field else Field(given, _MISSING, True, True, None, True)
            f.name, f.type = name, kind
            fields[name] = f
        if slots:
            content = {k: v for k, v in own.items() if k not in fields and k not in ("__dict__", "__weakref__")}
            content["__slots__"] = tuple(n for n in fields if n in cls.__annotations__)
            name, cls = cls.__qualname__, type(cls)(cls.__name__, cls.__bases__, content)
            cls.__qualname__ = name
        else:
            for name, f in fields.items():
                if type(own.get(name)) is Field:
                    if f.default is _MISSING:
                        delattr(cls, name)
                    else:
                        setattr(cls, name, f.default)
        cls.__record_fields__ = fields
        names = tuple([n for n, f in fields.items() if f.init])
        setattr(cls, "__match_args__", names)  # noqa: B010 (mypy forbids a plain one)
        cls.__dataclass_fields__ = _OnDemand(_dataclass_fields)
        if all(isinstance(vars(base).get("__signature__", _SIGNATURE), _OnDemand) for base in cls.__mro__):
            cls.__signature__ = _SIGNATURE
        if "__init__" not in own:  # records that are made by the thousand have their own, which is quicker
            cls.__init__ = _init_of(cls, tuple(fields.values()), names)
        if repr and "__repr__" not in own:
            cls.__repr__ = _repr
        if eq:
            cls.__record_compared__ = _getter([n for n, f in fields.items() if f.compare])
            if "__eq__" not in own:
                cls.__eq__ = _eq
        if "__hash__" not in own or own["__hash__"] is None:
            if unsafe_hash or (eq and frozen):
                cls.__record_hashed__ = _getter([n for n, f in fields.items() if f.hash])
                cls.__hash__ = _hash
            elif eq:
                cls.__hash__ = None
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        return cls

    return decorate if cls is None else decorate(cls)


def replace(item: T, **changes: Any) -> T:
    """A record like another one, with other values in some fields; as `dataclasses.replace`."""
    fields: dict[str, Field] = type(item).__record_fields__  # type: ignore[attr-defined]
    for name, f in fields.items():
        if f.init and name not in changes:
            changes[name] = getattr(item, name)
    return type(item)(**changes)


__all__ = ["Field", "field", "record", "replace"]
