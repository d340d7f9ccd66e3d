"""Maximum inner product search over rows that move: a spherical clustering index that follows training.

Rows stand in C clusters of similar direction; a query scans the clusters whose unit centroids c have the largest
products with it (Yen et al. 2018, section 4). A scan reads rows as bytes with a bound on the error of each score, then
computes in single precision the scores of the few rows that may be among the best: the answer is that of a scan of all
probed rows in single precision, equal scores by id.

`update` and `add` of a `SphericalClusterIndex` make the clusters anew, with recluster="auto", in three cases: when the
imbalance C sum n_c^2 / K^2 is twice what it was after `fit`; when the recall of 256 rows as queries, which is measured
each time that K / 2 rows have come, has fallen by 0.1; or when a fit to the present rows would make more than twice the
clusters.

`loss_and_gradient` is Algorithm 1 of Yen et al. (ICML 2018): rows of W are classes, of which a search finds those of
highest score; scores of labels are computed in any case.

- Without `budget` and `threshold` it finds K / 100 wrong classes, rounded up; for cross-entropy with rest="mask" it
  doubles these, with the clusters, while the classes not found may have a share of more than `tolerance` of the
  normaliser.
- rest="mask" leaves out the classes that were not found; "zero", the paper's, counts them with score 0, their gradients
  left out, which puts the loss within `threshold` times its Lipschitz constant.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_choice, check_number, n_threads_from
from manyclass.parts import storing
from manyclass.search.clustered import ApproximateLosses, ClusteredRows, Exclude, Labels, Rows, fewest_probes
from manyclass.weights.arrays import Floats, Ids

# Clusters are made anew once the expected cost of a probe, C sum n_c^2 / K^2, or the number of clusters that
# n_clusters="auto" would make of the rows has doubled, or the recall of the rows themselves at n_probe_ has fallen by
# a tenth. Recall is measured again each time half as many rows as there are have been replaced: it then costs a small
# part of what the updates have cost.
MOST_GROWTH = 2.0
MOST_RECALL_LOSS = 0.1
CHECK_EVERY = 0.5


class SphericalClusterIndex(ClusteredRows):
    r"""Index over the rows of W for the largest :math:`w_k \cdot q`, that follows changes of W.

    Rows stand in C clusters of similar direction, of which a query scans `n_probe`, exactly;
    `manyclass.search.spherical` says how, and what `update` and `loss_and_gradient` do.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        C. "auto" is twice the square root of K, and 1 up to K = 4096, where every query is exact.
    n_probe : int or "auto", default="auto"
        Clusters that a query scans unless it says otherwise. "auto" is the smallest number that finds 90 % of the best
        ten rows when rows of W are the queries (each without itself); `tune` finds one for other queries.
    augment_norm : bool, default=False
        Cluster (w / M, sqrt(1 - |w|^2 / M^2)) instead of w / |w|, M being the largest norm when the clusters
        are made, so that clusters of long rows are probed earlier. Rows that become longer than M count as long as M.
    n_iter : int, default=10
        Iterations of k-means at most; it stops where no row moves.
    sample_per_cluster : int or None, default=256
        k-means sees this many rows per cluster, drawn at random, or all rows (None). In any case each row is put into
        its nearest cluster.
    recluster : {"auto", "never"}, default="auto"
        Whether `update` makes the clusters anew when a check says that their sizes or the recall have become worse.
    code_bits : {8, 4}, default=8
        Bits a column of the codes that a scan reads. With 4 they are rotated, and levels suit normal numbers.
    row_bits : {32, 16, 0}, default=32
        Of a number of the rows that are kept beside codes, whose scores decide: with 32 answers are those of float32
        rows, with 16 of rows rounded to float16 (11 bits, up to 65504). With 0 a row is what its code says, and
        `n_bytes_` is a quarter of that of 32, an eighth with 4 bits: "Rows that are their codes" below.
    n_jobs : int or None, default=None
        Threads (-1: all cores). Results do not depend on it. A single query uses one thread unless it reads 16 MB.
    random_state : int, RandomState or None, default=None
        Seed of the sample and the first centroids.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (C, n_features_in_) or (C, n_features_in_ + 1) if `augment_norm`, float32
        Unit centroids.
    radius_ : float
        M, or 0 without `augment_norm`.
    n_clusters_ : int
    n_probe_ : int
    n_rows_ : int
    n_features_in_ : int
    kmeans_stats_ : dict
        Per iteration, over the sampled rows: "mean_cosine", "moved" rows, "repaired" (clusters that were empty and were
        given a row), each of shape (n_iter,), and "sizes" (n_iter, C).
    recall_ : float
        Recall at 10 of rows as queries with `n_probe_` clusters, after the clusters were made last.
    n_reclusterings_ : int
        How often `update` has made the clusters anew.
    n_bytes_ : int
        Memory of rows, codes, clusters and places.

    Notes
    -----
    Rows that are their codes: with row_bits=0 all answers are those of rounded rows, whose scores have errors of some
    .6 % (8 bits) or 9 % (4 bits) of |w| |q| / sqrt(D), without bias; queries are rounded to 16 bits. Of 200,000 x 128
    planted rows 10 of 10 best are found for 99.8 % and 95.6 % of all (`bench/figures/index.md`).

    Queries may run at the same time in several threads, but not during an update.
    """

    FORMAT: ClassVar[tuple[str, str]] = ("manyclass index", "an index")
    SEARCH: ClassVar[str] = "mips"
    _RECALL_QUERIES = 256
    _KMEANS: ClassVar = {"mean_cosine": np.float64, "moved": np.int64, "repaired": np.int64, "sizes": np.int32}
    _STATE: ClassVar[dict[str, type]] = {"radius_": float, "recall_": float, "_imbalance_made": float} | dict.fromkeys(
        ("n_probe_", "n_reclusterings_", "_seed", "_replaced"), int
    )

    kmeans_stats_: dict[str, NDArray[Any]]

    @storing
    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        n_probe: int | str = "auto",
        augment_norm: bool = False,
        n_iter: int = 10,
        sample_per_cluster: int | None = 256,
        recluster: str = "auto",
        code_bits: int = 8,
        row_bits: int = 32,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        """Store the parameters."""

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise ValueError or TypeError for a parameter that rows of this shape cannot have."""
        choices: dict[str, Any] = {"code_bits": (8, 4), "row_bits": (32, 16, 0), "recluster": ("auto", "never")}
        for name, values in choices.items():
            check_choice(name, getattr(self, name), values)
        check_number("n_iter", self.n_iter, low=1, high=2**31 - 1, integer=True)
        if self.sample_per_cluster is not None:
            check_number("sample_per_cluster", self.sample_per_cluster, low=1, high=2**31 - 1, integer=True)
        super()._check_parameters(shape)

    def query_above(
        self, Q: Rows, threshold: ArrayLike, *, n_probe: int | None = None, exclude: Exclude = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Find all rows of the probed clusters whose inner product with a query is above a threshold.

        Parameters
        ----------
        Q : queries, as of `query`
        threshold : float or array-like of shape (n,)
            A row is found if its score is greater.
        n_probe : int, as of `query`, default=None
        exclude : ids, as of `query`, default=None

        Returns
        -------
        indptr : ndarray of shape (n + 1,), int64
            Rows of query i stand at indptr[i]:indptr[i + 1] of the next two.
        ids : ndarray, int64
            Best first, equal scores by id.
        scores : ndarray, float32
        """
        index = self.core
        queries, n, _, options = self._request(Q, n_probe, exclude)
        with np.errstate(over="ignore"):  # no score is above what overflows
            thresholds = np.asarray(threshold, dtype=np.float32)
        if thresholds.shape not in ((), (n,)):
            raise ValueError(f"threshold has shape {thresholds.shape}; it must be a number or have shape ({n},)")
        if np.isnan(thresholds).any():
            raise ValueError("threshold holds NaN; it must hold numbers")
        thresholds = np.array(np.broadcast_to(thresholds, (n,)))
        indptr, ids, scores = index.query_above(queries, thresholds=thresholds, **options)
        return indptr, ids, scores

    def fill_heads(self, X: NDArray[np.float32], labels: NDArray[np.int32], heads: NDArray[np.int32]) -> None:
        """Write the best rows for each point, its label left out, to `heads`; `n_probe_` clusters are scanned.

        Parameters
        ----------
        X : ndarray of shape (n, n_features) or (n, n_features - 1), float32
            Without the last column, a point has a one there.
        labels : ndarray of shape (n,), int32
        heads : ndarray of shape (n, m), int32
            Best first, -1 where the scanned clusters have too few rows.
        """
        self.core.fill_heads(X, labels, self.n_probe_, heads, n_threads_from(self.n_jobs))

    def tune(self, Q: Rows, *, k: int = 10, recall: float = 0.9, exclude: Exclude = None) -> int:
        """Set `n_probe_` to the smallest number of clusters that finds a share of the k best rows of these queries.

        Parameters
        ----------
        Q : queries, as of `query`
            A sample of those to come.
        k : int, default=10
        exclude : ids, as of `query`, default=None
        recall : float, default=0.9
            In [0, 1].

        Returns
        -------
        int
            The new `n_probe_`.
        """
        check_number("recall", recall, low=0, high=1)
        self.n_probe_ = fewest_probes(self.recall_curve(Q, k=k, exclude=exclude), recall)
        return self.n_probe_

    @property
    def n_bytes_(self) -> int:
        """Bytes of memory."""
        return int(self.core.n_bytes())

    @property
    def imbalance_(self) -> float:
        """C sum n_c^2 / K^2: 1 for equal clusters, C if all rows stand in one."""
        return float(self.core.imbalance())

    def loss_and_gradient(
        self,
        Q: Rows,
        Y: Labels,
        loss: str = "margin",
        *,
        smoothing: float = 1.0,
        budget: int | None = None,
        threshold: float | None = None,
        n_probe: int | None = None,
        tolerance: float = 1e-3,
        rest: str | None = None,
        fill: bool = False,
    ) -> ApproximateLosses:
        """Approximate losses of the scores z = W q, and their gradients in z, from the classes that a search finds.

        A ValueError if an argument is out of range, or a query is not finite or longer than 2**62.

        Parameters
        ----------
        Q : array-like or sparse matrix of shape (n, n_features), or (n_features,) for one query
        Y : array-like of shape (n,), sequence of n sequences of ids, or sparse indicator matrix of shape (n, K)
            Labels, one or several for a query. A query without labels has loss 0.
        loss : {"margin", "cross_entropy", "triplet"}, default="margin"
        smoothing : float, default=1.0
            mu of the smoothed margin, >= 0.
        budget : int, optional
            Wrong classes of highest score to be found, in [1, K]; without it and `threshold` K / 100 or more.
        threshold : float, optional
            Find all classes of the probed clusters with a score above this in magnitude instead, >= 0.
        n_probe : int, optional
            As of `query`.
        tolerance : float, default=1e-3
            Of cross-entropy: the share of the normaliser that may be missed; and of gradients, which are left out.
        rest : {"mask", "zero"}, optional
            Whether classes that were not found are left out, or count with score 0, the default with a threshold.
        fill : bool, default=False
            Read clusters in the order of their scores until they hold `budget` classes, in place of `n_probe`.

        Returns
        -------
        losses : ndarray of shape (n,), float64
        gradients : csr_array of shape (n, K), float32
            The pair has an attribute `report`, a `SearchReport`: for each query what the search cost, and whether the
            answer is certified, with what that means for each loss.
        """
        reach = {"loss": loss, "n_probe": n_probe, "budget": budget, "threshold": threshold, "rest": rest}
        return self._losses_and_gradients(Q, Y, **reach, smoothing=smoothing, tolerance=tolerance, fill=fill)

    def _cluster(self, rows: Floats, n_before: int = 0) -> None:
        """Make the clusters of `rows`, choose n_probe_ and measure what later checks compare with."""
        self.n_reclusterings_ = n_before
        self.radius_ = _core.norm_of_longest(rows) if self.augment_norm else 0.0  # k-means refuses what is not finite
        sample = int(self.sample_per_cluster or 0)
        clusters = self._find_clusters(rows, n_before, int(self.n_iter), sample, self.radius_)
        self.kmeans_stats_ = {name: np.array(clusters[name], dtype=kind) for name, kind in self._KMEANS.items()}
        self._build(self._index.stored() if n_before else rows, clusters["centroids"], np.zeros(0, dtype=np.int32))
        self._replaced, self._imbalance_made = 0, self.imbalance_
        self.recall_ = self._choose_probes()

    def _core_index(self, rows: Floats, centers: Floats, labels: Ids) -> Any:
        self.n_features_in_ = centers.shape[1] - (self.radius_ > 0)
        bits = {"code_bits": self.code_bits, "row_bits": self.row_bits}
        make: Any = _core.ClusterIndex if rows.dtype == np.float32 else _core.ClusterIndex.of_codes
        rows = self._rounded(rows)
        return make(rows, centers, radius=self.radius_, labels=labels, n_threads=n_threads_from(self.n_jobs), **bits)

    def _has_worn(self) -> bool:
        """Whether a check says that the clusters no longer fit the rows."""
        if self.recluster != "auto":
            return False
        too_few = self._n_clusters(self.n_rows_) > MOST_GROWTH * self.n_clusters_
        if too_few or self.imbalance_ > MOST_GROWTH * self._imbalance_made:
            return True
        if self._replaced < CHECK_EVERY * self.n_rows_:
            return False
        self._replaced = 0
        return bool(self._recall_of_rows()[self.n_probe_ - 1] < self.recall_ - MOST_RECALL_LOSS)
