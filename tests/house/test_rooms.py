"""The rooms of the Python layer, and what CONTRIBUTING says of the code; each rule is shown a planted fault."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from house import PACKAGE, ROOT
from test_codebase import broken, files, parameters

# SoftmaxClassifier has 18, each a choice of its own: `calibration` and `n_models` say what is made of several fits, so
# that no object of a part could hold them.
MOST_PARAMETERS = 19  # of SoftmaxClassifier, calibration, n_models and warm_start included; the others have fewer
MOST_COLUMNS = 160


def room_of(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).with_suffix("").parts[0]


def imported(tree: ast.AST) -> list[tuple[str, str]]:
    """Modules of the package, and names from them, that a file imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "manyclass":
            found += [((node.module or "").removeprefix("manyclass").lstrip("."), a.name) for a in node.names]
        if isinstance(node, ast.Import):
            found += [(a.name.removeprefix("manyclass").lstrip("."), "") for a in node.names if "manyclass" in a.name]
    return found


def imports_inside_functions(text: str) -> list[str]:
    """Of the package itself: what they dodge is a circle."""
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return [f"{function.name} imports {module}" for function in functions for module, _ in imported(function)]


def private_names(room: list[str]) -> list[str]:
    """Private attributes that the files of a room use and none of them defines."""
    trees = [ast.parse(text) for text in room]
    defined, used = set(), set()
    for node in (n for tree in trees for n in ast.walk(tree)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Attribute(attr=name, value=ast.Name(id=owner)) if owner in ("self", "cls"):
                pass  # a subclass may use what its base defines
            case ast.Attribute(attr=name):
                used.add(name)
            case ast.ImportFrom(module=module, names=names) if (module or "").startswith("manyclass"):
                used |= {a.name for a in names}
    # Compiled, Python's, scikit-learn's, argparse's, and Annif's, which has no public way to register a backend.
    foreign = {"_core", "_get_param_names", "_getframe", "_replace", "_ufuncs", "_actions", "_SubParsersAction"}
    foreign |= {"_backend_fns", "_exit"}
    return sorted(name for name in used - defined - foreign if re.match(r"_[^_]", name))


def large_constructors(text: str) -> list[str]:
    faults = []
    for node in ast.walk(ast.parse(text)):
        for init in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
            if isinstance(init, ast.FunctionDef) and init.name == "__init__" and not node.name.startswith("_"):
                n = len(parameters(init))
                faults += [f"{node.name} has {n} parameters"] * (n > MOST_PARAMETERS)
    return faults


def wide_lines(text: str) -> list[str]:
    """Rows of a Markdown table are as long as they are."""
    return [line[:60] for line in text.split("\n") if len(line) > MOST_COLUMNS and not line.startswith("|")]


def patched_choices(text: str) -> list[str]:
    """Figures, costs and planners that a test changes in place; `planned.py` gives an estimator others."""
    return re.findall(r"set(?:attr|item)\(\s*\"?(?:manyclass\.choosing|figures|costs|[\w.]*[Pp]lanner)\b[^\n]*", text)


def places_in_the_table(readme: str) -> list[str]:
    """Files and folders that CONTRIBUTING's table of what to add names."""
    rows = readme.partition("| to add |")[2].partition("\n\n")[0]
    return re.findall(r"`([^`]+/[^`]*)`", rows)


@pytest.mark.parametrize(
    ("rule", "fault", "fine"),
    [
        (wide_lines, "x" * (MOST_COLUMNS + 1), "|" + "x" * MOST_COLUMNS),
        (patched_choices, "set" + "attr(figures, 'QUICK', 0)", "with_figures(model, QUICK=0)"),
        (patched_choices, "set" + "attr(softmax.SoftmaxPlanner, 'run', f)", "with_planner(model, run=f)"),
        (imports_inside_functions, "def f():\n    from manyclass.a import b\n", "def f():\n    import xml\n"),
        (
            large_constructors,
            f"class A:\n    def __init__(self, {', '.join(f'a{n}' for n in range(MOST_PARAMETERS + 1))}): ...",
            "class A:\n    def __init__(self, a): ...",
        ),
    ],
)
def test_each_rule_finds_a_planted_fault_and_spares_what_is_fine(rule, fault, fine):
    assert rule(fault)
    assert not rule(fine)


def test_no_private_name_is_used_across_rooms():
    by_room = defaultdict(list)
    for path in files(".py", under="python/manyclass"):
        by_room[room_of(path)].append(path.read_text(encoding="utf-8"))
    assert {room: faults for room, texts in by_room.items() if (faults := private_names(texts))} == {}
    assert private_names(["from manyclass.model import _weights\nindex._core_part()\n"]) == ["_core_part", "_weights"]
    assert private_names(["def _f(): ...\n", "x._f()\nself._g()\n"]) == []


def test_nothing_of_the_package_is_imported_inside_a_function():
    assert broken(imports_inside_functions, files(".py", under="python")) == []


def test_constructors_are_small():
    assert broken(large_constructors, files(".py", under="python")) == []


def test_tests_give_other_figures_and_planners_and_patch_none():
    assert broken(patched_choices, files(".py", under="tests")) == []


def test_lines_are_not_wide():
    assert broken(wide_lines, files(".py", ".pyx", ".pyi", ".hpp", ".cpp", ".md", ".toml", ".txt")) == []


def test_the_table_of_what_to_add_names_what_is_there():
    named = places_in_the_table((ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) >= 10
    assert [place for place in named if not (ROOT / place).exists()] == []
    assert places_in_the_table("| to add | write |\n| a thing | `no/such/file` |\n\n`not/this`") == ["no/such/file"]
