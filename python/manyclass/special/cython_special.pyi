# The functions are visible to `cimport` only, through this table of Cython's.
__pyx_capi__: dict[str, object]
