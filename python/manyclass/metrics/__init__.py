"""Ranking metrics for data with very many labels, on the best k predictions of rows; calibration; loss over time."""

from manyclass.metrics.calibration import expected_calibration_error
from manyclass.metrics.prequential import prequential
from manyclass.metrics.ranking import (
    coverage_at_k,
    hit_at_k,
    mrr_at_k,
    ndcg_at_k,
    novelty_at_k,
    precision_at_k,
    propensities,
    psp_at_k,
    ranking_report,
    recall_at_k,
    top_k_accuracy,
)

__all__ = [
    "coverage_at_k",
    "expected_calibration_error",
    "hit_at_k",
    "mrr_at_k",
    "ndcg_at_k",
    "novelty_at_k",
    "precision_at_k",
    "prequential",
    "propensities",
    "psp_at_k",
    "ranking_report",
    "recall_at_k",
    "top_k_accuracy",
]
