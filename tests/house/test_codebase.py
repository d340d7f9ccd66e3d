"""The rules of the code base, one test a rule; what finds nothing is shown a planted fault first."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

import pytest
from house import ROOT
from testing_core import pieces

import manyclass

# The flow, from left to right: a folder of cpp/manyclass includes itself and what stands left of it.
#
#   file ─▶ CSR ─▶ scalar maths ─▶ W ─▶ classes ─▶ loss of a point ─▶ its step ─▶ scores ─▶ best ─▶ passes ─▶ answers
#   core    io     math            weights select   objective          step       model      search  train     evaluate
STAGES = (
    *("core", "io", "math", "weights", "select", "objective", "step", "model", "search", "train", "evaluate"),
    *("exact", "text", "words", "utility", "choice"),
)
# In train/, a room for each form of what is visited: each includes itself and this one.
SHARED_ROOM = "common"

TOP_LEVEL = {"pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "cpp", "python", "tests", "bench"}
# The modules whose `__all__` is what users call.
PUBLIC = (
    "manyclass",
    *(
        f"manyclass.{name}"
        for name in (
            "bounds",
            "bounds.closed_forms",
            "choice",
            "datasets",
            "heads",
            "losses",
            "metrics",
            "models",
            "plot",
            "samplers",
            "solvers",
            "special",
        )
    ),
    *("manyclass.words", "manyclass.words.objectives"),
)
MOST_LINES = 520
MOST_COLUMNS = 120
MOST_NAMES = 15


def git_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("the rules are about tracked files, and this is not a git checkout")
    # A checkout that another user owns is as good for reading a list of names.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def files(*suffixes: str, under: str = "") -> list[Path]:
    found = [f for f in git_files() if f.suffix in suffixes and f.is_relative_to(ROOT / under)]
    assert found, f"no {suffixes} under {under!r}: the rule would hold for want of files"
    return found


def broken(rule, paths) -> list[str]:
    """What `rule` says of each file, with the file's name."""
    return [f"{p.relative_to(ROOT)}: {fault}" for p in paths for fault in rule(p.read_text(encoding="utf-8"))]


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a tool that finds nothing wrong; else the test fails with what it says."""
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(name: str) -> str:
    """The tool of this Python's environment, else of the path."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is missing; the extra 'test' has it"
    return found


# Rules that are functions of a file's text


def cpp_comments_removed(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def includes_from_the_right(stage: str, text: str) -> list[str]:
    seen = set(STAGES[: STAGES.index(stage) + 1])
    return [s for s in re.findall(r'#include "manyclass/(\w+)/', text) if s not in seen]


def other_rooms(room: str, text: str) -> list[str]:
    return [r for r in re.findall(r'#include "manyclass/train/(\w+)/', text) if r not in (room, SHARED_ROOM)]


def threads_begun(text: str) -> list[str]:
    return re.findall(r"#\s*pragma omp\b.*|<omp\.h>|\bomp_\w+|\bstd::j?thread\b|\basync\(", cpp_comments_removed(text))


def clocks(text: str) -> list[str]:
    return re.findall(r"\btime\(|\b\w+_clock\b", cpp_comments_removed(text))


def unnamed_randomness(text: str) -> list[str]:
    pattern = r"\bmt19937\w*|\b\w+_distribution\b|\brandom_device\b|\bs?rand\("
    return re.findall(pattern, cpp_comments_removed(text))


def printing(text: str) -> list[str]:
    pattern = r"<iostream>|<print>|\b(?:f|v)?printf\(|\bf?put(?:s|c|char)\(|\bstd::(?:cout|cerr|clog)\b"
    return re.findall(pattern, cpp_comments_removed(text))


def python_in_the_core(text: str) -> list[str]:
    return re.findall(r"pybind11|Python\.h|\bPy\w*Object\b", cpp_comments_removed(text))


def machine_flags(text: str) -> list[str]:
    return re.findall(r"-m(?:arch|tune|cpu)=\w+", text)


def foreign_places(text: str) -> list[str]:
    paths = r"(?<![\w.~>)-])/(?:work|tmp|home|root)(?![\w.-])[\w./-]*"
    hosts = r"\b(?:pypi\.org|pythonhosted\.org|anaconda\.org|conda\.io|crates\.io|npmjs\.com)\b"
    return re.findall(f"{paths}|{hosts}", text)


def no_first_line(text: str) -> list[str]:
    """C++ and Cython: the first line is a comment or a docstring of some words."""
    first = re.sub(r"^# cython:.*\n", "", text).split("\n", 1)[0]
    return [] if re.match(r'(?:// |# |r?""")\w+.*\s\S', first) else [f"the first line is {first!r}"]


def long_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > MOST_COLUMNS]


def no_module_docstring(text: str) -> list[str]:
    return [] if re.match(r'(?:#!.*\n)?r?"""\S+ \S', text) else ["no docstring in the first line"]


def length(text: str) -> list[str]:
    n = text.count("\n")
    return [f"{n} lines"] if n > MOST_LINES else []


def length_without_docstrings(text: str) -> list[str]:
    """A parameter is documented at the length it needs; the code around it is what must be short."""
    scopes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docs = [scope.body[0] for scope in scopes if ast.get_docstring(scope) is not None]
    n = text.count("\n") - sum((doc.end_lineno or 0) - doc.lineno + 1 for doc in docs)
    return [f"{n} lines"] if n > MOST_LINES else []


def public_scopes(tree: ast.Module | ast.ClassDef):
    for node in tree.body:
        if any(ast.unparse(d) == "overload" for d in getattr(node, "decorator_list", [])):
            continue  # a signature of the function that follows, which says what it does
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_scopes(node)


def what_users_call() -> dict[Path, set[str]]:
    """Names of classes and functions that the public modules offer, by the file that defines them."""
    found: dict[Path, set[str]] = defaultdict(set)
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            thing = getattr(module, name)
            if getattr(thing, "__module__", "").startswith("manyclass") and hasattr(thing, "__name__"):
                source = ROOT / "python" / (thing.__module__.replace(".", "/") + ".py")
                if source.exists():  # not of compiled code
                    found[source].add(thing.__name__)
    return found


def undocumented(text: str) -> list[str]:
    return [node.name for node in public_scopes(ast.parse(text)) if not ast.get_docstring(node)]


def undocumented_signatures(text: str, names: Collection[str] | None = None) -> list[str]:
    """Sections that numpydoc asks of what users call: Parameters, and Returns where something is returned.

    A text that begins with "Return" has said it.
    """
    faults = []
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if names is None or getattr(node, "name", None) in names]
    for node in public_scopes(tree):
        doc = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            init = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
            wants = ["Parameters"] if init and parameters(init[0]) else []
        elif any(ast.unparse(d).rpartition(".")[2] in ("property", "setter") for d in node.decorator_list):
            wants = []
        else:
            nothing = node.returns is None or ast.unparse(node.returns) in ("None", "NoReturn")
            wants = ["Parameters"] * bool(parameters(node)) + ["Returns"] * (
                not nothing and not doc.startswith("Return ")
            )
        faults += [
            f"{node.name}: no {w}"
            for w in wants
            if not re.search(rf"^{w}\n-+$", doc.replace("Yields\n------", "Returns\n-------"), re.M)
        ]
    return faults


def joint_entries(text: str) -> list[str]:
    """Entries of docstrings that name several parameters, attributes or values at once. Errors may share one."""
    scopes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    docs = "\n\n".join(ast.get_docstring(scope) or "" for scope in scopes)
    return re.findall(r"^(?!\w+Error)([*\w]+(?:, [*\w]+)+)(?: : |\n    )", docs, re.M)


def parameters(node: ast.FunctionDef) -> list[str]:
    args = node.args
    return [a.arg for a in args.posonlyargs + args.args + args.kwonlyargs if a.arg not in ("self", "cls")]


SIGNED = (
    'def f(x: int) -> int:\n    """Do.\n\n    Parameters\n    ----------\n    x : int\n\n    Returns\n    -------\n'
)


@pytest.mark.parametrize(
    ("rule", "fault", "fine"),
    [
        (
            lambda text: includes_from_the_right("select", text),
            '#include "manyclass/train/points/points.hpp"',
            '#include "manyclass/core/rng.hpp"',
        ),
        (threads_begun, "#pragma omp parallel", "std::this_thread::yield();  // no omp_get_thread_num here"),
        (threads_begun, "std::jthread other(f);", "run_team(n, f);"),
        (unnamed_randomness, "std::uniform_int_distribution<int> d;", "// not std::mt19937\nRng rng(key, i);"),
        (clocks, "auto seed = time(nullptr);", "run_time(x);"),
        (clocks, "std::chrono::steady_clock::now();", "Deadline deadline(seconds);"),
        (printing, "std::printf(format);", "std::snprintf(buffer);"),
        (python_in_the_core, "#include <pybind11/pybind11.h>", "// NumPy owns the memory"),
        (machine_flags, "-march" + "=native", "-O3"),
        (foreign_places, 'open("' + "/".join(["", "home", "me", "data"]) + '")', "~/data ../tmp/x a/root.hpp"),
        (foreign_places, "https://pypi" + ".org/simple", "pypi"),
        (no_first_line, "#pragma once", "// Views of a matrix.\n"),
        (no_first_line, "// X\n", "# cython: language_level=3\n# The ufuncs of special.\n"),
        (no_module_docstring, "import os\n", '"""What it is."""\n'),
        (long_lines, "/" * (MOST_COLUMNS + 1), "/" * MOST_COLUMNS),
        (length, "\n" * (MOST_LINES + 1), "\n" * MOST_LINES),
        (
            length_without_docstrings,
            '"""D\n"""\n' + "pass\n" * (MOST_LINES + 1),
            '"""D\n' + "\n" * MOST_LINES + '"""\n',
        ),
        (undocumented, "class A:\n    def f(self): ...", "class _A:\n    def f(self): ..."),
        (undocumented_signatures, SIGNED.replace("Returns", "Gives") + '    """', SIGNED + '    """'),
        (joint_entries, SIGNED.replace("x : int", "x, y : int") + '    """', SIGNED + '    int, or None\n    """'),
    ],
)
def test_each_rule_finds_a_planted_fault_and_spares_what_is_fine(rule, fault, fine):
    assert rule(fault)
    assert not rule(fine)


# C++


def test_a_stage_includes_only_stages_to_its_left():
    for path in files(".hpp", ".cpp", under="cpp/manyclass"):
        stage = path.relative_to(ROOT / "cpp/manyclass").parts[0]
        assert stage in STAGES, f"{stage} has no place in the flow"
        assert broken(lambda text, stage=stage: includes_from_the_right(stage, text), [path]) == []


def test_a_room_of_training_includes_itself_and_what_is_common():
    train = ROOT / "cpp/manyclass/train"
    for path in files(".hpp", ".cpp", under="cpp/manyclass/train"):
        room = path.relative_to(train).parts[0]
        assert broken(lambda text, room=room: other_rooms(room, text), [path]) == []


@pytest.mark.parametrize(("rule", "place"), [(threads_begun, "teams workers"), (clocks, "interrupt")])
def test_threads_begin_and_time_is_told_in_one_place(rule, place):
    core = ROOT / "cpp/manyclass/core"
    at = {core / f"{name}{suffix}" for name in place.split() for suffix in (".hpp", ".cpp")}
    assert any(rule(path.read_text()) for path in at)
    assert broken(rule, [path for path in files(".hpp", ".cpp", under="cpp") if path not in at]) == []


def test_all_randomness_is_named_by_seed_epoch_and_item():
    assert broken(unnamed_randomness, files(".hpp", ".cpp")) == []


def test_the_core_does_not_print_and_knows_no_python():
    core = files(".hpp", ".cpp", under="cpp/manyclass")
    assert broken(printing, core) == []
    assert broken(python_in_the_core, core) == []


def test_nothing_is_compiled_for_the_machine_that_builds_it():
    assert broken(machine_flags, files(".txt", ".toml", ".hpp", ".cpp", ".pyx", ".py")) == []


# All languages


def test_a_file_says_what_it_is_in_its_first_line():
    assert broken(no_first_line, files(".hpp", ".cpp", ".pyx")) == []
    assert broken(no_module_docstring, files(".py")) == []


def test_files_are_short():
    assert broken(length, files(".hpp", ".cpp", ".pyx", ".pxd")) == []  # stubs are one list
    assert broken(long_lines, files(".hpp", ".cpp")) == []  # clang-format leaves comments as they are
    assert broken(length_without_docstrings, files(".py")) == []


def test_no_file_names_a_place_on_a_machine_or_a_registry():
    text = [f for f in git_files() if b"\0" not in f.read_bytes()[:8192]]
    assert broken(foreign_places, text) == []


def test_the_top_level_is_what_the_readme_says():
    visible = {f.relative_to(ROOT).parts[0] for f in git_files()}
    visible = {name for name in visible if not name.startswith(".")}
    assert visible <= TOP_LEVEL
    assert visible >= TOP_LEVEL - {"bench"}


def quick_tests_missing(lines: list[str]) -> list[str]:
    """Lines of tests/quick.txt that name no file or no test in it."""
    missing = []
    for line in lines:
        file, _, test = line.removeprefix("-").partition("::")
        path = ROOT / "tests" / file
        if not path.is_file() or not re.search(rf"def {test or 'test_'}", path.read_text(encoding="utf-8")):
            missing.append(line)
    return missing


def test_each_line_of_the_quick_tests_names_one_that_there_is():
    lines = [line for line in (ROOT / "tests/quick.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert len(lines) > 100
    assert quick_tests_missing(lines) == []
    planted = ["core/test_none.py", "core/test_epoch.py::test_none"]
    assert quick_tests_missing([*lines, *planted]) == planted


# Python


def test_the_top_of_the_package_has_few_names_and_each_exists():
    assert len(manyclass.__all__) <= MOST_NAMES
    assert [name for name in manyclass.__all__ if not hasattr(manyclass, name)] == []


def test_public_code_is_documented():
    package = files(".py", under="python")
    assert broken(undocumented, package) == []
    for path, names in what_users_call().items():
        assert broken(lambda text, names=names: undocumented_signatures(text, names), [path]) == []


def test_an_entry_of_a_docstring_is_of_one_name():
    assert broken(joint_entries, files(".py", under="python")) == []


def test_ruff_finds_nothing(tmp_path):
    run(sys.executable, "-m", "ruff", "check")
    run(sys.executable, "-m", "ruff", "format", "--check")
    (tmp_path / "fault.py").write_text("import os\nx = [1,2]\n")
    for command in (["check"], ["format", "--check"]):
        with pytest.raises(AssertionError, match="fault"):
            run(sys.executable, "-m", "ruff", *command, "--config", ROOT / "pyproject.toml", tmp_path)


def test_mypy_finds_nothing(tmp_path):
    run(sys.executable, "-m", "mypy")
    (tmp_path / "fault.py").write_text("def f(x): return x\n")
    with pytest.raises(AssertionError, match="no-untyped-def"):
        run(sys.executable, "-m", "mypy", tmp_path / "fault.py")


def test_clang_format_changes_nothing(tmp_path):
    run(tool("clang-format"), "--dry-run", "-Werror", *files(".hpp", ".cpp"))
    (tmp_path / "fault.hpp").write_text("int  x ;\n")
    with pytest.raises(AssertionError, match="fault"):
        run(tool("clang-format"), "--dry-run", "-Werror", tmp_path / "fault.hpp")


# What pybind11 does and a stub does not: a metaclass of its own, and no constructor that says it takes nothing.
STUBTEST_ALLOWS = r"manyclass\._core\.[A-Z]\w*(\.__init__)?" + "\n"


def stubtest(modules: list[str], stubs: Path, tmp_path: Path) -> None:
    """Compare stubs with binaries: from elsewhere, so that an installation's binaries meet the stubs of this tree."""
    (tmp_path / "allow").write_text(STUBTEST_ALLOWS)
    options = ["--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", "allow", "--ignore-unused-allowlist"]
    run(sys.executable, "-m", "mypy.stubtest", *modules, *options, cwd=tmp_path, MYPYPATH=str(stubs))


@pytest.mark.long
def test_stubs_have_the_names_of_the_binaries(tmp_path):
    stubs = [p.relative_to(ROOT / "python").with_suffix("") for p in files(".pyi", under="python")]
    stubtest([".".join(stub.parts) for stub in stubs], ROOT / "python", tmp_path)

    planted = tmp_path / "manyclass"
    planted.mkdir()
    (planted / "__init__.pyi").touch()
    (planted / "_core.pyi").write_text("def absent() -> None: ...\n")
    with pytest.raises(AssertionError, match=r"_core\.absent is not present at runtime"):
        stubtest(["manyclass._core"], tmp_path, tmp_path)


def signature(node: ast.FunctionDef) -> str:
    """Names, kinds and presence of defaults, without types; what is given by keyword alone stands by its name."""
    args = node.args
    by_name = sorted(zip(args.kwonlyargs, args.kw_defaults, strict=True), key=lambda pair: pair[0].arg)
    args.kwonlyargs, args.kw_defaults = [name for name, _ in by_name], [default for _, default in by_name]
    for a in args.posonlyargs + args.args + args.kwonlyargs:
        a.annotation = None
    args.defaults = [ast.Constant(...) for _ in args.defaults]
    args.kw_defaults = [default and ast.Constant(...) for default in args.kw_defaults]
    return ast.unparse(args)


def bound_signature(function: object, owner: object, all_fields: dict[str, dict[str, bool]]) -> str:
    """The same of a bound function, from the first line of its docstring; of keywords that make a struct, `fields`."""
    (node,) = ast.parse(f"def {(function.__doc__ or '').splitlines()[0]}: ...").body
    assert isinstance(node, ast.FunctionDef)
    if node.args.kwarg:
        path = [owner.__name__] * isinstance(owner, type) + [node.name] * (node.name != "__init__")
        fields = all_fields[".".join(path)]
        node.args.kwarg = None
        node.args.kwonlyargs = [ast.arg(name) for name in fields]
        node.args.kw_defaults = [None if needed else ast.Constant(...) for needed in fields.values()]
    return signature(node)


def other_signatures(stub: str, binary: ModuleType) -> list[str]:
    """Functions and methods whose parameters differ between the stub of a binary and itself."""
    scopes = [(binary, ast.parse(stub))]
    scopes += [(getattr(binary, n.name), n) for n in scopes[0][1].body if isinstance(n, ast.ClassDef)]
    return [
        node.name
        for bound, scope in scopes
        for node in scope.body
        if isinstance(node, ast.FunctionDef)
        and "property" not in map(ast.unparse, node.decorator_list)
        and bound_signature(getattr(bound, node.name), bound, binary.fields) != signature(node)
    ]


@pytest.mark.parametrize(
    ("path", "binary"), [("python/manyclass/_core.pyi", manyclass._core), ("tests/_testing.pyi", pieces)]
)
def test_stub_of_the_core_has_the_signatures_of_the_binary(path, binary):
    stub = (ROOT / path).read_text()
    assert other_signatures(stub, binary) == []
    assert other_signatures(stub.replace("n_threads: int", "threads: int"), binary) != []
