"""Main kernels execute as many instructions as the table says, in the core and in the C library's maths.

Seconds depend on the machine and on what else it does; counts of valgrind do not. Neither it nor QEMU knows AVX-512,
and to trap at each instruction takes 20 us: tests/cpp/test_widths.cpp does so for small calls, and the table has no
column of AVX-512. After a change that is meant to move counts, or with another compiler, write the table anew (some
minutes), or a few of its rows:

    PYTHONPATH=tests python tests/house/test_instructions.py
    PYTHONPATH=tests python tests/house/test_instructions.py "exact pass, dense" "top 5, a batch"
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from house import ROOT

from manyclass import _core

TABLE = ROOT / "tests/tables/instructions.json"
ISAS = ("baseline", "avx2")  # from narrow to wide
KERNELS = (
    "visit, 16 classes",
    "visit, 64 classes",
    "visit, 16 classes, explicit step",
    "visit, 64 classes, explicit step",
    "visit, 16 classes drawn singly",
    "visit of dense rows, 16 classes",
    "exact pass, sparse",
    "exact pass, dense",
    "exact forward, sparse",
    "exact forward, dense",
    "exact gradient in double, sparse",
    "exact gradient in double, dense",
    "embedding batch",
    "top 5, a batch",
    "top 5, one row",
    "index scan",
    "k-means",
    "A&R local steps",
    "skip-gram",
    "text parsing",
    "pairs",
    "pairs, most classes unmet",
    "margins over embeddings",
    "margins by features",
    "embeddings of 192",
    "top 5, sparse, halves",
    "top 5, sparse, bytes",
    "top 5, dense, halves",
    "top 5, dense, bytes",
    "steps by curvature, 64 classes",
    "top 5, counts mixed",
    "log-losses, counts mixed",
)
# Runs at loads of 7 to 10 differ by up to .004: long calls ask now and then, by the clock, whether they are to stop.
TOLERANCE = 0.02
COUNTED = re.compile(r"/(_core\.[^/]*|libm[.-][^/]*)$")  # files whose instructions count: not Python's own


def compilers(path: str) -> list[str]:
    """The compilers that made a library, as they say there."""
    return sorted({found.decode() for found in re.findall(rb"(?:GCC: |clang version )[^\0]+", Path(path).read_bytes())})


def counts_of(folder: Path) -> dict[str, int]:
    """Instructions of each kernel, from what callgrind wrote."""
    counts = {}
    for path in folder.glob("counts.*"):
        text = path.read_text("utf-8")
        if name := re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE):
            counts[name[1]] = instructions(text)
    return counts


def instructions(text: str) -> int:
    """The instructions of the counted files, without what they call."""
    counted, of_a_call, total = False, False, 0
    for line in text.splitlines():
        if line.startswith("ob="):
            counted = COUNTED.search(line) is not None
        elif line.startswith("calls="):
            of_a_call = True
        elif re.match(r"[\d+*-]", line):
            total += int(line.split()[1]) if counted and not of_a_call and " " in line else 0
            of_a_call = False
    return total


def count(isa: str, kernels: Sequence[str] = KERNELS) -> dict[str, int]:
    """Run the kernels under callgrind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        marks = folder / "marks.so"
        made = ["cc", "-shared", "-fPIC", "-O1", ROOT / "tests/instructions/marks.c", "-o", marks]
        subprocess.run(made, check=True)
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--compress-strings=no", "--compress-pos=no"]
        valgrind += [f"--callgrind-out-file={folder / 'counts'}"]
        # One thread; and the order of sets and dictionaries is the same in each run.
        fixed = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MANYCLASS_ISA": isa}
        env = os.environ | fixed | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [*valgrind, sys.executable, ROOT / "tests/instructions/count.py", marks, *kernels]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return counts_of(folder)


def moved(counts: dict[str, int], table: dict[str, int]) -> list[str]:
    """Kernels whose counts are not the table's. Fewer are told, too: the table is to say what is reached."""
    found = [f"{name}: no count" for name in table.keys() ^ counts.keys()]
    for name in table.keys() & counts.keys():
        ratio = counts[name] / table[name]
        if abs(ratio - 1) > TOLERANCE:
            found.append(f"{name}: {counts[name]:,} instructions, {ratio:.3f} times the table's")
    return sorted(found)


def more_by_wider(table: dict[str, dict[str, int]]) -> list[str]:
    """Kernels that need more instructions by an instruction set than by a narrower one."""
    return [
        f"{name}: {of_isa[wide]:,} instructions by {wide}, {of_isa[narrow]:,} by {narrow}"
        for name, of_isa in table.items()
        for narrow, wide in pairwise(ISAS)
        if of_isa[wide] > of_isa[narrow] * (1 + TOLERANCE)
    ]


def test_no_kernel_needs_more_instructions_by_a_wider_instruction_set():
    table = json.loads(TABLE.read_text("utf-8"))["instructions"]
    assert sorted(table) == sorted(KERNELS)
    assert more_by_wider(table) == []
    assert more_by_wider({"a": {"baseline": 1000, "avx2": 1100}, "b": {"baseline": 1000, "avx2": 1019}}) == [
        "a: 1,100 instructions by avx2, 1,000 by baseline"
    ]


@pytest.mark.long
@pytest.mark.parametrize("isa", ISAS)
def test_main_kernels_execute_as_many_instructions_as_the_table_says(isa):
    if not (ROOT / "bench").exists():
        pytest.skip("a source distribution has no benchmarks, whose kernels these are")
    for program in ("valgrind", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    table = json.loads(TABLE.read_text("utf-8"))
    if (made_by := compilers(_core.__file__)) != table["compilers"]:
        pytest.skip(f"the core was made by {made_by}, the table by {table['compilers']}")
    assert moved(count(isa), {name: of_isa[isa] for name, of_isa in table["instructions"].items()}) == []


def test_counts_are_of_the_core_without_what_it_calls():
    text = """desc: Trigger: Client Request: a kernel
ob=/usr/bin/python3.11
fn=eval
10 1000
cob=/lib/manyclass/_core.cpython-311.so
cfn=visit
calls=1 20
10 500

ob=/lib/manyclass/_core.cpython-311.so
fn=visit
20 300
cfn=exp
calls=7 30
20 150
+1 50

ob=/usr/lib/libm.so.6
fn=exp
30 150
totals: 1500
"""
    assert instructions(text) == 300 + 50 + 150


def test_a_kernel_that_executes_more_or_fewer_instructions_is_told():
    table = {"a": 1000, "b": 1000, "c": 1000, "d": 1000}
    assert moved(table | {"a": 1019, "b": 981}, table) == []
    found = moved({"a": 1500, "b": 900, "c": 1000, "e": 1}, table)
    told = ["a: 1,500 instructions, 1.500 times the table's", "b: 900 instructions, 0.900 times the table's"]
    assert found == [*told, "d: no count", "e: no count"]


def write(kernels: Sequence[str]) -> None:
    """Write the table, or the rows of these kernels."""
    made_by, known = compilers(_core.__file__), {}
    if kernels:
        table = json.loads(TABLE.read_text("utf-8"))
        assert made_by == table["compilers"], "the other rows are another compiler's"
        known = table["instructions"]
    asked = kernels or KERNELS
    with ThreadPoolExecutor() as pool:
        counts = dict(zip(ISAS, pool.map(lambda isa: count(isa, asked), ISAS), strict=True))
    known |= {name: {isa: counts[isa][name] for isa in ISAS} for name in asked}
    table = {"compilers": made_by, "instructions": {name: known[name] for name in KERNELS}}
    TABLE.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
