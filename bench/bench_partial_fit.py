"""Training on by `partial_fit` against training on all rows at once: test log-loss, and its share of the seconds.

A stream from nothing: all rows once, in 1 to 1,000 calls of `partial_fit`, unit rows in a drawn order, log-losses of
up to 4,000 test rows. `SoftmaxClassifier` has nothing set; "without fits" it has n_kept=0. scikit-learn's and river's
models (stream_peers.py) have the best of a grid, by the test rows' loss after one call. Losses are also taken on the
way, at most a hundred times; a rise is the largest between two of them. `fit` of all rows at once, with nothing set
and by the linear model that a stream without fits trains, is the line to reach. One thread.

Late classes: a tenth of the classes have all their rows in the second half of 20 calls; beside it a stream that has
all classes from the start. Log-losses of the late classes' test rows, and of the others. Other models by calls have
their own `fit` beside them.

Excesses: how far above the ridged optimum calls on the same rows end, by solver, with nothing set and 64 drawn classes:
a tiny problem, and bibtex. A call does not know that its rows are those of the one before.

The first half of the rows lacks a tenth of the classes; the second half brings them, in some passes, beside a fit of
all rows. `fit` has the solver that is named here and nothing else set. Then days: `fit` on four fifths, and the rest
not at all, in twenty parts, or at once. Two threads.

    python -m pytest bench/bench_partial_fit.py
"""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from stream_peers import one_vs_rest, river_softmax

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, solvers
from manyclass.papers.data import load_problem
from manyclass.registry import parts

SETS = ("eurlex57k", "omniglot", "bibtex", "delicious")
PASSES = {"1 pass": 1, "2 passes": 2, "4 passes": 4, "8 passes": 8}
DAYS = {"without it": 0, "in twenty parts": 20, "at once": 1}
PARAMETERS = {"solver": "implicit", "random_state": 0, "n_jobs": 2}
STREAMS = ("planted", "bibtex", "delicious", "20news", "mnist", "eurlex57k")
CALLS, LOOKS, N_TEST = (1, 10, 100, 1000), 100, 4000
# scikit-learn's schedules, of which "optimal" begins by its penalty; and river's step sizes with the powers by which
# they fall.
GRIDS = {
    "SGDClassifier": [
        *({"learning_rate": "optimal", "alpha": alpha} for alpha in (1e-6, 1e-5, 1e-4)),
        *({"learning_rate": "constant", "eta0": rate, "alpha": 1e-6} for rate in (0.3, 1, 3, 10)),
        *({"learning_rate": "invscaling", "power_t": 0.25, "eta0": rate, "alpha": 1e-6} for rate in (1, 3, 10)),
        *({"learning_rate": "invscaling", "power_t": 0.5, "eta0": rate, "alpha": 1e-6} for rate in (3, 10, 30, 100)),
    ],
    "river": [{"rate": rate, "power": power} for rate, power in ((1, 0.0), (3, 0.0), (10, 0.5), (30, 0.5))],
}
MAKES = {"SGDClassifier": one_vs_rest, "river": river_softmax}
# Thousands of binary models take a second a call and more, copies of W a fifth of one, and river seconds for some rows.
TOO_SLOW = {("eurlex57k", "river")}
FEW = {
    ("eurlex57k", "SoftmaxClassifier"): (1, 10, 100),
    ("eurlex57k", "without fits"): (1, 10, 100),
    ("eurlex57k", "SGDClassifier"): (1, 10),
    ("delicious", "SGDClassifier"): (1, 10, 100),
}


@pytest.fixture(scope="module", params=SETS)
def data(request, data_folder):
    """Rows as the notes have them."""
    scale = "max" if request.param == "eurlex57k" else None
    return load_problem(request.param, scale=scale, max_rows=None, n_jobs=2)


@pytest.mark.parametrize("what", PASSES)
def test_a_second_half_with_new_classes(timed, data, what):
    rng = np.random.default_rng(0)
    classes = np.unique(data.y_train)
    is_new = np.isin(data.y_train, classes[rng.random(len(classes)) < 0.1])
    first = (rng.random(len(is_new)) < 0.5) & ~is_new
    second = rng.permutation(np.flatnonzero(~first))
    X, y, made = data.X_train, data.y_train, {}
    model = SoftmaxClassifier(**PARAMETERS).fit(X[first], y[first])

    def whole():
        made["whole"] = SoftmaxClassifier(**PARAMETERS).fit(X, y)

    timed(lambda: model.partial_fit(X[second], y[second], n_passes=PASSES[what]), beside={"all at once": whole})
    at_once, found = (one.evaluate(data.X_test, data.y_test)["log_loss"] for one in (made["whole"], model))
    timed.tell(threads=2, new_rows=is_new.mean(), at_once=at_once, above_it=found - at_once)


@pytest.mark.parametrize("what", DAYS)
def test_the_last_fifth(timed, data, what):
    X, y = data.X_train, data.y_train
    order = np.random.default_rng(0).permutation(len(y))
    some, rest = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    model = SoftmaxClassifier(**PARAMETERS).fit(X[some], y[some])

    def learn():
        for part in np.array_split(rest, DAYS[what]) if DAYS[what] else []:
            model.partial_fit(X[part], y[part])

    timed(learn)
    timed.tell(threads=2, log_loss=model.evaluate(data.X_test, data.y_test)["log_loss"])


def planted(n_rows):
    """50 classes, unit rows of 10 features, and labels that a softmax of scores of scale 4 draws."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + N_TEST, 10))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    y = (4 * X @ rng.normal(size=(50, 10)).T + rng.gumbel(size=(len(X), 50))).argmax(axis=1)
    return SimpleNamespace(X_train=X[:n_rows], y_train=y[:n_rows], X_test=X[n_rows:], y_test=y[n_rows:])


@pytest.fixture(scope="module", params=STREAMS)
def stream(request, data_folder, small):
    """Rows in a drawn order, and classes numbered from 0."""
    name = request.param
    data = (
        planted(2000 if small else 100_000)
        if name == "planted"
        else load_problem(name, scale="l2", max_rows=None, n_jobs=2)
    )
    rng = np.random.default_rng(0)
    order, tests = rng.permutation(len(data.y_train)), rng.permutation(len(data.y_test))[:N_TEST]
    classes, y = np.unique(data.y_train[order], return_inverse=True)
    y_test = np.searchsorted(classes, data.y_test[tests])
    return SimpleNamespace(
        name=name, X=data.X_train[order], y=y, X_test=data.X_test[tests], y_test=y_test, n_classes=len(classes)
    )


def log_loss(model, data):
    """Of the test rows; a class that has not come has the least number as its probability."""
    if isinstance(model, SoftmaxClassifier):
        return model.evaluate(data.X_test, data.y_test)["log_loss"]
    p = np.full((len(data.y_test), data.n_classes), np.finfo(float).tiny)
    p[:, model.classes_] = model.predict_proba(data.X_test)
    return float(-np.log(p[np.arange(len(p)), data.y_test]).mean())


def learnt(model, data, n_calls, looks, **given):
    """The losses at some of the calls, the last among them, by rows."""
    if isinstance(model, SoftmaxClassifier):
        given["classes"] = np.arange(data.n_classes)
    n, losses = len(data.y), []
    ends = [n * (call + 1) // n_calls for call in range(n_calls)]
    for call, (a, b) in enumerate(zip([0, *ends], ends, strict=False), 1):
        model.partial_fit(data.X[a:b], data.y[a:b], **given)
        if call == n_calls or call * looks // n_calls > (call - 1) * looks // n_calls:
            losses.append((b, log_loss(model, data)))
    return losses


def best_of_grid(what, data, small):
    """The settings of a peer that have the least loss after one call, and what it was for each."""
    grid = GRIDS[what][-2:] if small else GRIDS[what][::4] if data.n_classes > 2000 else GRIDS[what]
    losses = [learnt(MAKES[what](data.n_classes, **given), data, 1, 1)[-1][1] for given in grid]
    return grid[int(np.argmin(losses))], dict(zip(map(str, grid), losses, strict=True))


@pytest.mark.parametrize("what", ["SoftmaxClassifier", "without fits", "fit of all rows", "the same, linear", *GRIDS])
def test_a_stream_from_nothing(timed, stream, small, what):
    if what == "river":
        pytest.importorskip("river", reason="the extra 'bench' has it")
    if (stream.name, what) in TOO_SLOW and not small:
        pytest.skip("too slow")
    if what in GRIDS:
        best, grid = best_of_grid(what, stream, small)
        timed.tell(setting=best, grid=grid)

        def make():
            return MAKES[what](stream.n_classes, **best)
    else:

        def make():
            return SoftmaxClassifier(random_state=0, **{"model": "linear"} if "linear" in what else {})

    if what.startswith(("fit", "the same")):
        model = timed(lambda: make().fit(stream.X, stream.y), clock="processor")
        timed.row("streams", data=stream.name, model=what, in_1=f"{log_loss(model, stream):.3f}")
        return
    looks = 1 if what == "river" else LOOKS if stream.n_classes < 2000 else 10
    # river's model goes row by row, so that the number of calls changes nothing.
    calls = (1,) if what == "river" else FEW.get((stream.name, what), CALLS)
    given = {"n_kept": 0} if what == "without fits" else {}
    run = timed(lambda: {n: learnt(make(), stream, n, looks, **given) for n in calls}, clock="processor")
    row = {f"in_{n}": f"{losses[-1][1]:.3f}" for n, losses in run.items()}
    if what != "river":
        by_call = {n: np.array([loss for _, loss in losses]) for n, losses in run.items()}
        row |= {"rise": f"{max(np.diff(losses).max(initial=0) for losses in by_call.values()):.3f}"}
        on_the_way = by_call.get(100, by_call[10])
        every = 100 // len(on_the_way)  # per cent of the rows
        row |= {f"at_{share}": f"{on_the_way[share // every - 1]:.3f}" for share in (1, 3, 10, 30) if share >= every}
    timed.tell(losses_in_10=[loss for _, loss in run.get(10, run[1])])
    timed.row("streams", data=stream.name, model=what, **row)


@pytest.mark.parametrize("name", ["yso-en", "bibtex", "20news"])
@pytest.mark.parametrize("late", [True, False])
def test_a_tenth_of_the_classes_comes_late(timed, data_folder, name, late):
    data, rng = load_problem(name, scale="l2", max_rows=60_000, n_jobs=2), np.random.default_rng(0)
    order = rng.permutation(len(data.y_train))
    X, y = data.X_train[order], data.y_train[order]
    classes = np.unique(y)
    is_late = np.isin(y, rng.permutation(classes)[: len(classes) // 10])
    others, n = np.flatnonzero(~is_late), len(y)
    second = rng.permutation(np.concatenate([others[n // 2 :], np.flatnonzero(is_late)]))
    rows = np.concatenate([others[: n // 2], second]) if late else np.arange(n)
    model = SoftmaxClassifier(model="hybrid", random_state=0)

    def learn():
        for part in np.array_split(rows, 20):
            model.partial_fit(X[part], y[part], classes=None if late else classes)

    timed(learn, clock="processor")
    tests = np.flatnonzero(np.isin(data.y_test, classes))
    of_late = np.isin(data.y_test[tests], y[is_late])
    for what, some in (("late", tests[of_late][:N_TEST]), ("others", tests[~of_late][:N_TEST])):
        timed.tell(**{f"log_loss_of_{what}": model.evaluate(data.X_test[some], data.y_test[some])["log_loss"]})


UNBIASED = [name for name, facts in parts("solver").items() if not facts.biased]


@pytest.mark.parametrize("what", UNBIASED)
@pytest.mark.parametrize("name", ["tiny", "bibtex"])
def test_excess_by_calls(timed, data_folder, name, what):
    if name == "tiny":  # as tests/estimators/test_partial_fit.py has it
        rng = np.random.default_rng(0)
        X, alpha, n_drawn = rng.normal(size=(60, 4)).astype(np.float32), 0.03, 2
        y = np.concatenate([np.arange(9), rng.integers(9, size=51)])
    else:
        data = load_problem(name, scale="l2", max_rows=None, n_jobs=2)
        X, y, alpha, n_drawn = data.X_train, data.y_train, 1e-3, 64
    own = {"alpha": alpha, "model": "linear", "random_state": 0}

    def objective(model):
        return model.evaluate(X, y)["log_loss"] + alpha / 2 * float(np.sum(model.coef_.astype(float) ** 2))

    best = objective(SoftmaxClassifier(solver=solvers.LBFGS(tol=1e-8), **own).fit(X, y))
    drawn = {} if "all_classes" in parts("solver")[what].flags else {"n_negatives": n_drawn}
    model, looks = SoftmaxClassifier(solver=what, **own, **drawn), (10, 50, 500)

    def learn():
        found = {}
        for call in range(1, looks[-1] + 1):
            model.partial_fit(X, y, n_kept=0)
            if call in looks:
                found[f"in_{call}"] = f"{objective(model) - best:.4f}"
        return found

    found = timed(learn, clock="processor")
    timed.tell(optimum=best)
    timed.row("excesses", data=name, solver=what, **found)


OTHER_MODELS = {
    "margins": MarginClassifier(random_state=0),
    "augment-and-reduce, gumbel": AugmentReduceClassifier(noise="gumbel", random_state=0),
    "probit": AugmentReduceClassifier(noise="normal", random_state=0),
    "embedding": SoftmaxClassifier(model="embedding", dim=16, random_state=0),
    "hybrid": SoftmaxClassifier(model="hybrid", random_state=0),
}


@pytest.mark.parametrize("what", OTHER_MODELS)
@pytest.mark.parametrize("stream", ["planted", "bibtex", "20news"], indirect=True)
def test_other_models_by_calls(timed, stream, what):
    def found(model):
        measures = model.evaluate(stream.X_test, stream.y_test)
        return measures.get("log_loss", measures["error"])

    fitted = clone(OTHER_MODELS[what]).fit(stream.X, stream.y)
    timed.tell(fit=found(fitted))
    for n_calls in (1, 10, 100):
        model = clone(OTHER_MODELS[what])
        for rows in np.array_split(np.arange(len(stream.y)), n_calls):
            model.partial_fit(stream.X[rows], stream.y[rows], classes=np.arange(stream.n_classes))
        timed.tell(**{f"in_{n_calls}": found(model)})
