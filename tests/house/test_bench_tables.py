"""The pages of figures: their tables are what bench/results has, and what pages link exists."""

import importlib.util
import json
import re
import sys

import pytest
from house import ROOT

BENCH = ROOT / "bench"

pytest.importorskip("pandas", reason="the extra 'tables' has pandas")
if not BENCH.exists():
    pytest.skip("a source distribution has no benchmarks", allow_module_level=True)


@pytest.fixture(scope="module")
def make_tables():
    spec = importlib.util.spec_from_file_location("bench_make_tables", BENCH / "make_tables.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        spec.loader.exec_module(module)
    return module


def test_writing_the_tables_again_changes_no_page(make_tables):
    for path in make_tables.PAGES:
        text = path.read_text("utf-8")
        planted = text.replace("\n<!-- end", "\n| 77 |\n<!-- end")
        assert make_tables.with_tables(planted) == text


def test_every_table_stands_on_one_page(make_tables):
    names = [n for path in make_tables.PAGES for n in re.findall(r"<!-- table (\w+) -->", path.read_text("utf-8"))]
    assert sorted(names) == sorted(make_tables.TABLES)


def test_every_figure_names_the_run_it_comes_from():
    files = {path.stem: path.read_text("utf-8").splitlines() for path in (BENCH / "results").glob("*.jsonl")}
    runs = [json.loads(line) for line in files.pop("runs")]
    assert all({"run", "cpu", "cores", "date"} <= run.keys() for run in runs)
    assert {json.loads(line)["run"] for lines in files.values() for line in lines} == {run["run"] for run in runs}


def test_digits_are_those_recorded_and_seeds_have_a_mean(make_tables):
    comparisons = sys.modules["comparisons"]
    several = comparisons.Several(["1.0", "2.0"])
    assert f"{several:.2f}" == "1.50"
    assert f"{several:/}" == "1.0/2.0"
    assert comparisons.filled("{a}", {"a": "0.10"}) == "0.10"
    assert comparisons.filled("{a} {b}", {"a": "0.10"}) == comparisons.MISSING


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *BENCH.rglob("*.md"), *(ROOT / ".github").glob("*.md")]))
def test_what_a_page_links_exists(page):
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
