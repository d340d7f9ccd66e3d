"""Ruiz et al. 2018: Tables 1-3, Figure 2 and the synthetic set, with Botev's method (solver css) beside.

Data as in the paper: MNIST and Omniglot divided by 255, Bibtex as it is, EURLex-4K and AmazonCat-13K (and what takes
their settings) each feature divided by its largest training value; first label; test rows of unseen classes dropped.

Every method runs twice. "..., paper's steps" is the paper's algorithm: explicit steps with its adaptive schedule,
rho_0 = 0.02, 0.9 of it after every 2,000 iterations, its starting weights, its minibatches of points and of uniform
classes for as many iterations (Table 1); for probit and logistic noise the local step from one draw (Algorithm 2), for
the softmax the natural one (Algorithm 1). The other one is what this package would do: implicit steps, natural local
steps by quadrature, 64 classes by blocks of frequency, 20 passes.

Test log-likelihoods are by quadrature, and, for comparison, by the paper's importance sampler (1,000 draws of
N(5, 25), cut off at -26 as in its code).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from manyclass import _core, solvers
from manyclass.bounds import one_vs_each
from manyclass.bounds.closed_forms import maximum_log_likelihood, maximum_one_vs_each
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, Scale, biases_alone, draw_counts, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, PaperFigure, Plot, Quantity, Records, Table, trained_with, what_ran
from manyclass.special import sampled_utility_log_probabilities
from manyclass.training.core_training import TrainingState

SUMMARY = "Ruiz et al. 2018: softmax, probit and logistic A&R (Tables 1-3, Figure 2, section 4.1)"
NOISE = {"softmax A&R": "gumbel", "probit A&R": "normal", "logistic A&R": "logistic"}
OURS = ("exact", "OVE", "Botev (css)", *NOISE)
PAPERS_STEPS = {f"{method}, paper's steps": method for method in published.RUIZ["methods"]}
METHODS = (*OURS, *PAPERS_STEPS)
SCALE: dict[str, Scale] = {"eurlex": "max", "amazoncat": "max"}
CLIP = -26.0
CODES_GAIN = 0.001  # of the local step of probit and logistic noise in the authors' code; the paper says 0.01
BOTH = ("paper's steps", "ours")  # columns beside the paper's value
CURVE_POINTS = 1000  # Figure 2's curves are over this many training points, the same for all methods
CHECKPOINTS = 50  # of Figure 2's curves at most: the paper's iterations are many passes of small sets

Estimator = SoftmaxClassifier | AugmentReduceClassifier


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """One run a method; on the synthetic set for the two that the paper has."""
    part = "synthetic" if name == "synthetic" else "table 3"
    settings_name = options.settings_for(name, published.RUIZ["minibatches"])
    passes = {"max_iter": options.max_iter} if options.max_iter else {}
    for method in METHODS:
        named = PAPERS_STEPS.get(method, method)
        if name == "synthetic" and named not in published.RUIZ["synthetic"]:
            continue
        steps = (_papers_model if method in PAPERS_STEPS else _model)(named, settings_name)
        noise = {"noise": NOISE[named]} if named in NOISE else {}
        intercept = {"fit_intercept": False} if settings_name == "synthetic" else {}
        if named == "exact":
            del steps["n_negatives"], steps["sampler"]
        iterations = {"iterations": published.RUIZ["minibatches"][settings_name][2]} if method in PAPERS_STEPS else {}
        yield MethodPlan(part, method, {**steps, **noise, **intercept, **passes}, iterations)


def _model(method: str, name: str) -> dict[str, Any]:
    solver = {"exact": solvers.Exact, "OVE": solvers.OVE, "Botev (css)": solvers.CSS}.get(method, solvers.Implicit)
    model: dict[str, Any] = {"solver": solver(decay=0.8 if name == "mnist" else 0.9, averaging="none")}
    if name != "synthetic":
        return model | {"max_iter": 20, "n_negatives": 64, "sampler": "frequency_block"}
    # One-vs-each of all classes takes K^2 terms.
    return model | {"max_iter": 60, "n_negatives": 100, "sampler": "frequency_block" if method in NOISE else "block"}


def _papers_model(method: str, name: str) -> dict[str, Any]:
    """The paper's algorithm, but for the passes that its iterations make."""
    size, n_negatives, _ = published.RUIZ["minibatches"][name]
    solver = {"exact": solvers.Exact, "OVE": solvers.OVE}.get(method, solvers.SGD)
    fall = {"decay": published.RUIZ["decay"], "decay_every": published.RUIZ["decay_iterations"]}
    model: dict[str, Any] = {
        "solver": solver(schedule="adaptive", batch_size=size, averaging="none", **fall),
        "learning_rate": published.RUIZ["step"],
        "n_negatives": n_negatives,
        "sampler": "uniform",
    }
    if method == "softmax A&R":
        model["local_step"] = solvers.Natural(floor=0)
    elif method in NOISE:
        model["local_step"] = solvers.MonteCarlo(family=NOISE[method], gain=CODES_GAIN, start="standard")
    return model


def load(name: str, options: Options) -> Problem | None:
    """The data set; none for the synthetic one, which a run draws with its seed."""
    if name == "synthetic":
        return None
    scale = SCALE.get(options.settings_for(name, published.RUIZ["minibatches"]))
    return load_problem(options.places[name], scale=scale, max_rows=options.max_rows, n_jobs=options.n_jobs)


def _estimator(run: Run, n_samples: int) -> Estimator:
    """Return the estimator; the paper's iterations become the passes that they are over `n_samples` points."""
    kind = AugmentReduceClassifier if "noise" in run.model else SoftmaxClassifier
    model: Estimator = run.estimator(kind)
    if "iterations" in run.settings:
        iterations_of_a_pass = -(-n_samples // model.get_params()["solver__batch_size"])
        passes = max(1, round(run.settings["iterations"] / iterations_of_a_pass))
        model.set_params(max_iter=run.model.get("max_iter", passes))
    return model


def _start(run: Run, n_classes: int, n_features: int) -> dict[str, Any]:
    """The paper's first weights, the same for all methods, for its steps; ours start at 0."""
    if "iterations" not in run.settings:
        return {}
    rng, (weight_scale, intercept_scale) = np.random.default_rng(run.seed), published.RUIZ["start"]
    weights = weight_scale * rng.standard_normal((n_classes, n_features))
    if not run.model.get("fit_intercept", True):  # the one feature of the synthetic set stands for the intercept
        return {"coef_init": intercept_scale / weight_scale * weights}
    return {"coef_init": weights, "intercept_init": intercept_scale * rng.standard_normal(n_classes)}


def perform(run: Run, context: Context) -> Results:
    """Train; on the synthetic set biases only."""
    return _synthetic(run) if run.data == "synthetic" else _classification(run, context.data)


def _synthetic(run: Run) -> Results:
    counts = draw_counts(run.seed, 300_000, run.settings["scale"])  # section 4.1
    n, one = int(counts.sum()), np.ones((1, 1), dtype=np.float32)
    model, is_softmax = _estimator(run, n), "noise" in run.model

    def measure(state: TrainingState) -> dict[str, float]:
        f = state.scores(one)[0].astype(np.float64)
        log_p = log_softmax(f)
        return {
            "seconds": state.seconds,
            "mean_absolute_error": float(np.abs(np.exp(log_p) - counts / n).mean()),
            "bound": float(counts @ (log_p if is_softmax else _core.one_vs_each_of_classes(f))),
        }

    checkpoints = summary.evenly_spaced(int(model.max_iter), 12)
    curve = Curve(("seconds", "bound", "mean_absolute_error"), measure, checkpoints)
    model.fit(*biases_alone(counts), callback=curve, **_start(run, len(counts), 1))
    closed = maximum_log_likelihood(counts) if is_softmax else maximum_one_vs_each(counts)
    return {"n_classes": len(counts), "closed_form": closed, **curve.values, RAN: trained_with(model)}


def _classification(run: Run, data: Problem) -> Results:
    classes, labels = np.unique(data.y_train, return_inverse=True)
    rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:CURVE_POINTS])
    X_some, some_labels = data.X_train[rows], labels[rows].astype(np.int32)
    model = _estimator(run, len(labels))
    checkpoints = summary.evenly_spaced(int(model.max_iter), CHECKPOINTS)
    start = _start(run, len(classes), data.X_train.shape[1])
    curve = Curve(("seconds", "elbo"), lambda state: {"elbo": _bound(run, state, X_some, some_labels)}, checkpoints)
    model.fit(data.X_train, data.y_train, callback=curve, **start)
    measures = model.evaluate(data.X_test, data.y_test)
    return {
        "shape": data.sizes,
        "log_likelihood": -measures["log_loss"],
        "sampled": _by_the_papers_sampler(run, model, data, np.searchsorted(classes, data.y_test)),
        "accuracy": 1 - measures["error"],
        "seconds_per_pass": curve.seconds / max(1, model.n_iter_) if curve.values["seconds"] else None,
        **curve.values,
        RAN: trained_with(model),
    }


def _bound(run: Run, state: TrainingState, X: Any, labels: NDArray[np.int32]) -> float:
    """What Figure 2 shows of a method."""
    if PAPERS_STEPS.get(run.method, run.method) == "OVE":
        return float(one_vs_each(state.scores(X), labels).value.mean())
    if run.model.get("noise", "gumbel") != "gumbel":
        return -state.loss
    return -state.evaluate(X, labels)["log_loss"]


def _by_the_papers_sampler(run: Run, model: Estimator, data: Problem, labels: NDArray[np.intp]) -> float | None:
    """Test log-likelihood of probit and logistic noise; the softmax's needs no sampler."""
    noise = run.model.get("noise", "gumbel")
    if noise == "gumbel":
        return None
    psi = np.asarray(model.decision_function(data.X_test))
    if psi.ndim == 1:  # two classes: scikit-learn's form, the difference
        psi = np.column_stack([np.zeros_like(psi), psi])
    log_p = sampled_utility_log_probabilities(psi, labels, noise, random_state=run.seed)
    return float(np.maximum(log_p, CLIP).mean())


def report(records: Records) -> Items:
    """Tables 1-3, Figure 2 and section 4.1."""
    parts = summary.by_key(records, "part")
    if "synthetic" in parts:
        yield from _section_41(parts["synthetic"])
    if "table 3" in parts:
        yield from _tables(parts["table 3"])


Sides = tuple[Records, Records]


def _log_likelihood(record: dict[str, Any]) -> float | None:
    """By the paper's sampler, where it was made."""
    likelihood: float | None = record["results"][
        "log_likelihood" if record["results"]["sampled"] is None else "sampled"
    ]
    return likelihood


def _sides(records: Records) -> dict[tuple[str, str], Sides]:
    """Records by data set and the paper's name of the method: those with the paper's steps, and ours."""
    sides: dict[tuple[str, str], Sides] = {}
    for (name, method), group in summary.by_key(records, "data", "method").items():
        pair = sides.setdefault((name, PAPERS_STEPS.get(method, method)), ([], []))
        pair[method not in PAPERS_STEPS].extend(group)
    return sides


def _means(sides: Sides, quantity: Quantity) -> list[float | None]:
    return [summary.mean(summary.values(side, quantity)) for side in sides]


def _figures(item: str, records: Records, quantities: Mapping[str, Quantity]) -> Iterator[PaperFigure]:
    """Of "..., paper's steps" under the paper's name of the method, of ours with "ours" behind it."""
    for figure in summary.figures(item, records, quantities):
        ours = figure.method not in PAPERS_STEPS
        yield replace(figure, method=f"{figure.method}, ours" if ours else PAPERS_STEPS[figure.method])


def _section_41(records: Records) -> Items:
    rows: list[list[Any]] = []
    for (_, method), sides in _sides(records).items():
        bound, error = published.RUIZ["synthetic"][method]
        group = [*sides[0], *sides[1]]
        counted = [group[0]["results"]["n_classes"], published.RUIZ["synthetic_classes"]]
        counted += summary.means(group, "closed_form")
        bounds, errors = [bound, *_means(sides, "bound")], [error, *_means(sides, "mean_absolute_error")]
        rows.append([method, *counted, *bounds, *errors, *_means(sides, "seconds")])
    bounds_of = ("bound, closed form", "bound, paper", *BOTH)
    seconds_of = (f"seconds, {b}" for b in BOTH)
    columns = ("method", "classes", "paper", *bounds_of, "mean |p - p_ML|, paper", *BOTH, *seconds_of)
    yield Table("synthetic", "Section 4.1: biases only, 10^4 classes", columns, rows, what_ran(records))
    caption = "Section 4.1: mean absolute error of the probabilities by training time"
    drawn = summary.panels(records, "seconds", "mean_absolute_error", "-o")
    yield Plot("synthetic", caption, "seconds", "mean |p - p_ML|", drawn, log_y=True)
    yield from _figures("section 4.1", records, {"bound": "bound", "mean error": "mean_absolute_error"})


def _tables(records: Records) -> Items:
    sizes, times, scores = [], [], []
    for name, group in summary.by_key(records, "data").items():
        ours, theirs = group[0]["results"]["shape"], published.RUIZ["shapes"].get(name, (None,) * 4)
        batch = published.RUIZ["minibatches"].get(name)
        sizes.append([name, *summary.beside(ours, theirs), ", ".join(map(str, batch)) if batch else None])
    groups = _sides(records)
    seconds = {key: _means(sides, "seconds_per_pass") for key, sides in groups.items()}
    for (name, method), sides in groups.items():
        theirs = published.RUIZ["seconds"].get(name, {})
        base = seconds.get((name, "OVE"), [None, None])
        relative = map(summary.ratio, seconds[name, method], base)
        paper = theirs.get(method), summary.ratio(theirs.get(method), theirs.get("OVE"))
        times.append([name, method, paper[0], *seconds[name, method], paper[1], *relative])
        likelihood, accuracy = published.RUIZ["table_3"].get(name, {}).get(method, (None, None))
        likelihoods = [likelihood, *_means(sides, _log_likelihood), *_means(sides, "log_likelihood")]
        scores.append([name, method, *likelihoods, accuracy, *_means(sides, "accuracy")])
    ran = what_ran(records)
    columns: tuple[str, ...] = ("covariates", "paper", "classes", "paper", "train", "paper", "test", "paper")
    caption = "Table 1: data (and the paper's minibatches of points and classes, and iterations)"
    yield Table("table-1", caption, ("data", *columns, "paper's settings"), sizes)
    columns = ("data", "method", "seconds a pass, paper", *BOTH, "over OVE's, paper", *BOTH)
    yield Table("table-2", "Table 2: training time of a pass, ours of the processor", columns, times, ran)
    by_quadrature = (f"by quadrature, {b}" for b in BOTH)
    columns = ("data", "method", "log-likelihood, paper", *BOTH, *by_quadrature, "accuracy, paper", *BOTH)
    caption = "Table 3: test log-likelihood per point (of probit and logistic by the paper's sampler) and accuracy"
    yield Table("table-3", caption, columns, scores, ran)
    caption = "Figure 2: evidence lower bound by processor seconds of training"
    yield Plot("figure-2", caption, "seconds", "mean bound [nats]", summary.panels(records, "seconds", "elbo", "-o"))
    yield from summary.shape_figures("Table 1", records, published.SHAPE)
    yield from _figures("Table 2", records, {"seconds": "seconds_per_pass"})
    yield from _figures("Table 3", records, {"log-likelihood": _log_likelihood, "accuracy": "accuracy"})
    bounded = [r for r in records if PAPERS_STEPS.get(r["method"], r["method"]) in ("OVE", "softmax A&R")]
    yield from _figures("Figure 2", bounded, {"bound at the end": "elbo"})


DATA = ("synthetic", *published.RUIZ["shapes"])
EXPERIMENT = Experiment("augment-reduce", SUMMARY, DATA, METHODS, plans, load, perform, report, settings=DATA[1:])
