"""Completion in the shell, by scripts that shtab writes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh", "tcsh", "fish")
OPTION = "--print-completion"
FILES = ("DATA", "FILE", "MODEL", "PATH", "CORPUS")  # how the arguments that are files are written


class PrintCompletion(argparse.Action):
    """Print the script for a shell, and end."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """See `argparse.Action`."""
        try:
            import shtab
        except ImportError:
            parser.error(f"{OPTION} needs shtab: pip install 'manyclass[completion]'")
        complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, shell=str(values)))
        parser.exit()


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    text = "print a script that completes commands and options in this shell; the documentation tells how to load it"
    parser.add_argument(OPTION, action=PrintCompletion, choices=SHELLS, help=text)


def complete_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Say which arguments are files, in the parser and those of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                complete_files(command, files)
        elif action.metavar in FILES:
            action.complete = files  # type: ignore[attr-defined]
