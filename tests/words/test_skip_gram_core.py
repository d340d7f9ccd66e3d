"""The skip-gram core: pairs and their counts, the Huffman tree, the exact objective, and training against its twin."""

import heapq
from itertools import pairwise

import numpy as np
import pytest
from reference.core_step import isas
from reference.skip_gram import Text, Training, corpus_objective
from reference.word_pairs import WordDescent, centres_of, contexts_of
from scipy.special import log_expit
from testing_core import pieces

from manyclass import _core
from manyclass.weights.arrays import aligned_zeros
from manyclass.words.training import WordTables

V, DIM = 23, 18


def random_text(rng, *, n_sentences=30, shrink=True, window=4, keep=0.4):
    """Frequent words first, some dropped by sub-sampling; sentences of 0 to 14 words."""
    p = 1 / np.arange(1, V + 1)
    sentences = [rng.choice(V, size=rng.integers(0, 15), p=p / p.sum()).tolist() for _ in range(n_sentences)]
    sentences.append(list(range(V)))  # every word occurs
    return Text(sentences, np.linspace(keep, 1.0, V), window, shrink)


def core_text(text):
    lengths = [len(s) for s in text.sentences]
    return _core.SkipGramText(
        tokens=np.concatenate([np.array(s, dtype=np.int32) for s in text.sentences]),
        sentences=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        keep=text.keep,
        window=text.window,
        shrink=text.shrink,
    )


def counts_of(text):
    return np.bincount(np.concatenate([np.array(s, dtype=int) for s in text.sentences]), minlength=V).astype(np.int64)


def random_tables(rng, n_output=V, scale=0.5):
    h, v = aligned_zeros(V, 32), aligned_zeros(n_output, 32)
    h[:, :DIM] = rng.normal(scale=scale, size=(V, DIM))
    v[:, :DIM] = rng.normal(scale=scale, size=(n_output, DIM))
    return WordTables(h, v)


@pytest.fixture
def collapsed_of(tmp_path):
    return lambda text, seed: _core.PairShares.count(
        text=core_text(text), seed=seed, n_threads=1, memory=1 << 20, folder=str(tmp_path)
    )


@pytest.mark.parametrize("shrink", [True, False])
def test_counts_are_those_of_all_pairs_of_the_corpus_one_by_one(shrink, seed, collapsed_of):
    text = random_text(np.random.default_rng(seed), shrink=shrink)
    expected = np.zeros((V, V))
    for x, y, weight in text.counted_pairs(seed):
        expected[x, y] += weight
    found = collapsed_of(text, seed)
    assert found.n_pairs == pytest.approx(expected.sum(), rel=1e-12)
    np.testing.assert_allclose(found.centres, expected.sum(axis=1) / expected.sum(), rtol=1e-12)
    joint = contexts_of(found).toarray() * found.centres[:, np.newaxis]
    np.testing.assert_allclose(joint, expected / expected.sum(), rtol=1e-6)  # q_{y|x} are floats


def test_counts_do_not_depend_on_threads_or_on_what_was_spilled(tmp_path, seed):
    text = core_text(random_text(np.random.default_rng(seed), n_sentences=3000, window=60, keep=1.0))
    # The smallest table has room for 1,024 pairs and is emptied before 120 more might fill it to three quarters.
    for n_words in (V, 5):
        big = pieces.cooccurrences(text=text, seed=seed, n_threads=1, memory=1 << 24, folder=str(tmp_path))
        assert big[3] == 0
        for n_threads in (1, 3):
            small = pieces.cooccurrences(text=text, seed=seed, n_threads=n_threads, memory=0, folder=str(tmp_path))
            for a, b in zip(big[:3], small[:3], strict=True):
                np.testing.assert_array_equal(a, b)
        assert n_words


def test_a_table_too_small_for_all_pairs_spills_and_loses_nothing(tmp_path, seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 400, size=20_000).astype(np.int32)
    text = _core.SkipGramText(
        tokens=tokens, sentences=np.array([0, 7000, 20_000]), keep=np.ones(400), window=5, shrink=False
    )
    starts, words, counts, n_spilled = pieces.cooccurrences(
        text=text, seed=0, n_threads=2, memory=0, folder=str(tmp_path)
    )
    assert n_spilled > 10
    expected = np.zeros((400, 400), dtype=np.int64)
    for part in (tokens[:7000], tokens[7000:]):
        for d in range(1, 6):
            np.add.at(expected, (part[:-d], part[d:]), 1)
            np.add.at(expected, (part[d:], part[:-d]), 1)
    rows = np.repeat(np.arange(400), np.diff(starts))
    np.testing.assert_array_equal(counts, expected[rows, words])
    assert counts.sum() == expected.sum()


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    tokens = np.arange(2000, dtype=np.int32)
    text = _core.SkipGramText(tokens=tokens, sentences=np.array([0, 2000]), keep=np.ones(2000), window=3, shrink=True)
    with pytest.raises(RuntimeError, match="absent/pairs-0 for co-occurrences cannot be opened"):
        pieces.cooccurrences(text=text, seed=0, n_threads=1, memory=0, folder=str(tmp_path / "absent"))


@pytest.mark.parametrize("shrink", [True, False])
def test_the_collapsed_objective_is_the_mean_over_the_pairs_of_the_corpus(shrink, seed, collapsed_of):
    rng = np.random.default_rng(seed)
    text, tables = random_text(rng, shrink=shrink), random_tables(rng)
    collapsed = collapsed_of(text, seed)
    rows = centres_of(collapsed)
    value = float(collapsed.centres[rows] @ collapsed.losses(*tables, rows, 1))
    assert value == pytest.approx(
        collapsed.objective(*tables, n_draws=0, seed=0, n_threads=1, tree_counts=None), rel=1e-14
    )
    expected = corpus_objective(text, tables.input.astype(float), tables.output.astype(float), seed)
    # Scores and exponentials are floats: some ulp of scores of a few nats.
    assert value == pytest.approx(expected, abs=2e-6)
    z = tables.input.astype(float) @ tables.output.T.astype(float)
    np.testing.assert_allclose(_core.word_log_normalizers(*tables, 1), np.log(np.exp(z).sum(axis=1)), atol=2e-6)


def test_gradients_are_finite_differences_of_the_objective(seed, collapsed_of):
    rng = np.random.default_rng(seed)
    text, tables = random_text(rng), random_tables(rng)
    collapsed = collapsed_of(text, seed)
    rows = centres_of(collapsed)
    joint = contexts_of(collapsed).toarray().astype(float) * collapsed.centres[:, np.newaxis]

    def value(h, v):
        z = h @ v.T
        return float(collapsed.centres @ np.log(np.exp(z).sum(axis=1)) - (joint * z).sum())

    h, v = tables.input.astype(float), tables.output.astype(float)
    exact = WordDescent(collapsed, tables).core
    losses, g_input = exact.input_gradient()
    f_input = collapsed.centres @ losses
    np.testing.assert_allclose(losses[rows], collapsed.losses(*tables, rows, 1), rtol=1e-6)
    f_output, g_output = exact.output_gradient()
    assert f_input == pytest.approx(value(h, v), abs=2e-6)
    assert f_output == pytest.approx(f_input, abs=1e-6)
    step = 1e-5
    for k, j in [(rows[0], 0), (rows[-1], DIM - 1), (rows[len(rows) // 2], 7)]:
        bump = np.zeros_like(h)
        bump[k, j] = step
        d_input = (value(h + bump, v) - value(h - bump, v)) / (2 * step)
        d_output = (value(h, v + bump) - value(h, v - bump)) / (2 * step)
        # Central differences err by step^2 and 1e-16 / step; the gradients are sums of floats.
        assert g_input[k, j] * collapsed.centres[k] == pytest.approx(d_input, abs=1e-6)
        assert g_output[k, j] * collapsed.words_as_contexts[k] == pytest.approx(d_output, abs=1e-6)


def test_descent_goes_down_to_the_entropy_where_vectors_are_long_enough(seed, collapsed_of):
    rng = np.random.default_rng(seed)
    text, tables = random_text(rng), random_tables(rng)
    collapsed = collapsed_of(text, seed)
    descent = WordDescent(collapsed, tables, 1e3)  # far too long: halved until it goes down
    values = [descent.step() for _ in range(400)]
    assert all(b <= a for a, b in pairwise(values))
    q = contexts_of(collapsed).toarray().astype(float)
    entropy = -float(collapsed.centres @ np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0).sum(axis=1))
    # 18 dimensions hold nearly all that 23 words have to say; the zeros of q are reached only in the limit.
    assert entropy < values[-1] < entropy + 0.1


def test_a_step_that_is_too_long_for_one_centre_is_taken_back_for_that_one_only(seed, collapsed_of):
    rng = np.random.default_rng(seed)
    text, tables = random_text(rng), random_tables(rng)
    collapsed = collapsed_of(text, seed)
    rows = centres_of(collapsed)
    before = tables.input.copy()
    descent = WordDescent(collapsed, tables, 1e-3)
    losses, _ = descent.core.input_gradient()
    descent.input_rates[rows[0]] = -1e-3  # uphill
    descent.core.move_input()
    np.testing.assert_array_equal(tables.input[rows[0]], before[rows[0]])
    assert (collapsed.losses(*tables, rows[1:], 1) < losses[rows[1:]]).all()
    np.testing.assert_allclose(descent.input_rates[rows], [-5e-4, *[1.1e-3] * (len(rows) - 1)])


def test_softmaxes_of_groups_of_rows_are_those_of_their_definition(seed):
    """Groups of different sizes, words that stand for several, words that are left out of the gradient."""
    rng = np.random.default_rng(seed)
    tables, q = random_tables(rng), rng.random(V)
    rows = rng.permutation(V).astype(np.int32)[:20]
    groups = np.split(rows, [3, 4])  # 3, 1 and 16 rows
    lists = [rng.permutation(V).astype(np.int32)[:n] for n in (1, 9, V)]
    n_found, weights = np.array([1, 4, 10], dtype=np.int32), rng.random(3) * 3 + 1
    h, v = tables.input.astype(float), tables.output.astype(float)
    log_z, of_input, of_output = np.zeros(V), np.zeros_like(h), np.zeros_like(v)
    for group, words, n, weight in zip(groups, lists, n_found, weights, strict=True):
        e = np.exp(h[group] @ v[words].T) * np.where(np.arange(len(words)) < n, 1, weight)
        log_z[group] = np.log(e.sum(axis=1))
        p = e / e.sum(axis=1, keepdims=True)
        of_input[group] = p @ v[words]
        of_output[words[:n]] += (p[:, :n] * q[group, np.newaxis]).T @ h[group]
    question = {
        "rows": rows,
        "row_starts": np.array([0, 3, 4, 20]),
        "list_starts": np.cumsum([0, *map(len, lists)]),
        "list": np.concatenate(lists),
        "n_found": n_found,
        "drawn_log_weights": np.log(weights).astype(np.float32),
    }

    def ours(**changed):
        sums = np.zeros(V), np.zeros_like(tables.input), np.zeros_like(tables.output, dtype=float)
        named = dict(zip(("log_z", "input_gradient", "output_gradient"), sums, strict=True))
        call = {"input": tables.input, "output": tables.output, "weights": q, "n_threads": 2, **named, **question}
        pieces.add_row_softmax(**{**call, **changed})
        return sums

    for found, wanted in zip(ours(), (log_z, of_input, of_output), strict=True):
        np.testing.assert_allclose(found, wanted, atol=5e-6)  # scores and sums of floats
    question = {"rows": rows, "row_starts": np.array([0, 20])}
    out = rng.random((20, V)) < 0.4
    p = np.exp(h[rows] @ v.T)
    p = np.where(out, 0, p / p.sum(axis=1, keepdims=True))
    left_out = {"left_out_starts": np.cumsum([0, *out.sum(axis=1)]), "left_out": np.nonzero(out)[1].astype(np.int32)}
    np.testing.assert_allclose(ours(**left_out)[2], (p * q[rows, np.newaxis]).T @ h[rows], atol=5e-6)
    for changed, message in [
        ({"rows": np.append(rows[1:], rows[1])}, "distinct and in range"),
        ({"rows": np.append(rows[1:], np.int32(V))}, "out of range"),
        ({"row_starts": np.array([0, 19])}, "do not fit their lists"),
        ({"log_z": np.zeros(3)}, "sizes of the tables"),
        ({"output": tables.output[:, :16].copy()}, "differ in width"),
    ]:
        with pytest.raises(ValueError, match=message):
            ours(**changed)


def test_huffman_probabilities_sum_to_one_and_the_code_is_optimal(seed):
    rng = np.random.default_rng(seed)
    counts = np.sort(rng.integers(1, 1000, size=57))[::-1].astype(np.int64)
    starts, nodes, signs = pieces.huffman_tree(counts)
    z = rng.normal(scale=3, size=56)
    log_p = [log_expit(signs[a:b] * z[nodes[a:b]]).sum() for a, b in pairwise(starts)]
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)
    heap, bits = counts.tolist(), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        bits += joined
        heapq.heappush(heap, joined)
    assert np.diff(starts) @ counts == bits
    assert set(nodes[starts[:-1]]) == {55}  # every path begins at the root, the last node made


def test_the_objective_of_the_tree_is_the_mean_of_its_log_probabilities(seed, collapsed_of):
    rng = np.random.default_rng(seed)
    text, tables = random_text(rng), random_tables(rng, V - 1)
    collapsed, counts = collapsed_of(text, seed), np.sort(counts_of(text))[::-1].copy()
    starts, nodes, signs = pieces.huffman_tree(counts)
    z = tables.input.astype(float) @ tables.output.T.astype(float)
    paths = [slice(a, b) for a, b in pairwise(starts)]
    log_p = np.array([[log_expit(signs[p] * z[x, nodes[p]]).sum() for p in paths] for x in range(V)])
    rows = centres_of(collapsed)
    expected = -(contexts_of(collapsed).toarray() * log_p).sum(axis=1)[rows]
    found = collapsed.tree_losses(*tables, rows, counts, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # q_{y|x} are floats
    of_all = collapsed.objective(*tables, n_draws=0, seed=0, n_threads=1, tree_counts=counts)
    assert of_all == pytest.approx(collapsed.centres[rows] @ found, rel=1e-14)


SOLVERS = ["negative_sampling", "hierarchical", "implicit", "umax", "ema", "sgd", "ove", "nce", "css"]


def train_both(solver, seed, *, share=False, isa="auto", shrink=True):
    """A pass of the core and of its twin from the same tables."""
    rng = np.random.default_rng(seed)
    text = random_text(rng, shrink=shrink)
    counts = np.sort(counts_of(text))[::-1].copy()
    tables = random_tables(rng, V - 1 if solver == "hierarchical" else V)
    carried = np.log(V) + rng.normal(size=V)
    eta, eta_end = (0.002, 0.001) if solver == "ove" else (0.05, 0.02)
    twin = Training(
        text,
        tables.input.astype(float),
        tables.output.astype(float),
        counts,
        solver,
        4,
        share,
        pieces.huffman_tree(counts),
        carried.copy(),
        seed=seed,
    )
    n_pairs = twin.run(1, eta, eta_end)
    trainer = _core.skip_gram_trainer(
        text=core_text(text),
        input=tables.input,
        output=tables.output,
        carried=carried,
        counts=counts,
        solver=solver,
        n_negatives=4,
        power=0.75,
        share=share,
        options={"umax": {"delta": twin.delta}, "ema": {"gain": twin.u_gain}}.get(solver, {}),
        seed=seed,
        n_threads=1,
        isa=isa,
    )
    progress = trainer.run(epoch=1, first=0, last=len(text.sentences), eta=eta, eta_end=eta_end, eta_u=twin.eta_u)
    assert progress.pairs == n_pairs
    assert progress.tokens == sum(map(len, text.sentences))
    return tables, carried, twin, n_pairs


def assert_same(tables, carried, twin, n_pairs):
    # A few 2^-23 of the largest entry for each step of the row most often moved, if all erred alike.
    atol = n_pairs * 2.0**-23 * max(1.0, np.abs(twin.output).max())
    np.testing.assert_allclose(tables.input, twin.input, rtol=0, atol=atol)
    np.testing.assert_allclose(tables.output, twin.output, rtol=0, atol=atol)
    np.testing.assert_allclose(carried, twin.carried, rtol=0, atol=100 * atol)
    assert np.all(tables.input[:, DIM:] == 0)
    assert np.all(tables.output[:, DIM:] == 0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pass_equals_its_twin(solver, seed):
    assert_same(*train_both(solver, seed))


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("solver", ["negative_sampling", "hierarchical", "implicit"])
def test_a_pass_equals_its_twin_on_every_instruction_set(solver, isa, seed):
    assert_same(*train_both(solver, seed, isa=isa, shrink=False))


def test_shared_negatives_equal_their_twin(seed):
    assert_same(*train_both("negative_sampling", seed, share=True))


def test_what_does_not_fit_together_is_refused():
    text = core_text(random_text(np.random.default_rng(0)))
    tables = random_tables(np.random.default_rng(0))
    fine = {
        "text": text,
        "input": tables.input,
        "output": tables.output,
        "carried": np.zeros(V),
        "counts": np.ones(V, dtype=np.int64),
        "solver": "umax",
        "n_negatives": 4,
        "power": 0.75,
        "share": False,
        "options": {"delta": 1.0},
        "seed": 0,
        "n_threads": 1,
        "isa": "auto",
    }
    for change, message in [
        ({"output": aligned_zeros(V - 1, 32)}, "the output table is not 23 rows of whole cache lines"),
        ({"output": aligned_zeros(V, 48)}, "the tables differ in width"),
        ({"input": np.zeros((V, 20), dtype=np.float32)}, "the input table is not 23 rows of whole cache lines"),
        ({"carried": np.zeros(3)}, "counts and carried values must be those of two words or more"),
        ({"solver": "magic"}, "solver is 'magic'"),
        ({"solver": "ema"}, "option 'delta' is 1; solver 'ema' has 'gain'"),
        (
            {"solver": "hierarchical", "output": tables.output[1:].copy()},
            "'delta' is 1; solver 'hierarchical' has no op",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.skip_gram_trainer(**{**fine, **change})
    with pytest.raises(ValueError, match="no such visits"):
        _core.skip_gram_trainer(**fine).run(epoch=0, first=0, last=10**6, eta=0.1, eta_end=0.1, eta_u=0.1)
    for change, message in [
        ({"sentences": np.array([0, 5])}, "the sentences do not cover the tokens"),
        ({"sentences": np.array([0, 2, 1, 3])}, "the sentences' positions decrease"),
        ({"tokens": np.array([0, 1, 9], dtype=np.int32)}, "a token is not a word of the vocabulary"),
        ({"window": 0}, "window is less than 1"),
    ]:
        parts = {
            "tokens": np.array([0, 1, 0], dtype=np.int32),
            "sentences": np.array([0, 3]),
            "keep": np.ones(2),
            "window": 2,
            "shrink": False,
        }
        with pytest.raises(ValueError, match=message):
            _core.SkipGramText(**{**parts, **change})
