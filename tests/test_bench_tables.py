"""The front pages: their tables are the recorded figures, their lengths are bounded, what they link exists."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
# The first page sells and teaches in a screen and a half; the second has one table a question.
MOST_WORDS = 1200
MOST_LINES_OF_BENCH = 150

if not BENCH.exists():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)


@pytest.fixture(scope="module")
def make_tables():
    spec = importlib.util.spec_from_file_location("bench_make_tables", BENCH / "make_tables.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)  # for what it imports
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kinds(make_tables):
    return sys.modules["table_kinds"]


def measurements():
    return {path.stem: path.read_text("utf-8").splitlines() for path in sorted((BENCH / "results").glob("*.jsonl"))}


def test_writing_the_tables_again_changes_no_page(make_tables):
    for path in make_tables.PAGES:
        text = path.read_text("utf-8")
        assert make_tables.with_tables(text) == text
        planted = text.replace("\n<!-- end", "\n| 77 |\n<!-- end", 1)
        assert make_tables.with_tables(planted) == text != planted


def test_every_table_stands_on_one_page_and_every_file_of_figures_in_a_table(make_tables):
    names = [n for path in make_tables.PAGES for n in re.findall(r"<!-- table (\w+) -->", path.read_text("utf-8"))]
    assert sorted(names) == sorted(make_tables.TABLES)
    used = {file for table in make_tables.TABLES.values() for file in getattr(table, "files", None) or [table.file]}
    pictures = {"curves", "index_curves"}  # of the documentation
    assert used == measurements().keys() - {"runs"} - pictures


def test_every_figure_names_the_run_it_comes_from():
    files = measurements()
    runs = [json.loads(line) for line in files.pop("runs")]
    assert all({"run", "cpu", "cores", "date"} <= run.keys() for run in runs)
    named = {json.loads(line)["run"] for lines in files.values() for line in lines}
    assert named == {run["run"] for run in runs}


def test_figures_keep_their_digits_and_seeds_their_mean(kinds):
    seeds = kinds.Seeds(["1.0", "2.0"])
    assert f"{seeds}" == "1.0, 2.0"
    assert f"{seeds:.2f}" == "1.50"
    assert f"{seeds:/}" == "1.0/2.0"
    assert kinds.filled("{a} {b}", {"a": "0.10"}) == kinds.MISSING


def test_seeds_are_averaged_and_the_best_package_stands_beside_ours(kinds, monkeypatch):
    rows = [
        {"data": "d", "model": "ours()", "log_loss": "2.0", "p": kinds.Seeds(["40.0", "20.0"])},
        {"data": "d", "model": "ours()", "log_loss": "3.0", "p": kinds.Seeds(["41.0", "22.0"])},
        {"data": "d", "model": "theirs", "log_loss": "2.75", "p": kinds.Seeds(["39.0", "21.0"]), "settings": "x"},
        {"data": "d", "model": "slow", "stopped_cpu_s": 1500},
        {"data": "d", "model": "worse", "log_loss": "2.76", "p": kinds.Seeds(["38.0", "23.0"])},
    ]
    monkeypatch.setattr(kinds, "read", lambda file: rows)
    columns = {"model": "{model}", "n": "{seeds}", "loss": "{log_loss:.2f}", "P": "{p:/}"}
    every = kinds.OverSeeds("file", ("data", "model"), columns).lines()[2:]
    assert every[0] == "| ours() | 2 | 2.50 | 40.5/21.0 |"
    assert every[2] == "| slow | 1 | - | - |"
    columns = {"ours": "{model} {log_loss:.1f}", "best": "{best_model} {best_log_loss:.2f}"}
    for figure, best in (("log_loss", "theirs 2.75"), ("-p", "theirs 2.75")):
        beside = kinds.OverSeeds("file", ("data", "model"), columns, {}, ("()", figure)).lines()[2:]
        assert beside == [f"| ours() 2.5 | {best} |"]


def test_a_race_is_won_by_the_first_look_at_which_a_loss_was_reached(kinds, monkeypatch):
    def row(model, cpu_s, curve):
        curve = kinds.Seeds([[n, str(s), str(s), str(train), str(test)] for n, s, train, test in curve])
        return {"data": "d", "labels": "first", "model": model, "cpu_s": str(cpu_s), "curve": curve}

    raced = [
        row("ours()", 0.5, [(1, 0.25, 2.0, 3.0), (2, 0.5, 1.0, 2.5)]),
        row("reference", 2.0, [(1, 1.0, 1.5, 2.75), (2, 2.0, 1.204, 2.746), (4, 4.0, 1.0, 2.8)]),
        row("slow", 9.0, [(1, 9.0, 5.0, 5.0)]),
    ]
    whole = [{"data": "d", "labels": "first", "model": "trees", "cpu_s": "3.0", "log_loss": "2.7"}]
    monkeypatch.setattr(kinds, "read", {"races": raced, "quality": whole}.get)
    columns = {"model": "{model}", "train": "{train}: {train_s}", "test": "{test}: {test_s}"}
    assert kinds.Races("races", "quality", ("none", "reference"), columns).lines()[2:] == [
        "| ours() | 1.21: 0.50 | 2.75: 0.50 |",
        "| reference | 1.21: 2.00 | 2.75: 1.00 |",
        "| slow | 1.21: never | 2.75: never |",
        "| trees | - | 2.75: 3.00 |",
    ]
    assert kinds.Races("races", "quality", ("none",), columns).lines()[2] == "| ours() | - | - |"


def test_the_front_pages_are_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= MOST_WORDS
    assert len((BENCH / "README.md").read_text("utf-8").splitlines()) <= MOST_LINES_OF_BENCH


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *BENCH.rglob("*.md"), *(ROOT / ".github").glob("*.md")]))
def test_what_a_page_links_exists(page):
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.fixture(scope="module")
def mutation():
    spec = importlib.util.spec_from_file_location("bench_mutation", BENCH / "mutation.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("which", ["faults", "hardening"])
def test_every_fault_can_be_planted_and_its_row_is_that_of_today(which, mutation):
    faults = mutation.read_faults(which)
    for path in {fault.path for fault in faults}:
        here = [fault for fault in faults if fault.path == path]
        text = (mutation.ROOT / path).read_text("utf-8")
        if not here[0].is_compiled:
            assert all(mutation.place_of(fault, text)[0] > 0 for fault in here)
            continue
        switched = mutation.with_switches(text, here)  # says which fault has no place, or more than one
        assert all(f"mutant({fault.number})" in switched for fault in here)
    rows = [json.loads(line) for line in measurements()[mutation.RESULTS[which]]]
    assert [mutation.key(fault) for fault in faults] == [mutation.key(row) for row in rows]
    assert {row["outcome"] for row in rows} <= {"caught", "equivalent"}


def test_a_fault_without_a_place_is_named(mutation):
    fault = mutation.Fault(1, "step", "sgd", "sign", "step/sgd.hpp", "p[k] *= ⟦eta⟧;", "-eta", ())
    assert "p[k] *= (mutant(1) ? (-eta) : (eta));" in mutation.with_switches('#include "x"\np[k] *= eta;', [fault])
    for text in ("p[k] *= 2;", "p[k] *= eta; p[k] *= eta;"):
        with pytest.raises(SystemExit, match=r"fault 1 \(sgd, sign, step/sgd.hpp\): its text stands . times"):
            mutation.with_switches(text, [fault])
