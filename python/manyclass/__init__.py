"""Categorical models with very many classes, trained on the true normalised likelihood."""

from manyclass._tuning import tune_learning_rate
from manyclass.augment_reduce import AugmentReduceClassifier
from manyclass.datasets import load_xmc
from manyclass.decomposed import DecomposedIndex
from manyclass.linear import SoftmaxClassifier
from manyclass.margin import MarginClassifier
from manyclass.persist import load
from manyclass.search import SphericalClusterIndex
from manyclass.skip_gram import SkipGram
from manyclass.word_vectors import WordVectors

__version__ = "0.1.0"

__all__ = [
    "AugmentReduceClassifier",
    "DecomposedIndex",
    "MarginClassifier",
    "SkipGram",
    "SoftmaxClassifier",
    "SphericalClusterIndex",
    "WordVectors",
    "__version__",
    "load",
    "load_xmc",
    "tune_learning_rate",
]
