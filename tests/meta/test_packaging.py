"""What is installed is whole, exports nothing by accident, and has stubs that tell the truth."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rlx
from rlx._kernels import _cpu

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_dist  # noqa: E402
import check_symbols  # noqa: E402
import gen_onnx_coverage  # noqa: E402
import gen_reference  # noqa: E402

INSTALLED = {f.as_posix() for f in importlib.metadata.distribution("rlx").files or []}
EDITABLE = "rlx/__init__.py" not in INSTALLED


@pytest.mark.skipif(EDITABLE, reason="an editable install copies nothing")
def test_installed_files_are_complete() -> None:
    assert not check_dist.check_installed_files(INSTALLED)


def test_check_of_a_wheel_finds_what_is_missing_and_what_is_too_much() -> None:
    files = check_dist.python_files() | {f"{m}.cpython-311-x86_64-linux-gnu.so" for m in check_dist.compiled_modules()}
    files |= {"rlx/startup.cpython-311.bin"}
    assert not check_dist.check_installed_files(files)
    assert check_dist.check_installed_files(files - {"rlx/startup.cpython-311.bin"}) == ["not built: rlx/startup.*.bin"]
    assert check_dist.check_installed_files(files - {"rlx/errors.py"}) == ["missing: rlx/errors.py"]
    assert check_dist.check_installed_files(files | {"rlx/_kernels/abi.pxd"})
    assert check_dist.check_installed_files({f for f in files if "_interp." not in f})


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_compiled_modules_export_only_their_init_function() -> None:
    assert not check_symbols.faults(Path(_cpu.__file__).parent)


def test_versions_agree() -> None:
    assert importlib.metadata.version("rlx") == rlx.__version__
    assert f"version: '{rlx.__version__}'" in (ROOT / "meson.build").read_text()
    assert f'version = "{rlx.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert rlx.__version__ in (ROOT / "CHANGELOG.md").read_text()


def test_run_time_dependencies_are_three() -> None:
    needed = [r for r in importlib.metadata.requires("rlx") or [] if "extra ==" not in r]
    assert sorted(r.split(">")[0].replace("-", "_") for r in needed) == ["ml_dtypes", "numpy", "scipy"]


def test_generated_files_are_up_to_date() -> None:
    """`python tools/gen_reference.py` after a change of the table or of the errors."""
    assert gen_reference.main(["--check"]) == 0
    assert gen_onnx_coverage.main(["--check"]) == 0


def test_stubs_of_compiled_modules_tell_the_truth() -> None:
    pytest.importorskip("mypy")
    allowed = ["--allowlist", "tools/stubtest-allowlist.txt", "--ignore-unused-allowlist"]
    modules = ["rlx._kernels." + name for name in ("_cpu", "_interp", "_protobuf", "_route", "_text")]
    command = [sys.executable, "-m", "mypy.stubtest", *allowed, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
