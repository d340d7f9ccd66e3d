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

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from manyclass import solvers
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, Plot, Quantity, Records, trained_with
from manyclass.parts import Part
from manyclass.training.core_training import TrainingState

SUMMARY = "Fagan & Iyengar 2018: U-max and Implicit SGD against the biased methods (Tables 1-3, Figures 1-3)"
PASSES, CHECKPOINTS = 50, 10
FEATURES, ROWS = 10_000, 100_000
GRID = tuple(10.0**power for power in range(-3, 4))
RAMAN_GRID = tuple(10.0**power for power in range(-4, 3))  # what Figure 2 shows
TUNING_SHARE = 0.1
LOSS = "training log-loss [nats]"
SENSITIVITY_ON = "eurlex"  # as in the paper; without it, the first data set chosen

RATES = {data: rates for (data, _), rates in published.values("fagan-iyengar", "Table 2").items()}
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
    rates = RATES[options.settings_for(name, RATES)]

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
    """Tables 1-4 and Figures 1-3, the paper's values beside ours."""
    parts = summary.by_key(records, "part")
    tuned, trained = parts.get("tuning", []), parts.get("table 3", [])
    yield from summary.shapes("Table 1", records, ("classes", "features", "rows"))
    best = {method: partial(_of, method, _best_rate) for method in summary.by_key(tuned, "method")}
    caption = "learning rate with the lowest log-loss after the last pass on 10 % of the rows"
    yield from summary.compare("Table 2", caption, tuned, best, of_all=True)
    losses: dict[str, Quantity] = {
        "log-loss": "final_log_loss",
        "over Implicit's": summary.over(trained, "final_log_loss", "implicit"),
        "error": "final_error",
        "seconds": "seconds",
    }
    yield from summary.compare("Table 3", "training log-loss after the last pass", trained, losses)
    methods = summary.by_key(trained, "method")
    if "implicit" in methods and "umax" in methods:
        one, five = partial(_of, "implicit", "seconds"), partial(_of, "umax", "seconds")
        times: dict[str, Quantity] = {"Implicit, s": one, "five classes, s": five}
        times["ratio"] = lambda runs: summary.ratio(five(runs), one(runs))
        yield from summary.compare("Table 4", "seconds of training", trained, times, of_all=True)
    if trained:
        lines = summary.panels(trained, "epoch", "log_loss", "-o")
        yield Plot("figure-1", "Figure 1: training log-loss by pass, at the paper's rates", "pass", LOSS, lines)
    half = PASSES // 2
    halfway = summary.averaged(lambda r: dict(zip(r["epoch"], r["log_loss"], strict=True)).get(half))
    caption, implicit = f"log-loss after {half} passes", methods.get("implicit", [])
    yield from summary.compare("Figure 1", f"training {caption}", implicit, {caption: halfway})
    if "sensitivity" in parts:
        yield from _sensitivity(parts["sensitivity"])


def _of(method: str, quantity: Quantity, records: Records) -> Any:
    """A quantity of the runs of one method."""
    return summary.value_of([r for r in records if r["method"] == method], quantity)


def _losses(records: Records) -> dict[float, float | None]:
    """The log-loss after the last pass by learning rate."""
    return {r["model"]["learning_rate"]: r["results"]["final_log_loss"] for r in records}


def _best_rate(records: Records) -> float | None:
    """The rate of the smallest log-loss."""
    finite = {loss: rate for rate, loss in _losses(records).items() if loss is not None}
    return finite[min(finite)] if finite else None


def _loss_at(rate: float, records: Records) -> float | None:
    return _losses(records).get(rate)


def _sensitivity(records: Records) -> Items:
    where, formulations = records[0]["data"], ("umax", "umax (raman)")
    by_rate: dict[str, Quantity] = {"worst over best rate": _worst_over_best}
    by_rate |= {f"log-loss at {rate:g}": partial(_loss_at, rate) for rate in sorted(_losses(records))}
    caption = f"sensitivity to the learning rate on {where}"
    yield from summary.compare("Figure 3", f"{caption}, in numbers", records, by_rate, name="sensitivity")
    rates = sorted(records, key=lambda r: r["model"]["learning_rate"])
    named = [{**r, "rate": f"{r['model']['learning_rate']:g}"} for r in rates]
    lines = summary.panels(named, "epoch", "log_loss", "-o", panel="method", line="rate")
    yield Plot("figure-3", f"Figure 3: {caption}", "pass", LOSS, lines, log_y=True)
    umax = [r for r in named if r["method"] in formulations and r["model"]["learning_rate"] in RAMAN_GRID]
    caption = f"the two double sums, U-max on {where}, by learning rate"
    lines = summary.panels(umax, "epoch", "log_loss", "-o", panel="method", line="rate")
    yield Plot("figure-2", f"Figure 2: {caption}", "pass", LOSS, lines, log_y=True)
    both = [{**r, "method": "umax", "formulation": r["method"]} for r in umax]
    if len(summary.by_key(both, "formulation")) == len(formulations):
        ratios: dict[str, Quantity] = {"Raman's over the proposed": partial(_raman_over_proposed, RAMAN_GRID)}
        ratios |= {f"at {rate:g}": partial(_raman_over_proposed, [rate]) for rate in RAMAN_GRID}
        caption += ": log-losses, Raman's over the proposed"
        yield from summary.compare("Figure 2", caption, both, ratios)


def _worst_over_best(records: Records) -> float | None:
    """The largest log-loss over the smallest one of the grid, if training came to an end at all of its rates."""
    losses = [loss for rate, loss in _losses(records).items() if rate in GRID and loss is not None]
    return max(losses) / min(losses) if len(losses) == len(GRID) else None


def _raman_over_proposed(rates: Sequence[float], records: Records) -> float | None:
    """The mean over learning rates of the log-loss of one formulation over that of the other."""
    groups = summary.by_key(records, "formulation")
    raman, proposed = _losses(groups["umax (raman)"]), _losses(groups["umax"])
    return summary.mean([summary.ratio(raman.get(rate), proposed.get(rate)) for rate in rates])


DATA, ALL = tuple(RATES), (*METHODS, *VARIANTS)
EXPERIMENT = Experiment("fagan-iyengar", SUMMARY, DATA, ALL, plans, load, perform, report, settings=DATA)
