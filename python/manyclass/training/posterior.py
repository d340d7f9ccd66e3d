"""The Gaussian posterior of augment and reduce: passes of the core's train/gaussian_posterior.hpp, and predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import csr_parts, seed_from
from manyclass.model.weights import LinearWeights, Matrix, aligned_zeros
from manyclass.training.local_family import LocalFamily
from manyclass.training.passes import Schedule
from manyclass.training.sampled import EMPTY, row_norms_sq

Floats = NDArray[np.float64]

BATCH = 16  # points that see the same weights and classes


class GaussianTraining:
    """Passes over the data. A batch touches the weights of its points' features, for the drawn classes and its labels.

    The variances of a pass are those of the precisions that the passes before have collected, and 0 in the first.
    """

    def __init__(
        self, estimator: Any, x: Matrix, labels: NDArray[np.int32], n_classes: int, family: LocalFamily | None
    ) -> None:
        self.n_samples, self.n_classes, self.alpha = len(labels), n_classes, estimator.alpha
        self.batch = min(estimator.batch_size or BATCH, len(labels))
        self.means = LinearWeights.zeros(n_classes, x.shape[1], sparse=sp.issparse(x))
        self.variances = aligned_zeros(*self.means.matrix.shape)
        self.collected = aligned_zeros(*self.means.matrix.shape)
        self.precisions = aligned_zeros(*self.means.matrix.shape)  # but for the prior's
        state = _core.State(
            labels=labels,
            x_sq=row_norms_sq(x),
            u=np.full(len(labels), np.log(n_classes) if family is None else family.mu),
            weights=self.means.matrix,
            intercept=self.means.intercept if estimator.fit_intercept else EMPTY,
            scale=EMPTY,
            norm_sq=EMPTY.astype(np.float64),
            squares=EMPTY,
            intercept_squares=EMPTY,
            heads=np.zeros((0, 0), dtype=np.int32),
            n_classes=n_classes,
            local_scale=np.zeros(0) if family is None else np.full(len(labels), family.s),
        )
        data = csr_parts(x) if isinstance(x, sp.csr_array) else x
        self._trainer = _core.Trainer.posterior(
            self._plan(estimator, family), data, x.shape[1], state, self.variances, self.collected
        )

    def _plan(self, estimator: Any, family: LocalFamily | None) -> _core.Plan:
        every_class = estimator.selection == "all"
        plan = _core.Plan(
            solver="sgd",
            formulation="proposed",
            selection="uniform",
            root="newton",
            n_negatives=self.n_classes if every_class else min(estimator.n_negatives, self.n_classes),
            delta=1.0,
            u_gain=0.5,
            power=0.75,
            seed=seed_from(estimator.random_state),
            n_threads=1,
            batch=self.batch,
            mean_of_batch=False,
            share_classes=True,
            hogwild=False,
            shuffle=True,
            ridge=self.alpha,
            u_max=np.inf,
            max_norm=np.inf,
            isa="auto",
        )
        none = np.zeros(0)
        plan.augment_reduce(
            noise=estimator.noise,
            local_step="natural",
            local_floor=0.0,
            family="gumbel" if family is None else family.name,
            nodes=none if family is None else family.nodes,
            weights=none if family is None else family.weights,
            entropy=0.0 if family is None else family.entropy,
            largest_scale=1.0 if family is None else family.largest_scale,
        )
        return plan

    def _by_feature(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        return matrix if self.means.sparse else matrix.T

    def visit(self, t: int, eta: float, first: int, last: int) -> float:
        """Make the visits [first, last) of pass t; return the sum of the losses."""
        progress = self._trainer.run(epoch=t, eta=eta, eta_u=0.0, first=first, last=last, loss=0.0)
        return progress.loss if progress.diverged_at < 0 else np.nan

    def make_pass(self, t: int, eta: float) -> float:
        """Visit every point; return the mean of -bound, with the divergence from the prior."""
        loss = self.visit(t, eta, 0, self.n_samples)
        gain = (1 + t) ** -0.9
        self.precisions *= np.float32(1 - gain)
        self.precisions += np.float32(gain) * self.collected
        self.collected[:] = 0
        prior = self.n_samples * self.alpha
        np.divide(1, np.float32(prior) + self.precisions, out=self.variances)
        m, v = (self._by_feature(a)[:, : self.n_classes] for a in (self.means.matrix, self.variances))
        divergence = 0.5 * float(np.sum(prior * (np.square(m) + v) - 1 - np.log(prior * v), dtype=np.float64))
        return (loss + divergence) / self.n_samples


def fit_posterior(
    estimator: Any,
    x: Matrix,
    labels: NDArray[np.int32],
    n_classes: int,
    *,
    schedule: Schedule,
    family: LocalFamily | None,
) -> tuple[LinearWeights, NDArray[np.float32], list[float]]:
    """Return the means, the variances (stored as the means are) and the loss of each pass."""
    training = GaussianTraining(estimator, x, labels, n_classes, family)
    curve = [training.make_pass(t, schedule.at(t)[0]) for t in range(estimator.max_iter)]
    return training.means, training.variances, curve


def predictive_tiles(
    noise: str,
    means: LinearWeights,
    variances: NDArray[np.float32],
    x: Matrix,
    *,
    n_draws: int,
    seed: int,
    n_threads: int,
) -> Iterator[tuple[int, Floats]]:
    """Probabilities of all classes, some points at a time, as means over draws of the scores."""
    spread = LinearWeights(variances, np.zeros_like(means.intercept), means.sparse)
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
