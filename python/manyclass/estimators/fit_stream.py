"""`fit` from a stream: the passes that `fit` makes over arrays, made over parts.

Each pass has the step size that the schedule of `fit` has for it, and visits a part as `partial_fit` does; a model that
"auto" averages is the mean of the weights after the passes of the second half. What differs from `fit` of all rows:

- What is "auto" is settled on the first part: the solver, "exact" or "implicit" and never "lbfgs", and the step size,
  by trials; alpha is 0, since a part would want more than all rows. A model="auto" of one label a row is linear.
- Features are scaled as those of the first part are.
- The frequencies of classes, by which some samplers draw, are those so far in the first pass.
- What a row carries from pass to pass, u of the double sum, is kept in single precision, of a `Stream` or a list of
  parts. Of other iterables, whose order may change, and where max_memory has no room for it, it is predicted: see
  `help(manyclass.estimators.continued)`.

An iterator can be read once, so that it is one pass: max_iter="auto" is 1 then, and a larger number is told of by a
warning. Rows without a label are left out; labels that come late become classes, and `classes` names them before.
`max_seconds` ends training after the part in which they are over. Other arguments and parameters that need all rows at
once are refused: early_stopping, calibration, n_models, class_weight="balanced", warm_start, solver="lbfgs".
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from manyclass.checks import check_number, outer_level, seed_from
from manyclass.datasets import Stream
from manyclass.estimators.continued import Kept, KeptRows, Steps, check_can_go_on, go_on_with
from manyclass.estimators.streams import (
    INTERRUPTED,
    NO_LABELS,
    Bounded,
    check_growth,
    has_labels,
    numbered_parts,
    refuse_with_stream,
    told_of_part,
    within_memory,
)
from manyclass.model.weights import LinearWeights
from manyclass.training.interrupts import was_interrupted
from manyclass.training.passes import warn_user
from manyclass.training.progress import Progress, progress_bar


def fit_stream(
    model: Any,
    X: Any,
    *,
    classes: ArrayLike | None = None,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
    **of_arrays: Any,
) -> Any:
    """Return the model fitted to a stream; an error leaves it as it was. `of_arrays` are refused where they are set."""
    refuse_with_stream(**of_arrays)
    if max_seconds is not None:
        check_number("max_seconds", max_seconds, low=0)
    model.check_parameters()
    check_can_go_on(model)
    _check_has_passes(model)
    trainer = clone(model)
    if not isinstance(trainer.random_state, int | np.integer):  # which parts would draw anew
        trainer.random_state = seed_from(trainer.random_state) % 2**32  # which is what scikit-learn takes
    once = iter(X) is X if not isinstance(X, Stream) else False
    if once:
        _settle_one_pass(trainer)
    bounded = Bounded(X, None, None, keeps=not once)
    if max_memory is not None:
        bounded = within_memory(trainer, X, classes, max_memory, copies=3 if _may_average(trainer) else 2)
        trainer._hashing = bounded.hashing
    limit = np.inf if max_seconds is None else float(max_seconds)
    kept = Kept(_n_rows(X), of_utility=hasattr(trainer, "local_step")) if bounded.keeps else None
    _Fit(trainer, bounded, classes, limit, bool(model.verbose), _n_rows(X), kept).run()
    _take_over(model, trainer)
    return model


def _n_rows(X: Any) -> int:
    return (X.n_rows or 0) if isinstance(X, Stream) else 0


def _check_has_passes(model: Any) -> None:
    """Refuse parameters that need all rows at once and that `partial_fit` bears."""
    if getattr(model, "warm_start", False):
        raise ValueError("warm_start is True; with a stream train on by partial_fit, or set it to False")
    solver = model.check_parameters().solver
    if solver is not None and solver.name == "lbfgs":
        raise ValueError("solver is 'lbfgs', which passes over all rows at once; with a stream choose another")
    if getattr(model, "learning_rate", None) == "grid":
        raise ValueError("learning_rate is 'grid', which needs all rows; with a stream set a number, or 'auto'")


def _settle_one_pass(trainer: Any) -> None:
    if trainer.max_iter not in ("auto", 1):
        warnings.warn(
            f"X is an iterator, which is read once: it is one pass, and not max_iter={trainer.max_iter}; give a "
            "manyclass.datasets.Stream or a list of parts, or set max_iter=1",
            UserWarning,
            stacklevel=outer_level(),
        )
    trainer.max_iter = 1


def _may_average(trainer: Any) -> bool:
    solver = trainer.solver
    averaging = "suffix" if solver == "auto" else getattr(solver, "averaging", "none")
    return trainer.max_iter != 1 and averaging not in ("none", "auto")


@dataclass
class _Fit:
    """The passes of a fit.

    Attributes
    ----------
    trainer : estimator
        A clone, which is trained.
    bounded : Bounded
        The stream.
    classes : array-like or None
    limit : float
        Seconds.
    shown : bool
        Whether progress is shown.
    n_rows : int
        Of a pass; 0: unknown.
    """

    trainer: Any
    bounded: Bounded
    classes: ArrayLike | None
    limit: float
    shown: bool
    n_rows: int
    kept: Kept | None = None
    curve: list[float] = field(default_factory=list)
    mean: LinearWeights | None = None
    n_averaged: int = 0

    def run(self) -> None:
        """Make the passes, and leave the model in `trainer`."""
        self.begin, self.n_visits = time.perf_counter(), 0
        n_pass, bar = 0, None
        try:
            while n_pass < self.n_passes:
                bar = bar or progress_bar(self.n_rows * self.n_passes, unit="row", shown=self.shown)
                if not self._make_pass(n_pass, bar):
                    break
                self._after_pass(n_pass + 1)
                n_pass += 1
        finally:
            if bar is not None:
                bar.close()
        self._finish()

    @property
    def n_passes(self) -> int:
        """Passes that are to be made; 1 as long as nothing is settled."""
        settled = getattr(self.trainer, "resolved_params_", {}).get("max_iter", self.trainer.max_iter)
        return 1 if settled == "auto" else int(settled)

    def _make_pass(self, n_pass: int, bar: Progress) -> bool:
        """Train on all parts; return whether the pass was made to its end, and another may follow."""
        losses: list[float] = []
        weights: list[int] = []
        ended = False
        try:
            for number, part, numbers in numbered_parts(self.bounded.stream, n_pass):
                if not has_labels(part[1]):
                    continue
                with told_of_part(number):
                    check_growth(self.bounded.labels, part[1])
                    ended = was_interrupted(lambda part=part, at=numbers: self._train(part, n_pass, at))  # type: ignore[misc]
                losses.append(self.trainer.loss_curve_[-1] if len(self.trainer.loss_curve_) else np.nan)
                weights.append(int(part[0].shape[0]))
                self.n_visits += weights[-1]
                bar.set_postfix_str(f"pass {n_pass + 1}/{self.n_passes}, part {number}, loss {losses[-1]:.4f}")
                bar.total = self.n_rows * self.n_passes
                bar.update(weights[-1])
                if ended:
                    warn_user(INTERRUPTED)
                ended = ended or time.perf_counter() - self.begin >= self.limit
                if ended:
                    break
        except KeyboardInterrupt:  # while rows were read
            if not hasattr(self.trainer, "_weights"):
                raise
            warn_user(INTERRUPTED)
            return False
        if not weights:
            raise ValueError(NO_LABELS)
        if not ended:
            self.curve.append(float(np.average(losses, weights=weights)))
        return not ended

    def _train(self, part: tuple[Any, ...], n_pass: int, numbers: NDArray[np.int64] | None) -> None:
        X, y, *weight = part
        begins = not hasattr(self.trainer, "_weights")
        verbose = self.trainer.verbose
        self.trainer.verbose = verbose if begins else 0  # trials are told; a bar for each part would be too much
        try:
            kept = None if self.kept is None or numbers is None else KeptRows(self.kept, numbers)
            steps = Steps(of_fit=n_pass, n_visits=self.n_visits, kept=kept)
            go_on_with(self.trainer, X, y, weight[0] if weight else None, self.classes, steps)
        finally:
            self.trainer.verbose = verbose

    def _after_pass(self, n_iter: int) -> None:
        trainer = self.trainer
        if n_iter == 1:  # what follows predicts u, and goes by the counts of all rows
            trainer._history = replace(trainer._history, n_fit=trainer._history.n_points)
        if n_iter > self._averaged_after():
            weights = trainer._weights
            if self.mean is None:
                self.mean = LinearWeights(weights.matrix.copy(), weights.intercept.copy(), weights.sparse)
            else:
                self.mean.add_to_mean(weights, self.n_averaged)
            self.n_averaged += 1

    def _averaged_after(self) -> float:
        """The pass after which weights are averaged."""
        trainer = self.trainer
        solver = getattr(trainer, "resolved_params_", {}).get("solver", trainer.solver)
        averaging = getattr(solver, "averaging", "none")
        if averaging in ("none", "auto") or self.n_passes == 1 or not isinstance(trainer._weights, LinearWeights):
            return np.inf
        return self.n_passes // 2 if averaging == "suffix" else 0

    def _finish(self) -> None:
        trainer = self.trainer
        if self.mean is not None:
            trainer._weights = self.mean
        trainer._history = replace(trainer._history, n_fit=trainer._history.n_points)
        trainer.loss_curve_ = np.array(self.curve)
        trainer.n_iter_ = len(self.curve)
        if hasattr(trainer, "best_iter_"):
            trainer.best_iter_ = len(self.curve)


def _take_over(model: Any, trainer: Any) -> None:
    """Give the model all that the trainer has found, and leave nothing of an earlier fit."""
    parameters = set(model.get_params(deep=False))
    found = {name: value for name, value in vars(trainer).items() if name not in parameters}
    if "feature_names_in_" not in found:
        model.__dict__.pop("feature_names_in_", None)
    model.__dict__.update(found)
