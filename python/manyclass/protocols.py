"""What functions that take a caller's estimator ask of it: classifiers of this package, and scikit-learn's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manyclass.weights.arrays import Data

# With these methods types of packages without types are no more checked than this.
Estimator = Any  # has get_params and fit(X, y)
Classifier = Any  # a fitted one: has classes_, predict and, as `has_probabilities` tells, predict_proba


def has_probabilities(model: object) -> bool:
    """Whether a model has `predict_proba`, which scikit-learn's `available_if` may hide."""
    return hasattr(model, "predict_proba")


TrainingRows = tuple[Any, Any, Any, Any]  # X, y, sample_weight and groups


class Encoder(Protocol):
    """What makes rows of raw inputs: a `TextVectorizer` of texts, a `SequenceEncoder` of histories of items."""

    @property
    def column_labels(self) -> NDArray[Any] | None:
        """The label of the class that each column is, or None where columns are no classes."""

    @property
    def keeps_terms(self) -> bool:
        """Whether columns have names, which `get_feature_names_out` returns."""

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the name of each column."""

    def takes(self, X: Any) -> bool:
        """Whether X is raw, of the kind that it takes."""

    def transform(self, X: Any) -> sp.csr_array:
        """Return rows of raw inputs."""

    def training_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, first: bool) -> TrainingRows:
        """Return rows, labels, weights and groups to train on; `first`: after a fit to them."""


ClassText = Mapping[Any, str] | tuple[ArrayLike, Data]
