"""Training point by point: from a plan to the core's loop, and back to weights.

The sampler "head_tail" has a certain head for each point, which a search finds between passes: the wrong classes of
largest score in the present weights. A head may be anything that depends on the past only (select/head_tail.hpp), so
what a search at the end of a pass finds keeps the gradients of the next pass unbiased; a class that it misses is left
to the tail, at the price of variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.bounds import largest_log_normalizer
from manyclass.checks import check_number, core_data, row_norms_sq
from manyclass.figures import FIGURES
from manyclass.search.clustered import class_rows, queries
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.core_training import CoreTraining, Signs, Trained, TrainingState, Watch, trained
from manyclass.training.plan import PointsPlan, ScoredRows, carry_of, core_plan
from manyclass.training.state import EarlierModel, LocalState, Points
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids, Matrix, aligned_zeros
from manyclass.weights.tensor_file import Arrays, Saved
from manyclass.weights.weights import Weights

MOST_SCORED_FIRST = FIGURES.MOST_SCORED_FIRST
SMALLEST_SCALE = 2.0**-40  # as in the core's model/linear.hpp


class Memory:
    """What training keeps beside the weights; empty arrays for what is switched off.

    Attributes
    ----------
    scale : ndarray of shape (n_classes,)
        Factor of every row (ridge, projection).
    norm_sq : ndarray of shape (n_classes,)
        Squared norm of every row (projection).
    total : ndarray
        Sum of the iterates that are averaged.
    intercept_total : ndarray
        Sum of their intercepts.
    averaged : range
        The passes after which iterates are averaged.
    squares : ndarray
        Running squares of the gradients (schedule="adaptive").
    intercept_squares : ndarray
        Running squares of the gradients of the intercepts.
    gradients : ndarray
        The sum of a batch's gradients, where there are batches.
    intercept_gradients : ndarray
        That of the intercepts.
    n_averaged : int
        Iterates in the sums.
    """

    def __init__(self, plan: PointsPlan, weights: Weights, *, batch: int, pass_seconds: float) -> None:
        n_classes, size = weights.n_classes, weights.matrix.size
        averages, adaptive = plan.averaging != "none", plan.schedule.name == "adaptive"
        adds_up, projects = adaptive and batch > 1, plan.max_norm is not None

        def like_weights(wanted: bool) -> Floats:
            return aligned_zeros(*weights.matrix.shape) if wanted else NO_FLOATS.reshape(0, 0)

        def like_intercepts(wanted: bool) -> Floats:
            return np.zeros(n_classes if wanted else 0, dtype=np.float32)

        self.scale: Floats = np.ones(n_classes if projects or plan.alpha > 0 else 0, dtype=np.float32)
        self.norm_sq: Doubles = np.zeros(n_classes if projects else 0)
        self.total, self.intercept_total = like_weights(averages), like_intercepts(averages)
        passes = _core.averaged_passes(plan.max_iter, averages, plan.averaging == "suffix", size, pass_seconds)
        self.averaged, self.n_averaged = range(*passes), 0
        self.squares, self.intercept_squares = like_weights(adaptive), like_intercepts(adaptive and plan.fit_intercept)
        self.gradients = like_weights(adds_up)
        self.intercept_gradients = like_intercepts(adds_up and plan.fit_intercept)

    def after_pass(self, weights: Weights, n_iter: int, n_threads: int) -> None:
        """Add the iterate to the average, if it is to be in it."""
        if n_iter in self.averaged:
            iterate = (weights.matrix, weights.bias, self.scale, weights.sparse, n_threads)
            _core.add_iterate(self.total, self.intercept_total, *iterate)
            self.n_averaged += 1

    def model(self, weights: Weights) -> tuple[Weights, Floats]:
        """Return what `finish` would leave, as a matrix and the factors of its rows, without copying W."""
        if not self.n_averaged:
            return weights, self.scale
        share = np.float32(1 / self.n_averaged)
        mean = Weights.linear(self.total, self.intercept_total * share, by_feature=weights.sparse)
        return mean, np.full(weights.n_classes, share)

    def finish(self, weights: Weights) -> None:
        """Leave in `weights` the model itself: factors multiplied in, or the average."""
        if self.n_averaged:
            sums = (self.total, self.intercept_total, self.n_averaged)
            _core.write_mean_iterate(*sums, weights.matrix, weights.bias)
        elif len(self.scale):
            weights.multiply_classes(self.scale)


def batch_size_of(plan: PointsPlan, labels: Ids, n_classes: int) -> int:
    """Return how many points see the same weights."""
    if plan.points_of_step is not None:
        return min(int(plan.points_of_step), len(labels))
    if (plan.hogwild and plan.n_threads > 1) or plan.max_norm is not None:
        return 1
    return _core.points_of_batch(labels, n_classes, plan.solver == "exact" or plan.sampler == "all")


def first_local_state(plan: PointsPlan, n_samples: int, n_classes: int) -> LocalState:
    """Return what points carry before their first visit: u of the double sum, or mean and scale of q."""
    family = plan.utility.family if plan.utility else None
    if plan.utility is not None and family is not None:
        mean, scale = (family.mu, family.s) if plan.utility.start == "best" else (0.0, 1.0)
        return LocalState(np.full(n_samples, mean), np.full(n_samples, scale))
    first_u = float(np.log(n_classes)) if plan.u_init == "log_n_classes" else 0.0
    return LocalState(np.full(n_samples, first_u), NO_DOUBLES)


def core_state(plan: PointsPlan, weights: Weights, labels: Ids, x_sq: Floats, **more: Any) -> _core.State:
    """Return the arrays of a training; of those that only some trainings have, the ones not given are empty."""
    local_state = vars(first_local_state(plan, len(labels), weights.n_classes))
    model: dict[str, Any] = {"weights": weights.matrix, "n_classes": weights.n_classes}
    model["intercept"] = weights.intercept if plan.fit_intercept else NO_FLOATS
    return _core.State(labels=labels, x_sq=x_sq, **model | local_state | more)


def class_order(plan: PointsPlan, counts: NDArray[Any], n_classes: int) -> Ids:
    """Return the order in which training sees the classes, whose numbers of points are `counts`.

    It is random, so that a block of neighbours is a uniform draw, or that of their frequency, so that a line of
    neighbours has much the same; exact steps see all classes in either.
    """
    order = _core.class_order(n_classes, plan.seed)
    if plan.sampler == "frequency_block" or plan.solver == "exact":
        order = order[np.argsort(-counts[order], kind="stable")]
    return order


class PointsTraining(CoreTraining):
    """The core's trainer with its arrays, and what happens between passes."""

    plan: PointsPlan
    index: Any = None

    def __init__(
        self,
        plan: PointsPlan,
        points: Points,
        candidates: Ids | None = None,
        start: Weights | None = None,
        earlier: EarlierModel | None = None,
    ) -> None:
        x, labels, n_classes = points.x, points.labels.ids, points.n_classes
        is_sparse = isinstance(x, sp.csr_array)
        weights = Weights.zeros(n_classes, x.shape[1], by_feature=is_sparse) if earlier is None else earlier.weights
        super().__init__(plan, points, weights, goes_on=earlier is not None)
        self.earlier, self.batch = earlier, batch_size_of(plan, labels, n_classes)
        plan.check_sharing(self.batch)
        counts = np.bincount(labels, minlength=n_classes) if earlier is None else earlier.counts
        order = class_order(plan, counts, n_classes)  # 1
        self.order, self.curvatures = order, NO_DOUBLES
        self.position = np.empty_like(order)
        self.position[order] = np.arange(n_classes, dtype=np.int32)
        if earlier is not None:
            weights.reorder(order, plan.n_threads)
        # What a pass is taken to cost, in units that only matter beside those of an average.
        drawn = n_classes if plan.sampler == "all" else min(plan.n_negatives, n_classes)
        self.pass_seconds = _core.pass_seconds(x.shape[0], _n_stored(x), drawn + 1)
        self.memory = Memory(plan, weights, batch=self.batch, pass_seconds=self.pass_seconds)
        self.scale = self.memory.scale
        self.x_sq = row_norms_sq(x)
        self.searches = plan.sampler == "head_tail" and candidates is None
        if candidates is not None:
            self.heads = np.ascontiguousarray(self.position[candidates])
        else:  # none in the first pass, which warms up by its tails alone
            shape = (len(labels), min(plan.n_head, n_classes - 1)) if self.searches else (0, 0)
            self.heads = np.full(shape, -1, dtype=np.int32)
        self.core = self._trainer(x, self.position[labels], start, counts[order])  # 2

    def _trainer(self, x: Matrix, labels: Ids, start: Weights | None, counts: NDArray[Any]) -> _core.Trainer:
        plan, memory, n_classes = self.plan, self.memory, self.weights.n_classes
        names = ("scale", "norm_sq", "squares", "intercept_squares", "gradients", "intercept_gradients")
        arrays: dict[str, Floats | Doubles] = {name: getattr(memory, name) for name in names}
        if start is not None:
            arrays |= self._begin(start, x, labels)
        first_point = 0
        if self.earlier is not None:
            arrays |= {"counts": counts.astype(np.float64), **self._go_on(self.earlier, labels)}
            arrays |= self._by_curvature(self.earlier)
            first_point = self.earlier.n_points
        local_state = vars(first_local_state(plan, len(labels), n_classes))
        begun: dict[str, Any] = {**local_state, **arrays, "sample_weight": self.points.weights}
        self.local_state = LocalState(begun["u"], begun["local_scale"])  # the core moves them in place
        state = core_state(plan, self.weights, labels, self.x_sq, heads=self.heads, **begun)
        # Intercepts are not projected, so that with them no bound on u follows from the norms of rows.
        u_max = np.inf
        if plan.max_norm is not None and not plan.fit_intercept:
            u_max = largest_log_normalizer(plan.max_norm, float(np.sqrt(self.x_sq.max(initial=0))), n_classes)
        more = {"u_max": u_max, "first_point": first_point, "exact_first_u": n_classes <= MOST_SCORED_FIRST}
        planned = core_plan(plan, n_classes, batch=self.batch, **more)
        return _core.Trainer.points(planned, core_data(x), x.shape[1], state)

    def _begin(self, start: Weights, x: Matrix, labels: Ids) -> dict[str, Doubles]:
        """Write the first weights; return the arrays that follow from them."""
        put_start(start, self.weights, self.position)
        if len(self.memory.norm_sq):
            self.memory.norm_sq[self.position] = norms_sq(start)
        if not self._begins_at_weights():
            return {}
        seconds = FIGURES.SECONDS_PER_SCORED * _n_stored(x) * self.weights.n_classes
        if seconds > FIGURES.MOST_FOR_FIRST_U * (self.plan.max_iter * self.pass_seconds):
            return {"u": np.full(len(labels), np.nan)}  # a point's first visit begins it at its own draw
        carry = carry_of(self.plan.formulation)
        return {"u": carried_at(self.weights, x, labels, carry=carry, n_threads=self.plan.n_threads)}

    def _go_on(self, earlier: EarlierModel, labels: Ids) -> dict[str, Doubles]:
        """Return the arrays that follow from the weights that training goes on from."""
        if len(self.memory.norm_sq):
            self.memory.norm_sq[:] = norms_sq(self.weights)
        if earlier.local_state is not None and len(earlier.local_state.u):
            return {"u": earlier.local_state.u, "local_scale": earlier.local_state.local_scale}
        unknown = earlier.goes_on and self._begins_at_weights()
        return {"u": np.full(len(labels), np.nan)} if unknown else {}

    def _by_curvature(self, earlier: EarlierModel) -> dict[str, Doubles]:
        """Return what steps by curvature go by; with a ridge, which shrinks all features alike, they are alike."""
        if earlier.squares is None:
            return {}
        before, now = earlier.squares.features, earlier.features
        if self.plan.alpha > 0:
            before, now = _core.alike(before), _core.alike(before + now) - _core.alike(before)
        self.curvatures = earlier.squares.curvatures[self.order]
        return {"feature_squares": before, "feature_squares_now": now, "curvatures": self.curvatures}

    def _begins_at_weights(self) -> bool:
        """Return whether what points carry begins at what first weights make of it."""
        softmax = self.plan.utility is None or self.plan.utility.family is None
        return softmax and self.plan.u_init == "log_n_classes"

    def after_pass(self, n_iter: int) -> None:
        """Step 4 of `fit_points`: average, and search for heads."""
        plan = self.plan
        self.memory.after_pass(self.weights, n_iter, plan.n_threads)
        if self.searches and n_iter % plan.refresh == 0 and n_iter < plan.max_iter:
            data = self.points.x, self.position[self.points.labels.ids], self.heads
            self.index = search_heads(plan, *data, self.weights, self.memory.scale, self.index)

    def held_out_loss(self, rows: ScoredRows) -> float:
        """Return the mean log-loss of points held out, in nats."""
        model, scale = self.memory.model(self.weights)
        losses, _ = model.log_losses(rows.x, self.position[rows.labels.ids], rows.n_threads, scale)
        return float(np.average(losses, weights=rows.weights))

    def model_arrays(self) -> Arrays:
        """See `CoreTraining`; rows are to be multiplied by "scale" unless it is empty."""
        model, scale = self.memory.model(self.weights)
        return {"": model.matrix, "intercept": model.intercept, "scale": scale}

    def as_model(self) -> TrainingState:
        """Return the state of the average, where iterates are averaged."""
        weights, scale = self.memory.model(self.weights)
        return replace(self.state, _weights=weights, _scale=scale)

    def moved(self) -> Arrays:
        """Return weights, what is kept beside them, what points carry, and heads."""
        memory = {name: value for name, value in vars(self.memory).items() if isinstance(value, np.ndarray)}
        moved = {"weights": self.weights.matrix, "intercept": self.weights.intercept, "heads": self.heads}
        return {**moved, **memory, **vars(self.local_state)}

    def leave(self, best: Arrays) -> None:
        """Leave the best model, its factors multiplied in."""
        if best:
            self.weights.matrix[...], self.weights.intercept[...] = best[""], best["intercept"]
            if len(best["scale"]):
                self.weights.multiply_classes(best["scale"])

    def own_numbers(self) -> dict[str, Any]:
        """Return how many iterates are averaged."""
        return {"n_averaged": self.memory.n_averaged}

    def saved_model_arrays(self, saved: Saved) -> Arrays:
        """See `CoreTraining`; the best model may have had no factors of rows, where the present one has."""
        scale = saved.array("best_scale")
        if scale.shape not in ((0,), (self.weights.n_classes,)) or scale.dtype != np.float32:
            raise ValueError(f"best_scale has shape {scale.shape}; it must have one number for each class")
        return {**self.model_arrays(), "scale": scale}

    def restore_own(self, saved: Saved) -> None:
        """Take over the arrays and the numbers of a checkpoint."""
        super().restore_own(saved)
        if self.heads.size and not -1 <= self.heads.min() <= self.heads.max() < self.weights.n_classes:
            raise ValueError(f"heads hold numbers outside of [-1, {self.weights.n_classes}), which are no classes")
        if np.any(self.memory.scale < SMALLEST_SCALE):
            raise ValueError(f"scale has numbers below {SMALLEST_SCALE:g}")
        most = len(self.memory.averaged)
        check_number("n_averaged", saved.numbers["n_averaged"], low=0, high=most, integer=True)
        self.memory.n_averaged = saved.numbers["n_averaged"]

    def finished(self) -> Weights:
        """Return the model itself: the best or the last one, or the average, its classes in the order of the labels."""
        if self.validation is None or not self.validation.best_iter:
            self.memory.finish(self.weights)
        self.weights.reorder(self.position, self.plan.n_threads)
        return self.weights


def _n_stored(x: Matrix) -> int:
    return int(x.nnz if isinstance(x, sp.csr_array) else x.size)


def fit_points(
    plan: PointsPlan,
    points: Points,
    watch: Watch,
    candidates: Ids | None = None,
    start: Weights | None = None,
    earlier: EarlierModel | None = None,
) -> Trained:
    """Train weights on points of one label and return them with the running loss of each pass.

    1. Classes are put in an order in which neighbours are drawn together.
    2. W and what points carry begin at 0, at a start, or at an `earlier` model.
    3. A pass visits each point: it draws other classes, solves for the coefficients of the touched rows of W, and moves
       these rows and what the point carries.
    4. After a pass the iterate is averaged, points held out are looked at, and heads are searched anew.
    5. The model is the iterate, its average or, with points held out, that of the pass that did best on them.

    The weights of the points, of mean 1, multiply their losses. Of a training that diverges see `trained`.
    """
    n_classes = points.n_classes
    n_drawn: int | None = n_classes if plan.solver == "exact" or plan.sampler == "all" else plan.n_negatives
    # Points held out watch by themselves; and scores of negative sampling are no logarithms of probabilities.
    if watch.validation is not None or plan.solver == "negative_sampling":
        n_drawn = None
    # One pass over few new rows may end above a model that knew them, an average of few passes above an iterate.
    minimised = earlier is None and (plan.averaging == "none" or plan.max_iter >= _core.Probe.many_passes)
    noise, at_zero = plan.utility.noise if plan.utility else "gumbel", float(np.log(n_classes))
    loss: dict[str, Any] = {"noise": noise, "minimised": minimised, "ridge": plan.alpha}
    signs = Signs(at_zero, n_drawn, **loss, begins_elsewhere=start is not None)
    make = partial(PointsTraining, points=points, candidates=candidates, start=start, earlier=earlier)
    training, rate = trained(make, plan, watch, signs)  # 1 to 4
    if earlier is not None and earlier.squares is not None:
        earlier.squares.curvatures[training.order] = training.curvatures
    if earlier is not None and earlier.local_state is not None:
        vars(earlier.local_state).update(vars(training.local_state))
    return Trained(training.finished(), training.curve, rate, complete=training.complete)  # 5


def search_heads(
    plan: PointsPlan, x: Matrix, labels: Ids, heads: Ids, weights: Weights, scale: Floats, index: Any = None
) -> Any:
    """Fill `heads` with the positions of the best wrong classes of each point, in weights whose rows are times `scale`.

    Sparse points score all classes: an index reads rows of n_features floats for each class that it scans, a point the
    few of its own features for all of them. Of dense points the index, which the next search follows, is returned.
    Labels are positions, like all classes here.
    """
    if isinstance(x, sp.csr_array):
        weights.top_wrong(x, labels, heads, plan.n_threads, scale)
        return None
    rows, seed = class_rows(weights.coef, weights.intercept if plan.fit_intercept else None, scale), plan.seed % 2**32
    if index is None:
        index = SphericalClusterIndex(n_jobs=plan.n_threads, random_state=seed).fit(rows)
    else:
        index.update(np.arange(len(rows)), rows)
    if index.n_clusters_ > 1:
        sample = np.random.default_rng(seed).permutation(len(labels))[: FIGURES.SEARCH_QUERIES]
        ones = (np.ones(len(sample)), labels[sample], np.arange(len(sample) + 1))
        sampled_labels = sp.csr_array(ones, shape=(len(sample), len(rows)))
        Q = queries(x[sample], index.n_features_in_)
        index.tune(Q, k=heads.shape[1], recall=FIGURES.HEAD_RECALL, exclude=sampled_labels)
    index.fill_heads(x, labels, heads)
    return index


# The Gaussian posterior of augment and reduce

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


# First weights


def put_start(start: Weights, weights: Weights, position: Ids) -> None:
    """Write first weights into those of a training, in which class k stands in place position[k]."""
    if start.has_pairs:
        pairs = start.coef.tocoo()
        weights.coef[position[pairs.row], pairs.col] = pairs.data
    else:
        weights.coef[position] = start.coef
    weights.intercept[position] = start.intercept


def norms_sq(weights: Weights) -> Doubles:
    """Squared norms of the rows of weights, without intercepts."""
    if weights.has_pairs:
        squares: Doubles = np.square(weights.values, dtype=np.float64)
        return np.bincount(weights.classes, squares, weights.n_classes).astype(np.float64)
    norms: Doubles = np.einsum("kj,kj->k", weights.coef, weights.coef, dtype=np.float64)
    return norms


def carried_at(weights: Weights, x: Matrix, labels: Ids, *, carry: float, n_threads: int) -> Doubles:
    """What each point carries where it is exact: u + carry z_y with u = log A, the log-loss.

    It takes one exact evaluation of all points or, where carry is neither 0 nor 1, two.
    """
    if carry == 1:
        return weights.log_normalizers(x, n_threads)
    losses, _ = weights.log_losses(x, labels, n_threads)
    if carry == 0:
        return losses
    return (1 - carry) * losses + carry * weights.log_normalizers(x, n_threads)
