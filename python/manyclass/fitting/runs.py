"""Several fits that make one model: the mean of runs with different seeds, calibrated on held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_number, n_threads_from, outer_level
from manyclass.choosing.figures import FIGURES
from manyclass.parts import Parameters, part_name
from manyclass.training.blend import loss_without_counts_of
from manyclass.training.calibration import Calibration, calibrated, check_calibration, n_held_out, rows_to_hold_out
from manyclass.training.class_texts import ClassScales, ClassTexts
from manyclass.training.core_training import Shared, Watch
from manyclass.training.passes import fork, warn_user, was_interrupted
from manyclass.training.state import History, Points, State
from manyclass.weights.arrays import Doubles
from manyclass.weights.weights import Weights

FRACTION = 0.1  # of the rows, which calibration and early stopping hold out, of estimators without validation_fraction
# The model is fitted again, on all rows, where calibration has held out more than this share of them: a tenth of the
# rows is worth 0.02 to 0.04 nats on bibtex, delicious and eurlex57k, and fits of so few rows are short; T is that of
# the first fit, which is as good for the second one (bench/decisions.md).
MOST_WITHOUT = 0.03
MOST_FOR_TEXTS = 256  # rows that are held out for texts of classes, or this share

Run = Callable[[Parameters, Points, Watch], State]  # makes one run, by parameters that ask for no more


def check_composed(parameters: Parameters) -> None:
    """Raise ValueError or TypeError for values that `calibration` and `n_models` cannot have."""
    check_calibration(parameters["calibration"])
    if parameters["warm_start"] and is_composed(parameters):
        raise ValueError("warm_start is True, which begins one run; with n_models or calibration leave it False")
    if not _leaves_open(parameters):
        check_number("n_models", parameters["n_models"], low=1, integer=True)


def _leaves_open(parameters: Parameters) -> bool:
    """Whether the number of runs is left to the first one, where a class has that choice."""
    return parameters.is_auto("n_models") and parameters.default("n_models") == "auto"


def is_composed(parameters: Parameters) -> bool:
    """Whether what is set asks for more than one run."""
    several = not (_leaves_open(parameters) or parameters["n_models"] == 1)
    return bool(several or parameters["calibration"] is not None)


def parameters_of_fit(parameters: Parameters, watch: Watch, points: Points, **named: ArrayLike | None) -> Parameters:
    """Return the parameters of a fit, with the seed of its checkpoints where there are some.

    Parameters
    ----------
    parameters : Parameters
    watch : Watch
        Its checkpoints, where there are some, are told the data of the fit.
    points : Points
    **named : array-like or None
        The other arguments of `fit` that its result depends on.
    """
    if watch.checkpoints is None:
        return parameters
    data = {
        "X": points.x,
        "y": np.concatenate([points.labels.indptr, points.labels.ids]),
        "classes": points.classes,
        "sample_weight": points.weights,
        "limit of seconds": bool(np.isfinite(watch.max_seconds)),  # with one, "auto" tries less
        **{name: None if given is None else np.asarray(given) for name, given in named.items()},
    }
    return watch.checkpoints.seeded(parameters, data)


def fit_runs(
    parameters: Parameters,
    points: Points,
    watch: Watch,
    run: Run,
    *,
    noise: str = "gumbel",
    warm: bool = False,
) -> tuple[State, Points]:
    """Fit as `n_models` and `calibration` say.

    Parameters
    ----------
    parameters : Parameters
    points, watch : Points and Watch
        The runs share the limit of seconds in equal parts; a callback that stops a run, or Ctrl-C, ends the fit with
        the runs so far. n_models="auto" adds none with a limit of seconds, or where the first one was ended.
    run : callable
        Makes one run.
    noise : str
        The distribution of the noise of utilities, "gumbel" for a softmax.
    warm : bool
        Whether the run begins at the weights of the last fit; then it is the only one.

    Returns
    -------
    state : State
    points : Points
        The points that it was trained on.
    """
    if points.n_texts:
        return _with_texts(parameters, points, watch, run, noise)
    many = len(points.labels) >= FIGURES.ROWS_TO_SHARE
    if many and not points.several and not parameters.get("early_stopping", False):
        watch = replace(watch, shared=Shared())
    if not is_composed(parameters):
        state = run(parameters, points, watch)
        if not warm and _leaves_open(parameters):
            state = _Runs(parameters, watch, run, 1).added_to(state, points)
        return state, points
    if parameters["calibration"] is None:
        return _Runs(parameters, watch, run, 1).mean(points), points
    n_rows = n_held_out(len(points.labels), points.n_classes, parameters.get("validation_fraction", FRACTION))
    held = rows_to_hold_out(points.labels, n_rows, fork(parameters["random_state"]))
    again = bool(held.mean() > MOST_WITHOUT)
    runs = _Runs(parameters, watch, run, 1 + again)
    some, kept = points.some(np.flatnonzero(held)), points.some(np.flatnonzero(~held))
    state = runs.mean(kept)
    found = _calibration(parameters, state, some, noise)
    if again and not runs.ended:
        state, kept = runs.mean(points, state), points
    return _calibrated(state, kept, found), kept


def _calibration(parameters: Parameters, state: State, some: Points, noise: str) -> Calibration:
    """Return the calibration of a state by points that it was not trained on."""
    how: dict[str, Any] = {"several": some.several, "noise": noise}
    return calibrated(state.weights, some.x, some.labels, some.weights, n_threads_from(parameters["n_jobs"]), **how)


def _calibrated(state: State, points: Points, found: Calibration) -> State:
    if not points.several:
        state.weights.multiply_scores(1 / found.temperature)
    return replace(_final(state, points), calibration=found)


def _with_texts(parameters: Parameters, points: Points, watch: Watch, run: Run, noise: str) -> tuple[State, Points]:
    """Fit to rows and to texts of classes, the last of the points; see `help(manyclass.training.class_texts)`."""
    texts, n_threads = ClassTexts.of(points), n_threads_from(parameters["n_jobs"])
    rows = points.some(np.arange(len(points.labels) - points.n_texts))
    if not texts.share_features(rows):
        own = replace(points.some(np.flatnonzero(texts.of_unseen(points))), n_texts=0)
        state, own = fit_runs(parameters, own, watch, run, noise=noise)
        told = "no text of class_text has a feature that a row has, so that texts tell nothing of rows"
        warnings.warn(f"{told}: the model is as without them", UserWarning, stacklevel=outer_level())
        return state.with_report(rules={**state.fit_report.rules, "class_text": told}), own
    n_rows, calibrates = len(rows.labels), parameters["calibration"] is not None
    n_held = n_held_out(n_rows, points.n_classes, parameters.get("validation_fraction", FRACTION))
    if not calibrates:  # so few that the model need not be fitted again, if they are enough for three numbers
        n_held = min(n_held, max(MOST_FOR_TEXTS, int(MOST_WITHOUT * n_rows)))
    held = rows_to_hold_out(rows.labels, n_held, fork(parameters["random_state"]))
    again, some = bool(held.mean() > MOST_WITHOUT), rows.some(np.flatnonzero(held))
    ways = [np.ones(len(points.labels), dtype=bool), texts.of_unseen(points)]
    if ways[1].all():
        ways = ways[1:]
    runs = _Runs(parameters, watch, run, len(ways) + again)
    best: tuple[ClassScales, State, NDArray[np.bool_]] | None = None
    for way in ways:
        kept = way.copy()
        kept[:n_rows] = ~held
        state = runs.mean(points.some(np.flatnonzero(kept)), None if best is None else best[1])
        scales = texts.scales(state, some, n_threads)
        if best is None or scales.loss < best[0].loss:
            best = scales, state, way
        if runs.ended:
            break
    assert best is not None
    scales, state, way = best
    told = (
        scales.description if way.all() else scales.description + "; only those of classes without rows are rows, too"
    )
    state = state.with_report(rules={**state.fit_report.rules, "class_text": told})
    found = None
    trained = points.some(np.flatnonzero(way & np.append(~held, np.ones(points.n_texts, dtype=bool))))
    if again and not runs.ended:
        if calibrates:
            found = _calibration(parameters, scales.added_to(state, texts), some, noise)
        trained = points.some(np.flatnonzero(way))
        state = runs.mean(trained, state)
    state = scales.added_to(state, texts)
    if calibrates and found is None:
        found = _calibration(parameters, state, some, noise)
    return _final(state, trained) if found is None else _calibrated(state, trained, found), trained


def _final(state: State, points: Points) -> State:
    """Return a state without what only further training needs."""
    history = History.of_fit(len(points.labels), n_labels=points.labels.mean)
    return replace(state, history=history, squares=None)


class _Runs:
    """Runs of a fit: their seeds, and the time that they share."""

    def __init__(self, parameters: Parameters, watch: Watch, run: Run, n_rounds: int) -> None:
        self._parameters, self._watch, self._make = parameters, watch, run
        self._open = _leaves_open(parameters)
        self._asked = 1 if self._open else parameters["n_models"]
        self._begin, self._left = time.perf_counter(), n_rounds * self._asked
        self.ended = False
        most = max(self._asked, FIGURES.MOST_RUNS) - 1
        self._others = fork(parameters["random_state"]).randint(0, np.iinfo(np.int32).max, size=most).tolist()

    def mean(self, points: Points, as_in: State | None = None) -> State:
        """Return a state whose scores are the mean of those of the runs; the first one in all else.

        What the first run has chosen is not chosen again, nor what `as_in`, the mean of other runs, has: T is that of
        these choices.
        """
        if self._watch.shared is not None:
            self._watch = replace(self._watch, shared=Shared())  # by other points
        first = self._run(0, {} if as_in is None else as_in.fit_report.params, points, self._asked)
        if as_in is not None:
            was = as_in.fit_report
            known = {"params": was.params, "rules": was.rules, "report": was.report}
            first = first.with_report(**known, alpha_path=was.alpha_path, rates=was.rates)
        return self.added_to(first, points)

    def added_to(self, first: State, points: Points) -> State:
        """Make the runs that are still to be made, and return the mean in the place of the first one."""
        chosen = first.fit_report.params
        n_models = self._runs_after(first) if self._open else self._asked
        weights, curves, losses = first.weights, [first.curve], list[float]()
        for n in range(1, n_models):
            if self.ended or (n > 1 and self._open and _gains_little(losses, n)):
                break
            losses += self._loss(weights, points, 1) if n == 1 and n_models > 2 else []
            if n == 1:
                self._check_seeds_matter(chosen, n_models)
            try:
                other = self._run(n, chosen, points, n_models)
            except KeyboardInterrupt:
                warn_user("training was interrupted; the model is the mean of the runs so far")
                break
            weights = weights.add_to_mean(other.weights, n)
            curves.append(other.curve)
            losses += self._loss(weights, points, n + 1) if losses and n + 1 < n_models else []
        if len(curves) == 1:
            return first
        state = replace(first, weights=weights, curve=_mean_curve(curves))
        if not self._open:
            return _final(state, points)
        squares = first.squares
        if squares is not None and weights.has_pairs:
            squares = squares.of_more_pairs(first.weights, weights)
        return replace(state, squares=squares).with_report(params={**chosen, "n_models": len(curves)})

    def _loss(self, weights: Weights, points: Points, n_runs: int) -> list[float]:
        """The log-loss of a mean of runs on the rows that all have left out, in nats; nothing where there are none."""
        shared = self._watch.shared
        if (
            not self._open
            or shared is None
            or shared.pairs is None
            or shared.held_out is None
            or not shared.held_out.any()
        ):
            return []
        out, n_threads = points.some(np.flatnonzero(shared.held_out)), n_threads_from(self._parameters["n_jobs"])
        if shared.added_by_held_out:
            weights = replace(weights, values=weights.values - sum(shared.added_by_held_out) / np.float32(n_runs))
        return [loss_without_counts_of(weights, out.x, out.labels, n_threads, out.weights)]

    def _runs_after(self, first: State) -> int:
        """What n_models="auto" stands for."""
        told, parameters = first.fit_report, self._parameters
        ended = len(first.curve) < told.params.get("max_iter", parameters["max_iter"])
        if ended or np.isfinite(self._watch.max_seconds) or not parameters.is_auto("dim"):
            return 1
        return int(told.params.get("n_models", told.n_runs))

    def _run(self, number: int, chosen: Mapping[str, Any], points: Points, n_models: int) -> State:
        seed = self._others[number - 1] if number else self._parameters["random_state"]
        own = self._parameters.changed(**{**chosen, "n_models": 1, "calibration": None, "random_state": seed})
        if "validation_fraction" in own and not own["early_stopping"]:
            own = own.changed(validation_fraction=FRACTION)  # it is that of calibration, and has no effect on a run
        passed = time.perf_counter() - self._begin
        seconds = max(0.0, self._watch.max_seconds - passed) / max(1, self._left)
        self._left -= 1
        heading = f"model {number + 1}/{n_models}, " if n_models > 1 else ""
        watch = replace(self._watch, max_seconds=seconds, heading=heading)
        if watch.callback is not None:
            watch = replace(watch, callback=self._called)
        made: list[State] = []
        if was_interrupted(lambda: made.append(self._make(own, points, watch))):
            warn_user("training was interrupted; the model is the one reached so far")
            self.ended = True
        return made[0]

    def _called(self, state: Any) -> bool:
        assert self._watch.callback is not None
        self.ended = bool(self._watch.callback(state))
        return self.ended

    def _check_seeds_matter(self, chosen: Mapping[str, Any], n_models: int) -> None:
        solver = chosen.get("solver", self._parameters["solver"])
        if part_name(solver) == "lbfgs":
            raise ValueError(
                f"n_models is {n_models}, which has no effect with solver='lbfgs', whose optimum does not depend on "
                'the seed ("auto" takes it for few data); leave it 1, or name another solver'
            )


def _gains_little(losses: list[float], n: int) -> bool:
    """Whether another run after n ones is worth little, by the losses of the first one and of the mean of two.

    The variance of runs adds V / n to the loss of the mean of n: the second one gains V / 2, and run n + 1
    V / n - V / (n + 1).
    """
    return len(losses) > 1 and 2 * (losses[0] - losses[1]) / (n * (n + 1)) < FIGURES.LEAST_GAIN_OF_RUN


def _mean_curve(curves: list[Doubles]) -> Doubles:
    """The mean loss of each pass; a run that has ended counts by its last one."""
    n = max(map(len, curves))
    full = [np.concatenate([curve, np.repeat(curve[-1:], n - len(curve))]) for curve in curves if len(curve)]
    mean: Doubles = np.mean(full, axis=0) if full else np.zeros(0)
    return mean
