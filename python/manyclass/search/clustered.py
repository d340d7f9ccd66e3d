"""What the indexes share: rows in a core object, saved, copied, updated, and asked for losses and gradients."""

from __future__ import annotations

import json
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import (
    check_choice,
    check_flag,
    check_number,
    checked_ids,
    checked_random,
    n_threads_from,
    seed_from,
    set_named,
)
from manyclass.search.inputs import (
    Exclude,
    Labels,
    Rows,
    checked_rows,
    exclusions,
    labels_of,
    queries_of,
)
from manyclass.weights.tensor_file import (
    PathLike,
    TensorFile,
    finite,
    open_format,
    reading,
    warn_of_unread,
    write_tensors,
)

# Up to this many rows one cluster is as fast as any number of them (bench/decisions.md), and exact.
EXACT_ROWS = 4096
CLUSTERS_PER_ROOT = 2.0  # n_clusters="auto" is this times the square root of K
BUDGET_SHARE = 100  # a search finds one class in a hundred by default (Yen et al. 2018, section 5)

# n_probe="auto" finds this share of the best rows when rows are the queries.
AUTO_RECALL = 0.9
RECALL_K = 10

LOSSES = ("cross_entropy", "margin", "triplet")
FORMAT_VERSION = 1


def auto_clusters(n_rows: int) -> int:
    """Return the number of clusters where the caller leaves it open."""
    return 1 if n_rows <= EXACT_ROWS else round(CLUSTERS_PER_ROOT * n_rows**0.5)


def fewest_probes(curve: NDArray[np.float64], recall: float) -> int:
    """Return the smallest number of clusters with a recall; `curve` has that of 1, 2, ... clusters."""
    # The curve ends at 1; that of a float is not a reason to scan everything.
    return int(np.argmax(curve >= min(recall, curve[-1]) - 1e-12)) + 1


def default_budget(n_rows: int) -> int:
    """Return how many classes a search finds by default: one in a hundred, rounded up."""
    return -(-n_rows // BUDGET_SHARE)


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

    @classmethod
    def of(cls, answers: dict[str, Any], n_features: int) -> SearchReport:
        """Make one of what the core says."""
        n_exact = np.asarray(answers["n_exact"], dtype=np.int64)
        return cls(
            n_found=np.asarray(answers["n_found"], dtype=np.int64),
            n_exact=n_exact,
            n_scanned=np.asarray(answers["n_scanned"], dtype=np.int64),
            n_multiplications=np.asarray(answers["n_multiplied"], dtype=np.int64) + n_exact * n_features,
            certified=np.asarray(answers["certified"]),
        )


class ApproximateLosses(tuple[NDArray[np.float64], sp.csr_array]):
    """The pair (losses, gradients), which carries beside it what the search has done.

    Attributes
    ----------
    losses : ndarray of shape (n,), float64
    gradients : csr_array of shape (n, K), float32
    report : SearchReport
    """

    report: SearchReport

    def __new__(cls, losses: NDArray[np.float64], gradients: sp.csr_array, report: SearchReport) -> ApproximateLosses:
        """Make the pair."""
        self = super().__new__(cls, (losses, gradients))
        self.report = report
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        """For copies."""
        return (*self, self.report)

    @property
    def losses(self) -> NDArray[np.float64]:
        """The first of the pair."""
        return self[0]

    @property
    def gradients(self) -> sp.csr_array:
        """The second of the pair."""
        return self[1]


class ClusteredRows(BaseEstimator):
    """Rows in clusters.

    A subclass has the parameters n_clusters, n_probe, n_jobs and random_state, checks its parameters for the shape of
    rows in `_check_parameters`, makes the clusters of rows, and chooses `n_probe_`, in `_cluster`, and makes the core's
    part of rows, centroids and the cluster of each row, or none, in `_build`.
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
    _index: Any
    _seed: int

    # What a file of the index is called, and what it holds beside arrays and parameters.
    FORMAT: ClassVar[tuple[str, str]]
    SEARCH: ClassVar[str]  # the name of the search by such an index, of `manyclass.samplers.SEARCHES`
    _BY_BLOCKS: ClassVar[bool] = False  # whether the core takes dense queries and a budget for each block of columns
    _KMEANS: ClassVar[dict[str, Any]] = {}  # what is kept of each iteration of k-means, and its type
    _RECALL_QUERIES: ClassVar[int]  # rows that are queries where the recall of rows is measured
    _STATE: ClassVar[dict[str, tuple[type, float, float]]]  # its type, and from where to where it goes

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
        before = dict(vars(self))
        try:
            self._seed = seed_from(self.random_state)
            self.n_rows_, self.n_features_in_ = rows.shape
            self._cluster(rows)
        except BaseException:  # the core has found values that are out of range
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
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
            the answer is exact.
        exclude : sparse matrix of shape (n, K), or sequence of n sequences of ids, optional
            Rows that a query does not want, such as its positives: the entries of the matrix that are stored, or a list
            for each query. One list will do for one query.

        Returns
        -------
        scores : ndarray of shape (n, k) or (k,), float32
            Best first, equal scores by id; -inf where there are fewer than k rows.
        ids : ndarray of shape (n, k) or (k,), int64
            -1 there.
        """
        index = self._fitted()
        if type(k) is not int or not 1 <= k <= self.n_rows_:  # the check takes a third of the time of a query
            check_number("k", k, low=1, high=self.n_rows_, integer=True)
        queries, _, single, options = self._request(Q, n_probe, exclude)
        if self._BY_BLOCKS:
            options["budget"] = max(int(k), default_budget(self.n_rows_))
        scores, ids = index.query(queries, k=int(k), **options)
        return (scores[0], ids[0]) if single else (scores, ids)

    def _check_run(self, n_rows: int) -> None:
        """Raise ValueError or TypeError for one of the parameters that are shared."""
        for name, value in (("n_clusters", self.n_clusters), ("n_probe", self.n_probe)):
            if value != "auto":
                check_number(name, value, low=1, high=n_rows, integer=True)
        n_threads_from(self.n_jobs)
        checked_random(self.random_state)

    def update(self, ids: ArrayLike, rows: Rows) -> Self:
        """Replace rows, each of which goes to its nearest cluster, at the cost of C inner products a row.

        A ValueError if an id is unknown or given twice, or a row does not fit or is not finite; nothing is changed.

        Parameters
        ----------
        ids : array-like of shape (m,), distinct int in [0, K)
        rows : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        self
        """
        index = self._fitted()
        changed = checked_ids("ids", ids, self.n_rows_, once="each row is replaced once")
        new = checked_rows("rows", rows, self.n_features_in_)
        if len(new) != len(changed):
            raise ValueError(f"rows has {len(new)} rows, ids has {len(changed)}")
        index.update(changed, new, n_threads=self._n_threads())
        return self

    @property
    def rows_(self) -> NDArray[np.float32]:
        """A copy of the rows as they are now."""
        return np.asarray(self._fitted().rows())

    @property
    def labels_(self) -> NDArray[np.int32]:
        """Cluster of each row, of shape (K,); of a DecomposedIndex that in each block, (B, K)."""
        return np.asarray(self._fitted().labels())

    def save(self, path: PathLike) -> None:
        """Write rows, clusters and parameters to a safetensors file, replaced when all is written, or not at all.

        A `random_state` that is no int is left out. Raises OSError if the file cannot be written.
        """
        index = self._fitted()
        parameters = self.get_params()
        if not isinstance(self.random_state, int):
            parameters["random_state"] = None
        state = {name: getattr(self, name) for name in self._STATE}
        tensors: dict[str, NDArray[Any]] = {"rows": index.rows(), "labels": index.labels()}
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
        rows = checked_rows("rows", file.read("rows"))
        self.n_rows_, self.n_features_in_ = rows.shape
        self._check_parameters(rows.shape)
        for name, (kind, low, high) in cls._STATE.items():
            check_number(name, state[name], low=low, high=high, integer=kind is int)
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
        state = super().__getstate__() | {"_n_threads_of": None}
        if "_index" in state:
            index = state.pop("_index")
            state["_arrays"] = (index.rows(), index.labels())
        return dict(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Build the core's part again."""
        arrays = state.pop("_arrays", None)
        super().__setstate__(state)
        if arrays is not None:
            self._build(arrays[0], self.cluster_centers_, arrays[1])

    def _fitted(self) -> Any:
        # scikit-learn's check alone takes longer than a query
        if not hasattr(self, "_index"):
            check_is_fitted(self, "_index")
        return self._index

    @property
    def core(self) -> Any:
        """The core's index: what a trainer searches in and keeps up to date."""
        return self._fitted()

    def _n_threads(self) -> int:
        known = getattr(self, "_n_threads_of", None)
        if known is None or known[0] != self.n_jobs:
            known = self._n_threads_of = (self.n_jobs, n_threads_from(self.n_jobs))
        return known[1]

    def _probes(self, n_probe: int | None) -> int:
        """The number of clusters that a query scans, from the caller's."""
        if n_probe is None:
            return self.n_probe_
        if type(n_probe) is not int or not 1 <= n_probe <= self.n_clusters_:
            check_number("n_probe", n_probe, low=1, high=self.n_clusters_, integer=True)
        return int(n_probe)

    def _n_clusters(self, n_rows: int) -> int:
        return auto_clusters(n_rows) if self.n_clusters == "auto" else int(self.n_clusters)

    def _recall_of_rows(self) -> NDArray[np.float64]:
        """Recall curve of a sample of the rows as queries, or of all where there are fewer, each without itself."""
        if self.n_clusters_ == 1:
            return np.ones(1)
        n = min(self._RECALL_QUERIES, self.n_rows_)
        sample = np.random.default_rng(self._seed).choice(self.n_rows_, n, replace=False)
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
        index = self._fitted()
        check_number("k", k, low=1, high=self.n_rows_, integer=True)
        queries, n, single = queries_of(Q, self.n_features_in_, dense=True)
        indptr, ids = exclusions(exclude, n, single, self.n_rows_)
        options = {"excluded_indptr": indptr, "excluded_ids": ids, "n_threads": self._n_threads()}
        counts = index.rows_by_rank(queries, k=int(k), **options)
        return np.asarray(np.cumsum(counts) / max(counts.sum(), 1))

    def _request(self, Q: Rows, n_probe: int | None, exclude: Exclude) -> tuple[Any, int, bool, dict[str, Any]]:
        """Queries as the core takes them, how many, whether there is one as a vector, and what all queries have."""
        queries, n, single = queries_of(Q, self.n_features_in_, dense=self._BY_BLOCKS)
        indptr, ids = exclusions(exclude, n, single, self.n_rows_)
        options = {"excluded_indptr": indptr, "excluded_ids": ids, "n_threads": self._n_threads()}
        return queries, n, single, {"n_probe": self._probes(n_probe), **options}

    def _reach(
        self, loss: str, n_probe: int | None, budget: int | None, threshold: float | None, rest: str | None
    ) -> dict[str, Any]:
        """Check how far a search for a loss goes; return it as the core takes it."""
        self._fitted()
        check_choice("loss", loss, LOSSES)
        if budget is not None and threshold is not None:
            raise ValueError("budget and threshold are both given; a search has one of them")
        if budget is not None:
            check_number("budget", budget, low=1, high=self.n_rows_, integer=True)
        if threshold is not None:
            check_number("threshold", threshold, low=0)
        if rest is None:
            rest = "mask" if threshold is None else "zero"
        check_choice("rest", rest, ("mask", "zero"))
        return {
            "loss": loss,
            "rest": rest,
            "budget": 0 if threshold is not None else int(budget or default_budget(self.n_rows_)),
            "threshold": float(threshold or 0),
            "n_probe": self._probes(n_probe),
            "until_enough": loss == "cross_entropy" and budget is None and threshold is None and rest == "mask",
        }

    def _losses_and_gradients(self, Q: Rows, Y: Labels, reach: dict[str, Any], **options: Any) -> ApproximateLosses:
        """Ask the core for losses and gradients of a search that goes as far as `_reach` says."""
        options = {"n_iter": 0, "step": "full", "answer": "blocks", "rule": "exact_scores"} | options
        check_choice("rule", options["rule"], ("exact_scores", "printed"))
        check_flag("fill", options["fill"])
        if options["fill"] and not reach["budget"]:
            raise ValueError("fill is True with a threshold; clusters are read until they hold `budget` classes")
        check_choice("step", options["step"], ("full", "frank_wolfe"))
        check_choice("answer", options["answer"], ("blocks", "active"))
        check_number("smoothing", options["smoothing"], low=0)
        check_number("tolerance", options["tolerance"], low=0)
        check_number("n_iter", options["n_iter"], low=0, high=2**31 - 1, integer=True)
        queries, n, _ = queries_of(Q, self.n_features_in_, dense=True)
        indptr, labels = labels_of(Y, n, self.n_rows_)
        lists = {"labels_indptr": indptr, "labels": labels}
        answers = self._fitted().loss_and_gradient(x=queries, **lists, **options, **reach, n_threads=self._n_threads())
        parts = (answers["values"], answers["ids"], answers["indptr"])
        gradients: sp.csr_array = sp.csr_array(parts, shape=(n, self.n_rows_))
        gradients.sort_indices()
        report = SearchReport.of(answers, self.n_features_in_)
        return ApproximateLosses(np.asarray(answers["losses"]), gradients, report)
