"""The weights of a model: the questions put to the core about them, and how they grow, are scaled and joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import as_csr, core_data, csr_parts, lazy_property
from manyclass.figures import FIGURES
from manyclass.weights.arrays import (
    BLOCK_NUMBERS,
    NO_DOUBLES,
    NO_FLOATS,
    NO_IDS,
    UNMIXED,
    Doubles,
    Floats,
    Ids,
    Matrix,
    StoredWeights,
    aligned,
    aligned_zeros,
    check_maps,
    padded,
)

LARGEST = float(np.finfo(np.float32).max)

# What the core's weights call as they are called here.
SHARED_WITH_CORE = ("by_feature", "centre", "classes", "features", "intercept_column", "n_features", "n_hidden", "relu")


@dataclass(frozen=True, eq=False, kw_only=True)
class Weights(StoredWeights):
    """Weights with the core's object over their arrays: it knows their kind and storage, and has all kernels."""

    # Questions

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles make the core's object, which views the arrays, again.
        return {array.name: getattr(self, array.name) for array in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What is unpickled stands anywhere: lines that vectors share with others take a tenth of a prediction's time.
        vars(self).update(state | {name: aligned(state[name]) for name in ("matrix", "embeddings")})

    def check(self) -> None:
        """Raise ValueError where arrays do not fit each other, or the classes of a feature are not sorted."""
        _ = self._in_core

    @lazy_property
    def _in_core(self) -> _core.Weights:
        """The core's object: its checks take 16 ms for 5 million pairs, so that it is made once."""
        rows, values, embeddings = map(self._coded, ("matrix", "values", "embeddings"))
        indptr = self.indptr
        if self.mixture.is_on and not len(indptr):  # a mixture reads x beside phi, be there weights on pairs or not
            indptr = vars(self)["_no_pairs"] = np.zeros(self.n_features + 1, np.int64)  # which the core views
        mixture = _core.CountMixture(counts=self.counts, totals=self.totals, own=self.own, **self.mixture.in_core)
        return _core.Weights(
            rows=rows.of_core(),
            row_scales=rows.scales,
            indptr=indptr,
            values=values.of_core(),
            value_scales=values.scales,
            embeddings=embeddings.of_core(),
            embedding_scales=embeddings.scales,
            intercept=self.bias,
            coded=self.codes is not None,
            mixture=mixture,
            block_numbers=BLOCK_NUMBERS,
            **dict(zip(SHARED_WITH_CORE, attrgetter(*SHARED_WITH_CORE)(self), strict=True)),
        )

    def phi(self, X: Matrix, n_threads: int = 1) -> Floats:
        """Return what rows of classes are multiplied with: (phi, 1), padded as they are.

        A sum of huge features beyond single precision is the largest number there.
        """
        return cast(Floats, self._answer("phi", X, n_threads))

    def transform(self, X: Matrix) -> Floats:
        """Return phi without the 1, (n_samples, n_hidden), float32."""
        return self.phi(X)[:, : self.n_hidden]

    def _answer(
        self, question: str, X: Matrix, n_threads: int = 1, scale: Floats | None = None, **arguments: Any
    ) -> Any:
        """What the core answers for all rows, the scores of class k being taken times scale[k].

        Raises ValueError where a score was no number, and a file that is mapped holds such.
        """
        n_held = _core.n_held()
        if self.sparse or (self.codes is not None and self.embeddings.size):
            X = as_csr(X)
        x = core_data(X if isinstance(X, sp.csr_array) else np.ascontiguousarray(X))
        if question != "phi":
            arguments["scale"] = NO_FLOATS if scale is None else scale
        answer = getattr(self._in_core, question)(x, n_threads=n_threads, **arguments)
        if _core.n_held() != n_held:
            check_maps(self)
        return answer

    def scores(self, X: Matrix, n_threads: int, scale: Floats | None = None) -> Floats:
        """Return all scores, (n_samples, n_classes), those of class k times scale[k] but for the intercepts."""
        return cast(Floats, self._answer("scores", X, n_threads, scale))

    def score_tiles(self, X: Matrix, n_threads: int) -> Iterator[tuple[int, Floats]]:
        """All scores, some points at a time: (the first of them, an array of about 16 MB)."""
        step = max(1, BLOCK_NUMBERS // self.n_classes)
        for first in range(0, X.shape[0], step):
            yield first, self.scores(X[first : first + step], n_threads)

    def log_losses(
        self, X: Matrix, labels: Ids, n_threads: int, scale: Floats | None = None, noise: str = "gumbel"
    ) -> tuple[Doubles, Ids]:
        """Return each point's log-loss in nats and the rank of its class (0: predicted), rows times `scale`."""
        losses, ranks = self._answer("log_losses", X, n_threads, scale, labels=labels)
        if noise != "gumbel":  # classes rank as under the softmax; probabilities need all scores of a point
            losses = -self.log_probabilities(X, noise, n_threads, labels[:, np.newaxis], scale).ravel()
        return losses, ranks

    def top_k(self, X: Matrix, k: int, n_threads: int, noise: str = "gumbel") -> tuple[Ids, Floats]:
        """Return classes and log-probabilities, (n_samples, k), best first."""
        classes, log_p = self._answer("top_k", X, n_threads, k=k)
        if noise != "gumbel":
            log_p = self.log_probabilities(X, noise, n_threads, classes)
            log_p = np.maximum(log_p, -LARGEST).astype(np.float32)  # squares of scores; -inf is for a label too few
        return classes, log_p

    def log_probabilities(
        self, X: Matrix, noise: str, n_threads: int, classes: Ids | None = None, scale: Floats | None = None
    ) -> Doubles:
        """Return the log-probabilities of all classes, or of some of each point, when scores have this noise."""
        classes_of_rows = NO_IDS if classes is None else np.ascontiguousarray(classes)
        log_p = self._answer("log_probabilities", X, n_threads, scale, noise=noise, classes=classes_of_rows)
        return cast(Doubles, log_p)

    def top_wrong(self, X: Matrix, labels: Ids, classes: Ids, n_threads: int, scale: Floats | None = None) -> None:
        """Write the wrong classes of largest score to `classes`, (n_samples, m), best first; rows times `scale`."""
        self._answer("top_wrong", X, n_threads, scale, labels=labels, classes=classes)

    def log_normalizers(self, X: Matrix, n_threads: int) -> Doubles:
        """Return log sum_k e^{z_k} of each point."""
        return cast(Doubles, self._answer("log_normalizers", X, n_threads))

    def mean_curvatures(self, X: Matrix, n_threads: int) -> Doubles:
        """Return the means of p_k (1 - p_k) over rows, (n_classes,), p being the probabilities of the softmax."""
        return cast(Doubles, self._answer("mean_curvatures", X, n_threads))

    def calibration(
        self, X: Matrix, indptr: NDArray[np.int64], ids: Ids, r: Doubles, n_threads: int, noise: str | None
    ) -> tuple[float, float, float, float]:
        """Return the temperature, the offset, and the mean log-losses without and with them.

        Labels of row i are ids[indptr[i]:indptr[i + 1]]: one, of utilities with this noise, or several without one;
        utility/calibration.hpp of the core has the rules.
        """
        rows: dict[str, Any] = {"indptr": indptr, "labels": ids, "sample_weight": r, "noise": noise}
        return cast(tuple[float, float, float, float], self._answer("calibration", X, n_threads, **rows))

    def label_log_losses(
        self, X: Matrix, indptr: NDArray[np.int64], ids: Ids, n_threads: int, temperature: float, offset: float
    ) -> tuple[Doubles, Doubles]:
        """Return the losses of several labels a row over all classes, and over those of the row alone."""
        rows: dict[str, Any] = {"indptr": indptr, "labels": ids, "temperature": temperature, "offset": offset}
        return cast(tuple[Doubles, Doubles], self._answer("label_log_losses", X, n_threads, **rows))

    def label_mixtures(
        self, X: sp.csr_array, classes: Ids, labels: Ids, r: Doubles, n_threads: int
    ) -> _core.LabelMixtures:
        """Return what mixtures say of one label of each row, of weight r; `classes` are those of the features."""
        alone = replace(self, own=classes, mixture=UNMIXED)
        mixtures = _core.LabelMixtures(alone._in_core, csr_parts(X), labels, r)
        for first, scores in alone.score_tiles(X, n_threads):
            mixtures.add_scores(first, scores)
        return mixtures

    def label_scores(self, X: Matrix, labels: Ids) -> Doubles:
        """Return the score of one class of each point, of a linear model."""
        model = (np.asarray(labels, np.int32), self.matrix, self.bias, self.by_feature, self.n_features)
        return _core.label_scores(core_data(X), *model)

    def feature_weights(self, k: int, features: Ids, values: Doubles = NO_DOUBLES) -> Doubles:
        """Return w_kj of some features, float64; behind a "relu" those of a row with these values, or of each alone."""
        return self._in_core.feature_weights(k, features, values)

    # Other weights

    def times(self, factor: float) -> tuple[Weights, Floats | None]:
        """Return weights and the scale of their classes that give all scores times a factor, without a copy of W."""
        if factor == 1:
            return self, None
        scale = np.full(self.n_classes, factor, dtype=np.float32)
        return replace(self, bias=self.bias * np.float32(factor)), scale

    def multiply_classes(self, factors: Floats) -> None:
        """Multiply the weights of class k of a linear model by factors[k], in place; intercepts stay."""
        self.coef[...] *= factors[:, np.newaxis]

    def multiply_scores(self, factor: float) -> None:
        """Multiply all scores by a number, in place."""
        self.multiply_parts((factor, factor))

    def multiply_parts(self, factors: tuple[float, float]) -> None:
        """Multiply the scores of the pairs and those of the rows by a number, in place; weights end at the largest."""
        rows, pairs = np.float32(factors[1]), np.float32(factors[0] if self.has_pairs else factors[1])
        for array, factor in ((self.matrix, rows), (self.values, pairs), (self.bias, pairs)):
            with np.errstate(over="ignore"):
                array *= factor
            if factor > 1:
                np.clip(array, -LARGEST, LARGEST, out=array)
        self.scales[:] *= factors

    def add_to_mean(self, other: Weights, n: int) -> Weights:
        """Return the model whose scores are the mean of those of n models with mean `self` and of `other`.

        The memory of `self` is used. Of embeddings phi is that of both models, one behind the other, and as long as
        both; it has the root of each weight of the mean, so that a step of training that goes on moves scores as one of
        either. A support is that of both: each run leaves out the pairs of rows that it holds out, or prunes others.
        """
        ours, theirs = np.float32(n / (n + 1)), np.float32(1 / (n + 1))
        if self.is_linear or self.by_minibatches:
            for mean, new in ((self.matrix, other.matrix), (self.bias, other.bias)):
                mean += new / np.float32(n + 1) - mean / np.float32(n + 1)  # a difference of the two may overflow
            return self
        scales = (n * self.scales + other.scales) / (n + 1)
        joined = replace(self._mean_on_pairs(other, ours, theirs) if self.has_pairs else self, scales=scales)
        if not self.has_phi:
            return joined
        if not self.embeddings.size:
            joined.matrix[:] *= ours
            joined.matrix[:] += theirs * other.matrix
            return joined
        rows = self.sum_over_phi([self.rows_alone, other.rows_alone], np.array([ours, theirs], dtype=np.float64))
        return replace(joined, matrix=rows.matrix, embeddings=rows.embeddings, n_hidden=rows.n_hidden)

    @classmethod
    def sum_over_phi(cls, parts: Sequence[Weights], factors: Doubles) -> Weights:
        """Return rows over phi whose scores are the sum of those of some with embeddings, times their factors.

        Phi is that of all, one behind the other, and has the root of each factor, so that a step of training that goes
        on moves scores as one of each would. One alone is multiplied in place.
        """
        first, n_hidden = parts[0], sum(part.n_hidden for part in parts)
        if len(parts) == 1:
            for array in (first.matrix, first.embeddings):
                array[:, :n_hidden] *= np.float32(factors[0] ** 0.5)
            first.matrix[:, n_hidden:] *= np.float32(factors[0])
            return first
        width = padded(n_hidden + first.intercept_column)
        rows, embeddings = aligned_zeros(first.n_classes, width), aligned_zeros(len(first.embeddings), width)
        begin = 0
        for part, factor in zip(parts, factors, strict=True):
            columns, root = slice(begin, begin + part.n_hidden), np.float32(factor**0.5)
            np.multiply(part.class_rows, root, out=rows[:, columns])
            np.multiply(part._of_centre(first.centre)[:, : part.n_hidden], root, out=embeddings[:, columns])
            if first.intercept_column:
                rows[:, n_hidden] += np.float32(factor) * part.matrix[:, part.n_hidden]
            begin += part.n_hidden
        return replace(first, matrix=rows, embeddings=embeddings, n_hidden=n_hidden)

    def _of_centre(self, centre: Floats) -> Floats:
        """Return embeddings that make phi from another centre, if there is one: the bias has what is between both."""
        if not len(centre):
            return self.embeddings
        embeddings = self.embeddings.copy()
        embeddings[-1] = (self.centre - np.append(centre[:-1], 0)) @ self.embeddings / centre[-1]
        return embeddings

    def _mean_on_pairs(self, other: Weights, ours: np.float32, theirs: np.float32) -> Weights:
        """These, with the mean of both on the pairs of both, and of counts and repeats, which either may not have."""
        union = self.new_pairs(self.n_classes, np.arange(self.n_classes), other.indptr, other.classes)
        counts, totals = NO_FLOATS, self.totals
        if len(self.counts) or len(other.counts):
            none = np.zeros(self.n_features, np.float32)
            counts = union.sum(float(ours), self.counts, float(theirs), other.counts)
            totals = ours * (self.totals if len(self.totals) else none)
            totals += theirs * (other.totals if len(other.totals) else none)
        own = (self if self.mixture.repeats >= other.mixture.repeats else other).own
        mixture = self.mixture.mean(other.mixture, float(ours), float(theirs))
        counted: dict[str, Any] = {"counts": counts, "totals": totals, "own": own, "mixture": mixture}
        values = union.sum(float(ours), self.values, float(theirs), other.values)
        bias = ours * self.bias + theirs * other.bias
        return replace(self, bias=bias, indptr=union.indptr, classes=union.classes, values=values, **counted)

    def with_faded_counts(self, factor: float) -> Weights:
        """Return these weights with their counts, if any, times a factor in [0, 1]."""
        if factor == 1 or not len(self.counts):
            return self
        of = np.float32(factor)
        return replace(self, counts=self.counts * of, totals=self.totals * of)

    def counted(self, x: sp.csr_array, indptr: NDArray[np.int64], ids: Ids, sample_weight: Doubles | None) -> Weights:
        """Return these weights, on pairs, with the counts of more rows; classes of row i are ids[indptr[i]:...]."""
        counts = self.counts.copy() if len(self.counts) else np.zeros(len(self.classes), np.float32)
        totals = self.totals.copy() if len(self.totals) else np.zeros(self.n_features, np.float32)
        rows: dict[str, Any] = {"x": csr_parts(x), "labels_indptr": indptr, "labels": ids}
        rows["row_weights"] = NO_DOUBLES if sample_weight is None else sample_weight
        pairs = {name: getattr(self, name) for name in ("n_features", "n_classes", "indptr", "classes")}
        _core.count_pairs(**rows, **pairs, counts=counts, totals=totals)
        return replace(self, counts=counts, totals=totals)

    def closed_forms(
        self, x: sp.csr_array, indptr: NDArray[np.int64], ids: Ids, sample_weight: Doubles | None
    ) -> Floats:
        """Return what counts of rows make of each of the pairs, without training: (2, n_pairs), 0 where none has it.

        With n_jk rows of class k that have feature j, and sums of them n_k, n_j and n, they are naive Bayes,
        log(n_jk n / (n_j n_k)), and counts that saturate, n_jk / (n_jk + s n_k / m), m being the mean of n_k over
        classes that have rows and s that of `figures.py` (BM25 with b = 1; Robertson and Zaragoza, Foundations and
        Trends in Information Retrieval 2009). How rare a feature is, is left to the values of rows in the second one.
        """
        counted = replace(self, counts=NO_FLOATS, totals=NO_FLOATS).counted(x, indptr, ids, sample_weight)
        n_features = np.diff(np.concatenate(([0], np.cumsum(x.data != 0)))[x.indptr]).astype(np.float64)
        n_features = n_features if sample_weight is None else n_features * sample_weight
        class_counts = np.bincount(ids, np.repeat(n_features, np.diff(indptr)), minlength=self.n_classes)
        present, forms = np.flatnonzero(counted.counts), np.zeros((2, len(counted.counts)), dtype=np.float32)
        n_jk, n_k = counted.counts[present].astype(np.float64), class_counts[self.classes[present]]
        n_j = np.repeat(counted.totals.astype(np.float64), np.diff(self.indptr))[present]
        forms[0, present] = naive_bayes(n_jk, n_j, n_k, class_counts.sum())
        forms[1, present] = n_jk / (n_jk + FIGURES.SATURATION * n_k / class_counts[class_counts > 0].mean())
        return forms

    def new_pairs(
        self, n_classes: int, position: NDArray[np.intp], indptr: NDArray[np.int64], classes: Ids
    ) -> _core.PairUnion:
        """Return the union of these pairs, whose classes stand in `position` among all, and those of a support."""
        other: dict[str, Any] = {"other_indptr": indptr, "other_classes": classes, "n_classes": n_classes}
        return _core.PairUnion(indptr=self.indptr, classes=self.classes, position=position.astype(np.int32), **other)

    def grown(self, n_classes: int, position: NDArray[np.intp], union: _core.PairUnion | None = None) -> Weights:
        """Return a copy with more classes, those of now in places `position`, which increase, on a union of pairs.

        What is new begins at 0.
        """
        more: dict[str, Any] = {"bias": np.zeros(n_classes, dtype=np.float32), "scales": self.scales.copy()}
        _core.place_classes(self.bias[np.newaxis], position, True, more["bias"][np.newaxis])
        if self.matrix.size:
            shape = (self.n_features, padded(n_classes)) if self.by_feature else (n_classes, self.matrix.shape[1])
            more["matrix"] = aligned_zeros(*shape)
            _core.place_classes(self.matrix, position, self.by_feature, more["matrix"])
        if self.embeddings.size:
            more["embeddings"] = aligned_zeros(*self.embeddings.shape)
            more["embeddings"][:] = self.embeddings
        if len(self.own):
            more["own"] = np.where(self.own >= 0, position[self.own], -1).astype(np.int32)
        if self.has_pairs:
            more["totals"] = self.totals.copy()
            if union is None:
                more["classes"] = position[self.classes].astype(np.int32)
                more |= {"values": self.values.copy(), "counts": self.counts.copy()}
            else:
                more |= {"indptr": union.indptr, "classes": union.classes, "values": union.spread(self.values)}
                more["counts"] = union.spread(self.counts) if len(self.counts) else self.counts
        return replace(self, **more)

    def plus_pairs(self, rows: sp.csr_array) -> Weights:
        """Return these weights with a number added for each pair of a class and a feature.

        Parameters
        ----------
        rows : csr_array of shape (n_classes, n_features), float32
            The matrix of a linear model where rows of features are stored is moved in place; rows over phi alone get
            weights on pairs beside them.
        """
        by_feature = sp.csc_array(rows)
        by_feature.sort_indices()
        indptr, classes, more = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data
        if self.kind == "feature_major":
            self.matrix[np.repeat(np.arange(self.n_features), np.diff(indptr)), classes] += more
            return self
        if not self.has_pairs:
            return Weights.on_pairs(indptr, classes, more, np.zeros(self.n_classes, np.float32)).beside(self)
        everywhere = np.arange(self.n_classes)
        union = self.new_pairs(self.n_classes, everywhere, indptr, classes)
        return replace(self.grown(self.n_classes, everywhere, union), values=union.sum(1.0, self.values, 1.0, more))

    def widened(self, n_features: int) -> Weights:
        """Return weights for more features, after those of now, that begin at 0: no score changes."""
        more: dict[str, Any] = {"n_features": n_features}
        if self.has_pairs:
            more["indptr"] = np.append(self.indptr, np.full(n_features - self.n_features, self.indptr[-1]))
        if len(self.totals):
            more["totals"] = np.append(self.totals, np.zeros(n_features - self.n_features, np.float32))
        if len(self.own):
            more["own"] = np.append(self.own, np.full(n_features - self.n_features, -1, np.int32))
        if self.embeddings.size:
            n_biases = len(self.embeddings) - self.n_features
            more["embeddings"] = aligned_zeros(n_features + n_biases, self.embeddings.shape[1])
            more["embeddings"][: self.n_features] = self.embeddings[: self.n_features]
            if n_biases:
                more["embeddings"][-1] = self.embeddings[-1]
                more["centre"] = np.insert(self.centre, self.n_features, np.zeros(n_features - self.n_features))
        elif self.matrix.size:
            more |= {"n_hidden": n_features, "bias": self.bias.copy()}
            if self.by_feature:
                shape = (n_features, self.matrix.shape[1])
            else:
                width = n_features if self.kind == "class_major" else padded(n_features + self.intercept_column)
                shape = (self.n_classes, width)
            more["matrix"] = aligned_zeros(*shape)
        wider = replace(self, **more)
        if "matrix" in more:
            wider.coef[:, : self.n_features] = self.coef
            if self.intercept_column:
                wider.intercept[:] = self.intercept
        return wider

    def without_smallest(self, share: float) -> NDArray[np.bool_]:
        """Return which weights on pairs are left without this share of them, the smallest in absolute value."""
        n_less = int(share * len(self.values))
        is_left = np.ones(len(self.values), dtype=bool)
        if n_less > 0:
            is_left[np.argpartition(np.abs(self.values), n_less - 1)[:n_less]] = False
        return is_left

    def some_pairs(self, is_left: NDArray[np.bool_]) -> Weights:
        """Return weights with some of the pairs."""
        before = np.concatenate(([0], np.cumsum(is_left)))
        indptr: NDArray[np.int64] = before[self.indptr].astype(np.int64)
        counts = self.counts[is_left] if len(self.counts) else self.counts
        return replace(self, indptr=indptr, classes=self.classes[is_left], values=self.values[is_left], counts=counts)

    def reorder(self, source: Ids, n_threads: int) -> None:
        """Put class source[k] of a linear model in place k, in place."""
        if self.by_feature:
            _core.reorder_columns(self.matrix, source, n_threads)
        else:
            _core.reorder_rows(self.matrix, source)
        self.bias[:] = self.bias[source]

    def over_features(self) -> Weights:
        """Return rows of classes over (x, 1) as a copy that minibatches train as rows of features."""
        rows = replace(self.zeros(self.n_classes, self.n_features, by_feature=True), by_minibatches=True)
        rows.coef[:], rows.bias[:], rows.scales[:] = self.coef, self.intercept, self.scales
        return rows

    def over_classes(self) -> Weights:
        """Return rows of features that minibatches have trained as rows of classes over (x, 1), others as they are."""
        if not self.by_minibatches:
            return self
        rows = aligned_zeros(self.n_classes, padded(self.n_features + 1))
        rows[:, : self.n_features], rows[:, self.n_features] = self.coef, self.bias
        column: dict[str, Any] = {"intercept_column": True, "scales": self.scales * [0, 1] + [1, 0]}
        column["by_minibatches"] = False
        return replace(self, kind="phi", bias=np.zeros(self.n_classes, np.float32), matrix=rows, **column)

    def writable(self) -> Weights:
        """Return these weights, with copies of arrays that are mapped and may not be written to."""
        arrays = {name: getattr(self, name) for name in ("matrix", "embeddings", "values", "bias")}
        return replace(self, **{name: array.copy() for name, array in arrays.items() if not array.flags.writeable})

    def copy(self) -> Weights:
        """Return a copy of a linear model."""
        return Weights.linear(self.matrix.copy(), self.bias.copy(), by_feature=self.by_feature)


def naive_bayes(
    pair_counts: NDArray[Any], feature_counts: NDArray[Any], class_counts: NDArray[Any], total: float
) -> Doubles:
    """Return log p(feature | class) / p(feature) of pairs, from counts of these, their features, classes, and all."""
    return cast(Doubles, np.log(pair_counts * total / (feature_counts * class_counts)))


@dataclass(frozen=True)
class FeatureScaling:
    """What is taken off features, and what they are divided by.

    Attributes
    ----------
    shift : ndarray of shape (n_features,), float64
        0 for features that keep their zeros, and of models without intercepts, which could not take it up.
    scale : ndarray of shape (n_features,), float64
        More than 0; infinite for features that are too small for float32.
    """

    shift: Doubles
    scale: Doubles

    @classmethod
    def of(cls, x: Matrix, *, centre: bool, weights: Doubles | None = None, first_rows: bool = False) -> FeatureScaling:
        """Measure the data: mean and standard deviation, of features of mostly zeros the root mean square of the rest.

        All sparse features count as such. Where these differ by a factor of at most 100, all are divided instead by the
        power of two, which rounds nothing, that brings the root mean square of the rows' lengths to 1 to 8. All means
        are weighted.

        The first rows of a stream may have a few heavy ones, and lack features: sparse features differ where nine
        tenths of those that are there do, others have the median scale, and the median of the rows' lengths counts.
        """
        r = NO_DOUBLES if weights is None else weights / weights.mean()
        how: dict[str, Any] = {"row_weights": r, "centre": centre, "first_rows": first_rows}
        return cls(*_core.feature_scaling(_in_order(x), x.shape[1], **how))

    def widened(self, x: Matrix, *, centre: bool, weights: Doubles | None = None) -> FeatureScaling:
        """Return that of data with more features: of sparse ones the scale that all share, else as `of` measures them.

        Nothing changes for the features of now.
        """
        n = len(self.scale)
        if n == x.shape[1]:
            return self
        more = FeatureScaling(np.zeros(x.shape[1] - n), np.full(x.shape[1] - n, self.scale[0]))
        if not isinstance(x, sp.csr_array) or np.any(self.scale != self.scale[0]):
            more = FeatureScaling.of(x[:, n:], centre=centre, weights=weights)
        return FeatureScaling(np.append(self.shift, more.shift), np.append(self.scale, more.scale))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return not self.shift.any() and bool(np.all(self.scale == 1))

    def apply(self, x: Matrix) -> Matrix:
        """Return the features that training sees, in float32: a copy, of the values only where x is sparse."""
        if self.is_identity:
            return x
        scaled = _core.scaled_features(_in_order(x), x.shape[1], self.shift, self.scale)
        return sp.csr_array((scaled, x.indices, x.indptr), shape=x.shape) if isinstance(x, sp.csr_array) else scaled

    def fold(self, weights: Weights) -> None:
        """Turn weights of scaled features into those of x that give the same scores, in place."""
        if not self.is_identity:
            _core.fold_scaling(self.shift, self.scale, weights.matrix, weights.bias, weights.by_feature)

    def unfold(self, weights: Weights) -> Weights:
        """Turn weights of x into those of scaled features that `fold` makes these of, in place, and return them."""
        if not self.is_identity:
            _core.unfold_scaling(self.shift, self.scale, weights.matrix, weights.bias, weights.by_feature)
        return weights


def _in_order(x: Matrix) -> Any:
    """The data as the core takes them; some columns of a dense array are copied."""
    return csr_parts(x) if isinstance(x, sp.csr_array) else np.ascontiguousarray(x, dtype=np.float32)
