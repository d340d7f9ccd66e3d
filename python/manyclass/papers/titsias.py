"""Titsias 2016: Figures 1-3 and Table 2.

- "values" (Figure 1a): 200 points of ten values; probabilities from the exact likelihood (in closed form), one-vs-each
  and Bouchard (their bounds maximised by BFGS).
- "plane" (Figure 1b, 1c): 200 points of five classes in two dimensions; largest values of the three bounds, and
  one-vs-each trained on minibatches of ten points with one other class each.
- "toy" (Figure 2): 10^6 points of 10^4 categories, p proportional to the squares of uniform numbers; one-vs-each in
  closed form, and on minibatches of 100 points with ten other classes. The paper's rate, 0.5 / 100 times 0.9 a pass,
  is taken without the factor (K - 1) / 10 of the unbiased gradient, with which the first steps would overshoot by far.
- "mnist", "20news", "bibtex" (Table 2, Figure 3): ridge 1/2 ||w||^2 on the summed log-likelihood. OVE-SGD takes
  minibatches of 200 points with one other class each, for as many iterations as the axes of Figure 3 show, at the
  learning rate of several that ends at the largest bound, falling to a hundredth (the paper states neither). So many
  are needed: weights of rare features move at the ridge's pace alone, and a tenth of them leaves bibtex at a norm of
  .34 where all come to .094, next to the .086 of the bound's own optimum.
- "amazoncat" (section 4.2, Figure 3d), for those who have the files: OVE-SGD, no ridge, steps on one point with five
  other classes, five passes, the rate halved after each. The printed rate of 10^-8 multiplies the gradient of the sum
  over all points and classes, hence N 10^-8 here, where the objective is a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from manyclass import bounds, solvers
from manyclass.bounds.closed_forms import maximum_likelihood_scores
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, biases_alone, draw_counts, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, Plot, Quantity, Records, averaged, trained_with
from manyclass.plot.style import Panel, Series
from manyclass.training.core_training import TrainingState

SUMMARY = "Titsias 2016: one-vs-each against the exact softmax and Bouchard's bound (Figures 1-3, Table 2)"
FULL_BATCH = {"SOFT": "softmax", "OVE": "ove", "BOUCHARD": "bouchard"}  # the paper's names, and the estimator's losses
METHODS = (*FULL_BATCH, "OVE-SGD")
DRAWN = ("values", "plane", "toy")
LARGE = "amazoncat"
PARTS = {"values": "figure 1a", "plane": "figure 1b-c", "toy": "figure 2", LARGE: "section 4.2"}
ITERATIONS = 2000
SGD_BATCH, LAST_STEP = 200, 0.01  # of the first: the step size falls to it by a constant factor
CURVE_POINTS = 200
TOY_NEGATIVES = 10
TOY = {"solver": solvers.OVE(decay=0.9, batch_size=100, averaging="none")}
# Of OVE-SGD, where it is not that of Table 2, whose passes are known with the data.
SGD: dict[str, dict[str, Any]] = {
    "plane": {"max_iter": 100, "solver": solvers.OVE(decay=0.95, batch_size=10), "learning_rate": 0.5},
    "toy": TOY | {"max_iter": 20, "n_negatives": TOY_NEGATIVES, "fit_intercept": False},
    LARGE: {"max_iter": 5, "solver": solvers.OVE(decay=0.5, batch_size=1, averaging="none"), "n_negatives": 5},
}
LARGE_RATE = 1e-8
# Times the estimator's automatic rate, which is for single points: averaged steps of a batch bear more, by how much
# depends on how alike the points are. On mnist 150 gives a larger bound than 50 and 500, whose norms to SOFT are .46,
# .44 and .71 (bench/figures/papers.md).
SGD_RATES = (50.0, 150.0, 500.0)

BoundOf = Callable[..., bounds.Bound | bounds.VariationalBound]
BOUNDS: dict[str, BoundOf] = {"OVE": bounds.one_vs_each, "BOUCHARD": bounds.bouchard}
GTOL = 1e-7  # of BFGS on the mean bound of a point

Floats = NDArray[np.float64]


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """One run a method; those that draw nothing, on data that are not drawn, have one seed."""
    part, passes = PARTS.get(name, "table 2"), {"max_iter": options.max_iter} if options.max_iter else {}
    for method, loss in FULL_BATCH.items():
        # Where the scores are the parameters no model is trained.
        model = {} if name in ("values", "toy") else {"solver": solvers.LBFGS(loss=loss), "max_iter": ITERATIONS}
        if name != LARGE and (name != "toy" or method == "OVE"):
            yield MethodPlan(part, method, model and model | passes, seeds=() if name in DRAWN else (0,))
    if name != "values":
        steps = SGD.get(name, {"solver": solvers.OVE(batch_size=SGD_BATCH)})
        yield MethodPlan(part, "OVE-SGD", {"sampler": "uniform", "n_negatives": 1, **steps, **passes})


def load(name: str, options: Options) -> Problem | None:
    """The data set; none for those that a run draws with its seed."""
    if name in DRAWN:
        return None
    return load_problem(options.places[name], scale=None, max_rows=options.max_rows, n_jobs=options.n_jobs)


# Runs


def _values(run: Run, context: Context) -> Results:
    rng = np.random.default_rng(run.seed)
    y = np.concatenate([np.arange(10), rng.choice(10, size=190, p=rng.dirichlet(np.ones(10)))])
    counts = np.bincount(y).astype(np.float64)
    if run.method == "SOFT":
        scores, ran = maximum_likelihood_scores(counts), CLOSED_FORM
    else:
        scores = _maximised(BOUNDS[run.method], counts)
        ran = {"bound": BOUNDS[run.method].__name__, "solver": "BFGS", "gtol": f"{GTOL:g}"}
    return {"probability": np.exp(log_softmax(scores)).tolist(), "frequency": (counts / 200).tolist(), RAN: ran}


CLOSED_FORM = {"closed form": maximum_likelihood_scores.__name__}


def _maximised(bound: BoundOf, counts: Floats) -> Floats:
    """Return the scores that maximise a bound of points with these class counts, at the best `a` where it has one."""

    def objective(f: Floats) -> tuple[float, Floats]:
        of_classes = bound(np.tile(f, (len(counts), 1)), np.arange(len(counts)))
        return -float(counts @ of_classes.value) / counts.sum(), -(counts @ of_classes.gradient) / counts.sum()

    scores: Floats = minimize(objective, np.zeros(len(counts)), jac=True, method="BFGS", options={"gtol": GTOL}).x
    return scores


def plane_data(seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """200 points around five corners of a regular pentagon, so near that classes overlap and the optimum is finite."""
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 5
    angle = 2 * np.pi * y / 5
    X = 2 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(200, 2))
    return X.astype(np.float32), y


def _plane(run: Run, context: Context) -> Results:
    X, y = plane_data(run.seed)
    model, curve = _fit(run, X, y, alpha=0.0)
    soft = model if run.method == "SOFT" else _fit_soft(run, X, y, alpha=0.0)
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 101)] * 2), axis=-1).reshape(-1, 2).astype(np.float32)
    agreement = float(np.mean(model.predict(grid) == soft.predict(grid)))
    of_model = {"agreement": agreement, "norm": _distance(model, soft), RAN: trained_with(model)}
    return {"bound": curve["curve"][-1], **curve, **of_model}


def _toy(run: Run, context: Context) -> Results:
    counts = draw_counts(run.seed, 1_000_000, run.settings["scale"])
    optimum, one = counts / counts.sum(), np.ones((1, 1), dtype=np.float32)
    estimates = [np.full(len(counts), 1 / len(counts))]  # at the start, and after each pass
    if run.method == "OVE":
        estimates.append(np.exp(log_softmax(maximum_likelihood_scores(counts))))
        ran = CLOSED_FORM
    else:

        def note(state: TrainingState) -> None:
            estimates.append(np.exp(log_softmax(state.scores(one)[0].astype(np.float64))))

        rate = 0.5 * min(TOY_NEGATIVES, len(optimum) - 1) / (len(optimum) - 1)
        model = run.estimator(SoftmaxClassifier, learning_rate=rate)
        ran = trained_with(model.fit(*biases_alone(counts), callback=note))
    order = np.argsort(-optimum)[:: max(1, len(optimum) // 500)]
    shown = {"optimum": optimum[order].tolist(), "found": estimates[-1][order].tolist()}
    errors = [float(np.abs(optimum - p).sum()) for p in estimates]
    return {"l1_error": errors, "n_classes": len(counts), **shown, RAN: ran}


def _large(run: Run, context: Context) -> Results:
    """The error, and the bound of each pass as it was sampled, for a single point."""
    data: Problem = context.data
    model = run.estimator(SoftmaxClassifier, learning_rate=LARGE_RATE * len(data.y_train))
    curve = _by_pass(-model.fit(data.X_train, data.y_train).loss_curve_)
    error = model.evaluate(data.X_test, data.y_test)["error"]
    return {"error": error, "shape": data.sizes, **curve, RAN: trained_with(model)}


def _classification(run: Run, context: Context) -> Results:
    data: Problem = context.data
    alpha, beside = 1 / len(data.y_train), {}
    if run.method == "OVE-SGD":
        model, curve, factor = _best_sgd(run, data, alpha)
        beside = {"learning_rate / automatic": factor}
    else:
        model, curve = _fit(run, data.X_train, data.y_train, alpha=alpha)
    if run.method == "SOFT":
        context.memo["soft"] = model
    elif "soft" not in context.memo:
        context.memo["soft"] = _fit_soft(run, data.X_train, data.y_train, alpha=alpha)
    labels = np.searchsorted(model.classes_, data.y_test)
    error, nlpd = bounds.predictive_scores(model.predict_log_proba(data.X_test), labels)
    norm = {} if run.method == "SOFT" else {"norm": _distance(model, context.memo["soft"])}
    scores = {**norm, "error": error, "nlpd": nlpd, "shape": data.sizes}
    return {**scores, **curve, RAN: trained_with(model, **beside)}


def _best_sgd(run: Run, data: Problem, alpha: float) -> tuple[SoftmaxClassifier, Results, float]:
    """The model with the largest bound among several learning rates, its curve and its rate."""
    iterations = published.TITSIAS["iterations"][run.data]
    passes = run.model.get("max_iter") or max(1, round(iterations * SGD_BATCH / len(data.y_train)))
    schedule = {"alpha": alpha, "max_iter": passes, "solver__decay": LAST_STEP ** (1 / passes)}
    x = data.X_train
    squares = x.multiply(x).sum() if sp.issparse(x) else np.square(x).sum()
    rate = 4 / data.shape[0] / (float(squares) / len(data.y_train) + 1)  # the estimator's automatic one
    fit = partial(_fit, run, x, data.y_train, **schedule)
    fits = [(*fit(learning_rate=factor * rate), factor) for factor in SGD_RATES]
    return max(fits, key=lambda fit: _end(fit[1], passes))


def _end(curve: Results, n_steps: int) -> float:
    """The bound after the last step; the least where training did not come there, or it is no number."""
    bound = curve["curve"][-1] if curve["steps"][-1:] == [n_steps] else -np.inf
    return bound if np.isfinite(bound) else -np.inf


def _by_pass(curve: Floats) -> Results:
    return {"steps": list(range(1, len(curve) + 1)), "curve": curve.tolist()}


def _fit(run: Run, X: Any, y: NDArray[np.int64], **parameters: Any) -> tuple[SoftmaxClassifier, Results]:
    """Fit; the curve has the bound of all points, less the ridge's term, by iteration or pass."""
    model = run.estimator(SoftmaxClassifier).set_params(**parameters)
    n = len(y)
    if run.method != "OVE-SGD":
        return model, _by_pass(-n * model.fit(X, y).loss_curve_)
    labels = np.unique(y, return_inverse=True)[1]

    def bound_of(state: TrainingState) -> Results:
        total = -n * parameters["alpha"] / 2 * state.squared_norm()
        for first in range(0, n, 4096):
            rows = slice(first, first + 4096)
            total += float(bounds.one_vs_each(state.scores(X[rows]), labels[rows]).value.sum())
        return {"steps": state.n_iter, "curve": total}

    curve = Curve(("steps", "curve"), bound_of, summary.evenly_spaced(int(model.max_iter), CURVE_POINTS))
    return model.fit(X, y, callback=curve), curve.values


def _fit_soft(run: Run, X: Any, y: NDArray[np.int64], *, alpha: float) -> SoftmaxClassifier:
    max_iter = run.model["max_iter"] if run.method in FULL_BATCH else ITERATIONS
    return SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=max_iter, n_jobs=run.settings["n_jobs"]).fit(X, y)


def _distance(model: SoftmaxClassifier, soft: SoftmaxClassifier) -> float:
    """Eq. (17), intercepts included."""
    ours, theirs = (np.column_stack([m.coef_, m.intercept_]) for m in (model, soft))
    return bounds.weight_distance(theirs, ours)


# How each part of the experiment is run.
RUNS: dict[str, Callable[[Run, Context], Results]] = {
    "figure 1a": _values,
    "figure 1b-c": _plane,
    "figure 2": _toy,
    "table 2": _classification,
    "section 4.2": _large,
}


def perform(run: Run, context: Context) -> Results:
    """Make a run of one of the parts."""
    return RUNS[run.part](run, context)


# Tables and figures


def report(records: Records) -> Items:
    """Table 2 and the figures, for the data sets that were run."""
    parts = summary.by_key(records, "part")
    values, plane, toy, trained, large = (parts.get(part, []) for part in RUNS)
    caption = "probabilities of ten values (paper: OVE is exact, Bouchard overrates the large ones)"
    largest = averaged(lambda results: max(map(abs, np.subtract(results["probability"], results["frequency"]))))
    errors: dict[str, Quantity] = {"largest error": largest}
    errors |= {f"p({value})": averaged(partial(_probability, value)) for value in range(10)}
    yield from summary.compare("Figure 1a", caption, values, errors)
    caption = "largest (or last) bound of the log-likelihood"
    closeness = {"bound": "bound", "norm to SOFT": "norm", "share of the plane with SOFT's class": "agreement"}
    yield from summary.compare("Figure 1b-c", caption, plane, closeness, name="figure-1c")
    if plane:
        yield _bounds("figure-1c", "Figure 1c: bounds of the log-likelihood, 200 points in the plane", plane)
    caption = "stochastic estimation of many probabilities, sum |p - p_exact|"
    ends: dict[str, Quantity] = {"at the start": averaged(lambda results: results["l1_error"][0])}
    ends |= {"at the end": "l1_error", "categories that occur": "n_classes"}
    yield from summary.compare("Figure 2", caption, toy, ends)
    yield from _toy_plots([r for r in toy if r["method"] == "OVE-SGD"])
    scores = {name: name for name in ("norm", "error", "nlpd")}
    yield from summary.compare("Table 2", "closeness to SOFT, and scores on the test set", trained, scores)
    caption = "bounds (less the ridge's term) by iteration or pass"
    yield from summary.compare("Figure 3", caption, trained, {"bound": "curve"})
    if trained:
        yield _bounds("figure-3", f"Figure 3: {caption}", trained)
    spent: dict[str, Quantity] = {"error": "error"}
    spent["seconds"] = lambda runs: summary.mean([r["cpu_seconds"] for r in runs])
    caption = "one-vs-each on many classes (section 4.2)"
    yield from summary.compare("Figure 3d", caption, large, spent, name="section-4-2")
    if large:
        yield _bounds("figure-3d", "Figure 3d: the sampled bound of a point by pass", large)
    yield from summary.shapes("Table 1", [*trained, *large], published.SHAPE)


def _probability(value: int, results: Results) -> float:
    return float(results["probability"][value])


def _toy_plots(records: Records) -> Items:
    if not records:
        return
    curves = {f"seed {r['seed']}": r["results"]["l1_error"] for r in records}
    errors = Panel("toy", [Series(label, range(len(curve)), curve) for label, curve in curves.items()])
    first = records[0]["results"]  # the optimum is in each of them
    rank = range(len(first["optimum"]))
    sorted_p = Panel("toy", [Series("OVE-SGD", rank, first["found"], "."), Series("exact", rank, first["optimum"])])
    yield Plot("figure-2ab", "Figure 2a-b: probabilities, sorted", "category (thinned)", "p", [sorted_p])
    yield Plot("figure-2c", "Figure 2c: error by pass", "pass", "sum |p - p_exact|", [errors], log_y=True)


def _bounds(name: str, caption: str, records: Records) -> Plot:
    drawn = summary.panels(records, "steps", "curve")
    return Plot(name, caption, "iteration or pass", "bound of all points [nats]", drawn, log_x=True)


DATA = (*DRAWN, *published.TITSIAS["iterations"], LARGE)
EXPERIMENT = Experiment("titsias", SUMMARY, DATA, METHODS, plans, load, perform, report)
