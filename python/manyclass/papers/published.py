"""Published numbers of each paper, as published.toml has them with their tables and sections; and ours, row by row.

Sources: Fagan & Iyengar 2018 and the runs that its authors recorded; Titsias, NIPS 2016; Ruiz et al. and Yen et al.,
ICML 2018. What `manyclass experiment NAME --record FILE` has written is put beside them by `row_by_row`.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

_PAPERS: dict[str, Any] = tomllib.loads(
    files("manyclass.papers").joinpath("published.toml").read_text(encoding="utf-8")
)
FAGAN_IYENGAR, RUIZ = _PAPERS["fagan_iyengar"], _PAPERS["ruiz"]
TITSIAS, YEN = _PAPERS["titsias"], _PAPERS["yen"]

PAPERS = ("fagan_iyengar", "titsias", "ruiz", "yen")
CURVE = "a curve, of which no number is printed"
NOT_PUBLISHED = {"": "not in the paper"}
NOTES: Mapping[str, tuple[str, ...]] = {name: tuple(notes) for name, notes in _PAPERS["notes"].items()}
FILES: Mapping[str, str] = _PAPERS["files"]  # data that --fetch cannot get: a command needs PATH for them
COLUMNS = ("row", "published", "ours", "processor s", "what differs", "command")
SHAPE = ("features", "classes", "training points", "test points")


class Row(NamedTuple):
    """A row of a table, or of what a figure shows, of a paper.

    Attributes
    ----------
    experiment : str
    item : str
        As `summary.PaperFigure` has it.
    data : str
    method : str
    published : mapping of str to number or str
        By quantity; words alone have the quantity "".
    """

    experiment: str
    item: str
    data: str
    method: str
    published: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a recorded figure of it has, too."""
        return self[:4]


def rows(paper: str) -> list[Row]:
    """Return the rows of a paper: "fagan_iyengar", "titsias", "ruiz" or "yen"."""
    return [*{"fagan_iyengar": _fagan_iyengar, "titsias": _titsias, "ruiz": _ruiz, "yen": _yen}[paper]()]


def algorithms(paper: str) -> list[dict[str, str]]:
    """Return what a paper defines: "where", "what", the "call", the "test" that holds it, what "differs"."""
    definitions: list[dict[str, str]] = _PAPERS[paper]["algorithms"]
    return definitions


def _scores(
    name: str, item: str, methods_of: Mapping[str, Mapping[str, Any]], quantities: Sequence[str] = ()
) -> Iterator[Row]:
    """Rows of values by data set and method; lists of values are those of the `quantities`."""
    for data, methods in methods_of.items():
        for method, scores in methods.items():
            yield Row(name, item, data, method, dict(zip(quantities, scores, strict=True)) if quantities else scores)


def _words(methods: Iterable[str], words: str) -> dict[str, dict[str, str]]:
    """Words that stand for all values of several methods."""
    return {method: {"": words} for method in methods}


def _of_all(by_data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {data: {"all": values} for data, values in by_data.items()}


def _fagan_iyengar() -> Iterator[Row]:
    name, numbers = "fagan-iyengar", FAGAN_IYENGAR
    yield from _scores(name, "Table 1", _of_all(numbers["shapes"]), ("classes", "features", "rows"))
    yield from _scores(name, "Table 2", _of_all(numbers["rates"]))
    for data, methods in numbers["relative"].items():
        for method, (iclr, arxiv) in methods.items():
            recorded = numbers["recorded"].get(data, {}).get(method, {})
            relative = {"over Implicit's": arxiv, "over Implicit's, ICLR": iclr}
            known = {"log-loss": recorded.get("log_loss"), **relative, "error": recorded.get("error")}
            yield Row(name, "Table 3", data, method, {key: value for key, value in known.items() if value is not None})
    seconds = {data: (one, five, five / one) for data, (one, five) in numbers["seconds"].items()}
    yield from _scores(name, "Table 4", _of_all(seconds), ("Implicit, s", "five classes, s", "ratio"))
    for data in numbers["shapes"]:
        values = {"log-loss after 25 passes": numbers["halfway"][data]} if data in numbers["halfway"] else {"": CURVE}
        yield Row(name, "Figure 1", data, "implicit", values)
    yield Row(name, "Figure 2", "eurlex", "umax", {"Raman's over the proposed": numbers["raman"]})
    yield from _scores(name, "Figure 3", {"eurlex": _words(numbers["solvers"], CURVE)})


def _titsias() -> Iterator[Row]:
    name, numbers = "titsias", TITSIAS
    bounds = _words(("SOFT", "OVE"), "exact") | _words(("BOUCHARD",), "overrates large ones")
    yield from _scores(name, "Figure 1a", {"values": bounds})
    order = "SOFT above OVE above BOUCHARD; OVE-SGD comes to OVE"
    yield from _scores(name, "Figure 1b-c", {"plane": _words(("SOFT", "OVE", "BOUCHARD", "OVE-SGD"), order)})
    yield Row(name, "Figure 2", "toy", "OVE", {"": "the optimum"})
    yield from _scores(name, "Figure 2", {"toy": numbers["figure_2"]}, ("at the start", "at the end"))
    yield from _scores(name, "Table 1", _of_all(numbers["shapes"]), SHAPE)
    yield from _scores(name, "Table 2", numbers["table_2"])
    curves = {data: _words(methods, CURVE) for data, methods in numbers["table_2"].items()}
    yield from _scores(name, "Figure 3", curves)
    yield from _scores(name, "Figure 3d", numbers["large"])


def _ruiz() -> Iterator[Row]:
    name, numbers = "augment-reduce", RUIZ
    yield from _scores(name, "Table 1", _of_all(numbers["shapes"]), SHAPE)
    claims = {"OVE": {"": "below softmax A&R, but on EURLex-4K"}, "softmax A&R": {"": "above OVE"}}
    seconds = {
        data: {method: [value] for method, value in methods.items()} for data, methods in numbers["seconds"].items()
    }
    for row in (
        *_scores(name, "Table 2", seconds, ("seconds",)),
        *_scores(name, "Table 3", numbers["table_3"], ("log-likelihood", "accuracy")),
        *_scores(name, "section 4.1", {"synthetic": numbers["synthetic"]}, ("bound", "mean error")),
        *_scores(name, "Figure 2", dict.fromkeys(numbers["shapes"], claims)),
    ):
        yield from (row, Row(*row[:3], f"{row.method}, ours", row.published))


def _yen() -> Iterator[Row]:
    for data, (item, sizes) in YEN["tables"].items():
        yield Row("ldgs-skip-gram" if item == "Table 3" else "loss-decomposition", item, data, "all", sizes)
    claims = {method: {"": words} for method, words in YEN["claims"].items()}
    for data, item in YEN["figures"].items():
        yield from _scores("loss-decomposition", item, {data: claims})
    for method in ("GD", "GD-MIPS", "GD-Decomp-MIPS", "Word2vec-Neg", "Word2vec-HS"):
        speed = YEN["speed"].get(method)
        values = {"": CURVE} if speed is None else {"times GD's speed": speed}
        yield Row("ldgs-skip-gram", "Figure 3", "novels100", method, values)


# Beside ours


def row_by_row(paper: str, records: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the cells of the rows of a paper, in the order of COLUMNS; none is empty.

    Parameters
    ----------
    paper : str
        As in `rows`.
    records : iterable of dict
        What `manyclass experiment NAME --record FILE` has written: of two figures of a row the later one counts. Those
        of data that the paper does not have come last.

    Raises
    ------
    ValueError
        For a row that has no figure, unless it is of data that only users have.
    """
    published = rows(paper)
    names = {row.experiment for row in published}
    recorded = {}
    for record in records:
        recorded_row = Row(record["experiment"], record["item"], record["data"], record["method"], NOT_PUBLISHED)
        if recorded_row.experiment in names:
            recorded[recorded_row.key] = (recorded_row, record)
    known = {row.key for row in published}
    beside = [row for key, (row, _) in recorded.items() if key not in known]
    return [_cells(row, recorded[row.key][1] if row.key in recorded else None) for row in (*published, *beside)]


def _cells(row: Row, record: Mapping[str, Any] | None) -> list[str]:
    label = f"{row.item}, {row.data}" + ("" if row.method == "all" else f", {row.method}")
    differs = "; ".join(_differences(row)) or ("nothing known" if record is not None else "not known")
    command = in_shell(command_of(row, {} if record is None else record.get("options", {})))
    if record is None:
        if row.data not in FILES:
            known = ", ".join(FILES)
            raise ValueError(
                f"{' / '.join(row.key)}: no figure of it is recorded, and it is not of data that users bring ({known})"
            )
        form = "in the form of the extreme classification repository, in a folder PATH; --fetch cannot get them"
        needed = f"not run: needs train.txt and test.txt of {FILES[row.data]} {form}"
        return [label, _in_words(row.published), needed, "not run", differs, f"`{command}`"]
    return [label, _in_words(row.published), _in_words(record["values"]), _spent(record), differs, f"`{command}`"]


def _spent(record: Mapping[str, Any]) -> str:
    """Seconds of the processor, or else by the clock, as runs before processor time was recorded have them."""
    for key, words in (("cpu_s", ""), ("clock_s", " by the clock")):
        if key in record:
            return f"{record[key]:,.0f}{words}" if record[key] >= 1e3 else f"{record[key]:.4g}{words}"
    return "not recorded"


def _differences(row: Row) -> list[str]:
    """The sentences whose every key has the row's value."""
    return [
        difference["text"]
        for difference in _PAPERS["differs"]
        if all(getattr(row, key) in values for key, values in difference.items() if key != "text")
    ]


def _in_words(values: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        if value is None:
            return "none (training ended early)"
        if isinstance(value, float):
            return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    if all(value is None for value in values.values()):
        return shown(None)
    return "; ".join(f"{quantity} {shown(value)}".strip() for quantity, value in values.items())


def in_shell(words: Iterable[str]) -> str:
    """Return words as a line for a shell."""
    return " ".join(f'"{word}"' if "'" in word else shlex.quote(word) for word in words)


def command_of(row: Row, options: Mapping[str, Any]) -> Sequence[str]:
    """Return the words of the command that makes the figure of a row, with options that its record has."""
    data = f"{row.data}=PATH" if row.data in FILES else row.data
    words = ["manyclass", "experiment", row.experiment, "--data", data]
    if row.experiment in ("fagan-iyengar", "augment-reduce") and row.data == "eurlex57k":
        words += ["--settings-of", "eurlex"]
    words += ["--methods", *methods_of(row)] if row.method != "all" or row.item == "Table 4" else []
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    return words


def methods_of(row: Row) -> list[str]:
    """Return the names by which an experiment knows what a row is of."""
    if row.experiment == "fagan-iyengar":
        methods_of_item = {"Table 4": ["implicit", "umax"], "Figure 2": ["umax", "umax (raman)"]}
        ratio = ["implicit"] if row.item == "Table 3" and row.method != "implicit" else []
        return methods_of_item.get(row.item, [*ratio, row.method])
    if row.experiment == "augment-reduce":
        method = row.method.removesuffix(", ours")
        return [method if method != row.method else f"{row.method}, paper's steps"]
    if row.experiment == "ldgs-skip-gram" and row.method.startswith("GD-"):
        return ["GD", row.method]
    return [row.method]
