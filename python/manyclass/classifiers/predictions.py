"""What every fitted classifier answers by its state: predictions, evaluation, files."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.blending.calibration import label_log_losses
from manyclass.checks import check_choice, check_number, csr_parts, n_threads_from, outer_level, set_named
from manyclass.classifiers import label_sets
from manyclass.classifiers.exclusion import Among, Exclude, best_among, best_but, label_pattern, labels_at, seen_in
from manyclass.classifiers.explanation import Explanation, explanations, top_features
from manyclass.classifiers.files import SavedModel, kind_of, write_model
from manyclass.classifiers.label_sets import By, deepest_nodes, least_score
from manyclass.datasets.csr import ones_at
from manyclass.fitting.points import Caller, by_name, rows_of, some_rows, tagged
from manyclass.labels import (
    Unseen,
    as_labels,
    find_positions,
    group_ids,
    indicator_lists,
    labels_by_row,
    positions_of,
    seen_positions,
)
from manyclass.metrics.inputs import places
from manyclass.metrics.ranking import Places, ranking_report, share_of, with_wrong
from manyclass.search.class_index import ApproximateAnswers, labels_by_copy, vectors_of
from manyclass.training.core_training import summarize
from manyclass.training.state import Calibration, State, checked_weights, weights_left
from manyclass.weights.arrays import Best, Data, Doubles, Floats, Ids, Matrix
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.tensor_file import PathLike
from manyclass.weights.weights import Weights


def of_state(path: str, text: str) -> Any:
    """Return a property of an estimator that is one of its state, by its attributes, with the text for `help`."""
    value_of = attrgetter(path)
    return property(lambda self: value_of(self._fitted), doc=text)


class Answers(ClassifierMixin, BaseEstimator):
    """An estimator that holds the state of a fitted model, or none, and answers for it."""

    __metadata_request__score: ClassVar = {"unseen": UNUSED}  # the same for all rows

    n_jobs: int | None
    random_state: Any
    _planner: ClassVar[Any]  # the class of planners, which says whether e^z is a probability but for its normaliser

    set_params = set_named

    # The state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    @property
    def _fitted(self) -> State:
        """The state; raises NotFittedError, an AttributeError, where there is none."""
        if "_state" not in self.__dict__:
            check_is_fitted(self)  # which takes too long for each prediction
        return cast(State, self.__dict__["_state"])

    def _taken(self, state: State) -> Self:
        """Put a state in the place of the one before."""
        self.__dict__["_state"] = state
        return self

    def _turn(self) -> AbstractContextManager[Any]:
        """Return a lock by which threads that train this estimator take turns; a forked process has another one."""
        locks: dict[int, AbstractContextManager[Any]] = self.__dict__.setdefault("_locks", {})
        return locks.setdefault(os.getpid(), threading.RLock())

    @property
    def _weights(self) -> Weights:
        return self._fitted.weights

    classes_: NDArray[Any] = of_state("classes", "Distinct labels, sorted, (n_classes,).")
    class_count_: Doubles = of_state("counts", "Rows of each class so far, (n_classes,), float64.")
    n_features_in_: int = of_state("features.n", "Number of features.")
    loss_curve_: Doubles = of_state("curve", "The loss of each pass, (n_iter,), float64.")
    calibration_: Calibration | None = of_state("calibration", "How probabilities were calibrated, or None.")
    intercept_: Floats = of_state("weights.intercept", "Intercepts, (n_classes,), float32.")

    @property
    def coef_(self) -> Any:
        """Weights, (n_classes, n_features), float32; of pairs a csc_array."""
        return self._fitted.by_column(self._weights.coef)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of features, (n_features,), where X has some; else an AttributeError."""
        names = self._fitted.features.names
        if names is None:
            raise AttributeError("X had no names of features")
        return names

    @property
    def n_iter_(self) -> int:
        """How many passes training made."""
        return len(self._fitted.curve)

    @property
    def vectorizer_(self) -> Any:
        """What makes rows of texts or of histories, where the model was fitted on those; else an AttributeError."""
        encoder = self._fitted.encoder
        if encoder is None:
            raise AttributeError("the model was fitted on rows, neither on texts nor on sequences")
        return encoder

    @vectorizer_.setter
    def vectorizer_(self, encoder: Any) -> None:
        """Let the model take texts or histories, of which the encoder makes the rows that it was fitted on."""
        self._taken(replace(self._fitted, encoder=encoder))

    # Every question reads the state once, at its beginning, so that a training at the same time does not change it.

    def _asked(self, X: Data) -> tuple[State, Matrix]:
        """Return the state that answers a question, and its rows, checked."""
        state = self._fitted
        # Tags take as long as the prediction of a row; the check of rows asks for none that depends on parameters.
        return state, rows_of(Caller(type(self).__name__, _TAGS_OF_ROWS), state, X)

    def decision_function(self, X: Data) -> Floats:
        """Return the scores x.w_k + b_k, (n_samples, n_classes), float32; of two classes the difference, a 1d array."""
        state, x = self._asked(X)
        scores = state.weights.scores(x, n_threads_from(self.n_jobs))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    # What depends on the distribution of a label given its scores; a subclass replaces it. Classes rank by their scores
    # under every independent, identically distributed noise.

    def _log_probabilities(self, state: State, x: Matrix) -> Doubles:
        """Log-probabilities of all classes."""
        z = state.weights.scores(x, n_threads_from(self.n_jobs)).astype(np.float64)
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        return z

    def _log_losses(self, state: State, x: Matrix, labels: Ids, factor: float = 1.0) -> tuple[Doubles, Ids]:
        """Log-loss of each point, and the rank of its label (0: predicted), of scores times a factor."""
        weights, scale = state.weights.times(factor)
        return weights.log_losses(x, labels, n_threads_from(self.n_jobs), scale)

    def _top_k(self, state: State, x: Matrix, k: int) -> tuple[Ids, Floats]:
        """Positions and log-probabilities of the k best classes of each point, best first."""
        return state.weights.top_k(x, k, n_threads_from(self.n_jobs))

    def _best_values(self, state: State, x: Matrix, k: int) -> tuple[Ids, Floats]:
        """What `predict_top_k` tells of the k best classes of each point; of a margin another number."""
        return self._top_k(state, x, k)

    def _all_values(self, state: State, x: Matrix) -> Floats | Doubles:
        """What `_best_values` tells, of all classes."""
        return self._log_probabilities(state, x)

    def _scores_are_log_odds(self, state: State) -> bool:
        """Whether e^z is a probability but for its normaliser, or calibration makes one of it."""
        return self._planner.trains_log_odds or state.calibration is not None

    def _not_softmax(self, state: State) -> str:
        """Why probabilities are not those of a softmax of the scores, or nothing."""
        return ""

    def predict_log_proba(self, X: Data) -> Doubles:
        """Return the log-probabilities of all classes, (n_samples, n_classes), float64, in nats."""
        state, x = self._asked(X)
        log_p: Doubles = stated(state, self._log_probabilities(state, x))
        return log_p

    def predict_proba(self, X: Data) -> Doubles:
        """Return probabilities, (n_samples, n_classes), float64; rows sum to one, but of several calibrated labels."""
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
        state, x = self._asked(X)
        return state.classes[self._best_classes(state, x, 1)[:, 0]]

    def _best_classes(self, state: State, x: Matrix, k: int) -> Ids:
        """Positions of the k best classes of each point, best first: the same by an 8-bit copy as by all scores."""
        positions = None
        if state.variances is None and labels_by_copy(state.weights, k):
            positions = self._approximate(state).best_classes(x, k, n_threads_from(self.n_jobs))
        return self._top_k(state, x, k)[0] if positions is None else positions

    def _indicator(self, state: State, x: Matrix, k: int | None = None, threshold: float | None = None) -> Any:
        """The labels of each row as an indicator matrix, sparse or dense as that of the fit was."""
        if k is not None and threshold is not None:
            raise ValueError(f"k is {k!r} and threshold is {threshold!r}; at most one of them can be given")
        n_classes = len(state.classes)
        if k is not None:
            check_number("k", k, low=1, high=n_classes, integer=True)
        least_score(threshold, is_probability=self._scores_are_log_odds(state))
        limit = state.threshold if threshold is None else threshold
        if k is not None or limit is None:
            k = min(state.n_labels, n_classes) if k is None else int(k)
            best, indptr = np.sort(self._best_classes(state, x, k), axis=1), k * np.arange(x.shape[0] + 1)
            indicator = sp.csr_array((np.ones(best.size, np.int64), best.ravel(), indptr), shape=(len(best), n_classes))
        else:
            indicator = self._above(state, x, float(limit), with_best=threshold is None)
        return indicator if state.sparse_labels else indicator.toarray()

    def _above(self, state: State, x: Matrix, threshold: float, *, with_best: bool) -> sp.csr_array:
        """The classes of larger probability or score than the threshold and, where asked for, the best one."""
        by_softmax, n_classes = self._scores_are_log_odds(state), state.weights.n_classes
        limit, parts = least_score(threshold, is_probability=by_softmax), []
        if by_softmax and state.calibration is not None:
            limit = state.calibration.limit(threshold)
        for _, scores in state.weights.score_tiles(x, n_threads_from(self.n_jobs)):
            indptr, ids = _core.labels_above(scores, limit, by_softmax, with_best)
            parts.append(sp.csr_array((np.ones(len(ids), np.int64), ids, indptr), shape=(len(scores), n_classes)))
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def predict_top_k(
        self,
        X: Data,
        k: int,
        *,
        exclude: Exclude = None,
        among: Among = None,
        approximate: bool = False,
        recall: float = 0.95,
        return_std: bool = False,
    ) -> Any:
        """Return the k most probable labels of each row, and their log-probabilities or scores, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int in [1, n_classes]
        exclude : for each row a list of labels that it must not get, or a matrix (n_samples, n_classes) of 0 and 1
            Or "seen": the items of a history, all of them; of a row its columns that are not 0, where classes are
            columns of X, by number or name.
        among : the only labels that rows may get, one list for all of them or a list for each, or such a matrix
            Such as what is in stock, or candidates that are to be ranked. Log-probabilities stay those of all classes.
        approximate : bool, default=False
            Ask an 8-bit copy of the weights, or an index, where that is faster:
            see `manyclass.search.class_index`.
        recall : float in ]0, 1], default=0.95
            Share of the best labels that the index is to find.
        return_std : bool, default=False
            Return std, too.

        Returns
        -------
        labels : ndarray of shape (n_samples, k); missing where fewer are left: -1, NaN, "", NaT or else None
        log_probabilities : ndarray of the shape of labels, float32, in nats; of an uncalibrated margin scores
            -inf where a label is missing.
        std : ndarray of shape (n_samples,), float64, how far they may err
        """
        state, x = self._asked(X)
        check_number("k", k, low=1, high=len(state.classes), integer=True)
        check_number("recall", recall, low=0, open_low=True, high=1)
        if approximate and (why := self._not_softmax(state)):
            raise ValueError(f"approximate=True needs the probabilities of a softmax; {why}")
        if approximate and among is not None:
            raise ValueError(
                "approximate=True searches all classes, and among has those to score; leave one of them out"
            )
        best: Best | None = None
        if approximate:
            asked = (int(k), float(recall), self.random_state, n_threads_from(self.n_jobs))
            best = self._approximate(state).finder(x, *asked, self._exact(state))
        positions, values, std = self._ranked(state, X, x, int(k), exclude, among, best)
        answers = labels_at(state.classes, positions), stated(state, values).astype(np.float32)
        return (*answers, std) if return_std else answers

    def _exact(self, state: State) -> Best:
        """Return what finds the best classes of rows by all scores."""
        return lambda x, k: (*self._best_values(state, x, k), np.zeros(x.shape[0]))

    def _ranked(
        self, state: State, X: Data, x: Matrix, k: int, exclude: Exclude, among: Among = None, best: Best | None = None
    ) -> tuple[Ids, Floats, Doubles]:
        """Return positions of the best classes of rows x, which were made of X, with their values and std."""
        best = best or self._exact(state)
        if isinstance(exclude, str):
            check_choice("exclude", exclude, ("seen",))
            encoder, history = state.encoder, cast(Any, X)
            is_history = encoder is not None and encoder.column_labels is not None and encoder.takes(X)
            names, n = state.column_labels, state.features.n
            exclude = history if is_history else seen_in(state.by_column(x), state.classes, names, n)
        wrong, allowed = (
            None if labels is None else label_pattern(labels, x.shape[0], state.classes, name)
            for name, labels in (("exclude", exclude), ("among", among))
        )
        by_place = state.variances is not None
        if allowed is not None:
            positions, values = best_among(x, k, allowed, wrong, partial(self._all_values, state), in_place=by_place)
            return positions, values, np.zeros(x.shape[0])
        return best(x, k) if wrong is None else best_but(x, k, wrong, best, in_place=by_place)

    def similar(self, labels: ArrayLike, k: int = 10) -> tuple[NDArray[Any], Floats]:
        """Return the k classes that are most like each label, such as items that sell to the same people.

        Of up to 4,096 classes they are exact; of more an index finds some nine of ten. It is made by the first call,
        and kept until the next fit.

        Parameters
        ----------
        labels : array-like of shape (n,), or one label
        k : int in [1, n_classes - 1], default=10

        Returns
        -------
        labels : ndarray of shape (n, k), nearest first, the label itself left out
        cosines : ndarray of shape (n, k), float32
            Of the vectors of classes: those beside the embeddings, else the rows of W.
        """
        state = self._fitted
        check_number("k", k, low=1, high=max(1, len(state.classes) - 1), integer=True)
        positions = positions_of(np.atleast_1d(as_labels(labels)), state.classes, "labels")
        index = self._approximate(state).neighbours
        cosines, ids = index.query(index.rows_[positions], int(k), exclude=positions[:, np.newaxis].tolist())
        return state.classes[ids], cosines

    def top_features(self, label: Any, k: int = 10) -> tuple[NDArray[Any], Doubles]:
        """Return the features of largest weight for a label, by their names if they have some, and these weights,
        largest first: what each adds to the label's score with value 1. `manyclass.classifiers.explanation`."""
        state = self._fitted
        check_number("k", k, low=1, integer=True)
        return top_features(state, int(positions_of(as_labels([label]), state.classes, "label")[0]), int(k))

    def explain(self, X: Data, k: int = 10, *, labels: Any = None, against: Any = None) -> list[Explanation]:
        """Return for each row what its features add to the score of the predicted label, or of its one in `labels`:
        the k features that matter most, and the sum of the others. With `against`, a label for each row, the log-odds
        of the two labels are explained instead. See `manyclass.classifiers.explanation`."""
        state, x = self._asked(X)
        check_number("k", k, low=1, integer=True)
        positions_by_name = [
            None if argument is None else positions_of(labels_by_row(argument, x.shape[0]), state.classes, name)
            for name, argument in (("labels", labels), ("against", against))
        ]
        positions = self._top_k(state, x, 1)[0][:, 0] if positions_by_name[0] is None else positions_by_name[0]
        return explanations(state, x, positions, positions_by_name[1], int(k), n_threads_from(self.n_jobs))

    def calibrate_sets(
        self,
        X: Data,
        y: ArrayLike,
        coverage: float | ArrayLike = 0.9,
        *,
        by: By | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Prepare `predict_set` by rows that training has not seen, a hundred or more, and return the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        coverage : float in ]0, 1[, or several
            The probability that the right label of a new row of the same kind is in its set.
        by : {"class", "cluster", "prevalence"} or None, default=None
            For rows of each class, or of each cluster of like classes; or so that rare classes are covered more often.
            None: for all rows, in small sets; see `help(manyclass.classifiers.label_sets)`.
        groups : array-like of shape (n_samples,), default=None
            The group of each row, as in `fit`: what is chosen by some groups is measured by others.
        """
        with self._turn():
            state, x = self._asked(X)
            self._refuse_sets(state, "calibrate_sets")
            ids = None if groups is None else group_ids(groups, x.shape[0])
            labels, n_classes = find_positions(labels_by_row(y, x.shape[0]), state.classes, "y"), len(state.classes)
            wanted = np.atleast_1d(np.asarray(coverage, dtype=np.float64)).tolist()
            if by is None:
                top_k = partial(self._top_k, state)
                stands = label_sets.before_and_rank(partial(self._log_probabilities, state), x, labels, n_classes)
                rules = [label_sets.set_rule(top_k, x, stands, share, n_classes, ids) for share in wanted]
            else:
                check_choice("by", by, get_args(By))
                losses, known = np.full(len(labels), np.inf), labels >= 0
                losses[known], _ = self._log_losses(state, x[known], labels[known])
                rules = [label_sets.class_rule(losses, labels, state.counts, share, by, ids) for share in wanted]
            return self._taken(replace(state, sets=tuple(rules)))

    def predict_set(self, X: Data, coverage: float = 0.9) -> list[NDArray[Any]]:
        """Return for each row the labels, most probable first, that contain the right one with probability `coverage`,
        which `calibrate_sets` must have been given. See `manyclass.classifiers.label_sets`."""
        indptr, labels, _ = ranked_set(self, X, coverage)
        return np.split(labels, indptr[1:-1])

    def predict_ancestor(
        self, X: Data, parents: Mapping[Any, Any], *, min_probability: float = 0.5
    ) -> tuple[NDArray[Any], Doubles]:
        """Return for each row the most specific node of a hierarchy that is probable enough, and its probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        parents : mapping of label to label, the parent of each class or node that has one
        min_probability : float in ]0, 1], default=0.5

        Returns
        -------
        nodes : ndarray of shape (n_samples,), of objects
            A class, or a node above classes; None where no node at the top is as probable.
        probabilities : ndarray of shape (n_samples,), float64
            The sum of those of the classes below the node.
        """
        check_number("min_probability", min_probability, low=0, open_low=True, high=1)
        state, x = self._asked(X)
        self._refuse_sets(state, "predict_ancestor")
        return deepest_nodes(parents, state.classes, partial(self._log_probabilities, state), x, min_probability)

    def _refuse_sets(self, state: State, method: str) -> None:
        """Raise ValueError where there are no probabilities of single labels."""
        if state.several or not self._scores_are_log_odds(state):
            why = "was fitted on several" if state.several else "has no probabilities without calibration='temperature'"
            raise ValueError(f"{method} is for probabilities of one label a row; the model {why}")

    def _approximate(self, state: State) -> ApproximateAnswers:
        """Return the index and the 8-bit copy over these weights, or room for them."""
        answers: ApproximateAnswers | None = self.__dict__.get("_kept_answers")
        if answers is None or answers.weights is not state.weights:
            answers = self._kept_answers = ApproximateAnswers(state.weights)
        return answers

    def __getstate__(self) -> dict[str, Any]:
        # For copies and joblib: all but what can be made again, and the locks.
        return {name: value for name, value in super().__getstate__().items() if name not in _NOT_COPIED}

    def evaluate(
        self,
        X: Data,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        unseen: Unseen = "drop",
        k: Places | None = None,
        exclude: Exclude = None,
    ) -> dict[str, float]:
        """Return exact means over rows, without an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or raw, as in fit
        y : array-like of labels, as in fit
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of rows in all means; not with k.
        unseen : {"drop", "error", "wrong"}, default="drop"
            Rows whose label fit has not seen are left out, refused, or wrong, in all measures but the log-loss.
        k : int or sequence of int, default=None
            Measures of the first k labels, of each k: those of `manyclass.metrics.ranking_report`.
        exclude : as in `predict_top_k`, default=None
            What k labels leave out, as "seen". The other measures are of all classes.

        Returns
        -------
        dict of str to float
            "log_loss" in nats, "error" and "top5_error"; and "n_unseen", how many rows have a label that fit has not
            seen. Of several labels: the log-loss of a row's labels, "label_log_loss" of all labels as yes or no, and
            "precision_at_1", 3, 5. With k: "hit_at_10", "mrr_at_10", ...
        """
        state, x, weights, lists, rows = self._labelled(X, y, sample_weight, unseen)
        left, known = weights_left(weights, rows, "has a label seen in fit"), some_rows(x, rows)
        if state.several:
            means = self._evaluated_lists(state, known, lists, left)
        else:
            means = summarize(*self._log_losses(state, known, lists.indices), left)
            if not self._scores_are_log_odds(state):
                del means["log_loss"]
            means["n_unseen"] = x.shape[0] - len(rows)
        if k is not None:
            if weights is not None:
                raise ValueError("sample_weight is given with k, whose measures have no weights; leave one of them out")
            most = int(places(k).max())
            check_number("k", most, low=1, high=len(state.classes), integer=True)
            ranked, _, _ = self._ranked(state, X, x, most, exclude)
            means |= ranking_report(lists, ranked[rows], k, counts=state.counts)
        elif exclude is not None:
            raise ValueError("exclude is given without k, whose measures leave labels out; give k, too")
        return with_wrong(means, share_of(weights, rows, x.shape[0])) if unseen == "wrong" else means

    def _labelled(
        self, X: Data, y: Any, sample_weight: ArrayLike | None, unseen: Unseen
    ) -> tuple[State, Matrix, Doubles | None, sp.csr_array, NDArray[np.intp]]:
        """Return the state, rows and their weights, the labels of the rows with one that is a class, and which."""
        check_choice("unseen", unseen, get_args(Unseen))
        state, x = self._asked(X)
        weights = checked_weights(sample_weight, x.shape[0])
        if state.several:
            lists = lists_of(state, y, x.shape[0])
            rows = np.flatnonzero(np.diff(lists.indptr))
            return state, x, weights, lists[rows], rows
        positions, rows = seen_positions(y, x.shape[0], state.classes, unseen)
        return state, x, weights, ones_at(positions, np.ones(len(rows)), len(state.classes)), rows

    def _evaluated_lists(
        self, state: State, x: Matrix, lists: sp.csr_array, weights: Doubles | None
    ) -> dict[str, float]:
        """The precisions and log-losses of several labels a row."""
        ks = [k for k in (1, 3, 5) if k <= len(state.classes)]
        best, (indptr, ids, _) = self._top_k(state, x, ks[-1])[0], csr_parts(lists)
        hits = _core.label_hits(indptr, ids, np.ascontiguousarray(best))
        precisions = {f"precision_at_{k}": float(np.average(hits[:, :k].mean(axis=1), weights=weights)) for k in ks}
        precisions = {"error": 1 - precisions["precision_at_1"], **precisions}
        if not self._scores_are_log_odds(state):
            return precisions
        losses_by_row = label_log_losses(state.weights, x, lists, state.calibration, n_threads_from(self.n_jobs))
        label_loss, row_loss = (float(np.average(losses, weights=weights)) for losses in losses_by_row)
        losses = {"log_loss": row_loss} if self._planner.trains_log_odds else {}
        return {**losses, "label_log_loss": label_loss, **precisions}

    def score(self, X: Data, y: Any, sample_weight: ArrayLike | None = None, *, unseen: Unseen = "drop") -> float:
        """Return the accuracy of `predict`, weighted by `sample_weight`; `unseen` as in `evaluate`, with a warning. Of
        several labels the share of rows with exactly the right ones."""
        state, x, weights, lists, rows = self._labelled(X, y, sample_weight, unseen)
        if state.several:
            wrong = abs(sp.csr_array(self._indicator(state, x)) - lists_of(state, y, x.shape[0])).sum(axis=1)
            return float(np.average(wrong == 0, weights=weights))
        if (n_unseen := x.shape[0] - len(rows)) and unseen == "drop":
            warnings.warn(
                f"{n_unseen} of {x.shape[0]} points have labels unseen in fit and are left out of the score; "
                "unseen='error' refuses them, unseen='wrong' counts them",
                UserWarning,
                stacklevel=outer_level(),
            )
        is_right = self._top_k(state, some_rows(x, rows), 1)[0][:, 0] == lists.indices
        accuracy = np.average(is_right, weights=weights_left(weights, rows, "has a label seen in fit"))
        return float(accuracy) * (share_of(weights, rows, x.shape[0]) if unseen == "wrong" else 1.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model for `manyclass.load`, all or nothing; a TypeError for labels that are objects but strings.

        Parameters that `fit` would refuse, set since then, are refused by a ValueError that names them.
        """
        self._save(path)

    def _save(self, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
        state = self._fitted
        self.check_parameters()  # else `load` would refuse them
        write_model(self._model(state), path, notes)

    def _model(self, state: State) -> SavedModel:
        """What a file has of the estimator, with a state."""
        return kind_of(self), self.get_params(deep=False), state

    def storage(self) -> dict[str, Any]:
        """Return the layout of the "weights", "weight_bytes", "weight_dtype"; "hashed_features" where it hashes."""
        state = self._fitted
        weights = state.weights
        layout = {"weights": weights.layout, "weight_bytes": weights.nbytes, "weight_dtype": weights.dtype}
        hashing = state.hashing
        return {**layout, "hashed_features": hashing.n_rows} if isinstance(hashing, FeatureHash) else layout

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


_TAGS_OF_ROWS = BaseEstimator().__sklearn_tags__()
_TAGS_OF_ROWS.input_tags.sparse = True
_NOT_COPIED = ("_kept_answers", "_locks")


def stated(state: State, log_p: Any) -> Any:
    """Return what is told of log-probabilities of the softmax: of several labels, the calibrated ones of each."""
    calibration = state.calibration
    return log_p if calibration is None or not state.several else calibration.log_probabilities(log_p)


def lists_of(state: State, y: Any, n_samples: int) -> sp.csr_array:
    """The labels of points, an indicator matrix of as many columns as there are classes."""
    y = tagged(y, state.classes)
    if hasattr(y, "columns"):
        y, _ = by_name(y, state.classes)
    lists = indicator_lists(y, n_samples)
    if lists.shape[1] != len(state.classes):
        raise ValueError(f"y has {lists.shape[1]} columns; the model has {len(state.classes)} classes")
    return lists


# What other folders ask of an estimator


def state_of(model: Answers) -> State:
    """Return the state of a fitted estimator; raises NotFittedError, an AttributeError, where there is none."""
    return model._fitted


def vectorizer_of(model: Answers) -> Any:
    """Return what makes rows of texts or histories, where a fitted estimator has it as `vectorizer_`; else None."""
    return model._fitted.encoder


def has_probabilities(model: Answers) -> bool:
    """Whether a fitted estimator has `predict_proba`; a margin has it where it is calibrated."""
    return model._scores_are_log_odds(model._fitted)


def ranked_set(model: Answers, X: Data, coverage: float) -> tuple[NDArray[np.int64], NDArray[Any], Floats]:
    """Return `predict_set` as row pointers, labels and log-probabilities, one row after the other.

    Parameters
    ----------
    model : fitted classifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    coverage : float

    Raises
    ------
    ValueError
        If the model's `calibrate_sets` was not given this coverage.
    """
    state, x = model._asked(X)
    rule = next((known_rule for known_rule in state.sets if known_rule.coverage == coverage), None)
    if rule is None:
        known = ", ".join(str(known_rule.coverage) for known_rule in state.sets) or "none"
        raise ValueError(f"coverage is {coverage}; calibrate_sets(X, y, coverage) was given {known}")
    if rule.limits is None:
        indptr, positions, log_p = label_sets.ranked_in_sets(partial(model._top_k, state), x, rule, len(state.classes))
    else:
        indptr, positions, log_p = label_sets.above_limits(partial(model._log_probabilities, state), x, rule.limits)
    return indptr, state.classes[positions], log_p


def build_index(model: Answers, X: Data, k: int, recall: float) -> None:
    """Build and tune the index that `predict_top_k(X, k, approximate=True, recall=recall)` then searches.

    Parameters
    ----------
    model : fitted classifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows like those to come, at least 128.
    k : int
    recall : float in ]0, 1]

    Raises
    ------
    ValueError
        If scoring all classes is predicted to be faster, probabilities are not those of a softmax, or rows are too few.
    """
    check_number("recall", recall, low=0, open_low=True, high=1)
    state, x = model._asked(X)
    if why := model._not_softmax(state):
        raise ValueError(f"approximate answers need the probabilities of a softmax; {why}")
    model._approximate(state).build(x, k, recall, model.random_state, n_threads_from(model.n_jobs))


def caller_of(model: Answers) -> Caller:
    """Return who asks for a check of data in the estimator's name."""
    return Caller(type(model).__name__, model.__sklearn_tags__())


Fitted = TypeVar("Fitted", bound=Answers)


def with_state(model: Fitted, state: State) -> Fitted:
    """Give an estimator a state, and return it."""
    return model._taken(state)


def with_classes(model: Fitted, classes: NDArray[Any]) -> Fitted:
    """Give the classes of a fitted estimator other names, in their order, and return it."""
    return model._taken(replace(model._fitted, classes=classes))


def uncalibrated_confidence(model: Answers, X: Data, labels: ArrayLike) -> Doubles:
    """Return the probability that a label of each row would have without the calibration of a model of one label a row.

    Parameters
    ----------
    model : fitted classifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    labels : array-like of shape (n_samples,)

    Returns
    -------
    ndarray of shape (n_samples,), float64
    """
    state, x = model._asked(X)
    factor = 1.0 if state.calibration is None else state.calibration.temperature
    losses, _ = model._log_losses(state, x, positions_of(labels_by_row(labels, x.shape[0]), state.classes, "y"), factor)
    confidence: Doubles = np.exp(-losses)
    return confidence


def class_vectors(model: Answers) -> Floats:
    """The vectors that stand for the classes of a fitted model: those beside its embeddings, else the rows of W.

    Parameters
    ----------
    model : fitted classifier

    Returns
    -------
    ndarray of shape (n_classes, dim or n_features), float32

    Raises
    ------
    ValueError
        If the model has weights on pairs: its classes have few weights each, and no vectors to compare.
    """
    return vectors_of(model._weights)
