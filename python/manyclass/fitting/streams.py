"""X as a stream of parts, in `fit` and `partial_fit`: which X is one, and how its parts are read and trained on.

X is a stream, where y is None, if it is a `manyclass.datasets.Stream`; an iterator; another iterable that is no array,
text or mapping; or a list or tuple whose first item is a tuple that begins with a matrix or a list of texts. Its items,
the parts, are (X, y) or (X, y, sample_weight). Every other X is array-like and needs y.

X of a part may be texts, a list of str: `fit` learns the terms of its vectorizer from the first part, so that terms
which only later parts have are left out; with TextVectorizer(n_hash=...) there are none to learn but their weights. Of
files of texts, `Stream(path, format="text")`, it learns the terms of all parts, in a pass of its own.

`partial_fit` makes with each part what it makes of arrays, `n_passes` passes over the part: bit for bit the loop

    for X, y in stream:
        model.partial_fit(X, y, classes=classes)

An error leaves the model as it was after the last whole part. `fit` goes through the stream max_iter times, and an
error leaves the model as it was.

max_memory, such as "2GiB", bounds the memory that either method adds to the process, as below. Where W would not fit,
features are hashed. A model whose features are hashed takes X with any number of columns, also in `partial_fit` and in
predictions.

`fit` from a stream
-------------------

The passes that `fit` makes over arrays are made over parts.
Each pass has the step size that the schedule of `fit` has for it, and visits a part as `partial_fit` does; a model that
"auto" averages is the mean of the weights after the passes of the second half. What differs from `fit` of all rows:

- What "auto" stands for is found on the first part: the solver, "exact" or "implicit" and never "lbfgs", and the step
  size, by trials; alpha is 0, since a part alone would ask for a larger one than all rows. With one label a row,
  model="auto" is linear.
- Features are scaled by the scales of the first part.
- In the first pass, samplers that draw by frequency count the rows so far.
- What a row carries from pass to pass, u of the double sum, is kept in single precision for a `Stream` or a list of
  parts. For other iterables, whose order may change, and where max_memory has no room for it, it is predicted: see
  `manyclass.fitting.fit`.

Parts of any size, of any iterable that can be read again, end as near the optimum as `fit` of arrays does, within .005
nats and with a ridge, too, under these conditions: `learning_rate` and alpha are set, max_iter is the same, `classes`
names all labels, features are not scaled (scaling="none"), labels are not sorted over the rows, and the solver's fit of
arrays itself is near the optimum. Where learning_rate is open it is only as good as the first part is a sample of all
rows. A first part of fewer than 1,000 rows makes no trial and has the step size of the recipe: "exact" and "implicit"
on parts of 100 of 3,000 rows then end .012 and .008 nats higher than on arrays, and "umax" .3.

An iterator can be read once, so that it is one pass: max_iter="auto" is 1 then, and a larger number is told of by a
warning. Rows without a label are left out; labels that come late become classes, and `classes` names them before.
`max_seconds` ends training after the part in which they are over. Other arguments and parameters that need all rows at
once are refused: early_stopping, calibration, n_models, class_weight="balanced", warm_start, solver="lbfgs".

`max_memory`
------------

The bytes that `fit` or `partial_fit` adds to those that the process has, whatever the number of rows:

    bytes = copies * 4 * (features * row of W, and of embeddings) + 64 * features + 64 * classes       the model
          + rows * (3 * window * row of X * 1.5 + 64 * stored values of a row + 128)                   the windows
          + 8 * rows of the stream, in a `fit`                                                          what rows carry
          + 128 MiB                                                                                     all else

copies
    2: a part trains a copy, so that an error leaves the model as it was. 3 where iterates are averaged over passes.
row of W
    Classes, rounded up to 16, of sparse data; with embeddings their length, for features and for classes.
features, classes
    Means and scales of features, counts and orders of classes, in double precision, with what is made to find them.
windows
    One is trained on and one is made, which takes twice its size for a moment. Rows differ in length: their mean is
    that of the first thousand, and half as much is added.
stored values
    What training makes of those of a part: scaled or hashed copies, and the intermediates, in double precision.
what rows carry
    u of the double sum, or two numbers of augment and reduce, in single precision, kept where their number is known and
    they take at most an eighth of the memory, else predicted.
all else
    8 MB of text with its lines, tiles of scores, and what the allocator keeps.

With `max_memory` a stream is read in parts of as many rows as there is room for, up to 2**20, and no more than its own
where these were set. Where the model leaves no room for parts of 16,384 rows, features are hashed (`FeatureHash`) onto
as many rows of W as leave a quarter of what is not "all else" to the windows.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from manyclass import _core
from manyclass.checks import bytes_of, is_texts
from manyclass.datasets.csr import is_sparse
from manyclass.datasets.stream import Stream
from manyclass.datasets.text import TextVectorizer
from manyclass.figures import FIGURES
from manyclass.labels import as_labels, column_numbers, find_positions, sorted_classes
from manyclass.parts import Parameters, part_name
from manyclass.protocols import Encoder
from manyclass.training.passes import Progress, keeping, progress_bar, warn_interrupted, warn_of_clock
from manyclass.training.state import State
from manyclass.weights.hashing import FeatureHash
from manyclass.weights.weights import Weights

Parts = Iterable[tuple[Any, ...]]  # (X, y) or (X, y, sample_weight)
Rows = tuple[Any, Any, ArrayLike | None]  # X, y and sample_weight
Step = Callable[[Rows, NDArray[np.int64] | None], State]
_END = object()


def encoded_stream(X: Any, vectorizer: Encoder | None) -> tuple[Any, Encoder | None]:
    """Return what `fit` sees of a stream of texts, and the vectorizer, which has learnt the terms of all of them.

    Other streams are as they were, with no vectorizer.
    """
    if not isinstance(X, Stream) or X.n_features is not None:
        return X, None
    if not isinstance(vectorizer, TextVectorizer | None):
        raise ValueError(f"X is a stream of texts; vectorizer is {vectorizer!r}, and must be a TextVectorizer")
    fitted_vectorizer = TextVectorizer() if vectorizer is None else clone(vectorizer)
    return X.encoded(fitted_vectorizer), fitted_vectorizer


# Parts


def parts_of(X: Any, n_pass: int = 0) -> Iterator[tuple[int, Rows, NDArray[np.int64] | None]]:
    """Yield the parts of a pass, each checked to be one, with their places, from 1, and the numbers of their rows.

    The numbers are None where rows of X may come in another order in each pass.
    """
    parts: Any = X.read_numbered(n_pass) if isinstance(X, Stream) else iter(X)
    first = 0
    try:
        for place in itertools.count(1):
            with told_of_part(place):
                part: Any = next(parts, _END)
            if part is _END:
                return
            numbers: NDArray[np.int64] | None = None
            if isinstance(X, Stream):
                *part, numbers = part
            if not is_part(part):
                size = f" of {len(part)}" if isinstance(part, tuple | list) else ""
                kind = f"part {place} of X is a {type(part).__name__}{size}"
                raise TypeError(f"{kind}; it must be (X, y) or (X, y, sample_weight), X a matrix or a list of texts")
            last = first + np.shape(part[0])[0]
            numbers = np.arange(first, last) if isinstance(X, Sequence) else numbers
            first = last
            yield place, (part[0], part[1], part[2] if len(part) > 2 else None), numbers
    finally:
        if parts is not X and hasattr(parts, "close"):  # a caller's own iterator stays open
            parts.close()


@contextmanager
def told_of_part(place: int) -> Iterator[None]:
    """Say in an error which part it is of."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"part {place} of the stream: {error}") from error
    except OSError as error:
        error.add_note(f"part {place} of the stream")
        raise


class PartByPart:
    """Training on the parts of a stream, as long as neither Ctrl-C nor the clock ends it.

    Parameters
    ----------
    bounded : Bounded
        The stream.
    step : callable
        Trains on a part, whose rows have these numbers, and returns the state that it reached.
    bar : Progress
    until : float
        Training ends after the part in which it is this time.

    Attributes
    ----------
    ended : bool
        Whether something has ended it.
    n_visits : int
        Rows visited so far.
    heading : str
        What stands before the progress; a step may set it.
    """

    def __init__(self, bounded: Bounded, step: Step, bar: Progress, until: float = np.inf) -> None:
        self._bounded, self._step, self._bar = bounded, step, bar
        self._begin, self._until = time.perf_counter(), until
        self.ended, self.n_visits, self.heading, self._place = False, 0, "", 0

    def make_pass(self, n_pass: int = 0) -> float:
        """Train on each part that has labels; return the mean loss over the rows."""
        losses: list[float] = []
        n_rows: list[int] = []
        try:
            for place, part, numbers in parts_of(self._bounded.stream, n_pass):
                if self.n_visits and time.perf_counter() >= self._until:
                    self.ended = True
                    warn_of_clock(self._in_words())
                    break
                self._place = place
                if is_sparse(part[1]) and part[1].nnz == 0:  # an indicator matrix without a label
                    continue
                self._train(place, part, numbers, losses)
                n_rows.append(np.shape(part[0])[0])
                self.n_visits += n_rows[-1]
                self._bar.set_postfix_str(f"{self.heading}part {place}, loss {losses[-1]:.4f}")
                self._bar.update(n_rows[-1])
        except KeyboardInterrupt:  # the part it came in, whose rows are not counted, changes nothing
            if not self.n_visits:
                raise
            self.ended = True
            warn_interrupted(self._in_words())
        if not n_rows and not self.ended:
            raise ValueError("X has no part with a label; there must be one, and an iterator is read once")
        return float(np.average(losses, weights=n_rows)) if n_rows else np.nan

    def _train(self, place: int, part: Rows, numbers: NDArray[np.int64] | None, losses: list[float]) -> None:
        with told_of_part(place), keeping(None):
            _check_growth(self._bounded.labels, part[1])
            curve = self._step(part, numbers).curve
        losses.append(float(curve[-1]) if len(curve) else np.nan)

    def _in_words(self) -> str:
        seconds = time.perf_counter() - self._begin
        return f"stopped after {seconds:.3g} s in {self.heading}part {self._place} of the stream"


def train_once(bounded: Bounded, step: Step, *, shown: bool) -> None:
    """Train on each part of a stream, with a bar if it is to be shown; an error leaves what the parts before gave."""
    with closing(progress_bar(rows_of_stream(bounded.stream), unit="row", shown=shown)) as bar:
        PartByPart(bounded, step, bar).make_pass()


def rows_of_stream(X: Any) -> int:
    """Return the rows of a pass; 0 where they are unknown."""
    return (X.n_rows or 0) if isinstance(X, Stream) else 0


# Memory


@dataclass(frozen=True)
class Bounded:
    """A stream, and what there is room for.

    Attributes
    ----------
    stream : Stream or other parts
        With as many rows in a part as there is room for.
    hashing : FeatureHash or None
        Of features; None: they are not hashed.
    labels : ndarray or None
        All that may come; None: any.
    keeps : bool
        Whether there is room for what rows carry from pass to pass.
    """

    stream: Any
    hashing: FeatureHash | None = None
    labels: NDArray[Any] | None = None
    keeps: bool = True


def within_memory(
    parameters: Parameters,
    state: State | None,
    X: Any,
    classes: ArrayLike | None,
    max_memory: int | str | None,
    *,
    copies: int = 2,
) -> Bounded:
    """Find what there is room for; without max_memory, all of it.

    Raises
    ------
    ValueError
        If nothing tells the classes before they come, the model's size is not known before, or there is too little
        memory.
    """
    if max_memory is None:
        return Bounded(X)
    n_bytes = bytes_of("max_memory", max_memory)
    if not isinstance(X, Stream):
        raise ValueError(f"max_memory is given, and X a {type(X).__name__}; make it a Stream")
    first = next(parts_of(X.with_rows(FIGURES.ROWS_OF_SIZE)), None)
    if first is None:
        raise ValueError("X has no rows")
    rows_of_first, y, _ = first[1]
    labels = _labels(state, classes, X)
    n_classes = X.n_labels if labels is None else len(labels)
    assert n_classes is not None
    dim = _dim(parameters, state, several=is_sparse(y))
    hashing = state.hashing if state is not None and isinstance(state.hashing, FeatureHash) else None
    n_features = X.n_features if hashing is None else hashing.n_rows
    row, stored = measured(rows_of_first, y)
    shape: dict[str, Any] = {"n_features": n_features, "n_classes": n_classes, "dim": dim, "copies": copies}
    footprint = _core.Footprint(**shape, row=row, stored=stored, window=X.window)
    most = X.rows if X.rows_given else FIGURES.MOST_ROWS_OF_PART // X.window
    for_rows = FIGURES.CARRIED_BYTES * (X.n_rows or 0)
    keeps = 0 < for_rows <= FIGURES.SHARE_CARRIED * n_bytes and n_bytes - for_rows >= footprint.least()
    rows, features = fitted_in(footprint, n_bytes - keeps * for_rows, most, max_memory, may_hash=state is None)
    if features is not None:
        hashing = FeatureHash(features)
    return Bounded(X.with_rows(rows, X.window), hashing, labels, keeps)


def _labels(state: State | None, classes: ArrayLike | None, X: Stream) -> NDArray[Any] | None:
    """All labels that there can be; None: the numbers of the columns of Y."""
    known = None if state is None else state.classes
    if classes is not None:
        return sorted_classes(as_labels(classes), known, "classes")[0]
    if X.n_labels is not None and (known is None or known.dtype.kind in "iu"):  # else names were given to the numbers
        return None if known is None else sorted_classes(column_numbers(X.n_labels), known)[0]
    if known is None:
        raise ValueError("max_memory needs to know the classes before they come; name them all by classes=")
    return known


def _dim(parameters: Parameters, state: State | None, *, several: bool) -> int | None:
    """Length of embeddings, None of a linear model; raises ValueError for models whose size depends on the rows."""
    weights: Weights | None = None if state is None else state.weights
    named = part_name(parameters.get("model", "linear"))
    if weights is None and named == "auto" and several and "smoothing" not in parameters:
        named = "hybrid"  # of a softmax: margins of rows that come part by part are linear
    if named in ("pairs", "hybrid") or (weights is not None and weights.has_pairs):
        raise ValueError(f"max_memory needs a model whose size is known before its rows; it is {named!r}")
    if weights is not None and weights.kind == "phi":
        return weights.n_hidden if weights.embeddings.size else None
    if named == "embedding":
        return FIGURES.EMBEDDED_DIM if parameters["dim"] == "auto" else int(parameters["dim"])
    return None


def _check_growth(allowed: NDArray[Any] | None, y: Any) -> None:
    """Raise ValueError for a part that brings classes which `max_memory` did not count."""
    if allowed is None or is_sparse(y):
        return
    labels = as_labels(y)
    new = labels[find_positions(labels, allowed, "y") < 0]
    if len(new):
        raise ValueError(f"y has the label {new.tolist()[0]!r}; with max_memory, classes must name all that come")


def is_part(item: Any) -> bool:
    """Whether an item of X is a part of a stream: rows and their labels, and weights or not."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        return False
    X = item[0]
    return is_sparse(X) or np.ndim(X) == 2 or (is_texts(X) and not isinstance(X, str))


def measured(X: Any, y: Any) -> tuple[float, float]:
    """Return bytes and stored values of a row, in the mean over the rows of a part."""
    n, stored = max(1, X.shape[0]), X.nnz if is_sparse(X) else X.shape[0] * X.shape[1]
    n_bytes = 8.0 * (stored + X.shape[0]) if is_sparse(X) else 4.0 * stored
    label_bytes = 8.0 * (y.nnz + y.shape[0]) if is_sparse(y) else 8.0 * n
    return (n_bytes + label_bytes) / n, stored / n


def fitted_in(
    footprint: _core.Footprint, n_bytes: float, rows: int, max_memory: int | str, *, may_hash: bool
) -> tuple[int, int | None]:
    """Return the rows of a part, at most `rows`, and how many features there are to be after hashing; None: all.

    Raises
    ------
    ValueError
        If there is too little memory, with `max_memory` and the least that works.
    """
    fit = footprint.within(n_bytes, rows, may_hash)
    if fit is None:
        least = math.ceil(footprint.needed(rows, may_hash) / 2**20)
        size = f"{footprint.n_classes} classes" + ("" if may_hash else f" and {footprint.n_features} features")
        formula = "(help(manyclass.fitting.streams) has the formula)"
        raise ValueError(f"max_memory is {max_memory!r}; {size} need at least {least}MiB {formula}")
    return fit
