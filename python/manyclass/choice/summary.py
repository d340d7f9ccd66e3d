"""What is known of the coefficients of a fitted choice model: their table, tests, and what they are worth in money."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from manyclass.checks import check_choice, check_number
from manyclass.choice.mixed import MixedLogit
from manyclass.choice.predictions import FittedChoiceModel
from manyclass.choice.sets import ChoiceSets
from manyclass.datasets.tables import library
from manyclass.weights.arrays import Doubles

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


class ChoiceInference(FittedChoiceModel):
    """Coefficients of a fitted choice model with what is known of them."""

    def summary(self, level: float = 0.95) -> ChoiceSummary:
        """Return the table of coefficients with standard errors, z, p and intervals; `print` shows it.

        z and p are those of the hypothesis that a coefficient is 0, or, for a dissimilarity, that it is 1.

        Parameters
        ----------
        level : float, of the intervals

        Returns
        -------
        ChoiceSummary
        """
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
        return Test(float(gap @ np.linalg.solve(spread, gap)), len(gap))

    def likelihood_ratio_test(self, smaller: ChoiceInference) -> Test:
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

    def hausman_test(self, weaker: ChoiceInference) -> Test:
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
        names = [name for name, error in zip(self.coef_names_, self.std_errors_, strict=True) if error > 0]
        names = [name for name in names if name in known]
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
