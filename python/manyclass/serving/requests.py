"""What a body asks for, checked before anything is computed, and the JSON of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import canonical_csr, did_you_mean
from manyclass.estimators.exclusion import excluded

KEYS = ("rows", "row", "k", "exclude", "approximate")
LARGEST = float(np.finfo(np.float32).max)  # features are float32
SHOWN = 60  # characters of a wrong value that a message repeats


class RequestError(Exception):
    """A request that is not answered as asked: a status code, why, and headers that belong to the code."""

    def __init__(self, code: HTTPStatus, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Asked:
    """What may be asked of a model.

    Attributes
    ----------
    n_features : int
    classes : ndarray of shape (n_classes,)
    texts : bool
        Whether a row may be a text.
    k : int
        Labels of a row where a request does not say.
    max_k, max_rows : int
    approximate : bool
        Whether there is an index; it finds up to `k` labels.
    """

    n_features: int
    classes: NDArray[Any]
    texts: bool
    k: int
    max_k: int
    max_rows: int
    approximate: bool = False
    # A longer label is none of the model's. NumPy gives each label of a list the length of the longest.
    longest: int = field(init=False)

    def __post_init__(self) -> None:
        """Find the longest label."""
        text = self.classes.dtype.kind in "OU"
        object.__setattr__(self, "longest", max(map(len, self.classes.tolist())) if text else 0)


@dataclass(frozen=True)
class Query:
    """A request as a model takes it: rows as a matrix or texts, and what each row is not to get."""

    X: sp.csr_array | NDArray[np.float32] | list[str]
    k: int
    exclude: sp.csr_array | None
    approximate: bool


def bad(why: str, code: HTTPStatus = HTTPStatus.BAD_REQUEST) -> RequestError:
    """Return the error of a wrong request."""
    return RequestError(code, why)


def read_query(body: bytes, asked: Asked) -> Query:
    """Read the body of a request.

    Raises
    ------
    RequestError
        If it is not what the model takes; the message names the value, the rule and the choices.
    """
    given = _decoded(body)
    if not isinstance(given, dict):
        raise bad(f"the body is {_shown(given)}; it must be an object with the key 'rows' or 'row'")
    for key in given:
        if key not in KEYS:
            raise bad(f"the key {_shown(key)} is unknown; the keys are {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    single = "row" in given
    if single == ("rows" in given):
        raise bad(f"the body has {'both' if single else 'neither'} of 'rows' and 'row'; it must have one of them")
    rows = [given["row"]] if single else given["rows"]
    if not isinstance(rows, list) or not rows:
        raise bad(f"rows is {_shown(rows)}; it must be a list of at least one row")
    if len(rows) > asked.max_rows:
        raise bad(f"rows has {len(rows)} rows; there may be {asked.max_rows} in a request")
    approximate = _approximate(given, asked)
    k = _k(given, asked, approximate)
    exclude = _exclude(given.get("exclude"), len(rows), single, asked)
    if approximate and exclude is not None:
        raise bad("exclude is given with approximate, whose index is tuned without it; leave one of them out")
    return Query(_matrix(rows, asked), k, exclude, approximate)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_distinct)
    except UnicodeDecodeError as error:
        raise bad(f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}") from error
    except RecursionError as error:
        raise bad("the body is nested too deeply; a row is a list of numbers, an object or a text") from error
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        raise bad(f"the body is not JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise bad(f"the body holds {name}, which JSON does not have; numbers must be finite")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise bad(f"the key {_shown(twice)} occurs twice in an object")
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float | None) else _kind(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "a text" if isinstance(value, str) else _shown(value)


def _k(given: Mapping[str, Any], asked: Asked, approximate: bool) -> int:
    k = given.get("k", asked.k)
    most = asked.k if approximate else asked.max_k
    if type(k) is int and 1 <= k <= most:
        return k
    why = ", the labels that the index was tuned for: leave out approximate, or start the server with a larger -k"
    raise bad(f"k is {_shown(k)}; it must be an integer of at least 1 and at most {most}{why if approximate else ''}")


def _approximate(given: Mapping[str, Any], asked: Asked) -> bool:
    approximate = given.get("approximate", False)
    if not isinstance(approximate, bool):
        raise bad(f"approximate is {_shown(approximate)}; it must be true or false")
    if approximate and not asked.approximate:
        raise bad("approximate is true; this server has no index: leave it out, or start it with --approximate")
    return approximate


def _matrix(rows: list[Any], asked: Asked) -> sp.csr_array | NDArray[np.float32] | list[str]:
    """The rows, which must all be of one kind."""
    kind = type(rows[0])
    for at, row in enumerate(rows):
        if type(row) is not kind:
            raise bad(f"rows[{at}] is {_kind(row)}, and rows[0] {_kind(rows[0])}; rows must be of one kind")
    if kind is str:
        return _texts(rows, asked)
    if kind is list:
        return _dense(rows, asked.n_features)
    if kind is dict:
        return _sparse(rows, asked.n_features)
    text = ", or a text" if asked.texts else ""
    raise bad(
        f"rows[0] is {_shown(rows[0])}; a row must be a list of {asked.n_features} numbers, an object with the keys "
        f"'indices' and 'values'{text}"
    )


def _texts(rows: list[str], asked: Asked) -> list[str]:
    if not asked.texts:
        raise bad(
            f"rows[0] is a text; the model has no text vectorizer: it was fitted on rows of {asked.n_features} features"
        )
    for at, row in enumerate(rows):
        try:
            row.encode("utf-8")
        except UnicodeEncodeError as error:
            raise bad(f"rows[{at}] is a text with half of a surrogate pair, {row[error.start]!r}") from error
    return rows


def _dense(rows: list[list[Any]], n_features: int) -> NDArray[np.float32]:
    for at, row in enumerate(rows):
        if len(row) != n_features:
            raise bad(f"rows[{at}] has {len(row)} numbers; the model has {n_features} features")
        _check_numbers(row, f"rows[{at}]")
    return np.array(rows, dtype=np.float64).astype(np.float32)


def _check_numbers(values: list[Any], name: str) -> None:
    """Raise unless all are numbers that float32 holds."""
    if not set(map(type, values)) <= {int, float}:
        at = next(at for at, value in enumerate(values) if type(value) not in (int, float))
        raise bad(f"{name}[{at}] is {_shown(values[at])}; it must be a number")
    if values and not (min(values) >= -LARGEST and max(values) <= LARGEST):
        at = next(at for at, value in enumerate(values) if not -LARGEST <= value <= LARGEST)
        raise bad(f"{name}[{at}] is {_shown(values[at])}; it must be finite, at most {LARGEST:.7g} in size")


def _sparse(rows: list[dict[str, Any]], n_features: int) -> sp.csr_array:
    """Rows of pairs: in any order, and of a column that occurs several times the sum, as in all of the package."""
    for at, row in enumerate(rows):
        _check_pairs(row, f"rows[{at}]", n_features)
    indptr = np.concatenate([[0], np.cumsum([len(row["indices"]) for row in rows])])
    indices = np.array([j for row in rows for j in row["indices"]], dtype=np.int32)
    values = np.array([value for row in rows for value in row["values"]], dtype=np.float64).astype(np.float32)
    X = canonical_csr(sp.csr_array((values, indices, indptr), shape=(len(rows), n_features)))
    if not np.isfinite(X.data).all():
        raise bad(f"the values of a column that occurs several times have a sum beyond {LARGEST:.7g}")
    return X


def _check_pairs(row: dict[str, Any], name: str, n_features: int) -> None:
    if set(row) != {"indices", "values"}:
        keys = ", ".join(map(_shown, row)) or "none"
        raise bad(f"{name} is an object with the keys {keys}; they must be 'indices' and 'values'")
    indices, values = row["indices"], row["values"]
    for key in ("indices", "values"):
        if not isinstance(row[key], list):
            raise bad(f"{name}.{key} is {_shown(row[key])}; it must be a list")
    if len(indices) != len(values):
        raise bad(f"{name} has {len(indices)} indices and {len(values)} values; there must be as many of both")
    if not set(map(type, indices)) <= {int}:
        at = next(at for at, index in enumerate(indices) if type(index) is not int)
        raise bad(f"{name}.indices[{at}] is {_shown(indices[at])}; it must be an integer")
    if indices and not (min(indices) >= 0 and max(indices) < n_features):
        at = next(at for at, index in enumerate(indices) if not 0 <= index < n_features)
        raise bad(f"{name}.indices[{at}] is {_shown(indices[at])}; it must be in [0, {n_features})")
    _check_numbers(values, f"{name}.values")


def _exclude(given: Any, n_rows: int, single: bool, asked: Asked) -> sp.csr_array | None:
    if given is None:
        return None
    lists = [given] if single else given
    if not isinstance(lists, list) or not all(isinstance(labels, list) for labels in lists):
        raise bad(f"exclude must be {'a list of labels' if single else 'a list of labels for each row'}")
    for row, labels in enumerate(lists):
        if not any(set(map(type, labels)) <= kind for kind in ({str}, {int, float}, {bool})):
            raise bad(f"exclude[{row}] must hold labels of one kind, all texts or all numbers")
    dtype, first = asked.classes.dtype, asked.classes.tolist()[0]
    texts = next((label for labels in lists for label in labels if isinstance(label, str)), None)
    if dtype.kind in "biuf" and texts is not None:
        raise bad(f"exclude holds {_shown(texts)}, a text; the labels of the model are numbers, such as {first}")
    if asked.longest:
        lists = [
            [label for label in labels if not isinstance(label, str) or len(label) <= asked.longest] for labels in lists
        ]
    try:
        known = [np.array(labels, dtype=dtype) for labels in lists] if dtype.kind in "mM" else lists
        indptr, positions = excluded(known, n_rows, asked.classes)
    except (ValueError, TypeError, OverflowError) as error:
        raise bad(str(error)) from error
    ones = np.ones(len(positions), dtype=np.float32)
    return sp.csr_array((ones, positions, indptr), shape=(n_rows, len(asked.classes)))


def answer(labels: NDArray[Any], scores: NDArray[np.float32], *, probabilities: bool) -> bytes:
    """Return the JSON of an answer, of each row as `manyclass predict --output-format jsonl` writes it.

    Parameters
    ----------
    labels, scores : ndarrays of shape (n_rows, k)
        As `predict_top_k` gives them; those that are missing, whose score is -inf, are left out.
    probabilities : bool
        Whether scores are logarithms of probabilities, which are told then, too.
    """
    names = (labels.astype(str) if labels.dtype.kind in "mM" else labels).tolist()
    numbers = [_rounded(scores)] + [_rounded(np.exp(scores))] * probabilities
    found = []
    for row, n in enumerate((scores > -np.inf).sum(axis=1).tolist()):
        told: dict[str, Any] = {"row": row, "labels": names[row][:n], "scores": numbers[0][row][:n]}
        if probabilities:
            told["probabilities"] = numbers[1][row][:n]
        found.append(told)
    return json.dumps({"predictions": found}, allow_nan=False).encode("ascii")


def _rounded(values: NDArray[np.float32]) -> list[list[float]]:
    """Six digits, of which float32 holds hardly more."""
    return [[float(f"{value:.6g}") for value in row] for row in values.tolist()]
