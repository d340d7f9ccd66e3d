r"""Top-k classes through an index, with log-probabilities whose normaliser is estimated: head exact, tail sampled.

`predict_top_k(approximate=True)` works so. The number of clusters that are searched is chosen by up to 256 rows of the
first call with this k and recall that has 128 rows or more (earlier ones search all clusters), and checked on up to 256
other rows; later calls of 256 rows or more check it on a sixteenth of theirs. With recall=1 all clusters are searched.

The estimate :math:`\hat Z = \sum_H e^{z_k} + \frac{K - |H|}{r} \sum_T e^{z_k}` of a row's normaliser counts the
max(k, 64) classes H that were found exactly and weighs r = 1,024 others T, drawn uniformly without replacement: its
mean is the normaliser whatever was found. Its logarithm is too small by about std^2 / 2 on average, and std itself,
estimated from T, is too small where a few classes outside of H that T rarely meets have much of the probability. All
log-probabilities of a row err alike. Draws depend on random_state and the row's place in X (with `exclude`, among the
rows that exclude about as many); 64 rows share one.

The first search builds the index, which takes the time of scoring all classes for some thousand rows, and keeps it
until the next fit; it is not saved, pickled or cloned. It is dense: 5 n_classes n_features bytes, and while it is built
twice as many. Where rows are sparse and so are the weights, scoring all classes reads only the features that a row has
and is faster as a rule: `slower` predicts it, and the index is not built then. A model over embeddings
is answered by a copy in 8 bits, unless an index was tuned for what is asked and is quicker.

An 8-bit copy of the class vectors gives exact labels, and a normaliser from all classes. `predict` asks it where W
stands over embeddings or dense features and has more than `EXACT_CLASSES` classes, once `COPY_ROWS` rows or more are
asked for; so does `predict_top_k(approximate=True)`, for any number of rows, unless an index was tuned for what is
asked and is quicker. A pass over the copy reads a quarter of what a pass over W does, and its products take a quarter
of the instructions. The classes that its error bound leaves are scored again in full: the labels are those of an exact
pass, whatever the recall asked for. The other classes count in the normaliser as the copy says, and `std` is the
standard deviation of its logarithm, or more: some 2e-4 nats with recall=1, where the row is coded twice, its second
code being that of what the first one leaves. With less the row is coded once, for which scores of all classes err
together: some .005 nats, in two thirds of the time.

The first such call makes the copy, which takes the time of some hundred exact rows, n_classes (n_hidden + 20) bytes,
and is kept until the next fit; it is not saved, pickled or cloned. Of weights that are mapped from a file `predict`
makes none.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import lazy_property, outer_level, row_norms_sq, seed_from
from manyclass.search.clustered import CLUSTERS_PER_ROOT, EXACT_ROWS, class_rows, fewest_probes, queries, queries_of
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.weights.arrays import Best, Doubles, Floats, Ids, Matrix, map_of
from manyclass.weights.weights import Weights

# Rows from which on labels are found by a copy that is yet to be made: making it takes the time that some 200 rows save
# (135,000 classes, embeddings of 256).
COPY_ROWS = 512
# All classes are scored up to this number of them, since their index would be one cluster.
EXACT_CLASSES = EXACT_ROWS
# Classes found for the normaliser where fewer are asked for, and classes drawn: more of either cost more than they gain
# (bench/decisions.md).
HEAD = 64
TAIL = 1024
# At least this share of the clusters is probed: one cluster of 632 found 99 % of the five best labels of planted rows,
# but heavy classes in the clusters beside it were left to the sample, whose errors were six times those of ten probes.
LEAST_PROBED = 1 / 64
# Rows that the number of probes is chosen by, as many by which it is then checked, and the least that will do.
TUNE_ROWS = 256
LEAST_TUNE_ROWS = 64
CHECK_SHARE = 16  # a later call checks a sixteenth of its rows, which costs about a tenth of its time
LEAST_CHECK_ROWS = 16
# The share of the clusters above which an index is not quicker than an 8-bit copy: with 135,000 classes and embeddings
# of 256 a search of three quarters took .31 ms, the copy .17; log Z was off by .09 nats (rms), the copy's by .002.
MOST_PROBED = 1 / 4
# Labels alone are found by a copy where there are more classes than this for each that is wanted.
CLASSES_A_BEST = 64
BLOCK_ROWS = 4096  # a multiple of the core's queries_per_sample
LONGEST_SQ = 2.0**122  # of rows that an index takes; scores of longer ones may not be finite, and all are found then


def recall_error(recall: float, n: int) -> float:
    """Largest standard deviation that the mean recall of n queries can have: a query's own is between 0 and 1."""
    return float(np.sqrt(recall * (1 - recall) / n))


# Share of the clusters that a search is taken to need before it was tuned: 5 to 19 % were found for a recall of .95.
ASSUMED_SHARE = 1 / 6


def _clusters(n_classes: int) -> int:
    return int(min(n_classes, round(CLUSTERS_PER_ROOT * n_classes**0.5)))


def slower(weights: Weights, x: Matrix, n_probe: int | None, recall: float) -> str:
    """Say why scoring all classes is predicted to be faster than a search, or nothing.

    Parameters
    ----------
    weights : of any kind
    x : csr_array or ndarray of shape (n_rows, n_features)
        As the model takes it, before its feature map.
    n_probe : int or None
        Clusters that the index searches, where it was tuned.
    recall : float

    Returns
    -------
    str
    """
    if weights.codes is not None:
        return "the weights are compressed, and an index would hold them as float32 again; the original can be searched"
    if weights.has_pairs:
        return "the weights of a row's features are lists of classes, which are scored in one pass; no index is needed"
    n_classes, n_rows = weights.n_classes, x.shape[0]
    width = weights.coef.shape[1] + 1
    sparse = weights.by_feature
    values = x.nnz / max(1, n_rows) if isinstance(x, sp.csr_array) and sparse else width
    share = ASSUMED_SHARE if recall < 1 and n_rows >= 2 * LEAST_TUNE_ROWS else 1.0
    if n_probe is not None:
        share = n_probe / _clusters(n_classes)
    all_scored, searched = _core.predicted_microseconds(
        n_classes=n_classes,
        n_columns=width,
        values=float(values),
        sparse=sparse,
        n_clusters=_clusters(n_classes),
        share=share,
        n_exact=HEAD + TAIL,
    )
    if all_scored > searched:
        return ""
    return (
        f"all {n_classes} classes are scored, which is predicted to take {all_scored / 1000:.2g} ms a row; a search "
        f"would take {searched / 1000:.2g} ms, as its index is dense, {width} numbers a class"
    )


def labels_by_copy(weights: Weights, k: int) -> bool:
    """Whether the k best classes of many rows are found by an 8-bit copy where no probabilities are asked for.

    Parameters
    ----------
    weights : of any kind
        Of those that are mapped from a file no copy is made, which would be in memory.
    k : int
        The more are wanted, the more rows reach the bound of the last of them.

    Returns
    -------
    bool
    """
    many = weights.n_classes > max(EXACT_CLASSES, CLASSES_A_BEST * k)
    return many and copies(weights) and map_of(weights.matrix) is None


def copies(weights: Weights) -> bool:
    """Whether a copy can answer for such weights."""
    return weights.kind == "phi" and weights.codes is None


class ClassIndex:
    """An index over the classes of a linear softmax model, and the numbers of probes that it was tuned to.

    Parameters
    ----------
    weights : Weights
    seed : int
        Of the clusters, the tail's draws and the rows that are tuned and checked by.
    n_threads : int
        For building it.
    """

    def __init__(self, weights: Weights, seed: int, n_threads: int) -> None:
        self._seed = seed
        index = SphericalClusterIndex(_clusters(weights.n_classes), random_state=seed % 2**32, n_jobs=n_threads)
        self._index = index.fit(class_rows(weights.coef, weights.intercept if weights.intercept.any() else None))
        self._n_probe: dict[tuple[int, float], int] = {}

    def top_k(self, x: Matrix, k: int, recall: float, n_threads: int) -> tuple[Ids, Floats, Doubles]:
        """Return positions of the k best classes found, their log-probabilities, and the normaliser's standard error.

        Warns
        -----
        UserWarning
            If the recall on a sample of the rows is below `recall` by more than chance explains.
        """
        self._index.set_params(n_jobs=n_threads)
        n_probe = self._probes_for(x, k, recall)
        index, n_classes = self._index, self._index.n_rows_
        n_head = min(n_classes, max(k, HEAD))
        options = {"k": k, "n_head": n_head, "n_tail": min(n_classes, max(TAIL, 2 * n_head)), "n_probe": n_probe}
        parts = []
        for first in range(0, x.shape[0], BLOCK_ROWS):
            Q = queries_of(queries(x[first : first + BLOCK_ROWS], index.n_features_in_), index.n_features_in_)[0]
            parts.append(index.core.best_classes(Q, **options, seed=self._seed, first=first, n_threads=n_threads))
        classes, log_p, std = (np.concatenate(part) for part in zip(*parts, strict=True))
        return classes, log_p, std

    def probes(self, k: int, recall: float) -> int | None:
        """Clusters that are searched for k classes at this recall, if that is known."""
        return self._index.n_clusters_ if recall == 1 else self._n_probe.get((k, recall))

    def _probes_for(self, x: Matrix, k: int, recall: float) -> int:
        """Number of probes that reaches `recall`, chosen here or by an earlier call, and checked on other rows."""
        n, n_clusters = x.shape[0], self._index.n_clusters_
        order = np.random.default_rng(self._seed).permutation(n)
        known = self._n_probe.get((k, recall))
        if recall == 1 or (known is None and n < 2 * LEAST_TUNE_ROWS):
            return n_clusters
        if known is None:
            n_tune = min(TUNE_ROWS, n // 2)
            curve = self._index.recall_curve(self._sample(x, order[:n_tune]), k=k)
            # The recall of other rows is as likely above as below that of these: a standard deviation is added.
            fewest = fewest_probes(curve, recall + recall_error(recall, n_tune))
            known = self._n_probe[k, recall] = max(fewest, int(LEAST_PROBED * n_clusters))
            held_out = order[n_tune : 2 * n_tune]
        else:
            held_out = order[: min(TUNE_ROWS, n // CHECK_SHARE)]
        if len(held_out) >= LEAST_CHECK_ROWS and known < n_clusters:
            Q = self._sample(x, held_out)
            ids, best = (self._index.query(Q, k, n_probe=probes)[1] for probes in (known, n_clusters))
            reached = float(np.mean([np.isin(b, f).mean() for b, f in zip(best, ids, strict=True)]))
            if reached < recall - 2 * recall_error(recall, len(held_out)):
                warnings.warn(
                    f"the recall of {len(held_out)} of these rows is {reached:.3f}; it was to be {recall:g}. The "
                    f"number of probes, {known} of {n_clusters}, was chosen by other rows: ask for a larger recall, "
                    "which is tuned on the rows that it is first asked for",
                    UserWarning,
                    stacklevel=outer_level(),
                )
        return known

    def _sample(self, x: Matrix, rows: NDArray[np.int64]) -> Matrix:
        return queries(x[np.sort(rows)], self._index.n_features_in_)


def vectors_of(weights: Weights) -> Floats:
    """Return the vectors that stand for classes, those beside embeddings, else rows of W; a ValueError without any."""
    if weights.kind == "pairs":
        raise ValueError("a model of pairs has no vectors of classes; fit it with model='embedding' or 'hybrid'")
    return np.asarray(weights.class_rows if weights.has_phi else weights.coef)


class ApproximateAnswers:
    """An index over the weights of a fitted model, and a copy of them in 8 bits.

    Parameters
    ----------
    weights : Weights

    Attributes
    ----------
    index : ClassIndex or None
    copy : _core.ByteRows or None
        A copy of class vectors beside these, which it views.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.index: ClassIndex | None = None
        self.copy: Any = None

    @lazy_property
    def neighbours(self) -> SphericalClusterIndex:
        """An index of the vectors of classes, of unit length; a ValueError for weights on pairs alone."""
        vectors = vectors_of(self.weights)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return SphericalClusterIndex(random_state=0).fit(vectors / np.where(lengths > 0, lengths, 1))

    @lazy_property
    def too_large(self) -> str:
        """Why neither an index nor a copy can hold the weights, or nothing."""
        arrays = [array for array in (self.weights.matrix, self.weights.bias) if array.size]
        largest = max(float(max(-array.min(), array.max())) for array in arrays)
        fits = largest * math.sqrt(self.weights.n_hidden + 1) <= math.sqrt(LONGEST_SQ)
        return "" if fits else f"a weight is {largest:.3g} in magnitude, too large for an index"

    def build_index(self, random_state: Any, n_threads: int) -> ClassIndex:
        """Return the index, made if there is none yet."""
        if self.index is None:
            self.index = ClassIndex(self.weights, seed_from(random_state), n_threads)
        return self.index

    def _best_by_copy(self, x: Matrix, k: int, n_threads: int, *, normalizers: bool, twice: bool) -> Any:
        """Return what the core finds by the 8-bit copy, made if there is none yet, for some rows at a time.

        None where features are so large that all classes must be scored; one block where x has no rows. A ValueError if
        W has numbers that are not finite or too large."""
        weights, options = self.weights, {"normalizers": normalizers, "twice": twice, "n_threads": n_threads}
        if self.copy is None:
            columns: dict[str, Any] = {"n_coded": weights.n_hidden, "has_intercept": weights.intercept_column}
            self.copy = _core.ByteRows(weights.matrix, **columns, n_threads=n_threads)
        parts = []
        for first in range(0, max(1, x.shape[0]), BLOCK_ROWS):
            parts.append(self.copy.best(weights.phi(x[first : first + BLOCK_ROWS], n_threads), k, **options))
            if parts[-1] is None:
                return None
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]

    def best_classes(self, x: Matrix, k: int, n_threads: int) -> Ids | None:
        """Return the k best classes of each row by the copy, exactly; None where scoring all classes is as good."""
        if self.copy is None and (x.shape[0] < COPY_ROWS or self.too_large):
            return None
        answers = self._best_by_copy(x, k, n_threads, normalizers=False, twice=False)
        return None if answers is None else answers[0]

    def finder(self, x: Matrix, k: int, recall: float, random_state: Any, n_threads: int, exact: Best) -> Best | None:
        """Return what finds the k best classes of rows; None, with a warning of why, where `exact` is faster.

        Weights that an 8-bit copy can answer for are searched by an index where one is tuned for what is asked and is
        quicker.
        """
        if self.weights.n_classes <= EXACT_CLASSES:
            return None
        why = self.too_large if self.weights.codes is None else ""
        probes = None if self.index is None else self.index.probes(k, recall)
        most_probed = MOST_PROBED * _clusters(self.weights.n_classes)
        if not why and copies(self.weights) and (recall == 1 or probes is None or probes > most_probed):

            def best_of_copy(points: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
                answers = self._best_by_copy(points, width, n_threads, normalizers=True, twice=recall == 1)
                if answers is None:
                    return exact(points, width)
                classes, scores, log_z, std = answers
                below = scores.astype(np.float64) - scores[:, :1]
                return classes, (below - log_z[:, np.newaxis]).astype(np.float32), std

            return best_of_copy
        if why := why or slower(self.weights, x, probes, recall):
            warnings.warn(f"approximate=True is not followed: {why}", UserWarning, stacklevel=outer_level())
            return None
        index = self.build_index(random_state, n_threads)

        def best_of_index(points: Matrix, width: int) -> tuple[Ids, Floats, Doubles]:
            mapped = self._mapped(points)
            if (row_norms_sq(mapped) > LONGEST_SQ).any():
                return exact(points, width)
            return index.top_k(mapped, width, recall, n_threads)

        return best_of_index

    def build(self, x: Matrix, k: int, recall: float, random_state: Any, n_threads: int) -> None:
        """Make the index, and tune it by rows like those to come; raises ValueError where it is of no use."""
        n_classes, least = self.weights.n_classes, 2 * LEAST_TUNE_ROWS
        if n_classes <= EXACT_CLASSES:
            raise ValueError(
                f"the model has {n_classes} classes; approximate answers are for more than "
                f"{EXACT_CLASSES}, fewer are all scored"
            )
        if x.shape[0] < least:
            raise ValueError(f"there are {x.shape[0]} rows to tune the index of approximate answers; it needs {least}")
        why = slower(self.weights, x, None, recall) or self.too_large
        if not why:
            index = self.build_index(random_state, n_threads)
            index.top_k(self._mapped(x), k, recall, n_threads)
            why = slower(self.weights, x[:1], index.probes(k, recall), recall)
        if why:
            raise ValueError(f"approximate answers are of no use: {why}")

    def _mapped(self, x: Matrix) -> Matrix:
        """The features that W is multiplied with."""
        return self.weights.transform(x) if self.weights.has_phi else x
