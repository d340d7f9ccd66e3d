"""Made data with thousands of classes, on which this package is trained beside scikit-learn."""

from __future__ import annotations

import os
import random
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number, n_threads_from
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.cli.messages import waiting
from manyclass.cli.options import WithProgress
from manyclass.datasets import Planted, make_planted
from manyclass.metrics import top_k_accuracy
from manyclass.solvers import Implicit
from manyclass.training.passes import interruption_of
from manyclass.weights.weights import Weights

SAMPLE = 10_000  # new rows to measure on, which make the standard error of a share at most 0.5 %
# Ten of a hundred features with scores this wide make the right class the first one in about three of ten rows.
N_FEATURES, NNZ, SCALE = 100, 10, 4.0
DECAY, PASSES = 0.7, 6  # six passes were seen to end within 2 % of the rule's own share
FIRST_ROWS = 1_000  # that scikit-learn fits to; they are doubled while there is time
LEAST_SECONDS = 1.0  # that scikit-learn has in any case
GROWTH = 5.0  # of its seconds, where its rows are doubled: both rows and the classes among them grow
BLOCK = 1_000  # rows of scores over all classes at a time
PLACES = (1, 5)

# What the texts of the file to try are about, by their labels.
GOODS = {
    "garden": ("rake", "seeds", "hose", "spade", "flower pot", "lawn mower"),
    "kitchen": ("kettle", "frying pan", "wooden spoon", "oven dish", "bread knife", "tea pot"),
    "music": ("guitar strings", "piano stool", "drum sticks", "violin bow", "sheet music", "flute"),
    "office": ("stapler", "paper clips", "desk lamp", "folder", "printer paper", "pen"),
    "sport": ("tennis racket", "football", "running shoes", "swimming cap", "bicycle pump", "ski poles"),
}
KINDS = ("small", "large", "red", "blue", "cheap", "new", "second-hand", "light", "strong", "old")
N_TEXTS = 400

Best = Callable[[sp.csr_array], NDArray[np.int64]]


@dataclass(kw_only=True)
class DemoArguments(WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    quick : bool
        500 classes and 50,000 rows: some seconds in all
    n_classes : int
        number of classes K; default: 10,000
    n_samples : int
        number of training rows N; default: 50 a class
    max_seconds : S
        train at most S seconds
    n_jobs : int
        threads; -1: all cores
    random_state : int
        seed of the data and of training
    """

    quick: bool = False
    n_classes: int | None = None
    n_samples: int | None = None
    max_seconds: float = 15
    n_jobs: int = -1
    random_state: int = 0


class Result(NamedTuple):
    """What one way of finding the class was given, and how often the class was first, and among the first five."""

    name: str
    rows: int | None
    seconds: float | None
    first: float
    first_five: float


def demo(args: DemoArguments) -> int:
    """Show what this is for, in half a minute: train on made data with thousands of classes, beside scikit-learn.

    Rows are drawn by a known rule, a softmax with known weights, so that the best that anything can do on new rows is
    known too. Shown are how often the right class comes first, and how often it is among the first five, for the
    default way of training here, for scikit-learn's LogisticRegression, and for the rule itself. scikit-learn fits to
    more and more rows, twice as many each time, as long as the next fit is expected to take no longer than training
    here did. Then a small file of texts is written to a folder for temporary files, with commands to try on it.
    """
    default, rows_a_class = (500, 100) if args.quick else (10_000, 50)
    n_classes = default if args.n_classes is None else args.n_classes
    n_samples = rows_a_class * n_classes if args.n_samples is None else args.n_samples
    check_number("n_classes", n_classes, low=6, integer=True)
    check_number("n_samples", n_samples, low=100, integer=True)
    n_threads = n_threads_from(args.n_jobs)
    print("\n".join(opening(n_classes, n_samples)), flush=True)
    with waiting("making the data", shown=args.progress):
        seed = args.random_state
        data = make_planted(n_samples, n_classes, N_FEATURES, n_test=SAMPLE, nnz=NNZ, scale=SCALE, random_state=seed)
    ours = _manyclass(args, data)
    peer, n_peer_classes = _scikit_learn(args, data, max(LEAST_SECONDS, ours.seconds or 0))
    rule = _measured("the rule itself, which nothing can beat", data, _rule(data, n_threads))
    folder = Path(tempfile.mkdtemp(prefix="manyclass-"))
    (folder / "goods.tsv").write_text("\n".join(texts_to_try(args.random_state)) + "\n", encoding="utf-8")
    print("\n".join(story(n_samples, (ours, peer, rule), n_peer_classes, folder)))
    return 0


def _manyclass(args: DemoArguments, data: Planted) -> Result:
    model = SoftmaxClassifier(
        solver=Implicit(decay=DECAY),
        max_iter=PASSES,
        fit_intercept=False,  # the rule has none
        n_jobs=args.n_jobs,
        random_state=args.random_state,
        verbose=int(args.progress),
    )
    begin = time.perf_counter()
    if interruption_of(lambda: model.fit(data.X, data.y, max_seconds=args.max_seconds)) is not None:
        raise KeyboardInterrupt
    seconds = time.perf_counter() - begin
    k = min(max(PLACES), len(model.classes_))
    return _measured("manyclass", data, lambda X: model.predict_top_k(X, k)[0], len(data.y), seconds)


def _scikit_learn(args: DemoArguments, data: Planted, budget: float) -> tuple[Result, int]:
    """Fit LogisticRegression to the first rows, twice as many each time, while the next fit is to end in time."""
    # Imported here, because no other command needs it.
    from sklearn.linear_model import LogisticRegression

    peer, rows, seconds = LogisticRegression(max_iter=1000), 0, 0.0
    with waiting("fitting scikit-learn's LogisticRegression, to compare with", shown=args.progress):
        while rows < len(data.y) and GROWTH * seconds <= budget:
            rows, begin = min(max(FIRST_ROWS, 2 * rows), len(data.y)), time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that many classes look like a regression
                peer.fit(sp.csr_matrix(data.X[:rows]), data.y[:rows])
            seconds = time.perf_counter() - begin

        def best(X: sp.csr_array) -> NDArray[np.int64]:
            order = np.argsort(-peer.decision_function(sp.csr_matrix(X)), axis=1)
            return np.asarray(peer.classes_[order[:, : max(PLACES)]])

        return _measured("scikit-learn's LogisticRegression", data, best, rows, seconds), len(peer.classes_)


def _rule(data: Planted, n_threads: int) -> Best:
    """Return what finds the most probable classes by the rule."""
    planted = Weights.zeros(len(data.W_true), data.X.shape[1], by_feature=True)
    planted.matrix[:, : len(data.W_true)] = data.W_true.T
    return lambda X: planted.top_k(X, max(PLACES), n_threads)[0].astype(np.int64)


def _measured(name: str, data: Planted, best: Best, rows: int | None = None, seconds: float | None = None) -> Result:
    """Measure on rows that nothing was trained on how often the class is found."""
    n = data.X_test.shape[0]
    classes = np.concatenate([best(data.X_test[first : first + BLOCK]) for first in range(0, n, BLOCK)])
    first, first_five = np.atleast_1d(top_k_accuracy(data.y_test, classes, PLACES))
    return Result(name, rows, seconds, float(first), float(first_five))


def opening(n_classes: int, n_samples: int) -> list[str]:
    """Return the lines that are shown first: what the data are, and the job."""
    return [
        f"Makes {n_samples:,} rows of {n_classes:,} classes by a known rule: {NNZ} of {N_FEATURES} features are on in "
        "each.",
        f"The job: find the right one of {n_classes:,}, as for subjects, products or faces; a guess is right in "
        f"{100 / n_classes:.2g} %.",
        "",
    ]


def texts_to_try(seed: int) -> list[str]:
    """Return lines of a text and, behind a tab, its label."""
    draw = random.Random(seed)
    labels = [draw.choice([*GOODS]) for _ in range(N_TEXTS)]
    return [f"{draw.choice(KINDS)} {draw.choice(KINDS)} {draw.choice(GOODS[label])}\t{label}" for label in labels]


def command() -> str:
    """Return how this command was called, so that the next one can be typed likewise."""
    called = sys.argv[0] if os.path.basename(sys.argv[0]) == "manyclass" else f"{sys.executable} -m manyclass"
    return called if os.path.dirname(sys.argv[0]) else "manyclass"


def story(n_samples: int, results: tuple[Result, Result, Result], n_peer_classes: int, folder: Path) -> list[str]:
    """Return the lines that are shown last: how well it went, and what to type next."""
    lines = [f"{f'on {SAMPLE:,} new rows':<41}{'rows learnt':>12}{'seconds':>9}{'right':>10}{'in first 5':>12}"]
    for name, n_rows, s, first, first_five in results:
        rows, seconds = "" if n_rows is None else f"{n_rows:,}", "" if s is None else f"{s:.1f}"
        lines.append(f"{name:<41}{rows:>12}{seconds:>9}{100 * first:>8.1f} %{100 * first_five:>10.1f} %")
    if (results[1].rows or n_samples) < n_samples:
        lines.append(
            f"scikit-learn's time grows with rows times classes: twice these rows, of {n_peer_classes:,} classes, "
            "would have taken longer."
        )
    data, model = (shlex.quote(str(folder / name)) for name in ("goods.tsv", "goods.model"))
    return [
        *lines,
        "",
        f"Now texts. {data} has {N_TEXTS} of them, a text a line with its label behind a tab:",
        f"  {command()} fit {data} --text --output {model}",
        f'  echo "a kettle for two" | {command()} predict {model} -',
        f"  {command()} explain {model} --label kitchen",
    ]
