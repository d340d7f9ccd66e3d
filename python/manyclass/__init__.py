"""Categorical models with very many classes, trained on the true normalised likelihood."""

from manyclass import models, samplers, solvers
from manyclass.datasets import load_xmc
from manyclass.estimators.files import load
from manyclass.estimators.margin import MarginClassifier
from manyclass.estimators.softmax import SoftmaxClassifier
from manyclass.estimators.tuning import tune_learning_rate
from manyclass.estimators.utility import AugmentReduceClassifier
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.version import __version__
from manyclass.words.skip_gram import SkipGram
from manyclass.words.vectors import WordVectors

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
    "models",
    "samplers",
    "solvers",
    "tune_learning_rate",
]
