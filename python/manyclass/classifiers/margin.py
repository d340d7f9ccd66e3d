"""MarginClassifier: the max-margin loss of one or several labels, with search for the classes that matter."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from manyclass.checks import n_threads_from
from manyclass.classifiers.base import LabelClassifier
from manyclass.fitting.fit import SharedOptions, with_shared_options
from manyclass.fitting.planners import MarginPlanner
from manyclass.fitting.streams import Parts
from manyclass.parts import Part, hinting, storing
from manyclass.training.state import ClassWeight, State
from manyclass.weights.arrays import Data, Doubles, Floats, Ids, Matrix


def _gives_probabilities(model: MarginClassifier) -> bool:
    state: State | None = model.__dict__.get("_state")
    if (model.calibration if state is None else state.calibration) is None:
        raise AttributeError("MarginClassifier has no probabilities without calibration; set calibration='temperature'")
    return True


class MarginClassifier(LabelClassifier):
    r"""Linear or one-hidden-layer classifier by the smoothed max-margin loss (Yen et al., ICML 2018).

    Minimises the mean over points of

    .. math:: L_\mu(z, P) = \max_{\alpha \in C} \langle z + 1_N, \alpha\rangle - \frac\mu2 |\alpha|^2,
        \qquad z = W \phi(x) + b,

    P being a point's labels, N the other classes and C the bi-simplex (eq. 10-11; see `manyclass.losses`), by
    minibatches. With :math:`\mu = 0` it is :math:`[\max_{j \in N, k \in P} 1 + z_j - z_k]_+`. :math:`\phi(x)` is x or,
    with model="embedding", the sum of its embeddings. Only classes near the margin have gradients: a search finds them.

    Parameters
    ----------
    loss : {"margin", "triplet"}, default="margin"
        "triplet" sums :math:`[1 + z_j - z_k]_+` over all pairs instead (eq. 7).
    smoothing : float, default=1.0
        :math:`\mu \ge 0`, of the margin. Yen et al. take 1 for one label, 5 for several.
    solver : {"adagrad", "sgd", "implicit"} or object of manyclass.solvers, default="adagrad"
        "adagrad": each row of W and embedding has its own step size, learning_rate over the root of the sum of squared
        gradients, times decay ** pass. "sgd": plain minibatches. "implicit": the proximal step, in closed form: that of
        the margin smoothed by :math:`\mu + \eta|\phi(x)|^2`; for loss="margin" without embeddings. Of their parameters,
        schedule, decay, batch_size (None: 32, n_classes / 16 up to 512 classes), share_classes and shuffle are used.
    sampler : str or object of manyclass.samplers, default="auto"
        Which wrong classes a step sees: "all", drawn ones ("uniform", "frequency", ...), or the best by "search".
        "auto": "uniform" where `model` became embeddings, else "all".
    n_negatives : int or "auto", default="auto"
        Classes that are drawn; "auto" is 256, or 2,048 where sampler and model are "auto".
    model : {"auto", "linear", "embedding"} or object of manyclass.models, default="auto"
        See `SoftmaxClassifier`. "auto": in `fit` embeddings, if sampler is "auto", too, and solver "adagrad", of more
        than 8,192 classes and sparse rows whose W would take more than 256 MB and 30 numbers for each stored in X.
    dim : int or "auto", default="auto"
        Length of the embeddings; "auto": 192, or 256 where sampler and model are "auto".
    learning_rate : float or "auto", default="auto"
        > 0, half for embeddings. "auto": 1 / root mean square of rows' lengths ("adagrad") or 1 / mean square.
    max_iter : int, default=10
        Passes over the data.
    early_stopping : bool, default=False
        Stop when the loss of held-out rows, a tenth, or of `fit(eval_set=...)` stops falling, and keep the best pass.
    n_iter_no_change : int, default=5
        Passes without a lower held-out loss after which early_stopping stops.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; see `SoftmaxClassifier`.
    fit_intercept : bool, default=True
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the embeddings, the visiting order, the draws and the index.
    verbose : int, default=0
        Above 0: a progress bar.
    calibration : {"temperature"} or None, default=None
        Make probabilities of scores by a temperature found on held-out rows (a tenth); see `SoftmaxClassifier`.
    n_models : int, default=1
        Train this many models with different seeds and average their scores; see `SoftmaxClassifier`.
    warm_start : bool, default=False
        `fit` starts from the weights of the last fit; see `manyclass.fitting.fit`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), sorted labels, or numbers of columns
    class_count_ : ndarray of shape (n_classes,), float64, rows of each class so far
    multilabel_ : bool, whether y was an indicator matrix
    n_labels_ : int, mean number of labels a row
    threshold_ : float or None, the score whose micro-F1 on held-out rows was best
    coef_ : ndarray of shape (n_classes, n_features or dim), float32, a view of the weights
    intercept_ : ndarray of shape (n_classes,), float32
    embedding_ : ndarray of shape (n_features, dim), float32, a view
    loss_curve_ : ndarray of shape (n_iter,), float64, mean loss over each pass, of the classes that its steps saw
    resolved_params_ : dict, what parameters left open became
    validation_curve_ : ndarray of the loss of held-out rows by pass
    best_iter_ : int, the pass, from 1, that was kept
    calibration_ : `Calibration` or None
    n_iter_ : int, number of passes
    n_features_in_ : int, number of features
    feature_names_in_ : ndarray of shape (n_features,), names of features, where X has them

    Notes
    -----
    Scores are no log-probabilities, and there is no `predict_proba`, unless calibration="temperature" makes both.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import MarginClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> MarginClassifier(random_state=0).fit(X, [5, 6, 7] * 20).predict(X[:3]).tolist()
    [5, 6, 7]
    """

    _planner = MarginPlanner

    @storing
    def __init__(
        self,
        *,
        loss: Literal["margin", "triplet"] = "margin",
        smoothing: float = 1.0,
        solver: Literal["adagrad", "sgd", "implicit"] | Part = "adagrad",
        sampler: str | Part = "auto",
        n_negatives: int | Literal["auto"] = "auto",
        model: Literal["auto", "linear", "embedding"] | Part = "auto",
        dim: int | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        max_iter: int = 10,
        early_stopping: bool = False,
        n_iter_no_change: int = 5,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        calibration: Literal["temperature"] | None = None,
        n_models: int = 1,
        warm_start: bool = False,
    ) -> None:
        """Store the parameters."""

    @hinting
    @with_shared_options
    def fit(
        self,
        X: Data | Parts,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ArrayLike] | None = None,
        **shared: Unpack[SharedOptions],
    ) -> Self:
        """Fit the model and return it. If this raises ValueError, the model is as before; divergence is a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), made float32, or raw
            Texts become rows by `vectorizer`, by default a `TextVectorizer()` of `manyclass.datasets`; lists of items
            by its `SequenceEncoder()`, and without y the items that came next are the labels. The model keeps it.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, two or more, text by its composed form (NFC); or 0 and 1, dense or sparse. Rows
            without a label are left out.
        sample_weight : array-like of shape (n_samples,), weights of losses by their ratios; 0: left out, default=None
        eval_set : (X, y), rows on which early_stopping measures the loss, not on a tenth of X, default=None

        Returns
        -------
        MarginClassifier
            The estimator itself.
        """
        return self._fit((X, y, sample_weight), dict(shared, eval_set=eval_set))

    def _not_softmax(self, state: State) -> str:
        return "a margin has none"

    def _best_values(self, state: State, x: Matrix, k: int) -> tuple[Ids, Floats]:
        positions, values = self._top_k(state, x, k)
        if state.calibration is None:  # scores
            shift = state.weights.log_normalizers(x, n_threads_from(self.n_jobs))
            values = (values + shift[:, np.newaxis]).astype(np.float32)
        return positions, values

    def _all_values(self, state: State, x: Matrix) -> Floats | Doubles:
        is_score = state.calibration is None
        return state.weights.scores(x, n_threads_from(self.n_jobs)) if is_score else self._log_probabilities(state, x)

    # Scores of a margin are no log-probabilities: without calibration there is neither of these.

    predict_proba = available_if(_gives_probabilities)(LabelClassifier.predict_proba)
    predict_log_proba = available_if(_gives_probabilities)(LabelClassifier.predict_log_proba)
