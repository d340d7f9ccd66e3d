"""The papers row by row: no empty cell, each command runs what its row says, each call and each test named exists."""

import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from house import ROOT

import manyclass
from manyclass import bounds, cli, losses, special
from manyclass.bounds import closed_forms
from manyclass.cli.options import arguments_from
from manyclass.cli.parser import build_parser
from manyclass.papers import EXPERIMENTS, published
from manyclass.papers.engine import record_figures
from manyclass.papers.summary import PaperFigure
from manyclass.words import objectives

RECORDED = ROOT / "bench/results/papers.jsonl"
PAPERS = pytest.mark.parametrize("paper", published.PAPERS)


def recorded():
    if not RECORDED.exists():
        pytest.skip("a source distribution has no benchmarks")
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@PAPERS
def test_no_cell_is_empty_and_no_row_is_told_twice(paper):
    cells = published.row_by_row(paper, recorded())
    assert all(len(row) == len(published.COLUMNS) and all(cell.strip() for cell in row) for row in cells)
    assert len({row[0] for row in cells}) == len(cells) >= len(published.rows(paper))


@PAPERS
def test_a_row_that_was_not_run_names_the_files_that_it_needs(paper):
    for row, _, ours, spent, _, command in published.row_by_row(paper, recorded()):
        data = row.split(", ")[1]
        assert ours.startswith("not run: ") == (spent == "not run")
        if spent == "not run":
            assert f"needs train.txt and test.txt of {published.FILES[data]}" in ours
            assert f"--data {data}=PATH" in command


@pytest.mark.parametrize(
    ("spent", "shown"),
    [({"cpu_s": 2.25, "clock_s": 9}, "2.25"), ({"clock_s": 2880}, "2,880 by the clock"), ({}, "not recorded")],
)
def test_seconds_are_of_the_processor_or_else_by_the_clock(spent, shown):
    record = {"experiment": "titsias", "item": "Table 2", "data": "mnist", "method": "SOFT", "values": {"error": 0.07}}
    cells = {row[0]: row for row in published.row_by_row("titsias", [*recorded(), record | spent])}
    assert cells["Table 2, mnist, SOFT"][3] == shown


@cache
def parser_of_experiments():
    return build_parser(["experiment"])


def options_of(words):
    """The experiment and the options that a command has, as the command line reads them."""
    args = arguments_from(parser_of_experiments().parse_args(words[1:]), cli.experiment.ExperimentArguments)
    return EXPERIMENTS[args.name], args.options


@PAPERS
def test_each_command_makes_the_runs_of_its_row(paper):
    by_label = {cells[0]: cells[-1].strip("`") for cells in published.row_by_row(paper, recorded())}
    names = published.PAPERS[paper]
    for record in (r for r in recorded() if r["experiment"] in names):
        method = "" if record["method"] == "all" else f", {record['method']}"
        command = by_label.pop(f"{record['item']}, {record['data']}{method}", None)
        if command is not None:
            experiment, options = options_of(shlex.split(command))
            assert experiment.name == record["experiment"]
            assert record["data"] in options.places
            methods = {run.method for run in experiment.runs(record["data"], options)}
            named = record["method"].removesuffix(", ours")
            assert methods
            assert record["method"] == "all" or any(method.startswith(named) for method in methods)
    for label, command in by_label.items():  # those that were not run
        experiment, options = options_of(shlex.split(command))
        assert [*options.places] == [label.split(", ")[1]]
        assert experiment.runs(*options.places, options)


def test_a_command_that_names_what_there_is_not_is_found():
    with pytest.raises(SystemExit):
        options_of(["manyclass", "experiment", "titsias", "--planted"])
    experiment, options = options_of(["manyclass", "experiment", "titsias", "--data", "bibtex", "--methods", "planted"])
    assert experiment.runs("bibtex", options) == []


def test_a_row_with_neither_a_figure_nor_a_reason_is_refused():
    with pytest.raises(ValueError, match=r"mnist / all: no figure of it is recorded"):
        published.row_by_row("fagan_iyengar", [])


def test_a_row_has_the_figure_that_was_recorded_last():
    rows = [{**one, "values": dict.fromkeys(one["values"], 12.5)} for one in recorded()]
    planted = published.row_by_row("titsias", [*recorded(), *rows])
    assert all("12.5" in row[2] or row[3] == "not run" for row in planted)
    assert any("12.5" not in row[2] for row in published.row_by_row("titsias", recorded()))


@PAPERS
def test_what_a_paper_defines_can_be_called_as_it_says_and_is_held_by_a_test_that_there_is(paper):
    names = {name: getattr(manyclass, name) for name in manyclass.__all__}
    names |= {"bounds": bounds, "losses": losses, "special": special, "closed_forms": closed_forms}
    names |= {"objectives": objectives}
    tests = {
        name
        for path in (ROOT / "tests").glob("*/test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    found = published.algorithms(paper)
    assert len(found) >= 15
    for one in found:
        assert eval(one["call"], dict(names)) is not None
        assert one["test"] in tests, one["test"]


# Recording


def record_of(**more):
    machine = {"cpu": "fast", "cores": 2, "isa": "avx2", "load": 1.5}
    return {"finished": "2026-01-02T03:04", "version": "1", "machine": machine, "cpu_seconds": 1.25, **more}


def test_figures_are_appended_with_what_ran_them(tmp_path):
    file = tmp_path / "results" / "papers.jsonl"
    figure = PaperFigure("Table 2", "mnist", "OVE", {"norm": 0.5, "error": float("nan")}, [record_of(), record_of()])
    report = [figure]
    command = "manyclass experiment titsias --data mnist --methods OVE --seeds 2"
    for _ in range(2):
        assert record_figures(report, "titsias", command, file) == 1
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == 2 * [
        {
            "run": "2026-01-02 titsias",
            "experiment": "titsias",
            "item": "Table 2",
            "data": "mnist",
            "method": "OVE",
            "values": {"norm": 0.5, "error": None},
            "runs": 2,
            "load": [1.5, 1.5],
            "cpu_s": 2.5,
            "command": command,
        }
    ]
    other = {"cpu": "slow", "cores": 2, "isa": "avx2", "load": 1.5}
    on_another = PaperFigure("Table 2", "mnist", "OVE", {"norm": 0.5}, [record_of(machine=other)])
    record_figures([on_another], "titsias", command, file)
    runs = [json.loads(line) for line in (tmp_path / "results" / "runs.jsonl").read_text().splitlines()]
    assert [(run["run"], run["cpu"]) for run in runs] == [
        ("2026-01-02 titsias", "fast"),
        ("2026-01-02 titsias 2", "slow"),
    ]


def test_the_command_records_what_the_page_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    argv = ["experiment", "titsias", "--data", "values", "plane", "--max-iter", "3", "--record", "papers.jsonl"]
    assert cli.main(argv) == 0
    assert "7 figures recorded in papers.jsonl" in capsys.readouterr().out
    lines = [json.loads(line) for line in Path("papers.jsonl").read_text().splitlines()]
    cells = published.row_by_row("titsias", [*recorded(), *lines])
    bound = next(line for line in lines if line["method"] == "OVE" and line["item"] == "Figure 1b-c")["values"]["bound"]
    (row,) = [row for row in cells if row[0] == "Figure 1b-c, plane, OVE"]
    assert f"bound {bound:.4g}" in row[2]
    assert row[5] == "`manyclass experiment titsias --data values plane --max-iter 3`"
