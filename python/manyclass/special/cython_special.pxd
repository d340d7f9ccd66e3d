# The scalar functions of manyclass.special for `cimport`; they need no header of the C++ core.

cdef double wright_omega(double x) noexcept nogil
cdef float wright_omegaf(float x) noexcept nogil
cdef double lambertw(double z) noexcept nogil
cdef float lambertwf(float z) noexcept nogil
cdef double log_ndtr(double x) noexcept nogil
cdef float log_ndtrf(float x) noexcept nogil
cdef double log_ndtr_derivative(double x) noexcept nogil
cdef float log_ndtr_derivativef(float x) noexcept nogil
cdef double log_expit(double x) noexcept nogil
cdef float log_expitf(float x) noexcept nogil
cdef double log_expit_derivative(double x) noexcept nogil
cdef float log_expit_derivativef(float x) noexcept nogil
