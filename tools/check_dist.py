"""Check what is shipped: every module and stub of the package, every compiled module, and nothing else.

    check_dist.py rlx-0.1.0-cp311-linux_x86_64.whl
    check_dist.py rlx-0.1.0.tar.gz
    check_dist.py --installed
"""

import argparse
import importlib.metadata
import platform
import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
LEVELS = ("baseline", "avx2", "avx512") if platform.machine() in ("x86_64", "AMD64") else ("baseline",)
# A script of the build, and the header for custom ops in C.
ONLY_BUILT_WITH = {"rlx/_kernels/fingerprint.py"}
HEADERS = {"rlx/include/rlx_custom.h"}
NOT_SHIPPED = (".pyx", ".pxd", ".pxi", ".c", ".h", ".inc", ".def", ".build", ".md", ".toml")


def python_files() -> set[str]:
    """Files of the package that are installed as they lie."""
    found = (p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src/rlx").rglob("*") if p.is_file())
    shipped = {f for f in found if f.endswith((".py", ".pyi", "py.typed")) and "__pycache__" not in f}
    return (shipped | HEADERS) - ONLY_BUILT_WITH


def compiled_modules(levels: tuple[str, ...] = LEVELS) -> set[str]:
    """Modules that must have been built."""
    sources = {p.stem for p in (ROOT / "src/rlx/_kernels").glob("*.pyx")} - {"_isa"}
    return {"rlx/_kernels/" + name for name in sources | {f"_isa_{level}" for level in levels}}


def check_installed_files(names: set[str], levels: tuple[str, ...] = LEVELS) -> list[str]:
    """Faults of a wheel, given the names of its files."""
    names = {n for n in names if n.startswith("rlx/") and "__pycache__" not in n}
    built = {re.sub(r"\.[^/]*$", "", n) for n in names if n.endswith((".so", ".pyd"))}
    faults = [f"missing: {n}" for n in sorted(python_files() - names)]
    faults += [f"not built: {n}" for n in sorted(compiled_modules(levels) - built)]
    if not any(re.fullmatch(r"rlx/startup\.[^/]+\.bin", n) for n in names):
        faults.append("not built: rlx/startup.*.bin")
    faults += [f"must not be shipped: {n}" for n in sorted(names - HEADERS)
               if n.endswith(NOT_SHIPPED) or "/tests/" in n]
    extra = {n for n in names if n.endswith((".py", ".pyi"))} - python_files()
    return faults + [f"not in the source tree: {n}" for n in sorted(extra)]


def check_sdist_files(names: set[str]) -> list[str]:
    """Faults of a source distribution."""
    inside = {"/".join(PurePosixPath(n).parts[1:]) for n in names}
    needed = {"pyproject.toml", "meson.build", "meson.options", "README.md", "LICENSE", "CHANGELOG.md", ".ci/run"}
    needed |= {p.relative_to(ROOT).as_posix() for p in (ROOT / "src").rglob("*")
               if p.suffix in (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".inc", ".def", ".build")}
    needed |= {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("*.py")}
    return [f"missing: {n}" for n in sorted(needed - inside)]


def main(arguments: list[str] | None = None) -> int:
    """Check one file, or what is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--levels", default=",".join(LEVELS), help="ISA levels that must be there")
    options = parser.parse_args(arguments)
    levels = tuple(options.levels.split(","))
    if options.installed:
        files = importlib.metadata.distribution("rlx").files or []
        what, faults = "installed rlx", check_installed_files({f.as_posix() for f in files}, levels)
    elif options.file is None:
        parser.error("a file or --installed must be given")
    elif options.file.suffix == ".whl":
        with zipfile.ZipFile(options.file) as archive:
            what, faults = options.file.name, check_installed_files(set(archive.namelist()), levels)
    else:
        with tarfile.open(options.file) as tar:
            what, faults = options.file.name, check_sdist_files(set(tar.getnames()))
    size = "" if options.file is None else f" ({options.file.stat().st_size / 1e6:.1f} MB)"
    print(f"{what}{size}: {'complete' if not faults else ''}")
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
