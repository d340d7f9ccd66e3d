"""Data of the commands in each form: what is read, that all forms give one model, and errors with file and line."""

import gzip
import io
import json
import lzma
import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from test_command import run, table, the_error

import manyclass
from manyclass import SoftmaxClassifier
from manyclass.classifiers.saving import load_notes
from manyclass.datasets import Stream, TextVectorizer, save_csr
from manyclass.datasets.inputs import form_of_line

TEXTS = ["a cat sat", "the dog barked", "the car drove", "a bus drove", "cats and dogs", "cars, buses"]
KINDS = ["animal", "animal", "vehicle", "vehicle", "animal", "vehicle"]
QUICK = ("--max-iter", 3, "--random-state", 0)


def stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def as_text(labels=KINDS):
    return "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, labels, strict=True))


def as_fasttext(labels=KINDS):
    return "".join(f"__label__{label} {text}\n" for text, label in zip(TEXTS, labels, strict=True))


def as_csv():
    return "id,body,label\n" + "".join(f'{i},"{t}",{k}\n' for i, (t, k) in enumerate(zip(TEXTS, KINDS, strict=True)))


TEXT_FORMS = {
    "text": ("d.txt", as_text(), ()),
    "text by name": ("d", as_text(), ("--text",)),
    "windows": ("d.txt", as_text().replace("\n", "\r\n"), ()),
    "byte order mark": ("d.txt", "\ufeff" + as_text(), ()),
    "fasttext": ("d.ft", as_fasttext(), ()),
    "csv": ("d.csv", as_csv(), ("--text-column", "body")),
    "tsv": ("d.tsv", as_csv().replace(",", "\t").replace("cars\t ", "cars, "), ("--text-column", "body")),
}


@pytest.fixture
def expected():
    """The model that Python makes of the texts."""
    X = TextVectorizer().fit_transform(TEXTS)
    return SoftmaxClassifier(max_iter=3, random_state=0).fit(X, np.array(KINDS))


@pytest.mark.parametrize("form", TEXT_FORMS)
@pytest.mark.parametrize("how", ["file", "gz", "xz", "stdin"])
def test_every_form_of_texts_gives_the_model_that_python_gives(tmp_path, form, how, expected, capsys, monkeypatch):
    name, content, options = TEXT_FORMS[form]
    data = tmp_path / name
    if how == "stdin":
        stdin(monkeypatch, content.encode())
        data = "-"
        options = (*options, *(("--format", name[2:]) if name in ("d.csv", "d.tsv") else ()))
    elif how == "file":
        data.write_text(content, encoding="utf-8", newline="")
    else:
        data = tmp_path / f"{name}.{how}"
        data.write_bytes({"gz": gzip, "xz": lzma}[how].compress(content.encode()))
    run("fit", data, "--output", tmp_path / "m", *QUICK, *options)
    loaded = manyclass.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.coef_, expected.coef_)
    assert loaded.classes_.tolist() == ["animal", "vehicle"]
    assert loaded.vectorizer_.transform(["cat dog"]).nnz == 2
    assert capsys.readouterr().err == ""


def test_a_model_of_texts_predicts_and_evaluates_raw_text(tmp_path, expected, capsys, monkeypatch):
    (tmp_path / "d.txt").write_text(as_text())
    run("fit", tmp_path / "d.txt", "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    stdin(monkeypatch, b"the dog\n\n3 5 7\nthe car\n")  # an empty text and one that looks like a header are rows, too
    run("predict", "--text", tmp_path / "m", "-", "-k", 1)
    lines = capsys.readouterr().out.splitlines()
    X = TextVectorizer().fit(TEXTS).transform(["the dog", "", "3 5 7", "the car"])
    assert [line.split("\t")[0] for line in lines] == expected.predict(X).tolist()
    stdin(monkeypatch, b"the dog\n")
    run("predict", tmp_path / "m", "-", "-k", 1)  # without --text as well, which the model tells
    assert capsys.readouterr().out.splitlines() == lines[:1]
    for name in ("d.ft", "d.txt"):
        (tmp_path / name).write_text(as_fasttext() if name == "d.ft" else as_text())
        run("evaluate", tmp_path / "m", tmp_path / name, "--json")
        found = json.loads(capsys.readouterr().out)
        rows = TextVectorizer().fit_transform(TEXTS)
        assert found["log_loss"] == expected.evaluate(rows, np.array(KINDS))["log_loss"]
        assert found["n_rows"] == 6


def test_a_model_of_texts_reads_texts_from_files_that_are_named_as_tables(tmp_path, expected, capsys):
    (tmp_path / "d.tsv").write_text(as_text())
    run("fit", tmp_path / "d.tsv", "--text", "--output", tmp_path / "m", *QUICK)
    found = json.loads(output_of(capsys, "evaluate", tmp_path / "m", tmp_path / "d.tsv", "--json"))
    rows = TextVectorizer().fit_transform(TEXTS)
    assert found["log_loss"] == expected.evaluate(rows, np.array(KINDS))["log_loss"]
    (tmp_path / "t.tsv").write_text("body\tlabel\n" + as_text())  # a table where its columns are named
    table = ("--text-column", "body", "--label-column", "label")
    assert json.loads(output_of(capsys, "evaluate", tmp_path / "m", tmp_path / "t.tsv", "--json", *table)) == found


def test_the_parameters_of_the_vectorizer_are_options(tmp_path, capsys):
    (tmp_path / "d.txt").write_text(as_text())
    options = ("--text-analyzer", "char_wb", "--text-min-n", 2, "--text-max-n", 3, "--no-text-idf")
    run("fit", tmp_path / "d.txt", "--output", tmp_path / "m", *QUICK, *options)
    found = manyclass.load(tmp_path / "m").vectorizer_
    assert repr(found) == repr(TextVectorizer(analyzer="char_wb", min_n=2, max_n=3, idf=False))
    assert "analyzer='char_wb'" in table_of(capsys, "info", tmp_path / "m")["texts"]
    wrong = ("fit", tmp_path / "d.txt", "--output", tmp_path / "m", "--text-min-n", 5)
    assert the_error(capsys, *wrong) == "min_n is 5; it must be at most max_n, which is 1"


def table_of(capsys, *argv):
    capsys.readouterr()
    run(*argv)
    return table(capsys.readouterr().out)


def as_table(seed, n=60):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = np.round(rng.normal(size=(n, 2)) + 3 * y[:, np.newaxis], 3)
    return X.astype(np.float32), y


def write_table(path, X, y, label="label", header="width,height"):
    rows = [",".join(map(repr, map(float, row))) + ("" if y is None else f",{k}") for row, k in zip(X, y, strict=True)]
    path.write_text("\n".join([header + f",{label}", *rows]) + "\n")
    return path


def output_of(capsys, *argv):
    capsys.readouterr()
    run(*argv)
    return capsys.readouterr().out


# Numbered features


def numbered(seed, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return y, [f"{k}:1 {3 + int(rng.integers(4))}:0.5" for k in y]


def test_svmlight_files_tell_where_features_begin_and_have_any_label(tmp_path, seed, capsys):
    y, rows = numbered(seed)
    shifted = [re.sub(r"(\d+):", lambda m: f"{int(m[1]) + 1}:", row) for row in rows]
    (tmp_path / "x").write_text("\n".join(f"{k} {row}" for k, row in zip(y, rows, strict=True)) + "\n")
    run("fit", tmp_path / "x", "--output", tmp_path / "m", *QUICK)
    expected = manyclass.load(tmp_path / "m")
    for name, labels, classes in (
        ("d.svm", ["-1", "+1", "2.0"], [-1, 1, 2]),
        ("d", ["ant", "bee", "cow"], ["ant", "bee", "cow"]),
        ("d.libsvm", ["0", "1", "2"], [0, 1, 2]),
    ):
        lines = [f"{labels[k]} {row} # note" for k, row in zip(y, shifted, strict=True)]
        (tmp_path / name).write_text("\n".join(["# a comment", *lines]) + "\n")
        run("fit", tmp_path / name, "--output", tmp_path / "s", *QUICK)
        loaded = manyclass.load(tmp_path / "s")
        assert loaded.classes_.tolist() == classes
        np.testing.assert_array_equal(loaded.coef_, expected.coef_)
        notes = load_notes(tmp_path / "s")
        assert (notes["form"], notes["one_based"]) == ("svmlight", True)
        # A file with only the later features is read as the training data were.
        (tmp_path / "late.svm").write_text(f"{labels[0]} 4:1\n")
        assert json.loads(output_of(capsys, "evaluate", tmp_path / "s", tmp_path / "late.svm", "--json"))["n_rows"] == 1


def test_errors_in_svmlight_files_have_the_line_and_the_column_of_the_file(tmp_path, capsys):
    fit = ("fit", tmp_path / "d.svm", "--output", tmp_path / "m")
    (tmp_path / "d.svm").write_text("-1 1:1\n+1 2:x\n")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/d.svm:2:6: .*", the_error(capsys, *fit))
    (tmp_path / "d.svm").write_text("-1 1:1\n+1 0:1\n")
    message = the_error(capsys, *fit, "--one-based")
    assert message.endswith("d.svm: it has the feature 0; the first one of svmlight's form has number 1")
    (tmp_path / "d.svm").write_bytes(b"caf\xe8 1:1\ncaf\xe9 2:1\n")
    assert the_error(capsys, *fit).endswith(r"d.svm:1: the label b'caf\xe8' is not UTF-8 text")


def test_rows_of_another_width_are_refused_with_both_numbers(tmp_path, capsys, seed):
    y, rows = numbered(seed)
    body = "\n".join(f"{k} {row}" for k, row in zip(y, rows, strict=True)) + "\n"
    (tmp_path / "d").write_text("60 9 3\n" + body)
    run("fit", tmp_path / "d", "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    for width in (8, 10):
        (tmp_path / "w").write_text(f"60 {width} 3\n" + body)
        save_csr(tmp_path / "b", *manyclass.load_xmc(tmp_path / "w"))
        for other in ("w", "b"):
            for command in ("predict", "evaluate"):
                message = the_error(capsys, command, tmp_path / "m", tmp_path / other)
                assert message.startswith(f"{tmp_path / other}, read as ")
                assert message.endswith(f" has rows of {width} features; the model was fitted on rows of 9 features")
    write_table(tmp_path / "t.csv", *as_table(seed))
    capsys.readouterr()
    assert the_error(capsys, "predict", tmp_path / "m", tmp_path / "t.csv").endswith(
        "t.csv, read as csv, has rows of 2 features; the model was fitted on rows of 9 features"
    )
    (tmp_path / "t.txt").write_text("some words\n")
    message = the_error(capsys, "predict", "--text", tmp_path / "m", tmp_path / "t.txt")
    assert message.endswith("read as text, has texts; the model was fitted on rows of 9 features")


# Names of labels


def test_names_of_labels_go_in_and_out(tmp_path, capsys, seed):
    y, rows = numbered(seed)
    names = ["zebra", "ant", "cow", "of no row"]
    (tmp_path / "names").write_text("\n".join(names) + "\n")
    (tmp_path / "d").write_text("\n".join(f"{k} {row}" for k, row in zip(y, rows, strict=True)) + "\n")
    run("fit", tmp_path / "d", "--output", tmp_path / "numbers", *QUICK)
    run("fit", tmp_path / "d", "--output", tmp_path / "m", *QUICK, "--label-names", tmp_path / "names")
    loaded = manyclass.load(tmp_path / "m")
    assert loaded.classes_.tolist() == ["ant", "cow", "zebra"]
    printed = output_of(capsys, "predict", tmp_path / "m", tmp_path / "d", "-k", 1).splitlines()
    assert {line.split("\t")[0] for line in printed} <= set(names)
    # Names of a model of numbers are given when it predicts.
    later = ("predict", tmp_path / "numbers", tmp_path / "d", "-k", 1, "--label-names", tmp_path / "names")
    by_number = output_of(capsys, "predict", tmp_path / "numbers", tmp_path / "d", "-k", 1).splitlines()
    assert [line.split("\t")[0] for line in output_of(capsys, *later).splitlines()] == [
        names[int(line.split("\t")[0])] for line in by_number
    ]
    evaluate = ("evaluate", tmp_path / "m", tmp_path / "d", "--json")
    found = json.loads(output_of(capsys, *evaluate, "--label-names", tmp_path / "names"))
    assert found["error"] == loaded.evaluate(manyclass.load_xmc(tmp_path / "d")[0], np.array(names)[y])["error"]
    message = the_error(capsys, *evaluate)
    assert "its labels are such as 'ant', those of the data such as 0" in message


def test_files_of_names_that_do_not_fit_are_refused(tmp_path, capsys, seed):
    y, rows = numbered(seed)
    (tmp_path / "d").write_text("\n".join(f"{k} {row}" for k, row in zip(y, rows, strict=True)) + "\n")
    (tmp_path / "names").write_text("a\nb\n")
    fit = ("fit", tmp_path / "d", "--output", tmp_path / "m", "--label-names", tmp_path / "names")
    assert the_error(capsys, *fit) == f"{tmp_path / 'names'} has 2 names; {tmp_path / 'd'} has the label 2"
    (tmp_path / "names").write_text("a\nb\na\n")
    assert "the name 'a' stands in several lines" in the_error(capsys, *fit)
    (tmp_path / "names").write_text("a\nb\nc\n")
    (tmp_path / "t.txt").write_text(as_text())
    message = the_error(capsys, *fit[:1], tmp_path / "t.txt", *fit[2:])
    assert message.endswith("t.txt has labels with names, such as 'animal'; --label-names is for numbers")


def test_numbers_and_their_names_are_the_same_labels(tmp_path, capsys):
    digits = as_text([str(int(kind == "vehicle")) for kind in KINDS])
    (tmp_path / "d.txt").write_text(digits)
    run("fit", tmp_path / "d.txt", "--output", tmp_path / "m", *QUICK)
    assert manyclass.load(tmp_path / "m").classes_.tolist() == [0, 1]
    (tmp_path / "padded.txt").write_text(as_text([f"0{int(kind == 'vehicle')}" for kind in KINDS]))
    run("fit", tmp_path / "padded.txt", "--output", tmp_path / "p", *QUICK)
    assert manyclass.load(tmp_path / "p").classes_.tolist() == ["00", "01"]  # 01 is a name: to print 1 would change it


# Which form


@pytest.mark.parametrize(
    ("line", "otherwise", "form"),
    [
        ("3 4 5", None, "xmc"),
        ("1,2 0:1 3:0.5", None, "xmc"),
        (" 0:1", None, "xmc"),
        ("", None, "xmc"),
        ("7", None, "xmc"),
        ("1 0:1 x:3", "xmc", "xmc"),
        ("-1 1:0.5", None, "svmlight"),
        ("cat 1:0.5 2:1e-3", None, "svmlight"),
        ("__label__a some words", None, "fasttext"),
        ("some words __label__a", "text", "fasttext"),
        ("some words\tlabel", None, "text"),
        ("some words", "text", "text"),
        ("3 4 5", "text", "text"),
        ("1 0:1", "text", "xmc"),
        ("a,b", "csv", "csv"),
    ],
)
def test_the_form_is_guessed_from_a_line(line, otherwise, form):
    assert form_of_line(line, otherwise, "d") == form


def test_what_has_no_known_form_is_refused_with_the_choices(tmp_path, capsys):
    (tmp_path / "d").write_text("some words without a tab\n")
    message = the_error(capsys, "fit", tmp_path / "d", "--output", tmp_path / "m")
    assert re.search(r"no form of data .* begins with 'some words without a tab'; name it by --format", message)


def test_options_that_a_form_does_not_use_are_refused(tmp_path, capsys):
    (tmp_path / "d.txt").write_text(as_text())
    (tmp_path / "x").write_text("0 0:1\n1 1:1\n")
    for name, options, message in (
        ("d.txt", ("--label-column", "a"), "--label-column is for csv, tsv, parquet; {} is read as text"),
        ("d.txt", ("--one-based",), "--one-based is for xmc, svmlight; {} is read as text"),
        ("d.txt", ("--cache",), "--cache is for xmc; {} is read as text"),
        ("x", ("--text-column", "a"), "--text-column is for csv, tsv, parquet; {} is read as xmc"),
        ("x", ("--label-separator", ";"), "--label-separator is for csv, tsv, parquet, text; {} is read as xmc"),
        ("x", ("--text-n-hash", 8), "--text-n-hash is for texts; {} is read as xmc"),
    ):
        found = the_error(capsys, "fit", tmp_path / name, "--output", tmp_path / "m", *options)
        assert found == message.format(tmp_path / name)


def test_bytes_that_are_no_text_and_files_cut_short_are_told(tmp_path, capsys):
    (tmp_path / "d.txt").write_bytes(b"one\ta\ntwo \xff\tb\n")
    fit = ("--output", tmp_path / "m")
    message = the_error(capsys, "fit", tmp_path / "d.txt", *fit)
    assert (
        message
        == f"{tmp_path / 'd.txt'}:2: byte 0xff is not UTF-8 text; if it is LATIN1, convert it: iconv -f LATIN1 -t UTF-8"
    )
    (tmp_path / "d.txt").write_bytes("one\ta\n".encode("utf-16"))
    assert the_error(capsys, "fit", tmp_path / "d.txt", *fit, "--text").endswith("iconv -f UTF-16 -t UTF-8")
    (tmp_path / "d.gz").write_bytes(gzip.compress(as_text().encode())[:-10])
    assert "d.gz: not a complete gz file" in the_error(capsys, "fit", tmp_path / "d.gz", *fit)


def test_a_label_that_a_row_has_twice_counts_once(tmp_path, capsys):
    (tmp_path / "t.txt").write_text("one ant\ta,b,a\none bee\tb\n" * 5)
    run("fit", tmp_path / "t.txt", "--output", tmp_path / "m", "--labels", "all", *QUICK)
    printed = capsys.readouterr()
    assert table(printed.out)["labels"] == "15"
    assert "labels that stand twice in a row count once: 5 left out" in printed.err


def test_ascii_blanks_stand_between_words_and_around_labels_and_no_others(tmp_path, capsys):
    odd = ["a\u00a0b", "a\u0085", "\u2028a", "a\x1c", "a"]
    labels = sorted(odd)
    forms = {"f.txt": "__label__{0} x{1}\n", "t.tsv": "x{1}\t {0}\x0b\n", "c.csv": "x{1}, {0}\t\n"}
    for name, line in forms.items():
        rows = "".join(line.format(label, at) for at, label in enumerate(odd)) * 4
        (tmp_path / name).write_text("t,label\n" * (name == "c.csv") + rows, encoding="utf-8", newline="\n")
        how = {"t.tsv": ["--text"], "c.csv": ["--text-column", "t"]}.get(name, [])
        run("fit", tmp_path / name, "--output", tmp_path / "m", *how, *QUICK)
        assert manyclass.load(tmp_path / "m").classes_.tolist() == labels
    (tmp_path / "d.csv").write_text("t,label\n" + "".join(f"{k},{label}\n" for k, label in enumerate(odd)))
    found = [label for _, y in Stream(tmp_path / "d.csv", shuffle=False) for label in y.tolist()]
    assert found == odd


def test_words_of_svmlight_that_are_no_numbers_stay_as_they_are(tmp_path, capsys):
    (tmp_path / "d.svm").write_text("".join(f"{label} 1:1\n" for label in ["1_0", "10", "1\uff12", "12", "nan"] * 3))
    run("fit", tmp_path / "d.svm", "--output", tmp_path / "m", *QUICK)
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["10", "12", "1_0", "1\uff12", "nan"]


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_labels_that_stand_before_texts_are_told(tmp_path, capsys, command):
    texts = [f"the number {k} of many texts" for k in range(40)]
    (tmp_path / "right.tsv").write_text("".join(f"{text}\t{'ab'[k % 2]}\n" for k, text in enumerate(texts)))
    (tmp_path / "wrong.tsv").write_text("".join(f"{'ab'[k % 2]}\t{text}\n" for k, text in enumerate(texts)))
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\tname of {k}\n" for k, text in enumerate(texts)))
    run("fit", tmp_path / "pairs.tsv", "--text", "--output", tmp_path / "m", *QUICK)  # whose labels are all distinct
    run("fit", tmp_path / "right.tsv", "--text", "--output", tmp_path / "m", *QUICK)
    capsys.readouterr()
    how = ("--output", tmp_path / "m") if command == "fit" else ()
    model = () if command == "fit" else (tmp_path / "m",)
    message = the_error(capsys, command, *model, tmp_path / "wrong.tsv", "--text", *how)
    assert message.endswith(
        "wrong.tsv: 40 rows have 2 texts and 40 labels, which have more words; a line is `text<TAB>label`, and it "
        "seems that labels stand before the texts"
    )


def test_a_named_pipe_is_read_once(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(as_text()))
    writer.start()
    run("fit", tmp_path / "pipe", "--output", tmp_path / "m", *QUICK)
    writer.join()
    assert manyclass.load(tmp_path / "m").classes_.tolist() == ["animal", "vehicle"]


def test_stdin_is_read_once(tmp_path, capsys):
    message = the_error(capsys, "fit", "-", "--test", "-", "--output", tmp_path / "m")
    assert message == "- is stdin, which can be read once; data and test are both -"


@pytest.mark.parametrize(
    ("classes", "written"),
    [
        (np.array([2**63 + 1, 2**63 + 2], np.uint64), ["9223372036854775809", "9223372036854775810"]),
        (np.array([2**60 + 1, 2**60 + 2]), ["1152921504606846977", "1152921504606846978"]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), ["2020-01-01", "2020-01-02"]),
        (np.array([False, True]), ["False", "True"]),
        (np.array(["a", "b" * 3000], dtype=object), ["a", "b" * 3000]),
    ],
    ids=["uint64", "int64", "date", "bool", "long"],
)
def test_labels_of_a_model_are_evaluated_excluded_and_learnt_as_they_are_written(tmp_path, capsys, classes, written):
    X = np.eye(2, dtype=np.float32).repeat(20, axis=0)
    named = pandas.DataFrame(X, columns=["f", "g"])
    SoftmaxClassifier(solver="implicit", max_iter=2).fit(named, classes.repeat(20)).save(tmp_path / "m")
    rows = [f"{x[0]:g},{x[1]:g},{written[at // 20]}\n" for at, x in enumerate(X)]
    (tmp_path / "d.csv").write_text("f,g,label\n" + "".join(rows))
    run("evaluate", tmp_path / "m", tmp_path / "d.csv", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["n_rows"], found["error"]) == (40, 0)
    run("predict", tmp_path / "m", tmp_path / "d.csv", "-k", 2, "--exclude-labels")
    best = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in best] == [written[1]] * 20 + [written[0]] * 20
    assert all(len(line.split("\t")) == 2 for line in best)
    run("learn", tmp_path / "m", tmp_path / "d.csv")
    learnt = manyclass.load(tmp_path / "m").classes_
    np.testing.assert_array_equal(learnt, classes, strict=True)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_escapes_of_data_and_names_do_not_reach_the_terminal(stream, tmp_path, capsys):
    escape = "\x1b[31m\x07"
    (tmp_path / f"{escape}.csv").write_text(f"a,b,{escape}\n1,2,x\n", encoding="utf-8")
    (tmp_path / "d.csv").write_text(f"a,{escape},label\n1,2,{escape}\n2,1,x\n1,1,{escape}\n", encoding="utf-8")
    for data, *options in (
        (f"{escape}.csv",),
        (f"no{escape}",),
        ("d.csv", f"--{escape}"),
        ("d.csv", "--solver", escape),
    ):
        run("fit", tmp_path / data, "--output", tmp_path / "m", *options, *stream, code=2)
        told = capsys.readouterr()
        assert "\\x1b" in told.err
        assert "\x1b" not in told.err + told.out
    run("fit", tmp_path / "d.csv", "--output", tmp_path / "m", "--solver", "implicit", "--max-iter", 1, *stream)
    run("info", tmp_path / "m")
    told = capsys.readouterr()
    assert "\x1b" not in told.err + told.out


@pytest.mark.parametrize("form", ["text", "table"])
def test_labels_that_are_several_in_one_are_hinted_at_and_divided_where_asked(tmp_path, capsys, form, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.choice(["red", "round", "big", "old"], rng.integers(1, 4), replace=False) for _ in range(60)]
    lines = [(" ".join(f"w{tag}" for tag in tags), "|".join(tags)) for tags in rows]
    data, how = tmp_path / "d.tsv", ("--text",) if form == "text" else ("--text-column", "text")
    head = "" if form == "text" else "text\tlabel\n"
    data.write_text(head + "".join(f"{text}\t{tags}\n" for text, tags in lines))
    run("fit", data, *how, "--output", tmp_path / "m")
    n_joined = sum("|" in tags for _, tags in lines)
    assert f"{n_joined} of 60 labels contain '|'; --label-separator '|' divides them" in capsys.readouterr().err
    run("fit", data, *how, "--label-separator", "|", "--output", tmp_path / "m")
    assert "contain" not in capsys.readouterr().err
    model = manyclass.load(tmp_path / "m")
    assert model.multilabel_
    assert model.classes_.tolist() == ["big", "old", "red", "round"]
    run("fit", data, *how, "--label-separator", "|", "--labels", "first", "--output", tmp_path / "m")
    assert not manyclass.load(tmp_path / "m").multilabel_
    data.write_text("text\tlabel\n" + "".join(f"{text}\tSmith{len(text)}, John\n" for text, _ in lines))
    capsys.readouterr()
    run("fit", data, "--text-column", "text", "--output", tmp_path / "m")
    assert "contain" not in capsys.readouterr().err
