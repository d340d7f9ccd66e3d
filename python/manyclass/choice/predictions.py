"""What a fitted choice model is, what it predicts, and what follows where features or alternatives change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.choice.fitting import make_problems
from manyclass.choice.mixed import MixedLogit
from manyclass.choice.mixture import ChoiceState, MixtureProblem
from manyclass.choice.sets import ChoiceSets, choice_sets, names_by_kind, positions_among
from manyclass.labels import as_labels
from manyclass.weights.arrays import Doubles

FARTHEST = 745.0  # that the logarithm of a probability moves before it is that of 0
STEP = 1e-4  # of utilities: the third derivative leaves some 1e-9 in relation to the first


def features_by_kind(model: FittedChoiceModel) -> dict[str, tuple[str, ...]]:
    """Return the names of the features of "choosers", "alternatives" and "pairs" that a model was fitted on.

    Parameters
    ----------
    model : ChoiceClassifier
    """
    return names_by_kind(model._fitted.form)


def _of_state(path: str, doc: str) -> Any:
    """An attribute that is a part of the fitted state."""
    return property(attrgetter(f"_fitted.{path}"), doc=doc)


class FittedChoiceModel(ClassifierMixin, BaseEstimator):
    """An estimator that holds the state of a fitted choice model, or none, and answers for it."""

    n_jobs: int | None
    mixture: Any

    # The state

    @property
    def _fitted(self) -> ChoiceState:
        state: ChoiceState | None = self.__dict__.get("_state")
        if state is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' before using it.")
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    classes_ = _of_state("alternatives", "Labels of the alternatives, (n_alternatives,).")
    coef_ = _of_state("fit.theta", "All coefficients, (n_coefficients,), float64.")
    coef_names_ = _of_state("names", "Names of the coefficients.")
    covariance_ = _of_state("covariance.matrix", "Covariance of the coefficients; NaN where there is none.")
    std_errors_error_ = _of_state("covariance.error", "Relative standard errors of the standard errors.")
    draw_errors_ = _of_state("fit.draw_errors", "Standard errors that drawn alternatives leave in the coefficients.")
    loss_curve_ = _of_state("fit.losses", "Mean log-loss with the ridge by iteration or pass, (n_iter,).")
    converged_ = _of_state("fit.converged", "Whether the fit ended at a maximum; false where there is none.")
    unidentified_ = _of_state("unidentified", "By the name of each coefficient that the data do not tell, the cause.")
    log_likelihood_ = _of_state("log_likelihood", "Log-likelihood of the training data in nats; NaN by drawn ones.")
    solver_ = _of_state("solver", "The solver that fitted the model.")

    @property
    def std_errors_(self) -> Doubles:
        """Standard errors of the coefficients, (n_coefficients,), float64."""
        return np.asarray(np.sqrt(np.diag(self.covariance_)))

    @property
    def interactions_(self) -> Doubles:
        """W, (n_chooser_features, n_alternative_features), or n_alternatives - 1 columns; float64."""
        form = self._fitted.form
        return form.core.interactions(self.coef_) if form.rank else np.zeros((len(form.chooser_names), 0))

    @property
    def n_iter_(self) -> int:
        """Iterations or passes made."""
        return len(self.loss_curve_)

    # Predictions

    def _rows(self, X: Any) -> ChoiceSets:
        state, form = self._fitted, self._fitted.form
        if isinstance(X, ChoiceSets):
            if (of_data := names_by_kind(X)) != (of_model := names_by_kind(form)):
                raise ValueError(f"the data have features {of_data}; the model was fitted on {of_model}")
            bound = form.own_tastes or len(form.group_labels) or len(form.nest_labels)
            if bound and not np.array_equal(X.alternatives, state.alternatives):
                raise ValueError("the data have other alternatives than the model, whose coefficients belong to them")
            return X
        if form.pair_names:
            raise ValueError("the model has features of pairs; give ChoiceSets (manyclass.datasets.choice_sets)")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        names: Any = {"chooser_names": form.chooser_names, "alternative_names": form.alternative_names}
        return choice_sets(alternatives=state.alternatives, X=X, Z=state.Z, **names)

    def _problems(self, sets: ChoiceSets) -> Iterator[_core.ChoiceProblem | MixtureProblem]:
        """The problems of ranges of rows, with the alternatives that these have."""
        form = replace(self._fitted.form, n_alternatives=sets.n_alternatives)
        if self._fitted.mixture is not None:
            return self._fitted.mixture.problems(form, sets, n_threads_from(self.n_jobs))
        return make_problems(form, sets, n_threads_from(self.n_jobs))

    def _answers(self, sets: ChoiceSets, name: str) -> Doubles:
        """What the problems answer by row: "utilities", "probabilities", "losses" or "inclusive_values"."""
        return np.concatenate([getattr(problem, name)(self.coef_) for problem in self._problems(sets)])

    def _losses(self, sets: ChoiceSets) -> Doubles:
        return self._answers(replace(sets, chosen=sets.known_choices), "losses")

    def decision_function(self, X: Any) -> Doubles:
        """Return the utilities without noise; of two alternatives that of the second less the first.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), or (n_rows,) of two; -infinity where one is not available
        """
        u = self.utilities(X)
        return u if u.shape[1] != 2 else np.asarray(u[:, 1] - u[:, 0])

    def utilities(self, X: Any) -> Doubles:
        """Return the utilities without noise, (n_rows, n_alternatives), -infinity where one is not available.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        """
        return self._answers(self._rows(X), "utilities")

    def predict_proba(self, X: Any) -> Doubles:
        """Return the probability of each alternative, 0 where one is not available.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), float64
        """
        return self._answers(self._rows(X), "probabilities")

    def predict_log_proba(self, X: Any) -> Doubles:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of the most probable alternative of each row, (n_rows,).

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        """
        return np.asarray(self.predict_top_k(X, 1)[0][:, 0])

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[NDArray[Any], Doubles]:
        """Return the k most probable alternatives of each row, best first, and their probabilities.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        k : int

        Returns
        -------
        labels : ndarray of shape (n_rows, k)
        probabilities : ndarray of shape (n_rows, k), float64
        """
        sets = self._rows(X)
        check_number("k", k, low=1, high=sets.n_alternatives, integer=True)
        ids, shares = zip(*(problem.most_probable(self.coef_, k) for problem in self._problems(sets)), strict=True)
        return sets.alternatives[np.concatenate(ids)], np.concatenate(shares)

    def evaluate(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Return the mean log-loss in nats and the share of rows that are not predicted right.

        Parameters
        ----------
        X : ChoiceSets with choices, or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), labels, with an array
        sample_weight : array-like of shape (n_rows,), optional, with an array

        Returns
        -------
        dict with "log_loss" and "error"
        """
        sets = self._chosen(X, y, sample_weight)
        by_row = {"log_loss": self._losses(sets), "error": self.predict(sets) != sets.labels}
        return {name: float(np.average(values, weights=sets.sample_weight)) for name, values in by_row.items()}

    def _chosen(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> ChoiceSets:
        """The data with what was chosen, and their weights, where these are given beside."""
        sets = self._rows(X)
        if y is not None:
            sets = replace(sets, chosen=positions_among(y, sets.alternatives, "y").astype(np.int32))
        if sample_weight is not None:
            sets = replace(sets, sample_weight=np.asarray(sample_weight, dtype=np.float64))
        return sets

    def log_likelihood(self, X: ChoiceSets) -> float:
        """Return the log-likelihood of choices, in nats.

        Parameters
        ----------
        X : ChoiceSets with choices
        """
        sets = self._rows(X)
        if self._fitted.mixture is not None:
            return self._fitted.mixture.log_likelihood(self.coef_, self._fitted.form, sets, n_threads_from(self.n_jobs))
        return -float(np.sum(sets.weights * self._losses(sets)))

    def person_coefficients(self, X: ChoiceSets) -> tuple[Doubles, Doubles]:
        """Return means and standard deviations of persons' coefficients given their choices; of a mixed logit.

        Parameters
        ----------
        X : ChoiceSets with choices

        Returns
        -------
        means : ndarray of shape (n_persons, n_varying), float64
            Persons in the order of their numbers, coefficients in that of ``mixture.coefficients``.
        deviations : ndarray of shape (n_persons, n_varying), float64
        """
        state = self._fitted
        if not isinstance(state.mixture, MixedLogit):
            raise ValueError("the model has no coefficients of persons; it must have mixture=RandomCoefficients(...)")
        sets = self._chosen(X, None, None)
        return state.mixture.person_coefficients(self.coef_, state.form, sets, n_threads_from(self.n_jobs))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows that are predicted right.

        Parameters
        ----------
        X : ChoiceSets with choices, or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), labels, with an array
        sample_weight : array-like of shape (n_rows,), optional, with an array
        """
        if isinstance(X, ChoiceSets):
            return 1 - self.evaluate(X, y, sample_weight)["error"]
        return float(super().score(X, y, sample_weight))

    def inclusive_values(self, X: Any) -> Doubles:
        """Return the logsum of each row, the expected largest utility but for Euler's constant; of Gumbel noise.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,), float64
        """
        sets = self._rows(X)
        if self._fitted.form.noise != "gumbel":
            raise ValueError(f"noise is {self._fitted.form.noise!r}; inclusive values are those of 'gumbel'")
        return self._answers(sets, "inclusive_values")

    def _column(self, name: str) -> int:
        names: list[str] = self.coef_names_
        if name not in names:
            raise ValueError(f"{name!r} is no coefficient; there are {', '.join(names[:20])}")
        return names.index(name)

    # What changes do

    def marginal_effects(self, X: Any, feature: str, alternative: Any = None) -> Doubles:
        """Return the derivatives of all probabilities by a feature, by central differences.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        feature : str
            Or a column of the table that a formula made features of; all that follow from it move.
        alternative : label, optional
            The alternative whose feature moves; without, those of all alternatives or that of the chooser do.

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), float64
        """
        parts = self._rows(X).parts()
        return np.concatenate([self._derivatives(part, feature, alternative, relative=False) for part in parts])

    def _derivatives(self, sets: ChoiceSets, feature: str, alternative: Any, *, relative: bool) -> Doubles:
        """The derivatives of all probabilities by a feature, or by shares of it, by central differences."""

        def answer(name: str, step: float) -> Doubles:
            def move(values: Doubles) -> Doubles:
                return values * (1 + step) if relative else values + step

            return self._answers(_moved(sets, feature, alternative, move), name)

        utilities, step = self._answers(sets, "utilities"), STEP
        finite = np.isfinite(utilities)
        for _ in range(2):  # those of a mixture are not linear
            moves = np.nan_to_num(np.abs(answer("utilities", step)[finite] - utilities[finite]), posinf=FARTHEST)
            steepest = float(np.max(moves, initial=0)) / step
            if steepest == 0:
                return np.zeros(utilities.shape)
            step = STEP / steepest
        return np.asarray((answer("probabilities", step) - answer("probabilities", -step)) / (2 * step))

    def elasticities(self, X: ChoiceSets, feature: str, alternative: Any = None) -> Doubles:
        """Return by how many percent the expected share of each alternative moves by one percent of a feature.

        Means over rows are weighted by probabilities.

        Parameters
        ----------
        X : ChoiceSets
        feature : str
            Or a column of the table that a formula made features of; all that follow from it move.
        alternative : label, whose feature moves; choosers and a wide table have columns instead

        Returns
        -------
        ndarray of shape (n_alternatives,), float64
        """
        sets = self._rows(X)
        if alternative is None and feature in (*sets.alternative_names, *sets.pair_names):
            raise ValueError(f"alternative must be the one whose {feature!r} moves")
        effects, shares = np.zeros((2, sets.n_alternatives))
        for part in sets.parts():
            effects += part.weights @ self._derivatives(part, feature, alternative, relative=True)
            shares += part.weights @ self._answers(part, "probabilities")
        return np.asarray(np.divide(effects, shares, out=np.zeros(len(shares)), where=shares > 0))

    def simulate(self, before: ChoiceSets, after: ChoiceSets, price: str | None = None) -> dict[str, Any]:
        """Compare two worlds: alternatives removed (`ChoiceSets.without`), added, or changed (`ChoiceSets.changed`).

        Parameters
        ----------
        before : ChoiceSets
        after : ChoiceSets of the same choosers
        price : str, optional
            The coefficient of money, by which changes of inclusive values become money.

        Returns
        -------
        dict
            "share_before" and "share_after", by alternative of each; "shares", the columns of a table of both; of
            Gumbel noise "inclusive_value_change" by row, and with a price "surplus_change" by row, in its unit.
        """
        if before.n_rows != after.n_rows:
            rows = f"{before.n_rows} rows before and {after.n_rows} after"
            raise ValueError(f"there are {rows}; they must be the same choosers")
        labels = [*dict.fromkeys([*before.alternatives.tolist(), *after.alternatives.tolist()])]
        changes: dict[str, Any] = {}
        shares: dict[str, Any] = {"alternative": np.array(labels, dtype=object)}
        for name, sets in (("before", before), ("after", after)):
            share = np.average(self.predict_proba(sets), axis=0, weights=before.sample_weight)
            by_label = dict(zip(sets.alternatives.tolist(), share, strict=True))
            changes[f"share_{name}"], shares[name] = share, np.array([by_label.get(label, 0.0) for label in labels])
        changes["shares"] = shares | {"change": shares["after"] - shares["before"]}
        if self._fitted.form.noise == "gumbel":
            changes["inclusive_value_change"] = self.inclusive_values(after) - self.inclusive_values(before)
            if price is not None:
                if price in getattr(self.mixture, "coefficients", ()):
                    raise ValueError(f"{price!r} varies among persons; a surplus in money needs a price that does not")
                changes["surplus_change"] = changes["inclusive_value_change"] / -self.coef_[self._column(price)]
        return changes


def _moved(sets: ChoiceSets, feature: str, alternative: Any, move: Callable[[Doubles], Doubles]) -> ChoiceSets:
    """The data where the values of a feature move, those of one alternative or, with None, of all."""
    source, owners = sets.source, None  # of each value the alternative
    if source is not None and feature in source.table:
        owners = source.alternative and as_labels(source.table[source.alternative])
    elif feature in sets.alternative_names:
        owners = sets.alternatives
    elif feature in sets.pair_names:
        sets = replace(sets, lists=sets.lists.filled(sets.n_alternatives))
        owners = sets.alternatives[sets.lists.alternatives]
    is_moved: Any = True
    if alternative is not None:
        if owners is None:
            raise ValueError(f"{feature!r} is of choosers or of their rows, and of no alternative: name no alternative")
        position = positions_among([alternative], sets.alternatives, "alternative")[0]
        is_moved = np.asarray(owners == sets.alternatives[position])

    def moved(values: Any) -> Doubles:
        numbers = np.asarray(values, dtype=np.float64)
        return np.where(is_moved, move(numbers), numbers)

    return sets.changed(**{feature: moved})
