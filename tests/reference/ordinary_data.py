"""scikit-learn's small data sets, as they are and with columns in other units, and what is measured on them."""

from functools import cache

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manyclass import SoftmaxClassifier

SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
N_FOLDS = 5


def spread(seed):
    """Factors of columns from 1e-3 to 1e3, log-uniform."""
    return lambda n_features: 10 ** np.random.default_rng(seed).uniform(-3, 3, n_features)


SCALINGS = {
    "as they are": np.ones,
    "all by 1e-3": lambda n_features: np.full(n_features, 1e-3),
    "all by 1e3": lambda n_features: np.full(n_features, 1e3),
    **{f"spread {seed}": spread(seed) for seed in range(3)},
}


def cross_validated(make, X, y, seed):
    """Accuracy and log-loss in nats, the means over all points, each held out once."""
    right, nats = [], []
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
        model = make().fit(X[train], y[train])
        p = model.predict_proba(X[test])
        right.append(model.predict(X[test]) == y[test])
        nats.append(-np.log(p[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]))
    return float(np.mean(np.concatenate(right))), float(np.mean(np.concatenate(nats)))


@cache
def of_logistic_regression(name, seed):
    """scikit-learn's, on features scaled to standard deviation 1; it does not see other units."""
    X, y = SETS[name](return_X_y=True)
    return cross_validated(lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), X, y, seed)


def of_softmax(name, scaling, seed):
    """The default of SoftmaxClassifier, on columns multiplied by factors."""
    X, y = SETS[name](return_X_y=True)
    return cross_validated(lambda: SoftmaxClassifier(random_state=seed), X * SCALINGS[scaling](X.shape[1]), y, seed)
