"""Members of a fit: each is trained in full on the rows but those held out, whose labels tell the shares of all.

The members of a sum of scores are weights on pairs, embeddings, margins and a linear model; closed forms of counts, and
where classes are rare the logarithms of the classes' shares, stand beside them. Their scores are added,

    z = sum_m a_m z_m,    a = argmin over a >= 0 of the mean log-loss of the rows held out,

a convex problem of as many numbers as there are members, with a weak prior at 0 for rows held out that are all right
(`blend.best_shares`). Members of share 0 are dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.blending import blend
from manyclass.checks import as_csr, row_norms_sq
from manyclass.figures import FIGURES
from manyclass.training.core_training import Callback, Trained, TrainingState, Watch
from manyclass.training.minibatches import (
    beside,
    counted,
    features_of_classes,
    fit_batches,
    fit_pairs,
    grow_pairs,
    mixed,
    most_held_out,
    turned,
    with_pairs_of,
)
from manyclass.training.passes import Validation, warn_user
from manyclass.training.plan import BatchesPlan, HybridPlan, PairsPlan, PointsPlan, ScoredRows
from manyclass.training.points import fit_points
from manyclass.training.state import Points, Squares, normalized, shares_of_classes, taken
from manyclass.weights.arrays import Doubles, Floats, Matrix
from manyclass.weights.weights import FeatureScaling, Weights

EMBEDDINGS = "embeddings"
NO_FORMS = np.zeros((0, 0), dtype=np.float32)

MemberPlan = PairsPlan | BatchesPlan | PointsPlan


class Member(NamedTuple):
    """A member that was trained.

    Attributes
    ----------
    name : str
    trained : Trained
    plan_loss : str
        The loss of its plan.
    seconds : float
        Of the processor, for its training.
    scores : ndarray of shape (n_scored, n_classes) or (0, 0), float32
        Of the rows held out, times the factor.
    factor : float
        That of its scores which is best for it alone.
    loss : float
        The mean loss of these rows by it alone, times the factor, in nats.
    """

    name: str
    trained: Trained
    plan_loss: str
    seconds: float
    scores: Floats
    factor: float = 1.0
    loss: float = math.nan

    @property
    def weights(self) -> Weights:
        """Its weights, as they were trained."""
        return self.trained.weights

    def line(self, n_rows: int, share: float) -> dict[str, Any]:
        """Return its line of the report of a fit."""
        values = {"parameter": "member", "value": self.name, "log_loss": self.loss, "rows": n_rows}
        sizes = {"classes": self.weights.n_classes, "passes": len(self.trained.curve), "seconds": self.seconds}
        return {**values, **sizes, "chosen": share > 0, "share": share}


@dataclass(frozen=True)
class Split:
    """Rows held out of a training, which tell shares, and what is trained on.

    Attributes
    ----------
    trained : ndarray of int
        Rows that are trained on.
    held_out : ndarray of int
        Rows that are not.
    known : ndarray of int
        The rows held out that have classes of other rows only.
    telling : ndarray of int
        As many of these as tell a few numbers.
    points : Points
        The rows that are trained on.
    scored : ScoredRows
        The rows that tell.
    """

    trained: NDArray[np.intp]
    held_out: NDArray[np.intp]
    known: NDArray[np.intp]
    telling: NDArray[np.intp]
    points: Points
    scored: ScoredRows

    @classmethod
    def of(cls, plan: PairsPlan | BatchesPlan | HybridPlan, points: Points) -> Split:
        """Draw the rows that are held out; texts of classes are always trained on."""
        labels, most = points.labels, most_held_out(plan)
        n_rows = len(labels) - points.n_texts
        drawn = blend.rows_held_out(n_rows, plan.seed, most, points.groups) if most else np.zeros(n_rows, dtype=bool)
        drawn = np.append(drawn, np.zeros(points.n_texts, dtype=bool))
        by_prefixes = not points.several and points.groups is None
        class_features = features_of_classes(plan, points) if isinstance(plan, HybridPlan) and by_prefixes else None
        next_features = None if class_features is None else class_features[labels.ids]
        is_out = blend.with_their_sequences(points.x, next_features, drawn)
        out, rows = np.flatnonzero(is_out), np.flatnonzero(~is_out)
        known = out[labels.of(out).known_from(labels.of(rows))] if len(out) else out
        # A class of few rows often loses all of them. What its row says of the scales is that no class should be sure;
        # but of the rows that are to be predicted, all have classes that the model has learnt.
        known = known if len(known) >= FIGURES.FEWEST_TO_HOLD_OUT else out
        telling = blend.some_that_tell(known)
        trained_points = replace(points.some(rows), weights=taken(points.weights, rows)) if len(out) else points
        return cls(rows, out, known, telling, trained_points, points.scored(plan.n_threads).some(telling))

    def shares(self) -> Doubles:
        """Return the shares of the classes among rows that are trained on."""
        return shares_of_classes(self.points.labels, self.points.n_classes, normalized(self.points.weights))


def fit_members(plan: PairsPlan | BatchesPlan | HybridPlan, points: Points, watch: Watch) -> Trained:
    """Train on points that have labels, but for those that tell shares; the curve is that of weights on pairs.

    1. Rows are held out.
    2. Members are trained: unbiased embeddings, margins, a linear model, further runs of unbiased embeddings,
       embeddings by margins and, last, weights on pairs. One that lowers the log-loss of the rows held out hardly,
       beside those before it and a standard error more, after a tenth of its passes, ends there, but for unbiased
       embeddings. Embeddings whose share is far below the largest have one run. A run whose scores the rows held out
       want smaller is followed by one with a ridge, and one whose scores they want larger by one with more passes;
       further runs keep what made the rows more probable.
    3. Counts of rows give closed forms of weights on pairs.
    4. Shares of members, closed forms and, where classes are rare, the logarithms of the classes' shares are the best
       for the rows held out.
    5. Counts and repeats are mixed in, in probability, where the rows held out are more probable by it.
    6. The rows held out are counted, too.

    Where Ctrl-C, a callback or the clock ends the training of a member, those after it are left out; if it was the
    first one, steps 3 to 6 are not made.
    """
    split = Split.of(plan, points)  # 1
    training = _Training(plan, split, watch)
    members, complete = training.members()  # 2
    first = members[0].trained
    if not isinstance(plan, HybridPlan):
        if len(split.held_out) and first.curve:
            first.weights.multiply_scores(members[0].factor)
            _warn_if_no_better_than_shares(first.weights, split)
        return first
    if len(split.held_out) and complete:
        total = _Sum(plan, points, split, members).trained()
        _warn_if_no_better_than_shares(total.weights, split)
    else:
        total = _plain_sum(members)
    return total._replace(curve=first.curve or training.in_order[0].trained.curve)


@dataclass
class _Check:
    """A callback of passes that ends a member of no use, behind the one of the fit.

    Attributes
    ----------
    callback : callable or None
        That of the fit.
    is_gain : callable
        Whether scores of the rows make them more probable beside those of other members.
    x : csr_array or ndarray
        The rows.
    n_passes : int
        Passes that are made before.
    """

    callback: Callback | None
    is_gain: Callable[[Floats], bool]
    x: Matrix
    n_passes: int
    n_calls: int = 0
    has_ended: bool = False

    def __call__(self, state: TrainingState) -> bool:
        """Return whether training is to end after a pass."""
        self.n_calls += 1
        if self.callback is not None and self.callback(state):
            return True
        if state.n_iter == self.n_passes:
            self.has_ended = not self.is_gain(np.ascontiguousarray(state.scores(self.x)))
        return self.has_ended

    def is_hopeless(self, trained: Trained) -> bool:
        """Whether it has ended a training, maybe before the checkpoint that this one has begun at."""
        if self.n_calls or trained.complete or len(trained.curve) != self.n_passes:
            return self.has_ended
        return not self.is_gain(trained.weights.scores(self.x, 1))


class _Training:
    """The training of the members of a plan, one after the other.

    Parameters
    ----------
    plan : PairsPlan, BatchesPlan or HybridPlan
    split : Split
    watch : Watch
        Its limit of seconds is for all members together.

    Attributes
    ----------
    in_order : list of Member
        The members that were trained so far, the first one first.
    """

    def __init__(self, plan: PairsPlan | BatchesPlan | HybridPlan, split: Split, watch: Watch) -> None:
        self._plan, self._split, self._watch = plan, split, watch
        self.in_order = list[Member]()
        self._loss = blend.DECOUPLED if isinstance(plan, HybridPlan) else blend.MEAN_LOG_LOSS
        n_terms = len(plan.members) + 4 if isinstance(plan, HybridPlan) else 1
        self._scored = blend.fewer_rows(split.scored, split.points.n_classes, n_terms)

    def members(self) -> tuple[list[Member], bool]:
        """Train; return the members, weights on pairs first, and whether the first training has come to its end."""
        plan = self._plan
        if not isinstance(plan, HybridPlan):
            self._add("", plan)
            return self.in_order, True
        runs = dict(zip([name for name in plan.members if name.startswith(EMBEDDINGS)], plan.embeddings, strict=True))
        goes_on, complete = True, False
        for loss in dict.fromkeys(run.loss for run in reversed(runs.values())):  # those by margins after the others
            first, *more = (name for name, run in runs.items() if run.loss == loss)
            goes_on = goes_on and self._add_run(plan, first, runs[first])
            complete = complete or goes_on
            goes_on = goes_on and self._add_linear(plan)
            goes_on = goes_on and all(self._add_run(plan, name, runs[name]) for name in self._worth(first, more))
        if plan.pairs is not None:
            self._add("pairs", plan.pairs if goes_on else replace(plan.pairs, max_iter=0))
        places = list(plan.members)
        return sorted(self.in_order, key=lambda member: places.index(member.name)), complete

    def _add_linear(self, plan: HybridPlan) -> bool:
        """Train the linear members that were not yet, if rows are held out; return whether nothing has ended them."""
        linear: dict[str, MemberPlan | None] = {"margins": plan.margins, "linear": plan.linear}
        trained = {member.name for member in self.in_order}
        plans = {name: member for name, member in linear.items() if member is not None and name not in trained}
        return not len(self._split.held_out) or all(self._add(name, member) for name, member in plans.items())

    def _worth(self, first: str, more: list[str]) -> list[str]:
        """Return further runs, if the first one has a large share of the rows held out, or there are none of these."""
        if not len(self._split.held_out):
            return more
        shares = dict(zip([member.name for member in self.in_order], self._shares(), strict=True))
        return more if shares[first] >= FIGURES.SHARE_OF_RUNS * max(shares.values()) else []

    def _add_run(self, plan: HybridPlan, name: str, run: BatchesPlan) -> bool:
        """Train a run of embeddings as earlier ones tell; return whether nothing has ended it."""
        earlier = [m for m in self.in_order if m.plan_loss == run.loss and m.name.startswith(EMBEDDINGS)]
        # Nothing says yet that the change which rows held out ask for makes them no better.
        if run.double_sum is not None and earlier and (len(earlier) == 1 or earlier[1].loss < earlier[0].loss):
            factor = earlier[0].factor
            if factor <= FIGURES.OVERCONFIDENT and plan.ridge is not None:
                run = replace(run, alpha=plan.ridge)
            elif factor >= FIGURES.UNDERTRAINED:
                schedule = replace(run.schedule, decay=run.schedule.decay ** (1 / plan.more_passes))
                run = replace(run, max_iter=plan.more_passes * run.max_iter, schedule=schedule)
        return self._add(name, run)

    def _shares(self) -> Doubles:
        """Return the shares of the members that there are."""
        return blend.best_shares([member.scores for member in self.in_order], self._scored)

    def _is_gain(self, scores: Floats) -> bool:
        """Whether scores may make the rows held out more probable beside the members that there are."""
        factor, _ = blend.best_factor_of(scores, self._scored, self._loss)
        before = [member.scores for member in self.in_order]
        after = [*before, scores * np.float32(factor)]
        losses, less = (blend.losses_of_sum(terms, self._scored) for terms in (before, after))
        mean, error = blend.gain(losses, less, self._scored.weights)
        return mean + error >= FIGURES.LEAST_GAIN * float(np.average(losses, weights=self._scored.weights))

    def _add(self, name: str, plan: MemberPlan) -> bool:
        """Train a member; return whether no callback, interrupt or clock has ended it."""
        begin, watch, check = time.process_time(), self._watch_of(name), None
        n_first = math.ceil(FIGURES.FIRST_PASSES * plan.max_iter)
        is_ranking = getattr(plan, "loss", "") == blend.MARGIN  # of the embeddings those by margins may end
        may_end = len(self._split.held_out) > 0 and (is_ranking or not name.startswith(EMBEDDINGS))
        may_end = may_end and watch.validation is None
        if self.in_order and may_end:
            check = _Check(watch.callback, self._is_gain, self._scored.x, n_first)
            watch = replace(watch, callback=check)
        fits: dict[Any, Any] = {PairsPlan: fit_pairs, BatchesPlan: fit_batches, PointsPlan: _fit_linear}
        trained: Trained = fits[type(plan)](plan, self._split.points, watch)
        is_hopeless = check is not None and check.is_hopeless(trained)
        seconds = time.process_time() - begin
        member = Member(name, trained, getattr(plan, "loss", ""), seconds, NO_FORMS)
        if len(self._split.held_out):
            scores = trained.weights.scores(self._scored.x, self._scored.n_threads)
            factor, loss = blend.best_factor_of(scores, self._scored, self._loss)
            scores *= np.float32(factor)
            member = member._replace(scores=scores, factor=factor, loss=loss)
        self.in_order.append(member)
        validation = watch.validation
        is_over = validation is not None and validation.is_over
        return is_over or is_hopeless or trained.complete

    def _watch_of(self, name: str) -> Watch:
        """Return what looks on while a member is trained."""
        watch, plan = self._watch, self._plan
        if not isinstance(plan, HybridPlan):
            return watch
        validation = watch.validation
        if validation is not None:
            validation.is_scaled = True
            if name != next(iter(plan.members)):
                validation = Validation(validation.n_iter_no_change, validation.rows, is_scaled=True)
        return replace(watch, heading=name, validation=validation)


def _fit_linear(plan: PointsPlan, points: Points, watch: Watch) -> Trained:
    """Train a linear model on scaled features."""
    scaling = FeatureScaling.of(points.x, centre=False, weights=points.weights)
    x = scaling.apply(points.x)
    square = float(row_norms_sq(x).mean(dtype=np.float64))
    rate = plan.schedule.learning_rate / (square + 1)
    plan = replace(plan, schedule=replace(plan.schedule, learning_rate=rate), alpha=plan.alpha * square)
    callback = watch.callback
    by_features = None if callback is None else lambda state: callback(state.of_features(scaling))
    watch = replace(watch, validation=None, callback=by_features)
    trained = fit_points(plan, replace(points, x=x), watch)
    scaling.fold(trained.weights)
    return trained


# The sum


def _plain_sum(members: list[Member]) -> Trained:
    """Return the sum of pairs and embeddings where no rows tell shares: the mean of the runs of embeddings."""
    first, rows = members[0].trained, [member for member in members if member.weights.embeddings.size]
    rows = [member for member in rows if member.trained.curve] or rows[:1]
    embeddings = Weights.sum_over_phi([member.weights for member in rows], np.full(len(rows), 1 / len(rows)))
    if first.weights.embeddings.size:
        return Trained(embeddings, first.curve, first.rate, first.squares)
    weights, squares = beside([(first.weights, first.squares), (embeddings, rows[0].trained.squares)])
    return Trained(weights, first.curve, first.rate, squares)


class _Sum:
    """A sum of members whose shares are found: steps 3 to 6 of `fit_members`.

    Parameters
    ----------
    plan : HybridPlan
    points : Points
    split : Split
    members : list of Member
        Weights on pairs, if any, are the first one.
    """

    def __init__(self, plan: HybridPlan, points: Points, split: Split, members: list[Member]) -> None:
        self._plan, self._points, self._split, self._members = plan, points, split, members
        # Where most classes have more rows, rows held out may gain by the shares and others lose.
        self._are_rare = (
            plan.pairs is not None and plan.pairs.fit_intercept and 2 * len(split.known) < len(split.held_out)
        )
        self._rows = blend.fewer_rows(split.scored, points.n_classes, len(plan.members) + 4)
        self._pairs, self._squares = members[0].weights, members[0].trained.squares
        if self._are_rare and plan.counts and plan.pairs is not None and plan.pairs.prune == 0:
            # Without those of frequent features counts lose two points of accuracy on codes of diagnoses
            # (bench/decisions.md).
            all_pairs, everywhere = replace(plan.pairs, min_count=1), np.arange(points.n_classes)
            self._pairs, self._squares = grow_pairs(all_pairs, self._pairs, self._squares, everywhere, points)
        self._log_frequencies = np.log(split.shares()).astype(np.float32)
        self._forms = NO_FORMS
        if plan.pairs is not None and plan.counts and isinstance(points.x, sp.csr_array):
            self._forms = _closed_forms(self._pairs, split.points, self._are_rare)  # 3
        self._find_shares()  # 4

    def _find_shares(self) -> None:
        """Find the shares of all, of members in units of their best factors."""
        terms, n_members = [member.scores for member in self._members], len(self._members)
        for form in self._forms:
            alone = replace(self._pairs, values=form, bias=np.zeros_like(self._pairs.bias))
            terms.append(alone.scores(self._rows.x, self._rows.n_threads))
        if self._are_rare:  # either way (Menon et al., ICLR 2021, Long-tail learning via logit adjustment)
            frequencies = np.tile(self._log_frequencies, (len(self._rows.labels), 1))
            terms += [frequencies, -frequencies]
        shares = blend.best_shares(terms, self._rows)
        shares[:n_members] *= shares[:n_members] >= FIGURES.LEAST_SHARE * shares[:n_members].max()
        self._shares, self._form_shares = np.split(shares[: n_members + len(self._forms)], [n_members])
        self._share_of_frequencies = float(shares[-2] - shares[-1]) if self._are_rare else 0.0

    def trained(self) -> Trained:
        """Return the sum, with counts and repeats."""
        plan, points, first = self._plan, self._points, self._members[0].trained
        weights, squares = self._weights()
        unmixed = weights
        if points.several:  # their softmax is to be as probable as a temperature makes it
            temperature = blend.best_factor(weights, self._split.scored)
            weights.multiply_scores(temperature)
            self._form_shares = self._form_shares * temperature
        if plan.pairs is not None or isinstance(points.x, sp.csr_array):  # 5, 6
            split = self._split
            weights = mixed(plan, weights, points, split.points, points.some(split.telling))
            if points.several and weights.mixture.is_on and blend.ranks_worse(weights, unmixed, split.scored):
                weights = blend.in_order_of(unmixed, weights, split.scored)
        if self._form_shares.any():  # what the rows held out add to closed forms
            more = _closed_forms(weights, points, self._are_rare)
            more -= _closed_forms(weights, self._split.points, self._are_rare)
            weights.values[:] += self._form_shares.astype(np.float32) @ more
        if len(weights.counts):
            weights = self._with_held_out(weights)
            squares = squares.of_more_pairs(unmixed, weights)
        shares = zip(self._members, self._shares.tolist(), strict=True)
        lines = [m.line(len(self._split.trained), share) for m, share in shares if m.trained.curve]
        return Trained(weights, first.curve, first.rate, squares, lines)

    def _with_held_out(self, weights: Weights) -> Weights:
        """Return weights that count the rows held out, on all of their pairs."""
        plan, held_out, mixture = self._plan.pairs, self._points.some(self._split.held_out), weights.mixture
        if plan is not None and plan.prune == 0:
            for rows in (held_out, turned(held_out, weights.own)) if mixture.both else (held_out,):
                weights = with_pairs_of(plan, weights, rows)
        return counted(weights, held_out, mixture)

    def _weights(self) -> tuple[Weights, Squares]:
        """Return the sum, and the squares of the first member of each kind."""
        terms = [(m, share * m.factor) for m, share in zip(self._members, self._shares.tolist(), strict=True)]
        rows = [term for term in terms if term[0].weights.embeddings.size]
        rows = [term for term in rows if term[1] > 0] or rows[:1]  # if all are 0, the first one alone
        phi = Weights.sum_over_phi([m.weights for m, _ in rows], np.array([factor for _, factor in rows]))
        first = rows[0][0]
        phi.scales[1] = sum(factor for m, factor in rows if m.plan_loss == first.plan_loss)
        if self._plan.pairs is None:
            return phi, first.trained.squares
        on_pairs = self._on_pairs([term for term in terms if not term[0].weights.embeddings.size])
        return beside([on_pairs, (phi, first.trained.squares)])

    def _on_pairs(self, terms: list[tuple[Member, float]]) -> tuple[Weights, Squares]:
        """Return the sum of weights on pairs, the first of the terms, linear models, closed forms and frequencies."""
        (_, factor_of_pairs), *linear = terms
        pairs, multiple = self._pairs, np.float32(factor_of_pairs)
        values, bias = multiple * pairs.values, multiple * pairs.bias
        if self._form_shares.any():
            values += self._form_shares.astype(np.float32) @ self._forms
        if self._are_rare:
            bias += np.float32(self._share_of_frequencies) * self._log_frequencies
        pairs = replace(pairs, values=values, bias=bias)
        linear = [(member, factor) for member, factor in linear if factor > 0]
        for member, factor in linear:
            coef = member.weights.coef  # blocks of which are sparse in .1 s each, behind which Ctrl-C is heard
            blocks = [sp.csr_array(b * np.float32(factor)) for b in np.array_split(coef, 1 + (coef.size >> 22))]
            pairs = pairs.plus_pairs(sp.csr_array(sp.vstack(blocks)))
            pairs.bias[:] += np.float32(factor) * member.weights.intercept
        pairs.scales[0] = factor_of_pairs
        if linear or self._form_shares.any():  # training goes on from several members at the scale that is best alone
            scores = pairs.scores(self._rows.x, self._rows.n_threads)
            factor = blend.best_factor_of(scores, self._rows, blend.DECOUPLED)[0] if scores.any() else math.inf
            pairs.scales[0] = 1 / factor
        return pairs, self._squares.of_more_pairs(self._pairs, pairs)


def _closed_forms(weights: Weights, points: Points, are_rare: bool) -> Floats:
    """Return the closed forms of weights on pairs that may be added: counts that saturate where classes are rare."""
    labels = points.labels
    forms = weights.closed_forms(as_csr(points.x), labels.indptr, labels.ids, points.weights)
    return forms if are_rare else forms[:1]


def _warn_if_no_better_than_shares(weights: Weights, split: Split) -> None:
    """Warn of a model that is no better on rows held out than the shares of the classes, which no training takes."""
    labels, sample_weight = split.scored.labels, split.scored.weights
    if len(labels) < FIGURES.FEWEST_TO_WARN:
        return
    by_shares = blend.log_loss_of_shares(split.shares(), labels, sample_weight)
    loss = blend.mean_log_loss(weights, split.scored)
    if loss < by_shares:
        return
    warn_user(
        f"the model has learnt no more than how frequent the classes are: on {len(labels)} rows left out of training "
        f"its log-loss is {loss:.4g} nats, that of the classes' shares {by_shares:.4g}. Rows may be too few for their "
        "classes, or features may say nothing of them; model='linear' with a ridge (alpha) shrinks to these shares"
    )
