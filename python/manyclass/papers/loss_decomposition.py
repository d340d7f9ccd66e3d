"""Yen et al. 2018, figures 1 and 2: which classes a step should see, by accuracy against time and against passes.

The methods of section 5: exact softmax and margin, sampled softmax with K / 100 uniform classes (without and with the
log-q correction), the margin by search (Algorithm 1), by searches in blocks of columns whose finds are scored exactly,
and by greedy message passing (Algorithm 2, T = 1). Dense data have one label a row and a linear model, 8 blocks
(faces: 4) and mu = 1; sparse ones several labels, embeddings of length 100, 4 blocks and mu = 5. Steps are Adagrad's,
the same for all; "..., paper's steps" are SGD's on batches of 10 with the best of the paper's three step sizes, which
falls as 1 / (1 + t) with the number t of batches, and where it searches, clusters (of mips 100) are read in the order
of their scores until they hold K / 100 classes. "printed messages" is Algorithm 2 to the letter. Accuracy is that of
the first prediction (P@1), on as many as 1,000 points of each part; time is the processor's, of all threads, without
measuring.

MegaFace and WikiLSHTC cannot be had: `faces` stands in for the first, unit vectors around 100,000 identities whose
spectrum falls as that of embeddings does, with nothing that clusters them; the second has eurlex57k, yso-en and gowalla
in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import samplers, solvers
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.datasets import l2_normalize, load_xmc
from manyclass.datasets.csr import ones_at
from manyclass.datasets.xmc import split_file
from manyclass.figures import FIGURES
from manyclass.metrics import precision_at_k
from manyclass.papers import summary
from manyclass.papers.data import find_data, load_problem
from manyclass.papers.engine import Context, Curve, Experiment, Items, MethodPlan, Options, Results, Run
from manyclass.papers.summary import RAN, Plot, Quantity, Records, averaged, trained_with
from manyclass.search.clustered import auto_clusters
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.core_training import TrainingState

SUMMARY = "Yen et al. 2018: exact, sampled, searched and decomposed gradients, accuracy against time and passes"
FACES = "faces"
DATA = ("omniglot", FACES, "eurlex57k", "yso-en", "gowalla")
DENSE = ("omniglot", FACES, "mnist")
STANDING_IN = {"Table 1": FACES, "Table 2": "yso-en"}  # for the data of the paper's tables
OURS = ("softmax", "sampled-softmax", "sampled-softmax-logq", "margin", "mips", "decomposed", "messages")
PRINTED = "printed messages"  # the rule "printed" of messages: Algorithm 2 to the letter
BY_PAPERS_STEPS = ("softmax", "sampled-softmax", "margin", "mips", "messages", PRINTED)
PAPERS_STEPS = {f"{method}, paper's steps": method for method in BY_PAPERS_STEPS}
BY_MESSAGES = ("messages", PRINTED)
METHODS = (*OURS, *PAPERS_STEPS)
PASSES = 10
SECONDS = 60.0
# Section 5 of the paper: first step sizes, of which each method takes its best, points of a minibatch, clusters, and
# the share of the classes that is sampled or found.
RATES, BATCH, CLUSTERS, SHARE = (1.0, 0.1, 0.01), 10, 100, 100
MEASURED = 1000
EMBEDDING = 100
OVERTIME = 30  # a run ends after this many times its budget by the wall clock

IDENTITIES, FACE_DIMS, FACES_EACH, NOISE = 100_000, 128, 4, 1.5
# What a search probes of its 2 sqrt(K) clusters on faces, and what it returns: for 100,000 identities a step by search
# then costs less than a tenth of the exact one. Four blocks learn more there than eight in less time; of 20,000
# identities eight learn more (bench/decisions.md).
FEW_PROBES, FEW_FOUND = 4, 64
BLOCKS_OF_FACES, FEW_FOUND_IN_BLOCKS = {"n_blocks": 4, "n_probe": 2}, 32
DECAY_OF_SPECTRUM = 16.0  # the d-th principal direction has a standard deviation of 1 / (1 + d / 16)

Points = tuple[Any, sp.csr_array]  # with an indicator matrix of their labels
Parts = tuple[Points, Points]  # to train and to test on


def plans(name: str, options: Options) -> Iterator[MethodPlan]:
    """Each method with each seed."""
    settings = {"seconds": options.seconds or SECONDS, "max_iter": options.max_iter or PASSES}
    for method in METHODS:
        yield MethodPlan("curve", method, model_of(name, method), settings)


def model_of(name: str, method: str) -> dict[str, Any]:
    """Parameters of a method; the sample's size and the index depend on K and are set when the data are there."""
    dense, papers, method = name in DENSE, method in PAPERS_STEPS, PAPERS_STEPS.get(method, method)
    sampled, by_messages = method.startswith("sampled"), method in BY_MESSAGES
    log_q = {"log_q": method.endswith("logq")} if sampled else {}
    if papers:
        kind = {"softmax": solvers.Exact, "sampled-softmax": solvers.CSS}.get(method, solvers.SGD)
        solver = kind(schedule="inverse", decay_every=1, batch_size=BATCH, **log_q)
    else:
        solver = solvers.Adagrad(decay=1.0, **log_q)
    model: dict[str, Any] = {"solver": solver} | ({} if dense else {"model": "embedding", "dim": EMBEDDING})
    if sampled or method == "softmax":
        return model | {"sampler": "uniform" if sampled else "all"}
    # Algorithm 2 with T = 1 and its own step, 2 / 3; ours goes all the way.
    step = {"step": "frank_wolfe" if papers and by_messages else "full"}
    rule = {"rule": "printed"} if method == PRINTED else {}
    search = samplers.Search(index="messages" if by_messages else method, fill=papers, **step, **rule)
    return model | {"smoothing": 1.0 if dense else 5.0, "sampler": "all" if method == "margin" else search}


def load(name: str, options: Options) -> Parts:
    """Unit rows to train and to test on; sparse data with all labels."""
    if name == FACES:
        return faces(max(20, round(options.scale * IDENTITIES)))
    if name in DENSE:
        data = load_problem(options.places[name], scale="l2", max_rows=options.max_rows)
        n_classes = int(data.y_train.max()) + 1
        return (data.X_train, _indicator(data.y_train, n_classes)), (data.X_test, _indicator(data.y_test, n_classes))
    train, test = (load_xmc(split_file(find_data(options.places[name]), part)) for part in ("train", "test"))
    return _labelled(*train, options.max_rows), _labelled(*test, options.max_rows)


def _labelled(X: sp.csr_array, Y: sp.csr_array, max_rows: int | None) -> Points:
    rows = np.flatnonzero(np.diff(Y.indptr))[:max_rows]
    return l2_normalize(X[rows]), sp.csr_array(Y[rows])


def _indicator(y: NDArray[np.int64], n_classes: int) -> sp.csr_array:
    return ones_at(y, np.ones(len(y)), n_classes)


def faces(n_identities: int, seed: int = 0, noise: float = NOISE) -> Parts:
    """Draw unit vectors around identities, noise as long as said: FACES_EACH to train on and one to test each."""
    rng = np.random.default_rng(seed)
    spectrum = 1 / (1 + np.arange(FACE_DIMS) / DECAY_OF_SPECTRUM)
    rotation, _ = np.linalg.qr(rng.standard_normal((FACE_DIMS, FACE_DIMS)))
    centers = _unit((rng.standard_normal((n_identities, FACE_DIMS)) * spectrum) @ rotation)
    labels = np.repeat(np.arange(n_identities), FACES_EACH), np.arange(n_identities)
    sigma = noise / np.sqrt(FACE_DIMS)
    drawn = [_unit(centers[y] + sigma * rng.standard_normal((len(y), FACE_DIMS))).astype(np.float32) for y in labels]
    train, test = ((X, _indicator(y, n_identities)) for X, y in zip(drawn, labels, strict=True))
    return train, test


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def perform(run: Run, context: Context) -> Results:
    """Train; accuracy after each pass. With the paper's steps, of the step size that ends best in training."""
    if run.method not in PAPERS_STEPS:
        return _trained(run, context.data)
    by_rate = [_trained(run, context.data, learning_rate=rate) for rate in RATES]
    return max(by_rate, key=lambda results: results["train"][-1] if results["train"] else -np.inf)


def _trained(run: Run, data: Parts, **parameters: Any) -> Results:
    X, Y = data[0]
    n_classes, budget = Y.shape[1], run.settings["seconds"]
    if run.parameters["sampler"] != "all":
        parameters["n_negatives"] = _share_of(n_classes)
    kind = MarginClassifier if "smoothing" in run.model else SoftmaxClassifier
    model = run.estimator(kind, max_iter=run.settings["max_iter"], **parameters)
    model.set_params(**{f"sampler__{name}": value for name, value in _search(run, n_classes).items()})
    rng = np.random.default_rng(0)
    parts = {name: _sample(rng, *points) for name, points in zip(("train", "test"), data, strict=True)}

    def measure(state: TrainingState) -> dict[str, float]:
        return {"loss": state.loss, **{part: _hits(state, *points) for part, points in parts.items()}}

    curve = Curve(("seconds", "train", "test", "loss"), measure, limit=budget)
    model.fit(X, Y, callback=curve, max_seconds=OVERTIME * budget)
    shape = [n_classes, X.shape[1], X.shape[0]]
    beside: dict[str, Any] = {}
    if PAPERS_STEPS.get(run.method, run.method) in BY_MESSAGES:  # in the words of Algorithm 2
        names = {"T": "n_iter", "step of a message": "step", "tau_2": "tolerance", "rule": "rule"}
        chosen = model.get_params()["sampler"].get_params()
        beside = {"blocks": FIGURES.COLUMN_BLOCKS, **{word: chosen[name] for word, name in names.items()}}
    return {**curve.values, "shape": shape, RAN: trained_with(model, **beside)}


def _share_of(n_classes: int) -> int:
    return max(1, -(-n_classes // SHARE))


def _search(run: Run, n_classes: int) -> dict[str, Any]:
    """Return the index and the budget of a method that searches, where they are not the package's own."""
    few = run.data == FACES and auto_clusters(n_classes) > FEW_PROBES
    searched = PAPERS_STEPS.get(run.method)
    if searched == "mips":
        index = SphericalClusterIndex(min(CLUSTERS, n_classes), n_probe=1, random_state=run.seed)
        return {"index": index, "budget": _share_of(n_classes)}
    if searched in BY_MESSAGES:
        return {"budget": _share_of(n_classes)}
    if run.method == "mips" and few:
        index = SphericalClusterIndex(n_probe=FEW_PROBES, random_state=run.seed)
        return {"index": index, "budget": FEW_FOUND}
    if run.method == "decomposed":
        blocks: dict[str, Any] = {"n_blocks": 8 if run.data in DENSE else 4, "n_probe": "auto"}
        index = DecomposedIndex(**(BLOCKS_OF_FACES if few else blocks), random_state=run.seed)
        return {"index": index, "budget": FEW_FOUND_IN_BLOCKS if few else None}
    return {}


def _sample(rng: np.random.Generator, X: Any, Y: sp.csr_array) -> tuple[Any, sp.csr_array]:
    rows = np.sort(rng.permutation(X.shape[0])[:MEASURED])
    return X[rows], sp.csr_array(Y[rows])


def _hits(state: TrainingState, X: Any, Y: sp.csr_array) -> float:
    """P@1."""
    step = max(1, (1 << 24) // Y.shape[1])
    best = [state.scores(X[first : first + step]).argmax(axis=1) for first in range(0, X.shape[0], step)]
    return float(precision_at_k(Y, np.concatenate(best)[:, np.newaxis], k=1))


def report(records: Records) -> Items:
    """A table of ends for each data set, and the figures."""
    quantities: dict[str, Quantity] = {
        "P@1": "test",
        "P@1 in training": "train",
        "best P@1": averaged(lambda results: max(results["test"], default=None)),
        "seconds a pass": averaged(_seconds_of_a_pass),
        "passes": averaged(lambda results: float(len(results["seconds"]))),
    }
    for name, group in summary.by_key(records, "data").items():
        shape = group[0]["results"]["shape"]
        caption = f"P@1 after the last pass, {name} (K = {shape[0]}, D = {shape[1]}, N = {shape[2]})"
        figure, stem = "Figure 1" if name in DENSE else "Figure 2", f"loss-decomposition-{name}"
        yield from summary.compare(figure, caption, group, quantities, name=stem)
    for table, name in STANDING_IN.items():
        group = [r for r in records if r["data"] == name]
        yield from summary.shapes(table, group, ("classes", "features", "rows"))
    for axis, name in (("seconds", "time"), ("passes", "passes")) if records else ():
        shown = [{**r, "results": r["results"] | {"passes": range(1, len(r["results"]["test"]) + 1)}} for r in records]
        pairs = [(part, panel) for part in ("test", "train") for panel in summary.panels(shown, axis, part)]
        panels = [replace(panel, title=f"{panel.title}, {part}") for part, panel in pairs]
        yield Plot(f"loss-decomposition-{name}", f"P@1 against {name}", axis, "P@1", panels, log_x=True)


def _seconds_of_a_pass(results: Results) -> float | None:
    ends = results["seconds"]
    return (ends[-1] - ends[0]) / max(1, len(ends) - 1) if ends else None


EXPERIMENT = Experiment("loss-decomposition", SUMMARY, DATA, METHODS, plans, load, perform, report, open_data=True)
