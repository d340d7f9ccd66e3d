"""What all fits share: the choices of a class of estimators, by parameters and data; no model, and no estimator."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from manyclass import _core
from manyclass.blending.blend import mean_log_loss
from manyclass.blending.calibration import CALIBRATIONS, calibrated, n_held_out
from manyclass.blending.class_texts import ClassScales, ClassTexts
from manyclass.checks import check_choice, check_flag, check_number, checked_random, n_threads_from
from manyclass.choosing.costs import Facts, Planned, Report
from manyclass.figures import FIGURES
from manyclass.fitting.points import Caller, check_class_weight, points_of
from manyclass.labels import columns_of_classes, find_positions
from manyclass.parts import Chosen, Parameters, Part, is_open, part_name
from manyclass.training.core_training import First, Watch
from manyclass.training.incremental import Call
from manyclass.training.passes import fork, warn_user, was_interrupted
from manyclass.training.plan import AnyPlan, HybridPlan, PairsPlan, ScoredRows, draw_rows_out, held_out
from manyclass.training.state import Calibration, FitReport, History, Points, State
from manyclass.weights.arrays import Doubles, Ids, Matrix
from manyclass.weights.weights import FeatureScaling, Weights

PartChoices = Mapping[str, Mapping[str, type[Part]]]


# What a call trains with: a plan, and the points as it sees them, scaled where there is a scaling.
PlannedCall = tuple[Planned, Points, FeatureScaling | None]


@dataclass(frozen=True)
class Planner(ABC):
    """The choices of a class of estimators.

    Attributes
    ----------
    parameters : Parameters
    caller : Caller
        For checks of data.
    several : bool
        Whether rows may have several labels.
    trains_log_odds : bool
        Whether e^z is a probability but for its normaliser.
    parts : mapping of str to mapping of str to class
        The parts that may be named, by parameter.
    has_grid : bool
        Whether a grid of step sizes may be tried, and training begin at a closed form.
    """

    parameters: Parameters
    caller: Caller

    parts: ClassVar[PartChoices]
    several: ClassVar[bool] = False
    trains_log_odds: ClassVar[bool] = True
    has_grid: ClassVar[bool] = False

    def check(self) -> Chosen:
        """Return the parts, all parameters checked without data; raises ValueError or TypeError."""
        parameters = self.parameters
        for name in ("warm_start", "fit_intercept", "early_stopping"):
            if name in parameters:
                check_flag(name, parameters[name])
        if parameters["calibration"] is not None:
            check_choice("calibration", parameters["calibration"], CALIBRATIONS)
        parameters.check_open("n_models", low=1, integer=True)
        if parameters["warm_start"] and self.is_composed:
            raise ValueError("warm_start is True, which begins one run; with n_models or calibration leave it False")
        check_class_weight(parameters["class_weight"])
        for name, rule in RULES.items():
            if name in parameters:
                parameters.check_open(name, *(["grid"] if self.has_grid and name == "learning_rate" else []), **rule)
        n_threads_from(parameters["n_jobs"])
        checked_random(parameters["random_state"])
        if not isinstance(parameters["verbose"], bool | np.bool_):
            check_number("verbose", parameters["verbose"])
        return Chosen(**{name: parameters.part(name, choices) for name, choices in self.parts.items()})

    @abstractmethod
    def run(self, points: Points, watch: Watch, first: First) -> State:
        """Make one run of a fit, whose seed, number of models and calibration are those of the parameters."""

    @abstractmethod
    def plan_call(self, state: State | None, points: Points, call: Call) -> PlannedCall:
        """Return what a call trains with."""

    def passes_of_call(self, plan: AnyPlan, *, after_fit: bool) -> int:
        """Return how many passes over its rows a call makes, in a stream that began without `fit` or after one."""
        return FIGURES.CALL_PASSES_OF_PAIRS if isinstance(plan, PairsPlan | HybridPlan) else 1

    def keeps_rows(self, call: Call) -> bool:
        """Return whether the rows of a stream that began without `fit` may be kept, for fits to them."""
        return call.may_fall(self.parameters)

    def changed(self, **values: Any) -> Self:
        """Return it with other parameters."""
        return replace(self, parameters=self.parameters.changed(**values))

    def resolved(self, state: State | None) -> Self:
        """Return it with parameters that were left open being what a fit has made of them, where there was one."""
        return self if state is None else replace(self, parameters=resolved(self.parameters, state))

    def points(self, X: Any, y: Any, sample_weight: ArrayLike | None, **more: Any) -> Points:
        """Return the data of a training, checked: see `points_of`."""
        weights = self.parameters["class_weight"]
        return points_of(self.caller, X, y, sample_weight, weights, several=self.several, **more)

    @property
    def is_composed(self) -> bool:
        """Whether what is set asks for more than one run."""
        return self.parameters["n_models"] not in (1, "auto") or self.parameters["calibration"] is not None

    def with_rows_out(self, first: First, points: Points) -> First:
        """Return it with what early stopping looks at: rows of its own, or a share of the points, drawn here."""
        parameters = self.parameters
        first = replace(first, n_iter_no_change=parameters["n_iter_no_change"])
        if first.evaluated is not None or not parameters["early_stopping"]:
            return first
        random = fork(parameters["random_state"])
        out = held_out(points.labels, parameters.get("validation_fraction", FIGURES.VALIDATION), random, points.groups)
        out[len(out) - points.n_texts :] = False
        return replace(first, held_out=out)

    def warm_start_of(self, state: State, points: Points) -> Weights:
        """Return the weights of a linear model of one label a row for the classes of a fit to such rows."""
        check_features(state, points)
        place = find_positions(points.classes, state.classes, "y")
        start, there = Weights.zeros(points.n_classes, points.x.shape[1], by_feature=False), place >= 0
        start.coef[there] = state.weights.coef[place[there]]
        start.intercept[there] = state.weights.intercept[place[there]]
        return start

    def loss(self, state: State, points: Points) -> float:
        """Return the mean loss of points by which states are compared: the log-loss, in nats."""
        n_threads = n_threads_from(self.parameters["n_jobs"])
        return mean_log_loss(state.weights, ScoredRows(points.x, points.labels, n_threads, points.weights))

    def losses_and_ranks(self, state: State, x: Matrix, labels: Ids) -> tuple[Doubles, Ids]:
        """Return the log-loss of each row, of one label, and the rank of its label (0: predicted)."""
        weights, scale = state.weights.times(1.0)
        return weights.log_losses(x, labels, n_threads_from(self.parameters["n_jobs"]), scale)

    def labelled(self, state: State, points: Points, before: State | None = None) -> State:
        """Return a state with the number of labels that it predicts, and their threshold.

        Parameters
        ----------
        state : State
        points : Points
            The points that the state was trained on.
        before : State or None
            What a call went on from.
        """
        if not self.several:
            return state
        if before is not None or state.history.n_fit == 0:  # the counts are of all calls
            n_labels = float(state.counts.sum()) / state.history.n_counting
        else:
            n_labels = float(np.average(np.diff(points.labels.indptr), weights=points.weights))
        state = replace(state, n_labels=max(1, round(n_labels)), threshold=None)
        if before is not None and len(points.labels) < FIGURES.LEAST_THRESHOLD_ROWS:  # too few rows to find another
            return replace(state, threshold=before.threshold)
        if not points.several:
            return state
        n_threads = n_threads_from(self.parameters["n_jobs"])
        return replace(state, threshold=best_threshold(state, points, n_threads, log_odds=self.trains_log_odds))


# Parameters


_WHOLE = {"low": 1, "integer": True}
RULES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("n_negatives", "max_iter", "n_iter_no_change"), _WHOLE),
    "learning_rate": {"low": 0, "open_low": True},
    "validation_fraction": {"low": 0, "open_low": True, "high": 0.99},
    "alpha": {"low": 0},
    "dim": {**_WHOLE, "high": 1 << 20},
}


def resolved(parameters: Parameters, state: State) -> Parameters:
    """Return the parameters, those left open being what a fit has made of them; what is set since then counts."""
    values, closed = state.fit_report.params, {}
    has_runs = "n_models" in values or parameters["n_models"] not in (1, "auto")
    if has_runs and state.weights.embeddings.size:  # the sum of runs has the columns of all
        values = {**values, "dim": state.weights.n_hidden}
        parameters = parameters.changed(dim="auto", n_models=1)
    for name, value in values.items():
        parameter = parameters[name]
        if is_open(parameter) or parameter == getattr(value, "name", ""):
            closed[name] = value
        elif getattr(parameter, "name", None) == getattr(value, "name", ""):  # a part of which numbers were left open
            numbers, set_by_hand = value.get_params(), parameter.get_params()
            open_numbers = {key: numbers[key] for key in numbers if is_open(set_by_hand[key])}
            closed[name] = clone(parameter).set_params(**open_numbers)
    return parameters.changed(**closed)


def report_of(planned: Planned, trained: FitReport = FitReport()) -> FitReport:  # noqa: B008 - frozen
    """Return how a plan came to be beside what `trained` says; a step size that it took instead of it counts."""
    params = {**planned.params, **trained.params}
    words = {name: f"{value:.4g}" if isinstance(value, float) else repr(value) for name, value in params.items()}
    rules = planned.rules | {name: " ".join(word.split()) for name, word in words.items()}
    report = Report([*planned.trials.report, *trained.report])
    paths: dict[str, Any] = {"alpha_path": planned.alpha_path, "rates": planned.rates}
    return replace(trained, params=params, rules=rules, report=report, **paths)


def with_report_of(planned: Planned, state: State) -> State:
    """Return a state whose report says how its plan came to be."""
    return replace(state, fit_report=report_of(planned, state.fit_report))


# What a fit begins at


def facts_of(points: Points) -> Facts:
    """Return what choices depend on, of the points of a training."""
    facts = Facts.of(points.x, points.n_classes, points.labels, several=points.several)
    names = points.column_labels
    columns = None if names is None else columns_of_classes(points.classes, names, len(names))
    return replace(facts, n_texts=points.n_texts, of_columns=columns is not None and bool((columns >= 0).all()))


def check_features(state: State, points: Points) -> None:
    """Raise ValueError where a fit that begins warm has other features than the model, or another order of them."""
    now, before = points.features, state.features
    if now.n != before.n:
        raise ValueError(f"warm_start is True and X has {now.n} features; the last fit had {before.n}")
    if now.names is not None and before.names is not None:
        for j in np.flatnonzero(now.names != before.names)[:1]:
            raise ValueError(f"warm_start is True and feature {j} is {now.names[j]!r}, which was {before.names[j]!r}")


# Several labels


def best_threshold(state: State, points: Points, n_threads: int, *, log_odds: bool) -> float | None:
    """Return the threshold by which some rows get their number of labels in all; None if `n_labels` each are better.

    With `log_odds` e^z is a probability but for its normaliser.
    """
    weights, n_labels, calibration = state.weights, state.n_labels, state.calibration
    n_classes = weights.n_classes
    f = FIGURES
    n_rows = min(len(points.labels), f.THRESHOLD_ROWS, max(f.LEAST_THRESHOLD_ROWS, f.THRESHOLD_CELLS // n_classes))
    rows = np.linspace(0, len(points.labels) - 1, n_rows).astype(np.intp)
    x, labels = points.x[rows], points.labels.of(rows)
    best, log_p = weights.top_k(x, min(n_classes, 8 * n_labels + 8), n_threads)
    values = log_p.astype(np.float64)
    probable = log_odds or calibration is not None
    if not probable:
        values += weights.log_normalizers(x, n_threads)[:, np.newaxis]
    r = np.ones(n_rows) if points.weights is None else points.weights[rows]
    limit = _core.best_threshold(labels.indptr, labels.ids, best, values, r, n_labels)
    if limit is None:
        return None
    if probable:
        limit = float(np.exp(limit if calibration is None else calibration.log_probabilities(limit)))
    return limit


Mask = NDArray[np.bool_]


def refit(planner: Planner, points: Points) -> State:
    """Return a fit to points without any argument, and without progress."""
    watch = Watch(may_retry=True)
    return planner.labelled(*fit_runs(planner.changed(verbose=0), points.as_of_fit, watch))


def fit_runs(
    planner: Planner,
    points: Points,
    watch: Watch,
    first: First = First(),  # noqa: B008 - frozen
) -> tuple[State, Points]:
    """Fit as `n_models` and `calibration` say.

    Parameters
    ----------
    planner : Planner
    points : Points
    watch : Watch
        The runs share the limit of seconds in equal parts; a callback that stops a run, or Ctrl-C, ends the fit with
        the runs so far.
    first : First
        A run that begins at the model of the last fit is the only one.

    Returns
    -------
    state : State
    points : Points
        The points that it was trained on.
    """
    if points.n_texts:
        return _fit_with_texts(planner, points, watch, first)
    parameters = planner.parameters
    if not planner.is_composed:
        return planner.run(points, watch, first), points
    if parameters["calibration"] is None:
        return _Runs(planner, watch, first, 1).mean(points), points
    out = _rows_out(parameters, points)
    again = bool(out.mean() > FIGURES.MOST_WITHOUT)
    runs = _Runs(planner, watch, first, 1 + again)
    rows_out, trained = points.some(np.flatnonzero(out)), points.some(np.flatnonzero(~out))
    state = runs.mean(trained)
    calibration = _calibration(parameters, state, rows_out)
    if again and not runs.ended:
        state, trained = runs.mean(points, state), points
    return _calibrated(state, trained, calibration), trained


def _rows_out(parameters: Parameters, points: Points, most: int | None = None) -> Mask:
    """Draw which rows calibration holds out, at most `most`, so that of every label one at least stays for training."""
    n_out = n_held_out(len(points.labels), points.n_classes, parameters.get("validation_fraction", FIGURES.VALIDATION))
    n_out = n_out if most is None else min(n_out, most)
    out = draw_rows_out(n_out, len(points.labels), fork(parameters["random_state"]), points.groups, points.labels)
    if not out.any():
        raise ValueError("calibration holds out rows all of whose labels other rows have, of which there are none")
    return out


def _calibration(parameters: Parameters, state: State, rows_out: Points) -> Calibration:
    """Return the calibration of a state by points that it was not trained on."""
    noise, n_threads = parameters.get("noise", "gumbel"), n_threads_from(parameters["n_jobs"])
    return calibrated(state.weights, rows_out.scored(n_threads), several=rows_out.several, noise=noise)


def _calibrated(state: State, points: Points, calibration: Calibration) -> State:
    if not points.several:
        state.weights.multiply_scores(1 / calibration.temperature)
    return replace(_final(state, points), calibration=calibration)


def _final(state: State, points: Points) -> State:
    """Return a state without what only further training needs."""
    history = History.of_fit(len(points.labels), n_labels=points.labels.mean)
    return replace(state, history=history, squares=None)


# Texts of classes


def _fit_with_texts(planner: Planner, points: Points, watch: Watch, first: First) -> tuple[State, Points]:
    """Fit to rows and to texts of classes, the last of the points; see `manyclass.blending.class_texts`."""
    texts, parameters = ClassTexts.of(points), planner.parameters
    n_rows, calibrates = len(points.labels) - points.n_texts, parameters["calibration"] is not None
    rows = points.some(np.arange(n_rows))
    if not texts.share_features(rows):  # only texts of classes without rows are rows, too
        trained = replace(points.some(np.flatnonzero(texts.of_unseen(points))), n_texts=0)
        state, trained = fit_runs(planner, trained, watch, first)
        how = "no text of class_text has a feature that a row has, so that texts tell nothing of rows"
        warn_user(f"{how}: the model is as without them", UserWarning)
        return state.with_report(rules={**state.fit_report.rules, "class_text": how}), trained
    # Without calibration so few that the model need not be fitted again, if they are enough for three numbers.
    few = max(FIGURES.MOST_FOR_TEXTS, int(FIGURES.MOST_WITHOUT * n_rows))
    out = _rows_out(parameters, rows, None if calibrates else few)
    again, rows_out = bool(out.mean() > FIGURES.MOST_WITHOUT), rows.some(np.flatnonzero(out))
    masks = [np.ones(len(points.labels), dtype=bool), texts.of_unseen(points)]
    masks = masks[1:] if masks[1].all() else masks
    runs = _Runs(planner, watch, first, len(masks) + again)
    scales, state, mask = _best_mask(runs, texts, masks, points, out, rows_out)
    how = scales.description + ("" if mask.all() else "; only those of classes without rows are rows, too")
    state = state.with_report(rules={**state.fit_report.rules, "class_text": how})
    calibration = _calibration(parameters, scales.added_to(state, texts), rows_out) if calibrates else None
    trained = points.some(np.flatnonzero(mask & np.append(~out, np.ones(points.n_texts, dtype=bool))))
    if again and not runs.ended:
        trained = points.some(np.flatnonzero(mask))
        state = runs.mean(trained, state)
    state = scales.added_to(state, texts)
    return _final(state, trained) if calibration is None else _calibrated(state, trained, calibration), trained


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

    def __init__(self, planner: Planner, watch: Watch, first: First, n_rounds: int) -> None:
        self._planner, self._watch, self._first = planner, watch, first
        parameters = self._parameters = planner.parameters
        self._n_models = 1 if parameters.is_auto("n_models") else parameters["n_models"]
        self.n_threads, self.ended = n_threads_from(parameters["n_jobs"]), False
        self._n_left = n_rounds * self._n_models
        most = np.iinfo(np.int32).max
        self._seeds = fork(parameters["random_state"]).randint(0, most, size=self._n_models - 1).tolist()

    def mean(self, points: Points, before: State | None = None) -> State:
        """Return a state whose scores are the mean of those of the runs; the first one in all else.

        What the first run has chosen is not chosen again, nor what `before`, the mean of other runs, has: T is that of
        these choices.
        """
        first = self._run(0, {} if before is None else before.fit_report.params, points)
        if before is not None:
            names = ("params", "rules", "report", "alpha_path", "rates")
            first = first.with_report(**{name: getattr(before.fit_report, name) for name in names})
        chosen, weights, curves = first.fit_report.params, first.weights, [first.curve]
        n_others = 0 if first.fit_report.makes_runs else self._n_models - 1
        for n in range(1, 1 + n_others):
            if self.ended:
                break
            if part_name(chosen.get("solver", self._parameters["solver"])) == "lbfgs":
                raise ValueError(f"n_models is {self._n_models}, which has no effect with solver='lbfgs'; leave it 1")
            other = self._run(n, chosen, points)
            weights = weights.add_to_mean(other.weights, n)
            curves.append(other.curve)
        if len(curves) == 1:
            return first
        return _final(replace(first, weights=weights, curve=_mean_curve(curves)), points)

    def _run(self, number: int, chosen: Mapping[str, Any], points: Points) -> State:
        seed = self._seeds[number - 1] if number else self._parameters["random_state"]
        alone = {"calibration": None, "random_state": seed, **({"n_models": 1} if number else {})}
        planner = self._planner.changed(**{**chosen, **alone})
        if "validation_fraction" in planner.parameters and not planner.parameters["early_stopping"]:
            # That of calibration has no effect on a run.
            planner = planner.changed(validation_fraction=FIGURES.VALIDATION)
        until = time.perf_counter() + self._watch.seconds_left / max(1, self._n_left)
        self._n_left -= 1
        heading = f"model {number + 1}/{self._n_models}, " if self._n_models > 1 else ""
        watch = replace(self._watch, until=until, heading=heading)
        if (callback := watch.callback) is not None:

            def call(state: Any) -> bool:
                self.ended = bool(callback(state))
                return self.ended

            watch = replace(watch, callback=call)
        state = planner.run(points, watch, self._first)
        self.ended |= was_interrupted()
        return state


def _mean_curve(curves: list[Doubles]) -> Doubles:
    """The mean loss of each pass; a run that has ended counts by its last one."""
    n = max(map(len, curves))
    full = [np.pad(curve, (0, n - len(curve)), mode="edge") for curve in curves if len(curve)]
    return np.mean(full, axis=0) if full else np.zeros(0)
