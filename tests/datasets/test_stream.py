"""Stream: the rows of load_xmc in parts, whatever the blocks, windows and files; and how it ends."""

import gzip
import lzma
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream, first_label, load_xmc, xmc
from manyclass.datasets.stream import THREAD

D, K = 30, 7


def lines_of(n, seed):
    """Rows of up to two labels and up to four features, some empty or blank, some with comments."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        labels = ",".join(map(str, rng.choice(K, rng.integers(3), replace=False)))
        features = " ".join(f"{j}:{rng.random():.4g}" for j in rng.choice(D, rng.integers(5), replace=False))
        lines.append(f"{labels} {features}" + " # x" * int(rng.random() < 0.1))
    return lines


def in_order(source, **options):
    return Stream(source, **{"shuffle": "random_state" in options, **options})


def joined(parts):
    X, Y = zip(*parts, strict=True)
    return sp.vstack(X, format="csr"), sp.vstack(Y, format="csr")


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture(params=[9, 100, 1 << 23])
def block(request, monkeypatch):
    """Blocks of text that end within lines."""
    monkeypatch.setattr(xmc, "BLOCK", request.param)


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["\n", "", "\n\n\n", "\n# the end\n"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_parts_are_the_rows_of_the_file(block, header, end, suffix, tmp_path, seed):
    lines = lines_of(60, seed)
    text = ("\n".join(([f"60 {D} {K}"] if header else []) + lines) + end).encode()
    path = tmp_path / f"rows.txt{suffix}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](text))
    sizes = {} if header else {"n_features": D, "n_labels": K}
    expected = load_xmc(path, **sizes)
    for rows, window in ((1, 1), (7, 1), (7, 3), (1000, 1)):
        parts = list(in_order(path, rows=rows, window=window, **sizes))
        assert {X.shape[0] for X, _ in parts[:-1]} <= {rows}
        assert_same(joined(parts), expected)


def test_several_files_a_folder_and_a_pattern_are_read_in_order(tmp_path, seed):
    for day in range(3):
        lines = lines_of(10 + day, seed + day)
        (tmp_path / f"day-{day}.txt").write_text("\n".join([f"{len(lines)} {D} {K}", *lines]) + "\n")
    paths = sorted(tmp_path.iterdir())
    expected = joined([load_xmc(path) for path in paths])
    for given in (paths, tmp_path, str(tmp_path / "day-*.txt"), [tmp_path / "day-0.txt", tmp_path / "day-[12].txt"]):
        assert_same(joined(in_order(given, rows=4)), expected)


def test_rows_are_shuffled_within_windows(tmp_path, seed):
    path = tmp_path / "rows.txt"
    path.write_text(f"40 {D} {K}\n" + "".join(f"{i % K} {i % D}:{i}\n" for i in range(40)))

    def values(**options):
        return joined(in_order(path, rows=5, window=2, **options))[0].data

    shuffled = values(shuffle=True, random_state=seed)
    assert not np.array_equal(shuffled, values())
    for first in range(0, 40, 10):
        assert sorted(shuffled[first : first + 10]) == list(range(first, first + 10))
    np.testing.assert_array_equal(shuffled, values(shuffle=True, random_state=seed))
    assert not np.array_equal(shuffled, values(shuffle=True, random_state=seed + 1))


def test_a_stream_trains_as_its_rows_in_memory(tmp_path, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=500)
    path = tmp_path / "rows.txt"
    path.write_text(f"500 {D} {K}\n" + "".join(f"{k} {k}:1 {10 + rng.integers(20)}:1\n" for k in y))
    X, Y = load_xmc(path)
    model = SoftmaxClassifier(solver="exact", learning_rate=0.5, random_state=0)
    whole = SoftmaxClassifier(solver="exact", learning_rate=0.5, random_state=0)
    for some, labels in in_order(path, rows=100):
        model.partial_fit(some, first_label(labels), classes=np.arange(K))
    for first in range(0, 500, 100):
        rows = slice(first, first + 100)
        whole.partial_fit(X[rows], first_label(Y)[rows], classes=np.arange(K))
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_memory_is_that_of_windows_and_not_of_the_file(tmp_path):
    path = tmp_path / "rows.txt"
    row = "1 " + " ".join(f"{j}:1" for j in range(D)) + "\n"
    path.write_text(f"40000 {D} {K}\n" + row * 40_000)

    def peak(read):
        tracemalloc.start()
        read()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xmc, "BLOCK", 1 << 16)
        of_stream = peak(lambda: [X.nnz for X, _ in in_order(path, rows=500)])
    assert of_stream < 0.2 * 40_000 * D * 8  # of the bytes of all values and indices


# How it ends


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD)]


def test_who_stops_early_leaves_no_thread(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(f"40 {D} {K}\n" + "1 1:1\n" * 40)
    parts = iter(in_order(path, rows=1))
    assert threads() == []  # nothing is read before the first part is asked for
    next(parts)
    parts.close()
    assert threads() == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"9 {D} {K}\n" + "1 1:1\n" * 6 + "1 1:x\n" + "1 1:1\n" * 2, r"rows.txt:8:5: expected a finite decimal number"),
        ("1 1:1\n" * 6 + "1 1:x\n", r"rows.txt:7:5: expected a finite decimal number"),
        (f"9 {D} {K}\n" + "1 1:1\n" * 8, r"rows.txt: the header promises 9 rows, the file has 8"),
        (f"9 {D} {K}\n" + "1 1:1\n" * 10, r"rows.txt: the file has more rows than its header promises"),
        (f"2 {D} {K}\n1 1:1\n9 1:1\n", r"rows.txt:3:1: label 9 is outside \[0, 7\)"),
    ],
)
def test_a_malformed_line_is_told_with_its_place_after_the_rows_before(block, text, told, tmp_path):
    (tmp_path / "rows.txt").write_text(text)
    sizes = {} if f"{D} {K}" in text else {"n_features": D, "n_labels": K}
    parts = in_order(tmp_path / "rows.txt", rows=1, **sizes)
    with pytest.raises(ValueError, match=told):
        list(parts)
    assert threads() == []


def test_labels_of_arrays_keep_their_identity():
    X = np.eye(4, dtype=np.float32)
    for labels in (["a", "a\0", "b", "a"], [2**53, 2**53 + 1, 0, 1], ["1", "2", 2, "1"], ["a", "b", None, "a"]):
        ((_, y),) = Stream(X, labels, shuffle=False)
        assert [(type(label), label) for label in y.tolist()] == [(type(label), label) for label in labels]
    for labels in (["1", "2", 2, "1"], ["a", "b", None, "a"], [0.0, 1.0, np.nan, 1.0]):
        with pytest.raises(ValueError, match="part 1 of the stream: "):
            SoftmaxClassifier().fit(Stream(X, labels))


def test_mistakes_are_told_at_once(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1 1:1\n")
    (tmp_path / "empty").mkdir()
    for given, options, told in (
        (path, {"n_features": -1, "n_labels": 3}, "n_features is -1"),
        (path, {"rows": 0}, "rows is 0"),
        (path, {"window": 0}, "window is 0"),
        (path, {"shuffle": False, "random_state": 3}, "no effect with shuffle=False"),
        (path, {"header": True}, "expected the header"),
        (tmp_path / "empty", {}, "no file is there"),
        (tmp_path / "none-*", {}, "no file is there"),
        ([], {}, "source is empty"),
    ):
        with pytest.raises(ValueError, match=told):
            in_order(given, **options)
    with pytest.raises(FileNotFoundError):
        in_order(tmp_path / "gone")
    whole = gzip.compress(b"2 3 4\n1 1:1\n2 2:1\n")
    (tmp_path / "cut.gz").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="not a complete gz file"):
        list(in_order(tmp_path / "cut.gz"))
