"""What functions that take a caller's estimator ask of it: classifiers of this package, and scikit-learn's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from manyclass.weights.arrays import Data

# With these methods types of packages without types are no more checked than this.
Estimator = Any  # has get_params and fit(X, y)
Classifier = Any  # a fitted one: has classes_, predict and, as `has_probabilities` tells, predict_proba


def has_probabilities(model: object) -> bool:
    """Whether a model has `predict_proba`, which scikit-learn's `available_if` may hide."""
    return hasattr(model, "predict_proba")


TrainingRows = tuple[Any, Any, Any, Any]  # X, y, sample_weight and groups


# What makes rows of raw inputs: a `TextVectorizer` of texts, a `SequenceEncoder` of histories of items. It has
# `column_labels`, the label of the class that each column is, or None; `keeps_terms`, whether columns have names, which
# `get_feature_names_out` returns; `takes(X)`, whether X is raw, of its kind; `transform(X)`; and `training_rows(X, y,
# sample_weight, groups, first=...)`, which returns rows, labels, weights and groups to train on.
Encoder = Any
ClassText = Mapping[Any, str] | tuple[ArrayLike, Data]
