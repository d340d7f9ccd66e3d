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
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax

from manyclass import _core, solvers
from manyclass.bounds import one_vs_each
from manyclass.bounds.closed_forms import maximum_log_likelihood, maximum_one_vs_each
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.papers import published, summary
from manyclass.papers.data import Problem, Scale, load_problem
from manyclass.papers.engine import Context, Experiment, Options, Records, Results, Run, Stopwatch
from manyclass.papers.report import ExperimentReport, PaperFigure, Plot, Table
from manyclass.papers.summary import RAN, trained_with, what_ran
from manyclass.special import sampled_utility_log_probabilities
from manyclass.training.core_training import TrainingState

NAME = "augment-reduce"
SUMMARY = "Ruiz et al. 2018: softmax, probit and logistic A&R (Tables 1-3, Figure 2, section 4.1)"
NOISE = {"softmax A&R": "gumbel", "probit A&R": "normal", "logistic A&R": "logistic"}
OURS = ("exact", "OVE", "Botev (css)", *NOISE)
PAPERS_STEPS = {f"{method}, paper's steps": method for method in published.RUIZ["methods"]}
METHODS = (*OURS, *PAPERS_STEPS)
SCALE: dict[str, Scale] = {"eurlex": "max", "amazoncat": "max"}
PASSES, SYNTHETIC_PASSES = 20, 60
CLIP = -26.0
CODES_GAIN = 0.001  # of the local step of probit and logistic noise in the authors' code; the paper says 0.01
BOTH = ("paper's steps", "ours")  # columns beside the paper's value
CURVE_POINTS = 1000  # Figure 2's curves are over this many training points, the same for all methods
NEGATIVES = 64
SYNTHETIC_NEGATIVES, SYNTHETIC_CHECKPOINTS = 100, 12  # one-vs-each of all classes takes K^2 terms
CHECKPOINTS = 50  # of Figure 2's curves at most: the paper's iterations are many passes of small sets

Estimator = SoftmaxClassifier | AugmentReduceClassifier


def runs(name: str, options: Options) -> list[Run]:
    """One run a method; on the synthetic set for the two that the paper has."""
    part = "synthetic" if name == "synthetic" else "table 3"
    planned: list[Run] = []
    settings_name = options.settings_for(name, published.RUIZ["minibatches"])
    for method in METHODS:
        named = PAPERS_STEPS.get(method, method)
        if not options.wants(method) or (name == "synthetic" and named not in published.RUIZ["synthetic"]):
            continue
        settings: dict[str, Any] = dict(options.sizes)
        if method in PAPERS_STEPS:
            model, settings["iterations"] = _papers_model(named, settings_name)
        else:
            model = _model(named, settings_name)
        if options.max_iter:
            model["max_iter"] = options.max_iter
        planned += Run.for_seeds((NAME, part, name, method), options.seeds, settings, model)
    return planned


def _model(method: str, name: str) -> dict[str, Any]:
    solver = {"exact": solvers.Exact, "OVE": solvers.OVE, "Botev (css)": solvers.CSS}.get(method, solvers.Implicit)
    model: dict[str, Any] = {"solver": solver(decay=0.8 if name == "mnist" else 0.9, averaging="none")}
    if name != "synthetic":
        return model | {"max_iter": PASSES} | _beside(method, NEGATIVES, "frequency_block")
    sampler = "frequency_block" if method in NOISE else "block"
    model |= {"max_iter": SYNTHETIC_PASSES, "fit_intercept": False}
    return model | _beside(method, SYNTHETIC_NEGATIVES, sampler)


def _beside(method: str, n_negatives: int, sampler: str) -> dict[str, Any]:
    """What a method has beside its solver."""
    noise = {"noise": NOISE[method]} if method in NOISE else {}
    return noise | ({} if method == "exact" else {"n_negatives": n_negatives, "sampler": sampler})


def _papers_model(method: str, name: str) -> tuple[dict[str, Any], int]:
    """The paper's algorithm, but for the passes that its iterations make; and the iterations."""
    size, n_negatives, iterations = published.RUIZ["minibatches"][name]
    solver = {"exact": solvers.Exact, "OVE": solvers.OVE}.get(method, solvers.SGD)
    model = {
        "solver": solver(
            schedule="adaptive",
            batch_size=size,
            decay=published.RUIZ["decay"],
            decay_every=published.RUIZ["decay_iterations"],
            averaging="none",
        ),
        "learning_rate": published.RUIZ["step"],
        **_beside(method, n_negatives, "uniform"),
        **({"fit_intercept": False} if name == "synthetic" else {}),
    }
    if method in NOISE:
        noise = NOISE[method]
        codes = solvers.MonteCarlo(family=noise, gain=CODES_GAIN, start="standard")
        model["local_step"] = solvers.Natural(floor=0) if noise == "gumbel" else codes
    return model, iterations


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


def synthetic_counts(seed: int, scale: float) -> NDArray[np.int64]:
    """Counts of 10^4 classes among 3 10^5 points, p proportional to squares of uniform numbers (section 4.1)."""
    n, n_classes = (max(20, round(scale * size)) for size in (300_000, 10_000))
    rng = np.random.default_rng(seed)
    p = rng.random(n_classes) ** 2
    counts: NDArray[np.int64] = rng.multinomial(n, p / p.sum())
    return counts[counts > 0]


def perform(run: Run, context: Context) -> Results:
    """Train; on the synthetic set biases only."""
    return _synthetic(run) if run.data == "synthetic" else _classification(run, context.data)


def _synthetic(run: Run) -> Results:
    counts = synthetic_counts(run.seed, run.settings["scale"])
    n = int(counts.sum())
    y = np.repeat(np.arange(len(counts)), counts)
    ones = np.ones((1, 1), dtype=np.float32)
    curve: dict[str, list[float]] = {"seconds": [], "bound": [], "mean_absolute_error": []}

    model = _estimator(run, n)
    checkpoints = summary.evenly_spaced(int(model.max_iter), SYNTHETIC_CHECKPOINTS)
    is_softmax = "noise" in run.model

    def note(state: TrainingState) -> None:
        if state.n_iter not in checkpoints:
            return
        f = state.scores(ones)[0].astype(np.float64)
        log_p = log_softmax(f)
        curve["seconds"].append(state.seconds)
        curve["mean_absolute_error"].append(float(np.abs(np.exp(log_p) - counts / n).mean()))
        curve["bound"].append(float(counts @ (log_p if is_softmax else _core.one_vs_each_of_classes(f))))

    model.fit(sp.csr_array(np.ones((n, 1), dtype=np.float32)), y, callback=note, **_start(run, len(counts), 1))
    closed = maximum_log_likelihood(counts) if is_softmax else maximum_one_vs_each(counts)
    return {"n_classes": len(counts), "closed_form": closed, **curve, RAN: trained_with(model)}


def _classification(run: Run, data: Problem) -> Results:
    classes, labels = np.unique(data.y_train, return_inverse=True)
    rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:CURVE_POINTS])
    X_some, some_labels = data.X_train[rows], labels[rows].astype(np.int32)
    curve: dict[str, list[float]] = {"seconds": [], "elbo": []}
    model = _estimator(run, len(labels))
    checkpoints = summary.evenly_spaced(int(model.max_iter), CHECKPOINTS)

    clock = Stopwatch()

    def note(state: TrainingState) -> None:
        with clock.stopped() as spent:
            if state.n_iter in checkpoints:
                curve["seconds"].append(spent)
                curve["elbo"].append(_bound(run, state, X_some, some_labels))

    model.fit(data.X_train, data.y_train, callback=note, **_start(run, len(classes), data.X_train.shape[1]))
    measures = model.evaluate(data.X_test, data.y_test)
    n_classes, n_features, n_train = data.shape
    return {
        "shape": [n_features, n_classes, n_train, len(data.y_test)],
        "log_likelihood": -measures["log_loss"],
        "sampled": _by_the_papers_sampler(run, model, data, np.searchsorted(classes, data.y_test)),
        "accuracy": 1 - measures["error"],
        "seconds_per_pass": clock.seconds / max(1, model.n_iter_) if curve["seconds"] else None,
        **curve,
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


def report(records: Records, options: Options) -> ExperimentReport:
    """Tables 1-3, Figure 2 and section 4.1."""
    groups = summary.by_key(records, "part")
    tables: list[Table] = []
    plots: list[Plot] = []
    if "synthetic" in groups:
        tables.append(_table_of_synthetic(groups["synthetic"]))
        plots.append(_plot_of_synthetic(groups["synthetic"]))
    if "table 3" in groups:
        real = groups["table 3"]
        tables += [_table_1(real), _table_2(real), _table_3(real)]
        caption = "Figure 2: evidence lower bound by processor seconds of training"
        drawn = summary.panels(real, "seconds", "elbo", "-o")
        plots.append(Plot("figure-2", caption, "seconds", "mean bound [nats]", drawn))
    return ExperimentReport(tuple(tables), tuple(plots), published.NOTES[NAME], tuple(_figures(groups)))


def _figures(groups: dict[Any, Records]) -> Iterator[PaperFigure]:
    """Of "..., paper's steps" under the paper's name of the method, of ours with "ours" before each quantity."""
    for (name, method), sides in _sides(groups.get("synthetic", [])).items():
        keys = {"bound": ("bound",), "mean error": ("mean_absolute_error",)}
        yield from _both("section 4.1", name, method, sides, keys)
    real = groups.get("table 3", [])
    yield from summary.shape_figures("Table 1", real, published.SHAPE)
    for (name, method), sides in _sides(real).items():
        yield from _both("Table 2", name, method, sides, {"seconds": ("seconds_per_pass",)})
        scores = {"log-likelihood": ("sampled", "log_likelihood"), "accuracy": ("accuracy",)}
        yield from _both("Table 3", name, method, sides, scores)
        if method in ("OVE", "softmax A&R"):
            yield from _both("Figure 2", name, method, sides, {"bound at the end": ("elbo",)})


def _both(
    item: str, name: str, method: str, sides: tuple[Records, Records], keys: Mapping[str, tuple[str, ...]]
) -> Iterator[PaperFigure]:
    """A figure of the paper's steps, and one of ours, as far as they ran."""
    for side, label in zip(sides, (method, f"{method}, ours"), strict=True):
        if side:
            values = {word: summary.mean(_value(r["results"], results) for r in side) for word, results in keys.items()}
            yield PaperFigure(item, name, label, values, side)


def _sides(records: Records) -> dict[tuple[str, str], tuple[Records, Records]]:
    """Records by data set and the paper's name of the method: those with the paper's steps, and ours."""
    sides: dict[tuple[str, str], tuple[Records, Records]] = {}
    for (name, method), group in summary.by_key(records, "data", "method").items():
        pair = sides.setdefault((name, PAPERS_STEPS.get(method, method)), ([], []))
        pair[method not in PAPERS_STEPS].extend(group)
    return sides


def _means(sides: tuple[Records, Records], *keys: str) -> list[float | None]:
    """Of each side the mean over seeds of the first of the results that is there, the last value of a curve."""
    return [summary.mean([_value(r["results"], keys) for r in side]) for side in sides]


def _value(results: Results, keys: tuple[str, ...]) -> float | None:
    for key in keys:
        value = results[key]
        value = (value or [None])[-1] if isinstance(value, list) else value
        if value is not None:
            return float(value)
    return None


def _table_of_synthetic(records: Records) -> Table:
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
    return Table("synthetic", "Section 4.1: biases only, 10^4 classes", columns, rows, what_ran(records))


def _plot_of_synthetic(records: Records) -> Plot:
    caption = "Section 4.1: mean absolute error of the probabilities by training time"
    drawn = summary.panels(records, "seconds", "mean_absolute_error", "-o")
    return Plot("synthetic", caption, "seconds", "mean |p - p_ML|", drawn, log_y=True)


def _table_1(records: Records) -> Table:
    rows: list[list[Any]] = []
    for name, group in summary.by_key(records, "data").items():
        ours, theirs = group[0]["results"]["shape"], published.RUIZ["shapes"].get(name, (None,) * 4)
        batch = published.RUIZ["minibatches"].get(name)
        rows.append([name, *summary.beside(ours, theirs), ", ".join(map(str, batch)) if batch else None])
    columns = ("data", "covariates", "paper", "classes", "paper", "train", "paper", "test", "paper")
    caption = "Table 1: data (and the paper's minibatches of points and classes, and iterations)"
    return Table("table-1", caption, (*columns, "paper's settings"), rows)


def _table_2(records: Records) -> Table:
    groups = _sides(records)
    seconds = {key: _means(sides, "seconds_per_pass") for key, sides in groups.items()}
    rows: list[list[Any]] = []
    for name, method in groups:
        theirs = published.RUIZ["seconds"].get(name, {})
        base = seconds.get((name, "OVE"), [None, None])
        relative = [summary.ratio(time, base_time) for time, base_time in zip(seconds[name, method], base, strict=True)]
        paper = theirs.get(method), summary.ratio(theirs.get(method), theirs.get("OVE"))
        rows.append([name, method, paper[0], *seconds[name, method], paper[1], *relative])
    columns = ("data", "method", "seconds a pass, paper", *BOTH, "over OVE's, paper", *BOTH)
    return Table("table-2", "Table 2: training time of a pass, ours of the processor", columns, rows, what_ran(records))


def _table_3(records: Records) -> Table:
    rows: list[list[Any]] = []
    for (name, method), sides in _sides(records).items():
        theirs = published.RUIZ["table_3"].get(name, {}).get(method, (None, None))
        by_sampler, by_quadrature = _means(sides, "sampled", "log_likelihood"), _means(sides, "log_likelihood")
        accuracy = _means(sides, "accuracy")
        rows.append([name, method, theirs[0], *by_sampler, *by_quadrature, theirs[1], *accuracy])
    by_quadrature_of = (f"by quadrature, {b}" for b in BOTH)
    columns = ("data", "method", "log-likelihood, paper", *BOTH, *by_quadrature_of, "accuracy, paper", *BOTH)
    caption = "Table 3: test log-likelihood per point (of probit and logistic by the paper's sampler) and accuracy"
    return Table("table-3", caption, columns, rows, what_ran(records))


DATA = ("synthetic", *published.RUIZ["shapes"])
EXPERIMENT = Experiment(NAME, SUMMARY, DATA, METHODS, runs, load, perform, report, settings=DATA[1:])
