"""What the indexes share: rows in a core object, saved, copied, updated, and asked for losses and gradients."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.checks import (
    canonical_csr,
    check_choice,
    check_flag,
    check_number,
    checked_ids,
    checked_random,
    csr_parts,
    id_lists,
    n_threads_from,
    seed_from,
    set_named,
)
from manyclass.datasets.csr import is_sparse
from manyclass.weights.arrays import NO_FLOATS, Floats, Ids, Matrix
from manyclass.weights.tensor_file import (
    PathLike,
    TensorFile,
    finite,
    open_format,
    reading,
    warn_of_unread,
    write_tensors,
)

# Rows and queries

Rows = ArrayLike | sp.sparray | sp.spmatrix
Exclude = Sequence[ArrayLike] | sp.sparray | sp.spmatrix | None
Labels = ArrayLike | Sequence[ArrayLike] | sp.sparray | sp.spmatrix
Excluded = tuple[NDArray[np.int64], NDArray[np.int32]]  # indptr and sorted ids; both empty: nothing for anyone

MOST_COLUMNS = 1 << 22  # sums of D products of bytes must be 32-bit integers
_NOTHING: Excluded = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))


def _as_float32(name: str, x: Any) -> NDArray[np.float32]:
    """A dense array of real numbers as float32; C-contiguous, so that read-only memory is read where it is."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):  # the core refuses what overflows
        return np.ascontiguousarray(array, dtype=np.float32)


def checked_rows(name: str, W: Rows, n_features: int | None = None) -> NDArray[np.float32]:
    """Return W as a dense float32 matrix of at least one row and column.

    Raises
    ------
    TypeError
        If W does not hold real numbers.
    ValueError
        If it is no such matrix.
    """
    matrix: Any = W
    dense = _as_float32(name, matrix.toarray() if is_sparse(matrix) else matrix)
    if dense.ndim != 2:
        raise ValueError(f"{name} has {dense.ndim} dimensions; it must have 2")
    if n_features is not None and dense.shape[1] != n_features:
        raise ValueError(f"{name} has {dense.shape[1]} columns; the index has {n_features}")
    if n_features is None and (dense.shape[0] < 1 or not 1 <= dense.shape[1] <= MOST_COLUMNS):
        raise ValueError(f"{name} has shape {dense.shape}; it must have 1 row or more and 1 to {MOST_COLUMNS} columns")
    return dense


def queries_of(Q: Rows, n_features: int, *, dense: bool = False) -> tuple[Any, int, bool]:
    """Return queries as the core takes them, or `dense` ones, their number, and whether there was one, as a vector.

    Raises
    ------
    TypeError
        If Q does not hold real numbers.
    ValueError
        If Q does not have one or two dimensions or the columns of the index.
    """
    matrix: Any = Q
    if type(matrix) is np.ndarray and matrix.dtype == np.float32 and matrix.shape == (n_features,):
        return np.ascontiguousarray(matrix).reshape(1, -1), 1, True  # a single query waits for each microsecond
    sparse = is_sparse(matrix)
    matrix = matrix if sparse else _as_float32("Q", matrix)
    single = matrix.ndim == 1  # as a row of a csr_array is, too
    matrix = matrix.reshape(1, -1) if single else matrix
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise ValueError(
            f"Q has shape {matrix.shape}; it must have 1 dimension (a query) or 2, and {n_features} columns"
        )
    if not sparse:
        return matrix, matrix.shape[0], single
    csr = canonical_csr(sp.csr_array(matrix))
    return csr.toarray() if dense else csr_parts(csr), matrix.shape[0], single


def _lists(name: str, lists: Any, n: int, n_rows: int) -> Excluded:
    return id_lists(name, lists, (n, n_rows), rows="queries", whose=": queries by rows")


def exclusions(exclude: Exclude, n: int, single: bool, n_rows: int) -> Excluded:
    """Return the ids that each query does not want, sorted and distinct.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If there is not a list for each query, or an id is out of range.
    """
    if exclude is None:
        return _NOTHING
    lists: Any = exclude
    if is_sparse(lists) and lists.ndim == 1:
        lists = lists.reshape(1, -1)
    if single and not is_sparse(lists) and np.ndim(lists[0] if len(lists) else 0) == 0:
        lists = [lists]
    return _lists("exclude", lists, n, n_rows)


def labels_of(Y: Labels, n: int, n_rows: int) -> Excluded:
    """Return the labels of each of n points, sorted and distinct: one for each, lists, or a sparse indicator matrix.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If there are not labels for each point, or one is out of range.
    """
    labels: Any = Y
    if not is_sparse(labels) and all(np.ndim(label) == 0 for label in labels):
        ids = checked_ids("Y", labels, n_rows)
        if len(ids) != n:
            raise ValueError(f"Y has {len(ids)} labels; there are {n} queries")
        return np.arange(n + 1, dtype=np.int64), ids
    if is_sparse(labels) and labels.shape == (n, n_rows):
        labels = sp.csr_array(labels, copy=True)
        labels.eliminate_zeros()
    return _lists("Y", labels, n, n_rows)


# Of a model's weights


def class_rows(coef: Floats, intercept: Floats | None, scale: Floats | None = None) -> Floats:
    """Return a dense row of weights, times `scale`, and of the intercept, if any, for each class, less their mean.

    The mean of all rows adds the same to each score of a point: neither ranks nor probabilities change, and shorter
    rows cluster better."""
    # Intercepts may be a column of the weights.
    factors, bias = (NO_FLOATS if array is None else np.ascontiguousarray(array) for array in (scale, intercept))
    return _core.centred_class_rows(coef, factors, bias)


def queries(x: Matrix, n_columns: int) -> Matrix:
    """Return points as queries for rows of `class_rows`: with a feature of ones where these have an intercept."""
    if x.shape[1] == n_columns:
        return x
    ones = np.ones((x.shape[0], 1), dtype=np.float32)
    if isinstance(x, sp.csr_array):
        return sp.csr_array(sp.hstack([x, sp.csr_array(ones)], format="csr"))
    return np.concatenate([x, ones], axis=1)


# What indexes share

# Up to this many rows one cluster is as fast as any number of them (bench/decisions.md), and exact.
EXACT_ROWS = 4096
CLUSTERS_PER_ROOT = 2.0  # n_clusters="auto" is this times the square root of K
BUDGET_SHARE = 100  # a search finds one class in a hundred by default, rounded up (Yen et al. 2018, section 5)

# n_probe="auto" finds this share of the best rows when rows are the queries.
AUTO_RECALL = 0.9
RECALL_K = 10

# What options of a search for a loss may be: names, and numbers from where to where (None: to K), and whether whole.
CHOICES = {
    "loss": ("cross_entropy", "margin", "triplet"),
    "rest": ("mask", "zero"),
    "rule": ("exact_scores", "printed"),
    "step": ("full", "frank_wolfe"),
    "answer": ("blocks", "active"),
}
LIMITS = (
    ("budget", 1, None, True),
    ("n_iter", 0, 2**31 - 1, True),
    *((name, 0, np.inf, False) for name in ("threshold", "smoothing", "tolerance")),
)
FORMAT_VERSION = 1
LARGEST = float(np.finfo(np.float32).max)


def auto_clusters(n_rows: int) -> int:
    """Return the number of clusters where the caller leaves it open."""
    return 1 if n_rows <= EXACT_ROWS else round(CLUSTERS_PER_ROOT * n_rows**0.5)


def fewest_probes(curve: NDArray[np.float64], recall: float) -> int:
    """Return the smallest number of clusters with a recall; `curve` has that of 1, 2, ... clusters."""
    # The curve ends at 1; that of a float is not a reason to scan everything.
    return int(np.argmax(curve >= min(recall, curve[-1]) - 1e-12)) + 1


def _count_of(name: str, value: int, high: int) -> int:
    if type(value) is not int or not 1 <= value <= high:  # the check takes a third of the time of a query
        check_number(name, value, low=1, high=high, integer=True)
    return int(value)


class SearchReport(NamedTuple):
    r"""Cost of the answers, and which of them are certified; a number for each query, 0 for one without labels.

    Attributes
    ----------
    n_found : ndarray of shape (n,), int64
        Wrong classes that the searches have found, summed over blocks of columns: :math:`|S|`.
    n_exact : ndarray of shape (n,), int64
        Classes whose whole inner products were computed: the labels and :math:`A`, the classes that were active.
    n_scanned : ndarray of shape (n,), int64
        Rows that the searches have scored, summed over blocks and repeated searches.
    n_multiplications : ndarray of shape (n,), int64
        :math:`D_j (C + \text{rows})` for each search of a block of D_j columns, and D for each exact class:
        :math:`O(D Q + D |A|)` (Yen et al. 2018, section 3.2), where scoring every class takes K D. A
        `SphericalClusterIndex` multiplies bytes, and skips the C centroids where all clusters are read.
    certified : ndarray of shape (n,), bool
        Whether the classes that are not listed are known to add next to nothing. That needs that all clusters were
        read, because another one may hide any score; then, up to rounding,

        - with a budget and `rest="mask"`, cross-entropy: they have at most `tolerance` times the normaliser of the
          listed ones. The loss is too low by at most :math:`|P| \log(1 + \text{tolerance})`, the gradient off by at
          most :math:`2 |P|` `tolerance` in the 1-norm, beside what `tolerance` leaves unlisted;
        - with a budget and `rest="mask"`, margin and triplet: loss and gradient are those of all classes;
        - with a threshold and `rest="zero"`: the loss is within the threshold times the Lipschitz constant (2 of the
          margin, twice the number of labels of cross-entropy), or B times that with B blocks of columns;
        - where every class is listed, always. With other combinations, never.

        Of a `DecomposedIndex` with `answer="blocks"` it speaks of each block's loss at the messages as they are, whose
        mean is an upper bound of the loss of the exact scores (Jensen's inequality), and else of that loss itself.
    """

    n_found: NDArray[np.int64]
    n_exact: NDArray[np.int64]
    n_scanned: NDArray[np.int64]
    n_multiplications: NDArray[np.int64]
    certified: NDArray[np.bool_]


class _Pair(NamedTuple):
    losses: NDArray[np.float64]
    gradients: sp.csr_array


class ApproximateLosses(_Pair):
    """The pair (losses, gradients), which carries beside it what the search has done.

    Attributes
    ----------
    losses : ndarray of shape (n,), float64
    gradients : csr_array of shape (n, K), float32
    report : SearchReport
    """

    report: SearchReport


class ClusteredRows(BaseEstimator):
    """Rows in clusters.

    A subclass has the parameters n_clusters, n_probe, n_jobs and random_state, checks its parameters for the shape of
    rows in `_check_parameters`, makes the clusters of rows, and calls `_build` and `_choose_probes`, in `_cluster`, and
    returns the core's index of rows, centroids and the cluster of each row, or none, from `_core_index`.
    """

    n_rows_: int
    n_features_in_: int
    n_clusters_: int
    n_probe_: int
    cluster_centers_: NDArray[np.float32]
    n_clusters: int | str
    n_probe: int | str
    n_jobs: int | None
    random_state: Any
    row_bits: int = 32
    n_reclusterings_: int = 0
    _index: Any
    _seed: int
    _replaced: int = 0

    # What a file of the index is called, and what it holds beside arrays and parameters.
    FORMAT: ClassVar[tuple[str, str]]
    SEARCH: ClassVar[str]  # the name of the search by such an index, of `manyclass.samplers.SEARCHES`
    _BY_BLOCKS: ClassVar[bool] = False  # whether the core takes dense queries and a budget for each block of columns
    _KMEANS: ClassVar[dict[str, Any]] = {}  # what is kept of each iteration of k-means, and its type
    _RECALL_QUERIES: ClassVar[int]  # rows that are queries where the recall of rows is measured
    _STATE: ClassVar[dict[str, type]]

    set_params = set_named

    def fit(self, W: Rows) -> Self:
        """Cluster the rows of W and index a copy of them; a ValueError if a parameter or a value is out of range.

        Parameters
        ----------
        W : array-like or sparse matrix of shape (K, n_features)
            Converted to dense float32.

        Returns
        -------
        self
        """
        rows = checked_rows("W", W)
        self._check_parameters(rows.shape)
        index = type(self)(**self.get_params())  # so that nothing changes where the core finds a value out of range
        index._seed = seed_from(self.random_state)
        index.n_rows_, index.n_features_in_ = rows.shape
        index._cluster(rows)
        self.__dict__.update(vars(index))
        return self

    def query(
        self, Q: Rows, k: int = 10, *, n_probe: int | None = None, exclude: Exclude = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Find the k rows of largest inner product with each query among those of the probed clusters.

        Of a `DecomposedIndex`, each block gives its best K / 100 rows (k if that is more), whose whole scores decide.
        A ValueError if a query is not finite or longer than 2**62, or an argument is out of range.

        Parameters
        ----------
        Q : array-like or sparse matrix of shape (n, n_features), or (n_features,) for one query
        k : int, default=10
            In [1, K].
        n_probe : int, optional
            Clusters scanned (in each block), in [1, C]; `n_probe_` if not given. With C of a `SphericalClusterIndex`
            the answer is exact. Where they hold too few rows, more are scanned.
        exclude : sparse matrix of shape (n, K), or sequence of n sequences of ids, optional
            Rows that a query does not want, such as its positives: the entries of the matrix that are stored, or a list
            for each query. One list will do for one query.

        Returns
        -------
        scores : ndarray of shape (n, k) or (k,), float32
            Best first, equal scores by id; -inf where fewer than k rows are left.
        ids : ndarray of shape (n, k) or (k,), int64
            -1 there.
        """
        index = self.core
        k = _count_of("k", k, self.n_rows_)
        queries, _, single, options = self._request(Q, n_probe, exclude)
        scores, ids = index.query(queries, k=k, **options)
        return (scores[0], ids[0]) if single else (scores, ids)

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise ValueError or TypeError for a parameter that rows of this shape cannot have."""
        for name, value in (("n_clusters", self.n_clusters), ("n_probe", self.n_probe)):
            if value != "auto":
                check_number(name, value, low=1, high=shape[0], integer=True)
        n_threads_from(self.n_jobs)
        checked_random(self.random_state)

    def update(self, ids: ArrayLike, rows: Rows) -> Self:
        """Replace rows, each of which goes to its nearest cluster, at the cost of C inner products a row.

        Rows that were taken out stand there again. A `SphericalClusterIndex` makes its clusters anew where they no
        longer fit. A ValueError if an id is unknown or given twice, or a row does not fit or is not finite; nothing is
        changed.

        Parameters
        ----------
        ids : array-like of shape (m,), distinct int in [0, K)
        rows : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        self
        """
        self._put(checked_ids("ids", ids, self.n_rows_, once="each row is replaced once"), rows)
        return self

    def add(self, rows: Rows) -> NDArray[np.int64]:
        """Add rows as `update` replaces them, and return their ids: K, K + 1, ...

        Parameters
        ----------
        rows : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        ndarray of shape (m,), int64
        """
        new = checked_rows("rows", rows, self.n_features_in_)
        ids = self.n_rows_ + np.arange(len(new))
        self._put(ids.astype(np.int32), new)
        return ids

    def remove(self, ids: ArrayLike) -> Self:
        """Take rows out: no search finds them. Their ids stay, those of `rows_` are 0 and those of `labels_` -1.

        A ValueError if an id is unknown or given twice; nothing is changed.

        Parameters
        ----------
        ids : array-like of shape (m,), distinct int in [0, K)

        Returns
        -------
        self
        """
        self.core.remove(checked_ids("ids", ids, self.n_rows_, once="each row is taken out once"))
        return self

    def _put(self, ids: Ids, rows: Rows) -> None:
        index, new = self.core, self._rounded(checked_rows("rows", rows, self.n_features_in_))
        if len(new) != len(ids):
            raise ValueError(f"rows has {len(new)} rows, ids has {len(ids)}")
        index.update(ids, new, n_threads=n_threads_from(self.n_jobs))
        self.n_rows_ = index.n_rows()
        if not self._BY_BLOCKS:
            self.follow_training(len(ids))

    def follow_training(self, n_replaced: int) -> bool:
        """Note rows that have been replaced, and make the clusters anew where they no longer fit.

        Parameters
        ----------
        n_replaced : int
            Rows that a trainer has replaced in the core since the last call.

        Returns
        -------
        bool
            Whether the clusters were made anew.
        """
        self._replaced += n_replaced
        if not self._has_worn():
            return False
        self._cluster(self._index.rows()[self._present], self.n_reclusterings_ + 1)
        return True

    @property
    def rows_(self) -> NDArray[np.float32]:
        """A copy of the rows as they are now."""
        return np.asarray(self.core.rows())

    @property
    def labels_(self) -> NDArray[np.int32]:
        """Cluster of each row, of shape (K,); of a DecomposedIndex that in each block, (B, K)."""
        return np.asarray(self.core.labels())

    def save(self, path: PathLike) -> None:
        """Write rows, clusters and parameters to a safetensors file, replaced when all is written, or not at all.

        A `random_state` that is no int is left out. Raises OSError if the file cannot be written.
        """
        index = self.core
        parameters = self.get_params()
        if not isinstance(self.random_state, int):
            parameters["random_state"] = None
        state = {name: getattr(self, name) for name in self._STATE}
        rows = index.stored()
        tensors: dict[str, NDArray[Any]] = {"labels": index.labels()}
        tensors["rows"] = rows.astype(np.float16) if self.row_bits == 16 else rows
        tensors["cluster_centers"] = self.cluster_centers_
        tensors |= {f"kmeans.{name}": self.kmeans_stats_[name] for name in self._KMEANS}
        metadata = {"format": self.FORMAT[0], "format_version": str(FORMAT_VERSION), "state": json.dumps(state)}
        metadata["parameters"] = json.dumps(parameters, default=np.generic.item)
        write_tensors(path, tensors, metadata)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read an index that `save` has written; it answers every query as the saved one. Nothing in it is executed.

        Raises ValueError if the file is not such an index, damaged, or of a newer format; OSError if it cannot be read.
        """
        form, description = cls.FORMAT
        file = open_format(path, form, FORMAT_VERSION, description)
        with reading(file):
            self = cls._read(file)
        warn_of_unread(file)
        return self

    @classmethod
    def _read(cls, file: TensorFile) -> Self:
        parameters, state = (json.loads(file.metadata[name]) for name in ("parameters", "state"))
        self = cls(**parameters)
        rows = file.read("rows")  # or their codes, as bytes
        rows = rows if rows.dtype == np.uint8 and rows.ndim == 2 else checked_rows("rows", rows)
        self.n_rows_, self.n_features_in_ = rows.shape
        self._check_parameters(rows.shape)
        for name, kind in cls._STATE.items():
            check_number(name, state[name], low=0, high=2**64 if kind is int else LARGEST, integer=kind is int)
            setattr(self, name, kind(state[name]))
        if cls._KMEANS:
            self.kmeans_stats_ = {name: file.read(f"kmeans.{name}") for name in cls._KMEANS}
        labels = file.read("labels")
        centers = finite(file, "cluster_centers", file.read("cluster_centers"))
        for name, array, dtype in (("labels", labels, np.int32), ("cluster_centers", centers, np.float32)):
            if array.dtype != dtype:
                raise ValueError(f"{name!r} is {array.dtype}; it must be {np.dtype(dtype)}")
        self._build(rows, centers, labels)  # the core looks at the rows' numbers
        check_number("n_probe_", self.n_probe_, low=1, high=self.n_clusters_, integer=True)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For copies and joblib: the core's part as its arrays."""
        state = dict(super().__getstate__())
        if "_index" in state:
            index = state.pop("_index")
            state["_arrays"] = (index.stored(), index.labels())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Build the core's part again."""
        arrays = state.pop("_arrays", None)
        super().__setstate__(state)
        if arrays is not None:
            self._build(arrays[0], self.cluster_centers_, arrays[1])

    @property
    def core(self) -> Any:
        """The core's index: what a trainer searches in and keeps up to date."""
        # scikit-learn's check alone takes longer than a query
        if not hasattr(self, "_index"):
            check_is_fitted(self, "_index")
        return self._index

    @abstractmethod
    def _core_index(self, rows: Floats, centers: Floats, labels: Ids) -> Any:
        """Return the core's index over rows in clusters; without labels each row goes to the nearest centroid."""

    def _rounded(self, rows: Floats) -> Floats:
        """Return rows as they are kept: ValueError if one has a number that they cannot have."""
        if self.row_bits != 16 or rows.dtype != np.float32:  # codes, of a damaged file
            return rows
        with np.errstate(over="ignore"):
            halves = rows.astype(np.float16)
        if (np.isinf(halves) & np.isfinite(rows)).any():
            raise ValueError(f"rows has numbers up to {np.abs(rows).max():g}; with row_bits=16 they end at 65504")
        return halves.astype(np.float32)

    @property
    def _present(self) -> NDArray[np.bool_]:
        """Which rows have not been taken out."""
        return np.asarray(np.atleast_2d(self.labels_)[0] >= 0)

    def _build(self, rows: Floats, centers: Floats, labels: Ids) -> None:
        absent = np.flatnonzero(~self._present) if hasattr(self, "_index") else labels[:0]
        self._index = self._core_index(rows, centers, labels)
        self._index.remove(absent.astype(np.int32))
        self.cluster_centers_, self.n_clusters_ = centers, len(centers)

    def _find_clusters(
        self, rows: Floats, number: int, n_iter: int = 10, sample_per_cluster: int = 256, radius: float = 0.0
    ) -> Any:
        """Run spherical k-means, whose seed is that of the index and a number."""
        return _core.spherical_kmeans(
            rows,
            n_clusters=self._n_clusters(len(rows)),
            n_iter=n_iter,
            sample_per_cluster=sample_per_cluster,
            radius=radius,
            seed=(self._seed + number) % 2**64,
            n_threads=n_threads_from(self.n_jobs),
        )

    def _choose_probes(self) -> float:
        """Set `n_probe_`, and return its recall with the rows as queries."""
        curve, n_probe = self._recall_of_rows(), self.n_probe
        self.n_probe_ = fewest_probes(curve, AUTO_RECALL) if n_probe == "auto" else min(int(n_probe), self.n_clusters_)
        return float(curve[self.n_probe_ - 1])

    def _n_clusters(self, n_rows: int) -> int:
        return auto_clusters(n_rows) if self.n_clusters == "auto" else min(int(self.n_clusters), n_rows)

    def _recall_of_rows(self) -> NDArray[np.float64]:
        """Recall curve of a sample of the rows as queries, or of all where there are fewer, each without itself."""
        if self.n_clusters_ == 1:
            return np.ones(1)
        present = np.flatnonzero(self._present)
        n = min(self._RECALL_QUERIES, len(present))
        sample = np.random.default_rng(self._seed).choice(present, n, replace=False)
        return self.recall_curve(self.rows_[sample], k=min(RECALL_K, self.n_rows_), exclude=list(sample[:, None]))

    def recall_curve(self, Q: Rows, *, k: int = 10, exclude: Exclude = None) -> NDArray[np.float64]:
        """Measure the recall of each number of probed clusters, at the cost of an exact search.

        Parameters
        ----------
        Q : queries, as of `query`
        k : int, default=10
        exclude : ids, as of `query`, default=None

        Returns
        -------
        ndarray of shape (C,)
            Share of the k best rows of all queries, of a `DecomposedIndex` in each block, that n_probe = 1, ..., C
            clusters find.
        """
        index = self.core
        check_number("k", k, low=1, high=self.n_rows_, integer=True)
        queries, *_, options = self._request(Q, 1, exclude, dense=True)
        del options["n_probe"]
        counts = index.rows_by_rank(queries, k=int(k), **options)
        return np.asarray(np.cumsum(counts) / max(counts.sum(), 1))

    def _request(
        self, Q: Rows, n_probe: int | None, exclude: Exclude, *, dense: bool = False
    ) -> tuple[Any, int, bool, dict[str, Any]]:
        """Queries as the core takes them, how many, whether there is one as a vector, and what all queries have."""
        queries, n, single = queries_of(Q, self.n_features_in_, dense=dense or self._BY_BLOCKS)
        indptr, ids = exclusions(exclude, n, single, self.n_rows_)
        options = {"excluded_indptr": indptr, "excluded_ids": ids, "n_threads": n_threads_from(self.n_jobs)}
        return queries, n, single, {"n_probe": self._probes(n_probe), **options}

    def _probes(self, n_probe: int | None) -> int:
        """The number of clusters that a query scans, from the caller's."""
        return self.n_probe_ if n_probe is None else _count_of("n_probe", n_probe, self.n_clusters_)

    def _losses_and_gradients(self, Q: Rows, Y: Labels, **options: Any) -> ApproximateLosses:
        """Check the options of a search for a loss, and ask the core for losses and gradients."""
        index, n_threads = self.core, n_threads_from(self.n_jobs)
        messages: dict[str, Any] = {"n_iter": 0, "step": "full", "answer": "blocks", "rule": "exact_scores"}
        options = messages | options
        budget, threshold = options["budget"], options["threshold"]
        if options["rest"] is None:
            options["rest"] = "mask" if threshold is None else "zero"
        for name, choices in CHOICES.items():
            check_choice(name, options[name], choices)
        if budget is not None and threshold is not None:
            raise ValueError("budget and threshold are both given; a search has one of them")
        check_flag("fill", options["fill"])
        if options["fill"] and threshold is not None:
            raise ValueError("fill is True with a threshold; clusters are read until they hold `budget` classes")
        for name, low, high, integer in LIMITS:
            if options[name] is not None:
                check_number(name, options[name], low=low, high=high or self.n_rows_, integer=integer)
        until_enough = options["loss"] == "cross_entropy" and options["rest"] == "mask" and budget is threshold is None
        options |= {
            "budget": 0 if threshold is not None else int(budget or -(-self.n_rows_ // BUDGET_SHARE)),
            "threshold": float(threshold or 0),
            "n_probe": self._probes(options["n_probe"]),
        }
        queries, n, _ = queries_of(Q, self.n_features_in_, dense=True)
        indptr, labels = labels_of(Y, n, self.n_rows_)
        lists = {"labels_indptr": indptr, "labels": labels}
        answers = index.loss_and_gradient(x=queries, until_enough=until_enough, **lists, **options, n_threads=n_threads)
        parts = (answers["values"], answers["ids"], answers["indptr"])
        gradients: sp.csr_array = sp.csr_array(parts, shape=(n, self.n_rows_))
        gradients.sort_indices()
        pair = ApproximateLosses(np.asarray(answers["losses"]), gradients)
        costs = (answers[name] for name in ("n_found", "n_exact", "n_scanned", "n_multiplications", "certified"))
        pair.report = SearchReport(*costs)
        return pair
