"""Labels that are words, as the core reads and orders them, and the sparse ARFF."""

from itertools import pairwise

import numpy as np
import pytest

from manyclass import _core


def columns_by_definition(rows):
    distinct = {label for row in rows for label in row}
    numbers = bool(distinct) and all(label == str(int(label)) for label in distinct if label.lstrip("-").isdigit())
    numbers = numbers and all(label.lstrip("-").isdigit() for label in distinct)
    ordered = sorted(distinct, key=int if numbers else None)
    of_rows = [[ordered.index(label) for label in dict.fromkeys(row)] for row in rows]
    return [int(label) for label in ordered] if numbers else ordered, of_rows


@pytest.mark.parametrize(
    "words", [["10", "9", "-3", "0", "200"], ["10", "9", "09"], ["b", "a", "ä", "\U0001f600", "10"]]
)
def test_columns_are_the_sorted_labels_and_rows_keep_their_order(words, seed):
    rng = np.random.default_rng(seed)
    rows = [[words[j] for j in rng.integers(len(words), size=rng.integers(4))] for _ in range(20)]
    labels, indptr, indices, n_twice = _core.label_columns(rows)
    expected, of_rows = columns_by_definition(rows)
    assert list(labels) == expected
    assert [indices[a:b].tolist() for a, b in pairwise(indptr)] == of_rows
    assert n_twice == sum(len(row) - len(set(row)) for row in rows)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["0", "-7", "9" * 18], True),
        (["9" * 19], False),
        (["007"], False),
        (["+1"], False),
        (["1.0"], False),
        ([""], False),
    ],
)
def test_integers_are_those_that_are_written_in_one_way(labels, told):
    assert _core.all_integers(labels) == told


def test_labels_of_svmlight_are_plain_numbers_and_leave_rows_that_can_be_parsed():
    text = b"+1 1:2\n1.0,2e2 3:1 # 7\n\n# none\n 2:1\nx-1 1:1\n-0 1:1\n9007199254740993 1:1\n1.50 1:1\n.5e1\n4:1"
    raw = np.frombuffer(text, np.uint8).copy()
    found = _core.take_svmlight_labels(raw, "d")
    assert found == [["1"], ["1", "200"], [], [], ["x-1"], ["0"], ["9007199254740993"], ["1.50"], ["5"], []]
    lines = bytes(raw).split(b"\n")
    assert lines[0] == b"0  1:2"
    assert lines[1] == b"0       3:1 # 7"
    assert lines[4] == b" 2:1"
    with pytest.raises(ValueError, match=r"^d:2: the label b'\\xff' is not UTF-8 text"):
        _core.take_svmlight_labels(np.frombuffer(b"1 1:1\n\xff 1:1", np.uint8).copy(), "d")


def test_cells_of_labels_are_split_at_separators_and_stripped_of_asciis_blanks():
    cells = [" a , b,,\u00a0c ", "", " \t", "a::b"]
    assert _core.split_labels(cells, ",") == [["a", "b", "\u00a0c"], [], [], ["a::b"]]
    assert _core.split_labels(cells, "") == [[" a , b,,\u00a0c".strip(" ")], [], [], ["a::b"]]
    assert _core.split_labels(cells, "::") == [["a , b,,\u00a0c"], [], [], ["a", "b"]]


def test_texts_stand_before_the_last_tab_and_labels_behind_it():
    texts, labels, swapped = _core.tabbed_texts(["x\ty\ta, b", "no label", "\tc", "", "z\t"], ",", 20)
    assert texts == ["x\ty", "no label", "", "", "z"]
    assert labels == [["a", "b"], [], ["c"], [], []]
    assert swapped is None
    lines = [f"k{i % 3}\tthe words of text {i}" for i in range(20)]
    assert _core.tabbed_texts(lines, ",", 20)[2] == (20, 3, 20)
    assert _core.tabbed_texts(lines[:19], ",", 20)[2] is None
    assert _core.tabbed_texts(["\t".join(reversed(line.split("\t"))) for line in lines], ",", 20)[2] is None


def test_words_with_a_mark_are_labels():
    texts, labels = _core.marked_texts(["__a x  y __b", "", "\u00a0 z\t__", "__c"], "__")
    assert texts == ["x y", "", "\u00a0 z", ""]
    assert labels == [["a", "b"], [], [""], ["c"]]


def test_sparse_arff_has_the_columns_that_are_not_zero():
    head = b"@RELATION r\n@attribute a {0,1}\n@Attribute b numeric\n\n@data\n"
    text = head + b"{0 1, 1 '1'}\r\n% {0 1}\n\n{}\n{1 0,0 \"1\"}\n"
    n_attributes, indptr, columns = _core.read_sparse_arff(text, "r.arff")
    assert n_attributes == 2
    assert indptr.tolist() == [0, 2, 2, 3]
    assert columns.tolist() == [0, 1, 0]
    for row in (b"1,0", b"{0}", b"{0 x}", b"{a 1}"):
        with pytest.raises(ValueError, match=r"^r.arff: the row '.*' is not in the sparse form"):
            _core.read_sparse_arff(b"@data\n" + row, "r.arff")
