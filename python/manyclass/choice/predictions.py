"""What a fitted choice model answers: predictions, inference, and what follows from policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.choice.files import ChoiceState
from manyclass.choice.fitting import make_problems
from manyclass.choice.inference import ChoiceSummary, Test
from manyclass.choice.mixed import MixedLogit
from manyclass.choice.mixture import MixtureProblem
from manyclass.choice.sets import ChoiceSets, positions_among
from manyclass.choice.tables import choice_sets
from manyclass.weights.arrays import Doubles


def features_by_kind(model: FittedChoiceModel) -> dict[str, tuple[str, ...]]:
    """Return the names of the features of "choosers", "alternatives" and "pairs" that a model was fitted on.

    Parameters
    ----------
    model : ChoiceClassifier
    """
    form = model._fitted.form
    return {"choosers": form.chooser_names, "alternatives": form.alternative_names, "pairs": form.pair_names}


class FittedChoiceModel(ClassifierMixin, BaseEstimator):
    """An estimator that holds the state of a fitted choice model, or none, and answers for it."""

    n_jobs: int | None

    # The state

    @property
    def _fitted(self) -> ChoiceState:
        state: ChoiceState | None = self.__dict__.get("_state")
        if state is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' before using it.")
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of the alternatives, (n_alternatives,)."""
        return self._fitted.alternatives

    @property
    def coef_(self) -> Doubles:
        """All coefficients, (n_coefficients,), float64."""
        return self._fitted.fit.theta

    @property
    def coef_names_(self) -> list[str]:
        """Names of the coefficients."""
        return self._fitted.names

    @property
    def covariance_(self) -> Doubles:
        """Covariance of the coefficients, (n_coefficients, n_coefficients), float64; NaN where there is none."""
        return self._fitted.covariance.matrix

    @property
    def std_errors_(self) -> Doubles:
        """Standard errors of the coefficients, (n_coefficients,), float64."""
        return np.asarray(np.sqrt(np.diag(self.covariance_)))

    @property
    def std_errors_error_(self) -> Doubles:
        """Relative standard errors of the standard errors, (n_coefficients,), float64."""
        return self._fitted.covariance.error

    @property
    def draw_errors_(self) -> Doubles:
        """Standard errors that drawn alternatives leave in the coefficients, (n_coefficients,), float64."""
        return self._fitted.fit.draw_errors

    @property
    def interactions_(self) -> Doubles:
        """W, (n_chooser_features, n_alternative_features), or n_alternatives - 1 columns; float64."""
        form = self._fitted.form
        return form.core.interactions(self.coef_) if form.rank else np.zeros((len(form.chooser_names), 0))

    @property
    def loss_curve_(self) -> Doubles:
        """Mean log-loss with the ridge by iteration or pass, (n_iter,), float64."""
        return self._fitted.fit.losses

    @property
    def n_iter_(self) -> int:
        """Iterations or passes made."""
        return len(self._fitted.fit.losses)

    @property
    def converged_(self) -> bool:
        """Whether L-BFGS ended at the maximum, and, with "double_sum", whether there is one."""
        return self._fitted.fit.converged

    @property
    def unidentified_(self) -> dict[str, str]:
        """By the name of each coefficient that the data do not tell, the cause."""
        return dict(self._fitted.unidentified)

    @property
    def log_likelihood_(self) -> float:
        """Log-likelihood of the training data in nats; NaN with drawn alternatives (see `log_likelihood`)."""
        return self._fitted.log_likelihood

    @property
    def solver_(self) -> str:
        """The solver that fitted the model."""
        return self._fitted.solver

    # Predictions

    def _rows(self, X: Any) -> ChoiceSets:
        state, form = self._fitted, self._fitted.form
        if isinstance(X, ChoiceSets):
            feature_names = (X.chooser_names, X.alternative_names, X.pair_names)
            fitted_names = (form.chooser_names, form.alternative_names, form.pair_names)
            if feature_names != fitted_names:
                raise ValueError(f"the data have features {feature_names}; the model was fitted on {fitted_names}")
            bound = form.own_tastes or len(form.group_labels) or len(form.nest_labels)
            if bound and not np.array_equal(X.alternatives, state.alternatives):
                raise ValueError("the data have other alternatives than the model, whose coefficients belong to them")
            return X
        if form.pair_names:
            raise ValueError("the model has features of pairs; give ChoiceSets (manyclass.datasets.choice_sets)")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return choice_sets(
            alternatives=state.alternatives,
            X=X,
            Z=state.Z,
            chooser_names=form.chooser_names,
            alternative_names=form.alternative_names,
        )

    def _problems(self, sets: ChoiceSets) -> Iterator[_core.ChoiceProblem | MixtureProblem]:
        """The problems of ranges of rows, with the alternatives that these have."""
        form = replace(self._fitted.form, n_alternatives=sets.n_alternatives)
        if self._fitted.mixture is not None:
            return self._fitted.mixture.problems(form, sets, n_threads_from(self.n_jobs))
        return make_problems(form, sets, n_threads_from(self.n_jobs))

    def _losses(self, sets: ChoiceSets) -> Doubles:
        sets = replace(sets, chosen=sets.known_choices)
        return np.concatenate([problem.losses(self.coef_) for problem in self._problems(sets)])

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
        return np.concatenate([problem.utilities(self.coef_) for problem in self._problems(self._rows(X))])

    def predict_proba(self, X: Any) -> Doubles:
        """Return the probability of each alternative, 0 where one is not available.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), float64
        """
        return np.concatenate([problem.probabilities(self.coef_) for problem in self._problems(self._rows(X))])

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
        losses = self._losses(sets)
        wrong = self.predict(sets) != sets.labels
        return {
            "log_loss": float(np.average(losses, weights=sets.sample_weight)),
            "error": float(np.average(wrong, weights=sets.sample_weight)),
        }

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
        return np.concatenate([problem.inclusive_values(self.coef_) for problem in self._problems(sets)])

    # Inference

    def summary(self, level: float = 0.95) -> ChoiceSummary:
        """Return the table of coefficients with standard errors, z, p and intervals; `print` shows it.

        Parameters
        ----------
        level : float, of the intervals

        Returns
        -------
        ChoiceSummary
        """
        state = self._fitted
        facts: dict[str, Any] = {
            "model": state.mixture.title
            if state.mixture
            else {
                "gumbel": "multinomial logit",
                "nested": "nested logit",
                "normal": "multinomial probit",
                "logistic": "multinomial logistic",
            }[state.form.model],
            "rows": state.n_rows,
            "alternatives": len(state.alternatives),
            "free coefficients": state.n_free,
            "solver": state.solver,
            "standard errors": state.covariance.kind,
        }
        if np.isfinite(state.log_likelihood):
            facts["log-likelihood"] = state.log_likelihood
            facts["log-likelihood at 0"] = state.null_log_likelihood
            facts["rho-squared"] = 1 - state.log_likelihood / state.null_log_likelihood
            facts["AIC"] = 2 * (state.n_free - state.log_likelihood)
            facts["BIC"] = state.n_free * float(np.log(state.n_rows)) - 2 * state.log_likelihood
        errors = np.where(self.std_errors_ > 0, self.std_errors_, np.nan)
        reach = stats.norm.ppf(0.5 + level / 2) * errors
        columns = {
            "coefficient": np.array(self.coef_names_, dtype=object),
            "estimate": self.coef_,
            "standard error": errors,
            "z": self.coef_ / errors,
            "p": 2 * stats.norm.sf(np.abs(self.coef_ / errors)),
            "low": self.coef_ - reach,
            "high": self.coef_ + reach,
        }
        if state.unidentified:
            causes = [state.unidentified.get(name, "") for name in self.coef_names_]
            columns["cause"] = np.array(causes, dtype=object)
        return ChoiceSummary(facts, columns, level)

    def confidence_intervals(self, level: float = 0.95) -> Doubles:
        """Return the lower and upper end for each coefficient, (n_coefficients, 2), by the normal distribution.

        Parameters
        ----------
        level : float, in ]0, 1[
        """
        check_number("level", level, low=0, high=1, open_low=True)
        columns = self.summary(level).columns
        return np.stack([columns["low"], columns["high"]], axis=1)

    def _column(self, name: str) -> int:
        if name not in self.coef_names_:
            raise ValueError(f"{name!r} is no coefficient; there are {', '.join(self.coef_names_[:20])}")
        return self.coef_names_.index(name)

    def wald_test(self, hypotheses: Sequence[str] | Mapping[str, float] | ArrayLike, values: Any = 0.0) -> Test:
        """Return the Wald test of linear hypotheses.

        Parameters
        ----------
        hypotheses : sequence of names that are 0, mapping of names to values, or matrix of shape (m, n_coefficients)
        values : float or array-like of shape (m,), of a matrix times the coefficients

        Returns
        -------
        Test
        """
        if isinstance(hypotheses, Mapping):
            values = np.array([*hypotheses.values()], dtype=float)
            hypotheses = [*hypotheses]
        named = np.asarray(hypotheses)
        R = np.eye(len(self.coef_))[[self._column(str(name)) for name in named]] if named.dtype.kind in "UO" else named
        R = np.atleast_2d(R)
        gap = R @ self.coef_ - values
        moved = np.any(R != 0, axis=0)
        spread = R[:, moved] @ self.covariance_[np.ix_(moved, moved)] @ R[:, moved].T
        if not np.isfinite(spread).all() or np.linalg.matrix_rank(spread) < len(gap):
            raise ValueError("the hypotheses are not independent, or are about coefficients without a standard error")
        return Test.of(float(gap @ np.linalg.solve(spread, gap)), len(gap))

    def likelihood_ratio_test(self, smaller: Self) -> Test:
        """Return the test of a model that is this one with fewer free coefficients, fitted on the same data.

        Parameters
        ----------
        smaller : ChoiceClassifier

        Returns
        -------
        Test
        """
        a, b = self._fitted, smaller._fitted
        if a.n_rows != b.n_rows or not np.isclose(a.null_log_likelihood, b.null_log_likelihood, equal_nan=False):
            raise ValueError("the two models were not fitted on the same data by solver='lbfgs'")
        df = a.n_free - b.n_free
        if df < 1:
            raise ValueError(f"the other model has {b.n_free} free coefficients; it must have fewer than {a.n_free}")
        return Test.of(2 * (a.log_likelihood - b.log_likelihood), df)

    def willingness_to_pay(self, feature: str, price: str, level: float = 0.95) -> dict[str, float]:
        """Return -coef[feature] / coef[price], its standard error by the delta method and its interval.

        Parameters
        ----------
        feature : str, the name of a coefficient
        price : str, the name of the coefficient of money
        level : float

        Returns
        -------
        dict with "estimate", "std_error", "low" and "high"
        """
        a, b = self._column(feature), self._column(price)
        ratio = -self.coef_[a] / self.coef_[b]
        slope = np.zeros(len(self.coef_))
        slope[a] -= 1 / self.coef_[b]
        slope[b] -= ratio / self.coef_[b]
        error = float(np.sqrt(slope[[a, b]] @ self.covariance_[np.ix_([a, b], [a, b])] @ slope[[a, b]]))
        reach = float((self.confidence_intervals(level)[b, 1] - self.coef_[b]) / self.std_errors_[b]) * error
        low, high = float(ratio) - reach, float(ratio) + reach
        return {"estimate": float(ratio), "std_error": error, "low": low, "high": high}

    def marginal_effects(self, X: Any, feature: str, alternative: Any = None) -> Doubles:
        """Return the derivatives of all probabilities by a feature, by central differences.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        feature : str
        alternative : label, optional
            The alternative whose feature moves; without, those of all alternatives or that of the chooser do.

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), float64
        """
        sets = self._rows(X)
        moved = self._moved(sets, feature, alternative)
        return np.concatenate([problem.marginal_effects(self.coef_, *moved) for problem in self._problems(sets)])

    @staticmethod
    def _moved(sets: ChoiceSets, feature: str, alternative: Any) -> tuple[str, int, int]:
        """What has a feature, its column, and the position of the alternative, -1 for all."""
        position = -1
        if alternative is not None:
            position = int(positions_among([alternative], sets.alternatives, "alternative")[0])
        kinds = {"chooser": sets.chooser_names, "alternative": sets.alternative_names, "pair": sets.pair_names}
        for kind, names in kinds.items():
            if feature in names:
                if kind == "chooser" and position >= 0:
                    raise ValueError(
                        f"{feature!r} is a feature of choosers, which no alternative has; leave `alternative` out"
                    )
                return kind, names.index(feature), position
        known = ", ".join(repr(name) for names in kinds.values() for name in names)
        raise ValueError(f"feature is {feature!r}; it must be one of {known}")

    def elasticities(self, X: ChoiceSets, feature: str, alternative: Any) -> Doubles:
        """Return by how many percent the expected share of each alternative moves by one percent of a feature.

        Means over rows are weighted by probabilities.

        Parameters
        ----------
        X : ChoiceSets
        feature : str, of alternatives or pairs
        alternative : label, whose feature moves

        Returns
        -------
        ndarray of shape (n_alternatives,), float64
        """
        sets = self._rows(X)
        if feature not in (*sets.alternative_names, *sets.pair_names):
            raise ValueError(f"feature is {feature!r}; it must be one of alternatives or pairs")
        moved = self._moved(sets, feature, alternative)
        sums = [problem.elasticity_sums(self.coef_, *moved) for problem in self._problems(sets)]
        effects, shares = np.sum(sums, axis=0)
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
            "share_before" and "share_after", by alternative of each; of Gumbel noise "inclusive_value_change" by row,
            and with a price "surplus_change" by row, in its unit.
        """
        if before.n_rows != after.n_rows:
            raise ValueError(
                f"before has {before.n_rows} rows and after {after.n_rows}; they must be the same choosers"
            )
        weights = before.sample_weight
        changes: dict[str, Any] = {
            f"share_{name}": np.average(self.predict_proba(sets), axis=0, weights=weights)
            for name, sets in (("before", before), ("after", after))
        }
        if self._fitted.form.noise == "gumbel":
            changes["inclusive_value_change"] = self.inclusive_values(after) - self.inclusive_values(before)
            if price is not None:
                changes["surplus_change"] = changes["inclusive_value_change"] / -self.coef_[self._column(price)]
        return changes
