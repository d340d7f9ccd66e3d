"""`fit` from a stream: the passes that `fit` makes over arrays, made over parts.

Each pass has the step size that the schedule of `fit` has for it, and visits a part as `partial_fit` does; a model that
"auto" averages is the mean of the weights after the passes of the second half. What differs from `fit` of all rows:

- What is "auto" is settled on the first part: the solver, "exact" or "implicit" and never "lbfgs", and the step size,
  by trials; alpha is 0, since a part would want more than all rows. A model="auto" of one label a row is linear.
- Features are scaled as those of the first part are.
- The frequencies of classes, by which some samplers draw, are those so far in the first pass.
- What a row carries from pass to pass, u of the double sum, is kept in single precision, of a `Stream` or a list of
  parts. Of other iterables, whose order may change, and where max_memory has no room for it, it is predicted: see
  `help(manyclass.classifiers.partial_fit)`.

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

from manyclass.checks import check_number, outer_level, seed_from
from manyclass.classifiers.partial_fit import check_can_go_on, go_on
from manyclass.classifiers.planner import Planner
from manyclass.classifiers.streams import (
    INTERRUPTED,
    NO_LABELS,
    Bounded,
    check_growth,
    has_labels,
    numbered_parts,
    told_of_part,
    within_memory,
)
from manyclass.datasets import Stream
from manyclass.parts import Parameters
from manyclass.training.calls import Call, Kept, KeptRows
from manyclass.training.interrupts import was_interrupted
from manyclass.training.passes import warn_user
from manyclass.training.progress import Progress, progress_bar
from manyclass.training.state import State
from manyclass.weights.weights import Weights


def fit_stream(
    planner: Planner,
    X: Any,
    *,
    classes: ArrayLike | None = None,
    max_memory: int | str | None = None,
    max_seconds: float | None = None,
) -> State:
    """Return the state of a model fitted to a stream."""
    if max_seconds is not None:
        check_number("max_seconds", max_seconds, low=0)
    planner.check()
    check_can_go_on(planner.parameters)
    _check_has_passes(planner)
    random_state = planner.parameters["random_state"]
    if not isinstance(random_state, int | np.integer):  # which parts would draw anew
        planner = planner.changed(random_state=seed_from(random_state) % 2**32)  # which is what scikit-learn takes
    once = iter(X) is X if not isinstance(X, Stream) else False
    if once:
        planner = _with_one_pass(planner)
    bounded = Bounded(X, None, None, keeps=not once)
    if max_memory is not None:
        copies = 3 if _may_average(planner.parameters) else 2
        bounded = within_memory(planner, None, X, classes, max_memory, copies=copies)
    limit = np.inf if max_seconds is None else float(max_seconds)
    kept = Kept(_n_rows(X), of_utility=planner.carries_two) if bounded.keeps else None
    return _Fit(planner, bounded, classes, limit, _n_rows(X), kept).run()


def _n_rows(X: Any) -> int:
    return (X.n_rows or 0) if isinstance(X, Stream) else 0


def _check_has_passes(planner: Planner) -> None:
    """Refuse parameters that need all rows at once and that `partial_fit` bears."""
    own = planner.parameters
    if own["warm_start"]:
        raise ValueError("warm_start is True; with a stream train on by partial_fit, or set it to False")
    solver = planner.check().solver
    if solver is not None and solver.name == "lbfgs":
        raise ValueError("solver is 'lbfgs', which passes over all rows at once; with a stream choose another")
    if own["learning_rate"] == "grid":
        raise ValueError("learning_rate is 'grid', which needs all rows; with a stream set a number, or 'auto'")


def _with_one_pass(planner: Planner) -> Planner:
    max_iter = planner.parameters["max_iter"]
    if max_iter not in ("auto", 1):
        warnings.warn(
            f"X is an iterator, which is read once: it is one pass, and not max_iter={max_iter}; give a "
            "manyclass.datasets.Stream or a list of parts, or set max_iter=1",
            UserWarning,
            stacklevel=outer_level(),
        )
    return planner.changed(max_iter=1)


def _may_average(parameters: Parameters) -> bool:
    solver = parameters["solver"]
    averaging = "suffix" if solver == "auto" else getattr(solver, "averaging", "none")
    return parameters["max_iter"] != 1 and averaging not in ("none", "auto")


@dataclass
class _Fit:
    """The passes of a fit.

    Attributes
    ----------
    planner : Planner
    bounded : Bounded
        The stream.
    classes : array-like or None
    limit : float
        Seconds.
    n_rows : int
        Of a pass; 0: unknown.
    kept : Kept or None
        What rows carry from pass to pass.
    state : State or None
        The model so far.
    """

    planner: Planner
    bounded: Bounded
    classes: ArrayLike | None
    limit: float
    n_rows: int
    kept: Kept | None = None
    state: State | None = None
    curve: list[float] = field(default_factory=list)
    mean: Weights | None = None
    n_averaged: int = 0

    def run(self) -> State:
        """Make the passes, and return the model."""
        self.begin, self.n_visits = time.perf_counter(), 0
        n_pass, bar = 0, None
        try:
            while n_pass < self.n_passes:
                shown = bool(self.planner.parameters["verbose"])
                bar = bar or progress_bar(self.n_rows * self.n_passes, unit="row", shown=shown)
                if not self._make_pass(n_pass, bar):
                    break
                self._after_pass(n_pass + 1)
                n_pass += 1
        finally:
            if bar is not None:
                bar.close()
        return self._finished()

    def _settled(self, name: str) -> Any:
        """A parameter as it is used."""
        told = {} if self.state is None else self.state.told.params
        return told.get(name, self.planner.parameters[name])

    @property
    def n_passes(self) -> int:
        """Passes that are to be made; 1 as long as nothing is settled."""
        settled = self._settled("max_iter")
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
                assert self.state is not None
                losses.append(self.state.curve[-1] if len(self.state.curve) else np.nan)
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
            if self.state is None:
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
        # Trials are told; a bar for each part would be too much.
        planner = self.planner if self.state is None else self.planner.changed(verbose=0)
        kept = None if self.kept is None or numbers is None else KeptRows(self.kept, numbers)
        call = Call(of_fit=n_pass, n_visits=self.n_visits, kept=kept)
        data = (X, y, weight[0] if weight else None)
        self.state = go_on(planner, self.state, data, self.classes, call, hashing=self.bounded.hashing)

    def _after_pass(self, n_iter: int) -> None:
        assert self.state is not None
        if n_iter == 1:  # what follows predicts u, and goes by the counts of all rows
            self.state = _as_after_fit(self.state)
        weights = self.state.weights
        if n_iter > self._averaged_after():
            assert weights.is_linear
            if self.mean is None:
                self.mean = weights.copy()
            else:
                self.mean.add_to_mean(weights, self.n_averaged)
            self.n_averaged += 1

    def _averaged_after(self) -> float:
        """The pass after which weights are averaged."""
        assert self.state is not None
        averaging = getattr(self._settled("solver"), "averaging", "none")
        linear = self.state.weights.is_linear
        if averaging in ("none", "auto") or self.n_passes == 1 or not linear:
            return np.inf
        return self.n_passes // 2 if averaging == "suffix" else 0

    def _finished(self) -> State:
        assert self.state is not None
        state = _as_after_fit(self.state)
        if self.mean is not None:
            state = replace(state, weights=self.mean)
        return replace(state, curve=np.array(self.curve)).with_told(best_iter=len(self.curve))


def _as_after_fit(state: State) -> State:
    """A state whose rows so far were those of a fit."""
    return replace(state, history=replace(state.history, n_fit=state.history.n_points))
