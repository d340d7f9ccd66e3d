"""What commands say and how they end: notes on stderr, tables on stdout, files that they write, exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from manyclass.compressed import printable

USER_ERROR = 2
INTERRUPTED = 130  # the shell's number: 128 + SIGINT
CLOSED_PIPE = 141  # 128 + SIGPIPE

EXIT_CODES = """exit codes:
  0    all went well; serve was ended by SIGTERM or Ctrl-C
  1    a run of an experiment failed
  2    a user's error, told in one line on stderr; no file was written but one that stdout names
  130  interrupted by Ctrl-C; fit and skipgram save what was reached, if there was a whole model, and say so
  141  the reader of the output has gone"""

SILENCE = 1.0  # seconds after which a note says what the command is doing


def open_standard_streams() -> None:
    """Make stdout UTF-8, as files of results are, and open both streams where the process was started without."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell's `2>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for as long as the process runs)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # names of files may be any bytes


def note(text: str) -> None:
    """Say something on stderr, where it does not mix with results."""
    print(f"manyclass: {printable(text)}", file=sys.stderr, flush=True)


def interrupted(text: str) -> int:
    """Say after a training that Ctrl-C has ended what is left of it; return the exit code."""
    sys.stdout.flush()
    note(f"interrupted; {text}")
    return INTERRUPTED


@contextlib.contextmanager
def waiting(task: str) -> Iterator[None]:
    """Say on stderr what is being done, such as "reading FILE", once it has taken a second."""
    timer = threading.Timer(SILENCE, note, [f"{task} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_table(rows: Mapping[str, Any]) -> None:
    """Print names and values in two columns; names whose value is None are left out."""
    shown = {name: value for name, value in rows.items() if value is not None}
    width = max(len(name) for name in shown)
    for name, value in shown.items():
        print(f"{name:<{width}}  {printable(str(value))}")


def written(path: str) -> str:
    """Return the name of a file that was written, with its size."""
    return f"{path} ({os.path.getsize(path)} bytes)"


def check_readable(*paths: str | None) -> None:
    """Raise OSError for a file that is not there; None is none, and - is stdin."""
    for path in paths:
        if path not in (None, "-"):
            os.stat(path)


def check_writable(path: str) -> None:
    """Raise OSError unless a file can be written there, or a device or a pipe of this name written to."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; it must be a file")
    target = path if os.path.exists(path) and not os.path.isfile(path) else folder
    if not os.access(target, os.W_OK):
        reason = "is not a folder or a device that this user may write to"
        raise PermissionError(f"{path} cannot be written: {target} {reason}")


# Results

TITLES = {"precision": "P", "recall": "R", "ndcg": "nDCG", "psp": "PSP", "mrr": "MRR"}


def listed(values: Mapping[str, Any]) -> str:
    """Return names and values as code has them."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def print_evaluation(heading: Mapping[str, str], result: Mapping[str, Any]) -> None:
    """Print a blank line, and a table of results that begins with a heading."""
    print()
    print_table({**heading, **as_text(result)})


def as_text(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the results as rows of a table."""
    shown: dict[str, str] = {}
    for name, value in result.items():
        measure, separator, k = name.partition("_at_")
        if name == "n_rows":
            shown["rows"] = str(value)
        elif name == "dropped_rows":
            shown["dropped rows"] = ", ".join(f"{count} {lack.replace('_', ' ')}" for lack, count in value.items())
        else:
            unit = " nats" if name.endswith("log_loss") else ""
            shown[f"{TITLES.get(measure, measure)}@{k}" if separator else name] = f"{value:.6f}{unit}"
    return shown


def as_lines(rows: Iterable[Sequence[Any]], digits: int = 6) -> str:
    """Return rows as lines with tabs."""
    lines = []
    for row in rows:
        cells = (str(cell) if isinstance(cell, str | Integral) else f"{cell:.{digits}g}" for cell in row)
        lines.append("\t".join(cells) + "\n")
    return "".join(lines)


def print_facts(facts: Mapping[str, Any] | None, table: Mapping[str, Any]) -> int:
    """Print facts as one JSON object if there are any, else a table; return the exit code."""
    if facts is None:
        print_table(table)
    else:
        print(json.dumps(facts))
    return 0
