"""The command `manyclass`: fit, evaluate and use models of data in files."""

from manyclass.cli.parser import main

__all__ = ["main"]
