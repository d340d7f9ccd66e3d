"""The command `manyclass learn`: a saved model trained on with new rows."""

import numpy as np
import pytest
from test_cli_estimators import UNUSED, write_several
from test_command import run, the_error, write_data

import manyclass
from manyclass import load_xmc
from manyclass.classifiers.saving import load_notes
from manyclass.datasets import first_label, l2_normalize


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m"
    data = write_data(tmp_path / "data.txt")
    run("fit", data, "--output", path, "--solver", "implicit", "--max-iter", 2, "--random-state", 0, "--normalize")
    return path


def test_rows_are_learnt_as_partial_fit_learns_them(model, tmp_path, capsys):
    data, out = write_data(tmp_path / "more.txt", n_rows=100), tmp_path / "out"
    expected = manyclass.load(model)
    before = model.read_bytes()
    run("learn", model, data, "--output", out, "--n-passes", 3, "--learning-rate", 0.5, "--no-progress")
    X, Y = load_xmc(data)
    expected.partial_fit(l2_normalize(X), first_label(Y), n_passes=3, learning_rate=0.5)
    learnt = manyclass.load(out)
    np.testing.assert_array_equal(learnt.coef_, expected.coef_)
    assert (learnt.n_jobs, learnt.verbose) == (manyclass.load(model).n_jobs, 0)
    assert load_notes(out) == load_notes(model)
    assert model.read_bytes() == before
    assert "0 of them new" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:all 60 rows of a part have the label 99")  # learnt again
def test_the_model_is_replaced_and_goes_on_again(model, tmp_path, capsys):
    lines = write_data(tmp_path / "more.txt", n_rows=60).read_text().splitlines()
    new = tmp_path / "new.txt"
    new.write_text("\n".join("99 " + line.split(" ", 1)[1] for line in lines[1:]) + "\n")
    run("learn", model, new)
    assert "1 of them new" in capsys.readouterr().out
    run("learn", model, new)
    learnt = manyclass.load(model)
    assert learnt.classes_[-1] == 99
    assert learnt.class_count_[-1] == 120
    assert learnt.n_iter_ == 4


def test_texts_are_learnt_with_names(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("__label__tea green leaves\n__label__milk white cows\n" * 20)
    (tmp_path / "b.txt").write_text("__label__wine red leaves\n__label__milk white cows\n" * 20)
    model = tmp_path / "m"
    run("fit", tmp_path / "a.txt", "--output", model, "--random-state", 0)
    run("learn", model, tmp_path / "b.txt", "--n-passes", 5)
    assert manyclass.load(model).classes_.tolist() == ["milk", "tea", "wine"]
    capsys.readouterr()
    run("evaluate", model, tmp_path / "b.txt", "--json")
    assert '"n_rows": 40' in capsys.readouterr().out


@pytest.mark.parametrize("estimator", ["softmax", "margin"])
def test_several_labels_are_learnt_and_new_ones_find_their_places(estimator, tmp_path, capsys):
    model, more = tmp_path / "m", tmp_path / "more.txt"
    options = ("--labels", "all", "--estimator", estimator, "--max-iter", 3, "--random-state", 0)
    if estimator == "softmax":
        options = options[:4] + options[6:]  # the default of several labels
    run("fit", write_several(tmp_path / "several.txt"), "--output", model, *options)
    before = manyclass.load(model).classes_.tolist()
    assert UNUSED not in before
    more.write_text("40 9 10\n" + f"{UNUSED},0 0:1 4:1\n7 6:1\n" * 20)
    run("learn", model, more, "--n-passes", 2)
    assert "1 of them new" in capsys.readouterr().out
    learnt = manyclass.load(model)
    assert learnt.classes_.tolist() == sorted([*before, UNUSED])
    assert learnt.class_count_[learnt.classes_ == UNUSED] == 20


def test_mistakes_are_told_before_anything_is_written(model, tmp_path, capsys):
    before = model.read_bytes()
    (tmp_path / "names.csv").write_text("label,a\nant,1\nbee,2\n")
    data = write_data(tmp_path / "more.txt")
    for options, told in (
        ((data, "--n-passes", 0), "n_passes is 0"),
        ((data, "--learning-rate", -1), "learning_rate is -1"),
        ((data, "--output", tmp_path / "no" / "where"), "no"),
        ((tmp_path / "gone",), "No such file"),
    ):
        assert told in the_error(capsys, "learn", model, *options)
    assert model.read_bytes() == before


def test_files_are_learnt_in_order_and_scored_before(model, tmp_path, capsys):
    first, second = write_data(tmp_path / "a.txt", n_rows=80), write_data(tmp_path / "b.txt", n_rows=60)
    lines = first.read_text().splitlines()
    header = lines[0].rpartition(" ")[0] + " 100"  # labels
    first.write_text("\n".join([header, *("99 " + line.split(" ", 1)[1] for line in lines[1:9]), *lines[9:]]) + "\n")
    slow = manyclass.load(model)
    expected = []
    for path, n_unseen in ((first, 8), (second, 0)):
        X, Y = load_xmc(path)
        X, y = l2_normalize(X), first_label(Y)
        found = slow.evaluate(X, y)
        assert found["n_unseen"] == n_unseen
        expected.append(
            f"{path}: {len(y)} rows, {n_unseen} of them with a new label; log-loss {found['log_loss']:.4f} nats, "
            f"accuracy {1 - found['error']:.4f}"
        )
        slow.partial_fit(X, y, half_life=100)
    run("learn", model, first, second, "--half-life", 100, "--prequential", "--output", tmp_path / "out")
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if " rows, " in line] == expected
    assert "rows          140" in told
    assert "1 of them new" in told
    learnt = manyclass.load(tmp_path / "out")
    np.testing.assert_array_equal(learnt.coef_, slow.coef_)
    np.testing.assert_array_equal(learnt.class_count_, slow.class_count_)
    new = tmp_path / "new.txt"
    new.write_text("\n".join("98 " + line.split(" ", 1)[1] for line in lines[1:]) + "\n")
    run("learn", model, new, "--prequential", "--output", tmp_path / "out")
    assert "new.txt: 80 rows, none with a known label" in capsys.readouterr().out
    before = model.read_bytes()
    assert "gone" in the_error(capsys, "learn", model, first, tmp_path / "gone")
    assert "half_life is -1.0" in the_error(capsys, "learn", model, first, "--half-life", -1)
    assert model.read_bytes() == before
