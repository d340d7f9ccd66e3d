"""Training by minibatches and on pairs, of points with one or several labels: from a plan to the core's loop and back.

Counts and repeats stand beside a sum of scores, mixed in probability where rows held out say so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import clone

from manyclass import _core
from manyclass.blending import blend
from manyclass.blending.blend import MARGIN
from manyclass.checks import as_csr, core_data, csr_parts
from manyclass.figures import FIGURES
from manyclass.labels import columns_of_classes
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.core_training import CoreTraining, Signs, Trained, Watch, loss_at_zero, trained
from manyclass.training.plan import AnyPlan, BatchesPlan, HybridPlan, Labels, PairsPlan, ScoredRows
from manyclass.training.state import EarlierModel, Points, Squares, normalized, shares_of_classes
from manyclass.weights.arrays import NO_DOUBLES, NO_FLOATS, NO_OWN, Doubles, Floats, Ids, Matrix, Mixture
from manyclass.weights.tensor_file import Arrays, Saved
from manyclass.weights.weights import Weights

Index = SphericalClusterIndex | DecomposedIndex

ALIKE = 1e-12  # of the mean square: rows whose squares about their mean are less differ by rounding


def fit_batches(plan: BatchesPlan, points: Points, watch: Watch, earlier: EarlierModel | None = None) -> Trained:
    """Train on points that have labels; return the weights with the mean loss of each pass, and Adagrad's sums.

    1. Rows of W begin at 0, embeddings at random, or both at an `earlier` model, whose weights and squares are moved in
       place.
    2. A pass visits the points by batches that see the same weights: other classes are drawn or found by an index, and
       rows of classes and of features move by Adagrad's or implicit steps.
    3. After a pass the index follows the rows of classes (Yen et al. 2018, Algorithm 1).

    The weights of the points, of mean 1, multiply their losses. Of a training that diverges see `trained`.
    """
    loss = plan.loss if plan.double_sum is None else plan.double_sum.reduction
    # Other losses have no logarithm of a sampled sum, the double sum shows a divergence itself, and scores that are yet
    # to be scaled have a loss that says nothing.
    hides = plan.loss == "cross_entropy" and plan.log_q and plan.double_sum is None and not plan.finds_scale
    signs = Signs(
        at_zero=loss_at_zero(loss, points),
        n_drawn=(points.n_classes if plan.source == "exact" else plan.n_negatives) if hides else None,
        bounded=plan.source != "messages",  # message passing reports a bound that starts far above the loss
    )
    training, rate = trained(lambda by: BatchesTraining(by, points, earlier), plan, watch, signs)  # 1 to 3
    return Trained(training.weights, training.curve, rate, training.squares, complete=training.complete)


def by_features(plan: BatchesPlan, *, sparse: bool) -> bool:
    """Whether W is trained as rows of features, so that a visit costs what its point touches."""
    return sparse and plan.dim is None and plan.source in ("exact", "sampled")


def start_at_rows(plan: BatchesPlan, points: Points) -> Weights:
    """Return what a training on rows begins with."""
    x, centre = points.x, NO_FLOATS
    if plan.relu and isinstance(x, np.ndarray):
        centre = _centre_of_rows(x, np.ones(len(x)) if points.weights is None else points.weights)
    return start_over_phi(plan, points.n_classes, x.shape[1], sparse=isinstance(x, sp.csr_array), centre=centre)


def _centre_of_rows(x: Floats, r: Doubles) -> Floats:
    """Return the mean of dense rows, and of a bias the feature: it is as large as centred rows are long."""
    mean: Doubles = np.einsum("i,ij->j", r, x) / r.sum()
    square = float(np.einsum("i,ij,ij->", r, x, x)) / r.sum()
    about_mean = square - float(mean @ mean)
    if about_mean <= ALIKE * square:
        about_mean = square or 1.0
    return np.append(mean, -np.sqrt(about_mean)).astype(np.float32)


def start_over_phi(
    plan: BatchesPlan, n_classes: int, n_features: int, *, sparse: bool, centre: Floats = NO_FLOATS
) -> Weights:
    """Return what a training begins with."""
    weights = Weights.start_over_phi(
        n_classes,
        n_features,
        by_feature=by_features(plan, sparse=sparse),
        centre=centre,
        embedding_dim=plan.dim,
        intercept=plan.fit_intercept,
        relu=plan.relu,
        rng=np.random.default_rng(plan.seed),
    )
    weights.embeddings[:] *= np.float32(1 / length_of_rows(plan, weights))
    return weights


def length_of_rows(plan: BatchesPlan, weights: Weights) -> float:
    """Return the unit of rows: that of the plan, or the length of centred rows with their bias."""
    if plan.row_length is not None:
        return plan.row_length
    return float(-weights.centre[-1]) * 2**0.5 if len(weights.centre) else 1.0


def grow_rows(
    plan: BatchesPlan, weights: Weights, squares: Squares | None, position: NDArray[np.intp], n_classes: int
) -> tuple[Weights, Squares]:
    """Return a copy of rows over phi and of their squares, with new classes; refuse another shape of the model."""
    dim = weights.n_hidden if weights.embeddings.size else None
    intercept = weights.intercept_column or bool(weights.by_minibatches and (plan.fit_intercept or weights.bias.any()))
    for name, planned, modelled in (
        ("dim", plan.dim, dim),
        ("activation", "relu" if plan.relu else "identity", "relu" if weights.relu else "identity"),
        ("fit_intercept", plan.fit_intercept, intercept),
    ):
        if planned != modelled:
            raise ValueError(f"{name} is {planned!r}; the model that partial_fit goes on with has {modelled!r}")
    grown = weights.grown(n_classes, position)
    # Of a model that was made without Adagrad, or an older file, there are none.
    zeros = Squares.of_rows(grown, plan.adagrad)
    sums = zeros if squares is None else squares.grown(n_classes, position)
    return grown, sums if len(sums.classes) == len(zeros.classes) else zeros


def _stored_for(weights: Weights, x: Matrix) -> Matrix:
    """Return rows stored as the training of these weights reads them."""
    if weights.by_minibatches:
        return as_csr(x)
    return x.toarray() if len(weights.centre) and isinstance(x, sp.csr_array) else x


def _batch_points(plan: BatchesPlan, n_classes: int) -> int:
    """Return how many points see the same weights, where that is open."""
    if plan.double_sum is not None and plan.double_sum.rule == "implicit":
        return 1  # a sum of proximal steps is none
    if plan.relu and plan.adagrad:  # a hidden layer is shared by all classes, however few (bench/decisions.md)
        return FIGURES.BATCH_POINTS
    return max(1, min(FIGURES.BATCH_POINTS, n_classes // FIGURES.CLASSES_A_POINT))


class BatchesTraining(CoreTraining):
    """The core's trainer of the present pass, and the index that follows it."""

    def __init__(self, plan: BatchesPlan, points: Points, earlier: EarlierModel | None = None) -> None:
        weights = start_at_rows(plan, points) if earlier is None else earlier.weights
        points, length = replace(points, x=_stored_for(weights, points.x)), length_of_rows(plan, weights)
        x, labels = points.x, points.labels
        schedule = replace(plan.schedule, u_learning_rate=plan.schedule.u_learning_rate / length)
        plan = replace(plan, schedule=schedule)
        super().__init__(plan, points, weights, goes_on=earlier is not None)
        self.batch = min(plan.batch_size or _batch_points(plan, weights.n_classes), len(labels))
        plan.check_sharing(self.batch)
        self._index: Index | None = None
        self._moved = 0
        self._first_point = 0 if earlier is None else earlier.n_points
        self._searches_first = earlier is not None and earlier.n_points > 0
        known = None if earlier is None else earlier.squares
        self.squares = squares = Squares.of_rows(weights, plan.adagrad) if known is None else known
        self._local = self._begin_local(earlier)
        self._arrays = _core.LabelArrays(
            x=core_data(x),
            labels_indptr=labels.indptr,
            labels=labels.ids,
            embeddings=weights.embeddings,
            centre=weights.centre,
            embedding_squares=squares.embeddings,
            classes=weights.matrix,
            feature_intercept=weights.bias if weights.by_minibatches else NO_FLOATS,
            class_squares=squares.classes,
            n_features=x.shape[1],
            n_hidden=weights.n_hidden,
            intercept=weights.intercept_column or (weights.by_minibatches and plan.fit_intercept),
            relu=weights.relu,
            sample_weight=points.weights,
            local=self._local,
            counts=None if earlier is None else earlier.counts,
            # As that of rows of unit length, whose embeddings are longer; a ridge that is set is of what there is.
            embedding_ridge=length**2 if plan.row_length is None else 1.0,
        )
        self.core, self._made_for = self._make(self._source(0)), self._source(0)

    def _begin_local(self, earlier: EarlierModel | None) -> Doubles:
        """Return what points carry at first in the double sum; NaN stands for what their own draw makes of it."""
        double_sum, goes_on = self.plan.double_sum, earlier is not None and earlier.goes_on
        if earlier is not None and earlier.local_state is not None:
            return earlier.local_state.u
        if double_sum is None:
            return NO_DOUBLES
        first = 0.0 if double_sum.u_init == "zero" else np.nan if goes_on else np.log(self.weights.n_classes)
        return np.full(len(self.points.labels), first)

    def _source(self, epoch: int) -> str:
        """Searches find nothing in W = 0: the first passes sample (Yen et al. 2018, section 4)."""
        searches = self.plan.source not in ("exact", "sampled") and not self._searches_first
        return "sampled" if searches and epoch < self.plan.warm_up else self.plan.source

    def visit(self, *, epoch: int, **stretch: Any) -> _core.Progress:
        """Make some visits of a pass, by the source that it has."""
        source = self._source(epoch)
        if source != self._made_for:
            self.core, self._made_for = self._make(source), source
        progress = super().visit(epoch=epoch, **stretch)
        self._moved += progress.class_updates
        return progress

    def after_pass(self, n_iter: int) -> None:
        """Step 3 of `fit_batches`: let the index see whether its clusters still fit."""
        if self._index is not None and self._index.follow_training(self._moved):
            self.core = self._make(self._made_for)
        self._moved = 0

    def moved(self) -> Arrays:
        """Return weights, their squares, and what points carry."""
        squares = {"embedding_squares": self.squares.embeddings, "class_squares": self.squares.classes}
        return {
            "embeddings": self.weights.embeddings,
            "classes": self.weights.matrix,
            "intercept": self.weights.bias if self.weights.by_minibatches else NO_FLOATS,
            "local": self._local,
            **squares,
        }

    def own_numbers(self) -> dict[str, Any]:
        """Return how many rows were moved; an index follows from the weights, if not bit for bit."""
        return {"moved": self._moved}

    def restore_own(self, saved: Saved) -> None:
        """Take them over, and make what index there is anew."""
        super().restore_own(saved)
        self._moved = saved.numbers["moved"]
        if self._index is not None:
            self._index = None
            self.core = self._make(self._made_for)

    def _make(self, source: str) -> _core.Trainer:
        plan = self.plan
        if source not in ("exact", "sampled") and self._index is None:
            self._index = self._new_index(source)
        index, double_sum = self._index, plan.double_sum
        settings = plan.shared_with("Trainer.labels") | {
            "index": None if index is None else index.core,
            "n_probe": None if index is None else index.n_probe_,
            "source": source,
            "selection": plan.sampler,
            "n_negatives": min(plan.n_negatives, self.weights.n_classes),
            "options": dict(plan.options),
            "log_alpha": plan.log_q,
            "share_classes": plan.share_classes is not False,
            "inverse_every": plan.schedule.decay_every or 0,
            "ridge": plan.alpha,
        }
        if double_sum is not None:
            settings |= {name: getattr(double_sum, name) for name in ("rule", "reduction", "formulation")}
            settings |= {"rule_options": dict(double_sum.options), "local_step": double_sum.step}
        return _core.Trainer.labels(
            self._arrays, **settings, first_point=self._first_point, batch=self.batch, isa="auto"
        )

    def _new_index(self, source: str) -> Index:
        """Return an index of the present rows that probes as many clusters as points of the training data need."""
        plan = self.plan
        if plan.index is None:
            blocks = min(FIGURES.COLUMN_BLOCKS, self.weights.columns.shape[1])
            index: Index = SphericalClusterIndex() if source == "mips" else DecomposedIndex(blocks)
        else:
            index = clone(plan.index)
        if index.random_state is None:
            index.set_params(random_state=plan.seed % 2**32)
        index.set_params(n_jobs=plan.n_threads)
        index.fit(self.weights.columns)
        if isinstance(index, SphericalClusterIndex) and index.n_probe == "auto" and index.n_clusters_ > 1:
            rng, points = np.random.default_rng(plan.seed), self.points
            n = len(points.labels)
            sample = np.sort(rng.choice(n, min(FIGURES.SEARCH_QUERIES, n), replace=False))
            queries = self.weights.phi(points.x[sample])[:, : self.weights.columns.shape[1]]
            index.tune(queries, k=min(10, plan.budget), exclude=points.labels.some(sample))
        return index


# Weights on the pairs of a feature and a class that occur together: exact losses by single rows


def fit_pairs(plan: PairsPlan, points: Points, watch: Watch, earlier: EarlierModel | None = None) -> Trained:
    """Train on points that have labels; return the weights with the mean loss of each pass, and Adagrad's sums.

    1. The pairs of a feature and a class that points have get weights of 0, intercepts the logarithms of shares.
    2. A pass visits each point: the exact loss over all classes that its features have pairs with, and Adagrad's steps
       of the weights of these pairs.
    3. The smallest weights are dropped.

    The weights of the points, of mean 1, multiply their losses. Instead of 1 and 3, training goes on from an `earlier`
    model, whose support has the pairs of these points, and whose squares are moved in place. Of a training that
    diverges see `trained`.
    """
    points = replace(points, x=as_csr(points.x))
    signs = Signs(loss_at_zero(plan.loss, points))
    training, rate = trained(lambda by: _PairsTraining(by, points, earlier), plan, watch, signs)  # 1, 2
    weights, sums = training.weights, training.squares
    if plan.prune > 0 and earlier is None:  # 3
        is_left = weights.without_smallest(plan.prune)
        weights, sums = weights.some_pairs(is_left), replace(sums, values=sums.values[is_left])
    return Trained(weights, training.curve, rate, sums, complete=training.complete)


def begin_on_pairs(plan: PairsPlan, points: Points) -> tuple[Weights, Squares]:
    """Return what a training begins with: weights of 0 on the pairs of these points, intercepts by frequency; squares.

    Scores that are trained by a margin are no log-odds, and begin at 0.
    """
    weights = Weights.on_pairs(*support_of(plan, points), None, np.zeros(points.n_classes, np.float32))
    if plan.fit_intercept and plan.loss != MARGIN:
        shares = shares_of_classes(points.labels, points.n_classes, points.weights)
        weights.bias[:] = (logit(shares) if plan.loss == "logistic" else np.log(shares)).astype(np.float32)
    return weights, Squares.of_pairs(weights, plan.fit_intercept, plan.offset)


def support_of(plan: PairsPlan, points: Points) -> tuple[NDArray[np.int64], Ids]:
    """Return the pairs of a feature and a class that as many of these points have as the plan says."""
    x, labels = as_csr(points.x), points.labels
    rows = (csr_parts(x), x.shape[1], labels.indptr, labels.ids, points.n_classes)
    return _core.support(*rows, plan.min_count, plan.few_classes)


def grow_pairs(
    plan: PairsPlan, weights: Weights, squares: Squares | None, position: NDArray[np.intp], points: Points
) -> tuple[Weights, Squares]:
    """Return a copy of weights and of their squares, with new classes, those of now in `position`, and new pairs."""
    n_classes = points.n_classes
    union = weights.new_pairs(n_classes, position, *support_of(plan, points))
    grown = weights.grown(n_classes, position, union)
    if squares is not None and squares.offset:
        return grown, squares.grown(n_classes, position, union)
    return grown, Squares.of_pairs(grown, plan.fit_intercept, plan.offset)


class _PairsTraining(CoreTraining):
    """The core's trainer."""

    def __init__(self, plan: PairsPlan, points: Points, earlier: EarlierModel | None) -> None:
        began = (earlier.weights, earlier.squares) if earlier is not None else begin_on_pairs(plan, points)
        (weights, squares), labels = began, points.labels
        super().__init__(plan, points, weights, goes_on=earlier is not None)
        by_classes = max(1, min(FIGURES.PAIRS_BATCH_POINTS, weights.n_classes // FIGURES.PAIRS_CLASSES_A_POINT))
        self.batch = min(plan.batch_size or by_classes, len(labels))
        assert squares is not None
        self.squares = squares
        settings = plan.shared_with("pairs_trainer") | {
            "x": csr_parts(as_csr(points.x)),
            "n_features": points.x.shape[1],
            "labels_indptr": labels.indptr,
            "labels": labels.ids,
            "indptr": weights.indptr,
            "classes": weights.classes,
            "values": weights.values,
            "squares": squares.values,
            "intercept": weights.bias,
            "intercept_squares": squares.intercept,
            "offset": squares.offset,
            "intercept_offset": FIGURES.PAIRS_OFFSET,
            "sample_weight": points.weights,
            "first_point": 0 if earlier is None else earlier.n_points,
            "batch": self.batch,
            "ridge": plan.alpha,
            "hogwild": plan.hogwild and plan.n_threads > 1,
        }
        self.core = _core.pairs_trainer(**settings, isa="auto")

    def moved(self) -> Arrays:
        """Return weights and their squares."""
        weights, squares = self.weights, self.squares
        return {
            "values": weights.values,
            "intercept": weights.bias,
            "squares": squares.values,
            "intercept_squares": squares.intercept,
        }


# What stands beside a sum of scores, or beside weights on pairs


def most_held_out(plan: PairsPlan | BatchesPlan | HybridPlan) -> int:
    """Return how many rows tell the scales at most: for several numbers, for one, or for none."""
    if isinstance(plan, HybridPlan) and plan.pairs is not None:
        return FIGURES.MOST_HELD_OUT
    return FIGURES.MOST_HELD_OUT_FOR_ONE if isinstance(plan, HybridPlan) or plan.finds_scale else 0


def beside(terms: list[tuple[Weights, Squares]]) -> tuple[Weights, Squares]:
    """Return one term, or both as a sum."""
    if len(terms) == 1:
        return terms[0]
    (pairs, pair_squares), (rows, row_squares) = terms
    return pairs.beside(rows), pair_squares.beside(row_squares)


def counted(weights: Weights, points: Points, mixture: Mixture) -> Weights:
    """Return weights that have counts, if any, with those of more points, and this mixture."""
    if len(weights.counts):
        for seen in (points, turned(points, weights.own)) if mixture.both else (points,):
            weights = weights.counted(as_csr(seen.x), seen.labels.indptr, seen.labels.ids, normalized(seen.weights))
    return replace(weights, mixture=mixture)


def with_pairs_of(plan: PairsPlan, weights: Weights, points: Points) -> Weights:
    """Return a copy of weights with the pairs of more points, whose weights are 0."""
    everywhere = np.arange(points.n_classes)
    union = weights.new_pairs(points.n_classes, everywhere, *support_of(plan, points))
    return weights.grown(points.n_classes, everywhere, union)


def turned(points: Points, own: Ids) -> Points:
    """Return points whose features are what labels are, and whose labels are the classes that features are."""
    (indptr, features, _), labels, n_rows = csr_parts(as_csr(points.x)), points.labels, len(points.labels)
    feature_of = np.full(points.n_classes, -1, np.int32)
    feature_of[own[own >= 0]] = np.flatnonzero(own >= 0)

    def cells(rows: NDArray[np.int64], columns: Ids, n_columns: int) -> sp.csr_array:
        rows, columns = rows[columns >= 0], columns[columns >= 0]
        return sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_rows, n_columns))

    x = cells(labels.rows, feature_of[labels.ids], len(own))
    before = cells(np.repeat(np.arange(n_rows), np.diff(indptr)), own[features], points.n_classes)
    before.sort_indices()
    return replace(points, x=x, labels=Labels(before.indptr.astype(np.int64), before.indices.astype(np.int32)))


def mixed(
    plan: AnyPlan, weights: Weights, points: Points, trained_points: Points, telling: Points, *, least: bool = False
) -> Weights:
    """Return weights with counts and repeats mixed in, if points that they were not trained on say so.

    Counts of next items are of what came after an item, or of what came before it, too, whichever is better. With
    `least` a small share of counts is the least: a stream's later rows may say more.
    """
    if not isinstance(plan, HybridPlan):
        return weights
    has_counts, class_features = plan.counts and plan.pairs is not None, features_of_classes(plan, points)
    own = NO_OWN if class_features is None else blend.own_classes(class_features, weights.n_features)
    scored = ScoredRows(telling.x, telling.labels, plan.n_threads, telling.weights)

    def with_mixture(weights: Weights, *, both: bool) -> tuple[Weights, float]:
        if has_counts:
            nothing = replace(weights, counts=np.zeros(len(weights.classes), np.float32), own=own)
            first = Mixture(shrinkage=FIGURES.SHRINKAGE, counts_own=True, both=both)
            weights = replace(counted(nothing, trained_points, first), own=NO_OWN)
        return blend.best_mixture(weights, own, scored)

    best, loss = with_mixture(weights, both=False)
    is_of_items = points.column_labels is not None and len(own) > 0 and not points.several
    if has_counts and plan.pairs is not None and is_of_items and not least:
        wider, least_loss = with_mixture(with_pairs_of(plan.pairs, weights, turned(trained_points, own)), both=True)
        if least_loss < loss - FIGURES.LEAST_OF_MIXTURE:
            best, loss = replace(wider, own=own), least_loss
    if loss == np.inf and not least:
        best = weights
    if least and has_counts:
        best = replace(best, mixture=replace(best.mixture, share=max(FIGURES.LEAST_FACTOR, best.mixture.share)))
    return best if class_features is None else without_repeats(best, class_features, points)


def without_repeats(weights: Weights, class_features: Ids, points: Points) -> Weights:
    """Return weights by which what a row has does not come next, if it never did so by all points; else the weights.

    If rows said nothing of it, own classes would be labels as often as others: the points are more probable by the sum
    of the shares of the own classes of each, in nats, which must be as much as any mixture has to gain. Then the share
    of repeats is half a point of them all.
    """
    x, labels, own = as_csr(points.x), points.labels, blend.own_classes(class_features, points.x.shape[1])
    features = csr_parts(x)[1]
    shares = np.append(shares_of_classes(labels, points.n_classes, points.weights), 0.0)
    if np.bincount(features, minlength=len(own)) @ shares[own] < FIGURES.LEAST_OF_MIXTURE:
        return weights
    of_labels = class_features[labels.ids]
    rows = labels.rows[of_labels >= 0]
    cells = sp.csr_array((np.ones(len(rows), np.float32), (rows, of_labels[of_labels >= 0])), shape=x.shape)
    if cells.multiply(x).nnz:
        return weights
    never: dict[str, Any] = {"repeats": 0.5 / (len(labels) + 1), "counts_own": False, "power": 0.0, "rate": 0.0}
    return replace(weights, own=own, mixture=replace(weights.mixture, **never))


def features_of_classes(plan: HybridPlan, points: Points) -> Ids | None:
    """The feature that is each class itself, -1 where there is none: of its name, or of its number; None: of no class.

    Places of hashed features say nothing.
    """
    if not plan.repeats or points.hashing is not None:
        return None
    return columns_of_classes(points.classes, points.column_labels, points.x.shape[1])
