"""scikit-learn's own contract for estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier


@parametrize_with_checks(
    [
        SoftmaxClassifier(),
        SoftmaxClassifier(solver="exact"),
        SoftmaxClassifier(solver="umax"),
        SoftmaxClassifier(selection="uniform", n_negatives=1, formulation="raman"),
        AugmentReduceClassifier(),
        AugmentReduceClassifier(noise="logistic", selection="uniform", n_negatives=1),
        AugmentReduceClassifier(noise="gumbel", solver="sgd"),
        MarginClassifier(),
        MarginClassifier(search="mips", warm_up=1),
        SoftmaxClassifier(embedding_dim=4),
    ]
)
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)
