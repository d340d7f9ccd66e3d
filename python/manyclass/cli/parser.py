"""The entry point: commands and their help, errors as one line, interrupts and closed pipes as exit codes.

Completion in the shell is by scripts that shtab writes.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, get_type_hints

from manyclass.cli.messages import CLOSED_PIPE, EXIT_CODES, INTERRUPTED, USER_ERROR, note, open_standard_streams
from manyclass.compressed import STDIN
from manyclass.version import __version__

DESCRIPTION = "Categorical models with very many classes, trained on the true normalised likelihood."
SHELLS = ("bash", "zsh", "tcsh", "fish")
OPTION = "--print-completion"
FILES = ("DATA", "FILE", "MODEL", "PATH", "CORPUS", "COLUMN|FILE")  # how the arguments that are files are written
# Each is a function of this name in a module of this folder, whose name is another one for these; only the module of
# the one that is asked for is loaded.
MODULES = dict.fromkeys(("compress", "evaluate", "explain", "info", "neighbours", "embed"), "saved") | {"learn": "fit"}
COMMANDS = (
    *("demo", "fit", "learn", "compress", "evaluate", "predict", "explain", "serve"),
    *("info", "neighbours", "embed", "skipgram", "plan", "experiment"),
)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and descriptions as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # A default that is None or () says less than the text does, and a flag's says nothing.
        if action.default in (None, ()) or (action.default is False and action.nargs == 0):
            return action.help
        return super()._get_help_string(action)


def first_line(module: str, command: str) -> str:
    """Return the first line of a function's docstring from its source, because to load a command takes a second.

    Parameters
    ----------
    module : str
        Its full name.
    command : str
        The function's.

    Returns
    -------
    str
        Empty where there is no source.
    """
    spec = importlib.util.find_spec(module)
    # The loader's type tells nothing: that of an editable installation may wrap another.
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(module)
    functions = (node for node in ast.parse(source or "").body if isinstance(node, ast.FunctionDef))
    docstring = next((ast.get_docstring(node) for node in functions if node.name == command), None)
    return (docstring or "").partition("\n")[0]


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
        hint = _like(wrong[1], re.split(", ", wrong[2].replace("'", ""))) if wrong else ""
        note(f"error: {message}{hint} (see {self.prog} --help)")
        raise SystemExit(USER_ERROR)


def _like(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def build_parser(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command that `argv` names, with a line of help of the others; of all without `argv`.

    That of `fit` has the parameters of the estimator that `argv` names.
    """
    parser = _Parser(prog="manyclass", description=DESCRIPTION, epilog=EXIT_CODES, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="version", version=f"manyclass {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    text = "print a script that completes commands and options in this shell; the documentation tells how to load it"
    parser.add_argument(OPTION, action=PrintCompletion, choices=SHELLS, help=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    loaded = COMMANDS if argv is None else _asked_for(argv)
    for name in COMMANDS:
        module = f"{__package__}.{MODULES.get(name, name)}"
        about = first_line(module, name)
        sub = commands.add_parser(name, help=about, formatter_class=HelpFormatter, allow_abbrev=False)
        if name in loaded:
            _add_command(sub, importlib.import_module(module), name, argv or ())
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
        complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, shell=shell))
        parser.exit()


def complete_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Say which arguments are files, in the parser and those of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                complete_files(command, files)
        elif action.metavar in FILES:
            action.complete = files  # type: ignore[attr-defined]


def _asked_for(argv: Sequence[str]) -> Sequence[str]:
    """Return the command among the arguments, or all where a script that completes them is asked for."""
    place = next((i for i, word in enumerate(argv) if word in COMMANDS), len(argv))
    # argparse accepts the first letters of an option in place of the option.
    wanted = any(len(word) > len("--") and OPTION.startswith(word.partition("=")[0]) for word in argv[:place])
    return COMMANDS if wanted else argv[place : place + 1]


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
    try:
        args = build_parser(words).parse_args(words)
        with warnings.catch_warnings():
            warnings.simplefilter("always", importlib.import_module("sklearn.exceptions").ConvergenceWarning)
            warnings.showwarning = _show_warning
            return _run(args)
    except SystemExit as end:  # argparse ends the process after --help, --version and errors
        return end.code if isinstance(end.code, int) else USER_ERROR
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED


def _run(args: argparse.Namespace) -> int:
    """Run the command that was parsed; a user's error is told in one line."""
    try:
        # Two arguments cannot both be stdin, which can be read once.
        asking = [name.replace("_", "-") for name, value in vars(args).items() if value == STDIN]
        if len(asking) > 1:
            raise ValueError(f"- is stdin, which can be read once; {' and '.join(asking)} are both -")
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is left in the buffer would fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        if args.traceback:
            raise
        note(f"error: {_one_line(error)}")
        return USER_ERROR


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    note(f"warning: {message}")
