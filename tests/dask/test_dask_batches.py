"""Margins and several labels a row on a Dask cluster of two workers."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("distributed")

import dask
import dask.array as da
from reference.dask_rows import (
    CHUNK,
    KINDS_OF_WORKERS,
    N_CLASSES,
    N_FEATURES,
    N,
    equal,
    halves,
    made_rows,
    on_one,
    parts,
    some_workers,
)
from reference.dask_simulation import simulate

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.dask import DaskMarginClassifier, DaskSoftmaxClassifier
from manyclass.dask.passes import FLOOR, Curvature, Stretch, WeightPart, Whole
from manyclass.dask.trainings import passes_of
from manyclass.training.incremental import Call
from manyclass.training.plan import Labels
from manyclass.training.state import Features, Points

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

LOCAL = {DaskMarginClassifier: MarginClassifier, DaskSoftmaxClassifier: SoftmaxClassifier}


@pytest.fixture(scope="module", params=KINDS_OF_WORKERS)
def client(request):
    with some_workers(request.param) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return made_rows()


LONG = pytest.mark.long
MARGINS = (
    {"solver": "adagrad"},
    {"solver": solvers.SGD(decay=0.9), "sampler": "uniform", "n_negatives": 6},
    {"solver": "implicit"},
    {"loss": "triplet"},
)
SEVERAL = (
    {"solver": "adagrad", "sampler": "uniform", "n_negatives": 6},
    {"solver": solvers.Adagrad(reduction="decoupled")},
    {"solver": solvers.UMax(reduction="pick_all_normalized")},
    {"solver": "implicit", "n_negatives": 6},
    {"solver": "exact"},
)


def plan_of(local, X, labels):
    """The plan of an estimator of one machine, by minibatches."""
    points = Points(X, labels, np.arange(N_CLASSES), Features(X.shape[1], None), several=True)
    return local._plans().plan_call(None, points, Call())[0].plan


def first_is_short(some):
    """Parameters of a test, all but the first for the long suite: a fit on a cluster takes most of a second."""
    return [some[0], *(pytest.param(one, marks=LONG) for one in some[1:])]


@pytest.mark.parametrize("given", first_is_short(MARGINS))
def test_one_worker_makes_the_margins_of_one_machine_bit_for_bit(client, rows, given):
    X, y, _ = rows
    given = {**given, "max_iter": 4, "random_state": 3}
    local = MarginClassifier(**{"learning_rate": 0.5, **given}).fit(sp.csr_array(X), y)
    found = DaskMarginClassifier(**{"learning_rate": 0.5, **given}, client=client)
    found.fit(*on_one(client, sp.csr_array(X), y))
    assert len(found.work_) == 1
    assert equal(found.to_local(), local)
    np.testing.assert_array_equal(found.loss_curve_, local.loss_curve_)
    assert found.to_local().evaluate(X, y) == local.evaluate(X, y)


@pytest.mark.parametrize("given", first_is_short(SEVERAL))
@pytest.mark.parametrize("sparse", [pytest.param(False, marks=LONG), True])
def test_one_worker_makes_the_model_of_several_labels_of_one_machine_bit_for_bit(client, rows, given, sparse):
    X, _, Y = rows
    y = sp.csr_array(Y) if sparse else Y
    given = {**given, "model": "linear", "learning_rate": 0.3, "max_iter": 4, "random_state": 3}
    local = SoftmaxClassifier(**given).fit(X, y)
    found = DaskSoftmaxClassifier(**given, client=client).fit(*on_one(client, X, y))
    there = found.to_local()
    assert equal(there, local)
    assert (there.threshold_, there.n_labels_, there.multilabel_) == (local.threshold_, local.n_labels_, True)
    assert type(there.predict(X)) is type(local.predict(X))
    np.testing.assert_array_equal(sp.csr_array(there.predict(X)).toarray(), sp.csr_array(local.predict(X)).toarray())
    np.testing.assert_array_equal(there.class_count_, local.class_count_)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (DaskMarginClassifier, MARGINS[0]),
        pytest.param(DaskMarginClassifier, MARGINS[1], marks=LONG),
        (DaskSoftmaxClassifier, SEVERAL[2]),
        *(pytest.param(DaskSoftmaxClassifier, SEVERAL[at], marks=LONG) for at in (0, 1, 3)),
    ],
)
@pytest.mark.parametrize("n_merges", [pytest.param(1, marks=LONG), 2])
def test_two_workers_make_what_one_process_makes_that_simulates_them(client, rows, kind, given, n_merges):
    X, _, Y = rows
    labelled = Y.any(axis=1)
    X, Y = X[labelled], sp.csr_array(Y[labelled])
    given = {**given, "learning_rate": 0.3, "max_iter": 3, "random_state": 3}
    if kind is DaskSoftmaxClassifier:
        given["model"] = "linear"
    n = X.shape[0]
    cuts = [slice(0, n // 2), slice(n // 2, n)]
    dX, dY = ([dask.delayed(one[cut]) for cut in cuts] for one in (X, Y))
    found = kind(**given, n_merges=n_merges, client=client).fit(dX, dY)
    shards = halves(X, Y.indices, Y.indptr)
    local = LOCAL[kind](**given)
    plan = plan_of(local, X, Labels(Y.indptr.astype(np.int64), Y.indices))
    whole = Whole(np.bincount(Y.indices, minlength=N_CLASSES).astype(float), 2, N_FEATURES, n, False)
    weights, curve = simulate(plan, whole, shards, n_merges)
    np.testing.assert_array_equal(found.to_local().coef_, weights.coef)
    np.testing.assert_array_equal(found.to_local().intercept_, weights.intercept)
    np.testing.assert_array_equal(found.loss_curve_, curve)
    assert sum(counts["n_visits"] for counts in found.work_) == 3 * n


def test_a_merge_of_margins_is_by_who_moved_a_weight_and_by_the_sum_of_squares(rows):
    local = MarginClassifier(learning_rate=0.5, random_state=0)
    plan = plan_of(local, rows[0], Labels.single(rows[1].astype(np.int32)))
    assert plan.adagrad
    none = Curvature(sp.csr_array((2, 16)), np.zeros(0), 1, (1.0, 1.0))
    part = WeightPart(np.zeros((2, 16), np.float32), squares=np.array([4.0, 4.0], np.float32))
    weigh = FLOOR["margin"] / -np.expm1(-FLOOR["margin"])  # of a pass that moved a weight on its own
    one, other = (np.zeros((1, 16), np.float32) for _ in range(2))
    one[0, :2], other[0, 0] = weigh * 1.0, weigh * 3.0
    changes = [
        (np.array([0], np.int32), WeightPart(one, squares=np.array([5.0], np.float32))),
        (np.array([0], np.int32), WeightPart(other, squares=np.array([12.0], np.float32))),
    ]
    made = passes_of(plan, Whole(np.ones(2), 1, 15, 2, False)).merge(part, none, changes, Stretch(0))
    np.testing.assert_array_equal(made.squares, [21, 4])
    # Steps with the sum of squares 9 and 16, as if it had been 21 from the beginning.
    shares = np.sqrt(9 / 21), np.sqrt(16 / 21)
    ways = FLOOR["margin"] * np.array([sum(shares), shares[0]])
    expected = -np.expm1(-ways) / ways * weigh * np.array([shares[0] * 1.0 + shares[1] * 3.0, shares[0]])
    np.testing.assert_allclose(made.matrix[0, :2], expected, rtol=1e-6)  # products in single precision
    assert not made.matrix[0, 2:].any()
    assert not made.matrix[1].any()


def arrays(X, Y):
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(Y, chunks=(CHUNK, -1)).map_blocks(sp.csr_matrix)


def dense_arrays(X, Y):
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(Y, chunks=(CHUNK, 7))


def delayed(X, Y):
    return parts(X, sp.csr_array(Y))


def frames(X, Y):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    return tuple(dd.from_pandas(pd.DataFrame(one), npartitions=4) for one in (X, Y))


@pytest.mark.parametrize("kind", [pytest.param(DaskMarginClassifier, marks=LONG), DaskSoftmaxClassifier])
@pytest.mark.parametrize("collect", [arrays, dense_arrays, pytest.param(delayed, marks=LONG), frames])
def test_every_collection_of_several_labels_trains_the_same_model_and_answers_like_it(client, rows, kind, collect):
    X, _, Y = rows
    given = {"solver": "adagrad", "model": "linear", "learning_rate": 0.5, "max_iter": 2, "random_state": 0}
    expected = kind(**given, client=client).fit(*delayed(X, Y)).to_local()
    dX, dY = collect(X, Y)
    weights = np.linspace(0, 2, N)
    dw = da.from_array(weights, chunks=CHUNK)
    dw = parts(weights)[0] if collect in (delayed, frames) else dw
    found = kind(**given, client=client).fit(dX, dY)
    assert equal(found.to_local(), expected)
    answered = found.predict(dX)
    assert isinstance(answered, da.Array)
    local = found.to_local()
    np.testing.assert_array_equal(sp.csr_array(answered.compute()).toarray(), sp.csr_array(local.predict(X)).toarray())
    np.testing.assert_array_equal(found.predict(dX, k=3).compute().sum(axis=1), 3)
    for given_weights in ((None, None), (dw, weights)):
        measured, exact = found.evaluate(dX, dY, given_weights[0]), local.evaluate(X, Y, given_weights[1])
        assert measured.keys() == exact.keys()
        assert measured == pytest.approx(exact, rel=1e-12)  # sums of doubles in another order
    assert found.score(dX, dY, dw) == pytest.approx(local.score(X, Y, weights), rel=1e-12)


@pytest.mark.parametrize("labels", [pytest.param("first", marks=LONG), "all"])
def test_files_have_first_labels_or_all(client, rows, tmp_path, labels):
    X, _, Y = rows
    files = []
    for at in range(0, N, 200):
        lines = [
            ",".join(map(str, np.flatnonzero(Y[i])))
            + " "
            + " ".join(f"{j}:{float(X[i, j])!r}" for j in np.flatnonzero(X[i]))
            for i in range(at, at + 200)
        ]
        files.append(tmp_path / f"{at}.txt")
        files[-1].write_text("\n".join([f"200 {N_FEATURES} {N_CLASSES}", *lines]) + "\n")
    given = {"solver": "adagrad", "model": "linear", "learning_rate": 0.5, "max_iter": 2, "random_state": 0}
    found = DaskSoftmaxClassifier(**given, client=client).fit(files, labels=labels)
    assert found.n_features_in_ == N_FEATURES
    assert found.multilabel_ == (labels == "all")
    told = found.evaluate(files, labels=labels)
    assert ("precision_at_1" in told) == (labels == "all")
    if labels == "all":
        whole = DaskSoftmaxClassifier(**given, client=client)
        cut = [slice(0, 200), slice(200, N)]
        whole.fit([dask.delayed(sp.csr_array(X[c])) for c in cut], [dask.delayed(sp.csr_array(Y[c])) for c in cut])
        assert equal(found.to_local(), whole.to_local())
        with pytest.raises(ValueError, match="labels is 'all'"):
            found.fit(*delayed(X, Y), labels="all")
        with pytest.raises(ValueError, match="a list of files as X has the labels with it"):
            found.fit(files, files)


def test_weights_of_rows_with_several_labels_reach_the_workers(client, rows):
    X, _, Y = rows
    weights = np.where(np.arange(N) < N // 2, 3.0, 1.0)
    weights[::7] = 0
    given = {"solver": "adagrad", "model": "linear", "learning_rate": 0.5, "max_iter": 3, "random_state": 0}
    found = DaskSoftmaxClassifier(**given, client=client).fit(*on_one(client, X, sp.csr_array(Y), weights))
    local = SoftmaxClassifier(**given).fit(X, sp.csr_array(Y), weights)
    # Weights are divided by their mean in another order of roundings, to parts in 10^16.
    np.testing.assert_allclose(found.to_local().coef_, local.coef_, rtol=1e-4, atol=1e-6)


def test_margins_have_no_log_loss_and_parts_without_rows_say_nothing(client, rows):
    X, y, _ = rows
    cuts = list(itertools.pairwise([0, 0, 10, 300, 300, N]))
    some = [[dask.delayed(one[a:b]) for a, b in cuts] for one in (X, y)]
    model = DaskMarginClassifier(max_iter=2, learning_rate=0.5, random_state=0, client=client).fit(*some)
    told = model.evaluate(*some)
    assert "log_loss" not in told
    assert told == pytest.approx(model.to_local().evaluate(X, y), rel=1e-12)


def test_what_several_labels_or_margins_cannot_have_is_refused_in_words(client, rows):
    X, y, Y = rows
    several = parts(X, sp.csr_array(Y))
    for model, data, told in (
        (DaskSoftmaxClassifier(class_weight="balanced"), several, "class_weight"),
        (DaskSoftmaxClassifier(early_stopping=True, solver="adagrad"), several, "early_stopping"),
        (DaskMarginClassifier(early_stopping=True), several, "early_stopping is True, which is for one label a row"),
        (DaskSoftmaxClassifier(division="rows and classes"), several, "division is 'rows and classes'"),
        (DaskMarginClassifier(division="rows and classes", solver="adagrad"), parts(X, y), "division"),
        (DaskMarginClassifier(model="embedding"), parts(X, y), "model is 'embedding'"),
        (DaskMarginClassifier(sampler="search"), parts(X, y), "sampler is 'search'"),
    ):
        with pytest.raises(ValueError, match=told):
            model.set_params(client=client).fit(*data)
    columns = [dask.delayed(Y[:100]), dask.delayed(Y[100:200, :5])]
    with pytest.raises(
        ValueError, match="parts of X, y or their weights differ: label_columns is 24 in one, 5 in another"
    ):
        DaskMarginClassifier(client=client).fit(parts(X[:200])[0], columns)
