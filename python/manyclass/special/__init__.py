"""Special functions as NumPy ufuncs; `manyclass.special.cython_special` has them for Cython's `cimport`."""

from manyclass.special._ufuncs import lambertw, wright_omega

__all__ = ["lambertw", "wright_omega"]
