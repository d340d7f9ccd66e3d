"""Special functions as NumPy ufuncs; `manyclass.special.cython_special` has them for Cython's `cimport`."""

from manyclass.special._ufuncs import (
    lambertw,
    log_expit,
    log_expit_derivative,
    log_ndtr,
    log_ndtr_derivative,
    wright_omega,
)

__all__ = [
    "lambertw",
    "log_expit",
    "log_expit_derivative",
    "log_ndtr",
    "log_ndtr_derivative",
    "wright_omega",
]
