"""CompileOptions: the source of truth; environment variables only give defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from rlx import config
from rlx.errors import ConfigError
from rlx.machine import MAX_THREADS, as_int, available_cpus, default_threads, machine_bytes
from rlx.passes import Pass, Pipeline, default_pipeline
from rlx.passes.precision import as_policy, with_precision
from rlx.records import field, record, replace
from rlx.runtime.levels import LEVELS

__all__ = ["BUILT_IN", "MAX_THREADS", "CompileOptions", "RngOptions", "available_cpus", "default_threads",
           "machine_bytes", "with_options"]

# Defaults of options where neither the caller nor the environment gives any.
BUILT_IN: dict[str, Any] = {"threads": None, "isa": None, "optimize": True, "disable": (), "precision": "f32",
                            "busy": "raise", "denormals": "keep", "poison": False, "check": False,
                            "nan_check": False, "dims": {}, "extents": {}, "pipeline": None}


@record(frozen=True)
class RngOptions:
    """Random numbers of an executable.

    Attributes
    ----------
    seed : int
        Seed of all streams; 0 <= seed < 2**64. A stream is (seed, op, number of the run).
    backend : str
        `philox` (Philox4x32-10), or `zero`: every draw is 0.
    """

    seed: int = 0
    backend: str = "philox"

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**64:
            raise ConfigError(f"RngOptions.seed: must be an int in [0, 2**64), got {self.seed!r}")
        if self.backend not in ("philox", "zero"):
            raise ConfigError(f"RngOptions.backend: must be 'philox' or 'zero', got {self.backend!r}")


@record(frozen=True)
class CompileOptions:
    """How to compile.

    Attributes
    ----------
    dims : mapping of str to int
        Values of symbolic sizes. Those left open are bound at run time, and each
        combination is compiled once.
    extents : mapping of str to int
        Upper bounds of symbolic sizes (buckets). The graph is compiled at these sizes;
        `CompiledGraph.set_active_extent` runs it on fewer rows.
    threads : int, optional
        Threads of a run unless `run(threads=)` says otherwise.
    optimize : bool
        False runs the graph node by node as written.
    disable : tuple of str
        Names of passes to leave out (`rlx.passes.PASSES`, or those of `pipeline`).
    pipeline : Pipeline, optional
        The passes to run instead of `rlx.passes.default_pipeline()`.
    poison : bool
        Fill scratch with 0xA5 before every run, so that a read of stale memory shows.
    check : bool
        Verify the graph after every pass and the memory plan independently.
    nan_check : bool
        Before every run, run the graph node by node and raise at the first node whose result has a NaN or
        an infinity that its operands do not have. Slow; costs nothing when it is off.
    denormals : str
        `keep`, or `zero`: operands and results of arithmetic below 1.2e-38 (f64: 2.2e-308) count as 0 within a run.
        Processors take a hundred times as long for such numbers; a model whose weights or values
        decay into them becomes faster, and rounds differently there. Ops that only select or move values
        pass them on. The caller's own mode does not change.
    busy : str
        What a second concurrent call does: `raise` or `wait`.
    rng : RngOptions
        Seed and backend of random ops until `set_rng` says otherwise.
    isa : str, optional
        Cap on the ISA level: `baseline`, `avx2` or `avx512`.
    precision : str, DType or PrecisionPolicy
        What is rounded to half precision: `"f16"` and `"bf16"` store the weights so and compute in f32;
        a `PrecisionPolicy`, or the name of a preset such as `"auto_mixed"`, says it per kind of op.
        Inputs, parameters and outputs keep their declared types.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    extents: Mapping[str, int] = field(default_factory=dict)
    threads: int | None = None
    optimize: bool = field(default_factory=lambda: bool(config.default("RLX_OPTIMIZE", True)))
    disable: tuple[str, ...] = field(default_factory=lambda: tuple(config.default("RLX_DISABLE", ())))
    pipeline: Pipeline | None = None
    poison: bool = field(default_factory=lambda: bool(config.default("RLX_POISON", False)))
    check: bool = field(default_factory=lambda: bool(config.default("RLX_CHECK", False)))
    nan_check: bool = field(default_factory=lambda: bool(config.default("RLX_NAN_CHECK", False)))
    denormals: str = field(default_factory=lambda: str(config.default("RLX_DENORMALS", "keep")))
    busy: str = field(default_factory=lambda: str(config.default("RLX_BUSY", "raise")))
    rng: RngOptions = RngOptions()
    isa: str | None = None
    precision: Any = field(default_factory=lambda: config.default("RLX_PRECISION", "f32"))

    def __post_init__(self) -> None:
        if self.threads is not None:
            threads = as_int(self.threads)
            if threads is None or threads < 1:
                raise ConfigError(f"CompileOptions.threads: must be a positive int, got {self.threads!r}")
            object.__setattr__(self, "threads", min(threads, MAX_THREADS))
        for name in ("optimize", "poison", "check", "nan_check"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"CompileOptions.{name}: must be a bool, got {getattr(self, name)!r}")
        if not isinstance(self.rng, RngOptions):
            raise ConfigError(f"CompileOptions.rng: must be RngOptions, got {self.rng!r}")
        for what, sizes, least in (("dims", self.dims, 0), ("extents", self.extents, 1)):
            if not isinstance(sizes, Mapping):
                raise ConfigError(f"CompileOptions.{what}: must be a mapping of names to sizes, got {sizes!r}")
            plain = {name: as_int(size) for name, size in sizes.items()}
            for name, n in plain.items():
                if n is None or n < least:
                    raise ConfigError(f"CompileOptions.{what}: {name!r} must be an int >= {least}, got {sizes[name]!r}")
            object.__setattr__(self, what, plain)
        if self.denormals not in ("keep", "zero"):
            raise ConfigError(f"CompileOptions.denormals: must be 'keep' or 'zero', got {self.denormals!r}")
        if self.busy not in ("raise", "wait"):
            raise ConfigError(f"CompileOptions.busy: must be 'raise' or 'wait', got {self.busy!r}")
        if self.isa is not None and self.isa not in LEVELS:
            raise ConfigError(f"CompileOptions.isa: must be one of {list(LEVELS)}, got {self.isa!r}")
        if isinstance(self.disable, str) or not isinstance(self.disable, Iterable):
            raise ConfigError(f"CompileOptions.disable: must be a tuple of pass names, got {self.disable!r}")
        if self.pipeline is not None and not isinstance(self.pipeline, Pipeline):
            raise ConfigError(f"CompileOptions.pipeline: must be a Pipeline, got {type(self.pipeline).__name__}")
        known = self.pipeline or default_pipeline()
        unknown = [n for n in self.disable if n not in known]
        if unknown:
            raise ConfigError(f"CompileOptions.disable: passes are {known.names}, got {unknown}")
        needed = [n for n in self.disable if known[n].required]
        if needed:
            raise ConfigError(f"CompileOptions.disable: required passes must stay, got {needed}")
        object.__setattr__(self, "precision", as_policy(self.precision, "CompileOptions.precision"))

    def __repr__(self) -> str:
        """What differs from the built-in defaults."""
        shown = {f.name: getattr(self, f.name) for f in self.__record_fields__.values()}  # type: ignore[attr-defined]
        plain = BUILT_IN | {"rng": RngOptions()}
        shown["precision"] = self.precision.name
        given = [f"{name}={value!r}" for name, value in shown.items() if value != plain[name]]
        return f"CompileOptions({', '.join(given)})"

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes that a compilation runs, in order."""
        if not self.optimize:
            return tuple(with_precision(default_pipeline(optimize=False), self.precision))
        pipeline = with_precision(self.pipeline or default_pipeline(), self.precision)
        needless = {"move-denormals"} if self.denormals == "zero" else set()  # they count as zero
        return tuple(p for p in pipeline if p.name not in self.disable and p.name not in needless)


def with_options(options: CompileOptions | None, **given: Any) -> CompileOptions:
    """The options with those that are given by keyword, which count more; None is not given.

    Raises
    ------
    ConfigError
        Options are something else, or a value is bad.
    """
    if options is not None and not isinstance(options, CompileOptions):
        raise ConfigError(f"options: must be CompileOptions, got {type(options).__name__}")
    kept = {name: value for name, value in given.items() if value is not None}
    if options is None:
        return CompileOptions(**kept)
    return replace(options, **kept) if kept else options
