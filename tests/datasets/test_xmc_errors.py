"""load_xmc: the first thing wrong with a file is named, with its line and column."""

import re

import pytest

from manyclass.datasets import load_xmc


@pytest.fixture
def write(tmp_path):
    def write(text, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def exactly(message):
    return f"^{re.escape(message)}$"


LINE_ERRORS = [
    ("1 2x3", 4, "expected ':' after a feature index, found 'x3'"),
    ("1 2:3 4", 8, "expected ':' after a feature index, found the end of the line"),
    ("1 2:3 x:4", 7, "expected a feature index, found 'x:4'"),
    ("1 -2:3", 3, "expected a feature index, found '-2:3'"),
    ("1 2:", 5, "expected a finite decimal number, found the end of the line"),
    ("1 2: 3", 5, "expected a finite decimal number, found ' '"),
    ("1 2:nan", 5, "expected a finite decimal number, found 'nan'"),
    ("1 2:-inf", 5, "expected a finite decimal number, found '-inf'"),
    ("1 2:1e", 5, "expected a finite decimal number, found '1e'"),
    ("1 2:.", 5, "expected a finite decimal number, found '.'"),
    ("1 2:1e39", 5, "the value '1e39' is beyond the range of float32"),
    ("1 2:0x10", 6, "expected a blank after a value, found 'x10'"),
    ("1 2:1,5", 6, "expected a blank after a value, found ',5'"),
    ("1 2:1\x003:1", 6, "expected a blank after a value, found '\\x003:1'"),
    ("1 50:1", 3, "feature 50 is outside [0, 50)"),
    ("1 99999999999999999999999:1", 3, "feature 99999999999999999999999 is outside [0, 50)"),
    ("1 2:1 3:1 2:5", 11, "feature 2 occurs twice in this row"),
    ("1 2:1 2:5", 7, "feature 2 occurs twice in this row"),
    ("30 2:1", 1, "label 30 is outside [0, 30)"),
    ("1,31,2 2:1", 3, "label 31 is outside [0, 30)"),
    ("-1 2:1", 1, "labels must be class numbers >= 0, found '-1'"),
    ("+1 2:1", 1, "expected a label or a blank, found '+1'"),
    ("1.0 2:1", 2, "expected ',' or a blank after a label, found '.0'"),
    ("1,, 2:1", 3, "expected a label after ',', found ','"),
    ("1, 2:1", 3, "expected a label after ',', found ' '"),
    ("1,", 3, "expected a label after ',', found the end of the line"),
    ("1,2:1", 4, "expected ',' or a blank after a label, found ':1'"),
    ("4,1,4 2:1", 5, "label 4 occurs twice in this row"),
    ("4,4 2:1", 3, "label 4 occurs twice in this row"),
    (" 4 2:1", 3, "expected ':' after a feature index, found ' '"),
    ("1 qid:3 2:1", 3, "'qid:' marks a ranking query, which this reader does not support"),
    ("é 2:1", 1, "expected a label or a blank, found '\\xc3\\xa9'"),
]


@pytest.mark.parametrize(("line", "column", "what"), LINE_ERRORS)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_bad_line_is_named_with_file_line_and_column(write, line, column, what, end):
    path = write(f"4 50 30\n1 2:3\n\n{line}{end}")
    with pytest.raises(ValueError, match=exactly(f"{path}:4:{column}: {what}")):
        load_xmc(path)


def test_features_of_a_one_based_file_begin_at_one(write):
    with pytest.raises(ValueError, match=r":1:3: feature 0 is outside \[1, 51\)"):
        load_xmc(write("1 0:1"), zero_based=False, n_features=50)


def test_numbers_without_a_header_must_fit_32_bits(write):
    X, _ = load_xmc(write("1 2147483646:1"))
    assert X.shape == (1, 2**31 - 1)
    with pytest.raises(ValueError, match=r":1:3: feature 2147483647 is outside \[0, 2147483647\)"):
        load_xmc(write("1 2147483647:1"))
    with pytest.raises(ValueError, match=r":1:1: label 2147483647 is outside \[0, 2147483647\)"):
        load_xmc(write("2147483647 1:1"))


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_the_first_bad_line_is_reported_by_any_number_of_threads(write, n_jobs):
    good = "1,2 3:4.5 6:7\n"
    lines = [good] * 600_000  # 8 chunks
    for bad in (100_000, 100_001, 350_000, 599_999):
        lines[bad] = "1,2 3:4.5 6;7\n"
    path = write("".join(lines))
    for _ in range(5):
        with pytest.raises(ValueError, match=r"train.txt:100001:12: expected ':' after"):
            load_xmc(path, n_jobs=n_jobs)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("100 5 3\n" + "1 2:3\n" * 57, ": the header promises 100 rows, the file has 57"),
        ("2 5 3\n" + "1 2:3\n" * 3, ": the header promises 2 rows, the file has 3"),
        ("2 5 3", ": the header promises 2 rows, the file has 0"),
        ("", ": the file is empty"),
        ("# nothing\n #\n", ": the file has no rows"),
        ("2147483648 5 3\n", ":1:1: the header's size 2147483648 is beyond 2147483647"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_refused(write, text, what):
    path = write(text)
    with pytest.raises(ValueError, match=exactly(f"{path}{what}")):
        load_xmc(path)


@pytest.mark.parametrize(
    ("line", "column", "found"),
    [
        ("2 5", 4, "the end of the line"),
        ("2 5 x", 5, "'x'"),
        ("2 -5 3", 3, "'-5'"),
        ("2 5 3.0", 5, "'3.0'"),
        ("2 5 3 4", 7, "'4' after them"),
        ("1 2:3", 3, "'2:3'"),
    ],
)
def test_a_promised_header_must_be_three_integers(write, line, column, found):
    path = write(line + "\n1 2:3\n")
    expected = f"{path}:1:{column}: expected the header 'N D L', three integers, found {found}"
    with pytest.raises(ValueError, match=exactly(expected)):
        load_xmc(path, header=True)


def test_a_header_is_a_bad_row_where_none_is_expected(write):
    with pytest.raises(ValueError, match=r":1:4: expected ':' after a feature index"):
        load_xmc(write("2 5 3\n1 2:3\n"), header=False)


def test_options_are_checked(write):
    path = write("1 2:3\n")
    with pytest.raises(ValueError, match="header is 'yes'; it must be one of True, False, 'auto'"):
        load_xmc(path, header="yes")
    with pytest.raises(ValueError, match="n_features is -1; it must be at least 0"):
        load_xmc(path, n_features=-1)
    with pytest.raises(ValueError, match="n_labels is 2147483648; it must be at least 0"):
        load_xmc(path, n_labels=2**31)
    with pytest.raises(ValueError, match="n_jobs is 0; it must be None, a positive integer, or negative"):
        load_xmc(path, n_jobs=0)
    with pytest.raises(FileNotFoundError):
        load_xmc(path.with_name("absent.txt"))
