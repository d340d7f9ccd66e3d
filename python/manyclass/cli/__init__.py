"""The command `manyclass`: fit, evaluate and use models of data in files."""

import sys

try:
    from manyclass.cli.parser import main
except KeyboardInterrupt:  # Ctrl-C while modules are still being read
    print("manyclass: interrupted", file=sys.stderr)
    sys.exit(130)

__all__ = ["main"]
