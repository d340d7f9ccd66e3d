"""Weights on the pairs that occur together: support, training against a slow twin, answers, files, refusals."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.pairs import LOSSES, PairsTwin, rounded, support
from reference.rng import Rng
from scipy.special import log_softmax, logsumexp
from sklearn.exceptions import ConvergenceWarning

import manyclass
from manyclass import MarginClassifier, SoftmaxClassifier, _core, models, samplers, solvers
from manyclass.blending import blend
from manyclass.checks import csr_parts, seed_from
from manyclass.classifiers.predictions import with_state
from manyclass.figures import FIGURES
from manyclass.solvers import Adagrad
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS
from manyclass.weights.weights import Weights

N, D, K = 40, 12, 9
ISAS = ("baseline", "avx2", "avx512")[: 1 + ("baseline", "avx2", "avx512").index(_core.best_isa())]
REDUCTIONS = ("pick_all", "pick_all_normalized", "decoupled", "logistic", "margin")


def some_rows(seed, several=True, n=N, n_classes=K):
    """Sparse rows, one of them empty, and lists of labels of which the last class has none."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.3)).astype(np.float32)
    X[3] = 0
    sizes = rng.integers(1, 4, n) if several else np.ones(n, dtype=int)
    P = [np.sort(rng.choice(n_classes - several, size=size, replace=False)) for size in sizes]
    if not several:
        P[:n_classes] = [np.array([k]) for k in range(n_classes)]
    return X, P


def indicator(P, n_classes=K):
    Y = np.zeros((len(P), n_classes), dtype=int)
    for row, labels in zip(Y, P, strict=True):
        row[labels] = 1
    return Y


def target(P, several):
    return indicator(P) if several else np.array([labels[0] for labels in P])


def dense_of(model):
    """S as (D, K)."""
    return model.coef_.toarray().T.astype(np.float64)


# The support


@pytest.mark.parametrize("few_classes", [0, 4, K])
@pytest.mark.parametrize("min_count", [1, 2, 5])
def test_the_support_has_the_pairs_of_enough_rows_and_all_of_features_with_few_classes(min_count, few_classes, seed):
    X, P = some_rows(seed)
    Y = sp.csr_array(indicator(P))
    given = (csr_parts(sp.csr_array(X)), D, Y.indptr.astype(np.int64), Y.indices.astype(np.int32), K)
    indptr, classes = _core.support(*given, min_count, few_classes)
    found = sp.csr_array((np.ones(len(classes)), classes, indptr), shape=(D, K)).toarray()
    np.testing.assert_array_equal(found.astype(bool), support(X, P, K, min_count, few_classes))
    met = _core.weights_met(*given, np.ones(D, np.int64), [min_count], few_classes)
    assert met == [len(classes)]  # each feature once
    assert all(np.all(np.diff(classes[a:b]) > 0) for a, b in itertools.pairwise(indptr))


# Training


def test_rounding_keeps_the_mean_whatever_the_class():
    # Over u the mean is exact; over 4,000 named draws its standard error is at most step / 2 / sqrt(4000).
    g = np.array([0.0, 0.4e-3, -1.2e-3, 2.9e-3, 0.5])
    mean = np.mean([rounded(g, 3e-3, Rng(7, 0, item)) for item in range(4000)], axis=0)
    np.testing.assert_allclose(mean, g, rtol=0, atol=5 * 3e-3 / 2 / 4000**0.5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_training_is_that_of_the_twin(reduction, batch, weighted, seed, monkeypatch):
    monkeypatch.setattr(blend, "FIGURES", replace(FIGURES, FEWEST_TO_HOLD_OUT=1000))  # none is held out
    X, P = some_rows(seed)
    r = np.random.default_rng(seed + 1).random(N) + 0.5 if weighted else None
    solver = Adagrad(reduction=reduction, batch_size=batch, decay=0.4)
    model = SoftmaxClassifier(model="pairs", solver=solver, learning_rate=3.0, max_iter=2, random_state=seed)
    model.fit(sp.csr_array(X), indicator(P), sample_weight=r)
    square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    twin = PairsTwin(
        X.astype(np.float64), [list(p) for p in P], K, seed_from(seed), reduction, batch=batch, sample_weight=r,
        intercept_rate=0.05 * 3 * square**0.5, offset=0.1 * square,
    ).train()  # fmt: skip
    # Floats: 80 visits, each of which moves a weight by at most the rate with an error of some ulp of it.
    atol = 80 * 3 * 8 * 2**-23
    scale = float(model._weights.scales[0])  # of a margin, by rows held out
    np.testing.assert_allclose(dense_of(model) / scale, twin.S, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_ / scale, twin.b, rtol=0, atol=atol)
    np.testing.assert_allclose(model.loss_curve_, twin.curve, rtol=1e-4)


@pytest.mark.parametrize(("batch", "fit_intercept"), [(1, True), (5, True), (5, False)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_training_is_that_of_the_twin_where_rows_meet_few_classes(reduction, batch, fit_intercept, seed, monkeypatch):
    monkeypatch.setattr(blend, "FIGURES", replace(FIGURES, FEWEST_TO_HOLD_OUT=1000))  # none is held out
    n, n_classes, rate = 150, 60, 1.0  # three spans of visits
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 80), dtype=np.float32)
    X[np.arange(n), rng.integers(0, 80, n)] = 1
    X[np.arange(n), rng.integers(0, 80, n)] += 1
    P = [
        np.unique(np.minimum(n_classes ** rng.random(size), n_classes - 1).astype(int))
        for size in rng.integers(1, 4, n)
    ]
    solver = Adagrad(reduction=reduction, batch_size=batch, decay=0.4)
    given = {"learning_rate": rate, "max_iter": 2, "fit_intercept": fit_intercept, "random_state": seed}
    model = SoftmaxClassifier(model="pairs", solver=solver, **given).fit(sp.csr_array(X), indicator(P, n_classes))
    square = float(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    twin = PairsTwin(
        X.astype(np.float64), [list(p) for p in P], n_classes, seed_from(seed), reduction, batch=batch, rate=rate,
        intercept_rate=0.05 * rate * square**0.5, offset=0.1 * square, fit_intercept=fit_intercept,
    ).train()  # fmt: skip
    atol = 300 * rate * 8 * 2**-23  # as above, of 300 visits
    scale = float(model._weights.scales[0])  # of a margin, by rows held out
    np.testing.assert_allclose(dense_of(model) / scale, twin.S, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_ / scale, twin.b, rtol=0, atol=atol)
    np.testing.assert_allclose(model.loss_curve_, twin.curve, rtol=1e-4)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("loss", ["cross_entropy", "pick_all_normalized", "decoupled", "logistic"])
def test_intercepts_move_by_all_of_their_gradients_though_late(loss, n_threads, seed):
    n, n_classes = 200, 300
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, 50), density=0.04, rng=rng, dtype=np.float32, format="csr")
    P = [np.sort(rng.choice(n_classes, 2, replace=False)).astype(np.int32) for _ in range(n)]
    labels = (np.arange(0, 2 * n + 1, 2), np.concatenate(P))
    indptr, classes = _core.support(csr_parts(X), 50, *labels, n_classes, 1)
    start = rng.uniform(-2, 0, n_classes).astype(np.float32)
    b, rate, offset = start.copy(), 2.0**-13, 2.0**20
    values, squares = np.zeros((2, len(classes)), dtype=np.float32)
    trainer = _core.pairs_trainer(
        x=csr_parts(X), n_features=50, labels_indptr=labels[0], labels=labels[1], indptr=indptr, classes=classes,
        values=values, squares=squares, intercept=b, intercept_squares=np.zeros(n_classes, np.float32), offset=1.0,
        intercept_offset=offset, sample_weight=NO_DOUBLES, loss=loss, rounding=0.0, seed=seed, n_threads=n_threads,
        batch=8, hogwild=False, shuffle=True, isa="auto",
    )  # fmt: skip
    # Each gradient moves its intercept by `rate` times itself, and all of them by .025 at most: a gradient may change
    # by as much of itself, and so may the loss. A float of this size is rounded by 2^-24 at each of n moves.
    found = trainer.run(epoch=0, eta=0.0, eta_u=1024 * rate, first=0, last=n, loss=0.0, seconds=np.inf)
    losses, gradients = zip(*(LOSSES[loss](start.astype(np.float64), p) for p in P), strict=True)
    assert found.loss == pytest.approx(sum(losses), rel=0.025)
    moved = (start.astype(np.float64) - b) / rate
    np.testing.assert_allclose(moved, np.sum(gradients, axis=0), rtol=0.025, atol=n * 2**-24 / rate)


@pytest.mark.parametrize("several", [False, True])
def test_the_result_does_not_depend_on_the_number_of_threads(several, seed):
    X, P = some_rows(seed, several, n=300, n_classes=70)
    y = indicator(P, 70) if several else np.array([p[0] for p in P])
    solver = Adagrad(batch_size=8)
    fits = [SoftmaxClassifier(model="pairs", solver=solver, n_jobs=n, random_state=seed).fit(X, y) for n in (1, 2, 3)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_.data, fits[0].coef_.data)
        np.testing.assert_array_equal(other.intercept_, fits[0].intercept_)


def test_racing_threads_learn_as_much(seed):
    X, y = planted_rows(seed)
    racing = SoftmaxClassifier(model="pairs", solver=Adagrad(parallel="hogwild"), n_jobs=2, random_state=0)
    assert racing.fit(X, y).score(X, y) > 0.95


def planted_rows(seed, n=600):
    """Each class has a word of its own, beside two at random."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 20, n)
    X = np.zeros((n, 60), dtype=np.float32)
    X[np.arange(n), y] = 1
    for _ in range(2):
        X[np.arange(n), rng.integers(20, 60, n)] += 1
    return sp.csr_array(X), y


def test_a_word_of_its_own_tells_the_class(seed):
    X, y = planted_rows(seed)
    Xt, yt = planted_rows(seed + 100)
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    assert model.score(Xt, yt) > 0.95
    assert model.evaluate(Xt, yt)["log_loss"] < 0.5
    assert model.coef_.nnz < 20 * 60  # a class's own word never occurs with another class


def test_a_callback_a_limit_and_what_is_resolved():
    X, y = planted_rows(0)
    seen = []
    model = SoftmaxClassifier(model="pairs", max_iter=3, random_state=0)
    model.fit(X, y, callback=lambda state: seen.append((state.evaluate(X, y)["log_loss"], state.squared_norm())))
    assert len(seen) == model.n_iter_ == 3
    assert seen[-1][0] == pytest.approx(model.evaluate(X, y)["log_loss"], rel=1e-6)
    assert seen[-1][1] == pytest.approx(float(np.sum(model.coef_.data.astype(np.float64) ** 2)))
    assert model.n_iter_ == len(model.loss_curve_)
    again = SoftmaxClassifier(**{**model.get_params(deep=False), **model.resolved_params_}).fit(X, y)
    np.testing.assert_array_equal(again.coef_.data, model.coef_.data)
    with pytest.warns(ConvergenceWarning, match="training stopped after .* s in pass 1 of"):
        assert SoftmaxClassifier(model="pairs").fit(X, y, max_seconds=0.0).n_iter_ <= 1


def test_rows_of_another_scale_train_the_same_scores():
    X, y = planted_rows(0)
    one = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    other = SoftmaxClassifier(model="pairs", random_state=0).fit(X * np.float32(8), y)  # a power of two: no rounding
    np.testing.assert_allclose(other.decision_function(X * np.float32(8)), one.decision_function(X), atol=1e-4)


def test_pruning_drops_the_smallest_weights():
    X, y = planted_rows(0)
    whole = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    half = SoftmaxClassifier(model=models.Pairs(prune=0.5), random_state=0).fit(X, y)
    kept = np.sort(np.abs(whole.coef_.data))[whole.coef_.nnz // 2 :]
    np.testing.assert_array_equal(np.sort(np.abs(half.coef_.data)), kept)
    both = (whole.coef_ != half.coef_).toarray()
    assert not half.coef_.toarray()[both].any()  # what differs was dropped


# Answers


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_every_answer_is_that_of_the_definition(several, dense, seed, monkeypatch):
    monkeypatch.setattr("manyclass.weights.weights.BLOCK_NUMBERS", 3 * K)
    X, P = some_rows(seed, several)
    x = X if dense else sp.csr_array(X)
    model = SoftmaxClassifier(model="pairs", random_state=seed).fit(x, target(P, several))
    z = X.astype(np.float64) @ dense_of(model) + model.intercept_
    atol = 64 * 2**-23 * np.abs(z).max()  # sums of ten products
    np.testing.assert_allclose(model.decision_function(x), z, rtol=0, atol=atol)
    np.testing.assert_allclose(np.vstack([s for _, s in model._weights.score_tiles(x, 1)]), z, rtol=0, atol=atol)
    np.testing.assert_allclose(model.predict_log_proba(x), log_softmax(z, axis=1), rtol=0, atol=2 * atol)
    np.testing.assert_allclose(model._weights.log_normalizers(x, 1), logsumexp(z, axis=1), rtol=0, atol=atol)
    labels, log_p = model.predict_top_k(x, 4)
    np.testing.assert_allclose(log_p, np.take_along_axis(log_softmax(z, axis=1), labels, axis=1), rtol=0, atol=2 * atol)
    assert np.all(np.diff(log_p, axis=1) <= 0)
    found = model.evaluate(x, target(P, several))
    losses = -log_softmax(z, axis=1)
    expected = np.mean([losses[i, p].mean() for i, p in enumerate(P)])
    assert found["log_loss"] == pytest.approx(expected, abs=2 * atol)


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_gives_the_same_scores(isa, seed):
    X, P = some_rows(seed)
    model = SoftmaxClassifier(model="pairs", random_state=seed).fit(X, indicator(P))
    weights, x = model._weights._in_core, csr_parts(sp.csr_array(X))
    expected = weights.scores(x, NO_FLOATS, 1, isa="baseline")
    # Fused multiply-adds: an ulp of a partial sum at each of ten features.
    atol = 10 * 2**-23 * np.abs(expected).max()
    np.testing.assert_allclose(weights.scores(x, NO_FLOATS, 1, isa=isa), expected, rtol=0, atol=atol)


def test_exclude_and_predictions_of_several_labels(seed):
    X, P = some_rows(seed)
    model = SoftmaxClassifier(model="pairs", random_state=seed).fit(X, indicator(P))
    labels, _ = model.predict_top_k(X, K - 3, exclude=indicator(P))
    assert not any(set(row) & set(p) for row, p in zip(labels.tolist(), P, strict=True))
    np.testing.assert_array_equal(model.predict(X, k=2).sum(axis=1), 2)
    above = model.predict(X, threshold=0.2)
    np.testing.assert_array_equal(above, model.predict_proba(X) > 0.2)


@pytest.mark.parametrize("several", [False, True])
def test_files_pickles_and_copies_give_the_same_answers(several, seed, tmp_path):
    X, P = some_rows(seed, several)
    model = SoftmaxClassifier(model=models.Pairs(min_count=2), random_state=seed).fit(X, target(P, several))
    expected = model.decision_function(X)
    model.save(tmp_path / "a.model")
    loaded = [manyclass.load(tmp_path / "a.model", mmap=mmap) for mmap in (False, True)]
    for other in (*loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.decision_function(X), expected)
        assert other.get_params()["model"].min_count == 2
        assert other.storage() == model.storage()
    assert not loaded[1].coef_.data.flags.writeable


def test_a_damaged_file_is_refused(tmp_path):
    X, y = planted_rows(0)
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    model._weights.classes[0] = 20
    model.save(tmp_path / "a.model")
    with pytest.raises(ValueError, match="is damaged: the supported classes"):
        manyclass.load(tmp_path / "a.model")


def test_no_pair_at_all_leaves_the_frequencies():
    X, y = planted_rows(0)
    model = SoftmaxClassifier(model=models.Pairs(min_count=10_000), max_iter=1, random_state=0).fit(X, y)
    assert model.coef_.nnz == 0
    assert model.evaluate(X, y)["log_loss"] == pytest.approx(np.log(20), abs=0.1)


def test_weights_of_two_classes():
    X, P = some_rows(1)
    y = np.array([p[0] % 2 for p in P])
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    assert model.decision_function(X).shape == (N,)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)


# What has no effect is refused


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"sampler": "uniform"}, "sampler is 'uniform', which has no effect with model='pairs'"),
        ({"n_negatives": 5}, "n_negatives is 5, which has no effect with model='pairs'"),
        ({"dim": 5}, "dim is 5, which has no effect"),
        ({"solver": "umax"}, "solver is 'umax'; with model='pairs' it must be 'adagrad'"),
        ({"solver": solvers.Adagrad(log_q=False)}, "log_q is False, which has no effect"),
        ({"solver": solvers.Adagrad(share_classes=True)}, "share_classes is True, which has no effect"),
        ({"solver": solvers.Adagrad(parallel="hogwild", batch_size=4)}, "batch_size is 4; with parallel='hogwild'"),
        ({"solver": solvers.Adagrad(reduction="decuopled")}, "did you mean 'decoupled'"),
        ({"validation_fraction": 0.2}, "validation_fraction is 0.2, which has no effect"),
        ({"learning_rate": "grid"}, "learning_rate is 'grid'"),
        ({"model": models.Pairs(prune=1.5)}, "prune is 1.5"),
        ({"model": models.Pairs(min_count=0)}, "min_count is 0"),
    ],
)
def test_a_parameter_without_effect_is_refused(parameters, told):
    X, y = planted_rows(0, n=100)
    with pytest.raises(ValueError, match=told):
        SoftmaxClassifier(**{"model": "pairs", **parameters}).fit(X, y)


def test_what_a_fit_or_a_question_cannot_have_is_refused():
    X, y = planted_rows(0)
    with pytest.raises(ValueError, match="coef_init"):
        SoftmaxClassifier(model="pairs").fit(X, y, intercept_init=np.zeros(20))
    with pytest.raises(ValueError, match="candidates"):
        SoftmaxClassifier(model="pairs").fit(X, y, candidates=y[:, np.newaxis])
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(X, y)
    assert model.certificate(X, y)["dual"] == 0  # without a ridge
    with pytest.raises(AttributeError, match="no embeddings"):
        model.embed(X)
    with pytest.raises(ValueError, match="model is 'pairs'; it must be one of 'auto', 'linear', 'embedding'"):
        MarginClassifier(model="pairs").fit(X, y)
    with pytest.raises(ValueError, match=r"model is 'sparse'.* \(did you mean 'pairs'\?\)"):  # its name in 0.2.0
        SoftmaxClassifier(model="sparse").fit(X, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_minibatches_take_every_reduction(reduction, seed):
    X, P = some_rows(seed, n=200)
    Y = indicator(P)
    model = SoftmaxClassifier(solver=Adagrad(reduction=reduction), sampler="all", random_state=0).fit(X, Y)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    with pytest.raises(ValueError, match=r"reduction is 'logistic'.*sampler='all'"):
        SoftmaxClassifier(solver=Adagrad(reduction="logistic"), sampler="uniform").fit(X, Y)
    with pytest.raises(ValueError, match="with sampler='search' it must be 'pick_all'"):
        SoftmaxClassifier(solver=Adagrad(reduction="decoupled"), sampler=samplers.Search()).fit(X, Y)


def test_the_core_checks_what_it_reads():
    with pytest.raises(ValueError, match="the supported classes"):
        Weights.on_pairs(
            np.array([0, 2]), np.array([1, 1], np.int32), np.zeros(2, np.float32), np.zeros(3, np.float32)
        ).check()


def test_the_core_checks_the_weights_once_while_they_are_the_same(monkeypatch):
    made, check = [], _core.Weights
    monkeypatch.setattr(_core, "Weights", lambda **arrays: made.append(arrays) or check(**arrays))
    X, P = some_rows(0, several=False)
    model = SoftmaxClassifier(model="pairs", max_iter=2, random_state=0).fit(sp.csr_array(X), target(P, False))
    made.clear()
    expected = model.predict_top_k(X, 3)[1]
    np.testing.assert_array_equal(model.predict_top_k(X, 3)[1], expected)
    assert len(made) <= 1
    twin = pickle.loads(pickle.dumps(model))
    made.clear()
    np.testing.assert_array_equal(twin.predict_top_k(X, 3)[1], expected)
    assert len(made) == 1
    twin = with_state(twin, replace(twin._fitted, weights=replace(twin._weights, values=2 * twin._weights.values)))
    assert not np.array_equal(twin.predict_top_k(X, 3)[1], expected)  # other arrays: made again, and other answers
    assert len(made) == 2
    twin._weights.multiply_scores(0.5)  # the same arrays, changed in place
    twin._weights.bias[...] *= 2  # which were halved with the values
    np.testing.assert_array_equal(twin.predict_top_k(X, 3)[1], expected)
    assert len(made) == 2
