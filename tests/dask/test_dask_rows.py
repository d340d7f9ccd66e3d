"""Training by rows on a Dask cluster of two processes: the same answers as on one machine, whatever the collection."""

import inspect
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

pytest.importorskip("distributed")

import dask
import dask.array as da
from reference.dask_rows import by_points, equal, on_one, parts, some_workers
from reference.dask_simulation import plan_of, simulate

from manyclass import MarginClassifier, SoftmaxClassifier, solvers
from manyclass.dask import DaskMarginClassifier, DaskSoftmaxClassifier
from manyclass.dask.passes import Shard, Whole
from manyclass.datasets import SequenceEncoder

# Of distributed itself and what it imports, in this process; a worker's are its own.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

N, N_FEATURES, N_CLASSES, CHUNK = 600, 12, 20, 100


@pytest.fixture(scope="module")
def client():
    with some_workers() as client:
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
    return by_points(**{"max_iter": 6, **more})


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("averaging", ["none", "suffix"])
def test_one_worker_makes_the_model_of_one_machine_bit_for_bit(client, data, sparse, averaging):
    X, y = data
    more = {"solver": solvers.Implicit(decay=0.8, averaging=averaging)}
    X = sp.csr_array(X) if sparse else X
    local = SoftmaxClassifier(**parameters(**more)).fit(X, y)
    found = DaskSoftmaxClassifier(**parameters(**more), client=client).fit(*on_one(client, X, y))
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
    labels = np.unique(y, return_inverse=True)[1].astype(np.int32)
    plan = plan_of(SoftmaxClassifier(**given), X, labels, N_CLASSES)
    halves = np.split(np.arange(N), 2)
    shards = [Shard(X[rows], labels[rows], None, at, rows[0]) for at, rows in enumerate(halves)]
    whole = Whole(np.bincount(labels).astype(float), 2, N_FEATURES, N, False)
    weights, curve = simulate(plan, whole, shards, n_merges)
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


def sparse_arrays(X, y):
    return da.from_array(X, chunks=(CHUNK, -1)).map_blocks(sp.csr_matrix), da.from_array(y, chunks=CHUNK)


def columns_divided(X, y):
    return da.from_array(X, chunks=(CHUNK, 5)), da.from_array(y, chunks=N)


@pytest.mark.parametrize("collect", [arrays, frames, parts, sparse_arrays, columns_divided])
def test_every_collection_trains_the_same_model(client, data, collect):
    X, y = data
    given = parameters(max_iter=2)
    found = DaskSoftmaxClassifier(**given, client=client).fit(*collect(X, y))
    if collect is sparse_arrays:  # its sums are in another order
        assert found.evaluate(*collect(X, y))["log_loss"] < np.log(N_CLASSES)
        return
    assert equal(found.to_local(), DaskSoftmaxClassifier(**given, client=client).fit(*arrays(X, y)).to_local())
    assert (getattr(found, "feature_names_in_", None) is not None) == (collect is frames)


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_labels_of_pandas_own_types_keep_their_64_bits(client, data, dtype):
    pd = pytest.importorskip("pandas")
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    X, y = data
    ids = 2**60 + np.unique(y, return_inverse=True)[1]  # neighbours are one number in double precision
    dX, _ = parts(X, y)
    dy = [dask.delayed(pd.Series(ids[at : at + CHUNK], dtype=dtype)) for at in range(0, N, CHUNK)]
    found = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client).fit(dX, dy)
    np.testing.assert_array_equal(found.classes_, np.unique(ids))
    local = SoftmaxClassifier(**parameters(max_iter=1)).fit(X, pd.Series(ids, dtype=dtype))
    np.testing.assert_array_equal(local.classes_, np.unique(ids))
    assert found.evaluate(dX, dy) == pytest.approx(found.to_local().evaluate(X, ids), rel=1e-12)


@pytest.mark.parametrize("known", [False, True])
def test_chunks_of_unknown_length_train_the_same_model_and_are_answered(client, data, known):
    X, y = data
    dX, dy = arrays(X, y)
    some = dX[:, 0] > 0  # how many rows a chunk has left is known only when it is computed
    dX, dy = dX[some], dy[some]
    kept = X[:, 0] > 0
    given = parameters(max_iter=2)
    cuts = [slice(first, first + CHUNK) for first in range(0, N, CHUNK)]
    left = [[dask.delayed(one[cut][kept[cut]]) for cut in cuts] for one in (X, y)]
    expected = DaskSoftmaxClassifier(**given, client=client).fit(*left)
    if known:  # of y alone
        dy = dy.compute_chunk_sizes()
    found = DaskSoftmaxClassifier(**given, client=client).fit(dX, dy)
    assert equal(found.to_local(), expected.to_local())
    np.testing.assert_array_equal(found.predict(dX).compute(), found.to_local().predict(X[kept]))
    assert found.evaluate(dX, dy) == expected.evaluate(*left)
    assert found.score(dX, dy) == expected.score(*left)
    with pytest.raises(ValueError, match="X has 6 parts, y has 5"):
        found.fit(dX, dy.blocks[:5])


def unknown(array, lengths=(200, 150, 250), *, width=None):
    """An array whose chunks tell no length, as dask.dataframe's have none; the last one without rows."""
    ends = np.cumsum([0, *lengths])
    shape = array.shape[1:] if width is None else (width,)
    chunks = [
        da.from_delayed(dask.delayed(array[first:last]), (np.nan, *shape), meta=array[:0])
        for first, last in itertools.pairwise([*ends, ends[-1]])
    ]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def test_arrays_of_unknown_chunks_train_on_weigh_stop_early_and_have_several_labels(client, data):
    X, y = data
    known = da.from_array(X, chunks=((200, 150, 250), -1)), da.from_array(y, chunks=((200, 150, 250),))
    w = np.linspace(0.5, 2, N)
    Y = (y[:, np.newaxis] == np.unique(y)).astype(int)
    pairs = [
        ((unknown(X), unknown(y)), known),
        ((unknown(X), unknown(y), unknown(w)), (*known, da.from_array(w, chunks=known[1].chunks))),
        ((unknown(X), da.from_array(y, chunks=((200, 150, 250, 0),))), known),
        ((unknown(X), unknown(Y)), (known[0], da.from_array(Y, chunks=((200, 150, 250), -1)))),
        ((unknown(X, width=np.nan), unknown(y[:, np.newaxis])), known),
    ]
    for found, expected in pairs:
        several = found[1].ndim == 2 and found[1].shape[1] > 1
        given = {"max_iter": 2, "random_state": 0} if several else parameters(max_iter=2)
        fits = [DaskSoftmaxClassifier(**given, client=client).fit(*some) for some in (found, expected)]
        assert equal(*(fit.to_local() for fit in fits))
        assert fits[0].score(*found) == fits[1].score(*expected)
        one, two = (fit.predict(some[0]) for fit, some in zip(fits, (found, expected), strict=True))
        np.testing.assert_array_equal(one.compute(), two.compute())
        for fit, (dX, dy, *weights) in zip(fits, (found, expected), strict=True):
            fit.partial_fit(dX, dy, sample_weight=weights[0] if weights else None)
        assert equal(*(fit.to_local() for fit in fits))


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_columns_of_a_data_frame_train_as_arrays(client, data):
    X, y = data
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    names = [f"f{j}" for j in range(N_FEATURES)]
    of_number = np.unique(y, return_inverse=True)[1]
    frame = dd.from_pandas(pd.DataFrame(X, columns=names).assign(y=of_number), npartitions=6)
    for cut in (frame, frame[frame.f0 > 0]):
        kept = cut.compute()
        given = parameters(max_iter=2)
        dX, dy = cut[names].to_dask_array(), cut["y"].to_dask_array()
        assert np.isnan(dX.chunks[0]).all()
        found = DaskSoftmaxClassifier(**given, client=client).fit(dX, dy)
        expected = DaskSoftmaxClassifier(**given, client=client).fit(cut[names].values, cut["y"].values)
        assert equal(found.to_local(), expected.to_local())
        assert found.score(dX, dy) == found.to_local().score(kept[names].to_numpy(), kept["y"])


def test_a_weight_beyond_the_bound_is_refused_on_a_worker(client, data):
    X, y = data
    w = np.where(np.arange(N) == 150, 1e120, 1.0)
    model = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"sample_weight\[50\] is 1e\+120; .*at most 1e\+?100"):  # of its part
            call(*arrays(X, y), sample_weight=da.from_array(w, chunks=CHUNK))
    with pytest.raises(ValueError, match=r"class_weight\['class 01'\] is 1e\+120; .*at most 1e\+?100"):
        DaskSoftmaxClassifier(**parameters(class_weight={"class 01": 1e120}), client=client).fit(*arrays(X, y))
    assert not hasattr(model, "classes_")


def test_unknown_chunks_that_do_not_fit_are_refused_with_the_remedy(client, data):
    X, y = data
    model = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client)
    cases = [
        ((unknown(X), da.from_array(y, chunks=100)), None, "X has 4 parts, y has 6.*compute_chunk_sizes"),
        ((da.from_array(X, chunks=(60, -1)), unknown(y)), None, "X has 10 parts, y has 4.*compute_chunk_sizes"),
        ((unknown(X), unknown(y)), da.ones(N, chunks=100), "X has 4 parts, sample_weight has 6.*compute_chunk_sizes"),
        ((unknown(X), unknown(y, (150, 200, 250))), None, r"X has 200 rows, y has shape \(150,\)"),
        (
            (da.concatenate([unknown(X, width=np.nan)] * 2, axis=1, allow_unknown_chunksizes=True), unknown(y)),
            None,
            "X is divided by columns into chunks of unknown width; compute_chunk_sizes",
        ),
    ]
    for (dX, dy), w, told in cases:
        with pytest.raises(ValueError, match=told):
            model.fit(dX, dy, sample_weight=w)
        assert not hasattr(model, "classes_")
    dX, dy = unknown(X).compute_chunk_sizes(), da.from_array(y, chunks=150)
    assert model.fit(dX, dy).score(dX, dy) > 0  # the remedy


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
    found = DaskSoftmaxClassifier(**given, client=client).fit(*on_one(client, X, y, weights))
    local = SoftmaxClassifier(**given).fit(X, y, weights)
    # Weights are divided by their mean in another order of roundings, to parts in 10^16.
    np.testing.assert_allclose(found.to_local().coef_, local.coef_, rtol=1e-4, atol=1e-6)


def test_parts_may_be_unequal_or_empty_and_classes_on_one_worker_only(client, data):
    X, y = data
    order = np.argsort(y, kind="stable")  # the first worker has the first classes
    X, y = X[order], y[order]
    cuts = [0, 0, 10, 450, 450, N]
    some = [[dask.delayed(one[a:b]) for a, b in itertools.pairwise(cuts)] for one in (X, y)]
    found = DaskSoftmaxClassifier(**parameters(), client=client).fit(*some)
    assert sum(counts["n_visits"] for counts in found.work_) == 6 * N
    assert found.evaluate(*arrays(X, y))["log_loss"] < 0.8 * np.log(N_CLASSES)
    assert list(found.classes_) == sorted(set(y))
    local = found.to_local()
    np.testing.assert_array_equal(found.predict(some[0]).compute(), local.predict(X))
    assert found.evaluate(*some) == pytest.approx(local.evaluate(X, y), rel=1e-12)  # sums of doubles in another order
    # All rows in one part: the other worker has none.
    alone = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client).fit(*arrays(X, y, N))
    assert len(alone.work_) == 1


@pytest.mark.parametrize(
    ("local", "found"), [(SoftmaxClassifier, DaskSoftmaxClassifier), (MarginClassifier, DaskMarginClassifier)]
)
def test_constructors_are_those_of_one_machine_with_a_client_last(local, found):
    own, names = (list(inspect.signature(one).parameters) for one in (local, found))
    assert names == [*own, "division", "n_merges", "client"]
    assert clone(found(max_iter=3, client=None)).get_params()["max_iter"] == 3
    with pytest.raises(TypeError, match="max_itr"):
        found(max_itr=3)


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
    with pytest.warns(ConvergenceWarning, match="training stopped after .* s in pass 1 of"):
        assert DaskSoftmaxClassifier(**parameters(), client=client).fit(*arrays(*data), max_seconds=0).n_iter_ == 1


@pytest.mark.parametrize("kind", ["uint64", "bool", "datetime64[ns]", "object"])
def test_labels_keep_type_and_identity(client, data, kind):
    X, y = data
    number = np.unique(y, return_inverse=True)[1]
    labels = (2**60 + number).astype(np.uint64) if kind == "uint64" else (number % 2).astype(kind)
    if kind == "object":  # one of them is long, those of some parts are short
        labels = np.array([*(f"class {k}" for k in range(N_CLASSES - 1)), "L" * 3000], dtype=object)[number]
    parts = [dask.delayed((X[at : at + CHUNK], labels[at : at + CHUNK])) for at in range(0, N, CHUNK)]
    xs, ys = ([part[of] for part in parts] for of in (0, 1))
    found = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client).fit(xs, ys)
    np.testing.assert_array_equal(found.classes_, np.unique(labels), strict=True)
    asked = [dask.delayed(labels[at : at + CHUNK, np.newaxis]) for at in range(0, N, CHUNK)]
    if kind == "uint64":  # signed ones are the same labels
        asked = [dask.delayed(labels[at : at + CHUNK].astype(np.int64)) for at in range(0, N, CHUNK)]
    assert found.evaluate(xs, asked)["n_unseen"] == 0
    assert found.predict(xs).compute().dtype == labels.dtype
    began = DaskSoftmaxClassifier(**parameters(max_iter=1), client=client).partial_fit(xs, ys).partial_fit(xs, asked)
    np.testing.assert_array_equal(began.classes_, np.unique(labels), strict=True)


def test_histories_become_rows_where_they_are(client, seed):
    """Parts of some users each, by an encoder that goes to the workers, and the model here takes histories."""
    rng = np.random.default_rng(seed)
    follows, sequences = rng.permutation(10), []
    for _ in range(200):
        one = [int(rng.integers(10))]
        while len(one) < 6:
            one.append(int(follows[one[-1]]))
        sequences.append([f"item {k}" for k in one])
    encoder = SequenceEncoder(decay=2.0).fit(sequences)
    of_users = [dask.delayed(encoder.next_items)(sequences[at : at + 50]) for at in range(0, 200, 50)]
    names = dask.delayed(encoder.items_)
    model = DaskSoftmaxClassifier(client=client, random_state=seed)
    model.fit([part.X for part in of_users], [names[part.y] for part in of_users])
    local = model.to_local()
    local.vectorizer_ = encoder
    asked = [[f"item {k}"] for k in range(10)]
    assert local.predict(asked).tolist() == [f"item {follows[k]}" for k in range(10)]
