"""The command `manyclass`, which is also `python -m manyclass`."""

import sys

from manyclass.cli import main

if __name__ == "__main__":
    sys.exit(main())
