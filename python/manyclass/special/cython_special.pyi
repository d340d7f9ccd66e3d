# Its functions are visible to `cimport` only.
