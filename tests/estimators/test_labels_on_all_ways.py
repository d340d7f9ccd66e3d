"""One checker of labels: whatever way labels come in, they are the same classes, or are refused alike."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pytest

import manyclass
from manyclass import MarginClassifier, SoftmaxClassifier
from manyclass.cli import main
from manyclass.datasets import SequenceEncoder, Stream
from manyclass.metrics import recall_at_k

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

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


# Files


def table(y, kind):
    return pa.table({"a": X[:, 0], "b": X[:, 1], "label": arrow(y, kind)})


def text_of(y, _, mark):
    lines = "".join(f"{a}{mark}{b}{mark}{label}\n" for (a, b, _), label in zip(X, y, strict=True))
    return f"a{mark}b{mark}label\n{lines}".encode()


def texts_of(y, _):
    return "".join(f"word{i % 7} ant\t{label}\n" for i, label in enumerate(y)).encode()


FILES = {
    "d.parquet": lambda path, y, kind: parquet.write_table(table(y, kind), path),
    "d.csv": lambda path, y, kind: path.write_bytes(text_of(y, kind, ",")),
    "d.tsv": lambda path, y, kind: path.write_bytes(text_of(y, kind, "\t")),
    "d.txt": lambda path, y, kind: path.write_bytes(texts_of(y, kind)),
}
HOW = {
    "whole": (),
    "in parts": ("--stream",),
    "all": ("--labels", "all"),
    "all in parts": ("--labels", "all", "--stream"),
}


def classes_of_file(name, how, path, y, kind):
    FILES[name](path / name, y, kind)
    fit = ["fit", str(path / name), "--output", str(path / "m"), "--solver", "implicit", "--max-iter", "1", *HOW[how]]
    assert main(fit) == 0
    return manyclass.load(path / "m").classes_


@pytest.mark.filterwarnings("ignore:training")
@pytest.mark.parametrize("how", ["whole", "in parts"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "text"])  # an empty cell is no label
def test_labels_of_files_are_those_of_arrays(name, how, kind, tmp_path):
    y = KINDS[kind] * 100
    classes, expected = classes_of_file(name, how, tmp_path, y, kind), np.unique(model().fit(X, y).classes_)
    if name != "d.parquet":  # a word is an integer or text
        whole = kind in ("int", "negative")
        expected = expected if whole else np.unique([str(label) for label in y])
    assert classes.tolist() == expected.tolist()
    assert {classes.dtype, expected.dtype} == {expected.dtype} or classes.dtype.kind in "OU"


# Forms of Unicode

COMPOSED, SPELT = "caf\u00e9", "cafe\u0301"
FORMS = [COMPOSED, SPELT, "tea", "na\u00efve"]


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:training")
@pytest.mark.parametrize("way", WAYS)
def test_texts_in_two_forms_are_one_class_and_it_is_told(way):
    told = r"labels in two forms of Unicode; each is one class, composed \(NFC\)"
    with pytest.warns(UserWarning, match=told):
        fitted = WAYS[way](FORMS * 100, "text")
    assert fitted.classes_.tolist() == [COMPOSED, "na\u00efve", "tea"]


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", FILES)
def test_texts_of_files_in_two_forms_are_one_class(name, how, tmp_path, capsys):
    if how.startswith("all") and name != "d.txt":
        pytest.skip("tables have a label a row")
    classes = classes_of_file(name, how, tmp_path, FORMS * 100, "text")
    assert "in two forms of Unicode" in capsys.readouterr().err
    assert classes.tolist() == [COMPOSED, "na\u00efve", "tea"]


@pytest.mark.quick
def test_a_form_alone_stays_and_answers_to_the_other():
    y = [SPELT, "tea"] * 200
    fitted = model().fit(X, y)
    assert fitted.classes_.tolist() == [SPELT, "tea"]  # as given: predictions equal y
    assert fitted.evaluate(X, [COMPOSED, "tea"] * 200) == fitted.evaluate(X, y)
    assert fitted.partial_fit(X, [COMPOSED, "tea"] * 200).classes_.tolist() == [SPELT, "tea"]
    assert fitted.predict_top_k(X, 1, exclude=[[COMPOSED]] * 400)[0].ravel().tolist() == ["tea"] * 400
    with pytest.warns(UserWarning, match="in two forms of Unicode"):
        assert recall_at_k([[COMPOSED]], [[SPELT]], k=(1,)) == recall_at_k([["tea"]], [["tea"]], k=(1,))


def test_files_of_one_form_are_asked_of_models_of_the_other(tmp_path, capsys):
    FILES["d.txt"](tmp_path / "d.txt", [COMPOSED, "tea"] * 200, "text")
    FILES["d.csv"](tmp_path / "d.csv", [COMPOSED, "tea"] * 200, "text")
    for name in ("d.txt", "d.csv"):
        classes_of_file(name, "whole", tmp_path, [SPELT, "tea"] * 200, "text")
        FILES[name](tmp_path / name, [COMPOSED, "tea"] * 200, "text")
        assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / name)]) == 0
        assert "0 with unseen label" in capsys.readouterr().out


def test_texts_of_classes_do_not_pass_through_floats():
    y = [2**60 + 1, 2**60 + 2] * 200
    fitted = model().fit(X, y, class_text=(np.array([2**60 + 1, 2**63], dtype=np.uint64), X[:2]))
    assert fitted.classes_.tolist() == [2**60 + 1, 2**60 + 2, 2**63]
    with pytest.raises(ValueError, match="class_text holds text, such as 'a'; the classes are numbers"):
        model().fit(X, y, class_text=(["a", "b"], X[:2]))
