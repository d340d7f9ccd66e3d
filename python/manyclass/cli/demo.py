"""Train on planted data whose best possible log-loss is known, beside the exact softmax in the same time.

Rows are drawn from a softmax model with known weights, so that no model can have a smaller expected log-loss on fresh
rows than the planted one. Shown is how far above it the default solver comes, in seconds and nats, and then where
solver="exact", which moves all classes in every step, stands after as many seconds of training.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_number, n_threads_from
from manyclass.datasets import Planted, make_planted
from manyclass.estimators.softmax import SoftmaxClassifier
from manyclass.model.weights import LinearWeights
from manyclass.solvers import SOLVERS
from manyclass.training.passes import TrainingState

SAMPLE = 30_000  # rows to measure on; the standard error of a gap to the optimum is near 0.002 nats then
# Ten features keep the price of estimating the weights, (K - 1) D / 2N, at 0.3 % of log K.
N_FEATURES, NNZ = 10, 3
# Eight passes that end at a twelfth of the first step size: the fewest that were seen to end well below 1 % of log K.
DECAY, PASSES = 0.7, 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--quick", action="store_true", help="500 classes and 50,000 rows: some seconds in all")
    parser.add_argument("--n-classes", type=int, help="number of classes K; default: 10,000")
    parser.add_argument("--n-samples", type=int, help="number of training rows N; default: 200 a class")
    parser.add_argument(
        "--max-seconds", type=float, default=15, metavar="S", help="train each solver at most S seconds"
    )
    parser.add_argument("--n-jobs", type=int, default=-1, help="threads; -1: all cores")
    parser.add_argument("--random-state", type=int, default=0, help="seed of the data and of training")


@dataclass(frozen=True)
class Rows:
    """Rows to measure on, classes as positions in the model's `classes_`, and the planted model's log-loss on them."""

    X: sp.csr_array
    y: NDArray[np.int32]
    optimum: float


@dataclass
class Result:
    """Where a solver ended, in nats above the planted model on the same rows."""

    solver: str
    seconds: float
    passes: int
    train_gap: float
    test_gap: float


def run(args: argparse.Namespace) -> int:
    """Train both solvers, tell."""
    n_classes = args.n_classes if args.n_classes is not None else 500 if args.quick else 10_000
    n_samples = args.n_samples if args.n_samples is not None else (100 if args.quick else 200) * n_classes
    check_number("n_classes", n_classes, low=2, integer=True)
    check_number("n_samples", n_samples, low=2, integer=True)
    check_number("max_seconds", args.max_seconds, low=0, open_low=True)
    n_threads = n_threads_from(args.n_jobs)
    data = make_planted(n_samples, n_classes, N_FEATURES, n_test=SAMPLE, nnz=NNZ, random_state=args.random_state)
    classes = np.unique(data.y)
    train = _rows(data, data.X[:SAMPLE], data.y[:SAMPLE], classes, n_threads)
    test = _rows(data, data.X_test, data.y_test, classes, n_threads)
    log_k = float(np.log(n_classes))
    print(
        f"{n_samples:,} rows, {n_classes:,} classes ({len(classes):,} occur), {N_FEATURES} features, {NNZ} non-zeros a "
        f"row, {n_threads} threads\n"
        f"guessing costs log K = {log_k:.4f} nats a row, the planted model {data.bayes_log_loss:.4f}: the optimum\n"
    )
    default = _train(args, "implicit", data, train, test, args.max_seconds, show=True)
    exact = _train(args, "exact", data, train, test, default.seconds, show=False)
    _print_results((default, exact), train, test)
    _print_statements(default, exact, data, len(data.y_test) - len(test.y), log_k)
    return 0


def _rows(data: Planted, X: sp.csr_array, y: NDArray[np.int64], classes: NDArray[np.int64], n_threads: int) -> Rows:
    seen = np.flatnonzero(np.isin(y, classes))
    X, y = X[seen], y[seen]
    planted = LinearWeights.zeros(len(data.W_true), X.shape[1], sparse=True)
    planted.matrix[:, : len(data.W_true)] = data.W_true.T
    losses, _ = planted.log_losses(X, y.astype(np.int32), n_threads)
    return Rows(X, np.searchsorted(classes, y).astype(np.int32), float(losses.mean()))


def _train(
    args: argparse.Namespace, solver: str, data: Planted, train: Rows, test: Rows, max_seconds: float, *, show: bool
) -> Result:
    spent = 0.0

    def after_pass(state: TrainingState) -> None:
        nonlocal spent
        spent = state.seconds
        if show:
            gap = state.evaluate(train.X, train.y)["log_loss"] - train.optimum
            print(
                f"{solver}: pass {state.n_iter}, {state.seconds:6.2f} s, {gap:7.4f} nats above the optimum", flush=True
            )

    # The planted model has no intercept.
    model = SoftmaxClassifier(
        solver=SOLVERS[solver](decay=DECAY),
        max_iter=PASSES,
        fit_intercept=False,
        n_jobs=args.n_jobs,
        random_state=args.random_state,
    )
    model.fit(data.X, data.y, callback=after_pass, max_seconds=max_seconds)
    gaps = [model.evaluate(rows.X, model.classes_[rows.y])["log_loss"] - rows.optimum for rows in (train, test)]
    return Result(solver, spent if model.n_iter_ == PASSES else max_seconds, model.n_iter_, *gaps)


def _print_results(results: tuple[Result, ...], train: Rows, test: Rows) -> None:
    print(f"\n{'log-loss in nats':<18}{'seconds':>9}{'passes':>8}{'training rows':>22}{'fresh rows':>22}")
    print(f"{'planted model':<18}{'':>9}{'':>8}{train.optimum:>12.4f}{test.optimum:>22.4f}")
    for r in results:
        passes = "<1" if r.passes == 0 else str(r.passes)
        measured = ((train, r.train_gap), (test, r.test_gap))
        cells = "".join(f"{f'{rows.optimum + gap:.4f} ({gap:+.4f})':>22}" for rows, gap in measured)
        print(f"{r.solver:<18}{r.seconds:>9.2f}{passes:>8}{cells}")
    print()


def _print_statements(default: Result, exact: Result, data: Planted, n_unseen: int, log_k: float) -> None:
    for where, gap in (("the training rows", default.train_gap), ("fresh rows", default.test_gap)):
        percent = 100 * gap / log_k
        side = "above" if gap >= 0 else "below"
        goal = "within" if percent < 1 else "not within"
        print(
            f"On {where} {default.solver} ended {abs(gap):.4f} nats {side} the planted model, {abs(percent):.2f} % of "
            f"log K: {goal} 1 %."
        )
    print(
        f"Estimating the weights from {len(data.y):,} rows costs about {data.statistical_gap:.4f} nats on fresh rows, "
        "however long one trains."
    )
    if n_unseen:
        print(f"{n_unseen} fresh rows are left out: their class does not occur in training.")
    ahead = exact.test_gap - default.test_gap
    comparison = f"{abs(ahead):.4f} nats {'behind' if ahead > 0 else 'ahead of'} {default.solver}"
    print(f"In the same {exact.seconds:.1f} s of training, exact is {comparison} on fresh rows.")
