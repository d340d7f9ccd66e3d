"""Data sets for a machine that has none: downloaded once, made into the files that the package reads, and kept."""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manyclass.checks import check_choice, check_flag
from manyclass.datasets.download import Patience
from manyclass.datasets.download import download as bring
from manyclass.datasets.sources import SOURCES, Source
from manyclass.datasets.xmc import load_xmc

TEXTS = "text"  # folder of running texts, a file for each


@dataclass(frozen=True)
class Fetched:
    """A data set in two parts.

    Attributes
    ----------
    X_train, X_test : csr_array or ndarray of shape (n_samples, n_features), float32 or uint8; None for running text
        Features; of images the dots, 0 to 255.
    Y_train, Y_test : csr_array of shape (n_samples, n_labels), float32, or ndarray of shape (n_samples,), int64; None
        Ones at the labels of each row; of images the class.
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
    patience: Patience | None = None,
) -> Fetched:
    """Download a data set of the experiments, unless it is there, and read it.

    What is downloaded is verified, by a published digest where there is one; of a file without one, the digest of the
    first download is kept beside it, and a later download must have the same. It is then made into files that
    `load_xmc` and the experiments read, and kept with them. A download that breaks off is resumed, if need be by a
    later call.

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
    patience : Patience, optional
        Time-outs and attempts, `manyclass.datasets.download.Patience`.

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
        Without Pillow, for "omniglot".

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
        _make(name, source, root, patience or Patience(), progress)
    return _read(name, source, root)


def _place(root: Path, name: str) -> Path:
    """Return the folder of a data set, or the file of a text, where the experiments look for it."""
    return root / TEXTS / f"{name}.txt.xz" if SOURCES[name].text else root / name


def _make(name: str, source: Source, root: Path, patience: Patience, progress: bool) -> None:
    """Download and convert; the data set gets its place when it is complete."""
    raw = root / "downloads" / name
    for file in source.files:
        bring(file, raw, patience=patience, progress=progress)
    place = _place(root, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}.") as made:
        folder = Path(made) / name
        folder.mkdir()
        digest = source.make(raw, folder, root.parent, patience)
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
            x_train, x_test = arrays["x_train"], arrays["x_test"]
            y_train, y_test = (arrays[key].astype(np.int64) for key in ("y_train", "y_test"))
        return Fetched(x_train, y_train, x_test, y_test, images[0], source.about)
    train, test = (load_xmc(place / f"{part}.txt") for part in ("train", "test"))
    return Fetched(*train, *test, place, source.about)
