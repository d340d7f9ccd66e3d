"""`partial_fit`: training of a fitted or a new model goes on with new rows, which may bring new classes.

A call visits its rows once, or n_passes times, by the steps that `fit` would make; where `fit` makes passes over all
rows ("lbfgs"), it makes those of "implicit". n_passes="auto" is 1, but 2 of weights on pairs, alone or beside
embeddings, and 8 of a MarginClassifier in a stream that began without `fit`, whose first rows would have too little of
the passes that `fit` makes; between the fits of a stream it is 1 (bench/figures/streams.md).

In a stream that began without `fit` the model keeps its rows and is fitted to all of them anew as they become more:
at 2,000 rows, and then whenever they have grown by the share n / 50,000, but by at least .07 and at most .5, n being
the rows of the last fit. Such a call makes a `fit`, with all that it chooses: of rows that come in one call the model
is that of `fit`. All of these fits take as long as three to nine of the last one. The first takes the place of the
stream if the last eighth of the rows is predicted better by a fit to the others than by a stream of them. No rows are
kept

- of augment-and-reduce, and of linear models where dense rows times features times classes are more than 1e8;
- beyond 100,000 rows or 128 MB, or `n_kept` rows instead;
- where `max_memory` is given, the model's learning_rate is set, or a call has n_passes, learning_rate, half_life or
  new_classes.

A fitted stream whose rows are no longer kept goes on from its last fit, with Adagrad's sums as one pass of that would
have made them, so that its steps stay long; a linear model of dense rows goes on from a stream of the rows kept, whose
steps fall by curvature. `n_kept=0` is a stream without fits.

The rows are in a pickle of the model, but not in a file of `save`: a model that is read goes on without them.

A call begins as follows.

- Weights of new classes are 0, or what `new_classes` says. Their intercepts follow from the counts of the classes: they
  are on the line that fits the old intercepts best over the logarithms of the old counts. New features may come by
  `new_features`: see `help(manyclass.training.incremental)`.
- Parameters that were left open are what the first training made of them, as `resolved_params_` has it.
- Where `learning_rate` is open, the steps of a linear model of one label a row fall by the curvature of the rows so
  far: that of weight (k, j) is 1 / (1 / eta + S_j C_k / (1.25 n)), S_j being the sum of the squares of feature j over
  the n rows so far, those of `fit` included, and C_k the sum of p_k (1 - p_k). It is the variance of an online Laplace
  approximation with the prior variance eta. So nobody has to say how many rows will come: steps fall as 1 / n, those of
  rare features and of new classes stay long, and a call is worth as much as its rows are beside all before. With
  alpha > 0, whose ridge shrinks all features alike, S_j is their mean. A first call takes eta = 30 / (median of |x|^2
  + 1) for solver="implicit", augment-and-reduce's included; `SoftmaxClassifier` shrinks it where later rows ask for
  it: see `help(manyclass.training.incremental)`. A call of one pass over more rows than came before is trained in
  stretches, which double the rows, so that they do.
- Where a step size was set, for other models, and between the fits of a stream, the step size follows the schedule of
  `fit`, which is wound back by the share of new rows: to its beginning where there are as many as the model has seen,
  and hardly at all for a few. The passes of the call then go through what is left of the schedule; of weights on pairs,
  and of embeddings beside them, they go through all of it. A stream that began without `fit` keeps the first step size.
- u of the double sum begins at its exact value at a row's first visit, for which all classes are scored, where there
  are at most 256. The gradient then has no bias, so that calls whose steps fall end at the optimum as `fit` does. Where
  there are more classes, and for several labels, u begins at the logarithm of the sum that the visit's own draw
  estimates. A row that is visited once then has a gradient whose bias is O(1 / m) for m drawn classes: calls on the
  same rows end .001 nats above the optimum with 64 of 400 classes drawn, and .1 with 16 of them. Further passes over
  the rows of a call (`n_passes`) mend it.

Training by minibatches and on pairs (several labels, embeddings, searches, margins) keeps more:

- Adagrad's sums go on; the sums of a new class, or of a new pair of a feature and a class, begin at 0.
- A file holds these sums, so that a model that is read learns on as the one that was saved. The sums of pairs make the
  file half as long again, and `compress` leaves them out.
- A pair of the new rows gets a weight if `min_count` of these rows have it; weights that were pruned come back so.
- A search makes its index anew in each call, from the weights that are there; only a first call warms up.
- The two parts of a hybrid are trained apart, by the losses and on the scales that each had in `fit`: in the sum, the
  loss of one part alone would undo its scale. The scales of the sum stay those of the fit, which found them on held-out
  rows.
- In a stream without `fit` the rows of each call tell the scales before they are trained on: those of a hybrid, of
  margins in a SoftmaxClassifier and, where `learning_rate` is open, the one of embeddings. In a first call, some of its
  rows do so for the others. What earlier rows have told is kept, as a normal distribution of each scale, and counts as
  up to 1,000 rows. Before the first row a scale is 0, so that a model of few rows begins near uniform probabilities.

`half_life` makes old rows fade, for data that drift: see `help(manyclass.training.incremental)`.
Instead of arrays, X may be a stream of parts: see `help(manyclass.fitting.streams)`.
Threads that train one estimator take turns, a part of a stream at a time. Predictions wait for no training: the model
answers them that is there when they begin.

A row's number among all rows that the model has seen names its random draws. So a stream in parts gives bit for bit the
model that all rows give at once, where nothing depends on the rows to come: with all classes named, alpha=0, a step
size given as a number, shuffle=False, a sampler that does not count frequencies, and parts that end where batches do.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.checks import check_number
from manyclass.fitting.points import is_indicator
from manyclass.fitting.runs import is_composed
from manyclass.labels import as_labels, check_targets, find_positions, sorted_classes
from manyclass.parts import Parameters, Part
from manyclass.training.incremental import Call, check_starts
from manyclass.training.state import Points, Starts, State


def checked_call(
    n_passes: int | Literal["auto"],
    learning_rate: float | None,
    half_life: float | None,
    new_classes: Starts | None,
    n_kept: int | Literal["auto"] = "auto",
) -> Call:
    """Return what a call of `partial_fit` was given, checked."""
    passes, kept = _number_or_auto("n_passes", n_passes, low=1), _number_or_auto("n_kept", n_kept, low=0)
    for name, value in (("learning_rate", learning_rate), ("half_life", half_life)):
        if value is not None:
            check_number(name, value, low=0, open_low=True)
    check_starts(new_classes)
    own: dict[str, Any] = {"open_passes": passes is None, "n_kept": kept}
    return Call(1 if passes is None else passes, learning_rate, half_life, new_classes, **own)


def _number_or_auto(name: str, value: Any, *, low: int) -> int | None:
    """Return a whole number, checked; None for "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"{name} is {value!r}; it must be a number or 'auto'")
        return None
    check_number(name, value, low=low, integer=True)
    return int(value)


def check_warm(state: State, points: Points, parameters: Parameters) -> None:
    """Check a fit that begins at a model which is not linear of one label a row.

    Raises
    ------
    ValueError
        If the data are not of the kind of the last fit, or lack one of its classes.
    """
    check_features(state, points)
    if points.several != state.several:
        told = ("one label a row", "several labels a row")
        raise ValueError(
            f"warm_start is True and y has {told[points.several]}; the last fit had {told[state.several]}: set it to "
            "False"
        )
    gone = state.classes[find_positions(state.classes, points.classes, "y") < 0]
    if len(gone):
        raise ValueError(
            f"warm_start is True and y lacks {gone.tolist()[0]!r}, a class of the last fit; this model keeps its "
            "classes: use partial_fit, or set warm_start to False"
        )
    model = parameters["model"]
    prune = model.get_params().get("prune", 0) if isinstance(model, Part) else 0
    if prune > 0:
        raise ValueError(f"prune is {prune!r}; a fit that begins warm drops no weights: set warm_start to False")


def check_features(state: State, points: Points) -> None:
    """Raise ValueError where a fit that begins warm has another number of features than the model."""
    if state.features.n != points.x.shape[1]:
        raise ValueError(
            f"warm_start is True and X has {points.x.shape[1]} features; the last fit had {state.features.n}"
        )


def check_can_go_on(parameters: Parameters) -> None:
    """Refuse parameters that need all rows at once."""
    if is_composed(parameters):
        name = "calibration" if parameters["n_models"] in (1, "auto") else "n_models"
        raise ValueError(
            f"{name} is {parameters[name]!r}; partial_fit trains one model and holds no rows out: leave it "
            f"{1 if name == 'n_models' else None!r}"
        )
    if parameters.get("early_stopping", False):
        raise ValueError("early_stopping is True; partial_fit holds no rows out: set it to False")
    weight = parameters["class_weight"]
    if isinstance(weight, str):
        raise ValueError(
            f"class_weight is {weight!r}, which counts all rows; with partial_fit it must be None or a dict"
        )


def known_classes(state: State | None, classes: ArrayLike | None) -> NDArray[Any] | None:
    """The classes of a call that y need not have; None where nothing tells any."""
    own = None if state is None else state.classes
    if classes is None:
        return own
    check_targets(classes, several=False)
    named = as_labels(classes)
    if named.ndim != 1 or not len(named):
        raise ValueError(f"classes has shape {np.shape(classes)}; it must be a list of one or more labels")
    return sorted_classes(named, own, "classes")[0]


def check_same_kind(state: State, y: Any) -> None:
    """Refuse several labels a row for a model of one, and the reverse."""
    check_targets(y)
    several = is_indicator(y)
    if state.several != several:
        told = ("one label a row", "an indicator matrix of labels")
        raise ValueError(f"y has {told[several]}; the model was trained with {told[state.several]}")


def check_columns(points: Points, classes: ArrayLike | None) -> None:
    """Refuse names of an indicator matrix's columns that are not sorted."""
    if points.several and classes is not None and as_labels(classes).tolist() != points.classes.tolist():
        raise ValueError(
            "classes are not sorted or not distinct; with an indicator matrix y they are the labels of its columns, "
            "in the order of classes_"
        )
