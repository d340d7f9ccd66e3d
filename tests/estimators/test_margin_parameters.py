"""Parameters of MarginClassifier, and of SoftmaxClassifier with several labels, embeddings or a search."""

import numpy as np
import pytest
from reference.problems import near_vertices

from manyclass import MarginClassifier, SoftmaxClassifier, models, samplers, solvers

N, D, K = 60, 9, 12


@pytest.fixture(name="y")
def single_labels(seed):
    return near_vertices(seed, N, D, K)[1]


@pytest.fixture(name="X")
def points(seed):
    return near_vertices(seed, N, D, K)[0]


EMBEDDED = {"model": "embedding", "dim": 4}


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            MarginClassifier(model="embedding", dim=0),
            "dim is 0; it must be at least 1 and at most 1048576",
        ),
        (MarginClassifier(dim=3), "dim is 3, which has no effect"),
        (
            MarginClassifier(model=models.Embedding(activation="tanh")),
            "activation is 'tanh'; it must be one of 'linear', 'relu'",
        ),
        (
            MarginClassifier(sampler="x"),
            "sampler is 'x'; it must be one of 'auto', 'block', 'uniform', 'all', 'frequency', 'frequency_block', ",
        ),
        (
            MarginClassifier(sampler=samplers.Search(index="x")),
            "index is 'x'; it must be one of 'mips', 'decomposed', 'messages'",
        ),
        (MarginClassifier(sampler=samplers.Search(budget=0)), "budget is 0; it must be at least 1"),
        (MarginClassifier(sampler=samplers.Search(warm_up=-1)), "warm_up is -1; it must be at least 0"),
        (MarginClassifier(sampler=samplers.Search(warm_up=0), n_negatives=9), "n_negatives is 9, which has no effect"),
        (MarginClassifier(sampler="all", n_negatives=9), "n_negatives is 9, which has no effect"),
        (MarginClassifier(solver=solvers.Adagrad(batch_size=0)), "batch_size is 0; it must be at least 1"),
        (MarginClassifier(max_iter=0), "max_iter is 0; it must be at least 1"),
        (MarginClassifier(n_negatives=0), "n_negatives is 0; it must be at least 1"),
        (MarginClassifier(smoothing=-1), "smoothing is -1; it must be finite, at least 0"),
        (MarginClassifier(loss="triplet", smoothing=2.0), "smoothing is 2.0, which has no effect"),
        (MarginClassifier(loss="hinge"), "loss is 'hinge'; it must be one of 'margin', 'triplet'"),
        (
            MarginClassifier(solver="umax"),
            "solver is 'umax'; it must be one of 'adagrad', 'sgd', 'implicit' or an object of manyclass.solvers",
        ),
        (MarginClassifier(learning_rate=0), "learning_rate is 0; it must be finite, more than 0"),
        (
            MarginClassifier(solver=solvers.SGD(decay=2)),
            "decay is 2; it must be finite, more than 0 and at most 1",
        ),
        (
            MarginClassifier(solver=solvers.SGD(schedule="inverse", decay=0.5)),
            "decay is 0.5, which has no effect with schedule='inverse'",
        ),
        (MarginClassifier(solver=solvers.SGD(averaging="polyak")), "sgd: averaging is 'polyak', which has no effect"),
        (MarginClassifier(solver=solvers.SGD(parallel="hogwild")), "sgd: parallel is 'hogwild', which has no effect"),
        (MarginClassifier(solver=solvers.Implicit(root="bisection")), "implicit: root is 'bisection', which has no"),
        (MarginClassifier(solver="implicit", loss="triplet"), "solver='implicit' needs loss='margin' and no"),
        (MarginClassifier(solver="implicit", **EMBEDDED), "solver='implicit' needs loss='margin' and no embeddings"),
        (SoftmaxClassifier(model="hybrid", sampler="search", alpha=1.0), "alpha is 1.0, which has no effect with"),
        (SoftmaxClassifier(**EMBEDDED, learning_rate="grid"), "learning_rate is 'grid', which needs a linear model"),
        (SoftmaxClassifier(sampler="search", solver="bregman"), "solver is 'bregman'; with several labels"),
        (SoftmaxClassifier(sampler="search", solver="umax"), "sampler is 'search'; solver 'umax' needs one"),
        (
            SoftmaxClassifier(**EMBEDDED, solver=solvers.Exact(max_norm=1.0)),
            "exact: max_norm is 1.0, which has no effect with several labels",
        ),
        (SoftmaxClassifier(**EMBEDDED, solver="exact", sampler="frequency"), "sampler is 'frequency'; solver 'exact'"),
        (
            SoftmaxClassifier(**EMBEDDED, sampler="head_tail"),
            "sampler is 'head_tail', which needs a linear model of one label a row",
        ),
        (
            SoftmaxClassifier(**EMBEDDED, validation_fraction=0.2),
            "validation_fraction is 0.2, which has no effect with several",
        ),
        (SoftmaxClassifier(model="linear", dim=4), "dim is 4, which needs model='embedding'"),
    ],
    ids=repr,
)
def test_a_parameter_out_of_range_or_without_effect_is_refused_with_its_value_and_the_rule(estimator, message, X, y):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared below
        estimator.fit(X, y)
    assert str(caught.value).startswith(message)


def test_candidates_and_flags_that_are_none_are_refused(X, y):
    with pytest.raises(ValueError, match="candidates are given; they are for sampler='head_tail'"):
        SoftmaxClassifier(**EMBEDDED).fit(X, y, candidates=np.zeros((N, 2), dtype=np.int64))
    for own in ({"log_q": 1}, {"share_classes": 2}, {"share_classes": "no"}):
        ((name, value),) = own.items()
        with pytest.raises(TypeError, match=f"{name} is {value!r}; it must be True or False"):
            SoftmaxClassifier(**EMBEDDED, solver=solvers.Adagrad(**own)).fit(X, y)
    with pytest.raises(ValueError, match="dim is 'some'; it must be a number or 'auto'"):
        SoftmaxClassifier(model="embedding", dim="some").fit(X, y)
    with pytest.raises(TypeError, match="dim is None; it must be an integer"):
        SoftmaxClassifier(model="embedding", dim=None).fit(X, y)


def test_adagrad_takes_any_rate(X, y):
    one, other = (
        SoftmaxClassifier(solver="adagrad", learning_rate=rate, random_state=0).fit(X, y) for rate in (0.5, 1.0)
    )
    assert not np.array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("name", ["decomposed", "messages"])
def test_a_search_by_blocks_takes_fewer_columns_than_it_has_blocks_by_default(name, X, y):
    MarginClassifier(sampler=samplers.Search(index=name), random_state=0).fit(X[:, :3], y)
