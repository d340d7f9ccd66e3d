"""Measures of the code: lines, floors and circles of imports by file, names, functions, and the way that a call takes.

    python tests/house.py          # all but the calls
    python tests/house.py --walk   # files that calls enter, and how deep

A line of code is one that is neither blank, a comment, nor of a docstring. A module's floor is 1 where it imports no
other of the package, else one more than the highest of those that it imports; imports for types count.
"""

import ast
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/manyclass"
ESTIMATORS = ("estimator", "model", "owner", "member", "fitted", "trainer")  # names of parameters that stand for one
# Names of variables that say nothing of what these hold, and with them all that begin with "of_". Other words without a
# meaning, such as `result1`, `value2` or `thing`, are no cure: a name is a noun for what the variable holds.
VAGUE = {
    *("found", "given", "told", "own", "some", "one", "at", "made", "asked", "taken", "kept", "had", "held", "left"),
    *("seen", "said", "those", "these", "others", "both", "each", "it", "what", "them"),
}
UNREADABLE = {"contest", "crew", "going_on", "settle", "stint"}  # names whose meaning no stranger can tell
MOST_LINES_OF_FUNCTION, MOST_BRANCHES = 50, 15
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.IfExp, ast.BoolOp, ast.Assert)


def trees(package: Path) -> Iterator[ast.Module]:
    return (ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py"))


def lines_of_code(text: str, suffix: str = ".py") -> set[int]:
    """Numbers of the lines of code of a text in Python, Cython or C++."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)) if suffix == ".py" else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    mark = "#" if suffix in (".py", ".pyx") else "//"
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    return {number for number, line in lines if line and not line.startswith(mark) and number not in documented}


def code_lines(paths: Iterable[Path]) -> int:
    """Lines of code of Python's or C++'s files."""
    return sum(len(lines_of_code(path.read_text(encoding="utf-8"), path.suffix)) for path in paths)


def lines_by_folder() -> Counter[str]:
    """Lines of code in each folder and module at the top of the package."""
    lines: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        lines[path.relative_to(PACKAGE).parts[0]] += code_lines([path])
    return lines


def lines_of_core() -> int:
    return code_lines(path for path in (ROOT / "cpp/manyclass").rglob("*") if path.suffix in (".cpp", ".hpp"))


def imports(package: Path) -> dict[str, set[str]]:
    """The modules that each module of a package imports, by their dotted names."""
    paths = {".".join(p.relative_to(package.parent).with_suffix("").parts): p for p in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                imported = [module if module in modules else node.module for module in inner]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            # The package itself gives names of all its modules, and imports them when they are asked for.
            graph[name] |= {module for module in imported if module in modules and module not in (name, package.name)}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of more than one module that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            place = stack.index(module)
            members, stack[place:] = stack[place:], []
            if len(members) > 1:
                components.append(sorted(members))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return components


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """The floor of each module of a graph without circles."""
    heights: dict[str, int] = {}

    def floor(module: str) -> int:
        if module not in heights:
            heights[module] = 1 + max((floor(below) for below in graph.get(module, ())), default=0)
        return heights[module]

    for module in graph:
        floor(module)
    return heights


def typed_any(package: Path) -> int:
    """Parameters that stand for an estimator and have the type Any."""
    functions = (node for tree in trees(package) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    arguments = (argument for function in functions for argument in function.args.args + function.args.kwonlyargs)
    return sum(1 for a in arguments if a.arg in ESTIMATORS and ast.unparse(a.annotation or a) == "Any")


def bindings(package: Path) -> Counter[str]:
    """How often each name is bound: as a variable, or as a parameter of a function."""
    names: Counter[str] = Counter()
    for node in (node for tree in trees(package) for node in ast.walk(tree)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] += 1
        elif isinstance(node, ast.arg):
            names[node.arg] += 1
    return names


def vague(names: Counter[str]) -> Counter[str]:
    """Those of the bound names that are no nouns."""
    return Counter({name: n for name, n in names.items() if name in VAGUE or name.startswith("of_")})


def classes_twice(package: Path) -> list[str]:
    """Public names that more than one class has."""
    names = Counter(n.name for tree in trees(package) for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    return sorted(name for name, n in names.items() if n > 1 and not name.startswith("_"))


def unreadable_names(text: str) -> list[str]:
    """Functions, classes, attributes and variables that Python's code binds to a name among UNREADABLE."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return sorted(name for name in names if name.strip("_").lower() in UNREADABLE)


def long_functions(text: str) -> list[str]:
    """Functions of more lines of code, or more branches, than a reader holds in mind; the signature is of them."""
    code, functions = lines_of_code(text), []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            n_lines = sum(line in code for line in range(node.lineno, (node.end_lineno or 0) + 1))
            n_branches = sum(isinstance(inner, BRANCHES) for inner in ast.walk(node))
            if n_lines > MOST_LINES_OF_FUNCTION or n_branches > MOST_BRANCHES:
                functions.append(f"{node.name} has {n_lines} lines and {n_branches} branches")
    return functions


def walk(call: Callable[[], object]) -> tuple[list[str], int]:
    """The files of the package that a call enters, and how many of the package's functions are entered at a time."""
    import manyclass

    package = str(Path(manyclass.__file__).parent)  # where it is installed
    entered: set[str] = set()
    depth = deepest = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth, deepest
        if event in ("call", "return") and frame.f_code.co_filename.startswith(package):
            depth += 1 if event == "call" else -1
            deepest = max(deepest, depth)
            entered.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(package)) for name in entered), deepest


def calls() -> dict[str, Callable[[], object]]:
    """Calls of a SoftmaxClassifier with nothing set, on small data of each kind."""
    import numpy as np
    import scipy.sparse as sp

    from manyclass import SoftmaxClassifier
    from manyclass.datasets import SequenceEncoder

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)).astype(np.float32), rng.integers(0, 4, 60)
    labels = np.repeat(np.arange(40), 30)
    features = np.sort((labels[:, np.newaxis] * 29 + rng.integers(0, 60, (1200, 8))) % 1237, axis=1)
    counts = sp.csr_array((np.ones(9600, np.float32), features.ravel(), np.arange(1201) * 8), shape=(1200, 1237))
    counts.sum_duplicates()
    indicator = sp.csr_array((rng.random((400, 30)) < 0.1).astype(np.int8))
    histories = [[int(item) for item in rng.integers(0, 30, 6)] for _ in range(200)]

    def new() -> SoftmaxClassifier:
        return SoftmaxClassifier(random_state=0)

    small, large, several = new().fit(X, y), new().fit(counts, labels), new().fit(counts[:400], indicator)
    return {
        "fit, dense": lambda: new().fit(X, y),
        "fit, sparse with trials": lambda: new().fit(counts, labels),
        "fit, dense with trials": lambda: new().fit(counts.toarray()[:, :60], labels),
        "fit, several labels": lambda: new().fit(counts[:400], indicator),
        "fit, histories": lambda: new().fit(histories, vectorizer=SequenceEncoder()),
        "partial_fit, new": lambda: new().partial_fit(X, y),
        "partial_fit, dense": lambda: small.partial_fit(X, y),
        "partial_fit, sparse": lambda: large.partial_fit(counts, labels),
        "partial_fit, several labels": lambda: several.partial_fit(counts[:400], indicator),
        "predict, dense": lambda: small.predict(X),
        "predict, sparse": lambda: large.predict_top_k(counts, 3),
    }


def walks() -> dict[str, tuple[list[str], int]]:
    """The walk of each of the calls."""
    with warnings.catch_warnings(action="ignore"):  # small data are not trained to the end
        return {name: walk(call) for name, call in calls().items()}


def main() -> None:
    if "--walk" in sys.argv:
        for name, (files, depth) in walks().items():
            print(f"{name}: {len(files)} files, {depth} deep: {' '.join(files)}")
        return
    lines, graph, names = lines_by_folder(), imports(PACKAGE), bindings(PACKAGE)
    print(f"{lines_of_core():7,} core\n{lines.total():7,} Python")
    for name, n in lines.most_common():
        print(f"{n:7,}   {name}")
    rings = circles(graph)
    print(f"{len(graph)} modules; circles: {[len(members) for members in rings] or 'none'}")
    if not rings:
        print(f"floors: {max(floors(graph).values())}")
    print(f"parameters of estimators typed Any: {typed_any(PACKAGE)}")
    no_nouns = vague(names)
    print(f"names without a noun: {no_nouns.total() / names.total():.1%}, {dict(no_nouns.most_common(8))}")
    print(f"names of two classes: {', '.join(classes_twice(PACKAGE)) or 'none'}")
    for path in PACKAGE.rglob("*.py"):
        for function in long_functions(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(PACKAGE)}: {function}")


if __name__ == "__main__":
    main()
