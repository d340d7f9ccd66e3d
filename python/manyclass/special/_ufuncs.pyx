# cython: autotestdict=False
"""The scalar functions of the C++ core as NumPy ufuncs.

To add one: its `MANYCLASS_UFUNC(name in C++, number of arguments)` in an `extern` block, its `ufunc(...)` below, its
name in `__init__` and `_ufuncs.pyi`, its lines in `cython_special`, and its tables in the tests.
"""

cimport numpy as cnp

cnp.import_array()
cnp.import_ufunc()


cdef extern from "ufunc_loops.hpp" namespace "manyclass":
    cppclass Ufunc:
        cnp.PyUFuncGenericFunction* loops
        void** data
        char* types
        int n_types
        int n_in

cdef extern from "manyclass/math/wright_omega.hpp":
    Ufunc WRIGHT_OMEGA "MANYCLASS_UFUNC(wright_omega, 1)"

cdef extern from "manyclass/math/lambert_w.hpp":
    Ufunc LAMBERT_W "MANYCLASS_UFUNC(lambert_w, 1)"

cdef extern from "manyclass/math/normal.hpp":
    Ufunc LOG_NDTR "MANYCLASS_UFUNC(log_ndtr, 1)"
    Ufunc LOG_NDTR_DERIVATIVE "MANYCLASS_UFUNC(log_ndtr_derivative, 1)"

cdef extern from "manyclass/math/logistic.hpp":
    Ufunc LOG_EXPIT "MANYCLASS_UFUNC(log_expit, 1)"
    Ufunc LOG_EXPIT_DERIVATIVE "MANYCLASS_UFUNC(log_expit_derivative, 1)"


# NumPy keeps pointers to the names and docstrings of ufuncs.
cdef list names_and_docs = []


cdef object ufunc(Ufunc f, str name, str doc):
    names_and_docs.append((name.encode(), doc.encode()))
    return cnp.PyUFunc_FromFuncAndData(
        f.loops, f.data, f.types, f.n_types, f.n_in, 1, cnp.PyUFunc_None,
        <const char*> (<bytes> names_and_docs[-1][0]), <const char*> (<bytes> names_and_docs[-1][1]), 0)


wright_omega = ufunc(WRIGHT_OMEGA, "wright_omega", r"""wright_omega(x, /, out=None, *, where=True, **kwargs)

Wright omega function of a real argument.

:math:`\omega(x) = W(e^x)`, that is the root :math:`w > 0` of :math:`w + \log w = x`, computed without
forming :math:`e^x`.

Parameters
----------
x : array_like
    Any real number or infinity. float32 gives float32; float64, Python's numbers and integers of 32 and
    64 bits give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    omega(x), of x's shape: 0 at -inf, inf at inf, NaN only for NaN.

See Also
--------
lambertw : W(z) itself.

Notes
-----
The error is at most 2 units in the last place (ulp) over the whole real line, results below the smallest
normal number included. It is one correction of fourth order in :math:`\log w` of a guess good to 6 %, and
one more of its result; the derivation stands in the C++ header.

References
----------
R. M. Corless and D. J. Jeffrey, "The Wright omega function", AISC 2002.

Examples
--------
>>> import numpy as np
>>> from manyclass.special import wright_omega
>>> wright_omega(np.array([-np.inf, 1.0, 1e300]))
array([0.e+000, 1.e+000, 1.e+300])
""")


lambertw = ufunc(LAMBERT_W, "lambertw", r"""lambertw(z, /, out=None, *, where=True, **kwargs)

Principal branch of Lambert's W function of a real argument.

The root :math:`w \ge -1` of :math:`w e^w = z`.

Parameters
----------
z : array_like
    Real numbers >= -1/e. float32 gives float32; float64, Python's numbers and integers of 32 and 64 bits
    give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    W(z), of z's shape; NaN for NaN and for z < -1/e. The latter is an invalid operation, and NumPy's error
    state (`numpy.errstate`) says whether it is ignored, warned of or raised, as for ``numpy.log(-1.0)``.

See Also
--------
wright_omega : W(exp(x)), for arguments whose exponential overflows.
scipy.special.lambertw : All branches, of complex arguments.

Notes
-----
The error is at most 3 units in the last place (ulp) on the whole domain, for the exact value of the given z,
near the branch point too. The float nearest to -1/e lies below it, in float32 and in float64, and stands for
it: its W is -1.

References
----------
R. M. Corless et al., "On the Lambert W function", Advances in Computational Mathematics 5, 1996.

Examples
--------
>>> import numpy as np
>>> from manyclass.special import lambertw
>>> lambertw([-np.exp(-1.0), 0.0, np.e])
array([-1.,  0.,  1.])
""")


log_ndtr = ufunc(LOG_NDTR, "log_ndtr", r"""log_ndtr(x, /, out=None, *, where=True, **kwargs)

Logarithm of the standard normal distribution function.

:math:`\log \Phi(x)`, finite far below -38, where :math:`\Phi(x)` itself is 0 in floating point.

Parameters
----------
x : array_like
    Any real number or infinity. float32 gives float32; float64, Python's numbers and integers of 32 and
    64 bits give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    log Phi(x), of x's shape: -inf at -inf, -0 at inf, NaN only for NaN.

See Also
--------
log_ndtr_derivative : Its derivative.
utility_probabilities : Where the multinomial probit model needs it.

Notes
-----
The error is at most 4 units in the last place (ulp) over the whole real line, and 2 spacings where the
result is subnormal. For x < -1 it is :math:`\log(M(-x) / \sqrt{2 \pi}) - x^2 / 2` with Mills' ratio
:math:`M(t) = (1 - \Phi(t)) / \varphi(t)`, whose polynomial approximation stands in the C++ header.

Examples
--------
>>> from manyclass.special import log_ndtr
>>> log_ndtr([-100.0, 0.0]).round(4)
array([-5.0055242e+03, -6.9310000e-01])
""")


log_ndtr_derivative = ufunc(LOG_NDTR_DERIVATIVE, "log_ndtr_derivative", r"""log_ndtr_derivative(x, /, out=None, *, where=True, **kwargs)

Derivative of the logarithm of the standard normal distribution function.

:math:`\varphi(x) / \Phi(x)`, the hazard rate at -x, also called the inverse Mills ratio.

Parameters
----------
x : array_like
    Any real number or infinity. float32 gives float32; float64, Python's numbers and integers of 32 and
    64 bits give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    phi(x) / Phi(x), of x's shape: inf at -inf, 0 at inf, NaN only for NaN.

See Also
--------
log_ndtr : The function itself.

Notes
-----
The error is at most 4 units in the last place (ulp) over the whole real line, and 2 spacings where the
result is subnormal. It falls from -x + o(1) to 0.

Examples
--------
>>> from manyclass.special import log_ndtr_derivative
>>> log_ndtr_derivative([-100.0, 0.0]).round(4)
array([1.00010e+02, 7.97900e-01])
""")


log_expit = ufunc(LOG_EXPIT, "log_expit", r"""log_expit(x, /, out=None, *, where=True, **kwargs)

Logarithm of the standard logistic distribution function, "log sigmoid".

:math:`\log(1 / (1 + e^{-x})) = -\log(1 + e^{-x})`.

Parameters
----------
x : array_like
    Any real number or infinity. float32 gives float32; float64, Python's numbers and integers of 32 and
    64 bits give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    Of x's shape: -inf at -inf, -0 at inf, NaN only for NaN.

See Also
--------
log_expit_derivative : Its derivative.

Notes
-----
The error is at most 2 units in the last place (ulp) over the whole real line.

Examples
--------
>>> from manyclass.special import log_expit
>>> log_expit([-1000.0, 0.0]).round(4)
array([-1.000e+03, -6.931e-01])
""")


log_expit_derivative = ufunc(LOG_EXPIT_DERIVATIVE, "log_expit_derivative", r"""log_expit_derivative(x, /, out=None, *, where=True, **kwargs)

Derivative of the logarithm of the standard logistic distribution function.

:math:`1 / (1 + e^x)`, that is the distribution function at -x.

Parameters
----------
x : array_like
    Any real number or infinity. float32 gives float32; float64, Python's numbers and integers of 32 and
    64 bits give float64; shorter types give float32, as they fit into it.
out : ndarray, optional
    Where the result is stored.
where : array_like of bool, default=True
    Where the result is computed; elsewhere `out` keeps its values.
**kwargs
    The other keyword arguments of :ref:`ufuncs <ufuncs.kwargs>`.

Returns
-------
ndarray or scalar
    Of x's shape: 1 at -inf, 0 at inf, NaN only for NaN.

See Also
--------
log_expit : The function itself.

Notes
-----
The error is at most 3 units in the last place (ulp) over the whole real line.

Examples
--------
>>> from manyclass.special import log_expit_derivative
>>> log_expit_derivative([-1000.0, 0.0])
array([1. , 0.5])
""")
