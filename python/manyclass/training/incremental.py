"""What a call that trains on begins at, and what it is told beside its plan: passes, step sizes, rows that fade.

With half_life=h a row counts half when h further rows have come: a call with n rows multiplies the weight of all rows
before it by f = 2^(-n/h), its own rows counting 1. What is followed is the optimum of the exponentially weighted
log-loss, the sum over rows of 2^(-age/h) times their losses. Of that a step by rows can do four things:

- `class_count_`, from which come draws by frequency and the intercepts of new classes, fades by f in each call.
- Where steps fall by curvature, what they go by fades by f: steps are those of a model that has seen h / log 2 rows.
- Where a step size was set, it does not fall below that which remembers for h rows. Near an optimum a step of size s
  shrinks the error of an intercept by 1 - s c, c being its curvature, p_k (1 - p_k), whose mean over classes is g/K
  with g = E[1 - sum_k p_k^2]: half is left after h rows where s = K log(2) / (g h). On features of variance 1 weights
  forget as intercepts do; on rare ones more slowly, as they meet fewer rows. g is that of the model's predictions for
  some rows of the call; the step size never exceeds the first one of `fit`. It is that of linear models of one label a
  row, which are trained point by point; for other noises than Gumbel's, g is that of the softmax of the same scores.
- Adagrad's sums of squared gradients fade by f, too.

A `learning_rate` that is given is used as it is. Without half_life nothing fades (bench/decisions.md).

new_features="grow" takes an X with more columns than the model has seen, behind those of before. Their weights and
embeddings begin at 0, so that growth changes no prediction; weights on pairs come with the rows that have them. Where
training scales features, new ones get the scale that all sparse ones share, or are measured on the rows of the call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import Scales
from manyclass.checks import as_csr
from manyclass.figures import FIGURES
from manyclass.labels import find_positions
from manyclass.training.core_training import Trained, Watch
from manyclass.training.minibatches import (
    begin_on_pairs,
    beside,
    counted,
    features_of_classes,
    fit_batches,
    fit_pairs,
    grow_pairs,
    grow_rows,
    mixed,
    most_held_out,
    start_at_rows,
    turned,
)
from manyclass.training.plan import BatchesPlan, HybridPlan, Labels, PairsPlan, Plan, PointsPlan, Schedule
from manyclass.training.points import fit_points
from manyclass.training.state import EarlierModel, History, LocalState, Points, Squares, Starts, State, set_new_rows
from manyclass.weights.arrays import NO_DOUBLES, Doubles, Matrix, Mixture
from manyclass.weights.weights import FeatureScaling, Weights

SMALLEST_RATE = 1e-300  # what is left of the step size of a stream whose weights shrink and shrink


def mean_curvatures(weights: Weights, x: Matrix, n_threads: int) -> Doubles:
    """The means of p_k (1 - p_k) over some rows, (n_classes,), p being the probabilities of the softmax."""
    rows = np.unique(np.linspace(0, x.shape[0] - 1, min(x.shape[0], FIGURES.CURVATURE_ROWS)).astype(np.int64))
    return weights.mean_curvatures(x[rows], n_threads)


def step_that_remembers(half_life: float, n_classes: int, g: float) -> float:
    """The step size that halves what an intercept holds of old rows in `half_life` visits, at impurity g."""
    return n_classes * math.log(2) / (max(g, 1e-3) * half_life)  # a model so sure of all rows moves little anyway


@dataclass(frozen=True)
class KeptRows:
    """What the rows of one part of a stream carry; `numbers` are their places among all rows of the stream."""

    carried: _core.CarriedRows
    numbers: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64] | None) -> LocalState:
        """Return what these of the rows of the part carry; empty arrays where one is visited for the first time."""
        values = self.carried.of(self.numbers if rows is None else self.numbers[rows])
        return LocalState(*[*values, NO_DOUBLES, NO_DOUBLES][:2])

    def put(self, rows: NDArray[np.int64] | None, local_state: LocalState) -> None:
        """Keep what they carry after a visit."""
        numbers = self.numbers if rows is None else self.numbers[rows]
        for which, values in enumerate((local_state.u, local_state.local_scale)):
            if len(values):
                self.carried.put(numbers, which, values)


@dataclass(frozen=True)
class Call:
    """What a training that goes on is told beside its plan.

    Attributes
    ----------
    n_passes : int
        Passes over its rows.
    learning_rate : float or None
        A step size instead of that of the schedule, which goes on.
    half_life : float or None
        Rows after which an old one counts half; None: never.
    new_classes : mapping or None
        What new classes begin at, by label.
    whole : bool
        Whether all passes of the plan are made: a fit that begins at the weights that are there.
    fit_pass : int or None
        The pass, from 0, of a `fit` from a stream, of which the rows are a part; its step size is that of this pass. In
        later passes than the first the rows were counted before.
    n_visits : int
        Rows visited in such a fit so far.
    kept_rows : KeptRows or None
        What the rows carry from pass to pass of it.
    shared : bool
        Whether the rows are those of one worker of several.
    open_passes : bool
        Whether the number of passes is left to the model.
    n_kept : int or None
        Rows of a stream that may be kept, to be fitted to anew; None: as many as the planner lets.
    """

    n_passes: int = 1
    learning_rate: float | None = None
    half_life: float | None = None
    new_classes: Starts | None = None
    whole: bool = False
    fit_pass: int | None = None
    n_visits: int = 0
    kept_rows: KeptRows | None = None
    shared: bool = False
    open_passes: bool = False
    n_kept: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is set that says how the rows are to be trained on, or that old ones are to fade."""
        alone = self.fit_pass is None and not self.whole and not self.shared
        settings = self.learning_rate, self.half_life, self.new_classes
        return alone and self.open_passes and settings == (None, None, None)

    def may_fall(self, parameters: Mapping[str, Any]) -> bool:
        """Whether steps may fall by curvature: the call is no part of a fit, and nobody has set a step size."""
        free = parameters["learning_rate"] == "auto" and self.learning_rate is None
        return free and self.fit_pass is None and not self.whole and not self.shared

    @property
    def counted(self) -> bool:
        """Whether the rows were seen, and counted, in an earlier pass."""
        return self.fit_pass is not None and self.fit_pass > 0


@dataclass(frozen=True)
class Before:
    """A state as it is for the rows of a call: among all classes of the call, old rows having faded.

    Attributes
    ----------
    weights : Weights or None
        Of the model's own classes; None: there is no model.
    position : ndarray of shape (n_classes_before,)
        Where these classes stand among all of the call.
    counts : ndarray of shape (n_classes,)
        Rows of each class.
    history : History
    squares : Squares or None
        Of the model's own classes.
    n_visits : int
        Visits of rows so far, by which draws are named.
    counted : bool
        Whether `counts` has the rows of the call already.
    goes_on : bool
        See `EarlierModel`. The first pass of a `fit` from a stream does not, and what its rows carry is kept.
    """

    weights: Weights | None
    position: NDArray[np.intp]
    counts: Doubles
    history: History = field(default_factory=History)
    squares: Squares | None = None
    n_visits: int = 0
    counted: bool = False
    goes_on: bool = False

    @classmethod
    def of(cls, state: State | None, classes: NDArray[Any], n_points: int, call: Call) -> Before:
        """What a state is for a call with this number of points of these classes; None: there is no model."""
        goes_on = call.fit_pass is None or (state is not None and state.history.n_fit > 0)
        if state is None:
            return cls(None, np.zeros(0, dtype=np.intp), np.zeros(len(classes)), goes_on=goes_on)
        position = find_positions(state.classes, classes, "y").astype(np.intp)
        if call.whole:  # the rows of a fit are all that counts
            none = np.zeros(len(classes))
            weights = state.weights.with_faded_counts(0)
            return cls(weights, position, none, state.history, state.squares, goes_on=goes_on)
        share_left = 1.0 if call.half_life is None else 2.0 ** (-n_points / call.half_life)
        counts = np.zeros(len(classes))
        counts[position] = share_left * state.counts
        squares = state.squares if call.half_life is None or state.squares is None else state.squares.times(share_left)
        history = replace(state.history, n_counting=state.history.n_counting * share_left)
        n_visits = call.n_visits if call.counted else history.n_points
        weights = state.weights.with_faded_counts(share_left)
        return cls(weights, position, counts, history, squares, n_visits, call.counted, goes_on)

    def after(self, points: Points, weights: Weights, squares: Squares | None) -> Before:
        """Return what comes before the next points of the same call."""
        n_rows, position = len(points.labels), np.arange(points.n_classes)
        history = self.history.gone_on(n_rows, self.history.scaling, points.labels.mean)
        seen: dict[str, Any] = {"counts": self.counts_after(points), "n_visits": self.n_visits + n_rows}
        return replace(self, weights=weights, position=position, history=history, squares=squares, **seen)

    def counts_after(self, points: Points) -> Doubles:
        """Rows of each class, those of a call's points included."""
        if self.counted:
            return self.counts
        counts: Doubles = self.counts + np.bincount(points.labels.ids, minlength=len(self.counts))
        return counts

    def counts_with(self, points: Points) -> Doubles:
        """The same, but 1 for a class that only `classes` names: such a class is drawn like one with a row."""
        return np.maximum(self.counts_after(points), 1.0)


def passes_of_call(
    plan: Plan, history: History, call: Call, n_points: int, *, from_top: bool = False
) -> dict[str, Any]:
    """The fields of a plan that say how many passes a call makes, and with what step sizes; of a whole fit none.

    After a fit a call begins with the step size to which the schedule is wound back or, `from_top`, with its first one.
    """
    if call.whole:
        return {}
    schedule = plan.schedule
    if isinstance(plan, PointsPlan) and plan.by_curvature:
        return {"max_iter": call.n_passes, "schedule": replace(schedule, name="constant")}
    if schedule.name == "adaptive":
        raise ValueError("schedule is 'adaptive', whose steps go by the sum over all rows; choose another")
    if schedule.name == "inverse" and schedule.decay_every is not None:
        raise ValueError(f"decay_every is {schedule.decay_every}, which counts the batches of one fit; leave it None")
    if call.fit_pass is not None:
        rate, u_rate = schedule.at(call.fit_pass)
        return {"max_iter": 1, "schedule": Schedule("exponential", rate, u_rate, 1.0)}
    first, last = schedule.at(0), schedule.at(plan.max_iter)
    if history.n_fit == 0:
        last = first
    else:
        new = 1.0 if from_top else min(1.0, n_points / max(1.0, history.n_counting))
        first = schedule.at(round(plan.max_iter * (1 - new)))
    if call.learning_rate is not None:
        u_ratio = first[1] / first[0] if first[0] > 0 else 1.0
        first = last = (call.learning_rate, u_ratio * call.learning_rate)
    factor, decay = _core.steps_between(first[0], last[0], call.n_passes)
    return {"max_iter": call.n_passes, "schedule": Schedule("exponential", first[0] * factor, first[1] * factor, decay)}


def ends_of_stretches(n_rows: int, n_classes: int, n_before: float) -> list[int]:
    """Return after which rows of a call of one pass weights may shrink: none where as many rows came before.

    So one call over more rows than came before is trained in stretches, and ends where ten or a thousand calls do.
    """
    ends: list[int] = []
    end = n_rows
    while n_classes <= FIGURES.MOST_TO_SHRINK:
        end = int(end - n_before) // 2
        if end < max(FIGURES.FEWEST_TO_SHRINK, FIGURES.FIRST_STRETCH * n_rows):
            break
        ends.insert(0, end)
    return ends


def shrink(
    weights: Weights, points: Points, plan: PointsPlan, before: Before, squares: Squares
) -> tuple[Squares, float]:
    """Multiply the weights, in place, by the factor that new points ask for, once there are enough that were looked at.

    The first steps of a stream have a prior variance that nobody knows. Where it is too large, as for labels that are
    hardly predictable, scores are too sure of themselves at first, and later steps are too small to mend it. Before a
    call goes on, the log-loss of some of its rows is therefore compared with that of the weights times factors below 1,
    the intercepts staying as they are. What calls have told is added up until their rows are a tenth of those before,
    and at least 64 were looked at. Where a factor is then better by more than twice the standard error, the weights are
    multiplied by the best one, and the prior variance by its square.

    Returns the squares with what is yet to be decided, and the factor, 1 where none is asked for. Points of new classes
    are left out, of which the weights can know nothing.
    """
    n_before = before.history.n_counting
    if not n_before > 0 or points.n_classes > FIGURES.MOST_TO_SHRINK:
        return squares, 1.0
    share = len(points.labels) / (FIGURES.SHARE_TO_SHRINK * n_before)
    fewest, most = FIGURES.FEWEST_TO_SHRINK, FIGURES.MOST_ROWS_TO_SHRINK
    most = min(most, max(fewest, FIGURES.SCORES_TO_SHRINK // points.n_classes))
    rows = np.flatnonzero(before.counts[points.labels.ids] > 0)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), math.ceil(most * min(1.0, share)))).astype(np.int64)]
    shrinking = np.concatenate([[share, len(rows)], *_gains(weights, points, rows, plan.n_threads)])
    shrinking += squares.shrinking if len(squares.shrinking) else 0
    share, n = shrinking[:2]
    if share < 1 or n < fewest:
        return replace(squares, shrinking=shrinking), 1.0
    sums, squares_of_gains = shrinking[2:].reshape(2, -1)
    factor = _core.best_shrinking(sums, squares_of_gains, Squares.factors, n)
    if factor != 1:
        weights.matrix[:] *= np.float32(factor)
    return replace(squares, shrinking=NO_DOUBLES), factor


def _gains(weights: Weights, points: Points, rows: NDArray[np.int64], n_threads: int) -> tuple[Doubles, Doubles]:
    """Return by how much each factor makes the log-losses of points smaller, summed, and the sums of its squares."""
    if not len(rows):
        return np.zeros(len(Squares.factors)), np.zeros(len(Squares.factors))
    scores = np.concatenate([z for _, z in weights.score_tiles(points.x[rows], n_threads)])
    intercept = np.ascontiguousarray(weights.intercept)
    return _core.shrinking_gains(scores, intercept, points.labels.ids[rows], Squares.factors)


# Linear models of one label a row that go on


def weights_of_call(
    plan: PointsPlan,
    weights: Weights,
    classes: NDArray[Any],
    before: Before,
    counts: Doubles,
    scaling: FeatureScaling | None,
    starts: Starts | None = None,
) -> Weights:
    """What a call begins at: a copy of weights, where there was a model, with new classes, of scaled features."""
    if before.weights is not None:
        weights = weights.grown(len(classes), before.position)
    set_new_rows(weights, classes, before.position, starts)
    if scaling is not None:
        scaling.unfold(weights)
    if plan.fit_intercept and before.weights is not None:
        _core.set_new_intercepts(before.position, before.counts, counts, weights.intercept)
    return weights


def _squares_of_call(plan: PointsPlan, weights: Weights, points: Points, features: Doubles, before: Before) -> Squares:
    """What steps by curvature go by when a call begins, taken from its own rows where the model does not know it.

    There are no curvatures where training does not take those of its points.
    """
    squares = before.squares
    if squares is None or not len(squares.features):
        squares = Squares(features=features * (before.history.n_counting / max(1.0, float(features[-1]))))
    squares = squares.grown(points.n_classes, before.position)
    if not plan.each_by_curvature:
        return replace(squares, curvatures=NO_DOUBLES)
    if not len(squares.curvatures):
        n_rows = float(squares.features[-1])
        zeros = np.zeros(points.n_classes)
        curvatures = n_rows * mean_curvatures(weights, points.x, plan.n_threads) if n_rows > 0 else zeros
        squares = replace(squares, curvatures=curvatures)
    return squares


def go_on_by_points(
    plan: PointsPlan, points: Points, before: Before, call: Call, scaling: FeatureScaling | None
) -> Trained:
    """Train on a call's rows at once or, where weights may shrink, on some stretches of them one after the other."""
    n_rows, n_classes, ends = len(points.labels), points.n_classes, list[int]()
    if plan.each_by_curvature and plan.utility is None and call.n_passes == 1:
        ends = ends_of_stretches(n_rows, n_classes, before.history.n_counting)
    if not ends:
        return _points_go_on(plan, points, before, call, scaling)
    order = np.arange(n_rows)
    if plan.shuffle:  # rows may be sorted
        np.random.default_rng(plan.seed).shuffle(order)
    stretches, losses = [points.some(rows) for rows in np.split(order, ends)], list[float]()
    trained = _points_go_on(plan, stretches[0], before, call, scaling)
    for last, stretch in pairwise(stretches):
        if not trained.curve:
            break
        losses += trained.curve
        before = before.after(last, trained.weights, trained.squares)
        assert trained.rate is not None
        plan = replace(plan, schedule=replace(plan.schedule, learning_rate=trained.rate))
        trained = _points_go_on(plan, stretch, before, call, scaling)
    losses += trained.curve
    if len(losses) < len(stretches):  # Ctrl-C has ended it
        return trained
    loss = float(np.average(losses, weights=[len(stretch.labels) for stretch in stretches]))
    return Trained(trained.weights, [loss], trained.rate, trained.squares)


def _points_go_on(
    plan: PointsPlan, points: Points, before: Before, call: Call, scaling: FeatureScaling | None
) -> Trained:
    n_classes = points.n_classes
    counts = before.counts_with(points)
    is_sparse = isinstance(points.x, sp.csr_array)
    weights = before.weights or Weights.zeros(n_classes, points.x.shape[1], by_feature=is_sparse)
    weights = weights_of_call(plan, weights, points.classes, before, counts, scaling, call.new_classes)
    local_state = None if call.kept_rows is None else call.kept_rows.of(points.rows)
    features = points.feature_squares
    squares = _squares_of_call(plan, weights, points, features, before)
    by_weight = plan.each_by_curvature
    rate: float | None = None
    if plan.by_curvature and plan.utility is None:
        squares, factor = shrink(weights, points, plan, before, squares)
        rate = max(plan.schedule.learning_rate * factor**2, SMALLEST_RATE)
        plan = replace(plan, schedule=replace(plan.schedule, learning_rate=rate))
    kept = squares if by_weight else None
    earlier = EarlierModel(weights, counts, before.n_visits, before.goes_on, kept, features, local_state)
    passes = passes_of_call(plan, before.history, call, len(points.labels))
    half_life = None if plan.by_curvature or call.learning_rate is not None else call.half_life
    if half_life is not None and before.weights is not None:
        g = float(mean_curvatures(weights, points.x, plan.n_threads).sum())
        least = step_that_remembers(half_life * call.n_passes, n_classes, g)
        passes["schedule"] = passes["schedule"].kept_above(min(least, plan.schedule.at(0)[0]), call.n_passes)
    plan = replace(plan, averaging="none", **passes)
    if plan.by_curvature and not by_weight:
        plan = replace(plan, schedule=plan.falling(n_classes, squares.features, features))
    trained = fit_points(plan, points, Watch(), earlier=earlier)
    if scaling is not None:
        scaling.fold(trained.weights)
    if call.kept_rows is not None and local_state is not None:
        call.kept_rows.put(points.rows, local_state)
    if not before.counted:
        squares = replace(squares, features=squares.features + plan.max_iter * features)
    return Trained(trained.weights, trained.curve, rate, squares)


# Weights on pairs, rows over phi, and both beside each other

# Rows of a call that it has not yet been trained on tell the scales that join the two terms of a sum, or the one scale
# that makes probabilities of scores that margins have trained.

NO_LOG_ODDS = ("margin", "triplet")  # losses whose intercepts do not follow from counts

Term = PairsPlan | BatchesPlan
Pair = tuple[float, float]


class Terms:
    """A call that trains the terms of a sum: weights on pairs, rows over phi, or both in this order.

    Each term is trained alone, as it was before: its scores must be on their own scale, for a loss of one part would
    undo the scale that it has in the sum. The scales are those of a fit or, of a stream without one, found by the rows
    of each call before it is trained on them.
    """

    def __init__(self, plan: Term | HybridPlan, points: Points, before: Before, call: Call, watch: Watch) -> None:
        self.plan, self.points, self.before, self.call, self.watch = plan, points, before, call, watch
        self.is_sum, self.most_held_out = isinstance(plan, HybridPlan), most_held_out(plan)
        terms: list[Any] = [plan.pairs, plan.embeddings[0]] if isinstance(plan, HybridPlan) else [plan]
        self.on_pairs = isinstance(terms[0], PairsPlan)
        # A step size that is given is that of the pairs where there are both.
        for n, (term, call_of_term) in enumerate(zip(terms, (call, replace(call, learning_rate=None)), strict=False)):
            n_rows = len(points.labels)
            passes = passes_of_call(term, before.history, call_of_term, n_rows, from_top=self.on_pairs)
            terms[n] = replace(term, **passes)
        if self.is_sum and before.history.n_fit == 0:
            terms[-1] = replace(terms[-1], finds_scale=True)
        self.plans: list[Term] = terms

    def go_on(self) -> Trained:
        """Train on a model."""
        plan, points, before = self.plan, self.points, self.before
        assert before.weights is not None
        weights, squares, scales = self._grown(points, before)
        mixture = before.weights.mixture
        if self.most_held_out and before.history.n_fit == 0:
            known = _known_rows(points, before)
            squares, scales = self._learn_scales(weights, squares, known)
            mixture = self._learn_mixture(weights, scales, mixture, known)
        curve = self._train(points, weights, squares, before, scales)
        weights.multiply_parts(scales)
        weights = replace(weights, mixture=mixture) if before.counted else counted(weights, points, mixture)
        if len(weights.own) and isinstance(plan, HybridPlan):
            class_features = features_of_classes(plan, points)
            if class_features is not None:
                weights = replace(weights, own=blend.own_classes(class_features, weights.n_features))
        return Trained(weights, curve, squares=squares)

    def begin(self) -> Trained:
        """Begin a stream: its first call trains on some rows, finds the scales by the others, and trains on these."""
        points, before, first_plan = self.points, self.before, self.plans[0]
        if isinstance(first_plan, PairsPlan) and first_plan.prune > 0:
            raise ValueError(f"prune is {first_plan.prune!r}; a stream has no end at which to prune: set it to 0")
        tell = blend.rows_that_tell(len(points.labels), first_plan.seed, self.most_held_out, points.groups)
        first, rest = (points.some(np.flatnonzero(which)) for which in (~tell, tell)) if tell.any() else (points, None)
        weights, squares = beside([_started(plan, first) for plan in self.plans])
        if not self.on_pairs:
            set_new_rows(weights, points.classes, before.position, self.call.new_classes)
        curve = self._train(first, weights, squares, before)
        if not self.most_held_out:
            return Trained(weights, curve, squares=squares)
        squares, scales = self._learn_scales(weights, squares, rest)
        weights.multiply_parts(scales)
        if rest is None:
            return Trained(weights, curve, squares=squares)
        weights = mixed(self.plan, weights, points, first, rest, least=True)
        mixture, n_visits = weights.mixture, before.n_visits + len(first.labels)
        there = np.arange(points.n_classes)
        after = replace(before, weights=weights, position=there, squares=squares, n_visits=n_visits)
        weights, squares, scales = self._grown(rest, after)
        more = self._train(rest, weights, squares, after, scales)
        weights.multiply_parts(scales)
        weights = counted(weights, rest, mixture)
        share = len(rest.labels) / len(points.labels)
        curve = [(1 - share) * a + share * b for a, b in zip(curve, more, strict=False)]
        return Trained(weights, curve, squares=squares)

    def _train(
        self, points: Points, weights: Weights, squares: Squares, before: Before, scales: Pair = (1.0, 1.0)
    ) -> list[float]:
        """Move weights and squares in place; return the curve of the first term.

        A term whose scale is 0 has no scores to go on from, and stays out.
        """
        curves, counts = list[list[float]](), before.counts_with(self.points)
        plans = [plan for plan in self.plans if scales[isinstance(plan, BatchesPlan)] != 0]
        if len(plans) > 1:
            points = replace(points, x=as_csr(points.x))
        for plan in plans:
            on_pairs = isinstance(plan, PairsPlan)
            alone = weights.pairs_alone if on_pairs else weights.rows_alone
            fit: Any = fit_pairs if on_pairs else fit_batches
            earlier = EarlierModel(alone, counts, before.n_visits, before.goes_on, squares)
            curves.append(fit(plan, points, self.watch, earlier).curve)
            if len(curves[-1]) < plan.max_iter:
                break
        return curves[0] if curves else []

    def _learn_scales(self, weights: Weights, squares: Squares, points: Points | None) -> tuple[Squares, Pair]:
        """Return the scales for points not yet trained on, each term on its own scale, and keep what they go by."""
        known = Scales(squares.scales, squares.precisions) if len(squares.scales) else Scales.unknown(self.is_sum)
        if points is not None and len(points.labels):
            points = points.spread(self.most_held_out)
            known = known.faded(self.before.history.n_counting, len(points.labels))
            known = known.learnt(weights, points.scored(self.plan.n_threads))
        return replace(squares, scales=known.means, precisions=known.precisions), known.of_parts

    def _learn_mixture(self, weights: Weights, scales: Pair, mixture: Mixture, points: Points) -> Mixture:
        """Return the mixture after points not trained on: means of the shares before and of the best ones for them."""
        if not (len(weights.counts) or len(weights.own)) or not len(points.labels):
            return mixture
        points = points.spread(self.most_held_out)
        weights.multiply_parts(scales)
        mixtures = blend.label_mixtures(weights, weights.own, points.scored(self.plan.n_threads))
        _to_own_scale(weights)
        n = len(points.labels)
        share_of_new = n / (n + min(FIGURES.MOST_REMEMBERED, FIGURES.REMEMBERED * self.before.history.n_counting))
        kept: dict[str, Any] = {name: getattr(mixture, name) for name in ("shrinkage", "counts_own", "power", "rate")}
        numbers, _, _ = mixtures.best_shares(has_own=len(weights.own) > 0, **kept)
        share, repeats = numbers["share"], numbers["repeats"]
        if len(weights.counts):
            share = max(FIGURES.LEAST_FACTOR, mixture.share + share_of_new * (share - mixture.share))
        return replace(mixture, share=share, repeats=mixture.repeats + share_of_new * (repeats - mixture.repeats))

    def _grown(self, points: Points, before: Before) -> tuple[Weights, Squares, Pair]:
        """Return a copy of the weights, each term on the scale that it was trained on, its squares, and the scales."""
        assert before.weights is not None
        model, squares, position, counts = before.weights, before.squares, before.position, before.counts_with(points)
        terms = []
        for plan in self.plans:
            if isinstance(plan, PairsPlan):
                grown = grow_pairs(plan, model.pairs_alone, squares, position, points)
                if model.mixture.both:
                    grown = grow_pairs(plan, *grown, np.arange(points.n_classes), turned(points, grown[0].own))
            elif self.is_sum:
                grown = grow_rows(plan, model.rows_alone, squares, position, points.n_classes)
            else:
                grown = rows_of_call(plan, before, points.classes, counts, self.call.new_classes)
            terms.append((grown[0].writable(), grown[1]))
        weights, squares = beside(terms)
        has_scale = isinstance(self.plans[-1], BatchesPlan) or self.plans[0].finds_scale
        scales = _to_own_scale(weights) if has_scale else (1.0, 1.0)
        if self.on_pairs:
            for plan, (alone, _) in zip(self.plans, terms, strict=True):
                _set_new_intercepts(plan, alone, before, counts)
        return weights, squares, scales


def _known_rows(points: Points, before: Before) -> Points:
    """Return the points whose labels the model has: others tell nothing of the scale of its scores."""
    if len(before.position) == points.n_classes:
        return points
    return points.some(np.flatnonzero(points.labels.known_from(Labels.single(before.position.astype(np.int32)))))


def _started(plan: Term, points: Points) -> tuple[Weights, Squares]:
    """Return what a term of a stream begins with."""
    if isinstance(plan, PairsPlan):
        return begin_on_pairs(plan, points.as_of_fit)
    rows = start_at_rows(plan, points)
    return rows, Squares.of_rows(rows, plan.adagrad)


def _to_own_scale(weights: Weights) -> Pair:
    """Take out, in place, what scores were multiplied by since they were trained; return it."""
    first, second = map(float, weights.scales[:2])
    weights.multiply_parts((1 / (first or 1.0), 1 / (second or 1.0)))
    weights.scales[:] = 1
    return first, second


def rows_of_call(
    plan: BatchesPlan, before: Before, classes: NDArray[Any], counts: Doubles, starts: Starts | None = None
) -> tuple[Weights, Squares]:
    """Return what a call begins at where there were rows over phi: a copy, with new classes, and its squares."""
    assert before.weights is not None
    weights, squares = grow_rows(plan, before.weights, before.squares, before.position, len(classes))
    _set_new_intercepts(plan, weights, before, counts)
    set_new_rows(weights, classes, before.position, starts)
    return weights, squares


def _set_new_intercepts(plan: Term, weights: Weights, before: Before, counts: Doubles) -> None:
    if plan.fit_intercept and plan.loss not in NO_LOG_ODDS:
        intercept = np.ascontiguousarray(weights.intercept)  # beside embeddings it is a column
        _core.set_new_intercepts(before.position, before.counts, counts, intercept)
        weights.intercept[:] = intercept
