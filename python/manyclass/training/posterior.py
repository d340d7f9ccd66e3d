"""The Gaussian posterior of augment and reduce: passes by train/points/gaussian_posterior.hpp, predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import _core
from manyclass.checks import core_data, row_norms_sq
from manyclass.figures import FIGURES
from manyclass.training.core_training import CoreTraining, Signs, Trained, Watch, trained
from manyclass.training.data import Points
from manyclass.training.plan import PointsPlan, core_plan
from manyclass.training.points import core_state, first_local_state
from manyclass.weights.arrays import Doubles, Floats, Matrix, aligned_zeros
from manyclass.weights.tensor_file import Arrays
from manyclass.weights.weights import Weights

# Of the prior and of the data: larger ones, and for the prior smaller ones than one over it, count as that, so that
# variances are numbers of single precision above 0.
MOST_PRECISION = 1e30


class GaussianTraining(CoreTraining):
    """Passes over the data. A batch touches the weights of its points' features, for the drawn classes and its labels.

    The variances of a pass are those of the precisions that the passes before have collected, and 0 in the first.
    """

    advice = "Lower learning_rate, or scale the rows of X to unit length"

    def __init__(self, plan: PointsPlan, points: Points) -> None:
        assert plan.utility is not None
        x, labels, n_classes = points.x, points.labels.ids, points.n_classes
        means = Weights.zeros(n_classes, x.shape[1], by_feature=sp.issparse(x))
        super().__init__(plan, points, means, goes_on=False)
        n_rows = points.mean_weight * len(labels)
        self.prior = min(max(n_rows * plan.alpha, 1 / MOST_PRECISION), MOST_PRECISION)
        # Precisions are without the prior's.
        self.variances, self.collected, self.precisions = (aligned_zeros(*means.matrix.shape) for _ in range(3))
        self.local_state = first_local_state(plan, len(labels), n_classes)
        state = core_state(plan, means, labels, row_norms_sq(x), sample_weight=points.weights, **vars(self.local_state))
        n_negatives = n_classes if plan.sampler == "all" else plan.n_negatives
        self.batch = min(plan.batch_size or FIGURES.POSTERIOR_BATCH, len(labels))
        batch_plan = replace(plan, solver="sgd", sampler="uniform", options={}, n_negatives=n_negatives, n_threads=1)
        batch_plan = replace(batch_plan, share_classes=True, batch_size=None)  # the steps of a batch are added
        planned = core_plan(batch_plan, n_classes, batch=self.batch)
        self.core = _core.Trainer.posterior(planned, core_data(x), x.shape[1], state, self.variances, self.collected)

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a whole pass; return the mean of -bound, with the divergence from the prior, and whether it is done."""
        means, width = self.weights.matrix, self.weights.matrix.shape[1]
        names = ("collected", "precisions", "variances", "prior")
        more: dict[str, Any] = {name: getattr(self, name) for name in names}
        more |= {"mean_weight": self.points.mean_weight, "most": MOST_PRECISION, "n_pass": n_pass}
        n_used = self.weights.n_classes if self.weights.sparse else width
        divergence = _core.end_posterior_pass(means=means, width=width, n_used=n_used, **more)
        self.loss += divergence / self.points.mean_weight
        return super().finish(n_pass)

    def moved(self) -> Arrays:
        """Return the means, the variances with what they are made of, and what points carry."""
        moved = {"weights": self.weights.matrix, "intercept": self.weights.intercept, "variances": self.variances}
        return {**moved, "collected": self.collected, "precisions": self.precisions, **vars(self.local_state)}


def fit_posterior(plan: PointsPlan, points: Points, watch: Watch) -> tuple[Trained, Floats]:
    """Return the means with the loss of each pass, and the variances, which are stored as the means are.

    A point counts as its weight (of mean 1) times `points.mean_weight` observations. Before the end of the first pass
    the variances are the prior's. Of a training that diverges see `trained`.
    """

    signs = Signs(float(np.log(points.n_classes)), bounded=False)  # the divergence from the prior is a part of the loss
    training, rate = trained(lambda by: GaussianTraining(by, points), plan, watch, signs)
    if not training.curve:
        training.variances[:] = 1 / training.prior
    return Trained(training.weights, training.curve, rate), training.variances


def predictive_tiles(
    noise: str, means: Weights, variances: Floats, x: Matrix, *, n_draws: int, seed: int, n_threads: int
) -> Iterator[tuple[int, Doubles]]:
    """Log-probabilities of all classes, some points at a time: of means of probabilities over draws of the scores."""
    spread = Weights.linear(variances, np.zeros_like(means.intercept), by_feature=means.sparse)
    with np.errstate(over="ignore"):  # scores that overflow are held in the core
        squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), x.shape) if sp.issparse(x) else np.square(x)
    rng = np.random.default_rng(seed)
    for (first, scores), (_, var) in zip(
        means.score_tiles(x, n_threads), spread.score_tiles(squares, n_threads), strict=True
    ):
        z, deviations = scores.astype(np.float64), np.sqrt(var.astype(np.float64))
        total = np.full_like(z, -np.inf)  # of logarithms, as probabilities of classes far away are 0 in any precision
        for _ in range(n_draws):
            psi = z + deviations * rng.standard_normal(z.shape)
            log_p = _core.utility_probabilities(noise=noise, psi=psi, log=True, n_threads=n_threads)
            np.logaddexp(total, log_p, out=total)
        yield first, total - math.log(n_draws)
