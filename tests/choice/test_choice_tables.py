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


def test_features_of_pairs_may_have_the_names_of_arguments():
    S = np.arange(6.0).reshape(2, 3)
    sets = choice_sets(pairs={"offset": S, "unavailable": -S}, offset=S + 1, chosen=[0, 1])
    np.testing.assert_array_equal(sets.lists.features, np.stack([S.ravel(), -S.ravel()], axis=1))
    np.testing.assert_array_equal(sets.lists.offsets, S.ravel() + 1)


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
        ({"X": [[0.0], [np.nan], [1.0]]}, "a finite number"),
        ({"available": np.zeros((3, 2), bool)}, "no alternative to choose from"),
        ({"available": np.ones((2, 2), bool)}, r"available has shape \(2, 2\)"),
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


# What cells may hold

LONG = {"chooser": [0, 0, 1, 1], "alternative": ["a", "b", "a", "b"], "chosen": [1, 0, 0, 1], "cost": [1.0, 2, 3, 5]}
WIDE = {"choice": ["a", "b", "a"], "ta": [1.0, 2, 3], "tb": [3.0, 1, 1], "bus": [1, 1, 0], "income": [1.0, 2, 3]}
WIDE |= {"n_a": [3, 0, 1], "n_b": [4, 4, 0]}
HOW = {"alternatives": ["a", "b"], "chosen": "choice", "pairs": {"time": {"a": "ta", "b": "tb"}}}


@pytest.mark.parametrize(
    "flags",
    [
        [1, 0, 0, 1],
        [1.0, 0.0, 0.0, 1.0],
        [True, False, False, True],
        ["yes", "no", "No", "YES"],
        ["true", "false", "FALSE", "True"],
        ["1", "0", "0.0", "1.0"],
        np.array([True, 0, "no", "1"], dtype=object),
    ],
)
def test_flags_are_read_by_one_rule(flags):
    assert from_long(LONG | {"chosen": flags}).labels.tolist() == ["a", "b"]
    wide = {"choice": ["a"] * 4, "t": np.arange(4.0), "here": flags}
    sets = from_wide(wide, alternatives=["a", "b"], chosen="choice", available={"b": "here"}, choosers=["t"])
    assert np.diff(sets.lists.indptr).tolist() == [2, 1, 1, 2]
    mask = np.stack([[True] * 4, np.asarray(flags)], axis=1).astype(object)
    np.testing.assert_array_equal(choice_sets(available=mask, chosen=[0] * 4).lists.indptr, sets.lists.indptr)


@pytest.mark.parametrize("cell", [np.nan, None, 2, -1, 0.5, "", "maybe", "2", np.datetime64("2026-01-01")])
def test_other_flags_are_refused_by_row_and_value(cell):
    flags = np.array([1, 0, cell, 1], dtype=object)
    shown = repr(cell) if not isinstance(cell, np.datetime64) else "datetime"
    with pytest.raises(ValueError, match=f"row 2 of chosen has .*{shown}.*none of 0 and 1, false and true, no and yes"):
        from_long(LONG | {"chosen": flags})
    with pytest.raises(ValueError, match=f"row 2 of here has .*{shown}"):
        from_long(LONG | {"here": flags}, available="here")
    mask = np.stack([flags, [1] * 4], axis=1)
    for masks in ({"available": mask}, {"available": lambda rows: mask[rows]}, {"unavailable": mask}):
        with pytest.raises(ValueError, match=f"row 2, column 0 of (un)?available has .*{shown}"):
            choice_sets(**masks, n_rows=4, alternatives=["a", "b"])


def test_sparse_and_masked_flags_are_looked_at():
    with pytest.raises(ValueError, match=r"row 1, column 0 of available has 2\.0"):
        choice_sets(available=sp.csr_array([[1.0, 1], [2, 0]]))
    with pytest.raises(ValueError, match="row 0, column 1 of available has None"):
        choice_sets(available=np.ma.array([[1, 0], [1, 1]], mask=[[0, 1], [0, 0]]))
    stored = sp.csr_array((np.array([1.0, 0, 1]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert choice_sets(available=stored).lists.alternatives.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        ({"weight": [1.0, 2, 1, 1]}, {}, r"row 1 of weight has 2.0, and 1.0 in another row of the same chooser, 0"),
        (
            {"person": ["p", "p", "p", "q"]},
            {},
            r"row 3 of person has 'q', and 'p' in another row of the same chooser, 1",
        ),
        (
            {"cost": ["1", "high", "2", "3"]},
            {"features": ["cost"]},
            "row 1 of cost has 'high'; it must be a finite number",
        ),
        ({"cost": ["1", "2", "1.5x", "3"]}, {}, r"row 2 of cost has '1.5x'; it must be a finite number"),
        ({"cost": [1, 2, None, 3]}, {}, "row 2 of cost has None"),
        ({"cost": np.arange(4).astype("M8[ns]")}, {"features": ["cost"]}, "row 0 of cost has 0; it must be a finite"),
        ({"cost": [1, 2, 1e200, 3]}, {}, r"row 2 of cost has 1e\+200; it must be a finite number up to 1e\+60"),
        ({"cost": ["1", "2", "1_0", "3"]}, {}, "row 2 of cost has '1_0'"),
        ({"offset": [0, 0, np.inf, 0]}, {}, "row 2 of offset has inf; it must be a finite number"),
        ({"hhwgt": [1.0, 2, 3, 4]}, {}, "columns 'hhwgt' look like weights"),
        ({"trip_id": [1, 2, 3, 4]}, {}, "columns 'trip_id' look like weights or numbers of rows"),
        ({}, {"features": {"pair": ["cost"]}}, "a kind of features is 'pair'; it must be one of 'choosers'"),
        ({"wt": [1.0, 2, 3, 4]}, {}, "columns 'wt' look like weights .*features=.'cost'.*weight='wt'"),
        ({"expfactor": [1.0] * 4, "wgt": [1] * 4}, {}, "columns 'expfactor', 'wgt' look like weights"),
        ({"Unnamed: 0": [0, 1, 2, 3]}, {}, "columns 'Unnamed: 0' look like weights or numbers of rows"),
        ({}, {"weight": "w"}, "no column 'w'; from_long looks for .*'w' .weight.; it has 'chooser', 'alternative'"),
        ({}, {"features": ["costs"]}, r"no column 'costs' \(did you mean 'cost'\?\)"),
        ({"alternative": ["a", None, "a", "b"]}, {}, r"alternative\[1\] is None"),
        ({"chooser": [0, 0, np.nan, 1]}, {}, r"chooser\[2\] is nan"),
        ({}, {"alternatives": ["a", "c"]}, "row 1 of alternative has 'b', which is none of the alternatives 'a', 'c'"),
        ({"chosen": [1, 1, 0, 1]}, {}, r"chooser 0 has chosen 2 .*chooser=\['person', 'task'\]"),
        ({"n": [1, 2, -1, 0]}, {"counts": "n"}, "counts has -1.0; it must be at least 0"),
        ({"cost": [1.0, 2, 3]}, {}, r"column 'cost' has shape \(3,\)"),
        ({}, {"features": ["cost"], "formula": "cost"}, "features and formula are both given"),
    ],
)
def test_long_tables_that_lie_are_refused(columns, how, message):
    if "formula" in how:
        pytest.importorskip("formulaic")
    with pytest.raises(ValueError, match=message):
        from_long(LONG | columns, **how)


def test_a_table_without_its_columns_says_what_it_looks_for():
    with pytest.raises(ValueError, match=r"looks for 'chooser' .chooser., 'alternative' .*; it has 'id', 'mode'"):
        from_long({"id": [1], "mode": [2]})


def test_what_is_no_table_is_refused_and_one_name_is_a_list_of_one():
    for table in ([1, 2], np.ones((3, 2)), choice_sets(pairs={"x": np.ones((3, 2))}), "trips.csv"):
        with pytest.raises(ValueError, match=f"the table is a {type(table).__name__}; it must be a data frame"):
            from_long(table)
    assert from_long(LONG, features="cost").pair_names == ("cost",)
    assert from_long(LONG, features={"pairs": "cost"}).pair_names == ("cost",)
    assert from_wide(WIDE, **HOW, choosers="income").chooser_names == ("income",)


def test_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(LONG)
    with pytest.raises(ValueError, match="two columns of the table are named 'cost'"):
        from_long(pd.concat([frame, frame[["cost"]]], axis=1))


def test_columns_of_numbers_of_any_type_are_features():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(LONG).assign(
        whole=pd.array([1, 2, 3, 5], dtype="Int64"),
        objects=np.array([1, 2.5, 3, 4], dtype=object),
        text=["1", "2.5", "3e1", " 4 "],
        word=["x", "y", "x", "y"],
    )
    assert from_long(frame).pair_names == ("cost", "whole", "objects", "text")
    with pytest.raises(ValueError, match="row 1 of whole has nan"):
        from_long(frame.assign(whole=pd.array([1, None, 3, 5], dtype="Int64")))


def test_tables_of_arrow_and_frames_with_any_index_are_read():
    pd, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    expected = from_long(LONG).to_long()
    for table in (arrow.table(LONG), pd.DataFrame(LONG, index=[7, 5, 6, 4])):
        found = from_long(table).to_long()
        assert {name: column.tolist() for name, column in found.items()} == {n: c.tolist() for n, c in expected.items()}


def test_none_switches_a_column_off():
    table = LONG | {"weight": [1.0, 2, 1, 1], "person": [0, 1, 1, 1], "wt": [1.0, 2, 3, 4]}
    sets = from_long(table, weight=None, person=None)
    assert (sets.sample_weight, sets.persons, sets.pair_names) == (None, None, ("cost",))
    wide = from_wide(WIDE | {"person": [4, 4, 2]}, **HOW, person="auto", weight="auto")
    assert (wide.sample_weight, wide.persons.tolist()) == (None, [1, 1, 0])


def test_tasks_that_recur_for_each_person_have_two_columns():
    table = {name: [*column, *column] for name, column in LONG.items()} | {"task": [1] * 4 + [2] * 4}
    table["person"] = table.pop("chooser")
    sets = from_long(table, chooser=["person", "task"])
    assert (sets.n_rows, sets.persons.tolist(), sets.pair_names) == (4, [0, 0, 1, 1], ("cost",))


def test_choices_that_are_not_available_are_counted_and_left_out():
    table = LONG | {"here": [0, 1, 1, 1], "chooser": ["x", "x", "y", "y"]}
    message = "1 of 2 rows have chosen an alternative that is not available: chooser 'x' has chosen 'a'"
    with pytest.raises(ValueError, match=message):
        from_long(table, available="here")
    with pytest.warns(UserWarning, match=message):
        assert from_long(table, available="here", unavailable_choices="drop").labels.tolist() == ["b"]
    # A cell of what is not available may be missing.
    kept = from_long(LONG | {"here": [1, 0, 1, 1], "cost": [1, np.nan, 2, 3]}, available="here")
    assert kept.to_long()["cost"].tolist() == [1, 2, 3]
    wide = WIDE | {"bus": [1, 0, 0], "tb": [3, np.nan, np.nan]}
    with pytest.raises(ValueError, match="row 1 has chosen 'b'"):
        from_wide(wide, **HOW, available={"b": "bus"})
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        assert from_wide(wide, **HOW, available={"b": "bus"}, unavailable_choices="drop").n_rows == 2


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        ({}, {"available": {"B": "bus"}}, "available has 'B', which is none of the alternatives 'a', 'b'"),
        ({}, {"pairs": {"time": {"A": "ta"}}}, "time has 'A', which is none of the alternatives"),
        ({}, {"counts": {"c": "n_a"}, "chosen": None}, "counts has 'c', which is none of the alternatives"),
        ({}, {"pairs": {"time": {"a": "TA"}}}, "no column 'TA'; from_wide looks for 'choice' .chosen., 'TA' .time."),
        ({"bus": [1, 2, 1]}, {"available": {"b": "bus"}}, "row 1 of bus has 2"),
        ({"choice": ["a", "c", "a"]}, {}, "row 1 of choice has 'c', which is none of the alternatives 'a', 'b'"),
        ({"choice": ["a", None, "a"]}, {}, r"choice\[1\] is None"),
        ({"ta": [1, "fast", 2]}, {}, "row 1 of ta has 'fast'; it must be a finite number"),
        ({"income": [1, np.nan, 2]}, {"choosers": ["income"]}, "row 1 of income has nan; it must be a finite number"),
        ({}, {"counts": {"a": "n_a"}}, "chosen and counts are both given"),
        ({}, {"pairs": ["ta"]}, "pairs is a list; it must be a mapping"),
        ({}, {"pairs": {"time": ["ta", "tb"]}}, "time is a list; it must be a mapping"),
        ({}, {"available": "bus"}, "available is a str; it must be a mapping"),
    ],
)
def test_wide_tables_that_lie_are_refused(columns, how, message):
    with pytest.raises(ValueError, match=message):
        from_wide(WIDE | columns, **{**HOW, **how})


@pytest.mark.parametrize("name", ["available", "counts", "weight", "offset"])
def test_features_of_pairs_in_wide_tables_may_have_any_name(name):
    pairs, times = {name: HOW["pairs"]["time"]}, np.stack([WIDE["ta"], WIDE["tb"]], axis=1)
    sets = from_wide(WIDE, **{**HOW, "pairs": pairs}, available={"b": "bus"}, weight="income")
    assert sets.pair_names == (name,)
    assert sets.lists.features[:, 0].tolist() == times[np.array([[1, 1], [1, 1], [1, 0]], bool)].tolist()
    with pytest.raises(ValueError, match=f"no column 'TA'.*'TA' .{name}."):
        from_wide(WIDE, **{**HOW, "pairs": {name: {"a": "TA"}}}, available={"b": "bus"})


def test_counts_are_weights_of_choices(seed):
    rng = np.random.default_rng(seed)
    n, K = 30, 3
    X, counts = rng.normal(size=(n, 2)), rng.poisson(3, (n, K))
    repeated = np.repeat(np.tile(np.arange(K), n), counts.ravel())
    rows = np.repeat(np.arange(n).repeat(K), counts.ravel())
    expected = ChoiceClassifier().fit(choice_sets(X=X[rows], chosen=repeated, alternatives=range(K)))
    sets = choice_sets(X=X, counts=counts)
    assert sets.n_rows == np.count_nonzero(counts)
    np.testing.assert_allclose(ChoiceClassifier().fit(sets).coef_, expected.coef_, atol=1e-6)
    wide = {f"n{k}": counts[:, k] for k in range(K)} | {"x0": X[:, 0], "x1": X[:, 1]}
    how = {"alternatives": range(K), "counts": {k: f"n{k}" for k in range(K)}, "choosers": ["x0", "x1"]}
    np.testing.assert_array_equal(from_wide(wide, **how).sample_weight, sets.sample_weight)
    long = {"chooser": np.arange(n).repeat(K), "alternative": np.tile(np.arange(K), n), "n": counts.ravel()}
    long |= {"x0": X[:, 0].repeat(K), "x1": X[:, 1].repeat(K)}
    np.testing.assert_array_equal(from_long(long, counts="n").sample_weight, sets.sample_weight)


def test_formulas_of_wide_tables(seed):
    pytest.importorskip("formulaic")
    sets = from_wide(WIDE, **HOW, available={"b": "bus"}, formula="log(time) + time:income + income")
    assert (sets.chooser_names, sets.pair_names) == (("income",), ("log(time)", "time:income"))
    long = sets.to_long()
    times = [1, 3, 2, 1, 3]
    np.testing.assert_allclose(long["log(time)"], np.log(times))
    np.testing.assert_allclose(long["time:income"], times * long["income"])
    kinds = {"choosers": ["income"], "pairs": ["log(time)", "time:income"]}
    first = {name: column[:1] for name, column in WIDE.items()}
    again = from_wide(first, **HOW, formula="log(time) + time:income + income", features=kinds)
    assert again.pair_names == sets.pair_names
    with pytest.raises(ValueError, match=r"row 0, column 0 of log.time - 1. has -inf; it must be a finite number"):
        from_wide(WIDE, **HOW, formula="log(time - 1)")
    with pytest.raises(ValueError, match=r"formula is 'log\(tim\)'.*the table has 'alternative', 'time'"):
        from_wide(WIDE, **HOW, formula="log(tim)")
    with pytest.raises(ValueError, match="depends on all of a table"):
        from_wide(WIDE, **HOW, formula="center(time)", features={"pairs": ["center(time)"]})


# Labels and sizes


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64),
        [2**60 + 1, 2**60 + 2],
        ["a", "a\0"],
        np.array(["2026-01-01", "9999-12-31"], dtype="M8[D]"),
        [False, True],
        ["letters " * 400, "b"],
    ],
)
def test_labels_keep_their_identity(labels):
    sets = choice_sets(alternatives=labels, X=np.ones((2, 1)), chosen=[labels[1], labels[0]])
    assert sets.chosen.tolist() == [1, 0]
    assert sets.labels.tolist() == [np.asarray(labels, dtype=sets.alternatives.dtype).tolist()[i] for i in (1, 0)]
    long = {"chooser": [0, 0], "alternative": labels, "chosen": [0, 1]}
    assert from_long(long).labels.tolist() == sets.labels.tolist()[:1]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"alternatives": [1, "1"]}, "labels must be of one kind"),
        ({"alternatives": [1, np.nan]}, r"alternatives\[1\] is nan"),
        ({"alternatives": ["a", "a"]}, "must be distinct"),
        ({"persons": 3}, r"persons has shape \(\)"),
        ({"X": np.ones((3, 1)), "chosen": [0, 1]}, r"chosen has shape \(2,\); it must be \(3,\)"),
        ({"chosen": "a"}, "the data have no rows"),
        ({"pairs": 3}, "pairs is a int; it must be a mapping"),
        ({"persons": [0, None, 1]}, r"persons\[1\] is None"),
        ({"available": np.array([[0, 10**9]] * 3)}, r"row 0, column 1 of available has 1000000000; .* in \[0, 2\]"),
        ({"available": np.array([[0, 2], [2, 1], [0, 1]])}, "row 1, column 0 of available has 2"),
        (
            {"available": ([0, 1, 2, 3], [0, 2**32 + 1, 1])},
            r"row 1 of available has 4294967297; it must be an integer in \[0, 1\]",
        ),
        ({"available": ([0, 1, 2, 3], [0, 1.7, 1])}, r"available has 1.7; it must be an integer in \[0, 1\]"),
        ({"available": (1, 2)}, r"available is \(1, 2\); a tuple must be lists \(indptr, alternatives\)"),
        ({"available": ([0, 2, 1, 3], [0, 1, 1])}, "indptr that does not begin n_rows = 3 lists"),
        ({"X": np.zeros((0, 1)), "chosen": None}, "the data have no rows"),
        ({"X": [[1.0], [1e200], [1]]}, r"row 1, column 0 of X has 1e\+200"),
        ({"X": [["1"], ["x"], ["2"]]}, "row 1, column 0 of X has 'x'; it must be a finite number"),
        ({"Z": sp.csr_array([[1.0], [np.inf]])}, "row 1, column 0 of Z has inf; it must be a finite number"),
        ({"pairs": lambda rows, ks: rows[:, None] / 0.0, "pair_names": ["s"]}, "of the function of pairs has"),
    ],
)
def test_arrays_that_lie_are_refused(how, message):
    arrays = {"alternatives": [0, 1], "chosen": [0, 1, 1], **how}
    if "alternatives" in how:
        arrays = {"X": np.ones((3, 1)), **how}
    with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
        [*choice_sets(**arrays).parts()]


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="each row has one alternative to choose from"):
        ChoiceClassifier().fit(choice_sets(Z=np.ones((2, 1)), available=np.eye(2, dtype=bool), chosen=[0, 1]))
    sets = choice_sets(Z=np.arange(3.0)[:, None], chosen=[0, 1, 2, 0])
    for label in (None, np.nan):
        with pytest.raises(ValueError, match=r"nests\[1\] is (None|nan)"):
            ChoiceClassifier(nests=["a", label, "a"] if label is None else [0, label, 0]).fit(sets)
