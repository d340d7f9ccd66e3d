"""What several commands share: the options of progress and of checkpoints, and where results are written."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from manyclass.model.tensor_file import replacing
from manyclass.training.checkpoint import EVERY, Checkpoints


@dataclass(kw_only=True)
class WithProgress:
    """Arguments of commands that take long.

    Attributes
    ----------
    progress : bool
        tell on stderr how far it is, from the first second on: a bar on a terminal, else lines
    """

    progress: bool = True


@dataclass(kw_only=True)
class CheckpointOptions:
    """Checkpoints.

    Attributes
    ----------
    checkpoint : DIR
        write there now and then what a training that is stopped can go on from
    every : WHEN
        a time, as 30s, 10min or 2h, or a number of passes
    resume : bool
        go on from the checkpoints in DIR, if there are any
    """

    checkpoint: str | None = None
    every: str = EVERY
    resume: bool = False

    def checked(self) -> dict[str, Any]:
        """Return what `fit` takes of these options; raises ValueError where it would."""
        every = int(self.every) if self.every.isdigit() else self.every
        given: dict[str, Any] = {"checkpoint": self.checkpoint, "every": every, "resume": self.resume}
        Checkpoints.of(**given)
        return given


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
