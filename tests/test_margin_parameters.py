"""Parameters of MarginClassifier, and of SoftmaxClassifier with several labels, embeddings or a search."""

import numpy as np
import pytest
from reference.problems import near_vertices

from manyclass import MarginClassifier, SoftmaxClassifier

N, D, K = 60, 9, 12


@pytest.fixture(name="y")
def single_labels(seed):
    return near_vertices(seed, N, D, K)[1]


@pytest.fixture(name="X")
def points(seed):
    return near_vertices(seed, N, D, K)[0]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            MarginClassifier(embedding_dim=0),
            "embedding_dim is 0; it must be finite, at least 1 and at most 1.04858e+06",
        ),
        (MarginClassifier(activation="relu"), "activation is 'relu', which needs embedding_dim"),
        (MarginClassifier(activation="tanh"), "activation is 'tanh'; it must be one of 'linear', 'relu'"),
        (
            MarginClassifier(search="x"),
            "search is 'x'; it must be one of 'exact', 'sampled', 'mips', 'decomposed', 'messages'",
        ),
        (MarginClassifier(budget=0), "budget is 0; it must be finite, at least 1"),
        (MarginClassifier(batch_size=0), "batch_size is 0; it must be finite, at least 1"),
        (MarginClassifier(max_iter=0), "max_iter is 0; it must be finite, at least 1"),
        (MarginClassifier(n_negatives=0), "n_negatives is 0; it must be finite, at least 1"),
        (MarginClassifier(warm_up=-1), "warm_up is -1; it must be finite, at least 0"),
        (MarginClassifier(smoothing=-1), "smoothing is -1; it must be finite, at least 0"),
        (MarginClassifier(loss="hinge"), "loss is 'hinge'; it must be one of 'margin', 'triplet'"),
        (MarginClassifier(step="x"), "step is 'x'; it must be one of 'explicit', 'implicit'"),
        (MarginClassifier(learning_rate=0), "learning_rate is 0; it must be finite, more than 0"),
        (MarginClassifier(decay=2), "decay is 2; it must be finite, more than 0 and at most 1"),
        (MarginClassifier(step="implicit"), "step='implicit' needs loss='margin', a schedule other than 'adaptive'"),
        (MarginClassifier(step="implicit", schedule="constant", loss="triplet"), "step='implicit' needs loss='margin'"),
        (MarginClassifier(step="implicit", schedule="constant", embedding_dim=2), "step='implicit' needs"),
        (
            SoftmaxClassifier(embedding_dim=4, alpha=1.0),
            "alpha is 1.0; with several labels, embedding_dim or search it must be 'auto'",
        ),
        (SoftmaxClassifier(search="mips", solver="umax"), "solver is 'umax'; with several labels"),
        (SoftmaxClassifier(search="exact", max_norm=1.0), "max_norm is 1.0; with several labels"),
        (SoftmaxClassifier(embedding_dim=4, early_stopping=True), "early_stopping is True; with several labels"),
        (SoftmaxClassifier(activation="relu"), "activation is 'relu', which needs embedding_dim"),
    ],
    ids=repr,
)
def test_a_parameter_out_of_range_is_refused_with_its_value_and_the_rule(estimator, message, X, y):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared below
        estimator.fit(X, y)
    assert str(caught.value).startswith(message)


def test_candidates_and_flags_that_are_none_are_refused(X, y):
    with pytest.raises(ValueError, match="candidates are given; they are for selection='head_tail'"):
        SoftmaxClassifier(embedding_dim=4).fit(X, y, candidates=np.zeros((N, 2), dtype=np.int64))
    with pytest.raises(TypeError, match="log_q is 1; it must be True or False"):
        SoftmaxClassifier(embedding_dim=4, log_q=1).fit(X, y)
    with pytest.raises(TypeError, match="share_classes is 2; it must be True or False"):
        MarginClassifier(share_classes=2).fit(X, y)
    with pytest.raises(TypeError, match="share_classes is 'no'; it must be True or False"):
        SoftmaxClassifier(embedding_dim=4, share_classes="no").fit(X, y)
    with pytest.raises(TypeError, match="embedding_dim is 'some'; it must be an integer"):
        SoftmaxClassifier(embedding_dim="some").fit(X, y)


def test_the_softmax_with_a_search_takes_an_adaptive_schedule_at_any_rate(X, y):
    SoftmaxClassifier(search="exact", schedule="adaptive", learning_rate=0.5).fit(X, y)


@pytest.mark.parametrize("name", ["decomposed", "messages"])
def test_a_search_by_blocks_takes_fewer_columns_than_it_has_blocks_by_default(name, X, y):
    MarginClassifier(search=name, random_state=0).fit(X[:, :3], y)
