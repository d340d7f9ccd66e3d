"""Choice models of features of any size, and of steps that go far: no overflow, no silence."""

import warnings

import numpy as np
import pytest
from choice_twins import NOISES
from sklearn.exceptions import ConvergenceWarning

from manyclass import ChoiceClassifier
from manyclass.choice import RandomCoefficients
from manyclass.datasets import choice_sets


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("size", [1e59, 1e-50, 1e-200, 5e-324])
def test_features_of_any_size_give_finite_answers_without_a_warning_of_numbers(seed, size, noise):
    """By all alternatives, by drawn ones, with a ridge, in nests and of persons: a tiny feature does not vary."""
    rng = np.random.default_rng(seed)
    chosen, person = rng.integers(0, 4, 40), np.arange(40) // 2
    pairs = {"s": rng.uniform(-1, 1, (40, 4)) * size, "t": rng.normal(size=(40, 4))}
    sets = choice_sets(pairs=pairs, X=rng.normal(size=(20, 1))[person], chosen=chosen, persons=person)
    kinds: list[dict[str, object]] = [{}, {"alpha": 0.1}, {"solver": "double_sum", "n_negatives": 2, "max_iter": 3}]
    if noise == "gumbel":
        kinds += [{"nests": [0, 0, 1, 1]}, {"mixture": RandomCoefficients({"s": "lognormal"}, n_draws=8)}]
    for parameters in kinds:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = ChoiceClassifier(noise=noise, constants="none", random_state=seed, **parameters).fit(sets)
            answers = (model.predict_proba(sets), model.elasticities(sets, "s", 0), model.coef_)
        assert {record.category for record in caught} <= {ConvergenceWarning}
        assert all(np.isfinite(answer).all() for answer in answers)
        assert size > 1e-60 or "s" in model.unidentified_


def test_steps_that_go_far_do_not_overflow(seed):
    """Of rows whose choices are certain, by drawn alternatives: the first step may lead anywhere."""
    rng = np.random.default_rng(seed)
    sets = choice_sets(pairs={"s": rng.normal(size=(40, 4))}, offset=1e30 * rng.normal(size=(40, 4)), chosen=[0] * 40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ChoiceClassifier(solver="double_sum", n_negatives=2, max_iter=4, random_state=seed).fit(sets)
    assert {record.category for record in caught} <= {ConvergenceWarning}
    assert np.isfinite(model.coef_).all()
