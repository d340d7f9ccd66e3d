"""Counts and repeats mixed in probability: answers by the definition, and how fits, streams and files come to them."""

import copy
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax

import manyclass
from manyclass import SoftmaxClassifier, models
from manyclass.blending import blend
from manyclass.checks import seed_from
from manyclass.classifiers.compress import compress
from manyclass.training.plan import Labels
from manyclass.weights.arrays import NO_OWN, Mixture
from manyclass.weights.compression import coded
from manyclass.weights.weights import Weights

N, D = 60, 30
ITEMS = 800


def some_weights(rng, n_classes, hybrid):
    """Weights on random pairs, beside rows over embeddings or alone, with random counts."""
    support = sp.random_array((D, n_classes), density=0.2, rng=rng, format="csr")
    counts = rng.integers(0, 4, support.nnz).astype(np.float32)  # 0: a pair that a half-life has made nothing of
    values = rng.normal(size=support.nnz).astype(np.float32)
    ids = support.indices.astype(np.int32)
    pairs = Weights.on_pairs(support.indptr.astype(np.int64), ids, values, rng.normal(size=n_classes).astype("f4"))
    if hybrid:
        rows = Weights.start_over_phi(n_classes, D, embedding_dim=6, intercept=True, relu=False, rng=rng)
        rows.matrix[:, :6] = rng.normal(size=(n_classes, 6))
        pairs = pairs.beside(rows)
    totals = np.add.reduceat(np.append(counts, 0), support.indptr[:-1]) * (np.diff(support.indptr) > 0)
    totals = totals.astype(np.float32) + rng.integers(0, 3, D).astype(
        "f4"
    )  # pairs too rare to have a weight count here
    return replace(pairs, counts=counts, totals=totals, mixture=Mixture(0.4, 2.0, counts_own=True))


def some_points(rng):
    X = sp.random_array((N, D), density=0.15, rng=rng, format="csr", dtype=np.float32)
    X.data *= rng.choice([-1, 1, 1], len(X.data))
    return sp.csr_array(sp.vstack([X[:3], sp.csr_array((1, D), dtype=np.float32), X[4:]]))  # a row without features


def counts_of(weights):
    shape = (weights.n_classes, weights.n_features)
    ids = weights.classes.astype(np.int32)
    return sp.csc_array((weights.counts, ids, weights.indptr), shape=shape).toarray().astype(float)


def by_definition(weights, X):
    """The probabilities of the mixture, (n_rows, n_classes)."""
    numbers, X = weights.mixture, X.toarray().astype(float)
    z = replace(weights, mixture=Mixture()).scores(sp.csr_array(X.astype(np.float32)), 1).astype(float)
    order = np.argsort(-z, axis=1, kind="stable")
    a = abs(X) / np.maximum(abs(X).sum(axis=1, keepdims=True), 1e-30)
    q = np.zeros_like(z)
    if numbers.share:
        q = a @ (counts_of(weights) / (weights.totals.astype(float) + numbers.shrinkage)).T
    of_repeats, rho = np.zeros_like(z), np.zeros((len(X), 1))
    for i, x in enumerate(X):
        there = [j for j in np.flatnonzero(x) if numbers.repeats and weights.own[j] >= 0]
        own = weights.own[there]
        if 0 < len(own) < z.shape[1]:
            z[i, own] = -np.inf
            w = (abs(x[there]) / abs(x[there]).max()) ** numbers.power
            odds = numbers.repeats / (1 - numbers.repeats)
            if numbers.rate:
                again, total = counts_of(weights)[own, there], weights.totals[there].astype(float)
                w *= (again + numbers.shrinkage * numbers.rate) / (total + numbers.shrinkage)
                odds *= w.mean() / numbers.rate
            of_repeats[i, own] = w / w.sum()
            rho[i] = odds / (1 + odds)
            if not numbers.counts_own:
                q[i, own] = 0
    others = (1 - numbers.share * q.sum(axis=1, keepdims=True)) * softmax(z, axis=1) + numbers.share * q
    p = (1 - rho) * others + rho * of_repeats
    for of_row, first in zip(p, order[:, : numbers.kept], strict=True):
        best = np.argsort(-of_row, kind="stable")[: 5 * numbers.kept]
        places = np.append(first, best[~np.isin(best, first)])
        of_row[places] = np.sort(of_row[places])[::-1]
    return p


OWN = (
    None,
    Mixture(0.4, 2.0, repeats=0.2),
    Mixture(0.4, 2.0, counts_own=True, repeats=0.05, power=0.5),
    Mixture(0.4, 2.0, repeats=0.2, power=0.5, rate=0.3),
)


@pytest.mark.parametrize("n_classes", [37, 5000])  # 5,000 classes are several chunks
@pytest.mark.parametrize("dtype", [None, "float32", "float16", "int8"])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(
    "own",
    [
        *OWN,
        Mixture(repeats=0.7, power=2.0),
        Mixture(0.0, 2.0, repeats=0.1, counts_own=True, rate=1.0),
        Mixture(0.4, 2.0, repeats=0.2, kept=4),
    ],
)
def test_every_question_is_answered_by_the_mixture(n_classes, dtype, hybrid, own, seed):
    rng = np.random.default_rng(seed)
    weights, X = some_weights(rng, n_classes, hybrid), some_points(rng)
    if own is not None:
        classes = np.where(rng.random(D) < 0.7, rng.permutation(n_classes)[:D], -1).astype("i4")
        weights = replace(weights, own=classes, mixture=own)
    if dtype is not None:
        weights = coded(weights, dtype)
    p = by_definition(weights, X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)  # scores are floats
    z = weights.scores(X, 2)
    # Scores of magnitude 20 in single precision.
    np.testing.assert_allclose(log_softmax(z.astype(float), axis=1), np.log(p), rtol=0, atol=2e-5)
    np.testing.assert_allclose(weights.log_normalizers(X, 1), np.log(np.exp(z.astype(float)).sum(axis=1)), atol=2e-6)
    y = rng.integers(0, n_classes, N).astype(np.int32)
    losses, ranks = weights.log_losses(X, y, 2)
    np.testing.assert_allclose(losses, -np.log(p[np.arange(N), y]), rtol=0, atol=2e-5)
    of_label = z[np.arange(N), y][:, np.newaxis]
    before = (z > of_label) | ((z == of_label) & (np.arange(n_classes) < y[:, np.newaxis]))  # own classes may be equal
    np.testing.assert_array_equal(ranks, before.sum(axis=1))
    classes, log_p = weights.top_k(X, 5, 1)
    np.testing.assert_allclose(log_p, np.sort(np.log(p), axis=1)[:, :-6:-1], rtol=0, atol=2e-5)
    np.testing.assert_allclose(log_p, np.log(np.take_along_axis(p, classes, axis=1)), rtol=0, atol=2e-5)
    # Points alone, and by other threads.
    for i in range(0, N, 17):
        np.testing.assert_array_equal(weights.scores(X[i : i + 1], 1)[0], z[i])
    np.testing.assert_array_equal(weights.scores(X, 1), z)


@pytest.mark.parametrize("value", [1e-30, 1e30])
def test_the_unit_of_features_does_not_matter_to_counts(value, seed):
    rng = np.random.default_rng(seed)
    weights, X = some_weights(rng, 37, False), some_points(rng)
    weights.values[:] = 0
    np.testing.assert_allclose(
        weights.scores(X * np.float32(value), 1), weights.scores(X, 1), rtol=0, atol=1e-6
    )  # of scores up to 5


def test_bad_mixtures_are_refused(seed):
    weights = some_weights(np.random.default_rng(seed), 37, False)
    for wrong in (
        {"mixture": Mixture(1.0, 2.0)},
        {"mixture": Mixture(-0.1, 2.0)},
        {"mixture": Mixture(0.4, 0.0)},
        {"own": np.zeros(D - 1, np.int32)},
        {"own": np.full(D, 37, np.int32)},
        {"own": np.zeros(D, np.int32), "mixture": Mixture(0.4, 2.0, repeats=1.0)},
        {"own": np.zeros(D, np.int32), "mixture": Mixture(0.4, 2.0, power=-1.0)},
        {"own": np.zeros(D, np.int32), "mixture": Mixture(0.4, 2.0, repeats=0.1, rate=1.5)},
        {"own": np.zeros(D, np.int32), "mixture": Mixture(0.0, 0.0, repeats=0.1, rate=0.5)},
        {"mixture": Mixture(0.4, 2.0, kept=-1)},
        {"counts": weights.counts[1:]},
        {"totals": weights.totals[1:]},
    ):
        with pytest.raises(ValueError, match=r"count|own classes|repeats|keep"):
            replace(weights, **wrong).check()


def sessions(seed, n=2000):
    """Rows of 6 items of 800, and the next one: mostly the companion of one of them, else any; each item is rare."""
    rng = np.random.default_rng(seed)
    companion = np.random.default_rng(0).permutation(ITEMS)
    X, y = np.zeros((n, ITEMS), np.float32), np.empty(n, np.int64)
    for i in range(n):
        items = rng.choice(ITEMS, 6, replace=False)
        X[i, items] = 1
        y[i] = companion[rng.choice(items)] if rng.random() < 0.9 else rng.integers(ITEMS)
    return sp.csr_array(X), y


def counted(X, y, r=None):
    """C_jk of rows, (n_classes, n_features)."""
    r = np.ones(len(y)) if r is None else r
    indicator = sp.csr_array((r, (np.arange(len(y)), y)), shape=(len(y), ITEMS))
    return (indicator.T @ (X != 0).astype(float)).toarray()


def hybrid(X, y, seed, counts="learn", **parameters):
    given = {"dim": 8, "n_models": 1, "max_iter": 2} | parameters
    model = models.Hybrid(counts=counts, margins="ignore", linear="ignore")
    return SoftmaxClassifier(model=model, random_state=seed, **given).fit(X, y)


def test_a_fit_counts_its_rows_and_finds_the_share_on_rows_held_out(seed):
    X, y = sessions(seed)
    found, ignored = hybrid(X, y, seed), hybrid(X, y, seed, "ignore")
    w = found._weights
    held, at = blend.rows_held_out(len(y), seed_from(seed)), np.searchsorted(found.classes_, y).astype(np.int32)
    kept, rows = np.flatnonzero(~held), np.flatnonzero(held)
    own = counts_of(w) > 0
    everything = counted(X, y)[found.classes_]
    np.testing.assert_array_equal(counts_of(w)[own], everything[own])
    assert np.all(own[counted(X[kept], y[kept])[found.classes_] > 0])  # each pair of these rows has a weight
    np.testing.assert_array_equal(w.totals, everything.sum(axis=0))
    # The share is the best for the rows held out, by the counts of the others.
    before = replace(w, counts=np.zeros_like(w.counts), totals=np.zeros_like(w.totals))
    before = before.counted(X[kept], np.arange(len(kept) + 1), at[kept], None)
    rows = rows[np.isin(at[rows], at[kept])]  # rows of other classes tell nothing

    def loss(share):
        return -np.log(
            by_definition(replace(before, mixture=replace(w.mixture, share=share)), X[rows])[
                np.arange(len(rows)), at[rows]
            ]
        ).sum()

    assert 0.05 < w.mixture.share < 0.99
    # By now these rows are in the naive Bayes of the weights, too, which moves the best share a little.
    assert loss(w.mixture.share) <= min(loss(s) for s in np.linspace(0, 0.95, 20)) + 0.1
    X_test, y_test = sessions(seed + 1000)
    assert found.evaluate(X_test, y_test)["log_loss"] < ignored.evaluate(X_test, y_test)["log_loss"] - 0.1
    np.testing.assert_allclose(found.predict_proba(X_test).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("own", OWN)
def test_what_a_mixture_says_of_some_labels_is_by_the_definition(own, seed):
    rng = np.random.default_rng(seed)
    weights, X = some_weights(rng, 37, True), some_points(rng)
    y = np.where(rng.random(N) < 0.3, np.asarray(X.argmax(axis=1)).ravel(), rng.integers(0, 37, N)).astype(np.int32)
    classes = NO_OWN if own is None else np.where(rng.random(D) < 0.7, np.arange(D), -1).astype(np.int32)
    mixtures = [replace(own or weights.mixture, shrinkage=s) for s in (2.0, 5.0)]
    told = blend.label_mixtures(weights, classes, blend.ScoredRows(X, Labels.single(y), 1, None))
    for mixture in mixtures:
        p = by_definition(replace(weights, own=classes, mixture=mixture), X)[np.arange(N), y]
        shares = np.array([mixture.share, mixture.repeats])
        loss, slopes = told.loss(*shares, **kind_of(mixture, own is not None))
        np.testing.assert_allclose(loss, -np.log(p).sum(), rtol=1e-5)  # of scores in single precision
        for j, step in enumerate(np.eye(2) * 1e-6):
            ends = [told.loss(*at, **kind_of(mixture, own is not None))[0] for at in (shares - step, shares + step)]
            np.testing.assert_allclose(
                slopes[j], (ends[1] - ends[0]) / 2e-6, rtol=1e-4, atol=1e-6 if own is None else 1e-4
            )
        found, _, least = told.best_shares(**kind_of(mixture, own is not None))
        assert least <= loss + 1e-6
        at_best = told.loss(found["share"], found["repeats"], **kind_of(mixture, own is not None))
        np.testing.assert_allclose(at_best[0], least)


def kind_of(mixture, has_own):
    """How a mixture is made, but for its shares."""
    names = ("shrinkage", "counts_own", "power", "rate")
    return {"has_own": has_own, **{name: getattr(mixture, name) for name in names}}


def test_a_row_that_has_all_classes_has_none_of_its_own(seed):
    rng = np.random.default_rng(seed)
    weights = replace(some_weights(rng, 5, False), own=np.append(np.arange(5), np.full(D - 5, -1)).astype("i4"))
    weights = replace(weights, mixture=Mixture(0.4, 2.0, repeats=0.3))
    X = sp.csr_array(np.eye(2, D, dtype=np.float32) + np.arange(2)[:, np.newaxis] * (np.arange(D) < 5))
    p = softmax(weights.scores(X, 1).astype(float), axis=1)
    np.testing.assert_allclose(p, by_definition(weights, X), rtol=1e-5)
    labels = np.arange(2, dtype=np.int32)
    told = blend.label_mixtures(weights, weights.own, blend.ScoredRows(X, Labels.single(labels), 1, None))
    loss, _ = told.loss(0.4, 0.3, **kind_of(weights.mixture, True))
    np.testing.assert_allclose(loss, -np.log(p[labels, labels]).sum(), rtol=1e-5)


def test_counts_that_say_nothing_are_left_out(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 50, 2000)
    X = sp.csr_array(np.eye(50, dtype=np.float32)[y] + (rng.random((2000, 50)) < 0.05))
    y += 50  # no columns, so that none repeats
    for model in (hybrid(X, y, seed, max_iter=4), hybrid(X, y, seed, "ignore")):
        assert model._weights.mixture.share == 0
        assert not len(model._weights.counts)


def test_files_copies_and_compressed_models_have_the_counts(seed, tmp_path):
    X, y = sessions(seed)
    model = hybrid(X, y, seed)
    p = model.predict_proba(X[:50])
    model.save(tmp_path / "a.model")
    for other in (*(manyclass.load(tmp_path / "a.model", mmap=m) for m in (False, True)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict_proba(X[:50]), p)
    small = compress(model, dtype="int8")
    assert small._weights.mixture.share == model._weights.mixture.share
    np.testing.assert_allclose(small.predict_proba(X[:50]), p, atol=0.02)  # a 127th of the largest weights
    small.save(tmp_path / "b.model")
    for mmap in (False, True):
        again = manyclass.load(tmp_path / "b.model", mmap=mmap).predict_proba(X[:50])
        np.testing.assert_array_equal(again, small.predict_proba(X[:50]))
    n_bytes = (tmp_path / "b.model").stat().st_size
    fitting = compress(model, max_bytes=n_bytes - 5000)
    fitting.save(tmp_path / "c.model")
    assert (tmp_path / "c.model").stat().st_size <= n_bytes - 5000
    q = fitting.predict_proba(X[:50])
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"share": None}, "share"),
        ({"repeats": 1.0}, "repeats"),
        ({"power": -1.0}, "power"),
        ({"rate": 1.5}, "rate"),
        ({"counts_own": 3}, "counts_own"),
        ({"kept": -1}, "kept"),
        ({"kept": 1.5}, "kept"),
        ({}, "shrinkage"),
    ],
)
def test_a_damaged_mixture_is_refused(change, told, seed, tmp_path):
    path = tmp_path / "a.model"
    hybrid(*sessions(seed), seed).save(path)
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    info = json.loads(header["__metadata__"]["model"])
    info["labels"]["counts"] |= change
    if not change:
        del info["labels"]["counts"][told]
    header["__metadata__"]["model"] = json.dumps(info)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size :])
    with pytest.raises(ValueError, match=rf"damaged.*{told}"):
        manyclass.load(path)


def test_partial_fit_counts_on_and_fades(seed):
    X, y = sessions(seed)
    model = hybrid(X[:1500], y[:1500], seed)
    share = model._weights.mixture.share
    other = copy.deepcopy(model)
    model.partial_fit(X[1500:], y[1500:])
    assert model._weights.mixture.share == share
    np.testing.assert_array_equal(model._weights.totals, counted(X, y).sum(axis=0))
    before = np.zeros((ITEMS, ITEMS))
    before[other.classes_] = counts_of(other._weights)
    there = np.zeros((ITEMS, ITEMS))
    there[model.classes_] = counts_of(model._weights)
    new = counted(X[1500:], y[1500:])
    np.testing.assert_array_equal(there[new > 0], (before + new)[new > 0])
    other.partial_fit(X[1500:], y[1500:], half_life=1000)
    left = 2**-0.5  # 500 new rows
    there[other.classes_] = counts_of(other._weights)
    np.testing.assert_allclose(there, left * before + new, rtol=1e-6)
    # A class and a feature that are new.
    x_new = sp.csr_array(np.ones((4, 1), np.float32) @ np.eye(1, ITEMS, 5, dtype=np.float32))
    model.partial_fit(x_new, np.full(4, 999))
    assert counts_of(model._weights)[-1, 5] == 4


def test_the_share_of_a_stream_follows_its_rows(seed):
    X, y = sessions(seed, n=6000)
    X_test, y_test = sessions(seed + 1000)
    stream = SoftmaxClassifier(model=models.Hybrid(), dim=8, random_state=seed)
    alone = SoftmaxClassifier(model=models.Hybrid(counts="ignore"), dim=8, random_state=seed)
    gains, shares = [], []
    for at in range(0, 6000, 300):
        losses = []
        for model in (stream, alone):
            model.partial_fit(X[at : at + 300], y[at : at + 300], classes=np.arange(ITEMS), n_passes=1)
            losses.append(model.evaluate(X_test, y_test)["log_loss"])
        gains.append(losses[1] - losses[0])
        shares.append(stream._weights.mixture.share)
    np.testing.assert_array_equal(stream._weights.totals, counted(X, y).sum(axis=0))
    assert np.mean(gains[:10]) > 0.15  # what was seen once is known at once
    # In the end the weights know more than the counts, whose share falls, some calls late.
    assert shares[-1] < 0.7 * max(shares)
    assert gains[-1] > -0.05


def test_several_models_have_the_mean_of_their_counts(seed):
    X, y = sessions(seed)
    model = hybrid(X, y, seed, n_models=2)
    w = model._weights
    assert w.mixture.share > 0.05
    np.testing.assert_array_equal(w.totals, counted(X, y).sum(axis=0))
    np.testing.assert_allclose(model.predict_proba(X[:20]), by_definition(w, X[:20]), rtol=1e-4, atol=1e-9)


def test_several_labels_keep_the_order_of_the_scores_where_counts_rank_worse(seed, monkeypatch, tmp_path):
    X, y = sessions(seed)
    other = np.where(X.indices[::6] == y, X.indices[1::6], X.indices[::6])  # one of the row's own items
    ids, indptr = np.sort(np.stack([y, other], axis=1)).ravel(), np.arange(0, 2 * len(y) + 1, 2)
    Y = sp.csr_array((np.ones(len(ids)), ids, indptr), shape=X.shape)
    monkeypatch.setattr(blend, "ranks_worse", lambda *_: True)
    model = hybrid(X[500:], Y[500:], seed, n_models=2)
    w, X_test, Y_test = model._weights, X[:500], Y[:500][:, model.classes_]
    alone = replace(w, mixture=Mixture())
    assert w.mixture.kept == 10
    np.testing.assert_array_equal(w.top_k(X_test, 10, 1)[0], alone.top_k(X_test, 10, 1)[0])
    labels = Labels(Y_test.indptr.astype(np.int64), Y_test.indices.astype(np.int32))
    assert (
        blend.mean_log_loss(w, blend.ScoredRows(X_test, labels, 1))
        < blend.mean_log_loss(alone, blend.ScoredRows(X_test, labels, 1)) - 0.1
    )
    model.save(tmp_path / "a.model")
    again = manyclass.load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))


def test_weights_of_rows_count(seed):
    X, y = sessions(seed)
    r = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    model = SoftmaxClassifier(model=models.Hybrid(), dim=8, n_models=1, max_iter=2, random_state=seed)
    w = model.fit(X, y, sample_weight=r)._weights
    # Of mean 1 among the rows kept, and among those held out.
    np.testing.assert_allclose(w.totals, counted(X, y, r / r.mean()).sum(axis=0), rtol=0.1)


def test_items_that_come_again_are_told_from_those_that_do_not(seed, tmp_path):
    """Every other item of a row comes next as often as not, and the others do not: rows have shares of their own."""
    rng = np.random.default_rng(seed)
    n, n_items = 3000, 300
    X, y = np.zeros((n, n_items), np.float32), rng.integers(0, n_items, n)
    for i in range(n):
        had = rng.choice(n_items, 2, replace=False)
        X[i, had] = 1
        y[i] = next((k for k in had if k % 2 and rng.random() < 0.5), y[i])
    X = sp.csr_array(X)
    model = hybrid(X, y, seed)
    mixture = model._weights.mixture
    assert mixture.rate > 0
    # None, one and both of two items are such ones: they come next with probabilities of 0, 1/2 and 3/4.
    n_such = (X.toarray()[:, 1::2] > 0).sum(axis=1)
    p = (model.predict_proba(X) * (X.toarray()[:, model.classes_] > 0)).sum(axis=1)
    found = [p[n_such == such].mean() for such in range(3)]
    np.testing.assert_allclose(found, [0, 0.5, 0.75], atol=0.15)  # each item has 20 rows, and rates shrink to the mean
    model.save(tmp_path / "a.model")
    again = manyclass.load(tmp_path / "a.model")
    assert again._weights.mixture == mixture
    np.testing.assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))
