"""The command's demonstration: what it measures, and what it says."""

import re

import numpy as np
from test_cli import run

import manyclass
from manyclass.cli import demo


def test_the_quick_demo_measures_against_the_planted_model(capsys):
    run("demo", "--quick", "--n-jobs", 1)
    out = capsys.readouterr().out
    trained = re.search(r"^implicit +[\d.]+ +8 +[\d.]+ \(([-+][\d.]+)\) +[\d.]+ \(([-+][\d.]+)\)$", out, re.MULTILINE)
    assert trained, out
    on_train, on_fresh = map(float, trained.groups())
    one_percent = 0.01 * np.log(500)
    assert on_train < one_percent
    # Nothing beats the planted model on fresh rows; the rest is the price of estimation, 0.05 nats, and sampling.
    assert 0 < on_fresh < 2 * one_percent
    assert re.search(r"^exact +[\d.]+ +(\d|<1) ", out, re.MULTILINE)
    assert f"On the training rows implicit ended {abs(on_train):.4f} nats" in out
    assert re.search(r"exact is [\d.]+ nats (behind|ahead of) implicit on fresh rows\.", out)


def test_the_demo_says_so_where_it_falls_short_or_behind(capsys):
    data = manyclass.datasets.make_planted(100, 5, 3, random_state=0)
    demo._print_statements(
        demo.Result("implicit", 1.0, 8, 0.3, -0.001), demo.Result("exact", 1.0, 8, 0.1, -0.2), data, 3, np.log(5)
    )
    out = capsys.readouterr().out
    assert (
        "On the training rows implicit ended 0.3000 nats above the planted model, 18.64 % of log K: not within" in out
    )
    assert "On fresh rows implicit ended 0.0010 nats below the planted model, 0.06 % of log K: within 1 %" in out
    assert "exact is 0.1990 nats ahead of implicit on fresh rows" in out
    assert "3 fresh rows are left out" in out
