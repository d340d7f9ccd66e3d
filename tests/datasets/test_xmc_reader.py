"""load_xmc: what a file says is what the matrices hold."""

import gzip
import lzma
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from manyclass.datasets import first_label, load_xmc


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def write(tmp_path):
    def write(text, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def random_data(rng, n_rows, n_features=70, n_labels=40):
    """Rows of (labels in random order, {feature: float32}), some of them empty in one or both."""
    rows = []
    for _ in range(n_rows):
        labels = rng.choice(n_labels, rng.integers(0, 5), replace=False).tolist()
        features = np.sort(rng.choice(n_features, rng.integers(0, 9), replace=False)).tolist()
        bits = rng.integers(0, 2**32, len(features), dtype=np.uint32)
        values = bits.view(np.float32)
        values[~np.isfinite(values)] = 0.25
        rows.append((labels, dict(zip(features, values, strict=True))))
    return rows


def as_text(rows, *, header="", one_based=False, end="\n", last_end=True, number=repr, gap=" "):
    lines = [header] if header else []
    for labels, features in rows:
        items = [f"{j + one_based}:{number(float(v))}" for j, v in features.items()]
        lines.append(",".join(map(str, labels)) + (gap if items else "") + gap.join(items))
    return end.join(lines) + (end if last_end else "")


def assert_holds(X, Y, rows):
    assert X.dtype == Y.dtype == np.float32
    assert X.indices.dtype == Y.indices.dtype == np.int32
    assert X.shape[0] == Y.shape[0] == len(rows)
    for i, (labels, features) in enumerate(rows):
        x, y = slice(*X.indptr[i : i + 2]), slice(*Y.indptr[i : i + 2])
        assert Y.indices[y].tolist() == labels
        assert X.indices[x].tolist() == list(features)
        expected = np.array(list(features.values()), np.float32)
        np.testing.assert_array_equal(X.data[x].view(np.uint32), expected.view(np.uint32))
    assert (Y.data == 1).all()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize("gap", [" ", "\t", "  \t"])
def test_a_file_with_a_header_holds_what_was_written(write, rng, end, last_end, gap):
    rows = [*random_data(rng, 200), ([3, 1], {0: np.float32(1)})]
    path = write(as_text(rows, header="201 70 40", end=end, last_end=last_end, gap=gap))
    X, Y = load_xmc(path)
    assert X.shape == (201, 70)
    assert Y.shape == (201, 40)
    assert_holds(X, Y, rows)


@pytest.mark.parametrize("one_based", [False, True])
def test_a_file_without_a_header_takes_its_shape_from_the_largest_numbers(write, rng, one_based):
    rows = [r for r in random_data(rng, 200) if r[0] or r[1]]  # an empty line is no row there
    X, Y = load_xmc(write(as_text(rows, one_based=one_based)), zero_based=not one_based)
    assert X.shape[1] == 1 + max(max(f, default=-1) for _, f in rows)
    assert Y.shape[1] == 1 + max(max(y, default=-1) for y, _ in rows)
    assert_holds(X, Y, rows)


def test_the_result_does_not_depend_on_the_number_of_threads(write, rng):
    # Some ten chunks of a megabyte, with unlabelled rows and comments, whose room must be closed up.
    text = as_text(random_data(rng, 2000), end="  # a, b: c\n")
    path = write(text * (8_000_000 // len(text) + 1) + "# the end, or: not quite\n1 2:3")
    one = load_xmc(path, n_jobs=1)
    for n_jobs in (2, 3, 16):
        many = load_xmc(path, n_jobs=n_jobs)
        for a, b in zip(one, many, strict=True):
            assert a.shape == b.shape
            for part in ("indptr", "indices", "data"):
                np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
    lines = [line.split("#")[0].split() for line in path.read_text().splitlines()]
    assert one[0].nnz == sum(":" in item for line in lines for item in line)
    assert one[0].shape[0] == sum(bool(line) for line in lines)


def test_every_value_is_the_nearest_float32(write, rng):
    # NumPy parses to double and rounds again; the decimals here are short enough, or printed from float32, so
    # that the double lies on the same side of every tie of float32.
    short = [f"{m}e{e}" for m, e in zip(rng.integers(0, 1 << 26, 4000), rng.integers(-14, 14, 4000), strict=True)]
    fixed = [f"{v:.{d}f}" for v, d in zip(rng.normal(size=4000), rng.integers(0, 9, 4000), strict=True)]
    floats = rng.integers(0, 0x7F800000, 4000, dtype=np.uint32).view(np.float32)
    texts = short + fixed + [repr(float(v)) for v in floats] + [f"{v:.8e}" for v in floats]
    X, _ = load_xmc(write("0 " + " ".join(f"{j}:{t}" for j, t in enumerate(texts))))
    expected = np.array(texts, np.float64).astype(np.float32)
    np.testing.assert_array_equal(X.data.view(np.uint32), expected.view(np.uint32))


def test_a_value_beside_a_tie_is_rounded_once(write):
    # 1 + 2^-24 lies half-way between two floats; this is above it by less than double can tell.
    X, _ = load_xmc(write("0 0:1.00000005960464477539062500000001 1:1.000000059604644775390625"))
    assert X.data.tolist() == [1 + 2.0**-23, 1.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.", 1),
        (".5", 0.5),
        ("+2", 2),
        ("-0", -0.0),
        ("1E2", 100),
        ("1e+2", 100),
        ("007", 7),
        ("3.40282346e38", 3.40282346e38),
        ("1e-60", 0),
        ("-1e-999999999999999999", -0.0),
        ("0e999999999", 0),
        ("0." + "0" * 400 + "1", 0),
        ("1" + "0" * 400 + "e-400", 1),
    ],
)
def test_unusual_spellings_of_numbers_are_read(write, text, value):
    X, _ = load_xmc(write(f"0 0:{text}\n"))
    assert X.data.tolist() == [np.float32(value)]
    assert np.signbit(X.data[0]) == np.signbit(value)


def test_rows_are_sorted_by_feature_and_labels_keep_the_order_of_the_file(write):
    X, Y = load_xmc(write("7,2,5 9:1 3:2 4:3\n"))
    assert X.indices.tolist() == [3, 4, 9]
    assert X.data.tolist() == [2, 3, 1]
    assert X.has_sorted_indices
    assert Y.indices.tolist() == [7, 2, 5]
    assert not Y.has_sorted_indices
    assert first_label(Y).tolist() == [7]


def test_labels_and_features_may_be_missing(write):
    X, Y = load_xmc(write("5 9 9\n3 1:1\n 1:1\n1:1\n3\n\n"))
    assert np.diff(X.indptr).tolist() == [1, 1, 1, 0, 0]
    assert np.diff(Y.indptr).tolist() == [1, 0, 0, 1, 0]


def test_comments_are_no_rows_and_blank_lines_are_rows_without_features(write):
    X, Y = load_xmc(write("# made: by, hand\n\n1 2:3#x\n  # y\n \t\n0 1:2 # z 3:4\n\n"))
    assert X.toarray().tolist() == [[0, 0, 0], [0, 0, 3], [0, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert first_label(Y).tolist() == [-1, 1, -1, 0, -1]


@pytest.mark.parametrize("blank", ["", " ", "\t\r"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_million_blank_lines_are_refused_wherever_the_text_is_cut(write, blank, n_jobs):
    lines = ["1 2:3", *[blank] * 1_000_000, "0 1:2"]
    assert load_xmc(write("\n".join(lines)), n_jobs=n_jobs)[0].shape[0] == len(lines)
    with pytest.raises(ValueError, match=r"train.txt:1000002: more than 1000000 lines before this one are blank"):
        load_xmc(write("\n".join(["1 2:3", blank, *lines[1:]])), n_jobs=n_jobs)


def test_blank_lines_behind_the_last_promised_row_are_ignored(write):
    X, _ = load_xmc(write("2 3 3\n1 2:3\n\n\n\n \n"))
    assert X.shape == (2, 3)


def test_a_header_may_promise_nothing(write):
    X, Y = load_xmc(write("0 5 3\n"))
    assert X.shape == (0, 5)
    assert Y.shape == (0, 3)


def test_given_columns_replace_the_files(write):
    X, Y = load_xmc(write("1 3 3\n1 2:3\n"), n_features=10, n_labels=20)
    assert (X.shape, Y.shape) == ((1, 10), (1, 20))
    X, Y = load_xmc(write("1 2:3\n"), n_features=10, n_labels=20)
    assert (X.shape, Y.shape) == ((1, 10), (1, 20))
    with pytest.raises(ValueError, match=r"train.txt:1:3: feature 2 is outside \[0, 2\)"):
        load_xmc(write("1 2:3\n"), n_features=2)


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_compressed_files_are_read_and_broken_ones_named(write, rng, ending, compress):
    rows = random_data(rng, 300)
    packed = compress(as_text(rows, header="300 70 40").encode())
    assert_holds(*load_xmc(write(packed, f"a.txt.{ending}")), rows)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    for broken in (packed[: len(packed) // 2], bytes(flipped), b"1 2:3\n", b""):
        path = write(broken, f"b.txt.{ending}")
        with pytest.raises(ValueError, match=re.escape(f"{path}: ")):
            load_xmc(path)


def test_a_mutated_file_is_either_refused_or_read_as_valid_matrices(write, rng):
    seed = as_text(random_data(rng, 12), header="12 70 40", number=lambda v: f"{v:.3g}").encode()
    alphabet = np.frombuffer(b"0123456789,:. \t\r\n#-+einqx\x00\xff", np.uint8)
    outcomes = {True: 0, False: 0}
    for trial in range(1500):
        text = bytearray(seed)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(text)))
            match rng.integers(3):
                case 0:
                    text[at] = rng.choice(alphabet)
                case 1:
                    del text[at : at + int(rng.integers(1, 30))]
                case 2:
                    text[at:at] = bytes(rng.choice(alphabet, int(rng.integers(1, 5))))
        path = write(bytes(text) or b"\n")
        try:
            X, Y = load_xmc(path, n_jobs=1 + trial % 2)
        except ValueError as refusal:
            names_the_file = str(refusal).startswith(f"{path}:")
            assert names_the_file
            outcomes[False] += 1
            continue
        outcomes[True] += 1
        assert X.shape[0] == Y.shape[0]
        assert np.isfinite(X.data).all()
        for matrix in (X, Y):
            sparse.csr_array(matrix).check_format(full_check=True)
            sorted_copy = matrix.sorted_indices()
            sorted_copy.has_canonical_format = False
            stored = sorted_copy.nnz
            sorted_copy.sum_duplicates()
            assert sorted_copy.nnz == stored
    assert min(outcomes.values()) > 50  # both ways are exercised


def test_bibtex_has_the_shapes_of_its_description():
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    folder = Path(os.environ["MANYCLASS_DATA"]) / "bibtex"
    X, Y = load_xmc(folder / "train.txt.xz")
    X_test, Y_test = load_xmc(folder / "test.txt.xz")
    assert (X.shape, Y.shape) == ((4880, 1836), (4880, 159))
    assert (X_test.shape, Y_test.shape) == ((2515, 1836), (2515, 159))
    assert len(np.unique(first_label(Y))) == 146
