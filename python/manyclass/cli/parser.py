"""The entry point: commands and their help, errors as one line, interrupts and closed pipes as exit codes.

Completion in the shell is by scripts that shtab writes.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import os
import re
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from manyclass.cli.messages import CLOSED_PIPE, EXIT_CODES, INTERRUPTED, USER_ERROR, note, open_standard_streams
from manyclass.compressed import STDIN
from manyclass.version import __version__

DESCRIPTION = "Categorical models with very many classes, trained on the true normalised likelihood."
SHELLS = ("bash", "zsh", "tcsh", "fish")
OPTION = "--print-completion"
FILES = ("DATA", "FILE", "MODEL", "PATH", "CORPUS")  # how the arguments that are files are written
# What errors say of parameters of Python, and what that is on the command line.
AS_OPTIONS = {
    "is not a finite number": "is not a finite number (name columns of text by --text-column)",
    "name it by format": "name it by --format",
    "name it by y": "name it by --label-column",
    "features are needed": "features or a --text-column are needed",
}
# Each is a function of this name in a module of this folder, whose name is another one for these; only the module of
# the one that is asked for is loaded.
MODULES = dict.fromkeys(("compress", "info", "neighbours", "embed", "serve"), "saved") | {"learn": "fit"}
MODULES |= dict.fromkeys(("evaluate", "explain", "predict"), "models")
COMMANDS = (
    *("demo", "fit", "learn", "compress", "evaluate", "predict", "explain", "serve"),
    *("info", "neighbours", "embed", "skipgram", "plan", "experiment"),
)


def first_line(module: str, command: str) -> str:
    """Return the first line of a function's docstring from its source, because to load a command takes a second.

    Parameters
    ----------
    module : str
        Its name in this folder.
    command : str
        The function's.

    Returns
    -------
    str
        Empty where there is no source.
    """
    source = Path(__file__).with_name(f"{module}.py")
    text = source.read_text("utf-8") if source.exists() else ""
    docstring = re.search(rf'^def {command}\(.*?"""(.*?)(?:"""|\n)', text, re.DOTALL | re.MULTILINE)
    return docstring[1] if docstring else ""


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown options, naming the one of this command that is most like them."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_like(option, [*self._option_string_actions])}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        hint = _like(wrong[1], wrong[2].replace("'", "").split(", ")) if wrong else ""
        note(f"error: {message}{hint} (see {self.prog} --help)")
        raise SystemExit(USER_ERROR)


def _like(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def build_parser(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command that `argv` names, with a line of help of the others; of all without `argv`.

    That of `fit` has the parameters of the estimator that `argv` names.
    """
    how: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(prog="manyclass", description=DESCRIPTION, epilog=EXIT_CODES, **how)
    parser.add_argument("--version", action="version", version=f"manyclass {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    text = "print a script that completes commands and options in this shell; the documentation tells how to load it"
    parser.add_argument(OPTION, action=PrintCompletion, choices=SHELLS, help=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    # The script that completes commands has all of them.
    wants_all = argv is None or any(word.startswith(OPTION) for word in argv)
    loaded = COMMANDS if wants_all else [word for word in argv or () if word in COMMANDS][:1]
    for name in COMMANDS:
        module = MODULES.get(name, name)
        sub = commands.add_parser(name, help=first_line(module, name), **how)
        if name in loaded:
            _add_command(sub, importlib.import_module(f"{__package__}.{module}"), name, argv or ())
    return parser


def _add_command(parser: argparse.ArgumentParser, module: Any, name: str, argv: Sequence[str]) -> None:
    """Add the arguments of a command; `add_to_NAME` of its module adds those that its dataclass has not."""
    options, command = importlib.import_module(f"{__package__}.options"), getattr(module, name)
    parser.description = inspect.getdoc(command) or ""  # python -OO has no docstrings
    kind = get_type_hints(command)["args"]  # its dataclass of arguments
    options.add_arguments(parser, kind)
    if add_more := getattr(module, f"add_to_{name}", None):
        add_more(parser, argv)
    parser.set_defaults(run=lambda args: command(options.arguments_from(args, kind)))


class PrintCompletion(argparse.Action):
    """Print the script for a shell, and end."""

    def __call__(self, parser: argparse.ArgumentParser, _namespace: Any, shell: Any, _option: Any = None) -> None:
        """See `argparse.Action`."""
        try:
            import shtab
        except ImportError:
            parser.error(f"{OPTION} needs shtab: pip install 'manyclass[completion]'")
        commands = next(action.choices for action in parser._actions if isinstance(action.choices, dict))
        for action in itertools.chain.from_iterable(command._actions for command in commands.values()):
            if action.metavar in FILES:
                action.complete = shtab.FILE
        print(shtab.complete(parser, shell=shell))
        parser.exit()


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
    open_standard_streams()
    shows_traceback = False
    try:
        args = build_parser(words).parse_args(words)
        shows_traceback = args.traceback
        from_stdin = [name.replace("_", "-") for name, value in vars(args).items() if value == STDIN]
        if len(from_stdin) > 1:
            raise ValueError(f"- is stdin, which can be read once; {' and '.join(from_stdin)} are both -")
        with warnings.catch_warnings():
            warnings.simplefilter("always", importlib.import_module("sklearn.exceptions").ConvergenceWarning)
            warnings.showwarning = lambda message, *_args, **_kwargs: note(f"warning: {message}")
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except SystemExit as end:  # argparse ends the process after --help, --version and errors
        return end.code if isinstance(end.code, int) else USER_ERROR
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer would fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        if shows_traceback:
            raise
        note(f"error: {_one_line(error)}")
        return USER_ERROR


def _one_line(error: BaseException) -> str:
    """Return what an error says, in the words of the command line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split()) or type(error).__name__
    for words, options in AS_OPTIONS.items():
        text = text.replace(words, options)
    return text
