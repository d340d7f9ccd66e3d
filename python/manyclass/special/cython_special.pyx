# cython: autotestdict=False
"""The scalar functions of manyclass.special for Cython code: `from manyclass.special.cython_special cimport ...`.

As in C, the name ends in f where argument and result are float.
"""

cdef extern from "manyclass/math/wright_omega.hpp" namespace "manyclass" nogil:
    double c_wright_omega "manyclass::wright_omega"(double x) noexcept
    float c_wright_omega "manyclass::wright_omega"(float x) noexcept

cdef extern from "manyclass/math/lambert_w.hpp" namespace "manyclass" nogil:
    double c_lambert_w "manyclass::lambert_w"(double z) noexcept
    float c_lambert_w "manyclass::lambert_w"(float z) noexcept


cdef double wright_omega(double x) noexcept nogil:
    return c_wright_omega(x)


cdef float wright_omegaf(float x) noexcept nogil:
    return c_wright_omega(x)


cdef double lambertw(double z) noexcept nogil:
    return c_lambert_w(z)


cdef float lambertwf(float z) noexcept nogil:
    return c_lambert_w(z)
