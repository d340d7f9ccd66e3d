"""Data sets for a machine that has none: downloaded once, made into the files that the package reads, and kept.

Digests of the files of bibtex and delicious are those of the pointers that their repository keeps in their place (Git
LFS); those of omniglot are torchvision's. The other files have no published digest, so that the first download is
trusted. No server could be reached where this was written: the addresses were found in others' programs, and a data set
that should be the one of the published figures is compared with it by a digest of its content.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import importlib.resources
import io
import lzma
import os
import re
import socket
import tempfile
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass import _core
from manyclass.checks import check_choice, check_flag, csr_parts
from manyclass.datasets.csr import indicator, ones_at
from manyclass.datasets.xmc import load_xmc

TEXTS = "text"  # folder of running texts, a file for each
RETRIES = 3  # after 1, 2 and 3 seconds
MNIST_ID = 554  # OpenML's number of mnist_784
N_MNIST = 60_000, 10_000  # rows to train on, which are the first ones, and to test on
N_DELICIOUS = 12_920  # rows to train on, the first ones of Mulan's union of both parts
N_EURLEX = 51_000, 6_000
EURLEX_WORDS = 5_000
TRAIN_DRAWERS = 16  # of the 20 who drew each character of Omniglot
SIDE = 28
PARTS = ("x_train", "y_train", "x_test", "y_test")  # of a file of images

Labelled = tuple[sp.csr_array, sp.csr_array]
Make = Callable[[Path, Path, Path], str]


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address.

    Attributes
    ----------
    url : str
        Where it is; http or https.
    name : str
        What it is called on disk.
    checksum : str or None
        "sha256:" or "md5:" and its digest. None: nobody has published one, so the digest of the first download is kept
        beside the file, and a later download must have the same.
    """

    url: str
    name: str
    checksum: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set that can be had.

    Attributes
    ----------
    about : str
        What it is and where from, in a sentence or two.
    make : callable
        Writes the data set's files into a folder, from the folder of what was downloaded; returns a digest of what it
        has made. A further argument: the data home of scikit-learn.
    files : tuple of RemoteFile
        What is downloaded. None: `make` leaves that to scikit-learn.
    digest : str or None
        What `make` returns for the data of the published figures; None if these were made otherwise.
    text : bool
        Whether it is running text, for word vectors.
    """

    about: str
    make: Make
    files: tuple[RemoteFile, ...] = ()
    digest: str | None = None
    text: bool = False


def content_digest(*arrays: NDArray[Any] | sp.csr_array) -> str:
    """SHA-256 of the shapes and values of arrays, and of CSR matrices with sorted indices."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode())
        parts = [array] if isinstance(array, np.ndarray) else csr_parts(array.sorted_indices())
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _write(folder: Path, train: Labelled, test: Labelled) -> str:
    """Write train.txt and test.txt in the XMC repository's form."""
    from sklearn.datasets import dump_svmlight_file  # late: it takes longer to import than all else here

    for part, (X, Y) in (("train", train), ("test", test)):
        with open(folder / f"{part}.txt", "wb") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
            dump_svmlight_file(sp.csr_matrix(X), sp.csr_matrix(Y), file, multilabel=True)
    return content_digest(*train, *test)


def _write_images(folder: Path, name: str, *arrays: NDArray[Any]) -> str:
    images = dict(zip(PARTS, arrays, strict=True))
    np.savez_compressed(folder / name, allow_pickle=False, **images)
    return content_digest(*(images[key] if key.startswith("x") else images[key].astype(np.int64) for key in PARTS))


def read_mulan(path: Path, n_features: int, n_labels: int) -> Labelled:
    """Read Mulan's sparse ARFF of zeros and ones: features, then labels."""
    n_attributes, indptr, columns = _core.read_sparse_arff(path.read_bytes(), str(path))
    if n_attributes != n_features + n_labels:
        raise ValueError(f"{path} has {n_attributes} attributes; it must have {n_features} + {n_labels}")
    table = ones_at(columns, np.diff(indptr), n_attributes)
    return sp.csr_array(table[:, :n_features]), sp.csr_array(table[:, n_features:])


def _bibtex(raw: Path, folder: Path, home: Path) -> str:
    train, test = (read_mulan(raw / f"bibtex-{part}.arff", 1836, 159) for part in ("train", "test"))
    return _write(folder, train, test)


def _delicious(raw: Path, folder: Path, home: Path) -> str:
    X, Y = read_mulan(raw / "delicious.arff", 500, 983)
    return _write(folder, (X[:N_DELICIOUS], Y[:N_DELICIOUS]), (X[N_DELICIOUS:], Y[N_DELICIOUS:]))


def _mnist(raw: Path, folder: Path, home: Path) -> str:
    from sklearn.datasets import fetch_openml

    # Not parser="pandas": pandas 3 reads the classes as integers, on which scikit-learn 1.9 fails.
    data_set = fetch_openml(data_id=MNIST_ID, data_home=str(home), as_frame=False, parser="liac-arff")
    X, y = np.asarray(data_set.data).astype(np.uint8), np.asarray(data_set.target).astype(np.uint8)
    n_train, n_test = N_MNIST
    _check_rows("mnist", X.shape, (n_train + n_test, SIDE * SIDE))
    return _write_images(folder, "mnist.npz", X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _newsgroups(raw: Path, folder: Path, home: Path) -> str:
    from sklearn.datasets import fetch_20newsgroups_vectorized

    options = {"data_home": str(home), "normalize": False, "return_X_y": True}
    parts = (fetch_20newsgroups_vectorized(subset=subset, **options) for subset in ("train", "test"))
    train, test = ((sp.csr_array(X), ones_at(y, np.ones(len(y)), 20)) for X, y in parts)
    return _write(folder, train, test)


def _omniglot(raw: Path, folder: Path, home: Path) -> str:
    if not find_spec("PIL"):
        raise ImportError("omniglot is a set of PNG files, which need Pillow to be read: pip install pillow")
    images: list[tuple[str, int, NDArray[np.uint8]]] = []  # with their characters and who drew them
    for part in ("images_background", "images_evaluation"):
        with zipfile.ZipFile(raw / f"{part}.zip") as archive:
            names = (re.fullmatch(rf"({part}/.+/.+)/\d+_(\d+)\.png", name) for name in sorted(archive.namelist()))
            images += [(match[1], int(match[2]), _ink(archive.read(match[0]))) for match in names if match]
    characters, drawers, inks = zip(*sorted(images, key=lambda image: image[0]), strict=True)
    X, y = np.array(inks), np.unique(characters, return_inverse=True)[1].astype(np.int32)
    is_train = np.array(drawers) <= TRAIN_DRAWERS
    return _write_images(folder, "omniglot28.npz", X[is_train], y[is_train], X[~is_train], y[~is_train])


def _ink(png: bytes) -> NDArray[np.uint8]:
    """An image as 784 numbers, ink 255, each the mean of its part of the 105 x 105 dots."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        small = image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.subtract(255, np.asarray(small, dtype=np.uint8)).ravel()


def _eurlex(raw: Path, folder: Path, home: Path) -> str:
    from sklearn.feature_extraction.text import TfidfVectorizer

    train, val, test = (list(_texts(raw / f"eurlex57k_raw_texts_{part}.txt.bz2")) for part in ("train", "val", "test"))
    split = [train + val, test]
    codes = sorted({code for rows in split for labels, _ in rows for code in labels}, key=lambda c: (len(c), c))
    number = {code: i for i, code in enumerate(codes)}
    vectorizer = TfidfVectorizer(max_features=EURLEX_WORDS, dtype=np.float32)
    vectorizer.fit(text for _, text in split[0])
    split_rows = []
    for rows, n_rows in zip(split, N_EURLEX, strict=True):
        _check_rows("eurlex57k", (len(rows),), (n_rows,))
        X = sp.csr_array(vectorizer.transform([text for _, text in rows]))
        split_rows.append((X, indicator([[number[code] for code in labels] for labels, _ in rows], len(codes))))
    return _write(folder, *split_rows)


def _texts(path: Path) -> Iterator[tuple[list[str], str]]:
    """Labels and text of each line ``labels TAB text``, with or without a number before them."""
    with bz2.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            *_, labels, text = line.rstrip("\n").split("\t")
            yield labels.split(), text


def _gowalla(raw: Path, folder: Path, home: Path) -> str:
    """A person's places to those that are held out; to train on, half of the former to the others, drawn here."""
    visited, held_out = (_places(raw / f"{part}.txt") for part in ("train", "test"))
    people = sorted(visited)
    n_places = 1 + max(max(places) for of in (visited, held_out) for places in of.values() if places)
    rng = np.random.default_rng(0)
    halves = [np.array_split(rng.permutation(visited[person]), 2) for person in people]
    train = tuple(indicator([sorted(half[i].tolist()) for half in halves], n_places) for i in (0, 1))
    test = tuple(indicator([sorted(of.get(person, [])) for person in people], n_places) for of in (visited, held_out))
    _write(folder, (train[0], train[1]), (test[0], test[1]))
    return content_digest(*test)


def _places(path: Path) -> dict[int, list[int]]:
    lines = ([int(number) for number in line.split()] for line in path.read_text(encoding="utf-8").splitlines())
    return {numbers[0]: numbers[1:] for numbers in lines if numbers}


def _yso_titles(raw: Path, folder: Path, home: Path) -> str:
    digest = hashlib.sha256()
    with (
        gzip.open(raw / "yso-finna-en-02.tsv.gz", "rt", encoding="utf-8", newline="") as titles,
        lzma.open(folder / "yso-titles.txt.xz", "wb") as out,
    ):
        for row in csv.reader(titles, delimiter="\t", quoting=csv.QUOTE_NONE):
            words = re.findall("[a-z]+", row[0].lower()) if row else []
            if words:
                line = f"{' '.join(words)}\n".encode()
                digest.update(line)
                out.write(line)
    return digest.hexdigest()


def _check_rows(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise ValueError(f"what came as {name} has the shape {shape}; it must have {wanted}")


_MAKERS = {
    "bibtex": _bibtex,
    "delicious": _delicious,
    "mnist": _mnist,
    "omniglot": _omniglot,
    "20news": _newsgroups,
    "eurlex57k": _eurlex,
    "gowalla": _gowalla,
    "yso-titles": _yso_titles,
}


def _source(make: Make, folder: str = "", files: Sequence[Mapping[str, Any]] = (), **facts: Any) -> Source:
    """Return a data set as sources.toml tells of it."""
    remote = tuple(RemoteFile(f"{folder}/{file['name']}", **file) for file in files)
    return Source(make=make, files=remote, **facts)


_FACTS = importlib.resources.files("manyclass.datasets").joinpath("sources.toml").read_text(encoding="utf-8")
SOURCES = {name: _source(_MAKERS[name], **facts) for name, facts in tomllib.loads(_FACTS).items()}


# Fetching


@dataclass(frozen=True)
class Fetched:
    """A data set in two parts.

    Attributes
    ----------
    X_train : csr_array or ndarray of shape (n_samples, n_features), float32 or uint8; None for running text
        Features; of images the dots, 0 to 255.
    Y_train : csr_array of shape (n_samples, n_labels), float32, or ndarray of shape (n_samples,), int64; None
        Ones at the labels of each row; of images the class.
    X_test : csr_array or ndarray, or None
        Features of the rows to test on.
    Y_test : csr_array or ndarray, or None
        Their labels.
    path : Path
        The folder of ``train.txt`` and ``test.txt`` in the XMC repository's form, the ``.npz`` of images, or the text.
    about : str
        What the data are and where they come from.
    """

    X_train: sp.csr_array | NDArray[np.uint8] | None
    Y_train: sp.csr_array | NDArray[np.int64] | None
    X_test: sp.csr_array | NDArray[np.uint8] | None
    Y_test: sp.csr_array | NDArray[np.int64] | None
    path: Path
    about: str


def fetched_root(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of fetched data: ``manyclass`` in scikit-learn's data home, which need not exist."""
    home = data_home or os.environ.get("SCIKIT_LEARN_DATA") or Path("~") / "scikit_learn_data"
    return Path(home).expanduser() / "manyclass"


def fetch(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: bool = False,
    timeout: float = 30.0,
) -> Fetched:
    """Download a data set of the experiments, unless it is there, and read it.

    What is downloaded is verified, by a published digest where there is one; of a file without one, the digest of the
    first download is kept beside it, and a later download must have the same. It is then made into files that
    `load_xmc` and the experiments read, and kept with them. A download that fails is tried again three times.

    Parameters
    ----------
    name : {"bibtex", "delicious", "mnist", "omniglot", "20news", "eurlex57k", "gowalla", "yso-titles"}
        The data set; `Fetched.about` says what it is. "omniglot" needs Pillow.
    data_home : path, optional
        Folder to keep data in; scikit-learn's by default, which the environment variable SCIKIT_LEARN_DATA names.
    download : bool, default=True
        Whether to download what is not there; else that is an error.
    progress : bool, default=False
        Whether to show a bar on stderr.
    timeout : float, default=30.0
        Seconds that a server may send nothing.

    Returns
    -------
    Fetched
        X_train, Y_train, X_test and Y_test. Texts are counts or weights of words in CSR, with an indicator matrix of
        labels; images are rows of dots, with a class each. For running text they are None, and `path` is the file.

    Raises
    ------
    ValueError
        If the name is not among them, or what came is not that data set.
    FileNotFoundError
        If the data are not there, with download=False.
    OSError
        If a file cannot be had or is not the one that is expected, or the disk is full.
    ImportError
        Without pooch, the extra 'fetch', or for "omniglot" without Pillow.

    Examples
    --------
    >>> from manyclass.datasets import fetch
    >>> data = fetch("bibtex")  # doctest: +SKIP
    >>> data.X_train.shape, data.Y_train.shape  # doctest: +SKIP
    ((4880, 1836), (4880, 159))
    """
    check_choice("name", name, tuple(SOURCES))
    check_flag("download", download)
    root = fetched_root(data_home)
    source = SOURCES[name]
    if not _place(root, name).exists():
        if not download:
            raise FileNotFoundError(f"{_place(root, name)} does not exist, and download is False")
        _make(name, source, root, timeout, progress)
    return _read(name, source, root)


def bring(file: RemoteFile, folder: Path, *, timeout: float, progress: bool = False) -> Path:
    """Download a file to a folder by pooch, unless it is there; only a whole file with its digest gets its name.

    Raises
    ------
    OSError
        If it cannot be had or has another digest.
    ImportError
        Without pooch.
    """
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'manyclass[fetch]'") from error
    record = folder / f"{file.name}.digest"
    recorded = record.read_text(encoding="utf-8").strip() if record.exists() else None
    get = pooch.HTTPDownloader(progressbar=progress, timeout=timeout)
    digest, urls = {file.name: file.checksum or recorded}, {file.name: file.url}
    try:
        files = pooch.create(folder, "", registry=digest, urls=urls, retry_if_failed=RETRIES)
        path = Path(files.fetch(file.name, downloader=get))
    except (ValueError, OSError) as error:  # another digest, or one of requests' errors
        hint = f"; if the file has been renewed, delete {record}" if recorded and not file.checksum else ""
        raise OSError(f"{file.url}: {error}{hint}") from error
    if file.checksum is None and recorded is None:
        record.write_text(f"sha256:{pooch.file_hash(str(path))}\n", encoding="utf-8")
    return path


def _place(root: Path, name: str) -> Path:
    """Return the folder of a data set, or the file of a text, where the experiments look for it."""
    return root / TEXTS / f"{name}.txt.xz" if SOURCES[name].text else root / name


def _make(name: str, source: Source, root: Path, timeout: float, progress: bool) -> None:
    """Download and convert; the data set gets its place when it is complete."""
    raw = root / "downloads" / name
    for file in source.files:
        bring(file, raw, timeout=timeout, progress=progress)
    place = _place(root, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}.") as temporary_path, ExitStack() as stack:
        folder = Path(temporary_path) / name
        folder.mkdir()
        stack.callback(socket.setdefaulttimeout, before := socket.getdefaulttimeout())
        socket.setdefaulttimeout(before or timeout)  # without one a server that stalls would hold it
        digest = source.make(raw, folder, root.parent)
        if source.digest is not None and digest != source.digest:
            warnings.warn(
                f"{name}, as it was downloaded, differs from the data of the published figures "
                f"(digest {digest[:12]}, there {source.digest[:12]}); results are not comparable with them",
                UserWarning,
                stacklevel=3,
            )
        made_of = folder / place.name if source.text else folder
        if place.exists():
            return  # another process was faster
        os.replace(made_of, place)


def _read(name: str, source: Source, root: Path) -> Fetched:
    place = _place(root, name)
    if source.text:
        return Fetched(None, None, None, None, place, source.about)
    for images in place.glob("*.npz"):
        with np.load(images) as arrays:
            x_train, y_train, x_test, y_test = (arrays[key] for key in PARTS)
        return Fetched(x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64), images, source.about)
    train, test = (load_xmc(place / f"{part}.txt") for part in ("train", "test"))
    return Fetched(*train, *test, place, source.about)
