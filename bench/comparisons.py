"""Tables of measurements of bench/results, as Markdown: lines of a file, and ours beside others."""

import json
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

BENCH = Path(__file__).resolve().parent
MISSING = "-"  # what a cell says that was not measured
OURS = ("SoftmaxClassifier", "MarginClassifier")
CLOSED_FORMS = ("prior", "naive Bayes", "centroids", "counts", "nearest rows")  # of bench_quality.py: no packages

Columns = Mapping[str, str]  # headers, and the formats of their cells


class Several(list[str]):
    """The figures of several seeds or cut-offs: their mean in a numeric format, else joined by the format itself."""

    def __format__(self, spec: str) -> str:
        return format(pd.to_numeric(pd.Series(self)).mean(), spec) if spec.endswith("f") else spec.join(self)


def read(*files: str, **where: Any) -> pd.DataFrame:
    """The measurements of some files that have these values."""
    lines = [line for file in files for line in (BENCH / f"results/{file}.jsonl").read_text("utf-8").splitlines()]
    rows = [json.loads(line, parse_float=str) for line in lines]
    for row in rows:  # a curve is a list of lists
        lists = {key: v for key, v in row.items() if isinstance(v, list) and not isinstance(v[0], list)}
        row |= {key: Several(map(str, v)) for key, v in lists.items()}
    return pd.DataFrame([row for row in rows if where.items() <= row.items()], dtype=object)


def filled(form: str, row: Mapping[str, Any]) -> str:
    try:
        return form.format(**row)
    except KeyError:
        return MISSING


def markdown(cells: pd.DataFrame) -> list[str]:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (cells.columns, *cells.to_numpy())]
    return [lines[0], "|" + "---|" * len(cells.columns), *lines[1:]]


def known(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows without what was not measured."""
    return [{str(key): value for key, value in row.dropna().items()} for _, row in rows.iterrows()]


def in_columns(rows: pd.DataFrame, columns: Columns) -> list[str]:
    """A row for each measurement."""
    return markdown(pd.DataFrame([{name: filled(form, row) for name, form in columns.items()} for row in known(rows)]))


def listed(file: str, columns: Columns) -> list[str]:
    return in_columns(read(file), columns)


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """The means over the seeds of each data set and model, in order of mention; of lists by place."""

    def mean(values: pd.Series) -> Any:
        values = values.dropna()
        if not len(values):
            return None
        if isinstance(values.iloc[0], Several):
            places = pd.DataFrame(values.tolist()).apply(pd.to_numeric).mean()
            return Several(f"{place:.1f}" for place in places)
        numbers = pd.to_numeric(values, errors="coerce")
        return values.iloc[0] if numbers.isna().any() else numbers.mean()

    groups = rows.groupby(["data", "model"], sort=False)
    found = pd.DataFrame([{"seeds": len(group)} | group.agg(mean).to_dict() for _, group in groups], dtype=object)
    order = {name: at for at, name in enumerate(rows["model"].unique())}
    order_of_data = {name: at for at, name in enumerate(rows["data"].unique())}
    return found.sort_values(["data", "model"], key=lambda of: of.map(order_of_data if of.name == "data" else order))


def over_seeds(columns: Columns, labels: str, **where: Any) -> list[str]:
    return in_columns(means(read("quality", labels=labels, **where)), columns)


def members_alone(columns: Columns) -> list[str]:
    """Fits with nothing set, and each kind of their members alone where these were fitted."""
    rows = read("quality", labels="first").loc[lambda rows: rows["model"].str.startswith(OURS)]
    return in_columns(means(rows[rows["data"].isin(rows.loc[rows["model"] == "MarginClassifier()", "data"])]), columns)


def beside(
    columns: Columns,
    labels: str,
    figure: str,
    sign: int = 1,
    data: Mapping[str, str] | None = None,
    peers: str | tuple[str, ...] = "",
) -> list[str]:
    """A row for each data set: our default, the other of least figure (largest, with -1) and the fastest other.

    Their keys begin with "best_" and "fast_"; `mark`, `best_mark` and `fast_mark` are the asterisks around the better
    of the first two and around the least seconds of all. `data` names the sets, if not all, and what their classes are;
    of sets on which none of `peers` ran there is no row.
    """
    rows = means(read("quality", labels=labels))
    of_data = rows["data"].isin(list(data or rows["data"].unique())) & ~rows["model"].isin(CLOSED_FORMS)
    rows = rows[of_data & rows[figure].notna()]

    def value(row: Mapping[str, Any]) -> list[float]:  # of P@1 that are the same the next places decide
        found = row[figure]
        return [sign * float(one) for one in (found if isinstance(found, Several) else [f"{found:.6f}"])]

    found = []
    for name, here in rows.groupby("data", sort=False):
        ordered = sorted(known(here), key=value)
        ours = next((row for row in ordered if row["model"] == "SoftmaxClassifier()"), {})
        others = [row for row in ordered if not row["model"].startswith(OURS) and row["model"].startswith(peers)]
        best, fast = next(iter(others), {}), min(others, key=lambda row: row["cpu_s"], default={})
        wins = not best or (bool(ours) and value(ours) <= value(best))
        faster = bool(fast) and fast["cpu_s"] < ours.get("cpu_s", math.inf)
        marks = {"mark": "**" if wins else "", "best_mark": "" if wins else "**", "fast_mark": "**" if faster else ""}
        if peers and not best:
            continue
        about = {"data": name, "classes": (data or {}).get(name, "")} | marks
        named = {f"{kind}_{key}": one for kind, row in (("best", best), ("fast", fast)) for key, one in row.items()}
        found.append(about | named | ours)
    return in_columns(pd.DataFrame(found, dtype=object), columns)


def beside_published() -> list[str]:
    """What others have published beside what comes out here, by the measure that they report."""
    sets = {
        labels: {row["data"]: row for row in known(means(read("quality", labels=labels, model="SoftmaxClassifier()")))}
        for labels in ("first", "all")
    }
    lists = {row["data"]: row for row in known(read("next_items", protocol="strict", model="SoftmaxClassifier()"))}
    ours = {
        "P@1/3/5": lambda data: "{p:/}".format(**sets["all"][data]),
        "log-loss, accuracy": lambda data: "{log_loss:.3f}, {accuracy:.1f} %".format(**sets["first"][data]),
        "hit@10, nDCG@10": lambda data: "{hit_10:0<6}, {ndcg_10:0<6}".format(**lists[data]),
    }
    rows = read("published")
    rows = rows.assign(here=[ours[row["measure"]](row["data"]) for row in known(rows)])
    columns = ("data", "measure", "method", "value", "here", "differs", "source")
    cells = rows[[*columns]].rename(
        columns={"value": "published", "here": "`SoftmaxClassifier()`", "differs": "what differs"}
    )
    return markdown(cells)


def reading() -> list[str]:
    """What one line of the front table says, in words."""
    rows = means(read("quality", labels="first", data="yso-en"))
    of_model = {row["model"]: row for row in known(rows) if "log_loss" in row}
    peers = [row for name, row in of_model.items() if not name.startswith(OURS)]
    ours, best = of_model["SoftmaxClassifier()"], min(peers, key=lambda row: row["log_loss"])
    fast = min(peers, key=lambda row: row["cpu_s"])
    unsure, unsure_best = (math.exp(row["log_loss"]) for row in (ours, best))
    words = (
        f"The line yso-en says: a new title has one of 26,091 subjects; manyclass names the right one first in "
        f"{ours['accuracy']:.1f} %, and is as unsure as a fair choice among {unsure:.0f} (e to the log-loss). "
        f"{best['model']}, the best of the others, is so among {unsure_best:.0f}, right in {best['accuracy']:.1f} %. "
        f"{'It' if fast is best else fast['model']} is {'also ' * (fast is best)}the fastest, {fast['cpu_s']:.0f} s "
        f"for {ours['cpu_s']:.0f}."
    )
    return textwrap.wrap(words, 155)
