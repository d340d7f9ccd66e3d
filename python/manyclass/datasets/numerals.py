"""Numbers that cells of text hold."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLANKS = " \t\n\r\v\f"  # ASCII's: a no-break space, say, is a part of a label


def parse_numbers(cells: Sequence[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Return the numbers that cells hold, NaN where one is blank; None where one is another text."""
    if "".join(cells).strip(f"+-0123456789eE{decimal}{BLANKS}"):  # such as "1_0", "nan" and digits of other scripts
        return None
    if decimal != ".":
        cells = [cell.replace(decimal, ".") for cell in cells]
    with contextlib.suppress(ValueError):
        return np.array([*map(float, cells)])
    with contextlib.suppress(ValueError):
        return np.array([float(cell) if cell.strip(BLANKS) else np.nan for cell in cells])
    return None
