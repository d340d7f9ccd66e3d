"""Discrete choice: models of what a chooser takes among alternatives that have features."""

from manyclass.choice.mixed import RandomCoefficients as RandomCoefficients
