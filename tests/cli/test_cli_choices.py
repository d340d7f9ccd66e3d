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
    run("fit", trips, "--estimator", "choice", "--long", "--output", model, "--covariance", "robust", "--evaluate")
    out = capsys.readouterr().out
    sets = manyclass.datasets.from_long(pd.read_csv(trips))
    expected = ChoiceClassifier(covariance="robust").fit(sets)
    assert str(expected.summary()) in out
    assert f"{expected.evaluate(sets)['log_loss']:.6f} nats" in out
    np.testing.assert_allclose(manyclass.load(model).coef_, expected.coef_)


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
    assert "--stream is not for --estimator choice" in the_error(capsys, *choice, "--stream")
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
    for option in (("--labels", "all"), ("--n-bins", 5), ("--normalize",)):
        assert "not for choice models" in the_error(capsys, "evaluate", tmp_path / "m", trips, *option)
    other = write_data(tmp_path / "data.txt")
    run("fit", other, "--output", tmp_path / "softmax", "--max-iter", 1)
    capsys.readouterr()
    assert "--chooser is for choice models" in the_error(
        capsys, "predict", tmp_path / "softmax", other, "--chooser", "id"
    )
    assert "is a choice model" in the_error(capsys, "explain", tmp_path / "m", trips)
