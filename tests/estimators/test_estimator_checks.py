"""scikit-learn's own contract for estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers

UNSCALED = "columns of standard deviation 20 beside an intercept's 1 are not fitted unscaled; test_weighting.py scales"


def fails_by_design(estimator):
    """Checks that fail, each with its reason.

    That a weight is the row so often, bit for bit, is as little true of scikit-learn's SGDClassifier: what is equal is
    shown in test_sample_weight.py. It is true of "lbfgs", which test_full_batch.py checks.
    """
    two = "a row that is there twice makes two steps, at other places of the order and by draws of their own"
    expected = {f"check_sample_weight_equivalence_on_{kind}_data": two for kind in ("dense", "sparse")}
    if isinstance(estimator, SoftmaxClassifier):  # scales features
        return expected
    return expected | {"check_class_weight_classifiers": UNSCALED}


@parametrize_with_checks(
    [
        SoftmaxClassifier(),
        SoftmaxClassifier(solver="implicit"),
        AugmentReduceClassifier(),
        MarginClassifier(),
        SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=4),
    ],
    expected_failed_checks=fails_by_design,
)
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [
        SoftmaxClassifier(solver="exact"),
        SoftmaxClassifier(solver="umax"),
        SoftmaxClassifier(solver=solvers.Implicit(formulation="raman"), sampler="uniform", n_negatives=1),
        AugmentReduceClassifier(noise="logistic", sampler="uniform", n_negatives=1),
        AugmentReduceClassifier(noise="gumbel", solver="sgd"),
        MarginClassifier(sampler=samplers.Search(warm_up=2)),
    ],
    expected_failed_checks=fails_by_design,
)
def test_estimator_keeps_it_with_other_parts(estimator, check):
    check(estimator)
