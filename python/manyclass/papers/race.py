"""A race: excess training objective over the best one known against processor time, all solvers, the same for each.

The objective is the mean log-loss + alpha/2 ||W||^2 with alpha = 1 / N (a unit Gaussian prior), on unit rows with
intercepts; every solver takes that ridge and its own best learning rate, which falls exponentially to a hundredth at
the end of the time (some passes before tell how many fit in): the best of a grid around its automatic one, by the
objective after the same time with another seed; the grid goes on where its end is best. Time is that of the processor,
of all threads, so that other programs on the machine change little. The optimum lies between the dual bound and the
objective of L-BFGS; where that would take too much memory, or the data are so large that log-losses are measured on a
sample of the training rows, the smallest objective that any solver reached stands in, and the report says so. Measuring
is not counted as training; it is done after the passes that end past geometrically spaced times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from manyclass import solvers
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import summary
from manyclass.papers.data import Problem, load_problem
from manyclass.papers.engine import Context, Experiment, Options, Records, Results, Run, Stopwatch
from manyclass.papers.report import ExperimentReport, Plot, Table
from manyclass.papers.summary import RAN, trained_with, what_ran
from manyclass.plot.style import Panel, Series
from manyclass.registry import parts
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import TrainingState

NAME = "race"
SUMMARY = "All solvers for the same time: excess training objective over the certified optimum, against seconds"
DATA = ("bibtex", "delicious", "eurlex57k", "yso-en")
UNBIASED = tuple(facts.name for facts in parts("solver").values() if not facts.biased)
BIASED = tuple(facts.name for facts in parts("solver").values() if facts.biased)
OPTIMUM = "lbfgs"
SECONDS = {"bibtex": 1.0, "delicious": 1.5, "eurlex57k": 4.0, "yso-en": 8.0}
SECONDS_OF_OTHERS = 10.0
# L-BFGS gets this many times the budget. It keeps COPIES of W in float64, and is left out beyond MOST_BYTES.
OPTIMUM_TIMES = 100
COPIES, MOST_BYTES = 30, 4 << 30
LAST_STEP = 0.01
TRIAL_PASSES, TRIAL_SHARE, TRIAL_TIMES = 5, 0.25, 4
MOST_PASSES = 10_000
CHECKPOINT_FACTOR = 1.6
MOST_SCORES = 25_000_000  # of a measurement: it is made on as many training rows, at random
AT_LEAST = 2000
OVERTIME = 30  # a run ends after this many times its budget by the wall clock, where no pass ends within the budget
FIRST_CHECKPOINT = 0.01  # of the budget
# Of the root of ten: factors on the automatic step sizes of W, and of u for the solvers that have one.
EXPONENTS, U_EXPONENTS, FURTHEST = (-2, -1, 0, 1, 2), (-2, 0, 2), 6
WITH_U_STEP = tuple(
    facts.name
    for facts in parts("solver").values()
    if "u_step" in facts.flags and facts.name not in ("bregman", "scent")
)
TUNING_SEED = 1000


def runs(name: str, options: Options) -> list[Run]:
    """The optimum, then each solver with each seed."""
    budget = options.seconds or SECONDS.get(name, SECONDS_OF_OTHERS)
    settings = {**options.sizes, "seconds": budget}
    planned: list[Run] = []
    if options.wants(OPTIMUM):
        optimum = {"solver": solvers.LBFGS(tol=1e-7), "max_iter": 100_000}
        optimum_settings = {**settings, "seconds": OPTIMUM_TIMES * budget}
        planned.append(Run.of((NAME, "optimum", name, OPTIMUM), 0, optimum_settings, optimum))
    for solver in (*UNBIASED, *BIASED):
        if options.wants(solver):
            model: dict[str, Any] = {"solver": SOLVERS[solver]()}
            race_settings = {**settings, "max_iter": options.max_iter}
            planned.append(Run.of((NAME, "tuning", name, solver), TUNING_SEED, race_settings, model))
            planned += Run.for_seeds((NAME, "race", name, solver), options.seeds, race_settings, model)
    return planned


def load(name: str, options: Options) -> Problem:
    """Unit rows, first label."""
    return load_problem(options.places[name], scale="l2", max_rows=options.max_rows, n_jobs=options.n_jobs)


def perform(run: Run, context: Context) -> Results:
    """Train for the time; the objective at checkpoints and at the end."""
    data: Problem = context.data
    X: Any = data.X_train
    y = data.y_train
    n_classes, n_features, n = data.shape
    budget = run.settings["seconds"]
    model = run.estimator(SoftmaxClassifier, alpha=1 / n)
    rows = _measured_rows(n, n_classes)
    if run.part == "optimum":
        if 8 * COPIES * n_classes * n_features > MOST_BYTES or len(rows) < n:
            return {"affordable": False}
        begin = time.process_time()
        model.fit(X, y, callback=lambda _: time.process_time() - begin >= budget, max_seconds=OVERTIME * budget)
        return {"affordable": True, **model.certificate(X, y)}

    if run.part == "tuning":
        return _tuned(_Race(run, data, model, rows, _trial(model, X, y, budget)))
    tuning = context.results.get(replace(run, part="tuning", seed=TUNING_SEED).hash)
    if tuning is None:  # it failed
        raise RuntimeError("its learning rate was not tuned")
    race = _Race(run, data, model, rows, tuning)
    results, ended = race.end(tuning["factor"], tuning["u_factor"])
    test = ended.evaluate(data.X_test, data.y_test) if len(data.y_test) else {"log_loss": math.nan, "error": math.nan}
    return {
        **results,
        "shape": list(data.shape),
        "measured_rows": len(rows),
        "test_log_loss": test["log_loss"],
        "test_accuracy": 1 - test["error"],
        RAN: trained_with(ended),
    }


@dataclass(frozen=True)
class _Race:
    """Data, a solver, and what `_trial` has found of it."""

    run: Run
    data: Problem
    model: SoftmaxClassifier
    rows: NDArray[np.intp]
    trial: Results

    def end(self, factor: float, u_factor: float) -> tuple[Results, SoftmaxClassifier]:
        """Train for the time, steps being multiples of the automatic ones; the objective at checkpoints and the end."""
        X: Any = self.data.X_train
        y = self.data.y_train
        alpha, budget = 1 / len(y), self.run.settings["seconds"]
        most = self.run.settings["max_iter"] or MOST_PASSES
        passes = min(most, max(1, int(budget / self.trial["seconds_of_a_pass"])))
        decay, rate = LAST_STEP ** (1 / passes), factor * self.trial["learning_rate"]
        model = clone(self.model).set_params(learning_rate=rate, max_iter=passes, solver__decay=decay)
        if self.run.method in WITH_U_STEP:
            model.set_params(solver__u_learning_rate=u_factor * self.trial["u_learning_rate"])
        X_measured, labels = X[self.rows], np.unique(y, return_inverse=True)[1].astype(np.int32)[self.rows]
        curve: dict[str, list[float]] = {"seconds": [], "objective": [], "log_loss": []}
        clock, next_at = Stopwatch(), FIRST_CHECKPOINT * budget

        def note(log_loss: float, squares: float) -> None:
            curve["seconds"].append(clock.seconds)
            curve["log_loss"].append(log_loss)
            curve["objective"].append(log_loss + alpha / 2 * squares)

        def after_pass(state: TrainingState) -> bool:
            nonlocal next_at
            with clock.stopped() as spent:
                if spent >= next_at or spent >= budget:
                    note(state.evaluate(X_measured, labels)["log_loss"], state.squared_norm())
                    next_at = max(next_at * CHECKPOINT_FACTOR, spent)
            return bool(spent >= budget)

        model.fit(X, y, callback=after_pass, max_seconds=OVERTIME * budget)
        with clock.stopped():
            squares = float(np.einsum("kj,kj->", model.coef_, model.coef_, dtype=np.float64))
            note(model.evaluate(X_measured, model.classes_[labels])["log_loss"], squares)
        return {**curve, "factor": factor, "u_factor": u_factor, "passes": int(model.n_iter_), "decay": decay}, model


def _tuned(race: _Race) -> Results:
    """The best factors on the automatic step sizes of W, then of u, by the objective at the end of the time."""
    tried: dict[tuple[int, int], float] = {}

    def objective(w: int, u: int) -> float:
        if (w, u) not in tried:
            end = race.end(10 ** (w / 2), 10 ** (u / 2))[0]["objective"][-1]
            tried[w, u] = end if math.isfinite(end) else math.inf
        return tried[w, u]

    best = _best(lambda w: objective(w, 0), EXPONENTS)
    u = _best(lambda u: objective(best, u), U_EXPONENTS) if race.run.method in WITH_U_STEP else 0
    return {
        "factor": 10 ** (best / 2),
        "u_factor": 10 ** (u / 2),
        **race.trial,
        "tried": [[10 ** (w / 2), 10 ** (u / 2), value] for (w, u), value in sorted(tried.items())],
    }


def _best(objective: Callable[[int], float], exponents: tuple[int, ...]) -> int:
    """Minimise over the exponents; past an end that is best they go on in the same steps."""
    low, high = exponents[0], exponents[-1]
    step = exponents[1] - low
    while True:
        best = min(range(low, high + 1, step), key=objective)
        if best == low and low > -FURTHEST:
            low -= step
        elif best == high and high < FURTHEST:
            high += step
        else:
            return best


def _trial(model: SoftmaxClassifier, X: Any, y: Any, budget: float) -> Results:
    """Make some passes; return the processor time of the fastest, infinite if none ends in time, and the automatic
    step sizes of W and, of a solver that has one, of u.
    """
    begin = time.process_time()
    ends: list[float] = [0.0]

    def after_pass(state: TrainingState) -> bool:
        ends.append(time.process_time() - begin)
        # The first pass also pays for the memory of W, which it is the first to touch: gigabytes on yso-en.
        return ends[-1] > TRIAL_TIMES * budget or (len(ends) > 2 and ends[-1] > TRIAL_SHARE * budget)

    trial = clone(model).set_params(max_iter=TRIAL_PASSES)
    trial.fit(X, y, callback=after_pass, max_seconds=OVERTIME * budget)
    chosen = trial.resolved_params_
    return {
        "seconds_of_a_pass": max(1e-6, float(np.diff(ends).min())) if len(ends) > 1 else math.inf,
        "learning_rate": chosen["learning_rate"],
        "u_learning_rate": chosen["solver"].get_params().get("u_learning_rate"),
    }


def _measured_rows(n_samples: int, n_classes: int) -> NDArray[np.intp]:
    """All rows, or a sample that is the same for every run."""
    most = max(AT_LEAST, MOST_SCORES // n_classes)
    return np.sort(np.random.default_rng(0).permutation(n_samples)[:most])


def report(records: Records, options: Options) -> ExperimentReport:
    """The table of ends, and the figure."""
    tables, panels, notes = [], [], []
    for name, group in summary.by_key(records, "data").items():
        raced = [r for r in group if r["part"] == "race"]
        optimum, sentence = _optimum(name, group)
        notes.append(sentence)
        if raced and optimum is not None:
            tables.append(_table(name, raced, optimum))
            panels.append(_panel(name, raced, optimum))
    caption = "Excess training objective over the smallest one known against processor time of training"
    plot = Plot("race", caption, "processor seconds", "excess [nats]", panels, log_x=True, log_y=True)
    return ExperimentReport(tuple(tables), (plot,) if panels else (), tuple(notes))


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
            f"{name}: no certificate (L-BFGS would not be affordable, or was not asked for); excess is over the best "
            "end of the race.",
        )
    primal, dual = certified[0]["primal"], certified[0]["dual"]
    best = min([primal, *reached])
    return best, (
        f"{name}: the smallest objective known is {best:.6f} nats; no W has one below {dual:.6f} "
        f"(duality gap of L-BFGS), so every excess is right to {best - dual:.2g} nats."
    )


def _table(name: str, records: Records, optimum: float) -> Table:
    rows: list[list[Any]] = []
    for solver, group in summary.by_key(records, "method").items():
        ends = [curve[-1] for curve in summary.pick_results(group, "objective")]
        excess = [None if end is None else end - optimum for end in ends]
        scores = summary.means(group, "test_log_loss", "test_accuracy", "passes")
        seconds = summary.mean(curve[-1] for curve in summary.pick_results(group, "seconds"))
        kind, first = "unbiased" if solver in UNBIASED else "biased", group[0]["results"]
        factors = [first["factor"], first["u_factor"] if solver in WITH_U_STEP else None]
        rows.append([solver, kind, summary.mean(excess), summary.spread(excess), *scores, seconds, *factors])
    rows.sort(key=lambda row: math.inf if row[2] is None else row[2])
    shape = records[0]["results"]["shape"]
    score_columns = ("excess", "over seeds", "test log-loss", "test accuracy")
    columns = ("solver", "kind", *score_columns, "passes", "seconds", "learning rate / automatic", "u's")
    caption = (
        f"{name} (K = {shape[0]}, D = {shape[1]}, N = {shape[2]}): nats above {optimum:.6f} at the end of the time"
    )
    return Table(f"race-{name}", caption, columns, rows, what_ran(records))


def _panel(name: str, records: Records, optimum: float) -> Panel:
    series = []
    for record in summary.first_seed(records):
        excess = [None if value is None else value - optimum for value in record["results"]["objective"]]
        series.append(Series(record["method"], record["results"]["seconds"], excess))
    # The best come first: a panel has room for six.
    return Panel(name, sorted(series, key=lambda line: next((y for y in reversed(line.y) if y is not None), math.inf)))


EXPERIMENT = Experiment(NAME, SUMMARY, DATA, (OPTIMUM, *UNBIASED, *BIASED), runs, load, perform, report, open_data=True)
