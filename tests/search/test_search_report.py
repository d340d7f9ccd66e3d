"""What searches for losses and gradients report: their cost by counters, and certificates that hold where given."""

import copy
import pickle

import numpy as np
import pytest
from reference.message_passing import best_wrong, block_scores, loss_named, message_passing
from test_message_passing import LOSSES, SLACK, B, D, K, exact, fitted, problem

from manyclass import DecomposedIndex, SphericalClusterIndex

C = 4


def spherical(W, n_probe=C):
    return SphericalClusterIndex(C, n_probe=n_probe, random_state=0).fit(W)


def n_labels(Y):
    return np.array([len(P) for P in Y])


# Counters


@pytest.mark.parametrize("n_iter", [0, 1, 3])
def test_a_search_of_all_clusters_costs_all_rows_and_centroids_of_each_block(n_iter, seed):
    W, Q, Y = problem(seed)
    report = fitted(W, B, C).loss_and_gradient(Q, Y, budget=7, n_iter=n_iter).report
    np.testing.assert_array_equal(report.n_found, 7 * B)
    np.testing.assert_array_equal(report.n_scanned, K * B)
    np.testing.assert_array_equal(report.n_multiplications, D * (C + K) + D * report.n_exact)
    if n_iter == 0:
        np.testing.assert_array_equal(report.n_exact, n_labels(Y))
    else:
        assert (report.n_exact >= n_labels(Y)).all()
        assert (report.n_exact <= n_labels(Y) + 7 * B).all()


def test_active_classes_are_counted_as_the_twin_finds_them(seed):
    W, Q, Y = problem(seed)
    report = fitted(W, B, C).loss_and_gradient(Q, Y, "cross_entropy", budget=7, n_iter=2).report
    for i, (q, P) in enumerate(zip(Q, Y, strict=True)):
        parts = block_scores(W, q, B)
        found = np.array([best_wrong(s, P, 7) for s in parts])
        passed = message_passing(parts, list(P), loss_named("cross_entropy"), found, n_iter=2)
        active = (passed.messages[-1] != 0).any(axis=0)
        active[P] = True
        assert report.n_exact[i] == active.sum()


def test_fewer_clusters_cost_the_rows_that_stand_in_them(seed):
    W, Q, Y = problem(seed)
    index = fitted(W, B, C, n_probe=2)
    report = index.loss_and_gradient(Q, Y, budget=7).report
    scanned, multiplied = np.zeros(len(Q), dtype=int), np.zeros(len(Q), dtype=int)
    for j in range(B):
        columns = slice(index.block_starts_[j], index.block_starts_[j + 1])
        toward = Q[:, columns] @ index.cluster_centers_[:, columns].T
        sizes = np.bincount(index.labels_[j], minlength=C)
        rows = sizes[np.argsort(-toward, axis=1)[:, :2]].sum(axis=1)
        scanned += rows
        multiplied += (C + rows) * (columns.stop - columns.start)
    np.testing.assert_array_equal(report.n_scanned, scanned)
    np.testing.assert_array_equal(report.n_multiplications, multiplied + D * report.n_exact)

    whole = spherical(W, n_probe=2)
    report = whole.loss_and_gradient(Q, Y, budget=7).report
    toward = Q @ whole.cluster_centers_[:, :D].T
    rows = np.bincount(whole.labels_, minlength=C)[np.argsort(-toward, axis=1)[:, :2]].sum(axis=1)
    np.testing.assert_array_equal(report.n_scanned, rows)
    np.testing.assert_array_equal(report.n_multiplications, D * (C + rows + n_labels(Y)))
    every = spherical(W).loss_and_gradient(Q, Y, budget=7).report
    np.testing.assert_array_equal(every.n_multiplications, D * (K + n_labels(Y)))


def test_a_search_that_goes_on_until_it_has_enough_counts_every_turn():
    W = (0.01 * np.random.default_rng(0).standard_normal((1000, 8))).astype(
        np.float32
    )  # nearly uniform: all are needed
    Q = np.ones((2, 8), dtype=np.float32)
    report = SphericalClusterIndex(1).fit(W).loss_and_gradient(Q, [1, 2], "cross_entropy").report
    np.testing.assert_array_equal(report.n_found, 999)
    np.testing.assert_array_equal(report.n_scanned, 8 * 1000)  # 10, 20, ..., 640, then all
    assert report.certified.all()


def test_a_query_without_labels_costs_nothing_and_is_exact():
    W, Q, _ = problem(0)
    for index in (fitted(W), spherical(W)):
        report = index.loss_and_gradient(Q[:2], [[], [4, 9]], budget=3).report
        assert [part[0] for part in report] == [0, 0, 0, 0, True]
        assert report.n_exact[1] >= 2


def test_the_pair_unpacks_and_is_copied_with_its_report():
    W, Q, Y = problem(0)
    found = fitted(W).loss_and_gradient(Q, Y, budget=5)
    losses, gradients = found
    assert losses is found.losses
    assert gradients is found.gradients
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(other.losses, losses)
        np.testing.assert_array_equal(other.gradients.toarray(), gradients.toarray())
        for a, b in zip(other.report, found.report, strict=True):
            np.testing.assert_array_equal(a, b)


# Certificates


def check_within(loss, value, gradient, true, P, tolerance):
    """A certified answer against the true loss and gradient."""
    slack = SLACK[loss]
    if loss == "cross_entropy":
        assert -slack <= true[0] - value <= len(P) * np.log1p(tolerance) + slack
        # Twice the share that is left out, and what `tolerance` leaves unlisted.
        assert np.abs(gradient - true[1]).sum() <= 3 * len(P) * tolerance + slack
    else:
        assert abs(true[0] - value) <= slack
        np.testing.assert_allclose(gradient, true[1], rtol=0, atol=slack)


TOLERANCE = 0.05


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_certified_answer_of_all_columns_is_that_of_all_classes(loss, scale, seed):
    W, Q, Y = problem(seed, n=40, scale=scale)
    given = 0
    for index in (spherical(W), fitted(W, 1, C)):
        for budget in (3, 20, K):
            options = {"n_iter": 0} if isinstance(index, DecomposedIndex) else {}
            found = index.loss_and_gradient(Q, Y, loss, budget=budget, tolerance=TOLERANCE, **options)
            given += found.report.certified.sum()
            assert found.report.certified.all() or budget < K
            for i in np.flatnonzero(found.report.certified):
                true = exact(W, Q[i], Y[i], loss)
                check_within(loss, found.losses[i], found.gradients[[i]].toarray()[0], true, Y[i], TOLERANCE)
    assert given > 2 * 40  # beside those that list every class


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_iter", [0, 1, 3])
@pytest.mark.parametrize("step", ["full", "frank_wolfe"])
def test_a_certified_answer_of_blocks_is_that_of_all_classes_at_its_messages(loss, n_iter, step, seed):
    W, Q, Y = problem(seed, n=16, scale=2.0)
    given = 0
    for budget in (5, 20, K):
        found = fitted(W, B, C).loss_and_gradient(
            Q, Y, loss, budget=budget, tolerance=TOLERANCE, n_iter=n_iter, step=step
        )
        given += found.report.certified.sum()
        assert found.report.certified.all() or budget < K
        for i in np.flatnonzero(found.report.certified):
            parts = block_scores(W, Q[i], B)
            listed = np.array([best_wrong(s, Y[i], budget) for s in parts])
            L, P = loss_named(loss), list(Y[i])
            passed = message_passing(parts, P, L, listed, n_iter=n_iter, step=step, tolerance=TOLERANCE)
            each = [L(B * s, P) for s in parts + passed.messages[-1]]
            true = float(np.mean([value for value, _ in each])), np.mean([g for _, g in each], axis=0)
            check_within(loss, found.losses[i], found.gradients[[i]].toarray()[0], true, P, TOLERANCE)
            # An upper bound of the loss of the exact scores, but for the share that is left out.
            room = len(P) * np.log1p(TOLERANCE) if loss == "cross_entropy" else 0
            assert found.losses[i] + room >= exact(W, Q[i], P, loss)[0] - SLACK[loss]
    assert given > 16  # beside those that list every class


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_iter", [1, 3])
def test_a_certified_answer_of_active_classes_is_that_of_the_exact_scores(loss, n_iter, seed):
    W, Q, Y = problem(seed, n=40, scale=2.0)
    Q[:20] = 3 * W[[P[0] for P in Y[:20]]]  # rows as queries: the label stands out
    given = 0
    for budget in (5, 20, K):
        found = fitted(W, B, C).loss_and_gradient(
            Q, Y, loss, budget=budget, tolerance=TOLERANCE, n_iter=n_iter, answer="active"
        )
        given += found.report.certified.sum()
        for i in np.flatnonzero(found.report.certified):
            true = exact(W, Q[i], Y[i], loss)
            # Scores of up to 3 |w|^2 or so round more than those of a problem.
            slack = 30 * SLACK[loss]
            gradient = found.gradients[[i]].toarray()[0]
            if loss == "cross_entropy":
                room = len(Y[i]) * TOLERANCE
                assert -slack <= true[0] - found.losses[i] <= room + slack
                assert np.abs(gradient - true[1]).sum() <= 3 * room + slack
            else:
                assert abs(true[0] - found.losses[i]) <= slack
    assert given > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_a_cluster_that_was_not_read_leaves_no_certificate(loss, seed):
    W, Q, Y = problem(seed, scale=3.0)
    for index in (spherical(W, n_probe=C - 1), fitted(W, B, C, n_probe=C - 1)):
        assert not index.loss_and_gradient(Q, Y, loss, budget=20).report.certified.any()
        # With all clusters read the same budget has certificates.
        assert index.loss_and_gradient(Q, Y, loss, budget=20, n_probe=C).report.certified.any()


@pytest.mark.parametrize("loss", ["margin", "cross_entropy"])
def test_a_certified_threshold_is_within_it_times_the_lipschitz_constant(loss, seed):
    W, Q, Y = problem(seed)
    for threshold in (0.2, 1.0):
        found = spherical(W).loss_and_gradient(Q, Y, loss, threshold=threshold)
        assert found.report.certified.all()
        for i, P in enumerate(Y):
            lipschitz = 2 * len(P) if loss == "cross_entropy" else 2
            assert abs(found.losses[i] - exact(W, Q[i], P, loss)[0]) <= threshold * lipschitz + SLACK[loss]
        partial = spherical(W, n_probe=2).loss_and_gradient(Q, Y, loss, threshold=threshold)
        assert not partial.report.certified.any()
        masked = spherical(W).loss_and_gradient(Q, Y, loss, threshold=threshold, rest="mask").report
        listed = masked.n_found == K - n_labels(Y)
        np.testing.assert_array_equal(masked.certified, listed)


# Y17: gradients converge with the loss


@pytest.mark.parametrize(("loss", "smoothing"), [("margin", 0.5), ("margin", 4.0), ("cross_entropy", 1.0)])
@pytest.mark.parametrize("tolerance", [0.0, 1e-2])
def test_the_gradient_is_within_the_root_of_the_gap_of_the_exact_one(loss, smoothing, tolerance, seed):
    """For a 1/mu-smooth loss |g - dL/dz|^2 <= 2 gap / mu, at any messages that add up to 0."""
    W, Q, Y = problem(seed, n=4)
    L = loss_named(loss, smoothing)
    everything = np.ones((B, K), dtype=bool)
    for q, P in zip(Q, Y, strict=True):
        mu = smoothing if loss == "margin" else 2 / len(P)  # the softmax has slopes of at most 1/2 for each label
        parts = block_scores(W, q, B)
        value, gradient = L(parts.sum(axis=0), list(P))
        for n_iter in (0, 1, 5, 20):
            passed = message_passing(
                parts, list(P), L, everything, n_iter=n_iter, step="frank_wolfe", tolerance=tolerance
            )
            gap = passed.loss - value
            assert gap >= -1e-9
            # Rounding of projections, which are found by halving.
            assert ((passed.gradient - gradient) ** 2).sum() <= 2 * gap / mu + 1e-7


@pytest.mark.parametrize(("loss", "smoothing"), [("margin", 1.0), ("cross_entropy", 1.0)])
def test_gradients_converge_as_messages_are_passed_at_the_rate_of_theorem_2(loss, smoothing, seed):
    W, Q, Y = problem(seed)
    index = fitted(W)
    true = np.array([exact(W, q, P, loss, smoothing)[1] for q, P in zip(Q, Y, strict=True)])
    errors = {}
    for n_iter in (1, 4, 16, 64, 256):
        _, gradients = index.loss_and_gradient(
            Q, Y, loss, smoothing=smoothing, budget=K, tolerance=0.0, n_iter=n_iter, step="frank_wolfe"
        )
        errors[n_iter] = np.linalg.norm(gradients.toarray() - true, axis=1)
        for i, (q, P) in enumerate(zip(Q, Y, strict=True)):
            parts = block_scores(W, q, B)
            mu = smoothing if loss == "margin" else 2 / len(P)
            gap = 2 * B * ((parts.sum(axis=0) / B - parts) ** 2).sum() / (mu * (n_iter + 2))
            assert errors[n_iter][i] <= np.sqrt(2 * gap / mu) + SLACK[loss]
    # The bound falls as 1 / sqrt(T); from 1 to 256 rounds that is a factor of 9.
    assert errors[256].mean() < errors[1].mean() / 9
