"""The command `manyclass`: fit, evaluate and use models of data in files."""

import importlib
import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """See `manyclass.cli.parser.main`, which takes a second to load: SIGTERM ends a server well before it, too."""
    if argv is None and sys.argv[1:2] == ["serve"]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return int(importlib.import_module("manyclass.cli.parser").main(argv))
