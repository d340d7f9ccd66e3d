"""Arrays in, arrays out: what every function of manyclass.bounds promises about shapes, dtypes and refusals."""

import numpy as np
import pytest
from test_bounds import ALL

from manyclass import bounds

EVERY = ALL | {
    "augment_reduce normal": lambda f, k: bounds.augment_reduce(f, k, 0.2, 0.8, "normal"),
    "augment_reduce logistic": lambda f, k: bounds.augment_reduce(f, k, 0.2, 3.0, "logistic"),
}


@pytest.mark.parametrize("bound", EVERY.values(), ids=EVERY)
class TestArrays:
    def test_leading_shapes_broadcast(self, bound, seed):
        rng = np.random.default_rng(seed)
        f, k = rng.normal(size=(5, 2, 1, 6)), rng.integers(6, size=4)
        together = bound(f, k)
        assert together.value.shape == (5, 2, 4)
        assert together.gradient.shape == (5, 2, 4, 6)
        for part in together[2:]:
            assert part.shape[:3] == (5, 2, 4)
        full = bound(np.repeat(f, 4, axis=2), np.broadcast_to(k, (5, 2, 4)))
        for a, b in zip(together, full, strict=True):
            np.testing.assert_array_equal(a, b)
        for j in range(4):
            for a, b in zip(together, bound(f[:, :, 0], k[j]), strict=True):
                # the vectorised sums of another memory layout may add in another order
                np.testing.assert_allclose(a[:, :, j], b, rtol=1e-13, atol=1e-15)

    def test_any_real_dtype_and_layout_is_cast_to_float64(self, bound):
        f = np.array([[3, -1, 0, 2], [0, 1, 5, -2]])
        want = bound(f.astype(np.float64), [0, 3])
        columns = np.asfortranarray(f, dtype=np.float32)
        read_only = f.astype(np.float64)
        read_only.flags.writeable = False
        for given in (f, f.astype(np.int8), f.astype(np.float16), columns, f.tolist(), read_only):
            for a, b in zip(bound(given, np.array([0, 3], dtype=np.uint8)), want, strict=True):
                assert a.dtype == np.float64
                np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-16)

    def test_the_callers_arrays_are_left_alone(self, bound):
        f, k = np.array([[3.0, -1, 0], [0, 1, 5]]), np.array([0, 2])
        first = [part.copy() for part in bound(f, k)]
        np.testing.assert_array_equal(f, [[3.0, -1, 0], [0, 1, 5]])
        np.testing.assert_array_equal(k, [0, 2])
        for a, b in zip(bound(f, k), first, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_no_points_give_no_values(self, bound):
        value, gradient, *_ = bound(np.zeros((0, 2, 5)), 3)
        assert value.shape == (0, 2)
        assert gradient.shape == (0, 2, 5)

    @pytest.mark.parametrize(
        ("f", "k", "message"),
        [
            ([1.0, np.nan, 2.0], 0, "f contains nan; it must be finite"),
            ([1.0, 2.0, -np.inf], 0, "f contains -inf"),
            ([1e308, -1e308, 0.0], 0, "f spans .* must be finite"),
            ([1j, 2.0], 0, "f has dtype complex128; it must hold real numbers"),
            (["a", "b"], 0, "f has dtype <U1"),
            ([1.0], 0, r"f has shape \(1,\); its last axis must hold the scores of at least 2 classes"),
            (np.zeros((3, 0)), 0, r"f has shape \(3, 0\)"),
            (1.0, 0, r"f has shape \(\)"),
            ([1.0, 2.0, 3.0], 3, r"k contains 3; classes are in \[0, 3\)"),
            ([1.0, 2.0, 3.0], -1, "k contains -1"),
            ([1.0, 2.0, 3.0], 1.0, "k has dtype float64; it must hold integers"),
            ([1.0, 2.0, 3.0], True, "k has dtype bool"),
            (np.zeros((3, 4)), [0, 1], r"\(3,\) of f without its last axis, \(2,\) of k.* must broadcast"),
        ],
    )
    def test_what_is_no_score_or_class_is_refused(self, bound, f, k, message):
        with pytest.raises(ValueError, match=message):
            bound(f, k)


@pytest.mark.parametrize(
    ("k", "blocks", "message"),
    [
        (0, [[1, 2]], "class 3 stands in no block; every class but k must stand in one"),
        (0, [], "class 1 stands in no block"),
        ([0, 1], [[1, 2, 3]], "class 0 stands in no block"),
        (0, [[1, 2], [2, 3]], "class 2 stands 2 times in blocks"),
        (0, [[1, 2, 3, 3]], "class 3 stands 2 times"),
        (0, [[1, 2], [3, 4]], r"block 1 contains 4; classes are in \[0, 4\)"),
        (0, [[1, 2], [-1]], "block 1 contains -1"),
        (0, [[1.0, 2.0, 3.0]], "block 0 has dtype float64; it must hold integers"),
    ],
)
def test_blocks_that_are_no_partition_are_refused(k, blocks, message):
    f = np.zeros((2, 4))
    with pytest.raises(ValueError, match=message):
        bounds.block_bound(f, k, blocks)
    with pytest.raises(ValueError, match=message):
        next(bounds.hierarchy(f, k, blocks))


def test_k_may_stand_in_a_block_alone_or_in_none(seed):
    f = np.random.default_rng(seed).normal(size=(3, 4))
    want = bounds.block_bound(f, 0, [[1, 2], [3]])
    for blocks in ([[3, 0], [1, 2]], [[1, 2], [], [0], [3]]):
        for a, b in zip(bounds.block_bound(f, 0, blocks), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize(("i", "j"), [(1, 1), (0, 3), (-1, 0)])
def test_only_two_different_blocks_merge(i, j):
    with pytest.raises(ValueError, match=rf"i is {i} and j is {j}; they must be different and in \[0, 3\)"):
        bounds.merge([[0], [1], [2]], i, j)


@pytest.mark.parametrize(
    ("block", "message"),
    [([4], "block contains 4"), ([0.5], "block has dtype"), ([[0], [1], [2]], r"block has shape \(3, 1\)")],
)
def test_a_mixed_block_of_no_classes_is_refused(block, message):
    with pytest.raises(ValueError, match=message):
        bounds.mixed_bound(np.zeros((2, 4)), 0, block)


def test_parameters_are_refused_as_scores_are():
    for bound in (bounds.bouchard, bounds.log_concavity):
        with pytest.raises(ValueError, match="contains nan; it must be finite"):
            bound([1.0, 2.0], 0, np.nan)
        with pytest.raises(ValueError, match=r"\(3,\) of [au]"):
            bound(np.zeros((2, 4)), 0, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"f has shape \(0,\)"):
        bounds.bouchard_location([])


def test_the_package_lists_what_it_has():
    for name in bounds.__all__:
        assert getattr(bounds, name).__doc__
