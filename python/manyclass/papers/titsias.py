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
- "bibtex" (section 3, left to future work there): the same steps, 2,000 of them, by uniform draws and by draws that
  know the scores (proposals.py), with the variance of both measured along the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from manyclass import solvers
from manyclass.bounds import Bound, VariationalBound, bouchard, one_vs_each, predictive_scores, weight_distance
from manyclass.bounds.closed_forms import maximum_likelihood_scores
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, load_problem
from manyclass.papers.engine import Context, Experiment, Options, Records, Results, Run
from manyclass.papers.proposals import LAST_STEP, PROPOSALS, LinearScores, mean_square, trained_by_proposal
from manyclass.papers.report import ExperimentReport, PaperFigure, Plot, Table
from manyclass.papers.summary import RAN, trained_with, what_ran
from manyclass.plot.style import Panel, Series
from manyclass.training.core_training import TrainingState

NAME = "titsias"
SUMMARY = "Titsias 2016: one-vs-each against the exact softmax and Bouchard's bound (Figures 1-3, Table 2)"
FULL_BATCH = {"SOFT": "softmax", "OVE": "ove", "BOUCHARD": "bouchard"}  # the paper's names, and the estimator's losses
BY_PROPOSAL = {f"OVE-SGD, {name}": share for name, share in PROPOSALS.items()}
METHODS = (*FULL_BATCH, "OVE-SGD", *BY_PROPOSAL)
DRAWN = ("values", "plane", "toy")
ITERATIONS, TOY_PASSES, PLANE_PASSES = 2000, 20, 100
SGD_BATCH, SGD_LAST_STEP = 200, 0.01
CURVE_POINTS = 200
PROPOSED, PROPOSAL_STEPS, PROPOSAL_POINTS = "bibtex", 2000, 20  # data, steps, and points of a curve
TOY_BATCH, TOY_NEGATIVES = 100, 10
# Times the estimator's automatic rate, which is for single points: averaged steps of a batch bear more, by how much
# depends on how alike the points are. On mnist 150 gives a larger bound than 50 and 500, whose norms to SOFT are .46,
# .44 and .71 (bench/figures/papers.md).
SGD_RATES = (50.0, 150.0, 500.0)
LARGE = "amazoncat"
LARGE_RATE, LARGE_NEGATIVES, LARGE_PASSES = 1e-8, 5, 5

BOUNDS: dict[str, Callable[..., Bound | VariationalBound]] = {"OVE": one_vs_each, "BOUCHARD": bouchard}
SCORES = ("norm", "error", "nlpd")  # of Table 2
GTOL = 1e-7  # of BFGS on the mean bound of a point

Curve = dict[int, float]  # iteration or pass: bound
Floats = NDArray[np.float64]


def runs(name: str, options: Options) -> list[Run]:
    """One run a method; those that draw nothing have one seed."""
    part = {"values": "figure 1a", "plane": "figure 1b-c", "toy": "figure 2", LARGE: "section 4.2"}.get(name, "table 2")
    models = _full_batch_models(name, options) | _sgd_models(name, options)
    proposals = {
        method: {"uniform": share, "n_iterations": options.max_iter or PROPOSAL_STEPS}
        for method, share in (BY_PROPOSAL if name == PROPOSED else {}).items()
    }
    planned: list[Run] = []
    for part_of_methods, models_of_methods in ((part, models), ("section 3", proposals)):
        for method, model in models_of_methods.items():
            # The drawn sets are other sets for other seeds.
            seeds = 1 if method in FULL_BATCH and name not in DRAWN else options.seeds
            if options.wants(method):
                planned += Run.for_seeds((NAME, part_of_methods, name, method), seeds, options.sizes, model)
    return planned


def _full_batch_models(name: str, options: Options) -> dict[str, dict[str, Any]]:
    """Parameters of the methods that draw nothing; without a trained model where the scores are the parameters."""
    if name in (LARGE, "toy"):
        return {"OVE": {}} if name == "toy" else {}
    max_iter = options.max_iter or ITERATIONS
    return {
        method: {} if name == "values" else {"solver": solvers.LBFGS(loss=loss), "max_iter": max_iter}
        for method, loss in FULL_BATCH.items()
    }


def _sgd_models(name: str, options: Options) -> dict[str, dict[str, Any]]:
    """Parameters of OVE-SGD; the passes of Table 2 are known with the data."""
    model: dict[str, Any] = {"sampler": "uniform", "n_negatives": 1}
    passes = {LARGE: LARGE_PASSES, "toy": TOY_PASSES, "plane": PLANE_PASSES}.get(name)
    if options.max_iter or passes:
        model["max_iter"] = options.max_iter or passes
    if name == LARGE:
        model |= {"solver": solvers.OVE(decay=0.5, batch_size=1, averaging="none"), "n_negatives": LARGE_NEGATIVES}
    elif name == "toy":
        model["solver"] = solvers.OVE(decay=0.9, batch_size=TOY_BATCH, averaging="none")
        model |= {"n_negatives": TOY_NEGATIVES, "fit_intercept": False}
    elif name == "plane":
        model |= {"solver": solvers.OVE(decay=0.95, batch_size=10), "learning_rate": 0.5}
    else:
        model["solver"] = solvers.OVE(batch_size=SGD_BATCH)
    return {} if name == "values" else {"OVE-SGD": model}


def load(name: str, options: Options) -> Problem | None:
    """The data set; none for those that a run draws with its seed."""
    if name in DRAWN:
        return None
    return load_problem(options.places[name], scale=None, max_rows=options.max_rows, n_jobs=options.n_jobs)


def perform(run: Run, context: Context) -> Results:
    """Dispatch by data set."""
    if run.method in BY_PROPOSAL:
        return _by_proposal(run, context.data)
    drawn = {"values": _values, "plane": _plane, "toy": _toy}
    if run.data == LARGE:
        return _large(run, context.data)
    return drawn[run.data](run) if run.data in drawn else _classification(run, context)


def _values(run: Run) -> Results:
    rng = np.random.default_rng(run.seed)
    y = np.concatenate([np.arange(10), rng.choice(10, size=190, p=rng.dirichlet(np.ones(10)))])
    counts = np.bincount(y).astype(np.float64)
    if run.method == "SOFT":
        scores, ran = maximum_likelihood_scores(counts), _closed_form()
    else:
        scores = _maximised(BOUNDS[run.method], counts)
        ran = {"bound": BOUNDS[run.method].__name__, "solver": "BFGS", "gtol": f"{GTOL:g}"}
    return {"probability": np.exp(log_softmax(scores)).tolist(), "frequency": (counts / 200).tolist(), RAN: ran}


def _maximised(bound: Callable[..., Bound | VariationalBound], counts: Floats) -> Floats:
    """Return the scores that maximise a bound of points with these class counts, at the best `a` where it has one."""

    def objective(f: Floats) -> tuple[float, Floats]:
        bounds = bound(np.tile(f, (len(counts), 1)), np.arange(len(counts)))
        return -float(counts @ bounds.value) / counts.sum(), -(counts @ bounds.gradient) / counts.sum()

    scores: Floats = minimize(objective, np.zeros(len(counts)), jac=True, method="BFGS", options={"gtol": GTOL}).x
    return scores


def _closed_form() -> dict[str, str]:
    return {"closed form": maximum_likelihood_scores.__name__}


def plane_data(seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """200 points around five corners of a regular pentagon, so near that classes overlap and the optimum is finite."""
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 5
    angle = 2 * np.pi * y / 5
    X = 2 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(200, 2))
    return X.astype(np.float32), y


def _plane(run: Run) -> Results:
    X, y = plane_data(run.seed)
    model, curve = _fit(run, X, y, alpha=0.0)
    soft = model if run.method == "SOFT" else _fit_soft(run, X, y, alpha=0.0)
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 101)] * 2), axis=-1).reshape(-1, 2).astype(np.float32)
    return {
        "bound": list(curve.values())[-1],
        **_as_lists(curve),
        "agreement": float(np.mean(model.predict(grid) == soft.predict(grid))),
        "norm": _distance(model, soft),
        RAN: trained_with(model),
    }


def _toy(run: Run) -> Results:
    n, n_classes = (max(20, round(run.settings["scale"] * size)) for size in (1_000_000, 10_000))
    rng = np.random.default_rng(run.seed)
    p = rng.random(n_classes) ** 2
    y = np.repeat(np.arange(n_classes), rng.multinomial(n, p / p.sum()))
    counts = np.unique(y, return_counts=True)[1]
    optimum = counts / n
    errors = [float(np.abs(optimum - 1 / len(counts)).sum())]
    if run.method == "OVE":
        probabilities, ran = np.exp(log_softmax(maximum_likelihood_scores(counts))), _closed_form()
        errors.append(float(np.abs(optimum - probabilities).sum()))
    else:
        probabilities, ran = _toy_by_sgd(run, y, optimum, errors)
    order = np.argsort(-optimum)[:: max(1, len(optimum) // 500)]
    shown = {"optimum": optimum[order].tolist(), "found": probabilities[order].tolist()}
    return {"l1_error": errors, "n_classes": len(counts), **shown, RAN: ran}


def _toy_by_sgd(run: Run, y: NDArray[np.int64], optimum: Floats, errors: list[float]) -> tuple[Floats, dict[str, str]]:
    """The probabilities after the last pass and what ran; adds the error after each pass."""
    probabilities = np.full(len(optimum), 1 / len(optimum))
    ones = np.ones((1, 1), dtype=np.float32)

    def note(state: TrainingState) -> None:
        nonlocal probabilities
        probabilities = np.exp(log_softmax(state.scores(ones)[0].astype(np.float64)))
        errors.append(float(np.abs(optimum - probabilities).sum()))

    rate = 0.5 * min(TOY_NEGATIVES, len(optimum) - 1) / (len(optimum) - 1)
    model = run.estimator(SoftmaxClassifier, learning_rate=rate)
    model.fit(sp.csr_array(np.ones((len(y), 1), dtype=np.float32)), y, callback=note)
    return probabilities, trained_with(model)


def _large(run: Run, data: Problem) -> Results:
    """The error, and the bound of each pass as it was sampled, for a single point."""
    model = run.estimator(SoftmaxClassifier, learning_rate=LARGE_RATE * len(data.y_train))
    model.fit(data.X_train, data.y_train)
    curve = dict(enumerate((-model.loss_curve_).tolist(), 1))
    error = model.evaluate(data.X_test, data.y_test)["error"]
    return {"error": error, "shape": _shape(data), **_as_lists(curve), RAN: trained_with(model)}


def _shape(data: Problem) -> list[int]:
    n_classes, n_features, n_train = data.shape
    return [n_features, n_classes, n_train, len(data.y_test)]


def _classification(run: Run, context: Context) -> Results:
    data: Problem = context.data
    alpha = 1 / len(data.y_train)
    factor = None
    if run.method == "OVE-SGD":
        model, curve, factor = _best_sgd(run, data, alpha)
    else:
        model, curve = _fit(run, data.X_train, data.y_train, alpha=alpha)
    if run.method == "SOFT":
        context.memo["soft"] = model
    elif "soft" not in context.memo:
        context.memo["soft"] = _fit_soft(run, data.X_train, data.y_train, alpha=alpha)
    labels = np.searchsorted(model.classes_, data.y_test)
    scores = predictive_scores(model.predict_log_proba(data.X_test), labels)
    norm = None if run.method == "SOFT" else _distance(model, context.memo["soft"])
    beside = {} if factor is None else {"learning_rate / automatic": factor}
    ran = {**_as_lists(curve), RAN: trained_with(model, **beside)}
    return {"norm": norm, "error": scores.error, "nlpd": scores.nlpd, "shape": _shape(data), **ran}


def _best_sgd(run: Run, data: Problem, alpha: float) -> tuple[SoftmaxClassifier, Curve, float]:
    """The model with the largest bound among several learning rates, its curve and its rate."""
    squares = data.X_train.multiply(data.X_train) if sp.issparse(data.X_train) else np.square(data.X_train)
    n = len(data.y_train)
    rate = 4 / data.shape[0] / (float(squares.sum()) / n + 1)
    iterations = published.TITSIAS["iterations"][run.data]
    passes = run.model.get("max_iter") or max(1, round(iterations * SGD_BATCH / n))
    schedule = {"max_iter": passes, "solver__decay": SGD_LAST_STEP ** (1 / passes)}
    ends: list[tuple[float, SoftmaxClassifier, Curve, float]] = []
    for factor in SGD_RATES:
        model, curve = _fit(run, data.X_train, data.y_train, alpha=alpha, learning_rate=factor * rate, **schedule)
        ends.append((_finite_or_least(curve.get(passes, -np.inf)), model, curve, factor))
    _, model, curve, factor = max(ends, key=lambda end: end[0])
    return model, curve, factor


def _by_proposal(run: Run, data: Problem) -> Results:
    """The run with the largest bound at its end among several step sizes: its curve, and the variances on its way."""
    labels = np.unique(data.y_train, return_inverse=True)[1]
    n, n_steps = len(labels), run.model["n_iterations"]
    alpha = 1 / n
    automatic = 4 / data.shape[0] / (mean_square(data.X_train) + 1)
    checkpoints = np.unique(np.linspace(1, n_steps, PROPOSAL_POINTS).round().astype(np.int64))
    candidates: list[Results] = []
    for factor in SGD_RATES:
        results: Results = {"steps": checkpoints.tolist(), "curve": []}
        results |= {f"variance, {name}": [] for name in PROPOSALS}

        def note(step: int, model: LinearScores, variances: dict[str, float], results: Results = results) -> None:
            bound = one_vs_each(model.scores(data.X_train), labels).value.sum()
            results["curve"].append(float(bound - n * alpha / 2 * np.square(model.W).sum()))
            for name, variance in variances.items():
                results[f"variance, {name}"].append(variance)

        numbers = {"uniform": run.model["uniform"], "alpha": alpha, "n_iterations": n_steps, "rate": factor * automatic}
        fixed: dict[str, Any] = {"batch": SGD_BATCH, "seed": run.seed, "checkpoints": checkpoints}
        trained_by_proposal(data.X_train, labels, **numbers, **fixed, note=note)
        results[RAN] = {
            "solver": "SGD on one-vs-each (proposals.py)",
            "steps": "explicit",
            "schedule": f"exponential, to {LAST_STEP:g} of the first in {n_steps} steps",
            "batch_size": str(SGD_BATCH),
            "learning_rate / automatic": f"{factor:g}",
            "uniform share": f"{run.model['uniform']:g}",
        }
        candidates.append(results)
    return max(candidates, key=lambda results: _finite_or_least(results["curve"][-1]))


def _finite_or_least(bound: float) -> float:
    return bound if np.isfinite(bound) else -np.inf


def _as_lists(curve: Curve) -> Results:
    return {"steps": list(curve), "curve": list(curve.values())}


def _fit(run: Run, X: Any, y: NDArray[np.int64], *, alpha: float, **parameters: Any) -> tuple[SoftmaxClassifier, Curve]:
    """Fit; the curve has the bound of all points, less the ridge's term, by iteration or pass."""
    model = run.estimator(SoftmaxClassifier, alpha=alpha).set_params(**parameters)
    n = len(y)
    if run.method != "OVE-SGD":
        model.fit(X, y)
        return model, dict(enumerate((-n * model.loss_curve_).tolist(), 1))
    labels = np.unique(y, return_inverse=True)[1]
    checkpoints = summary.evenly_spaced(int(model.max_iter), CURVE_POINTS)
    curve: Curve = {}

    def note(state: TrainingState) -> None:
        if state.n_iter not in checkpoints:
            return
        total = -n * alpha / 2 * state.squared_norm()
        for first in range(0, n, 4096):
            rows = slice(first, first + 4096)
            total += float(one_vs_each(state.scores(X[rows]), labels[rows]).value.sum())
        curve[state.n_iter] = total

    return model.fit(X, y, callback=note), curve


def _fit_soft(run: Run, X: Any, y: NDArray[np.int64], *, alpha: float) -> SoftmaxClassifier:
    max_iter = run.model["max_iter"] if run.method in FULL_BATCH else ITERATIONS
    return SoftmaxClassifier(solver="lbfgs", alpha=alpha, max_iter=max_iter, n_jobs=run.settings["n_jobs"]).fit(X, y)


def _distance(model: SoftmaxClassifier, soft: SoftmaxClassifier) -> float:
    """Eq. (17), intercepts included."""
    ours, theirs = (np.column_stack([m.coef_, m.intercept_]) for m in (model, soft))
    return weight_distance(theirs, ours)


def report(records: Records, options: Options) -> ExperimentReport:
    """Table 2 and the figures, for the data sets that were run."""
    groups, parts = summary.by_key(records, "data"), summary.by_key(records, "part")
    tables: list[Table] = []
    plots: list[Plot] = []
    if "values" in groups:
        tables.append(_table_of_values(summary.first_seed(groups["values"])))
    if "plane" in groups:
        tables.append(_table_of_plane(groups["plane"]))
        caption = "Figure 1c: bounds of the log-likelihood, 200 points in the plane"
        plots.append(_bounds("figure-1c", caption, groups["plane"]))
    if "toy" in groups:
        tables.append(_table_of_toy(groups["toy"]))
        stochastic = [r for r in groups["toy"] if r["method"] == "OVE-SGD"]
        plots += _plots_of_toy(stochastic) if stochastic else []
    if proposed := parts.get("section 3"):
        tables.append(_table_of_proposals(proposed))
        plots.append(_bounds("proposals", "Section 3: the bound by uniform draws and by draws by scores", proposed))
    if classified := parts.get("table 2"):
        tables.append(_table_2(classified))
        plots.append(_bounds("figure-3", "Figure 3: bounds (less the ridge's term) by iteration or pass", classified))
    if LARGE in groups:
        tables.append(_table_of_large(groups[LARGE]))
        plots.append(_bounds("figure-3d", "Figure 3d: the sampled bound of a point by pass", groups[LARGE]))
    return ExperimentReport(tuple(tables), tuple(plots), published.NOTES[NAME], tuple(_figures(groups)))


def _figures(groups: dict[Any, Records]) -> Iterator[PaperFigure]:
    for name, records in groups.items():
        for method, group in summary.by_key(records, "method").items():
            if method not in BY_PROPOSAL:  # which the paper leaves to future work
                for item, values in _values_of_method(name, group):
                    yield PaperFigure(item, name, method, values, group)
        shaped = [r for r in records if "shape" in r["results"]]
        yield from summary.shape_figures("Table 1", shaped, published.SHAPE)


def _values_of_method(name: str, records: Records) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield the tables and figures that a method has on a data set, with the values there."""
    if name == "values":
        errors = [np.abs(np.subtract(r["results"]["probability"], r["results"]["frequency"])) for r in records]
        yield "Figure 1a", {"largest error": summary.mean(float(error.max()) for error in errors)}
    elif name == "plane":
        bound, norm = summary.means(records, "bound", "norm")
        yield "Figure 1b-c", {"bound": bound, "norm to SOFT": norm}
    elif name == "toy":
        start, end = _start_and_end(records)
        yield "Figure 2", {"at the start": start, "at the end": end}
    elif name == LARGE:
        yield "Figure 3d", {"error": summary.means(records, "error")[0], "seconds": _processor_seconds(records)}
    else:
        scores = zip(SCORES, summary.means(records, *SCORES), strict=True)
        yield "Table 2", {key: score for key, score in scores if score is not None}
        yield "Figure 3", {"bound": summary.mean(curve[-1] for curve in summary.pick_results(records, "curve"))}


def _start_and_end(records: Records) -> list[float | None]:
    return [summary.mean(errors[i] for errors in summary.pick_results(records, "l1_error")) for i in (0, -1)]


def _processor_seconds(records: Records) -> float | None:
    return summary.mean(r["cpu_seconds"] for r in records)


def _table_of_values(records: Records) -> Table:
    exact = np.array(records[0]["results"]["frequency"])
    rows: list[list[Any]] = [["data", *exact.tolist(), None]]
    for r in records:
        p = r["results"]["probability"]
        rows.append([r["method"], *p, float(np.abs(np.array(p) - exact).max())])
    caption = (
        "Figure 1a: estimated probabilities of ten values (paper: OVE is exact, Bouchard overrates the large ones)"
    )
    columns = ("method", *map(str, range(10)), "largest error")
    return Table("figure-1a", caption, columns, rows, what_ran(records))


def _table_of_plane(records: Records) -> Table:
    def cells(method: str, group: Records) -> list[Any]:
        bound, norm, agreement = summary.means(group, "bound", "norm", "agreement")
        return [method, bound, summary.spread(summary.pick_results(group, "bound")), norm, agreement]

    caption = "Figure 1b-c: largest (or last) bound of the log-likelihood; paper: SOFT > OVE > BOUCHARD"
    columns = ("method", "bound", "over seeds", "norm to SOFT", "share of the plane with SOFT's class")
    return summary.table("figure-1c", caption, columns, records, cells, "method")


def _table_of_toy(records: Records) -> Table:
    def cells(method: str, group: Records) -> list[Any]:
        theirs = published.TITSIAS["figure_2"].get(method, (None, None))
        return [method, group[0]["results"]["n_classes"], *summary.beside(_start_and_end(group), theirs)]

    columns = ("method", "categories that occur", "at the start", "paper", "at the end", "paper")
    caption = "Figure 2: stochastic estimation of many probabilities, sum |p - p_exact|"
    return summary.table("figure-2", caption, columns, records, cells, "method")


def _plots_of_toy(records: Records) -> list[Plot]:
    """Of the stochastic estimation; its optimum is in each of its records."""
    curves = {f"seed {r['seed']}": r["results"]["l1_error"] for r in records}
    errors = Panel("toy", [Series(label, range(len(curve)), curve) for label, curve in curves.items()])
    first = records[0]["results"]
    rank = range(len(first["optimum"]))
    sorted_p = Panel("toy", [Series("OVE-SGD", rank, first["found"], "."), Series("exact", rank, first["optimum"])])
    return [
        Plot("figure-2ab", "Figure 2a-b: probabilities, sorted", "category (thinned)", "p", [sorted_p]),
        Plot("figure-2c", "Figure 2c: error by pass", "pass", "sum |p - p_exact|", [errors], log_y=True),
    ]


def _table_of_proposals(records: Records) -> Table:
    def cells(method: str, group: Records) -> list[Any]:
        ends = [curve[-1] for curve in summary.pick_results(group, "curve")]
        uniform, by_scores = (summary.pick_results(group, f"variance, {name}") for name in PROPOSALS)
        saved = [float(np.mean(np.array(a) / np.array(b))) for a, b in zip(uniform, by_scores, strict=True)]
        return [method, summary.mean(ends), summary.spread(ends), summary.mean(saved)]

    columns = ("method", "bound at the end", "over seeds", "variance of uniform draws over that by scores")
    caption = "Section 3: a proposal that knows the scores; variances along each method's own way"
    return summary.table("proposals", caption, columns, records, cells, "method")


def _table_2(records: Records) -> Table:
    def cells(key: tuple[str, str], group: Records) -> list[Any]:
        theirs = published.TITSIAS["table_2"].get(key[0], {}).get(key[1], {})
        return [*key, *summary.beside(summary.means(group, *SCORES), map(theirs.get, SCORES))]

    columns = ("data", "method", "norm", "paper", "error", "paper", "nlpd", "paper")
    caption = "Table 2: closeness to SOFT, and scores on the test set"
    return summary.table("table-2", caption, columns, records, cells, "data", "method")


def _table_of_large(records: Records) -> Table:
    paper = published.TITSIAS["large"][LARGE]["OVE-SGD"]
    scores = summary.means(records, "error")[0], _processor_seconds(records)
    row = [LARGE, "OVE-SGD", *summary.beside(scores, (paper["error"], paper["seconds"]))]
    columns = ("data", "method", "error", "paper", "processor seconds", "paper, seconds")
    return Table("section-4-2", "Section 4.2: one-vs-each on many classes", columns, [row], what_ran(records))


def _bounds(name: str, caption: str, records: Records) -> Plot:
    drawn = summary.panels(records, "steps", "curve")
    return Plot(name, caption, "iteration or pass", "bound of all points [nats]", drawn, log_x=True)


EXPERIMENT = Experiment(
    NAME, SUMMARY, (*DRAWN, *published.TITSIAS["table_2"], LARGE), METHODS, runs, load, perform, report
)
