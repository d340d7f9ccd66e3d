"""The command `manyclass`, which is also `python -m manyclass`."""

import sys

from manyclass.cli import main as command
from manyclass.cli.codes import INTERRUPTED


def main() -> int:
    """Run the command with the arguments of the process.

    Returns
    -------
    int
        Exit code, see :func:`manyclass.cli.main`; 130 too where Ctrl-C comes while the command that is asked for is
        loaded, which takes a second.
    """
    try:
        return command()
    except KeyboardInterrupt:
        print("manyclass: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
