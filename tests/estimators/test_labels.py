"""Labels keep their type and identity, wherever two sets of them meet."""

import datetime
import decimal
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier
from manyclass.datasets import Stream, drop_unseen_classes
from manyclass.labels import WIDEST, as_labels, find_positions, join_labels, sorted_classes
from manyclass.metrics import prequential

N_ROWS = 60
BIG = 2**60  # float64 holds no integers that are next to each other there
X = np.eye(3, dtype=np.float32).repeat(20, axis=0)


def objects(*labels):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
# Three labels each, in their order, as NumPy has them.
ARRAYS = {
    "int64": np.array([BIG + 1, BIG + 2, BIG + 3]),
    "uint64": np.array([BIG + 1, BIG + 2, BIG + 3], dtype=np.uint64),
    "uint64 alone": np.array([2**63 + 1, 2**63 + 2, 2**63 + 3], dtype=np.uint64),
    "int8": np.array([-1, 2, 3], dtype=np.int8),
    "float": np.array([1.0, 2.0, 3.0]),
    "bool": np.array([False, True]),
    "date": np.array(DAYS, dtype="datetime64[D]"),
    "time": np.array(DAYS, dtype="datetime64[ns]") + np.timedelta64(1, "ns"),
    "span": np.array([1, 2, 3], dtype="timedelta64[s]"),
    "text": np.array(["a", "b", "ccc"]),
    "text objects": objects("a", "b", "ccc"),
    "long text": objects("a", "b" * 3000, "c"),
    "NUL": objects("a", "a\0", "a\0\0"),
    "surrogate": objects("a", "\ud800", "\U0001f9c0"),
}
# Objects that files do not hold.
OBJECTS = {
    "large": objects(3, 2**70, 2**70 + 1),
    "decimal": objects(*map(decimal.Decimal, ("1.1", "1.2", "1.3"))),
    "uuid": objects(*(uuid.UUID(int=i) for i in range(3))),
    "zone": objects(*(pd.Timestamp(f"202{i}", tz="Europe/Berlin") for i in range(3))),
    "period": objects(*pd.period_range("2020", periods=3, freq="D")),
}
ALL = {**ARRAYS, **OBJECTS}


def model(**given):
    return SoftmaxClassifier(solver="implicit", max_iter=2, random_state=0, **given)


def rows_of(three):
    return three[np.arange(N_ROWS) // 20 % len(three)]


def same(classes, three):
    assert classes.dtype == three.dtype
    assert [*map(type, classes.tolist())] == [*map(type, three.tolist())]
    assert classes.tolist() == three.tolist()


@pytest.mark.parametrize("kind", ALL)
def test_every_way_to_train_keeps_the_type_of_labels(kind):
    three = ALL[kind]
    y = rows_of(three)
    parts = [(X[:30], y[:30]), (X[30:], y[30:])]
    same(model().fit(X, y).classes_, three)
    same(model().fit(Stream(X, y, rows=30)).classes_, three)
    same(model().fit(parts).classes_, three)
    same(model(warm_start=True).fit(X, y).fit(X, y).classes_, three)
    grown = model().partial_fit(*parts[0])
    same(grown.partial_fit(*parts[1]).classes_, three)
    same(model().partial_fit(*parts[0], classes=three).classes_, three)
    same(model().partial_fit(Stream(X, y, rows=30), classes=three).classes_, three)


@pytest.mark.parametrize("kind", ALL)
def test_labels_of_a_model_are_found_again(kind):
    three = ALL[kind]
    y = rows_of(three)
    fitted = model().fit(X, y)
    assert fitted.evaluate(X, y)["n_unseen"] == 0
    assert fitted.score(X, y) == fitted.score(X, y[:, np.newaxis]) == fitted.score(X, list(y)) == 1
    same(fitted.predict(X)[::20][: len(three)], three)
    left = fitted.predict_top_k(X, 1, exclude=y[:, np.newaxis])[0][:, 0]
    assert not any(a == b for a, b in zip(left.tolist(), y.tolist(), strict=True))
    again = fitted.predict_top_k(X, 1, exclude=[[label] for label in y])[0][:, 0]
    assert again.tolist() == left.tolist()
    weights = dict(zip(three, (1.0, 1.0, 2.0), strict=False))
    assert model(class_weight=weights).fit(X, y).classes_.tolist() == three.tolist()
    table = prequential(model(), [(X[::2], y[::2]), (X[1::2], y[1::2])])
    assert table["n_unseen"].tolist() == [30, 0]  # nothing is known before the first part
    others = find_positions(three, np.sort(three)[1:], "y")
    assert others.tolist() == [-1, 0, 1][: len(three)]
    kept, labels = drop_unseen_classes(three[1:], sp.csr_array(X), y)
    assert (kept.shape[0], labels[0]) == ((y != three[0]).sum(), three[1])


@pytest.mark.parametrize("kind", ARRAYS)
def test_files_give_labels_back(kind, tmp_path):
    fitted = model().fit(X, rows_of(ARRAYS[kind]))
    fitted.save(tmp_path / "m")
    same(manyclass.load(tmp_path / "m").classes_, fitted.classes_)
    same(manyclass.load(tmp_path / "m").partial_fit(X, rows_of(ARRAYS[kind])).classes_, fitted.classes_)


# One kind of labels in different types, and whether each of the second is one of the first.
MEETINGS = {
    "uint64 and int64": (ARRAYS["uint64"], np.array([BIG + 1, BIG, -1]), [True, False, False]),
    "int64 and uint64": (ARRAYS["int64"], np.array([BIG + 1, 2**63, 2**64 - 1], np.uint64), [True, False, False]),
    "int64 and int8": (np.array([-1, 255, 2**40]), np.array([-1, 127, 1], np.int8), [True, False, False]),
    "int8 and int64": (ARRAYS["int8"], np.array([255, 2, 258]), [False, True, False]),
    "int64 and float": (ARRAYS["int64"], np.array([float(BIG), BIG + 256.0, np.nan]), [False] * 3),
    "float and int64": (np.array([1.0, float(BIG), 2.0**63]), np.array([1, BIG, BIG + 1]), [True, True, False]),
    "int64 and ints": (ARRAYS["int64"], objects(BIG + 1, np.uint64(BIG + 2), 2**70), [True, True, False]),
    "bool and int": (ARRAYS["bool"], np.array([0, 1, 2]), [True, True, False]),
    "int and bool": (np.array([1, 2, 3]), np.array([False, True]), [False, True]),
    "ints and int64": (OBJECTS["large"], np.array([3, 4]), [True, False]),
    "days and nanoseconds": (ARRAYS["date"], ARRAYS["time"], [False] * 3),
    "days and midnights": (ARRAYS["date"], np.array(["2020-01-02T00"], "M8[ns]"), [True]),
    "nanoseconds and a far day": (
        np.array(["1877-06-08T00:13:28.128675840"], "M8[ns]"),
        np.array(["300000-01-01"], "M8[D]"),
        [False],
    ),
    "days and objects": (ARRAYS["date"], objects(DAYS[1], DAYS[0]), [True, True]),
    "nanoseconds and Timestamps": (ARRAYS["time"], objects(pd.Timestamp(ARRAYS["time"][1]), pd.NaT), [True, False]),
    "zones": (OBJECTS["zone"], objects(pd.Timestamp("2020", tz="Europe/Berlin").tz_convert("UTC")), [True]),
    "narrow and wide text": (
        ARRAYS["text"],
        np.array(["a", "abc", "cc", "ccc" + "c" * 300]),
        [True, False, False, False],
    ),
    "text and objects": (ARRAYS["text"], objects("ccc", "cccc", np.str_("a")), [True, False, True]),
    "text with a NUL": (ARRAYS["text"], objects("a\0", "a"), [False, True]),
}


@pytest.mark.parametrize("kind", MEETINGS)
def test_equal_labels_of_other_types_are_equal_and_no_others(kind):
    classes, labels, found = MEETINGS[kind]
    positions = find_positions(labels, classes, "y")
    assert (positions >= 0).tolist() == found
    for label, at in zip(labels, positions, strict=True):
        assert at < 0 or classes[at] == label


@pytest.mark.parametrize(
    ("known", "new", "united"),
    [
        (ARRAYS["int64"], np.array([BIG + 4], np.uint64), np.array([BIG + 1, BIG + 2, BIG + 3, BIG + 4])),
        (ARRAYS["uint64 alone"], np.array([2**63 + 4], np.uint64), np.arange(2**63 + 1, 2**63 + 5, dtype=np.uint64)),
        (ARRAYS["int8"], np.array([-1, 3]), ARRAYS["int8"]),
        (ARRAYS["int8"], np.array([300]), np.array([-1, 2, 3, 300])),
        (np.array([-1]), np.array([2**63], np.uint64), objects(-1, 2**63)),
        (ARRAYS["int64"], np.array([7.0]), np.array([7, BIG + 1, BIG + 2, BIG + 3])),
        (ARRAYS["bool"], np.array([1, 0]), ARRAYS["bool"]),
        (ARRAYS["date"], ARRAYS["date"].astype("M8[ns]"), ARRAYS["date"]),
        (ARRAYS["text"], objects("b"), ARRAYS["text"]),
        (ARRAYS["text"], np.array(["dddd"]), np.array(["a", "b", "ccc", "dddd"])),
        (ARRAYS["text"], objects("d" * 3000), objects("a", "b", "ccc", "d" * 3000)),
        (ARRAYS["text objects"], np.array(["d"]), objects("a", "b", "ccc", "d")),
    ],
)
def test_new_classes_join_the_known_ones_without_floats(known, new, united):
    classes, positions = sorted_classes(new, known)
    same(classes, united)
    assert classes[positions].tolist() == as_labels(new).astype(classes.dtype).tolist()


def test_ids_of_the_other_sign_are_evaluated_and_excluded():
    """The reproduction of the report: 64-bit ids as unsigned and signed integers."""
    ids = ARRAYS["int64"].repeat(20)
    fitted = model().fit(X, ids.astype(np.uint64))
    assert fitted.evaluate(X, ids)["n_unseen"] == 0
    assert not np.any(fitted.predict_top_k(X, 1, exclude=ids[:, np.newaxis])[0][:, 0] == ids)
    assert fitted.partial_fit(X, ids).classes_.dtype == np.uint64
    margin = MarginClassifier(random_state=0, max_iter=1).fit(X, ids.astype(np.uint64))
    assert not np.any(margin.predict_top_k(X, 1, exclude=ids[:, np.newaxis])[0][:, 0] == ids)


@pytest.mark.parametrize(
    ("column", "as_array"),
    [
        (pd.Series([BIG + 1, BIG + 2, BIG + 3], dtype="Int64"), ARRAYS["int64"]),
        (pd.Series([2**63 + 1, 2**63 + 2, 2**63 + 3], dtype="UInt64"), ARRAYS["uint64 alone"]),
        (pd.Series([BIG + 1, BIG + 2, BIG + 3], dtype="int64[pyarrow]"), ARRAYS["int64"]),
        (pd.Series([BIG + 1, BIG + 2, BIG + 3]).astype("category"), ARRAYS["int64"]),
        (pd.Series([False, True, True], dtype="boolean"), np.array([False, True, True])),
        (pd.Series([False, True, True], dtype="bool[pyarrow]"), np.array([False, True, True])),
        (pd.Series(["a", "b", "ccc"], dtype="string[pyarrow]"), ARRAYS["text objects"]),
        (pd.Series(["a", "b", "ccc"], dtype="category"), ARRAYS["text objects"]),
        (pd.Series(DAYS, dtype=pd.ArrowDtype(pa.date32())), ARRAYS["date"]),
        (pd.Series(OBJECTS["zone"]), OBJECTS["zone"]),
        (pd.Series(ARRAYS["time"]), ARRAYS["time"]),
        (pa.array([BIG + 1, BIG + 2, BIG + 3]), ARRAYS["int64"]),
        (pa.chunked_array([["a"], ["b", "ccc"]]), ARRAYS["text objects"]),
        ([np.uint64(BIG + 1), np.int64(BIG + 2), BIG + 3], ARRAYS["int64"]),
        ([1, 2**63 + 1], np.array([1, 2**63 + 1], np.uint64)),
        ([-1, 2**63 + 1], objects(-1, 2**63 + 1)),
        ([BIG + 1, 2.0], objects(BIG + 1, 2.0)),
        ([1, 2.0], np.array([1.0, 2.0])),
        ([datetime.datetime(2020, 1, 1, 1)], np.array(["2020-01-01T01"], "M8[us]")),
        ([datetime.timedelta(seconds=1)], np.array([10**6], "m8[us]")),
        (["a", np.str_("b"), "ccc"], ARRAYS["text"]),
        (["a", "b" * WIDEST], np.array(["a", "b" * WIDEST])),
        (["a", "b" * (WIDEST + 1)], objects("a", "b" * (WIDEST + 1))),
        (np.array(["a", "b"], dtype=np.dtypes.StringDType()), np.array(["a", "b"])),
        (["a", "a\0"], objects("a", "a\0")),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_columns_and_lists_are_read_by_what_they_hold(column, as_array):
    same(as_labels(column), as_array)


@pytest.mark.parametrize(
    "y",
    [
        [1, None] * 30,
        [1, pd.NA] * 30,
        ["a", np.nan] * 30,
        [decimal.Decimal(1), decimal.Decimal("nan")] * 30,
        [pd.Timestamp("2020"), pd.NaT] * 30,
        pd.Series([1, None] * 30, dtype="Int64"),
        pd.Series(["a", None] * 30, dtype="string[pyarrow]"),
        pd.Series(["a", None] * 30, dtype="category"),
        np.ma.masked_array(np.arange(60), mask=np.arange(60) % 2),
    ],
    ids=str,
)
def test_missing_labels_are_told_by_their_row_wherever_y_is_given(y):
    fitted = model().fit(X, np.arange(60) % 3)
    for call in (model().fit, model().partial_fit, fitted.evaluate, fitted.score):
        with pytest.raises(ValueError, match=r"y\[1\] is .*: row 1 has no label"):
            call(X, y)


@pytest.mark.parametrize(
    ("y", "told"),
    [
        (np.array([b"a", b"b", b"c"]), r"y holds bytes, such as .*decode them"),
        (objects((1, 2), (1, 3), (2, 1)), r"y\[0\] is \(1, 2\).*MultiLabelBinarizer"),
        (objects(BIG + 1, 2, 0.5), "Unknown label type: continuous. y holds 0.5"),
        (np.array([1.0, 2.0, np.inf]), "Input y contains infinity"),
        (np.array([1.0, 2.0, 2.5], dtype=np.longdouble), "Unknown label type: continuous"),
        (np.array([1j, 2, 3]), "Unknown label type: complex"),
    ],
)
def test_what_is_no_label_of_a_class_is_refused(y, told):
    with pytest.raises(ValueError, match=told):
        model().fit(X, rows_of(y))


def test_a_long_label_costs_the_others_nothing(tmp_path):
    """The array of fixed width that NumPy makes of these has 2.4 GB."""
    names = [f"l{i}" for i in range(99_999)] + ["L" * 6000]
    classes, positions = sorted_classes(as_labels(names))
    assert classes[positions].tolist() == names
    assert find_positions(as_labels(names[-2:]), classes, "y").tolist() == positions[-2:].tolist()
    assert join_labels([as_labels(names[:1]), as_labels(names[-1:])]).tolist() == [names[0], names[-1]]
    fitted = model().fit(X, rows_of(np.array(["a", "b" * 3000, "c"])))
    fitted.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 50_000
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["a", "b" * 3000, "c"]


def test_rows_of_exclude_may_have_names_and_be_of_several_types():
    fitted = model().fit(X, ARRAYS["uint64"].repeat(20))
    lists = [[BIG + 1]] * 20 + [np.array([BIG + 2], np.uint64)] * 20 + [pd.Series([BIG + 3], index=["x"])] * 20
    expected = fitted.predict_top_k(X, 1, exclude=ARRAYS["int64"].repeat(20)[:, np.newaxis])[0]
    for given in (lists, pd.Series(lists, index=range(7, 67)), pd.DataFrame({"seen": ARRAYS["int64"].repeat(20)})):
        assert np.array_equal(fitted.predict_top_k(X, 1, exclude=given)[0], expected)
    matrix = pd.DataFrame(X, columns=list("abc"))
    assert np.array_equal(fitted.predict_top_k(X, 1, exclude=matrix)[0], expected)
    both = fitted.predict_top_k(X, 2, exclude=[ARRAYS["uint64"][:2]] * 60)[0]
    assert both.tolist() == [[BIG + 3, None]] * 60  # which can be given back
    assert set(fitted.predict_top_k(X, 1, exclude=both)[0].ravel().tolist()) == {BIG + 1, BIG + 2}


def test_names_of_the_columns_of_a_frame_are_classes():
    Y = pd.DataFrame(X.astype(int), columns=["ant", "bee", "cow"])
    fitted = SoftmaxClassifier(model="linear", max_iter=2, random_state=0).fit(X, Y)
    assert fitted.classes_.tolist() == ["ant", "bee", "cow"]
    assert fitted.partial_fit(X, Y).classes_.tolist() == ["ant", "bee", "cow"]
    assert fitted.predict_top_k(X, 1)[0][::20, 0].tolist() == ["ant", "bee", "cow"]
    plain = SoftmaxClassifier(model="linear", max_iter=2, random_state=0).fit(X, Y.to_numpy())
    assert plain.evaluate(X, Y.to_numpy()) == SoftmaxClassifier(model="linear", max_iter=2, random_state=0).fit(
        X, pd.DataFrame(Y.to_numpy())
    ).evaluate(X, Y)


def test_columns_of_a_frame_may_stand_in_any_order():
    Y = pd.DataFrame(X.astype(int), columns=["ant", "bee", "cow"])
    fitted, swapped = (SoftmaxClassifier(model="linear", max_iter=2, random_state=0) for _ in range(2))
    fitted.fit(X, Y)
    with pytest.warns(UserWarning, match="the first one is 'ant' instead of 'cow'"):
        swapped.fit(X, Y[["cow", "bee", "ant"]])
    assert swapped.classes_.tolist() == ["ant", "bee", "cow"]
    assert np.array_equal(swapped.coef_, fitted.coef_)
    assert swapped.evaluate(X, Y[["bee", "cow", "ant"]]) == fitted.evaluate(X, Y) == fitted.evaluate(X, Y.to_numpy())
    assert swapped.score(X, Y[["bee", "cow", "ant"]]) == 1
    swapped.partial_fit(X, Y[["bee", "ant", "cow"]])
    assert np.array_equal(swapped.coef_, fitted.partial_fit(X, Y).coef_)
    with pytest.raises(ValueError, match="y has a column 'dog'; the columns must be the model's 3 classes"):
        fitted.evaluate(X, Y.rename(columns={"cow": "dog"}))


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, lambda y: list(sp.csr_array(y))])
def test_sparse_indicators_are_refused_where_there_is_one_label_a_row(form):
    X, y = np.random.default_rng(0).random((10, 5)), np.eye(7)[np.arange(10) % 7]
    with pytest.raises(ValueError, match="this takes one label a row; SoftmaxClassifier and MarginClassifier take"):
        AugmentReduceClassifier(max_iter=2).fit(X, form(y))
