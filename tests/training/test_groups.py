"""Groups: rows that stand together are held out together, wherever a fit holds rows out."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core, tune_learning_rate
from manyclass.datasets import SequenceEncoder, Stream
from manyclass.datasets.logs import Histories
from manyclass.fitting.points import grouped
from manyclass.training.plan import Labels, draw_folds, draw_rows_out, join_groups
from manyclass.training.state import Features, Points

CLASSIFIERS = [SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier]


def rows_of_people(seed, n_classes=20, n_people=8, n_new=20, n_features=40, copies=4):
    """Rows of some people and of new ones: everyone writes each class in a way of their own, over and over."""
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.normal(size=n_features))
    classes = 0.2 * rng.normal(size=(n_classes, n_features))
    sets = []
    for n in (n_people, n_new):
        own = classes + spread * rng.normal(size=(n, n_classes, n_features))
        X = np.repeat(own.reshape(-1, n_features), copies, axis=0)
        X = X + 0.02 * rng.normal(size=X.shape)
        y, people = np.tile(np.repeat(np.arange(n_classes), copies), n), np.repeat(np.arange(n), n_classes * copies)
        sets.append((X.astype(np.float32), y, people))
    return sets


def quiet_fit(model, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **options)


# The draw


@pytest.mark.parametrize("labelled", [False, True])
def test_whole_groups_are_drawn_up_to_a_number_of_rows(labelled, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 60, size=1000)
    labels = Labels.single(rng.integers(0, 5, size=1000).astype(np.int32)) if labelled else None
    is_out = draw_rows_out(100, 1000, np.random.RandomState(seed), groups, labels)
    assert not set(groups[is_out]) & set(groups[~is_out])
    assert 100 - np.bincount(groups).max() < is_out.sum() <= 100


def test_every_label_keeps_a_group_that_is_not_drawn(seed):
    rng = np.random.default_rng(seed)
    groups, ids = rng.integers(0, 30, size=300), rng.geometric(0.1, size=300).astype(np.int32)
    labels = Labels.single(ids)
    is_out = draw_rows_out(290, 300, np.random.RandomState(seed), groups, labels)
    assert is_out.any()
    assert set(ids[~is_out]) == set(ids)
    assert not set(groups[is_out]) & set(groups[~is_out])


def test_groups_with_a_label_of_their_own_leave_its_rows_to_training(seed):
    groups = np.repeat(np.arange(10), 6)
    ids = np.where(np.arange(60) % 6 == 0, 10 + groups, np.arange(60) % 6).astype(np.int32)
    is_out = draw_rows_out(12, 60, np.random.RandomState(seed), groups, Labels.single(ids))
    assert is_out.sum() == 10  # five rows of each of two groups
    assert len(set(groups[is_out])) == 2
    assert ids[is_out].max() < 10


def test_a_large_group_is_not_held_out_beside_small_ones(seed):
    groups = np.append(np.zeros(900, np.int64), np.repeat(np.arange(1, 11), 10))
    is_out = draw_rows_out(50, 1000, np.random.default_rng(seed), groups)
    assert is_out.sum() == 50
    assert not is_out[:900].any()
    halves = np.repeat([3, 7], [60, 40])
    assert draw_rows_out(5, 100, np.random.default_rng(seed), halves).tolist() == (halves == 7).tolist()


def test_one_group_alone_is_as_none(seed):
    draws = [draw_rows_out(5, 100, np.random.default_rng(seed), groups) for groups in (None, np.full(100, 3))]
    np.testing.assert_array_equal(*draws)


def test_folds_hold_out_whole_groups_and_no_class_whole(seed):
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(0, 40, size=400), rng.geometric(0.05, size=400).astype(np.int32)
    folds = draw_folds(labels, 5, np.random.RandomState(seed), groups)
    for fold in range(5):
        out = folds == fold
        assert out.any()
        assert set(labels[out]) <= set(labels[~out])
        left_in = folds[np.isin(groups, groups[out]) & ~out]
        assert (left_in == -1).all()  # rows of classes that are in one fold alone
    assert (folds >= 0).mean() > 0.7


def test_groups_of_calls_stay_apart():
    assert join_groups([np.array([0, 1, 1]), np.array([0, 0, 2])]).tolist() == [0, 1, 1, 2, 2, 4]
    assert join_groups([np.array([0, 1]), None]) is None


# Fits


def test_random_rows_praise_what_memorises_and_groups_do_not(seed):
    (X, y, people), (X_new, y_new, _) = rows_of_people(seed)
    means = np.array([X[y == k].mean(axis=0) for k in range(20)])
    by_means = np.mean(np.square(X_new[:, np.newaxis] - means).sum(axis=2).argmin(axis=1) == y_new)
    alone, together = (
        quiet_fit(SoftmaxClassifier(random_state=seed), X, y, groups=groups).evaluate(X_new, y_new)
        for groups in (None, people)
    )
    assert together["log_loss"] < min(np.log(20), alone["log_loss"] - 0.3)
    assert 1 - together["error"] >= by_means
    assert together["error"] <= alone["error"] + 0.02


WAYS = {
    "temperature": SoftmaxClassifier(solver="lbfgs", alpha=1e-6, calibration="temperature"),
    "of margins": MarginClassifier(calibration="temperature"),
    "of utilities": AugmentReduceClassifier(calibration="temperature", max_iter=40),
    "of two runs": SoftmaxClassifier(solver="exact", alpha=0.0, max_iter=40, calibration="temperature", n_models=2),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_told_by_rows_held_out_is_told_by_groups(way, seed):
    (X, y, people), (X_new, y_new, _) = rows_of_people(seed)
    losses = [
        quiet_fit(clone(WAYS[way]).set_params(random_state=seed), X, y, groups=groups).evaluate(X_new, y_new)
        for groups in (None, people)
    ]
    assert losses[1]["log_loss"] < losses[0]["log_loss"] - 0.1


@pytest.mark.parametrize("form", [{"solver": "exact", "alpha": 0.0, "learning_rate": 0.01}, {"model": "embedding"}])
def test_training_ends_where_new_groups_are_no_longer_told_better(form, seed):
    (X, y, people), _ = rows_of_people(seed)
    model = SoftmaxClassifier(**form, max_iter=30, early_stopping=True, random_state=seed)
    alone, together = (quiet_fit(clone(model), X, y, groups=groups).best_iter_ for groups in (None, people))
    assert together < alone


def test_shares_of_a_hybrid_are_told_by_groups(seed):
    rng = np.random.default_rng(seed)
    visits = np.repeat(np.arange(120), 10)  # of one label each, and with words that all of its rows have
    y = rng.integers(0, 10, size=120)[visits]
    words = np.concatenate([rng.integers(0, 300, size=(120, 4))[visits], 300 + 6 * y[:, np.newaxis]], axis=1)
    words[:, 4] = np.where(rng.random(1200) < 0.5, words[:, 4], 300 + 6 * rng.integers(0, 10, size=1200))
    X = sp.csr_array((np.ones(6000, np.float32), words.ravel(), np.arange(0, 6001, 5)), shape=(1200, 360))
    learnt, new = visits < 80, visits >= 80
    alone, together = (
        quiet_fit(SoftmaxClassifier(model="hybrid", random_state=seed), X[learnt], y[learnt], groups=groups)
        for groups in (None, visits[learnt])
    )
    losses = [fitted.evaluate(X[new], y[new])["log_loss"] for fitted in (alone, together)]
    assert losses[1] < losses[0]


def test_a_row_of_no_weight_has_no_group(seed):
    (X, y, people), _ = rows_of_people(seed, n_people=4, n_features=10)
    weights = np.where(people == 0, 0.0, 1.0)
    model = SoftmaxClassifier(calibration="temperature", random_state=seed)
    whole = quiet_fit(clone(model), X, y, weights, groups=people)
    rest = quiet_fit(clone(model), X[people > 0], y[people > 0], groups=people[people > 0])
    np.testing.assert_array_equal(whole.coef_, rest.coef_)


@pytest.mark.parametrize("kind", ["text", "list", "dates", "floats"])
def test_groups_are_labels_of_any_kind(kind, seed):
    (X, y, people), _ = rows_of_people(seed, n_people=4, n_features=10)
    labels = {
        "text": np.array(["Ann", "Bob", "Cy", "Di"])[people],
        "list": people.tolist(),
        "dates": np.datetime64("2020-01-01") + people,
        "floats": people / 3,
    }[kind]
    models = [
        quiet_fit(SoftmaxClassifier(calibration="temperature", random_state=seed), X, y, groups=groups)
        for groups in (people, labels)
    ]
    assert models[0].calibration_ == models[1].calibration_


# What is refused


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(7) % 2, r"groups has shape \(7,\), and X has 8 rows; it must be \(8,\)"),
        (np.zeros((8, 2)), r"groups has shape \(8, 2\), and X has 8 rows"),
        ([0, 1, np.nan, 0, 1, 0, 1, 0], r"groups\[2\] is nan: row 2 has no label"),
        ([0, 1, None, 0, 1, 0, 1, 0], r"groups\[2\] is None: row 2 has no label"),
        ([0, 1, "a", 0, 1, 0, 1, 0], r"groups\[0\] is 0, a number and groups\[2\] is 'a', text"),
        (["a"] * 8, r"groups has one group, .*'a'.*; whole groups are held out.*leave it None"),
        (np.arange(8) // 2, "no two groups that have a class in common.*leave it None"),
    ],
)
def test_groups_that_are_of_no_use_are_refused(classifier, groups, message):
    X, y = np.eye(8, dtype=np.float32), np.arange(8) // 2
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, y, groups=groups)


def test_streams_have_no_groups():
    X, y = np.eye(8, dtype=np.float32), np.arange(8) // 2
    with pytest.raises(ValueError, match="groups is given, which is for arrays"):
        SoftmaxClassifier().fit(Stream(X, y), groups=np.arange(8) % 2)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_a_grid_of_step_sizes_is_judged_by_groups(classifier, seed):
    (X, y, people), _ = rows_of_people(seed, n_classes=4, n_people=6, n_features=10)
    model = classifier(max_iter=4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        alone, together = (tune_learning_rate(model, X, y, groups=groups) for groups in (None, people))
    assert together.losses.min() > alone.losses.min()
    with pytest.raises(ValueError, match=r"groups has shape \(3,\)"):
        tune_learning_rate(model, X, y, groups=[0, 1, 2])


# With other arguments


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_groups_are_routed(classifier, seed):
    (X, y, people), _ = rows_of_people(seed, n_classes=4, n_people=6, n_features=10)
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier(calibration="temperature", random_state=seed).set_fit_request(groups=True)
        pipeline = make_pipeline(MaxAbsScaler(), model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores = cross_validate(
                pipeline, X, y, cv=GroupKFold(3), params={"groups": people}, return_estimator=True, error_score="raise"
            )
    for found in scores["estimator"]:
        assert found[-1].calibration_.n_rows == 16  # a whole group


def test_texts_of_classes_stand_by_themselves(seed):
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(60)]
    texts = [" ".join(rng.choice(words[6 * k : 6 * k + 9], size=4)) for k in np.arange(200) % 8]
    y, groups = np.arange(200) % 8, np.arange(200) // 20
    class_text = {k: " ".join(words[6 * k : 6 * k + 9]) for k in range(9)}
    model = quiet_fit(SoftmaxClassifier(random_state=seed), texts, y, groups=groups, class_text=class_text)
    assert model.predict([class_text[8]]).tolist() == [8]


def test_a_checkpoint_is_of_its_groups(tmp_path, seed):
    (X, y, people), _ = rows_of_people(seed, n_people=4, n_features=10)
    options = {"checkpoint": tmp_path, "every": 1}
    model = SoftmaxClassifier(solver="exact", alpha=0.0, max_iter=4, early_stopping=True, random_state=seed)
    whole = clone(model).fit(X, y, groups=people)
    clone(model).fit(X, y, groups=people, callback=lambda state: state.n_iter == 2, **options)
    with pytest.raises(ValueError, match="groups"):
        clone(model).fit(X, y, groups=people % 2, resume=True, **options)
    resumed = clone(model).fit(X, y, groups=people, resume=True, **options)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


# Histories


def points_of_histories(lengths, users=None):
    encoder = SequenceEncoder(decay=1.0)
    histories = Histories([np.arange(n) % 5 for n in lengths], np.arange(len(lengths)) if users is None else users)
    X, y, _, groups = encoder.training_rows(histories, None, None, None, first=True)
    labels = Labels.single(y.astype(np.int32))
    points = Points(X, labels, encoder.items_, Features(X.shape[1], None), n_given=len(y))
    return grouped(points, groups, len(y), by_user=True)


def test_rows_of_a_short_history_are_a_group_of_their_user():
    assert points_of_histories([3, 4, 2]).groups.tolist() == [0, 0, 1, 1, 1, 2]
    assert points_of_histories([3, 4, 2], users=np.array(["b", "a", "b"])).groups.tolist() == [1, 1, 0, 0, 0, 1]
    assert points_of_histories([40, 40]).groups is None  # it goes on when its next item is predicted
    assert points_of_histories([9]).groups is None


def test_histories_have_the_groups_that_they_are_given(seed):
    rng = np.random.default_rng(seed)
    histories = [rng.integers(0, 8, size=5).tolist() for _ in range(40)]
    model = SoftmaxClassifier(calibration="temperature", random_state=seed)
    quiet_fit(model, histories, vectorizer=SequenceEncoder(), groups=np.arange(40) // 10)
    assert model.calibration_.n_rows == 40  # the four rows of each of ten histories
    with pytest.raises(ValueError, match=r"groups has shape \(39,\); it must have one for each of 40 sequences"):
        model.fit(histories, vectorizer=SequenceEncoder(), groups=np.arange(39))


# Sets of labels


def test_what_sets_are_chosen_by_and_measured_by_are_other_groups(seed, monkeypatch):
    (X, y, _), (X_new, y_new, people) = rows_of_people(seed, n_features=20)
    model = quiet_fit(SoftmaxClassifier(solver="lbfgs", alpha=1e-3, random_state=seed), X, y)
    sizes = []
    threshold = _core.conformal_threshold
    monkeypatch.setattr(_core, "conformal_threshold", lambda s, *a: sizes.append(len(s)) or threshold(s, *a))
    model.calibrate_sets(X_new, y_new, 0.8, groups=people)
    assert set(sizes) == {4 * 80, 16 * 80}  # rows of four people of twenty, and of the others
    holds = [label in labels for label, labels in zip(y_new, model.predict_set(X_new, 0.8), strict=True)]
    assert np.mean(holds) >= 0.75
    with pytest.raises(ValueError, match=r"groups has shape \(3,\)"):
        model.calibrate_sets(X_new, y_new, groups=[0, 1, 2])
