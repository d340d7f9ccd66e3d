"""Discrete choice: what varies among the persons of a `ChoiceClassifier`, its parameter `mixture`, and what it answers.

Coefficients of persons are drawn from a distribution, `RandomCoefficients`, or are those of a few classes of persons,
`LatentClasses`. Error components, ordered dissimilarities and nested logit within classes are not offered; biogeme and
apollo have them.
"""

from manyclass.choice.latent import LatentClasses, compare_classes, find_memberships, predict_known
from manyclass.choice.mixed import RandomCoefficients

__all__ = ["LatentClasses", "RandomCoefficients", "compare_classes", "find_memberships", "predict_known"]
