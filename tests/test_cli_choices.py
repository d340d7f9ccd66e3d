"""`manyclass fit --estimator choice --long`: what Python gives, and what is refused."""

import numpy as np
import pytest
from choice_twins import world
from test_cli import run, the_error

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
    run(*choice)
    capsys.readouterr()
    assert "is a choice model" in the_error(capsys, "evaluate", tmp_path / "m", trips)
