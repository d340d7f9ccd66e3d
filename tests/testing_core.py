"""The module of what only tests call of the core, built once where no build of the package has it beside `_core`."""

import contextlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import manyclass

ROOT = Path(__file__).resolve().parents[1]
NAME = "_testing" + sysconfig.get_config_var("EXT_SUFFIX")


def newest(*folders: str) -> float:
    """When a source in these folders, or the list of all, was last changed."""
    sources = [ROOT / "CMakeLists.txt", *(path for f in folders for path in (ROOT / f).rglob("*.[ch]pp"))]
    return max(source.stat().st_mtime for source in sources)


def core_of_the_package() -> Path | None:
    """The core that was compiled when the package was installed from here, if no source is newer."""
    libraries = sorted((ROOT / ".build").glob("*/libmanyclass_core.a"), key=lambda path: path.stat().st_mtime)
    return libraries[-1] if libraries and libraries[-1].stat().st_mtime > newest("cpp/manyclass") else None


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time, where the system can say so; others may do the same work, and do no harm."""
    with contextlib.suppress(ImportError), (folder / "lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        return
    yield


def build(module: Path) -> None:
    """Compile the module: its own files alone where an installation left the core's library, else the core too."""
    import pybind11

    core = core_of_the_package()
    with tempfile.TemporaryDirectory() as folder:
        options = [f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
        options += ["-G", "Ninja"] * (shutil.which("ninja") is not None) + [f"-DMANYCLASS_CORE={core}"] * bool(core)
        for command in (
            ["cmake", "-S", ROOT, "-B", folder, "-DMANYCLASS_TESTING=ON", *options],
            ["cmake", "--build", folder, "--target", "_testing", "--parallel", "2", "--config", "Release"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        (made,) = Path(folder).rglob(NAME)
        shutil.copy(made, module.with_suffix(".new"))
    module.with_suffix(".new").replace(module)


def load() -> ModuleType:
    """The module of this installation, else the one that was built for its tests."""
    module = Path(manyclass.__file__).with_name(NAME)
    if not module.exists():
        module = ROOT / ".build/testing" / NAME
        module.parent.mkdir(parents=True, exist_ok=True)
        with alone(module.parent):
            if not module.exists() or module.stat().st_mtime < newest("cpp", "tests/cpp/testing"):
                build(module)
    spec = importlib.util.spec_from_file_location("manyclass._testing", module)
    assert spec is not None
    assert spec.loader is not None
    module_of_pieces = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module_of_pieces)
    return module_of_pieces


pieces = load()
