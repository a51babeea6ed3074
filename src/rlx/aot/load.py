"""`rlx.load` for ahead-of-time files."""

from typing import TYPE_CHECKING, Any

from rlx import config
from rlx.aot.file import File
from rlx.errors import ConfigError, FormatError
from rlx.machine import check_threads

if TYPE_CHECKING:
    from rlx.ir.graph import Graph


def load(source: Any, threads: int | None = None, *, verify: bool | None = None, trusted: bool | None = None) -> Any:
    """Map a file and make what it holds ready to run.

    Parameters
    ----------
    source : path or bytes
    threads : int, optional
        Threads of a run unless `run(threads=)` says otherwise.
    verify : bool, optional
        Compare all data with its digests (`RLX_VERIFY`, else True). Without, only the header and the programs are.
    trusted : bool, optional
        None runs the programs of the file once they have been proved to touch nothing but their operands. True
        runs them without that proof. False compiles the graph of the file anew.

    Raises
    ------
    FormatError
        It is no ahead-of-time file, is damaged, was made for another version, machine or build, or has a program of
        which the proof fails.
    """
    if threads is not None:
        threads = check_threads(threads)
    verify = bool(config.default("RLX_VERIFY", True)) if verify is None else verify
    if not isinstance(verify, bool):
        raise ConfigError(f"load: verify must be a bool, got {verify!r}")
    if trusted is not None and not isinstance(trusted, bool):
        raise ConfigError(f"load: trusted must be True, False or None, got {trusted!r}")
    file = File(source, verify, trusted is True)
    compile_anew = trusted is False
    if file.kind == "executable":
        if compile_anew or not file.variants:
            from rlx.aot.executable import load_executable

            return load_executable(file, threads, not compile_anew)
        from rlx.aot.quick import QuickGraph

        return QuickGraph(file, threads)
    if file.kind == "model":
        from rlx.aot.model import load_model

        return load_model(file, threads, compile_anew)
    if file.kind == "graph":
        return load_graph(file)
    raise FormatError(f"{file.name}: must hold an executable, a model or a graph, got {file.kind!r}")


def load_graph(file: File) -> "Graph":
    """The graph of a file that holds nothing else."""
    from rlx.aot.executable import read_graph

    return read_graph(file.body, file)
