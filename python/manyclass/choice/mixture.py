"""What mixtures of choice models have in common: the parameter object, the state of a fit, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass.choice.estimates import ChoiceFit, Covariance
from manyclass.choice.fitting import ChoiceForm, FreeCoefficients
from manyclass.choice.sets import ChoiceSets
from manyclass.weights.arrays import Doubles


@dataclass(frozen=True)
class MixtureSettings:
    """What the estimator says about the fit of a mixture.

    Attributes
    ----------
    ridge : ndarray of shape (form.n,), float64, of the coefficients of the form
    covariance : {"auto", "hessian", "robust", "clustered", "none"}
    solver : {"auto", "lbfgs", "double_sum"}; the last one draws alternatives
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


class MixtureProblem:
    """Rows of choosers under a fitted mixture: answers that follow from probabilities, as `_core.ChoiceProblem` has.

    Subclasses have `probabilities` and `inclusive_values`.

    Parameters
    ----------
    sets : ChoiceSets without a function of pairs
    """

    def __init__(self, sets: ChoiceSets) -> None:
        self.sets = sets

    def probabilities(self, theta: Doubles) -> Doubles:
        """Return the probability of each alternative, (n_rows, n_alternatives)."""
        raise NotImplementedError

    def inclusive_values(self, theta: Doubles) -> Doubles:
        """Return the expected logsum of each row, (n_rows,)."""
        raise NotImplementedError

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


class MixtureState(Protocol):
    """What a fitted mixture is beside its coefficients."""

    @property
    def names(self) -> list[str]:
        """Names of all coefficients."""

    @property
    def title(self) -> str:
        """The name of the model: "mixed logit"."""

    def problems(self, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> Iterator[MixtureProblem]:
        """Yield the problems of ranges of rows."""

    def log_likelihood(self, theta: Doubles, form: ChoiceForm, sets: ChoiceSets, n_threads: int) -> float:
        """Return the log-likelihood of the choices of all persons, in nats."""

    def description(self) -> dict[str, Any]:
        """Return what `ChoiceMixture.restore` takes, as JSON holds it."""


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture.

    Attributes
    ----------
    state : MixtureState
    fit : ChoiceFit, of all coefficients
    covariance : Covariance
    n_free : int
    log_likelihood : float
    unidentified : dict of str to str, causes by the names of coefficients that data do not tell
    """

    state: MixtureState
    fit: ChoiceFit
    covariance: Covariance
    n_free: int
    log_likelihood: float
    unidentified: dict[str, str] = field(default_factory=dict)


class ChoiceMixture(BaseEstimator):
    """What varies among persons: the parameter `mixture` of `ChoiceClassifier`."""

    kinds: ClassVar[dict[str, type[ChoiceMixture]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ChoiceMixture.kinds[cls.__name__] = cls

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""
        raise NotImplementedError

    def fit(self, form: ChoiceForm, sets: ChoiceSets, free: FreeCoefficients, settings: MixtureSettings) -> MixtureFit:
        """Fit the mixture to choices.

        Parameters
        ----------
        form : ChoiceForm, of Gumbel noise without nests, W being none or full
        sets : ChoiceSets with choices
        free : FreeCoefficients, of the form
        settings : MixtureSettings
        """
        raise NotImplementedError

    def restore(self, form: ChoiceForm, description: dict[str, Any]) -> MixtureState:
        """Return the state that was described in a file."""
        raise NotImplementedError
