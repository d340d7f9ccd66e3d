"""ChoiceClassifier: discrete choice models with features of alternatives, choice sets and standard errors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from manyclass.checks import check_choice, check_number, n_threads_from, seed_from, set_named, shown
from manyclass.choice import files, identification
from manyclass.choice.drawn import MOST_PASSES, fit_drawn
from manyclass.choice.fitted_model import FittedChoiceModel
from manyclass.choice.fitting import (
    PARTS,
    ChoiceFit,
    ChoiceForm,
    ChoiceMixture,
    ChoiceObjective,
    ChoiceState,
    DescentLimits,
    FreeCoefficients,
    Identification,
    find_free_coefficients,
    fit_exactly,
    list_features,
)
from manyclass.choice.sets import ChoiceSets, choice_sets, positions_among
from manyclass.labels import as_labels, checked_labels
from manyclass.parts import hinting, storing
from manyclass.registry import names
from manyclass.training.passes import warn_user
from manyclass.weights.arrays import Doubles
from manyclass.weights.tensor_file import PathLike, open_format, reading

MOST_EXACT = 1 << 31  # pairs of a row and an alternative up to which "auto" looks at all of them
MOST_BY_FUNCTION = 1 << 27  # the same where a function makes their features
MANY_PAIRS = 100_000_000
Groups = tuple[NDArray[np.int64], tuple[str, ...]]  # of alternatives, and labels of the groups
MOST_CONSTANTS = 1000  # alternatives that have constants of their own where a user does not say


class ChoiceClassifier(FittedChoiceModel):
    r"""Discrete choice among few or very many alternatives: multinomial logit, probit, logistic and nested logit.

    Chooser i takes the alternative of the largest utility among those available,

    .. math:: x_i \cdot W z_k + \beta \cdot (z_k, s_{ik}) + a_k + o_{ik} + \epsilon_{ik},

    where x are features of choosers, z of alternatives and s of pairs (a distance, a price at that time), a constants
    and o offsets. Training minimises the mean log-loss: exactly by L-BFGS, or with drawn alternatives without bias, by
    the double sum for Gumbel noise and by augment and reduce for other noise.

    Parameters
    ----------
    noise : {"gumbel", "normal", "logistic"}, default="gumbel"
        Multinomial logit; multinomial probit with independent noise of unit variance; or logistic noise.
    interactions : int, "auto", "none" or "full", default="auto"
        W: none, full, or of that rank. Without features of alternatives it has a column for each alternative but the
        first. "auto" is "full" where there are features of choosers.
    constants : {"auto", "none", "alternative"} or array-like of shape (n_alternatives,), default="auto"
        A constant for each alternative, or for each group that the array names; that of `reference` is 0. "auto" is
        "alternative" where there are no features of alternatives and at most 1,000 of them, and no `utilities`, which
        have theirs.
    reference : label or None, default=None
        The alternative whose constant, or whose group's, is 0; None is the first one.
    nests : mapping of str to labels, array-like of shape (n_alternatives,) or None, default=None
        Two-level nested logit: alternatives by the name of their nest, the others being alone,
        ``{"public": ["bus", "train"]}``; or the nest of each. Utilities are normalised at the top; a nest has a
        dissimilarity in [0.05, 1], 1 being the multinomial logit. Only with noise="gumbel".
    alpha : float or mapping, default=0.0
        Ridge per row: the objective is the mean log-loss + alpha/2 ||.||^2; a mapping of "alternatives", "pairs",
        "interactions" and "constants" has one for each part.
    constraints : mapping or None, default=None
        By the name of a coefficient "positive", "negative", a number that fixes it, or the name of one that it equals:
        ``{"dissimilarity[b]": "dissimilarity[a]"}`` is one dissimilarity for two nests. Nests within nests are not
        offered; biogeme has them.
    mixture : RandomCoefficients, LatentClasses or None, default=None
        What varies among persons (rows of one number in `ChoiceSets.persons`), an object of `manyclass.choice`; with
        Gumbel noise, without nests and without a W of low rank.
    covariance : {"auto", "hessian", "robust", "clustered", "none"}, default="auto"
        Standard errors by the inverse Hessian, the sandwich, or the sandwich by person; "auto" is "clustered" where
        rows have persons and "hessian" else, and "none" where there are too many coefficients or a ridge.
    solver : {"auto", "lbfgs", "double_sum"}, default="auto"
        All alternatives by L-BFGS, or drawn ones, for models without nests; "auto" draws beyond 2^31 pairs of a row and
        an alternative, or 2^27 where a function makes their features, and a 64th of that with other noise than
        Gumbel's.
    n_negatives : int, default=64
        Alternatives drawn for a row and pass by "double_sum".
    max_iter : int or "auto", default="auto"
        Iterations of L-BFGS (500) or passes of "double_sum" (128), which end where draws leave less than a tenth of
        the sampling error.
    tol : float or "auto", default="auto"
        L-BFGS ends at derivatives of this size where second derivatives are about 1; "auto" is 1e-8, but
        1e-4 / sqrt(n_rows) beyond 10^8 pairs of a row and an alternative.
    n_jobs : int or None, default=None
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Seed of draws and orders.
    verbose : int, default=0
        Above 0: print the loss of each iteration or pass.

    Attributes
    ----------
    classes_ : ndarray of shape (n_alternatives,), labels of the alternatives
    coef_ : ndarray of shape (n_coefficients,), float64, all coefficients
    coef_names_ : list of str
    covariance_ : ndarray of shape (n_coefficients, n_coefficients), float64; NaN where there is none
    std_errors_ : ndarray of shape (n_coefficients,), float64
    std_errors_error_ : ndarray of shape (n_coefficients,), float64
        Relative standard errors of these, where they come from rows drawn by chance; else 0.
    draw_errors_ : ndarray of shape (n_coefficients,), float64
        Standard errors that drawn alternatives and the order of rows leave in coef_ beside, within some 10 %: what
        coefficients differ by over random_state; 0 with "lbfgs".
    loss_curve_ : ndarray of shape (n_iter,), float64, mean log-loss with the ridge
    n_iter_ : int
    converged_ : bool, whether the fit ended at a maximum; false where there is none
    unidentified_ : dict of str to str
        By the name of each coefficient that the data do not tell, the cause. It has no standard error unless a ridge
        decides it, information criteria and tests do not count it, and a ConvergenceWarning names it.
    log_likelihood_ : float, of the training data in nats; NaN with "double_sum"
    solver_ : {"lbfgs", "double_sum"}
    n_features_in_ : int, features of choosers

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass import ChoiceClassifier
    >>> from manyclass.datasets import choice_sets
    >>> rng = np.random.default_rng(0)
    >>> cost = rng.uniform(1, 3, (500, 4))
    >>> chosen = np.argmax(-2 * cost + rng.gumbel(size=cost.shape), axis=1)
    >>> sets = choice_sets(pairs={"cost": cost}, chosen=chosen)
    >>> model = ChoiceClassifier(constants="none").fit(sets)
    >>> bool(abs(model.coef_[0] + 2) < 3 * model.std_errors_[0])
    True
    """

    set_params = set_named

    hints: ClassVar = {
        **dict.fromkeys(("callback", "callbacks"), "verbose=1 prints the loss of each iteration or pass"),
        **dict.fromkeys(
            ("eval_set", "early_stopping", "validation_data"),
            "a choice model is fitted to the maximum of its likelihood, which standard errors need",
        ),
        **dict.fromkeys(("C", "penalty"), "alpha is the ridge per row of each part"),
        "avail": "choice_sets(available=...) says which alternatives there are",
    }

    @storing
    def __init__(
        self,
        *,
        noise: Literal["gumbel", "normal", "logistic"] = "gumbel",
        interactions: Literal["auto", "none", "full"] | int = "auto",
        constants: Any = "auto",
        reference: Any = None,
        nests: Any = None,
        alpha: Any = 0.0,
        constraints: Mapping[str, Any] | None = None,
        mixture: ChoiceMixture | None = None,
        covariance: Literal["auto", "hessian", "robust", "clustered", "none"] = "auto",
        solver: Literal["auto", "lbfgs", "double_sum"] = "auto",
        n_negatives: int = 64,
        max_iter: int | Literal["auto"] = "auto",
        tol: float | Literal["auto"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        """Store the parameters."""

    # Files

    def save(self, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write the fitted model as a safetensors file, which `manyclass.load` reads.

        Parameters
        ----------
        path : str or path-like
        notes : mapping of str to what JSON holds, optional

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If alternatives or parameters are of a type that the format lacks.
        ValueError
            If coefficients are not finite, or parameters are not allowed, as `load` would say.
        """
        parameters = self.get_params(deep=False)
        parameters |= files.parameters_by_alternative(self._fitted.form, self.constants)
        type(self)(**parameters).check_parameters()
        files.write_choice_model(self._fitted, self.get_params(deep=False), path, notes)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Return a model that `save` wrote.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        ValueError
            If the file is no choice model, truncated, inconsistent or of a newer format.
        """
        file = open_format(path, files.FORMAT, files.FORMAT_VERSION, "a choice model")
        with reading(file):
            parameters, state = files.read_choice_model(file)
            model = cls(**parameters)
            model.check_parameters()
        model._state = state
        model.n_features_in_ = len(state.form.chooser_names)
        return model

    # Training

    def check_parameters(self) -> None:
        """Raise ValueError or TypeError for parameters that are not allowed."""
        check_choice("noise", self.noise, names("noise"))
        check_choice("covariance", self.covariance, identification.COVARIANCES)
        check_choice("solver", self.solver, ChoiceMixture.solvers)
        if isinstance(self.interactions, str):
            check_choice("interactions", self.interactions, ("auto", "none", "full"))
        else:
            check_number("interactions", self.interactions, low=1, integer=True)
        if isinstance(self.constants, str):
            check_choice("constants", self.constants, ("auto", "none", "alternative"))
        for part, value in self._alphas.items():
            check_choice("a part of alpha", part, PARTS[:-1])
            check_number("alpha", value, low=0)
        check_number("n_negatives", self.n_negatives, low=1, integer=True)
        ranges: dict[str, Any] = {"max_iter": {"low": 1, "integer": True}, "tol": {"low": 0, "open_low": True}}
        for name in [name for name in ranges if getattr(self, name) != "auto"]:
            check_number(name, getattr(self, name), **ranges[name])
        n_threads_from(self.n_jobs)
        if not isinstance(self.constraints, Mapping | None):
            raise TypeError(f"constraints is {self.constraints!r:.80}; it must be None or a mapping of names")
        if self.nests is not None and self.noise != "gumbel":
            raise ValueError(f"noise is {self.noise!r}; with nests it must be 'gumbel'")
        if self.mixture is None:
            return
        if not isinstance(self.mixture, ChoiceMixture):
            kinds = " or ".join(sorted(ChoiceMixture.kinds))
            raise TypeError(f"mixture is {self.mixture!r}; it must be None or {kinds} of manyclass.choice")
        self.mixture.check_parameters()
        check_choice("solver", self.solver, self.mixture.solvers)
        if self.noise != "gumbel" or self.nests is not None or not isinstance(self.interactions, str):
            raise ValueError("with a mixture, noise must be 'gumbel', nests None, and interactions no rank")

    @hinting
    def fit(self, X: ChoiceSets | ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : ChoiceSets or array-like of shape (n_rows, n_features)
            All of the data (see `manyclass.datasets.choice_sets`); or features of choosers, each label of y then being
            an alternative that all of them may choose.
        y : array-like of shape (n_rows,), optional
            Labels of what was chosen, with an array.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of rows, with an array: 2 is a row that stands there twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are not allowed.

        Warns
        -----
        ConvergenceWarning
            If the data do not tell some coefficients (see `unidentified_`), or max_iter is over before the maximum.
        """
        self.check_parameters()
        sets = self._sets(X, y, sample_weight)
        form = self._form(sets)
        constraints, fixed = dict(self.constraints or {}), identification.find_fixed_nests(form, sets)
        held = {name: cause for name, cause in fixed.items() if name not in constraints}
        exponentials = getattr(self.mixture, "exponentials", ())
        free = find_free_coefficients(form, dict.fromkeys(held, 1.0) | constraints, exponentials)
        seed, solver = seed_from(self.random_state) % (1 << 31), self._solver(sets, form)
        data = list_features(sets) if solver == "lbfgs" else sets
        if solver == "double_sum" and self.mixture is not None:
            how = {"seed": seed, "epoch": 0, "n_threads": n_threads_from(self.n_jobs)}
            data = sets.draw(np.arange(sets.n_rows), self.n_negatives, share=0.0 if sets.lists.only else 0.5, **how)
        self.n_features_in_ = sets.X.shape[1]
        logit = ChoiceObjective(form, data, self._ridge(form), n_threads_from(self.n_jobs))
        if self.mixture is None:
            fit, known = self._minimise(logit, free, held, solver, seed)
            objective, mixture = logit, None
        else:
            objective, mixture, fit, known = self.mixture.fit(logit, free, self._limits(500), seed)
        is_short, kind = solver == "lbfgs" and known.has_maximum and not fit.converged, self._kind(sets, form, known.n)
        covariance, known = identification.estimate_covariance(objective, known, fit, kind, seed)
        if unknown := known.describe():
            warn_user(unknown)
        if covariance.kind == "clustered" and (n_persons := len(sets.owners.first)) <= known.n:
            about = f"standard errors by {n_persons} persons, for {known.n} coefficients, are too small"
            warn_user(f"{about}; set covariance='hessian'")
        is_exact = solver == "lbfgs"
        if is_short:
            warn_user(
                f"L-BFGS ended after {len(fit.losses)} iterations, before it came to the maximum: raise max_iter, or "
                "tol where features of very different sizes leave derivatives that are no smaller"
            )
        self._state = ChoiceState(
            form=form,
            alternatives=sets.alternatives,
            Z=sets.Z,
            fit=replace(fit, converged=fit.converged and known.has_maximum),
            covariance=covariance,
            n_rows=sets.n_rows,
            n_free=known.n - form.n_redundant,
            log_likelihood=objective.log_likelihood(fit.theta) if is_exact else np.nan,
            null_log_likelihood=-float(sets.weights @ np.log(sets.set_sizes)) if is_exact else np.nan,
            solver=solver,
            mixture=mixture,
            unidentified=known.causes,
        )
        return self

    def _minimise(
        self, objective: ChoiceObjective, free: FreeCoefficients, held: Mapping[str, str], solver: str, seed: int
    ) -> tuple[ChoiceFit, Identification]:
        """The minimum of a model without a mixture, and what data tell of it."""
        free, constant = identification.hold_constant(objective, free, seed)
        if solver == "lbfgs":
            # Where much is to be looked at, a ten-thousandth of a standard error.
            tol = 1e-8 if objective.sets.n_pairs < MANY_PAIRS else 1e-4 / np.sqrt(objective.n_rows)
            fit = fit_exactly(objective, free, self._limits(500).with_tol(tol), seed)
        else:
            fit = fit_drawn(objective, free, self._limits(MOST_PASSES), self.n_negatives, seed)
        if self._kind(objective.sets, objective.form, free.n) == "none":
            fit = replace(fit, slope=None)
        return fit, identification.find_unidentified(objective, free, fit, {**held, **constant}, seed)

    def _limits(self, max_iter: int) -> DescentLimits:
        turns = itertools.count(1)
        return DescentLimits(
            tol=None if self.tol == "auto" else float(self.tol),
            max_iter=max_iter if self.max_iter == "auto" else int(self.max_iter),
            watch=(lambda loss: print(f"{next(turns):4d}  {loss:.8f}")) if self.verbose > 0 else None,
        )

    def _kind(self, sets: ChoiceSets, form: ChoiceForm, n: int) -> str:
        """The kind of covariance."""
        if self.covariance != "auto":
            return str(self.covariance)
        if self._ridge(form).any() or not form.core.has_scores() or not 0 < n <= identification.MOST_FREE:
            return "none"
        is_clustered = self.mixture is None or self.mixture.is_clustered
        return "clustered" if is_clustered and sets.persons is not None else "hessian"

    def certificate(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Return the objective of the fit, "primal", a proven lower bound of its optimum, "dual", and their "gap".

        For Gumbel noise without nests, with no or full interactions: see `manyclass.choice.identification.certify`.
        A gap of 0 to rounding proves a fit by either solver, constraints and ridge included.

        Parameters
        ----------
        X : the rows of the fit, as `fit` takes them
        y : their choices, as `fit` takes them
        sample_weight : their weights, as `fit` takes them

        Returns
        -------
        dict of str to float, in nats a row

        Raises
        ------
        ValueError
            If the model is of another kind, or some coefficients are not identified.
        """
        form = self._fitted.form
        sets = self._chosen(X, y, sample_weight)
        objective = ChoiceObjective(form, list_features(sets), self._ridge(form), n_threads_from(self.n_jobs))
        free = find_free_coefficients(form, dict(self.constraints or {}))
        return identification.certify(objective, free, self.coef_)

    def _sets(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> ChoiceSets:
        if isinstance(X, ChoiceSets):
            if y is not None or sample_weight is not None:
                raise ValueError("y or sample_weight is given beside ChoiceSets, which have them")
            if X.n_alternatives == 1 or X.n_pairs == X.n_rows:
                raise ValueError("each row has one alternative to choose from; a row at least must have two")
            return replace(X, chosen=X.known_choices)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        labels, weights = as_labels(y), None if sample_weight is None else np.asarray(sample_weight)
        alternatives = np.unique(labels)
        if len(alternatives) < 2:
            raise ValueError(f"y has one class, {shown(alternatives[0])}; it must have at least two")
        names = getattr(self, "feature_names_in_", None)
        return choice_sets(alternatives=alternatives, X=X, chosen=labels, sample_weight=weights, chooser_names=names)

    def _form(self, sets: ChoiceSets) -> ChoiceForm:
        if self.covariance == "clustered" and sets.persons is None:
            raise ValueError("covariance is 'clustered'; the data have no persons")
        has = sets.Z is not None and sets.Z.shape[1] > 0
        rank = self.interactions
        if isinstance(rank, str):
            rank = 0 if rank == "none" or not sets.X.shape[1] else -1
        elif not sets.X.shape[1]:
            raise ValueError(f"interactions is {rank!r}; the data have no features of choosers")
        own_tastes = bool(rank and not has)
        groups, group_labels = self._constants(sets, bool(has), own_tastes)
        nests, nest_labels = self._group("nests", self.nests, sets.alternatives)
        labels = tuple(map(str, sets.alternatives)) if own_tastes else ()
        parts: list[Any] = [sets.chooser_names, sets.alternative_names, sets.pair_names, sets.n_alternatives, int(rank)]
        parts += [groups, group_labels, nests.astype(np.int32), nest_labels, labels]
        return ChoiceForm(self.noise, *parts)

    def _constants(self, sets: ChoiceSets, has_features: bool, own_tastes: bool) -> Groups:
        constants, reference = self.constants, 0
        if isinstance(constants, str):
            whole = has_features or (sets.source is not None and sets.source.whole)
            missing = not whole and sets.n_alternatives <= MOST_CONSTANTS
            constants = sets.alternatives if constants == "alternative" or (constants == "auto" and missing) else None
        if self.reference is not None:
            reference = int(positions_among([self.reference], sets.alternatives, "reference", by_row=False)[0])
            if own_tastes and reference:
                raise ValueError(
                    f"reference is {self.reference!r}; features of choosers have coefficients for each alternative but "
                    f"the first, {sets.alternatives[0]!r}: put the reference first among `alternatives`"
                )
            if constants is None:
                raise ValueError(f"reference is {self.reference!r}; there are no constants")
        return self._group("constants", constants, sets.alternatives, reference)

    @staticmethod
    def _group(name: str, labels: Any, alternatives: NDArray[Any], reference: int = 0) -> Groups:
        """The group of each alternative and the labels of groups; the first one is that of the reference."""
        if labels is None:
            return np.zeros(0, np.int64), ()
        if isinstance(labels, Mapping):
            members = [
                positions_among(own, alternatives, f"{name} of {n!r}", by_row=False) for n, own in labels.items()
            ]
            if len(np.unique(np.concatenate(members))) < sum(map(len, members)):
                raise ValueError(f"{name} has an alternative twice; cross-nested logit is not offered, biogeme has it")
            by_position = {k: str(label) for label, own in zip(labels, members, strict=True) for k in own.tolist()}
            labels = [by_position.get(k, f"{label} alone") for k, label in enumerate(alternatives.tolist())]
        array = checked_labels(labels, name)
        if array.shape != alternatives.shape:
            wanted = f"it must have a label for each of {len(alternatives)} alternatives"
            raise ValueError(f"{name} has shape {array.shape}; {wanted}")
        kinds, first, place = np.unique(array, return_index=True, return_inverse=True)
        order = np.lexsort((first, np.arange(len(kinds)) != place[reference]))
        return np.argsort(order)[place], tuple(map(str, kinds[order]))

    def _ridge(self, form: ChoiceForm) -> Doubles:
        ridge = np.zeros(form.n)
        for part, alpha in self._alphas.items():
            ridge[form.slices[part]] = alpha
        return ridge

    @property
    def _alphas(self) -> Mapping[str, Any]:
        """The ridge of each part; as everywhere in the package, constants have none unless it is theirs by name."""
        alphas: Mapping[str, Any] = dict.fromkeys(PARTS[:3], self.alpha)
        return self.alpha if isinstance(self.alpha, Mapping) else alphas

    def _solver(self, sets: ChoiceSets, form: ChoiceForm) -> str:
        can = form.model != "nested" and (form.rank <= 0 or form.has_features)
        if self.solver == "double_sum" and not can:
            raise ValueError(
                "solver is 'double_sum', which is for models without nests, and with low rank for those with "
                "features of alternatives; it must be 'lbfgs'"
            )
        if self.solver != "auto":
            return str(self.solver)
        most = MOST_EXACT if sets.function is None else MOST_BY_FUNCTION
        most //= 1 if form.model == "gumbel" else identification.AS_A_QUADRATURE
        return "double_sum" if can and self.mixture is None and sets.n_pairs > most else "lbfgs"
