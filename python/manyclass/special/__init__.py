"""Special functions as NumPy ufuncs, and the choice probabilities of random utility models.

`manyclass.special.cython_special` has the functions of one number for Cython's `cimport`.
"""

from manyclass.special._ufuncs import (
    lambertw,
    log_expit,
    log_expit_derivative,
    log_ndtr,
    log_ndtr_derivative,
    wright_omega,
)
from manyclass.special.utilities import sampled_utility_log_probabilities, utility_probabilities

__all__ = [
    "lambertw",
    "log_expit",
    "log_expit_derivative",
    "log_ndtr",
    "log_ndtr_derivative",
    "sampled_utility_log_probabilities",
    "utility_probabilities",
    "wright_omega",
]
