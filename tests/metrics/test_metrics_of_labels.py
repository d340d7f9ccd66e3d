"""Metrics take every label that fit takes, and a missing answer is no class."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.labels import as_labels
from manyclass.metrics import (
    expected_calibration_error,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    top_k_accuracy,
)

LABELS = {
    "text": ["ant", "bee", "cow", ""],
    "large": [2**40, 2**40 + 1, 2**62, 2**63 + 5],
    "negative": [-1, 0, 7, -2],
    "floats": [0.5, 1.5, -1.0, 2.0],
    "flags": [False, True],
    "dates": [np.datetime64("2001-01-01"), np.datetime64("9999-12-31"), np.datetime64("1066-10-14")],
    "objects": ["a\0", "a", "b" * 100],
}


@pytest.mark.quick
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("measure", [top_k_accuracy, recall_at_k, mrr_at_k, ndcg_at_k, precision_at_k])
def test_every_label_that_fit_takes_is_one_of_metrics(kind, measure, seed):
    rng, labels = np.random.default_rng(seed), as_labels(LABELS[kind])
    truth = rng.integers(0, len(labels), 40)
    predicted = np.array([rng.permutation(len(labels))[:2] for _ in range(40)])
    single = measure is top_k_accuracy
    rows = truth if single else [[label] for label in truth.tolist()]
    expected = measure(rows, predicted, k=2)
    names = labels[truth] if single else [labels[[label]] for label in truth]
    assert measure(names, labels[predicted], k=2) == expected
    if kind == "text":
        return
    hidden = rng.random(predicted.shape) < 0.3
    expected = measure(rows, np.where(hidden, -1, predicted), k=2)
    assert measure(names, np.ma.masked_array(labels[predicted], hidden), k=2) == expected
    missing = {"floats": np.nan, "dates": np.datetime64("NaT"), "objects": None}.get(kind)
    if missing is not None:
        assert measure(names, np.where(hidden, missing, labels[predicted]), k=2) == expected


@pytest.mark.quick
def test_a_missing_answer_is_no_class():
    assert top_k_accuracy([-1, 3], [[-1], [-1]], k=1) == 0.5
    assert top_k_accuracy([1, 3], [[-1], [3]], k=1) == 0.5
    assert top_k_accuracy(["", "b"], [[""], [""]], k=1) == 0.5
    assert top_k_accuracy(["a", "b"], [[""], ["b"]], k=1) == 0.5
    assert expected_calibration_error(["a", "b"], ["a", "a"], [1.0, 0.0]) == 0
    with pytest.raises(ValueError, match="Y_true holds -1; an entry above 0 is a label"):
        precision_at_k(sp.csr_array([[1, -1], [0, 1]]), [[0], [1]], k=1)
