"""Every command on models of every estimator: one label a row and several, Ctrl-C, and what is refused."""

import argparse
import json
import re
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from test_cli_signals import start
from test_command import K, run, table, the_error, write_data

import manyclass
from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load_xmc, metrics, solvers
from manyclass.cli import parser
from manyclass.cli.fit import ESTIMATORS
from manyclass.datasets import first_label

QUICK = ("--max-iter", 3, "--random-state", 0, "--no-progress")
FITS = {
    "softmax": ("softmax", ()),
    "embedding": ("softmax", ("--model", "embedding", "--dim", 4)),
    "margin": ("margin", ()),
    "probit": ("augment-reduce", ("--noise", "normal")),
    "posterior": ("augment-reduce", ("--posterior", "gaussian", "--alpha", "1e-3")),
}


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.txt", n_rows=120)


UNUSED = 4
USED = [k for k in range(10) if k != UNUSED]


def write_several(path, n_rows=120, n_labels=9, seed=0):
    """Rows of one to three labels, each told by a feature; the label UNUSED is counted by the header and has no row."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n_rows):
        labels = rng.choice(n_labels, size=1 + i % 3, replace=False)
        lines.append(",".join(str(USED[k]) for k in labels) + " " + " ".join(f"{k}:1" for k in sorted(labels)))
    path.write_text("\n".join([f"{n_rows} {n_labels} {n_labels + 1}", *lines]) + "\n")
    return path


@pytest.fixture
def several(tmp_path):
    return write_several(tmp_path / "several.txt")


def output_of(capsys, *argv):
    capsys.readouterr()
    run(*argv)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", FITS)
def test_every_command_works_on_a_model_of_every_estimator(tmp_path, data, capsys, name):
    estimator, options = FITS[name]
    out = output_of(
        capsys, "fit", data, "--estimator", estimator, "--output", tmp_path / "m", *QUICK, *options, "--test", data
    )
    loaded = manyclass.load(tmp_path / "m")
    assert type(loaded) is ESTIMATORS[estimator]
    X, Y = load_xmc(data)
    y = first_label(Y)
    found = json.loads(output_of(capsys, "evaluate", tmp_path / "m", data, "--json"))
    expected = loaded.evaluate(X, y)
    expected.pop("n_unseen", None)  # of which "dropped_rows" tells
    assert {key: found[key] for key in expected} == expected
    assert ("log_loss" in found) == ("ece" in found) == (estimator != "margin")
    assert table(out)["error"] == f"{expected['error']:.6f}"
    labels, scores = loaded.predict_top_k(X, 2)
    lines = output_of(capsys, "predict", tmp_path / "m", data, "-k", 2, "--output-format", "jsonl").splitlines()
    printed = [json.loads(line) for line in lines]
    assert [row["labels"] for row in printed] == labels.tolist()
    # Six digits are written: half a unit of the last one.
    np.testing.assert_allclose([row["scores"] for row in printed], scores, rtol=5e-6, atol=1e-12)
    info = table(output_of(capsys, "info", tmp_path / "m"))
    assert info["kind"] == f"model, {type(loaded).__name__}"
    assert len(output_of(capsys, "neighbours", tmp_path / "m", "3", "-k", 4).splitlines()) == 4


def test_a_margin_tells_its_step_size(tmp_path, data, capsys):
    run("fit", data, "--estimator", "margin", "--output", tmp_path / "m", "--max-iter", "3")
    rate = manyclass.load(tmp_path / "m").resolved_params_["learning_rate"]
    out = capsys.readouterr().out
    assert re.search(rf"^chosen +.*\blearning_rate={rate!r}", out, re.MULTILINE)
    assert re.search(r"^passes +3$", out, re.MULTILINE)
    run("info", tmp_path / "m")
    assert re.search(rf"^chosen in fit +.*\blearning_rate={rate!r}", capsys.readouterr().out, re.MULTILINE)


def test_the_options_of_fit_are_those_of_its_estimator(tmp_path, data, capsys):
    run("fit", "--estimator=margin", "--help")
    shown = capsys.readouterr().out
    assert "--smoothing" in shown
    assert "--validation-fraction" not in shown
    run("fit", "--help")
    assert "--validation-fraction" in capsys.readouterr().out
    run("fit", data, "--output", tmp_path / "m", "--smoothing", "5", "--estimator", "margin", *QUICK)
    assert manyclass.load(tmp_path / "m").smoothing == 5.0
    options = ("--posterior", "gaussian", "--alpha", "1e-3", "--set", "posterior__n_draws=7")
    run("fit", data, "--output", tmp_path / "m", "--estimator", "augment-reduce", *QUICK, *options)
    capsys.readouterr()
    assert repr(manyclass.load(tmp_path / "m").posterior) == repr(solvers.Gaussian(n_draws=7))
    fit = ("fit", data, "--output", tmp_path / "new")
    assert "unrecognized arguments: --smoothing" in the_error(capsys, *fit, "--smoothing", "5")
    assert "invalid choice: 'svm'" in the_error(capsys, *fit, "--estimator", "svm")
    assert "expected one argument" in the_error(capsys, *fit, "--estimator")
    both = ("--estimator", "augment-reduce", "--labels", "all")
    assert "this takes one label a row" in the_error(capsys, *fit, *both)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("estimator", ["softmax", "margin"])
def test_several_labels_give_what_python_gives(tmp_path, several, capsys, estimator):
    m = tmp_path / "m"
    out = output_of(capsys, "fit", several, "--estimator", estimator, "--labels", "all", "--output", m, *QUICK)
    assert table(out)["labels"] == str(load_xmc(several)[1].nnz)
    X, Y = load_xmc(several)
    Y = sp.csr_array(Y[:, USED])
    Y.sort_indices()
    expected = ESTIMATORS[estimator](max_iter=3, random_state=0).fit(X, Y)
    loaded = manyclass.load(m)
    np.testing.assert_array_equal(loaded.decision_function(X), expected.decision_function(X))
    assert loaded.classes_.tolist() == USED
    best, _ = expected.predict_top_k(X, 5)
    found = json.loads(output_of(capsys, "evaluate", m, several, "--json", "--propensities", several))
    weights = metrics.propensities(Y)
    for name, values in (
        ("precision", metrics.precision_at_k(Y, best)),
        ("ndcg", metrics.ndcg_at_k(Y, best)),
        ("psp", metrics.psp_at_k(Y, best, weights)),
    ):
        assert [found[f"{name}_at_{k}"] for k in (1, 3, 5)] == pytest.approx(values.tolist(), rel=1e-12)
    assert found["error"] == pytest.approx(1 - found["precision_at_1"])
    assert ("log_loss" in found) == (estimator == "softmax")
    if estimator == "softmax":
        assert found["log_loss"] == expected.evaluate(X, Y)["log_loss"]
    shown = table(output_of(capsys, "evaluate", m, several, "--propensities", several))
    assert shown["nDCG@3"] == f"{found['ndcg_at_3']:.6f}"
    assert shown["PSP@5"] == f"{found['psp_at_5']:.6f}"


def test_a_margin_model_learns_all_labels_where_rows_have_several(tmp_path, several, data, capsys):
    run("fit", several, "--estimator", "margin", "--output", tmp_path / "m", *QUICK)
    assert manyclass.load(tmp_path / "m").multilabel_
    run("fit", data, "--estimator", "margin", "--output", tmp_path / "m", *QUICK)
    assert not manyclass.load(tmp_path / "m").multilabel_
    run("fit", several, "--output", tmp_path / "m", *QUICK)
    assert not manyclass.load(tmp_path / "m").multilabel_
    assert "120 rows" not in capsys.readouterr().err


def test_names_of_several_labels_are_kept_and_printed(tmp_path, several, capsys):
    names = [f"label {chr(ord('z') - k)}" for k in range(10)]  # sorted the other way round
    (tmp_path / "names").write_text("\n".join(names) + "\n")
    fit = ("fit", several, "--estimator", "margin", *QUICK)
    run(*fit, "--output", tmp_path / "m", "--label-names", tmp_path / "names")
    loaded = manyclass.load(tmp_path / "m")
    assert loaded.classes_.tolist() == sorted(names[k] for k in USED)
    lines = output_of(capsys, "predict", tmp_path / "m", several, "-k", 1).splitlines()
    X, Y = load_xmc(several)
    position = loaded.predict_top_k(X, 1)[0][:, 0]
    assert [line.split("\t")[0] for line in lines] == position.tolist()
    right = np.mean([Y[[i], [names.index(name)]].item() for i, name in enumerate(position)])
    evaluate = ("evaluate", tmp_path / "m", several, "--json", "--label-names", tmp_path / "names")
    assert json.loads(output_of(capsys, *evaluate))["precision_at_1"] == pytest.approx(right)
    assert right > 0.9  # each label has its feature


def test_labels_that_a_model_of_several_has_not_seen_are_dropped_and_told(tmp_path, several, capsys):
    run("fit", several, "--estimator", "margin", "--output", tmp_path / "m", *QUICK)
    (tmp_path / "new").write_text("0,77 0:1\n55 1:1\n1 1:1\n 2:1\n")
    capsys.readouterr()
    run("evaluate", tmp_path / "m", tmp_path / "new", "--json")
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["n_rows"] == 2
    assert found["dropped_rows"] == {
        "without_label": 1,
        "without_feature": 0,
        "with_unseen_label": 1,
        "unseen_labels_of_other_rows": 1,
    }
    assert "dropped 1 rows whose label the model has not seen" in err


def test_a_model_of_first_labels_is_evaluated_on_all_where_asked(tmp_path, several, capsys):
    run("fit", several, "--output", tmp_path / "m", *QUICK)
    first = json.loads(output_of(capsys, "evaluate", tmp_path / "m", several, "--json"))
    both = json.loads(output_of(capsys, "evaluate", tmp_path / "m", several, "--json", "--labels", "all"))
    assert "log_loss" in first
    assert "log_loss" not in both  # of one label a row
    assert both["precision_at_1"] > first["precision_at_1"]
    X, Y = load_xmc(several)
    loaded = manyclass.load(tmp_path / "m")
    best, scores = loaded.predict_top_k(X, 5)
    at = np.searchsorted(loaded.classes_, best)
    seen = sp.csr_array(Y[:, loaded.classes_])
    assert both["precision_at_3"] == pytest.approx(metrics.precision_at_k(seen, at, 3))
    confidences = np.minimum(np.exp(scores[:, 0].astype(float)), 1)
    expected = metrics.expected_calibration_error(seen, at[:, 0], confidences, 15)
    assert both["ece"] == pytest.approx(expected, rel=1e-12)
    truth = np.searchsorted(loaded.classes_, first_label(Y))
    expected = metrics.expected_calibration_error(truth, at[:, 0], confidences, 15)
    assert first["ece"] == pytest.approx(expected, rel=1e-12)


def test_of_k_above_the_number_of_classes_all_are_printed(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    run("predict", tmp_path / "m", data, "-k", K + 1)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0].count("\t") == 2 * K - 1
    (tmp_path / "two").write_text("0 0:1\n1 1:1\n" * 5)
    run("fit", tmp_path / "two", "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    run("predict", tmp_path / "m", tmp_path / "two")  # by default five are, or as many as there are
    out, err = capsys.readouterr()
    assert (out.splitlines()[0].count("\t"), err) == (3, "")
    assert "error" in output_of(capsys, "evaluate", tmp_path / "m", tmp_path / "two")


@pytest.mark.parametrize("name", ["softmax", "margin", "posterior"])
def test_a_threshold_leaves_the_labels_above_it(tmp_path, data, capsys, name):
    estimator, options = FITS[name]
    run("fit", data, "--output", tmp_path / "m", "--estimator", estimator, *options, *QUICK)
    X, _ = load_xmc(data)
    model = manyclass.load(tmp_path / "m")
    labels, scores = model.predict_top_k(X, 3)
    distinct = np.unique(scores.astype(float))
    middle = np.argmax(np.diff(distinct[len(distinct) // 4 : -len(distinct) // 4])) + len(distinct) // 4
    least = float(distinct[middle : middle + 2].mean())  # far from every score, which a logarithm rounds
    given = least if name == "margin" else float(np.exp(least))
    lines = output_of(capsys, "predict", tmp_path / "m", data, "-k", 3, "--threshold", repr(given)).splitlines()
    found = [line.split("\t")[::2] if line else [] for line in lines]
    expected = [[str(label) for label in row[above]] for row, above in zip(labels, scores > least, strict=True)]
    assert found == expected
    assert {len(row) for row in found} != {3}


@pytest.mark.parametrize("output_format", ["tsv", "jsonl", "xmc"])
def test_labels_of_the_data_are_excluded(tmp_path, several, capsys, output_format):
    run("fit", several, "--output", tmp_path / "m", "--labels", "all", "--estimator", "margin", *QUICK)
    model = manyclass.load(tmp_path / "m")
    X, Y = load_xmc(several)
    how = ("-k", 9, "--exclude-labels", "--output-format", output_format)
    lines = output_of(capsys, "predict", tmp_path / "m", several, *how).splitlines()[output_format == "xmc" :]
    read = {
        "tsv": lambda line: [int(label) for label in line.split("\t")[::2]],
        "jsonl": lambda line: json.loads(line)["labels"],
        "xmc": lambda line: [int(pair.split(":")[0]) for pair in line.split()],
    }[output_format]
    ranked, _ = model.predict_top_k(X, 9)
    for i, line in enumerate(lines):
        seen = set(Y[[i]].indices.tolist())
        assert read(line) == [label for label in ranked[i].tolist() if label not in seen]
    assert len(lines) == 120


def test_what_thresholds_and_exclusions_cannot_do_is_refused(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    message = the_error(capsys, "predict", tmp_path / "m", data, "--threshold", 1.5)
    assert message.startswith("threshold is 1.5; it must be")
    header, *lines = data.read_text().splitlines()
    bare = tmp_path / "bare.txt"
    bare.write_text("\n".join([header, *[" " + line.partition(" ")[2] for line in lines]]) + "\n")
    message = the_error(capsys, "predict", tmp_path / "m", bare, "--exclude-labels")
    assert message.endswith("has no labels, so that --exclude-labels has no effect")


def test_what_predict_cannot_do_is_refused(tmp_path, data, capsys):
    run("fit", data, "--estimator", "margin", "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    predict = ("predict", tmp_path / "m", data)
    assert the_error(capsys, *predict, "--probabilities").endswith(
        "holds a MarginClassifier, whose scores are no probabilities"
    )
    assert "--recall has no effect without --approximate" in the_error(capsys, *predict, "--recall", 0.9)
    assert "is not a folder" in the_error(capsys, *predict, "--output", tmp_path / "no" / "file")
    X, Y = load_xmc(data)
    names = np.array([f"a\t{k}" for k in range(K)])
    SoftmaxClassifier(max_iter=1).fit(X, names[first_label(Y)]).save(tmp_path / "tabs")
    assert the_error(capsys, "predict", tmp_path / "tabs", data) == (
        "the name 'a\\t0' holds a tab or a newline; choose --output-format jsonl"
    )
    assert len(output_of(capsys, "predict", tmp_path / "tabs", data, "--output-format", "jsonl").splitlines()) == 120


@pytest.mark.parametrize("name", ["margin", "posterior"])
def test_models_saved_in_python_are_read(tmp_path, data, capsys, name):
    X, Y = load_xmc(data)
    kinds = {"margin": MarginClassifier(max_iter=2), "posterior": AugmentReduceClassifier(max_iter=2, noise="gumbel")}
    model = kinds[name].fit(X, first_label(Y))
    model.save(tmp_path / "m")
    found = json.loads(output_of(capsys, "evaluate", tmp_path / "m", data, "--json"))
    assert found["error"] == model.evaluate(X, first_label(Y))["error"]


# Ctrl-C


def test_ctrl_c_while_alpha_is_chosen_says_that_there_is_no_model(tmp_path):
    data = write_data(tmp_path / "d", n_rows=20_000)
    code = "import sys; from manyclass.training import passes; passes.DELAY = 0; from manyclass.cli import main; "
    code += "sys.exit(main(sys.argv[1:]))"
    # Full passes, which are predicted to take three seconds.
    argv = ("fit", data, "--output", tmp_path / "m", "--model", "linear")
    with start(*argv, python=("-c", code)) as process:
        seen = ""
        while "trying alpha" not in seen:
            piece = process.stderr.read(1)
            assert piece, seen
            seen += piece
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith("manyclass: interrupted\n")
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


def test_every_argument_of_every_command_has_a_text_of_help():
    (commands,) = (a for a in parser.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        bare = [action.dest for action in command._actions if not action.help]
        assert bare == [], name


def test_exit_codes_are_in_the_help(capsys):
    run("--help")
    shown = capsys.readouterr().out
    for code in (0, 1, 2, 130, 141):
        assert re.search(rf"^  {code} +\w", shown, re.MULTILINE)


@pytest.mark.parametrize("command", parser.COMMANDS)
def test_every_command_has_help_that_names_it(command, capsys):
    run(command, "--help")
    out = capsys.readouterr().out
    assert out.startswith(f"usage: manyclass {command}")
    assert "%(" not in out
    run("--help")
    assert re.search(rf"^    {command} +\w+", capsys.readouterr().out, re.MULTILINE)
