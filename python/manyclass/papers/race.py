"""A race: excess training objective over the best one known against processor time, all solvers, the same for each.

The objective is the mean log-loss + alpha/2 ||W||^2 with alpha = 1 / N (a unit Gaussian prior), on unit rows with
intercepts; every solver takes that ridge and its own best learning rate, which falls exponentially to a hundredth at
the end of the time (some passes before tell how many fit in): the best of a grid around its automatic one, by the
objective after the same time with another seed; the grid goes on where its end is best. Time is that of the processor,
of all threads, so that other programs on the machine change little. The optimum lies between the dual bound and the
objective of L-BFGS; where that would take too much memory, or the data are so large that log-losses are measured on a
sample of the training rows, the smallest objective that any solver reached stands in, and the report says so. Measuring
is not counted as training; it is done after passes of geometrically spaced numbers, and at the end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import solvers
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import summary
from manyclass.papers.data import Problem, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, Plot, Records, trained_with
from manyclass.registry import parts
from manyclass.solvers import SOLVERS
from manyclass.training.core_training import TrainingState

SUMMARY = "All solvers for the same time: excess training objective over the certified optimum, against seconds"
DATA = ("bibtex", "delicious", "eurlex57k", "yso-en")
FACTS = parts("solver").values()
UNBIASED = tuple(facts.name for facts in FACTS if not facts.biased)
BIASED = tuple(facts.name for facts in FACTS if facts.biased)
OPTIMUM = "lbfgs"
SECONDS = {"bibtex": 1.0, "delicious": 1.5, "eurlex57k": 4.0, "yso-en": 8.0}
SECONDS_OF_OTHERS = 10.0
# L-BFGS gets this many times the budget. It keeps COPIES of W in float64, and is left out beyond MOST_BYTES.
OPTIMUM_TIMES = 100
COPIES, MOST_BYTES = 30, 4 << 30
LAST_STEP = 0.01
TRIAL_PASSES, TRIAL_SHARE, TRIAL_TIMES = 5, 0.25, 4
MOST_PASSES = 10_000
CHECKPOINTS = {round(1.6**power) for power in range(21)}  # passes
MOST_SCORES = 25_000_000  # of a measurement: it is made on as many training rows, at random
AT_LEAST = 2000
OVERTIME = 30  # a run ends after this many times its budget by the wall clock, where no pass ends within the budget
# Of the root of ten: factors on the automatic step sizes of W, and of u for the solvers that have one.
EXPONENTS, U_EXPONENTS, FURTHEST = (-2, -1, 0, 1, 2), (-2, 0, 2), 6
WITH_U_STEP = {facts.name for facts in FACTS if "u_step" in facts.flags} - {"bregman", "scent"}
TUNING_SEED = 1000


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """The optimum, then each solver with each seed."""
    budget = options.seconds or SECONDS.get(name, SECONDS_OF_OTHERS)
    optimum = {"solver": solvers.LBFGS(tol=1e-7), "max_iter": 100_000}
    yield MethodPlan("optimum", OPTIMUM, optimum, {"seconds": OPTIMUM_TIMES * budget}, seeds=(0,))
    settings = {"seconds": budget, "max_iter": options.max_iter}
    for solver in (*UNBIASED, *BIASED):
        for part, seeds in (("tuning", (TUNING_SEED,)), ("race", ())):
            yield MethodPlan(part, solver, {"solver": SOLVERS[solver]()}, settings, seeds)


def load(name: str, options: Options) -> Problem:
    """Unit rows, first label."""
    return load_problem(options.places[name], scale="l2", max_rows=options.max_rows, n_jobs=options.n_jobs)


def perform(run: Run, context: Context) -> Results:
    """Train for the time; the objective at checkpoints and at the end."""
    data: Problem = context.data
    if run.part == "optimum":
        return _certified(run, data)
    if run.part == "tuning":
        return _tuned(run, data)
    tuning = context.results.get(replace(run, part="tuning", seed=TUNING_SEED).hash)
    if tuning is None:  # it failed
        raise RuntimeError("its learning rate was not tuned")
    results, ended = _raced(run, data, tuning, tuning["factor"], tuning["u_factor"])
    test = ended.evaluate(data.X_test, data.y_test) if len(data.y_test) else {"log_loss": math.nan, "error": math.nan}
    sizes = {"shape": list(data.shape), "measured_rows": len(_measured_rows(data))}
    scores = {"test_log_loss": test["log_loss"], "test_accuracy": 1 - test["error"]}
    return {**results, **sizes, **scores, RAN: trained_with(ended)}


def _fit(run: Run, data: Problem, callback: Callable[[TrainingState], bool], **parameters: Any) -> SoftmaxClassifier:
    """Fit with the ridge of the race until the callback says so, or much more time is over than there is."""
    X: Any = data.X_train
    model: SoftmaxClassifier = run.estimator(SoftmaxClassifier, alpha=1 / len(data.y_train)).set_params(**parameters)
    model.fit(X, data.y_train, callback=callback, max_seconds=OVERTIME * run.settings["seconds"])
    return model


def _certified(run: Run, data: Problem) -> Results:
    X: Any = data.X_train
    n_classes, n_features, n = data.shape
    if 8 * COPIES * n_classes * n_features > MOST_BYTES or len(_measured_rows(data)) < n:
        return {"affordable": False}
    begin = time.process_time()
    model = _fit(run, data, lambda _: time.process_time() - begin >= run.settings["seconds"])
    return {"affordable": True, **model.certificate(X, data.y_train)}


def _raced(
    run: Run, data: Problem, trial: Results, factor: float, u_factor: float
) -> tuple[Results, SoftmaxClassifier]:
    """Train for the time, steps being multiples of the automatic ones; the objective at checkpoints and the end."""
    alpha, budget, rows = 1 / len(data.y_train), run.settings["seconds"], _measured_rows(data)
    most = run.settings["max_iter"] or MOST_PASSES
    passes = min(most, max(1, int(budget / trial["seconds_of_a_pass"])))
    decay = LAST_STEP ** (1 / passes)
    parameters = {"learning_rate": factor * trial["learning_rate"], "max_iter": passes, "solver__decay": decay}
    if run.method in WITH_U_STEP:
        parameters["solver__u_learning_rate"] = u_factor * trial["u_learning_rate"]
    X, labels = data.X_train[rows], np.unique(data.y_train, return_inverse=True)[1].astype(np.int32)[rows]

    def measures(log_loss: float, squares: float) -> dict[str, float]:
        return {"log_loss": log_loss, "objective": log_loss + alpha / 2 * squares}

    def measure(state: TrainingState) -> dict[str, float]:
        return measures(state.evaluate(X, labels)["log_loss"], state.squared_norm())

    curve = Curve(("seconds", "objective", "log_loss"), measure, CHECKPOINTS, budget)
    model = _fit(run, data, curve, **parameters)
    curve.stop()
    squares = float(np.einsum("kj,kj->", model.coef_, model.coef_, dtype=np.float64))
    curve.add(measures(model.evaluate(X, model.classes_[labels])["log_loss"], squares))
    steps = {"factor": factor, "u_factor": u_factor, "passes": int(model.n_iter_), "decay": decay}
    return {**curve.values, **steps}, model


def _tuned(run: Run, data: Problem) -> Results:
    """The best factors on the automatic step sizes of W, then of u, by the objective at the end of the time."""
    trial = _trial(run, data)

    tried: dict[tuple[int, int], float] = {}

    def objective(w: int, u: int) -> float:
        if (w, u) not in tried:
            end = _raced(run, data, trial, 10 ** (w / 2), 10 ** (u / 2))[0]["objective"][-1]
            tried[w, u] = end if math.isfinite(end) else math.inf
        return tried[w, u]

    best = _best(lambda w: objective(w, 0), EXPONENTS)
    u = _best(lambda u: objective(best, u), U_EXPONENTS) if run.method in WITH_U_STEP else 0
    lines = [[10 ** (w / 2), 10 ** (u / 2), value] for (w, u), value in sorted(tried.items())]
    return {"factor": 10 ** (best / 2), "u_factor": 10 ** (u / 2), **trial, "tried": lines}


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


def _trial(run: Run, data: Problem) -> Results:
    """Make some passes; return the processor time of the fastest, infinite if none ends in time, and the automatic
    step sizes of W and, of a solver that has one, of u.
    """
    begin, budget = time.process_time(), run.settings["seconds"]
    ends: list[float] = [0.0]

    def after_pass(state: TrainingState) -> bool:
        ends.append(time.process_time() - begin)
        # The first pass also pays for the memory of W, which it is the first to touch: gigabytes on yso-en.
        return ends[-1] > TRIAL_TIMES * budget or (len(ends) > 2 and ends[-1] > TRIAL_SHARE * budget)

    chosen = _fit(run, data, after_pass, max_iter=TRIAL_PASSES).resolved_params_
    return {
        "seconds_of_a_pass": max(1e-6, float(np.diff(ends).min())) if len(ends) > 1 else math.inf,
        "learning_rate": chosen["learning_rate"],
        "u_learning_rate": chosen["solver"].get_params().get("u_learning_rate"),
    }


def _measured_rows(data: Problem) -> NDArray[np.intp]:
    """All rows, or a sample that is the same for every run."""
    n_classes, _, n = data.shape
    most = max(AT_LEAST, MOST_SCORES // n_classes)
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def report(records: Records) -> Items:
    """The table of ends, and the figure."""
    panels = []
    for name, group in summary.by_key(records, "data").items():
        optimum, sentence = _optimum(name, group)
        yield sentence
        raced = [_with_excess(r, optimum) for r in group if r["part"] == "race"]
        if raced:
            raced.sort(key=_end)
            shape = raced[0]["results"]["shape"]
            sizes = f"{name} (K = {shape[0]}, D = {shape[1]}, N = {shape[2]})"
            caption = f"{sizes}, nats above {optimum:.6f} at the end"
            yield from summary.compare("race", caption, raced, COLUMNS, name=f"race-{name}")
            panels += summary.panels(raced, "seconds", "excess")  # the best come first: a panel has room for six
    caption = "Excess training objective over the smallest one known against processor time of training"
    if panels:
        yield Plot("race", caption, "processor seconds", "excess [nats]", panels, log_x=True, log_y=True)


def _with_excess(record: dict[str, Any], optimum: float) -> dict[str, Any]:
    objective = record["results"]["objective"]
    excess = [None if value is None else value - optimum for value in objective]
    return {**record, "results": record["results"] | {"excess": excess}}


def _end(record: dict[str, Any]) -> float:
    """The last excess that is finite."""
    return next((value for value in reversed(record["results"]["excess"]) if value is not None), math.inf)


COLUMNS: dict[str, summary.Quantity] = {
    "excess": "excess",
    "kind": lambda runs: "unbiased" if runs[0]["method"] in UNBIASED else "biased",
    "test log-loss": "test_log_loss",
    "test accuracy": "test_accuracy",
    "passes": "passes",
    "seconds": "seconds",
    "learning rate / automatic": "factor",
    "u's": lambda runs: runs[0]["results"]["u_factor"] if runs[0]["method"] in WITH_U_STEP else None,
}


def _optimum(name: str, records: Records) -> tuple[float, str]:
    """The smallest objective known, infinite if none is, and the sentence that says how well it is known."""
    certified = [r["results"] for r in records if r["part"] == "optimum" and r["results"]["affordable"]]
    ends = [value for r in records for value in r["results"].get("objective", ()) if value is not None]
    best = min([*ends, *(results["primal"] for results in certified)], default=math.inf)
    if not certified:
        why = "L-BFGS would not be affordable, or was not asked for"
        return best, f"{name}: no certificate ({why}); excess is over the best end of the race."
    dual = certified[0]["dual"]
    known = f"{name}: the smallest objective known is {best:.6f} nats; no W has one below {dual:.6f}"
    return best, f"{known} (duality gap of L-BFGS), so every excess is right to {best - dual:.2g} nats."


METHODS = (OPTIMUM, *UNBIASED, *BIASED)
EXPERIMENT = Experiment("race", SUMMARY, DATA, METHODS, plans, load, perform, report, open_data=True)
