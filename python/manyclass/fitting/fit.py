"""`fit`, as its options say: of arrays, of texts with those of classes, or of a stream; from a state or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyclass.fitting.memory import bytes_from
from manyclass.fitting.options import FitOptions
from manyclass.fitting.partial_fit import check_can_go_on
from manyclass.fitting.planner import Planner
from manyclass.fitting.points import Encoder, encoded, encoded_with_classes, points_of
from manyclass.fitting.runs import fit_runs, parameters_of_fit
from manyclass.fitting.streams import FOR_ARRAYS, FOR_STREAMS, encoded_stream, fit_stream, is_stream, refuse
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.core_training import Watch
from manyclass.training.state import Points, State
from manyclass.weights.saved_labels import check_labels_can_be_saved

Given = tuple[Any, Any, ArrayLike | None]  # X, y and sample_weight


def fit(planner: Planner, state: State | None, data: Given, options: FitOptions) -> State:
    """Return the state of a fit.

    Parameters
    ----------
    planner : Planner
    state : State or None
        The model of the last fit, with warm_start.
    data : tuple
        X, y and sample_weight.
    options : FitOptions

    Raises
    ------
    ValueError
        For what `fit` of an estimator documents.
    """
    planner.check_options(options)
    planner.check()
    X, y, sample_weight = data
    beside = {name: getattr(options, name) for name in ("candidates", "coef_init", "intercept_init")}
    if is_stream(X, y):
        refuse(
            FOR_ARRAYS,
            sample_weight=sample_weight,
            **beside,
            callback=options.callback,
            checkpoint=options.checkpoint,
        )
        return _fit_to_stream(planner, X, options)
    refuse(FOR_STREAMS, classes=options.classes)
    most_bytes = np.inf if options.max_memory is None else bytes_from(options.max_memory)
    checkpoints = Checkpoints.of(options.checkpoint, options.every, options.resume)
    watch = Watch.of(options.callback, options.max_seconds, checkpoints, most_bytes)
    points, encoder = _points_of_fit(planner, state, data, options)
    beginning = planner.beginning(state, points, encoder, options)
    seeded = replace(planner, parameters=parameters_of_fit(planner.parameters, watch, points, **beside))
    return replace(planner.labelled(*fit_runs(seeded, points, watch, beginning)), encoder=encoder)


def _fit_to_stream(planner: Planner, X: Any, options: FitOptions) -> State:
    """Return the state of a fit to a stream."""
    refuse("for texts at once, and not for a stream", class_text=options.class_text)
    check_can_go_on(planner.parameters)
    X, encoder = encoded_stream(X, options.vectorizer)
    if encoder is None:
        return fit_stream(planner, X, options)
    classes = X.label_names if options.classes is None else options.classes
    return replace(fit_stream(planner, X, replace(options, classes=classes, vectorizer=None)), encoder=encoder)


def _points_of_fit(
    planner: Planner, state: State | None, data: Given, options: FitOptions
) -> tuple[Points, Encoder | None]:
    """Return the points of a fit to arrays, and what has made rows of raw inputs."""
    n_texts = 0
    if options.class_text is not None:
        if state is not None or options.checkpoint is not None:
            name = "warm_start is True" if state is not None else "checkpoint is given"
            raise ValueError(f"{name}, which cannot be with class_text; leave out one of them")
        data, encoder, n_texts = encoded_with_classes(data, options.vectorizer, options.class_text)
    else:
        data, encoder = encoded(data, options.vectorizer, None if state is None else state.encoder)
    weights = planner.parameters["class_weight"]
    points = points_of(planner.caller, *data, weights, several=planner.several, encoder=encoder)
    if n_texts:  # but for those of classes whose weight is 0
        rows = np.arange(points.n_given) if points.rows is None else points.rows
        points = replace(points, n_texts=int(np.sum(rows >= points.n_given - n_texts)))
    if options.checkpoint is not None:  # who keeps half a training will want to save the whole
        check_labels_can_be_saved(points.classes)
    return points, encoder
