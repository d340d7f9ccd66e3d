"""The commands fit and learn with --stream: several files in parts, with the results of the estimators."""

import re

import numpy as np
import pandas
import pytest
from test_command import run, the_error, write_data

import manyclass
from manyclass import MarginClassifier, SoftmaxClassifier
from manyclass.classifiers.saving import load_notes
from manyclass.datasets import Stream, l2_normalize

OPTIONS = ("--solver", "implicit", "--learning-rate", 0.5, "--max-iter", 2, "--random-state", 0)


@pytest.fixture
def folder(tmp_path):
    days = tmp_path / "days"
    days.mkdir()
    for day in range(3):
        write_data(days / f"day-{day}.txt", n_rows=60)
    return days


def test_fit_reads_a_folder_or_a_pattern(folder, tmp_path, capsys):
    expected = SoftmaxClassifier(solver="implicit", learning_rate=0.5, max_iter=2, random_state=0)
    expected.fit(Stream(folder, labels="first", random_state=0).map(lambda X, y: (l2_normalize(X), y)))
    for at, source in enumerate((folder, folder / "day-*.txt")):
        out = tmp_path / f"m{at}"
        test = folder / "day-0.txt"
        run("fit", source, "--stream", "--output", out, *OPTIONS, "--normalize", "--test", test)
        found = manyclass.load(out)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert load_notes(out) == {"form": "xmc", "one_based": False, "normalize": True}
        told = capsys.readouterr().out
        assert f"rows          {int(expected.class_count_.sum())}\n" in told
        assert "passes        2\n" in told
        assert "evaluated on" in told
    run("evaluate", tmp_path / "m0", folder / "day-0.txt")  # normalized as in the fit


def test_all_labels_of_a_row(folder, tmp_path):
    run("fit", folder, "--stream", "--output", tmp_path / "m", "--estimator", "margin", "--random-state", 0)
    expected = MarginClassifier(random_state=0).fit(Stream(folder, random_state=0))
    np.testing.assert_array_equal(manyclass.load(tmp_path / "m").coef_, expected.coef_)
    run("learn", tmp_path / "m", folder, "--stream")
    learnt = manyclass.load(tmp_path / "m")
    assert learnt.class_count_.sum() == 2 * expected.class_count_.sum()


def test_learn_reads_parts(folder, tmp_path, capsys):
    model, out = tmp_path / "m", tmp_path / "out"
    run("fit", folder / "day-0.txt", "--output", model, *OPTIONS, "--normalize")
    expected = manyclass.load(model)
    rows = Stream(folder, labels="first", random_state=0).map(lambda X, y: (l2_normalize(X), y))
    expected.partial_fit(rows, n_passes=2)
    run("learn", model, folder, "--stream", "--n-passes", 2, "--output", out)
    np.testing.assert_array_equal(manyclass.load(out).coef_, expected.coef_)
    assert re.search(r"^rows +180$", capsys.readouterr().out, re.MULTILINE)


def test_files_without_a_header_and_with_names(folder, tmp_path, capsys):
    text = "\n".join(f"{i % 3} {i % 3}:1 {3 + i % 4}:1" for i in range(60))
    (tmp_path / "a.txt").write_text(text + "\n")
    (tmp_path / "names").write_text("tea\nmilk\nwine\n")
    model = tmp_path / "m"
    options = ("--n-features", 8, "--label-names", tmp_path / "names", *OPTIONS)
    run("fit", tmp_path / "a.txt", "--stream", "--output", model, *options)
    assert manyclass.load(model).classes_.tolist() == ["milk", "tea", "wine"]
    run("learn", model, tmp_path / "a.txt", "--stream", "--label-names", tmp_path / "names")
    (tmp_path / "names").write_text("tea\nmilk\n")
    capsys.readouterr()
    told = the_error(capsys, "fit", tmp_path / "a.txt", "--stream", "--output", model, *options)
    assert f"has 2 names; {tmp_path / 'a.txt'} has the label 2" in told


def test_svmlight_begins_with_feature_1(tmp_path, capsys):
    lines = [f"{i % 3} {1 + i % 3}:1 {4 + i % 4}:1" for i in range(60)]
    (tmp_path / "a.svm").write_text("\n".join(lines) + "\n")
    run("fit", tmp_path / "a.svm", "--stream", "--output", tmp_path / "m", "--n-features", 7, *OPTIONS)
    run("fit", tmp_path / "a.svm", "--output", tmp_path / "whole", *OPTIONS)
    assert load_notes(tmp_path / "m") == load_notes(tmp_path / "whole")
    run("learn", tmp_path / "m", tmp_path / "a.svm", "--stream")
    capsys.readouterr()
    run("evaluate", tmp_path / "m", tmp_path / "a.svm", "--json")
    assert '"error": 0.0' in capsys.readouterr().out


def test_tables_and_memory(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    frame = pandas.DataFrame(np.eye(3)[y], columns=["a", "b", "c"]).assign(kind=np.array(["x", "y", "z"])[y])
    for at in range(3):
        frame[30 * at : 30 * at + 30].to_csv(tmp_path / f"part-{at}.csv", index=False)
    model = tmp_path / "m"
    options = ("--label-column", "kind", "--max-memory", "1GiB", *OPTIONS)
    run("fit", tmp_path / "part-*.csv", "--stream", "--output", model, *options)
    found = manyclass.load(model)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert found.classes_.tolist() == ["x", "y", "z"]
    run("learn", model, tmp_path / "part-*.csv", "--stream")
    run("evaluate", model, tmp_path / "part-0.csv", "--json")
    assert '"error": 0.0' in capsys.readouterr().out


def test_hashed_features_are_told(folder, tmp_path, capsys):
    lines = ["100 5000 40", *(f"{i % 40} {i}:1 {1000 + 7 * i}:1" for i in range(100))]
    (tmp_path / "wide.txt").write_text("\n".join(lines) + "\n")
    options = ("--max-memory", f"{(128 << 20) + 700_000}", *OPTIONS)
    run("fit", tmp_path / "wide.txt", "--stream", "--output", tmp_path / "m", *options)
    n_rows = manyclass.load(tmp_path / "m").storage()["hashed_features"]
    assert f"hashed features  {n_rows}\n" in capsys.readouterr().out
    (tmp_path / "wider.txt").write_text("2 5001 40\n1 5000:1\n2 3:1\n")
    run("learn", tmp_path / "m", tmp_path / "wide.txt", "--stream")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--stream", "--checkpoint", "c"), "--checkpoint is for rows that are read at once"),
        (("--stream", "--resume"), "--resume is for rows that are read at once"),
        (("--stream", "--text"), "day-0.txt: no row has a label"),
        (("--stream", "--cache"), "--cache is for data that are read at once, without --stream; "),
        (("--stream", "--max-memory", "2 gigs"), "max_memory is '2 gigs'"),
        (("--stream", "--text-min-df", 7), "--text-min-df is for texts"),
    ],
)
def test_options_without_effect_are_refused(options, told, folder, tmp_path, capsys):
    assert told in the_error(capsys, "fit", folder, "--output", tmp_path / "m", *options)
    assert not (tmp_path / "m").exists()


def test_a_bad_line_is_told_and_the_model_stays(folder, tmp_path, capsys):
    model = tmp_path / "m"
    run("fit", folder / "day-0.txt", "--output", model, *OPTIONS)
    before = model.read_bytes()
    capsys.readouterr()
    with (folder / "day-2.txt").open("a") as file:
        file.write("1 x:1\n")
    assert "day-2.txt:" in the_error(capsys, "learn", model, folder, "--stream")
    assert model.read_bytes() == before
