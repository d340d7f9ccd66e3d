"""CONTRIBUTING's table "To add a part" is true: parts are added to a copy of the tree, in the files that it names and
no more, and the suite passes with them; where a place is forgotten, or an option has no effect, it fails."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from additions import ADDITIONS, IDLE, add
from test_clang import for_python, package_of
from test_cpp import ROOT, Build
from testing_core import pieces

import manyclass

CONTRIBUTING = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
# Files of the suite that a part goes through: what its facts say, its twin, its parameters, whole fits.
SUITE = (
    *(
        f"core/test_{name}.py"
        for name in ("registry", "objectives", "selections", "double_sum", "label_steps", "fields")
    ),
    *(f"estimators/test_{name}.py" for name in ("settings", "names", "parts")),
)
FITS = ("estimators/test_effects_of_parameters.py", "core/test_epoch.py", "core/test_determinism.py")
ADDED = "squared_hinge or log_average or stride or Stride or scent"


def row_of(kind):
    """The places that CONTRIBUTING's table names for a kind of part."""
    rows = [line for line in CONTRIBUTING.splitlines() if line.startswith("| a") and kind in line.split("|")[1]]
    assert len(rows) == 1, f"{kind!r} has {len(rows)} rows"
    return re.findall(r"`([^`]+/[^`]*)`", rows[0])


def copy_of_tests(folder):
    """The tests alone, so that a package of any core can be held to them."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    for name in ("pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / ".build/testing").mkdir(parents=True)
    shutil.copy(str(pieces.__file__), folder / ".build/testing")  # newer than all sources: it is not built anew
    return folder


def suite(tree, package, *arguments):
    """What pytest says of files of a tree's tests, with the package of a folder."""
    env = os.environ | {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=tree / "tests", env=env, capture_output=True, text=True, check=False)


def failed(done, *tests):
    """Whether a run of the suite failed in each of these tests."""
    assert done.returncode == 1, done.stdout + done.stderr
    return all(re.search(rf"^FAILED .*{re.escape(test)}", done.stdout, re.MULTILINE) for test in tests)


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_part_is_written_where_the_table_says_and_nowhere_else(kind):
    places, touched = row_of(kind), [*ADDITIONS[kind]]
    assert len(touched) == (2 if "number" in kind else 3)
    assert all(any(name.startswith(place) for place in places) for name in touched), (places, touched)
    assert all(any(name.startswith(place) for name in touched) for place in places), (places, touched)
    page = (ROOT / "python/docs/add_a_part.rst").read_text(encoding="utf-8")
    assert all(f"``{place}``" in page for place in places)


@pytest.mark.parametrize("kind", ["an objective", "a rule for u in the double sum", "a selection"])
def test_a_part_that_no_list_names_fails_the_suite(kind, tmp_path):
    tree = copy_of_tests(tmp_path)
    add({name: edits for name, edits in ADDITIONS[kind].items() if name.startswith("tests/")}, tree)
    done = suite(tree, Path(manyclass.__file__).parents[1], "core/test_registry.py")
    assert failed(done, "test_flags_agree_with_the_twins")


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A copy of the tree with all additions, and its package."""
    tree = tmp_path_factory.mktemp("tree")
    for part in ("cpp", "python/manyclass"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    copy_of_tests(tree)
    for addition in (*ADDITIONS.values(), IDLE):
        add(addition, tree)
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DMANYCLASS_CPP_TESTS=OFF", *for_python("c++"))
    build = Build(tree, tree / "build", options)
    build.make()
    return tree, package_of(build, tree / "package")


@pytest.mark.long
def test_the_suite_passes_with_parts_of_each_kind(trial):
    tree, package = trial
    for done in (suite(tree, package, *SUITE, "-k", "not idle"), suite(tree, package, *FITS, "-k", ADDED)):
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr


@pytest.mark.long
def test_an_option_without_effect_fails_the_suite(trial):
    tree, package = trial
    assert failed(
        suite(tree, package, "core/test_registry.py", "estimators/test_effects_of_parameters.py", "-k", "idle_average"),
        "test_flags_of_a_solver_say_what_its_step_does[idle_average]",
        "test_no_parameter_of_a_part_is_without_effect_in_silence[softmax-idle_average-idle-",
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_part_without_its_twin_fails_the_suite(kind, trial, tmp_path):
    tree = copy_of_tests(tmp_path)
    for other, addition in {**ADDITIONS, "idle": IDLE}.items():
        if other != kind:
            add({name: edits for name, edits in addition.items() if name.startswith("tests/")}, tree)
    number = "test_flags_of_a_solver_say_what_its_step_does[scent]"
    told = number if "number" in kind else "test_flags_agree_with_the_twins"
    assert failed(suite(tree, trial[1], "core/test_registry.py"), told)
