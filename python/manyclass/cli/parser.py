"""The entry point: commands, errors as one line, interrupts and closed pipes as exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from sklearn.exceptions import ConvergenceWarning

from manyclass.cli import demo, evaluate, experiment, fit, info, predict, skipgram
from manyclass.cli.arguments import HelpFormatter
from manyclass.version import __version__

DESCRIPTION = "Categorical models with very many classes, trained on the true normalised likelihood."
COMMANDS = (demo, fit, evaluate, predict, info, skipgram, experiment)
USER_ERROR, INTERRUPTED, CLOSED_PIPE = 2, 130, 141  # the shell's numbers: 128 + SIGINT, 128 + SIGPIPE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"manyclass: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USER_ERROR)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="manyclass", description=DESCRIPTION, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="version", version=f"manyclass {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        text = command.__doc__ or ""  # python -OO has no docstrings
        sub = commands.add_parser(
            name, help=text.partition("\n")[0], description=text, formatter_class=HelpFormatter, allow_abbrev=False
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process if None.

    Returns
    -------
    int
        Exit code: 0; 1 if a run of an experiment failed; 2 after a user's error, told in one line on stderr; 130 after
        Ctrl-C (but `fit` saves the model so far and ends with 0); 141 if the reader of the output has gone.
    """
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as end:  # argparse ends the process after --help, --version and errors
        return end.code if isinstance(end.code, int) else USER_ERROR
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ConvergenceWarning)
            warnings.showwarning = _show_warning
            code: int = args.run(args)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        print("manyclass: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer would fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        if args.traceback:
            raise
        print(f"manyclass: error: {_one_line(error)}", file=sys.stderr)
        return USER_ERROR


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"manyclass: warning: {message}", file=sys.stderr)
