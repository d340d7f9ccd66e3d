"""Discrete choice: models of what a chooser takes among alternatives that have features."""

from manyclass.choice.latent import LatentClasses as LatentClasses
from manyclass.choice.latent import compare_classes as compare_classes
from manyclass.choice.latent import find_memberships as find_memberships
from manyclass.choice.latent import predict_known as predict_known
from manyclass.choice.mixed import RandomCoefficients as RandomCoefficients
