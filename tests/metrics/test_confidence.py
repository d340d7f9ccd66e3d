"""Bins of confidence with intervals, and the classes that are confused most often."""

import numpy as np
import pytest
from scipy.stats import binomtest

from manyclass import _core


@pytest.mark.parametrize(("n", "n_bins"), [(23, 5), (7, 7), (40, 1)])
def test_bins_are_of_equal_size_and_have_wilsons_interval(n, n_bins, seed):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(10, size=n) / 10
    right = rng.random(n) < confidence
    mean, share, low, high = _core.reliability_bins(confidence, right, n_bins)
    bins = np.array_split(np.argsort(confidence, kind="stable"), n_bins)
    np.testing.assert_allclose(mean, [confidence[rows].mean() for rows in bins], rtol=1e-14)
    np.testing.assert_allclose(share, [right[rows].mean() for rows in bins], rtol=1e-14)
    intervals = [binomtest(int(right[rows].sum()), len(rows)).proportion_ci(0.95, method="wilson") for rows in bins]
    np.testing.assert_allclose([low, high], np.transpose([(i.low, i.high) for i in intervals]), rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="the bins do not fit the predictions"):
        _core.reliability_bins(confidence, right, n + 1)


def test_the_most_confused_classes_are_those_of_the_most_frequent_pairs():
    pairs = [(3, 1)] * 4 + [(1, 3)] * 2 + [(0, 5)] * 3 + [(2, 4)] * 2 + [(1, 2)] + [(6, 6)] * 9
    labels, predictions = np.array(pairs).T.copy()
    assert _core.most_confused(labels, predictions, 2).tolist() == [1, 3]
    assert _core.most_confused(labels, predictions, 3).tolist() == [1, 2, 3]  # there is no room for two more
    assert _core.most_confused(labels, predictions, 9).tolist() == [0, 1, 2, 3, 4, 5]
    assert _core.most_confused(labels[-9:], predictions[-9:], 9).tolist() == []
