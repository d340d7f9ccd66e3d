"""The entry point: commands, errors as one line, interrupts and closed pipes as exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from sklearn.exceptions import ConvergenceWarning

from manyclass.cli import demo, embed, evaluate, experiment, fit, info, neighbours, predict, skipgram
from manyclass.cli.arguments import HelpFormatter
from manyclass.cli.completion import add_completion
from manyclass.cli.sources import STDIN
from manyclass.training.interrupts import INTERRUPTED
from manyclass.version import __version__

DESCRIPTION = "Categorical models with very many classes, trained on the true normalised likelihood."
COMMANDS = (demo, fit, evaluate, predict, info, neighbours, embed, skipgram, experiment)
EXIT_CODES = """exit codes:
  0    all went well
  1    a run of an experiment failed
  2    a user's error, told in one line on stderr; nothing was overwritten
  130  interrupted by Ctrl-C; fit and skipgram save what was reached, if there was a whole model, and say so
  141  the reader of the output has gone"""
USER_ERROR, CLOSED_PIPE = 2, 141  # the shell's number: 128 + SIGPIPE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"manyclass: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(USER_ERROR)


def build_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of all commands; that of `fit` has the parameters of the estimator that `argv` names."""
    parser = _Parser(prog="manyclass", description=DESCRIPTION, epilog=EXIT_CODES, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="version", version=f"manyclass {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    add_completion(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        text = command.__doc__ or ""  # python -OO has no docstrings
        sub = commands.add_parser(
            name, help=text.partition("\n")[0], description=text, formatter_class=HelpFormatter, allow_abbrev=False
        )
        command.add_arguments(sub)
        if command is fit:
            fit.add_estimator(sub, argv)
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
        Ctrl-C; 141 if the reader of the output has gone.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        args = build_parser(words).parse_args(words)
    except SystemExit as end:  # argparse ends the process after --help, --version and errors
        return end.code if isinstance(end.code, int) else USER_ERROR
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ConvergenceWarning)
            warnings.showwarning = _show_warning
            _check_stdin(args)
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


def _check_stdin(args: argparse.Namespace) -> None:
    """Raise where two arguments want stdin, which can be read once."""
    asking = [name.replace("_", "-") for name, value in vars(args).items() if value == STDIN]
    if len(asking) > 1:
        raise ValueError(f"- is stdin, which can be read once; {' and '.join(asking)} are both -")


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"manyclass: warning: {message}", file=sys.stderr)
