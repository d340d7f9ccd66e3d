# The scalar functions of manyclass.special for `cimport`; they need no header of the C++ core.

cdef double wright_omega(double x) noexcept nogil
cdef float wright_omegaf(float x) noexcept nogil
cdef double lambertw(double z) noexcept nogil
cdef float lambertwf(float z) noexcept nogil
