"""What follows from a fitted choice model where features or alternatives change: effects, shares, surplus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from manyclass.choice.predictions import FittedChoiceModel
from manyclass.choice.sets import ChoiceSets, positions_among
from manyclass.labels import as_labels
from manyclass.weights.arrays import Doubles

FARTHEST = 745.0  # that the logarithm of a probability moves before it is that of 0
STEP = 1e-4  # of utilities: the third derivative leaves some 1e-9 in relation to the first


class ChoicePolicies(FittedChoiceModel):
    """A fitted choice model that tells what changes do."""

    mixture: Any

    def marginal_effects(self, X: Any, feature: str, alternative: Any = None) -> Doubles:
        """Return the derivatives of all probabilities by a feature, by central differences.

        Parameters
        ----------
        X : ChoiceSets, or array-like of shape (n_rows, n_features)
        feature : str
            Or a column of the table that a formula made features of; all that follow from it move.
        alternative : label, optional
            The alternative whose feature moves; without, those of all alternatives or that of the chooser do.

        Returns
        -------
        ndarray of shape (n_rows, n_alternatives), float64
        """
        parts = self._rows(X).parts()
        return np.concatenate(
            [self._derivatives(part, feature, alternative, lambda values, step: values + step) for part in parts]
        )

    def _derivatives(
        self, sets: ChoiceSets, feature: str, alternative: Any, move: Callable[[Doubles, float], Doubles]
    ) -> Doubles:
        """The derivatives of all probabilities by the steps of a move of a feature, by central differences."""

        def answer(name: str, step: float) -> Doubles:
            return self._answers(_moved(sets, feature, alternative, lambda values: move(values, step)), name)

        utilities, step = self._answers(sets, "utilities"), STEP
        finite = np.isfinite(utilities)
        for _ in range(2):  # those of a mixture are not linear
            moves = np.nan_to_num(np.abs(answer("utilities", step)[finite] - utilities[finite]), posinf=FARTHEST)
            steepest = float(np.max(moves, initial=0)) / step
            if steepest == 0:
                return np.zeros(utilities.shape)
            step = STEP / steepest
        return np.asarray((answer("probabilities", step) - answer("probabilities", -step)) / (2 * step))

    def elasticities(self, X: ChoiceSets, feature: str, alternative: Any = None) -> Doubles:
        """Return by how many percent the expected share of each alternative moves by one percent of a feature.

        Means over rows are weighted by probabilities.

        Parameters
        ----------
        X : ChoiceSets
        feature : str
            Or a column of the table that a formula made features of; all that follow from it move.
        alternative : label, whose feature moves; choosers and a wide table have columns instead

        Returns
        -------
        ndarray of shape (n_alternatives,), float64
        """
        sets = self._rows(X)
        if alternative is None and feature in (*sets.alternative_names, *sets.pair_names):
            raise ValueError(f"alternative must be the one whose {feature!r} moves")
        sums = [
            (
                part.weights @ self._derivatives(part, feature, alternative, lambda values, step: values * (1 + step)),
                part.weights @ self._answers(part, "probabilities"),
            )
            for part in sets.parts()
        ]
        effects, shares = np.sum(sums, axis=0)
        return np.asarray(np.divide(effects, shares, out=np.zeros(len(shares)), where=shares > 0))

    def simulate(self, before: ChoiceSets, after: ChoiceSets, price: str | None = None) -> dict[str, Any]:
        """Compare two worlds: alternatives removed (`ChoiceSets.without`), added, or changed (`ChoiceSets.changed`).

        Parameters
        ----------
        before : ChoiceSets
        after : ChoiceSets of the same choosers
        price : str, optional
            The coefficient of money, by which changes of inclusive values become money.

        Returns
        -------
        dict
            "share_before" and "share_after", by alternative of each; "shares", the columns of a table of both; of
            Gumbel noise "inclusive_value_change" by row, and with a price "surplus_change" by row, in its unit.
        """
        if before.n_rows != after.n_rows:
            raise ValueError(
                f"before has {before.n_rows} rows and after {after.n_rows}; they must be the same choosers"
            )
        labels = [*dict.fromkeys([*before.alternatives.tolist(), *after.alternatives.tolist()])]
        changes: dict[str, Any] = {}
        shares: dict[str, Any] = {"alternative": np.array(labels, dtype=object)}
        for name, sets in (("before", before), ("after", after)):
            share = np.average(self.predict_proba(sets), axis=0, weights=before.sample_weight)
            by_label = dict(zip(sets.alternatives.tolist(), share, strict=True))
            changes[f"share_{name}"], shares[name] = share, np.array([by_label.get(label, 0.0) for label in labels])
        changes["shares"] = shares | {"change": shares["after"] - shares["before"]}
        if self._fitted.form.noise == "gumbel":
            changes["inclusive_value_change"] = self.inclusive_values(after) - self.inclusive_values(before)
            if price is not None:
                if price in getattr(self.mixture, "coefficients", ()):
                    raise ValueError(f"{price!r} varies among persons; a surplus in money needs a price that does not")
                changes["surplus_change"] = changes["inclusive_value_change"] / -self.coef_[self._column(price)]
        return changes


def _moved(sets: ChoiceSets, feature: str, alternative: Any, move: Callable[[Doubles], Doubles]) -> ChoiceSets:
    """The data where the values of a feature move, those of one alternative or, with None, of all."""
    source: Any = sets.source
    owners = None
    if alternative is not None:
        alternative = sets.alternatives[positions_among([alternative], sets.alternatives, "alternative")[0]]
    if source is not None and feature in source.table:
        if alternative is not None:
            if source.alternative is None:
                raise ValueError(f"{feature!r} is a column of a table with a row for each chooser; name no alternative")
            owners = as_labels(source.table[source.alternative])
    elif feature in sets.chooser_names:
        if alternative is not None:
            raise ValueError(f"{feature!r} is a feature of choosers, which no alternative has; leave `alternative` out")
    elif feature in sets.alternative_names:
        owners = sets.alternatives
    elif feature in sets.pair_names:
        sets = replace(sets, lists=sets.lists.filled(sets.n_alternatives))
        owners = sets.alternatives[sets.lists.alternatives]
    is_moved: Any = True if alternative is None else owners == alternative

    def moved(values: Any) -> Doubles:
        values = np.asarray(values, dtype=np.float64)
        return np.where(is_moved, move(values), values)

    return sets.changed(**{feature: moved})
