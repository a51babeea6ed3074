"""Environment variables: parsed strictly, listed in one table. `CompileOptions` decides; these give its defaults.

A value that cannot be read is an error wherever it is first needed, never ignored, but for `OMP_NUM_THREADS`,
which others define (`docs/reference/options.md` is made from the table).
"""

import os
from collections.abc import Mapping
from typing import Any

from rlx.errors import ConfigError
from rlx.records import record


@record(frozen=True)
class Variable:
    """One variable.

    Attributes
    ----------
    kind : str
        `flag`, `count`, `counts` (a list of them, ignored if it cannot be read), `names`, `path`, `text`, or choices
        separated by `|`.
    default : str
        What holds when it is not set, in words or as it would be written.
    meaning : str
    option : str
        The field of `CompileOptions` that it is the default of; empty for none.
    """

    kind: str
    default: str
    meaning: str
    option: str = ""


VARIABLES: Mapping[str, Variable] = {
    "RLX_NUM_THREADS": Variable("count", "`OMP_NUM_THREADS`, else the processors of the affinity mask and the cgroup"
                                " quota", "Threads of a run, at most 64.", "threads"),
    "OMP_NUM_THREADS": Variable("counts", "", "Used when `RLX_NUM_THREADS` is not set: the first number of the list."
                                " Ignored if it cannot be read, as it is not a variable of rlx."),
    "RLX_ISA": Variable("baseline|avx2|avx512", "the strongest that the processor has", "Cap on the instruction set.",
                        "isa"),
    "RLX_OPTIMIZE": Variable("flag", "1", "0 runs graphs node by node as written.", "optimize"),
    "RLX_DISABLE": Variable("names", "none", "Passes to leave out, separated by commas.", "disable"),
    "RLX_PRECISION": Variable("text", "f32", "What is rounded to half precision: `f16`, `bf16`, or the name of a"
                              " preset.", "precision"),
    "RLX_DENORMALS": Variable("keep|zero", "keep", "What denormal numbers are within a run.", "denormals"),
    "RLX_BUSY": Variable("raise|wait", "raise", "What a second concurrent call does.", "busy"),
    "RLX_POISON": Variable("flag", "0", "1 fills scratch with 0xA5 before every run.", "poison"),
    "RLX_CHECK": Variable("flag", "0", "1 verifies the graph after every pass, and every memory plan.", "check"),
    "RLX_NAN_CHECK": Variable("flag", "0", "1 raises at the first node that makes a NaN or infinity.", "nan_check"),
    "RLX_VERBOSE": Variable("0|1|2", "0", "1 prints a line on stderr for every program that is compiled, 2 all that"
                            " `explain()` says."),
    "RLX_VERIFY": Variable("flag", "1", "0 loads ahead-of-time files without comparing their data with its digests."),
    "RLX_TUNED": Variable("flag", "1", "0 ignores what `rlx tune` has measured."),
    "RLX_CACHE_DIR": Variable("path", "`$XDG_CACHE_HOME/rlx`, else `~/.cache/rlx`", "Folder of what `rlx tune`"
                              " writes."),
}
_FLAGS = {"0": False, "1": True}


def read(name: str) -> Any:
    """The value of a variable of the table, None if it is not set or empty.

    Raises
    ------
    ConfigError
        It cannot be read as what it must be.
    """
    text = os.environ.get(name)
    if not text:
        return None
    kind = VARIABLES[name].kind
    if kind == "flag":
        if text not in _FLAGS:
            raise ConfigError(f"{name} must be 0 or 1, got {text!r}")
        return _FLAGS[text]
    if kind == "count":
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise ConfigError(f"{name} must be a positive integer, got {text!r}")
        return int(text)
    if kind == "counts":
        first = text.partition(",")[0].strip()
        return (int(first) or None) if first.isascii() and first.isdigit() and len(first) < 10 else None
    if kind == "names":
        found = tuple(part.strip() for part in text.split(","))
        if not all(found):
            raise ConfigError(f"{name} must be names separated by commas, got {text!r}")
        return found
    if "|" in kind and text not in kind.split("|"):
        raise ConfigError(f"{name} must be one of {kind.split('|')}, got {text!r}")
    return text


def default(name: str, otherwise: Any) -> Any:
    """The value of a variable, or what holds when it is not set."""
    found = read(name)
    return otherwise if found is None else found


def isa() -> str | None:
    """`RLX_ISA`: cap on the ISA level (`baseline`, `avx2`, `avx512`)."""
    found: str | None = read("RLX_ISA")
    return found


def positive_int(name: str) -> int | None:
    """Value of an environment variable that must be a positive integer, or None."""
    found: int | None = read(name)
    return found


def cache_dir() -> str:
    """`RLX_CACHE_DIR`, else `XDG_CACHE_HOME`/rlx, else ~/.cache/rlx."""
    own = read("RLX_CACHE_DIR")
    if own:
        return str(own)
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rlx")


def tuned() -> bool:
    """`RLX_TUNED`: 0 ignores what `rlx tune` wrote (default 1)."""
    return bool(default("RLX_TUNED", True))


def unknown() -> list[str]:
    """Variables of the environment that begin with `RLX_` and are not in the table."""
    return sorted(n for n in os.environ if n.startswith("RLX_") and n not in VARIABLES)
