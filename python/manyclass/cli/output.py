"""Files that commands write."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO

from manyclass.weights.tensor_file import replacing


def written(path: str) -> str:
    """Return the name of a file that was written, with its size."""
    return f"{path} ({os.path.getsize(path)} bytes)"


def check_writable(path: str) -> None:
    """Raise OSError unless a file can be written there, or a device or a pipe of this name written to."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; it must be a file")
    if os.path.exists(path) and not os.path.isfile(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} cannot be written: this user may not write to it")
    elif not os.access(folder, os.W_OK):
        raise FileNotFoundError(f"{path} cannot be written: {folder} is not a folder that this user may write to")


@contextlib.contextmanager
def text_output(path: str | None) -> Iterator[IO[str]]:
    """Give stdout, or a file that appears under its name once it is complete."""
    if path is None:
        yield sys.stdout
        return
    with replacing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()
