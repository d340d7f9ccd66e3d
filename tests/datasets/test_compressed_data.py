"""Compressed files: told by their first bytes whatever their names, and read in bounded memory."""

import bz2
import gzip
import io
import lzma
import sys
import tracemalloc

import numpy as np
import pandas
import pytest

from manyclass import compressed
from manyclass.compressed import LONGEST_LINE, opened
from manyclass.datasets import Stream, load_xmc
from manyclass.datasets.inputs import Input, Layout, guess_form
from manyclass.datasets.stream import read_records

TEXT = b"2 3 4\n1,0 1:1\n2 2:1\n"


def zstandard(content):
    return pytest.importorskip("pyarrow").compress(content, codec="zstd", asbytes=True)


KINDS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstandard}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rows.txt.{}", "rows.{}", "ROWS.TXT.{}", "rows.txt"])
def test_what_is_compressed_is_told_by_its_bytes(kind, name, tmp_path):
    path = tmp_path / name.format(kind.upper() if name.isupper() else kind)
    path.write_bytes(KINDS[kind](TEXT))
    (tmp_path / "plain").write_bytes(TEXT)
    for found, expected in zip(load_xmc(path), load_xmc(tmp_path / "plain"), strict=True):
        assert (found != expected).nnz == 0
        assert found.dtype == expected.dtype
        assert found.indices.tolist() == expected.indices.tolist()  # the order of labels, too
    parts = list(Stream(path, shuffle=False))
    assert [X.toarray().tolist() for X, _ in parts] == [[[0, 1, 0], [0, 0, 1]]]
    assert Input.of(str(path)).read() == TEXT
    assert Input(str(path), KINDS[kind](TEXT)).read(5) == TEXT[:5]  # of a pipe, whose bytes are all that tells
    assert guess_form([Input.of(str(path))]) == "xmc"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_the_form_is_told_by_the_suffix_before_that_of_the_compression(kind, form, tmp_path):
    for path in (tmp_path / f"t.{form}.{kind}", tmp_path / f"T.{form}.{kind}".upper()):
        path.write_bytes(KINDS[kind](b"a,label\n1,x\n".replace(b",", {"csv": b",", "tsv": b"\t"}[form])))
        ((X, y),) = Stream(path)
        pandas.testing.assert_frame_equal(X, pandas.DataFrame({"a": [1]}, dtype=np.float32))
        assert y.tolist() == ["x"]
        assert guess_form([Input.of(str(path))]) == form


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_or_a_plain_file_of_such_a_name_is_refused(kind, tmp_path):
    path, whole = tmp_path / f"rows.{kind.upper()}", KINDS[kind](TEXT * 1000)
    for content in (whole[:-5], whole[: len(whole) // 2], b"", TEXT):
        path.write_bytes(content)
        for read in (load_xmc, lambda given: list(Stream(given)), lambda given: Input.of(str(given)).read()):
            with pytest.raises(ValueError, match=rf"rows.{kind.upper()}: not a complete {kind} file"):
                read(path)


def test_a_text_that_begins_as_a_bzip2_file_is_a_text(tmp_path):
    (tmp_path / "t").write_bytes(b"BZh9 is the level of a file\n")
    with opened(tmp_path / "t") as file:
        assert file.read().startswith(b"BZh9 is")


def test_what_decompresses_zstandard_is_named_where_it_is_missing(tmp_path, monkeypatch):
    (tmp_path / "rows.zst").write_bytes(zstandard(TEXT))
    for module in ("compression.zstd", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"read by pyarrow: pip install 'manyclass\[tables\]'"):
        load_xmc(tmp_path / "rows.zst")


# Few bytes that hold many


def peak_of(read):
    tracemalloc.start()
    try:
        read()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(("blanks", "n_rows"), [(b" " * 99 + b"\n", 671_088), (b"# nothing" + b" " * 90 + b"\n", 0)])
def test_lines_without_entries_take_little_memory_however_many_there_are(blanks, n_rows, tmp_path):
    size = 1 << 26
    (tmp_path / "bomb.xz").write_bytes(lzma.compress(blanks * (size // len(blanks)) + b"1 1:1\n", preset=0))
    found = []
    # A block of 8 MB, with the rest before it, its copy for the core and its lines; the whole text is 64 MB.
    assert peak_of(lambda: found.extend(load_xmc(tmp_path / "bomb.xz"))) < size
    assert [matrix.shape for matrix in found] == [(n_rows + 1, 2), (n_rows + 1, 2)]


def test_a_line_longer_than_any_row_is_refused(tmp_path, monkeypatch):
    for module in ("compressed", "datasets.xmc", "datasets.tables"):
        monkeypatch.setattr(f"manyclass.{module}.LONGEST_LINE", 1 << 16)
    monkeypatch.setattr("manyclass.datasets.xmc.BLOCK", 1 << 12)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"1 1:1\n" + b" " * (1 << 20)))
    sizes = {"n_features": 3, "n_labels": 3}
    for read in (load_xmc, lambda path: list(Stream(path, **sizes))):
        with pytest.raises(ValueError, match=r"bomb.gz: a line behind line 1 is longer than 65536 bytes"):
            read(tmp_path / "bomb.gz")
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"a,label\n1," + b"x" * (1 << 20)))
    with pytest.raises(ValueError, match=r"bomb.csv.gz:2: this line is longer than 65536 characters"):
        Stream(tmp_path / "bomb.csv.gz")
    assert LONGEST_LINE > 10**8  # ten million features of a row fit


N_BLANK = 3 * compressed.MOST_BLANK_LINES


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("where", ["before the header", "behind the header", "behind the rows", "in quotes"])
def test_a_million_blank_lines_of_a_table_are_refused(where, end, tmp_path):
    """A thousand million of them fit into a small compressed file, and would take minutes."""
    before, behind = {
        "before the header": ("", "a,label\n1,x\n"),
        "behind the header": ("a,label\n", "1,x\n"),
        "behind the rows": ("a,label\n1,x\n2,y\n", ""),
        "in quotes": ('a,label\n1,"x', '"\n'),
    }[where]
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress((before + end * N_BLANK + behind).encode(), 1))
    for read in (
        lambda: list(Stream(path)),
        lambda: read_records("csv", Input.of(str(path)), Layout()),
    ):
        with pytest.raises(ValueError, match=r"bomb.csv.gz.*more than 1000000 lines|behind line 1 does not end"):
            read()


def test_cells_in_quotes_of_very_many_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("manyclass.datasets.tables.MOST_BLANK_LINES", 100)
    path = tmp_path / "t.csv"
    path.write_text('a,label\n1,x\n2,"' + "y\n" * 99 + '"\n')
    assert [len(label) for _, y in Stream(path, shuffle=False) for label in y.tolist()] == [1, 197]
    path.write_text('a,label\n1,x\n2,"' + "y\n" * 101 + '"\n')
    with pytest.raises(ValueError, match=r"t.csv:3: a cell in quotes has more than 100 lines"):
        Stream(path)


@pytest.mark.parametrize("form", ["text", "fasttext"])
def test_a_million_blank_lines_of_a_text_are_refused(form, tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"__label__a b\n" + b"\n" * N_BLANK, 1))
    with pytest.raises(ValueError, match=r"bomb.gz:1000002: more than 1000000 lines before this one are blank"):
        read_records(form, Input.of(str(path)), Layout())


def test_lines_are_those_of_the_file():
    assert list(compressed.lines_of(io.BytesIO(b"a\n\nb"), "f")) == [b"a\n", b"\n", b"b"]


@pytest.mark.parametrize("form", ["text", "fasttext", "svmlight"])
@pytest.mark.parametrize("kind", ["xz"])
@pytest.mark.parametrize("piped", [False, True])
def test_a_text_that_is_kept_in_memory_cannot_become_what_it_cannot_be(form, kind, piped, tmp_path, monkeypatch):
    monkeypatch.setattr("manyclass.datasets.inputs.FEW_BYTES", 1 << 18)
    content = KINDS[kind](b" " * (1 << 24) if form == "svmlight" else b"x\ty\n" * (1 << 22))
    (tmp_path / "bomb").write_bytes(content)
    source = Input("bomb", content, whole=True) if piped else Input.of(str(tmp_path / "bomb"))

    def refused():
        with pytest.raises(ValueError, match=r"bomb: decompressed it has more than \d+ bytes, 200 times its size"):
            read_records(form, source, Layout())

    # A line of four bytes takes 52 as a str and 8 in a list, which may be copied as it grows.
    assert peak_of(refused) < 20 * max(1 << 18, 200 * len(content)) + (1 << 24)  # and what xz keeps
