"""What mixtures of choice models have in common: the parameter object, the state of a fit, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass.choice.fitting import (
    ChoiceFit,
    ChoiceForm,
    ChoiceObjective,
    Covariance,
    DescentLimits,
    FreeCoefficients,
    Identification,
    LogLikelihood,
)
from manyclass.weights.arrays import Doubles


@dataclass(frozen=True)
class MixtureProblem:
    """Rows of choosers under a fitted mixture: answers that follow from probabilities, as `_core.ChoiceProblem` has.

    Attributes
    ----------
    state : MixtureState
    logit : ChoiceObjective, of data without a function of pairs
    """

    state: MixtureState
    logit: ChoiceObjective

    def probabilities(self, theta: Doubles) -> Doubles:
        """Return the probability of each alternative, (n_rows, n_alternatives)."""
        return self.state.mean("probabilities", theta, self.logit)

    def inclusive_values(self, theta: Doubles) -> Doubles:
        """Return the expected logsum of each row, (n_rows,)."""
        return self.state.mean("inclusive_values", theta, self.logit)

    def utilities(self, theta: Doubles) -> Doubles:
        """Return the logarithms of probabilities: a mixture has no utility of its own."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities(theta)))

    def losses(self, theta: Doubles) -> Doubles:
        """Return the log-loss of each row, in nats."""
        chosen = self.logit.sets.known_choices
        return -self.utilities(theta)[np.arange(len(chosen)), chosen]

    def most_probable(self, theta: Doubles, k: int) -> tuple[NDArray[Any], Doubles]:
        """Return the k most probable alternatives of each row, best first, and their probabilities."""
        shares = self.probabilities(theta)
        ids = np.argsort(-shares, axis=1, kind="stable")[:, :k]
        return ids, np.take_along_axis(shares, ids, axis=1)


class MixtureState(ABC):
    """What a fitted mixture is beside its coefficients, whose `names` it has, and the `title` of the model."""

    names: Any
    title: Any

    @abstractmethod
    def mean(self, name: str, theta: Doubles, logit: ChoiceObjective) -> Doubles:
        """Return the mean over persons of "probabilities" or "inclusive_values" of each row."""

    @abstractmethod
    def objective(self, logit: ChoiceObjective) -> LogLikelihood:
        """Return that of persons whose choices are those of a logit."""

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


class ChoiceMixture(BaseEstimator, ABC):
    """What varies among persons: the parameter `mixture` of `ChoiceClassifier`."""

    kinds: ClassVar[dict[str, type[ChoiceMixture]]] = {}
    solvers: ClassVar[tuple[str, ...]] = ("auto", "lbfgs", "double_sum")
    is_clustered: ClassVar = True  # errors of covariance="auto", where rows have persons

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ChoiceMixture.kinds[cls.__name__] = cls

    @abstractmethod
    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""

    @abstractmethod
    def fit(
        self, logit: ChoiceObjective, free: FreeCoefficients, limits: DescentLimits, seed: int
    ) -> tuple[LogLikelihood, MixtureState, ChoiceFit, Identification]:
        """Fit the mixture to choices; return what it minimised, what it is beside coefficients, and what data tell.

        Parameters
        ----------
        logit : ChoiceObjective
            That of one person's coefficients, of Gumbel noise without nests, W being none or full.
        free : FreeCoefficients, of the logit
        limits : DescentLimits
        seed : int
        """

    @abstractmethod
    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> MixtureState:
        """Return the state that was described in a file."""
