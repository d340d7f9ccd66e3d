"""Categorical models with very many classes, trained on the true normalised likelihood."""

from manyclass.augment_reduce import AugmentReduceClassifier
from manyclass.datasets import load_xmc
from manyclass.linear import SoftmaxClassifier
from manyclass.persist import load
from manyclass.search import SphericalClusterIndex

__version__ = "0.1.0"

__all__ = ["AugmentReduceClassifier", "SoftmaxClassifier", "SphericalClusterIndex", "__version__", "load", "load_xmc"]
