"""The share of repeats of features that are classes themselves, as items of a history are of the next one."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import manyclass
from manyclass import SoftmaxClassifier, _core, models
from manyclass.blending import blend
from manyclass.checks import seed_from
from manyclass.training.incremental import features_of_classes
from manyclass.training.plan import HybridPlan
from manyclass.training.state import Features, Points

K, GROUP, HELD = 240, 6, 3  # items, those of a group, and items of a history: each is in 25 rows of 2,000
NEVER, OFTEN = 0.0, 0.8  # how often the next item is one of the history


def histories(seed, again, n=2000):
    """Histories of items of one group, the next item, of the same group, and whether it was there before."""
    rng = np.random.default_rng(seed)
    X, y = np.zeros((n, K), dtype=np.float32), np.empty(n, dtype=np.int64)
    for i in range(n):
        y[i] = i % K  # each class has rows
        group = y[i] // GROUP * GROUP + np.arange(GROUP)
        others = rng.permutation(group[group != y[i]])
        X[i, others[:HELD]] = HELD**-0.5
        if rng.random() < again:
            X[i, others[0]], X[i, y[i]] = 0, HELD**-0.5
    return sp.csr_array(X), y


def fitted(X, y, seed, *, look=True, **parameters):
    model = models.Hybrid(repeats="learn" if look else "ignore", counts="ignore")
    given = {"dim": 8, "n_models": 1, "max_iter": 2} | parameters
    return SoftmaxClassifier(model=model, random_state=seed, **given).fit(X, y)


def on_what_rows_have(model, X, seen):
    """Mean probability of all that a row has together."""
    return (np.exp(model.predict_log_proba(X)) * seen).sum(axis=1).mean()


@pytest.mark.parametrize("again", [NEVER, OFTEN])
def test_the_share_of_repeats_has_the_least_loss_on_rows_held_out(again, seed):
    X, y = histories(seed, again)
    found, ignored = (fitted(X, y, seed, look=look) for look in (True, False))
    mixture, own = found._weights.mixture, found._weights.own
    assert mixture.share == 0  # of counts, which are ignored
    np.testing.assert_array_equal(own, np.arange(K))
    rows = np.flatnonzero(blend.rows_held_out(len(y), seed_from(seed)))
    p, seen = ignored.predict_proba(X[rows]), X[rows].toarray() > 0
    repeats = np.where(seen, 1 / seen.sum(axis=1, keepdims=True), 0)  # values are equal: no power matters
    others = np.where(seen, 0, p) / np.where(seen, 0, p).sum(axis=1, keepdims=True)

    def loss(rho):
        return -np.log(((1 - rho) * others + rho * repeats)[np.arange(len(rows)), y[rows]]).sum()

    if again == NEVER:
        assert mixture.repeats == pytest.approx(0.5 / (len(y) + 1))  # half a row of all
    else:
        assert mixture.repeats == pytest.approx(OFTEN, abs=0.1)  # four standard errors of 100 rows are .16
        assert loss(mixture.repeats) <= min(loss(rho) for rho in np.linspace(0.01, 0.98, 98)) + 1e-3
    assert -np.log(p[np.arange(len(rows)), y[rows]]).sum() - loss(mixture.repeats) > 5  # or none is mixed in


def test_next_items_that_never_come_again_are_not_predicted(seed):
    X, y = histories(seed, NEVER, n=3000)
    train, test = slice(0, 2000), slice(2000, 3000)
    found, ignored = (fitted(X[train], y[train], seed, look=look) for look in (True, False))
    seen = X[test].toarray() > 0
    assert on_what_rows_have(found, X[test], seen) < 0.01
    # The label is one of three of a group's six items: log 2 at most, less what training has learnt of single items.
    gain = ignored.evaluate(X[test], y[test])["log_loss"] - found.evaluate(X[test], y[test])["log_loss"]
    assert gain > 0.1


def test_labels_that_are_no_columns_change_nothing(seed):
    X, y = histories(seed, NEVER)
    renamed = np.random.default_rng(seed + 1).permutation(K)[y]  # integers, and in range, but of other items
    for labels in (y + K, y.astype(str)):
        found, ignored = (fitted(X, labels, seed, look=look) for look in (True, False))
        np.testing.assert_array_equal(found.decision_function(X), ignored.decision_function(X))
    found, ignored = (fitted(X, renamed, seed, look=look) for look in (True, False))
    assert found.evaluate(X, renamed)["log_loss"] < ignored.evaluate(X, renamed)["log_loss"] + 0.02


def test_columns_with_names_are_found_by_them(seed):
    pandas = pytest.importorskip("pandas")
    X, y = histories(seed, NEVER)
    order = np.random.default_rng(seed).permutation(K)
    names = np.array([f"item {k}" for k in range(K)])
    frame = pandas.DataFrame(X.toarray()[:, order], columns=names[order])
    found = fitted(frame, names[y], seed)
    seen = X.toarray()[:, [int(name.split()[1]) for name in found.classes_]] > 0
    assert on_what_rows_have(found, frame, seen) < 0.01


def test_the_feature_of_a_class_is_the_one_of_its_number_or_name():
    plan = HybridPlan(None, None)
    points = Points(np.zeros((1, 4), np.float32), None, np.array([-1, 0, 3, 4]), Features(4, None))
    np.testing.assert_array_equal(features_of_classes(plan, points), [-1, 0, 3, -1])
    named = replace(points, classes=np.array(["a", "b", "d"]), column_labels=np.array(["d", "c", "b", "x"]))
    np.testing.assert_array_equal(features_of_classes(plan, named), [-1, 2, 0])
    assert features_of_classes(plan, replace(points, classes=np.array(["0", "1"]))) is None
    assert features_of_classes(plan, replace(points, hashing=object())) is None
    assert features_of_classes(replace(plan, repeats=False), points) is None
    np.testing.assert_array_equal(blend.own_classes(np.array([-1, 2, 0], dtype=np.int32), 4), [2, -1, 1, -1])


def test_several_labels_have_a_share_of_repeats(seed):
    X, y = histories(seed, NEVER, n=600)  # few, so that single items have not learnt it
    absent = np.where(X.toarray() == 0, 1.0, 0.0) * (np.arange(K) // GROUP == (y // GROUP)[:, np.newaxis])
    Y = absent.astype(int)  # all three of the group that the row has not
    found, ignored = (fitted(X, Y, seed, look=look) for look in (True, False))
    seen = X.toarray() > 0
    assert on_what_rows_have(found, X, seen) <= on_what_rows_have(ignored, X, seen) < 0.01


def test_means_and_files_have_the_share_of_repeats(seed, tmp_path):
    X, y = histories(seed, NEVER)
    seen = X.toarray() > 0
    mean = fitted(X, y, seed, n_models=2)
    assert on_what_rows_have(mean, X, seen) < 0.01
    mean.save(tmp_path / "a.model")
    for same in (manyclass.load(tmp_path / "a.model"), copy.deepcopy(mean)):
        np.testing.assert_array_equal(same.decision_function(X), mean.decision_function(X))


def test_training_goes_on_with_the_common_weight(seed):
    X, y = histories(seed, NEVER, n=3000)
    seen = X.toarray() > 0
    for model in (fitted(X[:2000], y[:2000], seed), SoftmaxClassifier(model="hybrid", dim=8, random_state=seed)):
        model.partial_fit(X[:2000], y[:2000], classes=np.arange(K))
        model.partial_fit(X[2000:], y[2000:])
        # Naive Bayes of a stream's first fits knows of no repeats, and leaves some .02 for them.
        assert on_what_rows_have(model, X, seen) < 0.03


def prefixes(seed, n_sequences, mean_length, n_items=60):
    """Rows that are prefixes of made sequences, in a random order: sets of items, the next item, the sequence."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(n_sequences):
        # Items of a sequence are near each other, so that the next one can be told; some come again.
        items = (rng.integers(n_items) + rng.integers(0, 6, 2 + rng.poisson(mean_length - 1))) % n_items
        rows += [(frozenset(items[: t + 1].tolist()), int(items[t + 1]), s) for t in range(len(items) - 1)]
    return [rows[i] for i in rng.permutation(len(rows))]


def matrix(rows, n_items=60):
    X = sp.lil_array((len(rows), n_items), dtype=np.float32)
    for i, (items, _, _) in enumerate(rows):
        X[i, sorted(items)] = 1
    return sp.csr_array(X), np.array([label for _, label, _ in rows])


@pytest.mark.parametrize("most", [1, 3])
def test_the_rows_of_a_sequence_are_those_that_follow_by_their_sets(seed, most):
    rows = prefixes(seed, 40, 3.0)
    X, y = matrix(rows)
    asked = np.random.default_rng(seed).choice(len(rows), 5, replace=False).astype(np.int32)
    sets, with_label = [items for items, _, _ in rows], [items | {label} for items, label, _ in rows]
    together, front = set(asked.tolist()), asked.tolist()
    while front:
        i = front.pop()
        for found in (
            [j for j, items in enumerate(sets) if items == with_label[i]],
            [j for j, items in enumerate(with_label) if items == sets[i]],
        ):
            new = set(found) - together if len(found) <= most else set()
            together |= new
            front += sorted(new)
    first = sum(len(items) == 1 for items in sets)
    follow = sum(
        any(after == items != before for after, before in zip(with_label, sets, strict=True))
        for items in sets
        if len(items) > 1
    )
    given = {"indptr": X.indptr.astype(np.int64), "features": X.indices, "next": y.astype(np.int32), "rows": asked}
    a_sequence, following, found = _core.sequence_rows(**given, most=most)
    assert found.tolist() == sorted(together)
    assert a_sequence == len(rows) / first
    assert following == pytest.approx(follow / (len(rows) - first))


def test_rows_without_items_or_labels_are_of_no_sequence():
    given = {"indptr": np.array([0, 0, 2]), "features": np.array([3, 4], np.int32), "next": np.array([-1, 7], np.int32)}
    assert _core.sequence_rows(**given, rows=np.array([1], np.int32), most=3) == (np.inf, 0.0, [1])
    with pytest.raises(ValueError, match="a row is out of range"):
        _core.sequence_rows(**given, rows=np.array([2], np.int32), most=3)
    with pytest.raises(ValueError, match="indptr does not fit"):
        _core.sequence_rows(**given | {"indptr": np.array([0, 3, 2])}, rows=np.array([1], np.int32), most=3)


@pytest.mark.parametrize(("mean_length", "whole"), [(2.5, True), (9.0, False)])
def test_whole_sequences_are_held_out_where_they_are_short(seed, mean_length, whole, monkeypatch):
    rows = prefixes(seed, int(2500 / mean_length), mean_length, 400)
    X, y = matrix(rows, 400)
    told = []
    original = blend.best_mixture
    monkeypatch.setattr(blend, "best_mixture", lambda *given: told.append(given[2].x) or original(*given))
    SoftmaxClassifier(model="hybrid", max_iter=1, n_models=1, random_state=seed).fit(X, y)
    # Rows of classes that no other row has tell nothing, so that a few of those held out are missing.
    n_held = int(0.05 * len(rows))
    if not whole:
        assert 0.9 * n_held <= told[0].shape[0] <= n_held
        return
    assert 1.5 * n_held <= told[0].shape[0] <= 3 * n_held
    held = {tuple(told[0][[i]].indices.tolist()) for i in range(told[0].shape[0])}
    sequences = {s for items, _, s in rows if len(items) > 2 and tuple(sorted(items)) in held}
    assert np.mean([tuple(sorted(items)) in held for items, _, s in rows if s in sequences]) > 0.8
