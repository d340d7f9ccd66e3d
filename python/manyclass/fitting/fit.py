"""`fit` and `partial_fit`, as estimators ask for them: of arrays, of texts with those of classes, or part by part.

By `partial_fit` training of a fitted or a new model goes on with new rows, which may bring new classes.

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
  `new_features`: see `manyclass.training.incremental`.
- Parameters that were left open are what the first training made of them, as `resolved_params_` has it.
- Where `learning_rate` is open, the steps of a linear model of one label a row fall by the curvature of the rows so
  far: that of weight (k, j) is 1 / (1 / eta + S_j C_k / (1.25 n)), S_j being the sum of the squares of feature j over
  the n rows so far, those of `fit` included, and C_k the sum of p_k (1 - p_k). It is the variance of an online Laplace
  approximation with the prior variance eta. So nobody has to say how many rows will come: steps fall as 1 / n, those of
  rare features and of new classes stay long, and a call is worth as much as its rows are beside all before. With
  alpha > 0, whose ridge shrinks all features alike, S_j is their mean. A first call takes eta = 30 / (median of |x|^2
  + 1) for solver="implicit", augment-and-reduce's included; `SoftmaxClassifier` shrinks it where later rows ask for
  it: see `manyclass.training.incremental`. A call of one pass over more rows than came before is trained in
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

`half_life` makes old rows fade, for data that drift: see `manyclass.training.incremental`.
Instead of arrays, X may be a stream of parts: see `manyclass.fitting.streams`.
Threads that train one estimator take turns, a part of a stream at a time. Predictions wait for no training: the model
answers them that is there when they begin.

A row's number among all rows that the model has seen names its random draws. So a stream in parts gives bit for bit the
model that all rows give at once, where nothing depends on the rows to come: with all classes named, alpha=0, a step
size given as a number, shuffle=False, a sampler that does not count frequencies, and parts that end where batches do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from inspect import Parameter, getdoc, signature
from textwrap import indent
from typing import Any, Literal, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import bytes_of, check_choice, check_number, seed_from, shown
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts
from manyclass.datasets.stream import Stream
from manyclass.figures import FIGURES
from manyclass.fitting.planner import PlannedCall, Planner, fit_runs, refit, with_report_of
from manyclass.fitting.points import (
    Known,
    encoded,
    encoded_again,
    encoded_with_classes,
    evaluated_rows,
    grouped,
)
from manyclass.fitting.streams import Bounded, PartByPart, Rows, encoded_stream, is_part, rows_of_stream, within_memory
from manyclass.labels import as_labels, check_targets, is_indicator, sorted_classes
from manyclass.parts import Part, check_open
from manyclass.protocols import Encoder
from manyclass.training.checkpoint import EVERY, Checkpoints
from manyclass.training.core_training import Callback, First, Watch
from manyclass.training.incremental import Call, KeptRows
from manyclass.training.passes import progress_bar, warn_user
from manyclass.training.plan import AnyPlan, BatchesPlan, PointsPlan
from manyclass.training.state import ADAGRAD, Features, Points, Starts, State
from manyclass.training.train import asked_start, train
from manyclass.weights.hashing import FeatureHash, UsedColumns
from manyclass.weights.saved_labels import encode_labels
from manyclass.weights.tensor_file import PathLike
from manyclass.weights.weights import Weights

SORTED = 16  # rows of one label, of several classes, that tell that a stream is sorted


def fit(planner: Planner, state: State | None, data: Rows, options: Mapping[str, Any]) -> State:
    """Return the state of a fit.

    Parameters
    ----------
    planner : Planner
    state : State or None
        The model of the last fit, with warm_start.
    data : tuple
        X, y and sample_weight.
    options : mapping of str to object
        Arguments of `fit` that were given, those of `SharedOptions` and others: `class_text`, `eval_set`, `candidates`,
        `coef_init` and `intercept_init`.

    Raises
    ------
    ValueError
        For what `fit` of an estimator documents.
    """
    eval_set, checkpoint = options.get("eval_set"), options.get("checkpoint")
    watch = Watch.of(options.get("callback"), options.get("max_seconds"))
    if eval_set is not None and not planner.parameters["early_stopping"]:
        raise ValueError("eval_set is given, whose rows say when to stop; set early_stopping=True")
    if eval_set is not None and checkpoint is not None:
        raise ValueError("eval_set and checkpoint are given; at most one of them can be")
    planner.check()
    X, y, sample_weight = data
    beside: Any = {name: options.get(name) for name in ("candidates", "coef_init", "intercept_init")}
    if is_stream(X, y):
        more = {name: options.get(name) for name in ("groups", "callback", "checkpoint")}
        refuse(FOR_ARRAYS, sample_weight=sample_weight, **beside, **more)
        return fit_stream(planner, X, options, watch.until)
    refuse(FOR_STREAMS, classes=options.get("classes"))
    if {"checkpoint", "every", "resume"} & options.keys():
        checkpoints = Checkpoints.of(checkpoint, options.get("every", EVERY), options.get("resume", False))
        watch = replace(watch, checkpoints=checkpoints, may_retry=watch.may_retry and checkpoints is None)
    if options.get("max_memory") is not None:
        watch = replace(watch, max_bytes=bytes_of("max_memory", options["max_memory"]))
    points, encoder = _points_of_fit(planner, state, data, options, watch.max_bytes)
    start, arrays = None, (beside["coef_init"], beside["intercept_init"])
    if any(array is not None for array in arrays):  # a closed form is that of the softmax
        shape, fit_intercept = (points.n_classes, points.x.shape[1]), planner.parameters["fit_intercept"]
        start = asked_start(*arrays, shape, fit_intercept=fit_intercept, has_closed_form=planner.has_grid)
    evaluated = None if eval_set is None else evaluated_rows(planner.caller, points, encoder, eval_set)
    first = First(state and with_columns_of(state, points), start, beside["candidates"], evaluated)
    if watch.checkpoints is not None:
        planner = _with_seed(planner, watch, points, beside)
    return replace(planner.labelled(*fit_runs(planner, points, watch, first)), encoder=encoder)


def _with_seed(planner: Planner, watch: Watch, points: Points, beside: Mapping[str, Any]) -> Planner:
    """Return the planner with the seed of the checkpoints of a fit, which are told its data and other arguments."""
    assert watch.checkpoints is not None
    labels = np.concatenate([points.labels.indptr, points.labels.ids])
    is_limited = bool(np.isfinite(watch.until))  # by which "auto" tries less
    arguments: dict[str, Any] = {"X": points.x, "y": labels, "limit of seconds": is_limited, "classes": points.classes}
    arguments |= {"sample_weight": points.weights} | ({} if points.groups is None else {"groups": points.groups})
    arguments |= {name: None if value is None else np.asarray(value) for name, value in beside.items()}
    return planner.changed(random_state=watch.checkpoints.seed(planner.parameters, arguments))


def _points_of_fit(
    planner: Planner, state: State | None, data: Rows, options: Mapping[str, Any], most_bytes: float
) -> tuple[Points, Encoder | None]:
    """Return the points of a fit to arrays, and what has made rows of raw inputs."""
    n_texts, class_text, vectorizer = 0, options.get("class_text"), options.get("vectorizer")
    raw_rows = (*data, options.get("groups"))
    if class_text is not None:
        if state is not None or options.get("checkpoint") is not None:
            name = "warm_start is True" if state is not None else "checkpoint is given"
            raise ValueError(f"{name}, which cannot be with class_text; leave out one of them")
        (X, y, sample_weight, groups), encoder, n_texts = encoded_with_classes(raw_rows, vectorizer, class_text)
    else:
        before = None if state is None else state.encoder
        (X, y, sample_weight, groups), encoder = encoded(raw_rows, vectorizer, before)
    # Callbacks and first weights have all columns.
    all_columns = any(options.get(name) is not None for name in ("callback", "coef_init", "intercept_init"))
    all_columns = all_columns or encoder is not None
    more: Any = {"encoder": encoder, "state": state, "all_columns": all_columns, "most_bytes": most_bytes}
    points = planner.points(X, y, sample_weight, **more)
    points = grouped(points, groups, points.n_given - n_texts, by_user=options.get("groups") is None)
    if n_texts:  # but for those of classes whose weight is 0
        rows = np.arange(points.n_given) if points.rows is None else points.rows
        points = replace(points, n_texts=int(np.sum(rows >= points.n_given - n_texts)))
    if options.get("checkpoint") is not None:  # who keeps half a training will want to save the whole
        encode_labels("y", points.classes)  # raises for those that no file can hold
    return points, encoder


# Streams


def fit_stream(planner: Planner, X: Any, options: Mapping[str, Any], until: float) -> State:
    """Return the state of a model fitted to a stream.

    Parameters
    ----------
    planner : Planner
        Its parameters are checked.
    X : Stream or other iterable of parts
    options : mapping of str to object
    """
    refuse("for texts at once, and not for a stream", class_text=options.get("class_text"))
    parameters, classes = planner.parameters, options.get("classes")
    check_can_go_on(planner)
    for name, value in {"warm_start": True, "solver": "lbfgs", "learning_rate": "grid"}.items():
        if getattr(parameters[name], "name", parameters[name]) == value:
            raise ValueError(f"{name} is {value!r}, which needs all rows at once; with a stream choose another")
    X, encoder = encoded_stream(X, vectorizer := options.get("vectorizer"))
    if encoder is not None:
        classes, vectorizer = X.label_names if classes is None else classes, None
    if not isinstance(parameters["random_state"], int | np.integer):  # which parts would draw anew
        seed = seed_from(parameters["random_state"]) % 2**32  # which is what scikit-learn takes
        parameters = parameters.changed(random_state=seed)
    once = not isinstance(X, Stream) and iter(X) is X
    if once and (max_iter := parameters["max_iter"]) not in ("auto", 1):
        reason = f"it is one pass, and not max_iter={max_iter}; give a manyclass.datasets.Stream, or set max_iter=1"
        warn_user(f"X is an iterator, which is read once: {reason}", UserWarning)
    if once:
        parameters = parameters.changed(max_iter=1)
    averages = parameters["max_iter"] != 1 and _averaging(parameters["solver"], "suffix") not in ("none", "auto")
    bounded = within_memory(parameters, None, X, classes, options.get("max_memory"), copies=3 if averages else 2)
    carried = None
    if bounded.keeps and not once:  # with Gumbel noise q is known but for one number, as u is
        carried = _core.CarriedRows(rows_of_stream(X), 1 + (parameters.get("noise", "gumbel") != "gumbel"))
    planner = replace(planner, parameters=parameters)
    state = _StreamFit(planner, bounded, carried, classes, vectorizer).run(until)
    return state if encoder is None else replace(state, encoder=encoder)


def _averaging(solver: str | Part, default: str = "none") -> str:
    """How a solver averages weights over passes; one that is named leaves that open."""
    if isinstance(solver, str):
        return default if solver == "auto" else "none"
    return str(solver.get_params().get("averaging", "none"))


class _StreamFit:
    """The passes of a fit.

    Parameters
    ----------
    planner : Planner
    bounded : Bounded
        The stream.
    carried : _core.CarriedRows or None
        What rows carry from pass to pass.
    classes : array-like or None
    vectorizer : Encoder or None
    """

    def __init__(self, planner: Planner, bounded: Bounded, carried: Any, classes: Any, vectorizer: Any) -> None:
        self._planner, self._bounded, self._carried = planner, bounded, carried
        self._beside = {"classes": classes, "hashing": bounded.hashing, "vectorizer": vectorizer}
        self._state: State | None = None
        self._mean: Weights | None = None

    def run(self, until: float) -> State:
        """Make the passes, and return the model."""
        n_rows, curve = rows_of_stream(self._bounded.stream), list[float]()
        with closing(progress_bar(n_rows, unit="row", shown=bool(self._planner.parameters["verbose"]))) as bar:

            def step(part: Rows, numbers: NDArray[np.int64] | None) -> State:
                # Trials are told; a bar for each part would be too much.
                planner = self._planner if self._state is None else self._planner.changed(verbose=0)
                kept_rows = None if self._carried is None or numbers is None else KeptRows(self._carried, numbers)
                call = Call(fit_pass=len(curve), n_visits=training.n_visits, kept_rows=kept_rows)
                self._state = state = go_on(planner, self._state, part, call, **self._beside)
                training.heading = f"pass {len(curve) + 1} of {self._n_passes}, "
                bar.total = n_rows * self._n_passes
                return state

            training = PartByPart(self._bounded, step, bar, until)
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
        chosen = {} if self._state is None else self._state.fit_report.params
        return chosen.get(name, self._planner.parameters[name])

    @property
    def _n_passes(self) -> int:
        """Passes that are to be made; 1 as long as that is open."""
        max_iter = self._used("max_iter")
        return 1 if max_iter == "auto" else int(max_iter)

    def _after_pass(self, n_iter: int) -> None:
        assert self._state is not None
        if n_iter == 1:  # what follows predicts u, and goes by the counts of all rows
            self._state = _as_after_fit(self._state)
        averaging, n_passes, weights = _averaging(self._used("solver")), self._n_passes, self._state.weights
        n_before = n_iter - 1 - (n_passes // 2 if averaging == "suffix" else 0)
        if averaging not in ("none", "auto") and n_passes > 1 and n_before >= 0 and weights.is_linear:
            self._mean = weights.copy() if self._mean is None else self._mean.add_to_mean(weights, n_before)


def _as_after_fit(state: State) -> State:
    """A state whose rows so far were those of a fit."""
    return replace(state, history=replace(state.history, n_fit=state.history.n_points))


# Calls of `partial_fit`


def go_on(
    planner: Planner,
    state: State | None,
    data: Rows,
    call: Call,
    classes: ArrayLike | None = None,
    new_features: NewFeatures = "error",
    hashing: FeatureHash | None = None,
    vectorizer: Encoder | None = None,
) -> State:
    """Return the state after a call of `partial_fit`, or on a part of a stream that `fit` goes through.

    Parameters
    ----------
    planner : Planner
    state : State or None
        What it goes on from.
    data : tuple
        X, y and sample_weight.
    call : Call
    classes : array-like or None
        Labels of the classes that may come.
    new_features : {"error", "grow"}
        What becomes of features more than the model has.
    hashing : FeatureHash or None
        Of the features of a stream that begins.
    vectorizer : Encoder or None
        What makes rows of the texts of a stream that `fit` begins; None: `TextVectorizer()`. Its terms are those of
        the first part.
    """
    planner.check()
    if state is not None:
        state.weights.refuse_compressed("partial_fit")
    check_can_go_on(planner)
    if planner.resolved(state).parameters["learning_rate"] == "grid":
        raise ValueError("learning_rate is 'grid', which needs all rows; for partial_fit set a number, or 'auto'")
    if state is None and call.fit_pass is not None:
        (X, y, sample_weight, groups), encoder = encoded((*data, None), vectorizer, None)
    else:
        before = None if state is None else state.encoder
        (X, y, sample_weight, groups), encoder = encoded_again((*data, None), before)
    if state is not None:
        if planner.several:
            check_targets(y)
            if (several := is_indicator(y)) != state.several:
                kinds = ("one label a row", "an indicator matrix of labels")
                raise ValueError(f"y has {kinds[several]}; the model was trained with {kinds[state.several]}")
        grows = encoder is not None and encoder is not state.encoder
        state = widened(state, X, "grow" if grows else new_features, planner.caller.name)
    known = Known(known_classes(state, classes), state, hashing)
    points = planner.points(X, y, sample_weight, known=known, encoder=encoder, all_columns=encoder is not None)
    state = with_columns_of(state, points)
    points = grouped(points, groups, points.n_given, by_user=True)
    if points.several and classes is not None and as_labels(classes).tolist() != points.classes.tolist():
        raise ValueError("classes are not sorted or not distinct, as the columns of an indicator matrix y must be")
    return replace(_after_call(planner, state, points, call), encoder=encoder)


def _after_call(planner: Planner, state: State | None, points: Points, call: Call) -> State:
    """Train on the points of a call or, where it is time to, fit to all rows that are kept."""
    planned, seen, _ = planned_call = planner.plan_call(state, points, call)
    plan = planned.plan
    if state is None:
        costs.check_memory(Facts.of(seen.x, points.n_classes), plan)
    calls = rows_to_keep(state, points, plan, call) if planner.keeps_rows(call) else ()
    if not calls:
        _tell_order(points, state)
    if is_time_to_fit(calls):
        rows = Points.joined(calls)
        calls = (rows,)
        if state is None or state.history.n_fit > 0 or _fits_better(planner, rows, call):
            return replace(refit(planner, rows), calls=calls)
    after_fit = state is not None and state.history.n_fit > 0
    if state is not None and state.calls and not calls and after_fit:
        dense = isinstance(plan, PointsPlan) and isinstance(points.x, np.ndarray)
        if dense and call.is_open and planner.keeps_rows(call):
            # Steps by curvature go on from those of all rows, and lead farther there than the schedule of a fit.
            state = _without_fits(planner, Points.joined(state.calls), call)
            planned_call = planner.plan_call(state, points, call)
        else:
            state = without_rows_kept(state, plan)
        after_fit = state.history.n_fit > 0
    if call.open_passes:
        passes = planner.passes_of_call(planned_call[0].plan, after_fit=after_fit)
        call = replace(call, n_passes=1 if calls and after_fit else passes)  # of rows that will be fitted to soon
    return replace(_trained(planner, state, points, planned_call, call), calls=calls)


def _tell_order(points: Points, state: State | None) -> None:
    """Warn of a part of a stream, whose rows are not kept, that looks as if all rows were sorted by label.

    Rows of a class that is new are no sign of it.
    """
    labels = points.labels.ids
    if points.n_classes <= 2 or len(labels) < SORTED or np.any(labels != labels[0]):
        return
    label = points.classes[labels[0]]
    if state is None or label in state.classes.tolist():
        rule = "a stream that is sorted by label ends far from the fit to its rows: shuffle them"
        warn_user(f"all {len(labels)} rows of a part have the label {shown(label)}; {rule}", UserWarning)


def _trained(planner: Planner, state: State | None, points: Points, planned_call: PlannedCall, call: Call) -> State:
    """Train as was planned."""
    planned, seen, scaling = planned_call
    after = train(state, seen, planned.plan, call=call, scaling=scaling)
    if state is None:
        after = with_report_of(planned, after)
    return planner.labelled(after, points, state)


def _without_fits(planner: Planner, points: Points, call: Call) -> State:
    """Return the stream of points, without a fit."""
    planned_call = planner.plan_call(None, points, call)
    call = replace(call, n_passes=planner.passes_of_call(planned_call[0].plan, after_fit=False))
    return _trained(planner, None, points, planned_call, call)


def _fits_better(planner: Planner, points: Points, call: Call) -> bool:
    """Whether a fit to rows of a stream predicts later ones better than the stream does."""
    learnt, last = split_to_compare(points)
    if not len(last.labels):
        return False
    return planner.loss(refit(planner, learnt), last) < planner.loss(_without_fits(planner, learnt, call), last)


# Rows that are kept


def rows_to_keep(state: State | None, points: Points, plan: AnyPlan, call: Call) -> tuple[Points, ...]:
    """Return the rows of a stream so far, by call; none where they are too many, or some of them are unknown."""
    before = () if state is None else state.calls
    unknown = state is not None and state.history.n_points > 0 and not before
    calls = (*before, points)
    n_rows = sum(len(rows.labels) for rows in calls)
    if unknown or not call.is_open or n_rows > (FIGURES.MOST_KEPT if call.n_kept is None else call.n_kept):
        return ()
    if call.n_kept is None and sum(rows.n_bytes for rows in calls) > FIGURES.MOST_KEPT_BYTES:
        return ()
    linear = isinstance(plan, PointsPlan) and isinstance(points.x, np.ndarray)
    few = n_rows < FIGURES.FEW_OF_A_CLASS * points.n_classes
    most = FIGURES.MOST_DENSE_OF_FEW if few else FIGURES.MOST_DENSE
    if linear and call.n_kept is None and n_rows * points.x.shape[1] * points.n_classes > most:
        return ()
    return (*before, replace(points, x=points.x.copy()))  # whose memory a caller may use again


def is_time_to_fit(calls: tuple[Points, ...]) -> bool:
    """Return whether rows are many beside those of the last fit, or of the last time that one was tried."""
    n_rows = sum(len(rows.labels) for rows in calls)
    if not calls or n_rows < FIGURES.FEWEST_TO_FIT:
        return False
    n_before = len(calls[0].labels)
    more = np.clip(n_before / FIGURES.ROWS_OF_DOUBLE, FIGURES.LEAST_MORE, FIGURES.MOST_MORE)
    return len(calls) == 1 or n_rows >= (1 + more) * n_before


def split_to_compare(points: Points) -> tuple[Points, Points]:
    """Return the rows that a fit and a stream learn to be compared, and the last ones of known classes, which tell."""
    first = len(points.labels) - len(points.labels) // FIGURES.TELLING
    learnt, last = points.some(np.arange(first)), np.arange(first, len(points.labels))
    known = np.zeros(points.n_classes, dtype=bool)
    known[learnt.labels.ids] = True
    labels = points.labels.of(last)
    return learnt, points.some(last[np.minimum.reduceat(known[labels.ids], labels.indptr[:-1])])


def without_rows_kept(state: State, plan: AnyPlan) -> State:
    """Return a fitted state that goes on without the rows kept: Adagrad's sums are as after one pass, not all of a fit.

    By the sums of all passes later rows would move it too little: the last two fifths of esco-titles, whose first
    18,000 rows were fitted, end it at 1.12 nats, at 1.06 by those of one pass. Margins go on as a stream that was never
    fitted, by its passes and its first step: .250 errors on 20news after a fit of 4,500 rows, where the steps and the
    one pass of a call after a fit have .296.
    """
    squares, history = state.squares, state.history
    if squares is not None and len(state.curve) > 1:
        squares = squares.times(1 / len(state.curve), ADAGRAD)
    if isinstance(plan, BatchesPlan) and not plan.finds_scale:
        history = replace(history, n_fit=0)
    return replace(state, calls=(), squares=squares, history=history)


# What a call is given


def checked_call(
    n_passes: int | Literal["auto"],
    learning_rate: float | None,
    half_life: float | None,
    new_classes: Starts | None,
    n_kept: int | Literal["auto"] = "auto",
) -> Call:
    """Return what a call of `partial_fit` was given, checked."""
    check_open("n_passes", n_passes, low=1, integer=True)
    check_open("n_kept", n_kept, low=0, integer=True)
    for name, value in (("learning_rate", learning_rate), ("half_life", half_life)):
        if value is not None:
            check_number(name, value, low=0, open_low=True)
    if not isinstance(new_classes, Mapping | None):
        kind = type(new_classes).__name__
        raise TypeError(f"new_classes is a {kind}; it must be a mapping of labels to vectors, or None")
    is_open, most_rows = n_passes == "auto", None if n_kept == "auto" else int(n_kept)
    n = 1 if n_passes == "auto" else int(n_passes)
    return Call(n, learning_rate, half_life, new_classes, open_passes=is_open, n_kept=most_rows)


def check_can_go_on(planner: Planner) -> None:
    """Refuse parameters that need all rows at once."""
    parameters = planner.parameters
    if planner.is_composed:
        name = "calibration" if parameters["n_models"] in (1, "auto") else "n_models"
        raise ValueError(f"{name} is {parameters[name]!r}; partial_fit trains one model and holds no rows out")
    if parameters.get("early_stopping", False):
        raise ValueError("early_stopping is True; partial_fit holds no rows out: set it to False")
    weight = parameters["class_weight"]
    if isinstance(weight, str):
        raise ValueError(f"class_weight is {weight!r}, which counts all rows; it must be None or a dict")


def known_classes(state: State | None, classes: ArrayLike | None) -> NDArray[Any] | None:
    """The classes of a call that y need not have; None where nothing tells any."""
    before = None if state is None else state.classes
    if classes is None:
        return before
    check_targets(classes, several=False)
    named = as_labels(classes)
    if named.ndim != 1 or not len(named):
        raise ValueError(f"classes has shape {np.shape(classes)}; it must be a list of one or more labels")
    return sorted_classes(named, before, "classes")[0]


def is_stream(X: Any, y: Any) -> bool:
    """Whether X holds its labels, in parts; raises ValueError for a `Stream` beside a y."""
    if isinstance(X, Stream) and y is not None:
        raise ValueError("y is given beside a Stream, whose parts have their labels; leave it None")
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, str | bytes | Mapping):
        return False
    if isinstance(X, Sequence):
        return len(X) > 0 and isinstance(X[0], tuple) and is_part(X[0])
    return isinstance(X, Iterable)


FOR_ARRAYS = "for arrays; a part of a stream is (X, y) or (X, y, sample_weight)"


FOR_STREAMS = "for a stream; X and y are arrays: manyclass.datasets.Stream(X, y) makes one of them"


def refuse(which: str, **arguments: Any) -> None:
    """Raise ValueError for an argument that is given, `which` saying what it is for."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name} is given, which is {which}")


# What `fit` takes beside the data: its options, and the part of its signature and its text that all classes share


class SharedOptions(TypedDict, total=False):
    """The arguments of `fit` that all classifiers have.

    Parameters
    ----------
    groups : array-like of shape (n_samples,), default=None
        The group of each row, such as its person or typeface, by any labels: wherever rows are held out, to find
        scales, a temperature, a ridge or when to stop, whole groups are. None: histories of one user are a group.
    vectorizer : Encoder, default=None
        What makes rows of texts or of lists of items; the model keeps it.
    classes : array-like, default=None
        All labels, where X is a stream, whose rows max_memory counts: `manyclass.fitting.streams`.
    max_memory : int or str such as "2GiB", default=None
        The most bytes of the model and its training, as predicted; the data and copies of them are not among them.
    callback : callable, default=None
        Called with a `TrainingState` after each pass; it returns True to stop.
    max_seconds : float, default=None
        Seconds after which training stops, even within a pass; what comes before, such as rows made of texts, counts,
        and callbacks within a training do not. A warning says where it stopped, and the model is the one reached so
        far; what makes it whole then takes a few hundredths of a second, or a twentieth of a pass.
    keep : {"best"} or None, default=None
        What Ctrl-C leaves. None: it raises KeyboardInterrupt, and the model is as before. "best": fit ends with the
        best model reached so far, of a stream that of the whole parts so far, and a warning says where; before there is
        any, KeyboardInterrupt is raised.
    checkpoint : path-like, default=None
        The folder of checkpoints: `manyclass.training.checkpoint`.
    every : str such as "10min" or int, default="10min"
        After how long, or how many passes, a checkpoint is written.
    resume : bool, default=False
        Go on from the checkpoint that is there.
    """

    groups: ArrayLike | None
    vectorizer: Encoder | None
    classes: ArrayLike | None
    max_memory: int | str | None
    callback: Callback | None
    max_seconds: float | None
    keep: Literal["best"] | None
    checkpoint: PathLike | None
    every: str | int
    resume: bool


DEFAULTS = {"every": EVERY, "resume": False}  # of others None

Method = TypeVar("Method", bound=Callable[..., Any])


def with_shared_options(fit: Method) -> Method:
    """Give a `fit` that takes `SharedOptions` as keywords each of them in its signature and in its text."""
    bare = signature(fit)
    parameters = [parameter for parameter in bare.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=kind.__forward_arg__)
        for name, kind in SharedOptions.__annotations__.items()
    ]
    fit.__signature__ = bare.replace(parameters=parameters)  # type: ignore[attr-defined]
    text, returns, rest = (fit.__doc__ or "").partition("\n\n        Returns\n")
    shared = (getdoc(SharedOptions) or "").partition("----------\n")[2]
    fit.__doc__ = f"{text}\n{indent(shared, 8 * ' ')}{returns}{rest}"
    return fit


# New features

NewFeatures = Literal["error", "grow"]


def widened(state: State, X: Any, new_features: str, kind: str) -> State:
    """Return the state of a model that takes X where it has more features; `kind` is the name of its class.

    Raises
    ------
    ValueError
        If X has more features and they are not to grow, or names that are not those of before and others.
    """
    check_choice("new_features", new_features, ("error", "grow"))
    shape, n_before = np.shape(X), state.features.n
    if isinstance(state.hashing, FeatureHash) or len(shape) != 2 or shape[1] <= n_before:
        return state
    n = shape[1]
    if new_features == "error":
        expected = f"{kind} is expecting {n_before} features as input"
        raise ValueError(f"X has {n} features, but {expected}; new_features='grow' takes more")
    columns, before = getattr(X, "columns", None), state.features.names
    is_named = columns is not None and all(isinstance(name, str) for name in columns)
    names = np.asarray(columns, dtype=object) if is_named else None
    if before is not None and names is not None and not np.array_equal(names[:n_before], before):
        j = int(np.flatnonzero(names[:n_before] != before)[0])
        raise ValueError(f"feature {j} of X is {names[j]!r}, and {before[j]!r} in the model, whose features come first")
    wider = state if state.hashing is not None else state.widened(n)
    return replace(wider, features=Features(n, None if before is None else names))  # of some would say nothing


def with_columns_of(state: State | None, points: Points) -> State | None:
    """Return a state with weights, which are 0, for columns that points have and no rows before them had."""
    columns = points.hashing
    if state is None or not isinstance(columns, UsedColumns) or columns is state.hashing:
        return state
    return replace(state.widened(columns.n_rows), hashing=columns)
