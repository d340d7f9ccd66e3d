"""Fixtures of all tests: the seed of random data, and where real data lie."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# Before OpenMP is loaded, which reads it once: teams may have as many threads as `four_cores` lets n_jobs ask for.
os.environ["OMP_NUM_THREADS"] = "4"
# NumPy's and SciPy's own threads wait by spinning: those of two workers of pytest-xdist would keep each other waiting.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a job that a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and of commands that tests start and interrupt


QUICK = (Path(__file__).parent / "quick.txt").read_text("utf-8").splitlines()  # its first lines say what a line means


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="seed of the random data; tests pass for any in 0-99")
    fuzzers = "seconds of each fuzzer; else they make the same histories at each call"
    parser.addoption("--fuzz-seconds", type=float, help=fuzzers)


def name_of_file(path: Path) -> str:
    return "/".join(path.parts[-2:])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no files without quick tests where only those are wanted."""
    if config.option.markexpr == "quick" and collection_path.suffix == ".py":
        return not any(line.startswith(name_of_file(collection_path)) for line in QUICK) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark the quick tests before a marker chooses among all."""
    tests = set()
    for item in items:
        file = name_of_file(item.path)
        test = f"{file}::{item.originalname}"
        if item.get_closest_marker("long") or f"-{test}" in QUICK:
            continue
        if test in QUICK or (file in QUICK and test not in tests):
            item.add_marker("quick")
        tests.add(test)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of a test's random data. A test must pass for any seed in 0-99."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let n_jobs be up to 4: results must not depend on it, and a machine may have one core."""
    monkeypatch.setattr("manyclass.checks.cores", lambda: 4)


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be written without waiting for the disk, which tests of files wait for longer than for all else."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def teams(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads share each batch in tests of threads: else the clock decides, and they may never meet."""
    if "thread" in request.node.name:
        monkeypatch.setenv("MANYCLASS_TEAMS", "always")


@pytest.fixture
def data_dir() -> Path:
    """Folder with the real data sets; the test is skipped where there is none."""
    folder = os.environ.get("MANYCLASS_DATA")
    if not folder:
        pytest.skip("needs real data: set MANYCLASS_DATA to the folder that holds bibtex/, delicious/, ...")
    return Path(folder)
