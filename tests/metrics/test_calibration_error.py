"""The expected calibration error: against its definition, at the ends of bins, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.metrics import expected_calibration_error


def twin(y, predicted, confidences, n_bins):
    """Guo et al. 2017, eq. 3, row by row and bin by bin."""
    total = 0.0
    for m in range(1, n_bins + 1):
        inside = [i for i, p in enumerate(confidences) if (m - 1) / n_bins < p <= m / n_bins or (m == 1 and p == 0)]
        if inside:
            accuracy = sum(y[i] == predicted[i] for i in inside) / len(inside)
            confidence = sum(confidences[i] for i in inside) / len(inside)
            total += len(inside) / len(y) * abs(accuracy - confidence)
    return total


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 100])
def test_it_is_what_its_definition_says(seed, n_bins):
    rng = np.random.default_rng(seed)
    y, predicted = rng.integers(5, size=(2, 300))
    confidences = rng.random(300)
    confidences[:100] = rng.integers(0, n_bins + 1, size=100) / n_bins  # the ends of bins, 0 and 1 among them
    found = expected_calibration_error(y, predicted, confidences, n_bins)
    # Sums of 300 numbers below 1 in another order: 300 roundings of 1e-16.
    assert found == pytest.approx(twin(y, predicted, confidences, n_bins), abs=1e-13)


def test_an_end_of_a_bin_belongs_to_the_bin_below():
    # 0.2 is right and 0.3 wrong: in one bin, ]0.1, 0.3] of 10, they would make up for each other in part.
    assert expected_calibration_error([0, 0], [0, 1], [0.2, 0.3], 10) == pytest.approx((0.8 + 0.3) / 2)
    assert expected_calibration_error([0, 0], [0, 1], [0.3, 0.2], 1) == pytest.approx(abs(1 / 2 - 0.25))


def test_known_answers():
    assert expected_calibration_error([1, 2], [1, 2], [1.0, 1.0]) == 0
    assert expected_calibration_error([1, 2], [2, 1], [1.0, 1.0]) == 1
    assert expected_calibration_error([0] * 4, [0, 0, 0, 1], [0.75] * 4) == 0


def test_any_label_of_a_row_is_right():
    several = [[0, 2], [1], []]
    indicator = sp.csr_array(np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]]))
    for truth in (several, indicator):
        # Two of three are right at a confidence of 2/3.
        assert expected_calibration_error(truth, [2, 1, 0], [2 / 3] * 3) == pytest.approx(0, abs=1e-15)


def test_a_perfect_model_of_many_rows_has_a_small_error(seed):
    rng = np.random.default_rng(seed)
    n, n_bins = 20_000, 15
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    # A bin's mean of n / M draws has a standard error of at most sqrt(M / n) / 2, and |.| of a normal error a mean of
    # 0.8 of it; five of those bound any seed.
    assert expected_calibration_error(y, np.ones(n, int), p, n_bins) < 5 * 0.5 * np.sqrt(n_bins / n)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0], [0], [1.5]), ValueError, r"confidences\[0\] is 1.5; it must be in \[0, 1\]"),
        (([0], [0], [np.nan]), ValueError, r"confidences\[0\] is nan"),
        (([0, 1], [0, 1], [0.5]), ValueError, r"confidences has shape \(1,\); it must be \(2,\)"),
        (([0], [[[0]]], [0.5]), ValueError, r"predicted has shape \(1, 1, 1\); it must have one axis, or two"),
        (([0], [[0]], [0.5]), ValueError, r"confidences has shape \(1,\); it must be \(1, 1\)"),
        (([0], [0, 1], [0.5, 0.5]), ValueError, "predicted has 2 rows, there are labels of 1"),
        (([0], [0], [0.5], 0), ValueError, "n_bins is 0"),
        ((np.zeros(0, int), np.zeros(0, int), []), ValueError, r"y_true has no row"),
        (([0], [0], ["a"]), TypeError, "confidences has dtype"),
        ((["a"], [0], [0.5]), TypeError, "y_true has dtype"),
    ],
)
def test_what_it_cannot_use_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        expected_calibration_error(*arguments)
