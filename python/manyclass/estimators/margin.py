"""MarginClassifier: the max-margin loss of one or several labels, with search for the classes that matter."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.estimators.labels import LabelClassifier
from manyclass.model.weights import Data
from manyclass.training.passes import Callback

LOSSES = ("margin", "triplet")


class MarginClassifier(LabelClassifier):
    r"""Linear or one-hidden-layer classifier by the smoothed max-margin loss (Yen et al., ICML 2018).

    Minimises the mean over points of

    .. math:: L_\mu(z, P) = \max_{\alpha \in C} \langle z + 1_N, \alpha\rangle - \frac\mu2 |\alpha|^2,
        \qquad z = W \phi(x) + b,

    P being a point's labels, N the other classes and C the bi-simplex (eq. 10-11; see `manyclass.losses`), by
    minibatches. With :math:`\mu = 0` it is :math:`[\max_{j \in N, k \in P} 1 + z_j - z_k]_+`. :math:`\phi(x)` is x or,
    with `embedding_dim`, the sum of its features' embeddings. Only the classes near the margin have a gradient, so a
    search that finds the best wrong classes does for all of them.

    Parameters
    ----------
    smoothing : float, default=1.0
        :math:`\mu \ge 0`. Yen et al. take 1 for one label, 5 for several.
    loss : {"margin", "triplet"}, default="margin"
        "triplet" sums :math:`[1 + z_j - z_k]_+` over all pairs instead (eq. 7).
    search : str or index, default="exact"
        Which wrong classes a step sees:

        - "exact": all;
        - "sampled": `n_negatives` drawn ones;
        - "mips": the `budget` best by a `SphericalClusterIndex` of W that follows training (Algorithm 1, classes that
          are not found left out);
        - "decomposed": the union of the `budget` best of each block of columns by a `DecomposedIndex`, with exact
          scores;
        - "messages": the same joined by greedy message passing, one full step (Algorithm 2 with T = 1).

        An index that is not fitted may be given instead of "mips" or "decomposed": its parameters are used.
    embedding_dim : int or None, default=None
        Length of the embeddings of the features; None: :math:`\phi(x) = x`. Without embeddings sparse X is made dense,
        a point at a time.
    activation : {"linear", "relu"}, default="linear"
        What the sum of embeddings goes through.
    budget : int or None, default=None
        Classes that a search returns (of each block). None is 64 for the margin and K / 100 otherwise.
    warm_up : int, default=1
        Passes at the start that draw classes instead of searching: W = 0 has no best ones (section 4).
    n_negatives : int, default=256
        Classes drawn for a point, with search="sampled" and in the warm-up.
    frequency_power : float, default=0.0
        They are drawn by their number of points to this power; 0: distinct and uniform.
    share_classes : bool, default=True
        Let the points of a batch see the same drawn classes, which makes a class several times as cheap; False learns
        more where fewer classes are drawn than a batch has points.
    step : {"explicit", "implicit"}, default="explicit"
        "implicit" is the proximal step, in closed form: that of the margin smoothed by
        :math:`\mu + \eta|\phi(x)|^2`. It needs schedule other than "adaptive" and no embeddings.
    batch_size : int or None, default=None
        Points whose steps are made at the same weights and added; None is 32, and n_classes / 16 up to 512 classes.
    learning_rate : float or "auto", default="auto"
        Step size, > 0; embeddings take half of it. "auto" is 1 over the root mean square of the rows' lengths with
        schedule="adaptive", else 1 / mean :math:`|(x, 1)|^2`; with embeddings the lengths count as 1.
    schedule : {"adaptive", "exponential", "inverse", "constant"}, default="adaptive"
        "adaptive": each row of W and each embedding has its own step size, learning_rate over the root of the sum of
        its squared gradients (Adagrad), times decay ** pass. The others: as of `SoftmaxClassifier`.
    decay : float, default=0.9
    max_iter : int, default=10
        Passes over the data.
    shuffle : bool, default=True
        Visit the points in random order.
    fit_intercept : bool, default=True
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the embeddings, the visiting order, the draws and the index.
    verbose : int, default=0
        Above 0: a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Distinct labels, sorted; of an indicator matrix, its columns' numbers.
    multilabel_ : bool
        Whether y was an indicator matrix.
    n_labels_ : int
        Mean number of labels of the rows that have some, rounded: how many `predict` gives then.
    coef_ : ndarray of shape (n_classes, n_features or embedding_dim), float32
    intercept_ : ndarray of shape (n_classes,), float32
    embedding_ : ndarray of shape (n_features, embedding_dim), float32
    loss_curve_ : ndarray of shape (n_iter_,), float64
        Mean loss over each pass, of the classes that its steps saw.
    n_iter_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Scores are no log-probabilities: there is no `predict_proba`. `predict_top_k` returns them as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import MarginClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> MarginClassifier(random_state=0).fit(X, [5, 6, 7] * 20).predict(X[:3]).tolist()
    [5, 6, 7]
    """

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        loss: str = "margin",
        search: Any = "exact",
        embedding_dim: int | None = None,
        activation: str = "linear",
        budget: int | None = None,
        warm_up: int = 1,
        n_negatives: int = 256,
        frequency_power: float = 0.0,
        share_classes: bool = True,
        step: str = "explicit",
        batch_size: int | None = None,
        learning_rate: float | str = "auto",
        schedule: str = "adaptive",
        decay: float = 0.9,
        max_iter: int = 10,
        shuffle: bool = True,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.smoothing = smoothing
        self.loss = loss
        self.search = search
        self.embedding_dim = embedding_dim
        self.activation = activation
        self.budget = budget
        self.warm_up = warm_up
        self.n_negatives = n_negatives
        self.frequency_power = frequency_power
        self.share_classes = share_classes
        self.step = step
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay = decay
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    log_q = False  # a margin compares scores with 1: an inclusion probability has no place in them

    def fit(self, X: Data, y: Any, *, callback: Callback | None = None, max_seconds: float | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Made float32.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, at least two distinct ones; or 0 and 1, dense or sparse, at least two columns.
            Rows without a label are left out.
        callback : callable, default=None
            Called after each pass with a `TrainingState`; training stops when it returns True.
        max_seconds : float, default=None
            Training stops after this time, even within a pass.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of its range, non-finite or wrongly shaped data, or fewer than two classes.

        Warns
        -----
        ConvergenceWarning
            If training diverged or was interrupted, the model being the one reached before.
        """
        check_number("smoothing", self.smoothing, low=0)
        check_choice("loss", self.loss, LOSSES)
        check_choice("step", self.step, ("explicit", "implicit"))
        plain = self.loss == "margin" and self.schedule != "adaptive" and self.embedding_dim is None
        if self.step == "implicit" and not plain:
            raise ValueError(
                "step='implicit' needs loss='margin', a schedule other than 'adaptive' and no embeddings; they are "
                f"{self.loss!r}, {self.schedule!r} and {self.embedding_dim!r}"
            )
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, low=0)
        self._fit_labels(
            *self._labelled_data(X, y),
            self,
            loss=self.loss,
            smoothing=float(self.smoothing),
            implicit=self.step == "implicit",
            callback=callback,
            max_seconds=max_seconds,
        )
        return self

    def predict_top_k(self, X: Data, k: int) -> tuple[NDArray[Any], NDArray[np.float32]]:  # type: ignore[override]
        """Return the k labels of highest score with their scores, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int
            In [1, n_classes].

        Returns
        -------
        labels : ndarray of shape (n_samples, k), with the dtype of `classes_`
        scores : ndarray of shape (n_samples, k), float32

        Raises
        ------
        ValueError
            If k is out of range.
        """
        x = self._validated(X)
        check_number("k", k, low=1, high=len(self.classes_), integer=True)
        best, log_probabilities = self._top_k(x, int(k))
        shift = self._weights.log_normalizers(x, n_threads_from(self.n_jobs))[:, np.newaxis]
        return self.classes_[best], (log_probabilities + shift).astype(np.float32)

    def evaluate(self, X: Data, y: Any) -> dict[str, float]:
        """Evaluate exactly, over all classes, without an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            True labels.

        Returns
        -------
        dict
            "error": share of points whose label is not the predicted one; "top5_error": not among the five of highest
            score. With an indicator matrix "precision_at_1", "precision_at_3" and "precision_at_5".

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        found = super().evaluate(X, y)
        found.pop("log_loss", None)
        return found

    # The base class has probabilities of a softmax.

    @property
    def predict_proba(self) -> Any:
        """Not there: scores of a margin are no log-probabilities."""
        raise AttributeError("MarginClassifier has no probabilities; see SoftmaxClassifier")

    @property
    def predict_log_proba(self) -> Any:
        """Not there: scores of a margin are no log-probabilities."""
        raise AttributeError("MarginClassifier has no probabilities; see SoftmaxClassifier")
