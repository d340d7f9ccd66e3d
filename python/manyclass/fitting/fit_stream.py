"""`fit` from a stream: the passes that `fit` makes over arrays, made over parts.

Each pass has the step size that the schedule of `fit` has for it, and visits a part as `partial_fit` does; a model that
"auto" averages is the mean of the weights after the passes of the second half. What differs from `fit` of all rows:

- What "auto" stands for is found on the first part: the solver, "exact" or "implicit" and never "lbfgs", and the step
  size, by trials; alpha is 0, since a part alone would ask for a larger one than all rows. With one label a row,
  model="auto" is linear.
- Features are scaled by the scales of the first part.
- In the first pass, samplers that draw by frequency count the rows so far.
- What a row carries from pass to pass, u of the double sum, is kept in single precision for a `Stream` or a list of
  parts. For other iterables, whose order may change, and where max_memory has no room for it, it is predicted: see
  `help(manyclass.fitting.partial_fit)`.

Parts of any size, of any iterable that can be read again, end as near the optimum as `fit` of arrays does, within .005
nats and with a ridge, too, under these conditions: `learning_rate` and alpha are set, max_iter is the same, `classes`
names all labels, features are not scaled (scaling="none"), labels are not sorted over the rows, and the solver's fit of
arrays itself is near the optimum. Where learning_rate is open it is only as good as the first part is a sample of all
rows. A first part of fewer than 1,000 rows makes no trial and has the step size of the rules: "exact" and "implicit" on
parts of 100 of 3,000 rows then end .012 and .008 nats higher than on arrays, and "umax" .3.

An iterator can be read once, so that it is one pass: max_iter="auto" is 1 then, and a larger number is told of by a
warning. Rows without a label are left out; labels that come late become classes, and `classes` names them before.
`max_seconds` ends training after the part in which they are over. Other arguments and parameters that need all rows at
once are refused: early_stopping, calibration, n_models, class_weight="balanced", warm_start, solver="lbfgs".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import outer_level, seed_from
from manyclass.datasets.stream import Stream
from manyclass.fitting.streams import Bounded, Part, PartByPart, rows_of_stream, within_memory
from manyclass.parts import Parameters, part_name
from manyclass.parts import Part as Solver
from manyclass.training.incremental import Call, KeptRows
from manyclass.training.passes import progress_bar
from manyclass.training.state import State
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import Weights

# Makes a call of `partial_fit` with these parameters, at a state or none, with a part, its features being hashed so.
GoOn = Callable[[Parameters, State | None, Part, Call, FeatureHash | None], State]


def fit_stream(
    parameters: Parameters,
    go_on: GoOn,
    X: Any,
    classes: ArrayLike | None,
    max_memory: int | str | None,
    max_seconds: float,
) -> State:
    """Return the state of a model fitted to a stream.

    Parameters
    ----------
    parameters : Parameters
        Checked.
    go_on : callable
    X : Stream or other iterable of parts
    classes, max_memory, max_seconds : what `fit` was given
    """
    _check_has_passes(parameters)
    random_state = parameters["random_state"]
    if not isinstance(random_state, int | np.integer):  # which parts would draw anew
        parameters = parameters.changed(
            random_state=seed_from(random_state) % 2**32
        )  # which is what scikit-learn takes
    once = not isinstance(X, Stream) and iter(X) is X
    if once:
        parameters = _with_one_pass(parameters)
    averages = parameters["max_iter"] != 1 and _averaging(parameters["solver"], "suffix") not in ("none", "auto")
    bounded = within_memory(parameters, None, X, classes, max_memory, copies=3 if averages else 2)
    kept = None
    if bounded.keeps and not once:  # with Gumbel noise q is known but for one number, as u is
        kept = _core.CarriedRows(rows_of_stream(X), 1 + (parameters.get("noise", "gumbel") != "gumbel"))
    return _Fit(parameters, go_on, bounded, kept).run(max_seconds)


def _check_has_passes(parameters: Parameters) -> None:
    """Refuse parameters that need all rows at once and that `partial_fit` bears."""
    if parameters["warm_start"]:
        raise ValueError("warm_start is True; with a stream train on by partial_fit, or set it to False")
    if part_name(parameters["solver"]) == "lbfgs":
        raise ValueError("solver is 'lbfgs', which passes over all rows at once; with a stream choose another")
    if parameters["learning_rate"] == "grid":
        raise ValueError("learning_rate is 'grid', which needs all rows; with a stream set a number, or 'auto'")


def _with_one_pass(parameters: Parameters) -> Parameters:
    max_iter = parameters["max_iter"]
    if max_iter not in ("auto", 1):
        warnings.warn(
            f"X is an iterator, which is read once: it is one pass, and not max_iter={max_iter}; give a "
            "manyclass.datasets.Stream or a list of parts, or set max_iter=1",
            UserWarning,
            stacklevel=outer_level(),
        )
    return parameters.changed(max_iter=1)


def _averaging(solver: str | Solver, of_auto: str = "none") -> str:
    """How a solver averages weights over passes; one that is named leaves that open."""
    if isinstance(solver, str):
        return of_auto if solver == "auto" else "none"
    return str(solver.get_params().get("averaging", "none"))


class _Fit:
    """The passes of a fit.

    Parameters
    ----------
    parameters : Parameters
    go_on : callable
    bounded : Bounded
        The stream.
    kept : _core.CarriedRows or None
        What rows carry from pass to pass.
    """

    def __init__(self, parameters: Parameters, go_on: GoOn, bounded: Bounded, kept: _core.CarriedRows | None) -> None:
        self._parameters, self._go_on, self._bounded, self._kept = parameters, go_on, bounded, kept
        self._state: State | None = None
        self._mean: Weights | None = None
        self._n_averaged = 0

    def run(self, max_seconds: float) -> State:
        """Make the passes, and return the model."""
        n_rows, curve = rows_of_stream(self._bounded.stream), list[float]()
        with closing(progress_bar(n_rows, unit="row", shown=bool(self._parameters["verbose"]))) as bar:

            def step(part: Part, numbers: NDArray[np.int64] | None) -> State:
                state = self._train(part, numbers, len(curve), training.n_visits)
                training.heading = f"pass {len(curve) + 1}/{self._n_passes}, "
                bar.total = n_rows * self._n_passes
                return state

            training = PartByPart(self._bounded, step, bar, max_seconds)
            while len(curve) < self._n_passes:
                loss = training.make_pass(len(curve))
                if training.ended:
                    break
                curve.append(loss)
                self._after_pass(len(curve))
        assert self._state is not None
        state = _as_after_fit(self._state)
        if self._mean is not None:
            state = replace(state, weights=self._mean)
        return replace(state, curve=np.array(curve)).with_report(best_iter=len(curve))

    def _used(self, name: str) -> Any:
        """A parameter as it is used."""
        told = {} if self._state is None else self._state.fit_report.params
        return told.get(name, self._parameters[name])

    @property
    def _n_passes(self) -> int:
        """Passes that are to be made; 1 as long as that is open."""
        max_iter = self._used("max_iter")
        return 1 if max_iter == "auto" else int(max_iter)

    def _train(self, part: Part, numbers: NDArray[np.int64] | None, n_pass: int, n_visits: int) -> State:
        # Trials are told; a bar for each part would be too much.
        parameters = self._parameters if self._state is None else self._parameters.changed(verbose=0)
        kept = None if self._kept is None or numbers is None else KeptRows(self._kept, numbers)
        call = Call(fit_pass=n_pass, n_visits=n_visits, kept_rows=kept)
        self._state = self._go_on(parameters, self._state, part, call, self._bounded.hashing)
        return self._state

    def _after_pass(self, n_iter: int) -> None:
        assert self._state is not None
        if n_iter == 1:  # what follows predicts u, and goes by the counts of all rows
            self._state = _as_after_fit(self._state)
        weights = self._state.weights
        if n_iter <= self._averaged_after() or not weights.is_linear:
            return
        if self._mean is None:
            self._mean = weights.copy()
        else:
            self._mean.add_to_mean(weights, self._n_averaged)
        self._n_averaged += 1

    def _averaged_after(self) -> float:
        """The pass after which weights are averaged."""
        averaging = _averaging(self._used("solver"))
        if averaging in ("none", "auto") or self._n_passes == 1:
            return np.inf
        return self._n_passes // 2 if averaging == "suffix" else 0


def _as_after_fit(state: State) -> State:
    """A state whose rows so far were those of a fit."""
    return replace(state, history=replace(state.history, n_fit=state.history.n_points))
