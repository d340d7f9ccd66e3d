"""How fast and how good are word vectors, against gensim 4 and among the objectives? Words per second; Spearman; nats.

`test_against_gensim`: skip-gram with 5 negatives, and with a Huffman tree, on the first 57,000 paragraphs of
text/novels100 (5.3 million words), 3 passes, two threads both, the same dimensions, window, minimum count, rule and
rate of sub-sampling and step sizes; runs alternate, three seeds. Words per second are those of training only, before
sub-sampling; per CPU second too, because a loaded machine shares its cores unevenly. Scores are Spearman's correlation
with human similarities; both see the same words.

`test_objectives`: the exact softmax objective, in nats per co-occurrence, against seconds of training, for every
objective from the same start, one pass of negative sampling, on the first 24,000 paragraphs.

`test_searches`: exact descent against descent by search (GD, GD-MIPS, GD-Decomp-MIPS), from the same start, on the
first 24,000 paragraphs: the exact objective, wall seconds and CPU seconds of each pass; one thread, also of BLAS if
OPENBLAS_NUM_THREADS says so. Needs MANYCLASS_DATA and, for the first, gensim:

    python -m pytest bench/bench_skip_gram.py -s
"""

import lzma
import os
import time
import warnings
from itertools import islice
from pathlib import Path

import pytest
from conftest import machine

from manyclass import SkipGram, WordVectors
from manyclass.words.objectives import Descent, Hierarchical, NegativeSampling, Softmax

SEEDS = (0, 1, 2)
SAME = {"window": 8, "min_count": 5, "sample": 1e-4}
N_PASSES = 3
LONGEST = 10_000  # words of a line: of a longer one gensim would train on no more than these, and count all
SETS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt", "MEN": "EN-MEN-TR-3k.txt"}


def paragraphs(tmp_path_factory, n):
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    path = tmp_path_factory.mktemp("text") / f"novels{n}.txt"
    packed = Path(os.environ["MANYCLASS_DATA"]) / "text" / "novels100.txt.xz"
    with lzma.open(packed, "rt") as text, path.open("w") as out:
        for line in islice(text, n):
            words = line.split()
            for i in range(0, len(words), LONGEST):
                print(*words[i : i + LONGEST], file=out)
    return path


def scores(vectors):
    folder = Path(os.environ["MANYCLASS_DATA"]) / "wordeval"
    return [vectors.score_similarity(folder / file)["spearman"] for file in SETS.values()]


class Clock:
    """Wall and CPU seconds of all threads."""

    def __enter__(self):
        self.begin = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.begin[0]
        self.cpu = time.process_time() - self.begin[1]


def gensim_run(gensim, sentences, seed, tree):
    kind = {"hs": 1, "negative": 0} if tree else {"hs": 0, "negative": 5}
    model = gensim.models.Word2Vec(vector_size=100, sg=1, workers=2, epochs=N_PASSES, seed=seed, **SAME, **kind)
    model.build_vocab(sentences)
    with Clock() as clock:
        _, n_words = model.train(sentences, total_examples=model.corpus_count, epochs=N_PASSES)
    return n_words / clock.wall, n_words / clock.cpu, *scores(WordVectors.from_keyed_vectors(model.wv))


def our_run(path, seed, tree, **options):
    objective = Hierarchical() if tree else NegativeSampling(**options)
    model = SkipGram(100, objective=objective, sample_rule="word2vec", n_jobs=2, random_state=seed, **SAME)
    model.set_params(max_iter=N_PASSES)
    passes = []
    model.fit(path, callback=lambda state: passes.append((state.n_words, time.process_time())))
    (words, begin), (all_words, end) = passes[0], passes[-1]  # the first pass of CPU time has the reading in it
    return model.words_per_second_, (all_words - words) / (end - begin), *scores(model)


@pytest.mark.parametrize("tree", [False, True], ids=["negative", "tree"])
def test_against_gensim(tmp_path_factory, tree):
    gensim = pytest.importorskip("gensim", reason="compares with gensim, which is not installed")
    path = paragraphs(tmp_path_factory, 57_000)
    sentences = [line.split() for line in path.read_text().splitlines()]
    runs = {"gensim": lambda seed: gensim_run(gensim, sentences, seed, tree), "ours": lambda s: our_run(path, s, tree)}
    if not tree:
        runs["ours, negatives shared by a centre"] = lambda seed: our_run(path, seed, tree, share_classes=True)
    print(f"\n{machine()}\n{'':34s} words/s  per CPU s  {'  '.join(SETS)}")
    rows = {name: [] for name in runs}
    for seed in SEEDS:
        for name, run in runs.items():
            row = run(seed)
            rows[name].append(row)
            print(f"{name:34s} {row[0]:8.0f} {row[1]:8.0f}   " + "  ".join(f"{x:.3f}" for x in row[2:]), flush=True)
    for i, unit in enumerate(("words/s", "words per CPU second")):
        ratios = [a[i] / b[i] for a, b in zip(rows["ours"], rows["gensim"], strict=True)]
        print(f"ours / gensim, {unit}, by seed:", [f"{ratio:.2f}" for ratio in ratios])


CONTENDERS = [
    {"objective": "negative_sampling", "max_iter": 4},
    {"objective": "softmax"},
    {"objective": "softmax", "learning_rate": 0.1},
    {"objective": Softmax("ema")},
    {"objective": Softmax("umax")},
    {"objective": Softmax("sgd")},
    {"objective": "sampled_softmax"},
    {"objective": "nce"},
    {"objective": "ove"},
    {"objective": "descent", "max_iter": 5},
    {"objective": "hierarchical", "max_iter": 4},
]


def test_objectives(tmp_path_factory):
    path = paragraphs(tmp_path_factory, 24_000)
    print(f"\n{machine()}")
    for options in CONTENDERS:
        curve = []
        model = SkipGram(100, sample_rule="sqrt", n_jobs=2, random_state=0, **SAME)
        model.set_params(max_iter=3).set_params(**options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of divergence: the values show it
            model.fit(path, callback=lambda s, curve=curve: curve.append((s.seconds, s.objective_value())))
        values = ", ".join(f"{seconds:.1f} s: {value:.4f}" for seconds, value in curve)
        print(f"{options}: {values}; MEN {scores(model)[2]:.3f}", flush=True)


SEARCHES = {
    "GD": Descent(),
    "GD-MIPS": Descent("mips"),
    "GD-Decomp-MIPS": Descent("decomposed"),
    "GD-MIPS, mask": Descent("mips", rest="mask"),
    "GD-Decomp-MIPS, mask": Descent("decomposed", rest="mask"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches(tmp_path_factory, name):
    path = paragraphs(tmp_path_factory, 24_000)
    rows, begin = [], time.process_time()

    def note(state):
        nonlocal begin
        cpu = time.process_time() - begin
        rows.append((state.objective_value(), cpu))
        begin = time.process_time()

    rule = {**SAME, "sample_rule": "sqrt"}
    model = SkipGram(100, objective=SEARCHES[name], n_jobs=1, random_state=0, max_iter=5, **rule)
    model.fit(path, callback=note)
    print(f"\n{machine()}\n{name}, V = {len(model.counts_)}: {rows[0][0]:.4f} nats after negative sampling")
    for (value, cpu), wall in zip(rows[1:], model.pass_seconds_[1:], strict=True):
        print(f"  {value:.4f} nats, {wall:.2f} s, {cpu:.2f} s of CPU", flush=True)
