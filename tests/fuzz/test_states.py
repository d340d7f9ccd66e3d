"""Histories of objects by `states.py`: some here, hours by `--fuzz-seconds`; planted faults are found."""

import random

import numpy as np
import pytest
from fuzz import states

SECONDS = 60.0


@pytest.mark.parametrize("most", [40, pytest.param(2000, marks=pytest.mark.long)])
def test_no_order_of_calls_breaks_an_object(most, request):
    """The numbers are others at each call where `--fuzz-seconds` is given, and the time ends them."""
    given = request.config.getoption("--fuzz-seconds")
    if given is None:
        counts, faults = states.run(0, most=most)
    else:
        counts, faults = states.run(random.SystemRandom().randrange(10**9), given)
    print(f"{counts.total() - counts['histories']} steps of {counts['histories']} histories")
    assert not faults, faults[0]
    assert min(counts[step.__name__] for step in states.ClassifierHistory(0, None).ways()) > 0


def test_a_history_is_its_number(tmp_path):
    def history():
        made = states.made(3, tmp_path)
        made.run(10)
        return str(made), made.steps

    assert history() == history()


PLANTED = {
    "a file without sums of squares": ("classifiers.files.read_squares", lambda _: None, ".squares"),
    "probabilities that sum to more": (
        "classifiers.predictions.Answers.predict_proba",
        lambda model, X: np.exp(model.predict_log_proba(X)) * 1.001,
        "Not equal to tolerance",
    ),
    "a check that is gone": ("fitting.planner.check_flag", lambda name, value: None, "was taken"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, monkeypatch):
    name, wrong, told = PLANTED[fault]
    monkeypatch.setattr(f"manyclass.{name}", wrong)
    _, faults = states.run(0, SECONDS)
    assert faults
    assert told in faults[0]
