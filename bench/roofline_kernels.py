"""The kernels of bench_roofline.py: what is run, and its work by count.

Counted are bytes that must move once ("bytes read", "bytes updated": read and written), bytes of the rows of W that
rows of sparse data ask for, in whatever cache they are, cache lines that are updated at random, floating-point
operations, of which a multiply-add has two, and exponentials. N, D and K are rows, features and classes, z the features
that a sparse row has, m the sampled classes.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manyclass import AugmentReduceClassifier, SkipGram, SoftmaxClassifier, SphericalClusterIndex, _core, solvers
from manyclass.checks import csr_parts
from manyclass.datasets import load_xmc
from manyclass.words.objectives import NegativeSampling

LINE = 16  # floats
ROWS = "rows at random, same shapes"


def whole(k):
    """A number of floats that the program of the bound takes."""
    return -(-k // (4 * LINE)) * 4 * LINE


class Table(NamedTuple):
    """Rows of floats, some of which a row of sparse data asks for; `updates`: to read, then to read and write them."""

    n_rows: int
    n_floats: int
    a_visit: int
    updates: bool


class Calls(NamedTuple):
    """A kernel that is one call."""

    call: Callable[[], Any]
    work: dict[str, float]
    shape: tuple[int, int, int] | None = None  # of BLAS's product
    table: Table | None = None

    def rounds(self, n, between, taken):
        """Append the processor seconds of n rounds, with a call of `between` before each."""
        for _ in range(n):
            between()
            begin = time.process_time()
            self.call()
            taken.append(time.process_time() - begin)


class Passes(NamedTuple):
    """A kernel that is a pass of a fit; `fit(max_iter, callback)` makes them."""

    fit: Callable[[int, Callable[[Any], None]], Any]
    work: dict[str, float]
    shape: tuple[int, int, int] | None = None
    table: Table | None = None

    def rounds(self, n, between, taken):
        """Append the processor seconds of n passes after the first, with a call of `between` before each."""
        begin = None

        def note(_):
            nonlocal begin
            if begin is not None:
                taken.append(time.process_time() - begin)
            between()
            begin = time.process_time()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few passes do not converge
            self.fit(n + 1, note)


class Kernel(NamedTuple):
    """`make(small, folder)` gives the kernel; `goal` is per cent of the bound."""

    make: Callable[[bool, Any], Calls | Passes]
    goal: str = ""


def sparse(n, d, z, seed=0):
    """Rows of z features with value 1 / sqrt(z), uniform, so that no line is nearer than another."""
    rng = np.random.default_rng(seed)
    at = (rng.integers(0, d // z, (n, z)) + np.arange(z) * (d // z)).astype(np.int32)  # one of each z-th of them
    data = np.full(n * z, z**-0.5, np.float32)
    return sp.csr_array((data, at.ravel(), np.arange(n + 1, dtype=np.int64) * z), shape=(n, d))


def labels(n, k, seed=1):
    """All classes, and then uniform ones."""
    return np.concatenate([np.arange(k), np.random.default_rng(seed).integers(0, k, n - k)])


def dense(n, d, seed=2):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32) / np.float32(np.sqrt(d))


def passes_of(make, X, y):
    """A function for `Passes`."""
    return lambda max_iter, callback: make(max_iter).fit(X, y, callback=callback)


def visit(m, solver="implicit", sampler="block"):
    """Sampled steps on W by feature, which has 20,000 x 16,400 floats (1.3 GB): lines of features and blocks."""

    def make(small, _):
        n, d, k, z = (3000, 1000, 2048, 20) if small else (50_000, 20_000, 16_400, 20)
        # Of each feature: the label's line, and one for each block of 16 classes or for each class drawn singly.
        touched = n * z * (1 + (m if sampler == "uniform" else m // LINE))
        given = {
            "sampler": sampler,
            "n_negatives": m,
            "learning_rate": 0.1,
            "alpha": 0.0,
            "random_state": 0,
            "n_jobs": 1,
        }
        given["model"] = "linear"
        one = {"implicit": solvers.Implicit, "sgd": solvers.SGD}[solver](schedule="constant", averaging="none")
        fit = passes_of(lambda t: SoftmaxClassifier(solver=one, max_iter=t, **given), sparse(n, d, z), labels(n, k))
        work = {"random lines, huge pages": touched, "random lines": touched, "multiply-add": 4 * n * z * (m + 1)}
        return Passes(fit, work | {"exp": n * (m + 1)})

    return make


def dense_visit(m):
    """Sampled steps on dense rows: W by class, m + 1 rows of D floats read and written."""

    def make(small, _):
        n, d, k = (2500, 256, 2048) if small else (262_144, 1024, 262_144)
        given = {
            "sampler": "uniform",
            "n_negatives": m,
            "learning_rate": 0.1,
            "alpha": 0.0,
            "random_state": 0,
            "n_jobs": 1,
        }
        given |= {"model": "linear", "solver": "implicit"}
        fit = passes_of(lambda t: SoftmaxClassifier(max_iter=t, **given), dense(n, d), labels(n, k))
        return Passes(fit, {"bytes updated": 8 * n * (m + 1) * d, "multiply-add": 4 * n * (m + 1) * d})

    return make


def exact_pass(is_sparse):
    """Full softmax steps: a product with W and one of its transpose, an exponential for each class."""

    def make(small, _):
        n, d, k, z = (500, 400, 512, 20) if small else (4000, 8000, 4080, 50)
        X = sparse(n, d, z) if is_sparse else dense(n, 512)
        used = z if is_sparse else 512
        given = {
            "solver": "exact",
            "model": "linear",
            "learning_rate": 0.1,
            "alpha": 0.0,
            "n_jobs": 1,
            "random_state": 0,
        }
        fit = passes_of(
            lambda t: SoftmaxClassifier(max_iter=t, **given), X, labels(n, k) if n > k else labels(k, k)[:n]
        )
        work = {"multiply-add": 4 * n * k * used, "exp": n * k}
        if not is_sparse:
            return Passes(fit, work)
        return Passes(fit, work | {ROWS: 12 * n * k * z}, table=Table(d, whole(k), z, updates=True))

    return make


def forward(is_sparse):
    """Log-losses: a product with W, an exponential for each class."""

    def make(small, _):
        n, k, z = (400, 2048, 20) if small else (2000, 32_752, 50)
        d = 1000 if is_sparse else 256
        X, y = sparse(n, d, z) if is_sparse else dense(n, d), labels(k, k)[:n]
        model = linear_model(k, d, is_sparse)
        used = z if is_sparse else d
        work = {"multiply-add": 2 * n * k * used, "exp": n * k, "bytes read": 4 * k * d}
        if not is_sparse:
            return Calls(lambda: model.evaluate(X, y), work)
        table = Table(d, min(whole(k), 1024), z, updates=False)  # classes pass in chunks of 1,024
        return Calls(lambda: model.evaluate(X, y), work | {ROWS: 4 * n * k * z}, table=table)

    return make


def linear_model(k, d, is_sparse):
    """A fitted model of k classes, whose W lies as a fit of such rows leaves it."""
    given = {"model": "linear", "solver": "implicit", "learning_rate": 0.01, "max_iter": 1, "alpha": 0.0, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one pass does not converge
        X = sparse(k, d, 20) if is_sparse else dense(k, d)
        return SoftmaxClassifier(random_state=0, **given).fit(X, np.arange(k))


def gradient(is_sparse):
    """Loss and gradient in double, as L-BFGS asks for it: two products, an exponential for each class."""

    def make(small, _):
        n, d, k, z = (400, 400, 512, 20) if small else (4000, 4000, 2032, 50)
        d = d if is_sparse else 256
        X, y, used = (
            sparse(n, d, z) if is_sparse else dense(n, d),
            labels(k, k)[np.arange(n) % k],
            z if is_sparse else d,
        )
        x = csr_parts(X) if is_sparse else X
        width = -(-k // LINE) * LINE
        W = np.zeros((d, width) if is_sparse else (k, d))
        b, gradient, of_b = np.zeros(width if is_sparse else k), np.zeros_like(W), np.zeros(width if is_sparse else k)
        arrays = {"matrix": W, "intercept": b, "gradient": gradient, "intercept_gradient": of_b}
        fixed = {
            "loss": "softmax",
            "x": x,
            "n_features": d,
            "n_classes": k,
            "labels": y.astype(np.int32),
            "n_threads": 1,
        }
        of_fit = _core.FullBatch(**fixed, alpha=0.0, fit_intercept=False)
        arrays["room"] = np.empty(of_fit.n_kept * k)  # as a fit by L-BFGS has it
        work = {"multiply-add in double": 4 * n * k * used, "exp": n * k, "bytes updated": 16 * W.size}
        if not is_sparse:
            return Calls(lambda: _core.loss_and_gradient(**fixed, **arrays), work)
        table = Table(d, 2 * whole(k), z, updates=True)  # of doubles; W is read, the gradient updated
        work |= {ROWS: 24 * n * k * z}
        return Calls(lambda: _core.loss_and_gradient(**fixed, **arrays), work, table=table)

    return make


def embedding_batch(small, _):
    """Batches of 256 points that share 1,024 classes, embeddings of 128: three products of their shapes."""
    n, d, k, z, dim, m, batch = (
        (1000, 500, 600, 10, 32, 128, 128) if small else (20_000, 20_000, 20_000, 10, 128, 1024, 256)
    )
    solver = solvers.Adagrad(batch_size=batch)
    given = {
        "solver": solver,
        "model": "embedding",
        "dim": dim,
        "sampler": "frequency",
        "n_negatives": m,
        "learning_rate": 0.1,
        "n_jobs": 1,
    }
    n = max(n, k)
    fit = passes_of(lambda t: SoftmaxClassifier(max_iter=t, random_state=0, **given), sparse(n, d, z), labels(n, k))
    return Passes(fit, {"BLAS, same shapes": 6 * n * m * dim, "exp": n * m}, (batch, dim, m))


def top_k(n_rows):
    """The 5 best classes of dense rows: a product with W, which is read once for all of them."""

    def make(small, _):
        k, d = (4096, 64) if small else (131_072, 256)
        model, X = linear_model(k, d, False), dense(n_rows, d, seed=3)
        work = {"multiply-add": 2 * n_rows * k * d, "exp": n_rows * k, "bytes read": 4 * k * d}
        return Calls(lambda: model.predict_top_k(X, 5), work)

    return make


def index_scan(small, _):
    """400 queries of an index with one cluster, all of which is scored."""
    n, k, d = 400, 4096 if small else 65_536, 128
    index, Q = SphericalClusterIndex(1, n_jobs=1).fit(dense(k, d)), dense(n, d, seed=3)
    return Calls(lambda: index.query(Q, 10), {"multiply-add": 2 * n * k * d, "bytes read": 4 * k * d})


def kmeans(small, _):
    """Spherical k-means on all rows: a product of rows and centres in each of 3 rounds and once at the end."""
    n, d, c, rounds = (3000, 32, 64, 3) if small else (50_000, 128, 512, 3)
    rows = dense(n, d)
    given = {"n_clusters": c, "n_iter": rounds, "sample_per_cluster": 0, "radius": 0.0, "seed": 0, "n_threads": 1}
    work = {"multiply-add": 2 * n * c * d * (rounds + 1)}
    return Calls(lambda: _core.spherical_kmeans(rows, **given), work)


def local_steps(m):
    """Visits of multinomial probit, W of which stays in the cache: an exp at least for each node and class."""

    def make(small, _):
        n, d, k = (2000 if small else 50_000), 16, 512
        given = {"noise": "normal", "sampler": "uniform", "n_negatives": m, "learning_rate": 0.1, "n_jobs": 1}
        X, y = dense(n, d), labels(n, k)
        fit = passes_of(lambda t: AugmentReduceClassifier(max_iter=t, random_state=0, **given), X, y)
        n_nodes = len(_core.LocalFamily(noise="normal", name="normal", n_nodes=0, n_classes=2).nodes)
        return Passes(fit, {"exp": n * m * n_nodes, "multiply-add": 4 * n * (m + 1) * d})

    return make


def skip_gram(small, folder):
    """Skip-gram with 5 negatives: of a pair 6 rows of 100 floats are scored and updated, and their sum added to one.

    Words are uniform over a large vocabulary, so that each row is a random place: 6 rows of 7 lines, and the centre's
    row once a window. A window of 5 that shrinks has 6 pairs a word.
    """
    n_words, vocabulary, dim, window = (20_000, 2000, 100, 5) if small else (400_000, 400_000, 100, 5)
    words = np.random.default_rng(0).integers(0, vocabulary, n_words).reshape(-1, 1000 if n_words > 1000 else n_words)
    path = folder / "words.txt"
    path.write_text("\n".join(" ".join(f"w{word}" for word in line) for line in words.tolist()) + "\n")
    given = {"window": window, "min_count": 1, "sample": 0, "n_jobs": 1, "random_state": 0}
    pairs = n_words * (window + 1)

    def fit(max_iter, callback):
        return SkipGram(dim, objective=NegativeSampling(), max_iter=max_iter, **given).fit(path, callback=callback)

    touched = pairs * 6 * -(-dim // LINE)
    return Passes(fit, {"random lines": touched, "random lines, huge pages": touched, "multiply-add": pairs * 36 * dim})


def parsing(small, folder):
    """Reading XMC text: its bytes once, and the matrices written."""
    n, z = (3000 if small else 200_000), 40
    X = sparse(n, 50_000, z)
    path = folder / "rows.txt"
    with path.open("w") as file:
        file.write(f"{n} 50000 1000\n")
        for i in range(n):
            row = X.indices[i * z : (i + 1) * z].tolist()
            file.write(f"{i % 1000} " + " ".join(f"{j}:0.{j % 9000 + 1000}" for j in row) + "\n")
    written = 8 * n * z + 20 * n  # a value and a column each; two row pointers and a label
    return Calls(lambda: load_xmc(path, n_jobs=1), {"bytes read": path.stat().st_size, "bytes updated": 2 * written})


KERNELS = {f"visit, {m} classes": Kernel(visit(m), ">= 60") for m in (16, 64, 256)}
KERNELS |= {f"visit, {m} classes, explicit step": Kernel(visit(m, "sgd")) for m in (16, 64, 256)}
KERNELS |= {
    "visit, 16 classes drawn singly": Kernel(visit(16, sampler="uniform"), ">= 60"),
    "visit of dense rows, 16 classes": Kernel(dense_visit(16), ">= 60"),
    "exact pass, sparse": Kernel(exact_pass(True), ">= 50"),
    "exact pass, dense": Kernel(exact_pass(False), ">= 50"),
    "exact forward, sparse": Kernel(forward(True), ">= 50"),
    "exact forward, dense": Kernel(forward(False), ">= 50"),
    "exact gradient in double, sparse": Kernel(gradient(True), ">= 50"),
    "exact gradient in double, dense": Kernel(gradient(False), ">= 50"),
    "embedding batch": Kernel(embedding_batch, ">= 60"),
    "top 5, a batch": Kernel(top_k(256), ">= 50"),
    "top 5, one row": Kernel(top_k(1), ">= 50"),
    "index scan": Kernel(index_scan),
    "k-means": Kernel(kmeans),
    "A&R local steps": Kernel(local_steps(64)),
    "skip-gram": Kernel(skip_gram),
    "text parsing": Kernel(parsing),
}
