"""The Gaussian posterior of augment and reduce: passes of the core's train/gaussian_posterior.hpp, and predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import core_data
from manyclass.training.core_plan import core_plan, core_state
from manyclass.training.passes import SLICE_SECONDS, warn_user
from manyclass.training.plan import PointsPlan
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Floats, Ids, Matrix, aligned_zeros, row_norms_sq
from manyclass.weights.weights import Weights

# Of the prior and of the data: larger ones, and for the prior smaller ones than one over it, count as that, so that
# variances are numbers of single precision above 0.
MOST_PRECISION = 1e30
BATCH = 16  # points that see the same weights and classes


class GaussianTraining:
    """Passes over the data. A batch touches the weights of its points' features, for the drawn classes and its labels.

    The variances of a pass are those of the precisions that the passes before have collected, and 0 in the first.
    """

    def __init__(
        self,
        plan: PointsPlan,
        x: Matrix,
        labels: Ids,
        n_classes: int,
        weights: Doubles | None = None,
        mean_weight: float = 1.0,
    ) -> None:
        assert plan.utility is not None
        self.n_samples, self.n_classes, self.alpha = len(labels), n_classes, plan.alpha
        self.mean_weight = mean_weight
        self.prior = min(max(mean_weight * self.n_samples * plan.alpha, 1 / MOST_PRECISION), MOST_PRECISION)
        self.means = Weights.zeros(n_classes, x.shape[1], by_feature=sp.issparse(x))
        self.variances = aligned_zeros(*self.means.matrix.shape)
        self.collected = aligned_zeros(*self.means.matrix.shape)
        self.precisions = aligned_zeros(*self.means.matrix.shape)  # but for the prior's
        sample_weight = NO_DOUBLES if weights is None else weights
        state = core_state(plan, self.means, labels, row_norms_sq(x), sample_weight=sample_weight)
        n_negatives = n_classes if plan.sampler == "all" else plan.n_negatives
        batch = min(plan.batch_size or BATCH, self.n_samples)
        own = replace(plan, solver="sgd", sampler="uniform", options={}, n_negatives=n_negatives, n_threads=1)
        own = replace(own, share_classes=True, batch_size=None)  # the steps of a batch are added
        made = core_plan(own, n_classes, batch=batch)
        self._trainer = _core.Trainer.posterior(made, core_data(x), x.shape[1], state, self.variances, self.collected)

    def _by_feature(self, matrix: Floats) -> Floats:
        return matrix if self.means.sparse else matrix.T

    def visit(self, t: int, eta: float, first: int, last: int) -> float | None:
        """Make the visits [first, last) of pass t; return the sum of the losses, None where a step was too large."""
        loss = 0.0
        while first < last:
            progress = self._trainer.run(
                epoch=t, eta=eta, eta_u=0.0, first=first, last=last, loss=loss, seconds=SLICE_SECONDS
            )
            if progress.diverged_at >= 0:
                return None
            loss, first = progress.loss, first + progress.visits
        return loss

    def make_pass(self, t: int, eta: float) -> float | None:
        """Visit every point; return the mean of -bound, with the divergence from the prior; None: a step was too large.

        Then the means are those before that step, and the variances those before the pass: in the first the prior's.
        """
        loss = self.visit(t, eta, 0, self.n_samples)
        if loss is None:
            if t == 0:
                self.variances[:] = 1 / self.prior
            return None
        gain = (1 + t) ** -0.9
        self.precisions *= np.float32(1 - gain)
        with np.errstate(over="ignore"):
            self.precisions += np.float32(min(gain * self.mean_weight, MOST_PRECISION)) * self.collected
        np.minimum(self.precisions, np.float32(MOST_PRECISION), out=self.precisions)
        self.collected[:] = 0
        np.divide(1, np.float32(self.prior) + self.precisions, out=self.variances)
        m, v = (self._by_feature(a)[:, : self.n_classes] for a in (self.means.matrix, self.variances))
        with np.errstate(over="ignore"):  # an infinite loss ends training
            terms = self.prior * (np.square(m, dtype=np.float64) + v) - 1 - (np.log(self.prior) + np.log(v))
        mean = (loss + 0.5 * float(np.sum(terms)) / self.mean_weight) / self.n_samples
        return mean if np.isfinite(mean) else None


def fit_posterior(
    plan: PointsPlan,
    x: Matrix,
    labels: Ids,
    n_classes: int,
    weights: Doubles | None = None,
    *,
    mean_weight: float = 1.0,
) -> tuple[Weights, Floats, list[float]]:
    """Return the means, the variances (stored as the means are) and the loss of each pass.

    A point counts as `mean_weight` times `weights` (of mean 1) observations. There is a model after the first pass.

    Warns
    -----
    ConvergenceWarning
        If training diverged, or was interrupted after the first pass.

    Raises
    ------
    KeyboardInterrupt
        If it was in the first pass.
    """
    training = GaussianTraining(plan, x, labels, n_classes, weights, mean_weight)
    curve: list[float] = []
    try:
        while len(curve) < plan.max_iter:
            loss = training.make_pass(len(curve), plan.schedule.at(len(curve))[0])
            if loss is None:
                warn_user(
                    f"training diverged: a step in pass {len(curve) + 1} was too large. Lower learning_rate, or scale "
                    "the rows of X to unit length"
                )
                break
            curve.append(loss)
    except KeyboardInterrupt:
        if not curve:
            raise
        warn_user("training was interrupted; the model is the one reached so far")
    return training.means, training.variances, curve


def predictive_tiles(
    noise: str, means: Weights, variances: Floats, x: Matrix, *, n_draws: int, seed: int, n_threads: int
) -> Iterator[tuple[int, Doubles]]:
    """Probabilities of all classes, some points at a time, as means over draws of the scores."""
    spread = Weights.linear(variances, np.zeros_like(means.intercept), by_feature=means.sparse)
    with np.errstate(over="ignore"):  # scores that overflow are held in the core
        squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), x.shape) if sp.issparse(x) else np.square(x)
    rng = np.random.default_rng(seed)
    for (first, scores), (_, var) in zip(
        means.score_tiles(x, n_threads), spread.score_tiles(squares, n_threads), strict=True
    ):
        z, deviations = scores.astype(np.float64), np.sqrt(var.astype(np.float64))
        total = np.zeros_like(z)
        for _ in range(n_draws):
            psi = z + deviations * rng.standard_normal(z.shape)
            total += _core.utility_probabilities(noise=noise, psi=psi, log=False, n_threads=n_threads)
        yield first, total / n_draws
