"""What people type first and is wrong: twenty mistakes a person; messages name the value, the rule or the cure."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import manyclass
from manyclass import (
    AugmentReduceClassifier,
    ChoiceClassifier,
    MarginClassifier,
    SkipGram,
    SoftmaxClassifier,
    SphericalClusterIndex,
    WordVectors,
    cli,
    datasets,
    metrics,
    solvers,
)
from manyclass.choice import RandomCoefficients
from manyclass.datasets import SequenceEncoder, Stream, TextVectorizer, from_long, from_wide, make_planted

WORDS = (("red", "green", "blue"), ("apple", "pear", "car", "truck"), ("one", "two", "many", "old", "new"))
TEXTS = [f"{a} {b} {c}" for a in WORDS[0] for b in WORDS[1] for c in WORDS[2]]
TAGS = ["food" if {"apple", "pear"} & set(text.split()) else "traffic" for text in TEXTS]
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 3)), np.resize(["tea", "milk", "wine"], 60)
LISTS = [[f"i{(user + place) % 7}" for place in range(6)] for user in range(40)]
LONG = {"person": np.repeat(np.arange(60), 3), "mode": np.tile(["bus", "car", "rail"], 60)}
LONG |= {name: RNG.uniform(1, 5, 180) for name in ("cost", "time")}
LONG |= {"chosen": (np.arange(180) % 3 == np.repeat(RNG.integers(0, 3, 60), 3)).astype(int)}
WIDE = {f"{name}_{mode}": RNG.uniform(1, 5, 60) for name in ("cost", "time") for mode in ("bus", "car")}
WIDE |= {"mode": RNG.choice(["bus", "car"], 60), "person": np.arange(60)}
SENTENCES = [["red", "green", "blue", "paint"], ["one", "two", "three", "count"]] * 50
FORMULA = "b*cost_car"
# Of NumPy, of Python's own errors that say nothing of what was asked, and of names that nobody has given.
LEAKS = re.compile(
    r"np\.|array\(|dtype\(|object has no attribute|object is not|positional argument|<unknown>|\.[0-9a-f]{16}\b"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files and models that a person has."""
    place = tmp_path_factory.mktemp("person")
    rows = zip(TEXTS, TAGS, strict=True)
    (place / "t.tsv").write_text("".join(f"{text}\t{tag}\n" for text, tag in rows))
    events = [f"u{user},{item},2026-01-{day + 1:02d}" for user, had in enumerate(LISTS) for day, item in enumerate(had)]
    (place / "log.csv").write_text("\n".join(["user,item,time", *events]) + "\n")
    SoftmaxClassifier(random_state=0).fit(TEXTS, TAGS).save(place / "t.model")
    SoftmaxClassifier(random_state=0).fit(LISTS, vectorizer=SequenceEncoder()).save(place / "h.model")
    SoftmaxClassifier(solver="exact", max_iter=2, random_state=0).fit(X, Y).save(place / "n.model")
    SkipGram(5, min_count=1, max_iter=1, random_state=0).fit(SENTENCES).save(place / "v.model")
    ChoiceClassifier().fit(long()).save(place / "c.model")
    return place


def long(**changes):
    table = LONG | {name: values for name, values in changes.items() if name in LONG}
    how = {"chooser": "person", "alternative": "mode", "features": ["cost", "time"]}
    return from_long(table, **how | {name: value for name, value in changes.items() if name not in LONG})


def wide(**changes):
    return from_wide(WIDE, **{"chosen": "mode", "utilities": {"bus": "b*cost_bus", "car": FORMULA}} | changes)


def model(name):
    return (WordVectors.load if name == "v" else manyclass.load)(f"{name}.model")


def softmax(data=(X, Y), fit=None, **parameters):
    return SoftmaxClassifier(random_state=0).set_params(**parameters).fit(*data, **fit or {})


TAGGER = (
    (lambda: softmax(("red apple", ["food"])), "must be a list"),
    (lambda: softmax((TEXTS, TAGS[:-1])), "60 rows", "59"),
    (lambda: softmax(([""] * 20, ["a", "b"] * 10)), "no term", "char_wb"),
    (lambda: softmax((["a b"] * 10 + [None] * 10, ["a", "b"] * 10)), "[10]", "None"),
    (lambda: softmax((TEXTS, [None] * 60)), "row 0", "no label"),
    (lambda: softmax((TEXTS, TAGS), {"vectorizer": "tfidf"}), "vectorizer is 'tfidf'", "TextVectorizer()"),
    (lambda: softmax((TEXTS, TAGS), {"vectorizer": TextVectorizer}), "vectorizer", "TextVectorizer()"),
    (lambda: softmax((TEXTS, TAGS), solver="adam"), "'adam'", "'implicit'"),
    (lambda: softmax((TEXTS, TAGS), alpha=-1), "alpha is -1", "at least 0"),
    (lambda: model("t").predict("red apple"), "must be a list"),
    (lambda: model("t").predict_top_k(["red apple"], 1000), "k is 1000", "at most 2"),
    (lambda: model("t").predict_top_k(["red apple"], "3"), "k is '3'", "an integer"),
    (lambda: model("t").predict(X), "3 features", "12"),
    (lambda: model("n").predict(TEXTS), "texts", "not fitted on texts"),
    (lambda: model("t").evaluate(TEXTS, ["nothing"] * 60), "no row has a label"),
    (lambda: model("t").evaluate(TEXTS, TAGS, unseen="ignore"), "'ignore'", "'drop'", "'error'"),
    (lambda: model("t").top_features("foods", 2), "'foods'", "not seen"),
    (lambda: metrics.precision_at_k(TAGS, model("t").predict_top_k(TEXTS, 2)[0]), "Y_true[0]", "list of labels"),
    (lambda: model("t").save("no/such/folder/x.model"), "no/such/folder"),
    (lambda: manyclass.load("t.tsv"), "t.tsv", "safetensors"),
    (lambda: TextVectorizer(analyzer="words").fit(TEXTS), "'words'", "did you mean 'word'?"),
    ("fit t.tsv --output a.model --labels many", "--labels", "'first'", "'all'"),
    ("fit missing.tsv --text --output a.model", "missing.tsv"),
    ("fit t.tsv --text", "--output"),
    ("predict t.tsv t.tsv", "t.tsv", "safetensors"),
    ("predict t.model t.tsv -k 0", "k is 0", "at least 1"),
    ("predct t.model t.tsv", "did you mean 'predict'?"),
    ("fit t.tsv --text --output a.model --alhpa 3", "did you mean '--alpha'?"),
)
SHOPKEEPER = (
    (lambda: softmax((LISTS,)), "y", "vectorizer=SequenceEncoder()"),
    (lambda: softmax((LISTS,), {"vectorizer": SequenceEncoder}), "vectorizer", "SequenceEncoder()"),
    (lambda: softmax(([["a"]] * 20,), {"vectorizer": SequenceEncoder()}), "none of 20 sequences"),
    (lambda: softmax(([],), {"vectorizer": SequenceEncoder()}), "list of lists of items"),
    (lambda: softmax(("abc",), {"vectorizer": SequenceEncoder()}), "list of lists of items"),
    (lambda: model("h").predict(["i1", "i2"]), "histories", "lists of items"),
    (lambda: model("h").predict_top_k(LISTS, 3, exclude=True), "exclude is True", "'seen'"),
    (lambda: model("h").predict_top_k(LISTS, 3, exclude="bought"), "'bought'", "'seen'"),
    (lambda: model("h").predict_top_k(LISTS, 3, exclude=[["i1"]]), "1 lists", "40 rows"),
    (lambda: SequenceEncoder(n_last=0).fit(LISTS), "n_last is 0", "at least 1"),
    (lambda: SequenceEncoder(decay=-1).fit(LISTS), "decay is -1", "at least 0"),
    (lambda: SequenceEncoder.sequences_of(["a", "b"], ["x"]), "2 users", "1 items"),
    (lambda: SequenceEncoder.sequences_of(["a"], ["x"], ["yesterday"]), "'yesterday'", "2026-01-31"),
    (lambda: SequenceEncoder.sequences_of(["a"], ["x"], ["01.09.2026"]), "'01.09.2026'", "2026-01-31"),
    (lambda: SequenceEncoder.sequences_of(["a", None], ["x", "y"]), "users[1]", "None"),
    (lambda: SequenceEncoder.sequences_of(["a", "b"], ["x", float("nan")]), "items[1]", "nan"),
    (lambda: model("h").partial_fit(LISTS[:2], half_life="3 days"), "half_life is '3 days'", "a number"),
    ("fit log.csv --sequences visitor,item,time --output b.model", "'visitor'", "'user'"),
    ("fit log.csv --sequences user --output b.model", "--sequences is 'user'", "USER,ITEM"),
    ("fit log.csv --output b.model", "--label-column", "'item'"),
    ("fit log.csv --sequences user,item,time --since tomorrow --output b.model", "'tomorrow'", "2026-01-31"),
    ("predict h.model t.tsv", "t.tsv", "histories"),
)
CHOOSER = (
    (lambda: long(chooser="persn"), "'persn'", "did you mean 'person'?"),
    (lambda: long(features=["price"]), "'price'", "'cost'"),
    (lambda: long(chosen=np.zeros(180, int)), "chosen 0 alternatives"),
    (lambda: long(chosen=np.ones(180, int)), "chosen 3 alternatives"),
    (lambda: long(chosen=np.array(["maybe"] * 180)), "'maybe'", "yes"),
    (lambda: long(cost=np.full(180, np.nan)), "row 0 of cost", "nan"),
    (lambda: from_long(LONG), "'chooser'", "'person'"),
    (lambda: wide(utilities={"bus": "b*cost_bus", "car": "b*price_car"}), "price_car", "not linear"),
    (lambda: wide(utilities={"bus": "b*cost_bus", "train": FORMULA}), "'car'", "'train'"),
    (lambda: wide(chosen="choice"), "'choice'", "'mode'"),
    (lambda: wide(available={"Car": "person"}), "'Car'", "'car'"),
    (lambda: wide(utilities={"bus": "b*cost_bus +", "car": FORMULA}), "b*cost_bus +", "syntax"),
    (lambda: ChoiceClassifier(noise="probit").fit(long()), "'probit'", "'normal'"),
    (lambda: ChoiceClassifier(nests=["a", "b"]).fit(long()), "nests", "3 alternatives"),
    (lambda: ChoiceClassifier(constants="yes").fit(long()), "'yes'", "'alternative'"),
    (lambda: ChoiceClassifier(constraints={"price": "negative"}).fit(long()), "'price'", "cost"),
    (lambda: ChoiceClassifier(mixture=RandomCoefficients({"price": "normal"})).fit(long()), "'price'", "'cost'"),
    (lambda: ChoiceClassifier(mixture=RandomCoefficients({"cost": "gamma"})).fit(long()), "'gamma'", "'lognormal'"),
    (lambda: ChoiceClassifier(covariance="white").fit(long()), "'white'", "'robust'"),
    (lambda: model("c").willingness_to_pay("time", "price"), "'price'", "cost"),
    (lambda: model("c").elasticities(long(), "price"), "'price'", "'cost'"),
    (lambda: model("c").simulate(long(), long().without("plane")), "'plane'", "'bus'"),
    (lambda: model("c").predict_proba(long(features=["cost"])), "cost", "time"),
    (lambda: model("c").likelihood_ratio_test(model("c")), "4 free coefficients", "fewer"),
    ("fit log.csv --estimator choice --output d.model", "--long", "--wide"),
)
OPERATOR = (
    ("serve missing.model", "missing.model"),
    ("serve t.tsv", "t.tsv", "safetensors"),
    ("serve", "MODEL"),
    ("serve t.model --port 99999", "port is 99999", "65535"),
    ("serve t.model --port http", "--port", "'http'"),
    ("serve t.model --workers 0", "workers is 0", "at least 1"),
    ("serve t.model --threshold 2 --port 0", "threshold is 2", "at most 1"),
    ("serve t.model --max-bytes lots", "--max-bytes", "'lots'"),
    ("serve t.model --max-rows 0", "max_rows is 0"),
    ("serve t.model --allowed-host", "--allowed-host"),
    ("serve t.model --host 256.0.0.1", "256.0.0.1"),
    ("serve t.model --timeout -1", "timeout is -1", "more than 0"),
    ("serve t.model --approximate t.tsv", "2 classes", "4096"),
    ("serv t.model", "did you mean 'serve'?"),
    ("compress t.model --output s.model --dtype int7", "--dtype", "int8"),
    ("compress t.model --output s.model --dtype int8 --max-bytes 1", "max_bytes", "1"),
    ("info t.tsv", "t.tsv"),
    ("evaluate t.model", "DATA"),
    ("explain t.model missing.txt", "missing.txt"),
    ("predict t.model t.tsv --coverage 0.9", "calibrat"),
)
LINGUIST = (
    (lambda: SkipGram(5).fit(["red green", "one two"]), "'red green'", "['red', 'green']"),
    (lambda: SkipGram(5, min_count=1000).fit(SENTENCES), "min_count=1000", "0 of 8"),
    (lambda: SkipGram(5, min_count=1).fit([]), "0 of 0"),
    (lambda: SkipGram(0).fit(SENTENCES), "dim is 0"),
    (lambda: SkipGram(5, objective="cbow").fit(SENTENCES), "'cbow'", "'negative_sampling'"),
    (lambda: SkipGram(5, window=0).fit(SENTENCES), "window is 0"),
    (lambda: SkipGram(5, sample=-1).fit(SENTENCES), "sample is -1"),
    (lambda: SkipGram(5).most_similar("red"), "fit"),
    (lambda: model("v")["purple"], "'purple'", "8 words"),
    (lambda: model("v").most_similar("purple"), "'purple'"),
    (lambda: model("v").most_similar([]), "empty"),
    (lambda: model("v").most_similar("red", topn=-1), "topn is -1"),
    (lambda: model("v").similarity("red", "purple"), "'purple'"),
    (lambda: model("v").doesnt_match([]), "at least one word"),
    (lambda: WordVectors.load("missing.v"), "missing.v"),
    (lambda: WordVectors.load("t.tsv"), "t.tsv"),
    (lambda: WordVectors.load_word2vec_format("t.tsv"), "'red apple one food'", "dimensions"),
    (lambda: model("v").evaluate_word_pairs("missing.csv"), "missing.csv"),
    (lambda: model("v").save("no/folder/v"), "no/folder"),
    ("skipgram missing.txt --output v.txt", "missing.txt"),
    ("skipgram t.tsv --output v.txt --min-count 1000", "min_count=1000"),
    ("neighbours t.model red", "'red'"),
)
STREAMER = (
    (lambda: softmax((Stream("missing-*.txt"),)), "missing-*.txt", "no file"),
    (lambda: Stream("missing.txt"), "missing.txt"),
    (lambda: Stream(X, Y[:5]), "60 rows", "5"),
    (lambda: Stream(X), "y is None"),
    (lambda: softmax((Stream(X, Y), Y)), "Stream", "None"),
    (lambda: softmax((Stream(X, Y),), {"max_memory": "1 potato"}), "'1 potato'", "'2GiB'"),
    (lambda: softmax(fit={"sample_weight": [-1] * 60}), "[0] is -1", "at least 0"),
    (lambda: softmax(fit={"sample_weight": [1] * 5}), "sample_weight", "(60,)"),
    (lambda: softmax(fit={"max_seconds": -1}), "max_seconds is -1"),
    (lambda: softmax(fit={"callback": 3}), "callback is 3", "function"),
    (lambda: softmax(fit={"groups": [1, 2]}), "groups", "60 rows"),
    (lambda: softmax(fit={"eval_set": (X, Y)}), "eval_set", "early_stopping=True"),
    (lambda: model("n").partial_fit(X, Y[:5]), "60 rows", "(5,)"),
    (lambda: model("n").partial_fit(X[:, :2], Y), "2 features", "3"),
    (lambda: model("n").partial_fit(X), "y"),
    (lambda: model("n").partial_fit(X, Y, n_passes=0), "n_passes is 0"),
    (lambda: model("n").partial_fit(X, Y, half_life=-3), "half_life is -3"),
    (lambda: model("n").partial_fit(X, Y, new_features="add"), "'add'", "'grow'"),
    (lambda: model("n").partial_fit(np.full((60, 3), np.nan), Y), "NaN"),
    ("fit 'missing*.txt' --stream --output s.model", "missing*.txt"),
    ("fit t.tsv --text --stream --output s.model --checkpoint run", "--checkpoint", "--stream"),
    ("fit t.tsv --text --max-memory 3apples --output s.model", "'3apples'"),
    ("learn t.model missing.tsv", "missing.tsv"),
)
RESEARCHER = (
    (lambda: softmax(solver="umaxx"), "'umaxx'", "did you mean 'umax'?"),
    (lambda: softmax(solver="umax", sampler="uniformly"), "did you mean 'uniform'?"),
    (lambda: softmax(solver="umax", n_negatives=0), "n_negatives is 0"),
    (lambda: softmax(solver=solvers.UMax(delta=-1)), "delta is -1"),
    (lambda: solvers.UMax(margin=3), "'margin'", "'delta'"),
    (lambda: softmax(solver="lbfgs", learning_rate=1), "learning_rate", "no effect", "'lbfgs'"),
    (lambda: softmax(learning_rate="fast"), "'fast'", "'grid'"),
    (lambda: softmax(max_iter=1.5), "max_iter is 1.5", "an integer"),
    (lambda: softmax(model="embedding", dim=0), "dim is 0", "1048576"),
    (lambda: softmax(n_jobs=0), "n_jobs is 0", "-1"),
    (lambda: softmax((X, np.arange(60.0) / 7)), "0.142", "regression"),
    (lambda: softmax((X, np.ones(60))), "one class", "1.0"),
    (lambda: softmax((X.reshape(-1), Y)), "1D", "reshape"),
    (lambda: AugmentReduceClassifier(noise="cauchy").fit(X, Y), "'cauchy'", "'normal'"),
    (lambda: MarginClassifier(smoothing=-1).fit(X, sp.csr_array(np.eye(3)[np.arange(60) % 3])), "smoothing is -1"),
    (lambda: model("n").certificate(X, Y[:3]), "60 rows", "(3,)"),
    (lambda: model("n").set_params(alhpa=3), "'alhpa'", "did you mean 'alpha'?"),
    (lambda: model("n").calibrate_sets(X, Y, 1.5), "coverage is 1.5"),
    (lambda: model("n").predict_set(X, 0.9), "calibrate_sets"),
    (lambda: datasets.fetch("cifar"), "'cifar'", "'bibtex'"),
    (lambda: datasets.load_xmc("t.tsv"), "t.tsv:1", "'red'"),
    (lambda: make_planted(10, n_classes=1), "n_classes is 1", "at least 2"),
    (lambda: metrics.top_k_accuracy(np.zeros(60, int), np.zeros((60, 2), int), k=5), "(60, 2)", "k = 5"),
    (lambda: SphericalClusterIndex().fit(X).query(X, 1000), "k is 1000", "at most 60"),
    (lambda: SphericalClusterIndex(code_bits=3).fit(X), "code_bits is 3", "8"),
    ("experiment nothing", "'nothing'", "'titsias'"),
    ("experiment titsias --data nowhere --output o", "'nowhere'", "'mnist'"),
)
PERSONS = {
    "tags": TAGGER,
    "shop": SHOPKEEPER,
    "choice": CHOOSER,
    "server": OPERATOR,
    "words": LINGUIST,
    "stream": STREAMER,
    "papers": RESEARCHER,
}


def message_of(call, capsys):
    """What a person reads: of a command the lines on standard error."""
    if isinstance(call, str):
        try:
            code = cli.main(shlex.split(call))
        except SystemExit as end:
            code = end.code
        assert code == 2, call
        return capsys.readouterr().err
    with pytest.raises((ValueError, TypeError, KeyError, OSError)) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("person", PERSONS)
def test_there_are_twenty_mistakes_of_each_person(person):
    assert len(PERSONS[person]) >= 20


@pytest.mark.parametrize(
    ("call", "named"),
    [
        pytest.param(call, named, id=f"{person}-{place}")
        for person, mistakes in PERSONS.items()
        for place, (call, *named) in enumerate(mistakes)
    ],
)
def test_a_mistake_is_named_with_its_rule_or_its_cure(call, named, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    message = message_of(call, capsys)
    assert [word for word in named if word not in message] == [], message
    assert not LEAKS.search(message), message
    assert len(message) < 1000
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith(".")) == []
