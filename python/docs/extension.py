"""What the documentation adds to Sphinx: tables from the registry and from the benchmarks, pictures, help, mathematics.

Nothing here is typed twice: figures come from the front pages, which `bench/make_tables.py` writes from what was
recorded, facts of parts from `manyclass.registry`, and the words on commands from the commands.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cluster_pictures import divisions, task_stream
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.utils.math.latex2mathml import tex2mathml
from double_sum import double_sum
from packages import packages
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

import manyclass
from manyclass import plot, registry
from manyclass.choosing import recipes
from manyclass.cli.parser import build_parser
from manyclass.figures import FIGURES as FIGURES_IN_CODE
from manyclass.papers import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench/results"
FIGURES = ROOT / "bench/figures"
PAGES = (ROOT / "README.md", ROOT / "bench/README.md", *sorted(FIGURES.glob("*.md")))
PICTURES = "_pictures"
# Modules whose `__all__` is what users call, in the order of the reference.
MODULES = (
    "manyclass",
    *("manyclass.solvers", "manyclass.samplers", "manyclass.models", "manyclass.words.objectives"),
    *("manyclass.choice", "manyclass.datasets", "manyclass.metrics", "manyclass.plot"),
    *("manyclass.heads", "manyclass.losses"),
    *("manyclass.bounds", "manyclass.bounds.closed_forms", "manyclass.special"),
)
GUIDES = (
    *(
        "tutorial",
        "tags_for_texts",
        "next_item",
        "learn_every_day",
        "embeddings",
        "choice_probabilities",
        "location_choice",
    ),
    *("frozen_encoder", "travel_mode", "mixed_logit", "word_vectors"),
)


def records(name: str) -> list[dict[str, Any]]:
    """The figures of a file of bench/results."""
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        raise ExtensionError(
            f"{path} is missing: the documentation is built from a checkout, whose bench folder has the figures"
        )
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# Pages of the reference

# `manyclass.fitting.fit` in a docstring, and help(manyclass.fitting.streams) in a message
NAMED = r"(?:(?<!`)`|help\()(manyclass\.[\w.]*\w)(?:\)|`)"


def write_reference(app: Sphinx, _config: Any) -> None:
    """Write a page for each public module, with the names that it offers, each of which autosummary gives a page."""
    folder = Path(app.srcdir) / "reference/modules"
    folder.mkdir(exist_ok=True)
    for name in MODULES:
        module = importlib.import_module(name)
        first, _, rest = (module.__doc__ or "").strip().partition("\n\n")
        names = "".join(f"   {one}\n" for one in module.__all__ if not listed_elsewhere(name, module, one))
        text = f"{name}\n{'=' * len(name)}\n\n{first}\n\n{rest}\n\n.. currentmodule:: {name}\n\n"
        text += f".. autosummary::\n   :toctree: ../generated\n   :nosignatures:\n\n{names}"
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:  # else every page is built again
            path.write_text(text, encoding="utf-8")


def write_topics(app: Sphinx, _config: Any) -> None:
    """Write a page for each module that a message or a docstring names."""
    folder = Path(app.srcdir) / "reference/topics"
    folder.mkdir(exist_ok=True)
    for name in topics() - {*MODULES}:
        lines = (ast.get_docstring(ast.parse(source_of(name).read_text("utf-8"))) or "").split("\n")
        shown = "\n".join(f"   {line}".rstrip() for line in lines)
        path, text = folder / f"{name}.rst", f"{name}\n{'=' * len(name)}\n\n.. code-block:: text\n\n{shown}\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")


def topics() -> set[str]:
    """The modules that the package's own texts name, in a docstring or by `help` in a message."""
    package = Path(manyclass.__file__).parent
    texts = (path.read_text("utf-8") for path in package.rglob("*.py"))
    named = {name for text in texts for name in re.findall(NAMED, text)}
    return {name for name in named if source_of(name).exists()}


def source_of(name: str) -> Path:
    """The file of a module or a package, which may need what is not installed."""
    path = Path(manyclass.__file__).parents[1] / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def listed_elsewhere(name: str, module: Any, one: str) -> bool:
    """Whether a name is a module with a page of its own, the version, or a class that the top of the package offers."""
    thing = getattr(module, one)
    return inspect.ismodule(thing) or isinstance(thing, str) or (name != "manyclass" and one in manyclass.__all__)


# Docstrings

LITERAL = re.compile(
    r"(``.*?``|:[\w:]+:`.*?`|`[^`\n]*`|^ *>>> .*?(?=\n *\n|\Z)|\.\. math::.*?(?=\n\s*\n\S|\Z))",
    re.DOTALL | re.MULTILINE,
)


def reference_to(name: str) -> str:
    """A link to the page of what a docstring names by `help`."""
    if name in MODULES:
        return f":doc:`{name} </reference/modules/{name}>`"
    return f":doc:`{name} </reference/topics/{name}>`" if source_of(name).exists() else f":obj:`~{name}`"


def plain_words(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Let a docstring mean what a terminal shows: ``n_iter_`` is a name and ``|x|`` a size, neither is a reference.

    Labels of scikit-learn's own pages, in docstrings that are inherited, become their words; names become links.
    """
    text = re.sub(r":ref:`([^<`]*?)\s*(?:<[^>`]*>)?`", r"\1", "\n".join(lines))
    text = re.sub(r"(?<!`)`(manyclass\.[\w.]*\w)`(?!`)", lambda m: reference_to(m[1]), text)
    parts = LITERAL.split(text)
    for place in range(0, len(parts), 2):
        # Names at the head of a list of parameters are numpydoc's to mark.
        part = re.sub(
            r"^( *[\w*]+(?:, [\w*]+)* :)|(?<=\w)_(?!\w)", lambda m: m[1] or r"\_", parts[place], flags=re.MULTILINE
        )
        parts[place] = part.replace("|", r"\|")
    lines[:] = "".join(parts).split("\n")


def skip_requests(_app: Sphinx, _what: str, name: str, _thing: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn generates, whose texts refer to its own pages; None leaves it to others."""
    return True if re.fullmatch(r"set_\w+_request|set_output|get_metadata_routing", name) else None


def no_signature(_app: Sphinx, _what: str, _name: str, thing: Any, *_rest: Any) -> tuple[None, None] | None:
    """Keep numpydoc from giving a ufunc a signature, for which Sphinx has no place; its docstring tells it."""
    return (None, None) if isinstance(thing, np.ufunc) else None


# Tables


def table(header: list[str], rows: list[list[str]], widths: str = "auto") -> str:
    """A table as reStructuredText."""
    # A lone dash would be a list.
    rows = [["–" if cell == "-" else cell for cell in row] for row in rows]
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "   :class: figures", ""]
    for row in (header, *rows):
        for place, cell in enumerate(row):
            # |x| would be a substitution, and P@1 an address.
            cell = re.sub(r"(``.*?``)|([@|])", lambda m: m[1] or chr(92) + m[2], cell)
            lines.append(f"   {'*' if place == 0 else ' '} - {cell}")
    return "\n".join(lines) + "\n"


class FromFrontPage(SphinxDirective):
    """``.. measured:: NAME`` is the table, or the words, NAME of README.md, bench/README.md or bench/figures."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read and render it."""
        found = [t for t in map(self.lines, PAGES) if t]
        if not found:
            raise self.error(f"no front page has a table {self.arguments[0]!r}")
        if not found[0][0].startswith("|"):
            return self.parse_text_to_nodes("\n".join(found[0]))
        lines = (re.sub("`([^`]+)`", r"``\1``", line) for line in found[0])
        header, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
        return self.parse_text_to_nodes(
            table([cell or "\\" for cell in header], [[c or "\\" for c in r] for r in rows])
        )

    def lines(self, page: Path) -> list[str]:
        """The lines of the table on a page."""
        name = re.escape(self.arguments[0])
        text = page.read_text("utf-8") if page.exists() else ""
        marked = re.search(f"<!-- table {name} -->\n(.*?)\n<!-- end {name} -->", text, re.DOTALL)
        return marked[1].split("\n") if marked else []


class Figure(SphinxRole):
    """``:figure:`NAME``` is a number of manyclass/figures.py, and ``:figure:`NAME[0]``` one of several."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Read it."""
        name, _, place = self.text.rstrip("]").partition("[")
        value = getattr(FIGURES_IN_CODE, name)
        value = value[int(place)] if place else value
        return [nodes.Text(f"{value:,}" if isinstance(value, int) else f"{value:g}")], []


class Parts(SphinxDirective):
    """``.. parts:: KIND`` lists the parts of a kind with their facts, as the core tells them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Ask the registry."""
        found = registry.parts(self.arguments[0])
        if not found:
            raise self.error(f"the registry has no parts of kind {self.arguments[0]!r}")
        rows = [
            [
                f"``{facts.name}``",
                facts.sentence.replace("*", r"\*"),
                "biased" if facts.biased else "unbiased",
                ", ".join(f"``{n.name}`` = {n.default:g}" for n in facts.parameters) or "none",
                facts.source or "manyclass",
            ]
            for facts in found.values()
        ]
        return self.parse_text_to_nodes(
            table(["name", "what it does", "gradient", "own numbers", "source"], rows, "14 36 12 18 20")
        )


class Recipes(SphinxDirective):
    """``.. recipes::`` lists what "auto" stands for."""

    def run(self) -> list[nodes.Node]:
        """Ask the list."""
        rows = [[cell.replace("*", r"\*") or "-" for cell in line] for line in recipes.table()]
        return self.parse_text_to_nodes(
            table(
                ["recipe", "taken for", "models by solvers: classes, passes and decay", "step size", "tried"],
                rows,
                "9 29 36 17 9",
            )
        )


class Experiments(SphinxDirective):
    """``.. experiments::`` lists what `manyclass experiment` runs."""

    def run(self) -> list[nodes.Node]:
        """Ask the experiments."""
        rows = [[f"``{e.name}``", e.summary.replace("*", r"\*"), ", ".join(e.data)] for e in EXPERIMENTS.values()]
        return self.parse_text_to_nodes(table(["name", "what it shows", "data"], rows))


class CommandHelp(SphinxDirective):
    """``.. command-help:: NAME`` is what ``manyclass NAME --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Ask the command."""
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
            build_parser().parse_args([self.arguments[0], "--help"])
        text = told.getvalue()
        if not text:
            raise self.error(f"there is no command {self.arguments[0]!r}")
        return [nodes.literal_block(text, text, language="text", classes=["command-help"])]


# Pictures

DRAWN: dict[str, Callable[[], plot.Picture]] = {
    "recall_against_speed": lambda: plot.recall_against_speed(records("index_curves"), way="one_thread"),
    "loss_against_seconds": lambda: plot.loss_against_seconds([r for r in records("curves") if "best" in r]),
    "loss_without_certificate": lambda: plot.loss_against_seconds([r for r in records("curves") if "best" not in r]),
    "double_sum": double_sum,
    "packages": packages,
    "divisions": divisions,
    "task_stream": task_stream,
}


class DrawnPicture(SphinxDirective):
    """``.. drawn:: NAME`` is a picture of DRAWN, with its alternative text; the content is its caption."""

    required_arguments = 1
    has_content = True
    option_spec = {"width": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Draw it beside the sources."""
        name = self.arguments[0]
        if name not in DRAWN:
            raise self.error(f"there is no picture {name!r}; it must be one of {', '.join(DRAWN)}")
        folder = Path(self.env.srcdir) / PICTURES
        folder.mkdir(exist_ok=True)
        picture = DRAWN[name]()
        picture.save(folder / f"{name}.svg")
        caption = "\n".join(f"   {line}" for line in self.content)
        text = (
            f".. figure:: /{PICTURES}/{name}.svg\n   :alt: {one_line(picture.alt)}\n   :figclass: drawn\n\n{caption}\n"
        )
        return self.parse_text_to_nodes(text)


def scraper(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """For sphinx-gallery: save each new `manyclass.plot.Picture` of an example, with its alternative text."""
    known = block_vars["example_globals"].setdefault("_pictures_shown", [])
    text = ""
    for thing in list(block_vars["example_globals"].values()):
        if isinstance(thing, plot.Picture) and not any(thing is one for one in known):
            known.append(thing)
            path = Path(next(block_vars["image_path_iterator"])).with_suffix(".png")
            thing.save(path)
            place = path.relative_to(gallery_conf["src_dir"]).as_posix()
            width = round(100 * float(thing.figure.get_size_inches()[0]))
            text += f"\n.. image:: /{place}\n   :alt: {one_line(thing.alt)}\n   :width: {width}px\n   :class: drawn\n\n"
    return text


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())


class ReadingOrder:
    """Guides in the order of GUIDES, for sphinx-gallery."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> int:
        """The place of a guide."""
        return GUIDES.index(filename.removeprefix("plot_").removesuffix(".py"))


# Mathematics


def without_limits(tex: str) -> str:
    """The few commands that docutils does not know, in those it does."""
    return re.sub(r"\\[bB]igl?r?\b|\\Bigl|\\Bigr|\\bigl|\\bigr", "", tex)


def mathml(translator: Any, node: Any, *, block: bool) -> None:
    """Write a formula as MathML, which needs neither a script nor a font from elsewhere."""
    body = tex2mathml(without_limits(node.astext()), as_block=block)
    translator.body.append(f'<div class="math">{body}</div>' if block else body)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register all of it."""
    app.connect("config-inited", write_reference)
    app.connect("config-inited", write_topics)
    app.connect("autodoc-process-docstring", plain_words, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip_requests)
    app.connect("autodoc-process-signature", no_signature, priority=100)
    app.add_directive("measured", FromFrontPage)
    app.add_role("figure", Figure())
    app.add_directive("parts", Parts)
    app.add_directive("experiments", Experiments)
    app.add_directive("recipes", Recipes)
    app.add_directive("command-help", CommandHelp)
    app.add_directive("drawn", DrawnPicture)
    app.add_html_math_renderer(
        "mathml", (lambda t, n: mathml(t, n, block=False), None), (lambda t, n: mathml(t, n, block=True), None)
    )
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
