"""Utilities as a formula for each alternative, and what follows where a column of their table changes."""

import pickle

import numpy as np
import pytest

from manyclass import ChoiceClassifier
from manyclass.choice.utilities import utility_terms
from manyclass.datasets import choice_sets, from_long, from_wide

UTILITIES = {
    "walk": "0",
    "bus": "asc_bus + b_time*time_bus + b_cost*cost_bus/income",
    "car": "asc_car + b_time*time_car + b_cost*cost_car/income + b_rich*log(income)*(area == 'town')",
}


def trips(seed, n=400):
    rng = np.random.default_rng(seed)
    table = {
        "time_bus": rng.uniform(1, 3, n),
        "time_car": rng.uniform(0.5, 2, n),
        "cost_bus": rng.uniform(1, 2, n),
        "cost_car": rng.uniform(1, 5, n),
        "income": rng.uniform(1, 4, n),
        "area": rng.choice(["town", "land"], n),
        "has_car": rng.integers(0, 2, n),
    }
    table["mode"] = np.where(table["has_car"] == 1, rng.choice(["walk", "bus", "car"], n), "bus")
    return table


def wide(table, **options):
    return from_wide(table, utilities=UTILITIES, chosen="mode", available={"car": "has_car"}, **options)


def test_utilities_are_the_features_that_one_would_make_by_hand(seed):
    table = trips(seed)
    zero, one = np.zeros(400), np.ones(400)
    town = np.log(table["income"]) * (table["area"] == "town")
    hand = choice_sets(
        alternatives=["walk", "bus", "car"],
        pairs={
            "asc_bus": np.stack([zero, one, zero], 1),
            "b_time": np.stack([zero, table["time_bus"], table["time_car"]], 1),
            "b_cost": np.stack([zero, table["cost_bus"], table["cost_car"]], 1) / table["income"][:, None],
            "asc_car": np.stack([zero, zero, one], 1),
            "b_rich": np.stack([zero, zero, town], 1),
        },
        available=np.stack([one, one, table["has_car"]], 1).astype(bool),
        chosen=table["mode"],
    )
    sets = wide(table)
    assert sets.pair_names == hand.pair_names
    expected, model = ChoiceClassifier(constants="none").fit(hand), ChoiceClassifier().fit(sets)
    assert model.coef_names_ == list(hand.pair_names)  # utilities have their constants
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(model.std_errors_, expected.std_errors_, rtol=1e-6)


def test_a_term_without_a_coefficient_is_an_offset():
    table = {"x": np.array([1.0, 2.0, 4.0]), "mode": np.array(["a", "b", "a"])}
    sets = from_wide(table, utilities={"a": "b*x - log(x) + 2", "b": "c"}, chosen="mode")
    offsets = np.zeros((3, 2))
    offsets[:, 0] = 2 - np.log(table["x"])
    model = ChoiceClassifier(alpha=1.0).fit(sets)
    u = model.utilities(sets)
    np.testing.assert_allclose(u[:, 0], model.coef_[0] * table["x"] + offsets[:, 0])
    np.testing.assert_allclose(u[:, 1], model.coef_[1])


def test_formulas_read_as_they_do_in_python():
    table = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([4, 5, 6]), "s": np.array(["u", "v", "u"])}

    def values(text):
        return {name: np.broadcast_to(term, 3).tolist() for name, term in utility_terms(text, table).items()}

    assert values("b * x / 100 - b * y") == {"b": [-3.99, -4.98, -5.97]}
    assert values("b * max(x - 2, 0) + c * min(x, y, 2)") == {"b": [0, 0, 1], "c": [1, 2, 2]}
    assert values("b * where(x > 1, y, -y) - (c + d) * 2") == {"b": [-4, 5, 6], "c": [-2] * 3, "d": [-2] * 3}
    assert values("b * (x ** 2 - 1) / 2") == {"b": [0, 1.5, 4]}  # Box and Cox
    assert values("b * ((s == 'u') & (1 < x <= 3)) + x * c") == {"b": [0, 0, 1], "c": [1, 2, 3]}
    assert values("b * x\n  + c * y  # of y\n  - b") == {"b": [0, 1, 2], "c": [4, 5, 6]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("b * c", "not linear in coefficients"),
        ("exp(b * x)", "not linear in coefficients"),
        ("x / b", "not linear in coefficients"),
        ("b * (x > c)", "not linear in coefficients"),
        ("x.real * b", "is not among"),
        ("__import__('os').getcwd()", "is not among"),
        ("b * [x for x in ()]", "is not among"),
        ("log(x, x) * b", "is not among"),
        ("b * s", "the column 's' has no numbers"),
        ("b * (x > 1 & x < 3)", "put each comparison beside & or | into parentheses"),  # x > (1 & x) < 3 in Python
        ("b * (x == 1 | x > 2)", "put each comparison beside & or | into parentheses"),
        ("b * (x", "cannot be read"),
        ("-" * 100_000 + "x", "cannot be read"),
    ],
)
def test_what_is_no_utility_is_refused_with_the_reason(text, reason):
    table = {"x": np.ones(2), "s": np.array(["u", "v"])}
    with pytest.raises(ValueError, match=reason):
        utility_terms(text, table)
    assert table["x"].tolist() == [1, 1]


def test_tables_and_utilities_must_fit_each_other(seed):
    table = trips(seed)
    with pytest.raises(ValueError, match="the alternatives are"):
        from_wide(table, utilities=UTILITIES, alternatives=["walk", "bus"])
    with pytest.raises(ValueError, match="utilities are whole"):
        from_wide(table, utilities=UTILITIES, choosers=["income"])
    with pytest.raises(ValueError, match="must tell"):
        from_wide(table)
    with pytest.raises(ValueError, match="no coefficients"):
        from_wide(table, utilities={"a": "income", "b": "0"})
    table["cost_car"][table["has_car"] == 0] = np.nan  # nobody who may take it has one
    wide(table)
    table["cost_car"][:] = np.nan
    with pytest.raises(ValueError, match=r"row \d+ of cost_car has nan; it must be a finite number"):
        wide(table)
    table["cost_car"] = np.where(np.arange(400) == 7, "high", "2")
    table["has_car"][7] = 1
    with pytest.raises(ValueError, match="row 7 of cost_car has 'high'; it must be a finite number"):
        wide(table)
    table["cost_car"], table["income"][9] = np.ones(400), -1.0
    with pytest.raises(ValueError, match="row 9 of 'b_rich' in the utility of 'car' has nan"):
        wide({**table, "has_car": np.ones(400), "area": np.full(400, "town")})


def test_a_changed_column_changes_all_that_follows_from_it(seed):
    table = trips(seed)
    sets = wide(table).take(np.arange(100, 300))
    model = ChoiceClassifier().fit(sets)
    dearer = {**table, "income": table["income"] / 2, "has_car": np.ones(400, int)}
    expected = model.predict_proba(wide(dearer).take(np.arange(100, 300)))
    changed = sets.changed(income=lambda v: v / 2, has_car=np.ones(400, int))
    np.testing.assert_array_equal(model.predict_proba(changed), expected)
    np.testing.assert_array_equal(model.predict_proba(pickle.loads(pickle.dumps(changed))), expected)
    assert (model.predict_proba(changed.without("bus"))[:, 1] == 0).all()
    with pytest.raises(ValueError, match="must be that of the table"):
        sets.changed(income=np.ones(3))
    with pytest.raises(ValueError, match="'b_cost' is no column of the table that features follow"):
        sets.changed(b_cost=lambda v: v)  # which the next change of a column would undo


def test_formulas_of_long_tables_follow_a_changed_column(seed):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(seed)
    table = pandas.DataFrame(
        {
            "chooser": np.repeat(np.arange(200), 3),
            "alternative": np.tile(["a", "b", "c"], 200),
            "cost": rng.uniform(1, 3, 600),
            "income": np.repeat(rng.uniform(1, 2, 200), 3),
            "chosen": np.arange(600) % 3 == np.repeat(rng.integers(0, 3, 200), 3),
        }
    )
    sets = from_long(table, formula="cost + cost:income + center(cost) : income")
    model = ChoiceClassifier(alpha=1e-3).fit(sets)
    center, cost = table["cost"].mean(), table["cost"] * 1.1
    by_hand = table.assign(
        **{"cost": cost, "cost:income": cost * table["income"], "cd": (cost - center) * table["income"]}
    )
    names = dict(zip(sets.pair_names, ["cost", "cost:income", "cd"], strict=True))
    hand = from_long(by_hand, features={"pairs": [*names.values()]})
    changed = sets.changed(cost=lambda v: v * 1.1)
    np.testing.assert_allclose(changed.lists.features, hand.lists.features, rtol=1e-12)
    assert np.isfinite(model.predict_proba(changed)).all()
