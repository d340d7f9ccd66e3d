"""Descent on the collapsed skip-gram objective by searches: against exact descent, finite differences, samples."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.message_passing import best_wrong, block_scores, loss_named, message_passing, printed_message_passing
from reference.word_pairs import WordDescent, centres_of, contexts_of, pair_shares
from sklearn.base import clone
from test_skip_gram import nearest_share_a_topic, small, topical
from testing_core import pieces

from manyclass import SkipGram, _core
from manyclass.cli import main
from manyclass.search.decomposed import DecomposedIndex
from manyclass.search.spherical import SphericalClusterIndex
from manyclass.training.passes import time_limit
from manyclass.words import objectives
from manyclass.words.training import WordTables, index_for

DIM = 8


def random_counts(rng, n_words=120):
    """Counts of pairs; some words are no centre, some no context."""
    counts = rng.poisson(rng.exponential(0.15, (n_words, 1)) * rng.exponential(2.0, n_words), (n_words, n_words))
    counts[:5] = 0
    counts[:, 5:9] = 0
    rows = counts.sum(axis=1)
    share = sp.csr_array((counts / np.maximum(rows, 1)[:, None]).astype(np.float32))
    return pair_shares(share, rows / rows.sum())


def random_tables(rng, n_words=120, scale=0.7):
    """Rows of DIM numbers, padded as those of the estimator."""
    made = [np.zeros((n_words, 16), dtype=np.float32) for _ in range(2)]
    for table in made:
        table[:, :DIM] = scale * rng.normal(size=(n_words, DIM))
    return WordTables(*made)


def copied(tables):
    return WordTables(tables.input.copy(), tables.output.copy())


def descent(collapsed, tables, search="mips", *, rest="sample", budget=6, n_jobs=1, **options):
    index = index_for(search, seed=3, n_jobs=n_jobs)
    found = search if search in objectives.MESSAGES else rest
    given = {"found": found, "index": index, "budget": budget, "dim": DIM, "n_threads": n_jobs, "seed": 3}
    return WordDescent(collapsed, tables, **{**given, **options})


@pytest.mark.parametrize("rest", ["sample", "mask"])
@pytest.mark.parametrize("search", ["mips", "decomposed", DecomposedIndex(2, n_clusters=5, n_probe=5)])
def test_a_search_that_finds_all_words_descends_as_without_one(search, rest, seed):
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng), random_tables(rng)
    exact, searched = copied(tables), copied(tables)
    reference = WordDescent(collapsed, exact)
    ours = descent(collapsed, searched, search, rest=rest, budget=120)
    for _ in range(3):
        # Sums of 120 single-precision terms of size 1, in another order: 120 ulp; twice as much for each later step.
        assert ours.step() == pytest.approx(reference.step(), rel=1e-4)
    np.testing.assert_array_equal(ours.input_rates[collapsed.centres > 0], reference.input_rates[collapsed.centres > 0])
    assert ours.core.output_rate == reference.core.output_rate
    np.testing.assert_allclose(searched.input, exact.input, atol=3e-4)
    np.testing.assert_allclose(searched.output, exact.output, atol=3e-4)


@pytest.mark.parametrize("search", ["mips", "decomposed"])
def test_the_masked_gradients_are_those_of_the_masked_objective(search, seed):
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng), random_tables(rng)
    masked = descent(collapsed, tables, search, rest="mask", budget=12)
    masked.follow()
    contexts, rows = contexts_of(collapsed), centres_of(collapsed)
    active = contexts.toarray() > 0
    n_active = active.sum(axis=1)
    options = {"answer": "active"} if search == "decomposed" else {}
    queries = tables.input[rows, :DIM]
    found = masked.index.loss_and_gradient(
        queries, contexts[rows], "cross_entropy", budget=12, tolerance=0.0, **options
    ).gradients
    active[rows] |= found.toarray() != 0
    assert (active.sum(axis=1)[collapsed.centres > 0] >= n_active[collapsed.centres > 0] + 12).all()

    def objective(h, v):
        z = h.astype(np.float64) @ v.astype(np.float64).T
        log_z = np.log(np.where(active, np.exp(z), 0).sum(axis=1), where=active.any(axis=1), out=np.zeros(len(z)))
        return collapsed.centres @ (log_z - (contexts.toarray() * z).sum(axis=1))

    of_input, of_output = masked.core.input_gradient(), masked.core.output_gradient()
    for value in (collapsed.centres @ of_input[0], of_output[0]):
        assert value == pytest.approx(objective(tables.input, tables.output), rel=1e-5)  # single-precision scores
    h, v = tables.input.astype(np.float64), tables.output.astype(np.float64)
    shares = collapsed.words_as_contexts
    step = 1e-5  # of central differences in double precision: errors of 1e-10 from both the square and rounding
    for direction in rng.normal(size=(3, *h.shape)):
        slope = (objective(h + step * direction, v) - objective(h - step * direction, v)) / (2 * step)
        ours = np.einsum("i,ij,ij->", collapsed.centres, of_input[1], direction)
        assert ours == pytest.approx(slope, abs=1e-5)
        direction[shares == 0] = 0  # words that are no context stay where they are
        slope = (objective(h, v + step * direction) - objective(h, v - step * direction)) / (2 * step)
        ours = np.einsum("i,ij,ij->", shares, of_output[1], direction)
        assert ours == pytest.approx(slope, abs=1e-5)


def test_the_mean_of_sampled_gradients_is_the_exact_gradient(seed):
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng), random_tables(rng, scale=0.3)
    whole = WordDescent(collapsed, tables).core
    losses, gradient = whole.input_gradient()
    exact = [(collapsed.centres @ losses, gradient), whole.output_gradient()]
    sampled = descent(collapsed, tables, budget=30, group=8, seed=seed)
    sampled.search()
    n = 300
    found = []
    for _ in range(n):
        sampled.core.follow()
        losses, gradient = sampled.core.input_gradient()
        np.testing.assert_allclose(sampled.core.losses(), losses, rtol=1e-5, atol=1e-5)
        found.append(((collapsed.centres @ losses, gradient), sampled.core.output_gradient()))
        assert found[-1][1][0] == pytest.approx(sampled.core.value(), rel=1e-5)
    for i, weights in enumerate((collapsed.centres, collapsed.words_as_contexts)):
        assert np.mean([f[i][0] for f in found]) == pytest.approx(exact[i][0], rel=0.01)
        scale = np.sqrt(weights)[:, np.newaxis]
        one, mean = (
            np.linalg.norm(scale * (gradient - exact[i][1])) / np.linalg.norm(scale * exact[i][1])
            for gradient in (found[0][i][1], np.mean([f[i][1] for f in found], axis=0))
        )
        # A ratio of estimates has a bias of the square of its error, and a mean of n the error / sqrt(n).
        assert mean < one**2 + 2 * one / np.sqrt(n)
        assert mean < 0.5 * one


@pytest.mark.parametrize("rest", ["sample", "mask"])
@pytest.mark.parametrize("search", ["mips", "decomposed"])
def test_threads_change_no_bit(search, rest, seed):
    rng = np.random.default_rng(seed)
    collapsed, start = random_counts(rng), random_tables(rng)
    ends = []
    for n_jobs in (1, 2, 5):
        tables = copied(start)
        moving = descent(collapsed, tables, search, rest=rest, n_jobs=n_jobs, budget=20)
        ends.append([moving.step(), moving.step(), tables.input.tobytes(), tables.output.tobytes()])
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("search", ["mips", "decomposed", DecomposedIndex(3, n_clusters=4, n_probe=4)])
def test_descent_by_search_comes_near_the_optimum_of_a_text(search, seed):
    model = small(objective=objectives.Descent(search, budget=20), max_iter=30).fit(topical(seed))
    # log 10 = 2.303 where the topic is known, log 40 = 3.69 where nothing is; samples of so few words leave some noise.
    assert model.objective_value() < 2.6
    assert nearest_share_a_topic(model) > 0.9
    assert len(model.pass_seconds_) == len(model.loss_curve_) == 31
    assert min(model.pass_seconds_) > 0


def test_masked_descent_lowers_the_exact_objective(seed):
    values = []
    model = small(objective=objectives.Descent("mips", rest="mask", budget=10), max_iter=10)
    model.fit(topical(seed, 150), callback=lambda state: values.append(state.objective_value()))
    assert (np.diff(values[1:]) <= 0).all()  # the first is that of the warm-up
    assert values[-1] < values[0]
    assert model.loss_curve_[1:] == pytest.approx(values[1:], rel=1e-6)


@pytest.mark.parametrize("search", ["mips", "decomposed", "messages"])
def test_masked_descent_moves_both_tables_and_comes_near_the_optimum_of_a_text(search, seed):
    """Half of the words are found: what is left out is soon no part of the softmax."""
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng), random_tables(rng, scale=0.1)
    moving = descent(collapsed, tables, search, rest="mask", budget=60)
    before = copied(tables)
    moving.step()
    assert (tables.input[collapsed.centres > 0] != before.input[collapsed.centres > 0]).any(axis=1).mean() > 0.5
    model = small(objective=objectives.Descent(search, rest="mask", budget=20), max_iter=30).fit(topical(seed))
    assert model.objective_value() < 2.6  # as of descent by search above


def test_messages_are_passed_as_the_twin_of_algorithm_2_passes_them(seed):
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng, 60), random_tables(rng, 60)
    masked = descent(collapsed, tables, "messages", budget=9)
    masked.follow()
    losses, gradient = masked.core.input_gradient()
    contexts = contexts_of(collapsed)
    v = tables.output[:, :DIM].astype(np.float64)
    for x in np.flatnonzero(collapsed.centres)[:10]:
        q = contexts[[x]].toarray()[0].astype(np.float64)
        P, h = np.flatnonzero(q), tables.input[x, :DIM].astype(np.float64)
        parts = block_scores(v, h, masked.index.n_blocks)
        found = np.array([best_wrong(scores, P, 9) for scores in parts])
        # T = 1 with the step 2 / (t + 2) and tau_2 = 0.001; gradients below this share of all are not listed.
        said = message_passing(
            parts,
            list(P),
            loss_named("cross_entropy"),
            found,
            n_iter=1,
            step="frank_wolfe",
            tolerance=1e-3,
            rest="mask",
            answer="blocks",
            negligible=1e-3 * len(P) / 60,
        )
        # |P| p - 1_P becomes p - q, and |P| log Z - sum_P z becomes log Z - q z.
        shift = (np.isin(np.arange(60), P) / len(P) - q) @ v
        np.testing.assert_allclose(gradient[x, :DIM], said.gradient @ v / len(P) + shift, atol=2e-3)
        assert losses[x] == pytest.approx(said.loss / len(P) + h @ shift, abs=1e-3)


def test_printed_messages_give_both_tables_the_gradients_of_algorithm_2(seed):
    """Of all words: those that no block found count as 0, and have the gradient of that, in common."""
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng, 60), random_tables(rng, 60)
    masked = descent(collapsed, tables, "printed_messages", budget=4)
    masked.follow()
    losses, of_input = masked.core.input_gradient()
    _, of_output = masked.core.output_gradient()
    contexts, shares = contexts_of(collapsed), collapsed.words_as_contexts
    v = tables.output[:, :DIM].astype(np.float64)
    expected, n_others = np.zeros_like(v), 0
    for x in np.flatnonzero(collapsed.centres):
        q = contexts[[x]].toarray()[0].astype(np.float64)
        P, h = np.flatnonzero(q), tables.input[x, :DIM].astype(np.float64)
        parts = block_scores(v, h, masked.index.n_blocks)
        found = np.array([best_wrong(scores, P, 4) for scores in parts])
        said = printed_message_passing(parts, list(P), loss_named("cross_entropy"), found)
        n_others += 60 - len(P) - found.any(axis=0).sum()
        slopes = said.gradient / len(P) + np.isin(np.arange(60), P) / len(P) - q
        np.testing.assert_allclose(of_input[x, :DIM], slopes @ v, atol=2e-3)
        shift = (np.isin(np.arange(60), P) / len(P) - q) @ v
        assert losses[x] == pytest.approx(said.loss / len(P) + h @ shift, abs=1e-3)
        expected += collapsed.centres[x] * np.outer(slopes, h)
    assert n_others > 0
    some = shares > 0
    np.testing.assert_allclose(of_output[some, :DIM], expected[some] / shares[some, np.newaxis], atol=5e-3)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05])
def test_a_step_that_is_interrupted_is_taken_back(seconds, seed):
    rng = np.random.default_rng(seed)
    collapsed, tables = random_counts(rng, 1500), random_tables(rng, 1500)
    before, moving = copied(tables), WordDescent(collapsed, tables, 1e6)  # so long that it is halved again and again
    with pytest.raises(_core.TimeIsUpError), time_limit(seconds):
        moving.step()
    np.testing.assert_array_equal(tables.input, before.input)
    np.testing.assert_array_equal(tables.output, before.output)


def test_a_template_is_copied_and_keeps_its_seed(seed):
    template = SphericalClusterIndex(3, n_probe=2, random_state=5)
    model = small(objective=objectives.Descent(template), max_iter=2).fit(topical(seed, 200))
    assert not hasattr(template, "n_rows_")
    assert clone(model).get_params()["objective__search__n_clusters"] == 3
    made = index_for(template, seed=1, n_jobs=2)
    assert (made.random_state, made.n_jobs, made.n_probe) == (5, 2, 2)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"search": "magic"}, ValueError, "search is 'magic'; it must be one of 'exact', 'mips', 'decomposed'"),
        ({"search": 3}, ValueError, "search is 3; it must be one of 'exact'"),
        (
            {"search": "mips", "rest": "magic"},
            ValueError,
            "rest is 'magic'; it must be one of 'auto', 'sample', 'mask'",
        ),
        ({"search": "mips", "budget": 0}, ValueError, "budget is 0"),
        ({"search": "mips", "budget": 2.5}, TypeError, "budget is 2.5"),
        ({"budget": 5}, ValueError, "budget is 5; search 'exact' leaves no word out: budget must be 'auto', or search"),
        ({"rest": "sample"}, ValueError, "rest is 'sample'; search 'exact' leaves no word out"),
        ({"search": "messages", "rest": "sample"}, ValueError, "rest is 'sample'; with search='messages' it must be"),
        ({"search": DecomposedIndex(99)}, ValueError, "n_blocks is 99"),
    ],
)
def test_a_bad_search_is_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        small(objective=objectives.Descent(**parameters)).fit([["a", "b", "c"]] * 9)


def test_the_command_descends_by_search(tmp_path, capsys, seed):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(map(" ".join, topical(seed, 100))) + "\n")
    options = ["--objective", "descent", "--search", "decomposed", "--budget", "10", "--dim", "8", "--sample", "0"]
    assert main(["skipgram", str(corpus), "--output", str(tmp_path / "v"), *options, "--evaluate"]) == 0
    assert "nats per co-occurrence" in capsys.readouterr().out


def test_two_words_are_enough():
    model = SkipGram(2, window=1, sample=0, objective=objectives.Descent("mips"), random_state=0, max_iter=2)
    assert 0 < model.fit([["a", "b"]] * 9).objective_value() < np.log(2)  # of a word for its only neighbour


def test_groups_are_pieces_of_clusters_with_their_means(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(40, 16)).astype(np.float32)
    rows = np.sort(rng.permutation(40)[:30]).astype(np.int32)
    clusters = rng.integers(4, size=30).astype(np.int32)
    found, starts, means = pieces.group_rows(table=table, width=5, rows=rows, clusters=clusters, most=4)
    groups = [rows[clusters == c][at : at + 4] for c in range(4) for at in range(0, int((clusters == c).sum()), 4)]
    np.testing.assert_array_equal(found, np.concatenate(groups))
    np.testing.assert_array_equal(np.diff(starts), [len(group) for group in groups])
    np.testing.assert_array_equal(means, [table[group, :5].mean(axis=0) for group in groups])


def test_lists_of_groups_have_the_words_found_and_a_part_of_an_order_of_all(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(23).astype(np.int32)
    found = np.array([rng.permutation(23)[:5] for _ in range(6)], dtype=np.int32)
    found[1, 3:] = -1
    lists = pieces.group_lists(found, order)
    parts = np.array_split(order, 4)
    for g, row in enumerate(found):
        head = np.sort(row[row >= 0])
        drawn = np.setdiff1d(parts[g % 4], head, assume_unique=True)
        own = lists["list"][lists["list_starts"][g] : lists["list_starts"][g + 1]]
        np.testing.assert_array_equal(own, [*head, *drawn])
        assert lists["n_found"][g] == len(head)
        rest = np.log((23 - len(head)) / max(len(drawn), 1))
        np.testing.assert_allclose(lists["drawn_log_weights"][g], rest, rtol=1e-6)  # a float of it
    with pytest.raises(ValueError, match="out of range"):
        pieces.group_lists(np.array([[23]], dtype=np.int32), order)
