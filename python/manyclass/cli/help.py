"""What `--help` shows: the first line of each command, which is read without loading it, and defaults of options."""

from __future__ import annotations

import argparse
import ast
import importlib.util


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and descriptions as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # A default that is None says less than the text does, and a flag's says nothing.
        if action.default is None or (action.default is False and action.nargs == 0):
            return action.help
        return super()._get_help_string(action)


def first_line(module: str) -> str:
    """The first line of a module's docstring, from its source: loading a command takes a second.

    Parameters
    ----------
    module : str
        Its full name.

    Returns
    -------
    str
        Empty where there is no source.
    """
    spec = importlib.util.find_spec(module)
    # Not by the loader's type: that of an editable installation may be another one's wrapper.
    source = None if spec is None else getattr(spec.loader, "get_source", None)
    if source is None:
        return ""
    text = ast.get_docstring(ast.parse(source(module) or "")) or ""
    return text.partition("\n")[0]
