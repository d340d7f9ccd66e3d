"""The engine of experiments: a run is made once, recorded whole, and failures and missing data are told, not hidden."""

import csv
import json
import sys
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import manyclass
from manyclass import SoftmaxClassifier
from manyclass.papers import Experiment, Options, run_experiment, write_report
from manyclass.papers.engine import RECORDS, MethodPlan, Run, finite
from manyclass.papers.summary import NO_PLOTS, Plot, Table, mean, ratio, spread
from manyclass.plot.style import Panel, Series


class Counting:
    """An experiment on three sets of which one is missing; it counts what it is asked for."""

    def __init__(self, *, fails_at=None, warns=False):
        self.made, self.loaded, self.fails_at, self.warns = [], [], fails_at, warns
        self.experiment = Experiment(
            name="counting",
            summary="Counts",
            data=("one", "absent", "two"),
            methods=("a", "b"),
            plans=self.plans,
            load=self.load,
            perform=self.perform,
            report=self.report,
        )

    def plans(self, name, options):
        return [MethodPlan("part", method, {"rate": 0.5}) for method in ("a", "b")]

    def load(self, name, options):
        self.loaded.append(name)
        if name == "absent":
            raise FileNotFoundError("no folder has it")
        return name

    def perform(self, run, context):
        assert context.data == run.data
        self.made.append((run.data, run.method, run.seed))
        if self.warns:
            warnings.warn("training diverged: it was too large", ConvergenceWarning, 2)
            warnings.warn("of no interest", UserWarning, 2)
        if (run.data, run.method) == self.fails_at:
            raise RuntimeError("the disk is on fire")
        return {"value": run.seed + 0.5, "infinite": float("inf"), "curve": [1.0, float("nan")]}

    def report(self, records):
        yield Table("values", "Values", ("data", "value"), [[r["data"], r["results"]["value"]] for r in records])
        yield Plot("curve", "A <curve>", "x", "y", [Panel("p", [Series("s", [1, 2], [1.0, None])])], log_y=True)
        yield "one & only"


@pytest.fixture
def notes():
    return []


def run(counting, folder, notes, **options):
    return run_experiment(counting.experiment, Options(**options), folder, note=notes.append)


def tables_of(outcome):
    return [item for item in outcome.items if isinstance(item, Table)]


def lines(folder):
    return [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]


def test_a_run_that_is_recorded_is_not_made_again_and_is_reported(tmp_path, notes):
    first = Counting()
    assert run(first, tmp_path, notes, data=("one",), seeds=2).n_made == 4
    second = Counting()
    outcome = run(second, tmp_path, notes, data=("one", "two"), seeds=2)
    assert second.loaded == ["two"]
    assert second.made == [("two", m, s) for m in "ab" for s in (0, 1)]
    assert (outcome.n_known, outcome.n_made, len(tables_of(outcome)[0].rows)) == (4, 4, 8)
    assert len(lines(tmp_path)) == 8


def test_any_change_of_the_configuration_is_another_run(tmp_path, notes):
    run(Counting(), tmp_path, notes, data=("one",), methods=("a",))
    changes = [{"max_rows": 5}, {"scale": 0.5}, {"n_jobs": 2}, {"seeds": 2}]
    for change in changes:
        assert run(Counting(), tmp_path, notes, data=("one",), methods=("a",), **change).n_made == 1
    base = Run("e", "p", "d", "m", 0, {"x": 1}, {"y": 2})
    others = [Run("e", "p", "d", "m", 0, {"x": 2}, {"y": 2}), Run("e", "p", "d", "m", 0, {"x": 1}, {"y": 3})]
    assert len({r.hash for r in (base, *others)}) == 3
    assert Run("e", "p", "d", "m", 0, {"b": 1, "a": 2}).hash == Run("e", "p", "d", "m", 0, {"a": 2, "b": 1}).hash


def test_a_record_has_seed_version_machine_configuration_seconds_and_results(tmp_path, notes):
    run(Counting(), tmp_path, notes, data=("one",), methods=("b",), seeds=2)
    record = lines(tmp_path)[1]
    assert record["seed"] == 1
    assert record["version"] == manyclass.__version__
    assert {"cpu", "cores", "isa", "load", "python", "numpy"} <= record["machine"].keys()
    assert record["model"] == {"rate": 0.5}
    assert record["hash"] == Run("counting", "part", "one", "b", 1, Options().sizes, {"rate": 0.5}).hash
    assert record["seconds"] >= 0
    assert record["results"] == {"value": 1.5, "infinite": None, "curve": [1.0, None]}


def test_missing_data_are_skipped_by_name(tmp_path, notes):
    outcome = run(Counting(), tmp_path, notes)
    assert notes == ["skipped absent: no folder has it"]
    assert [r["data"] for r in outcome.records] == ["one", "one", "two", "two"]


def test_an_experiment_without_any_of_its_data_is_an_error(tmp_path, notes):
    with pytest.raises(ValueError, match="experiment counting: none of the data sets absent is there"):
        run(Counting(), tmp_path, notes, data=("absent",))


def test_a_failing_run_is_recorded_and_told_and_made_again_the_next_time(tmp_path, notes):
    outcome = run(Counting(fails_at=("one", "a")), tmp_path, notes)
    assert (outcome.n_made, outcome.n_failed) == (4, 1)
    assert "failed: one, part, a, seed 0: RuntimeError: the disk is on fire" in notes
    assert [r["error"] for r in lines(tmp_path) if "error" in r] == ["RuntimeError: the disk is on fire"]
    assert len(tables_of(outcome)[0].rows) == 3
    trouble = tables_of(outcome)[-1]
    assert trouble.rows == [["one", "part", "a", "failed: RuntimeError: the disk is on fire", 1]]
    mended = Counting()
    outcome = run(mended, tmp_path, notes)
    assert mended.made == [("one", "a", 0)]
    assert outcome.n_failed == 0
    assert [t.name for t in tables_of(outcome)] == ["values"]


def test_warnings_of_training_are_recorded_and_counted(tmp_path, notes):
    outcome = run(Counting(warns=True), tmp_path, notes, data=("one",), methods=("a",), seeds=3)
    assert lines(tmp_path)[0]["warnings"] == ["training diverged: it was too large"]
    assert tables_of(outcome)[-1].rows == [["one", "part", "a", "training diverged", 3]]


def test_a_record_cut_off_in_its_writing_costs_that_run_only(tmp_path, notes):
    run(Counting(), tmp_path, notes, data=("one",))
    file = tmp_path / RECORDS
    file.write_bytes(file.read_bytes()[:-20])
    again = Counting()
    assert run(again, tmp_path, notes, data=("one",)).n_known == 1
    assert again.made == [("one", "b", 0)]
    assert any("line 2 is not a whole record" in note for note in notes)
    third = Counting()
    assert run(third, tmp_path, notes, data=("one",)).n_known == 2
    assert third.made == []


def test_an_interrupt_keeps_what_was_made(tmp_path, notes):
    counting = Counting()
    perform = counting.perform

    def interrupted(run, context):
        if run.data == "two":
            raise KeyboardInterrupt
        return perform(run, context)

    object.__setattr__(counting.experiment, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(counting, tmp_path, notes)
    assert [r["data"] for r in lines(tmp_path)] == ["one", "one"]


@pytest.mark.parametrize("solver", ["implicit", "lbfgs"])
def test_an_interrupt_of_a_fit_leaves_no_record_of_a_part(solver, tmp_path, notes):
    def interrupted(run, context):
        def press(state):
            raise KeyboardInterrupt

        X, y = np.eye(3, dtype=np.float32)[[0, 1, 2] * 5], np.array([0, 1, 2] * 5)
        SoftmaxClassifier(solver=solver).fit(X, y, callback=press)
        return {"value": 1.0}

    counting = Counting()
    object.__setattr__(counting.experiment, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(counting, tmp_path, notes)
    assert not (tmp_path / RECORDS).exists()


@pytest.mark.parametrize(("what", "options"), [("data set", {"data": ("x",)}), ("method", {"methods": ("x",)})])
def test_names_that_an_experiment_does_not_know_are_refused(what, options, tmp_path, notes):
    with pytest.raises(ValueError, match=f"a {what} of experiment counting is 'x'; it must be one of"):
        run(Counting(), tmp_path, notes, **options)


class Loads(HTMLParser):
    """What a page would load: every src, and every href of a link."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]


def page_of(tmp_path, notes, **extra):
    outcome = run(Counting(), tmp_path, notes, data=("one",))
    arguments = {"title": "T", "command": "manyclass experiment <x>", "machine": {"cpu": "fast"}, **extra}
    written = write_report(outcome.items, tmp_path, records=outcome.records, **arguments)
    return written, outcome.items, (tmp_path / "report.html").read_text()


def test_a_report_has_all_its_files_and_a_page_that_loads_nothing(tmp_path, notes):
    written, told, page = page_of(tmp_path, notes)
    assert [p.name for p in written] == ["values.md", "values.csv", "curve.png", "curve.svg", "report.html"]
    assert NO_PLOTS not in told
    assert all(p.stat().st_size > 0 for p in written)
    assert written[2].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in written[3].read_text()
    assert list(csv.reader(written[1].read_text().splitlines())) == [["data", "value"], ["one", "0.5"], ["one", "0.5"]]
    assert "| one | 0.5 |" in written[0].read_text()
    parsed = Loads()
    parsed.feed(page)
    assert len(parsed.found) == 1
    assert parsed.found[0].startswith("data:image/svg+xml;base64,")
    assert not {"script", "link", "iframe"} & set(parsed.tags)
    assert "url(" not in page
    for text in (
        "manyclass experiment &lt;x&gt;",
        "A &lt;curve&gt;",
        "one &amp; only",
        "fast",
        "&quot;rate&quot;: 0.5",
    ):
        assert text in page


def test_a_page_that_loads_something_is_found_out():
    parsed = Loads()
    parsed.feed('<img src="https://example.org/x.png"><link href="a.css">')
    assert parsed.found == ["https://example.org/x.png", "a.css"]


def test_without_matplotlib_the_report_says_so_and_goes_on(tmp_path, notes, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    written, told, page = page_of(tmp_path, notes)
    assert NO_PLOTS in told
    assert [p.name for p in written] == ["values.md", "values.csv", "report.html"]
    assert "no plots were drawn" in page


def test_numbers_that_json_does_not_have_become_none():
    assert finite({"a": [1.0, float("nan")], 2: (float("-inf"), "x", True)}) == {
        "a": [1.0, None],
        "2": [None, "x", True],
    }


def test_a_mean_over_seeds_exists_only_if_every_seed_has_a_value():
    assert mean([1.0, 3.0]) == 2.0
    assert mean([1.0, None]) is None
    assert mean([]) is None
    assert (spread([2.0, 1.0]), spread([1.0])) == ("1 to 2", "")
    assert (ratio(1.0, 2.0), ratio(1.0, None), ratio(None, 2.0), ratio(1.0, 0.0)) == (0.5, None, None, None)
