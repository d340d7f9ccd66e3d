"""What a user installs: the files of a wheel, and what the wheel says of itself."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
INSTALLED = {".py", ".pyi", ".pxd", ".typed"}


def test_settings_of_wheels_are_for_every_processor():
    settings = PROJECT["tool"]["cibuildwheel"]
    assert "environment" not in settings  # where compiler flags would come from
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert all(target.startswith("cp31?-") for target in settings["build"])


def test_every_command_of_the_package_exists():
    for command in PROJECT["project"]["scripts"].values():
        module, function = command.split(":")
        assert importlib.util.find_spec(module), f"{command}: no module {module}"
        assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # Where the build tools are at hand they are used; elsewhere pip fetches them into an environment of its own.
    at_hand = all(importlib.util.find_spec(name) for name in ("scikit_build_core", "pybind11", "Cython"))
    options = ["--config-settings=cmake.define.MANYCLASS_WERROR=ON", *["--no-build-isolation"] * at_hand]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, *options, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.long
def test_a_wheel_has_the_package_its_types_and_its_binaries_and_no_sources(wheel):
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    expected = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*") if p.suffix in INSTALLED}
    assert {"manyclass/py.typed", "manyclass/_core.pyi"} <= expected
    assert {name for name in names if not name.endswith(".so")} == expected

    cython = {p.relative_to(PACKAGE).with_suffix("").as_posix() for p in PACKAGE.rglob("*.pyx")}
    binaries = {re.sub(r"\..*", "", name) for name in names if name.endswith(".so")}
    assert binaries == cython | {"manyclass/_core"}


@pytest.mark.long
def test_a_wheel_has_licence_readme_and_command(wheel):
    info = f"manyclass-{PROJECT['project']['version']}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"\nRequires-Python: {PROJECT['project']['requires-python']}\n" in metadata
    assert metadata.endswith((ROOT / "README.md").read_text(encoding="utf-8"))
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"manyclass = manyclass.__main__:main" in wheel.read(f"{info}/entry_points.txt")
