"""SkipGram, the estimator: reading text, training with every objective, exact values, errors, the command."""

import gzip
import lzma
import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyclass import SkipGram, WordVectors, _core
from manyclass.cli import main
from manyclass.words import corpus as reader
from manyclass.words.objectives import SOLVERS, NegativeSampling, Softmax

OBJECTIVES = ["softmax", "negative_sampling", "hierarchical", "ove", "nce", "sampled_softmax"]
TOPICS = 4


def topical(seed, n_sentences=1500, n_words=10, power=0.0):
    """Sentences of one topic each: words of a topic stand near each other and near no others."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(TOPICS, size=n_sentences)
    p = np.arange(1.0, 11.0) ** -power
    return [[f"t{t}w{w}" for w in rng.choice(10, size=n_words, p=p / p.sum())] for t in topics]


def small(**parameters):
    """A model small enough for a test; every word stays."""
    return SkipGram(**{"dim": 12, "window": 3, "sample": 0, "random_state": 0, **parameters})


def write(path, sentences):
    path.write_text("\n".join(map(" ".join, sentences)) + "\n")
    return path


def nearest_share_a_topic(model):
    """Share of the words whose nearest word is of their topic."""
    return np.mean([model.most_similar(word, topn=1)[0][0][:2] == word[:2] for word in model.vocabulary_])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_puts_words_of_a_topic_together(objective, seed):
    model = small(objective=objective, learning_rate=0.002 if objective == "ove" else 0.1).fit(topical(seed))
    assert nearest_share_a_topic(model) > 0.9
    # log 40 = 3.69 for equal probabilities, log 10 = 2.30 where the topic is known; negative sampling with noise that
    # is nearly uniform learns the same ratios, but not their scale.
    assert model.objective_value() < (3.5 if objective == "negative_sampling" else 2.6)
    assert len(model.loss_curve_) == model.n_iter_ == 5 + (objective not in ("negative_sampling", "hierarchical"))


def least_loss(text, window=3):
    """Entropy of a context given its centre, in nats: no vectors have a lower loss of these pairs.

    A window of a random length up to `window` has a word at distance d with probability 1 - (d - 1) / window.
    """
    pairs = Counter()
    for sentence in text:
        for i, centre in enumerate(sentence):
            for j in range(max(i - window, 0), min(i + window + 1, len(sentence))):
                if j != i:
                    pairs[centre, sentence[j]] += 1 - (abs(i - j) - 1) / window
    centres = Counter()
    for (centre, _), n in pairs.items():
        centres[centre] += n
    return -sum(n * np.log(n / centres[centre]) for (centre, _), n in pairs.items()) / sum(pairs.values())


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_of_the_softmax_comes_near_its_optimum(solver, seed):
    text = topical(seed)
    loss = small(objective=Softmax(solver), learning_rate=0.05, max_iter=8).fit(text).objective_value()
    assert -1e-6 < loss - least_loss(text) < 0.05  # twelve dimensions for four topics of 40 words


def test_descent_comes_near_the_optimum_of_the_softmax(seed):
    text = topical(seed)
    loss = small(objective="descent", max_iter=30).fit(text).objective_value()
    assert -1e-6 < loss - least_loss(text) < 0.05  # as above


def test_the_softmax_reaches_a_lower_objective_than_negative_sampling_from_the_same_start(seed):
    text = topical(seed, power=1.5)  # scores of negative sampling lack most of the logarithm of a word's frequency
    losses = {o: small(objective=o, learning_rate=0.05).fit(text).objective_value() for o in OBJECTIVES[:2]}
    assert losses["softmax"] < losses["negative_sampling"] - 0.1


def test_a_sample_of_centres_estimates_the_objective(seed):
    states = []
    model = small(objective="negative_sampling").fit(topical(seed), callback=states.append)
    exact = model.objective_value()
    trained = states[-1]
    collapsed = trained.collapsed
    rows = np.flatnonzero(collapsed.centres).astype(np.int32)
    spread = np.sqrt(collapsed.centres[rows] @ (collapsed.losses(*trained.tables, rows, 1) - exact) ** 2)
    assert model.objective_value(sample=5000) == pytest.approx(exact, abs=5 * spread / np.sqrt(5000) + 1e-9)


def test_one_thread_gives_the_same_bits_and_another_seed_others(seed):
    text = topical(seed, 200)
    for options in ({"objective": "softmax"}, {"objective": "hierarchical"}, {"sample": 1e-2}):
        first, again, other = (small(max_iter=2, **{**options, "random_state": s}).fit(text) for s in (1, 1, 2))
        np.testing.assert_array_equal(first.vectors_, again.vectors_)
        assert first.loss_curve_ == again.loss_curve_
        assert not np.array_equal(first.vectors_, other.vectors_)


def test_racing_threads_learn_the_same_topics(seed):
    for objective in ("softmax", "negative_sampling", "hierarchical"):
        model = small(objective=objective, n_jobs=2, learning_rate=0.1).fit(topical(seed))
        assert nearest_share_a_topic(model) > 0.9


def test_where_the_core_pauses_changes_no_bit(monkeypatch, seed):
    text = topical(seed, 600)
    fits = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr("manyclass.training.passes.SLICE_SECONDS", seconds)
        fits.append(small(max_iter=2).fit(text).vectors_)
    np.testing.assert_array_equal(*fits)


def test_files_of_any_kind_and_lists_of_words_are_the_same_corpus(tmp_path, monkeypatch, seed):
    text = topical(seed, 300)
    plain = write(tmp_path / "a.txt", text)
    data = plain.read_bytes().replace(b"\n", b"  \r\n\n", 20).rstrip()  # blank lines and no newline at the end
    for name, opener in (("a.txt.gz", gzip.open), ("a.txt.xz", lzma.open)):
        with opener(tmp_path / name, "wb") as file:
            file.write(data)
    monkeypatch.setattr(reader, "PIECE_BYTES", 13)  # cuts words
    corpora = [reader.read_corpus(s, 70) for s in (text, plain, tmp_path / "a.txt.gz", str(tmp_path / "a.txt.xz"))]
    corpora.append(reader.read_corpus((iter(sentence) for sentence in text), 70))  # read once, as it comes
    count = {w: sum(s.count(w) for s in text) for s in text for w in s}
    kept = sorted((w for w in count if count[w] >= 70), key=lambda w: (-count[w], w))
    assert 2 < len(kept) < 40  # some words are too rare
    for corpus in corpora:
        assert corpus.words == kept
        assert corpus.counts.tolist() == [count[w] for w in kept]
        bounds = zip(corpus.sentences[:-1], corpus.sentences[1:], strict=True)
        sentences = [[kept[i] for i in corpus.tokens[a:b]] for a, b in bounds]
        assert sentences == [s for s in ([w for w in s if count[w] >= 70] for s in text) if s]


def test_a_long_line_is_cut_and_loses_no_word(monkeypatch):
    monkeypatch.setattr(reader, "LONGEST_SENTENCE", 10)
    corpus = reader.read_corpus([["a", "b"] * 12 + ["a"], ["b"] * 3], 1)
    assert corpus.sentences.tolist() == [0, 10, 20, 25, 28]
    assert len(corpus.tokens) == 28


def test_tokens_are_renumbered_where_they_are_and_must_fit_their_sentences():
    rows, ends = np.array([1, -1, 0], np.int32), np.array([3, 4, 4, 7])
    tokens = np.array([0, 1, 2, 1, 2, 2, 0], np.int32)
    assert _core.renumber(tokens, rows, ends, 2).tolist() == [0, 2, 4, 5]
    assert tokens[:5].tolist() == [1, 0, 0, 0, 1]
    for bad in (np.array([3, 8]), np.array([3, 2])):
        with pytest.raises(ValueError, match="the ends of sentences do not fit the tokens"):
            _core.renumber(np.zeros(7, np.int32), rows, bad, 2)
    with pytest.raises(ValueError, match="a token is the number of no word"):
        _core.renumber(np.array([3], np.int32), rows, np.array([1]), 2)


def test_words_that_are_not_ascii_are_kept_and_those_that_are_not_utf8_refused(tmp_path):
    path = tmp_path / "text"
    path.write_text("größe naïve größe 語\n" * 5, encoding="utf-8")
    assert reader.read_corpus(path, 5).words == ["größe", "naïve", "語"]
    path.write_bytes(b"gr\xf6sse gr\xf6sse naive naive\n" * 5)
    with pytest.raises(ValueError, match=r"the word b'gr\\xf6sse' is not UTF-8"):
        reader.read_corpus(path, 5)


def test_real_text_has_the_vocabulary_that_is_said_of_it(data_dir):
    corpus = reader.read_corpus(data_dir / "text" / "novels100.txt.xz", 5)
    assert len(corpus.words) == 36_869
    np.testing.assert_array_equal(np.bincount(corpus.tokens), corpus.counts)


def test_sub_sampling_keeps_words_with_the_probability_of_its_rule(seed):
    text = [["often"] * 9 + ["rare"]] * 400
    for rule, more in (("sqrt", 0.0), ("word2vec", 0.1 / 0.9)):
        model = small(window=100, shrink_window=False, sample=0.1, sample_rule=rule, max_iter=1)
        model.set_params(objective="negative_sampling", random_state=seed)
        seen = []
        model.fit(text, callback=lambda s, seen=seen: seen.append(s.n_pairs))
        p = np.sqrt(0.1 / 0.9) + more
        # Pairs a sentence: n (n - 1) with n = Binomial(9, p) + 1.
        mean = 9 * p * (1 - p) + (9 * p) ** 2 + 9 * p
        assert seen[-1] / 400 == pytest.approx(mean, rel=0.2)  # 400 sentences: a standard error of 4 %


def test_the_callback_sees_every_pass_and_can_end_training(seed):
    seen = []

    def watch(state):
        seen.append((state.objective, state.n_iter, state.objective_value(), state.n_words))
        return state.n_iter == 3

    model = small(max_iter=9).fit(topical(seed, 300), callback=watch)
    assert [row[:2] for row in seen] == [("negative_sampling", 1), ("softmax", 2), ("softmax", 3)]
    assert seen[-1][2] == model.objective_value() < seen[0][2]
    assert [row[3] for row in seen] == [3000, 6000, 9000]
    assert model.n_iter_ == 3
    assert model.words_per_second_ > 0


def test_a_callback_ends_training_in_the_warm_up(seed):
    model = small().fit(topical(seed, 100), callback=lambda state: True)
    assert model.n_iter_ == 1


def test_transform_is_the_mean_of_the_words_of_a_document(seed):
    model = small().fit(topical(seed, 300))
    v = {word: model.vectors_[row] for word, row in model.vocabulary_.items()}
    found = model.transform(["t0w1 t1w2 unheard", ["t0w1"], [], "unheard"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], (v["t0w1"] + v["t1w2"]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(found[1], v["t0w1"])
    np.testing.assert_array_equal(found[2:], np.zeros((2, 12)))
    with pytest.raises(TypeError, match="it must be a list of documents"):
        model.transform("t0w1")


def test_a_copy_has_the_vectors_and_not_the_corpus(seed):
    model = small(objective="hierarchical").fit(topical(seed, 200))
    assert model.context_vectors_.shape == (39, 12)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.vectors_, model.vectors_)
    assert copy.most_similar("t0w1") == model.most_similar("t0w1")
    with pytest.raises(ValueError, match="the corpus is not part of a copied estimator"):
        copy.objective_value()
    assert clone(model).get_params() == model.get_params()
    assert model.objective_value() > 0  # the original still has it


def test_a_corpus_that_cannot_be_trained_on_is_refused(tmp_path):
    for corpus in ([["a", "b"]] * 4, [], write(tmp_path / "rare", [["a", "b"]] * 4)):
        with pytest.raises(ValueError, match="distinct words occur at least min_count=5 times; it must be two or more"):
            small().fit(corpus)
    with pytest.raises(TypeError, match=r"a sentence is 'a b'; it must be a list of words, such as \['a', 'b'\]"):
        small().fit(["a b"])
    with pytest.raises(TypeError, match="a word is 3; it must be a str"):
        small().fit([["a", 3]])
    with pytest.raises(FileNotFoundError):
        small().fit(tmp_path / "absent")
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"a b c\n" * 1000)[:-9])
    with pytest.raises(ValueError, match=r"half\.gz: not a complete gz file"):
        small().fit(tmp_path / "half.gz")
    with pytest.raises(ValueError, match="no pair of words within a window"):
        small().fit([["a"], ["b"]] * 5).objective_value()


def test_training_that_diverges_says_so(seed):
    with pytest.warns(ConvergenceWarning, match="training diverged"):
        small(objective=Softmax("sgd"), learning_rate=50.0).fit(topical(seed, 300))


@pytest.mark.parametrize("objective", ["softmax", "negative_sampling", "nce", "sampled_softmax", "ove"])
def test_vectors_that_overflow_end_at_the_last_good_ones(objective, seed):
    """A thousand drawn words of a dozen: steps of the default size are a thousand times too long together."""
    rng = np.random.default_rng(seed)
    text = [[f"w{k}" for k in rng.integers(12, size=10)] for _ in range(200)]
    model = small(objective=objective, n_negatives=1000)
    with pytest.warns(ConvergenceWarning, match="they are those before it. Lower learning_rate or n_negatives"):
        model.fit(text)
    assert np.isfinite(model.vectors_).all()
    assert np.isfinite(model.context_vectors_).all()


def test_a_word_with_a_no_break_space_is_trained_written_and_read(tmp_path):
    corpus = write(tmp_path / "corpus.txt", [["10\xa0km", "far", "next\x85line"]] * 9)
    assert main(["skipgram", str(corpus), "--output", str(tmp_path / "v"), "--dim", "4", "--sample", "0"]) == 0
    vectors = WordVectors.load_word2vec(tmp_path / "v")
    assert set(vectors.index_to_key) == {"10\xa0km", "far", "next\x85line"}
    model = small().fit(corpus)
    np.testing.assert_array_equal(model.transform(["10\xa0km"])[0], model["10\xa0km"])


def test_the_command_writes_what_python_trains(tmp_path, capsys, seed, monkeypatch):
    monkeypatch.setattr("manyclass.training.passes.DELAY", 0)
    corpus = write(tmp_path / "corpus.txt", topical(seed, 300))
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    pairs.write_text("# from nowhere\nt0w1\tt0w2\t9\nt0w1\tt1w2\t1\nt2w1 t2w2 8\nt0w1 absent 5\n")
    questions.write_text(": some\nt0w1 t0w2 t1w1 t1w2\n")
    options = [
        "--dim",
        "12",
        "--window",
        "3",
        "--sample",
        "0",
        "--random-state",
        "0",
        "--max-iter",
        "2",
        "--n-jobs",
        "1",
    ]
    extra = ["--similarity", str(pairs), "--analogies", str(questions), "--evaluate", "--progress"]
    assert main(["skipgram", str(corpus), "--output", str(tmp_path / "v.bin"), *options, *extra]) == 0
    out, err = capsys.readouterr()
    model = small(max_iter=2).fit(corpus)
    np.testing.assert_array_equal(WordVectors.load_word2vec(tmp_path / "v.bin").vectors_, model.vectors_)
    assert f"{model.objective_value():.6f} nats per co-occurrence" in out
    assert "3 pairs, 1 missing" in out
    assert "of 1 right" in out
    assert "words per second" in out
    assert "words/s" in err
    assert main(["skipgram", str(corpus), "--output", str(tmp_path / "v"), *options]) == 0
    np.testing.assert_array_equal(WordVectors.load_word2vec(tmp_path / "v").vectors_, model.vectors_)
    own = ["--objective", "negative_sampling", "--power", "0.5", "--share-classes", "--n-negatives", "3"]
    assert main(["skipgram", str(corpus), "--output", str(tmp_path / "v"), *options, *own]) == 0
    model = small(max_iter=2, objective=NegativeSampling(power=0.5, share_classes=True), n_negatives=3).fit(corpus)
    np.testing.assert_array_equal(WordVectors.load_word2vec(tmp_path / "v").vectors_, model.vectors_)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--search", "magic"], "invalid choice: 'magic'"),
        (["--search", "mips"], "search is 'mips'; objective 'softmax' has no such parameter"),
        (
            ["--objective", "hierarchical", "--power", "1"],
            "power is 1.0; objective 'hierarchical' has no such parameter",
        ),
        (["--solver", "sgd", "--delta", "2"], "delta is 2.0; solver 'sgd' has no such number"),
        (["--window", "0"], "window is 0"),
        (["--output", "absent/v"], "cannot be written"),
        (["--similarity", "absent"], "No such file"),
        (["--evaluate-sample", "0"], "--evaluate-sample is 0"),
    ],
)
def test_an_error_of_the_command_comes_before_the_work(tmp_path, capsys, extra, message):
    command = ["skipgram", str(tmp_path / "not read"), "--output", str(tmp_path / "v"), *extra]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_the_byte_order_mark_of_a_text_is_no_part_of_its_first_word(tmp_path):
    (tmp_path / "t.txt").write_text("\ufeffant bee\n" + "ant bee\n" * 20, encoding="utf-8")
    fitted = SkipGram(dim=2, min_count=1, sample=0, max_iter=1, random_state=0).fit(tmp_path / "t.txt")
    assert sorted(fitted.vocabulary_) == ["ant", "bee"]
