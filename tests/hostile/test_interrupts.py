"""Ctrl-C and limits of time in the core's long work: it ends soon, and with keep="best" the model reached is kept.

The work of each case takes minutes, so that work that is deaf fails; what it takes from the signal to its end is told
in seconds of the processor, which other programs on the machine do not change. Where nothing else runs, those of the
wall are told in place of them by

    MANYCLASS_CLOCK=wall python -m pytest -n 0 -s tests/hostile/test_interrupts.py
"""

import contextlib
import os
import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp
from reference.states import with_weights
from sklearn.exceptions import ConvergenceWarning

from manyclass import (
    AugmentReduceClassifier,
    DecomposedIndex,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    _core,
    samplers,
    solvers,
)
from manyclass.training.passes import time_limit
from manyclass.weights.weights import Weights

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers"),
    pytest.mark.filterwarnings("ignore:training diverged", "ignore:L-BFGS", "ignore:training was interrupted"),
    pytest.mark.filterwarnings("ignore:training stopped after"),
]
BEFORE = 0.2  # seconds of work before the signal
# Seconds of the processor from the signal to the end. The promise is 0.3 on a machine of one's own; here threads of
# BLAS, of which one is at work, and the end of a fit are in it. Deaf work takes ten times this.
SOON = 3.0
WALL = os.environ.get("MANYCLASS_CLOCK") == "wall"
clock = time.perf_counter if WALL else time.process_time
HUGE = 10**7


def ended_by(kind, work, before=BEFORE):
    """Work until a signal or the limit comes; return the processor's seconds from then on, and what the work made."""
    heard, is_over = [], []

    def handler(*_):  # runs where the core asks, not when the signal comes
        if not is_over:  # a signal after the work would end the test run
            heard.append(True)
            raise KeyboardInterrupt

    if kind == "limit":
        begin = clock()
        with pytest.raises(_core.TimeIsUpError), time_limit(before):
            work()
        return clock() - begin - before, None
    timer, alarm = (signal.ITIMER_REAL, signal.SIGALRM) if WALL else (signal.ITIMER_PROF, signal.SIGPROF)
    old = signal.signal(alarm, handler)
    made = None
    try:
        begin = clock()
        signal.setitimer(timer, before)  # what comes before training is over then
        with contextlib.suppress(KeyboardInterrupt):
            made = work()
            is_over.append(True)
        end = clock()
    finally:
        signal.setitimer(timer, 0)
        signal.signal(alarm, old)
    assert heard, "the work ended before the signal"
    return end - begin - before, made


def rows(n, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def with_classes(model, X, n_classes):
    """A model of so many classes, by hand: no training of it is timed."""
    fitted = model.fit(X[:60], np.arange(60) % 3)
    made = Weights.linear(rows(n_classes, X.shape[1]), np.zeros(n_classes, np.float32), by_feature=False)
    return with_weights(fitted, made)


def evaluation(n_jobs):
    X = rows(60_000, 64)
    model = with_classes(SoftmaxClassifier(solver="exact", max_iter=1, n_jobs=n_jobs), X, 30_000)
    return lambda: model.evaluate(X, np.arange(len(X)) % 30_000)


def top_k(n_jobs):
    X = rows(60_000, 64)
    model = with_classes(SoftmaxClassifier(solver="exact", max_iter=1, n_jobs=n_jobs), X, 30_000)
    return lambda: model.predict_top_k(X, 5)


def long_rows(n_jobs):
    """Rows of so many values that a thread's bite of points takes seconds."""
    n, d, n_classes = 1_024, 10_000, 4_096
    at = np.arange(n + 1, dtype=np.int32) * d, np.tile(np.arange(d, dtype=np.int32), n)
    X = sp.csr_array((np.ones(n * d, np.float32), at[1], at[0]), shape=(n, d))
    model = SoftmaxClassifier(model="linear", solver="implicit", max_iter=1, n_jobs=n_jobs).fit(X[:3], [0, 1, 2])
    made = Weights.linear(np.ones((d, n_classes), np.float32), np.zeros(n_classes, np.float32), by_feature=True)
    with_weights(model, made)
    return lambda: model.predict_top_k(X, 5)


def utilities(n_jobs):
    X = rows(60_000, 16)
    model = with_classes(AugmentReduceClassifier(noise="normal", max_iter=1, n_jobs=n_jobs), X, 3_000)
    return lambda: model.evaluate(X, np.arange(len(X)) % 3_000)


def gradient(n_jobs):
    X, y = rows(40_000, 100), np.arange(40_000) % 20_000  # so that a strip of rows takes long by itself
    model = SoftmaxClassifier(solver="lbfgs", max_iter=1000, n_jobs=n_jobs)
    return lambda: model.fit(X, y)


def search(n_jobs):
    index = DecomposedIndex(2, random_state=0, n_jobs=n_jobs).fit(rows(3_000, 32))
    queries = rows(100_000, 32, seed=1)
    return lambda: index.loss_and_gradient(queries, np.arange(len(queries)) % 3_000)


def k_means(n_jobs):
    index = SphericalClusterIndex(3_000, n_iter=HUGE, n_probe=1, random_state=0, n_jobs=n_jobs)
    W = rows(60_000, 64)
    return lambda: index.fit(W)


def large_batch(n_jobs):
    """One batch, which is looked at as a whole before a weight moves."""
    X, y = rows(20_000, 10), np.arange(20_000)
    solver = solvers.Adagrad(batch_size=2_000)
    model = SoftmaxClassifier(solver=solver, sampler="all", model="embedding", dim=1_000, max_iter=HUGE, n_jobs=n_jobs)
    return lambda: model.fit(X, y)


WORK = {f.__name__: f for f in (evaluation, top_k, long_rows, utilities, gradient, search, k_means, large_batch)}


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("work", WORK)
def test_long_work_of_the_core_ends_at_ctrl_c(work, n_jobs):
    seconds, _ = ended_by("ctrl-c", WORK[work](n_jobs))
    print(f"{work}, {n_jobs} threads: {seconds:.3f} s after Ctrl-C")
    assert seconds < SOON


@pytest.mark.parametrize("work", ["evaluation", "search", "k_means"])
def test_long_work_of_the_core_ends_at_a_limit(work):
    seconds, _ = ended_by("limit", WORK[work](1))
    print(f"{work}: {seconds:.3f} s after a limit")
    assert seconds < SOON


def data(storage="dense"):
    X, y = rows(400, 10), np.arange(400) % 40
    return (sp.csr_array(X) if storage == "sparse" else X), y


FITS = {
    **{
        name: SoftmaxClassifier(solver=name, learning_rate=0.01, n_negatives="auto" if name == "exact" else 5)
        for name in solvers.SOLVERS
        if name not in ("lbfgs", "adagrad")
    },
    "lbfgs": SoftmaxClassifier(solver=solvers.LBFGS(tol=0.0), alpha=1e-9),
    "adagrad": SoftmaxClassifier(solver="adagrad", model="embedding"),
    "hogwild": SoftmaxClassifier(solver=solvers.Implicit(parallel="hogwild"), n_negatives=5, n_jobs=3),
    "deterministic": SoftmaxClassifier(solver=solvers.Implicit(batch_size=20), n_negatives=5, n_jobs=3),
    "pairs": SoftmaxClassifier(model="pairs"),
    "hybrid": SoftmaxClassifier(model="hybrid"),
    "margin": MarginClassifier(),
    "searched": MarginClassifier(sampler=samplers.Search(budget=4, warm_up=0)),
    "several models": SoftmaxClassifier(solver="implicit", n_negatives=5, n_models=2),
    "augment and reduce": AugmentReduceClassifier(noise="normal", learning_rate=0.01),
    "posterior": AugmentReduceClassifier(noise="normal", posterior="gaussian", alpha=0.1),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("kind", ["ctrl-c", "max_seconds"])
def test_every_training_ends_soon_and_keeps_the_model_reached(name, kind, tmp_path):
    X, y = data("sparse" if name in ("pairs", "hybrid") else "dense")
    if name == "lbfgs":  # it would reach the optimum
        X, y = rows(60_000, 100), np.arange(60_000) % 40
    model = FITS[name].set_params(max_iter=HUGE, random_state=0)
    place = rf"stopped after .* s in \w+ \d+ of {HUGE}"
    if kind == "max_seconds":
        begin = clock()
        with pytest.warns(
            ConvergenceWarning, match=f"training {place}.*, when max_seconds was over.*Raise max_seconds"
        ):
            model.fit(X, y, max_seconds=BEFORE)
        seconds = clock() - begin - BEFORE
    else:
        with pytest.warns(ConvergenceWarning, match=f"interrupted; the model is the one reached so far: it {place}"):
            seconds, made = ended_by(kind, lambda: model.fit(X, y, keep="best"))
        assert made is model
    print(f"{name}: {seconds:.3f} s after {kind}")
    assert seconds < SOON
    assert 0 <= model.n_iter_ < HUGE
    assert (
        model.predict_proba(X).shape == (X.shape[0], 40) if hasattr(model, "predict_proba") else model.predict(X).any()
    )
    model.save(tmp_path / "m")


@pytest.mark.parametrize("objective", ["softmax", "negative_sampling", "hierarchical", "descent"])
def test_word_vectors_end_soon(objective):
    rng = np.random.default_rng(0)
    text = [[f"w{i}" for i in line] for line in rng.zipf(1.3, size=(300, 8)) % 50]
    model = SkipGram(dim=8, objective=objective, max_iter=HUGE, min_count=1, random_state=0, n_jobs=2)
    model.fit(text[:50], callback=lambda state: True)  # loads what it needs
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        # Pages of the memory for counts, which descent sorts, may take longer to come than a training takes to begin.
        seconds, made = ended_by("ctrl-c", lambda: model.fit(text, keep="best"), before=5 * BEFORE)
    assert seconds < SOON
    assert made.vectors_.shape[1] == 8


def test_other_threads_of_python_work_on_while_one_is_asked(seed):
    """Only the main thread sees signals; others must neither end nor wait."""
    from concurrent.futures import ThreadPoolExecutor

    X, y = data()
    model = SoftmaxClassifier(solver="implicit", max_iter=3, n_negatives=5, random_state=seed).fit(X, y)
    expected = model.predict_proba(X)
    with ThreadPoolExecutor(4) as threads:
        assert all(
            np.array_equal(found, expected) for found in threads.map(lambda _: model.predict_proba(X), range(50))
        )
