"""Errors for arguments that other packages have: they say what does it here, and signatures stay as they are."""

import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone

from manyclass import AugmentReduceClassifier, ChoiceClassifier, MarginClassifier, SkipGram, SoftmaxClassifier

CLASSIFIERS = (AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize(
    ("name", "told"), {"C": "alpha = 1 / (C * n_samples)", "epochs": "passes are max_iter"}.items()
)
def test_names_of_other_packages_are_answered_by_those_of_here(kind, name, told):
    with pytest.raises(
        TypeError, match=rf"{kind.__name__}.__init__\(\) got an unexpected keyword argument '{name}'.*"
    ) as error:
        kind(**{name: 1})
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: SkipGram(vector_size=3), "'vector_size': the length of vectors is dim"),
        (lambda: SkipGram(workers=3), "'workers': threads are n_jobs"),
        (lambda: SkipGram().fit(sentences=[]), "'sentences': fit(sentences) takes them"),
        (lambda: SoftmaxClassifier(n_negative=3), "'n_negative': did you mean 'n_negatives'?"),
        (lambda: SoftmaxClassifier().fit(np.eye(2), [0, 1], X_val=1), "MarginClassifier.fit(X, y, eval_set=(X, y))"),
        (lambda: MarginClassifier(early_stopping_rounds=5), "early_stopping=True and n_iter_no_change belong to"),
        (lambda: SoftmaxClassifier().fit(np.eye(2), [0, 1], callbacks=[]), "callback=...) calls a function after each"),
        (
            lambda: AugmentReduceClassifier().fit(np.eye(2), [0, 1], eval_set=1),
            "stops where a callback of fit returns True",
        ),
        (lambda: ChoiceClassifier().fit(np.eye(2), [0, 1], eval_set=1), "the maximum of its likelihood"),
        (lambda: ChoiceClassifier().fit(np.eye(2), [0, 1], callback=print), "'callback': verbose=1 prints the loss"),
        (lambda: ChoiceClassifier(epochs=1), "passes are max_iter"),
        (lambda: SoftmaxClassifier(quux=1), "'quux': it takes solver, sampler, n_negatives"),
    ],
)
def test_a_hint_is_what_one_can_type(call, told):
    with pytest.raises(TypeError, match=re.escape(told)):
        call()


def test_the_penalty_of_the_hint_is_scikit_learns(seed):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(90, 4)).astype(np.float32), rng.integers(3, size=90)
    theirs = LogisticRegression(C=0.5, tol=1e-8, max_iter=1000).fit(X, y)
    ours = SoftmaxClassifier(model="linear", solver="lbfgs", alpha=1 / (0.5 * 90), max_iter=1000).fit(X, y)
    # Weights of scaled features are penalised here: nearly the same for columns of nearly the same variance.
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() < 0.02


@pytest.mark.parametrize("kind", [*CLASSIFIERS, SkipGram])
def test_signatures_and_parameters_are_seen_through_it(kind):
    assert "args" not in inspect.signature(kind).parameters
    assert "args" not in inspect.signature(kind.fit).parameters
    assert repr(clone(kind(n_jobs=2))) == f"{kind.__name__}(n_jobs=2)"
