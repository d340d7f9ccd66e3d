"""Stream over each form of source: the same rows from text, the binary cache, tables and arrays, pass after pass."""

import datetime
import decimal
import importlib

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream, first_label, load_csr, load_xmc, save_csr
from manyclass.datasets.inputs import Input, Layout
from manyclass.datasets.stream import read_records

D, K, N = 6, 4, 50


@pytest.fixture
def rows(seed):
    """Sparse rows with one or two labels, a few with none."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((N, D), density=0.4, format="csr", dtype=np.float32, rng=rng)
    lists = [rng.choice(K, rng.integers(3), replace=False) for _ in range(N)]
    indptr = np.cumsum([0, *map(len, lists)])
    return X, sp.csr_array((np.ones(indptr[-1], np.float32), np.concatenate(lists), indptr), shape=(N, K))


def written(path, X, Y):
    """The rows as text."""
    lines = [f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}"]
    for i in range(X.shape[0]):
        x, y = X[[i]], Y[[i]]
        features = " ".join(f"{j}:{v!r}" for j, v in zip(x.indices.tolist(), map(float, x.data), strict=True))
        lines.append(",".join(map(str, y.indices.tolist())) + " " + features)
    path.write_text("\n".join(lines) + "\n")
    return path


def joined(parts):
    X, y = zip(*parts, strict=True)
    if hasattr(X[0], "iloc"):
        return pandas.concat(X, ignore_index=True), np.concatenate(y)
    stack = sp.vstack if sp.issparse(X[0]) else np.concatenate
    return stack(X), (sp.vstack if sp.issparse(y[0]) else np.concatenate)(y)


def assert_rows(found, X, Y):
    for one, other in zip(found, (X, Y), strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.toarray(), other.toarray())


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_text_binary_and_arrays_have_the_same_rows(rows, size, tmp_path):
    X, Y = rows
    text = written(tmp_path / "rows.txt", X, Y)
    save_csr(tmp_path / "rows.csr.safetensors", X, Y)
    for source in ((text,), (tmp_path / "rows.csr.safetensors",), (X, Y), (X.toarray(), Y.toarray())):
        stream = Stream(*source, rows=size, shuffle=False)
        assert (stream.n_features, stream.n_labels, stream.n_rows) == (D, K, N)
        found = joined(stream)
        assert_rows((sp.csr_array(found[0]), found[1]), X, Y)
        first = joined(Stream(*source, rows=size, shuffle=False, labels="first"))
        y = first_label(Y if sp.issparse(source[-1]) or len(source) == 1 else sp.csr_array(Y.toarray()))  # in order
        np.testing.assert_array_equal(first[1], y[y >= 0])
        np.testing.assert_array_equal(sp.csr_array(first[0]).toarray(), X[y >= 0].toarray())


def test_the_cache_of_load_xmc_is_a_source(rows, tmp_path):
    path = written(tmp_path / "rows.txt", *rows)
    load_xmc(path, cache=True)
    assert_rows(joined(Stream(f"{path}.csr.safetensors", rows=9, shuffle=False)), *rows)


def test_each_pass_has_all_rows_in_another_order_and_can_be_had_again(rows):
    X, _ = rows
    y = np.arange(N)
    stream = Stream(X, y, rows=5, window=4, random_state=3)
    first, second = (joined(stream)[1] for _ in range(2))
    assert not np.array_equal(first, second)
    for found in (first, second):
        for begin in range(0, N, 20):
            np.testing.assert_array_equal(np.sort(found[begin : begin + 20]), y[begin : begin + 20])
    np.testing.assert_array_equal(joined(stream.read(1))[1], second)
    np.testing.assert_array_equal(joined(Stream(X, y, rows=5, window=4, random_state=3))[1], first)
    larger = stream.with_rows(10, 2)
    np.testing.assert_array_equal(joined(larger.read(0))[1], first)
    assert [len(part) for _, part in larger.read(0)] == [10] * 5


def tables(tmp_path, form, X, y):
    """Two files, of uneven lengths."""
    frame = pandas.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])]).assign(label=y)
    for at, some in enumerate((frame[:13], frame[13:])):
        path = tmp_path / f"part-{at}.{form}"
        if form.startswith("parquet"):
            pytest.importorskip("pyarrow")
            some.to_parquet(path, index=False)
        else:
            some.to_csv(path, sep="\t" if form.startswith("tsv") else ",", index=False)
    return frame.drop(columns="label")


@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv", "tsv.xz", "parquet"])
@pytest.mark.parametrize("names", [False, True])
def test_tables_are_read_in_parts(form, names, tmp_path, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 8, (40, 3)) / 4  # exact in text
    y = rng.integers(5, size=40)
    y = np.array(["ant", "bee", "12", "cow", "dog"])[y] if names else y
    frame = tables(tmp_path, form, X, y)
    for source in (tmp_path, str(tmp_path / "part-*"), sorted(tmp_path.iterdir())):
        stream = Stream(source, rows=7, shuffle=False)
        assert stream.format == form[:3] or form == "parquet"
        assert stream.n_features == 3
        assert stream.n_rows == (40 if form == "parquet" else None)
        found, labels = joined(stream)
        pandas.testing.assert_frame_equal(found, frame.astype(np.float32))
        assert labels.tolist() == y.tolist()
        assert len(next(iter(stream))[1]) == 7


def test_a_table_trains_with_the_names_of_its_columns(tmp_path, seed):
    y = np.random.default_rng(seed).integers(3, size=60)
    frame = tables(tmp_path, "csv", np.eye(3)[y], y)
    model = SoftmaxClassifier(random_state=0)
    for X, labels in Stream(tmp_path, rows=30):
        model.partial_fit(X, labels, classes=[0, 1, 2])
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2"]
    assert model.score(frame, y) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("f0,label\n1,a\nx,b\n", "part-0.csv:3: 'x' in column 'f0' is not a finite number"),
        ("f0,label\n" + "1,b\n" * 1200 + "nan,b\n", "part-0.csv:1202: 'nan' in column 'f0' is not a finite number"),
        ("f0,label\n1,a,b\n2,b,c\n", "part-0.csv:2: there are 3 cells; the columns are 2"),
        ("f0,label\n" + "1,3\n" * 100 + "1,3,4\n", "part-0.csv:102: there are 3 cells; the columns are 2"),
        ("f0,label\n" + "1,3\n" * 1000 + "1\n", "part-0.csv:1002: there are 1 cells; the columns are 2"),
        ('f0,label\n1,"a\nb"\n\n2,b\n', "part-0.csv:4: the line is blank"),
        ("label\n1\n", "no column but 'label'"),
        ("f0,of\n1,2\n", "no column is named 'label'; name it by y, one of 'f0', 'of'"),
        ("", "it is empty"),
    ],
)
def test_faults_of_tables_are_told(text, told, tmp_path):
    (tmp_path / "part-0.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        list(Stream(tmp_path, rows=100))


@pytest.mark.parametrize(
    ("labels", "integers"),
    [
        (["2139", "7", "-3", "0"], True),
        (["02139", "2139"], False),
        (["+1", "1"], False),
        (["NA", "nan", "None", "null", "#N/A"], False),
        (["1234567890123456789", "1234567890123456788", "1"], False),
        (["1.0", "1", "1e3"], False),
        (["1\uff12", "12"], False),
        ([" a ", "b", "a,b", 'say "a"', "two\nlines", "#"], False),
        (["1"] * 2500 + ["01"], False),  # told by a row far behind the first
    ],
)
def test_labels_of_a_stream_of_tables_are_those_of_the_plain_reader(labels, integers, tmp_path):
    path = tmp_path / "t.csv"
    pandas.DataFrame({"f0": 1.0, "label": labels}).to_csv(path, index=False)
    found = np.concatenate([y for _, y in Stream(path, rows=2, shuffle=False)])
    assert found.dtype.kind == ("i" if integers else "U")
    plain = read_records("csv", Input.of(str(path)), Layout())
    expected = plain.labels[first_label(plain.Y)]
    assert expected.dtype.kind == found.dtype.kind
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("labels", "integers"),
    [
        (["", "2139", " ", "7", '""', "-3", "", ""], True),
        (["a", "", "b", " \t", "a"], False),
        (["", "", "1", "01"], False),
        (["a"] * 5 + [""] * 20 + ["b"], False),  # whole parts without a label
    ],
)
def test_rows_with_an_empty_label_cell_are_left_out_by_both_readers(labels, integers, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("f0,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    for shuffle in (False, True):
        parts = list(Stream(path, rows=2, shuffle=shuffle, random_state=0 if shuffle else None))
        rows, found = (np.concatenate(column) for column in zip(*((X["f0"], y) for X, y in parts), strict=True))
        assert found.dtype.kind == ("i" if integers else "U")
        plain = read_records("csv", Input.of(str(path)), Layout())
        there = np.flatnonzero(np.diff(plain.Y.indptr) > 0)
        expected = plain.labels[first_label(plain.Y)[there]]
        assert sorted(zip(rows.tolist(), found.tolist(), strict=True)) == [*zip(there, expected, strict=True)]
        assert sum(label.strip(' \t"') != "" for label in labels) == len(rows)


def test_rows_of_parquet_without_a_label_are_left_out(tmp_path):
    pytest.importorskip("pyarrow")
    for labels in (["a", None, "", " ", "b"], [3.0, np.nan, np.nan, np.nan, 4.0]):
        pandas.DataFrame({"f0": np.arange(5.0), "label": labels}).to_parquet(tmp_path / "t.parquet", index=False)
        parts = [(X["f0"].tolist(), y.tolist()) for X, y in Stream(tmp_path / "t.parquet", rows=9, shuffle=False)]
        assert parts == [([0.0, 4.0], [labels[0], labels[4]])]


def test_numbers_are_read_as_those_of_the_plain_reader(tmp_path):
    cells = [" 1", "+2.5", "1e-3", "-0", "16777217", "3.4028234e38", "0.1", '"7"']
    path = tmp_path / "t.csv"
    path.write_text("f,label\n" + "".join(f"{cell},a\n" for cell in cells))
    found = np.concatenate([X.to_numpy() for X, _ in Stream(path, rows=3, shuffle=False)])
    plain = read_records("csv", Input.of(str(path)), Layout())
    np.testing.assert_array_equal(found, plain.X.to_numpy())
    np.testing.assert_array_equal(found[:, 0], np.array([float(cell.strip('"')) for cell in cells], np.float32))


def test_quotes_hold_delimiters_lines_and_quotes(tmp_path):
    labels = ["a\tb", "a\n\nb", '"', '""', "a\n\n\n", '5" disk', "it's", "#x", ",", '"a"b']
    frame = pandas.DataFrame({"f": 1.0, "label": labels, "g": 2.0})
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        path = tmp_path / f"t.{form}"
        frame.to_csv(path, sep=delimiter, index=False)
        path.write_bytes(path.read_bytes() + b"\n\n")  # blank lines behind the last row are none
        found = [label for _, y in Stream(path, rows=1, shuffle=False) for label in y.tolist()]
        assert found == [label.strip() for label in labels]
    path.write_text('f\tlabel\n1\t5" disk\n2\tb\n\n')  # a quote that begins no cell is a letter
    assert [label for _, y in Stream(path, shuffle=False) for label in y.tolist()] == ['5" disk', "b"]
    path.write_text('f\tlabel\n1\t"disk\n2\tb\n')
    with pytest.raises(ValueError, match=r"t.tsv: a cell in quotes behind line 1 does not end"):
        Stream(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_pieces_of_any_size_are_the_same_table(end, tmp_path, monkeypatch):
    """Cuts fall within numbers, characters of several bytes, quotes and ends of lines."""
    path = tmp_path / "t.csv"
    rows = ["f§g§label", "1§-2.5e-1§größe", '"3"§4§"a§""b""' + end + 'c"', "5§6§x", '7§8§"y"z']
    path.write_bytes(("\ufeff" + end * 2 + end.join(rows) + end).encode())
    for size in (1, 2, 3, 5, 8, 1000):
        monkeypatch.setattr("manyclass.datasets.tables.PIECE_BYTES", size)
        parts = list(Stream(path, delimiter="§", rows=2, shuffle=False))
        assert [len(y) for _, y in parts] == [2, 2]
        X, y = joined(parts)
        assert X.columns.tolist() == ["f", "g"]
        np.testing.assert_array_equal(X.to_numpy(), np.array([[1, -0.25], [3, 4], [5, 6], [7, 8]], np.float32))
        assert y.tolist() == ["größe", f'a§"b"{end}c', "x", "yz"]
    monkeypatch.setattr("manyclass.datasets.tables.PIECE_BYTES", 3)
    for bad, told in [
        (b"f,label\n1,x\n2,gr\xf6sse\n", r"t.csv:3: byte 0xf6 is not UTF-8 text; if it is LATIN1, convert it"),
        (b"f,label\n1,\xed\xa0\x80\n", r"t.csv:2: byte 0xed is not UTF-8"),  # half of a surrogate pair
        (b"f,label\n1,\xc0\x80\n", r"t.csv:2: byte 0xc0 is not UTF-8"),  # an encoding that is too long
        (b"f,label\n1,\xf4\x90\x80\x80\n", r"t.csv:2: byte 0xf4 is not UTF-8"),  # beyond the last character
        ("f,label\n1,x\n".encode("utf-16"), r"t.csv:1: byte 0xff is not UTF-8 text; if it is UTF-16, convert it"),
    ]:
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=told):
            Stream(path)
    path.write_text("f,label\n1,\U0010ffff\n2,\ud7ff\n3,\ue000\n", encoding="utf-8")
    assert joined(list(Stream(path, shuffle=False)))[1].tolist() == ["\U0010ffff", "\ud7ff", "\ue000"]


def test_mistakes_are_told_at_once(rows, tmp_path):
    X, Y = rows
    text = written(tmp_path / "rows.txt", X, Y)
    (tmp_path / "a.csv").write_text("a,label\n1,2\n")
    (tmp_path / "b.csv").write_text("b,label\n1,2\n")
    save_csr(tmp_path / "x.safetensors", X)
    y = np.zeros(N)
    for source, options, told in (
        ((text, "label"), {}, "y is 'label', which has no effect with format='xmc'"),
        ((tmp_path / "a.csv",), {"n_features": 3}, "n_features is 3, which has no effect with format='csv'"),
        ((tmp_path / "a.csv",), {"labels": "first"}, "labels is 'first', which has no effect with one label a row"),
        ((tmp_path / "x.safetensors",), {}, "it has no labels"),
        ((text,), {"format": "csr"}, "not a binary CSR file"),
        ((text,), {"format": "xml"}, "format is 'xml'; it must be one of"),
        (([text, tmp_path / "a.csv"],), {}, "of several forms, csv, xmc"),
        (([tmp_path / "a.csv", tmp_path / "b.csv"],), {}, "differ in their columns: 'a'"),
        ((X,), {}, "y is None"),
        ((X, y[1:]), {}, f"X has {N} rows, y has {N - 1}"),
        ((X, y), {"zero_based": False}, "zero_based is False, which has no effect with arrays"),
        ((X, y), {"format": "csv"}, "format is 'csv', which has no effect with arrays"),
        ((y, y), {}, "X has shape"),
    ):
        with pytest.raises(ValueError, match=told):
            Stream(*source, **options)
    with pytest.raises(TypeError, match="y is a int; of a table it must be the name"):
        Stream(tmp_path / "a.csv", 3)


def test_a_damaged_binary_file_is_told(rows, tmp_path):
    X, Y = rows
    path = tmp_path / "rows.safetensors"
    save_csr(path, X, Y)
    with pytest.raises(ValueError, match=r"rows 0 to 49 of X have an index outside \[0, 2\)"):
        list(Stream(path, n_features=2))
    assert load_csr(path)[0].shape == (N, D)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([2**63 + 1, 2**63 + 2], np.uint64), np.array([2**63 + 1, 2**63 + 2], np.uint64)),
        ([True, False], np.array([True, False])),
        ([datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)], np.array(["2020-01-02", "2020-01-01"], "M8[D]")),
        ([decimal.Decimal("1.10"), decimal.Decimal("1.1")], np.array(["1.10", "1.10"])),
        (["a", "b" * 3000], np.array(["a", "b" * 3000], dtype=object)),
    ],
    ids=["uint64", "bool", "date", "decimal", "long"],
)
def test_labels_of_parquet_keep_their_type_or_become_text_that_files_hold(labels, expected, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"f0": arrow.array([1.0, 2.0]), "label": arrow.array(labels)})
    importlib.import_module("pyarrow.parquet").write_table(table, tmp_path / "t.parquet")
    ((_, y),) = Stream(tmp_path / "t.parquet", shuffle=False)
    np.testing.assert_array_equal(y, expected, strict=True)


@pytest.mark.parametrize(
    "labels", [[["a"], ["b", "c"]], [b"a", b"b"], [{"a": 1}, {"a": 2}]], ids=["list", "bytes", "struct"]
)
def test_labels_of_parquet_that_are_none_are_refused(labels, tmp_path):
    """They would become text such as "['a']" and "b'a'"."""
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    importlib.import_module("pyarrow.parquet").write_table(arrow.table({"f0": [1.0, 2.0], "label": labels}), path)
    for read in (lambda: list(Stream(path)), lambda: read_records("parquet", Input.of(str(path)), Layout())):
        with pytest.raises(ValueError, match=r"t\.parquet: label is of the type .*; labels are text, numbers or dates"):
            read()
