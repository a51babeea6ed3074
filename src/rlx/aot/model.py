"""Models of files: plans whose steps have been mapped instead of imported."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx._kernels import _interp
from rlx.aot.file import MALFORMED, File, LoadedVariant, malformed
from rlx.aot.values import decode, decode_key, numpy_by_number
from rlx.errors import BindingError, FormatError, RlxError
from rlx.onnx.declared import Declared
from rlx.onnx.planned import PlannedModel
from rlx.onnx.plans import ABSENT, Plans
from rlx.onnx.steps import Finish, Guard, Host, Segment, Start, Step, Views, structure

if TYPE_CHECKING:
    from rlx.aot.source import Source
    from rlx.onnx.core import Core


class LoadedPlans(Plans):
    """The plans of a file, and others where it holds the ONNX file.

    Parameters
    ----------
    source : Source, optional
    """

    def __init__(self, name: str, source: "Source | None" = None) -> None:
        super().__init__(name)
        self.source = source
        self._core: Core | None = None

    def _others(self) -> "Core":
        """Plans that are compiled in this process."""
        if self._core is None:
            assert self.source is not None
            self._core = self.source.core()
            self._core.rng = self.rng
        return self._core

    def plan(self, values: Sequence[Any]) -> Step:
        key = tuple(map(structure, values))
        root = self.plans.get(key)
        if root is None and self.source is not None:
            root = self._others().plan(values)
            self.evicted, self._others().evicted = self.evicted + self._others().evicted, 0
        if root is None:
            shapes = [getattr(v, "shape", type(v).__name__) for v in values if v is not ABSENT]
            known = [[k[1] if isinstance(k, tuple) and len(k) > 1 else k for k in p] for p in self.plans]
            raise BindingError(f"model {self.name!r}: the file must have a plan for the inputs, got shapes {shapes};"
                               f" there are plans for {known}\nhint: run the model with these inputs before save(),"
                               " or save(portable=True)")
        return root

    def extend(self, root: Step, values: list[Any], done: int, threads: int) -> Step:
        if self.source is None:
            raise BindingError(f"model {self.name!r}: the file has no plan for what step {done} gave: a shape or a"
                               " branch that follows from the values of the inputs"
                               "\nhint: run the model with these inputs before save(), or save(portable=True)")
        core = self._others()
        if any(root is other for other in core.plans.values()):
            return core.extend(root, values, done, threads)
        fresh = values[: len(core.inputs)]  # steps of the file cannot be gone on from: once more, from the inputs
        finish = core.follow(core.plan(fresh), fresh, threads)
        values[:] = fresh
        return finish

    def everything(self) -> dict[Any, Step]:
        return {**(self._core.plans if self._core is not None else {}), **self.plans}

    def segments(self) -> list[Segment]:
        return super().segments() + (self._core.segments() if self._core is not None else [])


def _declared(item: Any) -> Declared:
    kind, dtype, shape, default, code, inner = item
    return Declared(str(kind), str(dtype), None if shape is None else tuple(shape), bool(default), int(code),
                    None if inner is None else _declared(inner))


def _key(item: Any) -> tuple[int, int | None]:
    index, part = item
    if type(index) is not int or index < 0 or not (part is None or type(part) is int and part >= 0):
        raise FormatError(f"a place must be an int >= 0, got {item!r}")
    return index, part


class _Reader:
    """Steps of a file."""

    def __init__(self, file: File, threads: int, rng: _interp.RunState) -> None:
        self.file = file
        self.threads = threads
        self.rng = rng
        self.steps: list[Step] = []

    def read(self, spec: Any) -> Step:
        """One step; those that follow it have been read."""
        step = self._bare(spec)
        for outcome, number in spec["children"]:
            if type(number) is not int or not 0 <= number < len(self.steps):
                raise FormatError(f"{self.file.name}: what follows a step must come before it, got {number!r}")
            step.children[decode_key(outcome, self.file.container)] = self.steps[number]
        return step

    def _bare(self, spec: Any) -> Step:
        kind, container = spec["kind"], self.file.container
        if kind == "start":
            return Start()
        if kind == "segment":
            number = spec["variant"]
            if type(number) is not int or not 0 <= number < len(self.file.variants):
                raise FormatError(f"{self.file.name}: a segment must have a program, got {number!r}")
            variant = LoadedVariant(self.file, number, self.threads, self.rng)
            if not variant.complete:
                raise FormatError(f"{self.file.name}: a segment must have all its weights")
            poison = not self.file.body["quick"] and bool(self.file.details["options"]["poison"])
            segment = Segment(variant, [(str(n), _key(k)) for n, k in spec["reads"]],  # type: ignore[arg-type]
                              _key([spec["first"], None])[0], poison)
            segment.direct = bool(spec["direct"])
            return segment
        if kind == "views":
            return Views([(_key(k), tuple(map(int, s))) for k, s in spec["views"]], _key([spec["first"], None])[0])
        if kind == "guard":
            return Guard([_key(k) for k in spec["slots"]])
        if kind == "finish":
            finish = Finish(decode(spec["items"], container), set())
            if len(spec["copies"]) != len(finish.items):
                raise FormatError(f"{self.file.name}: every result must be copied or not, got {spec['copies']!r}")
            finish.copies = [bool(c) for c in spec["copies"]]
            return finish
        if kind == "host":
            from rlx.onnx.hostcalls import HOST

            factory = HOST.get(spec["function"])
            if factory is None:
                raise FormatError(f"{self.file.name}: functions must be of {sorted(HOST)}, got {spec['function']!r}")
            function = factory(**decode(spec["with"], container))
            arguments = decode(spec["arguments"], container)
            return Host(function, arguments, _key([spec["first"], None])[0], fixed=bool(spec["fixed"]),
                        floats=bool(spec["floats"]))
        raise FormatError(f"{self.file.name}: steps must be of a known kind, got {kind!r}")


class _Options:
    """What a run asks of the options that a model was compiled with."""

    def __init__(self, file: File) -> None:
        self.file = file
        fields: dict[str, Any] = {} if file.body["quick"] else dict(file.details["options"])
        self.poison = bool(fields.get("poison", False))
        self.nan_check = bool(fields.get("nan_check", False))
        self.busy = "wait" if fields.get("busy") == "wait" else "raise"
        self.threads: int | None = None


def _like(key: Any) -> Any:
    """A value of the structure that a key tells, without memory of its own."""
    if isinstance(key, tuple) and len(key) == 2 and type(key[0]) is int:
        return np.broadcast_to(np.zeros((), numpy_by_number(key[0])), key[1])
    return ABSENT if key == structure(ABSENT) else None


def load_model(file: File, threads: int | None = None, anew: bool = False) -> "LoadedModel":
    """The model of a file; `anew`: compiled from the ONNX file inside it.

    Raises
    ------
    FormatError
        The file is malformed, or is to be compiled anew and holds no ONNX file.
    """
    with malformed(file.name):
        if anew and file.body["source"] is None:
            raise FormatError(f"{file.name}: a model that is not trusted must be compiled from its ONNX file, got a"
                              " file without it\nhint: save(path, portable=True)")
        plain = all(step["kind"] in ("start", "segment") or step["kind"] == "finish" and not step["children"]
                    for step in file.body["steps"])
    return (LoadedModel if plain else SteppedModel)(file, threads, anew)


class LoadedModel(PlannedModel):
    """A model of an ahead-of-time file, compiled for the inputs it had been run with. Made by `rlx.load`."""

    def __init__(
        self, file: File, threads: int | None = None, anew: bool = False, source: "Source | None" = None
    ) -> None:
        self._file = file
        self._threads = threads
        self._anew = anew
        with malformed(file.name):
            body = file.body
            if source is None and body["source"] is not None:
                from rlx.aot.source import Source

                source = Source(file, threads)
            self._source = source
            options = _Options(file)
            plans = LoadedPlans(file.title, source)
            plans.rng = file.state()
            reader = _Reader(file, file.threads(threads), plans.rng)
            held = not anew and not options.nan_check  # which looks at what is compiled here
            for spec in body["steps"] if held else ():
                reader.steps.append(reader.read(spec))
            for key, number in body["roots"] if held else ():
                root = reader.steps[number]
                if not isinstance(root, Start):
                    raise FormatError(f"{file.name}: a plan must begin with a start, got {type(root).__name__}")
                plans.plans[decode_key(key, file.container)] = root
            inputs = {str(n): _declared(rest) for n, *rest in body["inputs"]}
            outputs = {str(n): _declared(rest) for n, *rest in body["outputs"]}
            index = {str(n): i for i, n in enumerate(body["index"])}
            super().__init__(file.title, plans, options, inputs, outputs, index, {})  # type: ignore[arg-type]
            for known, start in plans.plans.items():
                self._whole(start, [_like(k) for k in known])

    def _all_options(self) -> Any:
        from rlx.aot.executable import read_options

        return read_options(self._file, self._threads)

    def clone(self) -> "LoadedModel":
        """An independent model over the same file; handles are forked."""
        other = type(self)(self._file, self._threads, self._anew, self._source)
        if self._handles is not None:
            other._handles = self._handles.fork()
        return other

    @property
    def metadata(self) -> dict[str, Any]:
        with malformed(self._file.name):
            return dict(decode(self._file.details["metadata"], self._file.container))


class SteppedModel(LoadedModel):
    """A model whose plans have steps in Python, which fail as they may when the file says what does not fit."""

    def run(self, inputs: Mapping[str, Any] | None = None, *, threads: int | None = None, out: Any = None
            ) -> _interp.Outputs:
        try:
            return super().run(inputs, threads=threads, out=out)
        except (*MALFORMED, MemoryError) as error:
            if isinstance(error, RlxError) or self._file.trusted:
                raise
            raise FormatError(f"{self._file.name}: steps must fit one another, got {type(error).__name__}: {error}"
                              ) from error
