"""Made data with thousands of classes, on which this package is trained beside scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.cli.messages import waiting
from manyclass.cli.options import WithProgress
from manyclass.datasets import Planted, make_planted
from manyclass.metrics import top_k_accuracy
from manyclass.solvers import Implicit

SAMPLE = 10_000  # new rows to measure on, which make the standard error of a share at most 0.5 %
# Ten of a hundred features with scores this wide make the right class the first one in about three of ten rows.
N_FEATURES, NNZ, SCALE = 100, 10, 4.0
DECAY, PASSES = 0.7, 6  # six passes were seen to end within 2 % of the rule's own share
FIRST_ROWS = 1_000  # that scikit-learn fits to; they are doubled while there is time
LEAST_SECONDS = 1.0  # that scikit-learn has in any case
GROWTH = 5.0  # of its seconds, where its rows are doubled: both rows and the classes among them grow
BLOCK = 1_000  # rows of scores over all classes at a time
PLACES = (1, 5)

OPENING = """{n_samples:,} rows of {n_classes:,} classes are drawn by a known rule; 10 of 100 features are on in each.
The job: find the right one of {n_classes:,}, as for subjects, products or faces; a guess is right in {guess:.2g} %.
"""
LINE = "{:<41}{:>12}{:>9}{:>10}{:>12}"


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


def demo(args: DemoArguments) -> int:
    """Show what this is for, in half a minute: train on made data with thousands of classes, beside scikit-learn.

    Rows are drawn by a known rule, a softmax with known weights, so that the best that anything can do on new rows is
    known too. Shown are how often the right class comes first, and how often it is among the first five, for the
    default way of training here, for scikit-learn's LogisticRegression, and for the rule itself. scikit-learn fits to
    more and more rows, twice as many each time, as long as the next fit is expected to take no longer than training
    here did.
    """
    default, rows_a_class = (500, 100) if args.quick else (10_000, 50)
    n_classes = default if args.n_classes is None else args.n_classes
    n_samples = rows_a_class * n_classes if args.n_samples is None else args.n_samples
    check_number("n_classes", n_classes, low=6, integer=True)
    check_number("n_samples", n_samples, low=100, integer=True)
    print(OPENING.format(n_samples=n_samples, n_classes=n_classes, guess=100 / n_classes), flush=True)
    seed, shown = args.random_state, args.progress
    with waiting("making the data"):
        data = make_planted(n_samples, n_classes, N_FEATURES, n_test=SAMPLE, nnz=NNZ, scale=SCALE, random_state=seed)
    # The rule has no intercepts.
    training: dict[str, Any] = {"solver": Implicit(decay=DECAY), "max_iter": PASSES, "fit_intercept": False}
    model = SoftmaxClassifier(**training, n_jobs=args.n_jobs, random_state=seed, verbose=int(shown))
    begin = time.perf_counter()
    model.fit(data.X, data.y, max_seconds=args.max_seconds)
    seconds = time.perf_counter() - begin
    with waiting("fitting scikit-learn's LogisticRegression, to compare with"):
        peer, n_rows, peer_seconds = _fit_scikit_learn(data, max(LEAST_SECONDS, seconds))
    print(LINE.format(f"on {SAMPLE:,} new rows", "rows learnt", "seconds", "right", "in first 5"))
    ranked: dict[tuple[str, str, str], Callable[[sp.csr_array], NDArray[Any]]] = {
        ("manyclass", f"{n_samples:,}", f"{seconds:.1f}"): lambda X: model.predict_top_k(X, PLACES[-1])[0],
        ("scikit-learn's LogisticRegression", f"{n_rows:,}", f"{peer_seconds:.1f}"): lambda X: peer.classes_[
            _best(peer.decision_function(sp.csr_matrix(X)))
        ],
        ("the rule itself, which nothing can beat", "", ""): lambda X: _best(X @ data.W_true.T),
    }
    for facts, best in ranked.items():
        blocks = [best(data.X_test[first : first + BLOCK]) for first in range(0, SAMPLE, BLOCK)]
        shares = np.atleast_1d(top_k_accuracy(data.y_test, np.concatenate(blocks), PLACES))
        print(LINE.format(*facts, *(f"{100 * share:.1f} %" for share in shares)))
    if n_rows < n_samples:
        print(f"scikit-learn would have taken longer for twice these rows, which have {len(peer.classes_)} classes.")
    print("\nNext, your own file, a text, a tab and its label a line: manyclass fit FILE --text --output MODEL")
    return 0


def _fit_scikit_learn(data: Planted, budget: float) -> tuple[Any, int, float]:
    """Fit LogisticRegression to the first rows, twice as many each time, while the next fit is to end in time."""
    # Imported here, because no other command needs it.
    from sklearn.linear_model import LogisticRegression

    peer, n_rows, seconds = LogisticRegression(max_iter=1000), 0, 0.0
    while n_rows < len(data.y) and GROWTH * seconds <= budget:
        n_rows, begin = min(max(FIRST_ROWS, 2 * n_rows), len(data.y)), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that many classes look like a regression
            peer.fit(sp.csr_matrix(data.X[:n_rows]), data.y[:n_rows])
        seconds = time.perf_counter() - begin
    return peer, n_rows, seconds


def _best(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the columns of the largest scores of each row, the largest first."""
    return np.argpartition(-scores, range(PLACES[-1]), axis=1)[:, : PLACES[-1]]
