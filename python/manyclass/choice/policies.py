"""What follows from a fitted choice model where features or alternatives change: effects, shares, surplus."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyclass.choice.effects import STEP, elasticity_sums, marginal_effects
from manyclass.choice.predictions import FittedChoiceModel
from manyclass.choice.sets import ChoiceSets, positions_among
from manyclass.labels import as_labels
from manyclass.weights.arrays import Doubles


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
        sets = self._rows(X)
        if sets.source is not None and feature in sets.source.table:
            values = np.asarray(sets.source.table[feature], dtype=np.float64)
            step = STEP * (float(abs(values).max(initial=0)) or 1.0)
            above, below = (self._shares_where(sets, feature, alternative, values + move) for move in (step, -step))
            return np.asarray((above - below) / (2 * step))
        moved = self._moved(sets, feature, alternative)
        return np.concatenate([marginal_effects(self._problem, self.coef_, part, *moved) for part in sets.parts()])

    def _shares_where(self, sets: ChoiceSets, column: str, alternative: Any, values: Doubles) -> Doubles:
        """Probabilities where the table that features come from has other values of an alternative, or of all."""
        source: Any = sets.source
        if alternative is not None:
            if source.alternative is None:
                raise ValueError(f"{column!r} is a column of a table with a row for each chooser; name no alternative")
            owned = as_labels(source.table[source.alternative]) == alternative
            values = np.where(owned, values, source.table[column])
        return self.predict_proba(sets.changed(**{column: values}))

    @staticmethod
    def _moved(sets: ChoiceSets, feature: str, alternative: Any) -> tuple[str, int, int]:
        """What has a feature, its column, and the position of the alternative, -1 for all."""
        position = -1
        if alternative is not None:
            position = int(positions_among([alternative], sets.alternatives, "alternative")[0])
        kinds = {"chooser": sets.chooser_names, "alternative": sets.alternative_names, "pair": sets.pair_names}
        for kind, names in kinds.items():
            if feature in names:
                if kind == "chooser" and position >= 0:
                    raise ValueError(
                        f"{feature!r} is a feature of choosers, which no alternative has; leave `alternative` out"
                    )
                return kind, names.index(feature), position
        known = ", ".join(repr(name) for names in kinds.values() for name in names)
        raise ValueError(f"feature is {feature!r}; it must be one of {known}")

    def elasticities(self, X: ChoiceSets, feature: str, alternative: Any = None) -> Doubles:
        """Return by how many percent the expected share of each alternative moves by one percent of a feature.

        Means over rows are weighted by probabilities.

        Parameters
        ----------
        X : ChoiceSets
        feature : str, of alternatives or pairs
            Or a column of the table that a formula made features of; all that follow from it move.
        alternative : label, whose feature moves; a wide table has columns instead

        Returns
        -------
        ndarray of shape (n_alternatives,), float64
        """
        sets = self._rows(X)
        if sets.source is not None and feature in sets.source.table:
            values = np.asarray(sets.source.table[feature], dtype=np.float64)
            above, below, now = (
                sets.weights @ self._shares_where(sets, feature, alternative, values * factor)
                for factor in (1 + STEP, 1 - STEP, 1.0)
            )
            return np.asarray(np.divide((above - below) / (2 * STEP), now, out=np.zeros(len(now)), where=now > 0))
        if alternative is None:
            raise ValueError("alternative must be the one whose feature moves")
        if feature not in (*sets.alternative_names, *sets.pair_names):
            raise ValueError(f"feature is {feature!r}; it must be one of alternatives or pairs")
        moved = self._moved(sets, feature, alternative)
        sums = [elasticity_sums(self._problem, self.coef_, part, *moved) for part in sets.parts()]
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
        weights = before.sample_weight
        changes: dict[str, Any] = {
            f"share_{name}": np.average(self.predict_proba(sets), axis=0, weights=weights)
            for name, sets in (("before", before), ("after", after))
        }
        labels = np.array(
            list(dict.fromkeys([*before.alternatives.tolist(), *after.alternatives.tolist()])), dtype=object
        )
        shares: dict[str, Any] = {"alternative": labels}
        for name, sets in (("before", before), ("after", after)):
            by_label = dict(zip(sets.alternatives.tolist(), changes[f"share_{name}"], strict=True))
            shares[name] = np.array([by_label.get(label, 0.0) for label in labels])
        changes["shares"] = shares | {"change": shares["after"] - shares["before"]}
        if self._fitted.form.noise == "gumbel":
            changes["inclusive_value_change"] = self.inclusive_values(after) - self.inclusive_values(before)
            if price is not None:
                self._check_fixed(price)
                changes["surplus_change"] = changes["inclusive_value_change"] / -self.coef_[self._column(price)]
        return changes

    def _check_fixed(self, price: str) -> None:
        if price in getattr(self.mixture, "coefficients", ()):
            raise ValueError(f"{price!r} varies among persons; a surplus in money needs a price that does not")
