"""Published numbers of each paper, as published.toml has them with their tables and sections; and ours, row by row.

Sources: Fagan & Iyengar 2018 and the runs that its authors recorded; Titsias, NIPS 2016; Ruiz et al. and Yen et al.,
ICML 2018. What `manyclass experiment NAME --record FILE` has written is put beside them by `row_by_row`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

_DATA: dict[str, Any] = tomllib.loads(files("manyclass.papers").joinpath("published.toml").read_text(encoding="utf-8"))
TITSIAS, RUIZ = _DATA["titsias"], _DATA["ruiz"]  # settings of their experiments

# The experiments of each paper.
PAPERS = {
    "fagan_iyengar": ("fagan-iyengar",),
    "titsias": ("titsias",),
    "ruiz": ("augment-reduce",),
    "yen": ("loss-decomposition", "ldgs-skip-gram"),
}
NOT_PUBLISHED = {"": "not in the paper"}
NOTES: Mapping[str, tuple[str, ...]] = {name: tuple(notes) for name, notes in _DATA["notes"].items()}
FILES: Mapping[str, str] = _DATA["files"]  # data that --fetch cannot get: a command needs PATH for them
SHAPE = ("features", "classes", "training points", "test points")
COLUMNS = ("row", "published", "ours", "processor s", "what differs", "command")


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
    return [row for name in PAPERS[paper] for item in _DATA["tables"][name] for row in _rows(name, item)]


def values(experiment: str, item: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return what is published of a table or figure by data set and method; nothing of an experiment of ours."""
    return {row.key[2:]: row.published for row in _rows(experiment, item)}


def _rows(experiment: str, item: str) -> Iterator[Row]:
    table = _DATA["tables"].get(experiment, {}).get(item, {})
    for data, methods in table.items():
        for method, cells in methods.items() if data != "columns" else ():
            if isinstance(cells, list):
                cells = dict(zip(table["columns"], cells, strict=True))
            row = Row(experiment, item, data, method, {"": cells} if isinstance(cells, str) else cells)
            yield row
            if experiment == "augment-reduce" and method != "all":  # our steps have the same values beside them
                yield row._replace(method=f"{method}, ours")


def algorithms(paper: str) -> list[dict[str, str]]:
    """Return what a paper defines: "where", "what", the "call", the "test" that holds it, what "differs"."""
    definitions: list[dict[str, str]] = _DATA[paper]["algorithms"]
    return definitions


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
    recorded = {(r["experiment"], r["item"], r["data"], r["method"]): r for r in records}
    ours = {key: Row(*key, NOT_PUBLISHED) for key in recorded if key[0] in PAPERS[paper]}
    every_row = {row.key: row for row in rows(paper)}
    return [_cells(row, recorded.get(key)) for key, row in (every_row | ours | every_row).items()]


def _cells(row: Row, record: Mapping[str, Any] | None) -> list[str]:
    label = f"{row.item}, {row.data}" + ("" if row.method == "all" else f", {row.method}")
    differences = [
        difference["text"]
        for difference in _DATA["differs"]
        if all(getattr(row, key) in values for key, values in difference.items() if key != "text")
    ]
    if record is not None:
        ours, spent, differs = _in_words(record["values"]), _spent(record), "nothing known"
        command = record.get("command", "not recorded")
    elif row.data in FILES:
        form = "in the form of the extreme classification repository, in a folder PATH; --fetch cannot get them"
        ours = f"not run: needs train.txt and test.txt of {FILES[row.data]} {form}"
        spent, differs = "not run", "not known"
        command = f"manyclass experiment {row.experiment} --data {row.data}=PATH"
    else:
        known = f"it is not of data that users bring ({', '.join(FILES)})"
        raise ValueError(f"{' / '.join(row.key)}: no figure of it is recorded, and {known}")
    return [label, _in_words(row.published), ours, spent, "; ".join(differences) or differs, f"`{command}`"]


def _spent(record: Mapping[str, Any]) -> str:
    """Seconds of the processor, or else by the clock, as runs before processor time was recorded have them."""
    for key, words in (("cpu_s", ""), ("clock_s", " by the clock")):
        if key in record:
            return f"{record[key]:,.0f}{words}" if record[key] >= 1e3 else f"{record[key]:.4g}{words}"
    return "not recorded"


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
