"""The command's demonstration: what it measures, and what it tells in how many lines."""

import re

from test_cli import run

from manyclass.cli import demo
from manyclass.cli.demo import Result

MOST_LINES = 15
WIDEST = 120


def test_the_quick_demo_tells_accuracies_beside_scikit_learn_and_the_rule(capsys):
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
    assert "manyclass fit train.txt --text --output my.model" in out
    assert "nats" not in out


def test_what_the_demo_says_to_type_works(tmp_path, capsys, monkeypatch):
    typed = demo.story(1000, (RESULT, RESULT, RESULT), 10)[-3:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("a cat\tanimal\na dog\tanimal\na car\tthing\na bus\tthing\n" * 5)
    run(*typed[0].split()[1:])
    capsys.readouterr()
    pipe = re.fullmatch(r'  echo "(.*)" \| manyclass (.*)', typed[1])
    (tmp_path / "new").write_text(pipe[1] + "\n")
    run(*(word if word != "-" else "new" for word in pipe[2].split()))
    out = capsys.readouterr().out
    assert {"animal", "thing"} <= set(out.split())
    run(*typed[2].split()[1:])
    assert "--estimator" in capsys.readouterr().out


RESULT = Result("manyclass", 1000, 1.0, 0.5, 0.75)


def test_the_story_says_what_scikit_learn_had_time_for_only_where_it_had_not_all():
    all_rows, part = Result("peer", 1000, 1.0, 0.4, 0.6), Result("peer", 500, 1.0, 0.4, 0.6)
    rule = Result("the rule", None, None, 0.6, 0.8)
    assert not any("had time for" in line for line in demo.story(1000, (RESULT, all_rows, rule), 20))
    told = demo.story(1000, (RESULT, part, rule), 17)
    assert any("it had time for these rows, of 17 classes" in line for line in told)
    assert len(demo.opening(20, 1000)) + len(told) <= MOST_LINES
    assert "50.0 %" in "\n".join(told)
    assert "a guess is right in 5 %" in demo.opening(20, 1000)[1]


def test_the_demo_ends_at_ctrl_c(capsys, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_manyclass", interrupted)
    run("demo", "--quick", "--n-classes", 10, "--n-samples", 100, code=130)
    assert capsys.readouterr().err.endswith("manyclass: interrupted\n")
