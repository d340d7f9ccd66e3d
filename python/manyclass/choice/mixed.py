"""Mixed logit: coefficients that vary among persons, fitted by maximum simulated likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from manyclass import _core
from manyclass.checks import check_choice, check_number
from manyclass.choice.columns import listed_names
from manyclass.choice.fitting import (
    ChoiceForm,
    ChoiceMixture,
    ChoiceObjective,
    DescentLimits,
    FittedMixture,
    FreeCoefficients,
    Identification,
    LogLikelihood,
    MixtureState,
    descend,
    fit_exactly,
    list_features,
    make_problems,
    whiten,
)
from manyclass.choice.identification import find_unidentified, hold_constant, invert_information
from manyclass.parts import storing
from manyclass.weights.arrays import Doubles

MOST_DRAWS = 1 << 27  # numbers that are made once and kept: 512 MB
DRAWS_TOGETHER = 1 << 23  # numbers that are made at once where all are too many to keep
FIRST_DRAWS, MOST_AUTO_DRAWS, DRAW_SHARE = 256, 1 << 14, 0.2  # of n_draws="auto", and of a standard error
MOST_POINTS = 1 << 30  # of a sequence
# Minus the log-likelihood of a person where exponentials make numbers of this size, so that descent turns back.
OVERFLOWN, HUGE = 1e6, 1e100
VANISHED = 1e-3  # of an exponential, for nearly all, times the standard deviation of its feature: it moves nothing
FIRST_SPREAD = 0.1  # in units of what moves a person's log-likelihood by about 1


def _triangular(u: Doubles) -> Doubles:
    """The quantiles of the symmetric triangular distribution on [-1, 1]."""
    return np.where(u < 0.5, np.sqrt(2 * u) - 1, 1 - np.sqrt(2 * (1 - u)))


@dataclass(frozen=True)
class Distribution:
    """How a coefficient varies: quantiles of z around 0, the sign of an exponential (0: none), what its spread is."""

    quantiles: Callable[[Doubles], Doubles]
    sign: float = 0.0
    spread: str = "sd"


DISTRIBUTIONS = {
    "normal": Distribution(ndtri),
    "lognormal": Distribution(ndtri, 1.0),
    "-lognormal": Distribution(ndtri, -1.0),
    "triangular": Distribution(_triangular, spread="spread"),
    "uniform": Distribution(lambda u: 2 * u - 1, spread="spread"),
}


class RandomCoefficients(ChoiceMixture):
    r"""Mixed logit: coefficients vary among persons, and the rows of one person share theirs.

    With independent z of mean 0, the coefficient j of a person with features x is :math:`v_j`, :math:`e^{v_j}` or
    :math:`-e^{v_j}`, where

    .. math:: v_j = \theta_j + s_j \cdot x + \sum_{l \le j} L_{jl} z_l .

    Maximised is the simulated log-likelihood, the sum over persons p, with their weights, of

    .. math:: \log \frac{1}{R} \sum_{r=1}^R \prod_{i \in p} P_i(y_i \mid \beta(z_r)),

    whose bias falls with the number R of draws (Revelt & Train 1998, "Mixed logit with repeated choices"; Train 2009,
    "Discrete choice methods with simulation", chapters 6 and 9 to 11). Of "lognormal" and "-lognormal", coef_ has the
    mean and the standard deviation of the logarithm. Of "triangular" and "uniform" the spread is half the width.

    Parameters
    ----------
    coefficients : mapping of str to {"normal", "lognormal", "-lognormal", "triangular", "uniform"}
        The distribution of each coefficient that varies, by the name that it has in ``coef_names_``.
    correlated : bool or sequence of str, default=False
        Whether all of them are correlated, or which: L has then the entries "chol[a,b]", and else "sd[a]" or
        "spread[a]".
    means : mapping of str to sequence of str, optional
        Features of choosers by which the mean of a coefficient shifts, "cost:income". They must be the same in all rows
        of a person.
    n_draws : int or "auto", default=500
        R. "auto" begins with 256 and has more until they leave, in ``draw_errors_``, no coefficient with more than a
        fifth of its standard error, 16,384 at most.
    draws : {"sobol", "halton"}, default="sobol"
        Scrambled points of this sequence, R for each person.
    """

    is_clustered = False

    @storing
    def __init__(
        self,
        coefficients: Mapping[str, str],
        *,
        correlated: bool | Sequence[str] = False,
        means: Mapping[str, Sequence[str]] | None = None,
        n_draws: int | Literal["auto"] = 500,
        draws: Literal["sobol", "halton"] = "sobol",
    ) -> None:
        """Store the parameters."""

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""
        if not isinstance(self.coefficients, Mapping) or not self.coefficients:
            raise TypeError(f"coefficients is {self.coefficients!r}; it must map names to distributions")
        for name, distribution in self.coefficients.items():
            check_choice(f"the distribution of {name!r}", distribution, tuple(DISTRIBUTIONS))
        for name in (*self.correlated_names, *(self.means or {})):
            check_choice("a coefficient of correlated or means", name, tuple(self.coefficients))
        if self.n_draws != "auto":
            check_number("n_draws", self.n_draws, low=1, integer=True)
        check_choice("draws", self.draws, ("sobol", "halton"))

    @property
    def exponentials(self) -> list[str]:
        """Coefficients whose sign their distribution says."""
        return [name for name, distribution in self.coefficients.items() if distribution.endswith("lognormal")]

    @property
    def correlated_names(self) -> tuple[str, ...]:
        """Names of the coefficients that are correlated."""
        if isinstance(self.correlated, bool | np.bool_):
            return tuple(self.coefficients) if self.correlated else ()
        return tuple(listed_names(self.correlated))

    def fit(self, logit: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, seed: int) -> FittedMixture:
        """Fit the mixture to choices by BFGS from the multinomial logit's estimate, in the metric of persons' scores.

        With solver "double_sum", each row has alternatives drawn once, whose weights correct utilities: consistent for
        the multinomial logit (McFadden 1978), and for a mixed one as the number of draws grows (Guevara & Ben-Akiva
        2013, "Sampling of alternatives in logit mixture models").

        Parameters
        ----------
        logit : ChoiceObjective
        free : FreeCoefficients, of the logit
        limits : DescentLimits
        seed : int

        Returns
        -------
        objective : MixedObjective
        state : MixedLogit
        fit : ChoiceFit
        known : Identification

        Raises
        ------
        ValueError
            If names are none of coefficients or features, or data do not fit in memory.
        """
        count = FIRST_DRAWS if self.n_draws == "auto" else self.n_draws
        state = MixedLogit(self, logit.form, seed, count, (1.0,) * len(self.coefficients))
        objective = state.objective(logit)
        free, causes = hold_constant(logit, free, seed)
        plain = fit_exactly(logit, free, DescentLimits(1e-5, 200), seed)
        of_logit = find_unidentified(logit, free, replace(plain, slope=None), causes, seed)
        free = free.repeat(1, len(state.names) - logit.form.n)
        theta = state.start(objective, plain.theta)
        limits = limits.with_tol(1e-3 / np.sqrt(len(objective.counts)))  # a thousandth of a standard error
        while True:
            T = whiten(objective.score_products(theta, free.matrix), free.bounded)
            fit = descend(objective, free, theta, T, limits)
            state, theta = _with_positive_spreads(objective.state, fit.theta)
            objective = replace(objective, state=state)
            known = objective.without_vanished(theta, Identification.join([of_logit], state.names))
            draw_errors, std_errors = objective.draw_errors(theta, known)
            share = np.max(draw_errors[std_errors > 0] / std_errors[std_errors > 0], initial=0) / DRAW_SHARE
            if self.n_draws != "auto" or share <= 1 or state.n_draws >= MOST_AUTO_DRAWS:
                break
            count = min(MOST_AUTO_DRAWS, int(state.n_draws * np.clip(share**2, 2, 16)))
            objective = replace(objective, state=replace(state, n_draws=count))
        return objective, state, replace(fit, theta=theta, draw_errors=np.nan_to_num(draw_errors)), known

    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> MixedLogit:
        """Return the state that was described in a file.

        Parameters
        ----------
        form : ChoiceForm
        description : dict, as `MixedLogit.description` returns it

        Returns
        -------
        MixedLogit
        """
        flips = tuple(float(flip) for flip in description["flips"])
        if len(flips) != len(self.coefficients) or not set(flips) <= {1.0, -1.0}:
            raise ValueError("flips of draws do not fit the coefficients that vary")
        n_draws = int(description["n_draws"])
        check_number("n_draws", n_draws, low=1, integer=True)
        return MixedLogit(self, form, int(description["seed"]), n_draws, flips)


@dataclass(frozen=True)
class MixedLogit(MixtureState):
    """What a mixed logit is beside its coefficients.

    Attributes
    ----------
    mixture : RandomCoefficients
    form : ChoiceForm
    seed : int, of the draws
    n_draws : int
    flips : tuple of float
        By coefficient that varies, -1 where draws have the other sign, by which no spread is negative.
    """

    mixture: RandomCoefficients
    form: ChoiceForm
    seed: int
    n_draws: int
    flips: tuple[float, ...]

    title = "mixed logit"

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Row and column of L by the name of each spread, and coefficient and feature by that of each shift."""
        varying, correlated = [*self.mixture.coefficients], self.mixture.correlated_names
        places: dict[str, tuple[int, int]] = {}
        for j, name in enumerate(varying):
            if name in correlated:
                others = [other for other in varying[: j + 1] if other in correlated]
                places |= {f"chol[{name},{other}]": (j, varying.index(other)) for other in others}
            else:
                places[f"{DISTRIBUTIONS[self.mixture.coefficients[name]].spread}[{name}]"] = (j, j)
        return places

    @cached_property
    def shifts(self) -> dict[str, tuple[int, int]]:
        """The coefficient that varies and the chooser's feature of each shift, by its name."""
        varying, choosers = [*self.mixture.coefficients], self.form.chooser_names
        shifts = {}
        for name, features in (self.mixture.means or {}).items():
            for feature in listed_names(features):
                check_choice(f"a feature of choosers in means of {name!r}", feature, choosers)
                if f"{feature}:{name}" in self.form.names:
                    raise ValueError(
                        f"the shift of {name!r} by {feature!r} is an interaction, too; set interactions='none'"
                    )
                shifts[f"{name}:{feature}"] = (varying.index(name), choosers.index(feature))
        return shifts

    @cached_property
    def names(self) -> list[str]:
        """Names of all coefficients: those of the form, spreads, and shifts."""
        return [*self.form.names, *self.places, *self.shifts]

    @cached_property
    def columns(self) -> NDArray[np.int32]:
        """Where coefficients that vary stand among those of the form; raises ValueError where there is none."""
        for name in self.mixture.coefficients:
            check_choice("a coefficient of the mixture", name, tuple(self.form.names))
        return np.array([self.form.names.index(name) for name in self.mixture.coefficients], dtype=np.int32)

    @property
    def distributions(self) -> list[Distribution]:
        """The distribution of each coefficient that varies."""
        return [DISTRIBUTIONS[name] for name in self.mixture.coefficients.values()]

    @property
    def signs(self) -> Doubles:
        """The sign of what varies of each that is its logarithm, and 0 of the others."""
        return np.array([distribution.sign for distribution in self.distributions])

    def draws(self, begin: int, end: int) -> NDArray[np.float32]:
        """Return z of persons from `begin` to before `end`, (n_persons, n_varying, n_draws)."""
        n, count = len(self.columns), self.n_draws
        if end * count >= MOST_POINTS:
            raise ValueError(f"n_draws is {count} for {end} persons; there are {MOST_POINTS} points in all")
        random = np.random.default_rng(self.seed)
        engine = qmc.Sobol(n, seed=random) if self.mixture.draws == "sobol" else qmc.Halton(n, seed=random)
        engine.fast_forward(1 + begin * count)
        points = engine.random((end - begin) * count).reshape(end - begin, count, n)
        z = np.empty((end - begin, n, count), dtype=np.float32)
        for j, distribution in enumerate(self.distributions):
            z[:, j] = self.flips[j] * distribution.quantiles(np.clip(points[:, :, j], 1e-15, 1 - 1e-15))
        return z

    def loadings(self, theta: Doubles) -> Doubles:
        """Return L, (n_varying, n_varying)."""
        L = np.zeros((len(self.columns), len(self.columns)))
        L[tuple(np.array([*self.places.values()]).T)] = theta[self.form.n :][: len(self.places)]
        return L

    def persons(self, theta: Doubles, z: Doubles) -> dict[str, Doubles]:
        """Return coefficients that vary by name, of persons with draws z, (n_varying, n_persons), without shifts."""
        v = theta[self.columns, None] + self.loadings(theta) @ z
        values = [sign * np.exp(row) if sign else row for sign, row in zip(self.signs, v, strict=True)]
        return dict(zip(self.mixture.coefficients, values, strict=True))

    def description(self) -> dict[str, Any]:
        """Return what `RandomCoefficients.restore` takes."""
        return {"seed": self.seed, "n_draws": self.n_draws, "flips": list(self.flips)}

    def objective(self, logit: ChoiceObjective) -> MixedObjective:
        """Return that of persons; raises ValueError where they have weights or shifts that differ by row."""
        form, sets = logit.form, list_features(logit.sets)
        if sets.function is not None:
            raise ValueError("features of pairs that a function makes are too many to keep; set solver='double_sum'")
        persons = sets.owners
        for _, feature in self.shifts.values():
            persons.cells(sets.chooser_names[feature], sets.X[:, feature])
        order = np.argsort(persons.rows, kind="stable")
        (problem,) = make_problems(form, sets.take(order), logit.n_threads)
        widths = len(self.columns), len(form.chooser_names)
        spreads, shifts = (np.full((len(self.columns), width), -1, dtype=np.int32) for width in widths)
        for table, places in ((spreads, self.places), (shifts, self.shifts)):
            for name, (row, column) in places.items():
                table[row, column] = self.names.index(name)
        core = _core.MixedProblem(
            problem=problem,
            persons=np.append(0, np.cumsum(np.bincount(persons.rows))),
            columns=self.columns,
            signs=self.signs,
            spreads=spreads.ravel(),
            shifts=shifts.ravel(),
            n_coefficients=len(self.names),
        )
        ridge = np.append(logit.ridge, np.zeros(len(self.names) - len(logit.ridge)))
        return MixedObjective(self, logit, core, order, persons.cells("the weight", sets.weights), ridge)

    def mean(self, name: str, theta: Doubles, logit: ChoiceObjective) -> Doubles:
        """Return the mean over the distribution of "probabilities" or "inclusive_values" of each row."""
        persons = self.objective(replace(logit, sets=replace(logit.sets, sample_weight=None)))
        means = persons.gather(lambda draws, begin: persons.core.mean_probabilities(draws, begin, theta))
        return means[name == "inclusive_values"][np.argsort(persons.order)]

    def start(self, objective: MixedObjective, means: Doubles) -> Doubles:
        """Return coefficients to begin with, from means without spread.

        Spreads move persons' log-likelihoods by about `FIRST_SPREAD`; off the diagonal of L they are 0.
        """
        theta = np.append(means, np.zeros(len(self.names) - len(means)))
        logs = self.columns[self.signs != 0]
        theta[logs] = np.log(np.maximum(np.abs(theta[logs]), 1e-3))
        slopes = objective.scores(theta)[:, self.columns]
        spreads = FIRST_SPREAD / np.maximum(np.sqrt(objective.weights @ slopes**2), 1e-6)
        # Of a logarithm, 1 is much; rows that means separate have slopes near 0.
        spreads = np.where(self.signs != 0, np.minimum(spreads, 1), spreads)
        for place, (row, column) in enumerate(self.places.values(), start=len(means)):
            theta[place] = spreads[row] * (row == column)
        return theta


@dataclass
class MixedObjective(LogLikelihood):
    """Minus the mean simulated log-likelihood of persons, with a ridge.

    Attributes
    ----------
    state : MixedLogit
    logit : ChoiceObjective, of rows
    core : _core.MixedProblem, of rows person after person
    order : ndarray of shape (n_rows,), int64, where these rows stand in the data
    counts : ndarray of shape (n_persons,), float64, weights of the persons
    ridge : ndarray of shape (n,), float64
    """

    state: MixedLogit
    logit: ChoiceObjective
    core: _core.MixedProblem
    order: NDArray[np.int64]
    counts: Doubles
    ridge: Doubles

    def __post_init__(self) -> None:
        self.total, self.n_rows = float(self.counts.sum()), len(self.order)

    @cached_property
    def _all_draws(self) -> NDArray[np.float32]:
        return self.state.draws(0, len(self.counts))

    def gather(self, answer: Callable[[NDArray[np.float32], int], tuple[Doubles, Doubles]]) -> tuple[Doubles, Doubles]:
        """Return for all persons the two arrays that the core answers of draws and the first person of these."""
        n, n_numbers = len(self.counts), len(self.state.columns) * self.state.n_draws
        if n * n_numbers <= MOST_DRAWS:
            return answer(self._all_draws, 0)
        step = max(1, DRAWS_TOGETHER // n_numbers)
        begins = range(0, n, step)
        answers = [answer(self.state.draws(begin, min(begin + step, n)), begin) for begin in begins]
        first, second = (np.concatenate(parts) for parts in zip(*answers, strict=True))
        return first, second

    def person_scores(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return the log-likelihood of each person and its gradient, (n_persons, n)."""
        log_likelihoods, scores = self.gather(lambda draws, begin: self.core.person_scores(draws, begin, theta))
        numbers = np.column_stack([log_likelihoods, scores])
        numbers[~(np.abs(numbers) < HUGE).all(axis=1)] = -OVERFLOWN, *np.zeros(len(theta))
        return numbers[:, 0], numbers[:, 1:]

    def losses(self, theta: Doubles) -> Doubles:
        """Return minus the simulated log-likelihood of each person."""
        return -self.person_scores(theta)[0]

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradients of these, (n_persons, n)."""
        return -self.person_scores(theta)[1]

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient by all coefficients."""
        log_likelihoods, scores = self.person_scores(theta)
        value = 0.5 * float(self.ridge @ theta**2) - float(self.weights @ log_likelihoods)
        return value, self.ridge * theta - self.weights @ scores

    def person_coefficients(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return means and standard deviations of persons' coefficients given their choices, (n_persons, n_varying)."""
        means, squares = self.gather(lambda draws, begin: self.core.person_coefficients(draws, begin, theta))
        return means, np.sqrt(np.maximum(squares - means**2, 0))

    def scales(self, theta: Doubles) -> Doubles:
        """Return about the square roots of the second derivatives, relative to each other."""
        state, scales = self.state, self.logit.scales(theta)
        logs = state.columns[state.signs != 0]
        scales[logs] *= np.exp(theta[logs])
        spreads = [scales[state.columns[row]] for row, _ in state.places.values()]
        features = np.sqrt(np.mean(self.logit.sets.X**2, axis=0))
        shifts = [scales[state.columns[row]] * features[column] for row, column in state.shifts.values()]
        return np.concatenate([scales, spreads, shifts])

    def without_vanished(self, theta: Doubles, known: Identification) -> Identification:
        """Return an identification without the exponentials that are 0 for all, whose logarithms have no maximum."""
        state, n = self.state, self.state.form.n
        with np.errstate(over="ignore"):
            sizes = np.exp(theta[state.columns] + 2 * np.linalg.norm(state.loadings(theta), axis=1))
        vanished = (state.signs != 0) & (sizes * self.logit.scales(theta)[state.columns] < VANISHED)
        rows = [row for row, _ in (*state.places.values(), *state.shifts.values())]
        gone = np.append(np.isin(np.arange(n), state.columns[vanished]), vanished[rows])
        causes = known.causes | dict.fromkeys(np.array(state.names)[gone].tolist(), "at its bound 0")
        basis = known.basis[:, ~known.basis[gone].any(axis=0)]
        has_maximum, unknown = known.has_maximum and not gone.any(), known.unknown | gone
        return Identification(state.names, basis, causes, unknown, has_maximum)

    def draw_errors(self, theta: Doubles, known: Identification) -> tuple[Doubles, Doubles]:
        """Return what draws leave in coefficients, and their standard errors by products of gradients.

        Other draws change the gradients of persons: half the covariance of these changes is that of draws.
        """
        other = replace(self, state=replace(self.state, seed=self.state.seed + 1))
        changes = (self.scores(theta) - other.scores(theta)) @ known.basis * self.weights[:, None]
        information = self.score_products(theta, known.basis)
        spreads = (changes.T @ changes / 2, information / self.total)
        draw_errors, std_errors = (
            np.sqrt(np.diag(invert_information(information, spread, known)[0])) for spread in spreads
        )
        return draw_errors, std_errors


def _with_positive_spreads(state: MixedLogit, theta: Doubles) -> tuple[MixedLogit, Doubles]:
    """The same likelihood with a diagonal of L that is not negative: columns of L and draws change their signs."""
    theta, (rows, columns) = theta.copy(), np.array([*state.places.values()]).T
    spreads, flips = theta[state.form.n :][: len(rows)], np.ones(len(state.columns))
    flips[rows[rows == columns]] = np.where(spreads[rows == columns] < 0, -1.0, 1.0)
    spreads *= flips[columns]
    return replace(state, flips=tuple((flips * state.flips).tolist())), theta
