"""Two models of the same classes joined: the scales of their scores that are best on rows left out of training.

Counts of which classes came with the features of a row may be mixed in, in probability: what was seen once is
remembered at once, where a step of training moves a weight a little. So may repeats of what a row has itself. The
searches, for these shares as for scales, are the core's (exact/score_scales.hpp and evaluate/label_mixtures.hpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import as_csr, csr_parts
from manyclass.figures import FIGURES
from manyclass.training.plan import BatchesPlan, GroupIds, Labels, PairsPlan, ScoredRows, draw_rows_out
from manyclass.weights.arrays import NO_OWN, Doubles, Floats, Ids, Matrix
from manyclass.weights.weights import Weights

CELLS = 1 << 26  # scores of them that are kept, of a model 256 MB: fewer rows where there are more than 67,000 classes
# Losses of labels, by the names of the core: one whose labels do not compete, and the mean of theirs.
DECOUPLED, MEAN_LOG_LOSS = "decoupled", "pick_all_normalized"
MARGIN = "margin"
# Losses after which the softmax of the scores is no probability.
NO_PROBABILITIES = (MARGIN, "triplet", "logistic")


def rows_held_out(
    n_rows: int, seed: int, most: int = FIGURES.MOST_HELD_OUT, groups: GroupIds | None = None
) -> NDArray[np.bool_]:
    """Draw which rows, or groups of them, are left out of training."""
    if n_rows < FIGURES.FEWEST_TO_HOLD_OUT:
        return np.zeros(n_rows, dtype=bool)
    return draw_rows_out(min(most, int(FIGURES.SHARE_HELD_OUT * n_rows)), n_rows, np.random.default_rng(seed), groups)


def rows_that_tell(n_rows: int, seed: int, most: int, groups: GroupIds | None = None) -> NDArray[np.bool_]:
    """Draw which rows of the first call of a stream tell its scales before they are trained on."""
    least = min(FIGURES.FIRST_HELD_OUT, int(FIGURES.MOST_OF_FIRST * n_rows))
    n_telling = min(most, max(int(FIGURES.SHARE_HELD_OUT * n_rows), least))
    return draw_rows_out(n_telling, n_rows, np.random.default_rng(seed), groups)


def some_that_tell(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return as many of the rows held out as tell a few numbers: of whole sequences there may be more."""
    n = len(rows)
    return rows[np.linspace(0, n - 1, FIGURES.MOST_HELD_OUT).astype(np.int64)] if n > FIGURES.MOST_HELD_OUT else rows


def with_their_sequences(x: Matrix, next_features: Ids | None, is_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the rows held out and, where rows are prefixes of short sequences, the others of some of these.

    A short sequence, such as a visit of a shop, is over when rows are predicted; a model that was trained on its other
    rows knows more than it will. Long ones, such as what a customer ever took, go on, and so their rows tell more.
    `next_features` are those of the rows' labels; None: labels are no features.
    """
    if next_features is None or not is_out.any():
        return is_out
    indptr, features, _ = csr_parts(as_csr(x))
    rows = np.flatnonzero(is_out).astype(np.int32)
    sequences: dict[str, Any] = {"indptr": indptr, "features": features, "next": next_features}
    sequences["most"] = FIGURES.MOST_NEXT
    rows_a_sequence, following, together = _core.sequence_rows(rows=rows, **sequences)
    if rows_a_sequence >= FIGURES.ROWS_OF_LONG or following < FIGURES.LEAST_FOLLOWING:
        return is_out
    if (share := FIGURES.MOST_TOGETHER * len(is_out) / len(together)) < 1:
        sampled_rows = np.linspace(0, len(rows) - 1, max(1, int(share * len(rows)))).astype(np.int64)
        together = _core.sequence_rows(rows=rows[sampled_rows], **sequences)[2]
    whole = np.zeros_like(is_out)
    whole[together] = True
    return whole


@dataclass(frozen=True)
class Scales:
    """What the rows of a stream have told of the scales of its terms: normal distributions, by Laplace's method.

    Attributes
    ----------
    means : ndarray of shape (1,) or (3,), float64
        The scale of one term; or those of both and, of several labels a row, the temperature of their sum.
    precisions : ndarray of shape (1,) or (3,), float64
        0 where no row has told anything. What is known then is taken to be worth one row whose scores are uniform: the
        scale of a term is 0, and its precision is the variance of the term's scores over the classes.
    """

    means: Doubles
    precisions: Doubles

    @classmethod
    def unknown(cls, is_sum: bool) -> Scales:
        """Return what is known of one term, or of both, before the first row."""
        means = np.array([0.0, 0.0, 1.0] if is_sum else [0.0])
        return cls(means, np.zeros(len(means)))

    def faded(self, n_before: float, n_new: int) -> Scales:
        """Return what is left of it beside new rows."""
        n = min(FIGURES.MOST_REMEMBERED, FIGURES.REMEMBERED * n_before)
        return replace(self, precisions=self.precisions * (n / (n + n_new)))

    def learnt(self, weights: Weights, held_out: ScoredRows) -> Scales:
        """Return what is known after rows that the weights, each term on its own scale, were not trained on."""
        is_sum = len(self.means) > 1
        parts = (weights.pairs_alone, weights.rows_alone) if is_sum else (weights,)
        rows, n = _scaled_rows(parts, held_out) | {"least": FIGURES.LEAST_FACTOR}, len(parts)
        first: dict[str, Any] = {"means": self.means[:n], "precisions": self.precisions[:n]}
        means, precisions = _core.learnt_scales(**rows, **first, loss=DECOUPLED if is_sum else MEAN_LOG_LOSS)
        learnt = Scales(np.append(means, self.means[n:]), np.append(precisions, self.precisions[n:]))
        if not is_sum or len(held_out.labels.ids) == len(held_out.labels):
            return learnt
        sum_before: dict[str, Any] = {"means": self.means[n:], "precisions": self.precisions[n:], "sum_of": means}
        temperature, precision = _core.learnt_scales(**rows, **sum_before, loss=MEAN_LOG_LOSS)
        return Scales(np.append(means, temperature), np.append(precisions, precision))

    @property
    def of_parts(self) -> tuple[float, float]:
        """Return what the scores of pairs and those of rows are multiplied by."""
        factor = float(np.prod(self.means[2:]))
        first, second = (
            max(FIGURES.LEAST_FACTOR, float(mean)) * factor for mean in (self.means[0], self.means[:2][-1])
        )
        return first, second


def fewer_rows(held_out: ScoredRows, n_classes: int, n_terms: int) -> ScoredRows:
    """Return as many of the rows as there is memory for the scores of some terms."""
    n_rows = held_out.x.shape[0]
    n = min(n_rows, max(FIGURES.FEWEST_TO_HOLD_OUT, 3 * CELLS // (n_terms * n_classes)))
    return held_out.some(np.linspace(0, n_rows - 1, n).astype(np.intp)) if n < n_rows else held_out


def best_shares(terms: list[Floats], rows: ScoredRows) -> Doubles:
    """Return the most probable factors, at least 0, of the scores of some terms that are added.

    By the rows that is the least decoupled log-loss: the labels of a row do not compete in it, so that it is about what
    ranks them above the other classes. Of one label it is the log-loss. A factor is 0 before, up to a normal error
    whose precision is PART_OF_ROW times the variance of the term's scores over the classes, the mean of the rows.
    """
    core_call, nothing = _as_core(terms, rows), np.zeros(len(terms))
    core_call["weights"] = core_call["weights"] / (FIGURES.PART_OF_ROW * core_call["weights"].mean())
    return _core.learnt_scales(**core_call, means=nothing, precisions=nothing, least=0.0, loss=DECOUPLED)[0]


def losses_of_sum(terms: list[Floats], rows: ScoredRows) -> Doubles:
    """Return the decoupled loss of each row by the sum of the scores of some terms with the best factors."""
    total = np.zeros_like(terms[0])
    for share, term in zip(best_shares(terms, rows), terms, strict=True):
        total += np.float32(share) * term
    return _core.losses(total, rows.labels.indptr, rows.labels.ids, loss=DECOUPLED, smoothing=0.0)[0]


def best_scales(first: Weights, second: Weights, held_out: ScoredRows) -> tuple[float, float]:
    """Return the factors of the scores of two models whose sum has the least decoupled log-loss."""
    rows = _scaled_rows((first, second), held_out)
    (a, b), _ = _core.best_scales(**rows, loss=DECOUPLED, start=[0.5, 0.5], low=[0.0, 0.0])
    return float(a), float(b)


def best_factor_of(scores: Floats, rows: ScoredRows, loss: str) -> tuple[float, float]:
    """Return the factor, more than 0, of the scores of rows that gives them the least loss, and the loss."""
    (factor,), least = _core.best_scales(**_as_core([scores], rows), loss=loss, start=[1.0], low=[FIGURES.LEAST_FACTOR])
    return factor, least


def _as_core(terms: list[Floats], rows: ScoredRows) -> dict[str, Any]:
    """The scores of rows by some terms, with the rows' labels, as the core takes them."""
    _, labels, n_threads, r = rows
    weights = np.ones(len(labels)) if r is None else r
    return {"terms": terms, "indptr": labels.indptr, "ids": labels.ids, "weights": weights, "n_threads": n_threads}


def precisions(labels: Labels, best: Ids) -> Doubles:
    """Return for each row the mean of P@1, P@2, ... of its best classes, (n_rows, k)."""
    k = best.shape[1]
    gain_of_place = np.cumsum((1 / np.arange(1, k + 1))[::-1])[::-1] / k  # what a label in a place adds to that mean
    means: Doubles = _core.label_hits(labels.indptr, labels.ids, np.ascontiguousarray(best)) @ gain_of_place
    return means


def gain(ours: Doubles, theirs: Doubles, sample_weight: Doubles | None) -> tuple[float, float]:
    """Return the mean of differences over weighted rows, and its standard error if their mean was 0.

    So what one row alone says is never more than chance.
    """
    r = np.ones(len(ours)) if sample_weight is None else sample_weight
    r = r / r.sum()
    return float(r @ (ours - theirs)), float(np.sqrt(r**2 @ (ours - theirs) ** 2))


def best_factor(model: Weights, held_out: ScoredRows) -> float:
    """The factor, more than 0, of the scores of a model that gives its softmax the least log-loss.

    For rows of several labels it is the mean of their losses, all classes competing, which is what `evaluate` tells.
    """
    rows = fewer_rows(held_out, model.n_classes, 3)
    return best_factor_of(model.scores(rows.x, rows.n_threads), rows, MEAN_LOG_LOSS)[0]


def decoupled_loss(model: Weights, held_out: ScoredRows) -> float:
    """The mean over rows of the decoupled loss, summed over the labels of a row, in nats."""
    return _loss(DECOUPLED, _scaled_rows((model,), held_out))


def log_loss_of_shares(shares: Doubles, labels: Labels, sample_weight: Doubles | None = None) -> float:
    """The mean over rows of the mean log-loss of their labels where each class has its share of all, in nats."""
    losses = np.add.reduceat(-np.log(shares[labels.ids] / shares.sum()), labels.indptr[:-1]) / np.diff(labels.indptr)
    return float(np.average(losses, weights=sample_weight))


def mean_log_loss(model: Weights, held_out: ScoredRows) -> float:
    """The mean over rows of the mean log-loss of their labels, in nats."""
    return _loss(MEAN_LOG_LOSS, _scaled_rows((model,), held_out))


def held_out_loss(plan: PairsPlan | BatchesPlan, model: Weights, held_out: ScoredRows, *, is_scaled: bool) -> float:
    """The mean over rows held out of what early stopping goes by.

    That is `mean_log_loss`, of scores that are yet to be scaled by their best factor; or, where nothing makes
    probabilities of the scores, the loss of the plan.
    """
    is_scaled = is_scaled or plan.finds_scale
    rows = _scaled_rows((model,), held_out)
    if plan.loss in NO_PROBABILITIES and not is_scaled:
        (scores,) = rows["terms"]
        losses, _ = _core.losses(scores, rows["indptr"], rows["ids"], loss=plan.loss, smoothing=plan.smoothing)
        return float(np.average(losses, weights=rows["weights"]))
    return _loss(MEAN_LOG_LOSS, rows, is_scaled=is_scaled)


def _loss(name: str, rows: dict[str, Any], *, is_scaled: bool = False) -> float:
    """The mean over scored rows of a loss, maybe of scores times their best factor."""
    low, high = (FIGURES.LEAST_FACTOR, np.inf) if is_scaled else (1.0, 1.0)
    return _core.best_scales(**rows, loss=name, start=[1.0], low=[low], high=[high])[1]


def _scaled_rows(models: tuple[Weights, ...], held_out: ScoredRows) -> dict[str, Any]:
    """The scores by each model of as many rows as there is memory for, with their labels, as the core takes them."""
    rows = fewer_rows(held_out, models[0].n_classes, 3)  # files may be sorted
    return _as_core([model.scores(rows.x, rows.n_threads) for model in models], rows)


def label_mixtures(weights: Weights, classes: Ids, held_out: ScoredRows) -> _core.LabelMixtures:
    """Return what mixtures say of some labels of these rows; `classes` are those of the features, if any."""
    x, labels, n_threads, sample_weight = held_out
    n_labels, rows, ids = np.diff(labels.indptr), labels.rows, labels.ids
    r = np.repeat((1 if sample_weight is None else sample_weight) / np.maximum(n_labels, 1), n_labels)
    if len(ids) > FIGURES.MOST_HELD_OUT:
        sample = np.linspace(0, len(ids) - 1, FIGURES.MOST_HELD_OUT).astype(np.int64)
        rows, ids, r = rows[sample], ids[sample], r[sample]
    return weights.label_mixtures(as_csr(x)[rows], classes, ids, r, n_threads)


def best_mixture(weights: Weights, classes: Ids, held_out: ScoredRows) -> tuple[Weights, float]:
    """Return weights with the mixture that has the least log-loss on held-out rows, of counts if they have any.

    Where features are `classes`, repeats of those that a row has are mixed in, too, if that is better; or where
    repeats are common and it is not worse beyond chance. The sum of the losses of these rows comes with them: it is
    infinite, and nothing is mixed in, where no mixture betters these rows by more than 5 nats together.
    """
    best = label_mixtures(weights, classes, held_out).best()
    if best is None:
        return weights, math.inf
    numbers, has_own, loss = best
    mixture = replace(weights.mixture, **numbers)
    return replace(weights, own=classes if has_own else NO_OWN, mixture=mixture), loss


def ranks_worse(mixed: Weights, weights: Weights, held_out: ScoredRows) -> bool:
    """Whether a mixture ranks several labels worse: by P@1 to P@5 in the mean, lower by more than its standard error.

    Counts know how probable a label is; of which labels a row has most they may know less than the sum of the scores.
    On package dependencies the share of least log-loss, .36, loses 2.3 points of P@3 and P@5 (bench/decisions.md).
    """
    k = min(FIGURES.RANKED_LABELS, weights.n_classes)
    x, labels, n_threads, r = held_out
    before, after = (precisions(labels, model.top_k(x, k, n_threads)[0]) for model in (weights, mixed))
    lost, error = gain(before, after, r)
    return lost > error


def in_order_of(weights: Weights, mixed: Weights, held_out: ScoredRows) -> Weights:
    """Return a mixture whose best classes are those of the weights without it; these, if that has no less log-loss.

    On package dependencies the log-loss of a row's labels falls from 4.52 to 3.69 nats with ten classes that keep their
    order, to 3.73 with five and, by the mixture as it is, to 3.80 (bench/decisions.md).
    """
    ordered = replace(mixed, mixture=replace(mixed.mixture, kept=min(FIGURES.LABELS_IN_ORDER, weights.n_classes)))
    return ordered if mean_log_loss(ordered, held_out) < mean_log_loss(weights, held_out) else weights


def own_classes(features: Ids, n_features: int) -> Ids:
    """Return the class that each feature is, or -1, of the `features` that classes are, or -1."""
    classes = np.full(n_features, -1, dtype=np.int32)
    having = np.flatnonzero(features >= 0)
    classes[features[having]] = having
    return classes
