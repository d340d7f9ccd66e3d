"""max_memory: what it takes, what it chooses, hashed features, and that a run stays below it."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from planned import by_batches, figures_with, with_figures
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, _core, load
from manyclass.checks import bytes_of
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts
from manyclass.datasets import Stream
from manyclass.figures import FIGURES
from manyclass.fitting import streams
from manyclass.fitting.streams import fitted_in
from manyclass.memory import memory_available
from manyclass.weights.hashing import FeatureHash

N, D, K = 600, 3000, 40
# What cpp/manyclass/train/common/footprint.cpp has.
BESIDE, LEAST_FEATURES, LEAST_ROWS, ENOUGH_ROWS = 128 << 20, 64, 256, 16_384
FEW = BESIDE + (1 << 19)  # bytes for which D features of K classes are too many


@pytest.fixture
def rows(seed):
    """Rows with a feature of their label's, and others."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N) % K)
    columns = np.column_stack([y * 7, rng.integers(D, size=(N, 3))])
    X = sp.csr_array((np.ones(columns.size, np.float32), (np.repeat(np.arange(N), 4), columns.ravel())), shape=(N, D))
    return X, y


def few_features(model, X, y, **options):
    return model.fit(Stream(X, y, rows=200, random_state=0), classes=np.arange(K), max_memory=FEW, **options)


# Bytes


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [(1000, 1000), ("1000", 1000), ("2GiB", 2 << 30), ("1.5 kB", 1500), ("500 MB", 500e6), (".5 tib", 1 << 39)],
)
def test_bytes_are_read(text, n_bytes):
    assert bytes_of("max_memory", text) == n_bytes


def test_what_are_no_bytes_is_refused():
    for text in ("", "2 gigabytes", "-1GiB", "GiB", "1e9", 0, -5):
        with pytest.raises(ValueError, match="max_memory is"):
            bytes_of("max_memory", text)
    for value in (None, 1.5, True, [1]):
        with pytest.raises(TypeError, match="it must be an integer"):
            bytes_of("max_memory", value)


def footprint(*values):
    names = ("n_features", "n_classes", "copies", "dim", "row", "stored", "window")
    return _core.Footprint(**dict(zip(names, values, strict=True)))


def test_what_is_chosen_fits_and_hardly_more_would(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        row, window = float(rng.integers(50, 5000)), int(rng.integers(1, 5))
        shape = int(10 ** rng.uniform(1, 6)), int(10 ** rng.uniform(0.5, 5))
        dim = None if rng.random() < 0.7 else int(rng.integers(1, 300))
        found = footprint(*shape, int(rng.integers(1, 4)), dim, row, row / 8, window)
        n_bytes = 10 ** rng.uniform(8.2, 11)
        if n_bytes < found.least():
            with pytest.raises(ValueError, match="max_memory is '9B'; ") as error:
                fitted_in(found, n_bytes, FIGURES.MOST_ROWS_OF_PART, "9B", may_hash=True)
            n_bytes = bytes_of("max_memory", str(error.value).partition("at least ")[2].partition(" ")[0])
            assert n_bytes < found.least() + (1 << 20)
        n_rows, features = fitted_in(found, n_bytes, FIGURES.MOST_ROWS_OF_PART, "9B", may_hash=True)
        used = found if features is None else found.with_features(features)
        assert used.total(n_rows) <= n_bytes
        assert 1 <= n_rows <= FIGURES.MOST_ROWS_OF_PART
        assert n_rows == FIGURES.MOST_ROWS_OF_PART or used.total(n_rows + 1) > n_bytes
        if features is not None:
            assert min(LEAST_FEATURES, found.n_features) <= features < found.n_features
            room = n_bytes - BESIDE
            more = found.with_features(features + 1).of_model()
            assert more > 0.75 * room or more + LEAST_ROWS * found.of_row() > room
            assert found.rows_within(n_bytes) < ENOUGH_ROWS


# Hashing


def test_the_hash_is_that_of_scikit_learn(rows):
    X, _ = rows
    hashed = FeatureHash(50, seed=0).apply(X)
    assert hashed.has_canonical_format
    assert hashed.dtype == np.float32
    expected = np.zeros((N, 50))
    for row, column in zip(*X.nonzero(), strict=True):
        h = murmurhash3_32(int(column), seed=0)
        expected[row, abs(h) % 50] += X[row, column] * (1 if h >= 0 else -1)
    np.testing.assert_allclose(hashed.toarray(), expected, rtol=1e-6)
    # FeatureHasher hashes names; the names are the four bytes of a column's number.
    names = [[(np.int32(j).tobytes(), 1.0)] for j in range(20)]
    of_sklearn = FeatureHasher(50, input_type="pair").transform(names).toarray()
    ones = sp.csr_array(np.eye(20, dtype=np.float32))
    np.testing.assert_array_equal(FeatureHash(50).apply(ones).toarray(), of_sklearn)
    np.testing.assert_array_equal(FeatureHash(50).apply(X.toarray()).toarray(), hashed.toarray())


def test_inner_products_are_right_in_the_mean(seed):
    rng = np.random.default_rng(seed)
    a, b = (sp.csr_array(rng.random((1, 40)).astype(np.float32)) for _ in range(2))
    products = [(FeatureHash(30, s).apply(a) @ FeatureHash(30, s).apply(b).T).toarray().item() for s in range(2000)]
    error = np.std(products) / np.sqrt(len(products))
    assert abs(np.mean(products) - (a @ b.T).toarray().item()) < 4 * error


@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(solver="implicit", learning_rate=3.0, max_iter=5, random_state=0),
        SoftmaxClassifier(model="embedding", dim=16, max_iter=8, random_state=0),
        MarginClassifier(max_iter=5, random_state=0),
        AugmentReduceClassifier(max_iter=5, random_state=0),
    ],
    ids=["softmax", "embedding", "margin", "probit"],
)
def test_features_are_hashed_where_w_does_not_fit(model, rows, tmp_path):
    X, y = rows
    few_features(model, X, y)
    n_rows = model._fitted.hashing.n_rows
    assert n_rows < D
    assert model.n_features_in_ == D
    shape = (model.embedding_ if model.get_params().get("model") == "embedding" else model.coef_.T).shape
    assert shape[0] == n_rows
    assert model.score(X, y) > 0.5  # chance is 1 / 40
    # Features never seen before, and fewer of them.
    wide = sp.hstack([X, sp.csr_array((N, 50), dtype=np.float32)], format="csr")
    np.testing.assert_array_equal(model.predict(wide), model.predict(X))
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    assert other._fitted.hashing == model._fitted.hashing
    assert other.n_features_in_ == D
    np.testing.assert_array_equal(other.predict_top_k(X, 3)[1], model.predict_top_k(X, 3)[1])
    for one in (model, other):
        one.partial_fit(wide, y)
        assert one.n_features_in_ == D + 50
    np.testing.assert_array_equal(other.coef_, model.coef_)
    dense = load(tmp_path / "model").partial_fit(wide.toarray(), y)
    np.testing.assert_array_equal(dense.coef_, model.coef_)


def test_hashing_is_forgotten_by_a_fit_that_does_not_need_it(rows):
    X, y = rows
    model = few_features(SoftmaxClassifier(solver="implicit", random_state=0, max_iter=1), X, y)
    model.fit(X, y)
    assert model.coef_.shape == (K, D)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(X[:, :3])
    few_features(model, X, y)
    model.fit(Stream(X, y), max_memory="1GiB", classes=np.arange(K))
    assert model.coef_.shape == (K, D)


def test_partial_fit_begins_hashed_and_goes_on_so(rows):
    X, y = rows
    model = SoftmaxClassifier(solver="implicit", learning_rate=1.0, random_state=0)
    stream = Stream(X, y, rows=200, shuffle=False)
    model.partial_fit(stream, classes=np.arange(K), max_memory=FEW)
    loop = SoftmaxClassifier(solver="implicit", learning_rate=1.0, random_state=0)
    hashed = model._fitted.hashing.apply(X)
    for first in range(0, N, 200):
        loop.partial_fit(hashed[first : first + 200], y[first : first + 200], classes=np.arange(K))
    np.testing.assert_array_equal(model.coef_, loop.coef_)
    model.partial_fit(stream, max_memory="1GiB")
    assert model._fitted.hashing.n_rows == loop.coef_.shape[1]
    failing = SoftmaxClassifier(random_state=0)
    with pytest.raises(ValueError, match="part 1 of the stream"):
        failing.partial_fit(Stream(X, np.zeros(N)), classes=[0.0], max_memory=FEW)
    failing.partial_fit(X, y)
    assert failing.coef_.shape == (K, D)


def test_names_of_hashed_features_are_compared(rows):
    X, y = rows
    frame = pandas.DataFrame(X[:, :300].toarray(), columns=[f"f{j}" for j in range(300)])
    found = footprint(300, K, 2, None, *streams.measured(frame, y), 1)
    enough = found.with_features(150).total(100)
    model = SoftmaxClassifier(solver="implicit", random_state=0, max_iter=1)
    model.fit(Stream(frame, y, rows=100), classes=np.arange(K), max_memory=int(enough) + 1)
    assert model._fitted.hashing.n_rows < 300
    wider = frame.assign(g=1.0)
    assert model.predict(wider).shape == (N,)
    with pytest.raises(ValueError, match="feature 0 is 'g'; the model has 'f0' there"):
        model.predict(wider[["g", *frame.columns]])


def test_labels_that_are_given_names_are_counted_by_their_numbers(rows):
    X, y = rows
    names = np.array([f"class {k:02}" for k in range(K)])
    Y = sp.csr_array((np.ones(N), (np.arange(N), y)), shape=(N, K))
    stream = Stream(X, Y, labels="first", rows=200).map(lambda X, y: (X, names[y]))
    model = few_features(SoftmaxClassifier(solver="implicit", random_state=0, max_iter=1), X, y)
    hashed = model.storage()["hashed_features"]
    model.fit(stream, max_memory=FEW)
    assert model.storage()["hashed_features"] == hashed
    assert model.classes_.tolist() == names.tolist()
    model.partial_fit(stream, max_memory="1GiB")
    with pytest.raises(ValueError, match="y has the label 'another'"):
        model.partial_fit(stream.map(lambda X, y: (X, np.where(y == y[0], "another", y))), max_memory="1GiB")


# Refusals


def test_what_cannot_be_bounded_is_refused(rows):
    X, y = rows
    model, stream = SoftmaxClassifier(solver="implicit", random_state=0, max_iter=1), Stream(X, y, rows=200)
    with pytest.raises(ValueError, match=r"max_memory is 1000; 40 classes need at least \d+MiB"):
        model.fit(stream, classes=np.arange(K), max_memory=1000)
    with pytest.raises(ValueError, match="max_memory needs to know the classes before they come"):
        model.fit(stream, max_memory="1GiB")
    with pytest.raises(ValueError, match="X a list; make it a Stream"):
        model.fit([(X, y)], classes=np.arange(K), max_memory="1GiB")
    with pytest.raises(ValueError, match=r"part \d of the stream: y has the label 39"):
        model.fit(stream, classes=np.arange(K - 1), max_memory="1GiB")
    Y = sp.csr_array((np.ones(N), (np.arange(N), y)), shape=(N, K))
    for params in ({}, {"model": "pairs"}):
        with pytest.raises(ValueError, match="max_memory needs a model whose size is known"):
            SoftmaxClassifier(**params).fit(Stream(X, Y), max_memory="1GiB")
    model.fit(stream)
    with pytest.raises(ValueError, match="40 classes and 3000 features need at least"):
        model.partial_fit(stream, max_memory=FEW)
    assert not hasattr(SoftmaxClassifier(), "classes_")


# Memory


RUN = """
import json, resource, sys
import numpy as np
from manyclass import SoftmaxClassifier
from manyclass.datasets import Stream
from manyclass.checks import bytes_of
path, max_memory, hashed = sys.argv[1:]
warm = SoftmaxClassifier(solver="implicit", random_state=0, max_iter=1)  # what is loaded late is loaded now
warm.fit(np.eye(20, dtype=np.float32), np.arange(20) % 4)
stream = Stream(path, labels="first", random_state=0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model = SoftmaxClassifier(solver="implicit", learning_rate=0.3, random_state=0, max_iter=2)
model.fit(stream, max_memory=max_memory)
added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
n_rows = None if model._fitted.hashing is None else model._fitted.hashing.n_rows
print(json.dumps([added, bytes_of("max_memory", max_memory), n_rows, len(model.classes_)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize(("max_memory", "hashes"), [("200MB", True), ("400MB", False)])
def test_a_run_stays_below_its_memory(max_memory, hashes, tmp_path, seed):
    """W of 30,000 features and 500 classes takes 61 MB, and 122 MB with the copy that a part trains."""
    rng = np.random.default_rng(seed)
    n, n_features, n_classes = 60_000, 30_000, 500
    with (tmp_path / "rows.txt").open("w") as file:
        file.write(f"{n} {n_features} {n_classes}\n")
        for k, row in zip(rng.integers(n_classes, size=n), rng.integers(n_features, size=(n, 20)), strict=True):
            file.write(f"{k} " + " ".join(f"{j}:1" for j in sorted(set(row.tolist()))) + "\n")
    command = [sys.executable, "-c", RUN, str(tmp_path / "rows.txt"), max_memory, str(hashes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    added, allowed, n_rows, found = json.loads(done.stdout)
    assert found == n_classes
    assert (n_rows is not None) == hashes
    assert added < allowed


# Of arrays


def test_arrays_get_a_model_that_fits(rows):
    X, _ = rows
    y = np.arange(N) % 300
    W = 4 * D * 304  # classes are rounded up to whole cache lines
    linear = SoftmaxClassifier(model="linear", max_iter=1, random_state=0).fit(X, y, max_memory=W)
    assert linear._weights.kind == "feature_major"
    smaller = SoftmaxClassifier(n_models=1, random_state=0).fit(X, y, max_memory=4 * D * 300 - 1)
    assert smaller._weights.kind == "hybrid"


@pytest.mark.parametrize("model", [SoftmaxClassifier(model="linear"), MarginClassifier(), AugmentReduceClassifier()])
def test_a_model_that_does_not_fit_is_refused_before_training(model, rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"max_memory is 0.01 MB; 3,000 features and 40 classes take 0.\d+ MB"):
        model.fit(X.toarray(), y, max_memory="10kB")
    assert not hasattr(model, "classes_")
    model.set_params(max_iter=1).fit(X.toarray(), y, max_memory="1GiB")


@pytest.mark.parametrize(
    "model",
    [
        SoftmaxClassifier(solver="adagrad"),
        SoftmaxClassifier(solver="implicit"),
        MarginClassifier(),
        AugmentReduceClassifier(),
    ],
)
def test_a_model_that_the_machine_has_no_room_for_is_refused_before_any_work(model):
    X, y = sp.csr_array((np.ones(40, np.float32), (np.arange(40), np.arange(40))), shape=(40, 2_000_000)), np.arange(40)
    several = sp.eye_array(40, format="csr", dtype=np.int8)
    model = with_figures(model, MOST_MEMORY=1e8)
    target = several if model.get_params()["solver"] == "adagrad" else y
    message = r"2,000,000 features and 40 classes by this model take 3\d\d MB, .*, and 100 MB .*'embedding'.*max_memory"
    with pytest.raises(MemoryError, match=message):
        model.fit(X, target)
    with pytest.raises(MemoryError, match=message):
        model.partial_fit(X, target)
    assert not hasattr(model, "classes_")


def test_a_given_max_memory_and_small_models_are_not_measured_by_the_machine():
    X = sp.csr_array((40, 2_000_000), dtype=np.float32)
    plan = by_batches(SoftmaxClassifier(solver="adagrad"), X, 40).plan
    facts = Facts.of(X, 40)
    with figures_with(MOST_MEMORY=1.0):
        costs.check_memory(facts, plan, 1e9)
        costs.check_memory(replace(facts, n_features=1000), plan)
        with pytest.raises(MemoryError):
            costs.check_memory(facts, plan)


def test_memory_available_is_the_least_of_the_machine_and_of_all_control_groups(tmp_path):
    assert memory_available(tmp_path) == np.inf  # a system that does not tell

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n")
    assert memory_available(tmp_path) == 8000 * 1024
    write("proc/self/cgroup", "0::/user/b\n")
    write("sys/fs/cgroup/user/b/memory.max", "max\n")
    write("sys/fs/cgroup/user/b/memory.current", "1000\n")
    assert memory_available(tmp_path) == 8000 * 1024
    write("sys/fs/cgroup/user/memory.max", "3000000\n")
    write("sys/fs/cgroup/user/memory.current", "3500000\n")
    write("sys/fs/cgroup/user/memory.stat", "inactive_file 600000\n")
    assert memory_available(tmp_path) == 100_000
