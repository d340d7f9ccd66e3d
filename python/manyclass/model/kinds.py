"""The kinds of weights that a fitted model can have: each answers the same questions."""

from __future__ import annotations

from manyclass.model.coded import CodedWeights
from manyclass.model.mapped import MappedWeights
from manyclass.model.postings import HybridWeights, SparseWeights
from manyclass.model.weights import LinearWeights

Trained = LinearWeights | MappedWeights | SparseWeights | HybridWeights
Weights = Trained | CodedWeights  # the last are for predictions only
