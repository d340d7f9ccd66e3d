"""One checker of labels: whatever way labels come in, they are the same classes, or are refused alike."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pytest

from manyclass import MarginClassifier, SoftmaxClassifier
from manyclass.datasets import SequenceEncoder, Stream

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

X = np.random.default_rng(0).random((400, 3)).astype(np.float32)
KINDS = {
    "int": [3, 1, 2, 7],
    "negative": [-1, 0, 5, -7],
    "large": [2**53, 2**53 + 1, 2**60 + 1, 2**60 + 2],
    "unsigned": [2**63, 2**63 + 1, 2**64 - 1, 5],
    "floats": [1.0, -2.0, 0.0, 3e5],
    "flags": [True, False, True, False],
    "text": ["ant", "bee", "", "Ünlü"],
    "digits": ["1", "01", "10", "2"],
    "long": ["a" * 100, "b" * 100, "c", "d"],
    "dates": [
        datetime.date(2001, 1, 1),
        datetime.date(1066, 10, 14),
        datetime.date(2400, 2, 29),
        datetime.date(1, 1, 1),
    ],
}
ARROW = {"unsigned": pa.uint64()}


def model(**how):
    return SoftmaxClassifier(solver="exact", max_iter=1, random_state=0, **how)


def arrow(y, kind):
    return pa.array(y, ARROW.get(kind))


WAYS = {
    "list": lambda y, kind: model().fit(X, y),
    "array": lambda y, kind: model().fit(X, np.array(y, dtype=object)),
    "series": lambda y, kind: model().fit(X, pd.Series(y, dtype=object)),
    "arrow": lambda y, kind: model().fit(X, arrow(y, kind)),
    "partial_fit": lambda y, kind: model().partial_fit(X, y),
    "parts": lambda y, kind: model().partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:]),
    "classes": lambda y, kind: model().partial_fit(X[:1], y[:1], classes=y[:4]),
    "stream": lambda y, kind: model().fit(Stream(X, y, rows=16)),
    "iterable": lambda y, kind: model().fit([(X[:200], y[:200]), (X[200:], y[200:])]),
    "margin": lambda y, kind: MarginClassifier(max_iter=1).fit(X, y),
    "class_text": lambda y, kind: model().fit(X, y, class_text=(y[:2], X[:2])),
}


@pytest.mark.quick
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_the_same_classes_on_all_ways(way, kind):
    y = KINDS[kind] * 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = model().fit(X, y).classes_, WAYS[way](y, kind).classes_
    assert found.tolist() == expected.tolist()
    assert found.dtype == expected.dtype or {found.dtype.kind, expected.dtype.kind} == {"O", "U"}  # text of objects


QUESTIONS = {
    "evaluate": lambda m, y: m.evaluate(X, y, unseen="error")["n_unseen"] == 0,
    "certificate": lambda m, y: m.certificate(X, y)["primal"] > 0,
    "exclude": lambda m, y: all(
        a != b for a, b in zip(m.predict_top_k(X, 1, exclude=[[a] for a in y])[0][:, 0].tolist(), y, strict=True)
    ),
    "eval_set": lambda m, y: m.set_params(early_stopping=True).fit(X, y, eval_set=(X, y)) is m,
    "sets": lambda m, y: m.calibrate_sets(X, y, 0.5) is m,
    "explain": lambda m, y: len(m.explain(X, labels=y)) == 400,
}


@pytest.mark.quick
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_questions_take_the_labels_of_fit(question, kind):
    y = KINDS[kind] * 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert QUESTIONS[question](model().fit(X, y), y)


MISTAKES = {
    "missing": ["a", "b", None, "c"],
    "nan": [1.0, 2.0, float("nan"), 3.0],
    "mixed": ["1", "2", 2, "3"],
    "lists": [["a"], ["a", "b"], ["c"], []],
    "types": [Decimal(1), "a", Decimal(2), "b"],
}


@pytest.mark.quick
@pytest.mark.parametrize("way", [way for way in WAYS if way != "arrow"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_refused_on_all_ways(way, mistake):
    y = MISTAKES[mistake] * 100
    with pytest.raises(ValueError, match=r"has no label|labels must be of one kind|a list of labels|cannot be sorted"):
        WAYS[way](y, mistake)


@pytest.mark.quick
@pytest.mark.parametrize("mistake", ["missing", "nan", "mixed"])
def test_mistakes_of_items_are_refused(mistake):
    with pytest.raises(ValueError, match=r"missing|None|nan|kind|sorted"):
        SequenceEncoder().fit([MISTAKES[mistake]] * 10)
