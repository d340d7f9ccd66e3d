"""Does a head found by search make the sampled gradients better by more than the search costs?

Nats of training and test log-loss after about the same processor time of training (one thread, searches counted,
evaluation not), each selection at the better of the learning rates, given as multiples of 1 / mean (|x|^2 + 1), which
fall to a tenth in that time. The solver is the implicit one; a head is found before each pass but the first, or
before every third or tenth. Needs MANYCLASS_DATA for the real sets:

    python -m pytest bench/bench_search_head.py -s
"""

import time

import numpy as np
import pytest
from conftest import dense_planted, machine
from sklearn.preprocessing import normalize

from manyclass import SoftmaxClassifier, samplers, solvers

SELECTIONS = {
    "64 by frequency_block": {"sampler": "frequency_block", "n_negatives": 64},
    "block of 64": {"sampler": "block", "n_negatives": 64},
    "head of 16, block of 16": {"sampler": samplers.HeadTail(refresh=1), "n_negatives": 16},
    "head of 16, block of 64, every 3 passes": {"sampler": samplers.HeadTail(refresh=3), "n_negatives": 64},
    "head of 16, block of 64, every 10 passes": {"sampler": samplers.HeadTail(refresh=10), "n_negatives": 64},
}


def passes_in(seconds, data, parameters):
    """How many passes and the searches among them fit, from a trial: (passes, seconds a pass, seconds a search)."""
    ticks = []
    head = isinstance(parameters["sampler"], samplers.HeadTail)
    refresh = parameters["sampler"].refresh if head else None
    trial = SoftmaxClassifier(max_iter=4, random_state=0, solver="implicit", **parameters)
    if head:
        trial.set_params(sampler=samplers.HeadTail(refresh=2))
    trial.fit(data.X_train, data.y_train, callback=lambda _: ticks.append(time.process_time()))
    searched, plain = np.diff(ticks)[:2]  # the second pass ends with a search, the third does not
    search = max(0.0, searched - plain) if head else 0.0
    passes = 2
    while (passes + 1) * plain + passes // (refresh or passes + 1) * search <= seconds:
        passes += 1
    return passes, plain, search


def losses_after(passes, data, parameters):
    """(training log-loss, test log-loss, processor seconds of the fit)."""
    model = SoftmaxClassifier(
        max_iter=passes, solver=solvers.Implicit(decay=0.1 ** (1 / passes)), random_state=0, **parameters
    )
    start = time.process_time()
    model.fit(data.X_train, data.y_train)
    took = time.process_time() - start
    some = np.random.default_rng(0).permutation(len(data.y_train))[:5_000]
    train = model.evaluate(data.X_train[some], data.y_train[some])["log_loss"]
    return train, model.evaluate(data.X_test, data.y_test)["log_loss"], took


def race(name, data, seconds, rates=(6.0, 20.0)):
    squares = data.X_train.multiply(data.X_train) if hasattr(data.X_train, "multiply") else np.square(data.X_train)
    mean_sq = float(squares.sum() / len(data.y_train)) + 1
    print(f"\n{name}, {seconds} s; {machine()}")
    for what, parameters in SELECTIONS.items():
        passes, plain, search = passes_in(seconds, data, parameters)
        ends = {c: losses_after(passes, data, parameters | {"learning_rate": c / mean_sq}) for c in rates}
        c = min(ends, key=lambda c: ends[c][0])
        train, test, took = ends[c]
        print(
            f"  {what:40} {train:.3f} / {test:.3f}  ({passes} passes of {plain:.2f} s, {search:.2f} s a search, "
            f"{took:.1f} s in all, c = {c:g})",
            flush=True,
        )


def test_eurlex57k(dataset):
    race("eurlex57k", dataset("eurlex57k"), 6)


def test_omniglot(data_folder):
    images = np.load(data_folder / "omniglot" / "omniglot28.npz")
    data = dense_planted(20, 2, 40, 2, noise=1)  # a container
    for part in ("train", "test"):
        setattr(data, f"X_{part}", normalize(images[f"x_{part}"].astype(np.float32)))
        setattr(data, f"y_{part}", images[f"y_{part}"])
    race("omniglot", data, 8)


@pytest.mark.parametrize(
    ("n_classes", "n_features", "n_train", "noise", "seconds"),
    [(20_000, 64, 100_000, 0.12, 8), (50_000, 64, 150_000, 0.2, 10)],
)
def test_planted(n_classes, n_features, n_train, noise, seconds):
    data = dense_planted(n_classes, n_features, n_train, 5_000, noise=noise)
    z = data.X_test[:1000].astype(np.float64) @ data.W_true.T + data.b_true
    z -= z.max(axis=1, keepdims=True)
    losses = np.log(np.exp(z).sum(axis=1)) - z[np.arange(1000), data.y_test[:1000]]
    top = -np.sort(-np.exp(z), axis=1)
    mass = (top[:, :16].sum(axis=1) / top.sum(axis=1)).mean()
    what = f"planted, K = {n_classes}, D = {n_features}, noise {noise}"
    race(f"{what}: truth {losses.mean():.3f}, its 16 best have {mass:.3f} of the mass", data, seconds, (2.0, 8.0))
