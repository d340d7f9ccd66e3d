"""Progress: lines without carriage returns in logs, a bar on terminals, nothing within the first second."""

import io
import re
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from planned import with_figures
from test_command import run, write_data

from manyclass import SoftmaxClassifier
from manyclass.choosing import costs
from manyclass.choosing.costs import Facts
from manyclass.training import passes
from manyclass.training.passes import progress_bar


class Clock:
    """Seconds that a test moves on."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(passes.time, "monotonic", clock.monotonic)
    return clock


def test_what_is_done_within_a_second_is_silent(clock, capsys):
    bar = progress_bar(10, unit="row")
    clock.now += 0.9
    bar.update(10)
    bar.close()
    assert capsys.readouterr().err == ""


def test_lines_come_after_one_second_then_at_doubling_distances_up_to_half_a_minute(clock, capsys):
    bar = progress_bar(1000, unit="row", heading="reading")
    lines = []
    for second in range(200):
        clock.now += 1
        bar.update(1)
        if capsys.readouterr().err:
            lines.append(second + 1)
    assert lines == [1, 3, 7, 15, 31, 61, 91, 121, 151, 181]
    bar.close()
    assert capsys.readouterr().err == "reading: 200 of 1000 row, 20 %, 200 s, 1 row/s\n"


def test_the_last_line_is_not_said_twice(clock, capsys):
    bar = progress_bar(2, unit="row")
    clock.now += 2
    bar.set_postfix_str("half")
    bar.update(2)
    bar.close()
    assert capsys.readouterr().err == "2 of 2 row, 100 %, 2 s, 1 row/s, half\n"


def test_nothing_is_shown_that_is_not_asked_for(clock, capsys):
    bar = progress_bar(2, unit="row", shown=False)
    clock.now += 20
    bar.update(2)
    bar.set_postfix_str("word")
    bar.close()
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(passes, "DELAY", 0)
    bar = progress_bar(4, unit="row", heading="reading")
    bar.update(4)
    bar.close()
    assert "\r" in terminal.getvalue()
    assert re.search(r"reading: 100%\|.*4\.00/4\.00", terminal.getvalue())


def test_trials_of_the_ridge_are_told(capsys, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=1200)
    X = np.eye(4)[y] + rng.normal(size=(1200, 4))
    model = SoftmaxClassifier(random_state=0, verbose=1).fit(X, y)  # by full passes
    assert len(model.alpha_path_) > 1
    told = capsys.readouterr().err
    assert len(re.findall(r"^trying alpha=\S+: log-loss ", told, re.MULTILINE)) == len(model.alpha_path_)
    assert "\r" not in told


def test_logs_of_commands_have_whole_lines(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(passes, "DELAY", 0)
    monkeypatch.setattr("manyclass.cli.messages.SILENCE", 0)
    data = write_data(tmp_path / "d", 1200)
    run("fit", data, "--output", tmp_path / "m", "--model", "linear")
    run("evaluate", tmp_path / "m", data)
    run("predict", tmp_path / "m", data, "--output", tmp_path / "p")
    run("info", data)
    out, err = capsys.readouterr()
    assert "\r" not in out + err
    assert "trying alpha=" in err
    assert "1200 of 1200 row" in err
    assert all(line and not line.startswith(" ") for line in err.splitlines())


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"model": "hybrid", "dim": 8}, r"pairs, embeddings 1, embeddings 2, embeddings 3, margins, linear"),
        ({"solver": "lbfgs", "max_iter": 3}, "a model"),
    ],
)
def test_a_long_fit_says_before_what_it_is_going_to_train(given, what, capsys):
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 30), density=0.2, rng=rng, format="csr", dtype=np.float32)
    y = np.resize(np.arange(7), 200)
    model = SoftmaxClassifier(verbose=1, random_state=0, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few passes do not converge
        model.fit(X, y)
        assert "training" not in capsys.readouterr().err
        with_figures(model, QUICK=0.0).fit(X, y)
    sentence = rf"training {what} on 200 rows of 7 classes: about \S+ s of one thread and \S+ MB are predicted"
    assert re.search(sentence, capsys.readouterr().err)


def test_what_is_said_of_weights_on_pairs_goes_by_those_that_rows_meet(capsys):
    # Each class has three features of its own, so that a row meets three weights, and not 600.
    y = np.resize(np.arange(200), 1000)
    columns = (3 * y[:, np.newaxis] + np.arange(3)).ravel()
    X = sp.csr_array((np.ones(3000, np.float32), columns, np.arange(0, 3001, 3)), shape=(1000, 600))
    with_figures(SoftmaxClassifier(model="pairs", max_iter=4, verbose=1, random_state=0), QUICK=0.0).fit(X, y)
    seconds = 4e-6 * len(y) * costs.pairs_cost(Facts(1000, 600, 200, 3.0, sparse=True, met=3.0))
    assert f"about {seconds:.2g} s of one thread" in capsys.readouterr().err
