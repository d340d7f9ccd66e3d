"""Search in blocks of columns: an index for each, and losses and gradients by messages between them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from manyclass import _core
from manyclass.checks import check_number, n_threads_from
from manyclass.parts import storing
from manyclass.search.clustered import ApproximateLosses, ClusteredRows, Labels, Rows
from manyclass.weights.arrays import Floats, Ids


class DecomposedIndex(ClusteredRows):
    r"""Index over blocks of columns of W, that follows changes of W.

    A score :math:`w_k \cdot q` is the sum of the scores of B blocks of columns, in each of which the rows stand in C
    clusters of similar direction. What is large somewhere is found by B searches in few dimensions, each of which reads
    the `n_probe` clusters whose centroids have the largest scores (Yen et al., ICML 2018, section 3).

    Parameters
    ----------
    n_blocks : int, default=8
        B, at most the number of columns. Their sizes differ by at most one.
    n_clusters : int or "auto", default="auto"
        C, the same in each block. "auto" is twice the square root of K, and 1 up to K = 4096.
    n_probe : int or "auto", default="auto"
        Clusters of each block that a search reads unless it says otherwise. "auto" is the smallest number that finds
        90 % of the best ten rows of a block when rows of W are the queries (each without itself).
    random_state : int, RandomState or None, default=None
        Seed of the clusters.
    n_jobs : int or None, default=None
        Threads (-1: all cores). Results do not depend on it.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (C, n_features_in_), float32
        The columns of a block hold its unit centroids.
    n_clusters_ : int
    n_probe_ : int
    n_rows_ : int
    n_features_in_ : int
    block_starts_ : ndarray of shape (B + 1,), int64
        Block j is made of the columns block_starts_[j]:block_starts_[j + 1].

    Notes
    -----
    Queries may run at the same time in several threads, but not during an update. Clusters are not made anew when the
    rows have moved far: fit again.
    """

    FORMAT: ClassVar[tuple[str, str]] = ("manyclass decomposed index", "a decomposed index")
    SEARCH: ClassVar[str] = "decomposed"
    _BY_BLOCKS = True
    _RECALL_QUERIES = 64
    _STATE: ClassVar[dict[str, type]] = {"n_probe_": int}

    @storing
    def __init__(
        self,
        n_blocks: int = 8,
        *,
        n_clusters: int | str = "auto",
        n_probe: int | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        """Store the parameters."""

    def _cluster(self, rows: Floats, n_before: int = 0) -> None:
        """Make the clusters of each block of the rows, and choose n_probe_."""
        self._replaced = 0
        blocks = enumerate(self._blocks(rows))
        centers = [self._find_clusters(np.ascontiguousarray(block), j)["centroids"] for j, block in blocks]
        self._build(self._index.stored() if n_before else rows, np.hstack(centers), np.zeros((0, 0), dtype=np.int32))
        self._choose_probes()

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise ValueError or TypeError for a parameter that rows of this shape cannot have."""
        check_number("n_blocks", self.n_blocks, low=1, high=shape[1], integer=True)
        super()._check_parameters(shape)
        if self.n_probe != "auto":
            check_number("n_probe", self.n_probe, low=1, high=self._n_clusters(shape[0]), integer=True)

    def _has_worn(self) -> bool:
        """Whether all rows may have moved: to make the clusters anew is cheap for few columns."""
        return self._replaced >= self.n_rows_

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
        n_iter: int = 1,
        step: str = "full",
        tolerance: float = 1e-3,
        rest: str | None = None,
        answer: str = "blocks",
        rule: str = "exact_scores",
        fill: bool = False,
    ) -> ApproximateLosses:
        r"""Approximate losses of the scores z = W q, and their gradients in z, by greedy message passing.

        Algorithm 2 of Yen et al. (ICML 2018): the mean over blocks of :math:`L(B (z_j + \lambda_j))`, which is at least
        L(z) where all classes are found, and its gradient (but see `answer`). The messages :math:`\lambda_j` have been
        moved `n_iter` times towards their optimum :math:`z / B - z_j`, for labels and classes that had a gradient.

        Where all classes are found and the loss is :math:`1 / \mu`-smooth (mu of the smoothed margin, 2 / |P| of
        cross-entropy with |P| labels), the gradient g converges with the loss, since tangents cancel in the mean:

        .. math:: |g - \nabla L(z)|^2 \le \frac2\mu \Bigl(\frac1B \sum_j L(B (z_j + \lambda_j)) - L(z)\Bigr),

        which is O(1 / sqrt(n_iter)) by Theorem 2 for Frank-Wolfe steps.

        Parameters
        ----------
        Q : array-like or sparse matrix of shape (n, n_features), or (n_features,) for one query
        Y : array-like of shape (n,), sequence of n sequences of ids, or sparse indicator matrix of shape (n, K)
            Labels, one or several for a query. A query without labels has loss 0.
        loss : {"margin", "cross_entropy", "triplet"}, default="margin"
        smoothing : float, default=1.0
            mu of the smoothed margin, >= 0.
        budget : int, optional
            Wrong classes of highest score to be found in each block, in [1, K]. Without it and `threshold` K / 100,
            rounded up; for cross-entropy with `rest="mask"` it doubles, with the clusters, while the classes not found
            may have a share of more than `tolerance` of the normaliser of :math:`B z_j`.
        threshold : float, optional
            Find all classes of the probed clusters with a block score above this in magnitude instead, >= 0.
        n_probe : int, optional
            As of `query`.
        n_iter : int, default=1
            Rounds of messages, >= 0.
        step : {"full", "frank_wolfe"}, default="full"
            Step size 1, with which the answer is exact after a round if every class is active, or 2 / (t + 2) in round
            t = 1, 2, ...
        tolerance : float, default=1e-3
            A class is active if a block has a gradient above this in magnitude. Of cross-entropy also the share above,
            and gradients of classes that were never active are left out up to this share.
        rest : {"mask", "zero"}, optional
            Classes that were not found in a block are left out of it, the default with a budget, or count there with
            score 0, their gradients left out, the default with a threshold (as in the paper).
        answer : {"blocks", "active"}, default="blocks"
            The mean over blocks, as in the paper, which counts classes that are high in one block by chance; or the
            loss of the exact scores of labels and of the few classes that were active in some round.
        rule : {"exact_scores", "printed"}, default="exact_scores"
            "exact_scores": labels are always active, and an active class has its exact score in all blocks from then
            on, at n_features operations each. "printed": Algorithm 2 as printed, where labels are active if they have a
            gradient, an active class has the sum of the block scores found, and `rest` is "zero".
        fill : bool, default=False
            Read clusters of each block in the order of their scores until they hold `budget` classes (section 5 of the
            paper), in place of `n_probe` clusters.

        Returns
        -------
        losses : ndarray of shape (n,), float64
        gradients : csr_array of shape (n, K), float32
            The pair has an attribute `report`, a `SearchReport` of costs and certificates.

        Raises
        ------
        ValueError
            If an argument is out of range, or a query is not finite or longer than 2**62.
        """
        if rule == "printed":
            if rest == "mask" or answer != "blocks":
                name, value, only = ("rest", rest, "zero") if rest == "mask" else ("answer", answer, "blocks")
                raise ValueError(f"{name} is {value!r}; with rule='printed' it must be {only!r}")
            rest = "zero"
        reach = {"loss": loss, "n_probe": n_probe, "budget": budget, "threshold": threshold, "rest": rest}
        messages = {"n_iter": n_iter, "step": step, "answer": answer, "rule": rule, "tolerance": tolerance}
        return self._losses_and_gradients(Q, Y, **reach, **messages, smoothing=smoothing, fill=fill)

    def _blocks(self, matrix: Floats) -> list[Floats]:
        """The columns of each block."""
        self.block_starts_ = np.arange(self.n_blocks + 1) * self.n_features_in_ // self.n_blocks
        return np.split(matrix, self.block_starts_[1:-1], axis=1)

    def _core_index(self, rows: Floats, centers: Floats, labels: Ids) -> Any:
        blocks = [np.ascontiguousarray(block) for block in self._blocks(centers)]
        return _core.DecomposedIndex(rows, blocks, labels=list(labels), n_threads=n_threads_from(self.n_jobs))
