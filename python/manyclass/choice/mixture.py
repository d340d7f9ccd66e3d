"""What mixtures of choice models have in common: the parameter object, the state of a fit, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass.choice.fitting import ChoiceFit, ChoiceForm, Covariance, FreeCoefficients
from manyclass.choice.identification import Identification
from manyclass.choice.sets import ChoiceSets
from manyclass.training.passes import warn_user
from manyclass.weights.arrays import Doubles


@dataclass(frozen=True)
class MixtureSettings:
    """What the estimator says about the fit of a mixture.

    Attributes
    ----------
    ridge : ndarray of shape (form.n,), float64, of the coefficients of the form
    covariance : {"auto", "hessian", "robust", "clustered", "none"}
    solver : {"lbfgs", "double_sum"}; the latter draws alternatives
    n_negatives : int, alternatives that it draws by row
    max_iter : int or "auto"
    tol : float or "auto"
    seed : int
    n_threads : int
    watch : callable, which takes the loss of each iteration
    """

    ridge: Doubles
    covariance: str
    solver: str
    n_negatives: int
    max_iter: Any
    tol: Any
    seed: int
    n_threads: int
    watch: Callable[[float], None]

    def limits(self, tol: float) -> dict[str, Any]:
        """Return the arguments by which L-BFGS ends and is watched, where a tol of "auto" is a number."""
        return {
            "tol": tol if self.tol == "auto" else float(self.tol),
            "max_iter": 500 if self.max_iter == "auto" else int(self.max_iter),
            "watch": self.watch,
        }


@dataclass(frozen=True)
class MixtureProblem:
    """Rows of choosers under a fitted mixture: answers that follow from probabilities, as `_core.ChoiceProblem` has.

    Attributes
    ----------
    state : MixtureState
    form : ChoiceForm, with the alternatives of the data
    sets : ChoiceSets without a function of pairs
    n_threads : int
    """

    state: MixtureState
    form: ChoiceForm
    sets: ChoiceSets
    n_threads: int

    def probabilities(self, theta: Doubles) -> Doubles:
        """Return the probability of each alternative, (n_rows, n_alternatives)."""
        return self.state.mean("probabilities", theta, self.form, self.sets, self.n_threads)

    def inclusive_values(self, theta: Doubles) -> Doubles:
        """Return the expected logsum of each row, (n_rows,)."""
        return self.state.mean("inclusive_values", theta, self.form, self.sets, self.n_threads)

    def utilities(self, theta: Doubles) -> Doubles:
        """Return the logarithms of probabilities: a mixture has no utility of its own."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities(theta)))

    def losses(self, theta: Doubles) -> Doubles:
        """Return the log-loss of each row, in nats."""
        chosen = self.sets.known_choices
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(self.probabilities(theta)[np.arange(len(chosen)), chosen]))

    def most_probable(self, theta: Doubles, k: int) -> tuple[NDArray[Any], Doubles]:
        """Return the k most probable alternatives of each row, best first, and their probabilities."""
        shares = self.probabilities(theta)
        ids = np.argsort(-shares, axis=1, kind="stable")[:, :k]
        return ids, np.take_along_axis(shares, ids, axis=1)


class MixtureState(ABC):
    """What a fitted mixture is beside its coefficients, whose `names` it has, and the `title` of the model."""

    names: Any
    title: Any

    def problems(self, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> Iterator[MixtureProblem]:
        """Yield the problems of ranges of rows."""
        return (MixtureProblem(self, form, part, n_threads) for part in sets.parts())

    @abstractmethod
    def mean(self, name: str, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> Doubles:
        """Return the mean over persons of "probabilities" or "inclusive_values" of each row."""

    @abstractmethod
    def log_likelihood(self, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> float:
        """Return the log-likelihood of the choices of all persons, in nats."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return what `ChoiceMixture.restore` takes, as JSON holds it."""


@dataclass(frozen=True)
class ChoiceState:
    """A fitted choice model.

    Attributes
    ----------
    form : ChoiceForm
    alternatives : ndarray of shape (n_alternatives,), labels
    Z : ndarray, csr_array or None
    fit : ChoiceFit
    covariance : Covariance
    n_rows : int
    n_free : int
        Coefficients that are neither fixed nor equal to others, as far as data tell them.
    log_likelihood : float
        NaN where alternatives were drawn.
    null_log_likelihood : float
        The same with equal probabilities of what is available.
    solver : {"lbfgs", "double_sum"}
    mixture : MixtureState or None
    unidentified : mapping of str to str
        Causes by the names of coefficients that data do not tell.
    """

    form: ChoiceForm
    alternatives: NDArray[Any]
    Z: Any
    fit: ChoiceFit
    covariance: Covariance
    n_rows: int
    n_free: int
    log_likelihood: float
    null_log_likelihood: float
    solver: str
    mixture: MixtureState | None = None
    unidentified: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        return self.form.names if self.mixture is None else self.mixture.names

    @classmethod
    def of(
        cls,
        form: ChoiceForm,
        sets: ChoiceSets,
        fit: ChoiceFit,
        covariance: Covariance,
        known: Identification,
        likelihood: float,
        solver: str,
        mixture: MixtureState | None = None,
    ) -> ChoiceState:
        """Return the state at the end of a fit; warn where data do not tell all, or it did not reach the maximum."""
        exact = solver != "double_sum"
        if unknown := known.describe():
            warn_user(unknown)
        if exact and known.has_maximum and not fit.converged:
            warn_user(
                f"L-BFGS ended after {len(fit.losses)} iterations, before it came to the maximum: raise max_iter, or "
                "tol where features of very different sizes leave derivatives that are no smaller"
            )
        null = -float(sets.weights @ np.log(sets.set_sizes)) if exact else np.nan
        return cls(
            form=form,
            alternatives=sets.alternatives,
            Z=sets.Z,
            fit=replace(fit, converged=fit.converged and known.has_maximum),
            covariance=covariance,
            n_rows=sets.n_rows,
            n_free=known.n,
            log_likelihood=likelihood if exact else np.nan,
            null_log_likelihood=null,
            solver=solver,
            mixture=mixture,
            unidentified=known.causes,
        )


class ChoiceMixture(BaseEstimator, ABC):
    """What varies among persons: the parameter `mixture` of `ChoiceClassifier`."""

    kinds: ClassVar[dict[str, type[ChoiceMixture]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ChoiceMixture.kinds[cls.__name__] = cls

    @abstractmethod
    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""

    @abstractmethod
    def fit(self, form: ChoiceForm, sets: ChoiceSets, free: FreeCoefficients, settings: MixtureSettings) -> ChoiceState:
        """Fit the mixture to choices.

        Parameters
        ----------
        form : ChoiceForm, of Gumbel noise without nests, W being none or full
        sets : ChoiceSets with choices
        free : FreeCoefficients, of the form
        settings : MixtureSettings
        """

    @abstractmethod
    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> MixtureState:
        """Return the state that was described in a file."""
