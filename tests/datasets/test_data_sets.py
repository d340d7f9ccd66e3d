"""Data sets from what downloads bring: the standard splits, kept once, and the experiments that run on them."""

import bz2
import gzip
import hashlib
import io
import lzma
import re
import time
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from sklearn.feature_extraction.text import TfidfVectorizer

from manyclass.cli import main
from manyclass.datasets import fetch, load_xmc, sources
from manyclass.datasets.sources import SOURCES, content_digest, fetched_root, read_mulan


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data home, on a machine that has nothing."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    return tmp_path / "home/manyclass"


def put(home, monkeypatch, name, files, **changes):
    """Have files of a data set as if they had been downloaded, without a digest to compare them with."""
    folder = home / "downloads" / name
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    assert {file.name for file in SOURCES[name].files} == set(files)
    unknown = tuple(replace(file, checksum=None) for file in SOURCES[name].files)
    monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], files=unknown, **changes))


def mulan(X, Y, newline="\n"):
    """The sparse ARFF of Mulan."""
    head = ["@relation some", ""]
    head += [f"@attribute a{i} {{0,1}}" for i in range(X.shape[1] + Y.shape[1])]
    rows = []
    for i in range(X.shape[0]):
        columns = [*X.indices[X.indptr[i] : X.indptr[i + 1]]]
        columns += [X.shape[1] + j for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]]]
        rows.append(f"{{{','.join(f'{j} 1' for j in columns)}}}")
    return newline.join([*head, "", "@data", *rows, ""]).encode()


def toy(seed=0, n=(30, 12), n_features=9, n_labels=4):
    rng = np.random.default_rng(seed)
    parts = []
    for rows in n:
        labels = [sorted({int(j) for j in rng.integers(n_labels, size=2)}) for _ in range(rows)]
        words = [sorted({labels[i][0], *(int(j) for j in rng.integers(n_features, size=3))}) for i in range(rows)]
        parts.append((sources.indicator(words, n_features), sources.indicator(labels, n_labels)))
    return parts


def toy_bibtex(home, monkeypatch):
    """A data set of the name bibtex, small, from files in Mulan's form."""
    (train, test) = toy()

    def make(raw, folder, of_home):
        return sources._write(folder, *(read_mulan(raw / f"bibtex-{part}.arff", 9, 4) for part in ("train", "test")))

    files = {f"bibtex-{part}.arff": mulan(*data) for part, data in (("train", train), ("test", test))}
    put(home, monkeypatch, "bibtex", files, make=make, digest=content_digest(*train, *test))
    return train, test


def equal(a, b):
    return a.shape == b.shape and (a != b).nnz == 0


def test_the_addresses_are_whole_and_no_digest_is_made_up():
    for name, source in SOURCES.items():
        for file in source.files:
            assert file.url.startswith("https://"), name
            assert re.search(r"\.\w+$", file.name), name
            if file.checksum is not None:
                algorithm, _, digest = file.checksum.partition(":")
                assert re.fullmatch(r"[0-9a-f]+", digest), name
                assert len(digest) == 2 * hashlib.new(algorithm).digest_size, name
                assert len(set(digest)) > 8, name


def test_bibtex_is_mulans_and_the_file_of_the_published_digest_is_as_long_as_ours(data_dir, home, monkeypatch):
    parts = {part: load_xmc(data_dir / "bibtex" / f"{part}.txt.xz") for part in ("train", "test")}
    files = {f"bibtex-{part}.arff": mulan(*data) for part, data in parts.items()}
    # The lists of attributes are equally long in both files, so that the difference is that of the rows: it is that of
    # the files whose digests stand in the list.
    sizes = {"bibtex-train.arff": 2_292_961, "bibtex-test.arff": 1_215_637}
    found = {name: len(content) for name, content in files.items()}
    assert len({sizes[name] - found[name] for name in sizes}) == 1
    put(home, monkeypatch, "bibtex", files)
    data = fetch("bibtex")  # and warns of no difference
    for part, (X, Y) in parts.items():
        assert equal(getattr(data, f"X_{part}"), X)
        assert equal(getattr(data, f"Y_{part}"), Y)


def test_delicious_is_cut_where_mulan_cuts_it(data_dir, home, monkeypatch):
    parts = [load_xmc(data_dir / "delicious" / f"{part}.txt.xz") for part in ("train", "test")]
    heads = [mulan(X, Y) for X, Y in parts]
    union = heads[0] + heads[1].partition(b"@data\n")[2]
    put(home, monkeypatch, "delicious", {"delicious.arff": union})
    data = fetch("delicious")
    assert equal(data.Y_train, parts[0][1])
    assert equal(data.X_test, parts[1][0])


def openml(monkeypatch, X, y):
    """OpenML as a function that returns this; the questions it was asked."""
    asked = []

    def fetch_openml(**options):
        asked.append(options)
        return SimpleNamespace(data=X.astype(np.int64), target=y.astype(str).astype(object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return asked


def test_digits_are_openmls_first_and_last_ones(home, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.integers(256, size=(70, 784)).astype(np.uint8), rng.integers(10, size=70)
    asked = openml(monkeypatch, X, y)
    with pytest.raises(ValueError, match=r"what came as mnist has the shape \(70, 784\); it must have \(70000, 784\)"):
        fetch("mnist")
    monkeypatch.setattr(sources, "N_MNIST", (60, 10))
    with pytest.warns(UserWarning, match="mnist, as it was downloaded, differs from the data of the published figures"):
        data = fetch("mnist")
    assert [(options["data_id"], options["data_home"]) for options in asked] == [(554, str(home.parent))] * 2
    assert data.X_train.dtype == np.uint8
    assert data.Y_test.dtype == np.int64
    np.testing.assert_array_equal(data.X_test, X[60:])
    np.testing.assert_array_equal(data.Y_train, y[:60])


@pytest.mark.long
def test_digits_in_the_order_of_the_published_figures_warn_of_nothing(data_dir, home, monkeypatch):
    with np.load(data_dir / "mnist" / "mnist.npz") as arrays:
        X, y = (np.concatenate([arrays[f"{k}_train"], arrays[f"{k}_test"]]) for k in "xy")
    openml(monkeypatch, X, y)
    assert fetch("mnist").X_train.shape == (60_000, 784)


def test_newsgroups_are_scikit_learns_counts(home, monkeypatch):
    parts = dict(zip(("train", "test"), toy(n_features=25, n_labels=20), strict=True))

    def fetch_vectorized(*, subset, normalize, **_):
        assert not normalize
        X, Y = parts[subset]
        return 3 * X, np.array([Y.indices[a] for a in Y.indptr[:-1]])

    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups_vectorized", fetch_vectorized)
    data = fetch("20news")
    assert equal(data.X_train, 3 * parts["train"][0])
    assert data.Y_train.shape == (30, 20)
    np.testing.assert_array_equal(np.diff(data.Y_test.indptr), 1)


def test_characters_are_split_by_their_drawers(home, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow, which is not installed")
    files, inks = {}, {}
    for part in ("background", "evaluation"):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for character in ("Latin/character02", "Latin/character01"):
                for drawer in (1, 16, 17, 20):
                    dots = np.full((105, 105), 255, np.uint8)
                    dots[15 * len(inks) // 4 : 15 * len(inks) // 4 + 15] = 0
                    inks[part, character, drawer] = dots
                    png = io.BytesIO()
                    image.fromarray(dots).convert("1").save(png, "PNG")
                    archive.writestr(f"images_{part}/{character}/0001_{drawer:02d}.png", png.getvalue())
            archive.writestr(f"__MACOSX/images_{part}/Latin/character01/._0001_01.png", b"no image")
        files[f"images_{part}.zip"] = content.getvalue()
    put(home, monkeypatch, "omniglot", files)
    data = fetch("omniglot")
    assert data.Y_train.tolist() == data.Y_test.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    dots = 255.0 - inks["background", "Latin/character01", 17]
    # A mean of means of areas of 3.75 x 3.75 dots, each rounded to a whole number.
    assert data.X_test[0].mean() == pytest.approx(dots.mean(), abs=0.5)
    assert {0, 255} <= set(np.unique(data.X_test[0]).tolist())  # ink is 255


def test_laws_are_their_most_frequent_words(home, monkeypatch):
    monkeypatch.setattr(sources, "N_EURLEX", (3, 1))
    texts = {
        "train": "100 20\tfish fish net\n3\tnet trade\n",
        "val": "7\t20\ttrade law\n",
        "test": "100\tlaw fish unheard\n",
    }
    files = {f"eurlex57k_raw_texts_{part}.txt.bz2": bz2.compress(text.encode()) for part, text in texts.items()}
    put(home, monkeypatch, "eurlex57k", files)
    data = fetch("eurlex57k")
    vectorizer = TfidfVectorizer().fit(["fish fish net", "net trade", "trade law"])
    expected = vectorizer.transform(["law fish unheard"]).toarray()
    np.testing.assert_allclose(data.X_test.toarray(), expected, rtol=1e-6)  # float32
    assert data.Y_train.toarray().tolist() == [[0, 1, 1], [1, 0, 0], [0, 1, 0]]  # 3, 20, 100
    monkeypatch.setattr(sources, "N_EURLEX", (4, 1))
    put(home / "other/manyclass", monkeypatch, "eurlex57k", files)
    with pytest.raises(ValueError, match=r"what came as eurlex57k has the shape \(3,\); it must have \(4,\)"):
        fetch("eurlex57k", data_home=home / "other")
    assert not (home / "other/manyclass/eurlex57k").exists()


def places(home, monkeypatch, visited, held_out, **changes):
    """Lists of places as LightGCN has them."""

    def lines(Z):
        rows = [Z.indices[a:b].tolist() for a, b in zip(Z.indptr[:-1], Z.indptr[1:], strict=True)]
        return "".join(f"{' '.join(map(str, [i, *row]))}\n" for i, row in enumerate(rows)).encode()

    put(home, monkeypatch, "gowalla", {"train.txt": lines(visited), "test.txt": lines(held_out)}, **changes)
    return fetch("gowalla")


def test_places_are_halved_to_train_on_and_held_out_ones_are_the_test(home, monkeypatch):
    (visited, held_out), _ = toy(n=(40, 1), n_features=20, n_labels=20)
    data = places(home, monkeypatch, visited, held_out, digest=content_digest(visited, held_out))
    assert equal(data.X_test, visited)
    assert equal(data.Y_test, held_out)
    assert equal(data.X_train + data.Y_train, visited)
    assert set(np.diff(data.X_train.indptr) - np.diff(data.Y_train.indptr)) == {0, 1}


@pytest.mark.long
def test_places_held_out_are_those_of_the_published_figures(data_dir, home, monkeypatch):
    X, Y = load_xmc(data_dir / "gowalla" / "test.txt.xz")
    assert equal(places(home, monkeypatch, X, Y).X_test, X)  # and it warns of nothing


def test_titles_are_a_text_for_word_vectors(home, monkeypatch):
    rows = 'Zero-waste HOME : "the ultimate" guide\t<http://x/1>\nÄiti\t<http://x/2>\n1984\t<http://x/3>\n'
    content = gzip.compress(rows.encode())
    put(home, monkeypatch, "yso-titles", {"yso-finna-en-02.tsv.gz": content}, digest=None)
    data = fetch("yso-titles")
    assert data.path == home / "text/yso-titles.txt.xz"
    assert lzma.decompress(data.path.read_bytes()).decode() == "zero waste home the ultimate guide\niti\n"
    assert data.X_train is data.Y_test is None


def test_data_are_made_once_and_nothing_of_a_failure_stays(home, monkeypatch):
    train, _ = toy_bibtex(home, monkeypatch)
    with pytest.raises(FileNotFoundError, match=r"bibtex does not exist, and download is False"):
        fetch("bibtex", download=False)
    make = SOURCES["bibtex"].make

    def fail(*arguments):
        make(*arguments)
        raise OSError("the disk is full")

    monkeypatch.setitem(SOURCES, "bibtex", replace(SOURCES["bibtex"], make=fail))
    with pytest.raises(OSError, match="the disk is full"):
        fetch("bibtex")
    assert sorted(path.name for path in home.iterdir()) == ["downloads"]
    monkeypatch.setitem(SOURCES, "bibtex", replace(SOURCES["bibtex"], make=make))
    assert equal(fetch("bibtex").X_train, train[0])
    monkeypatch.setitem(SOURCES, "bibtex", replace(SOURCES["bibtex"], make=fail))
    assert equal(fetch("bibtex", download=False).X_train, train[0])
    assert sorted(path.name for path in home.iterdir()) == ["bibtex", "downloads"]


def test_what_cannot_be_is_refused(home, tmp_path):
    with pytest.raises(ValueError, match="name is 'atlantis'; it must be one of 'bibtex', 'delicious', 'mnist'"):
        fetch("atlantis")
    with pytest.raises(TypeError, match="download is 'no'; it must be True or False"):
        fetch("bibtex", download="no")
    assert fetched_root(tmp_path / "x") == tmp_path / "x/manyclass"
    assert fetched_root() == home
    dense = tmp_path / "dense.arff"
    dense.write_text("@attribute a {0,1}\n@attribute b {0,1}\n% a comment\n@DATA\n1,0\n")
    with pytest.raises(ValueError, match=r"dense\.arff: the row '1,0' is not in the sparse form"):
        read_mulan(dense, 1, 1)
    dense.write_text("@attribute a {0,1}\n@attribute b {0,1}\n@data\n{0 1}\n{}\n{0 0,1 '1'}\n")
    assert [Z.toarray().tolist() for Z in read_mulan(dense, 1, 1)] == [[[1], [0], [0]], [[0], [0], [1]]]
    with pytest.raises(ValueError, match=r"has 2 attributes; it must have 2 \+ 1"):
        read_mulan(dense, 2, 1)


def test_the_default_root_is_scikit_learns(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    assert str(fetched_root().parent) == sklearn.datasets.get_data_home()
    monkeypatch.delenv("SCIKIT_LEARN_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert str(fetched_root().parent) == sklearn.datasets.get_data_home()


def test_an_experiment_runs_on_what_it_fetches(home, monkeypatch, tmp_path, capsys):
    toy_bibtex(home, monkeypatch)
    unreachable = tuple(replace(file, url="http://127.0.0.1:9/nowhere") for file in SOURCES["delicious"].files)
    monkeypatch.setitem(SOURCES, "delicious", replace(SOURCES["delicious"], files=unreachable))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between attempts
    monkeypatch.chdir(tmp_path)
    race = ["experiment", "race", "--data", "bibtex", "delicious", "yso-en", "--methods", "implicit", "--max-iter", "2"]
    assert main([*race, "--seconds", "0.1", "--output", "out"]) == 2
    assert re.search("skipped bibtex: .*MANYCLASS_DATA is not set, .*; --fetch downloads it", capsys.readouterr().err)
    assert main([*race, "--seconds", "0.1", "--output", "out", "--fetch"]) == 0
    told = capsys.readouterr()
    assert "fetching bibtex: Mulan's bibtex" in told.err
    assert "delicious could not be fetched: http://127.0.0.1:9/nowhere: " in told.err
    assert "skipped delicious" in told.err
    assert re.search("skipped yso-en: .*; it cannot be fetched", told.err)
    assert "2 runs made" in told.out
    assert main([*race, "--seconds", "0.1", "--output", "out2"]) == 0  # they stay where they are
