"""Numbers that cells of text hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLANKS = " \t\n\r\v\f"  # ASCII's: a no-break space, say, is a part of a label


def parse_numbers(cells: Sequence[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Return the numbers that cells hold, NaN where one is blank; None where one is another text."""
    if not re.fullmatch(rf"[-+eE0-9\s{re.escape(decimal)}]*", "".join(cells), re.ASCII):
        return None
    try:
        return np.array([float(cell.replace(decimal, ".")) if cell.strip(BLANKS) else np.nan for cell in cells])
    except ValueError:
        return None
