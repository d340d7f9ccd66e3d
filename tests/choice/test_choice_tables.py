"""Data of choices from arrays, long tables and wide ones."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from choice_twins import world

from manyclass import ChoiceClassifier
from manyclass.datasets import choice_sets, from_long, from_wide

# Tables


def test_long_tables_come_back(seed):
    sets, *_ = world(seed)
    table = sets.to_long()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table["chooser"]))
    again = from_long({name: column[order] for name, column in table.items()})
    assert (again.chooser_names, again.alternative_names) == (sets.chooser_names, sets.alternative_names)
    assert again.pair_names == sets.pair_names
    expected, found = ChoiceClassifier().fit(sets), ChoiceClassifier().fit(again)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)
    np.testing.assert_allclose(found.std_errors_, expected.std_errors_, rtol=1e-6)
    kinds = {"choosers": sets.chooser_names, "alternatives": sets.alternative_names, "pairs": sets.pair_names}
    first = table["chooser"] == 0
    one = from_long({n: c[first] for n, c in table.items()}, features=kinds, alternatives=sets.alternatives)
    np.testing.assert_allclose(found.predict_proba(one), found.predict_proba(again)[:1], rtol=1e-9)


def test_a_function_may_tell_what_is_available(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((30, 4)) < 0.6
    mask[:, 0] = True
    of_mask, of_function = (
        choice_sets(Z=np.eye(4), available=how, offset=np.arange(4.0), n_rows=30) for how in (mask, lambda i: mask[i])
    )
    for name in ("indptr", "alternatives", "offsets"):
        np.testing.assert_array_equal(getattr(of_function.lists, name), getattr(of_mask.lists, name))
    assert of_function.offsets.tolist() == [0, 1, 2, 3]
    ranges = choice_sets(Z=np.eye(4), available=np.tile([1, 3], (30, 1)), offset=np.arange(4.0))
    assert ranges.lists.alternatives.tolist() == [1, 2] * 30
    assert ranges.offsets.tolist() == [0, 1, 2, 3]


def test_a_function_of_pairs_is_asked_for_a_range_of_rows_at_once(seed):
    rng = np.random.default_rng(seed)
    S, mask = rng.normal(size=(30, 4)), rng.random((30, 4)) < 0.6
    mask[:, 0] = True
    asked = []

    def pairs(rows, ks):
        asked.append(np.unique(rows).tolist())
        return S[rows, ks][:, None]

    sets = choice_sets(pairs=pairs, pair_names=["s"], available=mask, chosen=np.zeros(30, int))
    parts = [*sets.take(np.arange(5, 30)).parts(most=20)]
    assert [row for rows in asked for row in rows] == list(range(5, 30))
    assert len(parts) > 1
    found = np.concatenate([part.lists.features[:, 0] for part in parts])
    np.testing.assert_array_equal(found, S[5:][mask[5:]])
    table = sets.to_long()
    np.testing.assert_array_equal(table["s"], S[mask])
    np.testing.assert_array_equal(table["chooser"], np.nonzero(mask)[0])


def test_sparse_numbers_of_pairs_are_listed_by_rows(seed):
    rng = np.random.default_rng(seed)
    some, other = (sp.random_array((20, 6), density=0.3, rng=rng, format="csr") for _ in range(2))
    closed = sp.csr_array(np.eye(20, 6, dtype=bool))
    sets = choice_sets(pairs={"a": some, "b": other}, offset=other, unavailable=closed)
    listed = (some.toarray() != 0) | (other.toarray() != 0) | closed.toarray()
    rows, ids = np.nonzero(listed)
    np.testing.assert_array_equal((sets.lists.rows, sets.lists.alternatives), (rows, ids))
    expected = np.stack([some.toarray()[rows, ids], other.toarray()[rows, ids]], axis=1)
    np.testing.assert_array_equal(sets.lists.features, expected)
    offsets = np.where(closed.toarray(), -np.inf, other.toarray())
    np.testing.assert_array_equal(sets.lists.offsets, offsets[rows, ids])
    filled = sets.take(np.arange(20)[::-1]).lists.filled(6)
    np.testing.assert_array_equal(filled.offsets.reshape(20, 6), offsets[::-1])
    again = pickle.loads(pickle.dumps(sets.lists))
    np.testing.assert_array_equal(again.features, sets.lists.features)


def test_wide_tables_are_read():
    rng = np.random.default_rng(0)
    n = 50
    wide = {name: rng.uniform(1, 2, n) for name in ("TRAIN_TT", "CAR_TT", "CAR_CO", "AGE")}
    wide |= {"CHOICE": rng.choice(["train", "car"], n), "CAR_AV": np.ones(n), "ID": np.arange(n) // 2}
    sets = from_wide(
        wide,
        alternatives=["train", "car"],
        chosen="CHOICE",
        pairs={"time": {"train": "TRAIN_TT", "car": "CAR_TT"}, "cost": {"car": "CAR_CO"}},
        available={"car": "CAR_AV"},
        choosers=["AGE"],
        person="ID",
    )
    long = sets.to_long()
    assert long["cost"][long["alternative"] == "train"].tolist() == [0] * n
    assert long["time"][long["alternative"] == "car"].tolist() == wide["CAR_TT"].tolist()
    assert ChoiceClassifier().fit(sets).coef_names_ == ["time", "cost", "AGE:car", "constant[car]"]


def test_formulas_make_features():
    pytest.importorskip("formulaic")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(world(0)[0].to_long())
    table["s0"] = np.exp(table["s0"])
    sets = from_long(table, formula="log(s0) + z0 + z0:x0")
    assert set(sets.pair_names) == {"log(s0)", "z0:x0"}
    assert sets.alternative_names == ("z0",)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"chosen": [0, 1, 9]}, "9, which is none of the alternatives"),
        ({"X": [[0.0], [np.nan], [1.0]]}, "not finite"),
        ({"available": np.zeros((3, 2), bool)}, "no alternative to choose from"),
        ({"available": np.ones((2, 2), bool)}, "the number of rows"),
        ({"pairs": {"s": np.ones((3, 3))}}, "must be"),
        ({"sample_weight": [1, -1, 1]}, "below 0"),
        ({"pairs": lambda rows, ks: rows}, "pair_names"),
        ({"Z": np.ones((2, 1)), "X": np.ones((3, 1)), "chooser_names": ["a"], "alternative_names": ["a"]}, "twice"),
    ],
)
def test_data_that_do_not_fit_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        choice_sets(**{"alternatives": [0, 1], "chosen": [0, 1, 1], **how})


def test_a_choice_that_was_not_available_is_refused():
    how = {"available": np.array([[True, False], [True, True]]), "chosen": [1, 1]}
    message = "1 of 2 rows have chosen an alternative that is not available: row 0 has chosen 1"
    with pytest.raises(ValueError, match=message):
        choice_sets(**how)
    with pytest.warns(UserWarning, match=message):
        assert choice_sets(**how, unavailable_choices="drop").n_rows == 1
    with pytest.raises(ValueError, match="row 0 has chosen alternative 1, which is not available"):
        ChoiceClassifier().fit(choice_sets(**how, unavailable_choices="keep"))


def test_long_tables_with_faults_are_refused():
    table = {"chooser": [0, 0, 1], "alternative": [0, 1, 0], "chosen": [1, 1, 1], "s": [0.0, 1, 2]}
    with pytest.raises(ValueError, match="chooser 0 has chosen 2 alternatives"):
        from_long(table)
    with pytest.raises(ValueError, match="lists an alternative twice"):
        from_long(table | {"alternative": [0, 0, 0], "chosen": [1, 0, 1]})
