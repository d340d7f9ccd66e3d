"""Structs of the core are made field by field: what is unknown, missing or of another type is refused by its name."""

import numpy as np
import pytest
from reference.core_step import core_plan

from manyclass import _core

TEXT = {"tokens": np.array([0, 1, 0], dtype=np.int32), "sentences": np.array([0, 3]), "keep": np.ones(2)}


def test_an_unknown_field_is_refused_with_those_that_there_are():
    with pytest.raises(TypeError, match=r"Plan has no 'solvr'; it has 'solver', 'selection', 'n_negatives'"):
        core_plan(solver="css", solvr="css")
    with pytest.raises(TypeError, match=r"Trainer.run has no 'pass'; it has 'epoch', 'eta'"):
        trainer().run(**STRETCH, **{"pass": 0})


@pytest.mark.parametrize("name", ["tokens", "sentences", "keep", "window", "shrink"])
def test_a_missing_field_is_refused_by_its_name(name):
    given = {**TEXT, "window": 2, "shrink": False}
    _core.SkipGramText(**given)
    del given[name]
    with pytest.raises(TypeError, match=f"SkipGramText needs '{name}'"):
        _core.SkipGramText(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tokens": np.zeros(3)}, r"tokens is array.*; it must be a contiguous array of int32"),
        ({"tokens": np.zeros(6, dtype=np.int32)[::2]}, r"tokens is array.*; it must be a contiguous array of int32"),
        ({"keep": [1.0, 1.0]}, r"keep is \[1.0, 1.0\]; it must be a contiguous array of float64"),
        ({"window": 2.5}, r"window is 2.5; it must be an integer in its range"),
        ({"window": 2**40}, r"window is 1099511627776; it must be an integer in its range"),
        ({"shrink": "yes"}, r"shrink is 'yes'; it must be True or False"),
    ],
)
def test_a_field_of_another_type_is_refused_by_its_name(given, told):
    with pytest.raises(TypeError, match=told):
        _core.SkipGramText(**{**TEXT, "window": 2, "shrink": False, **given})


STRETCH = {"epoch": 0, "eta": 0.1, "eta_u": 0.1, "first": 0, "last": 4}


def trainer(**changed):
    """A trainer of four points and three classes, whose arrays nothing else refers to."""
    arrays = {
        "labels": np.array([0, 1, 2, 0], dtype=np.int32),
        "x_sq": np.ones(4, dtype=np.float32),
        "u": np.ones(4),
        "weights": np.zeros((3, 2), dtype=np.float32),
        "intercept": np.zeros(3, dtype=np.float32),
        "n_classes": 3,
    }
    x = np.ones((4, 2), dtype=np.float32)
    return _core.Trainer.points(core_plan(solver="css", selection="all"), x, 2, _core.State(**arrays | changed))


def test_a_field_that_is_not_given_has_the_cores_own_value():
    assert trainer().run(**STRETCH).loss == trainer().run(**STRETCH, loss=0.0, seconds=np.inf).loss
    assert trainer().run(**STRETCH, loss=1.0).loss > trainer().run(**STRETCH).loss


def test_arrays_live_as_long_as_what_views_them():
    weights = np.zeros((3, 2), dtype=np.float32)
    kept = trainer(weights=weights)
    for _ in range(3):
        np.full(10**6, np.nan)  # memory that was free would be written over
        kept.run(**STRETCH)
    assert np.isfinite(weights).all()
    assert weights.any()
