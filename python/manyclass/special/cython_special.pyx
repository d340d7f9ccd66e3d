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

cdef extern from "manyclass/math/normal.hpp" namespace "manyclass" nogil:
    double c_log_ndtr "manyclass::log_ndtr"(double x) noexcept
    float c_log_ndtr "manyclass::log_ndtr"(float x) noexcept
    double c_log_ndtr_derivative "manyclass::log_ndtr_derivative"(double x) noexcept
    float c_log_ndtr_derivative "manyclass::log_ndtr_derivative"(float x) noexcept

cdef extern from "manyclass/math/logistic.hpp" namespace "manyclass" nogil:
    double c_log_expit "manyclass::log_expit"(double x) noexcept
    float c_log_expit "manyclass::log_expit"(float x) noexcept
    double c_log_expit_derivative "manyclass::log_expit_derivative"(double x) noexcept
    float c_log_expit_derivative "manyclass::log_expit_derivative"(float x) noexcept


cdef double wright_omega(double x) noexcept nogil:
    return c_wright_omega(x)


cdef float wright_omegaf(float x) noexcept nogil:
    return c_wright_omega(x)


cdef double lambertw(double z) noexcept nogil:
    return c_lambert_w(z)


cdef float lambertwf(float z) noexcept nogil:
    return c_lambert_w(z)


cdef double log_ndtr(double x) noexcept nogil:
    return c_log_ndtr(x)


cdef float log_ndtrf(float x) noexcept nogil:
    return c_log_ndtr(x)


cdef double log_ndtr_derivative(double x) noexcept nogil:
    return c_log_ndtr_derivative(x)


cdef float log_ndtr_derivativef(float x) noexcept nogil:
    return c_log_ndtr_derivative(x)


cdef double log_expit(double x) noexcept nogil:
    return c_log_expit(x)


cdef float log_expitf(float x) noexcept nogil:
    return c_log_expit(x)


cdef double log_expit_derivative(double x) noexcept nogil:
    return c_log_expit_derivative(x)


cdef float log_expit_derivativef(float x) noexcept nogil:
    return c_log_expit_derivative(x)
