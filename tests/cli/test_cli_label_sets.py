"""`predict` and `evaluate` with --coverage, `predict` with --parents: what Python gives, and what is refused."""

import json

import numpy as np
import pytest
from test_command import D, K, run, the_error, write_data

import manyclass
from manyclass import load_xmc
from manyclass.datasets import first_label


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.txt")


@pytest.fixture
def model(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", "--max-iter", 2, "--random-state", 0)
    capsys.readouterr()
    return tmp_path / "m"


def xmc(path):
    X, Y = load_xmc(path)
    return X, first_label(Y)


def lines_of(capsys, *argv):
    run(*argv)
    return capsys.readouterr().out.splitlines()


def test_sets_are_those_of_python(tmp_path, data, model, capsys):
    held = write_data(tmp_path / "held.txt", seed=1)
    lines = lines_of(capsys, "predict", model, data, "--coverage", 0.8, "--calibration", held, "--probabilities")
    expected = manyclass.load(model)
    X, _ = xmc(data)
    sets = expected.calibrate_sets(*xmc(held), 0.8).predict_set(X, 0.8)
    p = expected.predict_proba(X)
    assert len({len(labels) for labels in sets}) > 1  # else the test would not see where a set ends
    for line, labels, row in zip(lines, sets, p, strict=True):
        found = line.split("\t")
        assert [*map(int, found[::2])] == labels.tolist()
        np.testing.assert_allclose([*map(float, found[1::2])], row[labels], rtol=1e-4)  # six digits of a float32
    options = ("--coverage", 0.8, "--calibration", held, "--output-format", "jsonl")
    assert [json.loads(line)["labels"] for line in lines_of(capsys, "predict", model, data, *options)] == [
        labels.tolist() for labels in sets
    ]


def test_sets_of_the_model_file_need_no_rows(tmp_path, data, model, capsys):
    loaded = manyclass.load(model).calibrate_sets(*xmc(data), [0.9, 0.6])
    loaded.save(tmp_path / "with_sets")
    lines = lines_of(capsys, "predict", tmp_path / "with_sets", data, "--coverage", 0.6)
    sets = loaded.predict_set(xmc(data)[0], 0.6)
    assert [len(line.split("\t")) // 2 for line in lines] == [*map(len, sets)]
    told = the_error(capsys, "predict", model, data, "--coverage", 0.6)
    assert told == "coverage is 0.6; calibrate_sets(X, y, coverage) was given none"


def test_evaluate_tells_how_many_sets_hold_their_label(tmp_path, data, model, capsys):
    held, new = (write_data(tmp_path / f"{seed}.txt", seed=seed, extra=("77 1:1",)) for seed in (1, 2))
    for path in (held, new):  # whose first lines tell how many labels there are
        path.write_text(path.read_text().replace(f" {D} {K}\n", f" {D} 78\n", 1))
    run("evaluate", model, new, "--coverage", 0.9, "--calibration", held, "--json")
    found = json.loads(capsys.readouterr().out)
    X, y = xmc(new)
    sets = manyclass.load(model).calibrate_sets(*xmc(held)).predict_set(X)
    assert y[-1] == 77  # a label that the model has not seen, in both files
    assert found["set_coverage"] == np.mean([label in labels for label, labels in zip(y, sets, strict=True)])
    assert found["labels_a_set"] == np.mean([*map(len, sets)])
    run("evaluate", model, new, "--coverage", 0.9, "--calibration", held)
    table = dict(line.split() for line in capsys.readouterr().out.splitlines() if len(line.split()) == 2)
    assert table["set_coverage"] == f"{found['set_coverage']:.6f}"
    covered = {label: [] for label in y.tolist()}
    for label, labels in zip(y.tolist(), sets, strict=True):
        covered[label].append(label in labels)
    shares = [np.mean(some) for some in covered.values()]
    assert found["class_coverage"] == pytest.approx(np.mean(shares))
    assert found["classes_below_half"] == np.mean(np.array(shares) < 0.5)
    run("evaluate", model, new, "--coverage", 0.9, "--calibration", held, "--by", "prevalence", "--json")
    sets = manyclass.load(model).calibrate_sets(*xmc(held), by="prevalence").predict_set(X)
    assert json.loads(capsys.readouterr().out)["labels_a_set"] == np.mean([*map(len, sets)])


@pytest.fixture
def parents(tmp_path):
    lines = [f"{k}\t{'even' if k % 2 == 0 else 'odd'}" for k in range(K)]
    (tmp_path / "parents.tsv").write_text("\n".join([*lines, "", "even\tall"]) + "\n")
    return tmp_path / "parents.tsv"


def test_ancestors_are_those_of_python(tmp_path, data, model, parents, capsys):
    X, _ = xmc(data)
    above = {k: "even" if k % 2 == 0 else "odd" for k in range(K)} | {"even": "all"}
    kinds = set()
    for least, options in ((0.5, ()), (0.7, ("--min-probability", 0.7)), (0.95, ("--min-probability", 0.95))):
        nodes, p = manyclass.load(model).predict_ancestor(X, above, min_probability=least)
        lines = lines_of(capsys, "predict", model, data, "--parents", parents, "--probabilities", *options)
        for line, node, sure in zip(lines, nodes, p, strict=True):
            kinds.add(type(node))
            assert line == ("" if node is None else f"{node}\t{sure:.6g}")
    assert kinds == {int, str, type(None)}
    (tmp_path / "names.txt").write_text("\n".join(f"number {k}" for k in range(K)))
    named = [f"number {line}" if line[0].isdigit() else line for line in parents.read_text().splitlines() if line]
    (tmp_path / "named.tsv").write_text("\n".join(named))
    how = ("--parents", tmp_path / "named.tsv", "--label-names", tmp_path / "names.txt", "--output-format", "jsonl")
    nodes, _ = manyclass.load(model).predict_ancestor(X, above)
    for line, node in zip(lines_of(capsys, "predict", model, data, *how), nodes, strict=True):
        shown = [] if node is None else [f"number {node}" if isinstance(node, int) else node]
        assert json.loads(line)["labels"] == shown


def test_what_does_not_fit_is_refused(tmp_path, data, model, parents, capsys):
    ask = ("predict", model, data)
    assert "no effect without --coverage" in the_error(capsys, *ask, "--calibration", data)
    assert "no effect without --parents" in the_error(capsys, *ask, "--min-probability", 0.6)
    assert "--parents has no effect with --coverage" in the_error(capsys, *ask, "--coverage", 0.9, "--parents", parents)
    for option in (("-k", 3), ("--threshold", 0.1), ("--exclude-labels",), ("--approximate",)):
        assert "no effect with --coverage" in the_error(capsys, *ask, "--coverage", 0.9, *option)
    assert "-k has no effect with --parents" in the_error(capsys, *ask, "--parents", parents, "-k", 2)
    assert "integers of at least 0" in the_error(capsys, *ask, "--parents", parents, "--output-format", "xmc")
    assert "coverage is 1.5" in the_error(capsys, *ask, "--coverage", 1.5, "--calibration", data)
    for text, told in (
        ("1\teven\n1\todd\n", ":2: '1' has a second parent, 'odd'"),
        ("1 even\n", ":1: '1 even' is not a node, a tab, and its parent"),
        ("x\ty\n", "none of the model's classes, such as '0'"),
        ("1\teven\neven\t1\n", "parents have a circle"),
    ):
        parents.write_text(text)
        assert told in the_error(capsys, *ask, "--parents", parents)
