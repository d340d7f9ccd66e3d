"""What a SoftmaxClassifier with nothing set trains where rows have several labels, and how many weights a row meets."""

import numpy as np
import pytest
import scipy.sparse as sp
from test_postings import indicator, some_rows

from manyclass import SoftmaxClassifier
from manyclass.estimators import postings
from manyclass.estimators.plans import Chosen
from manyclass.models import Hybrid
from manyclass.training.plan import Labels

NONE = Chosen(None, None, Hybrid())


def lists_of(P):
    return Labels(np.cumsum([0, *map(len, P)]), np.concatenate(P).astype(np.int32))


def names(model):
    return {name: getattr(part, "name", part) for name, part in model.resolved_params_.items()}


@pytest.mark.parametrize("least", [1, 2, 5])
def test_weights_met_are_counted_from_a_sample_of_features(least, seed):
    X, P = some_rows(seed, n=300, n_classes=30)
    Y = indicator(P, 30)
    pairs = (X != 0).astype(int).T @ Y >= least  # (D, K)
    true = ((X != 0) @ pairs.sum(axis=1)).mean()
    found = postings.weights_met(sp.csr_array(X), lists_of(P), 30)[least]
    # 256 of the stored values, whose features differ by their number of classes.
    of_value = pairs.sum(axis=1)[np.nonzero(X)[1]]
    error = of_value.std() / of_value.mean() / 256**0.5 if true else 0
    assert found == pytest.approx(true, rel=5 * error + 1e-6)
    assert found == postings.weights_met(X, lists_of(P), 30)[least]


def test_no_row_meets_a_weight_of_empty_rows():
    assert set(postings.weights_met(np.zeros((4, 3), np.float32), lists_of([[0]] * 4), 2).values()) == {0.0}


def test_several_labels_of_sparse_rows_get_a_hybrid(seed):
    X, P = some_rows(seed, n=200)
    model = SoftmaxClassifier(random_state=seed).fit(X, indicator(P))
    by_hand = SoftmaxClassifier(model="hybrid", random_state=seed).fit(X, indicator(P))
    np.testing.assert_array_equal(model.decision_function(X), by_hand.decision_function(X))
    assert names(model)["model"] == "hybrid"
    again = SoftmaxClassifier(random_state=seed, **model.resolved_params_).fit(X, indicator(P))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_pairs_of_few_rows_are_left_out_where_rows_meet_too_many(seed, monkeypatch):
    X, P = some_rows(seed, n=200, n_classes=60)
    met = postings.weights_met(X, lists_of(P), 60)
    assert met[1] > met[5] > 0
    monkeypatch.setattr(postings, "MOST_MET", met[5])
    model = SoftmaxClassifier(random_state=seed).fit(X, indicator(P, 60))
    assert 1 < model.resolved_params_["model"].min_count <= 5
    monkeypatch.setattr(postings, "MOST_MET", -1.0)
    model = SoftmaxClassifier(random_state=seed).fit(X, indicator(P, 60))
    assert names(model)["model"] == "embedding"
    assert model.resolved_params_["solver"].reduction == "decoupled"


@pytest.mark.parametrize(
    "given",
    [{"solver": "adagrad"}, {"sampler": "all"}, {"model": "linear"}, {"learning_rate": 0.1}, {"alpha": 0}],
    ids=lambda given: next(iter(given)),
)
def test_what_is_set_by_hand_keeps_the_linear_model(given, seed):
    X, P = some_rows(seed)
    assert SoftmaxClassifier(random_state=seed, max_iter=2, **given).fit(X, indicator(P)).coef_.shape == (9, 12)


def test_dense_rows_keep_the_linear_model(seed):
    _, P = some_rows(seed)
    X = np.random.default_rng(seed).normal(size=(len(P), 6))
    model = SoftmaxClassifier(random_state=seed, max_iter=2).fit(X, indicator(P))
    assert model.coef_.shape == (9, 6)


@pytest.mark.parametrize(("n_labels", "loss"), [(1.0, "cross_entropy"), (2.4, "margin"), (19.0, "decoupled")])
def test_embeddings_beside_pairs_have_the_loss_of_the_number_of_labels(n_labels, loss):
    X, _ = some_rows(0)
    settled = postings.settle_hybrid(SoftmaxClassifier(random_state=0), NONE, sp.csr_array(X), 9, n_labels=n_labels)
    assert settled.plan.embeddings.loss == loss
