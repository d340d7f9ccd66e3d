"""Fagan & Iyengar 2018: Tables 1-3 and Figures 1-3, by the protocol of the authors' code, all evaluated exactly.

First label only, the first 10,000 features, at most 100,000 rows, unit rows; W = 0, u = 0, u tied to W, points in file
order, uniform classes, no intercept; 50 passes, the learning rate times 0.9 after each; training log-loss and error at
ten evenly spaced passes. One-vs-each, NCE and importance sampling take batches of 100 points that share 5 classes,
U-max and plain SGD 5 classes a point, Implicit one. In the authors' code Implicit skips a point whose one draw is its
label; here classes are drawn from the wrong ones.

Importance sampling here keeps the label's score exact (solver "css"), which the paper leaves open: the authors'
recorded training errors are those of this form (Bibtex 0.154, Delicious 0.781; here 0.160 and 0.777), not of the one
whose candidates are all drawn (0.89 and 0.86: it runs away), which is "is (label drawn)" in Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manyclass import solvers
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, PaperFigure, Plot, Records, Table, trained_with, what_ran
from manyclass.parts import Part
from manyclass.plot.style import Panel, Series
from manyclass.training.core_training import TrainingState

SUMMARY = "Fagan & Iyengar 2018: U-max and Implicit SGD against the biased methods (Tables 1-3, Figures 1-3)"
PASSES, CHECKPOINTS = 50, 10
FEATURES, ROWS = 10_000, 100_000
GRID = tuple(10.0**power for power in range(-3, 4))
RAMAN_GRID = tuple(10.0**power for power in range(-4, 3))  # what Figure 2 shows
TUNING_SHARE = 0.1
SENSITIVITY_ON = "eurlex"  # as in the paper; without it, the first data set chosen

STEPS: dict[str, Any] = {"shuffle": False, "decay": 0.9}
IN_BATCHES = STEPS | {"batch_size": 100, "share_classes": True}
ONE_BY_ONE = STEPS | {"batch_size": 1, "u_init": "zero", "u_learning_rate": "tied"}
# Each method's solver, and the number of classes it draws.
METHODS: dict[str, tuple[Part, int]] = {
    "ove": (solvers.OVE(**IN_BATCHES), 5),
    "nce": (solvers.NCE(**IN_BATCHES), 5),
    "is": (solvers.CSS(**IN_BATCHES), 5),
    "sgd": (solvers.SGD(**ONE_BY_ONE), 5),
    "umax": (solvers.UMax(**ONE_BY_ONE), 5),
    "implicit": (solvers.Implicit(**ONE_BY_ONE), 1),
}
# Beside those of Table 3, in Figures 2 and 3.
VARIANTS: dict[str, tuple[Part, int]] = {
    "umax (raman)": (solvers.UMax(**ONE_BY_ONE, formulation="raman"), 5),
    "is (label drawn)": (solvers.IS(**IN_BATCHES), 5),
    "nce (1, 1)": (solvers.NCE(**STEPS, batch_size=1), 1),
}


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """The tuning runs on a tenth of the rows, the runs at the paper's rates, and, on one data set, at all rates."""
    rates_of_paper = published.FAGAN_IYENGAR["rates"]
    rates = rates_of_paper[options.settings_for(name, rates_of_paper)]

    def planned(part: str, method: str, rate: float, share: float = 1.0, seeds: tuple[int, ...] = (0,)) -> MethodPlan:
        solver, n_negatives = (METHODS | VARIANTS)[method]
        model = {"solver": solver, "sampler": "uniform", "n_negatives": n_negatives, "learning_rate": rate}
        model |= {"max_iter": options.max_iter or PASSES, "fit_intercept": False}
        return MethodPlan(part, method, model, {"share": share}, seeds)

    for method in METHODS:
        yield planned("table 3", method, rates[method], seeds=())
        yield from (planned("tuning", method, rate, share=TUNING_SHARE) for rate in GRID)
    if name == (SENSITIVITY_ON if SENSITIVITY_ON in options.places else next(iter(options.places))):
        for method in METHODS | VARIANTS:
            yield from (planned("sensitivity", method, rate) for rate in GRID)
        yield from (planned("sensitivity", method, RAMAN_GRID[0]) for method in ("umax", "umax (raman)"))


def load(name: str, options: Options) -> Problem:
    """The data as in section 4.1 of the paper."""
    max_rows = min(ROWS, options.max_rows or ROWS)
    return load_problem(options.places[name], scale="l2", max_rows=max_rows, n_features=FEATURES, n_jobs=options.n_jobs)


def perform(run: Run, context: Context) -> Results:
    """Train; the training log-loss and error at ten passes."""
    data: Problem = context.data
    X, y = data.X_train, data.y_train
    if run.settings["share"] < 1:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[: max(2, int(run.settings["share"] * len(y)))])
        X, y = X[rows], y[rows]
    labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
    max_iter = run.model["max_iter"]

    def measure(state: TrainingState) -> dict[str, float]:
        return {**state.evaluate(X, labels), "epoch": state.n_iter, "seconds": state.seconds}

    names = ("epoch", "log_loss", "error", "seconds")
    curve = Curve(names, measure, summary.evenly_spaced(max_iter, CHECKPOINTS))
    model = run.estimator(SoftmaxClassifier).fit(X, y, callback=curve)
    # Training that ended early did so because a step overflowed: there is no model to speak of.
    whole = curve.values["epoch"][-1:] == [max_iter]
    final = {f"final_{key}": curve.values[key][-1] if whole else None for key in ("log_loss", "error")}
    return {**curve.values, **final, "shape": data.shape, RAN: trained_with(model)}


# Tables and figures


def report(records: Records) -> Items:
    """Tables 1-3 and Figures 1-3, the paper's values beside ours."""
    parts = summary.by_key(records, "part")
    paper = published.FAGAN_IYENGAR["shapes"]
    groups = summary.by_key(records, "data")
    shapes = [[n, *summary.beside(g[0]["results"]["shape"], paper.get(n, (None,) * 3))] for n, g in groups.items()]
    columns = ("data", "classes", "paper", "features", "paper", "rows", "paper")
    yield Table("table-1", "Table 1: data", columns, shapes)
    yield from summary.shape_figures("Table 1", records, ("classes", "features", "rows"))
    yield from _table_2(parts.get("tuning", []))
    yield from _table_3(parts.get("table 3", []))
    if "sensitivity" in parts:
        yield from _sensitivity(parts["sensitivity"])


def _losses(records: Records) -> dict[float, float | None]:
    """The log-loss after the last pass by learning rate."""
    return {r["model"]["learning_rate"]: r["results"]["final_log_loss"] for r in records}


def _best_rate(records: Records) -> tuple[float | None, bool]:
    """The rate of the smallest log-loss, and whether it is at the edge of the grid."""
    losses = _losses(records)
    finite = {rate: loss for rate, loss in losses.items() if loss is not None}
    best = min(finite, key=finite.__getitem__) if finite else None
    return best, best in (min(losses), max(losses))


def _table_2(records: Records) -> Items:
    def cells(key: tuple[str, str], group: Records) -> list[Any]:
        best, at_edge = _best_rate(group)
        return [*key, best, published.FAGAN_IYENGAR["rates"].get(key[0], {}).get(key[1]), "yes" if at_edge else "no"]

    columns = ("data", "solver", "best rate", "paper", "at the edge of the grid")
    caption = "Table 2: learning rate with the lowest log-loss after the last pass on 10 % of the rows"
    yield summary.table("table-2", caption, columns, records, cells, "data", "method")
    for name, group in summary.by_key(records, "data").items():
        best = {method: _best_rate(tuned)[0] for method, tuned in summary.by_key(group, "method").items()}
        yield PaperFigure("Table 2", name, "all", best, group)


def _table_3(records: Records) -> Items:
    rows: list[list[Any]] = []
    halfway = {f"log-loss after {PASSES // 2} passes": lambda r: _at_pass(r, PASSES // 2)}
    for name, records_of_data in summary.by_key(records, "data").items():
        by_method = summary.by_key(records_of_data, "method")
        (implicit,) = summary.means(by_method.get("implicit", []), "final_log_loss")
        for method, group in by_method.items():
            loss, error = summary.means(group, "final_log_loss", "final_error")
            over_implicit = summary.ratio(loss, implicit)
            relative = published.FAGAN_IYENGAR["relative"].get(name, {}).get(method, (None, None))
            recorded = published.FAGAN_IYENGAR["recorded"].get(name, {}).get(method, {})
            seconds = summary.mean(summary.values([r for r in group if r["results"]["seconds"]], "seconds"))
            over_seeds = summary.spread(summary.values(group, "final_log_loss"))
            loss_cells = [loss, over_seeds, recorded.get("log_loss"), over_implicit, *relative]
            rows.append([name, method, *loss_cells, error, recorded.get("error"), seconds])
            values = {"log-loss": loss, "over Implicit's": over_implicit, "error": error}
            yield PaperFigure("Table 3", name, method, values, group)
        if "implicit" in by_method:
            yield from summary.figures("Figure 1", by_method["implicit"], halfway)
        if "implicit" in by_method and "umax" in by_method:
            one, five = (summary.means(by_method[method], "seconds")[0] for method in ("implicit", "umax"))
            values = {"Implicit, s": one, "five classes, s": five, "ratio": summary.ratio(five, one)}
            yield PaperFigure("Table 4", name, "all", values, [*by_method["implicit"], *by_method["umax"]])
    loss_columns = ("log-loss", "range over seeds", "authors", "relative", "ICLR", "arXiv")
    columns = ("data", "solver", *loss_columns, "error", "authors", "seconds")
    yield Table("table-3", "Table 3: training log-loss after the last pass", columns, rows, what_ran(records))
    yield _curves("figure-1", "Figure 1: training log-loss by pass, at the paper's rates", records, "data", "method")


def _at_pass(record: dict[str, Any], n_pass: int) -> float | None:
    """The log-loss after a pass; None where it was not measured."""
    return dict(zip(record["results"]["epoch"], record["results"]["log_loss"], strict=True)).get(n_pass)


def _sensitivity(records: Records) -> Items:
    rates = sorted({r["model"]["learning_rate"] for r in records})
    methods, where = summary.by_key(records, "method"), records[0]["data"]
    losses = {method: _losses(group) for method, group in methods.items()}
    rows: list[list[Any]] = [[method, *map(by_rate.get, rates)] for method, by_rate in losses.items()]
    umax = [r for r in records if r["method"].startswith("umax")]
    if "umax" in losses and "umax (raman)" in losses:
        raman, ours = losses["umax (raman)"], losses["umax"]
        ratios = {rate: summary.ratio(raman.get(rate), ours.get(rate)) for rate in rates}
        rows.append([f"umax (raman) / umax (paper, mean: {published.FAGAN_IYENGAR['raman']})", *ratios.values()])
        best = [min(loss for loss in by_rate.values() if loss is not None) for by_rate in (raman, ours)]
        values = {f"at {rate:g}": ratios[rate] for rate in (RAMAN_GRID[1], RAMAN_GRID[-2])}
        values |= {"Raman's over the proposed": summary.mean([ratios.get(rate) for rate in RAMAN_GRID])}
        yield PaperFigure("Figure 2", where, "umax", values | {"at the best rates": best[0] / best[1]}, umax)
    caption = f"Figures 2 and 3 in numbers: log-loss after the last pass on {where}, by learning rate"
    yield Table("sensitivity", caption, ("solver", *(f"{rate:g}" for rate in rates)), rows, what_ran(records))
    umax_caption = f"Figure 2: the two double sums, U-max on {where}, by learning rate"
    on_grid = [r for r in umax if r["model"]["learning_rate"] in RAMAN_GRID]
    yield _curves("figure-2", umax_caption, on_grid, "method", "rate")
    yield _curves("figure-3", f"Figure 3: sensitivity to the learning rate on {where}", records, "method", "rate")
    for method, group in methods.items():
        yield PaperFigure("Figure 3", where, method, {"worst over best rate": _worst_over_best(losses[method])}, group)


def _worst_over_best(losses: dict[float, float | None]) -> float | None:
    on_grid = [losses.get(rate) for rate in GRID]
    ended = [loss for loss in on_grid if loss is not None]
    return max(ended) / min(ended) if len(ended) == len(on_grid) else None


def _curves(name: str, caption: str, records: Records, panel: str, line: str) -> Plot:
    def line_of(record: dict[str, Any]) -> str:
        return f"{record['model']['learning_rate']:g}" if line == "rate" else str(record[line])

    panels = []
    for title, group in summary.by_key(records, panel).items():
        group = sorted(group, key=lambda r: r["model"]["learning_rate"]) if line == "rate" else group
        first_seed = summary.first_seed(group)
        series = [Series(line_of(r), r["results"]["epoch"], r["results"]["log_loss"], "-o") for r in first_seed]
        panels.append(Panel(str(title), series))
    return Plot(name, caption, "pass", "training log-loss [nats]", panels, log_y=line == "rate")


DATA, ALL = tuple(published.FAGAN_IYENGAR["shapes"]), (*METHODS, *VARIANTS)
EXPERIMENT = Experiment("fagan-iyengar", SUMMARY, DATA, ALL, plans, load, perform, report, settings=DATA)
