"""How far a training is, and what it shows of that: a bar on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from tqdm.auto import tqdm
from tqdm.std import tqdm as terminal_bar

DELAY = 1.0  # seconds of silence; what is done by then needs no progress
LONGEST = 30.0  # seconds between lines; they start a second apart and double


@dataclass
class Position:
    """Where a training is: the losses of whole passes, the first visit to make, and whether it has come to its end."""

    curve: list[float] = field(default_factory=list)
    first: int = 0
    ended: bool = False


class Progress(Protocol):
    """The part of tqdm that is used.

    Attributes
    ----------
    total : int
        How many there are to do.
    """

    total: Any

    def update(self, n: int = 1) -> object:
        """Tell that n more are done."""
        ...

    def set_postfix_str(self, s: str, refresh: bool = False) -> None:
        """Say something behind the numbers, from the next update on."""
        ...

    def close(self) -> None:
        """Tell the end."""
        ...


class Lines:
    """Progress as lines of a log, without carriage returns."""

    def __init__(self, total: int, unit: str, heading: str, done: int) -> None:
        self.total, self._unit, self._heading = total, unit, heading
        self._done, self._told, self._words = done, -1, ""
        self._first = done
        self._begin = time.monotonic()
        self._wait, self._next = DELAY, self._begin + DELAY

    def update(self, n: int = 1) -> None:
        """Tell that n more are done; print a line where the time for one has come."""
        self._done += n
        if time.monotonic() >= self._next:
            self._print()
            self._wait = min(2 * self._wait, LONGEST)
            self._next = time.monotonic() + self._wait

    def set_postfix_str(self, s: str, refresh: bool = False) -> None:
        """Say something behind the numbers, from the next line on."""
        self._words = s

    def close(self) -> None:
        """Print the last line, if there was time for any."""
        if time.monotonic() - self._begin >= DELAY and self._told != self._done:
            self._print()

    def _print(self) -> None:
        self._told = self._done
        share = f"{100 * self._done / self.total:.0f} %" if self.total else ""
        seconds = time.monotonic() - self._begin
        speed = f"{(self._done - self._first) / seconds:.3g} {self._unit}/s" if seconds > 0 else ""
        done = f"{self._done} of {self.total} {self._unit}" if self.total else f"{self._done} {self._unit}"
        told = ", ".join(filter(None, (done, share, f"{seconds:.0f} s", speed, self._words)))
        print(f"{self._heading}{': ' if self._heading else ''}{told}", file=sys.stderr, flush=True)


class _Silence:
    total = 0

    def update(self, n: int = 1) -> None: ...

    def set_postfix_str(self, s: str, refresh: bool = False) -> None: ...

    def close(self) -> None: ...


def progress_bar(total: int, *, unit: str, shown: bool = True, heading: str = "", done: int = 0) -> Progress:
    """Return a bar on stderr that appears after a second.

    Parameters
    ----------
    total : int
        How many there are to do.
    unit : str
        What they are.
    shown : bool, default=True
        False: nothing at all. True: tqdm's bar on a terminal or in a notebook, else lines.
    heading : str
        What stands before.
    done : int
        How many are done already.

    Returns
    -------
    Progress
    """
    if not shown or sys.stderr is None:  # a process without a terminal may have none
        return _Silence()
    options: dict[str, Any] = {
        "total": total,
        "initial": done,
        "delay": DELAY,
        "unit": unit,
        "unit_scale": True,
        "smoothing": 0.05,
    }
    options["desc"] = heading or None
    if getattr(sys.stderr, "isatty", bool)():  # whatever a program has put in its place
        bar: Progress = terminal_bar(**options)
        return bar
    if "ipykernel" in sys.modules:
        notebook_bar: Progress = tqdm(**options)
        return notebook_bar
    return Lines(total, unit, heading, done)
