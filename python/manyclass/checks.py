"""Checks on what a caller passes: each error names the value, the rule and the choices."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from manyclass import _core

S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=np.floating[Any])


def check_choice(name: str, value: object, choices: Sequence[str], beside: str = "") -> None:
    """Raise ValueError unless `value` is one of `choices`; the message tells what is allowed `beside` them."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices) + (f" or {beside}" if beside else "")
        raise ValueError(f"{name} is {value!r}; it must be one of {listed}{did_you_mean(value, choices)}")


def public_names(module: dict[str, Any]) -> list[str]:
    """Return the classes and functions that a module makes for others: those without an underscore before their names.

    It is what `__all__` of a module says that offers all of these.
    """
    offers = {name: thing for name, thing in module.items() if callable(thing) and not name.startswith("_")}
    return sorted(name for name, thing in offers.items() if getattr(thing, "__module__", "") == module["__name__"])


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """A hint at the nearest of some names, for the end of a message; empty where none is near."""
    names = [*choices]
    near = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
    if value == "sparse" and "pairs" in names:  # its name up to version 0.2.0
        near = ["pairs"]
    return f" (did you mean {near[0]!r}?)" if near else ""


def set_named(self: BaseEstimator, **params: Any) -> Any:
    """Set parameters, of parts by names such as solver__decay; a ValueError for a name sets nothing."""
    for name in params:
        owner: Any = self
        for step in name.split("__"):
            known = owner.get_params(deep=False) if isinstance(owner, BaseEstimator) else {}
            if step not in known:
                kind = type(owner).__name__ if known else f"{owner!r}, which is no object with parameters"
                raise ValueError(
                    f"Invalid parameter {step!r} for estimator {kind}; it has {', '.join(map(repr, known)) or 'none'}"
                    f"{did_you_mean(step, known)}"
                )
            owner = params.get(step, known[step]) if owner is self else known[step]
    return BaseEstimator.set_params(self, **params)


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; it must be True or False")


def check_number(
    name: str, value: Any, *, low: float = -np.inf, high: float = np.inf, open_low: bool = False, integer: bool = False
) -> None:
    """Raise unless `value` is a finite number (an integer) in [low, high], or ]low, high] if `open_low`.

    Integers are below 2**63, as the core takes them, and other numbers in the range of floats.
    """
    kind: Any = numbers.Integral if integer else numbers.Real
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {shown(value)}; it must be {'an integer' if integer else 'a number'}")
    if integer and not -(2**63) <= value < 2**63:
        high = min(high, 2**63 - 1)
    if not is_number(value) or not low <= value <= high or (open_low and value == low):
        ends = f"{'' if integer else 'finite, '}{'more than' if open_low else 'at least'} {low:g}"
        if np.isfinite(high):
            ends += f" and at most {int(high) if integer else format(high, 'g')}"
        raise ValueError(f"{name} is {shown(value)}; it must be {ends}")


UNITS = {"": 1, "B": 1} | {f"{letter}B": 1000**n for n, letter in enumerate("KMGT", 1)}
UNITS |= {f"{letter}IB": 1024**n for n, letter in enumerate("KMGT", 1)}


def bytes_of(name: str, size: Any) -> int:
    """Return a number of bytes, or a text such as "10MB" or "1.5 GiB", as an integer.

    Raises
    ------
    ValueError
        If it is below a byte, or a text of another form.
    TypeError
        If it is neither an integer nor a text.
    """
    if not isinstance(size, str):
        check_number(name, size, low=1, integer=True)
        return int(size)
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", size)
    n_bytes = float(match[1]) * UNITS.get(match[2].upper(), 0) if match else 0.0
    if not 1 <= n_bytes < math.inf:
        raise ValueError(
            f"{name} is {size!r:.80}; it must be a number of bytes, at least 1, such as '2GiB' or '500 MB'"
        )
    return int(n_bytes)


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number that a float can hold."""
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):  # of integers beyond the largest float
        return False


def shown(value: Any) -> str:
    """Return a value as a message repeats it; Python refuses to write integers of thousands of digits."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


@dataclass(frozen=True)
class Setting:
    """One parameter of a part: its default, what it may be, and a sentence on it.

    Attributes
    ----------
    name : str
    default : object
    sentence : str
    kind : {"number", "integer", "choice", "flag", "index"}
        "index" is checked by the part itself. Where it is left out it follows from the default and the choices.
    choices : tuple of str
        Of a "choice"; of a "number" they are allowed beside it.
    beside : tuple
        Values that are allowed beside those of its kind; a default of "auto" or None is one without being listed.
    low : float
        Lower end of the interval of a number.
    high : float
        Upper end.
    open_low : bool
        Whether the interval is without its lower end.
    needs : str
        The flags of the parts that have it, in words: a word that begins with a minus is a flag that they have not.
    """

    name: str
    default: Any
    sentence: str
    kind: str = ""
    choices: tuple[str, ...] = ()
    beside: tuple[Any, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    open_low: bool = False
    needs: str = ""

    def __post_init__(self) -> None:
        if not self.kind:
            kind = "choice" if self.choices else "flag" if isinstance(self.default, bool) else "number"
            object.__setattr__(self, "kind", kind)
        if (self.default is None or self.default == "auto") and self.default not in self.beside:
            object.__setattr__(self, "beside", (self.default, *self.beside))

    def check(self, value: Any) -> None:
        """Raise ValueError or TypeError unless `value` is allowed."""
        if any(value is other or (isinstance(value, str) and value == other) for other in self.beside):
            return
        if self.kind == "flag":
            check_flag(self.name, value)
        elif self.kind == "choice":
            check_choice(self.name, value, self.choices)
        elif self.kind == "number" or self.kind == "integer":
            if self.choices and not isinstance(value, numbers.Real):
                check_choice(self.name, value, self.choices, "a number")
                return
            if isinstance(value, str) and self.beside:
                check_choice(self.name, value, [other for other in self.beside if isinstance(other, str)])
            whole = self.kind == "integer"
            check_number(self.name, value, low=self.low, high=self.high, open_low=self.open_low, integer=whole)

    @property
    def type(self) -> str:
        """What it may be, in the words of a docstring."""
        words = {"number": ["float"], "integer": ["int"], "flag": ["bool"], "index": ["str or index"], "choice": []}
        named = [f'"{choice}"' for choice in self.choices]
        beside = [f'"{other}"' if isinstance(other, str) else str(other) for other in self.beside]
        listed = ["{" + ", ".join(named) + "}"] if named else []
        return " or ".join([*listed, *words[self.kind], *beside])


def real_array(name: str, values: ArrayLike, dtype: type[F]) -> NDArray[F]:
    """Return values as a contiguous array of this type.

    Raises
    ------
    TypeError
        If they are not real numbers.
    ValueError
        If one is not finite in this type.
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {numbers.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):  # what overflows is refused
        array = np.asarray(numbers, dtype=dtype, order="C")
    for place in map(tuple, np.argwhere(~np.isfinite(array))[:1].tolist()):
        cell = f"{name}[{', '.join(map(str, place))}]"
        raise ValueError(f"{cell} is {numbers[place]}; it must be finite as {np.dtype(dtype)}")
    return array


def checked_ids(name: str, ids: ArrayLike, end: int, *, once: str | None = None) -> NDArray[np.int32]:
    """Return ids as int32 after a check that each is in [0, end) and, where `once` says why, that none comes twice.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If they are not in one dimension, one is out of range, or one comes twice that must not.
    """
    array = np.asarray(ids)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; it must hold integers")
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; it must have 1")
    outside = array[(array < 0) | (array >= end)]
    if len(outside):
        raise ValueError(f"{name} holds {outside[0]}; ids are in [0, {end})")
    if once is not None:
        ordered = np.sort(array)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            raise ValueError(f"{name} holds {twice[0]} more than once; {once}")
    return np.ascontiguousarray(array, dtype=np.int32)


def join_lists(lists: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where each list of ids begins, and where the last one ends, in all of them together, and these."""
    return np.cumsum([0, *map(len, lists)]), np.concatenate([*lists, np.zeros(0, np.int32)]).astype(np.int32)


def id_lists(
    name: str, lists: Any, shape: tuple[int, int], *, rows: str, whose: str, once: str | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (indptr, sorted ids) of lists of ids, or of the entries that a sparse matrix of this shape stores.

    Parameters
    ----------
    name : str
        What messages call it.
    lists : sparse matrix, or sequence of array-likes of int
    shape : (int, int)
        The number of rows, and where ids end.
    rows : str
        What the rows are, in a message.
    whose : str
        What the shape is of, behind it in a message.
    once : str, optional
        Why no id comes twice in a list; None: it may.

    Raises
    ------
    TypeError
        If ids are not integers.
    ValueError
        If there is not a list for each row, or an id is out of range or comes twice that must not.
    """
    is_sparse: bool = sp.issparse(lists)
    if is_sparse:
        if lists.shape != shape:
            raise ValueError(f"{name} has shape {lists.shape}; it must be {shape}{whose}")
        pattern: Any = sp.csr_array(lists, copy=True)
        pattern.sum_duplicates()
        return np.asarray(pattern.indptr, dtype=np.int64), np.asarray(pattern.indices, dtype=np.int32)
    if len(lists) != shape[0]:
        raise ValueError(f"{name} has {len(lists)} lists; there are {shape[0]} {rows}")
    checked_lists = (checked_ids(f"{name}[{i}]", ids_of_row, shape[1], once=once) for i, ids_of_row in enumerate(lists))
    return join_lists([np.unique(ids) for ids in checked_lists])


def checked_random(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's generator for a `random_state`; a ValueError that names it if it is none."""
    if isinstance(random_state, numbers.Integral):
        check_number("random_state", random_state, low=0, high=2**32 - 1, integer=True)
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        raise ValueError(f"random_state is {random_state!r}; it must be None, an integer or a RandomState") from error
    return generator


def seed_from(random_state: Any) -> int:
    """Draw one 64-bit seed from scikit-learn's `random_state`."""
    return int(checked_random(random_state).randint(0, np.iinfo(np.int64).max, dtype=np.int64))


def n_threads_from(n_jobs: int | None) -> int:
    """Number of threads for scikit-learn's `n_jobs` (None is 1, -1 is all cores), at most one for each of `cores`."""
    if n_jobs is not None and (not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs is {n_jobs!r}; it must be None, a positive integer, or negative (-1: all cores)")
    if n_jobs is None:
        return 1
    return min(cores(), max(1, cores() + 1 + n_jobs if n_jobs < 0 else n_jobs))


def cores() -> int:
    """How many threads work at once here: by the process's affinity, its container's quota, and the limits of OpenMP.

    The last are `OMP_NUM_THREADS`, and what threadpoolctl and joblib have set for the calling thread.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return min(_cores_with(affinity), _core.most_threads())


@cache
def _cores_with(affinity: int | None) -> int:  # reads files, which takes as long as a prediction
    return int(joblib.cpu_count())


def outer_level() -> int:
    """Stack level, for `warnings.warn` in the calling function, of the first frame outside of the package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "manyclass":
        frame, level = frame.f_back, level + 1
    return level


def validated_data(estimator: BaseEstimator, X: Any, *y: Any, **rules: Any) -> Any:
    """scikit-learn's `validate_data`; its look at all numbers is a sum, which need not be finite for huge ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return validate_data(estimator, X, *y, **rules)
        except ValueError as error:
            # Left out are an array as NumPy shows it, and advice to take other packages.
            first, *others = str(error).splitlines()
            cure = "".join(f" {line}" for line in others if line.startswith("Reshape"))
            if first.startswith("could not convert string to float"):
                cure = (
                    ". Classifiers take numbers or a list of texts: fit(table['title'], y) of one column of texts, "
                    "scikit-learn's ColumnTransformer for several kinds of columns, and for lists of items "
                    "fit(histories, vectorizer=manyclass.datasets.SequenceEncoder())"
                )
            raise ValueError(first + cure) from error


def unconverted_rows(X: Any, n_features: int) -> sp.csr_array | NDArray[np.float32] | None:
    """Return rows in the types of the core where one look at their numbers shows that all is well, else None.

    What is None goes through `validated_data` and `canonical_csr`, which convert it or say what is wrong. For a row of
    some values these two take longer than its scores by ten thousand classes.

    Parameters
    ----------
    X : object
    n_features : int
        Columns that it must have.
    """
    if type(X) is np.ndarray:
        is_plain = X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous and X.shape[1] == n_features
        with np.errstate(over="ignore", invalid="ignore"):
            return X if is_plain and X.size and np.isfinite(X.sum()) else None
    if type(X) not in (sp.csr_array, sp.csr_matrix) or X.ndim != 2 or not X.shape[0] or X.shape[1] != n_features:
        return None
    if X.indices.dtype.kind != "i" or X.data.dtype not in (np.float32, np.float64):
        return None
    with np.errstate(over="ignore"):  # what overflows is not finite
        indptr, indices, data = csr_parts(X)
    if indices is not X.indices and not np.array_equal(indices, X.indices):  # too large for the core's type
        return None
    if len(indptr) != X.shape[0] + 1 or not _core.is_canonical(indptr, indices, data, n_features):
        return None
    if type(X) is sp.csr_array and X.data.dtype == np.float32:
        return X
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def column_of(X: Any) -> Any:
    """Return columns of Arrow and polars, and tables of these, as arrays; all else as it is."""
    return np.asarray(X) if hasattr(X, "__array__") else X


def is_texts(X: Any) -> bool:
    """Whether X is a list, an array or a column of str, by its first item that is not None, or a str."""
    X = X if hasattr(X, "ndim") else column_of(X)
    if not isinstance(X, list | tuple | str) and (getattr(X, "ndim", 0) != 1 or sp.issparse(X)):
        return False
    return isinstance(next((text for text in X if text is not None), None), str)


def canonical_csr(X: sp.csr_matrix | sp.csr_array) -> sp.csr_array:
    """Return X as float32 CSR with sorted, distinct int32 columns and int64 row pointers; duplicates are summed.

    Raises
    ------
    ValueError
        If the arrays are not those of a CSR matrix, a column is outside [0, X.shape[1]), or X has 2**31 or more
        rows or columns.
    """
    if max(X.shape) > np.iinfo(np.int32).max:
        raise ValueError(f"X has shape {X.shape}; at most 2147483647 rows and columns are supported")
    X.check_format(full_check=True)
    if np.any(X.indptr[1:] < X.indptr[:-1]):  # SciPy looks no further where the last one is 0
        raise ValueError("X.indptr decreases; it must be that of a CSR matrix")
    out: sp.csr_array = sp.csr_array(X).astype(np.float32, copy=False)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out


class lazy_property(Generic[S, T]):  # noqa: N801 - it stands where `property` does
    """A property that is computed at its first use, and kept.

    `functools.cached_property` of Python 3.11 holds a lock while it makes, which a child that is forked meanwhile would
    wait for without end.
    """

    def __init__(self, make: Callable[[S], T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __get__(self, instance: S, owner: type[S] | None = None) -> T:
        """Return what is kept; the instance's own attribute then stands before this one."""
        if instance is None:
            return self  # type: ignore[return-value]
        value = instance.__dict__[self._make.__name__] = self._make(instance)
        return value


def csr_parts(X: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return (indptr, indices, data) of a canonical CSR matrix in the types of the core."""
    return (
        np.ascontiguousarray(X.indptr, dtype=np.int64),
        np.ascontiguousarray(X.indices, dtype=np.int32),
        np.ascontiguousarray(X.data, dtype=np.float32),
    )


def core_data(X: sp.csr_array | NDArray[np.float32]) -> Any:
    """Return X as the functions of the core take it: `csr_parts` of a sparse matrix, an array as it is."""
    return csr_parts(X) if isinstance(X, sp.csr_array) else X


def as_csr(X: sp.csr_array | NDArray[np.float32]) -> sp.csr_array:
    """Data by its stored values; of a dense array those that are not 0."""
    return X if isinstance(X, sp.csr_array) else sp.csr_array(X)


def row_norms_sq(x: sp.csr_array | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the squared Euclidean norm of each row."""
    with np.errstate(over="ignore"):  # an infinite norm stops training with a warning that says what to do
        if isinstance(x, sp.csr_array):
            squares = sp.csr_array((np.square(x.data), x.indices, x.indptr), shape=x.shape)
            return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()
        norms: NDArray[np.float32] = np.einsum("ij,ij->i", x, x, dtype=np.float32)
        return norms
