"""Tables of the commands: columns by their names, labels in cells, and errors with file and line."""

import json
import re
import sys

import numpy as np
import pytest
from test_cli_forms import QUICK, as_table, output_of, write_table
from test_command import run, the_error

import manyclass
from manyclass import SoftmaxClassifier
from manyclass.classifiers.saving import load_notes
from manyclass.datasets import Stream

pandas = pytest.importorskip("pandas")


def test_a_table_of_numbers_gives_the_model_that_python_gives(tmp_path, seed, capsys):
    X, y = as_table(seed)
    data = write_table(tmp_path / "d.csv", X, y)
    run("fit", data, "--output", tmp_path / "m", *QUICK, "--test", data)
    loaded = manyclass.load(tmp_path / "m")
    expected = SoftmaxClassifier(max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(loaded.coef_, expected.coef_)
    assert loaded.feature_names_in_.tolist() == ["width", "height"]
    assert loaded.classes_.dtype == np.int64
    # Columns are found by their names: in another order, among others, without labels.
    lines = [f"x,{h},{w}" for w, h in X.astype(float).tolist()]
    (tmp_path / "other.csv").write_text("\n".join(["note,height,width", *lines]) + "\n")
    capsys.readouterr()
    run("predict", tmp_path / "m", tmp_path / "other.csv", "-k", 1)
    out, err = capsys.readouterr()
    assert [int(line.split("\t")[0]) for line in out.splitlines()] == expected.predict(X).tolist()
    assert err == ""


def test_a_table_has_its_label_where_it_is_told(tmp_path, seed, capsys):
    X, y = as_table(seed)
    names = np.array(["ant", "bee", "cow, brown"])
    quoted = [f'"{name}"' for name in names[y]]
    data = write_table(tmp_path / "d.csv", X, quoted, label="animal")
    message = the_error(capsys, "fit", data, "--output", tmp_path / "m")
    assert message == (
        f"{data}: no column is named 'label'; name it by --label-column, one of 'width', 'height', 'animal'"
    )
    run("fit", data, "--output", tmp_path / "m", *QUICK, "--label-column", "animal", "--normalize")
    loaded = manyclass.load(tmp_path / "m")
    assert loaded.classes_.tolist() == names.tolist()  # a comma in a cell parts nothing
    assert load_notes(tmp_path / "m")["label_column"] == "animal"
    unit = X / np.linalg.norm(X.astype(float), axis=1, keepdims=True).astype(np.float32)
    found = json.loads(output_of(capsys, "evaluate", tmp_path / "m", data, "--json"))
    # Rows are divided in float64 there, in float32 here: an ulp of x.
    assert found["log_loss"] == pytest.approx(loaded.evaluate(frame(unit), names[y])["log_loss"], rel=1e-5)


def frame(X):
    return pandas.DataFrame(X, columns=["width", "height"])


def test_several_labels_stand_in_a_cell(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("text,label\n" + '"ant bee","x,y"\n"cow doe","y"\n"ant doe","x"\n' * 3)
    options = ("--text-column", "text", "--labels", "all", "--random-state", 0)
    run("fit", tmp_path / "d.csv", "--output", tmp_path / "m", *options)
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["x", "y"]
    run("fit", tmp_path / "d.csv", "--output", tmp_path / "m", *options[:2], "--random-state", 0)
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["x", "x,y", "y"]
    run("fit", tmp_path / "d.csv", "--output", tmp_path / "m", *options, "--label-separator", ";")
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["x", "x,y", "y"]


def test_errors_in_tables_name_the_file_and_the_line(tmp_path, capsys):
    cases = [
        ("a,b,label\n1,2,x\n1,oops,y\n", r":3: 'oops' in column 'b' is not a finite number \(name columns of text.*"),
        ("a,b,label\n1,2,x\n1,,y\n", r":3: '' in column 'b' is not a finite number .*"),
        ("a,b,label\n1,2,x\n1,inf,y\n", r":3: 'inf' in column 'b' is not a finite number .*"),
        ("a,b,label\n1,2,x\n1,1e39,y\n", r":3: '1e39' in column 'b' is not a finite number .*"),
        ("a,b,label\n1,2,x\n1,2,y,3\n", r":3: there are 4 cells; the columns are 3"),
        ("a,b,label\n1,2,x,y\n1,2,y,z\n", r":2: there are 4 cells; the columns are 3"),
        ("a,b,label\n1,2,x\n1\n", r":3: there are 1 cells; the columns are 3"),
        ("a,b,label\n1,2,x\n\n1,2,y\n", r":3: the line is blank; it must have a cell for each column"),
        ("a,b,label\n1,1_0,x\n", r":2: '1_0' in column 'b' is not a finite number .*"),
        ('a,b,label\n1,2,"x\ny"\n1,oops,y\n', r":4: 'oops' in column 'b' .*"),
        ("", r": it is empty; the first line must name the columns"),
        ("a,b\n1,2\n", r": no column is named 'label'; name it by --label-column, one of 'a', 'b'"),
        ("label\nx\n", r": there is no column but 'label'; features or a --text-column are needed"),
    ]
    for content, message in cases:
        (tmp_path / "d.csv").write_text(content)
        found = the_error(capsys, "fit", tmp_path / "d.csv", "--output", tmp_path / "m")
        assert re.fullmatch(re.escape(str(tmp_path / "d.csv")) + message, found), found
    (tmp_path / "d.csv").write_text("a,b,label\n1,2,x\n")
    message = the_error(capsys, "fit", tmp_path / "d.csv", "--output", tmp_path / "m", "--text-column", "c")
    assert message == f"{tmp_path / 'd.csv'}: there is no column 'c'; it has 'a', 'b', 'label'"


def test_without_pandas_a_table_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    (tmp_path / "d.csv").write_text("a,label\n1,x\n")
    message = the_error(capsys, "fit", tmp_path / "d.csv", "--output", tmp_path / "m")
    assert message == "tables need pandas: pip install 'manyclass[tables]'"


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_what_stands_between_cells_and_before_fractions_is_an_option(tmp_path, stream):
    rows = [(0.5 + k % 3, -1.25e-3 * k, "a,b;c"[k % 3 * 2]) for k in range(30)]
    plain = "x,y,label\n" + "".join(f"{x},{y},{label}\n" for x, y, label in rows)
    (tmp_path / "p.csv").write_text(plain)
    (tmp_path / "c.csv").write_text(plain.replace(",", ";").replace(".", ","))
    (tmp_path / "b.csv").write_text(plain.replace(",", "|"))
    quick = ("--solver", "implicit", "--max-iter", 2, "--random-state", 0, *stream)
    run("fit", tmp_path / "p.csv", "--output", tmp_path / "p", *quick)
    run("fit", tmp_path / "c.csv", "--output", tmp_path / "c", *quick, "--delimiter", ";", "--decimal", ",")
    run("fit", tmp_path / "b.csv", "--output", tmp_path / "b", *quick, "--delimiter", "|")
    models = [manyclass.load(tmp_path / name) for name in "pcb"]
    assert all(np.array_equal(model.coef_, models[0].coef_) for model in models)
    run("evaluate", tmp_path / "c", tmp_path / "c.csv")  # the model keeps how its data were read
    run("learn", tmp_path / "c", tmp_path / "c.csv")


def test_marks_of_tables_that_cannot_be_are_told(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a;label\n1,5;x\n1.234,5;y\n")
    fit = ("fit", tmp_path / "d.csv", "--output", tmp_path / "m")
    assert the_error(capsys, *fit).endswith("the first line is one cell, 'a;label'; set delimiter to ';'")
    assert "'1,5' in column 'a' is not a finite number" in the_error(capsys, *fit, "--delimiter", ";")
    told = the_error(capsys, *fit, "--delimiter", ";", "--decimal", ",")
    assert "d.csv:3: '1.234,5' in column 'a' is not a finite number" in told
    for delimiter in ("", ";;", "a", '"', "\n", "."):
        assert f"delimiter is {delimiter!r}; it must be one character" in the_error(
            capsys, *fit, "--delimiter", delimiter
        )
    assert "not the decimal ','" in the_error(capsys, *fit, "--decimal", ",")
    (tmp_path / "t.tsv").write_text("a text\ta\n")
    assert "--decimal is for csv, tsv" in the_error(
        capsys, "fit", tmp_path / "t.tsv", "--text", "--decimal", ",", *fit[2:]
    )
    for options in ({"delimiter": ";"}, {"decimal": ","}):
        with pytest.raises(ValueError, match="has no effect with format='xmc'"):
            Stream(tmp_path / "t.tsv", format="xmc", n_features=1, **options)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_may_end_as_on_any_system_and_begin_with_a_mark(tmp_path, end, mark):
    content = mark + "x,label\n" + '1,"a,\nb"\n2,"say ""c"""\n'
    (tmp_path / "d.csv").write_bytes(content.replace("\n", end).encode())
    ((X, y),) = Stream(tmp_path / "d.csv", shuffle=False)
    assert (X["x"].tolist(), y.tolist()) == ([1, 2], [f"a,{end}b", 'say "c"'])


def test_groups_of_a_column_are_those_of_python(tmp_path, seed, capsys):
    rng = np.random.default_rng(seed)
    y, people = rng.integers(0, 3, size=60), np.arange(60) // 6
    X = (rng.normal(size=(60, 2)) + y[:, np.newaxis]).round(3).astype(np.float32)
    rows = [f"{a},{person},{b},{label}" for (a, b), person, label in zip(X.tolist(), people, y, strict=True)]
    rows.insert(7, "1,p8,2,")  # without a label
    (tmp_path / "d.csv").write_text("\n".join(["width,person,height,label", *rows]) + "\n")
    options = ("--random-state", 0, "--calibration", "temperature")
    expected = SoftmaxClassifier(random_state=0, calibration="temperature").fit(frame(X), y, groups=people)
    pandas.read_csv(tmp_path / "d.csv").to_parquet(tmp_path / "d.parquet")
    for data in ("d.csv", "d.parquet"):
        run("fit", tmp_path / data, "--output", tmp_path / "m", "--groups", "person", *options)
        loaded = manyclass.load(tmp_path / "m")
        assert loaded.feature_names_in_.tolist() == ["width", "height"]
        np.testing.assert_array_equal(loaded.coef_, expected.coef_)
        assert loaded.calibration_ == expected.calibration_
    (tmp_path / "d.txt").write_text("0 0:1\n1 1:1\n")
    refused = {
        ("d.txt", "person"): "--groups is for csv, tsv, parquet; .*d.txt is read as xmc",
        ("d.csv", "people"): "there is no column 'people'; it has 'width', ",
        ("d.csv", "person", "--stream"): "--groups is for rows that are read at once",
    }
    capsys.readouterr()
    for (data, groups, *more), message in refused.items():
        given = ("fit", tmp_path / data, "--output", tmp_path / "m", "--groups", groups, *more)
        assert re.search(message, the_error(capsys, *given))
