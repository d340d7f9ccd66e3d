"""One estimator and several threads: a question is answered by one model, and no training is lost."""

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.classifiers import predictions

N = 60
X = np.eye(3, dtype=np.float32)[np.arange(N) % 3]
OLD, NEW = np.array(["ant", "bee", "cow"])[np.arange(N) % 3], np.array(["x", "y", "z", "u"])[np.arange(N) % 4]
FEW, MORE = np.eye(3, dtype=int)[np.arange(N) % 3], np.eye(5, dtype=int)[np.arange(N) % 5]
SOFTMAX, MARGIN = SoftmaxClassifier(solver="implicit", random_state=0), MarginClassifier(random_state=0)
UTILITY = AugmentReduceClassifier(max_iter=2, random_state=0)
GAUSSIAN = AugmentReduceClassifier(max_iter=2, posterior="gaussian", alpha=0.1, random_state=0)
SEVERAL = SoftmaxClassifier(model="embedding", dim=8, max_iter=2, random_state=0)

# What is asked, of a model and the labels that it was fitted with.
QUESTIONS = {
    "decision_function": lambda model, y: model.decision_function(X),
    "predict": lambda model, y: model.predict(X),
    "predict_top_k": lambda model, y: model.predict_top_k(X, 2)[0],
    "exclude": lambda model, y: model.predict_top_k(X, 2, exclude=[["ant"]] * N)[0],
    "predict_proba": lambda model, y: model.predict_proba(X),
    "predict_log_proba": lambda model, y: model.predict_log_proba(X),
    "score": lambda model, y: model.score(X, y),
    "evaluate": lambda model, y: list(model.evaluate(X, y).values()),
    "elbo": lambda model, y: model.elbo(X, y),
    "certificate": lambda model, y: list(model.certificate(X, y).values()),
    "embed": lambda model, y: model.embed(X),
    "threshold": lambda model, y: model.predict(X, threshold=0.1),
    "k": lambda model, y: model.predict(X, k=1),
}
ONE = ("decision_function", "predict", "predict_top_k", "exclude", "score", "evaluate")
PROBABLE = ("predict_proba", "predict_log_proba")
ASKED = [(SOFTMAX, name) for name in (*ONE, *PROBABLE, "certificate")] + [(MARGIN, name) for name in ONE]
ASKED += [(UTILITY, name) for name in (*ONE, *PROBABLE, "elbo")]
ASKED += [(GAUSSIAN, name) for name in (*ONE, *PROBABLE)]
ASKED += [(SEVERAL, name) for name in ("predict", "predict_top_k", "score", "evaluate", "embed", "threshold", "k")]


@pytest.mark.parametrize(("model", "asked"), ASKED, ids=lambda one: one if isinstance(one, str) else None)
def test_a_question_is_answered_by_the_model_that_it_began_with(model, asked, monkeypatch):
    """Another thread fits other labels as soon as the rows of the question are checked."""
    old, new = (FEW, MORE) if model is SEVERAL else (OLD, NEW)
    model = clone(model).fit(X, old)
    expected, rows_of, after = QUESTIONS[asked](model, old), predictions.rows_of, clone(model).fit(X, new)

    def checked_while_another_fits(*given):
        rows = rows_of(*given)
        thread = threading.Thread(target=lambda: predictions.with_state(model, predictions.state_of(after)))
        thread.start()
        thread.join()
        return rows

    monkeypatch.setattr(predictions, "rows_of", checked_while_another_fits)
    np.testing.assert_array_equal(QUESTIONS[asked](model, old), expected)
    assert len(model.classes_) == len(after.classes_)


def test_an_approximate_answer_is_of_one_model(monkeypatch):
    n_classes = 3000  # an index or a copy is for more than 2,048
    rows = sp.eye_array(n_classes, format="csr", dtype=np.float32)
    model = SoftmaxClassifier(solver="implicit", model="linear", max_iter=1, random_state=0)
    model.fit(rows, np.arange(n_classes))
    expected, rows_of = model.predict_top_k(rows[:4], 3, approximate=True), predictions.rows_of
    other = clone(model).fit(rows, np.arange(n_classes) + n_classes)

    def checked_while_another_fits(*given):
        found = rows_of(*given)
        predictions.with_state(model, predictions.state_of(other))
        return found

    monkeypatch.setattr(predictions, "rows_of", checked_while_another_fits)
    for found, own in zip(model.predict_top_k(rows[:4], 3, approximate=True), expected, strict=True):
        np.testing.assert_array_equal(found, own)


def in_threads(n, work):
    errors = []

    def run():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("as_stream", [False, True])
def test_calls_of_partial_fit_in_several_threads_lose_no_row(as_stream):
    n_threads, n_calls = 4, 25
    model = SoftmaxClassifier(solver="implicit", random_state=0)
    model.partial_fit(X, OLD, classes=["ant", "bee", "cow"])

    def train():
        if as_stream:
            model.partial_fit([(X, OLD)] * n_calls)
        else:
            for _ in range(n_calls):
                model.partial_fit(X, OLD)

    in_threads(n_threads, train)
    np.testing.assert_array_equal(model.class_count_, np.full(3, N / 3 * (1 + n_threads * n_calls)))


def test_a_fit_and_calls_of_partial_fit_take_turns():
    model = SoftmaxClassifier(solver="implicit", max_iter=3, random_state=0).fit(X, OLD)
    begun, let_go = threading.Event(), threading.Event()

    def wait(_):
        begun.set()
        let_go.wait(60)

    fit = threading.Thread(target=lambda: model.fit(X, OLD, callback=wait))
    fit.start()
    assert begun.wait(60)
    on = threading.Thread(target=lambda: model.partial_fit(X, OLD))
    on.start()
    assert len(model.predict(X)) == N  # a question waits for no training
    let_go.set()
    fit.join()
    on.join()
    np.testing.assert_array_equal(model.class_count_, np.full(3, 2 * N / 3))


def test_a_callback_may_train_the_estimator_that_is_being_fitted():
    model = SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0).fit(X, OLD)
    model.fit(X, OLD, callback=lambda _: model.partial_fit(X, OLD) and False)
    assert model.score(X, OLD) == 1


def test_an_estimator_that_was_trained_is_copied_cloned_and_pickled():
    model = SoftmaxClassifier(solver="implicit", random_state=0).fit(X, OLD).partial_fit(X, OLD)
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.partial_fit(X, OLD).class_count_.sum() == 3 * N
    assert not hasattr(clone(model), "classes_")
    assert model.class_count_.sum() == 2 * N


@pytest.mark.parametrize("model", [SOFTMAX, MARGIN, UTILITY])
def test_a_column_of_labels_is_judged_as_it_is_fitted(model):
    model = clone(model).fit(X, OLD)
    assert model.score(X, OLD[:, np.newaxis]) == model.score(X, OLD)
    assert model.evaluate(X, OLD[:, np.newaxis]) == model.evaluate(X, OLD)
    with pytest.raises(ValueError, match=r"y has shape \(60, 2\)"):
        model.score(X, np.stack([OLD, OLD], axis=1))
