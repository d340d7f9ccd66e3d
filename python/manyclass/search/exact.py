"""How many clusters come near to a search of all, and what normalisers of the classes that it finds are taken from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fewest_probes(curve: NDArray[np.float64], recall: float) -> int:
    """Return the smallest number of clusters with a recall; `curve` has that of 1, 2, ... clusters."""
    # The curve ends at 1; that of a float is not a reason to scan everything.
    return int(np.argmax(curve >= min(recall, curve[-1]) - 1e-12)) + 1


def below_best(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the scores of each row less its first one, the best."""
    exact = scores.astype(np.float64)
    return exact - exact[:, :1]
