"""How far are the kernels from what one thread of this machine can do? Per cent of the bound that applies.

The bounds are rates of small programs (roofline.cpp, built here by the system's compiler): random cache lines updated a
second, with ordinary and with huge pages; bytes read, and read and written, one after the other; multiply-adds; the
package's own exponential on numbers that stay in the first cache; BLAS on the shapes of a kernel; and rows of a table
of a kernel's shape, drawn at random, that are read and then, if the kernel does, updated. Each kernel has its work by
count, as the formula beside it says: the bound is the largest of its times at those rates. Seconds are of the
processor, one thread. The program of the bound has its turn before each round of the kernel, so that a busy machine
slows both: the fraction is the median over the rounds. W takes 1.3 GB; where data are generated small, 8 MB, and then
caches make bounds of memory meaningless.

Results go to results/roofline.jsonl, figures/speed.md and .benchmarks/roofline.svg, by make_tables.py from what was
saved:

    python -m pytest bench/bench_roofline.py --data=real --benchmark-save=roofline
    python bench/make_tables.py .benchmarks/*/*_roofline.json
"""

import ctypes
import json
import mmap
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import digits
from roofline_kernels import KERNELS, ROWS
from threadpoolctl import threadpool_limits

BENCH = Path(__file__).resolve().parent
ROUNDS, WARM_UP = 5, 1
N_FLOATS, N_SMALL = 1 << 29, 1 << 24  # of the arrays that are streamed and hit at random: 2 GiB, 64 MiB
UNITS = {
    "random lines": (1e6, "million lines"),
    "random lines, huge pages": (1e6, "million lines"),
    "bytes read": (1e9, "GB read"),
    "bytes updated": (1e9, "GB read and written"),
    "multiply-add": (1e9, "Gflop"),
    "multiply-add in double": (1e9, "Gflop in double"),
    "BLAS, same shapes": (1e9, "Gflop"),
    ROWS: (1e9, "GB of rows"),
    "exp": (1e9, "billion exp"),
}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """roofline.cpp, built."""
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        pytest.skip("no C++ compiler is found, which builds the programs of the bounds")
    path = tmp_path_factory.mktemp("roofline") / "roofline.so"
    options = ["-std=c++20", "-O3", "-fno-math-errno", "-shared", "-fPIC", f"-I{BENCH.parent / 'cpp'}"]
    done = subprocess.run([compiler, *options, BENCH / "roofline.cpp", "-o", path], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"roofline.cpp is not compiled by {compiler}: {done.stderr[:500]}")
    return ctypes.CDLL(str(path))


def pages(n, huge):
    """n touched floats on ordinary or on huge pages; None where the system does not say which."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    memory = mmap.mmap(-1, 4 * n)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    array = np.frombuffer(memory, dtype=np.float32)
    array[:] = 1
    return array


class Bound(SimpleNamespace):
    """A program, how much it does in a call, and after `measure` the most that it did in a second."""

    def measure(self):
        self.run()
        times = []
        for _ in range(5):
            begin = time.process_time()
            self.run()
            times.append(time.process_time() - begin)
        self.rate = self.amount / min(times)
        return self


@pytest.fixture(scope="session")
def bounds(library, small):
    """The bounds by name, measured once."""
    n = N_SMALL if small else N_FLOATS
    n_visits, n_rounds, n_exps = (100_000, 100_000, 100) if small else (2_000_000, 2_000_000, 20_000)
    ordinary, huge = pages(n, False), pages(n, True)
    plain = ordinary if ordinary is not None else np.ones(n, np.float32)
    x, out = np.linspace(-5, 5, 2048, dtype=np.float32), np.empty(2048, np.float32)
    int64, seed, at = ctypes.c_int64, ctypes.c_uint64(1), lambda a: a.ctypes.data_as(ctypes.c_void_p)

    def lines(array):
        return lambda: library.update_lines(at(array), int64(n // 16), int64(n_visits), seed)

    found = {
        "random lines": Bound(run=lines(plain), amount=n_visits),
        "bytes read": Bound(run=lambda: library.read_all(at(plain), int64(n)), amount=4 * n),
        "bytes updated": Bound(run=lambda: library.update_all(at(plain), int64(n)), amount=8 * n),
        "multiply-add": Bound(run=lambda: library.multiply_add_floats(int64(n_rounds)), amount=2 * 12 * 16 * n_rounds),
        "multiply-add in double": Bound(
            run=lambda: library.multiply_add_doubles(int64(n_rounds)), amount=2 * 12 * 8 * n_rounds
        ),
        "exp": Bound(
            run=lambda: library.exponentials(at(x), at(out), int64(2048), int64(n_exps)), amount=2048 * n_exps
        ),
    }
    if huge is not None:
        found["random lines, huge pages"] = Bound(run=lines(huge), amount=n_visits)
    return {name: bound.measure() for name, bound in found.items()}


def blas(shape):
    """Products of (rows, features) by (features, classes), by one thread."""
    n, d, k = shape
    A, B = np.ones((n, d), np.float32), np.ones((d, k), np.float32)
    out, repeats = np.empty((n, k), np.float32), max(1, int(2e9 / (2 * n * d * k)))

    def run():
        for _ in range(repeats):
            np.matmul(A, B, out=out)

    return Bound(run=run, amount=2 * n * d * k * repeats).measure()


def rows_of(library, table, small):
    """Rows drawn at random from a touched table, read, and if `updates` read and written."""
    n_visits, x = 20 if small else 400, np.ones(table.n_rows * table.n_floats + 16, np.float32)
    x = x[-(x.ctypes.data // 4) % 16 :]  # whole lines
    sizes = [ctypes.c_int64(n) for n in (table.n_rows, table.n_floats, table.a_visit, n_visits, table.updates)]
    amount = n_visits * table.a_visit * table.n_floats * (12 if table.updates else 4)
    return Bound(run=lambda: library.visit_rows(x.ctypes.data_as(ctypes.c_void_p), *sizes), amount=amount).measure()


BOUNDS = (
    "random lines", "random lines, huge pages", "bytes read", "bytes updated", "multiply-add", "multiply-add in double",
    "exp",
)  # fmt: skip


@pytest.mark.parametrize("what", BOUNDS)
def test_bounds(timed, bounds, what):
    """What one thread of this machine can do at most."""
    if what not in bounds:
        pytest.skip("the system has no such pages")
    bound = bounds[what]
    timed(bound.run, rounds=ROUNDS, warmup=1, clock="processor")
    per, unit = UNITS[what]
    timed.tell(**{f"{unit} a second": digits(bound.amount / timed.seconds.min() / per)})


def interleaved(kernel, bound):
    """Seconds of the kernel and of the bound's program in each round, after some that are dropped."""
    taken, of_bound = [], []

    def between():
        begin = time.process_time()
        bound.run()
        of_bound.append(time.process_time() - begin)

    kernel.rounds(ROUNDS + WARM_UP, between, taken)
    return np.array(taken[WARM_UP:]), np.array(of_bound[WARM_UP : len(taken)])


@pytest.mark.parametrize("what", KERNELS)
def test_kernels(timed, bounds, library, small, what, tmp_path):
    """The time of a kernel over the largest of its work's times at the rates of the bounds."""
    with threadpool_limits(1):
        kernel = KERNELS[what].make(small, tmp_path)
        rates = bounds | ({"BLAS, same shapes": blas(kernel.shape)} if kernel.shape else {})
        rates |= {ROWS: rows_of(library, kernel.table, small)} if kernel.table else {}
        work = {name: amount for name, amount in kernel.work.items() if name in rates}
        name = max(work, key=lambda name: work[name] / rates[name].rate)
        bound = rates[name]
        seconds, of_bound = interleaved(kernel, bound)
    at_bound = work[name] / bound.amount * of_bound
    timed.taken(seconds, clock="processor", beside={"bound": at_bound})
    timed.tell(**{f"at {other}": digits(work[other] / rates[other].rate / seconds.min()) for other in work})
    timed.row(
        "roofline",
        kernel=what,
        work=", ".join(dict.fromkeys(f"{digits(n / UNITS[at][0])} {UNITS[at][1]}" for at, n in work.items())),
        ms=digits(1e3 * float(np.median(seconds))),
        bound=name,
        bound_ms=digits(1e3 * float(np.median(at_bound))),
        per_cent=round(100 * float(np.median(at_bound / seconds))),
        goal=KERNELS[what].goal,
    )


@pytest.mark.parametrize("what", ["16 classes", "64 classes", "256 classes"])
def test_share_of_the_implicit_root(timed, small, what):
    """What the implicit step takes more than the explicit one of the same objective, as a share of itself."""
    makers = [KERNELS[f"visit, {what}{more}"].make for more in ("", ", explicit step")]
    implicit, explicit = (make(small, None) for make in makers)
    times = [[], []]
    for _ in range(2):  # fits in turn: of each the first pass, which touches memory, is dropped
        for kernel, taken in zip((implicit, explicit), times, strict=True):
            one = []
            kernel.rounds(ROUNDS, lambda: None, one)
            taken += one[WARM_UP:]
    timed.taken(times[0], clock="processor", beside={"explicit": times[1]})
    share = float(np.median((np.array(times[0]) - times[1]) / times[0]))
    timed.row("roofline", kernel=f"implicit root, {what}: share of a step", per_cent=round(100 * share), goal="<= 20")


def draw():
    """Draw the fractions as bars."""
    from manyclass.plot.style import COLOURS, GREY, Picture, canvas, drawing

    rows = [json.loads(line) for line in (BENCH / "results/roofline.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if "bound" in row]
    names = list(dict.fromkeys(row["bound"] for row in rows))
    with drawing():
        figure, (axes,) = canvas(1, width=7.0, height=0.9 + 0.24 * len(rows))
        for name in names:
            some = [(-i, row["per_cent"]) for i, row in enumerate(rows) if row["bound"] == name]
            axes.barh(*zip(*some, strict=True), color=COLOURS[names.index(name) % len(COLOURS)], label=name)
        for i, row in enumerate(rows):
            goal = row["goal"].removeprefix(">= ")
            if goal:
                axes.plot([float(goal)] * 2, [-i - 0.45, -i + 0.45], color="black", linewidth=2)
        axes.set_yticks([-i for i in range(len(rows))], [row["kernel"] for row in rows])
        axes.set(xlabel="per cent of the bound that applies; a stroke is the goal", xlim=(0, None))
        axes.axvline(100, color=GREY, linewidth=0.8)
        figure.legend(loc="outside upper right", ncols=3, frameon=False)
    told = "; ".join(f"{row['kernel']}: {row['per_cent']} per cent of {row['bound']}" for row in rows)
    Picture(figure, f"Kernels and their bounds. {told}.").save(BENCH.parent / ".benchmarks/roofline.svg")
