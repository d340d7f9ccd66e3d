"""A fitted choice model: what it predicts, what follows where features change, and what is known of coefficients."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.choice.fitting import ChoiceObjective, ChoiceState, make_problems
from manyclass.choice.mixed import MixedLogit
from manyclass.choice.sets import ChoiceSets, choice_sets, names_by_kind, positions_among
from manyclass.datasets.tables import library
from manyclass.labels import as_labels
from manyclass.weights.arrays import Doubles

FARTHEST = 745.0  # that the logarithm of a probability moves before it is that of 0
STEP = 1e-4  # of utilities: the third derivative leaves some 1e-9 in relation to the first
TITLES = {"gumbel": "multinomial logit", "nested": "nested logit"}
TITLES |= {"normal": "multinomial probit", "logistic": "multinomial logistic"}
PERSONS = 1 << 13  # drawn, of whom a median is told


@dataclass(frozen=True)
class Test:
    """A test of hypotheses on coefficients.

    Attributes
    ----------
    statistic : float
    degrees_of_freedom : int
    """

    __test__ = False  # pytest takes it for one of its own

    statistic: float
    degrees_of_freedom: int

    @property
    def p_value(self) -> float:
        """Return the probability of a larger statistic, of the chi-squared distribution."""
        return float(stats.chi2.sf(max(self.statistic, 0.0), self.degrees_of_freedom))


@dataclass(frozen=True)
class ChoiceSummary:
    """The table of a fitted choice model, printed by `str`.

    Attributes
    ----------
    facts : mapping of str to object
        Of the whole model.
    columns : mapping of str to ndarray
        "coefficient", "estimate", "standard error", "z", "p", "low" and "high", and where data do not tell all
        coefficients "cause": `pandas.DataFrame(summary.columns)`.
    level : float, of the interval between low and high
    """

    facts: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]
    level: float

    def to_frame(self) -> Any:
        """Return the table as a `pandas.DataFrame`, whose index is the names of the coefficients."""
        return library("pandas").DataFrame(dict(self.columns)).set_index("coefficient")

    def to_latex(self, **options: Any) -> str:
        """Return the table as LaTeX, by `pandas.DataFrame.to_latex` with its options, which needs jinja2."""
        shown = {"float_format": _shown, "na_rep": "", "escape": True, **options}
        return str(self.to_frame().to_latex(**shown))

    def __str__(self) -> str:
        """Return the facts and the table."""
        names, width = [*self.columns], max(map(len, self.facts))
        names[5:7] = [f"{100 * (1 - self.level) / 2:.3g} %", f"{100 * (1 + self.level) / 2:.3g} %"]
        cells = [[name, *map(_shown, column)] for name, column in zip(names, self.columns.values(), strict=True)]
        texts = [[cell.rjust(max(map(len, column))) for cell in column] for column in cells[1:]]
        first = max(map(len, cells[0]))
        rows = zip((name.ljust(first) for name in cells[0]), *texts, strict=True)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.facts.items()]
        return "\n".join([*lines, "", *("  ".join(row).rstrip() for row in rows)])


def _shown(value: Any) -> str:
    if isinstance(value, float | np.floating):
        size = abs(float(value))
        return "" if np.isnan(size) else f"{value:.4f}" if 1e-3 <= size < 1e6 or size == 0 else f"{value:.3e}"
    return str(value)


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

    def _logit(self, sets: ChoiceSets) -> ChoiceObjective:
        """The logit of rows, of one person or class where there is a mixture, with the alternatives that they have."""
        form = replace(self._fitted.form, n_alternatives=sets.n_alternatives)
        return ChoiceObjective(form, sets, np.zeros(form.n), n_threads_from(self.n_jobs))

    def _problems(self, sets: ChoiceSets) -> Iterator[_core.ChoiceProblem]:
        """The problems of ranges of rows."""
        logit = self._logit(sets)
        return make_problems(logit.form, sets, logit.n_threads)

    def _answers(self, sets: ChoiceSets, name: str) -> Doubles:
        """What models answer by row: "utilities", "probabilities", "losses" or "inclusive_values".

        A mixture has no utility of its own: its utilities are logarithms of probabilities.
        """
        logit, mixture = self._logit(sets), self._fitted.mixture
        if mixture is None:
            return np.concatenate([getattr(problem, name)(self.coef_) for problem in self._problems(sets)])
        parts, is_whole = [replace(logit, sets=part) for part in sets.parts()], name == "inclusive_values"
        means = [mixture.mean(name if is_whole else "probabilities", self.coef_, part) for part in parts]
        answers = np.concatenate(means) if is_whole else np.minimum(np.concatenate(means), 1.0)  # but for rounding
        with np.errstate(divide="ignore"):
            logs = np.log(answers) if name in ("utilities", "losses") else answers
        return -logs[np.arange(len(logs)), sets.known_choices] if name == "losses" else logs

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
        if self._fitted.mixture is not None:
            shares = self._answers(sets, "probabilities")
            ids = np.argsort(-shares, axis=1, kind="stable")[:, :k]
            return sets.alternatives[ids], np.take_along_axis(shares, ids, axis=1)
        answers = zip(*(problem.most_probable(self.coef_, k) for problem in self._problems(sets)), strict=True)
        ids, shares = map(np.concatenate, answers)
        return sets.alternatives[ids], shares

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
        by_row = {"log_loss": self._answers(sets, "losses"), "error": self.predict(sets) != sets.labels}
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
        logit, mixture = self._logit(self._rows(X)), self._fitted.mixture
        return (logit if mixture is None else mixture.objective(logit)).log_likelihood(self.coef_)

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
        mixture = self._fitted.mixture
        if not isinstance(mixture, MixedLogit):
            raise ValueError("the model has no coefficients of persons; it must have mixture=RandomCoefficients(...)")
        return mixture.objective(self._logit(self._rows(X))).person_coefficients(self.coef_)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows that are predicted right.

        Parameters
        ----------
        X : ChoiceSets with choices, or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), labels, with an array
        sample_weight : array-like of shape (n_rows,), optional, with an array
        """
        return 1 - self.evaluate(X, y, sample_weight)["error"]

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
            scale, shift = (1 + step, 0.0) if relative else (1.0, step)
            return self._answers(_moved(sets, feature, alternative, scale, shift), name)

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
        sets.check_changeable(feature)
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
            raise ValueError(f"before has {before.n_rows} rows, after {after.n_rows}; they must be the same choosers")
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

    # What is known of coefficients

    def summary(self, level: float = 0.95) -> ChoiceSummary:
        """Return the table of coefficients with standard errors, z, p and intervals; `print` shows it.

        z and p are those of the hypothesis that a coefficient is 0, or, for a dissimilarity, that it is 1.

        Parameters
        ----------
        level : float, of the intervals, in ]0, 1[

        Returns
        -------
        ChoiceSummary
        """
        check_number("level", level, low=0, high=1, open_low=True)
        state = self._fitted
        title = state.mixture.title if state.mixture else TITLES[state.form.model]
        facts: dict[str, Any] = {"model": title, "rows": state.n_rows, "alternatives": len(state.alternatives)}
        facts |= {"free coefficients": state.n_free, "solver": state.solver, "standard errors": state.covariance.kind}
        likelihood, null = state.log_likelihood, state.null_log_likelihood
        if np.isfinite(likelihood):
            facts |= {"log-likelihood": likelihood, "log-likelihood at 0": null, "rho-squared": 1 - likelihood / null}
            facts["AIC"] = 2 * (state.n_free - likelihood)
            facts["BIC"] = state.n_free * float(np.log(state.n_rows)) - 2 * likelihood
        errors = np.where(self.std_errors_ > 0, self.std_errors_, np.nan)
        nulls = np.zeros(len(errors))
        nulls[state.form.slices["dissimilarity"]] = 1.0
        if nulls.any():
            facts["z and p of dissimilarities"] = "against 1"
        z, reach = (self.coef_ - nulls) / errors, stats.norm.ppf(0.5 + level / 2) * errors
        columns = {"coefficient": np.array(self.coef_names_, dtype=object), "estimate": self.coef_}
        columns |= {"standard error": errors, "z": z, "p": 2 * stats.norm.sf(np.abs(z))}
        columns |= {"low": self.coef_ - reach, "high": self.coef_ + reach}
        if state.unidentified:
            columns["cause"] = np.array([state.unidentified.get(name, "") for name in self.coef_names_], dtype=object)
        return ChoiceSummary(facts, columns, level)

    def confidence_intervals(self, level: float = 0.95) -> Doubles:
        """Return the lower and upper end for each coefficient, (n_coefficients, 2), by the normal distribution.

        Parameters
        ----------
        level : float, in ]0, 1[
        """
        columns = self.summary(level).columns
        return np.stack([columns["low"], columns["high"]], axis=1)

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
        R = np.atleast_2d(np.asarray(hypotheses))
        if R.dtype.kind in "UO":
            R = np.eye(len(self.coef_))[[self._column(str(name)) for name in R.ravel()]]
        if R.ndim > 2 or R.shape[1] != len(self.coef_):
            raise ValueError(
                f"hypotheses have shape {R.shape}; they must be names, or a matrix with {len(self.coef_)} columns"
            )
        gap = R @ self.coef_ - values
        moved = np.any(R != 0, axis=0)
        spread = R[:, moved] @ self.covariance_[np.ix_(moved, moved)] @ R[:, moved].T
        if not np.isfinite(spread).all() or np.linalg.matrix_rank(spread) < len(gap):
            raise ValueError("the hypotheses are not independent, or are about coefficients without a standard error")
        return Test(float(gap @ np.linalg.solve(spread, gap)), len(gap))

    def likelihood_ratio_test(self, smaller: FittedChoiceModel) -> Test:
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
        return Test(2 * (a.log_likelihood - b.log_likelihood), df)

    def hausman_test(self, weaker: FittedChoiceModel) -> Test:
        """Return the test that another model, consistent under weaker assumptions, has the same coefficients.

        This model must be efficient where its assumptions hold: both have errors by "hessian". Coefficients of one name
        are compared; a variance that is not positive definite is inverted where it is not 0, and a negative statistic
        speaks for the hypothesis (Hausman and McFadden 1984).

        Parameters
        ----------
        weaker : ChoiceClassifier, such as one fitted without some alternatives (see `iia_test`)

        Returns
        -------
        Test
        """
        kinds = [model._fitted.covariance.kind for model in (self, weaker)]
        if kinds != ["hessian", "hessian"]:
            raise ValueError(f"standard errors are {kinds[0]!r} and {kinds[1]!r}; both must be by covariance='hessian'")
        known = {name for name, error in zip(weaker.coef_names_, weaker.std_errors_, strict=True) if error > 0}
        errors = zip(self.coef_names_, self.std_errors_, strict=True)
        names = [name for name, error in errors if error > 0 and name in known]
        if not names:
            raise ValueError("the two models have no coefficients in common that have standard errors")
        here, there = ([model._column(name) for name in names] for model in (self, weaker))
        gap = weaker.coef_[there] - self.coef_[here]
        spread = weaker.covariance_[np.ix_(there, there)] - self.covariance_[np.ix_(here, here)]
        statistic = float(gap @ np.linalg.pinv(spread, hermitian=True) @ gap)
        return Test(statistic, int(np.linalg.matrix_rank(spread, hermitian=True)))

    def iia_test(self, X: ChoiceSets, removed: ArrayLike) -> Test:
        """Return Hausman and McFadden's test of the independence from irrelevant alternatives.

        The model is fitted again to the choices of other alternatives, without those that are removed.

        Parameters
        ----------
        X : ChoiceSets, those of the fit
        removed : label or array-like of labels

        Returns
        -------
        Test
        """
        rows = self._rows(X)
        rows = rows.take(~np.isin(rows.labels, np.atleast_1d(np.asarray(removed))))
        without = replace(rows.without(removed), chosen=rows.known_choices)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # constants of what is removed are not compared
            return self.hausman_test(clone(self).set_params(covariance="hessian").fit(without))

    def willingness_to_pay(
        self,
        feature: str,
        price: str,
        level: float = 0.95,
        *,
        change: float = 1.0,
        interval: Literal["delta", "simulation"] = "delta",
        n_draws: int = 10_000,
        random_state: Any = None,
    ) -> dict[str, float]:
        """Return what a change of a feature is worth in money, -change * coef[feature] / coef[price].

        A good, of a positive coefficient beside a negative one of price, is worth a positive sum, as in logitr and
        gmnl. The value of a minute saved, b_time / b_cost of biogeme, apollo and mlogit, is that of ``change=-1``, and
        of an hour that of ``change=-60``. Where one of them varies among persons, it is the median of what it is worth
        to them.

        Parameters
        ----------
        feature : str, the name of a coefficient
        price : str, the name of the coefficient of money
        level : float
        change : float
            Of the feature, in its units.
        interval : {"delta", "simulation"}, default="delta"
            By the delta method, or between quantiles of coefficients drawn from their normal distribution (Krinsky and
            Robb 1986), which need not be symmetric.
        n_draws : int, for "simulation"
        random_state : int, RandomState instance or None, for "simulation"

        Returns
        -------
        dict with "estimate", "std_error" by the delta method, "low" and "high"
            Where a coefficient varies also "persons_low" and "persons_high", between which that share of persons lies.
        """
        check_choice("interval", interval, ("delta", "simulation"))
        check_number("level", level, low=0, high=1, open_low=True)
        check_number("n_draws", n_draws, low=2, integer=True)
        check_number("change", change)
        tails = np.array([0.5 - level / 2, 0.5 + level / 2])
        places = [self._column(feature), self._column(price)]
        mixture, z = self._fitted.mixture, None
        if isinstance(mixture, MixedLogit) and {feature, price} & {*mixture.mixture.coefficients}:
            if mixture.shifts:
                raise ValueError("means depend on features of choosers; so does what a change is worth")
            places += [*range(self._fitted.form.n, len(self.coef_))]
            z = np.concatenate([*mixture.draws(0, -(-PERSONS // mixture.n_draws)).astype(np.float64)], axis=1)

        def worths(coefficients: Doubles) -> Any:
            theta = self.coef_.copy()
            theta[places] = coefficients
            persons = dict(zip(self.coef_names_, theta, strict=True))
            if z is not None and isinstance(mixture, MixedLogit):
                persons |= mixture.persons(theta, z)
            return -change * persons[feature] / persons[price]

        def median(coefficients: Doubles) -> float:
            return float(np.median(worths(coefficients)))

        means, covariance = self.coef_[places], self.covariance_[np.ix_(places, places)]
        steps = np.diag(1e-4 * np.maximum(np.abs(means), 1e-3))
        slope = np.array([median(means + step) - median(means - step) for step in steps]) / (2 * np.diag(steps))
        estimate, error = median(means), float(np.sqrt(slope @ covariance @ slope))
        low, high = estimate + stats.norm.ppf(tails) * error
        if interval == "simulation" and np.isfinite(covariance).all():
            draws = check_random_state(random_state).multivariate_normal(means, covariance, n_draws)
            low, high = np.quantile([*map(median, draws)], tails)
        worth = {"estimate": estimate, "std_error": error, "low": float(low), "high": float(high)}
        if z is not None:
            worth["persons_low"], worth["persons_high"] = np.quantile(worths(means), tails).tolist()
        return worth


def _moved(sets: ChoiceSets, feature: str, alternative: Any, scale: float, shift: float) -> ChoiceSets:
    """The data where the values of a feature are scaled and shifted, of one alternative or, with None, of all."""
    sets.check_changeable(feature)
    source, owners = sets.source, None  # of each value the alternative
    if source is not None:
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
        position = positions_among([alternative], sets.alternatives, "alternative", by_row=False)[0]
        is_moved = np.asarray(owners == sets.alternatives[position])

    def moved(values: Any) -> Doubles:
        numbers = np.asarray(values, dtype=np.float64)
        return np.where(is_moved, numbers * scale + shift, numbers)

    return sets.changed(**{feature: moved})
