"""Files of vectors on the command line: info of any of ours, neighbours, embed; and completion in the shell."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from test_command import run, table, the_error, write_data

import manyclass
from manyclass import DecomposedIndex, SoftmaxClassifier, SphericalClusterIndex, WordVectors, load_xmc
from manyclass.cli import parser
from manyclass.cli.parser import FILES
from manyclass.datasets import SequenceEncoder, TextVectorizer, save_csr

WORDS = ["ant", "bee", "cow", "naïve", "null"]
QUICK = ("--max-iter", 3, "--random-state", 0, "--no-progress")


def output_of(capsys, *argv):
    capsys.readouterr()
    run(*argv)
    return capsys.readouterr().out


@pytest.fixture
def vectors(seed):
    found = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
    found[4] = 0
    return found


@pytest.fixture(params=["v.bin", "v.txt", "binary without its suffix"])
def words(request, tmp_path, vectors):
    path = tmp_path / request.param
    WordVectors(WORDS, vectors).save_word2vec(path, binary=not request.param.endswith(".txt"))
    return path


def cosines(vectors, row):
    lengths = np.linalg.norm(vectors.astype(float), axis=1)
    unit = vectors / np.where(lengths > 0, lengths, 1)[:, np.newaxis]
    return unit @ unit[row]


def test_neighbours_of_words_are_those_of_largest_cosine(words, vectors, capsys):
    for name in ("bee", "naïve", "null"):
        row = WORDS.index(name)
        expected = cosines(vectors, row)
        order = [at for at in np.argsort(-expected, kind="stable") if at != row]
        lines = [line.split("\t") for line in output_of(capsys, "neighbours", words, name).splitlines()]
        assert [line[:2] for line in lines] == [[name, WORDS[at]] for at in order]
        # Six digits are written.
        assert [float(line[2]) for line in lines] == pytest.approx(expected[order], rel=1e-5, abs=1e-6)
    two = output_of(capsys, "neighbours", words, "ant", "cow", "-k", 1).splitlines()
    assert [line.split("\t")[0] for line in two] == ["ant", "cow"]


def test_neighbours_of_classes_are_by_the_rows_of_w(tmp_path, capsys):
    data = write_data(tmp_path / "d")
    for options in ((), ("--model", "embedding", "--dim", 4)):
        run("fit", data, "--output", tmp_path / "m", *QUICK, *options)
        coef = manyclass.load(tmp_path / "m").coef_
        expected = cosines(coef, 7)
        lines = output_of(capsys, "neighbours", tmp_path / "m", "7", "-k", 3).splitlines()
        found = [int(line.split("\t")[1]) for line in lines]
        assert found == [at for at in np.argsort(-expected, kind="stable") if at != 7][:3]


def test_classes_beside_embeddings_and_pairs_have_the_vectors_of_the_embeddings(tmp_path, capsys):
    data = write_data(tmp_path / "d")
    run("fit", data, "--output", tmp_path / "m", *QUICK, "--model", "hybrid", "--dim", 4)
    run("embed", tmp_path / "m", "--classes", "--output", tmp_path / "c.npy")
    vectors = np.load(tmp_path / "c.npy")
    model = manyclass.load(tmp_path / "m")
    # Scores are sums of what the vectors make of embedded rows and of weights on pairs, which have their own intercept.
    X = sp.csr_array(np.eye(model.n_features_in_, dtype=np.float32))
    pairs = model.decision_function(X) - model.embed(X) @ vectors.T - model.intercept_
    expected = model._weights.pairs_alone.coef.toarray().T
    np.testing.assert_allclose(pairs, expected, atol=1e-5)  # of sums of a few float32
    expected = cosines(vectors, 7)
    lines = output_of(capsys, "neighbours", tmp_path / "m", "7", "-k", 3).splitlines()
    order = np.argsort(-expected, kind="stable")
    assert [line.split("\t")[1] for line in lines] == [str(at) for at in order if at != 7][:3]


def test_classes_of_a_sparse_model_have_no_vectors(tmp_path, capsys):
    run("fit", write_data(tmp_path / "d"), "--output", tmp_path / "m", *QUICK, "--model", "pairs")
    capsys.readouterr()
    for command in (("neighbours", tmp_path / "m", "7"), ("embed", tmp_path / "m", "--classes")):
        assert the_error(capsys, *command) == (
            f"{tmp_path / 'm'}: a model of pairs has no vectors of classes; fit it with model='embedding' or 'hybrid'"
        )


def test_a_name_that_is_not_there_is_refused_with_one_like_it(words, capsys):
    message = the_error(capsys, "neighbours", words, "ant", "coww")
    assert message == f"{words} has no word 'coww' among its 5 (did you mean 'cow'?)"
    assert the_error(capsys, "neighbours", words, "ant", "-k", 0).startswith("k is 0")


def test_words_are_embedded_as_an_array_or_as_lines(words, vectors, tmp_path, capsys):
    (tmp_path / "list").write_text("cow\nnaïve\n", encoding="utf-8")
    run("embed", words, tmp_path / "list", "--output", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), vectors[[2, 3]], strict=True)
    out = output_of(capsys, "embed", words, tmp_path / "list")
    run("embed", words, tmp_path / "list", "--output", tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == out
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["cow", "naïve"]
    # Seven digits: half a unit of the last one.
    np.testing.assert_allclose([list(map(float, line[1:])) for line in lines], vectors[[2, 3]], rtol=5e-7)


def test_rows_texts_and_classes_are_embedded(tmp_path, capsys):
    data = write_data(tmp_path / "d")
    embedding = ("--model", "embedding", "--dim", 4)
    run("fit", data, "--output", tmp_path / "m", *QUICK, *embedding)
    loaded = manyclass.load(tmp_path / "m")
    run("embed", tmp_path / "m", data, "--output", tmp_path / "rows.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), loaded.embed(load_xmc(data)[0]), strict=True)
    lines = output_of(capsys, "embed", tmp_path / "m", data).splitlines()
    assert [len(line.split("\t")) for line in lines] == [4] * 240
    run("embed", tmp_path / "m", "--classes", "--output", tmp_path / "classes.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "classes.npy"), loaded.coef_)
    named = output_of(capsys, "embed", tmp_path / "m", "--classes").splitlines()
    assert [line.split("\t")[0] for line in named] == list(map(str, range(12)))
    texts = ["a cat sat", "the dog barked"]
    (tmp_path / "t.txt").write_text(f"{texts[0]}\tx\n{texts[1]}\ty\n")
    run("fit", tmp_path / "t.txt", "--output", tmp_path / "t", *QUICK, *embedding)
    run("embed", tmp_path / "t", tmp_path / "t.txt", "--output", tmp_path / "t.npy")
    rows = TextVectorizer().fit_transform(texts)
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), manyclass.load(tmp_path / "t").embed(rows))


def test_what_cannot_be_embedded_is_refused(tmp_path, vectors, capsys):
    data = write_data(tmp_path / "d")
    run("fit", data, "--output", tmp_path / "m", *QUICK)
    run("fit", data, "--output", tmp_path / "p", *QUICK, "--estimator", "augment-reduce")
    WordVectors(WORDS, vectors).save_word2vec(tmp_path / "v.bin", binary=True)
    capsys.readouterr()
    assert the_error(capsys, "embed", tmp_path / "m") == "give either DATA or --classes"
    assert the_error(capsys, "embed", tmp_path / "m", data, "--classes") == "give either DATA or --classes"
    assert "SoftmaxClassifier, which has no embeddings" in the_error(capsys, "embed", tmp_path / "m", data)
    assert "AugmentReduceClassifier, which has no embeddings" in the_error(capsys, "embed", tmp_path / "p", data)
    assert "holds no model, which --classes is for" in the_error(capsys, "embed", tmp_path / "v.bin", "--classes")
    assert "has no word '240 8 12'" in the_error(capsys, "embed", tmp_path / "v.bin", data)
    (tmp_path / "neither").write_text("nothing of the kind\n")
    assert "neither" in the_error(capsys, "neighbours", tmp_path / "neither", "x")


def test_info_knows_every_file_of_ours(tmp_path, words, vectors, capsys):
    info = json.loads(output_of(capsys, "info", words, "--json"))
    form = "text" if words.suffix == ".txt" else "binary"
    assert info["kind"] == f"word vectors, word2vec's {form} form"
    assert (info["words"], info["dimensions"], info["first_words"]) == (5, 3, ", ".join(WORDS))
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    for index in (SphericalClusterIndex(random_state=0), DecomposedIndex(2, random_state=0)):
        index.fit(rows).save(tmp_path / "i")
        info = json.loads(output_of(capsys, "info", tmp_path / "i", "--json"))
        assert info["kind"] == f"index, {type(index).__name__}"
        assert (info["rows"], info["features"], info["clusters"]) == (40, 4, index.n_clusters_)
        assert "random_state=0" in info["parameters"]
    save_csr(tmp_path / "c", sp.csr_array(rows))
    assert json.loads(output_of(capsys, "info", tmp_path / "c", "--json"))["kind"] == "data, csr"
    contents = {
        "d.csv": ("a,b,label\n1,2,x\n3,4,y\n", "data, csv", {"rows": 2, "labels": 2, "features": "a, b"}),
        "d.txt": ("two words\tx,y\none\tx\n", "data, text", {"rows": 2, "words_per_row": "1 to 2, mean 1.5"}),
        "d.ft": ("__label__a b c\n", "data, fasttext", {"rows": 1, "labels": 1}),
        "d.svm": ("-1 1:1\n+1 2:1\n", "data, svmlight", {"rows": 2, "features": 2, "labels": 2}),
    }
    for name, (content, kind, facts) in contents.items():
        (tmp_path / name).write_text(content)
        info = json.loads(output_of(capsys, "info", tmp_path / name, "--json"))
        assert info["kind"] == kind
        assert {fact: info[fact] for fact in facts} == facts


def test_info_tells_of_the_texts_and_the_labels_of_a_model(tmp_path, capsys):
    (tmp_path / "t.txt").write_text("a cat sat\tx,y\nthe dog barked\ty\n")
    run("fit", tmp_path / "t.txt", "--labels", "all", "--output", tmp_path / "m", *QUICK, "--text-max-n", 2)
    info = table(output_of(capsys, "info", tmp_path / "m"))
    assert info["labels of a row"] == "several, 2 on average"
    assert info["texts"] == "8 terms, max_n=2"
    assert "form=text" in info["reading"]


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_names_commands_options_and_files(shell, capsys):
    pytest.importorskip("shtab")
    run("--print-completion", shell)
    script = capsys.readouterr().out
    for command in parser.COMMANDS:
        assert command in script
    for word in ("--estimator", "augment-reduce", "--label-names", "--output-format"):
        assert word in script
    assert {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "/f/", "fish": "__fish_complete_path"}[
        shell
    ] in script


def test_the_script_of_bash_completes(tmp_path):
    pytest.importorskip("shtab")
    script = subprocess.run(
        [sys.executable, "-m", "manyclass", "--print-completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "c.bash").write_text(script)

    def completed(*words):
        line = " ".join(f"'{word}'" for word in words)
        ask = f"source {tmp_path}/c.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        ask += 'COMP_LINE="${COMP_WORDS[*]}"; _shtab_manyclass; printf \'%s\\n\' "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.split()

    assert completed("manyclass", "ev") == ["evaluate"]
    assert completed("manyclass", "fit", "--estim") == ["--estimator"]
    assert set(completed("manyclass", "fit", "--estimator", "")) == {"softmax", "margin", "augment-reduce", "choice"}
    assert "c.bash" in completed("manyclass", "info", "c")


def test_every_argument_that_is_a_file_is_known_to_completion():
    import argparse

    def metavars(of):
        for action in of._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from metavars(command)
            elif isinstance(action.metavar, str):
                yield action.metavar

    found = set(metavars(parser.build_parser()))
    assert set(FILES) <= found
    assert {name for name in found if name.isupper()} - set(FILES) >= {"S"}  # seconds are none


def test_without_shtab_completion_is_refused(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    message = the_error(capsys, "--print-completion", "bash")
    assert message.startswith("--print-completion needs shtab: pip install 'manyclass[completion]'")


def test_similar_classes_in_python_are_the_neighbours_of_the_command(tmp_path, capsys, seed):
    rng = np.random.default_rng(seed)
    visits = [[f"item {(start + 2 * step) % 14:02d}" for step in range(6)] for start in rng.integers(0, 14, 200)]
    model = SoftmaxClassifier(model="embedding", dim=8, max_iter=5, random_state=0)
    model.fit(visits, vectorizer=SequenceEncoder())
    labels, cosines = model.similar(["item 03", "item 10"], 4)
    model.save(tmp_path / "m")
    capsys.readouterr()
    run("neighbours", tmp_path / "m", "item 03", "item 10", "-k", 4)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[1] for line in lines] == labels.ravel().tolist()
    np.testing.assert_allclose([float(line[2]) for line in lines], cosines.ravel(), rtol=1e-4, atol=1e-5)
    one, _ = model.similar("item 03", 4)
    np.testing.assert_array_equal(one, labels[:1])
    for bad, told in ((("none",), "labels is .none., which fit has not seen"), (("item 03", 14), "k is 14")):
        with pytest.raises(ValueError, match=told):
            model.similar(*bad)
    pairs = SoftmaxClassifier(model="pairs", random_state=0).fit(visits, vectorizer=SequenceEncoder())
    with pytest.raises(ValueError, match="a model of pairs has no vectors"):
        pairs.similar("item 03")
