"""Trainings of the core by passes over points with labels: what points, minibatches and pairs share; full passes.

`CoreTraining` drives a trainer of the core pass by pass. A callback sees each pass as a `TrainingState`, and a `Watch`
is what `fit` was given to look on. `trained` makes one and, where it diverges, another one by a tenth of its step size.

A `Probe` looks at the exact loss of a fixed sample of training points, which shows a divergence that the running loss
hides: the running loss is that of the selected classes, and with few of them the logarithm of a sampled sum lies below
the loss itself (Jensen), most where a model is sure of wrong classes. So it may fall while training diverges.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending.blend import held_out_loss
from manyclass.checks import canonical_csr, check_number, core_data
from manyclass.figures import FIGURES
from manyclass.training.checkpoint import Checkpoints, Stage
from manyclass.training.passes import Validation, drive, warn_user
from manyclass.training.plan import FullBatchPlan, Labels, Plan, ScoredRows
from manyclass.training.state import Points, Squares, State
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, Doubles, Floats, Ids, Matrix
from manyclass.weights.tensor_file import Arrays, Saved
from manyclass.weights.weights import FeatureScaling, Weights

ADVICE = "Lower learning_rate, scale the rows of X to unit length, or use solver='implicit', which bears larger steps"


@dataclass
class TrainingState:
    """What a callback of `fit` sees after each pass over the data.

    Attributes
    ----------
    n_iter : int
        Passes made.
    seconds : float
        Time spent in training so far, callbacks excluded.
    loss : float
        Running estimate of the mean loss of the last pass, in nats (see `loss_curve_`).
    class_updates : int
        Rows of W moved so far.
    """

    n_iter: int
    seconds: float
    loss: float
    class_updates: int
    _weights: Weights = field(repr=False)
    _scale: Floats = field(repr=False)
    _position: Ids = field(repr=False)
    _n_threads: int = field(repr=False)
    _noise: str = field(repr=False, default="gumbel")
    _scaling: FeatureScaling | None = field(repr=False, default=None)

    @property
    def weights(self) -> Weights:
        """The current iterate, as the training has it: of scaled features, and its classes in an order of their own."""
        return self._weights

    def of_features(self, scaling: FeatureScaling) -> TrainingState:
        """Return the state for who has features as they were before the scaling that training sees."""
        return replace(self, _scaling=scaling)

    def evaluate(self, X: Matrix, labels: Ids) -> dict[str, float]:
        """Return the exact log-loss (nats), error and top-5 error on points with labels in [0, n_classes).

        It is the current iterate that is evaluated, also where iterates are averaged.
        """
        return summarize(*self.losses_and_ranks(X, labels))

    def log_losses(self, X: Matrix, labels: Ids) -> Doubles:
        """Return the exact log-loss of each point, (n_samples,), in nats; see `evaluate`."""
        return self.losses_and_ranks(X, labels)[0]

    def scores(self, X: Matrix) -> Floats:
        """Return the scores of the current iterate, (n_samples, n_classes), in the order of `classes_`."""
        return self._weights.scores(self._as_data(X), self._n_threads, self._scale)[:, self._position]

    def squared_norm(self) -> float:
        """Return ||W||^2 of the current iterate, without intercepts."""
        W: Any = self._weights.coef
        if isinstance(W, sp.csc_array):
            return float(np.sum(np.square(W.data, dtype=np.float64)))
        if self._scaling is not None:
            W = (W / self._scaling.scale).astype(np.float32)
        squares = np.einsum("kj,kj->k", W, W, dtype=np.float64)
        scale = self._scale.astype(np.float64)
        return float(squares @ np.square(scale) if len(scale) else squares.sum())

    def losses_and_ranks(self, X: Matrix, labels: Ids) -> tuple[Doubles, Ids]:
        """Return the exact log-loss of each point, and how many classes have larger scores than its own."""
        places = self._position[labels]
        return self._weights.log_losses(self._as_data(X), places, self._n_threads, self._scale, self._noise)

    def _as_data(self, X: Any) -> Matrix:
        """Return what a user gives, as the core takes it."""
        sparse: bool = sp.issparse(X)
        x: Matrix = canonical_csr(X) if sparse else np.ascontiguousarray(X, dtype=np.float32)
        return x if self._scaling is None else self._scaling.apply(x)


Callback = Callable[[TrainingState], bool | None]


def summarize(losses: Doubles, ranks: Ids, weights: Doubles | None = None) -> dict[str, float]:
    """Mean log-loss in nats, error and top-5 error, of weighted points where weights are given."""
    if weights is not None:  # a loss may be infinite, and does not count with weight 0
        counts = weights > 0
        losses, ranks, weights = losses[counts], ranks[counts], weights[counts]
    values: dict[str, Any] = {"log_loss": losses, "error": ranks > 0, "top5_error": ranks >= 5}
    return {name: float(np.average(of_points, weights=weights)) for name, of_points in values.items()}


@dataclass(frozen=True)
class Watch:
    """The user's callback, limits of time and of a model's bytes, points held out for early stopping.

    Training ends at `until`, by `time.perf_counter`.

    `heading` stands before the progress that is shown; `checkpoints` of this fit are written. A smaller step size may
    be tried (`may_retry`) only where nothing of these looks on, for a second training would not be what it sees.
    """

    callback: Callback | None = None
    until: float = np.inf
    max_bytes: float = np.inf
    validation: Validation | None = None
    heading: str = ""
    checkpoints: Checkpoints | None = None
    may_retry: bool = False

    @classmethod
    def of(cls, callback: Callback | None, max_seconds: float | None) -> Watch:
        """Return what `fit` was given; raise ValueError for a time below 0, TypeError for what is no function."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r:.60}; it must be a function of the state of a training")
        if max_seconds is None:
            return cls(callback, may_retry=callback is None)
        check_number("max_seconds", max_seconds, low=0)
        return cls(callback, time.perf_counter() + max_seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until training ends."""
        return max(0.0, self.until - time.perf_counter())

    def stage(self, plan: Plan | FullBatchPlan) -> Stage | None:
        """Return the checkpoints of the next training, which is made as the plan says."""
        return None if self.checkpoints is None else self.checkpoints.stage(replace(plan, n_threads=1, verbose=0))


ClosedForm = Literal["closed_form"]
CLOSED_FORM: ClosedForm = "closed_form"


@dataclass(frozen=True)
class First:
    """What a fit, and a training that begins, are given beside points and plan.

    Attributes
    ----------
    state : State or None
        The model of the last fit, with warm_start, of which a planner makes what follows.
    start : Weights, "closed_form" or None
        First weights, of features as they are before scaling; None: 0.
    heads : array-like of shape (n_rows, n_head), or None
        Certain labels of each row, for the sampler "head_tail"; for a training their places, of each point, int32.
    evaluated : pair of matrix and Labels, or None
        Rows that early stopping looks at, with their labels.
    held_out : ndarray of shape (n_points,), bool, or None
        Points that it holds out instead.
    n_iter_no_change : int
        Its patience.
    """

    state: State | None = None
    start: Weights | ClosedForm | None = None
    heads: Any = None
    evaluated: tuple[Matrix, Labels] | None = None
    held_out: NDArray[np.bool_] | None = None
    n_iter_no_change: int = 1


@dataclass(frozen=True)
class Signs:
    """By what a training shows that it diverges.

    Attributes
    ----------
    at_zero : float
        The running loss of W = 0. A model that ends well above it is worse than none, but one that goes on may meet
        what it holds improbable.
    n_drawn : int or None
        Classes that make a step, where a `Probe` is to look at the exact loss; None: none is to.
    noise : str
        The noise of random utilities.
    bounded : bool
        Whether a running loss of twice that of W = 0 shows divergence in a training that begins.
    minimised : bool
        Whether the exact loss is what training makes smaller, beside a `ridge`; then a rise of it is told.
    ridge : float
    begins_elsewhere : bool
        Whether a training that begins does so at other weights than 0, which may be worse.
    """

    at_zero: float
    n_drawn: int | None = None
    noise: str = "gumbel"
    bounded: bool = True
    minimised: bool = False
    ridge: float = 0.0
    begins_elsewhere: bool = False


class Probe:
    """Looks at the exact loss of some points.

    Parameters
    ----------
    points : Points
        The training points; the probe chooses some of them.
    signs : Signs
        A rise that is told is compared with the standard error of the points' own differences, by which all of the
        training points tell it exactly; others with that of the last mean.
    max_iter : int
        Passes of the training.

    Attributes
    ----------
    core : _core.Probe
        What it has seen, after which passes it looks, and by what a divergence shows.
    """

    def __init__(self, points: Points, signs: Signs, max_iter: int) -> None:
        shared: dict[str, Any] = {name: getattr(signs, name) for name in ("n_drawn", "at_zero", "minimised")}
        sizes: dict[str, Any] = {"n_points": len(points.labels), "n_classes": points.n_classes, "n_passes": max_iter}
        self.core = _core.Probe(**sizes, **shared, has_integrals=signs.noise != "gumbel")
        rows = np.sort(np.random.default_rng(0).choice(len(points.labels), self.core.n_points, replace=False))
        self.x, self.labels, self.ridge = points.x[rows], points.labels.of(rows), signs.ridge
        self._weights = NO_DOUBLES if points.weights is None else points.weights[rows]

    def look(self, state: TrainingState, n_iter: int) -> bool:
        """Note the loss after pass n_iter; return whether it is no number, so that training is to stop."""
        losses = self._losses(state)
        if self.ridge > 0:
            losses = losses + self.ridge / 2 * state.squared_norm()
        return self.core.look(n_iter, losses, self._weights)

    def _losses(self, state: TrainingState) -> Doubles:
        if len(self.labels.ids) == len(self.labels):
            return state.losses_and_ranks(self.x, self.labels.ids)[0]
        scores = np.ascontiguousarray(state.scores(self.x))
        if not np.all(np.isfinite(scores)):
            return np.full(len(self.labels), np.inf)
        return _core.losses(scores, self.labels.indptr, self.labels.ids, loss="cross_entropy")[0]


class CoreTraining(ABC):
    """Passes of a trainer of the core over points with labels, and what comes between them; `drive` makes them.

    Attributes
    ----------
    weights : Weights
        They are moved in place. Class k stands in place position[k] of them, and `scale` are factors of its rows.
    core : _core.Trainer
    batch : int
        Points that see the same weights.
    validation : Validation or None
        The points held out, whose best pass is what training leaves.
    """

    unit = "row"
    advice = ADVICE
    core: Any
    batch: int
    scale: Floats = NO_FLOATS
    validation: Validation | None = None

    def __init__(self, plan: Plan | FullBatchPlan, points: Points, weights: Weights, *, goes_on: bool) -> None:
        self.plan: Any = plan
        self.points, self.weights, self.goes_on = points, weights, goes_on
        self.n_visits = self.length = len(points.labels)
        self.position: Ids = np.arange(weights.n_classes, dtype=np.int32)
        self.loss, self._most = 0.0, math.inf
        self.fault: str | None = None
        self.curve: list[float] = []
        self.complete = True
        self._probe: Probe | None = None

    def train(self, watch: Watch, signs: Signs) -> None:
        """Make the passes of the plan.

        `curve` then has the running loss of each whole one, `complete` says whether nothing ended them, and `fault`
        how training diverged, if it did.

        Warns
        -----
        ConvergenceWarning
            If training was interrupted; the weights are those reached before.
        """
        plan, self.validation = self.plan, watch.validation
        model = (self.weights, self.scale, self.position, plan.n_threads)
        self.state = TrainingState(0, 0.0, np.nan, 0, *model, signs.noise)
        self._most = 2 * signs.at_zero if signs.bounded and not self.goes_on else math.inf
        if signs.n_drawn is not None:
            self._probe = Probe(self.points, signs, plan.max_iter)
            if self.goes_on or plan.max_iter == 0:
                self._probe.look(self.state, 0)
        if signs.begins_elsewhere:
            self._look_at_start(signs)
        limits: dict[str, Any] = {"max_iter": plan.max_iter, "max_seconds": watch.seconds_left}
        words: dict[str, Any] = {"verbose": bool(plan.verbose), "heading": watch.heading, "warns": False}
        passes = drive(self, self.state, watch.callback, **limits, **words, stage=watch.stage(plan))
        self.curve, self.complete = passes
        if self.validation is not None:
            self.leave(self.validation.take_best())

    def _look_at_start(self, signs: Signs) -> None:
        """Let no loss below that of first weights which are worse than W = 0 show divergence."""
        if self._probe is None:
            self._most = math.inf
            return
        self._probe.look(self.state, 0)
        at_start = self._probe.core.last()
        if at_start <= signs.at_zero:
            self._probe.core.looks = {}
        elif signs.bounded:
            self._most = 2 * at_start

    def best_look(self) -> tuple[float, int]:
        """Return the least exact loss that was seen, and after which pass; infinity where nothing looked."""
        return (math.inf, 0) if self._probe is None else self._probe.core.best()

    def last_look(self) -> float:
        """Return the exact loss that was seen last; minus infinity where nothing looked."""
        return -math.inf if self._probe is None else self._probe.core.last()

    # What differs from training to training

    def visit(self, *, epoch: int, **stretch: Any) -> _core.Progress:
        """Make some visits of a pass by the core."""
        progress: _core.Progress = self.core.run(epoch=epoch, **stretch)
        return progress

    def after_pass(self, n_iter: int) -> None:  # noqa: B027 - for some there is nothing to do
        """Do what comes between passes."""

    @abstractmethod
    def moved(self) -> Arrays:
        """Return the arrays that the passes move."""

    def model_arrays(self) -> Arrays:
        """Return the arrays of the model that training would leave now, of which validation keeps the best."""
        return self.moved()

    def held_out_loss(self, rows: ScoredRows) -> float:
        """Return the loss of points held out by the model that training would leave now."""
        assert self.validation is not None
        return held_out_loss(self.plan, self.weights, rows, is_scaled=self.validation.is_scaled)

    def leave(self, best: Arrays) -> None:
        """Leave the best model of early stopping."""
        arrays = self.model_arrays()
        for name, array in best.items():
            arrays[name][...] = array

    def as_model(self) -> TrainingState:
        """Return the state whose weights are those that training would leave now: the iterate, or an average."""
        return self.state

    def own_numbers(self) -> dict[str, Any]:
        """Return the numbers that this kind of training moves, as JSON has them."""
        return {}

    def restore_own(self, saved: Saved) -> None:
        """Take over arrays and own numbers from a checkpoint."""
        saved.fill(self.moved())

    def saved_model_arrays(self, saved: Saved) -> Arrays:
        """Return arrays that are shaped like those of the best model in a checkpoint."""
        return self.model_arrays()

    # As `Passes`

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make visits of a pass from `first` on."""
        eta, eta_u = self.plan.schedule.at(n_pass, -(-self.n_visits // self.batch))
        loss = self.loss if first > 0 else 0.0
        stretch = {"first": first, "last": self.n_visits, "loss": loss, "seconds": seconds}
        progress = self.visit(epoch=n_pass, eta=eta, eta_u=eta_u, **stretch)
        self.loss = progress.loss
        self.state.class_updates += progress.class_updates
        if progress.diverged_at >= 0:
            self.fault = f"the step at point {progress.diverged_at} in pass {n_pass + 1} was too large"
        return progress.visits, progress.visits

    def describe(self, last: int) -> str:
        """Return the running loss, for the progress bar."""
        return f"loss {self.loss / last:.4f}"

    def finish(self, n_pass: int) -> tuple[float, bool]:
        """End a whole pass; return its mean loss, and whether training is done."""
        self.after_pass(n_pass + 1)
        probe = self._probe
        done = probe is not None and n_pass + 1 in probe.core.passes and probe.look(self.state, n_pass + 1)
        mean = self.loss / self.n_visits
        if not math.isfinite(mean):
            self.fault = f"the mean loss of pass {n_pass + 1} is {mean}"
        elif self.validation is not None:
            done = self.validation.keep_if_best(self.held_out_loss(self.validation.rows), self.model_arrays()) or done
        return mean, done or self.fault is not None

    def verdict(self, last_loss: float) -> str | None:
        """Return how the running loss of the last pass, or the exact loss, shows divergence."""
        if not last_loss <= self._most:
            return f"the loss of the last pass, {last_loss:.4g}, is above that of W = 0"
        if self._probe is None:
            return None
        if self.state.n_iter not in self._probe.core.looks:
            self._probe.look(self.as_model(), self.state.n_iter)
        return self._probe.core.verdict()

    def arrays(self) -> Arrays:
        """Return what the passes move, and the best model so far."""
        return {**self.moved(), **({} if self.validation is None else self.validation.arrays())}

    def numbers(self) -> dict[str, Any]:
        """Return own numbers, the running loss, and what the probe and validation have seen."""
        looks = [] if self._probe is None else [(n, *look) for n, look in self._probe.core.looks.items()]
        updates = self.state.class_updates
        numbers = {"training": self.own_numbers(), "loss": self.loss, "class_updates": updates, "looks": looks}
        return numbers if self.validation is None else {**numbers, "validation": self.validation.numbers()}

    def restore(self, saved: Saved) -> None:
        """Take over arrays and numbers from a checkpoint."""
        numbers = saved.numbers
        if self.validation is not None:
            self.validation.restore(replace(saved, numbers=numbers["validation"]), self.saved_model_arrays(saved))
        self.restore_own(replace(saved, numbers=numbers["training"]))
        self.loss, self.state.class_updates = numbers["loss"], numbers["class_updates"]
        if self._probe is not None:
            self._probe.core.looks = {int(n): (mean, error) for n, mean, error in numbers["looks"]}


P = TypeVar("P", bound=Plan)
Training = TypeVar("Training", bound=CoreTraining)


class Trained(NamedTuple):
    """What a training has found.

    Attributes
    ----------
    weights : Weights
    curve : list of float
        The running loss of each whole pass, in nats where it has units.
    rate : float or None
        The step size that the model was trained by, where it is not that of the plan.
    squares : Squares
        Adagrad's sums; empty where there are none.
    members : sequence of mapping
        A line of the report for each member of a sum.
    complete : bool
        Whether nothing ended the training before its last pass, or in it.
    """

    weights: Weights
    curve: list[float]
    rate: float | None = None
    squares: Squares = Squares()
    members: Sequence[Mapping[str, Any]] = ()
    complete: bool = True


def trained(make: Callable[[P], Training], plan: P, watch: Watch, signs: Signs) -> tuple[Training, float | None]:
    """Make a training and, where it diverges and the watch lets it, another one by a tenth of its step size.

    Where the second one diverges, too, or ends above the best that was seen, the passes to the best look are made
    again, so that no copy of the weights has to be kept in all the trainings that do not diverge.

    Parameters
    ----------
    make : callable
        It begins a training by a plan.
    plan : Plan
    watch : Watch
    signs : Signs

    Returns
    -------
    training : CoreTraining
    rate : float or None
        Its step size, where it is not that of the plan.

    Warns
    -----
    ConvergenceWarning
        If training diverged; it says which model is returned, and what to do. If it was interrupted.
    """
    training = make(plan)
    training.train(watch, signs)
    if training.fault is None:
        return training, None
    begin, advice = f"training diverged: {training.fault}", training.advice
    if not watch.may_retry or watch.validation is not None or training.goes_on:
        warn_user(f"{begin}. {advice}")
        return training, None
    (best, n_best), rate = training.best_look(), plan.schedule.learning_rate
    most = best if signs.begins_elsewhere else min(best, signs.at_zero)
    smaller = plan.with_steps_over(FIGURES.SMALLER_STEP)
    with_smaller_step = f"With a step size of {smaller.schedule.learning_rate:.4g} instead of {rate:.4g}"
    del training  # the memory of its weights
    second = make(smaller)
    second.train(watch, signs)
    stopped = second.fault is None and len(second.curve) < plan.max_iter  # by Ctrl-C
    if second.fault is None and (stopped or second.last_look() <= most):
        ended = "it was interrupted" if stopped else "it ended well"
        warn_user(f"{begin}. {with_smaller_step} {ended}, and that is the model. {advice}")
        return second, smaller.schedule.learning_rate
    above = "it ended above the best of the first training, or above W = 0"
    ended = above if second.fault is None else f"it did, too: {second.fault}"
    first = make(replace(plan, max_iter=0))
    first.train(watch, signs)
    at_first = signs.at_zero if signs.n_drawn is None else first.best_look()[0]
    looks = [(at_first, 0, plan), (best, n_best, plan), (*second.best_look(), smaller)]
    for _, n_passes, by in sorted(looks, key=lambda look: look[0]):
        del second
        second = make(by.ended_after(n_passes))
        second.train(watch, replace(signs, n_drawn=None, bounded=False))
        if second.fault is None:
            break
    where = f"after pass {n_passes} with a step size of {by.schedule.learning_rate:.4g}" if n_passes else "at the start"
    warn_user(f"{begin}. {with_smaller_step} {ended}. The model is that {where}, the best that was seen. {advice}")
    return second, None if by is plan else by.schedule.learning_rate


def loss_at_zero(loss: str, points: Points) -> float:
    """Return the mean of a loss, or of a reduction of the log-loss, at W = 0, in nats where it has units."""
    weights = NO_DOUBLES if points.weights is None else points.weights
    return _core.loss_at_zero(loss, points.labels.indptr, points.n_classes, weights)


# Full passes: the zero line, L-BFGS in double precision over the exact gradient, to the optimum


class _Iterations(CoreTraining):
    """The core's iterations, each of which is a pass of one visit, and what is after each."""

    unit = "iteration"
    plan: FullBatchPlan

    def __init__(self, plan: FullBatchPlan, points: Points, start: Weights | None, n_labels: float) -> None:
        x = points.x
        weights = Weights.zeros(points.n_classes, x.shape[1], by_feature=isinstance(x, sp.csr_array))
        super().__init__(plan, points, weights, goes_on=False)
        self.n_labels, self.n_visits, self.length, self.can_move = n_labels, 1, 1, True
        objective: dict[str, Any] = {name: getattr(plan, name) for name in ("loss", "fit_intercept", "n_threads")}
        data = {"x": core_data(x if weights.sparse else np.ascontiguousarray(x)), "n_features": x.shape[1]}
        data |= {"labels": points.labels.ids, "n_classes": points.n_classes, "sample_weight": points.weights}
        self.core = _core.FullBatch(**data, **objective, alpha=plan.alpha / n_labels)
        if start is not None:
            weights.coef[:] = start.coef.toarray() if start.has_pairs else start.coef
            weights.intercept[:] = start.intercept
            self.core.read(weights.matrix, weights.intercept)

    def run(self, n_pass: int, first: int, seconds: float) -> tuple[int, int]:
        """Make an iteration; none where the gradient is small, or nothing lowers the objective."""
        self.can_move = self.core.iterate(self.plan.tol / self.n_labels)
        self.loss = self.n_labels * self.core.value
        self.state.class_updates += self.can_move * self.weights.n_classes
        return int(self.can_move), int(self.can_move)

    def describe(self, last: int) -> str:
        """Return the objective, for the progress bar."""
        return f"objective {self.loss:.6f}"

    def after_pass(self, n_iter: int) -> None:
        """Round the iterate into the weights."""
        self.core.write(self.weights.matrix, self.weights.intercept)

    def held_out_loss(self, rows: ScoredRows) -> float:
        """Return the mean log-loss of points held out, in nats."""
        losses, _ = self.weights.log_losses(rows.x, rows.labels.ids, rows.n_threads)
        return float(np.average(losses, weights=rows.weights))

    def model_arrays(self) -> Arrays:
        """Return the rounded iterate."""
        return {"": self.weights.matrix, "intercept": self.weights.intercept}

    def moved(self) -> Arrays:
        """Return the iterate; what L-BFGS remembers of its steps is left to it."""
        return {"theta": self.core.theta}


def fit_full_batch(
    plan: FullBatchPlan, points: Points, watch: Watch, start: Weights | None = None, n_labels: float = 1
) -> Trained:
    """Minimise the mean loss + alpha/2 ||W||^2 by L-BFGS; the intercepts are not penalised.

    1. W begins at 0 or at a start.
    2. An iteration takes a direction from the last steps and gradients (Nocedal & Wright, Numerical Optimization, 2006,
       Algorithm 7.4), and goes along it as far as a line search says.
    3. After an iteration points held out say when to stop, and which iterate is returned.
    4. The model is the last iterate or the best one, rounded to float32; its curve has the objective after each.

    Parameters
    ----------
    plan : FullBatchPlan
    points : Points
    watch : Watch
    start : Weights, optional
        Where to begin; W = 0 by default.
    n_labels : float
        Mean number of labels of a row where there is a point for each label of a row (`data.one_a_label`): the
        loss is then the sum over the labels of a row, and its mean over rows that many times the one over points.

    Warns
    -----
    ConvergenceWarning
        If the gradient is still larger than `tol` at the end: after `max_iter` iterations, when an interrupt came or
        the seconds were over, or where rounding lets the objective fall no further.
    """
    training = _Iterations(plan, points, start, n_labels)  # 1
    training.train(watch, Signs(np.inf, bounded=False))  # 2, 3
    largest = n_labels * training.core.largest_slope
    if largest > plan.tol and (training.complete or not training.can_move):
        message = f"the largest entry of the gradient is {largest:.3g}, more than tol={plan.tol:g}"
        ended, advice = "can lower the objective no further in double precision", ""
        if training.can_move:
            ended = f"made max_iter={plan.max_iter} iterations"
            advice = ". Raise max_iter, or set model=models.Linear(scaling='standard')"
        warn_user(f"L-BFGS {ended}; {message}{advice}")
    if training.validation is None or not training.validation.best_iter:  # 4
        training.after_pass(0)
    return Trained(training.weights, training.curve)
