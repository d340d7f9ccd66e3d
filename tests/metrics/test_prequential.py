"""Prequential evaluation: each part is scored by the model that has seen only those before it."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from test_epoch import small_problem

from manyclass import MarginClassifier, SoftmaxClassifier, plot
from manyclass.metrics import prequential


def some_parts(seed, n=4):
    X, y = small_problem(seed)
    order = np.random.default_rng(seed).permutation(4 * len(y)) % len(y)
    return [(X[rows], y[rows]) for rows in np.array_split(order, n)]


@pytest.mark.parametrize("unseen", ["drop", "log_k"])
def test_each_part_is_scored_by_the_model_before_it(unseen, seed):
    parts = some_parts(seed)
    parts[2] = (parts[2][0], np.where(np.arange(len(parts[2][1])) % 3 == 0, 50, parts[2][1]))
    model = SoftmaxClassifier(solver="implicit", random_state=0).fit(*parts[0])
    slow = copy.deepcopy(model)
    table = prequential(model, iter(parts[1:]), unseen=unseen, n_passes=2, half_life=100)
    for at, (X, y) in enumerate(parts[1:]):
        # By the definition: -log p of the label, log K where there is none.
        p, own = slow.predict_proba(X), np.searchsorted(slow.classes_, y)
        seen = np.isin(y, slow.classes_)
        losses = np.full(len(y), np.log(len(slow.classes_)))
        losses[seen] = -np.log(p[np.flatnonzero(seen), own[seen]])
        right = np.zeros(len(y))
        right[seen] = p[seen].argmax(axis=1) == own[seen]
        counted = seen if unseen == "drop" else np.ones(len(y), dtype=bool)
        assert table["log_loss"][at] == pytest.approx(losses[counted].mean(), rel=1e-4)  # scores are of float32
        assert table["accuracy"][at] == pytest.approx(right[counted].mean())
        assert table["n_unseen"][at] == np.sum(~seen)
        assert table["n_rows"][at] == len(y)
        assert table["n_classes"][at] == len(slow.classes_)
        slow.partial_fit(X, y, n_passes=2, half_life=100)
    np.testing.assert_array_equal(model.coef_, slow.coef_)
    assert table["n_unseen"][1] > 0
    assert set(map(len, table.values())) == {3}
    assert (table["seconds"] >= 0).all()


def test_a_model_may_begin_with_the_first_part(seed):
    parts = some_parts(seed)
    model = SoftmaxClassifier(solver="implicit", random_state=0)
    table = prequential(model, parts, classes=np.arange(30))
    assert np.isnan(table["log_loss"][0])
    assert np.isfinite(table["log_loss"][1:]).all()
    assert table["n_classes"].tolist() == [0, 30, 30, 30]
    assert not table["n_unseen"][1:].any()
    plot.loss_over_time({"softmax": table["log_loss"].tolist()})


def test_a_part_of_new_labels_only_has_no_loss_or_log_k(seed):
    X, y = small_problem(seed)
    for unseen, loss, accuracy in (("drop", np.nan, np.nan), ("log_k", np.log(21), 0.0)):
        model = SoftmaxClassifier(solver="implicit", random_state=0).fit(X, y)
        table = prequential(model, [(X, y + 21)], unseen=unseen)
        np.testing.assert_allclose(table["log_loss"], [loss])
        np.testing.assert_allclose(table["accuracy"], [accuracy])


def test_other_libraries_are_scored_by_their_probabilities(seed):
    parts = [(sp.csr_matrix(X), y) for X, y in some_parts(seed)]
    peer = SGDClassifier(loss="log_loss", random_state=0)
    slow = copy.deepcopy(peer).partial_fit(*parts[0], classes=np.arange(21))
    table = prequential(peer, parts[:2], classes=np.arange(21))
    expected = log_loss(parts[1][1], slow.predict_proba(parts[1][0]), labels=np.arange(21))
    assert table["log_loss"][1] == pytest.approx(expected)
    assert table["accuracy"][1] == pytest.approx(slow.score(*parts[1]))


def test_models_without_probabilities_have_accuracies(seed):
    parts = some_parts(seed)
    table = prequential(MarginClassifier(max_iter=2, random_state=0).fit(*parts[0]), parts[1:])
    assert np.isnan(table["log_loss"]).all()
    assert (table["accuracy"] > 0).all()
    X, y = parts[0]
    of_new = prequential(MarginClassifier(max_iter=2, random_state=0).fit(X, y), [(X, y + 50)], unseen="log_k")
    assert np.isnan(of_new["log_loss"]).all()
    assert of_new["accuracy"].tolist() == [0]


@pytest.mark.parametrize("model", ["pairs", "embedding"])
def test_several_labels_are_scored_too(model, seed):
    parts = [(X, np.eye(21, dtype=int)[y]) for X, y in some_parts(seed)]
    classifier = SoftmaxClassifier(model=model, **({"dim": 4} if model == "embedding" else {}), random_state=0)
    slow = copy.deepcopy(classifier).partial_fit(*parts[0])
    table = prequential(classifier, parts[:2])
    assert table["log_loss"][1] == pytest.approx(slow.evaluate(*parts[1])["log_loss"])


def test_wrong_input_is_told(seed):
    X, y = small_problem(seed)
    model = SoftmaxClassifier(solver="implicit", random_state=0)
    with pytest.raises(ValueError, match="unseen is 'skip'; it must be one of 'drop', 'log_k'"):
        prequential(model, [(X, y)], unseen="skip")
    with pytest.raises(ValueError, match="there are no parts"):
        prequential(model, [])
    with pytest.raises(ValueError, match="part 1 has no rows"):
        prequential(model, [(X, y), (X[:0], y[:0])])
    with pytest.raises(TypeError, match="model is a dict, which has no partial_fit"):
        prequential({}, [(X, y)])
