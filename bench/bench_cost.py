"""What does a step cost, in time and memory, against K, D, the stored values of a row and m; how soon is most learnt?

Microseconds of processor time a visited row, median of ROUNDS passes after one, with K + N rows (one pass from 10^6
classes on), one thread, and megabytes that a fit adds at its peak to what the process has. A size differs from BASE.
"linear" is the implicit solver with m drawn classes and W of K x D; "embeddings" are 32 long, trained in minibatches
with m drawn classes. Each class occurs once, and what is left falls off as by Zipf's law.

Two long fits, of rows whose words tell their class, hashed onto 10^5 features, by embeddings: with 64 drawn
classes, of 10^6 classes and of 10^7. They must end within 16 GiB, and are told with the log-loss of test
rows before (log K) and after. And processor seconds, interpolated between passes, until 90 per
cent of the gain of PASSES passes is reached, from log K to the training log-loss, on planted data of 300,000 rows.

And microseconds of a visit of weights on pairs, by classes, where rows meet equal numbers of them: 20 features
with some 50 classes each.

And fits with nothing set, of five labels a row and 75 or 8 words, some of which go with the labels (processor seconds,
peak memory of the process, precision on 2,000 test rows, milliseconds of `predict_top_k`).

    python -m pytest bench/bench_cost.py
"""

import ctypes
import gc
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import digits
from scipy import sparse

from manyclass import SoftmaxClassifier
from manyclass.datasets import make_planted

BENCH = Path(__file__).resolve().parent
N, ROUNDS, DIM = 100_000, 5, 32
BASE = {
    "linear": {"K": 10**4, "D": 10**3, "nnz": 20, "m": 64},
    "embeddings": {"K": 10**5, "D": 10**4, "nnz": 20, "m": 64},
}
AXES = {
    "K": {"linear": [10**3, 10**4, 10**5, 10**6], "embeddings": [10**3, 10**4, 10**5, 10**6, 10**7]},
    "D": {"linear": [10**2, 10**3, 10**4, 10**5], "embeddings": [10**2, 10**3, 10**4, 10**5, 10**6]},
    "nnz": {"linear": [5, 20, 80, 320], "embeddings": [5, 20, 80, 320]},
    "m": {"linear": [16, 64, 256, 1024], "embeddings": [16, 64, 256, 1024]},
}
# W of a million classes, or of a hundred thousand features, fits with fewer of the others: 10^8 weights are 400 MB.
FEWER = {("linear", "K"): {"D": 100}, ("linear", "D"): {"K": 1000}, ("embeddings", "D"): {"K": 1000}}
POINTS = [(model, axis, size) for axis, by in AXES.items() for model, sizes in by.items() for size in sizes]
MOST_SMALL = 10**4  # of a size, where data are generated small


def memory(name):
    """Megabytes of this process: VmRSS now, VmHWM at the peak."""
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) * 1024 / 1e6


def forget_peak():
    """Let VmHWM begin anew, from what is in use: pages that were freed would be taken again unseen."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def rows(rng, n, K, D, nnz):
    """Rows of random features; each class once, the other labels by Zipf's law."""
    columns = rng.integers(0, D, (n, nnz), dtype=np.int32)
    X = sparse.csr_array(
        (np.full(n * nnz, nnz**-0.5, np.float32), columns.ravel(), np.arange(0, n * nnz + 1, nnz)), (n, D)
    )
    X.sum_duplicates()
    return X, rng.permutation(zipf_labels(rng, n, K))


def zipf_labels(rng, n, K):
    """Each class once, then labels by Zipf's law."""
    return np.minimum(np.concatenate([np.arange(K), (K ** rng.random(n - K)).astype(np.int64)]), K - 1)


def estimator(model, m, **given):
    if model == "linear":
        return SoftmaxClassifier(solver="implicit", n_negatives=m, random_state=0, **given)
    return SoftmaxClassifier(model="embedding", dim=DIM, sampler="frequency", n_negatives=m, random_state=0, **given)


@pytest.mark.parametrize(("what", "axis", "size"), POINTS, ids=lambda value: str(value))
def test_a_step(timed, small, what, axis, size):
    model = what
    sizes = BASE[model] | FEWER.get((model, axis), {}) | {axis: size}
    if small and (max(sizes.values()) > MOST_SMALL or size not in AXES[axis][model][:2]):
        pytest.skip("generated data: the smaller sizes")
    if sizes["nnz"] > sizes["D"]:
        pytest.skip("more stored values than features")
    n = sizes["K"] + (2_000 if small else N)
    X, y = rows(np.random.default_rng(0), n, sizes["K"], sizes["D"], sizes["nnz"])
    ticks = []
    forget_peak()
    before = memory("VmRSS")
    one = estimator(model, sizes["m"], max_iter=ROUNDS + 1 if n < 10 * N else 2)
    one.fit(X, y, callback=lambda _: ticks.append(time.process_time()))
    added = memory("VmHWM") - before
    timed.taken(np.diff(ticks), clock="processor")
    us = digits(1e6 * float(np.median(np.diff(ticks))) / n)
    timed.tell(us=us, mb=digits(added), **sizes)
    timed.row("cost", model=model, axis=axis, size=size, us=us, mb=digits(added), **sizes)


PAIRS_K, PAIRS_N, PAIRS_D = (20_000, 100_000, 400_000), 20_000, 8_000


@pytest.mark.parametrize("n_classes", PAIRS_K)
def test_a_visit_of_pairs(timed, small, n_classes):
    N, D = (PAIRS_N // 10, PAIRS_D // 10) if small else (PAIRS_N, PAIRS_D)
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, D, (N, 20), dtype=np.int32))
    X = sparse.csr_array(
        (np.full(columns.size, 20**-0.5, np.float32), columns.ravel(), np.arange(0, 20 * N + 1, 20)), (N, D)
    )
    X.sum_duplicates()
    y = rng.integers(0, n_classes, N)
    # Classes without a row are not among those of a fit: they are in the columns of an indicator.
    Y = sparse.csr_array((np.ones(N, dtype=np.int8), y, np.arange(N + 1)), (N, n_classes))
    ticks = []
    one = SoftmaxClassifier(model="pairs", learning_rate=1.0, max_iter=ROUNDS + 1, random_state=0)
    one.fit(X, Y, callback=lambda _: ticks.append(time.process_time()))
    timed.taken(np.diff(ticks), clock="processor")
    us = digits(1e6 * float(np.min(np.diff(ticks))) / N)
    met = int(np.mean(np.minimum(X.astype(bool).astype(np.float32) @ np.diff(one.coef_.indptr), n_classes)))
    timed.tell(us=us, met=met)
    timed.row("cost_pairs", n_classes=n_classes, met=met, us=us, log_loss=digits(one.loss_curve_[-1], 4))


# Classes, rows, passes and the model; the features are 10^5, onto which words are hashed. A row has words of its class,
# of the group of its class, as in a taxonomy, and of any other.
OF_CLASS, IN_GROUP, OWN, OF_GROUP, OTHERS, D_HASHED = 10, 1_000, 3, 3, 4, 10**5
LIMIT_MB = 16 * 1024**3 / 1e6
LONG = {
    "a million classes": (10**6, 2 * 10**6, 3, {"n_negatives": 64}),
    "ten million classes": (10**7, 12 * 10**6, 2, {"n_negatives": 64}),
}
N_TESTED = 500  # rows: all scores of one of 10^7 classes take 10 ms and more


def hashed_rows(rng, y, D):
    """Rows of words, each word hashed onto one of D features."""
    own = y[:, None] * OF_CLASS + rng.integers(0, OF_CLASS, (len(y), OWN))
    of_group = 2**31 + y[:, None] // IN_GROUP * OF_CLASS + rng.integers(0, OF_CLASS, (len(y), OF_GROUP))
    words = np.concatenate([own, of_group], axis=1)
    # Multiplicative hashing: the product with Knuth's constant in 32 bits, scaled to D.
    known = ((words * 2654435761 % 2**32) * D) >> 32
    columns = np.concatenate([known, rng.integers(0, D, (len(y), OTHERS))], axis=1).astype(np.int32)
    n, nnz = columns.shape
    X = sparse.csr_array(
        (np.full(n * nnz, nnz**-0.5, np.float32), columns.ravel(), np.arange(0, n * nnz + 1, nnz)), (n, D)
    )
    X.sum_duplicates()
    return X


@pytest.mark.parametrize("what", LONG)
def test_a_long_fit(timed, small, what):
    K, n, passes, given = LONG[what]
    K, n, D = (K // 1000, n // 1000, D_HASHED // 100) if small else (K, n, D_HASHED)
    rng = np.random.default_rng(0)
    y = zipf_labels(rng, n + N_TESTED, K)  # those that are tested are not among those that each class has once
    X = sparse.vstack([hashed_rows(rng, some, D) for some in np.array_split(y, 1 + n // 10**6)], format="csr")
    tested, ticks, losses = (X[n:], y[n:]), [time.process_time()], [math.log(K)]
    X, y = X[:n], y[:n]

    def after(state):
        ticks.append(time.process_time())
        losses.append(state.evaluate(*tested)["log_loss"])
        ticks.append(time.process_time())

    forget_peak()
    model = SoftmaxClassifier(model="embedding", dim=DIM, random_state=0, max_iter=passes, **given)
    model.fit(X, y, callback=after)
    peak = memory("VmHWM")
    found = model.evaluate(*tested)
    assert peak < LIMIT_MB
    assert found["log_loss"] < math.log(K)
    seconds = np.diff(ticks)[::2]
    timed.taken(seconds, clock="processor")
    figures = {"n_rows": n, "us": digits(1e6 * float(np.median(seconds)) / n), "s_a_pass": digits(np.median(seconds))}
    figures |= {"peak_gb": digits(peak / 1e3), "passes": len(seconds), "before": digits(losses[0], 4)}
    figures |= {"after": digits(found["log_loss"], 4), "accuracy": digits(100 * (1 - found["error"]))}
    figures["first_pass"] = digits(losses[1], 4)
    timed.tell(**figures)
    timed.row("cost_long", what=what, **figures)


# Rows, features and classes, and the words of a row: with 490,000 rows the size of Amazon-670K, with 1,800,000 that of
# AmazonTitles-1.3M.
TAGGED = {
    "K = 10,000": (100_000, 135_000, 10_000, 75),
    "K = 100,000": (100_000, 135_000, 100_000, 75),
    "K = 670,000": (100_000, 135_000, 670_000, 75),
    "K = 670,000, 490,000 rows": (490_000, 135_000, 670_000, 75),
    "K = 1,300,000, 1,800,000 rows of 8 words": (1_800_000, 150_000, 1_300_000, 8),
}
SHARE_OF_LABELS, WORDS_OF_A_CLASS, LABELS = 2 / 3, 12, 5


def tagged_rows(n_rows, n_features, n_classes, n_words, n_test, seed=0):
    """Rows of words of length 1, tf-idf: two thirds go with their labels, of twelve words of each, in equal parts.

    Labels fall off as k^-.7 and words as j^-.9; half of the labels of a row are close to the first one.
    """
    rng, n = np.random.default_rng(seed), n_rows + n_test

    def draw(size, power, shape):
        falling = np.cumsum(np.arange(1.0, size + 1) ** -power)
        return np.searchsorted(falling, falling[-1] * rng.random(shape)).astype(np.int32)

    words = draw(n_features, 0.9, (n_classes, WORDS_OF_A_CLASS))
    labels = draw(n_classes, 0.7, (n, LABELS))
    labels[:n_rows, 0] = rng.permutation(np.resize(np.arange(n_classes), n_rows))  # each class once, if there is room
    near = (labels[:, :1] + rng.integers(1, 20, labels[:, 1:].shape)) % n_classes
    labels[:, 1:] = np.where(rng.random(near.shape) < 0.5, near, labels[:, 1:])
    of_labels = int(SHARE_OF_LABELS * n_words) // LABELS * LABELS
    of_rows = words[np.repeat(labels, of_labels // LABELS, axis=1), rng.integers(0, WORDS_OF_A_CLASS, (n, of_labels))]
    columns = np.concatenate([of_rows, draw(n_features, 0.9, (n, n_words - of_labels))], axis=1)
    X = sparse.csr_array((np.ones(columns.size, np.float32), columns.ravel(), np.arange(0, columns.size + 1, n_words)),
                         shape=(n, n_features))  # fmt: skip
    X.sum_duplicates()
    idf = np.log(n / np.maximum(np.bincount(X.indices, minlength=n_features), 1)).astype(np.float32)
    X.data = (1 + np.log(X.data)) * idf[X.indices]
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    Y = sparse.csr_array((np.ones(labels.size), labels.ravel(), np.arange(0, labels.size + 1, LABELS)),
                         shape=(n, n_classes))  # fmt: skip
    Y.sum_duplicates()
    Y.data[:] = 1
    return X[:n_rows], Y[:n_rows], X[n_rows:], Y[n_rows:]


@pytest.mark.parametrize("what", TAGGED)
def test_tags_with_nothing_set(timed, small, what):
    *sizes, n_words = TAGGED[what]
    X, Y, X_test, Y_test = tagged_rows(*(size // 100 if small else size for size in sizes), n_words, n_test=2000)
    ticks = [time.process_time()]
    forget_peak()
    model = SoftmaxClassifier(random_state=0).fit(X, Y)
    ticks.append(time.process_time())
    peak = memory("VmHWM")
    top, _ = model.predict_top_k(X_test, 5)
    ticks.append(time.process_time())
    lists = np.split(Y_test.indices, Y_test.indptr[1:-1])
    right = np.array([np.isin(row, labels) for row, labels in zip(top, lists, strict=True)])
    assert right[:, 0].mean() > 0.1
    seconds = np.diff(ticks)
    timed.taken(seconds[:1], clock="processor")
    precision = ", ".join(str(digits(100 * right[:, :k].mean())) for k in (1, 3, 5))
    figures = {"n_rows": X.shape[0], "s": digits(seconds[0]), "peak_gb": digits(peak / 1e3), "precision": precision}
    figures |= {"model": model.resolved_params_["model"].name, "ms": digits(1e3 * seconds[1] / len(top))}
    timed.tell(**figures)
    timed.row("cost_tags", what=what, **figures)


GAIN_K, GAIN_N, PASSES, LOOKED_AT = (10**2, 10**3, 10**4, 10**5), 300_000, 10, 5_000
MOST_EXACT = 10**4  # classes: beyond, a pass takes minutes


@pytest.mark.parametrize("what", ["implicit", "exact"])
@pytest.mark.parametrize("n_classes", GAIN_K)
def test_time_to_most_of_the_gain(timed, small, n_classes, what):
    if n_classes > (MOST_EXACT if what == "exact" else max(GAIN_K)) or (small and n_classes > 10**3):
        pytest.skip("takes minutes")
    data = make_planted(GAIN_N // (100 if small else 1), n_classes, random_state=0)
    X, y = data.X, np.unique(data.y, return_inverse=True)[1]
    K, tested = int(y.max()) + 1, (X[:LOOKED_AT], y[:LOOKED_AT])
    spent, since, losses = [0.0], [time.process_time()], [math.log(K)]

    def after(state):
        spent.append(spent[-1] + time.process_time() - since[0])
        losses.append(state.evaluate(*tested)["log_loss"])
        since[0] = time.process_time()

    SoftmaxClassifier(solver=what, max_iter=PASSES, random_state=0).fit(X, y, callback=after)
    target = losses[0] - 0.9 * (losses[0] - min(losses))
    at = next(i for i, loss in enumerate(losses) if loss <= target)
    share = (losses[at - 1] - target) / (losses[at - 1] - losses[at])
    seconds, passes = spent[at - 1] + share * (spent[at] - spent[at - 1]), at - 1 + share
    timed.taken([seconds], clock="processor")
    figures = {
        "seconds": digits(seconds),
        "passes": digits(passes),
        "end": digits(min(losses), 4),
        "start": digits(losses[0], 4),
    }
    timed.tell(**figures, curve="; ".join(f"{s:.2f}: {loss:.4f}" for s, loss in zip(spent, losses, strict=True)))
    timed.row("cost_gain", solver=what, n_classes=n_classes, **figures)


def draw():
    """Draw microseconds and megabytes against each size."""
    from matplotlib import rc_context

    from manyclass.plot.style import Panel, Series, line_chart

    found = [json.loads(line) for line in (BENCH / "results/cost.jsonl").read_text("utf-8").splitlines()]
    panels = []
    for axis in AXES:
        for unit, called in (("us", "microseconds"), ("mb", "MB")):
            series = []
            for model in BASE:
                at = sorted((row["size"], row[unit]) for row in found if (row["model"], row["axis"]) == (model, axis))
                series.append(Series(model, [size for size, _ in at], [value for _, value in at], "-o"))
            panels.append(Panel(f"{axis}: {called}", series))
    picture = line_chart(panels, "size", "of a row, or that a fit adds", log_x=True, log_y=True)
    with rc_context({"svg.fonttype": "none"}):  # text as text: outlines of letters are most of a file of many panels
        picture.save(BENCH.parent / ".benchmarks/cost.svg")
