"""Losses of several labels: values and gradients against slow twins, definitions, optimisers and each other."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import losses as twin
from testing_core import pieces

from manyclass import SphericalClusterIndex, _core, losses

ISAS = ("baseline", "avx2", "avx512")[: 1 + ("baseline", "avx2", "avx512").index(_core.best_isa())]
ULP = 2.0**-23
MUS = (1e-3, 0.1, 1.0, 5.0, 1e3)

# What both sides of a comparison are: name -> (the function, its twin)
LOSSES = {
    "cross_entropy": (losses.cross_entropy, twin.cross_entropy),
    "max_margin": (losses.max_margin, twin.max_margin),
    "triplet": (losses.triplet, twin.triplet),
    **{
        f"smoothed_margin {mu:g}": (
            lambda z, P, mu=mu: losses.smoothed_margin(z, P, mu),
            lambda z, P, mu=mu: twin.smoothed_margin(z, P, mu),
        )
        for mu in MUS
    },
}


def some_point(rng, n_classes, n_positives=None, spread=2.0):
    """Scores as float64 that are floats, and labels; in one of three, ties."""
    z = rng.normal(size=n_classes) * spread
    if rng.random() < 1 / 3:
        z = np.round(z)
    n_positives = n_positives or int(rng.integers(1, min(n_classes, 6)))
    return z.astype(np.float32).astype(np.float64), rng.choice(n_classes, size=n_positives, replace=False)


def one(loss, z, P):
    values, gradient = loss(z, list(P))
    assert values.shape == (1,)
    assert gradient.shape == z.shape
    return values[0], gradient.astype(np.float64)


def listed(loss, smoothing, positives, negatives, rest=0.0, rest_score=0.0, isa="auto"):
    as_float = [np.ascontiguousarray(part, dtype=np.float32) for part in (positives, negatives)]
    return pieces.label_loss(loss, smoothing, *as_float, rest=rest, rest_score=rest_score, isa=isa)


# Against twins and definitions


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_those_of_the_twin(name, seed):
    rng = np.random.default_rng(seed)
    loss, slow = LOSSES[name]
    # Around the 16 lanes and the blocks of 64 that the loops take.
    for n_classes in (2, 3, 5, 15, 16, 17, 18, 33, 63, 64, 65, 66, 67, 68, 130, 700):
        z, P = some_point(rng, n_classes)
        value, gradient = one(loss, z, P)
        expected, slopes = slow(z, P)
        # exp is good to 2 ulp, the difference of scores of at most 20 to 10 ulp of 1; sums of floats stay below 32 ulp.
        # The rest is in double, rounded once, but for the twin's halving: it ends a few ulp of a threshold off, which
        # is up to 1e3 times a difference of scores.
        assert value == pytest.approx(expected, rel=44 * ULP if name == "cross_entropy" else 1e-10, abs=1e-11)
        np.testing.assert_allclose(gradient, slopes, rtol=44 * ULP, atol=1e-9 if "smoothed" in name else 1e-30)


@pytest.mark.parametrize("name", [n for n in LOSSES if n not in ("max_margin", "triplet")])
def test_gradient_is_the_slope_of_the_value(name, seed):
    rng = np.random.default_rng(seed)
    loss, slow = LOSSES[name]
    step = 1e-5
    for _ in range(5):
        z, P = some_point(rng, 7)
        _, gradient = one(loss, z, P)
        slopes = [(slow(z + step * e, P)[0] - slow(z - step * e, P)[0]) / (2 * step) for e in np.eye(len(z))]
        # The gradient changes by at most 2 step / mu between the ends; the value is a double of 10 or less, 1e-15 off.
        mu = float(name.split()[1]) if "smoothed" in name else 1.0
        np.testing.assert_allclose(gradient, slopes, rtol=0, atol=2 * step / mu + 1e-9 + 1e-6)


@pytest.mark.parametrize("name", ["max_margin", "triplet"])
def test_gradient_of_a_loss_with_kinks_is_a_subgradient(name, seed):
    rng = np.random.default_rng(seed)
    loss, slow = LOSSES[name]
    for _ in range(20):
        z, P = some_point(rng, 9)
        value, gradient = one(loss, z, P)
        for _ in range(20):
            other = z + rng.normal(size=9) * rng.choice([0.1, 1, 10])
            assert slow(other, P)[0] >= value + gradient @ (other - z) - 1e-10


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "triplet", "decoupled", "logistic"])
def test_every_instruction_set_gives_the_same_losses(loss, isa, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(3, 1000)).astype(np.float32)
    indptr, ids = np.array([0, 1, 3, 4]), np.array([0, 5, 999, 64], dtype=np.int32)
    expected = _core.losses(z, indptr, ids, loss=loss, smoothing=1.0, isa="baseline")
    for got, want in zip(_core.losses(z, indptr, ids, loss=loss, smoothing=1.0, isa=isa), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=8 * ULP, atol=1e-7 * (loss == "margin"))  # fused multiply-adds


# Losses of several labels that only training uses


def by_core(loss, z, P, isa="auto"):
    values, gradients = _core.losses(
        z.astype(np.float32)[np.newaxis], np.array([0, len(P)]), np.sort(P).astype(np.int32), loss=loss, isa=isa
    )
    return values[0], gradients[0].astype(np.float64)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", ["pick_all_normalized", "decoupled", "logistic"])
def test_reductions_are_their_twins(name, isa, seed):
    rng = np.random.default_rng(seed)
    for n_classes in (2, 3, 15, 16, 17, 33, 130, 700):
        z, P = some_point(rng, n_classes)
        value, gradient = by_core(name, z, P, isa)
        expected, slopes = getattr(twin, name)(z, P)
        # As above: sums of floats stay below 32 ulp, a term of them below 12.
        assert value == pytest.approx(expected, rel=44 * ULP, abs=1e-11)
        # A label's gradient in the twin is a softmax less 1, whose double has 1e-16.
        np.testing.assert_allclose(gradient, slopes, rtol=44 * ULP, atol=1e-15 * n_classes)


@pytest.mark.parametrize("name", ["pick_all_normalized", "decoupled", "logistic"])
def test_reductions_have_the_slope_of_their_value(name, seed):
    rng = np.random.default_rng(seed)
    z, P = some_point(rng, 7)
    slow, step = getattr(twin, name), 1e-5
    slopes = [(slow(z + step * e, P)[0] - slow(z - step * e, P)[0]) / (2 * step) for e in np.eye(len(z))]
    np.testing.assert_allclose(by_core(name, z, P)[1], slopes, rtol=0, atol=2 * step + 1e-6)


@pytest.mark.parametrize("name", ["pick_all_normalized", "decoupled"])
def test_reductions_of_one_label_are_the_softmax(name, seed):
    z, P = some_point(np.random.default_rng(seed), 40, n_positives=1)
    value, gradient = by_core(name, z, P)
    expected, slopes = by_core("cross_entropy", z, P)
    assert value == pytest.approx(expected, rel=10 * ULP)
    np.testing.assert_allclose(gradient, slopes, rtol=40 * ULP)


@pytest.mark.parametrize("name", ["cross_entropy", "pick_all_normalized", "decoupled", "logistic"])
def test_the_rest_counts_as_so_many_classes_of_its_score(name, seed):
    rng = np.random.default_rng(seed)
    positives, negatives = rng.normal(size=2), rng.normal(size=5)
    whole = listed(name, 0.0, positives, np.append(negatives, np.full(7, 0.25)))
    value, of_labels, of_listed, of_rest, _ = listed(name, 0.0, positives, negatives, rest=7.0, rest_score=0.25)
    assert value == pytest.approx(whole[0], rel=20 * ULP)
    np.testing.assert_allclose(of_labels, whole[1], rtol=20 * ULP)
    np.testing.assert_allclose(of_listed, whole[2][:5], rtol=20 * ULP)
    assert of_rest == pytest.approx(whole[2][5], rel=20 * ULP)


def test_where_every_class_is_a_label_the_decoupled_softmax_is_zero():
    value, gradient = by_core("decoupled", np.array([1.0, -2.0, 3.0]), np.array([0, 1, 2]))
    assert value == 0
    assert not gradient.any()


# Cross-entropy


def test_cross_entropy_keeps_its_digits_where_the_label_has_all_the_probability():
    for gap in (20.0, 40.0, 80.0):
        value, gradient = one(losses.cross_entropy, np.array([0.0, gap, -1.0]), [1])
        wrong = np.exp(-gap) * (1 + np.exp(-1.0))
        assert value == pytest.approx(np.log1p(wrong), rel=10 * ULP)
        assert gradient[1] == pytest.approx(-wrong / (1 + wrong), rel=10 * ULP)


def test_cross_entropy_gradient_is_lipschitz_with_half_the_number_of_labels(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        z, P = some_point(rng, 6, spread=1)
        other = (z + rng.normal(size=6) * 0.1).astype(np.float32).astype(np.float64)
        apart = np.linalg.norm(one(losses.cross_entropy, z, P)[1] - one(losses.cross_entropy, other, P)[1])
        assert apart <= len(P) / 2 * np.linalg.norm(z - other) + 1e-5  # two gradients of 6 floats of up to 5


def test_nca_is_the_cross_entropy_of_minus_the_distances(seed):
    rng = np.random.default_rng(seed)
    d = rng.random((4, 9))
    P = [[0], [1, 2], [8], [3, 4, 5]]
    values, gradients = losses.nca(d, P)
    of_scores, slopes = losses.cross_entropy(-d, P)
    np.testing.assert_array_equal(values, of_scores)
    np.testing.assert_array_equal(gradients, -slopes)
    assert values[0] == pytest.approx(d[0, 0] + np.log(np.exp(-d[0]).sum()), rel=1e-6)


# Scores that are huge, equal or too few


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1e20, 1e30, 3e38])
def test_huge_scores_do_not_overflow(name, scale, seed):
    rng = np.random.default_rng(seed)
    for sign in (-1, 1):
        z = rng.uniform(-1, 1, size=40) * scale
        z[:2] = sign * scale, -sign * scale
        value, gradient = one(LOSSES[name][0], z, [0, 5])
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        assert value >= 0
        assert abs(gradient.sum()) <= 1e-5


@pytest.mark.parametrize("name", LOSSES)
def test_a_common_offset_of_all_scores_changes_nothing(name, seed):
    rng = np.random.default_rng(seed)
    z, P = np.round(rng.normal(size=30) * 16) / 16, [4, 9]
    value, gradient = one(LOSSES[name][0], z, P)
    moved = one(LOSSES[name][0], z + 1024, P)  # z + 1024 is a float: every difference of scores is what it was
    assert moved[0] == value
    np.testing.assert_array_equal(moved[1], gradient)


@pytest.mark.parametrize("name", LOSSES)
def test_no_wrong_class_is_no_loss_but_to_the_cross_entropy(name):
    for z in (np.array([0.5]), np.array([0.5, -3.0, 2.0])):
        value, gradient = one(LOSSES[name][0], z, range(len(z)))
        if name == "cross_entropy":
            assert value == pytest.approx(twin.cross_entropy(z, range(len(z)))[0], abs=1e-12)
        else:
            assert value == 0
            assert not gradient.any()


@pytest.mark.parametrize("name", LOSSES)
def test_all_scores_equal_share_the_gradient(name):
    value, gradient = one(LOSSES[name][0], np.zeros(1000), [1, 2])
    expected, slopes = LOSSES[name][1](np.zeros(1000), [1, 2])
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(gradient, slopes, rtol=44 * ULP, atol=1e-9)


# Distances


def random_metric(rng, d):
    A = rng.normal(size=(d, d))
    return A @ A.T


@pytest.mark.parametrize("drop_constant", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_times_rows_are_minus_the_squared_distances(drop_constant, dtype, seed):
    rng = np.random.default_rng(seed)
    X, Y, M = rng.normal(size=(5, 4)).astype(dtype), rng.normal(size=(9, 4)).astype(dtype), random_metric(rng, 4)
    rows = losses.mahalanobis_rows(Y, M, drop_constant=drop_constant)
    queries = losses.mahalanobis_queries(X, M, drop_constant=drop_constant)
    assert rows.dtype == queries.dtype == dtype
    assert rows.shape == (9, 5 if drop_constant else 6)
    apart = X[:, np.newaxis, :].astype(float) - Y[np.newaxis, :, :]
    expected = -np.einsum("nki,ij,nkj->nk", apart, M, apart)
    if drop_constant:
        expected += np.einsum("ni,ij,nj->n", X, M, X)[:, np.newaxis]
    terms = np.abs(queries.astype(float)) @ np.abs(rows.astype(float)).T
    assert np.all(np.abs(queries @ rows.T - expected) <= 8 * np.finfo(dtype).eps * terms)


@pytest.mark.parametrize("drop_constant", [False, True])
def test_nearest_neighbours_are_the_largest_inner_products_of_an_index(drop_constant, seed):
    rng = np.random.default_rng(seed)
    X, Y, M = rng.normal(size=(30, 5)), rng.normal(size=(400, 5)), random_metric(rng, 5)
    index = SphericalClusterIndex(20, random_state=seed).fit(losses.mahalanobis_rows(Y, M, drop_constant=drop_constant))
    _, ids = index.query(losses.mahalanobis_queries(X, M, drop_constant=drop_constant), 1, n_probe=20)
    apart = X[:, np.newaxis, :] - Y[np.newaxis, :, :]
    distances = np.einsum("nki,ij,nkj->nk", apart, M, apart)
    # Two distances may be closer than single precision tells.
    found = distances[np.arange(30), ids[:, 0]]
    largest = np.einsum("ni,ij,nj->n", X, M, X) + np.einsum("ni,ij,nj->n", Y, M, Y).max()
    assert np.all(found - distances.min(axis=1) <= 16 * ULP * largest)


# What is accepted and refused


def test_labels_may_be_lists_or_a_matrix_and_one_point_a_vector(seed):
    rng = np.random.default_rng(seed)
    z, P = rng.normal(size=(3, 6)).astype(np.float32), [[5, 1], (0,), np.array([2, 3, 4])]
    matrix = sp.lil_array((3, 6))
    for i, ids in enumerate(P):
        matrix[i, list(ids)] = 1
    for loss, _ in LOSSES.values():
        values, gradients = loss(z, P)
        for other in (loss(z, matrix.tocsr()), loss(np.asfortranarray(z), sp.coo_matrix(matrix))):
            np.testing.assert_array_equal(other[0], values)
            np.testing.assert_array_equal(other[1], gradients)
        for single in (loss(z[0], [5, 1]), loss(z[0], [[1, 5]]), loss(z[0], matrix.tocsr()[[0]])):
            np.testing.assert_array_equal(single[0], values[:1])
            np.testing.assert_array_equal(single[1], gradients[0])
    values, gradients = losses.triplet(np.zeros((0, 4)), [])
    assert values.shape == (0,)
    assert gradients.shape == (0, 4)


Z = np.zeros((2, 4))


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        (Z, [[0], []], "row 1 has no positives; each row needs one or more"),
        (Z[0], [], "row 0 has no positives"),
        (Z, sp.csr_array(([1.0], ([0], [1])), shape=(2, 4)), "row 1 has no positives"),
        (Z, [[0], [4]], r"positives\[1\] holds 4; ids are in \[0, 4\)"),
        (Z, [[-1], [0]], r"positives\[0\] holds -1; ids are in \[0, 4\)"),
        (Z, [[2, 2], [0]], r"positives\[0\] holds 2 more than once"),
        (Z, [[0]], "positives has 1 lists; there are 2 rows of scores"),
        (Z, [0, 1], r"positives\[0\] has 0 dimensions; it must have 1"),
        (Z, sp.csr_array((2, 5)), r"positives has shape \(2, 5\); it must be \(2, 4\), as the scores"),
        (Z[np.newaxis], [[0]], r"NAME has shape \(1, 2, 4\); it must have shape \(K,\) or \(n, K\), K >= 1"),
        (np.zeros((2, 0)), [[0], [0]], r"NAME has shape \(2, 0\)"),
        (np.array([0, np.nan]), [0], r"NAME\[1\] is nan; it must be finite as float32"),
        (np.array([[0, 1], [np.inf, 0]]), [[0], [0]], r"NAME\[1, 0\] is inf; it must be finite as float32"),
        (np.array([1e39, 0]), [0], r"NAME\[0\] is 1e\+39; it must be finite as float32"),
    ],
)
def test_scores_and_labels_that_do_not_fit_are_refused(scores, positives, message):
    plain = (losses.cross_entropy, losses.max_margin, losses.smoothed_margin, losses.triplet)
    functions = dict.fromkeys((*plain, lambda z, P: losses.implicit_margin(z, P, 1.0)), "scores")
    for function, name in (functions | {losses.nca: "distances", losses.project_bisimplex: "z"}).items():
        with pytest.raises(ValueError, match=message.replace("NAME", name)):
            function(scores, positives)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: losses.triplet([["a"]], [[0]]), TypeError, "scores has dtype <U1; it must hold real numbers"),
        (lambda: losses.triplet(Z[0], [0.5]), TypeError, r"positives\[0\] has dtype float64; it must hold integers"),
        (lambda: losses.smoothed_margin(Z[0], [0], -1), ValueError, "smoothing is -1; it must be finite, at least 0"),
        (lambda: losses.smoothed_margin(Z[0], [0], "1"), TypeError, "smoothing is '1'; it must be a number"),
        (lambda: losses.implicit_margin(Z[0], [0], 1, eta=0), ValueError, "eta is 0; it must be finite, more than 0"),
        (lambda: losses.implicit_margin(Z[0], [0], -1.0), ValueError, "x_sq holds a value that is no squared length"),
        (lambda: losses.implicit_margin(Z, [[0], [0]], [1.0]), ValueError, r"x_sq has shape \(1,\); it must be"),
        (lambda: losses.mahalanobis_rows(Z, np.eye(3)), ValueError, r"M has shape \(3, 3\); it must be \(4, 4\)"),
        (lambda: losses.mahalanobis_rows(Z[0], np.eye(4)), ValueError, "points has 1 dimensions; it must have 2"),
        (lambda: losses.mahalanobis_rows(Z, np.triu(np.ones((4, 4)))), ValueError, "M is not symmetric"),
        (lambda: losses.mahalanobis_queries(Z, -np.eye(4)), ValueError, "M has the eigenvalue -1; it must be positive"),
        (lambda: losses.mahalanobis_queries(Z + np.nan, np.eye(4)), ValueError, r"points\[0, 0\] is nan"),
        (lambda: losses.mahalanobis_queries(Z, np.full((4, 4), np.inf)), ValueError, r"M\[0, 0\] is inf"),
    ],
)
def test_options_out_of_range_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_core_refuses_labels_that_would_be_read_out_of_bounds():
    z, indptr = np.zeros((1, 4), dtype=np.float32), np.array([0, 2])
    for bad in ([0, 4], [-1, 2], [2, 1], [1, 1]):
        with pytest.raises(ValueError, match="the labels of row 0 are not distinct, sorted and in range"):
            _core.losses(z, indptr, np.array(bad, dtype=np.int32), loss="triplet")
    with pytest.raises(ValueError, match="the labels do not describe one list for each row"):
        _core.losses(z, np.array([0, 3]), np.array([0, 1], dtype=np.int32), loss="triplet")
    with pytest.raises(ValueError, match=r"it must be one of 'cross_entropy', .* 'margin', 'triplet'"):
        _core.losses(z, indptr, np.array([0, 1], dtype=np.int32), loss="hinge")
