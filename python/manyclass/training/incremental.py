"""What a call that trains on begins at, and what it is told beside its plan: passes, step sizes, rows that fade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.labels import find_positions
from manyclass.training.forgetting import left_of_old_rows
from manyclass.training.plan import MINIBATCH_IMPLICIT, MINIBATCH_POINTS, Plan, PointsPlan, Schedule
from manyclass.training.seen import Carried
from manyclass.training.squares import Squares
from manyclass.training.state import History, Points, Starts, State
from manyclass.weights.arrays import NO_DOUBLES, Doubles
from manyclass.weights.weights import Weights


@dataclass(frozen=True)
class KeptRows:
    """What the rows of one part of a stream carry; `numbers` are their places among all rows of the stream."""

    kept: _core.CarriedRows
    numbers: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64] | None) -> Carried:
        """Return what these of the rows of the part carry; empty arrays where one is visited for the first time."""
        found = self.kept.of(self.numbers if rows is None else self.numbers[rows])
        return Carried(*[*found, NO_DOUBLES, NO_DOUBLES][:2])

    def put(self, rows: NDArray[np.int64] | None, carried: Carried) -> None:
        """Keep what they carry after a visit."""
        numbers = self.numbers if rows is None else self.numbers[rows]
        for which, values in enumerate((carried.u, carried.local_scale)):
            if len(values):
                self.kept.put(numbers, which, values)


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
    of_fit : int or None
        The pass, from 0, of a `fit` from a stream, of which the rows are a part; its step size is that of this pass. In
        later passes than the first the rows were counted before.
    n_visits : int
        Rows visited in such a fit so far.
    kept : KeptRows or None
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
    of_fit: int | None = None
    n_visits: int = 0
    kept: KeptRows | None = None
    shared: bool = False
    open_passes: bool = False
    n_kept: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is set that says how the rows are to be trained on, or that old ones are to fade."""
        alone = self.of_fit is None and not self.whole and not self.shared
        given = self.learning_rate, self.half_life, self.new_classes
        return alone and self.open_passes and given == (None, None, None)

    def may_fall(self, parameters: Mapping[str, Any]) -> bool:
        """Whether steps may fall by curvature: the call is no part of a fit, and nobody has set a step size."""
        free = parameters["learning_rate"] == "auto" and self.learning_rate is None
        return free and self.of_fit is None and not self.whole and not self.shared

    @property
    def counted(self) -> bool:
        """Whether the rows were seen, and counted, in an earlier pass."""
        return self.of_fit is not None and self.of_fit > 0


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
        See `Seen`. The first pass of a `fit` from a stream does not, and what its rows carry is kept.
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
        """What a state is for a call of so many points of these classes; None: there is no model."""
        goes_on = call.of_fit is None or (state is not None and state.history.n_fit > 0)
        if state is None:
            return cls(None, np.zeros(0, dtype=np.intp), np.zeros(len(classes)), goes_on=goes_on)
        position = find_positions(state.classes, classes, "y").astype(np.intp)
        if call.whole:  # the rows of a fit are all that counts
            none = np.zeros(len(classes))
            weights = state.weights.with_faded_counts(0)
            return cls(weights, position, none, state.history, state.squares, goes_on=goes_on)
        left = left_of_old_rows(n_points, call.half_life)
        counts = np.zeros(len(classes))
        counts[position] = left * state.counts
        squares = state.squares if call.half_life is None or state.squares is None else state.squares.times(left)
        history = state.history.faded(left)
        n_visits = call.n_visits if call.counted else history.n_points
        weights = state.weights.with_faded_counts(left)
        return cls(weights, position, counts, history, squares, n_visits, call.counted, goes_on)

    def after(self, points: Points, weights: Weights, squares: Squares | None) -> Before:
        """Return what comes before the next points of the same call."""
        n_rows = len(points.labels)
        return replace(
            self,
            weights=weights,
            position=np.arange(points.n_classes),
            counts=self.counts_after(points),
            history=self.history.gone_on(n_rows, self.history.scaling, points.labels.mean),
            squares=squares,
            n_visits=self.n_visits + n_rows,
        )

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
        raise ValueError(
            "schedule is 'adaptive', whose steps are on the sum over all rows, which a stream does not know; with "
            "partial_fit choose another"
        )
    if schedule.name == "inverse" and schedule.decay_every is not None:
        raise ValueError(
            f"decay_every is {schedule.decay_every}, which counts the batches of one fit; leave it None with "
            "partial_fit"
        )
    if call.of_fit is not None:
        rate, u_rate = schedule.at(call.of_fit)
        return {"max_iter": 1, "schedule": Schedule("exponential", rate, u_rate, 1.0)}
    first, last = schedule.at(0), schedule.at(plan.max_iter)
    if history.n_fit == 0:
        last = first
    else:
        new = 1.0 if from_top else min(1.0, n_points / max(1.0, history.n_counting))
        first = schedule.at(round(plan.max_iter * (1 - new)))
    if call.learning_rate is not None:
        of_u = first[1] / first[0] if first[0] > 0 else 1.0
        first = last = (call.learning_rate, of_u * call.learning_rate)
    factor, decay = _core.steps_between(first[0], last[0], call.n_passes)
    return {
        "max_iter": call.n_passes,
        "schedule": Schedule("exponential", first[0] * factor, first[1] * factor, decay),
    }


def falling(plan: PointsPlan, n_classes: int, before: Doubles, now: Doubles) -> Schedule:
    """The step sizes of a call that fall by curvature where the core's do not: alike for all weights of a pass.

    `before` and `now` are sums of squares of features, see `Squares`. A step for a batch is the mean of those of its
    points, so that its size is as many times that of one.
    """
    schedule = plan.schedule
    of_batch = plan.batch_size or (MINIBATCH_POINTS if plan.solver == MINIBATCH_IMPLICIT else 1)
    per_sum = schedule.learning_rate / (_core.curvature_gain * of_batch * n_classes)
    factor, decay = _core.steps_by_sums(before, now, per_sum, plan.max_iter)
    return Schedule("exponential", schedule.learning_rate * factor, schedule.u_learning_rate * factor, decay)
