"""What the commands share: progress, loading, inputs made from what the model declares."""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlx import dtypes
from rlx.errors import ConfigError, RlxError, SizeError
from rlx.loading import load
from rlx.options import CompileOptions, machine_bytes
from rlx.records import record, replace

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]


class Declared(Protocol):
    """What a model says of an input or output."""

    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int | str | None, ...] | None: ...
    @property
    def default(self) -> bool: ...


@record
class Session:
    """A loaded model and its inputs."""

    path: Path
    model: Any
    inputs: dict[str, Any]
    quiet: bool

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Say on stderr what is being done and how long it took."""
        with step(what, self.quiet):
            yield


@contextmanager
def step(what: str, quiet: bool) -> Iterator[None]:
    """Say on stderr what is being done and how long it took."""
    if quiet:
        yield
        return
    print(f"{what} ... ", end="", file=sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        yield
    except BaseException:
        print("failed", file=sys.stderr)
        raise
    print(f"{time.perf_counter() - start:.2f} s", file=sys.stderr)


def open_session(options: argparse.Namespace, compiling: CompileOptions | None = None) -> Session:
    """Load the model that the command line names, make its inputs, run it once."""
    if options.denormals is not None:
        compiling = replace(compiling or CompileOptions(), denormals=options.denormals)
    with step(f"loading {options.model.name}", options.quiet):
        model = load(options.model, threads=options.threads, options=compiling)
    inputs, guessed = make_inputs(model.signature.inputs, options.input, options.dim, options.quiet)
    session = Session(options.model, model, inputs, options.quiet)
    try:
        with session.step("compiling and first run"):
            model.run(inputs)
    except RlxError as error:
        if guessed:
            ways = " ".join(f"--dim {name}=N" for name in guessed)
            sets = "sets it" if len(guessed) == 1 else "sets them"
            error.add_note(f"hint: sizes {', '.join(guessed)} were taken as 1; {ways} {sets}")
        raise
    return session


def _pairs(items: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for item in items:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise ConfigError(f"{option}: must be NAME=VALUE, got {item!r}")
        found[name] = value
    return found


def make_inputs(
    declared: Mapping[str, Declared], given: Sequence[str], dims: Sequence[str], quiet: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Arrays for every input that must be given, and the open sizes that were taken as 1.

    Raises
    ------
    ConfigError
        An option names no input, or its value cannot be read.
    SizeError
        An input that is made up does not fit this machine's memory.
    """
    sizes: dict[str, int] = {}
    for name, text in _pairs(dims, "--dim").items():
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise ConfigError(f"--dim: size {name!r} must be a whole number below 10**18, got {text!r}")
        sizes[name] = int(text)
    places = {f"{n}.{i}": d for n, port in declared.items() for i, d in enumerate(port.shape or ())}
    known = list(dict.fromkeys(d if isinstance(d, str) else p for p, d in places.items() if not isinstance(d, int)))
    for name in sizes:
        if name not in known and name not in places:
            raise ConfigError(f"--dim: must name one of the open sizes {known}, got {name!r}")
    arrays: dict[str, Any] = {}
    files = [item for item in given if item.endswith(".npz") and "=" not in item]
    for file in files:
        arrays.update(_read_npz(file, declared))
    named = _pairs([item for item in given if item not in files], "--input")
    for name in named:
        if name not in declared:
            raise ConfigError(f"--input: must name one of {list(declared)}, got {name!r}")
    rng = np.random.default_rng(0)
    random = []
    guessed: list[str] = []
    for name, port in declared.items():
        if name in arrays and name not in named:
            continue
        if name not in named and (port.default or port.kind == "optional"):
            continue
        if name not in named:
            random.append(name)
        arrays[name] = _value(name, port, named.get(name, "random"), sizes, rng, guessed)
    if random and not quiet:
        made = ", ".join(f"{n} {np.asarray(arrays[n]).dtype}{list(np.shape(arrays[n]))}" for n in random)
        print(f"random input: {made}", file=sys.stderr)
    return arrays, guessed


def _read_npz(file: str, declared: Mapping[str, Declared]) -> dict[str, Array]:
    with np.load(file, allow_pickle=False) as archive:
        found = {k.removeprefix("in:"): archive[k] for k in archive.files if not k.startswith("out:")}
    unknown = [k for k in found if k not in declared]
    if unknown:
        raise ConfigError(f"--input {file}: arrays must be named as inputs {list(declared)}, got {unknown}")
    return found


def _value(name: str, port: Declared, text: str, sizes: Mapping[str, int], rng: np.random.Generator,
           guessed: list[str]) -> Any:
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    if port.kind not in ("tensor", "optional"):
        raise ConfigError(f"--input {name}: an input of kind {port.kind} cannot be made up; use the Python interface")
    shape = tuple(_size(name, i, d, sizes, guessed) for i, d in enumerate(port.shape or ()))
    if port.dtype == "string":
        _check_memory(name, port.dtype, shape, 8)
        return np.full(shape, "" if text in ("random", "zeros") else text, object)
    known = dtypes.BY_NAME.get(port.dtype)
    if known is None:
        raise ConfigError(f"--input {name}: element type {port.dtype} cannot be made up; give a .npy file")
    drawn = 8 if text == "random" else 0  # random numbers are f64 or i64 first
    _check_memory(name, port.dtype, shape, known.numpy.itemsize + drawn)
    if text == "zeros":
        return np.zeros(shape, known.numpy)
    if text == "random":
        if known.is_float or known.is_complex:
            return rng.standard_normal(shape).astype(known.numpy)
        return rng.integers(0, 2, shape).astype(known.numpy)  # 0 and 1 are good indices, masks and flags
    try:
        return np.full(shape, float(text) if known.is_float else int(text), known.numpy)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--input {name}: must be a .npy file, 'random', 'zeros' or a number of {port.dtype}, got {text!r}"
        ) from None


def _check_memory(name: str, dtype: str, shape: tuple[int, ...], each: int) -> None:
    need = math.prod(shape) * each
    if need > machine_bytes():
        raise SizeError(f"--input {name}: must fit this machine's {machine_bytes():,} bytes, "
                        f"got {dtype}{list(shape)}, which takes {need:,}\nhint: --dim sets open sizes")


def _size(name: str, axis: int, dim: int | str | None, sizes: Mapping[str, int], guessed: list[str]) -> int:
    if isinstance(dim, int) and dim >= 0:
        return dim
    place = f"{name}.{axis}"
    for key in (str(dim), place):
        if key in sizes:
            return sizes[key]
    key = dim if isinstance(dim, str) else place
    if key not in guessed:
        guessed.append(key)
    return 1
