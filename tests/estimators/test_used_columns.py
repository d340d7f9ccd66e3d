"""Columns that no row uses cost neither memory nor time, and nothing that users see differs from a model of all."""

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from planned import figures_with

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load
from manyclass.cli import main
from manyclass.weights.hashing import UsedColumns

WIDE = 300_000_000
MODELS = {
    "auto": SoftmaxClassifier(),
    "linear": SoftmaxClassifier(model="linear"),
    "implicit": SoftmaxClassifier(solver="implicit", model="linear"),
    "pairs": SoftmaxClassifier(model="pairs"),
    "embedding": SoftmaxClassifier(model="embedding", dim=4),
    "hybrid": SoftmaxClassifier(model="hybrid", dim=4),
    "margin": MarginClassifier(),
    "utility": AugmentReduceClassifier(noise="normal"),
    "posterior": AugmentReduceClassifier(posterior="gaussian", alpha=0.1),
}


@pytest.fixture
def rows(seed):
    """Rows of 30 columns, the same among 300 million, their classes, and which columns these are."""
    rng = np.random.default_rng(seed)
    x = sp.random_array((60, 30), density=0.2, rng=rng, format="csr", dtype=np.float32)
    x.data[:] = np.abs(x.data) + 0.1
    x = sp.csr_array(x + sp.csr_array((np.ones(30, np.float32), (np.arange(30), np.arange(30))), shape=x.shape))
    columns = np.sort(rng.choice(WIDE, 30, replace=False)).astype(np.int32)
    columns[-1] = WIDE - 1
    wide = sp.csr_array((x.data, columns[x.indices], x.indptr), shape=(60, WIDE))
    return x, wide, np.arange(60) % 5, columns


@pytest.mark.quick
@pytest.mark.parametrize("name", MODELS)
def test_a_wide_model_is_that_of_the_columns_in_use(name, rows, tmp_path):
    x, wide, y, _ = rows
    narrow_model, model = (MODELS[name].__class__(**{**MODELS[name].get_params(), "random_state": 0}) for _ in "ab")
    narrow_model.fit(x, y)
    tracemalloc.start()
    model.fit(wide, y)
    answers = model.predict_top_k(wide, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert model.n_features_in_ == WIDE
    for ours, theirs in zip(answers, narrow_model.predict_top_k(x, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_top_k(wide, 3)[1], answers[1])
    with pytest.raises(ValueError, match="features"):
        model.predict(sp.csr_array((wide.data, wide.indices, wide.indptr), shape=(60, WIDE + 1)))


@pytest.mark.parametrize("name", ["linear", "pairs", "embedding"])
def test_coefficients_have_a_place_for_each_column(name, rows):
    x, _, y, _ = rows
    columns = np.arange(30, dtype=np.int32) * 200_000
    wide = sp.csr_array((x.data, columns[x.indices], x.indptr), shape=(60, 6_000_000))
    narrow_model, model = (
        SoftmaxClassifier(model=name, dim=4 if name == "embedding" else "auto", random_state=0) for _ in "ab"
    )
    narrow_model.fit(x, y)
    model.fit(wide, y)
    if name == "embedding":
        assert model.embedding_.shape == (6_000_000, 4)
        np.testing.assert_array_equal(model.embedding_[columns], narrow_model.embedding_)
        return
    coef, narrow_coef = model.coef_, narrow_model.coef_
    assert coef.shape == (5, 6_000_000)
    if name == "pairs":
        coef, narrow_coef = coef[:, columns].toarray(), narrow_coef.toarray()
        np.testing.assert_array_equal(coef, narrow_coef)
    else:
        np.testing.assert_array_equal(coef[:, columns], narrow_coef)
    assert set(model.top_features(3, 30)[0].tolist()) == set(columns.tolist())
    assert set(model.explain(wide[:1], k=40)[0].features.tolist()) == set(wide[:1].indices.tolist())


@pytest.mark.parametrize("name", ["implicit", "pairs", "embedding", "margin"])
def test_later_rows_bring_columns(name, rows):
    x, wide, y, columns = rows
    narrow_model, model = (MODELS[name].__class__(**{**MODELS[name].get_params(), "random_state": 0}) for _ in "ab")
    narrow_model.fit(x[:10], y[:10])
    model.fit(wide[:10], y[:10])
    unseen = columns[~np.isin(columns, wide[:10].indices)][0]
    for _ in range(3):
        narrow_model.partial_fit(x, y)
        model.partial_fit(wide, y)
    if name != "embedding":  # where those of unused columns begin at random numbers
        np.testing.assert_allclose(model.decision_function(wide), narrow_model.decision_function(x), atol=1e-4)
    new_row = sp.csr_array(([1.0], ([0], [unseen])), shape=(1, WIDE))
    assert not np.array_equal(model.decision_function(new_row), model.decision_function(sp.csr_array((1, WIDE))))
    with pytest.raises(ValueError, match="features"):
        model.set_params(warm_start=True).fit(wide[:, 1:], y)
    if name == "implicit":
        assert model.fit(wide, y).n_features_in_ == WIDE


def test_a_part_of_a_stream_may_be_wide(rows):
    _, wide, y, _ = rows
    model = SoftmaxClassifier(model="linear", random_state=0)
    for first in range(0, 60, 20):
        model.partial_fit(wide[first : first + 20], y[first : first + 20])
    grown = sp.csr_array((wide.data, wide.indices, wide.indptr), shape=(60, WIDE + 1))
    model.partial_fit(grown, y, new_features="grow")
    assert model.n_features_in_ == WIDE + 1
    assert model.predict(grown).shape == (60,)


def test_seen_columns_are_those_of_classes(rows):
    _, wide, _, columns = rows
    y = columns[:2][np.arange(60) % 2]  # classes that are columns
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(wide, y)
    row = sp.csr_array(([1.0], ([0], [columns[0]])), shape=(1, WIDE))
    assert model.predict_top_k(row, 1, exclude="seen")[0].tolist() == [[columns[1]]]


def test_damaged_columns_of_a_file_are_refused(rows, tmp_path):
    _, wide, y, _ = rows
    model = SoftmaxClassifier(model="pairs", random_state=0).fit(wide, y)
    for wrong in (WIDE, model._state.hashing.ids[0]):
        ids = model._state.hashing.ids.copy()
        ids[-1] = wrong
        damaged = SoftmaxClassifier(model="pairs", random_state=0).fit(wide, y)
        object.__setattr__(damaged._state, "hashing", UsedColumns(ids))
        damaged.save(tmp_path / "m")
        with pytest.raises(ValueError, match="used_columns"):
            load(tmp_path / "m")


N_CLASSES = 2**31 - 1
WAYS = {
    "fit": lambda X, Y, _: SoftmaxClassifier().fit(X, Y),
    "margin": lambda X, Y, _: MarginClassifier().fit(X, Y),
    "pairs": lambda X, Y, _: SoftmaxClassifier(model="pairs").fit(sp.csr_array(X), Y),
    "lbfgs": lambda X, Y, _: SoftmaxClassifier(solver="lbfgs").fit(X, Y),
    "partial_fit": lambda X, Y, _: SoftmaxClassifier().partial_fit(X, Y),
    "stream": lambda X, Y, _: SoftmaxClassifier().fit([(X, Y)]),
    "class_text": lambda X, Y, _: SoftmaxClassifier().fit(X, Y, class_text=([0, 1], X[:2])),
    "a header": lambda X, Y, path: main(["fit", str(path), "--labels", "all", "--output", str(path) + ".m"]),
    "a header, in parts": lambda X, Y, path: main(
        ["fit", str(path), "--labels", "all", "--stream", "--output", str(path) + ".m"]
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("way", WAYS)
def test_columns_of_labels_are_counted_before_arrays_of_their_number(way, tmp_path, capsys):
    """Four rows whose labels have 2**31 - 1 columns: the labels alone would take 17 GB."""
    cells = (np.ones(4), np.array([0, 1, 2, N_CLASSES - 1]), np.arange(5))
    X, Y = np.eye(4, dtype=np.float32), sp.csr_array(cells, shape=(4, N_CLASSES))
    (tmp_path / "d").write_text(f"4 4 {N_CLASSES}\n0 0:1\n1 1:1\n2 2:1\n3 3:1\n")
    message = r"2,147,483,647 classes take 51,540 MB, as predicted, and 1,000 MB are available"
    tracemalloc.start()
    try:
        with figures_with(MOST_MEMORY=1e9):
            if way.startswith("a header"):
                assert WAYS[way](X, Y, tmp_path / "d") == 2
                assert re.search(message, capsys.readouterr().err)
            else:
                with pytest.raises(MemoryError, match=message):
                    WAYS[way](X, Y, None)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.quick
def test_max_memory_counts_labels_that_no_row_has():
    cells = (np.ones(4), np.array([0, 1, 2, 10**7 - 1]), np.arange(5))
    X, Y = sp.csr_array(np.eye(4, dtype=np.float32)), sp.csr_array(cells, shape=(4, 10**7))
    with pytest.raises(ValueError, match=r"max_memory is 50 MB; 10,000,000 classes take 240 MB at least"):
        SoftmaxClassifier(model="pairs").fit(X, Y, max_memory="50MB")
