"""scikit-learn's own contract for estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers


@parametrize_with_checks(
    [
        SoftmaxClassifier(),
        SoftmaxClassifier(solver="exact"),
        SoftmaxClassifier(solver="umax"),
        SoftmaxClassifier(solver=solvers.Implicit(formulation="raman"), sampler="uniform", n_negatives=1),
        AugmentReduceClassifier(),
        AugmentReduceClassifier(noise="logistic", sampler="uniform", n_negatives=1),
        AugmentReduceClassifier(noise="gumbel", solver="sgd"),
        MarginClassifier(),
        MarginClassifier(sampler=samplers.Search(warm_up=2)),
        SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=4),
    ]
)
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)
