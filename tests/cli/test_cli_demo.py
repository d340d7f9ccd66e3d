"""The command's demonstration: what it measures, and what it tells in how many lines."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from test_command import run

from manyclass.cli import demo

MOST_LINES = 15
WIDEST = 120


def test_the_quick_demo_tells_accuracies_beside_scikit_learn_and_the_rule(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [".venv/bin/manyclass", "demo"])
    run("demo", "--quick", "--n-classes", 200, "--n-samples", 20_000, "--n-jobs", 1, "--no-progress")
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDEST
    row = r"^{} +{}([\d.]+) % +([\d.]+) %$"
    counted = r"([\d,]+) +([\d.]+) +"
    ours = re.search(row.format("manyclass", counted), out, re.MULTILINE)
    peer = re.search(row.format("scikit-learn's LogisticRegression", counted), out, re.MULTILINE)
    rule = re.search(row.format("the rule itself, which nothing can beat", ""), out, re.MULTILINE)
    assert ours[1] == "20,000"
    assert int(peer[1].replace(",", "")) in (1000 * 2**n for n in range(5)) or peer[1] == "20,000"
    first = [float(found[found.lastindex - 1]) for found in (ours, peer, rule)]
    five = [float(found[found.lastindex]) for found in (ours, peer, rule)]
    # 10,000 draws of a share have a standard error of at most half a percent; the rule is the best there is.
    assert first[0] < first[2] + 5 * 0.5
    assert five[0] < five[2] + 5 * 0.5
    assert first[0] > 0.8 * first[2]  # far from a guess, which is right in half a percent
    assert all(one < many for one, many in zip(first, five, strict=True))
    assert not re.search("nats|softmax|class updates", out)  # words of the trade
    types_what_it_says(lines[-3:], capsys)


def types_what_it_says(lines, capsys):
    fit, predict, explain = lines
    run(*shlex.split(fit)[1:])
    capsys.readouterr()
    pipe = re.fullmatch(r'  echo "(.*)" \| .*manyclass predict (\S+) -', predict)
    Path(pipe[2] + ".new").write_text(pipe[1] + "\n")
    run("predict", pipe[2], pipe[2] + ".new")
    assert capsys.readouterr().out.startswith("kitchen\t")
    run(*shlex.split(explain)[1:])
    assert {line.split("\t")[0] for line in capsys.readouterr().out.splitlines()} & {"kettle", "oven", "spoon"}


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (".venv/bin/manyclass", ".venv/bin/manyclass"),
        ("manyclass", "manyclass"),
        ("/usr/lib/python3/manyclass/__main__.py", f"{sys.executable} -m manyclass"),
    ],
)
def test_the_demo_says_the_command_as_it_was_called(called, told, monkeypatch):
    monkeypatch.setattr(sys, "argv", [called, "demo"])
    assert demo.command() == told


def test_the_demo_ends_at_ctrl_c(capsys, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "make_planted", interrupted)
    run("demo", "--quick", "--n-classes", 10, "--n-samples", 100, code=130)
    out, err = capsys.readouterr()
    assert "a guess is right in 10 %" in out
    assert err.endswith("manyclass: interrupted\n")
