# cython: autotestdict=False
"""Loops of the ranking metrics over ragged rows: which predictions are right, and the best entries of a row.

Row i of a ragged array holds the entries indptr[i]:indptr[i + 1] of its other arrays.
"""

cimport cython
cimport numpy as cnp
from libcpp.algorithm cimport partial_sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

cnp.import_array()


cdef int require_rows(const cnp.int64_t[::1] indptr, Py_ssize_t n_entries) except -1:
    """Raise ValueError unless indptr cuts n_entries entries into rows."""
    cdef Py_ssize_t i
    if indptr.shape[0] < 1 or indptr[0] != 0 or indptr[indptr.shape[0] - 1] != n_entries:
        raise ValueError(f"indptr must go from 0 to the number of entries, {n_entries}")
    for i in range(indptr.shape[0] - 1):
        if indptr[i] > indptr[i + 1]:
            raise ValueError(f"indptr falls from {indptr[i]} to {indptr[i + 1]} behind row {i}")
    return 0


@cython.boundscheck(False)
@cython.wraparound(False)
def hits(const cnp.int64_t[::1] indptr, const cnp.int32_t[::1] labels, const cnp.int32_t[:, ::1] predicted):
    """Whether predicted[i, j] is among the labels of row i, as bool.

    Labels must ascend in each row and be at least 0, so that a negative prediction is never among them.

    By bisection, O(k log m) for k predictions and m labels of a row.
    """
    # Checked once here, because the loops below run without bounds checks.
    require_rows(indptr, labels.shape[0])
    cdef Py_ssize_t n = indptr.shape[0] - 1, k = predicted.shape[1], i, j
    if predicted.shape[0] != n:
        raise ValueError(f"predicted has {predicted.shape[0]} rows, there are labels of {n}")
    cdef cnp.npy_intp[2] shape = [n, k]
    found = cnp.PyArray_ZEROS(2, shape, cnp.NPY_BOOL, 0)
    cdef cnp.npy_bool[:, ::1] out = found
    cdef cnp.int64_t low, high, middle
    cdef cnp.int32_t wanted
    with nogil:
        for i in range(n):
            for j in range(k):
                wanted = predicted[i, j]
                low, high = indptr[i], indptr[i + 1]
                while low < high:
                    middle = low + (high - low) // 2
                    if labels[middle] < wanted:
                        low = middle + 1
                    else:
                        high = middle
                out[i, j] = low < indptr[i + 1] and labels[low] == wanted
    return found


@cython.boundscheck(False)
@cython.wraparound(False)
def best_of_rows(
    const cnp.int64_t[::1] indptr, const cnp.int32_t[::1] ids, const double[::1] scores, Py_ssize_t k
):
    """The ids (n, k) of each row's k largest scores, best first, of equals the smallest id, and these scores.

    Behind the entries of a row that has fewer: the id -1 and the score 0. No score may be NaN. O(m log k) for a row of
    m entries.
    """
    # Checked once here, because the loops below run without bounds checks.
    require_rows(indptr, ids.shape[0])
    if scores.shape[0] != ids.shape[0]:
        raise ValueError(f"there are {ids.shape[0]} ids and {scores.shape[0]} scores")
    if k < 0:
        raise ValueError(f"k is {k}; it must be at least 0")
    cdef Py_ssize_t n = indptr.shape[0] - 1, i, j, m
    cdef cnp.npy_intp[2] shape = [n, k]
    best = cnp.PyArray_ZEROS(2, shape, cnp.NPY_INT32, 0)
    values = cnp.PyArray_ZEROS(2, shape, cnp.NPY_DOUBLE, 0)
    cdef cnp.int32_t[:, ::1] out = best
    cdef double[:, ::1] out_scores = values
    cdef vector[pair[double, cnp.int32_t]] row  # (-score, id): the order of pairs is the one that is wanted
    cdef cnp.int64_t start
    with nogil:
        for i in range(n):
            start = indptr[i]
            m = indptr[i + 1] - start
            row.resize(m)
            for j in range(m):
                row[j].first = -scores[start + j]
                row[j].second = ids[start + j]
            partial_sort(row.begin(), row.begin() + min(m, k), row.end())
            for j in range(k):
                out[i, j] = row[j].second if j < m else -1
                out_scores[i, j] = -row[j].first if j < m else 0
    return best, values
