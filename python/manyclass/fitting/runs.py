"""Several fits that make one model: the mean of runs with different seeds, calibrated on held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.blending.calibration import Calibration, calibrated, n_held_out, rows_to_hold_out
from manyclass.blending.class_texts import ClassScales, ClassTexts
from manyclass.checks import n_threads_from, outer_level
from manyclass.figures import FIGURES
from manyclass.fitting.planner import Beginning, Planner, is_composed, leaves_runs_open
from manyclass.parts import Parameters, part_name
from manyclass.training.core_training import Watch
from manyclass.training.passes import fork, interruption_of, warn_user
from manyclass.training.state import History, Points, State
from manyclass.weights.arrays import Doubles

Mask = NDArray[np.bool_]


def parameters_of_fit(parameters: Parameters, watch: Watch, points: Points, **beside: ArrayLike | None) -> Parameters:
    """Return the parameters of a fit, with the seed of its checkpoints where there are some.

    Parameters
    ----------
    parameters : Parameters
    watch : Watch
        Its checkpoints, where there are some, are told the data of the fit.
    points : Points
    **beside : array-like or None
        The other arguments of `fit` that its result depends on.
    """
    if watch.checkpoints is None:
        return parameters
    data = {
        "X": points.x,
        "y": np.concatenate([points.labels.indptr, points.labels.ids]),
        "classes": points.classes,
        "sample_weight": points.weights,
        **({} if points.groups is None else {"groups": points.groups}),
        "limit of seconds": bool(np.isfinite(watch.max_seconds)),  # with one, "auto" tries less
        **{name: None if argument is None else np.asarray(argument) for name, argument in beside.items()},
    }
    return watch.checkpoints.seeded(parameters, data)


def refit(planner: Planner, points: Points) -> State:
    """Return a fit to points without any argument, and without progress."""
    watch = Watch(may_retry=True)
    return planner.labelled(*fit_runs(planner.changed(verbose=0), points.as_of_fit, watch))


def fit_runs(
    planner: Planner,
    points: Points,
    watch: Watch,
    beginning: Beginning = Beginning(),  # noqa: B008 - frozen
) -> tuple[State, Points]:
    """Fit as `n_models` and `calibration` say.

    Parameters
    ----------
    planner : Planner
    points : Points
    watch : Watch
        The runs share the limit of seconds in equal parts; a callback that stops a run, or Ctrl-C, ends the fit with
        the runs so far.
    beginning : Beginning
        A run that begins at the model of the last fit is the only one.

    Returns
    -------
    state : State
    points : Points
        The points that it was trained on.
    """
    if points.n_texts:
        return _fit_with_texts(planner, points, watch, beginning)
    parameters = planner.parameters
    if not is_composed(parameters):
        return planner.run(points, watch, beginning), points
    if parameters["calibration"] is None:
        return _Runs(planner, watch, beginning, 1).mean(points), points
    out = _rows_out(parameters, points)
    again = bool(out.mean() > FIGURES.MOST_WITHOUT)
    runs = _Runs(planner, watch, beginning, 1 + again)
    rows_out, trained = points.some(np.flatnonzero(out)), points.some(np.flatnonzero(~out))
    state = runs.mean(trained)
    calibration = _calibration(parameters, state, rows_out)
    if again and not runs.ended:
        state, trained = runs.mean(points, state), points
    return _calibrated(state, trained, calibration), trained


def _rows_out(parameters: Parameters, points: Points, most: int | None = None) -> Mask:
    """Draw which rows calibration holds out, at most `most`."""
    n_out = n_held_out(len(points.labels), points.n_classes, parameters.get("validation_fraction", FIGURES.VALIDATION))
    n_out = n_out if most is None else min(n_out, most)
    return rows_to_hold_out(points.labels, n_out, fork(parameters["random_state"]), points.groups)


def _calibration(parameters: Parameters, state: State, rows_out: Points) -> Calibration:
    """Return the calibration of a state by points that it was not trained on."""
    noise, n_threads = parameters.get("noise", "gumbel"), n_threads_from(parameters["n_jobs"])
    data = (rows_out.x, rows_out.labels, rows_out.weights)
    return calibrated(state.weights, *data, n_threads, several=rows_out.several, noise=noise)


def _calibrated(state: State, points: Points, calibration: Calibration) -> State:
    if not points.several:
        state.weights.multiply_scores(1 / calibration.temperature)
    return replace(_final(state, points), calibration=calibration)


def _final(state: State, points: Points) -> State:
    """Return a state without what only further training needs."""
    history = History.of_fit(len(points.labels), n_labels=points.labels.mean)
    return replace(state, history=history, squares=None)


# Texts of classes


def _fit_with_texts(planner: Planner, points: Points, watch: Watch, beginning: Beginning) -> tuple[State, Points]:
    """Fit to rows and to texts of classes, the last of the points; see `help(manyclass.blending.class_texts)`."""
    texts, parameters = ClassTexts.of(points), planner.parameters
    n_rows, calibrates = len(points.labels) - points.n_texts, parameters["calibration"] is not None
    rows = points.some(np.arange(n_rows))
    if not texts.share_features(rows):
        return _fit_without_texts(planner, points, texts, watch, beginning)
    # Without calibration so few that the model need not be fitted again, if they are enough for three numbers.
    out = _rows_out(
        parameters, rows, None if calibrates else max(FIGURES.MOST_FOR_TEXTS, int(FIGURES.MOST_WITHOUT * n_rows))
    )
    again, rows_out = bool(out.mean() > FIGURES.MOST_WITHOUT), rows.some(np.flatnonzero(out))
    masks = [np.ones(len(points.labels), dtype=bool), texts.of_unseen(points)]
    masks = masks[1:] if masks[1].all() else masks
    runs = _Runs(planner, watch, beginning, len(masks) + again)
    scales, state, mask = _best_mask(runs, texts, masks, points, out, rows_out)
    how = (
        scales.description if mask.all() else scales.description + "; only those of classes without rows are rows, too"
    )
    state = state.with_report(rules={**state.fit_report.rules, "class_text": how})
    calibration = None
    trained = points.some(np.flatnonzero(mask & np.append(~out, np.ones(points.n_texts, dtype=bool))))
    if again and not runs.ended:
        if calibrates:
            calibration = _calibration(parameters, scales.added_to(state, texts), rows_out)
        trained = points.some(np.flatnonzero(mask))
        state = runs.mean(trained, state)
    state = scales.added_to(state, texts)
    if calibrates and calibration is None:
        calibration = _calibration(parameters, state, rows_out)
    return _final(state, trained) if calibration is None else _calibrated(state, trained, calibration), trained


def _fit_without_texts(
    planner: Planner, points: Points, texts: ClassTexts, watch: Watch, beginning: Beginning
) -> tuple[State, Points]:
    """Fit to rows, and to the texts of classes without rows, where texts tell nothing of rows."""
    trained = replace(points.some(np.flatnonzero(texts.of_unseen(points))), n_texts=0)
    state, trained = fit_runs(planner, trained, watch, beginning)
    why = "no text of class_text has a feature that a row has, so that texts tell nothing of rows"
    warnings.warn(f"{why}: the model is as without them", UserWarning, stacklevel=outer_level())
    return state.with_report(rules={**state.fit_report.rules, "class_text": why}), trained


def _best_mask(
    runs: _Runs, texts: ClassTexts, masks: list[Mask], points: Points, out: Mask, rows_out: Points
) -> tuple[ClassScales, State, Mask]:
    """Train on the points of each mask but those held out; return the best by these, its scales of texts first."""
    best: tuple[ClassScales, State, Mask] | None = None
    for mask in masks:
        trained = mask.copy()
        trained[: len(out)] = ~out
        state = runs.mean(points.some(np.flatnonzero(trained)), None if best is None else best[1])
        scales = texts.scales(state, rows_out, runs.n_threads)
        if best is None or scales.loss < best[0].loss:
            best = scales, state, mask
        if runs.ended:
            break
    assert best is not None
    return best


# Means of runs


class _Runs:
    """Runs of a fit: their seeds, and the time that they share.

    Attributes
    ----------
    n_threads : int
    ended : bool
        Whether Ctrl-C or the callback has ended one.
    """

    def __init__(self, planner: Planner, watch: Watch, beginning: Beginning, n_rounds: int) -> None:
        self._planner, self._watch, self._beginning = planner, watch, beginning
        parameters = self._parameters = planner.parameters
        self._n_models = 1 if leaves_runs_open(parameters) else parameters["n_models"]
        self._begin, self._n_left = time.perf_counter(), n_rounds * self._n_models
        self.n_threads, self.ended = n_threads_from(parameters["n_jobs"]), False
        most = np.iinfo(np.int32).max
        self._seeds = fork(parameters["random_state"]).randint(0, most, size=self._n_models - 1).tolist()

    def mean(self, points: Points, before: State | None = None) -> State:
        """Return a state whose scores are the mean of those of the runs; the first one in all else.

        What the first run has chosen is not chosen again, nor what `before`, the mean of other runs, has: T is that of
        these choices.
        """
        first = self._run(0, {} if before is None else before.fit_report.params, points, self._n_models)
        if before is not None:
            was = before.fit_report
            choices = {"params": was.params, "rules": was.rules, "report": was.report}
            first = first.with_report(**choices, alpha_path=was.alpha_path, rates=was.rates)
        chosen, weights, curves = first.fit_report.params, first.weights, [first.curve]
        n_others = 0 if first.fit_report.makes_runs else self._n_models - 1
        for n in range(1, 1 + n_others):
            if self.ended:
                break
            if n == 1:
                self._check_seeds_matter(chosen, self._n_models)
            try:
                other = self._run(n, chosen, points, self._n_models)
            except KeyboardInterrupt:
                warn_user("training was interrupted; the model is the mean of the runs so far")
                break
            weights = weights.add_to_mean(other.weights, n)
            curves.append(other.curve)
        if len(curves) == 1:
            return first
        return _final(replace(first, weights=weights, curve=_mean_curve(curves)), points)

    def _run(self, number: int, chosen: Mapping[str, Any], points: Points, n_models: int) -> State:
        seed = self._seeds[number - 1] if number else self._parameters["random_state"]
        alone = {"calibration": None, "random_state": seed, **({"n_models": 1} if number else {})}
        planner = self._planner.changed(**{**chosen, **alone})
        if "validation_fraction" in planner.parameters and not planner.parameters["early_stopping"]:
            # That of calibration has no effect on a run.
            planner = planner.changed(validation_fraction=FIGURES.VALIDATION)
        passed = time.perf_counter() - self._begin
        seconds = max(0.0, self._watch.max_seconds - passed) / max(1, self._n_left)
        self._n_left -= 1
        heading = f"model {number + 1}/{n_models}, " if n_models > 1 else ""
        watch = replace(self._watch, max_seconds=seconds, heading=heading)
        if watch.callback is not None:
            watch = replace(watch, callback=self._call)
        states: list[State] = []
        interruption = interruption_of(lambda: states.append(planner.run(points, watch, self._beginning)))
        if interruption is not None:
            warn_user(interruption)
            self.ended = True
        return states[0]

    def _call(self, state: Any) -> bool:
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


def _mean_curve(curves: list[Doubles]) -> Doubles:
    """The mean loss of each pass; a run that has ended counts by its last one."""
    n = max(map(len, curves))
    full = [np.concatenate([curve, np.repeat(curve[-1:], n - len(curve))]) for curve in curves if len(curve)]
    mean: Doubles = np.mean(full, axis=0) if full else np.zeros(0)
    return mean
