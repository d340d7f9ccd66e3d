"""Measures of the code: lines by folder, floors and circles of imports by file, parameters whose type is Any.

    python tests/house.py
    python tests/house.py --walk    # the files that X enters in SoftmaxClassifier().fit(X, y)

A line of code is one that is neither blank, a comment, nor of a docstring. A module's floor is 1 where it imports no
other of the package, else one more than the highest of those that it imports; imports for types count.
"""

import ast
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable
from inspect import CO_VARARGS as VARARGS
from inspect import CO_VARKEYWORDS as VARKEYWORDS
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/manyclass"
ESTIMATORS = ("estimator", "model", "owner", "member", "fitted", "trainer")  # names of parameters that stand for one


def code_lines(paths: Iterable[Path]) -> int:
    """Lines of code of Python's or C++'s files."""
    total = 0
    for path in paths:
        text, documented = path.read_text(encoding="utf-8"), set()
        mark = "#" if path.suffix in (".py", ".pyx") else "//"
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(text)):
                kinds = ast.Module | ast.ClassDef | ast.FunctionDef
                if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
                    documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        lines = ((at, line.strip()) for at, line in enumerate(text.split("\n"), 1))
        total += sum(1 for at, line in lines if line and not line.startswith(mark) and at not in documented)
    return total


def imports(package: Path) -> dict[str, set[str]]:
    """The modules that each module of a package imports, by their dotted names."""
    paths = {".".join(p.relative_to(package.parent).with_suffix("").parts): p for p in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asked: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                asked = [one if one in modules else node.module for one in inner]
            elif isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            # The package itself gives names of all its modules, and imports them when they are asked for.
            found[name] |= {one for one in asked if one in modules and one not in (name, package.name)}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of more than one module that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(one: str) -> None:
        index[one] = low[one] = len(index)
        stack.append(one)
        for other in sorted(graph.get(one, ())):
            if other not in index:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in stack:
                low[one] = min(low[one], index[other])
        if low[one] == index[one]:
            at = stack.index(one)
            members, stack[at:] = stack[at:], []
            if len(members) > 1:
                found.append(sorted(members))

    for one in sorted(graph):
        if one not in index:
            visit(one)
    return found


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """The floor of each module of a graph without circles."""
    found: dict[str, int] = {}

    def floor(one: str) -> int:
        if one not in found:
            found[one] = 1 + max((floor(below) for below in graph.get(one, ())), default=0)
        return found[one]

    for one in graph:
        floor(one)
    return found


def typed_any(package: Path) -> int:
    """Parameters that stand for an estimator and have the type Any."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    arguments = (one for function in functions for one in function.args.args + function.args.kwonlyargs)
    return sum(1 for one in arguments if one.arg in ESTIMATORS and ast.unparse(one.annotation or one) == "Any")


def holds_rows(value: Any, n_columns: int, depth: int = 3) -> bool:
    """Whether an object is a matrix of so many columns, or a collection or an object of the package that holds one."""
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and len(shape) == 2:
        return shape[1] == n_columns and type(value).__name__ in ("ndarray", "csr_array")
    if depth == 0:
        return False
    if isinstance(value, dict):
        inner: list[Any] = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value[:20])
    elif dataclasses.is_dataclass(value) or type(value).__module__.startswith("manyclass."):
        inner = list(getattr(value, "__dict__", {}).values())
    else:
        return False
    return any(holds_rows(one, n_columns, depth - 1) for one in inner)


def walk(n_rows: int = 1500, n_columns: int = 1237, n_classes: int = 40) -> list[str]:
    """The files of the package with a function that was given X, in a fit with nothing but defaults.

    X counts as given where an argument is a matrix with as many columns, such as X, some of its rows, or X scaled, or
    holds one: a container, or an object of the package. Weights of a sparse X have a row for each of its columns, and
    do not count. What a function has from outside of it, as a closure, does not count either.
    """
    import numpy as np
    import scipy.sparse as sp

    import manyclass
    from manyclass import SoftmaxClassifier

    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n_rows // n_classes + 1)[:n_rows]
    at = np.sort((y[:, np.newaxis] * 29 + rng.integers(0, 60, (n_rows, 8))) % n_columns, axis=1).ravel()
    X = sp.csr_array((np.ones(at.size, np.float32), at, np.arange(n_rows + 1) * 8), shape=(n_rows, n_columns))
    X.sum_duplicates()
    entered: set[str] = set()
    package = str(Path(manyclass.__file__).parent)  # where it is installed

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(package) or code.co_filename in entered:
            return
        n = (
            code.co_argcount
            + code.co_kwonlyargcount
            + bool(code.co_flags & VARARGS)
            + bool(code.co_flags & VARKEYWORDS)
        )
        if any(holds_rows(frame.f_locals.get(name), n_columns) for name in code.co_varnames[:n]):
            entered.add(code.co_filename)

    sys.setprofile(look)
    try:
        SoftmaxClassifier(random_state=0).fit(X, y)
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(package)) for name in entered)


def main() -> None:
    if "--walk" in sys.argv:
        files = walk()
        print("\n".join(files))
        print(f"{len(files)} files")
        return
    folders = {"core": "cpp/manyclass", "bindings": "cpp/bindings", "tests": "tests", "bench": "bench"}
    lines = {
        name: code_lines(p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".cpp", ".hpp"))
        for name, folder in folders.items()
    }
    by_folder: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        by_folder[path.relative_to(PACKAGE).parts[0]] += code_lines([path])
    python, graph = sum(by_folder.values()), imports(PACKAGE)
    for name, n in {**lines, "Python": python}.items():
        print(f"{n:7,} {name}")
    for name, n in by_folder.most_common():
        print(f"{n:7,}   {name}")
    print(f"Python over core: {python / lines['core']:.2f}")
    found = circles(graph)
    print(f"{len(graph)} modules; circles: {[len(one) for one in found] or 'none'}")
    if not found:
        print(f"floors: {max(floors(graph).values())}")
    print(f"parameters of estimators typed Any: {typed_any(PACKAGE)}")


if __name__ == "__main__":
    main()
