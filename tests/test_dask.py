"""Training by rows on a Dask cluster of two processes: the same answers as on one machine, whatever the collection."""

import inspect
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytest.importorskip("distributed")

import dask
import dask.array as da
from planned import by_points
from reference.dask_rows import two_workers

from manyclass import SoftmaxClassifier, solvers
from manyclass.dask import DaskSoftmaxClassifier
from manyclass.dask.checking import couplings, size_of
from manyclass.dask.shards import Shard, Whole
from manyclass.dask.simulation import simulate

# Of distributed itself and what it imports, in this process; a worker's are its own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

N, N_FEATURES, N_CLASSES, CHUNK = 600, 12, 20, 100


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def data():
    """Sparse rows of 20 classes, and their labels, which are text."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, N_FEATURES)) * (rng.random((N, N_FEATURES)) < 0.5)
    W = 2 * rng.normal(size=(N_CLASSES, N_FEATURES))
    y = np.argmax(X @ W.T + rng.gumbel(size=(N, N_CLASSES)), axis=1)
    return X.astype(np.float32), np.array([f"class {k:02}" for k in range(N_CLASSES)])[y]


def parameters(**more):
    solver = solvers.Implicit(decay=0.8, averaging="none")
    return {"solver": solver, "learning_rate": 0.5, "alpha": 1e-3, "max_iter": 6, "n_negatives": 8, **more} | {
        "random_state": 0
    }


def on_one_worker(client, **more):
    """An estimator whose parts are on one worker, so that it is the only one that trains."""
    return DaskSoftmaxClassifier(**parameters(**more), client=client)


def persisted_on_one(client, X, y, sparse):
    place = min(client.scheduler_info()["workers"])
    parts = []
    for first in range(0, N, CHUNK):
        rows = slice(first, first + CHUNK)
        x = sp.csr_array(X[rows]) if sparse else X[rows]
        parts.append([client.scatter(one, workers=[place], hash=False) for one in (x, y[rows])])
    return [x for x, _ in parts], [y for _, y in parts]


def equal(one, other):
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("averaging", ["none", "suffix"])
def test_one_worker_makes_the_model_of_one_machine_bit_for_bit(client, data, sparse, averaging):
    X, y = data
    more = {"solver": solvers.Implicit(decay=0.8, averaging=averaging)}
    local = SoftmaxClassifier(**parameters(**more)).fit(sp.csr_array(X) if sparse else X, y)
    found = on_one_worker(client, **more).fit(*persisted_on_one(client, X, y, sparse))
    assert len(found.work_) == 1
    assert equal(found.to_local(), local)
    np.testing.assert_array_equal(found.loss_curve_, local.loss_curve_)
    np.testing.assert_array_equal(found.to_local().predict_proba(X), local.predict_proba(X))


@pytest.mark.parametrize("solver", ["implicit", "exact", "umax"])
@pytest.mark.parametrize("n_merges", [1, 3])
def test_two_workers_make_what_one_process_makes_that_simulates_them(client, data, solver, n_merges):
    X, y = data
    own = solvers.SOLVERS[solver](averaging="suffix")
    given = parameters(solver=own, learning_rate=0.1)
    if solver == "exact":
        del given["n_negatives"]
    found = DaskSoftmaxClassifier(**given, n_merges=n_merges, client=client).fit(*arrays(X, y))
    assert found.shards_ == [[0, 1, 2], [3, 4, 5]]
    local = SoftmaxClassifier(**given)
    classes, labels = np.unique(y, return_inverse=True)
    labels = labels.astype(np.int32)
    settled = by_points(local, X, labels, len(classes))
    halves = np.split(np.arange(N), 2)
    shards = [Shard(X[rows], labels[rows], None, at, rows[0]) for at, rows in enumerate(halves)]
    whole = Whole(np.bincount(labels).astype(float), 2, N_FEATURES, N, False)
    coupling = couplings([size_of(shard) for shard in shards], fit_intercept=True)
    weights, curve = simulate(settled.plan, whole, shards, coupling, n_merges)
    np.testing.assert_array_equal(found.to_local().coef_, weights.coef)
    np.testing.assert_array_equal(found.to_local().intercept_, weights.intercept)
    np.testing.assert_array_equal(found.loss_curve_, curve)


def arrays(X, y, chunk=CHUNK):
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)


def frames(X, y):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    names = [f"f{j}" for j in range(X.shape[1])]
    return dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=6), dd.from_pandas(pd.Series(y), npartitions=6)


def delayed(X, y):
    cuts = range(0, N, CHUNK)
    return [dask.delayed(X[at : at + CHUNK]) for at in cuts], [dask.delayed(y[at : at + CHUNK]) for at in cuts]


def sparse_arrays(X, y):
    return da.from_array(X, chunks=(CHUNK, -1)).map_blocks(sp.csr_matrix), da.from_array(y, chunks=CHUNK)


def columns_divided(X, y):
    return da.from_array(X, chunks=(CHUNK, 5)), da.from_array(y, chunks=N)


@pytest.mark.parametrize("collect", [arrays, frames, delayed, sparse_arrays, columns_divided])
def test_every_collection_trains_the_same_model(client, data, collect):
    X, y = data
    given = parameters(max_iter=2)
    found = DaskSoftmaxClassifier(**given, client=client).fit(*collect(X, y))
    if collect is sparse_arrays:  # its sums are in another order
        assert found.evaluate(*collect(X, y))["log_loss"] < np.log(N_CLASSES)
        return
    assert equal(found.to_local(), DaskSoftmaxClassifier(**given, client=client).fit(*arrays(X, y)).to_local())
    assert (getattr(found, "feature_names_in_", None) is not None) == (collect is frames)


def test_files_are_read_by_the_workers(client, data, tmp_path):
    X, y = data
    labels = np.unique(y, return_inverse=True)[1]
    files = []
    for at in range(0, N, 200):
        rows = range(at, at + 200)
        lines = [f"{labels[i]} " + " ".join(f"{j}:{X[i, j]!r}" for j in np.flatnonzero(X[i])) for i in rows]
        files.append(tmp_path / f"{at}.txt")
        text = "\n".join([f"200 {N_FEATURES} {N_CLASSES}", *lines]).replace("np.float32(", "").replace(")", "")
        files[-1].write_text(text + "\n")
    found = DaskSoftmaxClassifier(**parameters(max_iter=2), client=client).fit(files)
    assert found.n_features_in_ == N_FEATURES
    assert found.evaluate(files)["log_loss"] < np.log(N_CLASSES)
    with pytest.raises(ValueError, match="a list of files as X has the labels with it"):
        found.fit(files, files)


def test_answers_are_lazy_and_those_of_the_local_model(client, data):
    X, y = data
    dX, dy = arrays(X, y)
    found = DaskSoftmaxClassifier(**parameters(max_iter=2), client=client).fit(dX, dy)
    local = found.to_local()
    proba = found.predict_proba(dX)
    assert isinstance(proba, da.Array)
    assert proba.shape == (N, N_CLASSES)
    np.testing.assert_array_equal(proba.compute(), local.predict_proba(X))
    np.testing.assert_array_equal(found.predict(dX).compute(), local.predict(X))
    labels, log_p = found.predict_top_k(dX, 3)
    np.testing.assert_array_equal(labels.compute(), local.predict_top_k(X, 3)[0])
    np.testing.assert_array_equal(log_p.compute(), local.predict_top_k(X, 3)[1])
    weights = np.linspace(0, 2, N)
    expected = local.evaluate(X, y, weights)
    measured = found.evaluate(dX, dy, da.from_array(weights, chunks=CHUNK))
    assert measured.keys() == expected.keys()
    assert measured == pytest.approx(expected, rel=1e-12)  # sums of doubles in another order
    assert found.score(dX, dy) == pytest.approx(local.score(X, y), rel=1e-12)


def test_weights_of_rows_and_classes_reach_the_workers(client, data):
    X, y = data
    weights = np.where(np.arange(N) < N // 2, 3.0, 1.0)
    weights[::7] = 0
    given = parameters(max_iter=3, class_weight="balanced")
    dX, dy = persisted_on_one(client, X, y, sparse=False)
    parts = [dask.delayed(weights[at : at + CHUNK]) for at in range(0, N, CHUNK)]
    found = DaskSoftmaxClassifier(**given, client=client).fit(dX, dy, parts)
    local = SoftmaxClassifier(**given).fit(X, y, weights)
    # Weights are divided by their mean in another order of roundings, to parts in 10^16.
    np.testing.assert_allclose(found.to_local().coef_, local.coef_, rtol=1e-4, atol=1e-6)


def test_parts_may_be_unequal_or_empty_and_classes_on_one_worker_only(client, data):
    X, y = data
    order = np.argsort(y, kind="stable")  # the first worker has the first classes
    X, y = X[order], y[order]
    cuts = [0, 0, 10, 450, 450, N]
    parts = list(itertools.pairwise(cuts))
    found = DaskSoftmaxClassifier(**parameters(), client=client).fit(
        [dask.delayed(X[a:b]) for a, b in parts], [dask.delayed(y[a:b]) for a, b in parts]
    )
    assert sum(counts["n_visits"] for counts in found.work_) == 6 * N
    assert found.evaluate(*arrays(X, y))["log_loss"] < 0.8 * np.log(N_CLASSES)
    assert list(found.classes_) == sorted(set(y))
    # All rows in one part: the other worker has none.
    alone = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client).fit(*arrays(X, y, N))
    assert len(alone.work_) == 1


def test_constructors_are_those_of_one_machine_with_a_client_last():
    local, found = (list(inspect.signature(c).parameters) for c in (SoftmaxClassifier, DaskSoftmaxClassifier))
    assert found == [*local, "division", "n_merges", "client"]
    model = DaskSoftmaxClassifier(**parameters(), client=None)
    assert clone(model).get_params()["n_negatives"] == 8
    with pytest.raises(TypeError, match="max_itr"):
        DaskSoftmaxClassifier(max_itr=3)


def test_a_copy_has_no_client_but_the_model(client, data):
    X, y = data
    found = DaskSoftmaxClassifier(**parameters(max_iter=2), client=client)
    assert pickle.loads(pickle.dumps(found)).client is None
    found.fit(*arrays(X, y))
    copy = pickle.loads(pickle.dumps(found))
    assert copy.client is None
    assert copy.client_ is client  # the default one
    assert equal(copy.to_local(), found.to_local())
    np.testing.assert_array_equal(copy.predict(arrays(X, y)[0]).compute(), found.predict(arrays(X, y)[0]).compute())


def test_bad_input_is_refused_in_words_and_leaves_the_model_as_it_was(client, data):
    X, y = data
    dX, dy = arrays(X, y)
    model = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client)
    with pytest.raises(NotFittedError):
        model.predict(dX)
    model.fit(dX, dy)
    before = model.to_local()
    for given, told in (
        ((X, y), "X is a ndarray; it must be a dask array"),
        ((dX, None), "y is None"),
        ((dX, dy[: N // 2]), "X has 6 parts, y has 3"),
        ((dX, da.full(N, "one", chunks=CHUNK)), "y has one class"),
        ((dX * np.nan, dy), "NaN"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            model.fit(*given)
    for name, value in (("warm_start", True), ("n_models", 2), ("model", "embedding"), ("solver", "lbfgs")):
        with pytest.raises(ValueError, match=name):
            clone(model).set_params(**{name: value}, client=client).fit(dX, dy)
    assert equal(model.to_local(), before)


def test_a_callback_ends_training(client, data):
    seen = []

    def after_pass(told):
        seen.append((told.n_iter, told.loss))
        return told.n_iter == 2

    found = DaskSoftmaxClassifier(**parameters(), client=client).fit(*arrays(*data), callback=after_pass)
    assert found.n_iter_ == 2
    assert [n for n, _ in seen] == [1, 2]
    assert DaskSoftmaxClassifier(**parameters(), client=client).fit(*arrays(*data), max_seconds=0).n_iter_ == 1
