"""The command: each of its parts on small files, and errors as one line."""

import inspect
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

import manyclass
from manyclass import SoftmaxClassifier, load_xmc, models, samplers, solvers
from manyclass.classifiers.saving import load_notes
from manyclass.cli import fit, main, parser
from manyclass.cli.options import LEFT_OUT, converter, documented_parameters
from manyclass.datasets import first_label, l2_normalize, save_csr

K, D = 12, 8


def write_data(path, n_rows=240, *, n_classes=K, seed=0, extra=()):
    """Rows whose class is told by their features, up to noise; `extra` lines come last."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n_rows):
        k = i % n_classes
        features = sorted({k % D, (k * 3 + 1) % D, int(rng.integers(D))})
        lines.append(f"{k} " + " ".join(f"{j}:{1 + rng.random():.3f}" for j in features))
    path.write_text("\n".join([f"{n_rows + len(extra)} {D} {n_classes}", *lines, *extra]) + "\n")
    return path


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.txt")


@pytest.fixture
def model(tmp_path, data, capsys):
    assert main(["fit", str(data), "--output", str(tmp_path / "m"), "--max-iter", "5", "--random-state", "0"]) == 0
    capsys.readouterr()
    return tmp_path / "m"


def run(*argv, code=0):
    assert main([str(a) for a in argv]) == code


def table(text):
    """The last table of a command's output."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.strip().split("\n\n")[-1].splitlines())


def the_error(capsys, *argv):
    """The one line that a user's error prints, nothing else."""
    run(*argv, code=2)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("manyclass: error: ")]
    assert len(lines) == 1, err
    assert err.endswith(lines[0] + "\n")
    assert "Traceback" not in err
    return lines[0].removeprefix("manyclass: error: ")


def test_fit_gives_the_model_that_python_gives(tmp_path, data, capsys):
    options = "--solver umax --n-negatives 5 --learning-rate 0.5 --random-state 7"
    options += " --set solver__shuffle=false --set solver__max_norm=none --set solver__delta=2"
    options += " --no-progress --normalize"
    run("fit", data, "--output", tmp_path / "m", *options.split(), "--test", data)
    out, err = capsys.readouterr()
    X, Y = load_xmc(data)
    X, y = l2_normalize(X), first_label(Y)
    solver = solvers.UMax(shuffle=False, delta=2.0)
    expected = SoftmaxClassifier(solver=solver, n_negatives=5, learning_rate=0.5, random_state=7)
    expected.fit(X, y)
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.coef_, expected.coef_)
    assert repr(loaded) == repr(expected)
    assert load_notes(tmp_path / "m") == {"form": "xmc", "one_based": False, "normalize": True}
    for line in (r"rows +240\b", r"features +8\b", r"classes +12\b", r"passes +20\b"):
        assert re.search(line, out)
    assert f"running loss  {expected.loss_curve_[-1]:.4f} nats" in out
    log_loss = f"{expected.evaluate(X, y)['log_loss']:.6f} nats"
    assert log_loss in out  # on the test rows, which are the training rows here
    assert err == ""


def test_fit_reaches_what_is_chosen_automatically(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", "--learning-rate", "grid", "--early-stopping", "--max-iter", "3")
    loaded = manyclass.load(tmp_path / "m")
    rate = loaded.resolved_params_["learning_rate"]
    assert rate == min(loaded.learning_rate_table_, key=loaded.learning_rate_table_.get)
    assert len(loaded.validation_curve_) == 3
    out = capsys.readouterr().out
    [chosen] = re.findall(r"^chosen +(.*)", out, re.MULTILINE)
    assert "solver=Exact(" in chosen
    assert f"learning_rate={rate!r}" in chosen
    run("info", tmp_path / "m")
    assert "solver=Exact(" in capsys.readouterr().out


def test_fit_trains_embeddings_and_predict_uses_them(tmp_path, data, capsys):
    options = ["--model", "embedding", "--dim", "4", "--solver", "adagrad", "--sampler", "frequency"]
    options += ["--set", "solver__share_classes=false", "--set", "model__activation=relu", "--max-iter", "2"]
    run("fit", data, "--output", tmp_path / "m", *options)
    loaded = manyclass.load(tmp_path / "m")
    assert loaded.embedding_.shape == (8, 4)
    assert loaded.solver.share_classes is False
    assert loaded.model.activation == "relu"
    assert loaded.dim == 4
    capsys.readouterr()
    run("predict", tmp_path / "m", data, "-k", "2")
    assert len(capsys.readouterr().out.splitlines()) >= 240


def test_every_parameter_of_the_estimator_is_an_option_with_its_text_and_default(capsys):
    built = parser.build_parser()
    parameters = inspect.signature(SoftmaxClassifier).parameters
    args = vars(built.parse_args(["fit", "data", "--output", "m"]))
    assert {name: args[name] for name in parameters if name not in LEFT_OUT} == {
        name: parameter.default for name, parameter in parameters.items() if name not in LEFT_OUT
    }
    assert list(documented_parameters(SoftmaxClassifier)) == list(parameters)
    run("fit", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "--set PART__NAME=VALUE" in shown
    for part in (*solvers.SOLVERS.values(), *samplers.SAMPLERS.values(), *models.MODELS.values()):
        assert f"{part.name}: {', '.join(s.name for s in part.settings) or 'none'}" in shown
    assert '--dim DIM Length of the embeddings; "auto" is 64 to 384, of each run. (default: auto)' in shown
    for name in parameters:
        assert (f"--{name.replace('_', '-')} " in shown) == (name not in LEFT_OUT)


def test_values_are_read_as_the_docstring_writes_their_types():
    assert converter('float or "auto", default="auto"')("auto") == "auto"
    assert converter('float or "auto"')("3") == 3.0
    assert converter("float or None")("None") is None
    assert converter("int, RandomState instance or None")("3") == 3
    for kind, text in (("int", "3.5"), ("int, default=3", "None"), ('float or "auto"', "car")):
        with pytest.raises(Exception, match=f"'{text}' is not one of: "):
            converter(kind)(text)


def test_rows_that_do_not_count_are_dropped_and_told(tmp_path, capsys):
    data = write_data(tmp_path / "d", extra=(" 1:1", " 2:1", "3", "4 5:0", "5", "0,1 1:1"))
    run("fit", data, "--output", tmp_path / "m", "--max-iter", 1)
    out, err = capsys.readouterr()
    assert re.search(r"rows +241\b", out)
    assert "dropped 2 rows without label\n" in err
    assert "dropped 3 rows without feature\n" in err
    assert "1 rows have several labels; the first one counts\n" in err


def test_ways_to_write_the_same_data_give_the_same_model(tmp_path, data):
    X, Y = load_xmc(data)
    save_csr(tmp_path / "binary", X, Y)
    _, *rows = data.read_text().splitlines()
    (tmp_path / "plain").write_text("\n".join(rows))
    shifted = [re.sub(r"(\d+):", lambda m: f"{int(m[1]) + 1}:", row) for row in rows]
    (tmp_path / "one").write_text("\n".join(shifted))
    ways = [(data,), (data, "--cache"), (data, "--cache"), (tmp_path / "binary",)]
    ways += [(tmp_path / "plain", "--header", "no"), (tmp_path / "one", "--one-based", "--n-features", D)]
    models = set()
    for way in ways:
        run("fit", *way, "--output", tmp_path / "m", "--max-iter", 1, "--random-state", 0)
        models.add(manyclass.load(tmp_path / "m").coef_.tobytes())
    assert len(models) == 1
    assert (tmp_path / "data.txt.csr.safetensors").exists()
    assert load_notes(tmp_path / "m")["one_based"]


def test_progress_is_told_on_stderr_in_whole_lines(tmp_path, data, capsys, monkeypatch):
    monkeypatch.setattr("manyclass.training.passes.DELAY", 0)
    run("fit", data, "--output", tmp_path / "m", "--max-iter", 2)
    out, err = capsys.readouterr()
    line = r"^480 of 480 row, 100 %, \d+ s, \S+ row/s, pass 2/2, loss [\d.]+$"
    assert re.search(line, err, re.MULTILINE)
    assert "\r" not in err
    assert "pass 2/2" not in out
    assert manyclass.load(tmp_path / "m").verbose == 0


def test_training_stops_when_its_time_is_over(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", "--max-iter", 20_000, "--max-seconds", 0.05)
    capsys.readouterr()
    loaded = manyclass.load(tmp_path / "m")
    assert 0 < loaded.n_iter_ < 20_000
    assert len(loaded.loss_curve_) == loaded.n_iter_


def test_evaluate_gives_what_python_gives(tmp_path, data, model, capsys):
    X, Y = load_xmc(data)
    expected = manyclass.load(model).evaluate(X, first_label(Y))
    assert expected.pop("n_unseen") == 0  # which the command counts among the dropped rows
    run("evaluate", model, data, "--json")
    result = json.loads(capsys.readouterr().out)
    assert {name: result[name] for name in expected} == expected
    assert result["n_rows"] == 240
    run("evaluate", model, data, "--mmap")
    assert table(capsys.readouterr().out)["log_loss"] == f"{expected['log_loss']:.6f} nats"


def test_evaluate_drops_and_tells_labels_that_the_model_has_not_seen(tmp_path, model, capsys):
    data = write_data(tmp_path / "wide", n_classes=K + 2, n_rows=140)
    run("evaluate", model, data, "--json")
    out, err = capsys.readouterr()
    assert json.loads(out)["n_rows"] == 120
    assert json.loads(out)["dropped_rows"]["with_unseen_label"] == 20
    assert err == "manyclass: dropped 20 rows whose label the model has not seen\n"
    (tmp_path / "none").write_text("99 1:1\n")
    message = the_error(capsys, "evaluate", model, tmp_path / "none")
    assert message.startswith("no row has a label that the model has seen")
    assert message.endswith("its labels are such as 0, those of the data such as 99")


def test_evaluate_and_predict_normalize_as_fit_did(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", "--normalize", "--max-iter", 3)
    X, Y = load_xmc(data)
    fitted = manyclass.load(tmp_path / "m")
    for options, rows in (((), l2_normalize(X)), (("--no-normalize",), X)):
        capsys.readouterr()
        run("evaluate", tmp_path / "m", data, "--json", *options)
        assert json.loads(capsys.readouterr().out)["log_loss"] == fitted.evaluate(rows, first_label(Y))["log_loss"]


def test_predict_searches_through_an_index_when_asked(data, model, capsys, monkeypatch):
    run("predict", model, data, "-k", 2, "--approximate")
    exact = capsys.readouterr().out
    run("predict", model, data, "-k", 2)
    assert capsys.readouterr().out == exact  # few classes are all scored
    monkeypatch.setattr("manyclass.search.class_index.EXACT_CLASSES", 0)
    monkeypatch.setattr("manyclass.search.class_index.slower", lambda *_: "")
    monkeypatch.setattr("manyclass.search.class_index.TAIL", 3)
    monkeypatch.setattr("manyclass.search.class_index.HEAD", 2)
    run("predict", model, data, "-k", 2, "--approximate", "--recall", 1)
    estimated = capsys.readouterr().out
    assert estimated != exact
    assert [line.split("\t")[0::2] for line in estimated.splitlines()] == [
        line.split("\t")[0::2] for line in exact.splitlines()
    ]
    assert the_error(capsys, "predict", model, data, "--approximate", "--recall", 2).startswith(
        "recall is 2.0; it must"
    )


@pytest.mark.parametrize("mode", [(), ("--probabilities",)])
def test_predict_writes_the_best_labels_in_each_format(tmp_path, data, model, capsys, mode, monkeypatch):
    monkeypatch.setattr("manyclass.cli.models.BLOCK_CELLS", 21)  # seven rows a block: the last one is not full
    labels, scores = manyclass.load(model).predict_top_k(load_xmc(data)[0], 3)
    scores = np.exp(scores) if mode else scores
    got = {}
    for form in ("tsv", "jsonl", "xmc"):
        run("predict", model, data, "-k", 3, "--output-format", form, *mode)
        out = capsys.readouterr().out
        run("predict", model, data, "-k", 3, "--output-format", form, *mode, "--output", tmp_path / "out")
        assert capsys.readouterr().out == ""
        assert (tmp_path / "out").read_text() == out
        got[form] = out.splitlines()
    tsv = [line.split("\t") for line in got["tsv"]]
    jsonl = [json.loads(line) for line in got["jsonl"]]
    assert got["xmc"][0] == f"240 {K}"
    xmc = [re.split("[: ]", line) for line in got["xmc"][1:]]
    assert [row["row"] for row in jsonl] == list(range(240))
    for some_labels, some_scores in (
        ([row[0::2] for row in tsv], [row[1::2] for row in tsv]),
        ([row["labels"] for row in jsonl], [row["scores"] for row in jsonl]),
        ([row[0::2] for row in xmc], [row[1::2] for row in xmc]),
    ):
        np.testing.assert_array_equal(np.array(some_labels, dtype=np.int64), labels)
        # Six digits are written: half a unit of the last one.
        np.testing.assert_allclose(np.array(some_scores, dtype=float), scores, rtol=5e-6)


def test_predict_writes_labels_that_are_text(tmp_path, data, capsys):
    X, Y = load_xmc(data)
    names = np.array([f"naïve {k}" for k in range(K)])
    SoftmaxClassifier(max_iter=2, random_state=0).fit(X, names[first_label(Y)]).save(tmp_path / "m")
    run("predict", tmp_path / "m", data, "-k", 1, "--output-format", "jsonl")
    lines = capsys.readouterr().out.splitlines()
    expected = manyclass.load(tmp_path / "m").predict(X).tolist()
    assert [json.loads(line)["labels"][0] for line in lines] == expected
    message = the_error(capsys, "predict", tmp_path / "m", data, "--output-format", "xmc")
    assert message.startswith("--output-format is xmc, whose labels are integers")


def test_info_tells_what_a_file_is(tmp_path, data, model, capsys):
    run("info", model)
    rows = table(capsys.readouterr().out)
    assert (rows["kind"], rows["classes"]) == ("model, SoftmaxClassifier", "12")
    assert rows["file bytes"] == str(model.stat().st_size)
    assert rows["parameters"] == "max_iter=5, random_state=0"
    save_csr(tmp_path / "b", *load_xmc(data))
    for path, kind in ((data, "data, xmc"), (tmp_path / "b", "data, csr")):
        run("info", path, "--json")
        rows = json.loads(capsys.readouterr().out)
        assert rows["kind"] == kind
        assert (rows["rows"], rows["features"], rows["labels_in_use"]) == (240, D, K)
        assert rows["labels_per_row"] == "1 to 1, mean 1"
        assert rows["file_bytes"] == path.stat().st_size


def test_version(capsys):
    run("--version")
    assert capsys.readouterr().out == f"manyclass {manyclass.__version__}\n"


def test_errors_of_the_user_are_one_line(tmp_path, data, model, capsys):
    m = tmp_path / "new"
    (tmp_path / "bad").write_text("1 0:1\n2 0:1 x:3\n")
    (tmp_path / "wide").write_text("1 0:1 900:1\n")
    save_csr(tmp_path / "wide_binary", sp.csr_array(np.ones((1, 900), np.float32)))
    (tmp_path / "empty").write_text("1\n 2:1\n")
    fit = ("fit", data, "--output", m)
    bad = re.escape(str(tmp_path / "bad"))
    cases = [
        (("fit", tmp_path / "gone", "--output", m), r".*/gone: No such file or directory"),
        (("fit", tmp_path / "bad", "--output", m), rf"{bad}:2:\d+: .*"),
        (("fit", tmp_path / "empty", "--output", m), r".*/empty: no row has a label and a feature"),
        (("fit", data), r"the following arguments are required: --output \(see manyclass fit --help\)"),
        (
            ("fit", data, "--output", tmp_path / "no" / "m"),
            r".* is not a folder or a device that this user may write to",
        ),
        (("fit", data, "--output", tmp_path), r".* is a folder; it must be a file"),
        ((*fit, "--solver", "adam"), r"solver is 'adam'; it must be one of 'auto', 'implicit', .*"),
        ((*fit, "--solver", "umx"), r"solver is 'umx'; .* \(did you mean 'umax'\?\)"),
        ((*fit, "--set", "decay=0.7"), r"--set is 'decay=0.7'; it must be like solver__decay=0.7"),
        ((*fit, "--set", "solver__decay=0.7"), r"--set is .*; --solver is 'auto', which has no parameters"),
        (
            (*fit, "--solver", "umax", "--set", "solver__dleta=1"),
            r"--set is 'solver__dleta=1'; --solver is 'umax', which has delta, .*",
        ),
        (
            (*fit, "--solver", "umax", "--set", "solver__delta=big"),
            r"--set is 'solver__delta=big': 'big' is not one of: float",
        ),
        ((*fit, "--solver", "umax", "--set", "solver__delta=-1"), r"delta is -1.*; it must be finite, at least 0"),
        ((*fit, "--solver", "exact", "--n-negatives", "3"), r"n_negatives is 3, which has no effect with solver=.*"),
        (
            (*fit, "--learning-rate", "fast"),
            r"argument --learning-rate: 'fast' is not one of: float, \"auto\" or \"grid\" .*",
        ),
        ((*fit, "--n-negatives", "0"), r"n_negatives is 0; .*"),
        ((*fit, "--n-jobs", "0"), r"n_jobs is 0; .*"),
        ((*fit, "--max-seconds", "-1"), r"max_seconds is -1.0; .*"),
        ((*fit, "--n-features", "0"), r"n_features is 0; .*"),
        ((*fit, "--n-features", "3"), r".*data.txt:\d+:\d+: .*"),
        ((*fit, "--unknown"), r"unrecognized arguments: --unknown \(see manyclass fit --help\)"),
        ((*fit, "--max-itr=3"), r"unrecognized arguments: --max-itr=3 \(did you mean '--max-iter'\?\) .*fit --help\)"),
        (("predict", model, data, "-k", 0), r"k is 0; .*"),
        (("predict", model, tmp_path / "wide"), r".*/wide:1:\d+: .*"),
        (
            ("predict", model, tmp_path / "wide_binary"),
            r".*/wide_binary, .* has rows of 900 features; .* on rows of 8 features",
        ),
        (("evaluate", data, data), r".*/data.txt is not a safetensors file, or it is truncated"),
        (("evaluate", tmp_path / "wide_binary", data), r".*/wide_binary is not a model of manyclass: .*"),
        (("info", tmp_path / "gone"), r".*/gone: No such file or directory"),
        (("demo", "--n-classes", "1"), r"n_classes is 1; .*"),
        ((), r"the following arguments are required: command .*"),
        (("train",), r"argument command: invalid choice: 'train' \(choose from .*\) \(see manyclass --help\)"),
        (("fitt", data), r"argument command: invalid choice: 'fitt' .* \(did you mean 'fit'\?\) .*"),
    ]
    for argv, message in cases:
        assert re.fullmatch(message, the_error(capsys, *argv)), argv
    assert not m.exists()
    with pytest.raises(FileNotFoundError):
        main(["--traceback", "info", str(tmp_path / "gone")])


def test_a_warning_of_training_is_one_line(tmp_path, data, capsys):
    run("fit", data, "--output", tmp_path / "m", "--solver", "sgd", "--learning-rate", "1e9")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("manyclass: warning: training diverged")] == lines


def test_ctrl_c_outside_of_training_ends_with_130(tmp_path, data, capsys, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "read", interrupted)
    run("fit", data, "--output", tmp_path / "m", code=130)
    assert capsys.readouterr().err == "manyclass: interrupted\n"
    assert not (tmp_path / "m").exists()
