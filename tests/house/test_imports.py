"""What `import manyclass` and the start of the command load, and what a type checker sees of names loaded late."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT

import manyclass
from manyclass.cli import parser
from manyclass.cli.parser import first_line

PACKAGE = Path(manyclass.__file__).parent
# Each takes from a tenth of a second to a second to load.
HEAVY = {"joblib", "matplotlib", "numpy", "pandas", "scipy", "sklearn"}


# Runs the command in a process of its own, and keeps what it prints out of the way.
RUN = """
import contextlib, io, sys
sys.argv[1:] = {}
import manyclass.__main__ as m
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    m.main()
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # The package that this process has loaded, from a folder where nothing else lies.
    path = os.pathsep.join([environment.pop("first", ""), str(PACKAGE.parent), *sys.path])
    env = os.environ | {"PYTHONPATH": path} | environment
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)


def heavy_after(statement: str) -> set[str]:
    done = python("-c", f"{statement}\nimport sys; print(*sorted(m for m in sys.modules if '.' not in m))")
    assert done.returncode == 0, done.stderr
    return HEAVY & set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert heavy_after("import manyclass; dir(manyclass); manyclass.__version__") == set()
    assert heavy_after("from manyclass import SoftmaxClassifier") >= {"numpy", "scipy", "sklearn"}  # what is to be seen


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["nothing"]])
def test_what_runs_no_command_needs_nothing_heavy(arguments):
    assert heavy_after(RUN.format(arguments)) == set()
    assert python("-m", "manyclass", "--version").stdout == f"manyclass {manyclass.__version__}\n"


def test_a_command_loads_no_other():
    loaded = python("-c", RUN.format(["info", "--help"]) + "\nimport sys; print(*sys.modules)").stdout
    assert "manyclass.cli.saved" in loaded
    assert "manyclass.cli.demo" not in loaded


@pytest.mark.parametrize("name", parser.COMMANDS)
def test_the_line_of_a_command_is_read_without_loading_it(name):
    module = parser.MODULES.get(name, name)
    command = getattr(importlib.import_module(f"manyclass.cli.{module}"), name)
    assert first_line(module, name) == command.__doc__.partition("\n")[0]
    assert first_line("nothing", name) == ""  # no source


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_command_ends_well_and_without_a_traceback(argument):
    done = python("-m", "manyclass", argument)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_the_command_loads_ends_without_a_traceback(tmp_path):
    # In place of scikit-learn, a module whose loading the user interrupts.
    (tmp_path / "sklearn.py").write_text("raise KeyboardInterrupt\n")
    done = python("-m", "manyclass", "fit", "--help", first=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "manyclass: interrupted\n")


def test_names_that_load_late_are_there_as_if_they_had_been_loaded():
    assert set(manyclass.__all__) <= set(dir(manyclass))
    from_the_top = python("-c", "from manyclass import *; print(SoftmaxClassifier, load, solvers.__name__)")
    assert "classifiers.softmax.SoftmaxClassifier" in from_the_top.stdout, from_the_top.stderr
    chain = "import manyclass; print(manyclass.words.vectors.WordVectors is manyclass.WordVectors)"
    assert python("-c", chain).stdout == "True\n"
    wrong = python("-c", "import manyclass; manyclass.SoftmaxClasifier").stderr
    assert "module 'manyclass' has no attribute 'SoftmaxClasifier'" in wrong
    assert "Did you mean: 'SoftmaxClassifier'?" in wrong


def test_what_a_type_checker_reads_is_what_is_loaded():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (checked,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    for statement in checked.body:
        assert isinstance(statement, ast.ImportFrom)
        for name in (alias.name for alias in statement.names):
            if statement.module == "manyclass":
                assert getattr(manyclass, name) is importlib.import_module(f"manyclass.{name}")
            else:
                assert getattr(manyclass, name) is getattr(importlib.import_module(statement.module or ""), name)


def test_a_misspelt_name_is_an_error_of_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import manyclass\nreveal_type(manyclass.SoftmaxClassifier())\nmanyclass.SoftmaxClasifier\n")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 'Revealed type is "manyclass.classifiers.softmax.SoftmaxClassifier"' in done.stdout
    assert 'Module has no attribute "SoftmaxClasifier"' in done.stdout


def test_a_cluster_is_planned_where_there_is_no_dask():
    code = """
import sys
sys.modules.update({"dask": None, "distributed": None})
from manyclass.cli.parser import main
assert main(["plan", "--rows", "1e6", "--classes", "1e4"]) == 0
try:
    from manyclass.dask import DaskSoftmaxClassifier
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DaskSoftmaxClassifier needs dask: pip install 'manyclass[dask]'" in done.stdout
