"""Twins of manyclass.metrics: one row and one place at a time, on sets."""

from __future__ import annotations

import math
from collections.abc import Sequence


def precision(labels: Sequence[set[int]], ranked: Sequence[Sequence[int]], k: int) -> float:
    """Mean over rows of the right ones among k places."""
    return sum(len(y & set(r[:k])) / k for y, r in zip(labels, ranked, strict=True)) / len(labels)


def recall(labels: Sequence[set[int]], ranked: Sequence[Sequence[int]], k: int) -> float:
    """Mean over rows of the labels found in k places; 0 of a row without labels."""
    return sum(len(y & set(r[:k])) / max(len(y), 1) for y, r in zip(labels, ranked, strict=True)) / len(labels)


def ndcg(labels: Sequence[set[int]], ranked: Sequence[Sequence[int]], k: int) -> float:
    """Mean over rows of the discounted gain over that of a ranking with all labels in front."""
    total = 0.0
    for y, r in zip(labels, ranked, strict=True):
        gain = sum(1 / math.log2(j + 2) for j, label in enumerate(r[:k]) if label in y)
        ideal = sum(1 / math.log2(j + 2) for j in range(min(k, len(y))))
        total += gain / ideal if y else 0.0
    return total / len(labels)


def psp(labels: Sequence[set[int]], ranked: Sequence[Sequence[int]], p: Sequence[float], k: int) -> float:
    """Sum of 1 / p over what is right in k places, over the sum that the rarest labels in front would have."""
    reached = sum(1 / p[label] for y, r in zip(labels, ranked, strict=True) for label in y & set(r[:k]))
    attainable = sum(sum(sorted((1 / p[label] for label in y), reverse=True)[:k]) for y in labels)
    return reached / attainable


def propensities(labels: Sequence[set[int]], n_labels: int, a: float, b: float) -> list[float]:
    """1 / (1 + C e^(-a log(N_l + b))) of Jain et al.."""
    c = (math.log(len(labels)) - 1) * (b + 1) ** a
    counts = [sum(label in y for y in labels) for label in range(n_labels)]
    return [1 / (1 + c * math.exp(-a * math.log(count + b))) for count in counts]


def ranking_of_scores(scores: dict[int, float], k: int) -> list[int]:
    """The k best labels, of equal ones the smaller first, and -1 behind."""
    best = sorted(scores, key=lambda label: (-scores[label], label))[:k]
    return best + [-1] * (k - len(best))
