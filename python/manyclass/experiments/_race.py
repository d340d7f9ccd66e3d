"""A race: excess training objective over the certified optimum against seconds, all solvers, the same time for each.

The objective is the mean log-loss + alpha/2 ||W||^2 with alpha = 1 / N (a unit Gaussian prior), on unit rows with
intercepts; every solver takes that ridge and its own automatic learning rate, which falls exponentially to a hundredth
at the end of the time (some passes before tell how many fit in), and is stopped after the same training time. The
optimum lies between the dual bound and the objective of L-BFGS; where L-BFGS would take too much memory, the smallest
objective that any solver reached stands in, and the report says so. Evaluations, exact and over all training rows, are
not counted as training; they are made after the passes that end past geometrically spaced times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from manyclass import SoftmaxClassifier
from manyclass._training import TrainingState
from manyclass.experiments._data import Problem
from manyclass.experiments._data import load as load_data
from manyclass.experiments._engine import Context, Experiment, Options, Records, Results, Run
from manyclass.experiments._report import Panel, Plot, Report, Series, Table
from manyclass.experiments._summary import by_key, mean, of_seeds, spread

NAME = "race"
DATA = ("bibtex", "delicious", "eurlex57k", "yso-en")
UNBIASED = ("implicit", "minibatch_implicit", "umax", "sgd", "bregman", "scent", "augment_reduce", "scgd", "exact")
BIASED = ("ema", "softplus", "css", "is", "ove", "bouchard", "nce", "negative_sampling")
OPTIMUM = "lbfgs"
SECONDS = 10.0
# L-BFGS gets as much more time, and keeps so many copies of W in float64; beyond so many bytes it is left out.
OPTIMUM_TIMES = 30
COPIES, MOST_BYTES = 30, 4 << 30
LAST_STEP = 0.01
TRIAL_PASSES, TRIAL_SHARE = 5, 0.25
MOST_PASSES = 10_000
CHECKPOINT_FACTOR = 1.4
FIRST_CHECKPOINT = 0.01  # of the budget


def runs(name: str, options: Options) -> list[Run]:
    """The optimum, then each solver with each seed."""
    budget = options.seconds or SECONDS
    settings = {**options.sizes, "seconds": budget}
    made = []
    if options.wants(OPTIMUM):
        optimum = {"solver": "lbfgs", "max_iter": 100_000, "tol": 1e-7}
        of_optimum = {**settings, "seconds": OPTIMUM_TIMES * budget}
        made.append(Run(NAME, "optimum", name, OPTIMUM, 0, of_optimum, optimum))
    for solver in (*UNBIASED, *BIASED):
        if options.wants(solver):
            model: dict[str, Any] = {"solver": solver}
            of_race = {**settings, "max_iter": options.max_iter}
            made += [Run(NAME, "race", name, solver, seed, of_race, model) for seed in range(options.seeds)]
    return made


def load(name: str, options: Options) -> Problem:
    """Unit rows, first label."""
    return load_data(name, scale="l2", max_rows=options.max_rows, n_jobs=options.n_jobs)


def perform(run: Run, context: Context) -> Results:
    """Train for the time; the objective at checkpoints and at the end."""
    data: Problem = context.data
    X: Any = data.X_train
    y = data.y_train
    n_classes, n_features, n = data.shape
    alpha, budget = 1 / n, run.settings["seconds"]
    model = SoftmaxClassifier(alpha=alpha, random_state=run.seed, n_jobs=run.settings["n_jobs"], **run.model)
    if run.part == "optimum":
        size = 8 * COPIES * n_classes * n_features
        if size > MOST_BYTES:
            return {"affordable": False, "bytes": size}
        model.fit(X, y, max_seconds=budget)
        return {"affordable": True, **model.certificate(X, y)}

    most = run.settings["max_iter"] or MOST_PASSES
    passes = min(most, max(1, int(budget / _seconds_of_a_pass(model, X, y, budget))))
    decay = LAST_STEP ** (1 / passes)
    model.set_params(max_iter=passes, decay=decay)
    labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
    curve: dict[str, list[float]] = {"seconds": [], "objective": [], "log_loss": []}
    next_at = FIRST_CHECKPOINT * budget
    last = 0.0

    def note(state: TrainingState) -> None:
        nonlocal next_at, last
        last = state.seconds
        if state.seconds >= next_at or state.seconds >= budget:
            log_loss = state.evaluate(X, labels)["log_loss"]
            curve["seconds"].append(state.seconds)
            curve["log_loss"].append(log_loss)
            curve["objective"].append(log_loss + alpha / 2 * state.squared_norm())
            next_at = max(next_at * CHECKPOINT_FACTOR, state.seconds)

    model.fit(X, y, callback=note, max_seconds=budget)
    if not curve["seconds"] or last > curve["seconds"][-1] or model.n_iter_ == 0:
        squares = float(np.einsum("kj,kj->", model.coef_, model.coef_, dtype=np.float64))
        log_loss = model.evaluate(X, y)["log_loss"]
        curve["seconds"].append(max(last, budget) if model.n_iter_ < passes else last)
        curve["log_loss"].append(log_loss)
        curve["objective"].append(log_loss + alpha / 2 * squares)
    test = model.evaluate(data.X_test, data.y_test) if len(data.y_test) else {"log_loss": math.nan, "error": math.nan}
    return {
        **curve,
        "passes": int(model.n_iter_),
        "decay": decay,
        "shape": list(data.shape),
        "test_log_loss": test["log_loss"],
        "test_accuracy": 1 - test["error"],
    }


def _seconds_of_a_pass(model: SoftmaxClassifier, X: Any, y: Any, budget: float) -> float:
    """Training time of the fastest of some passes; infinite if none ends in a part of the budget."""
    ends: list[float] = [0.0]
    trial = clone(model).set_params(max_iter=TRIAL_PASSES)
    trial.fit(X, y, callback=lambda state: ends.append(state.seconds), max_seconds=TRIAL_SHARE * budget)
    return max(1e-6, float(np.diff(ends).min())) if len(ends) > 1 else math.inf


def report(records: Records, options: Options) -> Report:
    """The table of ends, and the figure."""
    tables, panels, notes = [], [], []
    for name, some in by_key(records, "data").items():
        raced = [r for r in some if r["part"] == "race"]
        optimum, what = _optimum(name, some)
        notes.append(what)
        if raced and optimum is not None:
            tables.append(_table(name, raced, optimum))
            panels.append(_panel(name, raced, optimum))
    caption = "Excess training objective over the optimum against training time"
    plots = (Plot("race", caption, "seconds", "excess [nats]", panels, log_x=True, log_y=True),) if panels else ()
    return Report(tuple(tables), plots, tuple(notes))


def _optimum(name: str, records: Records) -> tuple[float | None, str]:
    """The smallest objective known, and the sentence that says how well it is known."""
    certified = [r["results"] for r in records if r["part"] == "optimum" and r["results"]["affordable"]]
    reached = [
        value for r in records if r["part"] == "race" for value in r["results"]["objective"] if value is not None
    ]
    if not certified:
        best = min(reached, default=None)
        return (
            best,
            f"{name}: no certificate (L-BFGS would not be affordable); excess is over the best end of the race.",
        )
    primal, dual = certified[0]["primal"], certified[0]["dual"]
    best = min([primal, *reached])
    return best, (
        f"{name}: the smallest objective known is {best:.6f} nats; no W has one below {dual:.6f} "
        f"(duality gap of L-BFGS), so every excess is right to {best - dual:.2g} nats."
    )


def _table(name: str, records: Records, optimum: float) -> Table:
    rows: list[list[Any]] = []
    for (_, solver), some in of_seeds(records).items():
        results = [r["results"] for r in some]
        ends = [r["objective"][-1] for r in results]
        excess = [None if end is None else end - optimum for end in ends]
        others = [mean([r[key] for r in results]) for key in ("test_log_loss", "test_accuracy")]
        seconds, passes = mean([r["seconds"][-1] for r in results]), mean([r["passes"] for r in results])
        kind = "unbiased" if solver in UNBIASED else "biased"
        rows.append([solver, kind, mean(excess), spread(excess), *others, passes, seconds])
    rows.sort(key=lambda row: math.inf if row[2] is None else row[2])
    shape = records[0]["results"]["shape"]
    columns = ("solver", "kind", "excess", "over seeds", "test log-loss", "test accuracy", "passes", "seconds")
    caption = (
        f"{name} (K = {shape[0]}, D = {shape[1]}, N = {shape[2]}): nats above {optimum:.6f} at the end of the time"
    )
    return Table(f"race-{name}", caption, columns, rows)


def _panel(name: str, records: Records, optimum: float) -> Panel:
    series = []
    for record in records:
        if record["seed"] == 0:
            found = record["results"]
            excess = [None if value is None else value - optimum for value in found["objective"]]
            series.append(Series(record["method"], found["seconds"], excess))
    return Panel(name, series)


EXPERIMENT = Experiment(
    name=NAME,
    summary="All solvers for the same time: excess training objective over the certified optimum, against seconds",
    data=DATA,
    methods=(OPTIMUM, *UNBIASED, *BIASED),
    runs=runs,
    load=load,
    perform=perform,
    report=report,
    open_data=True,
)
