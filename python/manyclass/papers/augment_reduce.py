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

from collections.abc import Iterator
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
from manyclass.papers.summary import RAN, Plot, Records, trained_with
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
SOLVERS = {"exact": solvers.Exact, "OVE": solvers.OVE, "Botev (css)": solvers.CSS}  # where not implicit, or SGD
LOCAL_STEPS = {
    method: solvers.MonteCarlo(family=noise, gain=CODES_GAIN, start="standard") for method, noise in NOISE.items()
} | {"softmax A&R": solvers.Natural(floor=0)}
MINIBATCHES = published.RUIZ["minibatches"]  # points, classes and iterations by data set
CURVE_POINTS = 1000  # Figure 2's curves are over this many training points, the same for all methods
CHECKPOINTS = 50  # of Figure 2's curves at most: the paper's iterations are many passes of small sets

Estimator = SoftmaxClassifier | AugmentReduceClassifier


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """One run a method; on the synthetic set for the two that the paper has."""
    settings_name = options.settings_for(name, MINIBATCHES)
    passes = {"max_iter": options.max_iter} if options.max_iter else {}
    for method in METHODS:
        if name != "synthetic":
            part = "table 3"
        elif PAPERS_STEPS.get(method, method) in ("OVE", "softmax A&R"):
            part = "synthetic"
        else:
            continue
        iterations = {"iterations": MINIBATCHES[settings_name][2]} if method in PAPERS_STEPS else {}
        yield MethodPlan(part, method, _model(method, settings_name) | passes, iterations)


def _model(method: str, name: str) -> dict[str, Any]:
    """Parameters of a method, with the settings of a data set; the paper's iterations make its passes."""
    named, drawn = PAPERS_STEPS.get(method, method), name == "synthetic"
    model: dict[str, Any] = {"noise": NOISE[named]} if named in NOISE else {}
    if drawn:
        model["fit_intercept"] = False
    if method in PAPERS_STEPS:
        size, n_negatives, _ = MINIBATCHES[name]
        fall = {"decay": published.RUIZ["decay"], "decay_every": published.RUIZ["decay_iterations"]}
        solver = SOLVERS.get(named, solvers.SGD)(schedule="adaptive", batch_size=size, averaging="none", **fall)
        model |= {"solver": solver, "learning_rate": published.RUIZ["step"]}
        model |= {"local_step": LOCAL_STEPS[named]} if named in NOISE else {}
        sampled = {"n_negatives": n_negatives, "sampler": "uniform"}
    else:
        solver = SOLVERS.get(named, solvers.Implicit)(decay=0.8 if name == "mnist" else 0.9, averaging="none")
        model |= {"solver": solver, "max_iter": 60 if drawn else 20}
        # One-vs-each of all classes takes K^2 terms.
        blocks = "block" if drawn and named == "OVE" else "frequency_block"
        sampled = {"n_negatives": 100 if drawn else 64, "sampler": blocks}
    return model if named == "exact" else model | sampled


def load(name: str, options: Options) -> Problem | None:
    """The data set; none for the synthetic one, which a run draws with its seed."""
    if name == "synthetic":
        return None
    scale = SCALE.get(options.settings_for(name, MINIBATCHES))
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
    X, shown_labels = data.X_train[rows], labels[rows].astype(np.int32)
    model = _estimator(run, len(labels))
    checkpoints = summary.evenly_spaced(int(model.max_iter), CHECKPOINTS)
    start = _start(run, len(classes), data.X_train.shape[1])
    curve = Curve(("seconds", "elbo"), lambda state: {"elbo": _bound(run, state, X, shown_labels)}, checkpoints)
    model.fit(data.X_train, data.y_train, callback=curve, **start)
    measures = model.evaluate(data.X_test, data.y_test)
    sampled = _by_the_papers_sampler(run, model, data, np.searchsorted(classes, data.y_test))
    scores = {"log_likelihood": -measures["log_loss"], "sampled": sampled, "accuracy": 1 - measures["error"]}
    seconds = curve.seconds / max(1, model.n_iter_) if curve.values["seconds"] else None
    return {"shape": data.sizes, **scores, "seconds_per_pass": seconds, **curve.values, RAN: trained_with(model)}


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
    """Tables 1-3, Figure 2 and section 4.1; methods of ours that are not the paper's have "ours" behind their name."""
    named = [{**r, "method": PAPERS_STEPS.get(r["method"], f"{r['method']}, ours")} for r in records]
    parts = summary.by_key(named, "part")
    drawn, trained = parts.get("synthetic", []), parts.get("table 3", [])
    caption = f"biases only, 10^4 classes ({published.RUIZ['synthetic_classes']} in the paper)"
    errors = {"bound": "bound", "mean error": "mean_absolute_error", "bound, closed form": "closed_form"}
    errors |= {"classes": "n_classes", "seconds": "seconds"}
    yield from summary.compare("section 4.1", caption, drawn, errors, name="synthetic")
    if drawn:
        caption = "Section 4.1: mean absolute error of the probabilities by training time"
        lines = summary.panels(drawn, "seconds", "mean_absolute_error", "-o")
        yield Plot("synthetic", caption, "seconds", "mean |p - p_ML|", lines, log_y=True)
    yield from summary.shapes("Table 1", trained, published.SHAPE)
    caption = "training time of a pass, ours of the processor"
    yield from summary.compare("Table 2", caption, trained, {"seconds": "seconds_per_pass"})
    caption = "test log-likelihood per point (of probit and logistic by the paper's sampler) and accuracy"
    log_p = summary.averaged(lambda results: results["log_likelihood" if results["sampled"] is None else "sampled"])
    scores: dict[str, summary.Quantity] = {"log-likelihood": log_p, "accuracy": "accuracy"}
    yield from summary.compare("Table 3", caption, trained, scores | {"by quadrature": "log_likelihood"})
    if trained:
        caption, lines = "evidence lower bound by processor seconds", summary.panels(trained, "seconds", "elbo", "-o")
        yield Plot("figure-2", f"Figure 2: {caption} of training", "seconds", "mean bound [nats]", lines)
    bounded = [r for r in trained if r["method"].removesuffix(", ours") in ("OVE", "softmax A&R")]
    yield from summary.compare("Figure 2", "evidence lower bound at the end", bounded, {"bound at the end": "elbo"})


DATA = ("synthetic", *(data for data, _ in published.values("augment-reduce", "Table 1")))
EXPERIMENT = Experiment("augment-reduce", SUMMARY, DATA, METHODS, plans, load, perform, report, settings=DATA[1:])
