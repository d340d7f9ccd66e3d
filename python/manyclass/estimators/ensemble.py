"""Fits of several models made into one: the mean of runs that differ by their seed, calibrated on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from manyclass.checks import check_number, n_threads_from
from manyclass.estimators import auto
from manyclass.estimators.base import Points
from manyclass.estimators.calibration import calibrated, check_calibration, n_held_out, rows_to_hold_out
from manyclass.model.weights import Data, Doubles
from manyclass.training.interrupts import was_interrupted
from manyclass.training.passes import warn_user
from manyclass.training.plan import Watch
from manyclass.training.squares import HybridSquares
from manyclass.training.validation import fork

FRACTION = 0.1  # of the rows, which calibration holds out, of estimators without validation_fraction
# The model is fitted again, on all rows, where calibration has held out more than this share of them: a tenth of the
# rows is worth 0.02 to 0.04 nats on bibtex, delicious and eurlex57k, and fits of so few rows are short; T is that of
# the first fit, which is as good for the second one (bench/notes/calibration.md).
MOST_WITHOUT = 0.03

# What trials have found, which a run that is told its outcome does not make.
OF_TRIALS = ("resolved_params_", "auto_report_", "alpha_path_", "learning_rate_table_")

Fit = Callable[[Any, Points, Watch], Any]  # makes a run of an estimator on points


def check_composed(model: Any) -> None:
    """Raise ValueError or TypeError for a `calibration` or `n_models` that there is not."""
    check_calibration(model.calibration)
    if getattr(model, "warm_start", False) and is_composed(model):
        raise ValueError("warm_start is True, which begins one run; with n_models or calibration leave it False")
    if not _leaves_open(model):
        check_number("n_models", model.n_models, low=1, integer=True)


def _leaves_open(model: Any) -> bool:
    """Whether the number of runs of a SoftmaxClassifier is left to its first one."""
    return bool(isinstance(model.n_models, str) and model.n_models == "auto" and hasattr(model, "_auto_runs"))


def is_composed(model: Any) -> bool:
    """Whether what is set asks for more than one run."""
    return bool(not (_leaves_open(model) or model.n_models == 1) or model.calibration is not None)


def fit_composed(model: Any, points: Points, watch: Watch, fit: Fit, *, noise: str = "gumbel") -> Any:
    """Fit an estimator as its `n_models` and `calibration` say.

    Parameters
    ----------
    model : estimator
        It takes over what was fitted once all is, and is returned.
    points, watch : Points and Watch
        Seconds are those of all runs together, in equal parts; a callback that stops a run, or Ctrl-C, ends the fit
        with the runs so far.
    fit : callable
        Makes one run.
    noise : str
        Of the utilities.
    """
    if model.calibration is None:
        return taken_over(model, _Runs(model, watch, fit, 1).mean(points))
    n_classes, several = len(points.classes), points.several
    n_rows = n_held_out(len(points.labels), n_classes, getattr(model, "validation_fraction", FRACTION))
    held = rows_to_hold_out(points.labels, n_rows, fork(model.random_state))
    again = bool(held.mean() > MOST_WITHOUT)
    runs = _Runs(model, watch, fit, 1 + again)
    some, kept = points.some(np.flatnonzero(held)), points.some(np.flatnonzero(~held))
    member = runs.mean(kept)
    found = calibrated(
        member._weights,
        some.x,
        some.labels,
        some.weights,
        n_threads_from(model.n_jobs),
        several=several,
        noise=noise,
    )
    if again and not runs.ended:
        member, kept = runs.mean(points, member), points
    if not several:
        member._weights.multiply_scores(1 / found.temperature)
    member._take(kept, member._weights, member.loss_curve_.tolist(), calibration_=found)
    return taken_over(model, member)


def add_runs(model: Any, points: Points, watch: Watch, fit: Fit) -> None:
    """Put the mean of a model, just fitted by one run, and of those that n_models="auto" adds in its place.

    Parameters
    ----------
    model, points, watch, fit : as in `fit_composed`
        None is added with a limit of seconds, or where the first one was ended; nor is this for one that began warm.
    """
    if _leaves_open(model):
        _Runs(model, watch, fit, 1).add_to(model, points)


def uncalibrated_confidence(model: Any, X: Data, labels: ArrayLike) -> Doubles:
    """Return the probability that a label of each row would have without the calibration of a model of one label a row.

    Parameters
    ----------
    model : fitted classifier
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    labels : array-like of shape (n_samples,)

    Returns
    -------
    ndarray of shape (n_samples,), float64
    """
    x, calibration = model._validated(X), model.calibration_
    factor = 1.0 if calibration is None else calibration.temperature
    losses, _ = model._log_losses(x, model._labels_of(labels, x), factor)
    confidence: Doubles = np.exp(-losses)
    return confidence


class _Runs:
    """Runs of an estimator: their seeds, and the time that they share."""

    def __init__(self, model: Any, watch: Watch, fit: Fit, n_rounds: int) -> None:
        self._model, self._watch, self._fit = model, watch, fit
        self._open = _leaves_open(model)
        self._asked = 1 if self._open else model.n_models
        self._begin, self._left = time.perf_counter(), n_rounds * self._asked
        self.ended = False
        most = max(self._asked, auto.MOST_RUNS) - 1
        self._others = fork(model.random_state).randint(0, np.iinfo(np.int32).max, size=most).tolist()

    def mean(self, points: Points, as_in: Any = None) -> Any:
        """Return an estimator whose scores are the mean of those of the runs; the first one in all else.

        What the first run has chosen is not chosen again, nor what `as_in`, the mean of other runs, has: T is that of
        these choices.
        """
        first = self._run(0, getattr(as_in, "resolved_params_", {}), points, self._asked)
        if as_in is not None:
            vars(first).update({name: value for name, value in vars(as_in).items() if name in OF_TRIALS})
        self.add_to(first, points)
        return first

    def add_to(self, first: Any, points: Points) -> None:
        """Make the runs that are still to be made, and put the mean in the place of the first one."""
        chosen = getattr(first, "resolved_params_", {})
        n_models = self._runs_after(first) if self._open else self._asked
        weights, curves = first._weights, [first.loss_curve_]
        for n in range(1, n_models):
            if self.ended:
                break
            if n == 1:
                _check_seeds_matter(first, n_models)
            try:
                other = self._run(n, chosen, points, n_models)
            except KeyboardInterrupt:
                warn_user("training was interrupted; the model is the mean of the runs so far")
                break
            weights, curves = weights.add_to_mean(other._weights, n), [*curves, other.loss_curve_]
        if len(curves) > 1:
            more = _to_go_on(first, weights) if self._open else {}
            first._take(points, weights, _mean_curve(curves).tolist(), **more)
        if self._open and len(curves) > 1:
            first.resolved_params_ = {**chosen, "n_models": len(curves)}

    def _runs_after(self, first: Any) -> int:
        """What n_models="auto" stands for."""
        ended = first.n_iter_ < first.resolved_params_.get("max_iter", first.max_iter)
        if ended or np.isfinite(self._watch.max_seconds) or self._model.dim != "auto":
            return 1
        return int(first.resolved_params_.get("n_models", first._auto_runs))

    def _run(self, number: int, chosen: dict[str, Any], points: Points, n_models: int = 1) -> Any:
        seed = self._others[number - 1] if number else self._model.random_state
        own = {**chosen, "n_models": 1, "calibration": None, "random_state": seed}
        member = clone(self._model).set_params(**own)
        if not member.get_params(deep=False).get("early_stopping", True):
            member.set_params(validation_fraction=FRACTION)  # it is that of calibration, and has no effect on a run
        passed = time.perf_counter() - self._begin
        seconds = max(0.0, self._watch.max_seconds - passed) / max(1, self._left)
        self._left -= 1
        heading = f"model {number + 1}/{n_models}, " if n_models > 1 else ""
        watch = replace(self._watch, max_seconds=seconds, heading=heading)
        if watch.callback is not None:
            watch = replace(watch, callback=self._called)
        if was_interrupted(lambda: self._fit(member, points, watch)):
            warn_user("training was interrupted; the model is the one reached so far")
            self.ended = True
        return member

    def _called(self, state: Any) -> bool:
        assert self._watch.callback is not None
        self.ended = bool(self._watch.callback(state))
        return self.ended


def _check_seeds_matter(first: Any, n_models: int) -> None:
    solver = getattr(first, "resolved_params_", {}).get("solver", first.solver)
    if getattr(solver, "name", solver) == "lbfgs":
        raise ValueError(
            f"n_models is {n_models}, which has no effect with solver='lbfgs', whose optimum does not depend on the "
            'seed ("auto" takes it for few data); leave it 1, or name another solver'
        )


def _mean_curve(curves: list[Doubles]) -> Doubles:
    """The mean loss of each pass; a run that has ended counts by its last one."""
    n = max(map(len, curves))
    full = [np.concatenate([curve, np.repeat(curve[-1:], n - len(curve))]) for curve in curves if len(curve)]
    mean: Doubles = np.mean(full, axis=0) if full else np.zeros(0)
    return mean


def _to_go_on(first: Any, mean: Any) -> dict[str, Any]:
    """What a mean of models that goes on has of the first one."""
    squares = first._squares
    if isinstance(squares, HybridSquares):
        squares = squares.of_more_pairs(first._weights.postings, mean.postings)
    return {"_history": first._history, "_squares": squares}


def _fitted(member: Any) -> dict[str, Any]:
    """All that a fit has left."""
    return {name: value for name, value in vars(member).items() if name not in member.get_params(deep=False)}


def taken_over(model: Any, member: Any) -> Any:
    """Give an estimator all that another one of its kind has fitted, and return it."""
    fitted = _fitted(member)
    model.__dict__.update(fitted)
    if "feature_names_in_" not in fitted:
        model.__dict__.pop("feature_names_in_", None)
    return model
