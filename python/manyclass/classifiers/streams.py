"""Streams as X of `fit` and `partial_fit`: which X is one, its parts, and how their errors are told.

X is a stream, where y is None, if it is a `manyclass.datasets.Stream`; an iterator; another iterable that is no array,
text or mapping; or a list or tuple whose first item is a tuple that begins with a matrix. Its items, the parts, are
(X, y) or (X, y, sample_weight). Everything else is an array-like X, as ever, and needs y.

`partial_fit` makes with each part what it makes of arrays, `n_passes` passes over the part: bit for bit the loop

    for X, y in stream:
        model.partial_fit(X, y, classes=classes)

An error leaves the model as it was after the last whole part. `fit` goes through the stream max_iter times, and an
error leaves the model as it was: see `help(manyclass.classifiers.fit_stream)`.

max_memory, such as "2GiB", bounds what either adds to the memory of the process: see
`help(manyclass.classifiers.memory)`. Where W would not fit, features are hashed. A model whose features are hashed
takes X of any number of columns, also in `partial_fit` and in predictions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass.choosing import figures
from manyclass.classifiers.memory import CARRIED, FOR_CARRIED, MOST_ROWS, Footprint, bytes_from, fitted_in, measured
from manyclass.classifiers.partial_fit import go_on
from manyclass.classifiers.planner import Planner
from manyclass.classifiers.targets import sorted_classes
from manyclass.datasets import Stream
from manyclass.datasets.csr import is_sparse
from manyclass.model.hashing import FeatureHash
from manyclass.model.kinds import Weights
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, SparseWeights
from manyclass.training.calls import Call
from manyclass.training.growth import NewFeatures
from manyclass.training.interrupts import was_interrupted
from manyclass.training.passes import warn_user
from manyclass.training.progress import progress_bar
from manyclass.training.state import State

Parts = Iterable[tuple[Any, ...]]  # (X, y) or (X, y, sample_weight)
NO_LABELS = "X has no part with a label; a stream must have one at least, and an iterator is read once"
INTERRUPTED = "training was interrupted; the model is the one reached so far"
PEEK = 1000  # rows by which those of a stream are measured
_END = object()


def is_stream(X: Any, y: Any) -> bool:
    """Whether X holds its labels, in parts; raises ValueError for a `Stream` beside a y."""
    if isinstance(X, Stream) and y is not None:
        raise ValueError("y is given beside a Stream, whose parts have their labels; leave it None")
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, str | bytes | Mapping):
        return False
    if isinstance(X, Sequence):
        return len(X) > 0 and isinstance(X[0], tuple) and _is_part(X[0])
    return isinstance(X, Iterable)


def _is_part(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) in (2, 3) and (is_sparse(item[0]) or np.ndim(item[0]) == 2)


def refuse_with_stream(**given: Any) -> None:
    """Raise ValueError for arguments that are for arrays."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is given, which is for arrays; a part of a stream is (X, y) or (X, y, sample_weight)"
            )


def refuse_without_stream(**given: Any) -> None:
    """Raise ValueError for arguments that are for streams."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is given, which is for a stream; X and y are arrays: manyclass.datasets.Stream(X, y) makes "
                "one of them"
            )


# Parts


def numbered_parts(X: Any, n_pass: int) -> Iterator[tuple[int, tuple[Any, ...], NDArray[np.int64] | None]]:
    """Yield also the numbers of the rows of each part; None where rows of X may come in another order each time."""
    first = 0
    stream = _Numbered(X, n_pass) if isinstance(X, Stream) else X
    for number, part in parts_of(stream):
        n = part[0].shape[0]
        if isinstance(stream, _Numbered):
            yield number, part, stream.numbers
        else:
            yield number, part, np.arange(first, first + n) if isinstance(X, Sequence) else None
        first += n


class _Numbered:
    """A pass of a stream as (X, y), with the numbers of the rows of the last part."""

    def __init__(self, stream: Stream, n_pass: int) -> None:
        self._stream, self._n_pass = stream, n_pass
        self.numbers = np.zeros(0, dtype=np.int64)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        with closing(cast(Any, self._stream.read_numbered(self._n_pass))) as parts:
            for X, y, self.numbers in parts:
                yield X, y


def parts_of(X: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the parts of a pass with their numbers, from 1, each checked to be one."""
    parts = X.read() if isinstance(X, Stream) else iter(X)
    try:
        for number in itertools.count(1):
            with told_of_part(number):
                part = next(parts, _END)
            if part is _END:
                return
            if not _is_part(part):
                raise TypeError(
                    f"part {number} of X is {_shortly(part)}; it must be (X, y) or (X, y, sample_weight), X a matrix"
                )
            yield number, tuple(part)  # type: ignore[arg-type]
    finally:
        if parts is not X and hasattr(parts, "close"):  # a caller's own iterator stays open
            parts.close()


def _shortly(part: Any) -> str:
    return f"a {type(part).__name__}" + (f" of {len(part)}" if isinstance(part, tuple | list) else "")


@contextmanager
def told_of_part(number: int) -> Iterator[None]:
    """Say in an error which part it is of."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"part {number} of the stream: {error}") from error
    except OSError as error:
        error.add_note(f"part {number} of the stream")
        raise


def has_labels(y: Any) -> bool:
    """Whether any row has a label; an indicator matrix may have none."""
    return not is_sparse(y) or y.nnz > 0


# Training on


def train_on_stream(
    planner: Planner,
    state: State | None,
    X: Any,
    classes: ArrayLike | None,
    max_memory: int | str | None,
    call: Call,
    new_features: NewFeatures,
) -> Iterator[State]:
    """Yield the state after each part, by calls of `partial_fit`; an error leaves the last one."""
    allowed, hashing = None, None
    if max_memory is not None:
        bounded = within_memory(planner, state, X, classes, max_memory)
        X, allowed, hashing = bounded.stream, bounded.labels, bounded.hashing
    n_trained, quiet = 0, planner.changed(verbose=0)  # a bar for each part would be too much
    n_rows = (X.n_rows or 0) if isinstance(X, Stream) else 0
    bar = progress_bar(n_rows, unit="row", shown=planner.parameters["verbose"] > 0)
    try:
        for number, part in parts_of(X):
            if not has_labels(part[1]):
                continue
            with told_of_part(number):
                check_growth(allowed, part[1])
                made: list[State] = []

                def train(before: State | None = state, data: Any = part, made: list[State] = made) -> None:
                    made.append(go_on(quiet, before, _data_of(data), classes, call, new_features, hashing))

                ended = was_interrupted(train)
            state = made[0]
            yield state
            n_trained += 1
            bar.set_postfix_str(f"part {number}, loss {state.curve[-1] if len(state.curve) else np.nan:.4f}")
            bar.update(int(part[0].shape[0]))
            if ended:
                warn_user(INTERRUPTED)
                break
    except KeyboardInterrupt:  # while rows were read
        if not n_trained:
            raise
        warn_user(INTERRUPTED)
    finally:
        bar.close()
    if not n_trained:
        raise ValueError(NO_LABELS)


def _data_of(part: tuple[Any, ...]) -> tuple[Any, Any, ArrayLike | None]:
    return part[0], part[1], part[2] if len(part) > 2 else None


# Memory


@dataclass(frozen=True)
class _Known:
    """What is known of a stream before it is trained on."""

    n_classes: int
    labels: NDArray[Any] | None
    several: bool
    row: float
    stored: float


@dataclass(frozen=True)
class Bounded:
    """What there is room for.

    Attributes
    ----------
    stream : Stream
        With its parts.
    hashing : FeatureHash or None
        Of features; None: they are not hashed.
    labels : ndarray or None
        All that may come; None: any.
    keeps : bool
        Whether what rows carry from pass to pass is kept.
    """

    stream: Any
    hashing: FeatureHash | None
    labels: NDArray[Any] | None
    keeps: bool


def within_memory(
    planner: Planner,
    state: State | None,
    X: Any,
    classes: ArrayLike | None,
    max_memory: int | str,
    *,
    copies: int = 2,
) -> Bounded:
    """Find what there is room for.

    Raises
    ------
    ValueError
        If nothing tells the classes before they come, the model's size is not known before, or there is too little
        memory.
    """
    n_bytes = bytes_from(max_memory)
    if not isinstance(X, Stream):
        raise ValueError(
            f"max_memory is {max_memory!r} and X a {type(X).__name__}, whose parts are as large as they are; make X a "
            "manyclass.datasets.Stream"
        )
    known = _known(state, X, classes)
    dim = _dim(planner, state, several=known.several)
    hashing = None if state is None else state.hashing
    n_features = X.n_features if hashing is None else hashing.n_rows
    found = Footprint(n_features, known.n_classes, copies, dim, known.row, known.stored, X.window)
    most = X.rows if X.rows_given else MOST_ROWS // X.window
    for_rows = CARRIED * (X.n_rows or 0)
    keeps = 0 < for_rows <= FOR_CARRIED * n_bytes and n_bytes - for_rows >= found.least()
    rows, features = fitted_in(found, n_bytes - keeps * for_rows, most, max_memory, may_hash=state is None)
    if features is not None:
        hashing = FeatureHash(features)
    return Bounded(X.with_rows(rows, X.window), hashing, known.labels, keeps)


def _known(state: State | None, X: Stream, classes: ArrayLike | None) -> _Known:
    first = next(parts_of(X.with_rows(PEEK)), None)
    if first is None:
        raise ValueError("X has no rows")
    some, y = first[1][:2]
    labels = _labels(state, classes, X)
    n_classes = X.n_labels if labels is None else len(labels)
    assert n_classes is not None
    return _Known(n_classes, labels, is_sparse(y), *measured(some, y))


def _labels(state: State | None, classes: ArrayLike | None, X: Stream) -> NDArray[Any] | None:
    """All labels that there can be; None: the numbers of the columns of Y."""
    own = None if state is None else state.classes
    if classes is not None:
        return sorted_classes(np.asarray(classes), own, "classes")[0]
    if X.n_labels is not None and (own is None or own.dtype.kind in "iu"):  # else names were given to the numbers
        return None if own is None else sorted_classes(np.arange(X.n_labels), own)[0]
    if own is None:
        raise ValueError("max_memory needs to know the classes before they come; name them all by classes=")
    return own


def _dim(planner: Planner, state: State | None, *, several: bool) -> int | None:
    """Length of embeddings, None of a linear model; raises ValueError for models whose size depends on the rows."""
    weights: Weights | None = None if state is None else state.weights
    chosen = planner.check()
    named = getattr(getattr(chosen, "model", None), "name", None)
    if weights is None and named is None and several:
        named = "hybrid"
    if named in ("sparse", "hybrid") or isinstance(weights, SparseWeights | HybridWeights):
        raise ValueError(
            f"max_memory needs a model whose size is known before its rows are read; it is {named!r}: set model to "
            "'linear' or 'embedding'"
        )
    if isinstance(weights, MappedWeights):
        return weights.n_hidden if weights.embeddings.size else None
    if named == "embedding":
        return default_dim(planner.parameters)
    return None


def default_dim(parameters: Mapping[str, Any]) -> int:
    """Length of embeddings where nothing is trained yet."""
    return figures.EMBEDDED_DIM if parameters["dim"] == "auto" else int(parameters["dim"])


def check_growth(allowed: NDArray[Any] | None, y: Any) -> None:
    """Raise ValueError for a part that brings classes which `max_memory` did not count."""
    if allowed is None or is_sparse(y):
        return
    new = np.setdiff1d(np.asarray(y), allowed)
    if len(new):
        raise ValueError(f"y has the label {new.tolist()[0]!r}; with max_memory, classes must name all that come")
