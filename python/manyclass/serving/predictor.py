"""Requests to a model as JSON: the checks of what they ask, and the answers; the server takes them by HTTP."""

from __future__ import annotations

import copy
import json
import math
import time
from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import canonical_csr, check_choice, check_flag, check_number
from manyclass.classifiers import label_sets, predictions
from manyclass.classifiers.exclusion import label_pattern, pattern_rows, seen_in
from manyclass.datasets import SequenceEncoder, l2_normalize
from manyclass.labels import composed, readable
from manyclass.training.passes import time_limit
from manyclass.training.state import Features

LABELS: tuple[set[type], ...] = ({str}, {int, float}, {bool})  # kinds of labels that may stand in one list
KEYS = ("rows", "row", "k", "exclude", "among", "approximate", "threshold")
LARGEST = float(np.finfo(np.float32).max)  # features are float32
SCORES = 1 << 24  # that are found at once; the core looks at the clock within them
SHOWN = 60  # characters of a wrong value that a message repeats


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of requests, connections and waiting.

    Together they bound the memory that clients can take: the bodies of all connections, and some ten to twenty times
    the size of a body, which is what JSON takes as Python objects, for each request that is computed.

    Attributes
    ----------
    max_bytes : int
        bytes of a request
    max_rows : int
        rows of a request
    max_k : int
        labels a row
    max_terms : int
        terms that the texts of a request may have at most, by their letters; each takes some 100 bytes while they are
        counted
    max_connections : int
        clients at once, those included that have gone before their answer; more are refused
    max_running : int
        requests that are computed at once, others waiting; by default one a core
    max_seconds : float
        seconds in which a request is computed; one that takes longer is given up
    timeout : float
        seconds that a client has to send a request, to take its answer, and before the next request
    grace : float
        seconds in which running requests are finished after SIGTERM
    """

    max_bytes: int = 8 << 20
    max_rows: int = 1000
    max_k: int = 100
    max_terms: int = 10_000_000
    max_connections: int = 64
    max_running: int = joblib.cpu_count()
    max_seconds: float = 20.0
    timeout: float = 10.0
    grace: float = 25.0

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a limit that is out of range."""
        for field in fields(self):
            check_number(field.name, getattr(self, field.name), low=0, open_low=True, integer=field.type == "int")


class Query(NamedTuple):
    """A request as a model takes it: rows as a matrix, and the classes that each row is not to get, or may get."""

    X: sp.csr_array | NDArray[np.float32]
    k: int
    exclude: sp.csr_array | None = None
    among: sp.csr_array | None = None
    approximate: bool = False
    least: float = -math.inf


class Predictor:
    """A loaded model that answers requests of several threads, and the checks of what they ask.

    Predictions of a fitted model write to nothing that threads share, except the index of `approximate`, which is
    built and tuned before the first request: later searches only read it.

    Parameters
    ----------
    model : fitted classifier
        Its `n_jobs` is the number of threads of each request.
    limits : Limits
    k : int
        Labels of a row where a request does not say; all of them where the model has fewer.
    normalize : bool, default=False
        Whether rows are divided by their Euclidean norm, as they were in the fit.
    threshold : float, default=None
        The least probability, or score of a model without, of labels, where a request does not say.
    """

    def __init__(
        self, model: predictions.Answers, limits: Limits, k: int, *, normalize: bool = False, threshold: Any = None
    ) -> None:
        check_number("k", k, low=1, high=limits.max_k, integer=True)
        state = predictions.state_of(model)
        unnamed = Features(state.features.n, None)  # the features of requests have no names
        self._model = predictions.with_state(copy.copy(model), replace(state, features=unnamed))
        self._encoder: Any = predictions.vectorizer_of(model)
        self._takes_histories = isinstance(self._encoder, SequenceEncoder)
        self._takes_texts = self._encoder is not None and not self._takes_histories
        self._column_labels, self._normalize = state.column_labels, normalize
        self._recall = 0.0  # 0: there is no index
        self._classes: NDArray[Any] = model.classes_
        self._n_features, self._max_rows, self._max_terms = model.n_features_in_, limits.max_rows, limits.max_terms
        labels = self._encoder.items_ if self._takes_histories else self._classes  # items, among which all classes are
        names, objects = readable(labels), labels.dtype == object
        # Labels that JSON has no type for, by what stands for them there; dates have one in NumPy.
        self._named = dict(zip(names, labels, strict=True)) if objects and names is not labels else {}
        text = labels.dtype.kind in "OU" and isinstance(names[0], str)
        self._longest = max(map(len, names.tolist())) if text else 0
        self._k, self._max_k = min(k, len(self._classes)), min(limits.max_k, len(self._classes))
        self._has_probabilities, self._threshold = predictions.has_probabilities(model), threshold
        # What a model computes once, at its first prediction, is computed before threads ask for it.
        self.predict(self.read(b'{"row": ""}' if self._takes_texts else b'{"row": {"indices": [], "values": []}}'))

    def about(self) -> dict[str, Any]:
        """Return what `/info` says of the predictor."""
        facts = {"k": self._k, "max_k": self._max_k, "texts": self._takes_texts, "histories": self._takes_histories}
        return facts | {"probabilities": self._has_probabilities, "approximate": self._recall > 0}

    def build_index(self, X: Any, recall: float) -> None:
        """Build the index of approximate answers, and tune it by rows that are like those to come.

        Raises
        ------
        ValueError
            If there is no use for one, or there are too few rows.
        """
        predictions.build_index(self._model, X, self._k, recall)
        self._recall = recall

    def read(self, body: bytes) -> Query:
        """Return what the body of a request asks for.

        Raises
        ------
        ValueError or TypeError
            If the model does not take it; the message names the value, the rule and the choices.
        """
        request = _request(body)
        rows = [request["row"]] if "row" in request else request["rows"]
        if not isinstance(rows, list) or not 1 <= len(rows) <= self._max_rows:
            raise ValueError(f"rows is {_shown(rows)}; it must be a list of 1 to {self._max_rows} rows")
        approximate = request.get("approximate", False)
        check_flag("approximate", approximate)
        if approximate and not self._recall:
            raise ValueError("approximate is true; this server was started without --approximate and has no index")
        for key in ("exclude", "among"):
            if approximate and request.get(key) is not None:
                raise ValueError(f"{key} is given with approximate, whose index knows no {key}; leave one of them out")
        k, most = request.get("k", self._k), self._k if approximate else self._max_k
        check_number("k, with approximate," if approximate else "k", k, low=1, high=most, integer=True)
        threshold = request.get("threshold", self._threshold)
        least = label_sets.least_score(threshold, is_probability=self._has_probabilities)
        X = self._matrix(rows)
        exclude, among = self._patterns(request, rows, X)
        X = l2_normalize(sp.csr_array(X)) if self._normalize else X
        return Query(X, k, exclude, among, approximate, least)

    def _matrix(self, rows: list[Any]) -> Any:
        """Return the rows, which must all be of one kind."""
        kind = type(rows[0])
        for position, row in enumerate(rows):
            if type(row) is not kind:
                first, other = _shown(rows[0]), _shown(row)
                raise ValueError(f"rows[0] is {first} and rows[{position}] {other}; rows must be of one kind")
        if kind is dict:
            return _sparse(rows, self._n_features)
        if kind is list and not self._takes_histories:
            return _dense(rows, self._n_features, " of texts: send one" * self._takes_texts)
        if kind is list:
            return self._encoder.transform(self._labels(rows, "a history"))
        if kind is str and self._takes_texts:
            "".join(rows).encode()  # raises for half of a surrogate pair, saying where it is
            if (n_terms := sum(map(self._encoder.most_terms, rows))) > self._max_terms:
                rule = f"at most {self._max_terms} are taken: send fewer or shorter texts"
                raise ValueError(f"the texts of the request may have {n_terms} terms; {rule}")
            return self._encoder.transform(rows)
        lists = "items, the earliest first" if self._takes_histories else f"{self._n_features} numbers"
        rule = f"{'a text, ' * self._takes_texts}a list of {lists}, or an object with the keys 'indices' and 'values'"
        raise ValueError(f"rows[0] is {_shown(rows[0])}; a row must be {rule}")

    def _patterns(self, request: dict[str, Any], rows: list[Any], X: Any) -> tuple[Any, Any]:
        """Return the classes that rows are not to get, and those among which they are ranked; None: not asked for."""
        exclude, among = request.get("exclude"), request.get("among")
        if exclude is not None:
            exclude = self._excluded([exclude] if "row" in request and exclude != "seen" else exclude, rows, X)
        if among is not None:
            for_all = isinstance(among, list) and not any(isinstance(label, list) for label in among)
            among = self._pattern([among] if for_all else among, 1 if for_all else len(rows), "among")
        return exclude, among

    def _excluded(self, lists: Any, rows: list[Any], X: Any) -> sp.csr_array:
        if lists == "seen" and not (self._takes_histories and isinstance(rows[0], list)):
            return seen_in(X, self._classes, self._column_labels, self._n_features)
        return self._pattern(rows if lists == "seen" else lists, len(rows), "exclude")

    def _pattern(self, lists: Any, n_rows: int, name: str) -> sp.csr_array:
        if not isinstance(lists, list) or not all(isinstance(labels, list) for labels in lists):
            rule = "for one row a list of labels, or 'seen'" if name == "exclude" else "or one for all of them"
            raise ValueError(f"{name} must be a list of labels for each row, {rule}")
        return label_pattern(self._labels(lists, name), n_rows, self._classes, name)

    def _labels(self, lists: list[list[Any]], name: str) -> list[Any]:
        """Return lists of labels of JSON as the model has labels, without those that it cannot have."""
        if not all(any(set(map(type, labels)) <= kind for kind in LABELS) for labels in lists):
            raise ValueError(f"{name} must hold labels of one kind in each list, all texts or all numbers")
        if most := self._longest:  # NumPy gives each label of a list the length of the longest, whatever is sent
            lists = [[a for a in labels if not isinstance(a, str) or len(composed(a)) <= most] for labels in lists]
        if self._classes.dtype.kind in "mM":
            return [np.array(labels, dtype=self._classes.dtype) for labels in lists]
        if self._named:
            lists = [[self._named[label] for label in labels if label in self._named] for labels in lists]
        return lists

    def similar(self, body: bytes) -> tuple[int, bytes]:
        """Return how many labels the body of a request names, and the classes that are most like each, as JSON.

        Raises
        ------
        ValueError or TypeError
            If the model does not take it; the message names the value, the rule and the choices.
        """
        request = _parsed(body, ("labels", "k"))
        labels, k = request.get("labels"), request.get("k", self._k)
        if not isinstance(labels, list) or not 1 <= len(labels) <= self._max_rows:
            raise ValueError(f"labels is {_shown(labels)}; it must be a list of 1 to {self._max_rows} labels")
        check_number("k", k, low=1, high=max(1, min(self._max_k, len(self._classes) - 1)), integer=True)
        (known_labels,) = self._labels([labels], "labels")
        if len(known_labels) < len(labels):
            raise ValueError("labels has one that is none of the model's classes")
        nearest, cosines = self._model.similar(known_labels, k)
        rows = zip(labels, readable(nearest).tolist(), _rounded(cosines), strict=True)
        answers = [{"label": label, "labels": row, "cosines": values} for label, row, values in rows]
        return len(labels), json.dumps({"similar": answers}, allow_nan=False).encode("ascii")

    def predict(self, query: Query, until: float = math.inf) -> bytes:
        """Return the answer to a query as JSON, each row as `manyclass predict --output-format jsonl` writes it.

        Raises TimeoutError where `time.monotonic()` is past `until` before all rows have their scores: the core's work
        ends some hundredths of a second later, the rows' part of a matrix product as a whole.
        """
        k, n_rows = self._k if query.approximate else query.k, query.X.shape[0]
        how: dict[str, Any] = {"approximate": True, "recall": self._recall} if query.approximate else {}
        step, parts = max(1, SCORES // len(self._classes)), list[Any]()
        for first in range(0, n_rows, step):
            rows, seconds = slice(first, first + step), until - time.monotonic()
            how |= {name: pattern_rows(getattr(query, name), rows) for name in ("exclude", "among")}
            try:
                if seconds <= 0:
                    raise _core.TimeIsUpError
                with time_limit(seconds):
                    parts.append(self._model.predict_top_k(query.X[rows], k, **how))
            except _core.TimeIsUpError as error:
                why = f"the scores of {first} of {n_rows} rows were found in time: send fewer at once"
                raise TimeoutError(why) from error
        labels, scores = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        columns = {"labels": readable(labels).tolist(), "scores": _rounded(scores)}
        columns |= {"probabilities": _rounded(np.exp(scores))} if self._has_probabilities else {}
        answers = []
        for row, n in enumerate((scores > query.least).sum(axis=1).tolist()):  # that of a label that is missing is -inf
            answers.append({"row": row} | {name: lists[row][: min(n, query.k)] for name, lists in columns.items()})
        return json.dumps({"predictions": answers}, allow_nan=False).encode("ascii")


def _rounded(values: NDArray[np.float32]) -> list[list[float]]:
    """Return values with six digits, because float32 holds hardly more."""
    return [[float(f"{value:.6g}") for value in row] for row in values.tolist()]


def _request(body: bytes) -> dict[str, Any]:
    """The object of a request for predictions."""
    request = _parsed(body, KEYS)
    if ("row" in request) == ("rows" in request):
        raise ValueError(f"the body is {_shown(request)}; it must be an object with one of the keys 'rows' and 'row'")
    return request


def _parsed(body: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    """The object that a body holds, whose keys are known."""
    try:
        request = json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # ValueError, too, for numbers of thousands of digits
        place = f"character {error.pos} is out of place" if isinstance(error, json.JSONDecodeError) else error
        raise ValueError(f"the body is not JSON in UTF-8: {place}") from error
    if not isinstance(request, dict):
        raise ValueError(f"the body is {_shown(request)}; it must be an object with some of the keys {', '.join(keys)}")
    for key in request:
        check_choice("a key", key, keys)
    return request


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON, which are finite")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; a name that occurs twice is refused."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {_shown(twice)} occurs twice in an object")
    return members


def _shown(value: Any) -> str:
    """Return a value of JSON as a message repeats it."""
    if isinstance(value, dict | list):
        return f"a list of {len(value)}" if isinstance(value, list) else f"an object with {len(value)} keys"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _check_numbers(values: list[Any], name: str, low: float, high: float, *kinds: type) -> None:
    """Raise ValueError for the first of the values that is of another kind or outside of [low, high]."""
    if set(map(type, values)) <= set(kinds) and (not values or (low <= min(values) and max(values) <= high)):
        return
    i = next(i for i, value in enumerate(values) if type(value) not in kinds or not low <= value <= high)
    wanted = "a number" if float in kinds else "an integer"
    raise ValueError(f"{name}[{i}] is {_shown(values[i])}; it must be {wanted} in [{low:.7g}, {high:.7g}]")


def _dense(rows: list[list[Any]], n_features: int, kind: str) -> NDArray[np.float32]:
    for position, row in enumerate(rows):
        if len(row) != n_features:
            raise ValueError(f"rows[{position}] has {len(row)} numbers; the model has {n_features} features{kind}")
        _check_numbers(row, f"rows[{position}]", -LARGEST, LARGEST, int, float)
    return np.array(rows, dtype=np.float64).astype(np.float32)


def _sparse(rows: list[dict[str, Any]], n_features: int) -> sp.csr_array:
    """Return rows of pairs, in any order; the values of a column that occurs several times are summed."""
    for position, row in enumerate(rows):
        lists: list[Any] = [row.get("indices"), row.get("values")]
        if len(row) != 2 or not all(isinstance(a, list) for a in lists) or len(lists[0]) != len(lists[1]):
            keys = ", ".join(f"{_shown(key)}: {_shown(member)}" for key, member in [*row.items()][:5])
            rule = "it must have two lists of one length, 'indices' and 'values'"
            raise ValueError(f"rows[{position}] is {{{keys}}}; {rule}")
        _check_numbers(row["indices"], f"rows[{position}].indices", 0, n_features - 1, int)
        _check_numbers(row["values"], f"rows[{position}].values", -LARGEST, LARGEST, int, float)
    indptr = np.cumsum([0, *(len(row["indices"]) for row in rows)])
    indices = np.array([j for row in rows for j in row["indices"]], dtype=np.int32)
    values = np.array([value for row in rows for value in row["values"]], dtype=np.float64).astype(np.float32)
    X = canonical_csr(sp.csr_array((values, indices, indptr), shape=(len(rows), n_features)))
    if not np.isfinite(X.data).all():
        raise ValueError(f"the values of a column that occurs several times have a sum beyond {LARGEST:.7g}")
    return X
