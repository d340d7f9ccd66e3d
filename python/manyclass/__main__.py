"""`python -m manyclass` is the command `manyclass`."""

import sys

from manyclass.cli import main

sys.exit(main())
