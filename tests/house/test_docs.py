"""The documentation: its guides and lines of code run, what it lists is all there is, and no link is dead."""

import ast
import builtins
import html
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import numpy as np
import pytest
import scipy.sparse as sp
import test_codebase
from house import ROOT
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import manyclass
from manyclass import _core, cli, datasets, metrics, plot

DOCS = ROOT / "python/docs"
MADE = ("auto_guides", "generated", "modules", "topics")  # folders that a build in place writes
PAGES = sorted(path for path in DOCS.rglob("*.rst") if not {*MADE} & set(path.parts))
GUIDES = sorted((DOCS / "guides").glob("plot_*.py"))
BUILT_BY = ("sphinx", "numpydoc", "sphinx_gallery", "pydata_sphinx_theme")

if not (ROOT / "bench").exists():
    pytest.skip("the documentation is built from a checkout", allow_module_level=True)


# Guides


LONG = (
    "plot_tutorial",  # trains on the documentation of nine modules
    "plot_learn_every_day",  # learns sixteen days three times
    "plot_embeddings",  # trains on real titles
    "plot_next_item",  # trains on real logs
)


@pytest.mark.parametrize(
    "guide",
    [pytest.param(g, marks=[pytest.mark.long] if g.stem in LONG else []) for g in GUIDES],
    ids=lambda guide: guide.stem,
)
def test_a_guide_runs_and_its_pictures_tell_what_they_show(guide, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if guide.stem == "plot_travel_mode":
        pytest.importorskip("statsmodels", reason="the extra 'test' has statsmodels, which ships the data")
    left = runpy.run_path(str(guide))
    pictures = [thing for thing in left.values() if isinstance(thing, plot.Picture)]
    assert pictures
    assert all(len(picture.alt) > 40 for picture in pictures)
    assert capsys.readouterr().out.count("\n") >= 4


def first_lines(guide: Path) -> str:
    """The lines of code at the beginning of a guide, which a user would write."""
    return textwrap.dedent(ast.get_docstring(ast.parse(guide.read_text("utf-8"))).partition("below::\n\n")[2])


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_begins_with_lines_of_which_every_name_stands_in_it(guide):
    lines = first_lines(guide)
    assert 2 <= lines.count("\n") + 1 <= 5
    code = [node for tree in (lines, guide.read_text("utf-8")) for node in ast.walk(ast.parse(tree))]
    bound = {node.id for node in code if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {
        name.asname or name.name
        for node in code
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    bound |= {node.name for node in code if isinstance(node, ast.FunctionDef)} | {*dir(builtins)}
    assert {node.id for node in ast.walk(ast.parse(lines)) if isinstance(node, ast.Name)} <= bound


@pytest.mark.long
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_first_lines_of_a_guide_run(guide, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    exec(compile(first_lines(guide), guide.name, "exec"), runpy.run_path(str(guide)))


def test_there_are_the_guides_and_each_draws_or_says_why_not():
    assert [guide.stem for guide in GUIDES] == [
        *("plot_choice_probabilities", "plot_embeddings", "plot_frozen_encoder", "plot_learn_every_day"),
        *("plot_location_choice", "plot_mixed_logit", "plot_next_item"),
        *("plot_tags_for_texts", "plot_travel_mode", "plot_tutorial", "plot_word_vectors"),
    ]
    assert all(len(guide.read_text("utf-8").splitlines()) <= 190 for guide in GUIDES)


# Code on the pages


def blocks(language: str) -> list[tuple[str, str]]:
    """Name of the page and text of each block of code of a language."""
    found = []
    for path in PAGES:
        pattern = rf"\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)"
        found += [(path.name, block) for block in re.findall(pattern, path.read_text("utf-8"))]
    return [(name, "\n".join(line[3:] for line in block.split("\n"))) for name, block in found]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n in (("train.txt", 60), ("test.txt", 20)):
        rows = [f"{i % 4} {i % 4}:1 {4 + rng.integers(3)}:{rng.uniform(0.1, 1):.3f}" for i in range(n)]
        Path(name).write_text("\n".join([f"{n} 7 4", *rows]) + "\n")
    Path("text.txt").write_text("\n".join(" ".join(words) for words in sentences()))
    Path("fast.txt").write_text("\n".join(f"__label__{words[0]} {' '.join(words)}" for words in sentences()))
    Path("labelled.tsv").write_text("\n".join(f"{' '.join(words)}\t{words[0]}" for words in sentences()))
    events = [f"u{i},{item},{time}" for i, items in enumerate(sentences()) for time, item in enumerate(items)]
    Path("log.csv").write_text("\n".join(["user,item,time", *events]) + "\n")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "data"))
    Path("questions.txt").write_text(": colours\nred green one two\n")
    Path("pairs.csv").write_text("red green 9\nred one 1\ntwo one 8\n")
    return tmp_path


def sentences():
    rng = np.random.default_rng(0)
    topics = (["red", "green", "blue", "paint"], ["one", "two", "three", "count"])
    return [list(rng.choice(topics[i % 2], size=8)) for i in range(200)]


def run_command(line: str) -> None:
    """Run a command as a shell would."""
    name, *arguments = shlex.split(line)
    assert name == "manyclass", f"{line!r} is not a command of ours"
    assert cli.main(arguments) == 0, line


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block[0])
def test_python_on_the_pages_runs(block, folder):
    exec(compile(block[1], block[0], "exec"), {})


@pytest.mark.filterwarnings("ignore::")  # of MLflow, about itself
@pytest.mark.parametrize("package", ["mlflow", "onnxruntime"])
def test_the_code_for_mlflow_and_onnx_answers_as_the_model(package, folder):
    other = pytest.importorskip(package, reason=f"the page says: pip install {package}")
    (code,) = [block for name, block in blocks("py") if name == "deploy.rst" and f"import {package[:4]}" in block]
    if package == "mlflow":
        pd = pytest.importorskip("pandas", reason="the extra 'tables' has pandas")
        texts = [" ".join(words) for words in sentences()]
        model = manyclass.SoftmaxClassifier(random_state=0).fit(texts, ["colour", "number"] * 100)
        model.save("texts.model")
        exec(compile(code, "deploy.rst", "exec"), {})
        found = other.pyfunc.load_model("texts_mlflow").predict(pd.DataFrame({"text": texts[:5]}))
        assert found["labels"].tolist() == model.predict_top_k(texts[:5], 2)[0].tolist()
    else:
        pytest.importorskip("onnx", reason="the page says: pip install onnx")
        X, y = load_iris(return_X_y=True)
        X = X.astype(np.float32)
        model = manyclass.SoftmaxClassifier(model="linear", random_state=0).fit(X, y)
        exec(compile(code, "deploy.rst", "exec"), {"model": model})
        (p,) = other.InferenceSession("linear.onnx").run(None, {"X": X})
        np.testing.assert_allclose(p, model.predict_proba(X), rtol=1e-4, atol=1e-5)


def test_the_front_page_is_short_and_its_code_prints_what_it_shows(capsys):
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900
    ((code, shown),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.M | re.S)
    exec(compile(code, "README.md", "exec"), {})
    told = capsys.readouterr().out.splitlines()
    assert len(told) == shown.count("\n")
    for line, expected in zip(told, shown.splitlines(), strict=True):  # of other versions there are other sentences
        words = [set(re.findall(r"[a-zA-Z]\w+", some)) for some in (line, expected)]
        assert len(words[0] & words[1]) >= 0.6 * len(words[1]), line


def test_the_picture_of_the_front_page_and_its_seconds_are_those_recorded(monkeypatch):
    pytest.importorskip("matplotlib", reason="the extra 'plot' has matplotlib")
    monkeypatch.syspath_prepend(DOCS)
    picture = importlib.import_module("packages").packages()
    assert f"<title>{html.escape(picture.alt, quote=False)}</title>" in (DOCS / "_static/packages.svg").read_text(
        "utf-8"
    )
    rows = [json.loads(line) for line in (ROOT / "bench/results/cost_tags.jsonl").read_text("utf-8").splitlines()]
    seconds = {row["what"]: round(row["s"]) for row in rows}
    told = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert (
        f"{seconds['K = 10,000']} s of one core with 10,000 classes, and {seconds['K = 670,000']} s with 670,000"
        in told
    )


@pytest.mark.filterwarnings("ignore:.*converge")  # two passes of a command that shows how to call it
def test_commands_on_the_pages_run(folder, capsys):
    lines = [line for _, block in blocks("sh") for line in block.split("\n") if line]
    assert len(lines) >= 6
    for line in lines:
        run_command(line)


def literals(page: Path) -> list[str]:
    """The code in the second column of the tables of a page."""
    cells = re.findall(r"^     - (.*(?:\n       .*)*)", page.read_text("utf-8"), re.M)
    code = [literal for cell in cells for literal in re.findall(r"``([^`]+)``", cell)]
    return [text for text in code if text.startswith("manyclass ") or re.search(r"[(]| = |^model\.|^vectors", text)]


@pytest.mark.filterwarnings("ignore:.*converge")  # as above
@pytest.mark.filterwarnings("ignore:.*iterations")
def test_every_line_for_users_of_other_packages_runs(folder, capsys):
    code = literals(DOCS / "other_packages.rst")
    assert len(code) >= 40
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    Y = sp.csr_array(np.column_stack([y == 0, y == 1, y == 2, X[:, 0] > 0]).astype(np.float32))
    parts = (GridSearchCV, cross_val_score, make_pipeline, StandardScaler, TfidfVectorizer, OneHotEncoder)
    known = {
        **{part.__name__: part for part in parts},
        **{name: getattr(manyclass, name) for name in manyclass.__all__},
        **{"datasets": datasets, "metrics": metrics, "plot": plot, "X": X, "y": y, "Y": Y, "X_sparse": sp.csr_array(X)},
        **{"sentences": sentences(), "texts": [" ".join(words) for words in sentences()]},
        "text_labels": ["colour", "number"] * 100,
    }
    for line in code:
        if line.startswith("manyclass "):
            run_command(line)
        elif "fetch(" in line:  # what it needs was downloaded before
            with pytest.raises(FileNotFoundError):
                exec(compile(line, line, "exec"), known)
        elif "to_keyed_vectors" not in line or importlib.util.find_spec("gensim"):
            exec(compile(line, line, "exec"), known)


# What the pages list


@pytest.fixture(scope="module")
def listed():
    """Constants of extension.py, which itself needs Sphinx."""
    tree = ast.parse((DOCS / "extension.py").read_text("utf-8"))
    named = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    return {name: ast.unparse(named[name]) for name in ("MODULES", "GUIDES")}


def test_the_reference_has_every_public_module(listed):
    modules = eval(listed["MODULES"])  # a tuple of strings, some of them starred
    apart = {"manyclass.words"}  # whose names the top of the package offers
    assert set(modules) | apart == set(test_codebase.PUBLIC)
    index = (DOCS / "reference/index.rst").read_text("utf-8")
    assert [name for name in modules if f"modules/{name}\n" not in index] == []
    assert set(eval(listed["GUIDES"])) == {guide.stem.removeprefix("plot_") for guide in GUIDES}


def test_the_reference_lists_every_kind_of_part_once():
    page = (DOCS / "reference/parts.rst").read_text("utf-8")
    kinds = Counter(re.findall(r"^\.\. parts:: (\w+)$", page, re.M))
    assert kinds == Counter({part["kind"] for part in _core.registry()})


@pytest.mark.parametrize("page", ["index", "choose", "results", "other_packages", "protocols", "default"])
def test_every_figure_of_a_page_was_measured(page):
    told = (DOCS / f"{page}.rst").read_text("utf-8")
    pages = [ROOT / "README.md", ROOT / "bench/README.md", *(ROOT / "bench/figures").glob("*.md")]
    measured = "".join(path.read_text("utf-8") for path in pages)
    tables = re.findall(r"^\.\. measured:: (\w+)$", told, re.M)
    assert len(tables) >= (page != "choose")
    assert [name for name in tables if f"<!-- table {name} -->" not in measured] == []
    prose = re.sub(r"``.*?``|Python 3\.11|\.\. code-block:: (?:.|\n)*?\n(?=\S)", "", told)
    assert re.findall(r"\d[\d.]* (?:%|nats|s|seconds)\b|(?<![\d.])\d+\.\d+(?![\d.])", prose) == []


def test_each_promise_of_security_names_tests_that_there_are():
    promises = re.findall(r"^\| (?!promise|-)(.*) \| (.*) \|$", (ROOT / ".github/SECURITY.md").read_text("utf-8"), re.M)
    assert len(promises) > 20
    for promise, told in promises:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", told)
        assert named, promise
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / "tests" / file).read_text("utf-8"), re.M), test


def test_lines_of_the_pages_are_not_wide():
    wide = [
        f"{path.name}: {line[:60]}" for path in PAGES for line in path.read_text("utf-8").split("\n") if len(line) > 160
    ]
    assert [line for line in wide if "     - " not in line] == []


# The site


class Links(HTMLParser):
    """What a page links, loads and names."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.without_alt: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "link") and (given.get("src") or given.get("href")):
            self.loads.append(given.get("src") or given["href"])
        if tag == "img" and given.get("alt") is None:  # empty where a title says the same
            self.without_alt.append(str(given))


def read(page: Path) -> Links:
    parser = Links()
    parser.feed(page.read_text("utf-8"))
    return parser


def dead_links(site: Path) -> tuple[list[str], set[str]]:
    """Links within the site that lead nowhere, and those that leave it, which are not fetched."""
    # The theme keeps templates of its own among its files.
    pages = {page: read(page) for page in site.rglob("*.html") if "_static" not in page.parts}
    dead, outside = [], set()
    for page, found in pages.items():
        for link in (*found.links, *found.loads):
            if urlparse(link).scheme:
                outside |= {link} if not link.startswith("data:") else set()
                continue
            path, anchor = urldefrag(link)
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                dead.append(f"{page.relative_to(site)}: {link}")
    return dead, outside


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"><a href="b.html#x"><a href="c.html"><img src="d.png">'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#here"><a href="https://example.org/">')
    assert dead_links(tmp_path) == (
        ["a.html: b.html#x", "a.html: c.html", "a.html: d.png"],
        {"https://example.org/"},
    )


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_has_no_dead_link(tmp_path):
    missing = [name for name in BUILT_BY if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: pip install '.[docs]'")
    shutil.copytree(DOCS, tmp_path / "python/docs", ignore=shutil.ignore_patterns(*MADE))
    for name in ("results", "figures"):
        shutil.copytree(ROOT / "bench" / name, tmp_path / "bench" / name)
    shutil.copy(ROOT / "bench/README.md", tmp_path / "bench")
    shutil.copy(ROOT / "README.md", tmp_path)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", tmp_path / "python/docs", site]
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(Path(manyclass.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    dead, outside = dead_links(site)
    assert dead == []
    print("links that leave the site, not fetched:", *sorted(outside), sep="\n  ")
    for page in (page for page in site.rglob("*.html") if "_static" not in page.parts):
        found = read(page)
        assert [load for load in found.loads if urlparse(load).scheme in ("http", "https")] == [], page
        assert found.without_alt == [], page
