"""Options that several commands have: those of progress and of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyclass.training.checkpoint import EVERY, Checkpoints


@dataclass(kw_only=True)
class WithProgress:
    """Arguments of commands that take long.

    Attributes
    ----------
    progress : bool
        show progress on stderr after the first second: a bar on a terminal, else lines of text
    """

    progress: bool = True


@dataclass(kw_only=True)
class CheckpointOptions:
    """Checkpoints.

    Attributes
    ----------
    checkpoint : DIR
        folder for checkpoints, from which a training that was stopped goes on
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
