"""Backends: the protocol, the registry, and `compile`, which goes through it."""

from typing import Any, Protocol

from rlx.errors import ConfigError
from rlx.ir.graph import Graph
from rlx.options import CompileOptions, with_options
from rlx.runtime.executable import CompiledGraph
from rlx.stages import LirModule, check_options


class Backend(Protocol):
    """A device that can compile graphs. Packages add one through the entry-point group `rlx.backends`."""

    name: str

    def supported_ops(self) -> dict[str, tuple[str, ...]]:
        """Op name -> names of element types."""
        ...

    def compile(self, graph: Graph, options: CompileOptions) -> CompiledGraph:
        """Compile a graph."""
        ...

    def compile_lir(self, lir: LirModule, options: CompileOptions | None = None) -> CompiledGraph:
        """Make an executable of a lowered module."""
        ...


class CpuBackend:
    """The backend of this package."""

    name = "cpu"

    def supported_ops(self) -> dict[str, tuple[str, ...]]:
        """Op name -> names of element types, read from the table of ops."""
        from rlx.ops import TABLE

        return {name: tuple(d.name for d in op.dtypes) for name, op in TABLE.items()}

    def compile(self, graph: Graph, options: CompileOptions) -> CompiledGraph:
        """Compile a graph for this CPU."""
        return CompiledGraph(graph, options)

    def compile_lir(self, lir: LirModule, options: CompileOptions | None = None) -> CompiledGraph:
        """Make an executable of a lowered module, which can be done any number of times.

        Parameters
        ----------
        options : CompileOptions, optional
            About runs: threads, poison, busy, rng, check. What decides about the program must be as it was lowered.
        """
        return CompiledGraph(lir.origin, check_options(lir, options), lir.compiled())


_REGISTRY: dict[str, Backend] = {"cpu": CpuBackend()}


def register_backend(backend: Backend) -> None:
    """Add a backend under its name."""
    _REGISTRY[backend.name] = backend


def backend(name: str) -> Backend:
    """The backend called `name`.

    Raises
    ------
    ConfigError
        Nobody registered it.
    """
    found = _REGISTRY.get(name)
    if found is None:
        from importlib.metadata import entry_points  # not needed for the CPU, and slow to import

        entries = {e.name: e for e in entry_points(group="rlx.backends")}
        if name in entries:
            found = _REGISTRY[name] = entries[name].load()()
    if found is None:
        known = sorted({*_REGISTRY, *entries})
        raise ConfigError(f"backend: must be one of {known}, got {name!r}")
    return found


def compile(graph: Graph, options: CompileOptions | None = None, *, threads: int | None = None,
            precision: Any = None) -> CompiledGraph:
    """Compile a graph for the CPU; the same call as ``Session("cpu").compile``.

    The graph stays usable. Sizes left symbolic are bound at run time.

    Parameters
    ----------
    graph : Graph
    options : CompileOptions, optional
    threads, precision : optional
        As the options of these names, which they replace.
    """
    return Session("cpu").compile(graph, options, threads=threads, precision=precision)


def compile_lir(lir: LirModule, options: CompileOptions | None = None) -> CompiledGraph:
    """Make an executable of a lowered module; the same call as ``Session("cpu").compile_lir``.

    Raises
    ------
    ConfigError
        Options decide about the program, which exists already.
    """
    return Session("cpu").compile_lir(lir, options)


class Session:
    """Compiles graphs on one backend.

    Parameters
    ----------
    device : str
        Name of a backend.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.backend = backend(device)

    def __repr__(self) -> str:
        return f"Session({self.backend.name!r})"

    def compile(self, graph: Graph, options: CompileOptions | None = None, *, threads: int | None = None,
                precision: Any = None) -> CompiledGraph:
        """Compile a graph; `threads` and `precision` are as the options of these names, which they replace.

        Raises
        ------
        ConfigError
            The arguments are not a graph and options.
        """
        if not isinstance(graph, Graph):
            raise ConfigError(f"compile: must be given a Graph, got {type(graph).__name__}")
        if options is not None and not isinstance(options, CompileOptions):
            raise ConfigError(f"compile: options must be CompileOptions, got {type(options).__name__}")
        return self.backend.compile(graph, with_options(options, threads=threads, precision=precision))

    def compile_lir(self, lir: LirModule, options: CompileOptions | None = None) -> CompiledGraph:
        """Make an executable of a lowered module.

        Raises
        ------
        ConfigError
            The arguments are not a module and options, or options decide about the program.
        """
        check_options(lir, options)
        return self.backend.compile_lir(lir, options)
