"""The command where it is stopped: Ctrl-C in training, and a reader of its output that leaves."""

import re
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from test_command import K, run, write_data

import manyclass
from manyclass import load_xmc
from manyclass.cli import skipgram
from manyclass.datasets import first_label


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.txt")


def start(*argv, python=("-m", "manyclass")):
    command = [sys.executable, *python, *map(str, argv)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_in_training_saves_the_model_so_far(tmp_path, data):
    with start("fit", data, "--output", tmp_path / "m", "--max-iter", 10**7, "--progress") as process:
        seen = ""
        while "pass " not in seen:  # the first progress
            piece = process.stderr.read(1)
            assert piece, seen
            seen += piece
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    model = manyclass.load(tmp_path / "m")
    assert re.search(rf"passes +{model.n_iter_}\n", out)
    last = f"manyclass: interrupted; {tmp_path / 'm'} is the model reached after {model.n_iter_} passes\n"
    assert err.endswith(last)
    X, Y = load_xmc(data)
    assert model.predict(X).shape == (240,)
    assert model.evaluate(X, first_label(Y))["log_loss"] < np.log(K)  # better than before the first step


def test_a_reader_that_leaves_ends_predict_quietly(tmp_path, data, capsys):
    model = tmp_path / "m"
    run("fit", data, "--output", model, "--max-iter", 5)
    data = write_data(tmp_path / "long", n_rows=20_000)  # output beyond what a pipe holds
    with start("predict", model, data) as process:
        assert process.stdout.readline().count("\t") == 9
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


def test_word_vectors_reached_by_ctrl_c_are_written_with_exit_code_130(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(skipgram, "keeping", lambda keep: nullcontext([keep]))
    (tmp_path / "text").write_text("the ant and the bee and the cow\n" * 20)
    options = ("--min-count", 1, "--dim", 4, "--max-iter", 1, "--random-state", 0, "--evaluate", "--no-progress")
    run("skipgram", tmp_path / "text", "--output", tmp_path / "v.bin", *options, code=130)
    out, err = capsys.readouterr()
    assert err == f"manyclass: interrupted; {tmp_path / 'v.bin'} has the vectors reached so far\n"
    assert "objective" not in out
    assert "ant" in manyclass.WordVectors.load_word2vec(tmp_path / "v.bin").vocabulary_
