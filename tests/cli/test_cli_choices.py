"""Long tables of choices in `fit`, `evaluate` and `predict`: what Python gives, and what is refused."""

import json

import numpy as np
import pytest
from choice_twins import world
from test_command import run, the_error, write_data

import manyclass
from manyclass import ChoiceClassifier

pd = pytest.importorskip("pandas")


@pytest.fixture
def trips(tmp_path):
    table = pd.DataFrame(world(0)[0].to_long()).drop(columns=["offset"])
    table.to_csv(tmp_path / "trips.csv", index=False)
    return tmp_path / "trips.csv"


def test_a_long_table_is_fitted_and_evaluated(tmp_path, trips, capsys):
    model = tmp_path / "m"
    run("fit", trips, "--estimator", "choice", "--long", "--output", model, "--covariance", "robust", "--test", trips)
    out = capsys.readouterr().out
    sets = manyclass.datasets.from_long(pd.read_csv(trips))
    expected = ChoiceClassifier(covariance="robust").fit(sets)
    assert str(expected.summary()) in out
    assert f"{expected.evaluate(sets)['log_loss']:.6f} nats" in out
    np.testing.assert_allclose(manyclass.load(model).coef_, expected.coef_)


def test_info_and_explain_tell_of_a_choice_model(tmp_path, trips, capsys):
    model = tmp_path / "m"
    run("fit", trips, "--estimator", "choice", "--long", "--output", model)
    capsys.readouterr()
    run("info", model)
    assert "multinomial logit" in capsys.readouterr().out
    run("explain", model)
    assert capsys.readouterr().out == f"{manyclass.load(model).summary()}\n"
    assert "is a choice model" in the_error(capsys, "explain", model, "--label", "a")


def test_columns_are_named_and_another_table_is_read_like_the_first(tmp_path, trips, capsys):
    table = pd.read_csv(trips).rename(columns={"chooser": "id", "alternative": "mode", "chosen": "took"})
    table.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    few = table[table["id"] < 3]
    few.to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    names = ("--chooser", "id", "--alternative", "mode", "--chosen", "took", "--feature", "s0", "--feature", "z1")
    how = ("--estimator", "choice", "--long", "--output", tmp_path / "m", "--noise", "normal", *names)
    run("fit", tmp_path / "a.tsv", *how, "--test", tmp_path / "b.tsv")
    assert "b.tsv" in capsys.readouterr().out
    assert manyclass.load(tmp_path / "m").coef_names_ == ["z1", "s0"]


def test_what_does_not_fit_is_refused(tmp_path, trips, capsys):
    fit = ("fit", trips, "--output", tmp_path / "m")
    assert "go together" in the_error(capsys, *fit, "--long")
    assert "go together" in the_error(capsys, *fit, "--estimator", "choice")
    choice = (*fit, "--estimator", "choice", "--long")
    assert "no column 'id'" in the_error(capsys, *choice, "--chooser", "id")
    for option in (("--stream",), ("--labels", "all"), ("--class-text", trips), ("--last", 3)):
        assert f"{option[0]} is not for choice models" in the_error(capsys, *choice, *option)
    assert not (tmp_path / "m").exists()


def test_evaluate_and_predict_give_what_python_gives(tmp_path, trips, capsys):
    model, table = tmp_path / "m", pd.read_csv(trips)
    run("fit", trips, "--estimator", "choice", "--long", "--output", model)
    fitted = manyclass.load(model)
    sets = manyclass.datasets.from_long(table)
    capsys.readouterr()
    run("evaluate", model, trips, "--json")
    assert json.loads(capsys.readouterr().out) == {**fitted.evaluate(sets), "n_rows": sets.n_rows}

    table["chooser"] = "c" + table["chooser"].astype(str).str.zfill(3)
    table.drop(columns="chosen").to_csv(tmp_path / "new.csv", index=False)  # what will be chosen is not known
    labels, p = fitted.predict_top_k(sets, 3)
    for options in ((), ("--output-format", "jsonl")):
        run("predict", model, tmp_path / "new.csv", "-k", 3, "--probabilities", *options)
        lines = capsys.readouterr().out.splitlines()
        for row, (line, own, of_own) in enumerate(zip(lines, labels, p, strict=True)):
            there = of_own > 0  # fewer than three may be available
            if options:
                told = json.loads(line)
                assert (told["row"], told["chooser"], told["labels"]) == (row, f"c{row:03}", own[there].tolist())
                found = told["scores"]
            else:
                who, *pairs = line.split("\t")
                assert (who, [*map(int, pairs[::2])]) == (f"c{row:03}", own[there].tolist())
                found = [*map(float, pairs[1::2])]
            np.testing.assert_allclose(found, of_own[there], rtol=1e-5)  # six digits


def test_columns_are_named_as_in_the_fit_and_new_alternatives_are_taken(tmp_path, trips, capsys):
    table = pd.read_csv(trips).rename(columns={"chooser": "id", "alternative": "mode", "chosen": "took"})
    table.to_csv(tmp_path / "a.csv", index=False)
    names = ("--chooser", "id", "--alternative", "mode", "--chosen", "took")
    run("fit", tmp_path / "a.csv", "--estimator", "choice", "--long", "--output", tmp_path / "m", *names)
    table["mode"] += 1  # the last one is new: the coefficients belong to features, and not to alternatives
    table.drop(columns="took").to_csv(tmp_path / "b.csv", index=False)
    capsys.readouterr()
    answers = []
    for path in ("a.csv", "b.csv"):
        run("predict", tmp_path / "m", tmp_path / path, "-k", 1)
        answers.append([int(line.split("\t")[1]) for line in capsys.readouterr().out.splitlines()])
    assert answers[1] == [label + 1 for label in answers[0]]
    table.rename(columns={"id": "who"}).to_csv(tmp_path / "c.csv", index=False)
    assert "no column 'id'" in the_error(capsys, "predict", tmp_path / "m", tmp_path / "c.csv")
    run("predict", tmp_path / "m", tmp_path / "c.csv", "-k", 1, "--chooser", "who")


def test_options_of_other_models_are_refused(tmp_path, trips, capsys):
    run("fit", trips, "--estimator", "choice", "--long", "--output", tmp_path / "m")
    capsys.readouterr()
    for option in (("--text",), ("--coverage", 0.9), ("--exclude-labels",), ("--mmap",)):
        assert "not for choice models" in the_error(capsys, "predict", tmp_path / "m", trips, *option)
    for option in (("--labels", "all"), ("--propensities", trips), ("--normalize",)):
        assert "not for choice models" in the_error(capsys, "evaluate", tmp_path / "m", trips, *option)
    other = write_data(tmp_path / "data.txt")
    run("fit", other, "--output", tmp_path / "softmax", "--max-iter", 1)
    capsys.readouterr()
    assert "--chooser is for choice models" in the_error(
        capsys, "predict", tmp_path / "softmax", other, "--chooser", "id"
    )
    assert "is a choice model" in the_error(capsys, "explain", tmp_path / "m", trips)


# Tables that lie, and wide ones

LONG = "chooser,mode,chosen,cost\n1,a,1,1.5\n1,b,0,2\n2,a,0,3\n2,b,1,5\n"
FIT = ("--estimator", "choice", "--long", "--alternative", "mode")


def fit_text(path, text, *options):
    path.write_text(text, encoding="utf-8")
    return ("fit", path, "--output", path.parent / "m", *options)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2,a,0,3", "2,a,0,3x", ":4: column 'cost' has '3x'; it must be a finite number"),
        ("2,a,0,3", "2,a,0,", ":4: column 'cost' has nan"),
        ("2,a,0,3", "2,a,maybe,3", ":4: column 'chosen' has 'maybe', which is none of 0 and 1"),
        ("2,a,0,3", "2,a,2,3", ":4: column 'chosen' has 2.0, which is none of 0 and 1"),
        ("2,a,0,3", "2,,0,3", ":4: column 'mode' has '', which is no label"),
        ("2,a,0,3", "2,a,0,3,4", ":4: there are 5 cells; the columns are 4"),
        ("chosen,cost", "cost,cost", "two columns are named 'cost'"),
        ("1,b,0,2", "01,b,0,2", "chooser '01' has chosen 0 alternatives"),
        ("cost", "wt", "columns 'wt' look like weights"),
        ("chooser", "id", "from_long looks for 'chooser' (chooser), 'mode' (alternative)"),
    ],
)
def test_cells_are_refused_by_file_and_line(tmp_path, capsys, old, new, message):
    path = tmp_path / "t.csv"
    error = the_error(capsys, *fit_text(path, LONG.replace(old, new), *FIT))
    assert message in error
    assert str(path) in error
    assert not (tmp_path / "m").exists()


def test_lines_are_those_of_the_file_behind_blank_ones_and_in_quotes(tmp_path, capsys):
    text = "\ufeff\n\n" + LONG.replace("1,b,", '1,"b\nb",').replace("2,a,0,3", "2,a,0,x")
    assert "t.csv:7: column 'cost' has 'x'" in the_error(capsys, *fit_text(tmp_path / "t.csv", text, *FIT))


def table_of_trips(n=200):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({f"{name}_{mode}": rng.uniform(1, 3, n) for name in ("time", "cost") for mode in "abc"})
    u = -wide[["time_a", "time_b", "time_c"]].to_numpy() - wide[["cost_a", "cost_b", "cost_c"]].to_numpy()
    wide["choice"] = np.array([*"abc"])[np.argmax(u + rng.gumbel(size=u.shape), axis=1)]
    wide["income"] = rng.uniform(1, 2, n)
    wide["has_c"] = np.where((wide["choice"] == "c") | (rng.random(n) < 0.8), "yes", "no")
    return wide


WIDE = ("--estimator", "choice", "--wide", "a,b,c", "--chosen", "choice", "--available", "c:has_c")
PAIRS = ("--pair", "time=a:time_a,b:time_b,c:time_c", "--pair", "cost=a:cost_a,b:cost_b,c:cost_c")


def test_wide_tables_are_fitted_evaluated_and_predicted(tmp_path, capsys):
    table, path, model = table_of_trips(), tmp_path / "wide.tsv", tmp_path / "m"
    table.loc[table["has_c"] == "no", ["time_c", "cost_c"]] = np.nan
    table.to_csv(path, sep="\t", index=False)
    run("fit", path, "--output", model, *WIDE, *PAIRS, "--feature", "income", "--wide", "b,a,c")
    pairs = {name: {mode: f"{name}_{mode}" for mode in "abc"} for name in ("time", "cost")}
    how = {"alternatives": ["b", "a", "c"], "pairs": pairs, "choosers": ["income"], "available": {"c": "has_c"}}
    sets = manyclass.datasets.from_wide(table, **how, chosen="choice")
    expected, fitted = ChoiceClassifier().fit(sets), manyclass.load(model)
    assert fitted.coef_names_ == expected.coef_names_
    np.testing.assert_allclose(fitted.coef_, expected.coef_)
    capsys.readouterr()
    run("evaluate", model, path, "--json")
    assert json.loads(capsys.readouterr().out)["log_loss"] == pytest.approx(fitted.evaluate(sets)["log_loss"])
    table.drop(columns="choice").to_csv(tmp_path / "new.tsv", sep="\t", index=False)
    run("predict", model, tmp_path / "new.tsv", "-k", 1)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row for row, *_ in lines] == [str(row) for row in range(len(table))]
    assert [label for _, label, _ in lines] == fitted.predict(sets).tolist()
    table.loc[7, "has_c"] = "perhaps"
    table.to_csv(path, sep="\t", index=False)
    assert "wide.tsv:9: column 'has_c' has 'perhaps'" in the_error(capsys, "evaluate", model, path)


def test_choices_that_were_not_available_are_counted(tmp_path, capsys):
    table, path = table_of_trips(), tmp_path / "wide.csv"
    table.loc[table["choice"] == "c", "has_c"] = ["no"] + ["yes"] * int(np.sum(table["choice"] == "c") - 1)
    table.to_csv(path, index=False)
    fit = ("fit", path, "--output", tmp_path / "m", *WIDE, *PAIRS)
    assert "1 of 200 rows have chosen an alternative that is not available" in the_error(capsys, *fit)
    run(*fit, "--unavailable-choices", "drop")
    out, err = capsys.readouterr()
    assert "1 of 200 rows have chosen an alternative that is not available" in err
    assert "199" in out
    drop = ("--unavailable-choices", "drop")
    assert "reference has 'bus', which is none" in the_error(capsys, *fit, *drop, "--reference", "bus")
    run(*fit, *drop, "--reference", "b")
    assert "constant[b]" not in manyclass.load(tmp_path / "m").coef_names_
    capsys.readouterr()
    assert "available has 'bus', which is none" in the_error(capsys, *fit, "--available", "bus:has_c")


def test_formulas_nests_constraints_and_counts(tmp_path, capsys):
    table, path, model = table_of_trips(), tmp_path / "wide.csv", tmp_path / "m"
    for mode in "abc":
        table[f"n_{mode}"] = (table["choice"] == mode) * 2
    table.to_csv(path, index=False)
    wide = ("fit", path, "--output", model, "--estimator", "choice", "--wide", "a,b,c", *PAIRS)
    run(*wide, "--counts", "a:n_a,b:n_b,c:n_c", "--nest", "road=a,b", "--constraint", "cost=-1")
    fitted = manyclass.load(model)
    assert fitted.coef_[fitted.coef_names_.index("cost")] == -1
    assert "dissimilarity[road]" in fitted.coef_names_
    assert fitted.coef_[fitted.coef_names_.index("dissimilarity[c alone]")] == 1
    capsys.readouterr()
    assert "none of the alternatives" in the_error(capsys, *wide, "--chosen", "choice", "--nest", "road=a,bus")
    assert "must be like NAME=VALUE" in the_error(capsys, *wide, "--chosen", "choice", "--constraint", "cost")
    twice = (
        ("--nest", "road=a,b", "--nest", "rail=b,c"),
        ("--nest", "road=a", "--nest", "road=b"),
        ("--constraint", "cost=negative", "--constraint", "cost=positive"),
        ("--pair", "time=c:time_c"),
        ("--available", "a:n_a,a:n_b"),
    )
    for options in twice:
        assert "twice" in the_error(capsys, *wide, "--chosen", "choice", *options)
    utilities = {mode: f"b_time*time_{mode} + b_cost*cost_{mode}" for mode in "abc"}
    options = [word for mode, text in utilities.items() for word in ("--utility", f"{mode}={text}")]
    run("fit", path, "--output", model, "--estimator", "choice", "--chosen", "choice", "--constants", "none", *options)
    assert manyclass.load(model).coef_names_ == ["b_time", "b_cost"]
    capsys.readouterr()
    assert "utilities are whole" in the_error(capsys, *wide[:6], *options, "--formula", "income")
    pytest.importorskip("formulaic")
    run(*wide, "--chosen", "choice", "--formula", "log(time) + cost:income")
    fitted = manyclass.load(model)
    assert fitted.coef_names_[:2] == ["log(time)", "cost:income"]
    capsys.readouterr()
    table.head(1).to_csv(tmp_path / "one.csv", index=False)
    run("predict", model, tmp_path / "one.csv", "-k", 1)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_tasks_of_persons_have_two_columns_and_weights_can_be_switched_off(tmp_path, capsys):
    table = pd.DataFrame(world(0)[0].to_long()).drop(columns=["offset"])
    table["task"], table["id"] = table["chooser"] % 3, table["chooser"] // 3
    table = table.drop(columns="chooser").rename(columns={"weight": "wt"})
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--output", tmp_path / "m", "--estimator", "choice", "--long")
    choosers = ("--chooser", "id", "--chooser", "task", "--person", "id")
    assert "look like weights" in the_error(capsys, *fit, *choosers)
    run(*fit, *choosers, "--weight", "none")
    assert "features " in capsys.readouterr().out  # all columns of numbers
    assert "wt" not in manyclass.load(tmp_path / "m").coef_names_
    run("predict", tmp_path / "m", tmp_path / "t.csv", "-k", 1)
    assert capsys.readouterr().out.splitlines()[1].split("\t")[0] == "0/1"


def test_decimal_commas_and_other_names_of_files(tmp_path, capsys):
    text = LONG.replace(",", ";").replace("1.5", "1,5") + "3;a;1;2,5\n3;b;0;1\n"
    path = tmp_path / "table"
    options = (*FIT, "--format", "csv", "--delimiter", ";", "--decimal", ",", "--constants", "none")
    run(*fit_text(path, text, *options))
    capsys.readouterr()
    run("evaluate", tmp_path / "m", path, "--json")
    assert json.loads(capsys.readouterr().out)["n_rows"] == 3


def test_parquet_keeps_types_and_names_rows(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(world(0)[0].to_long()).drop(columns=["offset"])
    table["alternative"] += 2**60 + 1
    table.to_parquet(tmp_path / "t.parquet")
    run("fit", tmp_path / "t.parquet", "--estimator", "choice", "--long", "--output", tmp_path / "m")
    assert manyclass.load(tmp_path / "m").classes_.tolist() == sorted(set(table["alternative"]))
    capsys.readouterr()
    table.loc[5, "s0"] = np.nan
    table.to_parquet(tmp_path / "t.parquet")
    error = the_error(capsys, "evaluate", tmp_path / "m", tmp_path / "t.parquet")
    assert "t.parquet: row 5 of s0 has nan" in error or "t.parquet: row 5 of s0 has None" in error


def test_the_help_of_choice_models_lists_no_parts(capsys):
    run("fit", "--estimator", "choice", "--help")
    text = capsys.readouterr().out
    assert "--wide" in text
    assert "implicit" not in text
    assert "--set PART__NAME" not in text
