"""Models of subjects from text parameters: which are refused, what they suggest, and what their scores mean."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import log_expit

from manyclass import MarginClassifier, SoftmaxClassifier, load
from manyclass.integrations.subject_model import (
    MOST_HELD,
    RANKS,
    SubjectModel,
    estimator_from,
    held_out,
    write_together,
)

SMALL = {"dim": "8", "sampler": "all", "random_state": "0"}
N_COLUMNS, USED = 12, np.array([0, 2, 3, 5, 7, 11])


def documents(seed, n=400):
    """Documents of one or two of six subjects, each with a word of its own, among words of none; columns are unused."""
    rng = np.random.default_rng(seed)
    X, Y = np.zeros((n, 10), np.float32), np.zeros((n, N_COLUMNS), np.int8)
    for i in range(n):
        own = rng.choice(len(USED), size=rng.integers(1, 3), replace=False)
        Y[i, USED[own]] = 1
        X[i, np.where(rng.random(len(own)) < 0.8, own, rng.integers(6, 10, len(own)))] = 1
    return sp.csr_array(X), sp.csr_array(Y)


@pytest.fixture(params=["margin", "softmax"])
def model(request, seed):
    estimator = estimator_from({**SMALL, "estimator": request.param}, n_jobs=1)
    return SubjectModel.fit(estimator, *documents(seed))


def test_a_model_suggests_numbers_of_subjects_best_first_with_scores_between_0_and_1(model, seed):
    X, Y = documents(seed + 1)
    subjects, scores = model.suggest(X, limit=100)
    assert subjects.shape == scores.shape == (400, len(USED))
    np.testing.assert_array_equal(np.sort(subjects, axis=1), np.tile(USED, (400, 1)))
    assert ((scores > 0) & (scores < 1)).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    first = Y.toarray()[np.arange(400), subjects[:, 0]]
    # A word tells its subject in 4 of 5 cases: only documents without such a word, some 15 in 100, are guessed.
    assert first.mean() > 0.75


def test_the_scale_of_scores_is_platts_on_documents_that_were_held_out(model, seed):
    """A twin that minimises the cross-entropy of Platt's targets directly."""
    X, Y = documents(seed)
    held = held_out(Y, 0)
    best, z = model.estimator.predict_top_k(X[held], min(RANKS, len(USED)))
    hit = np.take_along_axis(Y[held].toarray(), best, axis=1) == 1
    target = np.where(hit, (hit.sum() + 1) / (hit.sum() + 2), 1 / ((~hit).sum() + 2))

    def cross_entropy(line):
        q = line[0] * z.astype(float) + line[1]
        return -np.sum(target * log_expit(q) + (1 - target) * log_expit(-q))

    found = minimize(cross_entropy, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}).x
    # lbfgs of scikit-learn stops at a gradient of 1e-4 of the mean loss, whose curvature is some hundredths.
    np.testing.assert_allclose([model.slope, model.offset], found, rtol=2e-2, atol=2e-2)
    # What makes a score a probability: over these documents they sum to the number of hits, but for the targets.
    np.testing.assert_allclose(model.suggest(X[held], RANKS)[1].sum(), target.sum(), rtol=1e-2)


def test_held_out_documents_are_a_tenth_and_leave_each_subject_a_document(seed):
    rng = np.random.default_rng(seed)
    Y = sp.csr_array((np.ones(1000, np.int8), rng.integers(400, size=1000), np.arange(1001)), shape=(1000, 400))
    held = held_out(Y, seed)
    assert 20 < held.sum() < 100
    assert set(Y[~held].indices) == set(Y.indices)
    many = sp.csr_array(np.ones((20_000, 1), np.int8))
    assert held_out(many, seed).sum() == MOST_HELD


def test_documents_without_words_or_subjects_are_left_out(seed):
    X, Y = documents(seed, n=60)
    empty = sp.csr_array((5, X.shape[1]), dtype=np.float32)
    none = sp.csr_array((5, N_COLUMNS), dtype=np.int8)
    mixed = [sp.csr_array(sp.vstack(parts)) for parts in ((X, empty, X[:5]), (Y, Y[:5], none))]
    plain, more = (SubjectModel.fit(estimator_from(SMALL, 1), *data) for data in ((X, Y), mixed))
    assert plain.slope == more.slope
    np.testing.assert_array_equal(plain.estimator.coef_, more.estimator.coef_)
    with pytest.raises(ValueError, match="have 1 subjects beside words; at least two"):
        SubjectModel.fit(estimator_from(SMALL, 1), X, sp.csr_array(np.ones((60, 1), np.int8)))


def test_a_few_documents_are_enough(seed):
    """Below ten none can be held out: the scale is that of the training documents."""
    X, Y = documents(seed, n=9)
    subjects, scores = SubjectModel.fit(estimator_from(SMALL, 1), X, Y).suggest(X, 3)
    assert subjects.shape == (9, 3)
    assert ((scores > 0) & (scores < 1)).all()


def test_a_model_is_saved_with_its_scale_and_predicts_with_one_thread(model, seed, tmp_path):
    model.estimator.set_params(n_jobs=2)
    model.save(tmp_path / "model")
    loaded = SubjectModel.load(tmp_path / "model")
    assert loaded.estimator.n_jobs == 1
    X, _ = documents(seed + 1)
    for ours, theirs in zip(model.suggest(X, 4), loaded.suggest(X, 4), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(load(tmp_path / "model").classes_, USED)

    model.estimator.save(tmp_path / "plain")
    with pytest.raises(ValueError, match="plain has a model without the scale of its scores"):
        SubjectModel.load(tmp_path / "plain")


def test_text_becomes_parameters_and_defaults_go_with_what_they_were_found_for():
    margin = estimator_from({"dim": "64", "decay": "0.7", "learning_rate": "auto", "other": "x"}, n_jobs=2)
    assert isinstance(margin, MarginClassifier)
    assert (margin.dim, margin.solver.decay, margin.learning_rate, margin.n_jobs) == (64, 0.7, "auto", 2)
    linear = estimator_from({"estimator": "softmax", "model": "linear", "sampler": "all", "max_iter": 3}, n_jobs=1)
    assert isinstance(linear, SoftmaxClassifier)
    assert (linear.model, linear.dim, linear.n_negatives, linear.max_iter) == ("linear", "auto", "auto", 3)
    assert estimator_from({"solver": "sgd"}, n_jobs=1).solver == "sgd"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": "svm"}, "estimator is 'svm'; it must be one of 'margin', 'softmax'"),
        ({"dim": "large"}, "dim is 'large'; it must be an integer"),
        ({"dim": "0"}, "dim is 0; it must be at least 1"),
        ({"decay": "fast"}, "decay is 'fast'; it must be a number"),
        ({"decay": "2"}, "decay is 2.0"),
        ({"solver": "adagard"}, "solver is 'adagard'"),
        ({"solver": "lbfgs", "decay": "0.5"}, "solver is 'lbfgs'; it must be one of .*'adagrad'"),
        ({"estimator": "softmax", "smoothing": "2"}, "smoothing is 2.0, which estimator='softmax' does not have"),
        ({"random_state": "auto"}, "random_state is 'auto'; it must be an integer"),
        ({"random_state": "-1"}, "random_state is -1; it must be at least 0"),
    ],
)
def test_a_wrong_parameter_is_named_before_any_work(params, message):
    with pytest.raises(ValueError, match=message):
        estimator_from(params, n_jobs=1)


def test_further_documents_are_learnt_with_new_subjects(model, seed):
    X, Y = documents(seed + 1)
    new = N_COLUMNS - 2  # a subject that training did not have
    assert new not in USED
    with_new = Y.toarray()
    with_new[X.toarray()[:, 6] > 0, new] = 1
    before = {name: getattr(model, name) for name in ("slope", "offset")}
    for _ in range(3):
        assert model.learn(X, sp.csr_array(with_new)) is model
    np.testing.assert_array_equal(model.estimator.classes_, np.sort([*USED, new]))
    assert {name: getattr(model, name) for name in before} == before
    words = sp.csr_array(np.eye(10, dtype=np.float32)[[6, 7]])  # the new subject's, and one of none
    subjects, scores = model.suggest(words, limit=7)
    assert np.subtract(*scores[subjects == new]) > 0.02


def test_learning_from_nothing_is_refused(model, seed):
    X, Y = documents(seed)
    with pytest.raises(ValueError, match="no document has words that the model knows, and subjects"):
        model.learn(X, sp.csr_array(Y.shape, dtype=np.int8))


@pytest.mark.parametrize("failing", ["first", "second", "third"])
def test_files_are_written_together_or_none_is(failing, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text("old")

    def writer(name):
        def write(path):
            with open(path, "w") as file:
                file.write("new")
            if name == failing:
                raise OSError("no space left on device")

        return write

    with pytest.raises(OSError, match="no space"):
        write_together(str(tmp_path), {name: writer(name) for name in ("first", "second", "third")})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"first": "old", "second": "old"}
    failing = ""
    write_together(str(tmp_path), {name: writer(name) for name in ("first", "third")})
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"first": "new", "second": "old", "third": "new"}
