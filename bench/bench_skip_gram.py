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
OPENBLAS_NUM_THREADS says so.

    python -m pytest bench/bench_skip_gram.py
"""

import lzma
import os
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from manyclass import SkipGram, WordVectors
from manyclass.words.objectives import Descent, Hierarchical, NegativeSampling, Softmax

SEEDS = (0, 1, 2)
SAME = {"window": 8, "min_count": 5, "sample": 1e-4}
N_PASSES = 3
LONGEST = 10_000  # words of a line: of a longer one gensim would train on no more than these, and count all
SETS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt", "MEN": "EN-MEN-TR-3k.txt"}


@pytest.fixture(scope="module")
def paragraphs(data_folder, tmp_path_factory):
    """A function from a number of paragraphs to a file of them."""
    made = {}

    def write(n):
        if n in made:
            return made[n]
        made[n] = path = tmp_path_factory.mktemp("text") / f"novels{n}.txt"
        with lzma.open(data_folder / "text" / "novels100.txt.xz", "rt") as text, path.open("w") as out:
            for line in islice(text, n):
                words = line.split()
                for i in range(0, len(words), LONGEST):
                    print(*words[i : i + LONGEST], file=out)
        return path

    return write


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
    return clock.wall, n_words / clock.wall, n_words / clock.cpu, *scores(WordVectors.from_keyed_vectors(model.wv))


def our_run(path, seed, tree, **options):
    objective = Hierarchical() if tree else NegativeSampling(**options)
    model = SkipGram(100, objective=objective, sample_rule="word2vec", n_jobs=2, random_state=seed, **SAME)
    model.set_params(max_iter=N_PASSES)
    passes = []
    model.fit(path, callback=lambda state: passes.append((state.n_words, time.process_time())))
    (words, begin), (all_words, end) = passes[0], passes[-1]  # the first pass of CPU time has the reading in it
    seconds = all_words / model.words_per_second_
    return seconds, model.words_per_second_, (all_words - words) / (end - begin), *scores(model)


KINDS = {  # with a tree or not, and the options of ours
    "ours, 5 negatives": (False, {}),
    "ours, negatives shared by a centre": (False, {"share_classes": True}),
    "ours, Huffman tree": (True, {}),
}


@pytest.mark.parametrize("what", KINDS)
def test_against_gensim(timed, paragraphs, what):
    gensim = pytest.importorskip("gensim", reason="compares with gensim, which is not installed")
    path, (tree, options) = paragraphs(57_000), KINDS[what]
    sentences = [line.split() for line in path.read_text().splitlines()]
    rows = {"ours": [], "gensim": []}
    for seed in SEEDS:
        rows["gensim"].append(gensim_run(gensim, sentences, seed, tree))
        rows["ours"].append(our_run(path, seed, tree, **options))
    seconds = {name: [row[0] for row in some] for name, some in rows.items()}
    timed.taken(seconds["ours"], beside={"gensim": seconds["gensim"]})
    per_cpu = np.median([a[2] / b[2] for a, b in zip(rows["ours"], rows["gensim"], strict=True)])
    timed.row("word_vectors", **columns(what, rows["ours"]))
    if not options:
        timed.row("word_vectors", **columns(what.replace("ours", "gensim"), rows["gensim"]))
    timed.tell(threads=2, words_per_cpu_s_over_gensim=per_cpu)


def columns(name, rows):
    """Of results/word_vectors.jsonl: a figure for each seed."""
    _, per_s, per_cpu_s, *of_sets = zip(*rows, strict=True)
    places = ("wordsim353", "simlex999", "men")
    found = {name: [round(float(x), 3) for x in values] for name, values in zip(places, of_sets, strict=True)}
    return {"model": name, "words_per_s": [*map(round, per_s)], "words_per_cpu_s": [*map(round, per_cpu_s)], **found}


CONTENDERS = {
    "negative_sampling": {"objective": "negative_sampling", "max_iter": 4},
    "softmax": {"objective": "softmax"},
    "softmax, rate 0.1": {"objective": "softmax", "learning_rate": 0.1},
    "softmax by ema": {"objective": Softmax("ema")},
    "softmax by umax": {"objective": Softmax("umax")},
    "softmax by sgd": {"objective": Softmax("sgd")},
    "sampled_softmax": {"objective": "sampled_softmax"},
    "nce": {"objective": "nce"},
    "ove": {"objective": "ove"},
    "descent": {"objective": "descent", "max_iter": 5},
    "hierarchical": {"objective": "hierarchical", "max_iter": 4},
}


@pytest.mark.parametrize("what", CONTENDERS)
def test_objectives(timed, paragraphs, what):
    path, curve = paragraphs(24_000), []
    model = SkipGram(100, sample_rule="sqrt", n_jobs=2, random_state=0, **SAME)
    model.set_params(max_iter=3).set_params(**CONTENDERS[what])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of divergence: the values show it
        model.fit(path, callback=lambda s: curve.append((s.seconds, s.objective_value())))
    timed.taken([curve[-1][0]])
    timed.tell(threads=2, seconds_and_nats=[[float(s), float(v)] for s, v in curve], men=scores(model)[2])


SEARCHES = {
    "GD": Descent(),
    "GD-MIPS": Descent("mips"),
    "GD-Decomp-MIPS": Descent("decomposed"),
    "GD-MIPS, mask": Descent("mips", rest="mask"),
    "GD-Decomp-MIPS, mask": Descent("decomposed", rest="mask"),
}


@pytest.mark.parametrize("what", SEARCHES)
def test_searches(timed, paragraphs, what):
    path = paragraphs(24_000)
    rows, begin = [], time.process_time()

    def note(state):
        nonlocal begin
        cpu = time.process_time() - begin
        rows.append((float(state.objective_value()), cpu))
        begin = time.process_time()

    rule = {**SAME, "sample_rule": "sqrt"}
    model = SkipGram(100, objective=SEARCHES[what], n_jobs=1, random_state=0, max_iter=5, **rule)
    model.fit(path, callback=note)
    timed.taken(model.pass_seconds_[1:])
    timed.tell(words=len(model.counts_), nats=[v for v, _ in rows], cpu_s=[cpu for _, cpu in rows[1:]])
