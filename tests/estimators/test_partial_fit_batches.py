"""partial_fit by minibatches and on pairs: streams in parts, classes that come later, weights, files, refusals."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.base import clone

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.blending.blend import Scales
from manyclass.figures import FIGURES
from manyclass.training.plan import Labels, ScoredRows
from manyclass.weights.weights import Weights

N, D, K = 320, 40, 12
HALF = N // 2  # minibatches of 12 classes have one point: a cut is anywhere at the end of one


def some_data(seed, *, several, n=N, k=K):
    """Rows that hold a few features of each of their labels, of values that are sums of few bits."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    Y = np.zeros((n, k), dtype=int)
    Y[np.arange(n), labels] = 1
    if several:
        Y[np.arange(n), rng.integers(0, k, n)] = 1
    of_class = rng.random((k, D)) < 0.15
    X = (Y @ of_class) * (rng.random((n, D)) < 0.7) + (rng.random((n, D)) < 0.05)
    X[np.arange(n), rng.integers(0, D, n)] += 1  # no row is empty
    return sp.csr_array(X.astype(np.float32)), (Y if several else labels)


def arrays_of(model):
    """All that a model predicts by."""
    own = model._weights
    return [own.matrix, own.embeddings, own.indptr, own.classes, own.values, own.bias]


def assert_same(a, b):
    for ours, theirs in zip(arrays_of(a), arrays_of(b), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def still(name, **more):
    """A solver that visits rows as they come."""
    return getattr(solvers, name)(shuffle=False, **more)


EXACT = {"sampler": "all", "max_iter": 1, "random_state": 3}
DRAWN = {"sampler": "uniform", "n_negatives": 4, "max_iter": 1, "random_state": 3}
EMBEDS = {"model": "embedding", "dim": 6}
BATCHES = {
    "embeddings": (SoftmaxClassifier(solver=still("Adagrad"), learning_rate=0.5, **EMBEDS, **EXACT), (False, True)),
    "drawn": (SoftmaxClassifier(solver=still("Adagrad"), learning_rate=0.5, **EMBEDS, **DRAWN), (False, True)),
    "linear": (SoftmaxClassifier(solver=still("Adagrad"), learning_rate=0.5, **EXACT), (False, True)),
    "decoupled": (
        SoftmaxClassifier(solver=still("Adagrad", reduction="decoupled"), learning_rate=0.5, **EXACT),
        (True,),
    ),
    "implicit": (SoftmaxClassifier(solver=still("Implicit"), learning_rate=0.05, **EXACT), (True,)),
    "umax": (SoftmaxClassifier(solver=still("UMax"), learning_rate=0.05, **DRAWN), (True,)),
    "margin": (MarginClassifier(solver=still("Adagrad"), learning_rate=0.5, **EXACT), (False, True)),
    "margin of embeddings": (
        MarginClassifier(solver=still("Adagrad"), learning_rate=0.5, **EMBEDS, **EXACT),
        (False, True),
    ),
    "margin, implicit": (MarginClassifier(solver=still("Implicit"), learning_rate=0.05, **EXACT), (False, True)),
}
STREAMS = [(name, several) for name, (_, kinds) in BATCHES.items() for several in kinds]


@pytest.mark.parametrize(("name", "several"), STREAMS)
@pytest.mark.parametrize("batch_size", [None, 8])
def test_halves_give_what_the_whole_gives(name, several, batch_size, seed):
    """Where rows carry nothing, that is a pass of `fit`."""
    X, y = some_data(seed, several=several)
    model = clone(BATCHES[name][0])
    if batch_size and model.solver.name == "implicit":
        pytest.skip("proximal steps have no batches")
    model.solver.set_params(batch_size=batch_size)
    fitted = clone(model).fit(X, y)
    whole = clone(model).partial_fit(X, y, classes=range(K), n_passes=1)
    halves = clone(model).partial_fit(X[:HALF], y[:HALF], classes=range(K), n_passes=1)
    halves.partial_fit(X[HALF:], y[HALF:], n_passes=1)
    if name not in ("implicit", "umax"):
        assert_same(whole, fitted)
    assert_same(halves, whole)
    np.testing.assert_array_equal(halves.class_count_, fitted.class_count_)
    assert halves.n_labels_ == fitted.n_labels_
    assert halves.n_iter_ == 2
    ours, theirs = halves._fitted.squares, whole._fitted.squares
    np.testing.assert_array_equal(ours.classes, theirs.classes)
    np.testing.assert_array_equal(ours.embeddings, theirs.embeddings)


@pytest.mark.parametrize("model", ["pairs", "hybrid"])
@pytest.mark.parametrize("several", [False, True])
def test_on_pairs_halves_give_the_whole_where_both_have_the_same_pairs_and_frequencies(
    model, several, seed, monkeypatch
):
    """Elsewhere they cannot: the whole knows pairs and frequencies of rows to come.

    A stream of a hybrid finds its scales anew, and its embeddings shuffle: its weights on pairs are compared, with no
    scales.
    """
    monkeypatch.setattr("manyclass.training.minibatches.FIGURES", replace(FIGURES, MOST_HELD_OUT=0))
    X, y = some_data(seed, several=several, n=HALF)
    X, y = sp.csr_array(sp.vstack([X, X])), np.concatenate([y, y])
    solver = still("Adagrad")
    if several:  # where fits learn margins and streams do not
        solver.set_params(reduction="decoupled")
    begun = SoftmaxClassifier(model=model, solver=solver, learning_rate=0.5, random_state=0)
    halves = clone(begun).partial_fit(X[:HALF], y[:HALF], n_passes=1).partial_fit(X[HALF:], y[HALF:], n_passes=1)
    whole = clone(begun).partial_fit(X, y, n_passes=1)
    same = [whole] if model == "hybrid" else [whole, clone(begun).set_params(max_iter=1).fit(X, y)]
    for other in same:
        for ours, theirs in zip(arrays_of(halves)[-4:], arrays_of(other)[-4:], strict=True):
            np.testing.assert_array_equal(ours, theirs)


# What grows


def test_old_rows_and_pairs_keep_their_values_and_new_ones_begin_at_0(seed):
    rng = np.random.default_rng(seed)
    position, k = np.array([0, 2, 3, 5]), 6
    weights = Weights.start_over_phi(4, 7, embedding_dim=5, intercept=True, relu=False, rng=rng)
    weights.matrix[:] = rng.normal(size=weights.matrix.shape)
    grown = weights.grown(k, position)
    np.testing.assert_array_equal(grown.matrix[position], weights.matrix)
    assert not grown.matrix[[1, 4]].any()
    np.testing.assert_array_equal(grown.embeddings, weights.embeddings)
    assert not np.shares_memory(grown.embeddings, weights.embeddings)

    def csc(shape):
        return sp.csc_array(rng.normal(size=shape) * (rng.random(shape) < 0.4))

    old, more = csc((4, 7)), csc((k, 7))
    own = Weights.on_pairs(
        old.indptr.astype(np.int64),
        old.indices.astype(np.int32),
        old.data.astype(np.float32),
        np.arange(4, dtype=np.float32),
    )
    both = own.new_pairs(k, position, more.indptr.astype(np.int64), more.indices.astype(np.int32))
    pairs = own.grown(k, position, both)
    pairs.check()
    expected = np.zeros((k, 7), dtype=np.float32)
    expected[position] = old.toarray().astype(np.float32)
    np.testing.assert_array_equal(pairs.coef.toarray(), expected)
    np.testing.assert_array_equal(pairs.intercept[position], own.intercept)
    there = np.zeros((k, 7), dtype=bool)
    there[position] = old.toarray() != 0
    assert pairs.coef.nnz == (there | (more.toarray() != 0)).sum()
    np.testing.assert_array_equal(both.spread(own.values), pairs.values)
    numbers = more.data.astype(np.float32)
    total = sp.csc_array((both.sum(2, own.values, 0.5, numbers), both.classes, both.indptr), shape=(k, 7))
    of_more = sp.csc_array((numbers, more.indices, more.indptr), shape=(k, 7)).toarray()
    np.testing.assert_array_equal(total.toarray(), 2 * expected + np.float32(0.5) * of_more)
    with pytest.raises(ValueError, match="positions of classes must increase"):
        own.new_pairs(k, position[::-1], more.indptr.astype(np.int64), more.indices.astype(np.int32))
    with pytest.raises(ValueError, match="one number for each pair"):
        both.spread(np.zeros(1, np.float32))


KINDS = [
    SoftmaxClassifier(**EMBEDS, random_state=0),
    SoftmaxClassifier(solver="adagrad", random_state=0),
    SoftmaxClassifier(model="pairs", random_state=0),
    SoftmaxClassifier(model="hybrid", random_state=0),
    SoftmaxClassifier(solver="adagrad", sampler=samplers.Search(), random_state=0),
    MarginClassifier(random_state=0),
    MarginClassifier(**EMBEDS, random_state=0),
    SoftmaxClassifier(random_state=0),
    SoftmaxClassifier(solver="umax", random_state=0),
]
kinds = pytest.mark.parametrize("model", KINDS, ids=str)
for_several = [m for m in KINDS if getattr(m.solver, "name", m.solver) == "umax" or m == KINDS[-2]]


def precision(model, X, y):
    return 1 - model.evaluate(X, y)["error"]


@kinds
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("fits", [False, True])
def test_classes_that_come_later_are_learned_as_well_as_the_others(model, several, fits, seed):
    """A sixth of the classes come in the second half."""
    if not several and model in for_several:
        pytest.skip("linear models of one label a row have tests of their own")
    n, late = 3 * N, [3, 7] if not several else [K - 2, K - 1]
    X, y = some_data(seed, several=several, n=n + N)
    of_rows = y[:, late].any(axis=1) if several else np.isin(y, late)
    train, test = np.arange(n), np.arange(n, n + N)
    first = train[~of_rows[train]][: n // 2]
    second = np.setdiff1d(train, first)
    y_first = y[first][:, : K - 2] if several else y[first]
    at_once = clone(model).fit(X[train], y[train])
    stream = clone(model)
    (stream.fit if fits else stream.partial_fit)(X[first], y_first)
    assert len(stream.classes_) == K - 2
    stream.partial_fit(X[second], y[second], n_passes=3)
    assert len(stream.classes_) == K
    np.testing.assert_array_equal(stream.class_count_, y[train].sum(axis=0) if several else np.bincount(y[train]))
    # Half as many passes over half of the rows each; four standard errors of a difference of shares of 320 rows.
    assert precision(stream, X[test], y[test]) > precision(at_once, X[test], y[test]) - 4 * np.sqrt(0.5 / N)
    of_late = test[of_rows[test]]
    chance = 2 / K if several else 1 / K
    assert precision(stream, X[of_late], y[of_late]) > 2 * chance


# Weights of rows


@kinds
def test_a_row_of_weight_0_is_left_out(model, seed):
    X, Y = some_data(seed, several=True)
    weights = np.ones(N)
    weights[::3] = 0
    model = clone(model).fit(X, Y)
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    ours.partial_fit(X, Y, sample_weight=weights)
    theirs.partial_fit(X[weights > 0], Y[weights > 0], sample_weight=np.ones(np.count_nonzero(weights)))
    assert_same(ours, theirs)
    np.testing.assert_array_equal(ours.class_count_, theirs.class_count_)


@pytest.mark.parametrize("loss", ["margin", "triplet"])
@pytest.mark.parametrize("several", [False, True])
def test_a_weight_of_2_moves_as_far_as_the_row_twice(loss, several, seed):
    """Plain steps of one batch: a gradient is a sum over rows."""
    X, y = some_data(seed, several=several)
    model = MarginClassifier(loss=loss, solver=solvers.SGD(shuffle=False, batch_size=32), learning_rate=1e-3)
    model.fit(X, y)
    once, weighted, twice = (copy.deepcopy(model) for _ in range(3))
    X, y, told = X[:16], y[:16], {"learning_rate": 1e-3}
    once.partial_fit(X, y, **told)
    weighted.partial_fit(X, y, sample_weight=np.full(16, 2.0), **told)
    twice.partial_fit(sp.csr_array(sp.vstack([X, X])), np.concatenate([y, y]), **told)
    moved = [other._weights.matrix - model._weights.matrix for other in (once, weighted, twice)]
    # Each of 32 terms of a sum, and the move itself, rounds by half a unit in the last place at most; twice for once.
    close = {"rtol": 0, "atol": 2 * 33 * 2.0**-24 * np.abs(twice._weights.matrix).max()}
    assert np.abs(moved[0]).max() > 5 * close["atol"]
    np.testing.assert_allclose(moved[1], moved[2], **close)
    np.testing.assert_allclose(moved[1], 2 * moved[0], **close)


# Files


@kinds
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("fits", [False, True])
def test_a_model_from_a_file_goes_on_bit_for_bit(model, mmap, fits, tmp_path, seed):
    X, Y = some_data(seed, several=True)
    model = clone(model)
    (model.fit if fits else model.partial_fit)(X[:HALF], Y[:HALF, : K - 1])
    model.save(tmp_path / "m")
    loaded = manyclass.load(tmp_path / "m", mmap=mmap)
    assert loaded._fitted.history == model._fitted.history
    model.partial_fit(X[HALF:], Y[HALF:])
    loaded.partial_fit(X[HALF:], Y[HALF:])
    assert_same(loaded, model)
    assert loaded.n_iter_ == model.n_iter_
    np.testing.assert_array_equal(loaded.class_count_, model.class_count_)


def test_the_scales_of_a_hybrid_are_in_its_file_and_taken_out_for_training(tmp_path, seed):
    X, Y = some_data(seed, several=True)
    model = SoftmaxClassifier(model="hybrid", random_state=0).fit(X, Y)
    model.save(tmp_path / "m")
    scales = tuple(model._weights.scales)
    assert manyclass.load(tmp_path / "m")._weights.scales.tolist() == list(scales)
    assert scales != (1.0, 1.0)
    # Steps too small to move a weight: what is left is the rounding of two products.
    before = copy.deepcopy(model)
    model.partial_fit(X, Y, learning_rate=1e-12)
    assert tuple(model._weights.scales) == pytest.approx(scales, rel=1e-12)
    changed = model._weights.pairs_alone.coef - before._weights.pairs_alone.coef
    assert abs(changed).max() < 1e-6 * abs(before._weights.pairs_alone.coef).max()
    before._weights.multiply_scores(2.0)
    assert tuple(before._weights.scales) == (2 * scales[0], 2 * scales[1])


def test_the_scales_of_a_stream_are_found_on_rows_before_they_are_trained_on(seed):
    """However few they are; those of a fit stay."""
    X, Y = some_data(seed, several=True, n=700)
    model, found = SoftmaxClassifier(model="hybrid", random_state=0), []
    for first, last in [(0, 1), (1, 30), (30, 80), (80, 700)]:
        model.partial_fit(X[first:last], Y[first:last])
        found.append(tuple(model._weights.scales))
    assert len(set(found)) == 4
    assert found[0] == (FIGURES.LEAST_FACTOR, FIGURES.LEAST_FACTOR)  # no row has told anything
    assert np.min(found) >= FIGURES.LEAST_FACTOR**2  # the least of both, and of a temperature
    fitted = SoftmaxClassifier(model="hybrid", random_state=0).fit(X[:500], Y[:500])
    scales = tuple(fitted._weights.scales)
    assert tuple(fitted.partial_fit(X[500:], Y[500:])._weights.scales) == pytest.approx(scales, rel=1e-12)


@pytest.mark.parametrize("both", [False, True])
def test_scales_are_the_most_probable_ones_by_their_definition(both, seed):
    """New rows' losses and a normal distribution, minimised anew by a general tool; precisions are curvatures."""
    rng = np.random.default_rng(seed)
    n, k = 60, 5
    y = rng.integers(k, size=n)
    scores = [(rng.normal(size=(n, k)) + 2 * np.eye(k)[y]) * unit for unit in ((3.0, 40.0) if both else (3.0,))]
    parts = [Scores(z) for z in scores]
    weights = SimpleNamespace(pairs_alone=parts[0], rows_alone=parts[1], n_classes=k) if both else parts[0]
    known = Scales.unknown(both)
    m, p = np.array([0.4, 0.02, 1.0]) if both else np.array([0.4]), known.precisions + 50.0
    told = replace(known, means=m, precisions=p).learnt(
        weights, ScoredRows(np.zeros((n, 1)), Labels.single(y.astype(np.int32)), 1)
    )

    def objective(s):
        z = sum(one * part for one, part in zip(s, scores, strict=False))
        return (logsumexp(z, axis=1) - z[np.arange(n), y]).sum() + 25.0 * np.sum((s - m[: len(s)]) ** 2)

    n_scales = len(scores)
    best = minimize(objective, m[:n_scales], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).x
    np.testing.assert_allclose(told.means[:n_scales], best, rtol=5e-3)  # what L-BFGS-B leaves
    for j, h in enumerate(0.01 * best):
        ends = [objective(best + sign * h * np.eye(n_scales)[j]) for sign in (-1, 0, 1)]
        # Slopes from one side, a fiftieth of the scale apart, have an error of the first order.
        assert told.precisions[j] == pytest.approx((ends[0] - 2 * ends[1] + ends[2]) / h**2, rel=0.1)
    if both:
        assert (told.means[2], told.precisions[2]) == (1.0, 50.0)  # no temperature of one label a row


class Scores:
    """Weights whose scores are known."""

    def __init__(self, z):
        self.z, self.n_classes = z.astype(np.float32), z.shape[1]

    def scores(self, x, n_threads):
        return self.z


@pytest.mark.parametrize(
    ("model", "n_passes"),
    [
        (MarginClassifier(random_state=0), 8),
        (SoftmaxClassifier(model="hybrid", random_state=0), 2),
        (SoftmaxClassifier(model="pairs", random_state=0), 2),
        (SoftmaxClassifier(model="embedding", random_state=0), 1),
        (SoftmaxClassifier(model="linear", random_state=0), 1),
        (AugmentReduceClassifier(random_state=0), 1),
    ],
)
def test_calls_of_a_stream_make_more_passes_where_one_is_too_few(model, n_passes, seed):
    """So do calls that go on from fitted weights on pairs; others make one pass then."""
    X, y = some_data(seed, several=False)
    found, asked = (
        clone(model).partial_fit(X[:HALF], y[:HALF], classes=range(K), **given)
        for given in ({}, {"n_passes": n_passes})
    )
    assert len(found.loss_curve_) == n_passes
    found.partial_fit(X[HALF:], y[HALF:])
    asked.partial_fit(X[HALF:], y[HALF:], n_passes=n_passes)
    np.testing.assert_array_equal(found.loss_curve_, asked.loss_curve_)
    fitted = clone(model).fit(X, y)
    n_before = len(fitted.loss_curve_)
    n_more = 2 if getattr(model, "model", "linear") in ("hybrid", "pairs") else 1
    assert len(fitted.partial_fit(X, y).loss_curve_) == n_before + n_more
    with pytest.raises(ValueError, match="n_passes is 'more'; it must be a number or 'auto'"):
        found.partial_fit(X, y, n_passes="more")


@pytest.mark.parametrize("model", ["embedding", "hybrid"])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_stream_begins_below_uniform_and_ends_near_fit(model, spread, seed):
    """Rows of very different lengths make scores of hundreds of nats: a first call then ended at 30 and more."""
    X, y = some_data(seed, several=False, n=3000)
    if spread:
        lengths = np.random.default_rng(seed).lognormal(3.0, spread, 3000).astype(np.float32)
        X = sp.csr_array(sp.diags_array(lengths) @ X)
    stream, losses = SoftmaxClassifier(model=model, random_state=0), []
    for rows in np.array_split(np.arange(2400), 30):
        stream.partial_fit(X[rows], y[rows], classes=range(K))
        losses.append(stream.evaluate(X[2400:], y[2400:])["log_loss"])
    assert max(losses) < np.log(K)
    if spread and model == "embedding":  # whose fit has no scale, and 3 nats
        return
    fitted = SoftmaxClassifier(model=model, random_state=0).fit(X[:2400], y[:2400])
    # One pass for four, and the losses of 600 rows, whose standard error is .03 to .05. Naive Bayes, which the fits of
    # the first rows add to the weights, supposes rows of equal lengths: of very different ones it costs some .25.
    more = 0.15 if not spread else 0.4
    assert losses[-1] < fitted.evaluate(X[2400:], y[2400:])["log_loss"] + more
    if not spread:
        assert np.diff(losses).max() < 0.1


# What carries over


def test_thresholds_of_few_rows_are_not_taken_and_numbers_of_labels_are_those_of_all(seed):
    X, Y = some_data(seed, several=True)
    model = SoftmaxClassifier(solver="adagrad", random_state=0).fit(X, Y)
    threshold, n_labels = model.threshold_, model.n_labels_
    all_labels = np.ones((3, K), dtype=int)
    model.partial_fit(X[:3], all_labels)
    assert (model.threshold_, model.n_labels_) == (threshold, n_labels)
    assert model.multilabel_


def test_requests_of_metadata_know_partial_fit():
    with config_context(enable_metadata_routing=True):
        model = MarginClassifier().set_partial_fit_request(sample_weight=True)
    assert model.get_metadata_routing().partial_fit.requests["sample_weight"] is True


# Refusals leave the model as it was


@kinds
def test_a_call_that_fails_leaves_the_model_whole(model, seed, monkeypatch):
    X, Y = some_data(seed, several=True)
    model = clone(model).fit(X, Y)
    before, arrays = dict(model.__dict__), [array.copy() for array in arrays_of(model)]
    squares = copy.deepcopy(model._fitted.squares)

    def fails(*_, **__):
        raise RuntimeError("after training")

    monkeypatch.setattr(type(model)._planner, "labelled", fails)
    with pytest.raises(RuntimeError, match="after training"):
        model.partial_fit(X, Y)
    monkeypatch.undo()
    for wrong, message in (
        ((X[:, :5], Y), "has 5 features, but"),
        ((X, Y[:, :4]), "y has 4 columns; it must have a column for each of 12 classes"),
        ((X, Y.argmax(axis=1)), "y has one label a row; the model was trained with an indicator matrix"),
        ((X, Y[:5]), "must have as many rows"),
        ((X, 2 * Y), "holds 0 and 1"),
        ((X, 0 * Y), "y has no label in any row"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(*wrong)
    assert model.__dict__.keys() == before.keys()
    assert all(model.__dict__[name] is value for name, value in before.items())
    for array, old in zip(arrays_of(model), arrays, strict=True):
        np.testing.assert_array_equal(array, old)
    assert str(model._fitted.squares) == str(squares)


def test_wrong_input_is_told(seed):
    X, Y = some_data(seed, several=True)
    y = Y.argmax(axis=1)
    one = SoftmaxClassifier(**EMBEDS, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="y has an indicator matrix of labels; the model was trained with one label"):
        one.partial_fit(X, Y)
    with pytest.raises(ValueError, match="dim is 7; the model that partial_fit goes on with has 6"):
        one.set_params(dim=7).partial_fit(X, y)
    with pytest.raises(ValueError, match="activation is 'relu'; the model"):
        one.set_params(dim=6, model=models.Embedding(activation="relu")).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"model is 'pairs', .*; partial_fit goes on with the model that is there"):
        one.set_params(dim="auto", model="pairs").partial_fit(X, y)
    with pytest.raises(ValueError, match="2 classes are known by other names than their numbers"):
        SoftmaxClassifier(random_state=0).partial_fit(X, Y, classes=["a", "b"])
    with pytest.raises(ValueError, match="classes are not sorted or not distinct"):
        SoftmaxClassifier(random_state=0).partial_fit(X, Y, classes=[f"{k:02}" for k in range(K)][::-1])
    pruned = SoftmaxClassifier(model=models.Pairs(prune=0.5), random_state=0)
    with pytest.raises(ValueError, match=r"prune is 0\.5; a stream has no end at which to prune"):
        pruned.partial_fit(X, Y)
    fewer = pruned.fit(X, Y)._weights.coef.nnz
    assert len(pruned._fitted.squares.values) == fewer
    assert pruned.partial_fit(X, Y)._weights.coef.nnz == SoftmaxClassifier(model="pairs").fit(X, Y)._weights.coef.nnz
    margin = MarginClassifier(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="fit_intercept is False; the model"):
        margin.set_params(fit_intercept=False).partial_fit(X, Y)


def test_columns_may_have_names(seed):
    X, Y = some_data(seed, several=True)
    names = np.array([f"{k:02}" for k in range(K)])
    by_number = SoftmaxClassifier(random_state=0).partial_fit(X[:HALF], Y[:HALF])
    by_name = SoftmaxClassifier(random_state=0).partial_fit(X[:HALF], Y[:HALF], classes=names)
    assert_same(by_number.partial_fit(X[HALF:], Y[HALF:]), by_name.partial_fit(X[HALF:], Y[HALF:]))
    assert by_name.classes_.tolist() == names.tolist()
    more = np.array([*names[:3], "02b", *names[3:]])
    with pytest.raises(ValueError, match="y has 13 columns, and 12 classes are known by other names"):
        by_name.partial_fit(X, np.insert(Y, 3, 1, axis=1))
    by_name.partial_fit(X, np.insert(Y, 3, 1, axis=1), classes=more)
    assert by_name.classes_.tolist() == more.tolist()
    assert by_name.class_count_[3] == N


@pytest.mark.parametrize("given", [MarginClassifier(), SoftmaxClassifier(solver="adagrad")], ids=str)
def test_dense_rows_go_on_with_weights_that_sparse_ones_have_begun(given, seed):
    X, Y = some_data(seed, several=True)
    first, second = (clone(given).set_params(random_state=3).partial_fit(X, Y) for _ in range(2))
    assert first._weights.layout.startswith("feature-major")
    assert_same(first.partial_fit(X, Y), second.partial_fit(X.toarray(), Y))
    np.testing.assert_array_equal(first.predict_top_k(X, 2)[1], second.predict_top_k(X.toarray(), 2)[1])


def test_intercepts_that_were_learned_cannot_be_left_out_later(seed):
    X, Y = some_data(seed, several=True)
    model = MarginClassifier(random_state=3).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"fit_intercept is False; the model that partial_fit goes on with has True"):
        model.set_params(fit_intercept=False).partial_fit(X, Y)
