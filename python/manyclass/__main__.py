"""The command `manyclass`, which is also `python -m manyclass`."""

import importlib
import sys

from manyclass.version import __version__

INTERRUPTED = 130  # the shell's number: 128 + SIGINT


def main() -> int:
    """Run the command with the arguments of the process.

    Returns
    -------
    int
        Exit code, see :func:`manyclass.cli.main`; 130 too where Ctrl-C comes while the command itself is loaded.
    """
    if sys.argv[1:] == ["--version"]:
        print(f"manyclass {__version__}")
        return 0
    try:
        # Here and not above, because loading takes a second, in which a user may well press Ctrl-C.
        code: int = importlib.import_module("manyclass.cli").main()
    except KeyboardInterrupt:
        print("manyclass: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
