"""Pictures of measurements: indexes beside faiss, the loss that each solver reaches by when, and loss over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from manyclass.checks import check_choice
from manyclass.plot.style import Panel, Picture, Series, line_chart

WAYS = {"batch": "a batch, 2 threads", "one_thread": "a batch, 1 thread", "single": "one query at a time"}


def recall_against_speed(records: Iterable[Mapping[str, Any]], *, way: str = "batch") -> Picture:
    """Draw queries per second against the recall of each index; up and to the right is better.

    Parameters
    ----------
    records : iterable of mapping
        A point each: "data"; "index", its name; "recall", in [0, 1]; and, under the name of `way`, microseconds a
        query. bench/results/index_curves.jsonl is of this form.
    way : {"batch", "one_thread", "single"}
        How queries were asked.

    Returns
    -------
    Picture
        A panel for each data set.

    Raises
    ------
    ValueError
        If there are no records, one lacks a field, or `way` is another.
    ImportError
        Without matplotlib.
    """
    check_choice("way", way, tuple(WAYS))
    panels = []
    for data, rows in _by_data(records, ("index", "recall", way)).items():
        series = []
        for name in dict.fromkeys(str(record["index"]) for record in rows):
            points = sorted((float(r["recall"]), 1e6 / float(r[way])) for r in rows if str(r["index"]) == name)
            series.append(Series(name, [x for x, _ in points], [y for _, y in points], "-o"))
        panels.append(Panel(data, series))
    return line_chart(panels, "recall@10 reached", f"queries per second ({WAYS[way]})", log_y=True)


def loss_against_seconds(records: Iterable[Mapping[str, Any]]) -> Picture:
    """Draw the loss that each solver reached by when, at most six lines in a panel, the best first.

    Parameters
    ----------
    records : iterable of mapping
        "data", "method", "seconds" and "loss" (sequences of equal length, in seconds and nats), and, if all have it,
        "best": the smallest loss known on these data, above which the loss is drawn then. bench/results/curves.jsonl is
        of this form.

    Returns
    -------
    Picture
        A panel for each data set and six methods, in the order of what they reach.

    Raises
    ------
    ValueError
        If there are no records, one lacks a field, or its sequences differ in length.
    ImportError
        Without matplotlib.
    """
    groups = _by_data(records, ("method", "seconds", "loss"))
    excess = all("best" in record for curves in groups.values() for record in curves)
    panels = []
    for data, curves in groups.items():
        series = []
        for record in curves:
            lengths = f"{len(record['seconds'])} seconds and {len(record['loss'])} losses"
            if len(record["seconds"]) != len(record["loss"]):
                raise ValueError(f"{data}, {record['method']}: {lengths}; there must be as many")
            above = float(record["best"]) if excess else 0.0
            losses = [None if loss is None else float(loss) - above for loss in record["loss"]]
            series.append(Series(str(record["method"]), list(record["seconds"]), losses))
        panels.append(Panel(data, sorted(series, key=lambda line: np.inf if line.y[-1] is None else line.y[-1])))
    y_label = "nats above the best loss known" if excess else "loss [nats]"
    return line_chart(panels, "seconds of training", y_label, log_x=True, log_y=excess)


def loss_over_time(losses: Mapping[str, Sequence[float]], *, period: str = "day") -> Picture:
    """Draw the loss of the rows of each period, predicted before they were learnt: the prequential log-loss.

    Parameters
    ----------
    losses : mapping of str to sequence of float
        Of each model, by period, in nats; NaN where a period has no rows.
    period : str
        What the data came in, for the axis.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        If there are no losses, or models have different numbers of periods.
    ImportError
        Without matplotlib.
    """
    lengths = {name: len(by_period) for name, by_period in losses.items()}
    if not lengths or min(lengths.values()) == 0 or len(set(lengths.values())) > 1:
        raise ValueError(f"losses has the lengths {lengths}; there must be as many, and one at least, of each model")
    series = [Series(str(name), range(1, len(by_period) + 1), by_period) for name, by_period in losses.items()]
    return line_chart([Panel("", series)], period, "prequential log-loss [nats]")


def _by_data(records: Iterable[Mapping[str, Any]], fields: tuple[str, ...]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for number, record in enumerate(records):
        for field in ("data", *fields):
            if field not in record:
                raise ValueError(f"record {number} has no {field!r}; it must have {', '.join(('data', *fields))}")
        groups.setdefault(str(record["data"]), []).append(record)
    if not groups:
        raise ValueError("there are no records to draw")
    return groups
