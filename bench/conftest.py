"""How a benchmark is timed, what is kept of it, and which data it has: the fixtures of all files here.

Each test is one contender: the rows of a group of pytest-benchmark's table are the values of its parameter `what`, and
its other parameters name the group. `timed` is pytest-benchmark's fixture with the machine, the load before and after,
and figures such as losses beside the seconds; `--benchmark-save`, `--benchmark-compare` and `--benchmark-histogram` do
what they always do. Figures that a table of README.md shows are noted by `timed.row`, and come into bench/results by
`python bench/make_tables.py .benchmarks/*/0001_NAME.json` from what `--benchmark-save=NAME` saved.

Data are those that MANYCLASS_DATA names, or with `--data=generated`, the default without it, small ones that are drawn
(generated.py); `small` says so to files that draw their own.
"""

import os
import platform
import sys
import time
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from generated import write_all

from manyclass import __version__, _core
from manyclass.datasets import load_multiclass

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # for twins that competitors are compared with


def machine():
    """What every row must say."""
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in names if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": os.cpu_count(), "isa": _core.best_isa(), "load": load()}


def load():
    """The load averages of one, five and fifteen minutes."""
    return [round(x, 1) for x in os.getloadavg()]


def digits(x, n=3):
    """A number with n digits that count, as tables show it."""
    rounded = float(f"{x:.{n}g}")
    return int(rounded) if abs(rounded) >= 10 ** (n - 1) else rounded


class Clock:
    """What pytest-benchmark reads: wall time, the processor time of all threads, or times that were taken down."""

    def __init__(self):
        self.read = time.perf_counter

    def __call__(self):
        return self.read()


CLOCK = Clock()
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


class Timed:
    """One measurement: its seconds, in pytest-benchmark's hands, and what is told of it."""

    def __init__(self, benchmark, source):
        self.benchmark, self.info = benchmark, benchmark.extra_info
        self.info |= machine() | {"version": __version__, "source": source, "clock": "wall", "threads": 1}

    def __call__(self, run, *, rounds=1, warmup=0, clock="wall", beside=None):
        """Time `run` and return its last answer.

        Before each round the runs `beside`, by name, have a turn on the same clock. Kept of each are its median, its
        least, and the median over the rounds of its seconds over those of `run`: the load, which changes from round to
        round, is in both.
        """
        self.info["clock"], CLOCK.read = clock, CLOCKS[clock]
        times = {name: [] for name in beside or {}}

        def others():
            for name, other in beside.items():
                begin = CLOCK()
                other()
                times[name].append(CLOCK() - begin)

        setup = others if beside else None
        answer = self.benchmark.pedantic(run, setup=setup, rounds=rounds, warmup_rounds=warmup)
        self.compare({name: taken[-rounds:] for name, taken in times.items()})
        return answer

    def taken(self, seconds, *, clock="wall", beside=None):
        """Give pytest-benchmark the seconds of rounds that were timed from inside: of passes, or by a process."""
        self.info["clock"], readings = clock, chain.from_iterable((0.0, float(s)) for s in seconds)
        CLOCK.read = lambda: next(readings)
        self.benchmark.pedantic(lambda: None, rounds=len(seconds))
        self.compare(beside or {})

    def compare(self, beside):
        """Keep the seconds of others in the same rounds."""
        self.beside = {name: np.array(times) for name, times in beside.items()}
        self.info["beside"] = {
            name: {"median": np.median(t), "min": t.min(), "ratio": np.median(t / self.seconds)}
            for name, t in self.beside.items()
        }

    @property
    def seconds(self):
        """Of each round; NaN with --benchmark-disable."""
        stats = self.benchmark.stats
        return np.array(stats.stats.data if stats else [np.nan])

    def tell(self, **figures):
        """Keep losses, ratios, sizes and settings, among them `threads`."""
        self.info |= figures

    def row(self, file, **figures):
        """Note a measurement, or part of one, of results/FILE.jsonl."""
        self.info.setdefault("rows", []).append({"file": file, **figures})


TOLD = []  # (group, name, figures) of what has run
COMMON = ("cpu", "cores", "isa", "load", "load_after", "version", "source", "clock", "rows", "beside")


@pytest.fixture
def timed(benchmark, request, which_data):
    """Time a run: see `Timed`."""
    given = dict(request.node.callspec.params) if hasattr(request.node, "callspec") else {}
    group = [str(value) for name, value in given.items() if name != "what" and isinstance(value, str | int | float)]
    file = request.node.path.stem.removeprefix("bench_")
    benchmark.group = ", ".join([f"{file}: {request.node.originalname.removeprefix('test_')}", *group])
    one = Timed(benchmark, which_data)
    yield one
    one.info["load_after"] = load()
    if benchmark.stats:
        TOLD.append((benchmark.group, str(given.get("what", request.node.name)), one.info))


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.benchmark(timer=CLOCK))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Skip what reads a data set that is not there, with the sentence of what is missing."""
    try:
        return (yield)
    except FileNotFoundError as error:
        pytest.skip(str(error))


pytest_runtest_call = pytest_runtest_setup


def shown(value):
    """A figure as the last lines of a run have it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def pytest_terminal_summary(terminalreporter):
    """Under pytest-benchmark's tables: what was told beside the seconds."""
    group = None
    for at, name, info in TOLD:
        if at != group:
            group = at
            common = {key: info[key] for key in ("isa", "clock", "source", "load", "load_after") if key in info}
            terminalreporter.write_line(f"\n{group} ({shown(common)})")
        figures = {key: value for key, value in info.items() if key not in COMMON}
        for other, times in info.get("beside", {}).items():
            figures[f"{other} takes"] = f"{times['ratio']:.2f} times as long"
        terminalreporter.write_line(f"  {name}: {shown(figures)}")
        for row in info.get("rows", []):
            terminalreporter.write_line(f"    {shown(row)}")


def pytest_addoption(parser):
    parser.addoption("--again", action="store_true", help="measure anew what results/quality.jsonl has a record of")
    parser.addoption("--data", choices=["real", "generated"], help="default: real where MANYCLASS_DATA is set")
    parser.addoption("--peers", metavar="PYTHON", help="bench_compress.py: an interpreter with fasttext and omikuji")
    parser.addoption("--other", metavar="FOLDER", help="bench_isa.py: a folder with another build of the package")
    parser.addoption("--soak", type=int, default=0, help="bench_serving.py: requests through which memory is watched")


@pytest.fixture(scope="session")
def which_data(request):
    """'real' or 'generated'."""
    chosen = request.config.getoption("--data") or ("real" if "MANYCLASS_DATA" in os.environ else "generated")
    if chosen == "real" and "MANYCLASS_DATA" not in os.environ:
        raise pytest.UsageError("--data=real, and MANYCLASS_DATA does not name a folder of data sets")
    return chosen


@pytest.fixture(scope="session")
def small(which_data):
    """Whether data are to be so small that a file takes seconds."""
    return which_data == "generated"


@pytest.fixture(scope="session")
def data_folder(which_data, tmp_path_factory):
    """The folder that MANYCLASS_DATA names, or its generated twin, which it then names."""
    if which_data == "real":
        yield Path(os.environ["MANYCLASS_DATA"])
        return
    folder = write_all(tmp_path_factory.mktemp("generated"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MANYCLASS_DATA", str(folder))
        yield folder


@pytest.fixture(scope="session")
def dataset(data_folder):
    """A function from a name to its first-label data: unit rows, unseen classes dropped."""
    return lru_cache(maxsize=2)(load_multiclass)  # tests of one data set follow each other


def dense_planted(n_classes, n_features, n_train, n_test, *, noise, seed=0):
    """Gaussian points around class means, so that the best classifier is a linear softmax: W_true and b_true.

    Means stand in a thousand clusters (one per ten classes where there are fewer than 10,000), with norms that vary by
    a factor of 1.35; classes are equally frequent. The smaller `noise`, the fewer classes a point may belong to.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((min(1000, n_classes // 10), n_features)) / np.sqrt(n_features)
    means = centres[rng.integers(0, len(centres), n_classes)]
    means = means + 0.7 * rng.standard_normal((n_classes, n_features)) / np.sqrt(n_features)
    means *= np.exp(0.3 * rng.standard_normal((n_classes, 1)))
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_train + n_test - n_classes)])
    X = means[y].astype(np.float32)
    X += np.float32(noise) * rng.standard_normal(X.shape, dtype=np.float32)
    order = rng.permutation(n_train)  # each class is among the training points
    return SimpleNamespace(
        X_train=X[order],
        y_train=y[order],
        X_test=X[n_train:],
        y_test=y[n_train:],
        W_true=(means / noise**2).astype(np.float32),
        b_true=(-np.square(means).sum(axis=1) / (2 * noise**2)).astype(np.float32),
    )
