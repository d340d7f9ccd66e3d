"""SoftmaxClassifier: multinomial logistic regression for very many classes."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_choice, check_flag, check_number, n_threads_from
from manyclass.estimators.auto import EMBEDDED, Shape, embeds, without_automatic
from manyclass.estimators.base import MOST_HEAD, positions_of
from manyclass.estimators.certificate import duality_gap
from manyclass.estimators.labels import LabelClassifier, is_indicator
from manyclass.estimators.tuning import resolve
from manyclass.model.mapped import MappedWeights
from manyclass.model.weights import Data, LinearWeights, Matrix
from manyclass.registry import names
from manyclass.training.full_batch import fit_full_batch
from manyclass.training.labels import Labels, check_label_parameters
from manyclass.training.passes import Callback, Schedule
from manyclass.training.sampled import MINIBATCH_IMPLICIT, MINIBATCH_POINTS, fit_sampled, row_norms_sq
from manyclass.training.validation import Validation

# learning_rate="auto", times the mean of |x|^2; 1 for all others. Explicit steps on the double sum carry the weight K/m
# of a sampled class, hence less; one-vs-each adds up K probabilities, of 1/2 at the start.
AUTO_RATE = {"umax": 0.1, "sgd": 0.01, "softplus": 0.1}
AUTO_RATE_OVE = 4.0  # over n_classes
ADAPTIVE_RATE = 0.02  # Ruiz et al. 2018, section 4
# Larger sizes fit real data faster at first (eurlex57k), but with sampling noise in u that planted data punish: of 1,
# 3, 5, 10, 30 and 100 the one that never lost to the tied step (bench/README.md).
IMPLICIT_U_RATE = 3.0
IMPLICIT = ("implicit", "bregman", MINIBATCH_IMPLICIT)


# With several labels, embeddings or a search: what must be left as it is, and what "auto" stands for.
WITH_LABELS: dict[str, tuple[Any, ...]] = {
    "solver": ("auto",),
    "alpha": ("auto", 0),
    "averaging": ("auto", "none"),
    "max_norm": (None,),
    "early_stopping": (False,),
    "parallel": ("deterministic",),
    "selection": ("frequency_block",),
}
LABEL_AUTO = {"n_negatives": 1024, "max_iter": 10, "decay": 0.9}
# What that training uses; where anything else is set, no embeddings are chosen.
OF_LABELS = {
    *("n_negatives", "frequency_power", "batch_size", "share_classes", "decay", "max_iter", "shuffle", "fit_intercept"),
    *("embedding_dim", "activation", "search", "budget", "warm_up", "log_q", "n_jobs", "random_state", "verbose"),
}


class SoftmaxClassifier(LabelClassifier):
    r"""Softmax (multinomial logistic) regression by unbiased stochastic gradients whose cost is independent of K.

    Minimises the mean log-loss

    .. math:: \frac1N \sum_i \log\Bigl(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})}\Bigr)

    over W (n_classes x n_features) and intercepts. With a number :math:`u_i` per point this is the minimum over u of
    :math:`\frac1N\sum_i [u_i + e^{-u_i}(1 + \sum_{k \ne y_i} e^{x_i \cdot (w_k - w_{y_i})})] - 1`, a sum over points
    *and* classes, so that a few sampled classes give an unbiased gradient (Fagan & Iyengar 2018, eq. 5-6).

    Parameters
    ----------
    solver : str, default="auto"
        How a step is made. "auto" is "exact" where a visit of a point is predicted to take at most 8 microseconds with
        all classes (hundreds of them, as a rule), else "implicit"; then n_negatives, max_iter, decay, averaging,
        learning_rate and alpha are chosen with it where they are "auto", by a model of costs (see bench/README.md).
        n_negatives, selection, candidates and max_norm, where given, make it "implicit". `resolved_params_` tells what
        was chosen.

        Unbiased, with the double sum over points and classes:

        - "implicit": the proximal point of the sampled objective, stable for any step size (Fagan & Iyengar 2018,
          section 3.2, for any number of negatives);
        - "minibatch_implicit": the proximal point of the sampled objective of a whole batch, ridge included (their
          appendix F.3), found by Newton's method. `batch_size` points, a split made once, share n_negatives classes
          drawn from those that are no labels of the batch; stable for any step size. Runs on one thread; formulation,
          selection, share_classes and root are not used, and max_norm, schedule="adaptive" and
          parallel="hogwild" are refused;
        - "umax": SGD in which a u_i that is certainly too small is raised first (their Algorithm 1);
        - "sgd": plain SGD on (u, W);
        - "bregman": implicit in W, Bregman proximal in e^-u, with step size u_gain;
        - "scent": SGD on W, Bregman proximal step on u (SCENT 2026), with step size u_gain;
        - "ema": e^u is a moving average of the sampled sum with gain u_gain (SOX, Wang & Yang 2022): biased O(u_gain);
        - "augment_reduce", "scgd": the same with gain (1 + visits)^-0.9 (Ruiz et al. 2018) and (1 + visits)^-2/3
          (stochastic composition, without extrapolation); their bias vanishes with the gain;
        - "softplus": exponentials replaced by log(1 + rho e^t) / rho, rho = u_gain: biased O(rho).

        Others:

        - "exact": SGD on the softmax itself, all classes in every step;
        - "css": complementary sum sampling, the sampled sum inside the logarithm (Botev et al. 2017): biased O(1/m);
        - "is": self-normalised importance sampling, the label among the candidates (Bengio & Senecal 2003): biased, and
          its scores run away unless n_negatives is a large part of all classes;
        - "ove": one-vs-each, a lower bound of the likelihood (Titsias 2016);
        - "bouchard": Bouchard's bound, its parameter solved at each step (Titsias 2016, eq. 11);
        - "nce": noise-contrastive estimation with normaliser 1 (Mnih & Teh 2012);
        - "negative_sampling": as in word2vec; its scores are not log-probabilities.
        - "lbfgs": full-batch L-BFGS in double precision over the exact gradient, to the optimum; of the parameters
          below it uses only `loss`, `alpha`, `tol`, `max_iter`, those of early stopping, `fit_intercept`, `n_jobs` and
          `verbose`. It keeps about 30 float64 copies of W.
    loss : {"softmax", "ove", "bouchard"}, default="softmax"
        What "lbfgs" minimises: the mean log-loss, or the upper bounds of it by Titsias (2016, eq. 15) and Bouchard
        (with the best parameter for each point).
    formulation : {"proposed", "raman"}, default="proposed"
        What is carried between visits of a point: u_i, or u_i + x_i.w_{y_i} (Fagan & Iyengar 2018, eq. 8). Used by
        "implicit", "umax", "sgd", "ema", "augment_reduce", "scgd" and "scent".
    selection : {"block", "uniform", "all", "frequency", "frequency_block", "head_tail"}, default="frequency_block"
        Which wrong classes a step sees. Every one is weighted so that sums over the wrong classes are unbiased;
        "exact" always uses all.

        - "frequency_block": groups of 16 neighbours in the order of the classes' frequencies, drawn with replacement
          by the group's sum of frequency ** frequency_power: 16 classes for the memory traffic of one, and most often
          those that compete;
        - "block": n_negatives neighbours in a random order of the classes;
        - "uniform": distinct uniform draws;
        - "frequency": draws with replacement by frequency ** frequency_power;
        - "head_tail": a certain head, the candidates given to `fit` or, after the first `refresh` passes, what a
          search through the weights finds, and a random block;
        - "all".
    n_negatives : int or "auto", default="auto"
        Classes per step (of the block, with "head_tail"; rounded up to a multiple of 16 with "frequency_block"); more
        than there are means all of them, or as many draws. Not used with selection="all". "auto" is 64, and 1,024 with
        several labels, embeddings or search; with solver="auto" it balances what a class costs with the noise of having
        few: 64 to 512, about sqrt(n_classes / 6 * the cost of a visit without classes in units of that of a class).
    frequency_power : float, default=0.75
        For the selections by frequency.
    n_head : int, default=16
        For selection="head_tail" without candidates: how many of its highest-scored wrong classes are found for each
        point; at most 64. Takes 4 n_samples n_head bytes. Dense data: through a `SphericalClusterIndex` whose copy
        of W is updated before each search; sparse data: by scoring all classes, as one exact pass would.
    refresh : int, default=10
        For selection="head_tail" without candidates: passes before and between searches, each of which takes the time
        of several passes.
    batch_size : int or None, default=None
        Points whose steps are made at the same weights and averaged. None: steps are made one by one or, from 1,024
        classes on, in small batches whose steps are *added*, so that threads can share the work (see `parallel`). The
        points of a step of "minibatch_implicit"; None is 10.
    share_classes : bool or None, default=None
        Let the points of a batch see the same drawn classes. None: only with search="sampled", where it makes a class
        several times as cheap; False learns more there where fewer classes are drawn than a batch has points.
    learning_rate : float, "auto" or "grid", default="auto"
        Step size on the gradient of the *mean* loss, > 0; it does not depend on n_samples. "auto" is c divided by the
        mean of \|x_i\|^2 (plus 1 with an intercept), c being 1, but 0.1 for "umax" and "softplus" and 0.01 for "sgd",
        whose steps grow with n_classes / n_negatives, 4 / n_classes for "ove", and batch_size for
        "minibatch_implicit", so that a pass moves as far as one of single points; with schedule="adaptive" it is 0.02.
        With solver="auto", c is 6 for the "implicit" that it chooses. "grid": c is the best of 0.001, 0.01, ..., 1000
        on a tenth of the points, as `manyclass.tune_learning_rate` finds it.
    u_learning_rate : float, "auto" or "tied", default="auto"
        Step size of u_i, > 0, used by "implicit", "minibatch_implicit", "umax", "sgd" and "softplus". "tied": that of
        W, as in the paper. "auto": 3 for "implicit", whose u would otherwise lag behind W (a proximal step of size r
        moves u by about r / (1 + r) of its error, and a point is visited once a pass); tied for the others, or c where
        learning_rate is "auto". Follows the same schedule.
    schedule : {"exponential", "inverse", "constant", "adaptive"}, default="exponential"
        Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), constant, or, for each
        weight, learning_rate * decay**t / sqrt(iterations) / (1 + sqrt(running mean of squared gradients)) on the
        gradient of the summed loss (Ruiz et al. 2018, section 4); "adaptive" is for explicit solvers, without ridge
        and max_norm, and takes the memory of W once more.
    decay : float or "auto", default="auto"
        Factor of the exponential and the adaptive schedule, in (0, 1]. "auto" is 0.9; with solver="auto" it is
        0.9 ** (20 / max_iter), so that every number of passes ends at the same step size.
    max_iter : int or "auto", default="auto"
        Passes over the data; iterations for "lbfgs", which needs hundreds. "auto" is 20; with solver="auto" it is 12
        for the "implicit" that it chooses.
    tol : float, default=1e-6
        "lbfgs" stops when no entry of the gradient of its objective is larger in absolute value. Not used by others.
    u_init : {"log_n_classes", "zero"}, default="log_n_classes"
        Start of every u_i: log K, exact at W = 0, or 0, as in the authors' code.
    shuffle : bool, default=True
        Visit the points in a new random order in each pass, or in the order of X.
    delta : float, default=1.0
        Slack of U-max in nats, >= 0: u_i is raised when it is more than this below its bound. Only for "umax".
    u_gain : float, default=0.5
        > 0; see the solvers "ema" (at most 1), "scent", "bregman" and "softplus". Follows the schedule for "scent" and
        "bregman".
    alpha : float or "auto", default="auto"
        Ridge per point: the objective is the mean log-loss + alpha/2 ||W||^2; intercepts are not penalised. A step
        shrinks the rows that it touches, by as much more as they are touched rarely. "auto" is 0; with solver="auto",
        in units of the mean of \|x_i\|^2: of 0, 3e-6, 1e-5, 3e-5 and 1e-4 the one with the least log-loss on a tenth of
        the points, held out for this, where trying all of them is predicted to take at most 20 seconds, 1,000 points
        are there, and no max_seconds is given (`alpha_path_` tells the log-losses); else 0.01 / n_samples.
    averaging : {"auto", "none", "polyak", "suffix"}, default="auto"
        Return the last iterate, the mean of those after each pass, or after each pass of the second half of max_iter
        (counted back from the last, only every second, third, ... pass where summing W would take more than about a
        tenth of the time of a pass). Takes the memory of W once more. "auto" is "none"; with solver="auto" it is
        "suffix" where W has at most 2 GiB.
    early_stopping : bool, default=False
        Hold points out of training, evaluate the exact log-loss on them after each pass (iteration of "lbfgs"), of the
        mean where iterates are averaged, stop when it has not fallen for `n_iter_no_change` of them, and return the
        model of the best. Takes the memory of W once more.
    validation_fraction : float, default=0.1
        Share of the points that is held out, in ]0, 1[. One point of each class always stays for training.
    n_iter_no_change : int, default=5
        See early_stopping.
    max_norm : float or None, default=None
        If given, each w_k is projected on the ball of this radius and u_i on the interval that follows from it
        (Fagan & Iyengar 2018, Lemma 2). Needs formulation="proposed", alpha=0, batch_size=None and runs on one thread.
    fit_intercept : bool, default=True
        Learn one intercept per class (a feature that is always 1).
    embedding_dim : int, None or "auto", default="auto"
        Train embeddings of the features, of this length: scores are W phi(x) + b, phi(x) being the sum of the point's
        embeddings. "auto" is None, but 192 with solver="auto" where X is sparse, W would take more than 256 MB and it
        would have more than 30 numbers for each one stored in X, if nothing is set that embeddings do not use; then
        1,024 classes are sampled, for 4 passes of decay 0.5, where these are "auto" too.
        With embeddings, with `search` or with an indicator matrix y, the loss is the cross-entropy of several labels,
        :math:`\sum_{k \in P} [\log \sum_j e^{z_j} - z_k]` (Yen et al. 2018, eq. 2), trained by minibatches of
        `batch_size` points (32) as `MarginClassifier` is: by Adagrad where learning_rate is "auto". Of the others
        above, those of the double sum are not used, and solver, alpha, averaging, early_stopping, max_norm, selection
        and parallel must keep their defaults.
    activation : {"linear", "relu"}, default="linear"
        What the sum of embeddings goes through.
    search : str, index or None, default=None
        Which classes a step sees, as of `MarginClassifier`: "exact", "sampled" (n_negatives draws by
        frequency ** frequency_power), "mips", "decomposed" or "messages". None is "exact" up to 8,192 classes, else (or
        with embeddings by "auto") "sampled". All but "exact" are biased: by the classes left out, or by the logarithm
        of a sampled sum.
    budget : int or None, default=None
        Classes that a search returns (of each block); None is K / 100.
    warm_up : int, default=1
        Passes that draw classes before the search begins.
    log_q : bool, default=True
        Divide e^z of a drawn class by how often it is expected, so that the mean of the sampled sum is the true one
        (Jean et al. 2015). Without it, and with uniform draws, it is the sampled softmax of Yen et al.
    root : {"newton", "bisection"}, default="newton"
        How the implicit step's equation is solved: safeguarded Newton, or the paper's bisection. Used by "implicit"
        and "bregman".
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    parallel : {"deterministic", "hogwild"}, default="deterministic"
        With "deterministic" the result is the same for any n_jobs: batches of points (at most one per 64 classes, and
        so few that they rarely share a label) see the same weights. Below 1,024 classes the batch is one point and
        training runs on one thread. "hogwild": threads race on W; results vary from run to run.
    random_state : int, RandomState instance or None, default=None
        Seed of the visiting order, the class order and the draws.
    verbose : int, default=0
        Above 0: a progress bar with the running loss, class updates per second and the time left.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Distinct labels, sorted.
    coef_ : ndarray of shape (n_classes, n_features), float32
        Weights; a view, not a copy.
    intercept_ : ndarray of shape (n_classes,), float32
        Intercepts; zeros without fit_intercept.
    loss_curve_ : ndarray of shape (n_iter_,), float64
        Mean over each pass of log(1 + sum over the selected classes of alpha e^d), in nats, alpha being the inverse
        inclusion probability: the log-loss while training if all classes are selected, else an estimate from below
        (by Jensen's inequality). `evaluate` gives the exact value. For "lbfgs": its objective, ridge included, after
        each iteration.
    n_iter_ : int
        Passes (iterations) completed.
    resolved_params_ : dict
        Value used for each parameter that was "auto" or "grid".
    alpha_path_ : dict
        Log-loss on held-out points by alpha, where alpha was chosen so; else empty.
    learning_rate_table_ : dict
        Held-out log-loss on the subset by learning rate, with learning_rate="grid"; else empty.
    validation_curve_ : ndarray
        With early_stopping: exact log-loss on the points held out after each pass, in nats; else empty.
    best_iter_ : int
        The pass, from 1, whose model was kept: n_iter_ without early_stopping.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has some.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import SoftmaxClassifier
    >>> X = np.eye(3, dtype=np.float32)[[0, 1, 2] * 20]
    >>> y = np.array(["ant", "bee", "cow"] * 20)
    >>> SoftmaxClassifier(random_state=0).fit(X, y).predict(X[:3]).tolist()
    ['ant', 'bee', 'cow']
    """

    resolved_params_: dict[str, Any]
    alpha_path_: dict[float, float]
    learning_rate_table_: dict[float, float]
    validation_curve_: NDArray[np.float64]
    best_iter_: int

    def __init__(
        self,
        *,
        solver: str = "auto",
        loss: str = "softmax",
        formulation: str = "proposed",
        selection: str = "frequency_block",
        n_negatives: int | str = "auto",
        frequency_power: float = 0.75,
        n_head: int = 16,
        refresh: int = 10,
        batch_size: int | None = None,
        share_classes: bool | None = None,
        learning_rate: float | str = "auto",
        u_learning_rate: float | str = "auto",
        schedule: str = "exponential",
        decay: float | str = "auto",
        max_iter: int | str = "auto",
        tol: float = 1e-6,
        u_init: str = "log_n_classes",
        shuffle: bool = True,
        delta: float = 1.0,
        u_gain: float = 0.5,
        alpha: float | str = "auto",
        averaging: str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        max_norm: float | None = None,
        fit_intercept: bool = True,
        embedding_dim: int | str | None = "auto",
        activation: str = "linear",
        search: Any = None,
        budget: int | None = None,
        warm_up: int = 1,
        log_q: bool = True,
        root: str = "newton",
        n_jobs: int | None = None,
        parallel: str = "deterministic",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.solver = solver
        self.loss = loss
        self.formulation = formulation
        self.selection = selection
        self.n_negatives = n_negatives
        self.frequency_power = frequency_power
        self.n_head = n_head
        self.refresh = refresh
        self.batch_size = batch_size
        self.share_classes = share_classes
        self.learning_rate = learning_rate
        self.u_learning_rate = u_learning_rate
        self.schedule = schedule
        self.decay = decay
        self.max_iter = max_iter
        self.tol = tol
        self.u_init = u_init
        self.shuffle = shuffle
        self.delta = delta
        self.u_gain = u_gain
        self.alpha = alpha
        self.averaging = averaging
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_norm = max_norm
        self.fit_intercept = fit_intercept
        self.embedding_dim = embedding_dim
        self.activation = activation
        self.search = search
        self.budget = budget
        self.warm_up = warm_up
        self.log_q = log_q
        self.root = root
        self.n_jobs = n_jobs
        self.parallel = parallel
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Data,
        y: Any,
        *,
        candidates: ArrayLike | None = None,
        callback: Callback | None = None,
        max_seconds: float | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; made float32. Sparse data train feature-major weights, dense data class-major ones.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_classes)
            Labels of any sortable type, at least two distinct ones; or 0 and 1, dense or sparse, for several labels a
            row: see `embedding_dim`. Rows without a label are left out then.
        candidates : array-like of shape (n_samples, n_candidates), default=None
            Labels that make the certain head of each point, for selection="head_tail"; the true label among them does
            no harm. By default heads are searched for between passes.
        callback : callable, default=None
            Called after each pass with a `TrainingState`; training stops when it returns True.
        max_seconds : float, default=None
            Training stops after this time, counted without callbacks, even within a pass (checked about every 0.2
            seconds); where it does depends on the clock. `n_iter_` and `loss_curve_` count whole passes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of its range, non-finite or wrongly shaped data, or fewer than two classes.

        Warns
        -----
        ConvergenceWarning
            If training diverged or was interrupted, the model being the one reached before; or if "lbfgs" ended with a
            gradient larger than `tol`.
        """
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, low=0)
        if is_indicator(y) or self.embedding_dim not in (None, "auto") or self.search is not None:
            self._check_with_labels(candidates)
            return self._fit_by_labels(*self._labelled_data(X, y), callback, max_seconds)
        self._check_parameters()
        x, labels, classes = self._training_data(X, y)
        self.classes_, self.multilabel_, self.n_labels_ = classes, False, 1
        if candidates is None and self._may_embed() and embeds(Shape.of(x, len(classes))):
            return self._fit_by_labels(x, Labels.single(labels), callback, max_seconds)
        candidates = self._candidates(candidates, classes, len(labels))
        plan, notes = resolve(
            self, x, labels, len(classes), candidates=candidates is not None, timed=max_seconds is not None
        )
        validation = None
        if self.early_stopping:
            validation, rows = Validation.of(plan, x, labels, n_threads_from(self.n_jobs))
            x, labels = x[rows], labels[rows]
            candidates = None if candidates is None else candidates[rows]
        self._weights, curve = plan._train(
            x,
            labels,
            len(classes),
            candidates=candidates,
            callback=callback,
            max_seconds=np.inf if max_seconds is None else max_seconds,
            validation=validation,
        )
        self.loss_curve_ = np.array(curve)
        self.n_iter_ = len(curve)
        self.validation_curve_ = np.array(validation.curve if validation else [])
        self.best_iter_ = validation.best_iter if validation else self.n_iter_
        self.resolved_params_ = notes.params
        self.alpha_path_ = notes.alpha_path
        self.learning_rate_table_ = notes.learning_rates
        return self

    def _refused_with_labels(self) -> str | None:
        """The first parameter of the double sum that is not left as it is."""
        return next((name for name, allowed in WITH_LABELS.items() if getattr(self, name) not in allowed), None)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._refused_with_labels() is None
        return tags

    def _check_with_labels(self, candidates: ArrayLike | None) -> None:
        refused = self._refused_with_labels()
        if refused:
            raise ValueError(
                f"{refused} is {getattr(self, refused)!r}; with several labels, embedding_dim or search it must be "
                f"{WITH_LABELS[refused][0]!r}"
            )
        if candidates is not None:
            raise ValueError("candidates are given; they are for selection='head_tail' without embeddings or search")

    def _may_embed(self) -> bool:
        """Whether nothing is set that embeddings have no use for."""
        defaults = SoftmaxClassifier().get_params(deep=False)
        others = defaults.keys() - OF_LABELS
        return self.embedding_dim == "auto" and all(getattr(self, name) == defaults[name] for name in others)

    def _fit_by_labels(self, x: Matrix, labels: Labels, callback: Callback | None, max_seconds: float | None) -> Self:
        """Fit with several labels, embeddings or a search: another loop, without the parameters of the double sum."""
        plan = copy.copy(self)
        embedded = self.embedding_dim == "auto" and embeds(Shape.of(x, len(self.classes_)))
        chosen = EMBEDDED if embedded else {"embedding_dim": None, **LABEL_AUTO}
        params = {name: value for name, value in chosen.items() if getattr(self, name) == "auto"}
        plan.set_params(**params)
        if embedded and plan.search is None:
            plan.search = "sampled"
        self._fit_labels(x, labels, plan, loss="cross_entropy", callback=callback, max_seconds=max_seconds)
        self.resolved_params_ = params
        self.validation_curve_, self.best_iter_ = np.zeros(0), self.n_iter_
        self.alpha_path_, self.learning_rate_table_ = {}, {}
        return self

    def _train(
        self,
        x: Matrix,
        labels: NDArray[np.int32],
        n_classes: int,
        *,
        candidates: NDArray[np.int32] | None = None,
        callback: Callback | None = None,
        max_seconds: float = np.inf,
        validation: Validation | None = None,
    ) -> tuple[LinearWeights, list[float]]:
        """Train with the parameters as they stand, none of them "auto" but step sizes."""
        n_threads = n_threads_from(self.n_jobs)
        if self.solver == "lbfgs":
            weights, objective, _ = fit_full_batch(
                x,
                labels,
                n_classes,
                loss=self.loss,
                alpha=self.alpha,
                fit_intercept=self.fit_intercept,
                max_iter=self.max_iter,
                tol=self.tol,
                n_threads=n_threads,
                verbose=self.verbose,
                callback=callback,
                max_seconds=max_seconds,
                validation=validation,
            )
            return weights, objective.tolist()
        x_sq = row_norms_sq(x)
        return fit_sampled(
            self,
            x,
            labels,
            n_classes,
            schedule=self._schedule(x_sq, n_classes),
            x_sq=x_sq,
            n_threads=n_threads,
            candidates=candidates,
            callback=callback,
            max_seconds=max_seconds,
            validation=validation,
        )

    def _check_parameters(self) -> None:
        check_flag("early_stopping", self.early_stopping)
        check_number("validation_fraction", self.validation_fraction, low=0, open_low=True, high=0.99)
        check_number("n_iter_no_change", self.n_iter_no_change, low=1, integer=True)
        if isinstance(self.learning_rate, str):
            check_choice("learning_rate", self.learning_rate, ("auto", "grid"))
        without_automatic(self)._check_values(self.solver)

    def _check_values(self, asked: str) -> None:
        check_label_parameters(self)
        check_choice("solver", self.solver, (*names("solver"), "lbfgs"))
        check_choice("loss", self.loss, names("full_batch_loss"))
        if self.loss != "softmax" and self.solver != "lbfgs":
            raise ValueError(f"loss is {self.loss!r} and solver {asked!r}; such a loss needs solver='lbfgs'")
        check_choice("formulation", self.formulation, names("formulation"))
        self._check_sampling()
        check_number("refresh", self.refresh, low=1, integer=True)
        check_choice("root", self.root, names("root"))
        check_choice("u_init", self.u_init, ("log_n_classes", "zero"))
        if isinstance(self.u_learning_rate, str):
            check_choice("u_learning_rate", self.u_learning_rate, ("auto", "tied"))
        else:
            check_number("u_learning_rate", self.u_learning_rate, low=0, open_low=True)
        check_number("delta", self.delta, low=0)
        check_number("tol", self.tol, low=0)
        check_number("u_gain", self.u_gain, low=0, open_low=True, high=1 if self.solver == "ema" else np.inf)
        if self.solver in ("is", "nce") and self.selection == "head_tail":
            raise ValueError(
                f"solver={self.solver!r} draws the label too, which selection='head_tail' cannot; choose another"
            )
        if self.solver == MINIBATCH_IMPLICIT and (self.max_norm is not None or self.parallel != "deterministic"):
            raise ValueError(
                "solver='minibatch_implicit' needs max_norm=None and parallel='deterministic'; they are "
                f"{self.max_norm!r} and {self.parallel!r}"
            )
        if self.schedule == "adaptive" and (self.solver in IMPLICIT or self.alpha > 0 or self.max_norm is not None):
            raise ValueError(
                "schedule='adaptive' needs a solver other than 'auto', 'implicit', 'bregman' and 'minibatch_implicit', "
                f"alpha=0 and max_norm=None; they are {asked!r}, {self.alpha!r} and {self.max_norm!r}"
            )
        if self.max_norm is not None:
            check_number("max_norm", self.max_norm, low=0, open_low=True)
            if (
                self.formulation != "proposed"
                or self.parallel != "deterministic"
                or self.alpha > 0
                or self.batch_size is not None
            ):
                raise ValueError(
                    "max_norm needs formulation='proposed', parallel='deterministic', alpha=0 and batch_size=None; "
                    f"they are {self.formulation!r}, {self.parallel!r}, {self.alpha!r} and {self.batch_size!r}"
                )

    def _candidates(
        self, candidates: ArrayLike | None, classes: NDArray[Any], n_samples: int
    ) -> NDArray[np.int32] | None:
        if candidates is None:
            return None
        if self.selection != "head_tail":
            raise ValueError(f"candidates need selection='head_tail'; it is {self.selection!r}")
        candidates = np.asarray(candidates)
        if candidates.ndim != 2 or len(candidates) != n_samples or not 1 <= candidates.shape[1] <= MOST_HEAD:
            raise ValueError(
                f"candidates have shape {candidates.shape}; it must be ({n_samples}, h) with h from 1 to {MOST_HEAD}"
            )
        return positions_of(candidates, classes, "candidates")

    def _schedule(self, x_sq: NDArray[np.float32], n_classes: int) -> Schedule:
        if isinstance(self.learning_rate, str):
            relative = AUTO_RATE_OVE / n_classes if self.solver == "ove" else AUTO_RATE.get(self.solver, 1.0)
            if self.solver == MINIBATCH_IMPLICIT:
                relative = float(min(self.batch_size or MINIBATCH_POINTS, len(x_sq)))
            mean_sq = float(x_sq.mean()) + bool(self.fit_intercept)
            tiny = float(np.finfo(np.float32).tiny)
            rate = ADAPTIVE_RATE if self.schedule == "adaptive" else relative / max(mean_sq, tiny)
        else:
            relative = rate = float(self.learning_rate)
        if self.solver in ("bregman", "scent"):
            u_rate = float(self.u_gain)
        elif not isinstance(self.u_learning_rate, str):
            u_rate = float(self.u_learning_rate)
        elif self.u_learning_rate == "auto":
            u_rate = IMPLICIT_U_RATE if self.solver == "implicit" else relative
        else:
            u_rate = rate
        return Schedule(self.schedule, rate, u_rate, self.decay)

    def certificate(self, X: ArrayLike, y: ArrayLike) -> dict[str, float]:
        """Bound how far the model is from the optimum of the mean log-loss + alpha/2 ||W||^2 on these data.

        Takes one exact pass over all points and classes in double precision for the loss, two for the bound, and up to
        eight to balance the intercepts, none with an (n_samples, n_classes) array.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The training data, as a rule.
        y : array-like of shape (n_samples,)
            Their labels, all among `classes_`.

        Returns
        -------
        dict
            "primal": the objective of this model; "dual": a lower bound of the smallest objective that any W (and
            intercepts, where they are learned) has on X and y; "gap": primal - dual >= 0. In nats per point. With
            alpha=0 the dual is 0.

        Raises
        ------
        ValueError
            If X and y differ in length or y has a label unseen in fit.
        """
        check_is_fitted(self, "_weights")
        if isinstance(self._weights, MappedWeights):
            raise ValueError("the model was fitted with several labels, embedding_dim or search; it has no certificate")
        x = self._validated(X)
        return duality_gap(
            self._weights,
            x,
            self._labels_of(y, x),
            alpha=self.resolved_params_.get("alpha", self.alpha),
            fit_intercept=self.fit_intercept,
            n_threads=n_threads_from(self.n_jobs),
        )
