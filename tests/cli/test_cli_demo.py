"""The command's demonstration: what it measures, and what it tells in how many lines."""

import re

from test_command import run

from manyclass.cli import demo

MOST_LINES = 15
WIDEST = 120


def test_the_quick_demo_tells_accuracies_beside_scikit_learn_and_the_rule(capsys):
    run("demo", "--quick", "--n-classes", 200, "--n-samples", 20_000, "--n-jobs", 1, "--no-progress")
    out, err = capsys.readouterr()
    assert "pass " not in err
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
    assert lines[-1].endswith("manyclass fit FILE --text --output MODEL")


def test_the_demo_ends_at_ctrl_c(capsys, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "make_planted", interrupted)
    run("demo", "--quick", "--n-classes", 10, "--n-samples", 100, code=130)
    out, err = capsys.readouterr()
    assert "a guess is right in 10 %" in out
    assert err.endswith("manyclass: interrupted\n")
