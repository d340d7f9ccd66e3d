"""Data sets for a machine that has none: downloaded once, made into the files that the package reads, and kept."""

from __future__ import annotations

import io
import os
import socket
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_flag
from manyclass.datasets.sources import PARTS, SOURCES, RemoteFile, Source
from manyclass.datasets.xmc import load_xmc

TEXTS = "text"  # folder of running texts, a file for each
CHUNK = 1 << 16  # bytes
MOST_BYTES = 1 << 30  # of a file whose size is not known
RETRIES = 3  # after 1, 2 and 3 seconds


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
        If it cannot be had, has another digest, or is longer than it must be.
    ImportError
        Without pooch.
    """
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'manyclass[fetch]'") from error
    record, most = folder / f"{file.name}.digest", file.size or MOST_BYTES
    recorded = record.read_text(encoding="utf-8").strip() if record.exists() else None
    headers = {"Accept-Encoding": "identity", "User-Agent": "manyclass"}  # what is packed on the way has no bounds
    get = pooch.HTTPDownloader(progressbar=progress, chunk_size=CHUNK, timeout=timeout, headers=headers)

    def bounded(url: str, path: str, pup: object) -> None:
        with _Bounded(path, most) as out:
            get(url, out, pup)

    one = pooch.create(
        folder, "", registry={file.name: file.checksum or recorded}, urls={file.name: file.url}, retry_if_failed=RETRIES
    )
    try:
        path = Path(one.fetch(file.name, downloader=bounded))
    except (ValueError, OSError) as error:  # another digest, or one of requests' errors
        hint = f"; if the file has been renewed, delete {record}" if recorded and not file.checksum else ""
        raise OSError(f"{file.url}: {error}{hint}") from error
    if file.checksum is None and recorded is None:
        record.write_text(f"sha256:{pooch.file_hash(str(path))}\n", encoding="utf-8")
    return path


class _Bounded(io.FileIO):
    """A new file that takes a bounded number of bytes, however many a server sends."""

    def __init__(self, path: str, most: int) -> None:
        super().__init__(path, "wb")
        self._most = most

    def write(self, piece: Any) -> int:
        """Write, or raise OSError for what is too much."""
        if self.tell() + len(piece) > self._most:
            raise OSError(f"the server sends more than {self._most} bytes; the download is ended")
        return super().write(piece)


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
    images = sorted(place.glob("*.npz"))
    if images:
        with np.load(images[0]) as arrays:
            x_train, y_train, x_test, y_test = (arrays[key] for key in PARTS)
        return Fetched(x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64), images[0], source.about)
    train, test = (load_xmc(place / f"{part}.txt") for part in ("train", "test"))
    return Fetched(*train, *test, place, source.about)
