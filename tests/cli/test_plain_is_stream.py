"""A plain file and --stream read the same rows, and predict answers each: a table of forms and of oddities."""

import gzip

import numpy as np
import pytest
from test_command import run, the_error

import manyclass
from manyclass.datasets import load_xmc, save_csr

QUICK = ("--solver", "implicit", "--learning-rate", 0.5, "--max-iter", 2, "--random-state", 0, "--n-jobs", 1)
N = 12  # rows without oddities
NUMBERS = range(N)
TEXTS = [f"ant bee{i % 2}" for i in NUMBERS]
LABELS = [f"{'xyz'[i % 3]}" for i in NUMBERS]
NUMBERED = [f"{i % 3}:1 {3 + i % 4}:0.5" for i in NUMBERS]
BASED_ON_1 = [f"{1 + i % 3}:1 {4 + i % 4}:0.5" for i in NUMBERS]

# Each form: the name of its file, options, lines before the rows, and rows, of which a row without a label, without
# features (or words), and a blank one are made, too.
FORMS = {
    "text": ("d.txt", (), [], [f"{text}\t{label}" for text, label in zip(TEXTS, LABELS, strict=True)]),
    "text by option": ("d.tsv", ("--text",), [], [f"{t}\t{label}" for t, label in zip(TEXTS, LABELS, strict=True)]),
    "fasttext": ("d.ft", (), [], [f"__label__{label} {t}" for t, label in zip(TEXTS, LABELS, strict=True)]),
    "xmc": ("d", (), [], [f"{i % 3} {row}" for i, row in enumerate(NUMBERED)]),
    "xmc with a header": ("h.txt", (), ["HEADER"], [f"{i % 3} {row}" for i, row in enumerate(NUMBERED)]),
    "svmlight": ("d.svm", (), [], [f"{i % 3} {row}" for i, row in enumerate(BASED_ON_1)]),
    "svmlight with words": ("w.svm", (), [], [f"{LABELS[i]} {row}" for i, row in enumerate(BASED_ON_1)]),
    "svmlight with signs": ("s.svm", (), [], [f"{i % 3 - 1:+d} {row}" for i, row in enumerate(NUMBERED)]),
    "csv": ("d.csv", (), ["a,b,label"], [f"{i % 3},{i % 4},{LABELS[i]}" for i in NUMBERS]),
    "csv of numbers": ("n.csv", (), ["a,b,label"], [f"{i % 3},{i % 4},{i % 3}" for i in NUMBERS]),
    "tsv": ("d.tsv", (), ["a\tb\tlabel"], [f"{i % 3}\t{i % 4}\t{LABELS[i]}" for i in NUMBERS]),
    "tsv with a delimiter": ("d.tab", ("--delimiter", ";"), ["a;b;label"], [f"{i % 3};1;{LABELS[i]}" for i in NUMBERS]),
}
NUMBERED_FORMS = [form for form in FORMS if form.startswith(("xmc", "svmlight"))]
TEXT_FORMS = ["text", "text by option", "fasttext"]
TABLES = [form for form in FORMS if form.startswith(("csv", "tsv"))]


def with_header(lines):
    """The first line counts the rows."""
    return [f"{len(lines) - 1} 8 9" if line == "HEADER" else line for line in lines]


def as_bytes(head, rows, end="\n", last_end=True, mark=""):
    lines = with_header([*head, *rows])
    return (mark + end.join(lines) + (end if last_end else "")).encode()


def without_label(form, row):
    if form in NUMBERED_FORMS:
        return " " + row.split(" ", 1)[1]
    if form == "fasttext":
        return row.split(" ", 1)[1]
    return row[: max(row.rfind(mark) for mark in "\t,;") + 1]


# Each oddity: what it makes of a form's lines, how many rows, which do not train, it adds, and the forms that have it.
ODDITIES = {
    "none": (lambda form, head, rows: as_bytes(head, rows), 0, FORMS),
    "no last end": (lambda form, head, rows: as_bytes(head, rows, last_end=False), 0, FORMS),
    "CRLF": (lambda form, head, rows: as_bytes(head, rows, end="\r\n"), 0, FORMS),
    "byte order mark": (lambda form, head, rows: as_bytes(head, rows, mark="\ufeff"), 0, FORMS),
    "without a label": (
        lambda form, head, rows: as_bytes(head, [*rows, without_label(form, rows[0]), without_label(form, rows[1])]),
        2,
        FORMS,
    ),
    "blank": (
        lambda form, head, rows: as_bytes(head, [*rows[:3], "", " \t" if form in NUMBERED_FORMS else "", *rows[3:]]),
        2,
        [*TEXT_FORMS, *NUMBERED_FORMS],
    ),
    "blank at the end": (
        lambda form, head, rows: as_bytes(head, [*rows, "", ""]),
        2,
        [*TEXT_FORMS, *NUMBERED_FORMS],
    ),
    "blank behind a table": (lambda form, head, rows: as_bytes(head, rows) + b"\n\r\n", 0, TABLES),
    "without a word": (
        lambda form, head, rows: as_bytes(
            head, [*rows, *({"fasttext": ["__label__q ?", "__label__x ."]}.get(form, ["?\tq", ".\tx"]))]
        ),
        2,
        TEXT_FORMS,
    ),
    "without a feature": (lambda form, head, rows: as_bytes(head, [*rows, "5", "2 3:0"]), 2, NUMBERED_FORMS[:3]),
    "comments": (
        lambda form, head, rows: as_bytes(head, [f"{row} # a, b: c" for row in rows]) + b"# the end\n",
        0,
        NUMBERED_FORMS,
    ),
    "quoted cells": (
        lambda form, head, rows: as_bytes(head, [f'"{rows[0][0]}"{rows[0][1:-1]}"{rows[0][-1]}"', *rows[1:]]),
        0,
        TABLES,
    ),
    "one column": (
        lambda form, head, rows: as_bytes(
            [cut(line) for line in head] if form in TABLES else head, [cut(row) for row in rows]
        ),
        0,
        [*TABLES, *NUMBERED_FORMS],
    ),
}


def cut(line):
    """The first feature and the label alone."""
    for mark in "\t,;":
        if mark in line:
            cells = line.split(mark)
            return f"{cells[0]}{mark}{cells[2]}"
    return " ".join(line.split(" ")[:2])


CASES = [(form, oddity) for oddity, (_, _, forms) in ODDITIES.items() for form in forms]


def facts(path):
    """What a model tells of the rows that it was fitted on."""
    model = manyclass.load(path)
    vectorizer = getattr(model, "vectorizer_", None)
    return (
        model.classes_.dtype.kind,
        model.classes_.tolist(),
        model.class_count_.tolist(),
        model.n_features_in_,
        getattr(model, "feature_names_in_", np.zeros(0)).tolist(),
        None if vectorizer is None else (vectorizer.vocabulary_.tolist(), vectorizer.idf_.tolist()),
        manyclass.classifiers.saving.load_notes(path),
    )


PACKED = [(form, oddity, True) for form, oddity in CASES if oddity in ("none", "byte order mark")]


@pytest.mark.parametrize(("form", "oddity", "packed"), [*((*case, False) for case in CASES), *PACKED])
def test_a_plain_file_is_a_stream_of_one_part(form, oddity, packed, tmp_path, capsys):
    name, options, head, rows = FORMS[form]
    make, n_more, _ = ODDITIES[oddity]
    content = make(form, head, rows)
    data = tmp_path / (f"{name}.gz" if packed else name)
    data.write_bytes(gzip.compress(content) if packed else content)
    labels = LABELS if form not in NUMBERED_FORMS or "words" in form else [i % 3 for i in NUMBERS]
    labels = [i % 3 - 1 for i in NUMBERS] if "signs" in form else [i % 3 for i in NUMBERS] if "of" in form else labels
    for several in ("first",) if form in TABLES else ("first", "all"):
        found = []
        for how in ((), ("--stream",)):
            run("fit", data, "--output", tmp_path / "m", *QUICK, *options, "--labels", several, *how)
            found.append(facts(tmp_path / "m"))
        assert found[0] == found[1]
        assert found[0][1] == sorted(set(labels))
        assert found[0][2] == [labels.count(label) for label in sorted(set(labels))]
    capsys.readouterr()
    run("predict", tmp_path / "m", data, *options, "-k", 1)
    answers = capsys.readouterr().out.splitlines()
    assert len(answers) == N + n_more
    text = content.decode().removeprefix("\ufeff").splitlines()
    if oddity != "blank behind a table":  # a row for each line that is no header and no comment
        assert len(answers) == len([line for line in text if not line.startswith("#")]) - len(head)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
@pytest.mark.parametrize("form", FORMS)
def test_a_single_row_has_one_class(form, stream, tmp_path, capsys):
    name, options, head, rows = FORMS[form]
    (tmp_path / name).write_bytes(as_bytes(head, rows[:1]))
    for labels, told in (("first", "y has one class"), ("all", "y has 1 columns")):
        if labels == "first" or form not in TABLES:
            fit = ("fit", tmp_path / name, "--output", tmp_path / "m", *QUICK, *options, "--labels", labels, *stream)
            assert told in the_error(capsys, *fit)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
@pytest.mark.parametrize("form", TABLES)
def test_a_blank_line_within_a_table_is_told_by_its_number(form, stream, tmp_path, capsys):
    name, options, head, rows = FORMS[form]
    (tmp_path / name).write_bytes(as_bytes(head, [*rows[:3], "", *rows[3:]]))
    fit = ("fit", tmp_path / name, "--output", tmp_path / "m", *QUICK, *options, *stream)
    assert f"{name}:5: the line is blank; it must have a cell for each column" in the_error(capsys, *fit)


@pytest.mark.parametrize("form", ["parquet", "binary"])
def test_binary_forms_are_read_whole_and_in_parts(form, tmp_path, capsys):
    if form == "binary":
        (tmp_path / "d").write_bytes(as_bytes(["HEADER"], FORMS["xmc"][3]))
        save_csr(tmp_path / "d.safetensors", *load_xmc(tmp_path / "d"))
        data, classes = tmp_path / "d.safetensors", [0, 1, 2]
    else:
        pandas, data, classes = pytest.importorskip("pandas"), tmp_path / "d.parquet", [2**60 + 1, 2**60 + 2, 2**60 + 3]
        pytest.importorskip("pyarrow")
        labels = pandas.array([classes[i % 3] for i in NUMBERS] + [None], dtype="Int64")
        frame = pandas.DataFrame({"a": np.arange(N + 1.0), "label": labels})
        frame.to_parquet(data, index=False)
    found = []
    for how in ((), ("--stream",)):
        run("fit", data, "--output", tmp_path / "m", *QUICK, *how)
        found.append(facts(tmp_path / "m"))
    assert found[0] == found[1]
    assert found[0][1:3] == (classes, [4.0, 4.0, 4.0])
    capsys.readouterr()
    run("predict", tmp_path / "m", data, "-k", 1)
    assert len(capsys.readouterr().out.splitlines()) == N + (form == "parquet")
