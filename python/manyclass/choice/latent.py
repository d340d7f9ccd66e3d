"""Latent classes of persons: each person belongs to one of a few choice models, which one is not observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import scipy.special
from numpy.typing import NDArray
from sklearn.base import clone

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
    make_problems,
    precondition,
    whiten,
)
from manyclass.choice.identification import MOST_FREE, find_unidentified, hold_constant
from manyclass.choice.sets import ChoiceSets
from manyclass.parts import storing
from manyclass.weights.arrays import Doubles

if TYPE_CHECKING:
    from manyclass.choice.model import ChoiceClassifier

STARTS_CONTINUED = 5  # to the end, of all starts
DESCENTS = 4  # iterations of L-BFGS by which an EM step comes near its maximum
SOFTNESS = 0.1  # of the memberships that a start begins with, which is spread over all classes


@dataclass(frozen=True)
class LatentState(MixtureState):
    """Which coefficients a model of latent classes has: those of each class, then those of membership.

    Attributes
    ----------
    form : ChoiceForm, of one class
    n_classes : int
    membership : tuple of str, features of choosers
    shares : tuple of float, of the classes among the persons of the fit, descending
    """

    form: ChoiceForm
    n_classes: int
    membership: tuple[str, ...]
    shares: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """Names of all coefficients: "cost[1]" of the first class, "membership income[2]" of the second."""
        classes = range(1, self.n_classes + 1)
        features = ("constant", *self.membership)
        return [f"{name}[{c}]" for c in classes for name in self.form.names] + [
            f"membership {feature}[{c}]" for c in classes[1:] for feature in features
        ]

    @property
    def title(self) -> str:
        """The name of the model, with the shares of its classes."""
        return f"latent classes of {', '.join(f'{100 * share:.1f} %' for share in self.shares)}"

    def split(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return the coefficients of the classes, (n_classes, form.n), and those of membership.

        The latter are of shape (n_classes - 1, 1 + n_features); those of the first class are 0.
        """
        n = self.n_classes * self.form.n
        return theta[:n].reshape(self.n_classes, -1), theta[n:].reshape(self.n_classes - 1, 1 + len(self.membership))

    def features(self, sets: ChoiceSets) -> Doubles:
        """Return 1 and the features of membership of each row, (n_rows, 1 + n_features)."""
        columns = [sets.X[:, sets.chooser_names.index(name)] for name in self.membership]
        return np.stack([np.ones(sets.n_rows), *columns], axis=1)

    def mean(self, name: str, theta: Doubles, logit: ChoiceObjective, shares: Doubles | None = None) -> Doubles:
        """Return the mean over classes of "probabilities" or "inclusive_values" of each row.

        Shares of classes are of shape (n_classes, n_rows); without, they are those by features.
        """
        coefficients, membership = self.split(theta)
        answer = getattr(next(make_problems(logit.form, logit.sets, logit.n_threads)), name)
        if shares is None:
            shares = np.exp(log_shares(membership, self.features(logit.sets)))
        return np.asarray(sum((share * answer(row).T).T for share, row in zip(shares, coefficients, strict=True)))

    def objective(self, logit: ChoiceObjective) -> LatentObjective:
        """Return that of persons; raises ValueError where they have weights or features that differ by row."""
        return LatentObjective(self, logit)

    def description(self) -> dict[str, Any]:
        """Return what `LatentClasses.restore` takes."""
        return {"n_classes": self.n_classes, "membership": [*self.membership], "shares": [*self.shares]}


def log_shares(membership: Doubles, features: Doubles) -> Doubles:
    """Return the logarithms of probabilities to belong to each class, (n_classes, n_persons).

    Parameters
    ----------
    membership : ndarray of shape (n_classes - 1, 1 + n_features), float64
    features : ndarray of shape (n_persons, 1 + n_features), float64
    """
    utilities = np.concatenate([np.zeros((1, len(features))), membership @ features.T])
    return np.asarray(utilities - np.logaddexp.reduce(utilities, axis=0))


class LatentObjective(LogLikelihood):
    """Minus the log-likelihood of persons whose classes are not observed, per row, with the ridge of each class.

    Parameters
    ----------
    state : LatentState
    rows : ChoiceObjective, of one class
    """

    def __init__(self, state: LatentState, rows: ChoiceObjective) -> None:
        sets, self.persons = rows.sets, rows.sets.owners
        self.state, self.rows, self.total, self.n_rows = state, rows, rows.total, rows.n_rows
        self.counts = self.persons.cells("the weight", sets.weights)
        names = ("", *state.membership)
        columns = [self.persons.cells(*named) for named in zip(names, state.features(sets).T, strict=True)]
        self.features = np.stack(columns, axis=1)
        self.ridge = np.append(np.tile(rows.ridge, state.n_classes), np.zeros((state.n_classes - 1) * len(names)))

    def weigh(self, theta: Doubles) -> tuple[Doubles, Doubles]:
        """Return the log-likelihood of each person, and the probabilities of its classes, (n_classes, n_persons)."""
        coefficients, membership = self.state.split(theta)
        losses = np.stack([np.asarray(self.persons.sums @ self.rows.losses(row)) for row in coefficients])
        joint = log_shares(membership, self.features) - losses
        logs = np.logaddexp.reduce(joint, axis=0)
        return np.asarray(logs), np.exp(joint - logs)

    def expect(self, posterior: Doubles) -> Callable[[Doubles], tuple[float, Doubles]]:
        """Return the loss, and its gradient, that is expected where classes have these probabilities: EM's."""
        classes = []
        for weights in self.rows.sets.weights * np.maximum(posterior[:, self.persons.rows], 1e-100):
            share, sets = float(weights.sum() / self.total), replace(self.rows.sets, sample_weight=weights)
            classes.append((share, replace(self.rows, sets=sets, ridge=self.rows.ridge / share)))

        def expected(theta: Doubles) -> tuple[float, Doubles]:
            coefficients, membership = self.state.split(theta)
            logs = log_shares(membership, self.features)
            value = -float(np.sum(self.weights * posterior * logs))
            slopes = []
            for (share, objective), row in zip(classes, coefficients, strict=True):
                loss, slope = objective(row)
                value += share * loss
                slopes.append(share * slope)
            slopes.append(np.ravel((self.weights * (np.exp(logs) - posterior))[1:] @ self.features))
            return value, np.concatenate(slopes)

        return expected

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient, which is that of what is expected."""
        logs, posterior = self.weigh(theta)
        return self.value(theta, logs), self.expect(posterior)(theta)[1]

    def value(self, theta: Doubles, logs: Doubles) -> float:
        """Return the value by the log-likelihood of each person."""
        return 0.5 * float(self.ridge @ theta**2) - float(self.weights @ logs)

    def losses(self, theta: Doubles) -> Doubles:
        """Return minus the log-likelihood of each person."""
        return -self.weigh(theta)[0]

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradient of each person's minus log-likelihood, (n_persons, n)."""
        coefficients, membership = self.state.split(theta)
        posterior = self.weigh(theta)[1]
        surplus = np.exp(log_shares(membership, self.features)) - posterior
        blocks = [
            weights[:, None] * np.asarray(self.persons.sums @ self.rows.scores(row))
            for weights, row in zip(posterior, coefficients, strict=True)
        ]
        return np.concatenate([*blocks, *(row[:, None] * self.features for row in surplus[1:])], axis=1)

    def scales(self, theta: Doubles) -> Doubles:
        """Return about the square roots of the second derivatives, relative to each other."""
        features, k = np.sqrt(np.mean(self.features**2, axis=0)), self.state.n_classes
        return np.concatenate([np.tile(self.rows.scales(theta), k), np.tile(features, k - 1)])

    def order(self, theta: Doubles) -> tuple[LatentState, Doubles]:
        """Return the state and the coefficients with classes in the order of their shares, the largest first."""
        coefficients, membership = self.state.split(theta)
        shares = self.weigh(theta)[1] @ self.weights / self.weights.sum()
        order = np.argsort(-shares, kind="stable")
        utilities = np.concatenate([np.zeros((1, self.features.shape[1])), membership])[order]
        ordered = np.concatenate([np.ravel(coefficients[order]), np.ravel(utilities[1:] - utilities[0])])
        return replace(self.state, shares=tuple(shares[order].tolist())), ordered


class LatentClasses(ChoiceMixture):
    """Latent classes of persons: "classes" here are groups of persons, each with coefficients of its own.

    A person belongs to class c with a probability that is a logit of the constant and the `membership` features, and
    all rows of the person are independent choices by the coefficients of its class (Greene and Hensher 2003). Classes
    are numbered by their shares, the largest first. EM begins at several starts; the best are continued by L-BFGS on
    the likelihood itself, of which `ChoiceClassifier` has `max_iter` and `tol`. Standard errors come from persons'
    gradients, and from differences of the gradient of all.

    Nested logit within classes, error components and ordered dissimilarities are not offered here: biogeme and apollo
    have them.

    Parameters
    ----------
    n_classes : int, default=2
    membership : sequence of str or None, default=None
        Features of choosers on which memberships depend; None: all persons have the same. They are in utilities, too,
        unless `ChoiceClassifier` has interactions="none".
    n_starts : int, default=10
    max_iter : int, default=20
        EM steps of a start.
    tol : float, default=0.01
        EM ends where a step gains less, in nats of the log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import ChoiceClassifier
    >>> from manyclass.choice import LatentClasses
    >>> from manyclass.datasets import choice_sets
    >>> rng = np.random.default_rng(0)
    >>> person = np.repeat(np.arange(300), 8)
    >>> cost = rng.uniform(1, 3, (2400, 4))
    >>> taste = np.where(person % 3 == 0, -4.0, -1.0)[:, None]
    >>> chosen = np.argmax(taste * cost + rng.gumbel(size=cost.shape), axis=1)
    >>> sets = choice_sets(pairs={"cost": cost}, chosen=chosen, persons=person)
    >>> model = ChoiceClassifier(constants="none", mixture=LatentClasses(2), random_state=0).fit(sets)
    >>> print(*(f"{name} {value:.1f}" for name, value in zip(model.coef_names_, model.coef_)), sep=", ")
    cost[1] -1.1, cost[2] -3.9, membership constant[2] -0.8
    """

    solvers = ("auto", "lbfgs")  # which look at all alternatives

    @storing
    def __init__(
        self,
        n_classes: int = 2,
        membership: Sequence[str] | None = None,
        n_starts: int = 10,
        max_iter: int = 20,
        tol: float = 0.01,
    ) -> None:
        """Store the parameters."""

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""
        for name in ("n_classes", "n_starts", "max_iter"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("tol", self.tol, low=0)

    def fit(self, logit: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, seed: int) -> FittedMixture:
        """Fit the classes to choices: EM from several starts, of which the best are continued by L-BFGS.

        Parameters
        ----------
        logit : ChoiceObjective, of one class
        free : FreeCoefficients, of the logit
        limits : DescentLimits
        seed : int

        Returns
        -------
        objective : LatentObjective
        state : LatentState
        fit : ChoiceFit
        known : Identification

        Raises
        ------
        ValueError
            If a membership feature is none of choosers or differs within a person, or there are fewer persons than
            classes.
        """
        membership = tuple(listed_names(self.membership))
        for name in membership:
            check_choice("a feature of membership", name, logit.form.chooser_names)
        state = LatentState(logit.form, int(self.n_classes), membership, ())
        objective, k = state.objective(logit), state.n_classes
        if (n_persons := len(objective.counts)) < k:
            raise ValueError(f"n_classes is {k}; the data have {n_persons} persons")
        limits = limits.with_tol(1e-8)
        n_more = len(state.names) - k * logit.form.n
        of_class, causes = hold_constant(logit, free, seed)
        pooled = fit_exactly(logit, of_class, limits, seed).theta
        T = precondition(logit, of_class, pooled, seed, near=False)
        memberships = _memberships_of_starts(objective, of_class, pooled, T, self.n_starts, seed)
        free, theta = of_class.repeat(k, n_more), np.append(np.tile(pooled, k), np.zeros(n_more))
        moments = objective.features.T @ (objective.weights[:, None] * objective.features)
        joined = sp.block_diag([T] * k + [whiten(moments, sp.issparse(T))] * (k - 1))
        T = joined if sp.issparse(T) else joined.toarray()
        runs = [_run_em(objective, free, theta, posterior, T, self, limits) for posterior in memberships]
        fits = []
        for theta, losses in sorted(runs, key=lambda run: run[1][-1])[:STARTS_CONTINUED]:
            if logit.form.core.has_scores() and free.n <= MOST_FREE:
                T = whiten(objective.score_products(theta, free.matrix), free.bounded)
            fit = descend(objective, free, theta, T, limits)
            fits.append(replace(fit, losses=np.concatenate([losses, fit.losses])))
        fit = min(fits, key=lambda fit: float(fit.losses[-1]))
        state, theta = objective.order(fit.theta)
        rows = state.split(theta)[0] if of_class.bounded else pooled[None]
        parts = [find_unidentified(logit, of_class, replace(fit, theta=row, slope=None), causes, seed) for row in rows]
        known = Identification.join(parts * (k // len(parts)), state.names)
        return state.objective(logit), state, replace(fit, theta=theta), known

    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> LatentState:
        """Return the state that was described in a file.

        Parameters
        ----------
        form : ChoiceForm
        description : dict, as `LatentState.description` returns it

        Returns
        -------
        LatentState
        """
        n_classes, shares = description["n_classes"], tuple(map(float, description["shares"]))
        check_number("n_classes", n_classes, low=1, integer=True)
        if not set(description["membership"]) <= set(form.chooser_names) or len(shares) != n_classes:
            raise ValueError("parts of the mixture do not fit each other")
        return LatentState(form, n_classes, tuple(description["membership"]), shares)


def _memberships_of_starts(
    objective: LatentObjective, free: FreeCoefficients, pooled: Doubles, T: Any, n_starts: int, seed: int
) -> Iterator[Doubles]:
    """Yield probabilities of classes to begin with: persons beside those of like gradients, who are drawn by chance."""
    k, n, random = objective.state.n_classes, len(objective.features), np.random.RandomState(seed)
    directions = random.standard_normal((n, k))
    if objective.rows.form.core.has_scores():
        directions = objective.persons.sums @ objective.rows.scores(pooled) @ free.matrix @ T
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    for _ in range(n_starts if k > 1 else 1):
        centres = directions[random.choice(n, k, replace=False)]
        nearest = np.argmax(directions @ centres.T, axis=1)
        yield SOFTNESS / k + (1 - SOFTNESS) * (nearest == np.arange(k)[:, None])


def _run_em(
    objective: LatentObjective,
    free: FreeCoefficients,
    theta: Doubles,
    posterior: Doubles,
    T: Any,
    mixture: LatentClasses,
    limits: DescentLimits,
) -> tuple[Doubles, list[float]]:
    """Coefficients after some steps of EM, and the loss after each."""
    losses: list[float] = []
    for _ in range(mixture.max_iter):
        expected = objective.expect(posterior)
        theta = descend(expected, free, theta, T, DescentLimits(1e-6, DESCENTS)).theta
        logs, posterior = objective.weigh(theta)
        losses.append(objective.value(theta, logs))
        if limits.watch is not None:
            limits.watch(losses[-1])
        if len(losses) > 1 and (losses[-2] - losses[-1]) * objective.total < mixture.tol:
            break
    return theta, losses


@dataclass(frozen=True)
class Memberships:
    """Who belongs to which class.

    Attributes
    ----------
    persons : ndarray of shape (n_persons,), int64, numbers as `ChoiceSets.persons` has them, or positions of rows
    prior : ndarray of shape (n_persons, n_classes), float64, probabilities by the features of membership alone
    posterior : ndarray of shape (n_persons, n_classes), float64, probabilities that the choices of the person tell
    """

    persons: NDArray[np.int64]
    prior: Doubles
    posterior: Doubles


def find_memberships(model: ChoiceClassifier, sets: ChoiceSets) -> Memberships:
    """Return the probabilities of persons to belong to each class.

    Parameters
    ----------
    model : ChoiceClassifier, fitted with LatentClasses
    sets : ChoiceSets with choices

    Returns
    -------
    Memberships
    """
    state = _state(model)
    objective = state.objective(model._logit(model._rows(sets)))
    prior = np.exp(log_shares(state.split(model.coef_)[1], objective.features))
    return Memberships(np.array(objective.persons.labels), prior.T, objective.weigh(model.coef_)[1].T)


def _state(model: ChoiceClassifier) -> LatentState:
    state = model._fitted.mixture
    if not isinstance(state, LatentState):
        raise ValueError(f"mixture is {model.mixture!r}; the model must be fitted with LatentClasses")
    return state


def predict_known(model: ChoiceClassifier, history: ChoiceSets, sets: ChoiceSets) -> Doubles:
    """Return the probability of each alternative for persons some of whose choices are known.

    Parameters
    ----------
    model : ChoiceClassifier, fitted with LatentClasses
    history : ChoiceSets with choices of the persons
    sets : ChoiceSets
        Rows of the same persons, whose numbers are those of the history: both are parts of a table by `take`.

    Returns
    -------
    ndarray of shape (n_rows, n_alternatives), float64

    Raises
    ------
    ValueError
        If a person has no history.
    """
    memberships = find_memberships(model, history)
    sets, state = model._rows(sets), _state(model)
    numbers = np.zeros(0, np.int64) if sets.persons is None else sets.persons
    if not len(numbers) or not np.isin(numbers, memberships.persons).all():
        raise ValueError("sets have persons without a history, or no persons")
    sets = replace(sets, persons=np.searchsorted(memberships.persons, numbers))
    logits = (replace(model._logit(sets), sets=part) for part in sets.parts())
    shares = memberships.posterior.T
    means = [state.mean("probabilities", model.coef_, part, shares[:, part.sets.persons]) for part in logits]
    return np.concatenate(means)


def compare_classes(model: ChoiceClassifier, sets: ChoiceSets, numbers: Iterable[int]) -> dict[str, list[float]]:
    """Fit a model with several numbers of classes, and return what tells how many there are.

    Parameters
    ----------
    model : ChoiceClassifier with LatentClasses, fitted or not
    sets : ChoiceSets with choices
    numbers : iterable of int, of classes

    Returns
    -------
    dict of str to list
        By number: "n_classes", "log_likelihood", "n_free", "AIC", "BIC", "CAIC", and "entropy", 1 where every person is
        of one class for certain and 0 where choices tell nothing. BIC and CAIC count rows, as `summary` does.
        `pandas.DataFrame` makes a table of it.
    """
    table: dict[str, list[float]] = {}
    for number in numbers:
        fitted = clone(model).set_params(mixture__n_classes=number).fit(sets)
        posterior = find_memberships(fitted, sets).posterior
        spread = -np.sum(scipy.special.xlogy(posterior, posterior)) / (len(posterior) * np.log(max(number, 2)))
        facts, n_free = fitted.summary().facts, fitted._fitted.n_free
        line = {"n_classes": number, "log_likelihood": fitted.log_likelihood_, "n_free": n_free}
        line |= {"AIC": facts["AIC"], "BIC": facts["BIC"], "CAIC": facts["BIC"] + n_free, "entropy": 1 - spread}
        for name, figure in line.items():
            table.setdefault(name, []).append(float(figure))
    return table
