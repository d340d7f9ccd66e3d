"""Coefficients of choice models: how utilities are made of them, and how they are found.

The utility of alternative k for chooser i is x_i . W z_k + beta . (z_k, s_ik) + a_k + o_ik. All coefficients stand in
one vector, in the order: beta of features of alternatives, beta of features of pairs, W, constants, dissimilarities of
nests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass import _core
from manyclass.datasets.choices import ChoiceLists, ChoiceSets, is_sparse
from manyclass.weights.arrays import Doubles, Ids

MOST_KEPT = 1 << 26  # features of pairs that are made once and kept: 512 MB
MOST_COVARIANCES = 1 << 22  # numbers of covariances in hand: 32 MB
MOST_FEATURES = 300  # of which covariances are taken
PARTS = ("alternatives", "pairs", "interactions", "constants", "dissimilarity")


@dataclass(frozen=True)
class ChoiceForm:
    """Which coefficients a model has.

    Attributes
    ----------
    noise : {"gumbel", "normal", "logistic"}
    chooser_names, alternative_names, pair_names : tuple of str
    n_alternatives : int
    rank : int
        Of W: 0 is no W, -1 a full one.
    groups : ndarray of shape (n_alternatives,), int64
        The constant of each alternative; the first one, 0, is the reference, whose constant is 0. Of size 0: none.
    group_labels : tuple, labels of the constants
    nests : ndarray of shape (n_alternatives,), int32, or of size 0
    nest_labels : tuple
    labels : tuple of str, names of alternatives for coefficients of their own
    """

    noise: str
    chooser_names: tuple[str, ...]
    alternative_names: tuple[str, ...]
    pair_names: tuple[str, ...]
    n_alternatives: int
    has_features: bool
    rank: int = 0
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    group_labels: tuple[str, ...] = ()
    nests: Ids = field(default_factory=lambda: np.zeros(0, np.int32))
    nest_labels: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def own_tastes(self) -> bool:
        """Whether W has a column for each alternative but the first, as there are no features of alternatives."""
        return self.rank != 0 and not self.has_features

    @property
    def width(self) -> int:
        """Columns of W."""
        return self.n_alternatives - 1 if self.own_tastes else len(self.alternative_names)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many coefficients each part has."""
        d = len(self.chooser_names)
        return {
            "alternatives": len(self.alternative_names),
            "pairs": len(self.pair_names),
            "interactions": d * self.width if self.rank < 0 else self.rank * (d + self.width),
            "constants": max(len(self.group_labels) - 1, 0),
            "dissimilarity": len(self.nest_labels),
        }

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each part stands."""
        ends = np.cumsum([0, *self.sizes.values()]).tolist()
        return {name: slice(a, b) for name, a, b in zip(self.sizes, ends, ends[1:], strict=False)}

    @property
    def n(self) -> int:
        """How many coefficients there are."""
        return sum(self.sizes.values())

    @cached_property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        columns = self.labels[1:] if self.own_tastes else self.alternative_names
        if self.rank < 0:
            interactions = [f"{x}:{z}" for x in self.chooser_names for z in columns]
        else:
            interactions = [f"{name}[{r}]" for name in (*self.chooser_names, *columns) for r in range(self.rank)]
        return [
            *self.alternative_names,
            *self.pair_names,
            *interactions,
            *(f"constant[{label}]" for label in self.group_labels[1:]),
            *(f"dissimilarity[{label}]" for label in self.nest_labels),
        ]

    @property
    def model(self) -> str:
        """The name that the core has for it."""
        return "nested" if len(self.nest_labels) else self.noise

    def interactions(self, theta: Doubles) -> Doubles:
        """Return W, (n_chooser_features, n_alternative_features or n_alternatives - 1)."""
        own, d = theta[self.slices["interactions"]], len(self.chooser_names)
        if self.rank < 0:
            return own.reshape(d, self.width)
        left, right = own[: d * self.rank].reshape(d, self.rank), own[d * self.rank :].reshape(self.width, self.rank)
        return np.asarray(left @ right.T)

    def constants(self, theta: Doubles, sets: ChoiceSets) -> Doubles:
        """Return what an alternative's utility has for all choosers, (n_alternatives,)."""
        total = sets.offsets.copy()
        if len(self.alternative_names):
            total += sets.Z @ theta[self.slices["alternatives"]]
        if len(self.group_labels):
            total += np.concatenate([[0.0], theta[self.slices["constants"]]])[self.groups]
        return np.asarray(total)

    def for_core(self, theta: Doubles, sets: ChoiceSets, X: Doubles) -> dict[str, Any]:
        """Return what `_core.choice_sums` takes of the coefficients, for rows with features X."""
        tastes, features = np.zeros((len(X), 0)), np.zeros((sets.n_alternatives, 0))
        if self.rank:
            tastes = X @ self.interactions(theta)
            if self.own_tastes:
                tastes = np.concatenate([np.zeros((len(X), 1)), tastes], axis=1)
            else:
                features = _dense(sets.Z)
        how: dict[str, Any] = {
            "n_rows": len(X),
            "constants": self.constants(theta, sets),
            "tastes": np.ascontiguousarray(tastes),
            "features": features if not self.own_tastes else np.zeros(0),
            "n_features": tastes.shape[1],
            "own_tastes": self.own_tastes,
            "pair_coef": theta[self.slices["pairs"]].copy(),
            "model": self.model,
        }
        if len(self.nest_labels):
            how |= {"nests": self.nests, "dissimilarity": theta[self.slices["dissimilarity"]].copy()}
        return how

    def gradient(
        self, theta: Doubles, sets: ChoiceSets, X: Doubles, tastes: Doubles, constants: Doubles, pairs: Doubles
    ) -> Doubles:
        """Return the gradient by all coefficients but dissimilarities, of those by what the core takes."""
        out = np.zeros(self.n)
        if len(self.alternative_names):
            out[self.slices["alternatives"]] = sets.Z.T @ constants
        out[self.slices["pairs"]] = pairs.sum(axis=0)
        if self.rank:
            by_w = X.T @ (tastes[:, 1:] if self.own_tastes else tastes)
            if self.rank > 0:
                own, d = theta[self.slices["interactions"]], len(self.chooser_names)
                left, right = own[: d * self.rank], own[d * self.rank :]
                by_left = by_w @ right.reshape(self.width, self.rank)
                by_right = by_w.T @ left.reshape(d, self.rank)
                by_w = np.concatenate([by_left.ravel(), by_right.ravel()])
            out[self.slices["interactions"]] = by_w.ravel()
        if len(self.group_labels):
            summed = np.bincount(self.groups, constants, minlength=len(self.group_labels))
            out[self.slices["constants"]] = summed[1:]
        return out

    def start(self, seed: int) -> Doubles:
        """Return coefficients to begin with: zeros, but small numbers by chance for a W of low rank."""
        theta = np.zeros(self.n)
        if self.rank > 0:
            size = self.sizes["interactions"]
            theta[self.slices["interactions"]] = 0.1 * np.random.RandomState(seed).standard_normal(size)
        theta[self.slices["dissimilarity"]] = 1.0
        return theta


def _dense(Z: Any) -> Doubles:
    return np.ascontiguousarray(Z.toarray() if is_sparse(Z) else Z, dtype=np.float64)


def kept(sets: ChoiceSets) -> ChoiceSets:
    """Return data whose function of pairs was called once, where what it gives takes little memory."""
    if sets.function is None or sets.n_pairs * len(sets.pair_names) > MOST_KEPT:
        return sets
    return replace(sets, lists=sets.listed(0, sets.n_rows), function=None)


@dataclass
class ChoiceObjective:
    """The mean log-loss of choices with a ridge, and its gradient, exact.

    Attributes
    ----------
    form : ChoiceForm
    sets : ChoiceSets
    ridge : ndarray of shape (n,), float64
        The loss has ridge / 2 times the square of each coefficient added.
    n_threads : int
    """

    form: ChoiceForm
    sets: ChoiceSets
    ridge: Doubles
    n_threads: int

    @cached_property
    def weights(self) -> Doubles:
        """Weights of the rows, whose sum is 1."""
        own = self.sets.sample_weight
        return np.full(self.sets.n_rows, 1 / self.sets.n_rows) if own is None else own / own.sum()

    @cached_property
    def _whole(self) -> ChoiceLists | None:
        return self.sets.listed(0, self.sets.n_rows) if self.sets.function is None else None

    def _lists(self, begin: int, end: int) -> ChoiceLists:
        if self._whole is not None and (begin, end) == (0, self.sets.n_rows):
            return self._whole
        return self.sets.listed(begin, end)

    def call(self, theta: Doubles, begin: int, end: int, **asked: Any) -> None:
        """Let the core fill in what is asked for of some rows."""
        own = self.form.for_core(theta, self.sets, self.sets.X[begin:end])
        _core.choice_sums(**own, **self._lists(begin, end).for_core(), n_threads=self.n_threads, **asked)

    def losses(self, theta: Doubles) -> Doubles:
        """Return the log-loss of each row, in nats."""
        out = np.empty(self.sets.n_rows)
        for begin, end in self.sets.blocks():
            self.call(theta, begin, end, chosen=self.sets.known_choices[begin:end], losses=out[begin:end])
        return out

    def __call__(self, theta: Doubles) -> tuple[float, Doubles]:
        """Return the value and the gradient."""
        form, sets = self.form, self.sets
        total = 0.5 * float(self.ridge @ theta**2)
        gradient = self.ridge * theta
        for begin, end in sets.blocks():
            weights, n = self.weights[begin:end], end - begin
            losses, constants = np.empty(n), np.zeros(sets.n_alternatives)
            tastes = np.empty((n, (sets.n_alternatives if form.own_tastes else form.width) if form.rank else 0))
            pairs, nests = np.empty((n, len(form.pair_names))), np.empty((n, len(form.nest_labels)))
            wants = {"taste_gradient": tastes, "pair_gradient": pairs, "nest_gradient": nests}
            self.call(
                theta,
                begin,
                end,
                chosen=sets.known_choices[begin:end],
                weights=weights,
                losses=losses,
                constant_gradient=constants,
                **{name: array for name, array in wants.items() if array.size},
            )
            total += float(weights @ losses)
            gradient += form.gradient(theta, sets, sets.X[begin:end], tastes, constants, pairs)
            gradient[form.slices["dissimilarity"]] += nests.sum(axis=0)
        return total, gradient

    # Second derivatives, and gradients of rows

    @cached_property
    def explicit(self) -> tuple[ChoiceForm, ChoiceSets, NDArray[np.intp]] | None:
        """The same model with constants as features of alternatives and tastes for all of them.

        Then the place of each coefficient among the products of (1, x) and (z, constants, s); None where there would be
        too many features, or W is of low rank.
        """
        form, sets = self.form, self.sets
        q, d, k = len(form.alternative_names), len(form.chooser_names), form.n_alternatives
        columns = (
            [np.zeros((k, 0)) if sets.Z is None else _dense(sets.Z)]
            if q + max(len(form.group_labels), 1) <= (MOST_FEATURES)
            else []
        )
        width = q + max(len(form.group_labels) - 1, 0) + (k - 1 if form.own_tastes else 0) + len(form.pair_names)
        if not columns or width > MOST_FEATURES or form.rank > 0:
            return None
        if len(form.group_labels):
            columns.append(np.eye(len(form.group_labels))[form.groups][:, 1:])
        if form.own_tastes:
            columns.append(np.eye(k)[:, 1:])
        Z = np.concatenate(columns, axis=1)
        at_constants = q + max(len(form.group_labels) - 1, 0)
        places = [*range(q), *range(Z.shape[1], width)]
        first = at_constants if form.own_tastes else 0
        if form.rank:
            places += [(1 + x) * width + first + j for x in range(d) for j in range(form.width)]
        places += [*range(q, at_constants)]
        names = tuple(map(str, range(Z.shape[1])))
        own = ChoiceForm(form.noise, form.chooser_names, names, form.pair_names, k, has_features=True, rank=-1)
        return own, replace(sets, Z=Z), np.array(places, dtype=np.intp)

    def _explicit_call(self, theta: Doubles, begin: int, end: int, **asked: Any) -> Doubles:
        """Call the core for the explicit form; return (1, x) of the rows."""
        assert self.explicit is not None
        own, sets, places = self.explicit
        x1 = np.concatenate([np.ones((end - begin, 1)), sets.X[begin:end]], axis=1)
        width = len(own.alternative_names) + len(own.pair_names)
        whole = np.zeros((x1.shape[1], width))
        whole.ravel()[places] = theta[: len(places)]
        pairs = whole[0, len(own.alternative_names) :].copy()
        how = {
            "n_rows": end - begin,
            "constants": sets.offsets.copy(),
            "tastes": np.ascontiguousarray(x1 @ whole[:, : len(own.alternative_names)]),
            "features": sets.Z,
            "n_features": len(own.alternative_names),
            "pair_coef": pairs,
            "model": self.form.model,
        }
        if len(self.form.nest_labels):
            own_nests = theta[self.form.slices["dissimilarity"]].copy()
            how |= {"nests": self.form.nests, "dissimilarity": own_nests}
        _core.choice_sums(**how, **self._lists(begin, end).for_core(), n_threads=self.n_threads, **asked)
        return x1

    def _pieces(self, numbers: int) -> list[tuple[int, int]]:
        step = max(1, MOST_COVARIANCES // max(numbers, 1))
        if self.sets.function is None:
            return [(a, min(a + step, self.sets.n_rows)) for a in range(0, self.sets.n_rows, step)]
        blocks = self.sets.blocks()
        return [(a, min(a + step, e)) for b, e in blocks for a in range(b, e, step)]

    def hessian(self, theta: Doubles) -> Doubles:
        """Return the second derivatives of the mean loss with its ridge.

        For Gumbel noise they are a covariance matrix; for other noises and for nests, differences of exact gradients.
        """
        if self.form.model != "gumbel":
            return self._differences(theta)
        if self.explicit is None:
            raise ValueError(self.too_many)
        own, _, places = self.explicit
        width = len(own.alternative_names) + len(own.pair_names)
        whole = np.zeros(((self.sets.X.shape[1] + 1) ** 2, width * width))
        for begin, end in self._pieces(width * width):
            covariances = np.empty((end - begin, width * width))
            x1 = self._explicit_call(theta, begin, end, covariances=covariances)
            outer = (x1[:, :, None] * x1[:, None, :]).reshape(len(x1), -1) * self.weights[begin:end, None]
            whole += outer.T @ covariances
        return self._placed(whole, width, places) + np.diag(self.ridge)

    def _placed(self, whole: Doubles, width: int, places: NDArray[np.intp]) -> Doubles:
        d1 = self.sets.X.shape[1] + 1
        square = whole.reshape(d1, d1, width, width).transpose(0, 2, 1, 3).reshape(d1 * width, d1 * width)
        return np.asarray(square[np.ix_(places, places)])

    @property
    def too_many(self) -> str:
        """What a message says where there are no second derivatives."""
        return (
            f"standard errors need at most {MOST_FEATURES} features of alternatives, pairs and constants, and no "
            "interactions of low rank; give constants by group, or interactions='full'"
        )

    def _differences(self, theta: Doubles) -> Doubles:
        """Central differences of the gradient, which is exact to some 1e-11: off by some 1e-6."""
        rows = []
        for j in range(self.form.n):
            step = 1e-4 * max(1.0, abs(theta[j]))
            up, down = theta.copy(), theta.copy()
            up[j] += step
            down[j] -= step
            rows.append((self(up)[1] - self(down)[1]) / (2 * step))
        found = np.array(rows).reshape(self.form.n, self.form.n)
        return np.asarray(0.5 * (found + found.T))

    def scores(self, theta: Doubles) -> Doubles:
        """Return the gradient of each row's loss, not weighted, (n_rows, n)."""
        if self.explicit is None:
            raise ValueError(self.too_many)
        own, _, places = self.explicit
        q, r = len(own.alternative_names), len(own.pair_names)
        out = np.empty((self.sets.n_rows, self.form.n))
        for begin, end in self._pieces((self.sets.X.shape[1] + 1) * (q + r)):
            n = end - begin
            tastes, pairs, nests = np.empty((n, q)), np.empty((n, r)), np.empty((n, len(self.form.nest_labels)))
            wants = {"taste_gradient": tastes, "pair_gradient": pairs, "nest_gradient": nests}
            asked = {name: array for name, array in wants.items() if array.size}
            x1 = self._explicit_call(theta, begin, end, chosen=self.sets.known_choices[begin:end], **asked)
            both = np.concatenate([tastes, pairs], axis=1)
            out[begin:end, : len(places)] = (x1[:, :, None] * both[:, None, :]).reshape(n, -1)[:, places]
            out[begin:end, len(places) :] = nests
        return out
