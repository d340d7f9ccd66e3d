"""Greedy message passing: as its twin and its theorems say, exact where nothing is left out."""

import numpy as np
import pytest
from reference.losses import smoothed_margin
from reference.message_passing import best_wrong, block_scores, loss_named, message_passing, printed_message_passing

from manyclass import DecomposedIndex, SphericalClusterIndex

LOSSES = ("margin", "cross_entropy", "triplet")
K, D, B = 60, 11, 3
EVERYTHING = {"budget": K, "tolerance": 0.0}
# Scores of up to 100, rounded to single precision some ten times, are off by up to 1e-4; a loss of 3 labels changes by
# up to 6 times that, a triplet's by up to as many times as it has pairs.
SLACK = {"margin": 1e-3, "cross_entropy": 1e-3, "triplet": 2e-2}


def problem(seed, n=8, scale=1.0):
    """Rows, queries and labels: one to three, of the lowest and of the highest scores too."""
    rng = np.random.default_rng(seed)
    W = (scale * rng.standard_normal((K, D))).astype(np.float32)
    Q = rng.standard_normal((n, D)).astype(np.float32)
    order = np.argsort(Q @ W.T, axis=1)
    Y = [order[i, [[0], [-1], [0, -1], rng.permutation(K)[:3]][i % 4]] for i in range(n)]
    return W, Q, [np.sort(y) for y in Y]


def fitted(W, n_blocks=B, n_clusters=4, **parameters):
    defaults = {"n_clusters": n_clusters, "n_probe": min(n_clusters, len(W)), "random_state": 0}
    return DecomposedIndex(n_blocks, **(defaults | parameters)).fit(W)


def exact(W, q, P, loss, smoothing=1.0):
    return loss_named(loss, smoothing)(W.astype(float) @ q.astype(float), list(P))


def assert_answers(found, expected, loss):
    """Losses and gradients of the core against those of a twin, point by point."""
    losses, gradients = found
    dense = gradients.toarray()
    for i, (value, gradient) in enumerate(expected):
        np.testing.assert_allclose(losses[i], value, rtol=0, atol=SLACK[loss])
        np.testing.assert_allclose(dense[i], gradient, rtol=0, atol=SLACK[loss])


# What the theorems say


@pytest.mark.parametrize("loss", LOSSES)
def test_the_decomposed_loss_is_the_loss_at_the_best_messages_and_no_less_at_others(loss, seed):
    W, Q, Y = problem(seed)
    L = loss_named(loss)
    rng = np.random.default_rng(seed)
    for q, P in zip(Q, Y, strict=True):
        parts = block_scores(W, q, B)
        z = parts.sum(axis=0)
        value = L(z, list(P))[0]

        def decomposed(messages, parts=parts, P=P):
            return np.mean([L(B * s, list(P))[0] for s in parts + messages])

        np.testing.assert_allclose(decomposed(z / B - parts), value, rtol=1e-9, atol=1e-9)
        for size in (0, 0.1, 1, 10):
            messages = size * rng.standard_normal(parts.shape)
            assert decomposed(messages - messages.mean(axis=0)) >= value - 1e-9


@pytest.mark.parametrize("loss", ["margin", "cross_entropy"])
@pytest.mark.parametrize("tolerance", [0.0, 1e-2])
def test_the_gap_stays_under_the_bound_of_theorem_2(loss, tolerance, seed):
    """With tau_2 |Lambda*|_1 in place of 2 tau_2 ln t |Lambda*|_1, which follows from the same recursion."""
    W, Q, Y = problem(seed)
    smoothing = 0.5
    index = fitted(W)
    options = {"smoothing": smoothing, "budget": K, "tolerance": tolerance, "step": "frank_wolfe"}
    for t in range(1, 12):
        losses, _ = index.loss_and_gradient(Q, Y, loss, n_iter=t, **options)
        for value, q, P in zip(losses, Q, Y, strict=True):
            parts = block_scores(W, q, B)
            messages = parts.sum(axis=0) / B - parts
            mu = smoothing if loss == "margin" else 2 / len(P)  # the softmax has slopes of at most 1/2
            bound = 2 * B * (messages**2).sum() / (mu * (t + 2)) + tolerance * np.abs(messages).sum()
            gap = value - exact(W, q, P, loss, smoothing)[0]
            assert -SLACK[loss] <= gap <= bound + SLACK[loss]


def test_scores_below_a_threshold_move_a_score_by_no_more_than_their_number_times_it(seed):
    W, Q, _ = problem(seed)
    for q in Q:
        parts = block_scores(W, q, B)
        for threshold in (0.0, 0.3, 1.5):
            kept = np.where(np.abs(parts) > threshold, parts, 0)
            assert np.abs(parts.sum(axis=0) - kept.sum(axis=0)).max() <= B * threshold


@pytest.mark.parametrize(("loss", "per_label"), [("margin", False), ("cross_entropy", True)])
def test_a_search_by_threshold_is_within_it_times_the_lipschitz_constant(loss, per_label, seed):
    W, Q, Y = problem(seed)
    index = SphericalClusterIndex(4, n_probe=4, random_state=0).fit(W)
    for threshold in (0.0, 0.4, 2.0):
        losses, gradients = index.loss_and_gradient(Q, Y, loss, threshold=threshold)
        for i, (q, P) in enumerate(zip(Q, Y, strict=True)):
            z = W.astype(float) @ q.astype(float)
            known = np.abs(z) > threshold
            known[P] = True
            value, gradient = loss_named(loss)(np.where(known, z, 0), list(P))
            np.testing.assert_allclose(losses[i], value, rtol=0, atol=SLACK[loss])
            negligible = 1e-3 * len(P) / K if per_label else 0
            np.testing.assert_allclose(
                gradients[[i]].toarray()[0], np.where(known, gradient, 0), rtol=0, atol=negligible + SLACK[loss]
            )
            lipschitz = 2 * len(P) if per_label else 2
            assert abs(losses[i] - exact(W, q, P, loss)[0]) <= threshold * lipschitz + SLACK[loss]


# The core and its twin


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("step", ["full", "frank_wolfe"])
@pytest.mark.parametrize(("limit", "rest"), [(7, "mask"), (7, "zero"), (0.8, "zero"), (0.8, "mask")])
@pytest.mark.parametrize("answer", ["blocks", "active"])
def test_the_core_passes_messages_as_its_twin_and_their_sum_stays_zero(loss, step, limit, rest, answer, seed):
    W, Q, Y = problem(seed)
    index = fitted(W)
    search = {"budget": limit} if isinstance(limit, int) else {"threshold": limit}
    for n_iter in (0, 1, 4):
        expected = []
        for q, P in zip(Q, Y, strict=True):
            parts = block_scores(W, q, B)
            found = [best_wrong(s, P, limit) if isinstance(limit, int) else np.abs(s) > limit for s in parts]
            passed = message_passing(
                parts,
                list(P),
                loss_named(loss),
                np.array(found),
                n_iter=n_iter,
                step=step,
                rest=rest,
                answer=answer,
                negligible=1e-3 * len(P) / K if loss == "cross_entropy" else 0,
            )
            for messages in passed.messages:
                assert np.abs(messages.sum(axis=0)).max() < 1e-12
            expected.append((passed.loss, passed.gradient))
        options = {"n_iter": n_iter, "step": step, "rest": rest, "answer": answer}
        assert_answers(index.loss_and_gradient(Q, Y, loss, **options, **search), expected, loss)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("limit", [7, 0.8], ids=["budget", "tau_1"])
def test_two_hundred_gradients_are_those_of_algorithm_2_as_it_is_printed(loss, limit, seed):
    """Labels not forced active, scores of active classes by messages only, and both thresholds: by its slow twin."""
    n = 200
    W, Q, Y = problem(seed, n=n, scale=0.5)
    index = fitted(W)
    search = {"budget": limit} if isinstance(limit, int) else {"threshold": limit}
    n_idle = 0
    rounds = ((1, "frank_wolfe", 1e-3), (3, "frank_wolfe", 0.05), (2, "full", 0.2), (1, "full", 0.9))
    for n_iter, step, tolerance in rounds:
        expected = []
        for q, P in zip(Q, Y, strict=True):
            parts = block_scores(W, q, B)
            found = [best_wrong(s, P, limit) if isinstance(limit, int) else np.abs(s) > limit for s in parts]
            how = {"n_iter": n_iter, "step": step, "tolerance": tolerance}
            passed = printed_message_passing(parts, list(P), loss_named(loss), np.array(found), **how)
            n_idle += (passed.messages[-1][:, P] == 0).all(axis=0).sum()
            for messages in passed.messages:
                assert np.abs(messages.sum(axis=0)).max() < 1e-12
            expected.append((passed.loss, passed.gradient))
        assert_answers(index.loss_and_gradient(Q, Y, loss, rule="printed", **how, **search), expected, loss)
    # Labels that were never active, which the other rule has not; each has a wrong class above it, of a triplet loss.
    assert (n_idle > 0) == (loss != "triplet")


def test_the_printed_rule_differs_from_exact_scores_and_meets_it_where_all_is_found(seed):
    W, Q, Y = problem(seed, n=40)
    index = fitted(W)
    for loss in LOSSES:
        options = {"n_iter": 2, "tolerance": 0.0, "budget": K}
        found = [index.loss_and_gradient(Q, Y, loss, rule=rule, **options) for rule in ("printed", "exact_scores")]
        np.testing.assert_allclose(found[0].losses, found[1].losses, rtol=0, atol=SLACK[loss])
        few = [index.loss_and_gradient(Q, Y, loss, rule=rule, budget=4) for rule in ("printed", "exact_scores")]
        assert np.abs(few[0].losses - few[1].losses).max() > 0.1
    with pytest.raises(ValueError, match="rest is 'mask'; with rule='printed' it must be 'zero'"):
        index.loss_and_gradient(Q, Y, rule="printed", rest="mask")
    with pytest.raises(ValueError, match="answer is 'active'; with rule='printed' it must be 'blocks'"):
        index.loss_and_gradient(Q, Y, rule="printed", answer="active")


@pytest.mark.parametrize("n_blocks", [1, B])
def test_a_search_that_fills_its_budget_reads_clusters_best_first_until_they_hold_it(n_blocks, seed):
    """By definition: centroids in the order of their scores until they hold the rows, then the best of these."""
    W, Q, Y = problem(seed)
    budget = 9
    index = fitted(W, n_blocks, n_clusters=12, n_probe=1)
    single = SphericalClusterIndex(12, n_probe=1, random_state=seed, augment_norm=False).fit(W)
    for one in (index, single) if n_blocks == 1 else (index,):
        blocks = n_blocks if one is index else 1
        losses, _ = one.loss_and_gradient(
            Q,
            Y,
            "cross_entropy",
            budget=budget,
            fill=True,
            rest="mask",
            tolerance=0.0,
            **({"n_iter": 0} if one is index else {}),
        )
        labels = np.atleast_2d(one.labels_)
        for i, (q, P) in enumerate(zip(Q, Y, strict=True)):
            parts = block_scores(W, q, blocks)
            of_block = []
            for j, z in enumerate(parts):
                columns = slice(*one.block_starts_[j : j + 2]) if one is index else slice(None)
                order = np.argsort(-(one.cluster_centers_[:, columns] @ q[columns]), kind="stable")
                read = np.zeros(K, dtype=bool)
                for c in order:
                    if read.sum() >= budget + len(P):
                        break
                    read |= labels[j] == c
                known = best_wrong(z, P, budget, read)
                assert known.sum() == min(budget, read.sum() - np.isin(P, np.flatnonzero(read)).sum())
                known[P] = True
                of_block.append(
                    loss_named("cross_entropy")(
                        blocks * z[known], list(np.flatnonzero(np.isin(np.flatnonzero(known), P)))
                    )[0]
                )
            np.testing.assert_allclose(losses[i], np.mean(of_block), rtol=0, atol=SLACK["cross_entropy"])


@pytest.mark.parametrize("loss", LOSSES)
def test_all_classes_and_messages_to_the_end_give_the_exact_loss_and_gradient(loss, seed):
    """Where no class without exact scores has a gradient the bound by Jensen is met from below, too."""
    W, Q, Y = problem(seed, scale=0.5)
    expected = [exact(W, q, P, loss) for q, P in zip(Q, Y, strict=True)]
    assert_answers(fitted(W).loss_and_gradient(Q, Y, loss, n_iter=K, **EVERYTHING), expected, loss)
    assert_answers(fitted(W, 1).loss_and_gradient(Q, Y, loss, n_iter=0, **EVERYTHING), expected, loss)
    whole = SphericalClusterIndex(4, n_probe=4, random_state=0).fit(W)
    assert_answers(whole.loss_and_gradient(Q, Y, loss, **EVERYTHING), expected, loss)


def test_one_full_step_with_every_class_active_is_exact_and_one_of_two_thirds_is_not(seed):
    W, Q, Y = problem(seed, scale=0.3)
    expected = [exact(W, q, P, "cross_entropy") for q, P in zip(Q, Y, strict=True)]
    options = {"loss": "cross_entropy", **EVERYTHING}
    assert_answers(fitted(W).loss_and_gradient(Q, Y, **options), expected, "cross_entropy")
    losses, _ = fitted(W).loss_and_gradient(Q, Y, step="frank_wolfe", **options)
    assert max(abs(a - b) for a, (b, _) in zip(losses, expected, strict=True)) > 10 * SLACK["cross_entropy"]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_search_of_the_highest_scores_masks_the_rest(loss, seed):
    W, Q, Y = problem(seed)
    index = SphericalClusterIndex(4, n_probe=4, random_state=0).fit(W)
    for budget in (1, 5, K):
        expected = []
        for q, P in zip(Q, Y, strict=True):
            parts = block_scores(W, q, 1)
            found = best_wrong(parts[0], P, budget)[None]
            negligible = 1e-3 * len(P) / K if loss == "cross_entropy" else 0
            passed = message_passing(parts, list(P), loss_named(loss), found, n_iter=0, negligible=negligible)
            expected.append((passed.loss, passed.gradient))
        assert_answers(index.loss_and_gradient(Q, Y, loss, budget=budget), expected, loss)


def test_smoothing_is_that_of_the_margin(seed):
    W, Q, Y = problem(seed)
    losses, _ = fitted(W, 1).loss_and_gradient(Q, Y, smoothing=4.0, **EVERYTHING)
    expected = [smoothed_margin(W.astype(float) @ q.astype(float), list(P), 4.0)[0] for q, P in zip(Q, Y, strict=True)]
    np.testing.assert_allclose(losses, expected, rtol=0, atol=SLACK["margin"])


# The stopping rule of cross-entropy


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_cross_entropy_searches_until_what_is_left_has_a_negligible_share(tolerance, seed):
    rng = np.random.default_rng(seed)
    n = 3000
    sizes = {}
    for scale in (0.01, 4.0):  # nearly uniform, and peaked
        W = (scale * rng.standard_normal((n, 16))).astype(np.float32)
        Q = rng.standard_normal((6, 16)).astype(np.float32)
        Y = rng.integers(0, n, 6)
        z = Q.astype(float) @ W.T.astype(float)
        index = SphericalClusterIndex(10, n_probe=10, random_state=0).fit(W)
        losses, gradients = index.loss_and_gradient(Q, Y, "cross_entropy", tolerance=tolerance)
        full = np.array([exact(W, q, [y], "cross_entropy")[0] for q, y in zip(Q, Y, strict=True)])
        # L - L~ = -log(1 - share of what was masked)
        assert (losses <= full + 1e-4).all()
        assert (losses >= full + np.log1p(-tolerance) - 1e-4).all()
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p[np.arange(6), Y] = 0
        p /= p.sum(axis=1, keepdims=True)
        left_out = np.where(gradients.toarray() == 0, p, 0)
        assert (left_out.sum(axis=1) <= 2 * tolerance).all()  # what was not found, and what was not listed
        sizes[scale] = np.diff(gradients.indptr)
    assert (sizes[0.01] > 30).all()  # K / 100 would not have been enough
    assert (sizes[4.0] < n / 2).any()


def test_blocks_of_cross_entropy_are_searched_until_they_have_enough(seed):
    rng = np.random.default_rng(seed)
    W = (0.01 * rng.standard_normal((1000, 8))).astype(np.float32)
    Q = rng.standard_normal((3, 8)).astype(np.float32)
    index = fitted(W, 4, 10, n_probe=1)
    losses, _ = index.loss_and_gradient(Q, [1, 2, 3], "cross_entropy")
    np.testing.assert_allclose(losses, np.log(1000), rtol=0, atol=0.05)  # all classes score nearly 0
    fewer, gradients = index.loss_and_gradient(Q, [1, 2, 3], "cross_entropy", budget=10)
    assert (fewer < np.log(1 + 4 * 10) + 0.1).all()
    assert (np.diff(gradients.indptr) <= 1 + 4 * 10).all()


# Labels


def test_labels_are_given_one_each_or_as_lists_or_as_a_matrix(seed):
    import scipy.sparse as sp

    W, Q, _ = problem(seed)
    index = fitted(W)
    one = np.arange(8) * 3
    matrix = sp.csr_array((np.ones(8), (np.arange(8), one)), shape=(8, K))
    expected = index.loss_and_gradient(Q, one)
    for given in (one.tolist(), [[y] for y in one], [[y, y] for y in one], matrix, matrix.tocoo()):
        losses, gradients = index.loss_and_gradient(Q, given)
        np.testing.assert_array_equal(losses, expected[0])
        np.testing.assert_array_equal(gradients.toarray(), expected[1].toarray())
    losses, gradients = index.loss_and_gradient(Q[:2], [[], [4, 9]])
    assert losses[0] == 0 != losses[1]
    assert gradients[[0]].nnz == 0


def test_a_memory_serves_points_of_any_kind_one_after_the_other(seed):
    """Points share a memory with those before them; each is answered as if it were alone."""
    W, Q, Y = problem(seed, n=20)
    index = fitted(W)
    for loss in LOSSES:
        losses, gradients = index.loss_and_gradient(Q, Y, loss, budget=5, n_iter=2)
        for i in reversed(range(20)):
            one, gradient = index.loss_and_gradient(Q[i], [Y[i]], loss, budget=5, n_iter=2)
            assert one[0] == losses[i]
            np.testing.assert_array_equal(gradient.toarray()[0], gradients[[i]].toarray()[0])
