"""What every linear categorical classifier shares: checks of X and y, predictions, evaluation, saving."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from manyclass.checks import canonical_csr, check_number, n_threads_from, seed_from
from manyclass.estimators.files import save_model
from manyclass.model.mapped import MappedWeights
from manyclass.model.weights import Data, Doubles, Floats, Ids, LinearWeights, Matrix
from manyclass.search import class_index
from manyclass.training.passes import summarize
from manyclass.training.plan import Labels


@dataclass(frozen=True)
class Features:
    """How many features a fit saw, and their names where X has some."""

    n: int
    names: NDArray[Any] | None

    @classmethod
    def of(cls, checked: Any) -> Features:
        """What scikit-learn's check has noted on an estimator."""
        return cls(int(checked.n_features_in_), getattr(checked, "feature_names_in_", None))


@dataclass(frozen=True)
class Points:
    """The checked data of a fit.

    Attributes
    ----------
    x : csr_array or ndarray of shape (n_samples, n_features), float32
    labels : Labels
        Positions among `classes`.
    classes : ndarray of shape (n_classes,)
    features : Features
    several : bool
        Whether y was an indicator matrix, and
    sparse_labels : bool
        a sparse one.
    """

    x: Matrix
    labels: Labels
    classes: NDArray[Any]
    features: Features
    several: bool = False
    sparse_labels: bool = False


def as_matrix(X: Any) -> Matrix:
    """Checked data in the types of the core."""
    return canonical_csr(X) if isinstance(X, sp.csr_matrix | sp.csr_array) else np.asarray(X)


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """A fitted W with its classes: all that does not depend on how W was found, under the softmax.

    A subclass has `fit`, which gives what it found to `_take`.
    """

    n_jobs: int | None
    random_state: Any

    classes_: NDArray[Any]
    loss_curve_: Doubles
    n_iter_: int
    _weights: LinearWeights | MappedWeights

    def _points(self, X: Data, y: Any) -> Points:
        """Check the data of a fit, and leave the estimator as it is; raises ValueError for what `fit` documents."""
        shadow = clone(self)  # scikit-learn's check notes the number of features and their names on what it is given
        X, y = validate_data(shadow, X, y, accept_sparse="csr", dtype=np.float32, order="C")
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes[0]!r}; at least two classes are needed")
        return Points(as_matrix(X), Labels.single(labels.astype(np.int32)), classes, Features.of(shadow))

    def _take(self, points: Points, weights: LinearWeights | MappedWeights, curve: list[float], **more: Any) -> None:
        """Take over all that a fit has found, at once: one that fails leaves the model as it was."""
        state = {
            "classes_": points.classes,
            "n_features_in_": points.features.n,
            "feature_names_in_": points.features.names,
            "loss_curve_": np.array(curve),
            "n_iter_": len(curve),
            "_weights": weights,
            **more,
        }
        self.__dict__.update(state)
        if points.features.names is None:
            del self.__dict__["feature_names_in_"]

    @property
    def coef_(self) -> Floats:
        """Weights, (n_classes, n_features), float32; a view."""
        check_is_fitted(self, "_weights")
        return self._weights.coef

    @property
    def intercept_(self) -> Floats:
        """Intercepts, (n_classes,), float32."""
        check_is_fitted(self, "_weights")
        return self._weights.intercept

    def _validated(self, X: Data) -> Matrix:
        check_is_fitted(self, "_weights")
        return as_matrix(validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=False))

    def decision_function(self, X: Data) -> Floats:
        """Return the scores x.w_k + b_k.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float32; for two classes, as scikit-learn has it, of shape
        (n_samples,): the score of the second less that of the first.
        """
        x = self._validated(X)
        scores = self._weights.scores(x, n_threads_from(self.n_jobs))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    # What depends on the distribution of a label given its scores; a subclass replaces it. Classes rank by their scores
    # under every independent, identically distributed noise.

    def _log_probabilities(self, x: Matrix) -> Doubles:
        """Log-probabilities of all classes."""
        z = self._weights.scores(x, n_threads_from(self.n_jobs)).astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        return z

    def _log_losses(self, x: Matrix, labels: Ids) -> tuple[Doubles, Ids]:
        """Log-loss of each point, and the rank of its label (0: predicted)."""
        return self._weights.log_losses(x, labels, n_threads_from(self.n_jobs))

    def _top_k(self, x: Matrix, k: int) -> tuple[Ids, Floats]:
        """Positions and log-probabilities of the k best classes of each point, best first."""
        return self._weights.top_k(x, k, n_threads_from(self.n_jobs))

    def predict_log_proba(self, X: Data) -> Doubles:
        """Return the log-probabilities of all classes, in nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Takes 8 n_samples n_classes bytes; see `predict_top_k` for the best classes only.
        """
        return self._log_probabilities(self._validated(X))

    def predict_proba(self, X: Data) -> Doubles:
        """Return the probabilities of all classes; rows sum to one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
        """
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: Data) -> NDArray[Any]:
        """Return the most probable label of each point; of equals, the first in `classes_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), with the dtype of `classes_`
        """
        x = self._validated(X)
        best, _ = self._top_k(x, 1)
        labels: NDArray[Any] = self.classes_[best[:, 0]]
        return labels

    @overload
    def predict_top_k(
        self, X: Data, k: int, *, approximate: bool = ..., recall: float = ..., return_std: Literal[False] = ...
    ) -> tuple[NDArray[Any], Floats]: ...

    @overload
    def predict_top_k(
        self, X: Data, k: int, *, approximate: bool = ..., recall: float = ..., return_std: Literal[True]
    ) -> tuple[NDArray[Any], Floats, Doubles]: ...

    def predict_top_k(
        self, X: Data, k: int, *, approximate: bool = False, recall: float = 0.95, return_std: bool = False
    ) -> tuple[NDArray[Any], Floats] | tuple[NDArray[Any], Floats, Doubles]:
        r"""Return the k most probable labels with their log-probabilities, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int
            In [1, n_classes].
        approximate : bool, default=False
            Search the classes through a `SphericalClusterIndex` instead of scoring all of them. Up to 4,096 classes are
            all scored in any case, and the answer is exact. Under the softmax only.
        recall : float, default=0.95
            Share of the k most probable labels, over rows, that an approximate search is to find, in ]0, 1]; with 1 it
            finds them all. The number of clusters that are searched is chosen by up to 256 rows of the first call with
            this k and recall that has 128 rows or more (earlier ones search all clusters), and checked on up to 256
            other rows; later calls of 256 rows or more check it on a sixteenth of theirs.
        return_std : bool, default=False
            Whether to return the standard error of the log-normalisers too.

        Returns
        -------
        labels : ndarray of shape (n_samples, k), with the dtype of `classes_`
        log_probabilities : ndarray of shape (n_samples, k), float32
            In nats, normalised over all classes: exactly, or by an estimate.
        std : ndarray of shape (n_samples,), float64
            Only if `return_std`: the estimated standard deviation of each row's log-normaliser, by which all of its
            log-probabilities err alike. 0 where all classes were scored.

        Raises
        ------
        ValueError
            If k or recall is out of range, or if `approximate` and the probabilities are not those of a softmax.

        Warns
        -----
        UserWarning
            If the recall found in a check is below `recall` by more than chance explains.

        Notes
        -----
        The estimate :math:`\hat Z = \sum_H e^{z_k} + \frac{K - |H|}{r} \sum_T e^{z_k}` of a row's normaliser counts the
        max(k, 64) classes H that were found exactly and weighs r = 1,024 others T, drawn uniformly without replacement:
        its mean is the normaliser whatever was found. Its logarithm is too small by about std^2 / 2 on average, and std
        itself, estimated from T, is too small where a few classes outside of H that T rarely meets have much of the
        probability. Draws depend on random_state and the row's place in X; 64 rows share one.

        The first approximate call builds the index, which takes the time of scoring all classes for some thousand
        rows, and keeps it until the next fit; it is not saved, pickled or cloned. It is dense: 5 n_classes
        n_features bytes, and while it is built twice as many; weights of 100,000 classes and 50,000 sparse features
        are better left to the exact answer, which reads only the features that a row has.
        """
        x = self._validated(X)
        check_number("k", k, low=1, high=len(self.classes_), integer=True)
        check_number("recall", recall, low=0, open_low=True, high=1)
        std = np.zeros(x.shape[0])
        if approximate and self._not_softmax():
            raise ValueError(f"approximate=True needs the probabilities of a softmax; {self._not_softmax()}")
        if approximate and len(self.classes_) > class_index.EXACT_CLASSES:
            n_threads = n_threads_from(self.n_jobs)
            best, log_probabilities, std = self._class_index(n_threads).top_k(
                self._mapped(x), int(k), float(recall), n_threads
            )
        else:
            best, log_probabilities = self._top_k(x, int(k))
        labels = self.classes_[best]
        return (labels, log_probabilities, std) if return_std else (labels, log_probabilities)

    def _mapped(self, x: Matrix) -> Matrix:
        """The features that W is multiplied with."""
        return x

    def _not_softmax(self) -> str:
        """Why probabilities are not those of a softmax of the scores, or nothing."""
        return ""

    def _class_index(self, n_threads: int) -> class_index.ClassIndex:
        """Return the index over the weights of the last fit, made at its first use."""
        weights, index = getattr(self, "_kept_index", (None, None))
        if index is None or weights is not self._weights:
            index = class_index.ClassIndex(self._weights, seed_from(self.random_state), n_threads)
            self._kept_index = (self._weights, index)
        return index

    def __getstate__(self) -> dict[str, Any]:
        """For copies and joblib: all but the index, which is larger than the weights and can be made again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_kept_index"}

    def evaluate(self, X: Data, y: ArrayLike) -> dict[str, float]:
        """Evaluate exactly, over all classes, without an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels, all among `classes_`.

        Returns
        -------
        dict
            "log_loss": mean negative log-probability of the true label, in nats; "error": share of points whose label
            is not the predicted one; "top5_error": not among the five most probable ones.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        x = self._validated(X)
        return summarize(*self._log_losses(x, self._labels_of(y, x)))

    def _labels_of(self, y: ArrayLike, x: Matrix) -> Ids:
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != x.shape[0]:
            raise ValueError(f"X has {x.shape[0]} rows, y has shape {y.shape}; it must be ({x.shape[0]},)")
        return positions_of(y, self.classes_, "y")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file for `manyclass.load`.

        The file is a safetensors file: arrays and a JSON header, no pickle. It is written under another name and then
        renamed, so that a reader sees the old file or the new one, never a part. The weights are not copied.

        Parameters
        ----------
        path : str or path-like
            The file; replaced if it exists.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If the labels are not booleans, integers, floats, dates, time spans or strings; nothing is written then.
        OSError
            If the file cannot be written; an older file of this name stays as it was.

        Notes
        -----
        Parameters are saved with the model; a random_state that is a RandomState instance becomes None.
        """
        save_model(self, path)

    def storage(self) -> dict[str, Any]:
        """Tell how the weights are stored.

        Returns
        -------
        dict
            "weights": the layout; "weight_bytes": what they take in memory, padding included.
        """
        check_is_fitted(self, "_weights")
        layout = "feature-major (for sparse data)" if self._weights.sparse else "class-major (for dense data)"
        return {"weights": layout, "weight_bytes": self._weights.matrix.nbytes}

    def _beside_weights(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What a file holds of the fit beside weights, classes and the loss curve.

        Returns
        -------
        description : dict
            As JSON has it.
        arrays : dict of str to ndarray
            Of the shape of the weights.
        """
        return {}, {}

    def _take_beside_weights(self, description: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Take over what `_beside_weights` has given; older files lack some of it.

        Parameters
        ----------
        description, arrays : mappings
        """

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_weights")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def positions_of(labels: NDArray[Any], classes: NDArray[Any], what: str) -> Ids:
    """Return the position of each label among the sorted classes, or raise ValueError for labels that have none.

    Parameters
    ----------
    labels : ndarray of any shape
    classes : ndarray of shape (n_classes,)
        Distinct and sorted.
    what : str
        What the labels are, for the message.

    Returns
    -------
    ndarray of the shape of `labels`, int32

    Raises
    ------
    ValueError
        If a label is not among the classes.
    """
    at = np.searchsorted(classes, labels)
    found = classes[np.minimum(at, len(classes) - 1)] == labels
    if not np.all(found):
        unseen = np.unique(labels[~found])
        raise ValueError(
            f"{what} has {len(unseen)} labels unseen in fit, among them {unseen[0]!r}; drop those points "
            "(manyclass.datasets.drop_unseen_classes) or fit on data that has them"
        )
    return at.astype(np.int32)
