"""Mixed logit: coefficients that vary among persons, fitted by maximum simulated likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from manyclass import _core
from manyclass.checks import check_choice, check_number
from manyclass.choice.fitting import (
    ChoiceForm,
    ChoiceObjective,
    FreeCoefficients,
    descend,
    fit_exactly,
    list_features,
    make_problems,
    whiten,
)
from manyclass.choice.identification import Identification, find_unidentified, hold_constant
from manyclass.choice.inference import estimate_by_person, invert_information
from manyclass.choice.mixture import ChoiceMixture, ChoiceState, MixtureSettings, MixtureState
from manyclass.choice.sets import ChoiceSets
from manyclass.help_lines import storing
from manyclass.weights.arrays import Doubles

MOST_DRAWS = 1 << 27  # numbers that are made once and kept: 512 MB
DRAWS_TOGETHER = 1 << 23  # numbers that are made at once where all are too many to keep
FIRST_DRAWS, MOST_AUTO_DRAWS, DRAW_SHARE = 256, 1 << 14, 0.2  # of n_draws="auto", and of a standard error
MOST_POINTS = 1 << 30  # of a sequence
OVERFLOWN = 1e6  # minus the log-likelihood of a person at coefficients that overflow, so that descent turns back
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
    def correlated_names(self) -> tuple[str, ...]:
        """Names of the coefficients that are correlated."""
        if isinstance(self.correlated, bool | np.bool_):
            return tuple(self.coefficients) if self.correlated else ()
        return tuple(self.correlated)

    def fit(self, form: ChoiceForm, sets: ChoiceSets, free: FreeCoefficients, settings: MixtureSettings) -> ChoiceState:
        """Fit the mixture to choices by BFGS from the multinomial logit's estimate, in the metric of persons' scores.

        With solver "double_sum", each row has alternatives drawn once, whose weights correct utilities: consistent for
        the multinomial logit (McFadden 1978), and for a mixed one as the number of draws grows (Guevara & Ben-Akiva
        2013, "Sampling of alternatives in logit mixture models").

        Parameters
        ----------
        form : ChoiceForm
        sets : ChoiceSets with choices
        free : FreeCoefficients, of the form
        settings : MixtureSettings

        Returns
        -------
        ChoiceState

        Raises
        ------
        ValueError
            If names are none of coefficients or features, or data do not fit in memory.
        """
        count = FIRST_DRAWS if self.n_draws == "auto" else self.n_draws
        state = MixedLogit(self, form, settings.seed, count, (1.0,) * len(self.coefficients))
        state.columns, state.shifts  # noqa: B018 - raise for names that do not exist
        sets = _sets_in_memory(sets, settings)
        theta, known, free = _fit_multinomial(form, sets, free, state, settings)
        ridge = np.append(settings.ridge, np.zeros(len(theta) - form.n))
        objective = MixedObjective(MixedPersons.of(state, form, sets, settings.n_threads), ridge)
        theta[form.n : form.n + len(state.places)] = _first_spreads(objective, theta)
        limits = settings.limits(1e-3 / np.sqrt(len(objective.person_weights)))  # a thousandth of a standard error
        while True:
            T = whiten(objective.score_products(theta, free.matrix), free.bounded)
            fit = descend(objective, free, theta, T, **limits)
            state, theta = _with_positive_spreads(objective.persons.state, fit.theta)
            objective = objective.with_state(state)
            draw_errors, std_errors = objective.draw_errors(theta, known)
            share = np.max(draw_errors[std_errors > 0] / std_errors[std_errors > 0], initial=0) / DRAW_SHARE
            if self.n_draws != "auto" or share <= 1 or state.n_draws >= MOST_AUTO_DRAWS:
                break
            count = min(MOST_AUTO_DRAWS, int(state.n_draws * np.clip(share**2, 2, 16)))
            objective = objective.with_state(replace(state, n_draws=count))
        kind = settings.covariance
        if kind == "auto":
            kind = "none" if settings.ridge.any() else "hessian"
        covariance, known = estimate_by_person(objective, known, theta, kind, sets.n_rows, 1e-9)
        likelihood = float(objective.persons.weights @ objective.persons.scores(theta)[0])
        fit = replace(fit, theta=theta, draw_errors=np.nan_to_num(draw_errors))
        return ChoiceState.of(form, sets, fit, covariance, known, likelihood, settings.solver, state)

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
        check_number("n_draws", n_draws, low=1)
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

    @property
    def title(self) -> str:
        """The name of the model."""
        return "mixed logit"

    @cached_property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Row and column of L by the name of each spread, and coefficient and feature by that of each shift."""
        varying, correlated = [*self.mixture.coefficients], self.mixture.correlated_names
        places: dict[str, tuple[int, ...]] = {}
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
            for feature in features:
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

    def persons(self, theta: Doubles, z: Doubles) -> dict[str, Doubles]:
        """Return coefficients that vary by name, of persons with draws z, (n_varying, n_persons), without shifts."""
        L = np.zeros((len(z), len(z)))
        L[tuple(np.array([*self.places.values()]).T)] = theta[self.form.n :]
        v = theta[self.columns, None] + L @ z
        signs = [distribution.sign for distribution in self.distributions]
        values = [sign * np.exp(row) if sign else row for sign, row in zip(signs, v, strict=True)]
        return dict(zip(self.mixture.coefficients, values, strict=True))

    def description(self) -> dict[str, Any]:
        """Return what `RandomCoefficients.restore` takes."""
        return {"seed": self.seed, "n_draws": self.n_draws, "flips": list(self.flips)}

    def mean(self, name: str, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> Doubles:
        """Return the mean over the distribution of "probabilities" or "inclusive_values" of each row."""
        persons = MixedPersons.of(self, form, replace(sets, sample_weight=None), n_threads)
        means = persons.gather(lambda draws, begin: persons.core.mean_probabilities(draws, begin, theta))
        return means[name == "inclusive_values"][np.argsort(persons.order)]

    def log_likelihood(self, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> float:
        """Return the simulated log-likelihood of the choices of all persons, in nats."""
        persons = MixedPersons.of(self, form, list_features(sets), n_threads)
        return float(persons.weights @ persons.scores(theta)[0])

    def person_coefficients(
        self, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int
    ) -> tuple[Doubles, Doubles]:
        """Return means and standard deviations of persons' coefficients given their choices, (n_persons, n_varying)."""
        persons = MixedPersons.of(self, form, list_features(sets), n_threads)
        means, squares = persons.gather(lambda draws, begin: persons.core.person_coefficients(draws, begin, theta))
        return means, np.sqrt(np.maximum(squares - means**2, 0))


@dataclass(frozen=True)
class MixedPersons:
    """Persons, their rows and their draws, as the core takes them.

    Attributes
    ----------
    state : MixedLogit
    core : _core.MixedProblem, of rows person after person
    order : ndarray of shape (n_rows,), int64, where these rows stand in the data
    weights : ndarray of shape (n_persons,), float64
    """

    state: MixedLogit
    core: _core.MixedProblem
    order: NDArray[np.int64]
    weights: Doubles

    @classmethod
    def of(cls, state: MixedLogit, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> MixedPersons:
        """Return the persons of data; raises ValueError where they have weights or shifts that differ by row."""
        persons = sets.owners
        for _, feature in state.shifts.values():
            persons.cells(sets.chooser_names[feature], sets.X[:, feature])
        order = np.argsort(persons.rows, kind="stable")
        begins = np.append(0, np.cumsum(np.bincount(persons.rows)))
        (problem,) = make_problems(form, sets.take(order), n_threads)
        n, n_form = len(state.columns), state.form.n
        spreads = np.full((n, n), -1, dtype=np.int32)
        shifts = np.full((n, len(form.chooser_names)), -1, dtype=np.int32)
        for place, (row, column) in enumerate(state.places.values(), start=n_form):
            spreads[row, column] = place
        for place, (row, column) in enumerate(state.shifts.values(), start=n_form + len(state.places)):
            shifts[row, column] = place
        core = _core.MixedProblem(
            problem=problem,
            persons=begins,
            columns=state.columns,
            signs=np.array([distribution.sign for distribution in state.distributions]),
            spreads=spreads.ravel(),
            shifts=shifts.ravel(),
            n_coefficients=len(state.names),
        )
        return cls(state, core, order, persons.cells("the weight", sets.weights))

    @cached_property
    def _all_draws(self) -> NDArray[np.float32]:
        return self.state.draws(0, len(self.weights))

    def gather(self, answer: Callable[[NDArray[np.float32], int], tuple[Doubles, Doubles]]) -> tuple[Doubles, Doubles]:
        """Return for all persons the two arrays that the core answers of draws and the first person of these."""
        n, n_numbers = len(self.weights), len(self.state.columns) * self.state.n_draws
        if n * n_numbers <= MOST_DRAWS:
            return answer(self._all_draws, 0)
        step = max(1, DRAWS_TOGETHER // n_numbers)
        begins = range(0, n, step)
        answers = [answer(self.state.draws(begin, min(begin + step, n)), begin) for begin in begins]
        first, second = (np.concatenate(parts) for parts in zip(*answers, strict=True))
        return first, second

    def scores(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return the log-likelihood of each person and its gradient, (n_persons, n)."""
        log_likelihoods, scores = self.gather(lambda draws, begin: self.core.person_scores(draws, begin, theta))
        finite = np.isfinite(log_likelihoods) & np.isfinite(scores).all(axis=1)  # not where an exponential overflows
        return np.where(finite, log_likelihoods, -OVERFLOWN), np.where(finite[:, None], scores, 0.0)


@dataclass(frozen=True)
class MixedObjective:
    """Minus the mean simulated log-likelihood of persons, with a ridge.

    Attributes
    ----------
    persons : MixedPersons
    ridge : ndarray of shape (n,), float64
    """

    persons: MixedPersons
    ridge: Doubles

    @cached_property
    def total(self) -> float:
        """The sum of the weights of the persons."""
        return float(self.persons.weights.sum())

    @cached_property
    def person_weights(self) -> Doubles:
        """Weights of the persons, whose sum is 1."""
        return np.asarray(self.persons.weights / self.total)

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradient of each person's log-likelihood, (n_persons, n)."""
        return self.persons.scores(theta)[1]

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient by all coefficients."""
        log_likelihoods, scores = self.persons.scores(theta)
        value = 0.5 * float(self.ridge @ theta**2) - float(self.person_weights @ log_likelihoods)
        return value, self.ridge * theta - self.person_weights @ scores

    def score_products(self, theta: Doubles, M: Any) -> Doubles:
        """Return the mean over persons of products of gradients by M (Berndt, Hall, Hall & Hausman 1974)."""
        scores = self.scores(theta) @ M
        return np.asarray(scores.T @ (scores * self.person_weights[:, None]))

    def hessian(self, theta: Doubles, M: Any, step: float = 1e-5) -> Doubles:
        """Return second derivatives by M: differences of the gradient along steps where they are near 1."""
        T = whiten(self.score_products(theta, M), bounded=False)
        gradient = self(theta)[1]
        moves = M @ T
        second = np.array([self(theta + step * move)[1] - gradient for move in moves.T]) @ moves / step
        inverse = np.linalg.inv(T)
        return np.asarray(inverse.T @ (second + second.T) @ inverse / 2)

    def with_state(self, state: MixedLogit) -> MixedObjective:
        """Return the same with other draws."""
        return replace(self, persons=replace(self.persons, state=state))

    def draw_errors(self, theta: Doubles, known: Identification) -> tuple[Doubles, Doubles]:
        """Return what draws leave in coefficients, and their standard errors by products of gradients.

        Other draws change the gradients of persons: half the covariance of these changes is that of draws.
        """
        other = self.with_state(replace(self.persons.state, seed=self.persons.state.seed + 1))
        scores, weights = self.scores(theta), self.person_weights[:, None]
        changes = (scores - other.scores(theta)) @ known.basis * weights
        information = known.basis.T @ (scores.T @ (scores * weights)) @ known.basis
        spreads = (changes.T @ changes / 2, information / self.total)
        draw_covariance, row_covariance = (invert_information(information, spread, known)[0] for spread in spreads)
        return np.sqrt(np.diag(draw_covariance)), np.sqrt(np.diag(row_covariance))


def _fit_multinomial(
    form: ChoiceForm, sets: ChoiceSets, free: FreeCoefficients, state: MixedLogit, settings: MixtureSettings
) -> tuple[Doubles, Identification, FreeCoefficients]:
    """Means at the multinomial logit's estimate without spread, what data tell of all, and which are free."""
    objective = ChoiceObjective(form, sets, settings.ridge, settings.n_threads)
    free, held = hold_constant(objective, free, settings.seed)
    fit = fit_exactly(objective, free, tol=1e-5, max_iter=200, seed=settings.seed, watch=lambda _: None)
    known = find_unidentified(objective, free, fit.theta, held, settings.seed)
    extra = len(state.names) - form.n
    theta = np.append(fit.theta, np.zeros(extra))
    for place, distribution in zip(state.columns, state.distributions, strict=True):
        if distribution.sign:
            theta[place] = np.log(max(abs(theta[place]), 1e-3))
    basis = scipy.linalg.block_diag(known.basis, np.eye(extra))
    unknown = np.append(np.broadcast_to(known.unknown, form.n), np.zeros(extra, bool))
    return theta, replace(known, names=state.names, basis=basis, unknown=unknown), free.repeat(1, extra)


def _sets_in_memory(sets: ChoiceSets, settings: MixtureSettings) -> ChoiceSets:
    """The data with features of pairs in lists, alternatives drawn where the solver is "double_sum"."""
    if settings.solver == "double_sum":
        rows, share = np.arange(sets.n_rows), 0.0 if sets.lists.only else 0.5
        how = {"seed": settings.seed, "epoch": 0, "n_threads": settings.n_threads}
        return sets.draw(rows, settings.n_negatives, share=share, **how)
    sets = list_features(sets)
    if sets.function is not None:
        raise ValueError("features of pairs that a function makes are too many to keep; set solver='double_sum'")
    return sets


def _first_spreads(objective: MixedObjective, theta: Doubles) -> Doubles:
    """Spreads to begin with, that move persons' log-likelihoods by about `FIRST_SPREAD`; 0 off the diagonal of L."""
    state = objective.persons.state
    slopes = objective.scores(theta)[:, state.columns]
    spreads = FIRST_SPREAD / np.maximum(np.sqrt(objective.person_weights @ slopes**2), 1e-6)
    # Of a logarithm, 1 is much; rows that means separate have slopes near 0.
    spreads = np.where(
        [distribution.sign != 0 for distribution in state.distributions], np.minimum(spreads, 1), spreads
    )
    return np.array([spreads[row] * (row == column) for row, column in state.places.values()])


def _with_positive_spreads(state: MixedLogit, theta: Doubles) -> tuple[MixedLogit, Doubles]:
    """The same likelihood with a diagonal of L that is not negative: columns of L and draws change their signs."""
    theta, (rows, columns) = theta.copy(), np.array([*state.places.values()]).T
    spreads, flips = theta[state.form.n :][: len(rows)], np.ones(len(state.columns))
    flips[rows[rows == columns]] = np.where(spreads[rows == columns] < 0, -1.0, 1.0)
    spreads *= flips[columns]
    return replace(state, flips=tuple((flips * state.flips).tolist())), theta
