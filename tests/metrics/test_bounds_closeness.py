"""The three numbers that tell how near a bound's model comes to the exact one, from their definitions."""

import numpy as np
import pytest

from manyclass.bounds import PredictiveScores, predictive_scores, weight_distance


def test_the_distance_is_the_sum_of_differences_over_that_of_the_weights(seed):
    rng = np.random.default_rng(seed)
    w, v = rng.normal(size=(2, 4, 7))
    total = sum(abs(w[k, j] - v[k, j]) for k in range(4) for j in range(7))
    size = sum(abs(w[k, j]) for k in range(4) for j in range(7))
    assert weight_distance(w, v) == pytest.approx(total / size, rel=1e-12)
    assert weight_distance(w, 0 * w) == pytest.approx(1.0)
    assert weight_distance(w, w) == 0.0
    assert weight_distance(3 * w, 3 * v) == pytest.approx(weight_distance(w, v))
    assert weight_distance(w, v) != pytest.approx(weight_distance(v, w))  # relative to the exact one


def test_error_and_density_are_means_over_the_points(seed):
    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=(9, 5)), rng.integers(5, size=9)
    log_p = [f[i, y[i]] - np.log(sum(np.exp(f[i, m]) for m in range(5))) for i in range(9)]
    wrong = [y[i] != max(range(5), key=lambda k, i=i: f[i, k]) for i in range(9)]
    found = predictive_scores(f, y)
    assert found.error == pytest.approx(np.mean(wrong))
    assert found.nlpd == pytest.approx(-np.mean(log_p), rel=1e-12)
    assert predictive_scores(f + 1000, y).nlpd == pytest.approx(found.nlpd, rel=1e-9)  # scores up to a constant
    assert predictive_scores(f.reshape(3, 3, 5), y.reshape(3, 3)) == pytest.approx(found)


def test_certain_predictions():
    f = np.array([[800.0, 0.0], [0.0, 800.0]])
    assert predictive_scores(f, [0, 1]) == PredictiveScores(0.0, 0.0)
    assert predictive_scores(f, [1, 0]) == PredictiveScores(1.0, 800.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: weight_distance(np.ones((2, 3)), np.ones(3)),
            r"approximate has shape \(3,\); it must be that of exact",
        ),
        (lambda: weight_distance(np.zeros(3), np.ones(3)), "exact is 0 everywhere"),
        (lambda: weight_distance([1.0, np.nan], [1.0, 2.0]), "exact contains nan; it must be finite"),
        (lambda: predictive_scores(np.ones((2, 3)), [0, 3]), r"k contains 3; classes are in \[0, 3\)"),
        (lambda: predictive_scores(np.ones((2, 3)), [0, 1, 2]), "the shapes .* differ"),
        (lambda: predictive_scores(np.ones((0, 3)), np.zeros(0, int)), "there must be at least one point"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
