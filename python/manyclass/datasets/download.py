"""Downloads that end whole or not at all: resumed, bounded in size and time, verified, renamed into place.

The standard library does it. Pooch 1.9, the usual choice for data of scientific packages, does not resume a download,
does not bound its size, and would be one more dependency.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm.auto import tqdm

from manyclass.model.tensor_file import flush_folder

CHUNK = 1 << 16
MOST_BYTES = 1 << 30  # of a file whose size is not known
SLOWEST = 1_000  # bytes a second; a server that sends fewer for as long as the time-out counts as stalled
PROGRESS = CHUNK  # bytes; an attempt that brings as much is no failure in a row
LONGEST_WAIT = 60.0  # seconds between two attempts, whatever the server asks for
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that another attempt may change
PARTIAL, OUT_OF_RANGE = 206, 416
CLOSE_FIRST = os.name == "nt"  # Windows renames no open file; it has no flock either, and digests must do there


class DownloadError(OSError):
    """A file that could not be had; its text says which, from where, and why."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address.

    Attributes
    ----------
    url : str
        Where it is; http or https.
    name : str
        What it is called on disk.
    size : int or None
        Its bytes, if known.
    checksum : str or None
        "sha256:" or "md5:" and its digest. None: nobody has published one, so the digest of the first download is kept
        beside the file, and a later download must have the same.
    """

    url: str
    name: str
    size: int | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class Patience:
    """How long a download may take.

    Attributes
    ----------
    timeout : float
        Seconds without an answer, or at a speed below a thousand bytes a second.
    attempts : int
        In a row that brought next to nothing.
    wait : float
        Seconds after the first failure; twice as many after each further one.
    """

    timeout: float = 30.0
    attempts: int = 5
    wait: float = 1.0


class _PassingError(Exception):
    """A failure that another attempt may not have; `wait` is what the server asks for, in seconds."""

    def __init__(self, text: str, wait: float = 0.0) -> None:
        super().__init__(text)
        self.wait = wait


def download(
    file: RemoteFile, folder: str | os.PathLike[str], *, patience: Patience | None = None, progress: bool = False
) -> Path:
    """Bring a file to a folder, unless it is there.

    What came before a failure is kept in ``NAME.part`` and the download goes on from there, also in another process, if
    the server takes ranges and the file there is still the same. Only a whole and verified file gets its name.

    Parameters
    ----------
    file : RemoteFile
        What to bring.
    folder : path
        Where to; it is made if it does not exist.
    patience : Patience, optional
        Time-outs and attempts.
    progress : bool, default=False
        Whether to show a bar on stderr.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DownloadError
        If the file cannot be had, is not the one that is expected, or another process is downloading it.
    """
    if not file.url.startswith(("http://", "https://")):
        raise DownloadError(f"{file.url} is no address of a file; it must begin with http:// or https://")
    target = Path(folder) / file.name
    expected = file.checksum or _recorded(target)
    if _is_whole(target, expected):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with _locked(part) as out:
        if _is_whole(target, expected):
            return target  # another process has brought it since
        transfer = _Transfer(file, out, part, expected, patience or Patience(), progress)
        found = _verified(transfer, target)
        if file.checksum is None:
            _record_of(target).write_text(f"{found}\n", encoding="utf-8")
        if not CLOSE_FIRST:
            os.replace(part, target)
    if CLOSE_FIRST:
        os.replace(part, target)
    flush_folder(target.parent)
    _validator_of(part).unlink(missing_ok=True)
    return target


def _is_whole(target: Path, expected: str | None) -> bool:
    return target.exists() and (expected is None or _digest_like(target, expected) == expected)


def _verified(transfer: _Transfer, target: Path) -> str:
    """Bring the file and return its digest; a part that did not belong to it is tried once more from the start."""
    resumed = transfer.at() > 0
    while True:
        transfer.run()
        found = _digest_like(transfer.part, transfer.expected or "sha256:")
        if transfer.expected in (None, found):
            return found
        transfer.begin_anew()
        if not resumed:
            raise DownloadError(_wrong(transfer.file, target, found, transfer.expected or ""))
        resumed = False


def _wrong(file: RemoteFile, target: Path, found: str, expected: str) -> str:
    said = f"{file.url}: what came has the digest {found}; it must be {expected}"
    if file.checksum is None:
        return f"{said}, that of the first download. If the file has been renewed, delete {_record_of(target)}"
    return f"{said}. The file there is another one by now, or was changed on the way; it is not kept"


class _Transfer:
    """Attempts at one file, each going on where the last one ended."""

    def __init__(
        self,
        file: RemoteFile,
        out: IO[bytes],
        part: Path,
        expected: str | None,
        patience: Patience,
        progress: bool,
    ) -> None:
        self.file = file
        self.out = out
        self.part = part
        self.expected = expected
        self.patience = patience
        self.most = file.size if file.size is not None else MOST_BYTES
        self.bar = tqdm(total=file.size, disable=not progress, unit="B", unit_scale=True, desc=file.name)

    def run(self) -> None:
        """Attempt until the file is whole; raise DownloadError when patience ends."""
        failed = 0
        with self.bar:
            while True:
                before = self.at()
                try:
                    self._attempt()
                    break
                except _PassingError as error:
                    failed = 1 if self.at() - before >= PROGRESS else failed + 1
                    if failed >= self.patience.attempts:
                        kept = f". The {at} bytes that came are kept, for another call" if (at := self.at()) else ""
                        raise DownloadError(
                            f"{self.file.url}: {error}; given up after {failed} attempts in a row{kept}"
                        ) from error
                    time.sleep(min(max(self.patience.wait * 2 ** (failed - 1), error.wait), LONGEST_WAIT))
            self.out.flush()
            os.fsync(self.out.fileno())

    def at(self) -> int:
        """Bytes that have come."""
        return self.out.seek(0, os.SEEK_END)

    def _attempt(self) -> None:
        at = self.at()
        if self.file.size is not None and at >= self.file.size:
            if at == self.file.size and self.expected is not None:
                return  # whole, and its digest will be looked at
            at = self.begin_anew()
        try:
            with self._opened(at) as response:
                self._take(response, at)
        except urllib.error.HTTPError as error:
            self._refused(error, at)
        except urllib.error.URLError as error:
            raise _PassingError(f"no answer: {error.reason}") from error
        except (TimeoutError, http.client.HTTPException, ConnectionError) as error:
            raise _PassingError(f"broken off: {str(error) or type(error).__name__}") from error

    def _opened(self, at: int) -> Any:
        headers = {"Accept-Encoding": "identity", "User-Agent": "manyclass"}
        validator = _validator_of(self.part)
        if at and validator.exists():
            headers |= {"Range": f"bytes={at}-", "If-Range": validator.read_text(encoding="utf-8")}
        elif at and self.expected is not None:
            headers["Range"] = f"bytes={at}-"  # a mixture of two files would not have the digest
        request = urllib.request.Request(self.file.url, headers=headers)
        response = urllib.request.urlopen(request, timeout=self.patience.timeout)
        if self.file.url.startswith("https:") and not response.url.startswith("https:") and self.file.checksum is None:
            response.close()
            raise DownloadError(f"{self.file.url} leads to {response.url}, which is not encrypted; it has no checksum")
        return response

    def _take(self, response: Any, at: int) -> None:
        """Append what the server sends, or begin anew where it sends the whole file."""
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise DownloadError(f"{self.file.url}: the server sends the file as {encoding}; it must send it as it is")
        if response.status == PARTIAL:
            if not response.headers.get("Content-Range", "").startswith(f"bytes {at}-"):
                self.begin_anew()
                raise _PassingError(f"the server sent another range than the one from {at}")
        elif at:
            at = self.begin_anew()
        length = response.headers.get("Content-Length")
        whole = at + int(length) if length is not None and length.isdigit() else None
        self._check_length(whole, chunked=response.headers.get("Transfer-Encoding") == "chunked")
        self._keep_validator(response)
        self.bar.total = whole
        self.bar.reset(whole)
        self.bar.update(at)
        self._pour(response, at)
        if whole is not None and self.at() < whole:
            raise _PassingError(f"broken off at {self.at()} of {whole} bytes")
        if self.file.size is not None and self.at() < self.file.size:
            raise _PassingError(f"broken off at {self.at()} of {self.file.size} bytes")

    def _check_length(self, whole: int | None, *, chunked: bool) -> None:
        if whole is None:
            if not chunked and self.expected is None and self.file.size is None:
                raise DownloadError(
                    f"{self.file.url}: the server does not say how long the file is, and it has no checksum, so that "
                    "nobody could tell whether it is whole"
                )
            return
        if self.file.size is not None and whole != self.file.size:
            self.begin_anew()
            raise DownloadError(f"{self.file.url} has {whole} bytes; it must have {self.file.size}")
        if whole > self.most:
            raise DownloadError(f"{self.file.url} has {whole} bytes; {self.most} are the most that are taken")

    def _pour(self, response: Any, at: int) -> None:
        begin, since = time.monotonic(), at
        while piece := response.read1(CHUNK):
            at += len(piece)
            if at > self.most:
                self.begin_anew()
                raise DownloadError(f"{self.file.url} sends more than {self.most} bytes; the download is ended")
            self.out.write(piece)
            self.bar.update(len(piece))
            seconds = time.monotonic() - begin
            if seconds > self.patience.timeout:
                if at - since < SLOWEST * seconds:
                    raise _PassingError(f"stalled at {at - since} bytes in {seconds:.0f} s")
                begin, since = time.monotonic(), at

    def _refused(self, error: urllib.error.HTTPError, at: int) -> None:
        with error:
            if error.code == OUT_OF_RANGE and at:
                self.begin_anew()
                raise _PassingError(f"the server has no bytes from {at} on") from error
            said = f"{self.file.url}: the server answers {error.code} {error.reason}"
            if error.code not in PASSING:
                raise DownloadError(said) from error
            asked = error.headers.get("Retry-After", "")
            raise _PassingError(f"{error.code} {error.reason}", float(asked) if asked.isdigit() else 0.0) from error

    def _keep_validator(self, response: Any) -> None:
        """Keep what tells this version of the file from others, for If-Range; a weak tag does not."""
        tag = response.headers.get("ETag", "")
        found = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        path = _validator_of(self.part)
        if found:
            path.write_text(found, encoding="utf-8")
        else:
            path.unlink(missing_ok=True)

    def begin_anew(self) -> int:
        """Throw away what has come."""
        self.out.seek(0)
        self.out.truncate()
        _validator_of(self.part).unlink(missing_ok=True)
        return 0


@contextmanager
def _locked(part: Path) -> Iterator[IO[bytes]]:
    """Open a part for appending, for this process only; the lock ends with the process, however it ends."""
    with open(part, "ab") as out:
        if not CLOSE_FIRST:
            fcntl = importlib.import_module("fcntl")
            try:
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = os.path.samestat(os.fstat(out.fileno()), os.stat(part))
            except (BlockingIOError, FileNotFoundError):
                mine = False  # in use, or given its name between the opening and the lock
            if not mine:
                raise DownloadError(f"another process is downloading {part.with_suffix('')}; call again when it ends")
        yield out


def _digest_like(path: Path, expected: str) -> str:
    """Digest of a file by the algorithm that `expected` begins with."""
    algorithm = expected.partition(":")[0]
    with open(path, "rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _record_of(target: Path) -> Path:
    return target.with_name(target.name + ".digest")


def _recorded(target: Path) -> str | None:
    """Return the digest of the first download of a file without a published one."""
    path = _record_of(target)
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


def _validator_of(part: Path) -> Path:
    return part.with_name(part.name + ".version")
