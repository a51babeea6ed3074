"""`rlx.show_config()`: what runs on this machine."""

import platform


def show_config() -> None:
    """Print version, ISA levels, threads and libraries."""
    import ml_dtypes
    import numpy
    import scipy

    import rlx
    from rlx import costs
    from rlx.options import available_cpus, default_threads
    from rlx.runtime import kernels
    from rlx.runtime.settings import RuntimeConfig

    table = kernels.table()
    by_level: dict[str, int] = {}
    for level in [r.level for r in table.kernels.values()] + [r.level for r in table.ews.values()]:
        by_level[level] = by_level.get(level, 0) + 1
    print(f"rlx {rlx.__version__}")
    print(f"  python   {platform.python_version()} on {platform.machine()}")
    print(f"  isa      {table.level} (available: {', '.join(kernels.available_levels())})")
    for level, n in by_level.items():
        print(f"             {level}: {n} kernels")
    print(f"  threads  {default_threads()} of {available_cpus()} processors")
    source, figures = costs.report()
    print(f"  costs    {source}")
    print(f"             {figures}")
    print("\n".join(f"  {line}" for line in str(RuntimeConfig.current()).splitlines()))
    print(f"  numpy {numpy.__version__}, scipy {scipy.__version__}, ml_dtypes {ml_dtypes.__version__}")
