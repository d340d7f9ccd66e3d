"""What a training needs to know beside the data: frozen, typed, and with nothing left open.

An estimator makes a plan of its parameters (fitting/planner.py) and hands it down; training knows no estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manyclass import _core
from manyclass.weights.arrays import Doubles, Ids, Matrix

MINIBATCH_IMPLICIT = "minibatch_implicit"  # the one solver whose step is that of a batch
MINIBATCH_POINTS = 10  # of a step of the solver "minibatch_implicit", where its batch_size is None


@dataclass(frozen=True)
class Labels:
    """The labels of all points: those of point i are `ids[indptr[i]:indptr[i + 1]]`, sorted and distinct."""

    indptr: NDArray[np.int64]
    ids: Ids

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def mean(self) -> float:
        """Return the mean number of labels a row."""
        return len(self.ids) / len(self)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the point of each label, in `ids`' order."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @classmethod
    def single(cls, labels: Ids) -> Labels:
        """Return labels of which each point has one."""
        return cls(np.arange(len(labels) + 1, dtype=np.int64), labels.astype(np.int32, copy=False))

    def some(self, points: NDArray[np.int64]) -> list[Ids]:
        """Return the lists of some points."""
        return [self.ids[self.indptr[i] : self.indptr[i + 1]] for i in points]

    def of(self, points: NDArray[np.int64]) -> Labels:
        """Return the labels of some points."""
        ones = np.ones(len(self.ids), dtype=np.int8)
        chosen = sp.csr_array((ones, self.ids, self.indptr))[points]
        return Labels(chosen.indptr.astype(np.int64), chosen.indices.astype(np.int32))

    def known_from(self, known: Labels) -> NDArray[np.bool_]:
        """Return which points have labels of `others` only."""
        n_classes = max(int(self.ids.max(initial=0)), int(known.ids.max(initial=0))) + 1
        unknown = np.ones(n_classes, dtype=bool)
        unknown[known.ids] = False
        return np.asarray(np.add.reduceat(unknown[self.ids], self.indptr[:-1]) == 0)


class ScoredRows(NamedTuple):
    """Rows that models were not trained on, by whose scores they are compared.

    Attributes
    ----------
    x : csr_array or ndarray
    labels : Labels
    n_threads : int
    weights : ndarray of shape (n_rows,), float64, or None
    """

    x: Matrix
    labels: Labels
    n_threads: int = 1
    weights: Doubles | None = None

    def some(self, rows: NDArray[np.intp]) -> ScoredRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return self._replace(x=self.x[rows], labels=self.labels.of(rows), weights=weights)


# Which rows are held out, to tell what those that are trained on cannot: of persons, typefaces or visits whole groups.
# A model that was trained on the others of a group knows more of a row than it will of rows to be predicted, so that
# rows held out by themselves praise what memorises. Scales, temperatures, early stopping, trials and folds ask here.

GroupIds = NDArray[np.int64]  # of each row the number of its group
Random = np.random.RandomState | np.random.Generator


def draw_rows_out(
    n_out: int, n_rows: int, random: Random, groups: GroupIds | None = None, labels: Labels | None = None
) -> NDArray[np.bool_]:
    """Draw which rows are held out.

    Groups are drawn at random, whole, until they have n_out rows; one is drawn in any case, a smallest one where all
    have more. Where each group has a label that no other one has, rows of such labels stay in training.

    Parameters
    ----------
    n_out : int
        Rows to hold out at most.
    n_rows : int
        Rows that there are.
    random : RandomState or Generator
    groups : ndarray of shape (n_rows,) or more, int64, or None
        None, or one group alone: each row stands by itself.
    labels : Labels or None
        Every label keeps a row that is not held out; None: it need not.

    Returns
    -------
    ndarray of shape (n_rows,), bool
    """
    groups = None if groups is None else groups[:n_rows]
    if groups is None or (groups == groups[:1]).all():
        if labels is not None:
            return _core.spare_points(labels.indptr, labels.ids, random.permutation(n_rows), n_out)
        is_out = np.zeros(n_rows, dtype=bool)
        is_out[random.choice(n_rows, n_out, replace=False)] = True
        return is_out
    _, positions, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = shuffle_groups(sizes, n_out, random)
    if labels is not None:
        order = order[_groups_to_spare(labels, positions, order)[order]]
        if not len(order):  # no label is in two of the groups
            return draw_rows_out(n_out, n_rows, random, None, labels)
    is_out = first_groups(sizes, order, n_out)[positions]
    return is_out if labels is None else spare_labels(is_out, labels)


def held_out(
    labels: Ids | Labels, fraction: float, random: np.random.RandomState, groups: GroupIds | None = None
) -> NDArray[np.bool_]:
    """Draw which points validate: a share of all, but of every class at least one point stays for training.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), or Labels
        Classes, in [0, n_classes): one of each point, or several.
    fraction : float
        The share of all points, in ]0, 1[. Fewer are held out where too few classes have two points.
    random : RandomState
    groups : ndarray of shape (n_samples,), int64, or None
        Whose points are held out together.

    Returns
    -------
    ndarray of shape (n_samples,), bool

    Raises
    ------
    ValueError
        If no class has two points.
    """
    lists = labels if isinstance(labels, Labels) else Labels.single(labels)
    is_out = draw_rows_out(max(1, round(fraction * len(labels))), len(labels), random, groups, lists)
    if not is_out.any():
        raise ValueError("early_stopping needs a class with at least two points, one of which can be held out")
    return is_out


def shuffle_groups(sizes: NDArray[np.int64], n_out: int, random: Random) -> NDArray[np.intp]:
    """Return groups in random order, but the largest ones, of more rows than are to be held out, last."""
    order = random.permutation(len(sizes))
    return order[np.argsort(np.where(sizes > n_out, sizes, 0)[order], kind="stable")]


def first_groups(sizes: NDArray[np.int64], order: NDArray[np.intp], n_out: int) -> NDArray[np.bool_]:
    """Return which groups come first in an order: one, or as many as have n_out rows at most."""
    n_drawn = np.searchsorted(np.cumsum(sizes[order]), n_out, side="right")
    is_drawn = np.zeros(len(sizes), dtype=bool)
    is_drawn[order[: max(1, n_drawn)]] = True
    return is_drawn


def spare_labels(is_out: NDArray[np.bool_], labels: Labels) -> NDArray[np.bool_]:
    """Return the rows that are held out but for those with a label that no other row has."""
    return is_out & labels.known_from(labels.of(np.flatnonzero(~is_out)))


def _groups_to_spare(labels: Labels, positions: NDArray[np.intp], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return groups without which every label is left; where there are none, those with a label that others have."""
    n_groups, pairs = len(order), _groups_with_labels(labels, positions)
    indptr, ids = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32)
    keeps_labels = _core.spare_points(indptr, ids, order[::-1].astype(np.int64), n_groups)
    if keeps_labels.any():
        return keeps_labels
    is_shared = (np.bincount(pairs.indices) > 1)[labels.ids]
    rows = np.add.reduceat(~is_shared, labels.indptr[:-1]) == 0
    return np.bincount(positions, rows, minlength=n_groups) > 0


def _groups_with_labels(labels: Labels, positions: NDArray[np.integer[Any]]) -> Any:
    """Return which groups have which labels: a matrix that stores each pair once."""
    pairs: Any = sp.csr_array((np.ones(len(labels.ids), np.int8), (positions[labels.rows], labels.ids)))
    pairs.sum_duplicates()
    return pairs


def can_hold_out_groups(labels: Labels, groups: GroupIds) -> bool:
    """Whether a label is in two groups, so that one of them can be held out and tell of what the other has taught."""
    return bool((np.bincount(_groups_with_labels(labels, groups).indices) > 1).any())


def join_groups(parts: Sequence[GroupIds | None]) -> GroupIds | None:
    """Return the groups of rows that come one part after the other, none of which has a group of another."""
    sizes = [0 if groups is None else int(groups.max(initial=-1)) + 1 for groups in parts]
    firsts = np.cumsum([0, *sizes])
    shifted = [groups + first for groups, first in zip(parts, firsts, strict=False) if groups is not None]
    return np.concatenate(shifted) if len(shifted) == len(parts) else None


def draw_folds(
    labels: Ids, n_folds: int, random: np.random.RandomState, groups: GroupIds | None = None
) -> NDArray[np.intp]:
    """Draw which fold a row is held out in, (n_rows,): whole groups, or each class in turn.

    It is -1 for rows that are in none, as no row of their class would be left.
    """
    if groups is None or (groups == groups[:1]).all():
        return _core.folds_of(labels, random.permutation(len(labels)), n_folds)
    _, positions, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of_group = np.empty(len(sizes), dtype=np.intp)
    fold_of_group[order] = np.arange(len(sizes)) % n_folds
    folds = fold_of_group[positions]
    n_rows = np.zeros((n_folds, labels.max() + 1), dtype=np.int64)
    np.add.at(n_rows, (folds, labels), 1)
    folds[n_rows[folds, labels] == n_rows.sum(axis=0)[labels]] = -1
    return folds


@dataclass
class Schedule:
    """Step sizes by pass.

    Attributes
    ----------
    name : str
    learning_rate : float
        The step size of W in the first pass.
    u_learning_rate : float
        That of u.
    decay : float
        Factor of each pass.
    decay_every : int or None
        Batches after which the factor comes instead, with "adaptive"; with "inverse" the core divides the step size by
        1 + the number of these times.
    """

    name: str
    learning_rate: float
    u_learning_rate: float
    decay: float
    decay_every: int | None = None

    def at(self, epoch: int, n_batches: int = 1) -> tuple[float, float]:
        """Return the step sizes of W and of u at the beginning of pass `epoch`, each pass being `n_batches`."""
        if self.name == "inverse" and self.decay_every is not None:
            return self.learning_rate, self.u_learning_rate
        falls = epoch if self.decay_every is None else epoch * n_batches // self.decay_every
        factor = _core.step_size(self.name, 1.0, self.decay, falls)
        return self.learning_rate * factor, self.u_learning_rate * factor

    def kept_above(self, least: float, n_passes: int) -> Schedule:
        """Return the step sizes of a call, none below `least`."""
        raised = _core.steps_kept_above(self.at(0)[0], self.at(n_passes - 1)[0], least, n_passes)
        if raised is None:
            return self
        first, decay = raised
        ratio = self.u_learning_rate / self.learning_rate
        return replace(self, learning_rate=first, u_learning_rate=first * ratio, decay=decay)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What all trainings by passes share.

    Attributes
    ----------
    schedule : Schedule
    max_iter : int
        Passes.
    batch_size : int or None
        As the user gave it.
    share_classes : bool or None
        As the user gave it.
    shuffle : bool
    fit_intercept : bool
    seed : int
        The seed of all draws.
    n_threads : int
    verbose : int
    by_points : bool
        Whether it is a `PointsPlan`, whose iterates may be averaged, and whose u may have a step size of its own.
    """

    schedule: Schedule
    max_iter: int
    batch_size: int | None
    shuffle: bool
    share_classes: bool | None
    fit_intercept: bool
    seed: int
    n_threads: int
    verbose: int

    by_points: ClassVar[bool] = False

    def shared_with(self, name: str) -> dict[str, Any]:
        """Return the fields that a struct or a function of the core has, too."""
        return {field: value for field, value in vars(self).items() if field in _core.fields[name]}

    def with_steps_over(self, divisor: float) -> Self:
        """Return the plan with its step size divided; that of u follows where it is tied to it."""
        old = self.schedule
        rate, u_rate = old.learning_rate / divisor, old.u_learning_rate / divisor
        if self.by_points and old.u_learning_rate != old.learning_rate:
            u_rate = old.u_learning_rate
        return replace(self, schedule=replace(old, learning_rate=rate, u_learning_rate=u_rate))

    def ended_after(self, n_passes: int) -> Self:
        """Return the plan whose model is the iterate, and no average, after some of its passes."""
        unaveraged: dict[str, Any] = {"averaging": "none"} if self.by_points else {}
        return replace(self, max_iter=n_passes, **unaveraged)

    def check_sharing(self, batch: int) -> None:
        """Raise where classes were to be shared by the points of a batch and a batch has one point."""
        if self.share_classes and batch == 1:
            raise ValueError(f"share_classes is True, which has no effect here: batch_size is {self.batch_size!r}")


@dataclass(frozen=True)
class Utility:
    """Augment and reduce.

    Attributes
    ----------
    noise : str
        The noise of the utilities.
    local_step : str
    family : LocalFamily or None
        The family of q, its rule for expectations and where points start; none for Gumbel noise. The latent variable
        is the noise e of the label's utility, q(e) its approximate posterior given the label: e = mu + s v with v
        standard normal, logistic or Gumbel (Ruiz et al. 2018, eq. 6-7).
    gain : float
        The gain of the local step.
    gain_power : float
        Its power.
    floor : float
        Its least value.
    start : {"best", "standard"}
        Where q of a point begins: as the family says, or with mean 0 and scale 1.
    """

    noise: str
    local_step: str
    family: _core.LocalFamily | None
    gain: float
    gain_power: float
    floor: float
    start: str = field(default="best", repr=False)  # as `posterior` in `PointsPlan`


FORMULATIONS = ("proposed", "raman")  # what is carried, u + a x.w_y, at a = 0, 1; as the registry has them


def formulation_of(value: str | float) -> str | float:
    """Return the name of what is carried where it has one, else the number a of u + a x.w_y."""
    return FORMULATIONS[int(value)] if value in (0, 1) else value


def carry_of(formulation: str | float) -> float:
    """Return the a of what is carried, u + a x.w_y."""
    return float(FORMULATIONS.index(formulation) if isinstance(formulation, str) else formulation)


@dataclass(frozen=True, kw_only=True)
class PointsPlan(Plan):
    """Training point by point on a linear model: see the parameter objects of `manyclass.solvers` and `samplers`.

    Attributes
    ----------
    solver : str
    root : str
    partition : str
    u_init : str
    averaging : str
    formulation : {"proposed", "raman"} or float
        What is carried: u, the log-normaliser u + x.w_y, or u + a x.w_y for the number a.
    sampler : str
    n_negatives : int
    options : mapping of str to float
        The numbers that the solver and the sampler own, for the core.
    n_head : int
        Of the sampler "head_tail".
    refresh : int
        Of the sampler "head_tail".
    alpha : float
        Ridge.
    max_norm : float or None
    hogwild : bool
    utility : Utility or None
    by_curvature : bool
        Whether the steps of a training that goes on fall by the curvature of the rows so far, from the step size of the
        schedule on, and by nothing else.
    posterior : bool
        Whether a Gaussian posterior of W is trained.
    bound : {"augment_reduce", "one_vs_each"}
        What stands for the log-likelihood in it.
    discriminant : bool
        Whether a training without other first weights begins at those of linear discriminant analysis.
    """

    solver: str
    formulation: str | float = "proposed"
    root: str = "newton"
    partition: str = "fixed"
    u_init: str = "log_n_classes"
    averaging: str
    sampler: str
    n_negatives: int
    options: Mapping[str, float] = field(default_factory=dict)
    n_head: int = 16
    refresh: int = 10
    alpha: float
    max_norm: float | None = None
    hogwild: bool = False
    utility: Utility | None = None
    by_curvature: bool = field(default=False, repr=False)
    posterior: bool = field(default=False, repr=False)  # checkpoints know a plan by its repr; parameters say this
    bound: str = field(default="augment_reduce", repr=False)
    discriminant: bool = field(default=False, repr=False)

    by_points: ClassVar[bool] = True

    @property
    def points_of_step(self) -> int | None:
        """Points that make a step together, where it is a batch that does."""
        return self.batch_size or (MINIBATCH_POINTS if self.solver == MINIBATCH_IMPLICIT else None)

    @property
    def each_by_curvature(self) -> bool:
        """Whether each weight has a step size of its own, by curvature."""
        return self.by_curvature and self.solver != MINIBATCH_IMPLICIT and self.max_norm is None

    def falling(self, n_classes: int, before: Doubles, now: Doubles) -> Schedule:
        """Return the steps of a call that fall by curvature where the core's do not: alike for all weights of a pass.

        `before` and `now` are sums of squares of features, see `Squares`. A step for a batch is the mean of those of
        its points, so that its size is as many times that of one.
        """
        schedule = self.schedule
        per_sum = schedule.learning_rate / (_core.curvature_gain * (self.points_of_step or 1) * n_classes)
        factor, decay = _core.steps_by_sums(before, now, per_sum, self.max_iter)
        return Schedule("exponential", schedule.learning_rate * factor, schedule.u_learning_rate * factor, decay)


@dataclass(frozen=True)
class DoubleSum:
    """Steps of minibatches on the double sum, with a number for each point.

    Attributes
    ----------
    rule : str
        The solver that moves the number.
    options : mapping of str to float
        Numbers that the rule owns.
    reduction : {"pick_all", "pick_all_normalized", "decoupled"}
        How the labels of a row share a loss.
    formulation : {"proposed", "raman"} or float
        As in `PointsPlan`, x.w_y being the mean score of the labels.
    u_init : {"log_n_classes", "zero"}
    step : float
        Step size of the number, in units of that of W.
    """

    rule: str
    options: Mapping[str, float]
    reduction: str
    formulation: str | float
    u_init: str
    step: float


def core_plan(plan: PointsPlan, n_classes: int, **more: Any) -> _core.Plan:
    """Return the core's plan, with `more` of its fields: `batch` points see the same weights.

    Others may be `u_max`, the most that u can be; `first_point`, from which on the draws of points are named; and
    `exact_first_u`, whether a u of NaN begins at its exact value or at what its own draw makes of it.
    """
    fields = plan.shared_with("Plan") | {
        "selection": plan.sampler,
        "n_negatives": min(plan.n_negatives, n_classes),
        "options": dict(plan.options),
        "mean_of_batch": plan.batch_size is not None,
        "hogwild": plan.hogwild and plan.n_threads > 1,
        "ridge": plan.alpha,
        "decay": plan.schedule.decay,
        "decay_every": plan.schedule.decay_every,
        "isa": "auto",
    }
    utility = plan.utility
    if utility is not None:
        fields |= {name: getattr(utility, name) for name in ("noise", "local_step", "gain", "floor")}
        fields |= {"power": utility.gain_power, "family": utility.family}
    return _core.Plan(**fields, **more)


@dataclass(frozen=True, kw_only=True)
class BatchesPlan(Plan):
    """Training by minibatches on embeddings, several labels, or searches.

    Attributes
    ----------
    loss : {"cross_entropy", "pick_all_normalized", "decoupled", "logistic", "margin", "triplet"}
    smoothing : float
        How smooth the margin is.
    implicit : bool
        Whether steps are implicit.
    adagrad : bool
        Whether they are Adagrad's; neither: plain SGD.
    source : {"exact", "sampled", "mips", "decomposed", "messages"}
        Which wrong classes a step sees.
    sampler : str
        What draws, for "sampled" and the passes before a search.
    options : mapping of str to float
        The numbers that the sampler owns.
    n_negatives : int
    log_q : bool
        Whether the weights of drawn classes enter the loss.
    double_sum : DoubleSum or None
        None: the logarithm of a sampled sum, or a margin.
    index : index of manyclass.search, or None
        An example of the index to search with.
    budget : int
        Classes that a search returns.
    n_iter : int
        For "messages": their rounds.
    step : str
        For "messages": how each steps.
    tolerance : float
        For "messages": the gradient from which a class is active.
    message_rule : {"exact_scores", "printed"}
        For "messages": what an active class brings to all blocks.
    threshold : float or None
        For "messages": block scores above it in magnitude are found, in place of the `budget` highest ones.
    fill : bool
        Whether a search reads clusters until they hold `budget` classes, in place of a fixed number of them.
    warm_up : int
        Passes that draw before the search begins.
    dim : int or None
        The length of embeddings; None: a linear model.
    relu : bool
    row_length : float or None
        What the first embeddings and their steps have for the unit of rows: a power of two. None: the length of
        centred rows, which a hidden layer of dense rows has for its own, and its ridge, too.
    alpha : float
        Ridge of W, and of the embeddings.
    finds_scale : bool
        Whether rows that it was not trained on tell the scale of its scores: of margins, which it makes those of a
        softmax, and in streams, whose first rows make a model too sure of itself.
    """

    loss: str
    smoothing: float = 0.0
    implicit: bool = False
    adagrad: bool = True
    source: str
    sampler: str
    options: Mapping[str, float] = field(default_factory=dict)
    n_negatives: int
    log_q: bool
    double_sum: DoubleSum | None = None
    index: BaseEstimator | None = None
    budget: int
    n_iter: int = 1
    step: str = "full"
    tolerance: float = 1e-3
    message_rule: str = field(default="exact_scores", repr=False)  # as `posterior` in `PointsPlan`
    threshold: float | None = field(default=None, repr=False)
    fill: bool = field(default=False, repr=False)
    warm_up: int = 1
    dim: int | None
    relu: bool = False
    row_length: float | None = field(default=1.0, repr=False)  # as `posterior` in `PointsPlan`
    finds_scale: bool = field(default=False, repr=False)  # as `posterior` in `PointsPlan`
    alpha: float = field(default=0.0, repr=False)


@dataclass(frozen=True, kw_only=True)
class PairsPlan(Plan):
    """Training of weights on the pairs of a feature and a class that occur together.

    Attributes
    ----------
    loss : {"cross_entropy", "pick_all_normalized", "decoupled", "logistic", "margin"}
    smoothing : float
        How smooth the margin is.
    offset : float
        What is added to Adagrad's sums of squares.
    rounding : float
        Smaller gradients are rounded at random.
    min_count : int
        Rows that a pair must have.
    few_classes : int
        Of a feature that occurs with at most this many classes all pairs have weights.
    prune : float
        Share of the weights that are dropped in the end.
    alpha : float
        Ridge of the weights.
    hogwild : bool
    """

    loss: str
    offset: float
    rounding: float
    min_count: int
    few_classes: int = field(default=0, repr=False)  # as `posterior` in `PointsPlan`
    prune: float
    smoothing: float = field(default=0.0, repr=False)
    alpha: float = field(default=0.0, repr=False)
    hogwild: bool = False

    @property
    def finds_scale(self) -> bool:
        """As in `BatchesPlan`."""
        return self.loss == "margin"


@dataclass(frozen=True)
class HybridPlan:
    """Training of members whose scores are added, with shares that rows held out tell.

    Attributes
    ----------
    pairs : PairsPlan or None
        Weights on pairs; None: embeddings alone.
    embeddings : tuple of BatchesPlan
        Runs of embeddings, of several seeds.
    margins : BatchesPlan or None
        A linear model by margins.
    linear : PointsPlan or None
        A linear model by exact steps; its step size is over the mean of |x|^2 + 1, its ridge times that of |x|^2.
    ridge : float or None
        The ridge that a run of embeddings has where the rows held out say that the first one is too sure of itself;
        None: all have that of their plans.
    more_passes : int
        How many times the passes a run makes where the rows held out say that the first one has learnt too little.
    repeats : bool
        Whether classes may have a common weight for the features that are these classes themselves.
    counts : bool
        Whether counts of the pairs may be mixed in.
    """

    pairs: PairsPlan | None
    embeddings: tuple[BatchesPlan, ...]
    margins: BatchesPlan | None = None
    linear: PointsPlan | None = None
    ridge: float | None = None
    more_passes: int = 1
    repeats: bool = True
    counts: bool = True

    @property
    def members(self) -> dict[str, PairsPlan | BatchesPlan | PointsPlan]:
        """All, by the names that a report has."""
        several = len(self.embeddings) > 1
        runs = {f"embeddings {n + 1}" if several else "embeddings": run for n, run in enumerate(self.embeddings)}
        plans = {"pairs": self.pairs, **runs, "margins": self.margins, "linear": self.linear}
        return {name: plan for name, plan in plans.items() if plan is not None}

    @property
    def seed(self) -> int:
        """The seed of the first member."""
        return self.embeddings[0].seed if self.pairs is None else self.pairs.seed

    @property
    def n_threads(self) -> int:
        """All members are trained by as many threads."""
        return self.embeddings[0].n_threads

    @property
    def max_iter(self) -> int:
        """The curve has the losses of the passes of weights on pairs, if there are any."""
        return self.embeddings[0].max_iter if self.pairs is None else self.pairs.max_iter


@dataclass(frozen=True, kw_only=True)
class FullBatchPlan:
    """L-BFGS over the exact gradient.

    Attributes
    ----------
    loss : {"softmax", "ove", "bouchard"}
    alpha : float
    tol : float
    max_iter : int
        Iterations.
    fit_intercept : bool
    n_threads : int
    verbose : int
    """

    loss: str
    alpha: float
    tol: float
    max_iter: int
    fit_intercept: bool
    n_threads: int
    verbose: int


AnyPlan = PointsPlan | BatchesPlan | PairsPlan | HybridPlan | FullBatchPlan
