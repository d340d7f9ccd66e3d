"""Sets that hold the right label as often as promised, and ancestors: by the definition, on planted data, in files."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load
from manyclass.classifiers.predictions import state_of
from manyclass.datasets import make_planted

K, N_TO_SET, N_NEW = 60, 1_500, 4_000


@pytest.fixture(scope="module")
def planted():
    return make_planted(3_000, n_classes=K, n_features=40, n_test=N_TO_SET + N_NEW, random_state=0)


@pytest.fixture(scope="module", params=["softmax", "margin", "probit", "overconfident"])
def model(request, planted):
    made = {
        "softmax": SoftmaxClassifier(solver="implicit", model="linear", max_iter=4, random_state=0),
        "margin": MarginClassifier(max_iter=3, calibration="temperature", random_state=0),
        "probit": AugmentReduceClassifier(max_iter=4, random_state=0),
        "overconfident": SoftmaxClassifier(solver="implicit", model="linear", max_iter=4, random_state=0),
    }[request.param].fit(planted.X, planted.y)
    if request.param == "overconfident":
        state_of(made).weights.multiply_scores(4.0)
    return made


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_the_right_label_is_in_the_set_as_often_as_promised(model, planted, coverage, seed):
    order = np.random.default_rng(seed).permutation(N_TO_SET + N_NEW)
    to_set, new = order[:N_TO_SET], order[N_TO_SET:]
    model.calibrate_sets(planted.X_test[to_set], planted.y_test[to_set], coverage)
    sets = model.predict_set(planted.X_test[new], coverage)
    covered = np.mean([label in some for label, some in zip(planted.y_test[new], sets, strict=True)])
    # Coverage given the threshold is a beta variable of 0.8 x 1,500 rows, around which 4,000 new rows draw: 4.5 errors.
    error = math.sqrt(coverage * (1 - coverage) * (1 / (0.8 * N_TO_SET) + 1 / N_NEW))
    first = np.mean(model.predict(planted.X_test[new]) == planted.y_test[new])
    assert covered > coverage - 4.5 * error
    assert covered < max(coverage, first) + 4.5 * error + 1 / N_TO_SET  # no more than it has to be
    assert min(map(len, sets)) >= 1


def test_a_set_has_the_labels_whose_score_is_at_most_the_threshold(model, planted):
    X, y = planted.X_test, planted.y_test
    model.calibrate_sets(X[:N_TO_SET], y[:N_TO_SET], [0.9, 0.7])
    for coverage, rule in zip((0.9, 0.7), state_of(model).sets, strict=True):
        p = model.predict_proba(X[-40:])
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        before = np.cumsum(ranked, axis=1) - ranked
        score = before + rule.penalty * np.maximum(np.arange(1, K + 1) - rule.free_rank, 0)
        for labels, some, of_row in zip(model.predict_set(X[-40:], coverage), order, score, strict=True):
            assert labels.tolist() == model.classes_[some[: max(1, np.sum(of_row <= rule.threshold))]].tolist()


def test_the_threshold_is_the_smallest_score_that_covers_enough_rows(planted):
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(planted.X, planted.y)
    X, y = planted.X_test[:300], planted.y_test[:300]
    model.calibrate_sets(X, y)
    others = np.sort(np.random.default_rng(0).permutation(300)[60:])  # a fifth chooses the penalty
    sets = model.predict_set(X[others])
    covered = sum(label in some for label, some in zip(y[others], sets, strict=True))
    assert covered == math.ceil(241 * 0.9)


def test_a_penalty_keeps_sets_small_where_tails_are_long():
    # 2,000 classes, of which a row's is one of 30 of its group for all that can be known; the model knows less yet.
    rng = np.random.default_rng(0)
    y = rng.integers(2_000, size=20_000)
    X = sp.csr_array((np.ones(len(y), np.float32), y % 67, np.arange(len(y) + 1)), shape=(len(y), 67))
    model = SoftmaxClassifier(model="linear", solver="implicit", max_iter=1, random_state=0).fit(X[:12_000], y[:12_000])
    model.calibrate_sets(X[12_000:15_000], y[12_000:15_000])
    sets = model.predict_set(X[15_000:])
    covered = np.mean([label in some for label, some in zip(y[15_000:], sets, strict=True)])
    assert covered == pytest.approx(0.9, abs=4.5 * math.sqrt(0.09 * (1 / 2_400 + 1 / 5_000)))
    assert np.mean([*map(len, sets)]) < 1_000


def test_labels_that_were_never_seen_count_as_missed(planted):
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(planted.X, planted.y)
    y = planted.y_test[:400].copy()
    y[::10] = 10**6
    model.calibrate_sets(planted.X_test[:400], y, 0.8)  # nine of ten can be covered at most
    with pytest.raises(ValueError, match=r"coverage is 0.95, for which 400 rows, 40 of them of labels that the model"):
        model.calibrate_sets(planted.X_test[:400], y, 0.95)
    with pytest.raises(ValueError, match=r"coverage is 0.99, for which 20 rows, 0 of them"):
        model.calibrate_sets(planted.X_test[:20], planted.y_test[:20], 0.99)


def test_rules_go_with_the_model_and_are_gone_with_its_weights(planted, tmp_path):
    X, y = planted.X_test[:500], planted.y_test[:500]
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(planted.X, planted.y)
    model.calibrate_sets(X, y)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert state_of(again).sets == state_of(model).sets
    assert all(np.array_equal(a, b) for a, b in zip(again.predict_set(X), model.predict_set(X), strict=True))
    for other in (model.compress(), again.partial_fit(X, y), model.fit(planted.X, planted.y)):
        with pytest.raises(ValueError, match=r"calibrate_sets\(X, y, coverage\) was given none"):
            other.predict_set(X)


def test_where_there_are_no_probabilities_of_one_label_there_are_no_sets(planted):
    X, y = planted.X[:400], planted.y[:400]
    margin = MarginClassifier(max_iter=1, random_state=0).fit(X, y)
    several = SoftmaxClassifier(model="pairs", max_iter=1, random_state=0).fit(X, np.eye(K, dtype=int)[y])
    for model, why in ((margin, "has no probabilities"), (several, "was fitted on several")):
        with pytest.raises(ValueError, match=f"calibrate_sets is for probabilities of one label a row.*{why}"):
            model.calibrate_sets(X, y)
        with pytest.raises(ValueError, match=f"predict_ancestor is for .*{why}"):
            model.predict_ancestor(X, {})


# Ancestors

PARENTS = {"ant": "insect", "bee": "insect", "cow": "mammal", "dog": "mammal", "insect": "animal", "mammal": "animal"}


@pytest.fixture(scope="module")
def zoo():
    rng = np.random.default_rng(0)
    labels = rng.choice(["ant", "bee", "cow", "dog", "elm"], size=600)
    X = np.stack([rng.normal(size=600) + 2 * (labels == name) for name in np.unique(labels)], axis=1)
    return SoftmaxClassifier(solver="lbfgs", alpha=1e-3).fit(X, labels), X[:80]


@pytest.mark.parametrize("least", [0.3, 0.5, 0.7, 0.95, 1.0])
def test_the_deepest_node_that_is_probable_enough_is_found(zoo, least):
    model, X = zoo
    p = model.predict_proba(X)
    found, told = model.predict_ancestor(X, PARENTS, min_probability=least)
    depth = {"ant": 3, "bee": 3, "cow": 3, "dog": 3, "insect": 2, "mammal": 2, "animal": 1, "elm": 1}
    for row, node, sure in zip(p, found, told, strict=True):
        sums = dict(zip(model.classes_, row, strict=True))
        sums |= {"insect": sums["ant"] + sums["bee"], "mammal": sums["cow"] + sums["dog"]}
        sums["animal"] = sums["insect"] + sums["mammal"]
        enough = [(depth[name], q, name) for name, q in sums.items() if q >= least]
        if enough:
            assert node == max(enough)[2]
            assert sure == pytest.approx(sums[node])
        else:
            assert (node, sure) == (None, 1)


def test_without_parents_a_class_stands_for_itself_and_a_circle_is_an_error(zoo):
    model, X = zoo
    found, told = model.predict_ancestor(X, {}, min_probability=0.01)
    assert found.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(told, model.predict_proba(X).max(axis=1))
    with pytest.raises(ValueError, match="parents have a circle: cow, mammal"):
        model.predict_ancestor(X, {"cow": "mammal", "mammal": "cow"})
    with pytest.raises(ValueError, match="min_probability is 0"):
        model.predict_ancestor(X, PARENTS, min_probability=0)


# Coverage of classes


N_HARD = 10


@pytest.fixture(scope="module")
def uneven():
    """Classes of which some are hard to tell, and some rare: a model, rows for sets, and new rows."""
    rng, n_classes, n_features = np.random.default_rng(0), 30, 12
    centers = 3 * rng.normal(size=(n_classes, n_features))
    shares = np.where(np.arange(n_classes) % 2, 1.0, 3.0)

    def drawn(n):
        y = rng.choice(n_classes, size=n, p=shares / shares.sum())
        return (centers[y] + rng.normal(size=(n, n_features)) * np.where(y < N_HARD, 5, 1)[:, np.newaxis]).astype(
            np.float32
        ), y

    model = SoftmaxClassifier(model="linear", random_state=0).fit(*drawn(3_000))
    return model, drawn(6_000), drawn(12_000)


def shares_by_class(sets, y):
    covered = np.array([label in some for label, some in zip(y, sets, strict=True)])
    return np.bincount(y, covered) / np.bincount(y)


@pytest.mark.parametrize("by", ["class", "cluster"])
def test_each_class_is_covered_as_often_as_promised(by, uneven, tmp_path):
    model, rows, (X, y) = uneven
    plain = shares_by_class(model.calibrate_sets(*rows).predict_set(X), y)
    model.calibrate_sets(*rows, [0.9, 0.8], by=by)
    sets = model.predict_set(X)
    shares, n, n_new = shares_by_class(sets, y), np.bincount(rows[1]), np.bincount(y)
    errors = np.sqrt(0.09 * (1 / n + 1 / n_new))
    assert plain[:N_HARD].mean() < 0.87  # of all rows alike, hard classes are covered less often
    assert np.all(np.abs(shares - 0.9) < 5 * errors + (0.05 if by == "cluster" else 1 / n))
    assert shares[:N_HARD].mean() == pytest.approx(0.9, abs=0.03)
    assert np.mean([*map(len, model.predict_set(X, 0.8))]) < np.mean([*map(len, sets)])
    assert min(map(len, sets)) >= 1
    model.save(tmp_path / "m")
    for some, others in zip(sets[:500], load(tmp_path / "m").predict_set(X[:500]), strict=True):
        np.testing.assert_array_equal(some, others)
    p = model.predict_proba(X[:50])
    for row, labels in enumerate(sets[:50]):  # best first
        assert (np.diff(p[row, labels]) <= 0).all()


def test_limits_are_quantiles_of_the_rows_of_a_class(uneven):
    model, (X, y), _ = uneven
    y = np.where(y == 3, np.where(np.arange(len(y)) < 100, 3, 99), y)  # a class of few rows, and labels never seen
    model.calibrate_sets(X, y, by="class")
    log_p = model.predict_log_proba(X)
    for label in range(30):
        own = np.sort(-log_p[y == label, label])
        rank = math.ceil((len(own) + 1) * 0.9)
        limit = -own[rank - 1] if rank <= len(own) else -np.inf
        assert state_of(model).sets[0].limits[label] == pytest.approx(limit, abs=1e-4)
    assert state_of(model).sets[0].limits[3] == -np.inf
    model.calibrate_sets(X, y, by="prevalence")
    counts = model.class_count_
    scores = np.sort(
        [-log_p[row, label] + np.log(counts[label]) if label < 30 else np.inf for row, label in enumerate(y)]
    )
    limit = scores[math.ceil((len(y) + 1) * 0.9) - 1]
    np.testing.assert_allclose(state_of(model).sets[0].limits, np.log(counts) - limit, atol=1e-4)


def test_rare_classes_are_covered_more_often_by_prevalence(uneven):
    model, rows, (X, y) = uneven
    covered = {}
    for by in (None, "prevalence"):
        sets = model.calibrate_sets(*rows, by=by).predict_set(X)
        covered[by] = np.array([label in some for label, some in zip(y, sets, strict=True)])
        assert covered[by].mean() == pytest.approx(0.9, abs=0.025)
    rare = y % 2 == 1
    assert covered["prevalence"][rare].mean() > covered[None][rare].mean() + 0.005


def test_what_coverage_of_classes_cannot_do_is_refused(uneven):
    model, rows, _ = uneven
    with pytest.raises(ValueError, match="by is 'clas'; it must be one of 'class', 'cluster', 'prevalence'"):
        model.calibrate_sets(*rows, by="clas")
    few = model.calibrate_sets(rows[0][:30], rows[1][:30], by="cluster")  # all share one limit, by all rows
    assert len(np.unique(state_of(few).sets[0].limits)) == 1
