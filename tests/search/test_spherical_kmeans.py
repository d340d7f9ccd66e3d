"""Spherical k-means: every iteration as its NumPy twin's, empty clusters, threads, instruction sets."""

import numpy as np
import pytest
from reference.core_step import isas
from reference.spherical_kmeans import spherical_kmeans

from manyclass import _core


def core(W, n_clusters, *, n_iter=6, sample_per_cluster=0, radius=0.0, seed=0, n_threads=1, isa="auto"):
    return _core.spherical_kmeans(
        W,
        n_clusters=n_clusters,
        n_iter=n_iter,
        sample_per_cluster=sample_per_cluster,
        radius=radius,
        seed=seed,
        n_threads=n_threads,
        isa=isa,
    )


def rows(seed, n, d, norms=0.5):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.exp(norms * rng.standard_normal((n, 1)))).astype(np.float32)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(
    ("n", "d", "n_clusters", "sample_per_cluster", "augment"),
    [
        (400, 7, 12, 0, False),
        (400, 7, 12, 20, False),
        (1000, 33, 17, 0, True),
        (300, 128, 40, 5, True),
        (60, 2, 40, 0, False),  # clusters run empty
    ],
)
def test_every_iteration_is_that_of_the_twin(n, d, n_clusters, sample_per_cluster, augment, isa, seed):
    W = rows(seed, n, d)
    radius = float(np.float32(np.linalg.norm(W, axis=1).max())) if augment else 0.0
    made = core(W, n_clusters, sample_per_cluster=sample_per_cluster, radius=radius, seed=seed, isa=isa)
    centroids, history = spherical_kmeans(W, n_clusters, 6, sample_per_cluster, radius, seed)
    assert made["moved"] == [h["moved"] for h in history]
    assert made["repaired"] == [h["repaired"] for h in history]
    np.testing.assert_array_equal(made["sizes"], [h["sizes"] for h in history])
    # Unit vectors in single precision: coordinates and sums of d products of them, each to 2^-24.
    np.testing.assert_allclose(
        made["mean_cosine"], [h["mean_cosine"] for h in history], rtol=0, atol=(d + 4) * 2.0**-24
    )
    np.testing.assert_allclose(made["centroids"], centroids, rtol=0, atol=1e-6)


def test_the_mean_cosine_never_falls_where_no_cluster_is_empty(seed):
    made = core(rows(seed, 3000, 20), 15, n_iter=20)
    assert sum(made["repaired"]) == 0
    # Each cosine is rounded to 2^-24 of a unit or so.
    assert np.diff(made["mean_cosine"]).min() > -(2.0**-22)


def test_empty_clusters_are_given_rows(seed):
    rng = np.random.default_rng(seed)
    W = np.repeat(rng.standard_normal((5, 6)), 40, axis=0)  # equal cosines go to the first of equal centroids
    made = core(W.astype(np.float32), 20, n_iter=10)
    assert sum(made["repaired"]) > 0
    assert np.min(made["sizes"][-1]) > 0


def test_centroids_are_unit_vectors_even_of_rows_that_are_zero_or_few():
    for W in (np.zeros((9, 3), dtype=np.float32), np.ones((9, 3), dtype=np.float32)):
        made = core(W, 9)
        np.testing.assert_allclose(np.linalg.norm(made["centroids"], axis=1), 1, rtol=0, atol=2.0**-22)


@pytest.mark.parametrize("augment", [False, True])
def test_any_number_of_threads_gives_the_same_bits(augment, seed):
    W = rows(seed, 3000, 24)
    radius = float(np.float32(np.linalg.norm(W, axis=1).max())) if augment else 0.0
    made = [core(W, 50, radius=radius, seed=seed, n_threads=n) for n in (1, 2, 4)]
    for other in made[1:]:
        np.testing.assert_array_equal(made[0]["centroids"], other["centroids"])
        np.testing.assert_array_equal(made[0]["sizes"], other["sizes"])
        assert made[0]["mean_cosine"] == other["mean_cosine"]


def test_another_seed_gives_other_clusters(seed):
    W = rows(seed, 500, 8)
    assert not np.array_equal(core(W, 20, seed=1)["centroids"], core(W, 20, seed=2)["centroids"])


@pytest.mark.parametrize(
    "options", [{"n_clusters": 0}, {"n_clusters": 11}, {"radius": -1.0}, {"sample_per_cluster": -1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="out of range"):
        core(rows(0, 10, 3), **{"n_clusters": 2, **options})


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e19])
def test_rows_without_a_usable_norm_are_refused(bad):
    W = rows(0, 10, 3)
    W[7, 1] = bad
    with pytest.raises(ValueError, match="row 7 has a value that is not finite, or a norm above"):
        core(W, 2)
