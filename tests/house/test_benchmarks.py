"""Benchmarks: their fixture keeps what it says, tables come from what a run saved, and each runs for a stranger.

What runs them is skipped without pytest-benchmark; a benchmark of an absent peer is skipped by itself.
"""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from house import ROOT

from manyclass import __version__, _core
from manyclass.datasets import load_multiclass, load_xmc

BENCH = ROOT / "bench"

if not BENCH.exists():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)

FILES = sorted(BENCH.glob("bench_*.py"))


def loaded(name):
    """A file of bench as a module."""
    spec = importlib.util.spec_from_file_location(f"of_bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_benchmarks(*arguments, cwd=ROOT):
    """Run pytest as a stranger does: without data, and not as a worker of this suite."""
    for module in ("pytest_benchmark", "pygal"):
        # Not imported here: pygal leaves a finder behind, of which each import that fails later on warns.
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}, of the extra 'bench'")
    hidden = ("MANYCLASS_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def saved(storage):
    """The benchmarks of the newest file that --benchmark-save wrote, by name."""
    (*_, newest) = sorted(storage.rglob("*.json"))
    return {one["name"]: one for one in json.loads(newest.read_text("utf-8"))["benchmarks"]}


def untimed(text):
    """Tests of a file that do not take the fixture, and lines that print: figures are told by the fixture."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names = [argument.arg for argument in node.args.args]
            found += [] if "timed" in names else [node.name]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            given = [keyword.arg for keyword in node.keywords]
            found += [] if "file" in given else ["print"]
    return found


def test_every_benchmark_goes_through_the_fixture():
    assert len(FILES) > 20
    assert {path.name: found for path in FILES if (found := untimed(path.read_text("utf-8")))} == {}
    assert untimed("def test_a(timed): ...\ndef test_b(data): print(1)") == ["test_b", "print"]


def test_a_run_is_saved_compared_and_drawn(tmp_path):
    """One file of bench, on data that need no folder."""
    storage = f"--benchmark-storage={tmp_path / 'saved'}"
    chosen = [BENCH / "bench_ordinary_data.py", "-k", "test_ordinary_data and iris and (logistic or they)"]
    told = run_benchmarks(*chosen, storage, "--benchmark-save=first")
    assert "ordinary_data: ordinary_data, iris" in told
    assert "accuracy" in told
    told = run_benchmarks(*chosen, storage, "--benchmark-compare=0001", f"--benchmark-histogram={tmp_path / 'drawn'}")
    assert "(0001_first)" in told
    assert list(tmp_path.glob("drawn*.svg"))
    runs = saved(tmp_path / "saved")
    assert set(runs) == {f"test_ordinary_data[iris-{what}]" for what in ("logistic regression", "columns as they are")}
    for run in runs.values():
        info = run["extra_info"]
        assert info["isa"] == _core.best_isa()
        assert info["version"] == __version__
        assert (info["source"], info["clock"], info["threads"]) == ("generated", "processor", 1)
        assert len(info["load"]) == len(info["load_after"]) == 3
        assert all(0.9 < accuracy <= 1 for accuracy in info["accuracy"])
        assert run["stats"]["rounds"] == 1


PLANTED = """
import time
import pytest

def wait(seconds):
    return lambda: time.sleep(seconds)

@pytest.mark.parametrize("what", ["ours"])
@pytest.mark.parametrize("name", ["set"])
def test_beside(timed, name, what):
    turns = []
    beside = {"theirs": lambda: turns.append("theirs")}
    answer = timed(lambda: turns.append("ours") or 7, rounds=3, warmup=1, beside=beside)
    assert answer == 7
    assert turns == ["theirs", "ours"] * 4
    assert len(timed.beside["theirs"]) == len(timed.seconds) == 3
    timed.row("step", selection="s", data="d", us=1.5)

def test_taken(timed):
    timed.taken([0.5, 0.25, 1.0], clock="processor", beside={"theirs": [1.0, 1.0, 1.0]})
    timed.tell(log_loss=2.5)

def test_clocks(timed):
    timed(wait(0.05), rounds=2, clock="processor")
    assert timed.seconds.max() < 0.05  # which passes without the processor

def test_data(timed, data_folder, small):
    assert small
    timed(lambda: (data_folder / "bibtex" / "train.txt.xz").read_bytes())
"""


@pytest.mark.long
def test_the_fixture_keeps_turns_ratios_and_times_that_were_taken_down(tmp_path):
    for file in ("conftest.py", "generated.py", "pytest.ini"):
        shutil.copy(BENCH / file, tmp_path)
    (tmp_path / "bench_planted.py").write_text(PLANTED, "utf-8")
    run_benchmarks(tmp_path, "--benchmark-save=planted", f"--benchmark-storage={tmp_path / 'saved'}", cwd=tmp_path)
    found = saved(tmp_path / "saved")
    assert found["test_beside[set-ours]"]["group"] == "planted: beside, set"
    assert found["test_beside[set-ours]"]["extra_info"]["rows"] == [
        {"file": "step", "selection": "s", "data": "d", "us": 1.5}
    ]
    taken = found["test_taken"]
    assert [taken["stats"][name] for name in ("min", "median", "max", "rounds")] == [0.25, 0.5, 1.0, 3]
    assert taken["extra_info"]["beside"] == {"theirs": {"median": 1.0, "min": 1.0, "ratio": 2.0}}
    assert (taken["extra_info"]["clock"], taken["extra_info"]["log_loss"]) == ("processor", 2.5)
    run_benchmarks(tmp_path, "--benchmark-disable", "-k", "not clocks and not beside", cwd=tmp_path)


def test_generated_sets_are_read_as_the_real_ones(tmp_path):
    generated = loaded("generated")
    for name in ("bibtex", "yelp-next"):
        shape = generated.SHAPES[name]
        generated.write_xmc(tmp_path / name, shape, 0)
        data = load_multiclass(tmp_path / name)
        assert data.X_train.shape == (shape.n_train, shape.n_features)
        assert 0.8 * shape.n_classes <= data.n_classes <= shape.n_classes
        X, Y = load_xmc(tmp_path / name / "train.txt.xz")
        assert Y.shape == (shape.n_train, shape.n_classes)
        assert 1.3 < Y.nnz / shape.n_train < 1.7
        assert abs(X - data.X_train).max() < 1e-3  # unit rows, to four digits


def benchmark(source, *rows, load=1.0):
    info = {
        "source": source,
        "cpu": "c",
        "cores": 2,
        "isa": "avx2",
        "version": "1",
        "load": [load],
        "load_after": [3.0],
    }
    return {"extra_info": info | {"rows": list(rows)}}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """saved.py over a folder with two measurements of two runs, and a file that --benchmark-save could have written."""
    module = loaded("saved")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    (tmp_path / "index.jsonl").write_text(
        '{"run": "old", "data": "a", "asked": 0.5, "batch": 9.0, "single": 9.0}\n'
        '{"run": "kept", "data": "b", "asked": 0.50, "batch": 8.10}\n'
    )
    (tmp_path / "runs.jsonl").write_text('{"run": "old"}\n{"run": "kept"}\n')
    path = tmp_path / "0001_quiet.json"

    def write(*benchmarks):
        whole = {"datetime": "2026-11-23T10:00:00", "commit_info": {"id": "abc"}, "benchmarks": list(benchmarks)}
        path.write_text(json.dumps(whole))
        return path

    return module, write


def lines(folder, file):
    return [json.loads(line) for line in (folder / f"{file}.jsonl").read_text("utf-8").splitlines()]


def test_saved_runs_take_the_place_of_what_they_measured(results, tmp_path):
    module, write = results
    a = {"file": "index", "data": "a", "asked": 0.5}
    new = {"file": "step", "selection": "s", "data": "é", "us": 1.5}
    module.take(write(benchmark("real", a | {"batch": 1.0}), benchmark("real", a | {"single": 2.0}, new, load=0.5)))
    run = "2026-11-23 0001_quiet"
    assert lines(tmp_path, "index")[0] == {"run": run, "data": "a", "asked": 0.5, "batch": 1.0, "single": 2.0}
    # What was not measured keeps its digits.
    assert (tmp_path / "index.jsonl").read_text().splitlines()[1].endswith('"asked": 0.50, "batch": 8.10}')
    assert lines(tmp_path, "step") == [{"run": run, "selection": "s", "data": "é", "us": 1.5}]
    runs = lines(tmp_path, "runs")
    assert [line["run"] for line in runs] == ["kept", run]  # none is left of the old one
    assert (runs[1]["load"], runs[1]["commit"], runs[1]["isa"]) == ("0.5 to 3.0", "abc", "avx2")


def test_figures_of_generated_data_come_into_no_table(results, tmp_path):
    module, write = results
    before = lines(tmp_path, "index")
    with pytest.raises(SystemExit, match=r"0001_quiet.json has no measurements of real data that a table shows"):
        module.take(write(benchmark("generated", {"file": "index", "data": "a", "asked": 0.5, "batch": 1.0})))
    assert lines(tmp_path, "index") == before


def test_rows_that_benchmarks_note_belong_to_files_whose_keys_they_have():
    keys, noted = loaded("saved").KEYS, {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "timed.row":
                names = {keyword.arg for keyword in node.keywords}
                noted.setdefault(node.args[0].value, []).append(names)
    assert noted.keys() == keys.keys()
    for file, some in noted.items():
        # None stands for **figures, which are looked at when it runs.
        assert all(None in names or set(keys[file]) <= names for names in some), file


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_benchmark_runs_on_generated_data(path, tmp_path):
    told = run_benchmarks(path, "--data=generated", "--benchmark-only", f"--benchmark-storage={tmp_path}")
    assert " passed" in told or " skipped in" in told  # those that are about real data alone are skipped
