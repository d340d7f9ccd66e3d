"""Do the tests catch a fault in each objective, rule for u, step and selection? (Faults caught, of those planted.)

The faults of bench/faults.toml, a sign, a factor of alpha, a label that counts as a wrong class, half a step, are all
written into a copy of the core, each behind a switch that an environment variable turns on. So the copy is compiled
once, in some minutes, and each fault costs the tests that should see it. They must pass with every switch off:

    python bench/mutation.py                    # all, which takes most of an hour of one processor
    python bench/mutation.py ridge uniform      # the parts of these names; other rows of the results stay
    python bench/mutation.py --folder ../mutants ridge    # keeps the copy, so that the next build is short
    python bench/mutation.py --hardening                  # takes away what guards files, threads, state and time

Those of bench/hardening.toml are in Python, too, whose text is changed while the tests of a fault run. Writes
results/mutation.jsonl or results/hardening.jsonl, a row for each fault; make_tables.py writes the tables of
figures/mutation.md.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
RESULTS = {"faults": "mutation", "hardening": "hardening"}  # of a list of faults
CORE = Path("cpp/manyclass")
SWITCH = "MANYCLASS_MUTANT"
SECONDS = 600  # a fault whose tests do not end by then is caught: a fit runs on for ever

HEADER = f"""// Which of the faults of bench/faults.toml is switched on: 0 is none.
#pragma once

#include <cstdlib>
#include <type_traits>

namespace manyclass {{

inline const int chosen_mutant = [] {{
  const char* const number = std::getenv("{SWITCH}");
  return number == nullptr ? 0 : std::atoi(number);
}}();

constexpr bool mutant(int number) {{
  if (std::is_constant_evaluated()) return false;
  return chosen_mutant == number;
}}

}}  // namespace manyclass
"""


@dataclass(frozen=True)
class Fault:
    """One entry of faults.toml, numbered in its order."""

    number: int
    kind: str
    part: str
    fault: str
    file: str
    at: str
    to: str
    tests: tuple[str, ...]
    equivalent: str = ""  # why no test can see it

    @property
    def path(self) -> Path:
        """The file below the top: `file` stands in the core, or has the name of another place before it."""
        return Path(self.file) if self.file.startswith(("cpp/", "python/")) else CORE / self.file

    @property
    def is_compiled(self) -> bool:
        """Whether it is switched on by the environment; others are written when they are tried."""
        return self.path.suffix != ".py"

    @property
    def piece(self) -> str:
        """The text that the fault replaces."""
        marked = re.search("⟦(.*)⟧", self.at)
        return marked[1] if marked else self.at

    def __str__(self) -> str:
        return f"fault {self.number} ({self.part}, {self.fault}, {self.file})"


def read_faults(which: str = "faults") -> list[Fault]:
    faults = []
    for part in tomllib.loads((BENCH / f"{which}.toml").read_text("utf-8"))["part"]:
        common = {"kind": part["kind"], "part": part["name"], "file": part["file"], "tests": tuple(part["tests"])}
        faults += [Fault(len(faults) + n, **common | own) for n, own in enumerate(part["faults"], start=1)]
    return faults


def place_of(fault: Fault, text: str) -> tuple[int, int]:
    """Where the text that the fault replaces begins and ends."""
    plain = fault.at.replace("⟦", "").replace("⟧", "")
    if (found := text.count(plain)) != 1:
        sys.exit(f"{fault}: its text stands {found} times in the file and not once: {plain}")
    begin = text.index(plain) + max(0, fault.at.find("⟦"))
    return begin, begin + len(fault.piece)


def switched(piece: str, faults: list[Fault]) -> str:
    """Code that is `piece`, or what the chosen one of the faults makes of it."""
    if piece.endswith(";"):
        return "".join(f"if (mutant({f.number})) {{ {f.to} }} else " for f in faults) + f"{{ {piece} }}"
    code = f"({piece})"
    for fault in faults:
        code = f"(mutant({fault.number}) ? ({fault.to}) : {code})"
    return f"+ {code}" if re.match("[+-] ", piece) else code  # a term: a - b is a + (- b)


def with_switches(text: str, faults: list[Fault]) -> str:
    """A source file with the switches of its faults."""
    places = defaultdict(list)
    for fault in faults:
        places[place_of(fault, text)].append(fault)
    end = len(text)
    for (begin, last), here in sorted(places.items(), reverse=True):
        if last > end:
            sys.exit(f"{here[0]}: its text overlaps that of another fault of the file")
        text, end = text[:begin] + switched(text[begin:last], here) + text[last:], begin
    return text.replace("#include", '#include "manyclass/core/mutant.hpp"\n#include', 1)


def plant(faults: list[Fault], to: Path) -> None:
    """Copies the tree with all switches in it; files that stay as they were keep their age, for the sake of ninja."""
    by_file = defaultdict(list)
    for fault in faults:
        if fault.is_compiled:
            by_file[fault.path].append(fault)
    contents = {CORE / "core/mutant.hpp": HEADER.encode()}
    for name in ("cpp", "python", "tests", "CMakeLists.txt", "pyproject.toml"):
        source = ROOT / name
        for path in [source] if source.is_file() else source.rglob("*"):
            file = path.relative_to(ROOT)
            if file in by_file:
                contents[file] = with_switches(path.read_text("utf-8"), by_file[file]).encode()
            elif path.is_file() and path.suffix not in (".so", ".pyc"):
                contents[file] = path.read_bytes()
    for file, content in contents.items():
        if not ((to / file).exists() and (to / file).read_bytes() == content):
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            (to / file).write_bytes(content)


def build(tree: Path, optimised: bool) -> None:
    """Compiles the copy and puts its modules into its package."""
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True
    )
    options = {
        "CMAKE_BUILD_TYPE": "None",
        "CMAKE_CXX_FLAGS": f"-O{int(optimised)} -DNDEBUG -w",
        "MANYCLASS_WERROR": "OFF",
        "MANYCLASS_TESTING": "ON",
        "pybind11_DIR": pybind11.stdout.strip(),
        "Python_EXECUTABLE": sys.executable,
    }
    made = tree / "build"
    cmake = ["cmake", "-S", tree, "-B", made, "-G", "Ninja", *(f"-D{name}={value}" for name, value in options.items())]
    for command in (
        cmake,
        ["cmake", "--build", made, "-j1"],
        ["cmake", "--install", made, "--prefix", tree / "python"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def planted(tree: Path, fault: Fault) -> Iterator[None]:
    """Writes a fault of Python into the copy, and takes it out again."""
    if fault.is_compiled:
        yield
        return
    path = tree / fault.path
    text = path.read_text("utf-8")
    begin, end = place_of(fault, text)
    try:
        path.write_text(text[:begin] + fault.to + text[end:], "utf-8")
        yield
    finally:
        path.write_text(text, "utf-8")


def failure(tree: Path, tests: str, number: int) -> str | None:
    """What fails in some tests, a file and perhaps -k, with a fault: a test, or how they ended; None where all pass."""
    file, *which = shlex.split(tests)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"tests/{file}", *which]
    environment = os.environ | {SWITCH: str(number), "PYTHONPATH": str(tree / "python"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a fault and what it replaces may be of one second, and one length
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True, **pipes) as done:
        try:
            told, _ = done.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{file} does not end"
        finally:  # children of forks, too: where a lock is missing they may spin for ever
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"{file} ends by signal {-done.returncode}"
    failed = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", told, flags=re.MULTILINE)
    if failed is None:
        sys.exit(f"pytest of {tests} made no test fail and ended with {done.returncode}:\n{told}")
    return re.sub(r"\[.*", "", failed[1])


def key(row: Fault | dict[str, str]) -> tuple[str, ...]:
    """What a fault is, and what a row says it was."""
    if isinstance(row, Fault):
        return row.part, row.fault, row.file, row.piece, row.to
    return row["part"], row["fault"], row["file"], row["text"], row["becomes"]


def judge(tree: Path, fault: Fault, sound: set[str], run: str) -> dict[str, str]:
    """The row of a fault; `sound` are the tests that are known to pass without one."""
    row = {"run": run, "kind": fault.kind, "part": fault.part, "fault": fault.fault, "file": fault.file}
    row |= {"text": fault.piece, "becomes": fault.to}
    for tests in fault.tests:
        if tests not in sound and (found := failure(tree, tests, 0)):
            sys.exit(f"{found} fails without a fault")
        sound.add(tests)
        with planted(tree, fault):
            found = failure(tree, tests, fault.number)
        if found:
            return row | {"outcome": "caught", "by": found}
    return row | {"outcome": "equivalent" if fault.equivalent else "survived", "by": fault.equivalent}


def write(faults: list[Fault], rows: list[dict[str, str]], run: str) -> None:
    """Writes the rows of the results, those of faults that were not tried as they stood."""
    results = BENCH / "results" / f"{run}.jsonl"
    known = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    found = {key(row): row for row in [*known, *rows]}
    lines = [json.dumps(found[key(fault)], ensure_ascii=False) for fault in faults if key(fault) in found]
    results.write_text("".join(line + "\n" for line in lines), "utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description="Plants faults in a copy of the core and counts those that are seen."
    )
    arguments.add_argument("parts", nargs="*", help="names of parts; all where none is given")
    arguments.add_argument("--folder", type=Path, help="where the copy is, and stays")
    arguments.add_argument("--hardening", action="store_true", help="plant the faults of hardening.toml")
    arguments.add_argument("--check", action="store_true", help="only say which faults have no place any more")
    given = arguments.parse_args()
    which = "hardening" if given.hardening else "faults"
    faults, run = read_faults(which), RESULTS[which]
    if unknown := set(given.parts) - {f.part for f in faults}:
        sys.exit(f"no part is named {sorted(unknown)}; the parts are {sorted({f.part for f in faults})}")
    chosen = [f for f in faults if not given.parts or f.part in given.parts]
    if given.check:
        for fault in chosen:
            place_of(fault, (ROOT / fault.path).read_text("utf-8"))
        return
    tree = given.folder.resolve() if given.folder else Path(tempfile.mkdtemp(prefix="mutants-"))
    plant(faults, tree)
    build(tree, optimised=not given.hardening)  # what guards is not what takes the time
    rows: list[dict[str, str]] = []
    sound: set[str] = set()
    start = time.monotonic()
    for fault in chosen:
        rows.append(judge(tree, fault, sound, run))
        print(f"{fault}: {rows[-1]['outcome']} {rows[-1]['by']}", flush=True)
        write(faults, rows, run)  # now, so that nothing is lost where a later one is interrupted
    caught = sum(row["outcome"] == "caught" for row in rows)
    print(f"{caught} of {len(rows)} caught; {date.today()}, {time.monotonic() - start:.0f} s")
    if given.folder is None:
        shutil.rmtree(tree)


if __name__ == "__main__":
    main()
