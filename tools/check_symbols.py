"""Check that compiled modules export their init function and nothing else.

    check_symbols.py FOLDER    (default: the installed rlx/_kernels)

Exported helpers of two modules could be merged by the dynamic linker, and code
built for one processor would then run on another.
"""

import subprocess
import sys
from pathlib import Path


def exported(library: Path) -> list[str]:
    """Names that a shared object defines and exports."""
    lines = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
    return [line.split()[-1] for line in lines.stdout.splitlines() if line.strip()]


def faults(folder: Path) -> list[str]:
    """What is exported and should not be."""
    found = []
    libraries = sorted(folder.rglob("*.so"))
    if not libraries:
        found.append(f"{folder}: must hold compiled modules, got none")
    for library in libraries:
        extra = [n for n in exported(library) if n != f"PyInit_{library.name.split('.')[0]}"]
        if extra:
            found.append(f"{library.name}: must export only its init function, got also {extra}")
    return found


def main() -> int:
    """Check a folder."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
    else:
        from rlx._kernels import _cpu

        folder = Path(_cpu.__file__).parent
    found = faults(folder)
    print("\n".join(found) or f"{folder.name}: only PyInit_* is exported")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
