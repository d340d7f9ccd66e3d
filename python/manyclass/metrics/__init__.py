"""Ranking metrics for data with very many labels, on the best k predictions of each row."""

from manyclass.metrics.ranking import ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k, top_k_accuracy

__all__ = ["ndcg_at_k", "precision_at_k", "propensities", "psp_at_k", "recall_at_k", "top_k_accuracy"]
