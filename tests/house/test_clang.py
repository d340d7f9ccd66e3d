"""The package by Clang: the core's own tests, the instructions it is made of, and the tests of the core from Python."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cpp import PROGRAMS, ROOT, Build, check_wide_instructions, tool

VERSIONS = range(30, 14, -1)  # Debian and Ubuntu have clang++-19; a name without a number is taken first
# Tests of the code, of what is built and of pages, which no compiler changes, but for two that read the binary's names.
OF_THE_BINARY = [
    "house/test_codebase.py::test_stubs_have_the_names_of_the_binaries",
    "house/test_codebase.py::test_stub_of_the_core_has_the_signatures_of_the_binary",
]
WHERE = "from manyclass import _core, special; print(_core.__file__, special._ufuncs.__file__)"


def clang() -> str:
    """The first Clang; the test is skipped where there is none."""
    for name in ["clang++", *(f"clang++-{n}" for n in VERSIONS)]:
        if path := shutil.which(name):
            return path
    pytest.skip("there is no clang++: on Debian and Ubuntu, install clang-19")


def files_of_the_core() -> list[str]:
    """Files that call the compiled core, most of which compare it with its twins in NumPy, and whole passes."""
    paths = [path for path in sorted((ROOT / "tests").glob("*/test_*.py")) if path.parent.name != "house"]
    callers = [path for path in paths if "_core" in path.read_text("utf-8")]
    return ["core/test_epoch.py", *(str(path.relative_to(ROOT / "tests")) for path in callers)]


def package_of(build: Build, folder: Path) -> Path:
    """A folder with the package, its modules taken from a build."""
    own = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "python/manyclass", folder / "manyclass", ignore=own)
    command = [tool("cmake"), "--install", build.folder, "--prefix", folder]
    subprocess.run(command, capture_output=True, check=True)
    return folder


def for_python(compiler: str) -> tuple[str, ...]:
    """What CMake is told for a build of the package by a compiler."""
    pybind11 = pytest.importorskip("pybind11")
    return (
        *(f"-DCMAKE_CXX_COMPILER={compiler}", "-DMANYCLASS_PYTHON=ON", "-DMANYCLASS_TESTING=ON"),
        *(f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"),
    )


def python(package: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds the package of that folder first."""
    env = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT / "tests", env=env, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_package_built_by_clang_passes_the_files_of_the_core(tmp_path):
    build = Build(ROOT, tmp_path / "build", for_python(clang()))
    build.make()  # a warning is an error
    for program in PROGRAMS:
        build.passes(program)
    if platform.machine() in ("x86_64", "AMD64"):
        check_wide_instructions(build)

    package = package_of(build, tmp_path / "package")
    modules = [Path(line) for line in python(package, "-c", WHERE).stdout.split()]
    assert len(modules) == 2
    assert all(package in module.parents for module in modules)  # not those of an installation
    assert b"clang version" in modules[1].read_bytes()
    chosen = [*files_of_the_core(), *OF_THE_BINARY]
    assert len(chosen) > 30
    done = python(package, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *chosen)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
