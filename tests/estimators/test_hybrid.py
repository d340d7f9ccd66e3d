"""Hybrid models: weights on pairs and embeddings beside them, and the scales that join them."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, logsumexp
from test_pairs import K, indicator, planted_rows, some_rows

import manyclass
from manyclass import SoftmaxClassifier, models, solvers
from manyclass.blending import blend
from manyclass.checks import seed_from
from manyclass.datasets import l2_normalize
from manyclass.figures import FIGURES
from manyclass.training import members
from manyclass.training.plan import Labels
from manyclass.weights.weights import Weights


def hybrid(X, y, seed=0, **parameters):
    return SoftmaxClassifier(model="hybrid", random_state=seed, **parameters).fit(X, y)


@pytest.mark.parametrize("several", [False, True])
def test_a_hybrid_adds_the_scores_of_both_parts(several, seed, tmp_path, monkeypatch):
    monkeypatch.setattr("manyclass.weights.weights.BLOCK_NUMBERS", 3 * K)
    if several:
        X, P = some_rows(seed, n=200)
        y = indicator(P)
    else:
        X, y = planted_rows(seed, n=200)
        X = X.toarray()
    model = hybrid(X, y, seed, dim=8, n_models=1)
    own = model._weights
    z = X.astype(np.float64) @ own.pairs_alone.coef.toarray().T + own.rows_alone.scores(X, 1) + own.bias
    atol = 256 * 2**-23 * max(1, np.abs(z).max())  # sums of some twenty products
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), z, rtol=0, atol=atol)
    np.testing.assert_allclose(model._weights.log_normalizers(X, 1), logsumexp(z, axis=1), rtol=0, atol=atol)
    labels, log_p = model.predict_top_k(X, 4)
    np.testing.assert_allclose(log_p, np.take_along_axis(log_softmax(z, axis=1), labels, axis=1), rtol=0, atol=2 * atol)
    np.testing.assert_allclose(np.vstack([s for _, s in own.score_tiles(X, 1)]), z, rtol=0, atol=atol)
    if not several:
        losses, ranks = own.log_losses(X, y.astype(np.int32), 1)
        np.testing.assert_allclose(losses, -log_softmax(z, axis=1)[np.arange(200), y], rtol=0, atol=2 * atol)
        np.testing.assert_array_equal(ranks, np.sum(z > z[np.arange(200), y][:, np.newaxis] + atol, axis=1))
    np.testing.assert_allclose(model.intercept_, own.pairs_alone.intercept + own.rows_alone.intercept)
    assert model.embed(X).shape == (200, own.n_hidden)
    assert model.embedding_.shape == (X.shape[1], own.n_hidden)
    assert not hasattr(model, "coef_")
    model.save(tmp_path / "a.model")
    for other in (*(manyclass.load(tmp_path / "a.model", mmap=m) for m in (False, True)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(other.embed(X), model.embed(X))


def test_a_hybrid_is_the_two_trainings_on_the_rows_that_are_not_held_out(seed):
    X, y = planted_rows(seed, n=400)
    X = l2_normalize(X)  # so that rates are the same on the rows that are kept
    two = models.Hybrid(margins="ignore", linear="ignore", counts="ignore")
    model = SoftmaxClassifier(model=two, random_state=seed, dim=8).fit(X, y)
    seed_of_draws = seed_from(seed)
    kept = ~blend.rows_held_out(400, seed_of_draws)
    assert kept.sum() == 380
    rate = model.resolved_params_["learning_rate"]  # that of all rows, whose sums differ
    sparse = SoftmaxClassifier(model="pairs", random_state=seed, learning_rate=rate).fit(X[kept], y[kept])
    values = sparse.coef_.data
    scale = np.median(model._weights.values / values)
    # Lengths are 1 to an ulp, and so are the rates; 1,000 visits, each of which moves a weight by 2 at most.
    np.testing.assert_allclose(model._weights.values, scale * values, rtol=1e-5, atol=1e-5)


def test_scales_of_a_hybrid_have_the_least_loss_on_the_rows_held_out(seed):
    rng = np.random.default_rng(seed)
    n = 400
    a, b = (Scores(rng.normal(size=(n, 5)).astype(np.float32)) for _ in range(2))
    z = 1.5 * a.z + 0.5 * b.z
    y, r = drawn_labels(z, rng), rng.random(n) + 0.5
    found = blend.best_scales(a, b, blend.ScoredRows(np.zeros((n, 1)), Labels.single(y), 1, r))

    def loss(s, t):
        return np.average(-log_softmax(s * a.z.astype(float) + t * b.z, axis=1)[np.arange(n), y], weights=r)

    least = loss(*found)
    grid = [loss(found[0] + s, found[1] + t) for s in (-0.05, 0, 0.05) for t in (-0.05, 0, 0.05)]
    assert least <= min(grid) + 1e-6  # the optimiser's own tolerance
    noise = Scores(rng.normal(size=(n, 5)).astype(np.float32))
    none = blend.best_scales(a, noise, blend.ScoredRows(np.zeros((n, 1)), Labels.single(y), 1))
    assert abs(none[1]) < 0.4  # scores that say nothing: 0 but for chance, whose standard error is near 0.08


def test_closed_forms_of_pairs_are_those_of_their_definitions(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((60, 12), density=0.3, format="csr", dtype=np.float32, rng=rng)
    Y, r = rng.random((60, 10)) < 0.2, rng.random(60) + 0.5
    Y[:, 9] = False  # class 9 has no row
    labels = sp.csr_array(Y)
    there = sp.random_array((12, 10), density=0.6, format="csr", rng=rng)
    there.sort_indices()
    pairs = Weights.on_pairs(there.indptr.astype(np.int64), there.indices.astype(np.int32), None, np.zeros(10, "f"))
    found = pairs.closed_forms(X, labels.indptr.astype(np.int64), labels.indices.astype(np.int32), r)
    n = np.einsum("ij,ik,i->jk", X.toarray() != 0, Y, r)
    of_feature, of_class = n.sum(axis=1), n.sum(axis=0)
    for at, (j, k) in enumerate(zip(np.repeat(np.arange(12), np.diff(there.indptr)), there.indices, strict=True)):
        expected = (0.0, 0.0)
        if n[j, k] > 0:
            saturating = n[j, k] / (n[j, k] + 2 * of_class[k] / of_class[of_class > 0].mean())
            expected = np.log(n[j, k] * n.sum() / (of_feature[j] * of_class[k])), saturating
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
def test_naive_bayes_is_added_to_the_weights_on_pairs_where_it_helps(several, seed, monkeypatch):
    # Words of a row are drawn independently, as naive Bayes supposes; five rows a class are too few to learn from.
    rng = np.random.default_rng(seed)
    n_classes, n_rows = 150, 2400
    of_classes = rng.dirichlet(np.full(400, 0.1), n_classes)
    y = rng.integers(0, n_classes, n_rows)
    X = sp.csr_array(np.array([rng.multinomial(6, of_classes[k]) for k in y]), dtype=np.float32)
    X.data[:] = 1
    labels = indicator([[k, (k + 1) % n_classes] for k in y], n_classes) if several else y
    shares, best_shares = [], blend.best_shares
    monkeypatch.setattr(blend, "best_shares", lambda *terms: shares.append(best_shares(*terms)) or shares[-1])
    solver = solvers.Adagrad(reduction="decoupled")
    given = {"n_models": 1, "dim": 8, "solver": solver, "model": models.Hybrid(margins="ignore", linear="ignore")}
    model = SoftmaxClassifier(random_state=seed, **given).fit(X[:800], labels[:800])
    final = shares[-1]
    monkeypatch.setattr(members, "_closed_forms", lambda *_: members.NO_FORMS)
    without = SoftmaxClassifier(random_state=seed, **given).fit(X[:800], labels[:800])
    assert final.shape == (4 if several else 3,)  # of pairs, embeddings, by margins too, and naive Bayes
    assert final[-1] > 0
    losses = [one.evaluate(X[800:], labels[800:])["log_loss"] for one in (model, without)]
    assert losses[0] < losses[1]


def test_rows_held_out_of_rare_classes_are_counted_in_the_end(seed):
    # Each class has words of its own and a row or two. Classes whose rows were all left out have no trained weight.
    rng = np.random.default_rng(seed)
    n_classes = 3000
    y = np.append(np.arange(n_classes), rng.choice(n_classes, 450, replace=False))
    columns = np.column_stack([2 * y + rng.integers(0, 2, len(y)), 2 * n_classes + rng.integers(0, 20, len(y))])
    X = sp.csr_array((np.full(columns.size, 0.7, np.float32), columns.ravel(), np.arange(0, columns.size + 1, 2)))
    model = hybrid(X, y, seed, n_models=1, dim=8)
    has_pair = np.zeros(X.shape[0], dtype=bool)
    own = model._weights
    for i, (j, _) in enumerate(columns):
        has_pair[i] = y[i] in own.classes[own.indptr[j] : own.indptr[j + 1]]
    assert has_pair.all()


def drawn_labels(z, rng):
    """A label of each row, drawn from the softmax of its scores."""
    return np.array([rng.choice(len(row), p=np.exp(row - logsumexp(row))) for row in z]).astype(np.int32)


def test_a_hybrid_of_several_labels_has_the_temperature_of_the_rows_held_out(seed):
    X, P = some_rows(seed, n=400)
    lists = Labels(np.cumsum([0, *map(len, P)]), np.concatenate(P).astype(np.int32))
    found = hybrid(X, indicator(P), seed, dim=8, max_iter=2)
    out = np.flatnonzero(blend.rows_held_out(400, seed_from(seed)))
    z = found.decision_function(X[out]).astype(np.float64)

    def loss(factor):
        log_p = log_softmax(factor * z, axis=1)
        return np.mean([log_p[row, P[i]].mean() * -1 for row, i in enumerate(out)])

    # The optimiser stops where a step gains a part in 1e9 of the loss; float32 scores are off by some parts in 1e7.
    assert loss(1) <= min(loss(factor) for factor in (0.97, 1.03)) + 1e-6
    assert blend.best_factor(found._weights, blend.ScoredRows(X[out], lists.of(out), 1)) == pytest.approx(1, abs=0.02)
    share = {name: value for name, value in found.evaluate(X[out], indicator(P)[out]).items() if name == "log_loss"}
    assert share["log_loss"] == pytest.approx(loss(1), rel=1e-5)


def test_a_factor_by_loss_is_above_0_where_scores_say_nothing(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(100, 6)).astype(np.float32)
    worst = Labels.single(z.argmin(axis=1).astype(np.int32))
    assert blend.best_factor(Scores(z), blend.ScoredRows(np.zeros((100, 1)), worst, 1)) == FIGURES.LEAST_FACTOR


class Scores:
    """A model that has its scores by heart."""

    def __init__(self, z, bias=None):
        self.z, self.n_classes, self.bias = z, z.shape[1], bias

    def scores(self, x, n_threads):
        assert x.shape[0] == len(self.z)
        return self.z


def test_the_decoupled_loss_of_scores_that_lie_far_apart_is_that_of_its_definition():
    # The first row's wrong classes, and one of its labels, are 300 below its other label: e^-300 is 0 in single
    # precision. The second has all classes for labels, which no wrong class is beside.
    z = np.array([[0, 300, 0, -20], [500, -500, 0, 1]], np.float32)
    P = [[0, 1], [0, 1, 2, 3]]
    lists = Labels(np.array([0, 2, 6]), np.concatenate(P).astype(np.int32))
    by_definition = np.logaddexp(0, np.logaddexp(0, -20) - np.array([0, 300])).sum() / 2
    assert blend.decoupled_loss(Scores(z), blend.ScoredRows(np.zeros((2, 1)), lists, 1)) == pytest.approx(
        by_definition, rel=1e-6
    )
    found = blend.best_scales(Scores(z), Scores(z[:, ::-1].copy()), blend.ScoredRows(np.zeros((2, 1)), lists, 1))
    assert np.isfinite(found).all()


def test_scales_of_several_labels_have_the_least_decoupled_loss(seed):
    rng = np.random.default_rng(seed)
    n = 300
    a, b = (Scores(rng.normal(size=(n, 6)).astype(np.float32)) for _ in range(2))
    noisy = a.z + 0.7 * b.z + rng.gumbel(size=(n, 6))
    sizes = rng.integers(1, 4, n)
    P = [np.sort(np.argsort(-row)[:size]) for row, size in zip(noisy, sizes, strict=True)]
    lists, r = Labels(np.cumsum([0, *sizes]), np.concatenate(P).astype(np.int32)), rng.random(n) + 0.5
    found = blend.best_scales(a, b, blend.ScoredRows(np.zeros((n, 1)), lists, 1, r))

    def loss(s, t):  # by the definition
        total = 0.0
        for row, labels, weight in zip(s * a.z.astype(float) + t * b.z, P, r, strict=True):
            wrong = np.delete(row, labels)
            total += weight * sum(logsumexp([row[k], *wrong]) - row[k] for k in labels)
        return total / r.sum()

    grid = [loss(found[0] + s, found[1] + t) for s in (-0.03, 0, 0.03) for t in (-0.03, 0, 0.03)]
    assert loss(*found) <= min(grid) + 1e-6  # the optimiser's own tolerance
    noise = Scores(rng.normal(size=(n, 6)).astype(np.float32))
    assert abs(blend.best_scales(a, noise, blend.ScoredRows(np.zeros((n, 1)), lists, 1))[1]) < 0.4  # see above


def ranked_rows(seed, n=400, n_classes=30):
    """Labels of rows, the three classes of the largest scores, these scores, and noise."""
    rng = np.random.default_rng(seed)
    z, noise = (rng.normal(size=(n, n_classes)).astype(np.float32) for _ in range(2))
    ids = np.sort(np.argsort(-z, axis=1)[:, :3], axis=1)
    return z, noise, Labels(np.arange(0, 3 * n + 1, 3), ids.ravel().astype(np.int32))


def test_a_mixture_that_ranks_several_labels_worse_is_told_by_more_than_chance(seed):
    z, noise, lists = ranked_rows(seed)
    x = np.zeros((len(z), 1))

    class Ranked(Scores):
        def top_k(self, x, k, n_threads):
            return np.argsort(-self.z, axis=1)[:, :k].astype(np.int32), None

    given = x, lists, 1, None
    assert blend.ranks_worse(Ranked(z + noise), Ranked(z), blend.ScoredRows(*given))
    assert not blend.ranks_worse(Ranked(z), Ranked(z + noise), blend.ScoredRows(*given))
    assert not blend.ranks_worse(Ranked(2 * z), Ranked(z), blend.ScoredRows(*given))
    one = np.zeros(len(z))
    one[0] = 1  # what one row says may be chance
    worse = z.copy()
    worse[0] = -worse[0]
    assert not blend.ranks_worse(Ranked(worse), Ranked(z), blend.ScoredRows(x, lists, 1, one))


def test_a_hybrid_that_is_stopped_has_the_embeddings_alone():
    X, y = planted_rows(0)
    model = SoftmaxClassifier(model="hybrid", dim=4, random_state=0).fit(X, y, callback=lambda state: True)
    assert model.n_iter_ == 1
    assert not model._weights.values.any()
    assert model.score(X, y) > 0.9


def test_a_hybrid_repeats_itself_and_takes_weights_of_rows(seed):
    X, P = some_rows(seed, n=200)
    Y = indicator(P)
    r = np.random.default_rng(seed).random(200) + 0.5
    one, two = (hybrid(X, Y, seed, dim=8, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    weighted = SoftmaxClassifier(model="hybrid", dim=8, random_state=seed).fit(X, Y, sample_weight=r)
    assert not np.array_equal(weighted.decision_function(X), one.decision_function(X))
    again = SoftmaxClassifier(**{**one.get_params(deep=False), **one.resolved_params_}).fit(X, Y)
    np.testing.assert_array_equal(again.decision_function(X), one.decision_function(X))


def test_rows_too_few_to_hold_out_any():
    X, P = some_rows(0, several=False, n=12, n_classes=5)
    model = hybrid(X, np.array([p[0] for p in P]), dim=4)
    assert np.isfinite(model.decision_function(X)).all()
    assert not blend.rows_held_out(12, 0).any()


@pytest.mark.parametrize("model", ["hybrid", "embedding"])
def test_a_model_no_better_than_the_shares_of_the_classes_says_so(model, seed):
    rng = np.random.default_rng(seed)
    n = 4000
    y = rng.choice(30, n, p=np.arange(1, 31) / 465)
    X = sp.random_array((n, 2000), density=0.005, rng=rng, format="csr", dtype=np.float32)  # says nothing of y
    given = {"dim": 8, "n_models": 1, "max_iter": 3, "random_state": seed}
    lost = SoftmaxClassifier(model=model, **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lost.fit(X, y)
    held = np.flatnonzero(blend.rows_held_out(n, seed_from(seed), 1000 if model == "hybrid" else 300))
    kept = np.setdiff1d(np.arange(n), held)
    shares = np.bincount(y[kept], minlength=30) / len(kept)
    by_shares = -np.log(shares[y[held]]).mean()
    loss = lost._weights.log_losses(X[held], y[held].astype(np.int32), 1)[0].mean()
    assert any("no more than how frequent" in str(w.message) for w in caught) == (loss >= by_shares)
    y = np.asarray(X.argmax(axis=1)).ravel() % 30
    SoftmaxClassifier(model=model, **given).fit(X, y)  # a warning is an error here
