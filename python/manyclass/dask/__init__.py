"""Draft."""

from manyclass.dask.classifiers import DaskSoftmaxClassifier

__all__ = ["DaskSoftmaxClassifier"]
